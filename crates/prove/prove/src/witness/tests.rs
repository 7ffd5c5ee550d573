//! A witness and those who come to it: agents, and clients that are none.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

const PATIENCE: Duration = Duration::from_secs(120);

fn witness() -> (WitnessServer, SocketAddr) {
    let anywhere = Address::Tcp("127.0.0.1:0".parse().unwrap());
    let server = WitnessServer::bind(&anywhere, "secret", Nanos::ZERO).unwrap();
    let Address::Tcp(address) = server.address() else { panic!("an address of TCP") };
    (server, address)
}

fn come(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn hello(protocol: u32, token: &str) -> AgentSays {
    AgentSays::Hello(Hello { protocol, token: token.to_owned() })
}

fn has(size: u64) -> AgentSays {
    AgentSays::Has(Introduction { size, ..Introduction::default() })
}

/// All that a client hears until it is sent away.
fn heard(mut stream: &TcpStream) -> String {
    let mut text = String::new();
    // A connection with bytes that nobody read ends by a reset.
    let _ = stream.read_to_string(&mut text);
    text
}

/// What an honest agent of this size is known by.
fn accepted(server: &WitnessServer) -> u64 {
    server.accept(PATIENCE, &|| false).unwrap().1.size
}

#[test]
fn an_agent_is_heard_beside_any_number_that_say_nothing_or_drip() {
    let (server, address) = witness();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let drip = || {
            let mut stream = come(address);
            while !is_over.load(Ordering::Relaxed) && stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        };
        scope.spawn(drip);
        let size = scope.spawn(|| accepted(&server));
        // Of all these the latest are heard.
        let _silent: Vec<TcpStream> = (0..2 * CLIENTS_MAX).map(|_| come(address)).collect();
        let agent = come(address);
        // Its first line comes in two pieces.
        let mut line = serde_json::to_vec(&hello(PROTOCOL, "secret")).unwrap();
        line.push(b'\n');
        (&agent).write_all(&line[..7]).unwrap();
        thread::sleep(Duration::from_millis(50));
        (&agent).write_all(&line[7..]).unwrap();
        send(&agent, &has(77 << 20)).unwrap();
        assert_eq!(size.join().unwrap(), 77 << 20);
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn who_says_too_much_or_too_slowly_or_something_else_is_sent_away() {
    let (server, address) = witness();
    let lines: [&[AgentSays]; 5] = [
        &[has(1)],
        &[AgentSays::Prepared],
        &[hello(PROTOCOL, "secret"), hello(PROTOCOL, "secret"), has(1)],
        &[hello(PROTOCOL, "secret"), AgentSays::ReadingDone],
        &[hello(PROTOCOL, "secre")],
    ];
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ended = scope.spawn(|| server.accept(PATIENCE, &|| over.load(Ordering::Relaxed)).err());
        for said in lines {
            let client = come(address);
            said.iter().for_each(|message| send(&client, message).unwrap());
            let is_refused = heard(&client).contains("the token is wrong");
            assert_eq!(is_refused, said == [hello(PROTOCOL, "secre")], "{said:?}");
        }
        let old = come(address);
        send(&old, &hello(1, "secret")).unwrap();
        assert!(heard(&old).contains("its protocol is 2, the agent's is 1"));
        for token in ["secret1", "Secret", ""] {
            let client = come(address);
            send(&client, &hello(PROTOCOL, token)).unwrap();
            assert!(heard(&client).contains("the token is wrong"), "{token}");
        }
        // Whoever drips, each byte soon after the one before: it never comes to 4 KiB.
        let mut dripping = come(address);
        let begin = Instant::now();
        while dripping.write_all(b" ").is_ok() {
            assert!(begin.elapsed() < PATIENCE, "nobody sends it away");
            thread::sleep(Duration::from_millis(50));
        }
        // Without an end of the line.
        let long = come(address);
        let _ = (&long).write_all(&[b' '; 2 * HELLO_MAX]);
        assert_eq!(heard(&long), "");
        over.store(true, Ordering::Relaxed);
        assert!(matches!(ended.join().unwrap(), Some(ProveError::Stopped)), "nobody is let in");
    });
}

