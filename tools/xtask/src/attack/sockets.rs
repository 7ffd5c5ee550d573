//! Sockets and their neighbours: who may use them, silent callers, names that hang.
//!
//! Attacks the names of a served disk or array; reports sockets open to others, commands that hang,
//! and changed files. Contents of the disk are not checked.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::Signal;

use super::arena::{Arena, AttackCase, READING_LIMIT};
use super::launch::{Launch, Running};
use super::random::Random;
use super::rows::{AttackRow, nothing};
use super::witness::{FolderTree, faults};

const LIMIT: Duration = Duration::from_secs(30);
/// More than a server has at a time.
const SILENT: usize = 150;

pub(super) fn rows() -> Vec<AttackRow> {
    let row = |name, small, attack| AttackRow { name, small, full: 20, missing: nothing, attack };
    vec![
        row("sockets:open-umask", 2, open_umask),
        row("sockets:dripping-order", 1, dripping_order),
        row("sockets:full-backlog", 2, full_backlog),
        row("sockets:silent-clients", 2, silent_clients),
        row("sockets:log-in-the-way", 3, log_in_the_way),
    ]
}

/// Starts it without a umask, as some containers and services do.
fn without_umask(mut launch: Launch) -> Launch {
    let shell = ["sh", "-c", "umask 000; exec \"$@\"", "sh"].map(OsString::from);
    launch.words.splice(0..0, shell);
    launch
}

fn serve(case: &AttackCase) -> Launch {
    without_umask(case.durio("simdisk serve --size 64MiB --socket data/s"))
}

/// Starts it, and waits until it has both sockets.
fn served(case: &AttackCase) -> Result<Running> {
    let mut running = serve(case).start()?;
    let begin = Instant::now();
    while !case.path("data/s.control").exists() || UnixStream::connect(case.path("data/s")).is_err()
    {
        ensure!(running.is_alive() && begin.elapsed() < LIMIT, "the disk is not served");
        thread::sleep(Duration::from_millis(2));
    }
    Ok(running)
}

/// Ends it by a signal, which it must obey.
fn ended(running: Running, signal: Signal) -> Result<Vec<String>> {
    running.signal(signal);
    Ok(faults(&running.wait(READING_LIMIT)?))
}

/// `None` if only its owner has access.
fn open_to_others(path: &Path) -> Option<String> {
    let Ok(metadata) = path.symlink_metadata() else {
        return Some(format!("no {}", path.display()));
    };
    let mode = metadata.permissions().mode() & 0o777;
    let name = path.file_name().unwrap_or_default().display();
    (mode != 0o600).then(|| format!("{name} has {mode:03o}"))
}

fn open_umask(arena: &Arena, number: usize, _: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let running = served(&case)?;
    let mut names = vec!["data/s", "data/s.control"];
    let mut wrong = Vec::new();
    if number % 2 == 1 {
        wrong.extend(faults(&case.durio("simdisk fork --to data/fork --socket data/s").run()?));
        names.extend(["data/fork", "data/fork.control"]);
    }
    wrong.extend(names.iter().filter_map(|name| open_to_others(&case.path(name))));
    wrong.extend(ended(running, Signal::TERM)?);
    Ok(wrong)
}

/// Callers that send an order byte by byte or not at all, while another sends one and the server is
/// stopped.
fn dripping_order(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let running = served(&case)?;
    let control = case.path("data/s.control");
    let mut callers =
        (0..10).map(|_| UnixStream::connect(&control)).collect::<Result<Vec<_>, _>>()?;
    let asked = case.durio("simdisk stats --socket data/s").start()?;
    let drips = 5 + random.below(5);
    for _ in 0..drips {
        for caller in callers.iter_mut().skip(5) {
            // A dropped client is fine too.
            let _ = caller.write_all(b"{");
        }
        thread::sleep(Duration::from_millis(20));
    }
    let mut wrong = faults(&asked.wait(READING_LIMIT)?);
    wrong.extend(ended(running, Signal::INT)?);
    Ok(wrong)
}

