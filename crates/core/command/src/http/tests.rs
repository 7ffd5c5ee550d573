//! Requests as clients and attackers send them, and what comes back.

use super::*;

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const ANYWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

/// A page of so many bytes at `/`, and a small one at `/metrics`.
fn served(bytes: usize) -> SocketAddr {
    let page = move |path: &str| {
        let body = match path {
            "/" => vec![b'x'; bytes],
            "/metrics" => b"durio 1\n".to_vec(),
            _ => return None,
        };
        Some(HttpPage { kind: "text/html", body, refresh: (path == "/").then_some(60) })
    };
    serve("127.0.0.1:0".parse().unwrap(), |_| {}, page).unwrap()
}

fn sent(address: SocketAddr, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    stream
}

/// All that comes back.
fn asked(address: SocketAddr, request: &str) -> String {
    let mut answer = String::new();
    sent(address, request.as_bytes()).read_to_string(&mut answer).unwrap();
    answer
}

#[track_caller]
fn expect_metrics(address: SocketAddr) {
    let answer = asked(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(
        answer,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: 8\r\n\r\n\
         durio 1\n"
    );
}

#[test]
fn a_body_is_not_waited_for_however_long_it_says_it_is() {
    let address = served(10);
    for length in ["5000", "99999999999999", "18446744073709551615", "-1", "x"] {
        for (method, status) in [("GET", "200 OK"), ("POST", "405 Method Not Allowed")] {
            let request = format!(
                "{method} / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\
                 Expect: 100-continue\r\n\r\n"
            );
            let answer = asked(address, &request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{length}: {answer}");
        }
        expect_metrics(address);
    }
    let chunked = "PUT / HTTP/1.1\r\nHost: [::1]:80\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
    let answer = asked(address, chunked);
    assert!(answer.contains("405 ") && answer.contains("Allow: GET, HEAD\r\n"), "{answer}");
}

#[test]
fn a_client_that_sends_its_body_gets_its_answer() {
    // Closed with bytes that nobody read, the kernel resets the connection and the answer is lost.
    let address = served(100_000);
    let mut request =
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000\r\n\r\n".to_vec();
    request.resize(request.len() + 30_000, b'b');
    let mut answer = Vec::new();
    sent(address, &request).read_to_end(&mut answer).unwrap();
    let body = position(&answer, b"\r\n\r\n").unwrap() + 4;
    assert_eq!(answer.len() - body, 100_000);
    assert!(answer[body..].iter().all(|&byte| byte == b'x'));
}

#[test]
fn others_are_answered_beside_any_number_that_say_nothing() {
    let address = served(10);
    let silent: Vec<TcpStream> = (0..100).map(|_| sent(address, b"GET / HT")).collect();
    expect_metrics(address);
    // The oldest have been closed, the latest not.
    let mut first = &silent[0];
    assert_eq!(first.read(&mut [0; 1]).unwrap(), 0);
    let mut last = &silent[99];
    last.write_all(b"TP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\nxxxxxxxxxx"), "{answer}");
}

#[test]
fn who_does_not_read_the_answer_stops_nobody_and_is_closed_in_the_end() {
    let address = served(64 << 20);
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let unread: Vec<TcpStream> = (0..3).map(|_| sent(address, &request)).collect();
    expect_metrics(address);
    thread::sleep(REQUEST_TIME + LINGER_TIME);
    for mut stream in unread {
        // What the kernel had taken, and then no more: an end or a reset.
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 64 << 20, "{} bytes", answer.len());
    }
}

#[test]
fn a_head_that_comes_too_slowly_or_is_too_long_is_refused() {
    let address = served(10);
    let mut slow = sent(address, b"GET / HTTP/1.1\r\n");
    let mut dripping = slow.try_clone().unwrap();
    let drips = thread::spawn(move || {
        // Longer than the time for all of it, and each byte soon after the one before.
        for _ in 0..200 {
            if dripping.write_all(b"x").is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    });
    let mut answer = String::new();
    let _ = slow.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    drips.join().unwrap();
    let header = |bytes: usize| format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "y".repeat(bytes));
    assert!(asked(address, &header(8000)).starts_with("HTTP/1.1 200 "));
    assert!(asked(address, &header(8192)).starts_with("HTTP/1.1 431 "));
}