#[test]
fn the_first_line_has_4096_bytes_at_most_and_later_ones_more() {
    for (bytes, is_known) in [(4096, true), (4097, false)] {
        let (server, address) = witness();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let known =
                scope.spawn(|| server.accept(PATIENCE, &|| over.load(Ordering::Relaxed)).is_ok());
            let mut line = serde_json::to_vec(&hello(PROTOCOL, "secret")).unwrap();
            line.resize(bytes - 1, b' ');
            line.push(b'\n');
            let mut introduction = serde_json::to_vec(&has(1)).unwrap();
            introduction.resize(100_000, b' ');
            introduction.push(b'\n');
            let client = come(address);
            let _ = (&client).write_all(&[line, introduction].concat());
            if !is_known {
                assert_eq!(heard(&client), "");
            }
            over.store(!is_known, Ordering::Relaxed);
            assert_eq!(known.join().unwrap(), is_known, "{bytes}");
        });
    }
    assert_eq!((HELLO_MAX, HELLO_TIME), (4096, Duration::from_secs(2)));
}

#[test]
fn a_line_of_a_known_agent_has_a_mebibyte_at_most() {
    for (bytes, is_heard) in [(1_048_576, true), (1_048_577, false)] {
        let (mut link, mut agent) = linked();
        let mut line = serde_json::to_vec(&AgentSays::Prepared).unwrap();
        line.resize(bytes - 1, b' ');
        line.push(b'\n');
        thread::scope(|scope| {
            // One that is not heard to its end finds its witness gone.
            scope.spawn(move || agent.write_all(&line));
            let heard = link.answer(Patience { time: PATIENCE, stop: &|| false });
            assert_eq!(heard.is_ok(), is_heard, "{bytes}");
            drop(link);
        });
    }
}

#[test]
fn a_wish_to_stop_and_the_end_of_patience_are_seen_beside_clients() {
    let (server, address) = witness();
    let _silent: Vec<TcpStream> = (0..3).map(|_| come(address)).collect();
    let known = come(address);
    send(&known, &hello(PROTOCOL, "secret")).unwrap();
    let looks = std::cell::Cell::new(0);
    let stop = || {
        looks.set(looks.get() + 1);
        looks.get() > 10
    };
    assert!(matches!(server.accept(PATIENCE, &stop), Err(ProveError::Stopped)));
    let _silent = come(address);
    let late = server.accept(Duration::from_secs(1), &|| false).map(drop).unwrap_err();
    assert_eq!(late.to_string(), "no agent came within 1 s");
}

/// An agent that is known, and its link.
fn linked() -> (AgentLink, TcpStream) {
    let (server, address) = witness();
    let agent = come(address);
    send(&agent, &hello(PROTOCOL, "secret")).unwrap();
    send(&agent, &has(1)).unwrap();
    let (link, _) = server.accept(PATIENCE, &|| false).unwrap();
    (link, agent)
}

#[test]
fn an_answer_is_waited_for_until_it_comes_is_late_or_is_not_wanted() {
    let (mut link, mut agent) = linked();
    let never = Patience { time: PATIENCE, stop: &|| false };
    let stopped = Patience { time: PATIENCE, stop: &|| true };
    assert!(matches!(link.answer(stopped), Err(ProveError::Stopped)));
    // A part of a line is no answer, and none of it is lost.
    let mut line = serde_json::to_vec(&AgentSays::Prepared).unwrap();
    line.push(b'\n');
    agent.write_all(&line[..5]).unwrap();
    let short = Patience { time: Duration::from_millis(50), stop: &|| false };
    let late = link.answer(short).unwrap_err();
    assert!(
        matches!(late, ProveError::Gone { source, .. } if source.kind() == io::ErrorKind::TimedOut)
    );
    agent.write_all(&line[5..]).unwrap();
    send(&agent, &AgentSays::ReadingDone).unwrap();
    assert_eq!(link.answer(never).unwrap(), AgentSays::Prepared);
    assert_eq!(link.answer(stopped).unwrap(), AgentSays::ReadingDone);
    send(&agent, &AgentSays::Failed { reason: "no room".to_owned() }).unwrap();
    let failed = link.answer(never).unwrap_err();
    assert_eq!(failed.to_string(), "the agent: no room");
    drop(agent);
    assert!(matches!(link.answer(never), Err(ProveError::Gone { .. })));
}

