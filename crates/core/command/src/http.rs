//! A server of a few pages: one request a connection, no bodies, and limits for everything.
//!
//! Takes an address and a page for each path, and answers requests.
//!
//! A request's body is neither read nor allocated, and pipelined requests are not answered. A
//! client gets five seconds in all, and cannot delay the answers to others.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// From the first byte of a request to the last of its answer.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// Time to read a client's remaining input after the answer: an earlier close would make the kernel
/// reset the connection, and the client would lose the answer.
const LINGER_TIME: Duration = Duration::from_secs(1);
/// Request line and headers.
const HEAD_BYTES: usize = 8 << 10;
/// Beyond this, the oldest is closed: an honest client is done within milliseconds.
const CONNECTIONS: usize = 32;
/// Between attempts where the system refuses.
const RETRY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct HttpPage {
    pub kind: &'static str,
    pub body: Vec<u8>,
    /// Seconds after which a browser asks again.
    pub refresh: Option<u32>,
}

/// Where to listen: `127.0.0.1:9119`.
///
/// # Errors
/// The reason, if it is not a numeric address with a port.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        // A port alone, or behind a name that would have to be looked up.
        let port = text.rsplit_once(':').map_or(text, |(_, port)| port);
        let port = port.parse::<u16>().unwrap_or(9119);
        format!(
            "'{text}' is not a numeric address with a port; expected such as 127.0.0.1:{port}, or \
             0.0.0.0:{port} for all interfaces"
        )
    })
}

/// Which machines can reach an address where durio listens, unless only this machine can.
pub fn reach_warning(address: SocketAddr, can: &str) -> Option<String> {
    (!address.ip().to_canonical().is_loopback())
        .then(|| format!("durio: {address} is not loopback: every machine that reaches it {can}"))
}

/// Answers requests until the process ends, in separate threads; `remark` tells the user when it
/// cannot.
///
/// Returns the address, with the port that the system chose if 0 was requested.
///
/// # Errors
/// If the address cannot be had.
pub fn serve<F>(address: SocketAddr, remark: fn(&str), page: F) -> io::Result<SocketAddr>
where
    F: Fn(&str) -> Option<HttpPage> + Send + Sync + 'static,
{
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let site = Arc::new(Site { address, remark, page: Box::new(page) });
    let named = thread::Builder::new().name("durio-http".to_owned());
    named.spawn(move || accept_connections(&site, listener))?;
    Ok(address)
}

type PageOf = dyn Fn(&str) -> Option<HttpPage> + Send + Sync;

struct Site {
    address: SocketAddr,
    remark: fn(&str),
    page: Box<PageOf>,
}

/// A client and the thread that answers it.
struct HttpConnection {
    stream: Arc<TcpStream>,
    thread: JoinHandle<()>,
}

fn accept_connections(site: &Arc<Site>, listener: TcpListener) {
    let (mut listener, mut connections) = (Some(listener), VecDeque::new());
    let mut is_failing = false;
    loop {
        let Some(open) = &listener else {
            thread::sleep(RETRY);
            listener = TcpListener::bind(site.address).ok();
            if listener.is_some() {
                (site.remark)(&format!("durio: http://{} is open again", site.address));
            }
            continue;
        };
        match open.accept() {
            Ok((stream, _)) => {
                is_failing = false;
                open_connection(site, stream, &mut connections);
            }
            Err(error) if is_end(&error) => {
                (site.remark)(&format!("durio: http://{} was closed: {error}", site.address));
                listener = None;
            }
            // The client is already gone, or descriptors are short: others wait until there are
            // some.
            Err(error) => {
                if !is_failing {
                    let text = format!(
                        "durio: http://{} cannot be answered for now: {error}",
                        site.address
                    );
                    (site.remark)(&text);
                }
                is_failing = true;
                thread::sleep(RETRY);
            }
        }
    }
}

