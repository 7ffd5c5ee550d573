//! Unwanted clients: requests that lie about their length, connections that send nothing or drip,
//! more connections than descriptors.
//!
//! Attacks a watcher or a witness that listens on loopback; checks that it still works and obeys a
//! signal. durio's tests check its answers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::arena::{Arena, AttackCase};
use super::launch::Running;
use super::random::Random;
use super::rows::{AttackRow, nothing};
use super::witness::faults;

const LIMIT: Duration = Duration::from_secs(60);
const WATCH: &str = "watch data --every 1h --listen 127.0.0.1:0";
const WITNESS: &str = "prove witness --ledger ledger --token secret --listen 127.0.0.1:0";

pub(super) fn rows() -> Vec<AttackRow> {
    let row = |name, small, missing, attack| AttackRow { name, small, full: 100, missing, attack };
    vec![
        row("network:http-bodies", 4, nothing, http_bodies),
        row("network:http-slow", 3, nothing, http_slow),
        row("network:http-descriptors", 1, nothing, http_descriptors),
        row("network:http-noise", 6, nothing, http_noise),
        row("network:witness-silent", 2, nothing, witness_silent),
        row("network:witness-dripping", 2, nothing, witness_dripping),
    ]
}

/// Starts a command that listens, and waits until it says where: behind `mark`.
fn listening(case: &AttackCase, line: &str, mark: &str) -> Result<(Running, String)> {
    let mut running = case.durio(line).start()?;
    let begin = Instant::now();
    loop {
        let said = running.said()?;
        if let Some((_, rest)) = said.split_once(mark) {
            let address = rest.split(['/', '\n']).next().unwrap_or_default();
            return Ok((running, address.to_owned()));
        }
        ensure!(begin.elapsed() < LIMIT && running.is_alive(), "it does not listen: {said}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn connect(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).context("cannot connect")?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// The fault of the answer to an honest request, if any.
fn unanswered(address: &str) -> Result<Option<String>> {
    let begin = Instant::now();
    let mut stream = connect(address)?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    let is_good =
        read.is_ok() && answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("# EOF\n");
    let seconds = begin.elapsed().as_secs();
    Ok((!is_good).then(|| format!("an honest request was not answered in {seconds} s: {answer}")))
}

/// Ends it by a signal, which it obeys.
fn end(running: Running, signal: Signal) -> Result<Vec<String>> {
    running.signal(signal);
    Ok(faults(&running.wait(LIMIT)?))
}

fn http_bodies(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let (running, address) = listening(&case, WATCH, "http://")?;
    let method = ["GET", "POST", "HEAD", "PUT"][number % 4];
    let mut wrong = Vec::new();
    for length in ["99999999999999", "18446744073709551615", "5000", "-1"] {
        let mut stream = connect(&address)?;
        let expects = ["", "Expect: 100-continue\r\n"][random.below(2)];
        let head = format!(
            "{method} / HTTP/1.1\r\nHost: {address}\r\n{expects}Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut answer = String::new();
        if stream.read_to_string(&mut answer).is_err() || !answer.starts_with("HTTP/1.1 ") {
            wrong.push(format!("{method} with a body of {length} bytes has no answer: {answer}"));
        }
        wrong.extend(unanswered(&address)?);
    }
    wrong.extend(end(running, Signal::TERM)?);
    Ok(wrong)
}

fn http_slow(arena: &Arena, number: usize, _: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let (running, address) = listening(&case, WATCH, "http://")?;
    let requests = format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let sent = match number % 3 {
        0 => String::new(),
        1 => "GET / HT".to_owned(),
        _ => requests.repeat(2000),
    };
    let mut open = Vec::new();
    for _ in 0..100 {
        let mut stream = connect(&address)?;
        // The watcher may have closed it, which is fine.
        let _ = stream.write_all(sent.as_bytes());
        open.push(stream);
    }
    let mut wrong: Vec<String> = unanswered(&address)?.into_iter().collect();
    wrong.extend(end(running, Signal::INT)?);
    Ok(wrong)
}

fn http_descriptors(arena: &Arena, _: usize, _: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let (running, address) = listening(&case, WATCH, "http://")?;
    let id = running.pid().context("no process")?.as_raw_nonzero().to_string();
    let limit = |count: &str| -> Result<()> {
        let set =
            Command::new("prlimit").args(["--pid", &id, &format!("--nofile={count}:")]).status();
        ensure!(set.context("cannot run prlimit")?.success(), "no limit of descriptors");
        Ok(())
    };
    // The first probe needs descriptors, too.
    let begin = Instant::now();
    while !running.said()?.contains("p50") {
        ensure!(begin.elapsed() < LIMIT, "no probe ends");
        thread::sleep(Duration::from_millis(10));
    }
    limit("4")?;
    let open = (0..40).map(|_| connect(&address)).collect::<Result<Vec<_>>>()?;
    thread::sleep(Duration::from_millis(300));
    limit("1024")?;
    let mut wrong: Vec<String> = unanswered(&address)?.into_iter().collect();
    drop(open);
    wrong.extend(end(running, Signal::TERM)?);
    Ok(wrong)
}

/// Bytes, some of which look like a request.
fn http_noise(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    const PIECES: [&str; 12] = [
        "GET ",
        "/ ",
        "HTTP/1.1",
        "\r\n",
        "\n",
        "Host: localhost",
        ":",
        "\0",
        "\u{fffd}",
        " ",
        "Content-Length: 9",
        "PRI * HTTP/2.0",
    ];
    let case = arena.clean_case()?;
    let (running, address) = listening(&case, WATCH, "http://")?;
    for _ in 0..50 {
        let count = random.below(40);
        let text: String = (0..count).map(|_| PIECES[random.below(PIECES.len())]).collect();
        let mut stream = connect(&address)?;
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    let mut wrong: Vec<String> = unanswered(&address)?.into_iter().collect();
    wrong.extend(end(running, Signal::TERM)?);
    Ok(wrong)
}

/// A fault if an agent that knows the token is not asked for its target's stamps.
fn unheard(address: &str) -> Result<Option<String>> {
    let mut stream = connect(address)?;
    stream.write_all(b"{\"say\":\"hello\",\"protocol\":2,\"token\":\"secret\"}\n")?;
    stream.write_all(b"{\"say\":\"has\",\"size\":1048576,\"label\":null}\n")?;
    let mut answer = [0; 13];
    let is_heard = stream.read_exact(&mut answer).is_ok() && &answer == b"{\"say\":\"prepa";
    Ok((!is_heard).then(|| format!("an honest agent hears {}", answer.escape_ascii())))
}

/// Despite these clients, a signal is obeyed and an agent is heard.
fn attacked_witness(
    case: &AttackCase,
    attack: impl Fn(&str) -> Result<()> + Sync,
) -> Result<Vec<String>> {
    let (running, address) = listening(case, WITNESS, "waits at ")?;
    attack(&address)?;
    let mut wrong = end(running, Signal::INT)?;
    std::fs::remove_file(case.path("ledger")).context("the witness has made no ledger")?;
    let (running, address) = listening(case, WITNESS, "waits at ")?;
    attack(&address)?;
    wrong.extend(unheard(&address)?);
    wrong.extend(end(running, Signal::TERM)?);
    Ok(wrong)
}

fn witness_silent(arena: &Arena, _: usize, _: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    attacked_witness(&case, |address| {
        let open = (0..100).map(|_| connect(address)).collect::<Result<Vec<_>>>()?;
        // They outlive this call.
        thread::spawn(move || {
            thread::sleep(LIMIT);
            drop(open);
        });
        Ok(())
    })
}

fn witness_dripping(arena: &Arena, number: usize, _: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let pause = [Duration::from_millis(5), Duration::from_secs(1)][number % 2];
    attacked_witness(&case, |address| {
        for _ in 0..10 {
            let mut stream = connect(address)?;
            thread::spawn(move || {
                while stream.write_all(b"{").is_ok() {
                    thread::sleep(pause);
                }
            });
        }
        Ok(())
    })
}