#[test]
fn head_pages_that_are_not_there_and_the_icon_of_a_browser() {
    let address = served(10);
    let head = asked(address, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(
        head,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nRefresh: 60\r\nContent-Type: text/html\r\n\
         Content-Length: 10\r\n\r\n"
    );
    let icon = asked(address, "GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(icon, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    let missing = asked(address, "GET /passwd HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(missing.starts_with("HTTP/1.1 404 Not Found\r\n"), "{missing}");
    assert!(missing.ends_with("\r\nContent-Length: 10\r\n\r\nNot Found\n"), "{missing}");
}

#[test]
fn a_listener_that_ends_is_opened_again_at_the_same_port() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let page = |_: &str| Some(HttpPage { kind: "text/plain", body: b"1".to_vec(), refresh: None });
    let site = Arc::new(Site { address, page: Box::new(page), remark: |_| {} });
    // As `ss --kill` does it, or a namespace that goes.
    let handle = TcpStream::from(std::os::fd::OwnedFd::from(listener.try_clone().unwrap()));
    thread::spawn(move || accept_connections(&site, listener));
    handle.shutdown(Shutdown::Both).unwrap();
    let begin = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(_) if begin.elapsed() < Duration::from_secs(60) => thread::sleep(RETRY),
            Err(error) => panic!("{error}"),
        }
    };
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\n1"), "{answer}");
}

fn status(head: &str, listening: IpAddr) -> u16 {
    parse(head, listening).map_or_else(|HttpStatus(code, _)| code, |_| 200)
}

#[test]
fn a_foreign_host_is_refused_where_only_this_machine_can_come() {
    for (host, code) in [
        ("127.0.0.1", 200),
        ("127.0.0.1:9119", 200),
        ("127.3.2.1:1", 200),
        ("localhost", 200),
        ("LocalHost:8080", 200),
        ("durio.localhost", 200),
        ("[::1]:9119", 200),
        ("[::ffff:127.0.0.1]", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:9119", 421),
        ("notlocalhost", 421),
        ("192.168.1.5", 421),
        ("[2001:db8::1]:80", 421),
        ("", 421),
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}");
        assert_eq!(status(&head, LOOPBACK), code, "{host}");
        assert_eq!(status(&head, "::1".parse().unwrap()), code, "{host}");
        assert_eq!(status(&head, ANYWHERE), 200, "{host}");
    }
    let whole = "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost";
    assert_eq!(status(whole, LOOPBACK), 421);
}

#[test]
fn a_request_is_read_as_the_standard_has_it() {
    let parsed = |head: &str| parse(head, LOOPBACK).map_err(|HttpStatus(code, _)| code);
    let request = |is_head, path: &str| Ok(HttpRequest { is_head, path: path.to_owned() });
    for (head, expected) in [
        (
            "GET /metrics?name=x HTTP/1.1\r\nhOST:\tlocalhost \r\nAccept: a, b",
            request(false, "/metrics"),
        ),
        ("HEAD / HTTP/1.0", request(true, "/")),
        ("GET / HTTP/1.1\nHost: localhost", request(false, "/")),
        ("GET http://localhost:9119 HTTP/1.1\r\nHost: localhost", request(false, "/")),
        ("GET http://[::1]/metrics HTTP/1.0", request(false, "/metrics")),
        ("GET / HTTP/1.1", Err(400)),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost", Err(400)),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: localhost", Err(400)),
        ("GET / HTTP/1.0\r\nno colon", Err(400)),
        ("GET / HTTP/1.0\r\nHost : localhost", Err(400)),
        ("GET / HTTP/1.0\r\nA: 1\r\n folded: 2", Err(400)),
        ("GET /", Err(400)),
        ("GET  / HTTP/1.0", Err(400)),
        ("", Err(400)),
        ("\u{16}\u{3}\u{1}", Err(400)),
        ("PRI * HTTP/2.0", Err(505)),
        ("DELETE / HTTP/1.0", Err(405)),
        ("get / HTTP/1.0", Err(405)),
    ] {
        assert_eq!(parsed(head), expected, "{head}");
    }
}

#[test]
fn addresses_are_numbers_and_a_port_that_was_given_stays_in_the_hint() {
    let address = listen_address("127.0.0.1:9119").unwrap();
    assert_eq!((address.is_ipv4(), address.port()), (true, 9119));
    assert_eq!(listen_address("[::1]:80").unwrap().port(), 80);
    for (wrong, hint) in [
        ("localhost:80", "127.0.0.1:80,"),
        ("8080", "127.0.0.1:8080,"),
        ("127.0.0.1", "127.0.0.1:9119,"),
        ("0.0.0.0:99999", "127.0.0.1:9119,"),
    ] {
        assert!(listen_address(wrong).unwrap_err().contains(hint), "{wrong}");
    }
}