/// A stopped server with a full queue of waiting clients.
fn full_backlog(arena: &Arena, number: usize, _: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let socket =
        || socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None);
    // Clients with orders connect to the second.
    let name = if number.is_multiple_of(2) { "data/s" } else { "data/s.control" };
    let address = SocketAddrUnix::new(case.path(name))?;
    let server = socket()?;
    bind(&server, &address)?;
    listen(&server, 1)?;
    let mut waiting = Vec::new();
    loop {
        let client = socket()?;
        if connect(&client, &address).is_err() {
            break;
        }
        waiting.push(client);
    }
    let launch = if number.is_multiple_of(2) {
        serve(&case)
    } else {
        case.durio("raid status --socket data/s").limit(LIMIT)
    };
    let end = launch.run()?;
    let mut wrong = faults(&end);
    if end.code() != 3 && !end.is_late {
        wrong.push(format!("exit code {} at a name that is taken", end.code()));
    }
    if !case.path(name).exists() {
        wrong.push("the socket of another server is gone".to_owned());
    }
    Ok(wrong)
}

/// More silent clients than places, or clients that choose an export and then send nothing.
fn silent_clients(arena: &Arena, number: usize, _: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let running = served(&case)?;
    let path = case.path("data/s");
    let mut wrong = Vec::new();
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        let mut client = UnixStream::connect(&path).context("no connection")?;
        if number % 2 == 1 && !is_served(&mut client) {
            wrong.push("a client is turned away".to_owned());
            break;
        }
        silent.push(client);
    }
    let mut last = UnixStream::connect(&path).context("no connection")?;
    if !is_served(&mut last) {
        wrong.push("one client more is turned away".to_owned());
    }
    wrong.extend(ended(running, Signal::TERM)?);
    Ok(wrong)
}

/// Chooses the export with the empty name (fixed newstyle; NBD_OPT_EXPORT_NAME), and reads its
/// size.
fn is_served(client: &mut UnixStream) -> bool {
    let words = [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &1_u32.to_be_bytes(), &[0; 4]].concat();
    let mut answer = [0; 18 + 10];
    client.set_read_timeout(Some(READING_LIMIT)).is_ok()
        && client.write_all(&words).is_ok()
        && client.read_exact(&mut answer).is_ok()
        && answer[18..26] == (64_u64 << 20).to_be_bytes()
}

/// The name of a server's log is a link to a user's file, a dangling link, or a pipe.
fn log_in_the_way(arena: &Arena, number: usize, _: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    fs::create_dir(case.path("victims"))?;
    fs::write(case.path("victims/keep"), "the user's\n")?;
    for member in ["a", "b"] {
        fs::File::create_new(case.path("data").join(member))?.set_len(8 << 20)?;
    }
    let make = "raid create x --level 1 --destroy data/a --destroy data/b data/a data/b";
    let mut wrong = faults(&case.durio(make).run()?);
    let log = case.path("data/s.log");
    match number % 3 {
        0 => symlink(case.path("victims/keep"), &log)?,
        1 => symlink(case.path("victims/new"), &log)?,
        _ => mkfifoat(CWD, &log, Mode::from_raw_mode(0o600))?,
    }
    let before = FolderTree::of(&case.path("victims"));
    let start = case.durio("raid start --detach --socket data/s data/a data/b");
    let end = without_umask(start).run()?;
    wrong.extend(faults(&end));
    if end.code() != 3 && !end.is_late {
        wrong.push(format!("exit code {} with another's file for a log", end.code()));
    }
    let differences = before.differences(&FolderTree::of(&case.path("victims")));
    wrong.extend(differences.iter().map(|difference| format!("victims: {difference}")));
    // A server that still runs ends with the case.
    Ok(wrong)
}
