//! The programs that durio-fleet starts, durio next to it or in PATH and nats-server; and the signals
//! that end durio-fleet itself.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use durio_agree::bus_rights::accept_server;
use durio_base::visible;
use durio_command::CommandError;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Where Debian installs servers; it is not in the PATH of every user.
const SERVER_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The durio of this machine: that next to this program, whose version fits, or that in PATH.
pub(crate) fn durio() -> Result<PathBuf, CommandError> {
    let own = durio_command::own_program()?;
    let neighbour = own.parent().map(|folder| folder.join("durio")).filter(|path| path.is_file());
    neighbour.or_else(|| in_path("durio", &[])).ok_or_else(|| {
        CommandError::cannot_measure("the program durio is not installed")
            .hint("install durio next to durio-fleet or in a directory of PATH")
    })
}

/// A nats-server without known holes, for loopback only or beyond it.
pub(crate) fn nats_server(listens_beyond_loopback: bool) -> Result<PathBuf, CommandError> {
    let program = in_path("nats-server", &SERVER_FOLDERS).ok_or_else(|| {
        CommandError::cannot_measure("the program nats-server is not installed")
            .hint("Debian and Ubuntu: apt install nats-server")
            .hint("others: https://github.com/nats-io/nats-server/releases")
    })?;
    let shown = output_of(&program, &["--version".as_ref()])?;
    let version = shown.trim().rsplit(' ').next().unwrap_or_default();
    accept_server(version, listens_beyond_loopback).map_err(CommandError::cannot_measure)?;
    Ok(program)
}

pub(crate) fn in_path(name: &str, more: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(more.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// What a program writes to stdout.
///
/// # Errors
/// If it fails; with the last line that it wrote to stderr.
pub(crate) fn output_of(program: &Path, arguments: &[&OsStr]) -> Result<String, CommandError> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| CommandError::io("start", program, error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    Err(CommandError::cannot_measure(format!("{name}: {}", last_line(&output.stderr))))
}

/// The last line of an output that says something, without the name of durio in front.
pub(crate) fn last_line(output: &[u8]) -> String {
    const SHOWN: usize = 500;
    let text = String::from_utf8_lossy(output);
    let mut lines = text.lines().rev().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with("hint:"));
    let line = line.unwrap_or("it failed without a message");
    let line = line.strip_prefix("durio: ").unwrap_or(line);
    visible(&line.chars().take(SHOWN).collect::<String>())
}

/// With one thread; calls that may wait for a disk are made on others.
pub(crate) fn runtime() -> Result<Runtime, CommandError> {
    Builder::new_current_thread().enable_all().build().map_err(CommandError::cannot)
}

/// Signals that end a campaign in order.
pub(crate) struct StopSignals([Signal; 3]);

impl StopSignals {
    pub(crate) fn new() -> io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    pub(crate) async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_is_not_a_hint_tells_why_a_program_failed() {
        let output = b"first\ndurio: no space left\nhint: free some\n\n";
        assert_eq!(last_line(output), "no space left");
        assert_eq!(last_line(b"a\x1b[31mb"), "a\\u{1b}[31mb");
        assert_eq!(last_line(b"\n"), "it failed without a message");
        assert_eq!(last_line(&[b'x'; 501]).len(), 500);
    }

    #[test]
    fn an_output_is_what_a_program_writes_and_a_failure_has_its_name_and_last_words() {
        let run = |script: &str| {
            let arguments: [&OsStr; 2] = ["-c".as_ref(), script.as_ref()];
            output_of("sh".as_ref(), &arguments).map_err(|error| error.to_string())
        };
        assert_eq!(run("echo found; echo noise >&2"), Ok("found\n".to_owned()));
        let failing = "echo lost; echo 'durio: no space' >&2; exit 1";
        assert_eq!(run(failing), Err("sh: no space".to_owned()));
        assert_eq!(in_path("durio-no-such-program", &[]), None);
        assert_eq!(in_path("null", &["/dev", "/"]), None, "a file alone is a program");
    }
}