#[test]
fn silence_counts_from_what_was_asked_and_then_from_what_was_heard() {
    let second = 1_000_000_000;
    let mut heard = LoadHeard::nothing_since(Nanos::new(3600 * second));
    let silence = Nanos::from_secs(10);
    assert!(!heard.is_silent(Nanos::new(3600 * second), silence));
    assert!(!heard.is_silent(Nanos::new(3610 * second), silence));
    assert!(heard.is_silent(Nanos::new(3610 * second + 1), silence));
    heard.last_at = Nanos::new(3605 * second);
    assert!(!heard.is_silent(Nanos::new(3615 * second), silence));
    assert!(heard.is_silent(Nanos::new(3615 * second + 1), silence));
    assert_eq!(heard.acknowledged, 0);
}

const OWNER: StampOwner = StampOwner { run: [7; 16], target: 1 };

fn observed(first: u64, seqs: &[u64]) -> AgentSays {
    let cells = seqs.iter().map(|&seq| ObservedCell::Whole(seq)).collect();
    AgentSays::Observed { first, cells }
}

#[test]
fn a_reading_is_all_cells_in_their_order_and_anything_else_ends_it() {
    let patience = Patience { time: PATIENCE, stop: &|| false };
    // Cells 1 to 4 of a target of five.
    let heard = |said: &[AgentSays]| {
        let (mut link, agent) = linked();
        said.iter().for_each(|message| send(&agent, message).unwrap());
        link.reading(OWNER, 5, 1, patience)
    };
    let all = heard(&[observed(1, &[9, 8]), observed(3, &[7, 0]), AgentSays::ReadingDone]);
    assert_eq!(all.unwrap(), [9, 8, 7, 0].map(ObservedCell::Whole));
    for said in [
        &[AgentSays::ReadingDone][..],
        &[observed(0, &[1])],
        &[observed(2, &[1])],
        &[observed(1, &[1, 1]), observed(2, &[1, 1])],
        &[observed(1, &[1, 1]), observed(4, &[1])],
        &[observed(1, &[1; 5])],
        &[observed(1, &[1; 4]), observed(5, &[1])],
        &[observed(1, &[1; 3]), AgentSays::ReadingDone],
        &[observed(1, &[1; 4]), AgentSays::Prepared],
    ] {
        let ended = heard(said);
        assert!(matches!(ended, Err(ProveError::Unexpected)), "{said:?}: {ended:?}");
    }
    let failed = AgentSays::Failed { reason: "no disk".to_owned() };
    let ended = heard(&[observed(1, &[1, 1]), failed]).unwrap_err();
    assert_eq!(ended.to_string(), "the agent: no disk");
}

#[test]
fn a_cell_that_is_read_again_is_the_one_that_was_asked_for() {
    let patience = Patience { time: PATIENCE, stop: &|| false };
    let heard = |said: AgentSays| {
        let (mut link, agent) = linked();
        send(&agent, &said).unwrap();
        link.again(OWNER, 3, patience)
    };
    assert_eq!(heard(observed(3, &[5])).unwrap(), ObservedCell::Whole(5));
    for said in [observed(2, &[5]), observed(4, &[5]), observed(3, &[]), AgentSays::ReadingDone] {
        let ended = heard(said);
        assert!(matches!(ended, Err(ProveError::Unexpected)), "{ended:?}");
    }
}