/// True for the errors of accept(2) on a socket that no longer listens.
fn is_end(error: &io::Error) -> bool {
    let ends = [Errno::INVAL, Errno::BADF, Errno::NOTSOCK];
    ends.iter().any(|end| error.raw_os_error() == Some(end.raw_os_error()))
}

fn open_connection(
    site: &Arc<Site>,
    stream: TcpStream,
    connections: &mut VecDeque<HttpConnection>,
) {
    connections.retain(|connection| !connection.thread.is_finished());
    while connections.len() >= CONNECTIONS {
        let Some(oldest) = connections.pop_front() else { break };
        // It may have ended by itself just now; its thread may have panicked, which it has said.
        let _ = oldest.stream.shutdown(Shutdown::Both);
        let _ = oldest.thread.join();
    }
    let stream = Arc::new(stream);
    let (site, client) = (Arc::clone(site), Arc::clone(&stream));
    let named = thread::Builder::new().name("durio-http".to_owned());
    // A client that is gone, or too slow, gets no error. One without a thread is closed.
    let answered = named.spawn(move || {
        let _ = answer(&site, &client);
        // The descriptor is closed at the next connection.
        let _ = client.shutdown(Shutdown::Both);
    });
    if let Ok(thread) = answered {
        connections.push_back(HttpConnection { stream, thread });
    }
}

fn answer(site: &Site, stream: &TcpStream) -> io::Result<()> {
    let deadline = Instant::now() + REQUEST_TIME;
    let asked = match read_head(stream, deadline) {
        Ok(head) => parse(&head, site.address.ip()),
        Err(error) if error.kind() == ErrorKind::TimedOut => Err(HttpStatus::TIMEOUT),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(HttpStatus::TOO_LARGE),
        Err(error) => return Err(error),
    };
    let (status, is_head, page) = match asked {
        Err(status) => (status, false, None),
        Ok(HttpRequest { is_head, path }) if path == "/favicon.ico" => {
            (HttpStatus::NO_CONTENT, is_head, None)
        }
        Ok(HttpRequest { is_head, path }) => match (site.page)(&path) {
            Some(page) => (HttpStatus::OK, is_head, Some(page)),
            None => (HttpStatus::NOT_FOUND, is_head, None),
        },
    };
    // A client that gets the error about its slowness has used up its time: allow for those few
    // bytes.
    let deadline = deadline.max(Instant::now() + RETRY);
    write_before(stream, &written(status, is_head, page), deadline)?;
    stream.shutdown(Shutdown::Write)?;
    let until = Instant::now() + LINGER_TIME;
    while read_before(stream, &mut [0; 4096], until.min(deadline))? > 0 {}
    Ok(())
}

/// The bytes of an answer.
fn written(status: HttpStatus, is_head: bool, page: Option<HttpPage>) -> Vec<u8> {
    let HttpStatus(code, reason) = status;
    let page = page.unwrap_or_else(|| {
        let says_nothing = status == HttpStatus::NO_CONTENT;
        let body = if says_nothing { String::new() } else { format!("{reason}\n") };
        HttpPage { kind: "text/plain", body: body.into_bytes(), refresh: None }
    });
    let mut head = format!("HTTP/1.1 {code} {reason}\r\nConnection: close\r\n");
    if status == HttpStatus::NOT_ALLOWED {
        head += "Allow: GET, HEAD\r\n";
    }
    if let Some(seconds) = page.refresh {
        head += &format!("Refresh: {seconds}\r\n");
    }
    if status != HttpStatus::NO_CONTENT {
        let length = page.body.len();
        head += &format!("Content-Type: {}\r\nContent-Length: {length}\r\n", page.kind);
    }
    head += "\r\n";
    let mut bytes = head.into_bytes();
    if !is_head {
        bytes.extend(page.body);
    }
    bytes
}

