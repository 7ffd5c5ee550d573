//! Runs the command of a guest, and reaps all its processes.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};

use super::orders::{OUT_FOLDER, Orders};
use super::port::Port;
use crate::LabRequest;
use crate::wire::GuestFrame;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const PART_BYTES: usize = 1 << 16;
/// The shells' exit codes for a command that does not exist, or that cannot be run.
const NO_COMMAND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;
/// How long output written before the command's end may take.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Runs the command, and returns its exit code.
///
/// # Errors
/// If the port fails. A command that cannot be started has an exit code.
pub(super) fn run_command(port: &Port, orders: &Orders) -> io::Result<u8> {
    let mut child = match start(orders) {
        Ok(child) => child,
        Err(error) => return cannot_start(port, orders, &error),
    };
    port.interrupts(Some(Pid::from_child(&child)));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let readers = [
            scope.spawn(|| stdout.map_or(Ok(()), |it| forward(it, port, GuestFrame::Stdout))),
            scope.spawn(|| stderr.map_or(Ok(()), |it| forward(it, port, GuestFrame::Stderr))),
        ];
        let status = reap_until(Pid::from_child(&child))?;
        port.interrupts(None);
        // A process that still runs and holds the output open would keep the guest alive forever.
        let begin = Instant::now();
        while begin.elapsed() < LAST_WORDS && !readers.iter().all(|it| it.is_finished()) {
            end_everything();
            thread::sleep(Duration::from_millis(1));
        }
        Ok(code_of(status))
    })
}

fn start(orders: &Orders) -> io::Result<Child> {
    let Some((program, arguments)) = orders.command.split_first() else {
        return Err(io::Error::other("there is no command"));
    };
    let directory = Path::new(&orders.directory);
    let directory = if directory.is_dir() { directory } else { Path::new("/") };
    let mut command = Command::new(program);
    // The kernel passes words of its command line to the first process as variables.
    command.args(arguments).env_clear().current_dir(directory).process_group(0);
    command.env("PATH", PATH).env("HOME", "/root").env("LANG", "C").env("TERM", "dumb");
    command.env("DURIO_LAB", orders.facts.timing.word()).env("DURIO_LAB_OUT", OUT_FOLDER);
    if orders.has_witness {
        command.env("DURIO_LAB_WITNESS", LabRequest::WITNESS_PATH);
    }
    command.envs(orders.environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

fn cannot_start(port: &Port, orders: &Orders, error: &io::Error) -> io::Result<u8> {
    let name = orders.command.first().map(|it| it.to_string_lossy()).unwrap_or_default();
    port.send(&GuestFrame::Stderr(
        format!("durio lab: cannot run '{name}': {error}\n").into_bytes(),
    ))?;
    Ok(if error.kind() == io::ErrorKind::NotFound { NO_COMMAND } else { NOT_RUNNABLE })
}

fn forward(mut pipe: impl Read, port: &Port, frame: fn(Vec<u8>) -> GuestFrame) -> io::Result<()> {
    let mut bytes = vec![0; PART_BYTES];
    loop {
        match pipe.read(&mut bytes)? {
            0 => return Ok(()),
            count => port.send(&frame(bytes.get(..count).unwrap_or_default().to_vec()))?,
        }
    }
}

/// Waits for every child, because the first process inherits all orphans, until that of `command`
/// has ended.
fn reap_until(command: Pid) -> io::Result<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((process, status))) if process == command => return Ok(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// For the first process, its group means all other processes.
fn end_everything() {
    let _ = kill_process_group(Pid::INIT, Signal::KILL);
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

fn code_of(status: WaitStatus) -> u8 {
    // As shells report a signal.
    let code = status.exit_status().or_else(|| Some(128 + status.terminating_signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