/// The request line and the headers, to the empty line behind them.
fn read_head(stream: &TcpStream, deadline: Instant) -> io::Result<String> {
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    loop {
        let ends = [&b"\r\n\r\n"[..], b"\n\n"].map(|end| position(&head, end));
        if let Some(end) = ends.into_iter().flatten().min() {
            head.truncate(end);
            // Invalid UTF-8 is in an unused value, or in a path that does not exist.
            return Ok(String::from_utf8_lossy(&head).into_owned());
        }
        if head.len() >= HEAD_BYTES {
            return Err(ErrorKind::InvalidData.into());
        }
        match read_before(stream, &mut buffer, deadline)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&buffer[..count]),
        }
    }
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn read_before(mut stream: &TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
    before(deadline, |left| {
        stream.set_read_timeout(Some(left))?;
        stream.read(buffer)
    })
}

fn write_before(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = before(deadline, |left| {
            stream.set_write_timeout(Some(left))?;
            stream.write(bytes)
        })?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Calls with the time that is left, and again after a signal.
fn before(
    deadline: Instant,
    mut call: impl FnMut(Duration) -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        match call(left) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Its time is over: the next turn says so.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            ended => return ended,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct HttpRequest {
    is_head: bool,
    path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HttpStatus(u16, &'static str);

impl HttpStatus {
    const OK: Self = Self(200, "OK");
    const NO_CONTENT: Self = Self(204, "No Content");
    const MALFORMED: Self = Self(400, "Bad Request");
    const NOT_FOUND: Self = Self(404, "Not Found");
    const NOT_ALLOWED: Self = Self(405, "Method Not Allowed");
    const TIMEOUT: Self = Self(408, "Request Timeout");
    /// A page of another site whose name was made to mean this machine (DNS rebinding).
    const FOREIGN_HOST: Self = Self(421, "Misdirected Request");
    const TOO_LARGE: Self = Self(431, "Request Header Fields Too Large");
    const VERSION: Self = Self(505, "HTTP Version Not Supported");
}

/// Parses a head (RFC 9112), as far as needed here.
fn parse(head: &str, listening: IpAddr) -> Result<HttpRequest, HttpStatus> {
    let mut lines = head.lines();
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words[..] else { return Err(HttpStatus::MALFORMED) };
    if !version.starts_with("HTTP/1.") {
        let is_http = version.starts_with("HTTP/");
        return Err(if is_http { HttpStatus::VERSION } else { HttpStatus::MALFORMED });
    }
    let mut hosts = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(HttpStatus::MALFORMED)?;
        // Requests are smuggled by a blank before the colon, or at the start of the line.
        if name.is_empty() || name.contains([' ', '\t']) {
            return Err(HttpStatus::MALFORMED);
        }
        if name.eq_ignore_ascii_case("host") {
            hosts.push(value.trim());
        }
    }
    let is_old = version == "HTTP/1.0";
    let host = match hosts[..] {
        [host] => Some(host),
        // HTTP/1.0 did not require the header, and browsers of that age run no scripts.
        [] if is_old => None,
        _ => return Err(HttpStatus::MALFORMED),
    };
    // The form for proxies has the host in it.
    let whole = target
        .strip_prefix("http://")
        .map(|rest| rest.split_at(rest.find('/').unwrap_or(rest.len())));
    let (host, target) = match whole {
        Some((host, "")) => (Some(host), "/"),
        Some((host, path)) => (Some(host), path),
        None => (host, target),
    };
    if listening.to_canonical().is_loopback() && !host.is_none_or(names_this_machine) {
        return Err(HttpStatus::FOREIGN_HOST);
    }
    if !matches!(method, "GET" | "HEAD") {
        return Err(HttpStatus::NOT_ALLOWED);
    }
    let path = target.split('?').next().unwrap_or_default().to_owned();
    Ok(HttpRequest { is_head: method == "HEAD", path })
}

/// True for names that no other site can have: an address of loopback, and `localhost` (RFC 6761).
/// The port is ignored, because it may be that of a tunnel.
fn names_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.to_ascii_lowercase();
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    name == "localhost" || name.ends_with(".localhost") || name.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests;
