//! A run of fio.
//!
//! In: [`FioCommand`], a question whether to stop. Out: [`FioRun`], or an error with what fio said.
//! Not here: progress. fio works in a process group of its own, so that Ctrl-C in a terminal reaches
//! durio alone, which then ends fio; if durio is killed, the kernel kills fio. What fio prints goes to
//! files in memory: no pipe can fill up, and nothing stays on a disk whoever is killed.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use durio_block::ProcessGroup;
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, kill_process};

use super::FioCommand;
use crate::FioError;
use crate::json::{self, FioFile};

/// How often it is asked whether to stop, and whether fio has ended.
const PAUSE: Duration = Duration::from_millis(20);
/// How long fio has after SIGINT to end its jobs and to write the result.
const GRACE: Duration = Duration::from_secs(10);
/// How much of fio's messages is kept.
const MESSAGES_MAX_BYTES: u64 = 64 << 10;

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct FioRun {
    /// fio's result, with the text around it.
    pub file: FioFile,
    /// What fio printed besides: its notes and warnings, from its streams and around the result; at
    /// most 64 KiB of each.
    pub messages: String,
    /// True if fio was told to stop: the result covers the time until then.
    pub is_stopped: bool,
}

/// Runs fio until its jobs end or `stop` says true, which is asked every 20 ms.
///
/// Told to stop, fio gets SIGINT and prints what it has; after 10 s it and its jobs are killed.
///
/// # Errors
/// [`FioError::Command`] for a job that cannot be put on a command line, [`FioError::Process`] if fio
/// cannot be started, [`FioError::Failed`] with fio's message if it says that it failed,
/// [`FioError::Stopped`] if it was stopped and has no result, and those of [`json::read_file`].
pub fn run_fio(command: &FioCommand, stop: &dyn Fn() -> bool) -> Result<FioRun, FioError> {
    let files = Files::new().map_err(|source| wrong("keep the result of", source))?;
    let mut fio = start(command, &files)?;
    let ended = watch(&mut fio, stop).and_then(|is_stopped| Ok((is_stopped, fio.end()?)));
    let (is_stopped, status) = ended.map_err(|source| wrong("wait for", source))?;
    let result = json::read_file(&path_of(&files.result));
    conclude(status, result, &files.messages(), is_stopped)
}

/// What fio writes to: files without a name, in memory.
struct Files {
    result: OwnedFd,
    out: OwnedFd,
    err: OwnedFd,
}

impl Files {
    fn new() -> io::Result<Self> {
        let file = || rustix::fs::memfd_create("durio-fio", MemfdFlags::CLOEXEC);
        Ok(Self { result: file()?, out: file()?, err: file()? })
    }

    /// Both streams, the errors first.
    fn messages(&self) -> String {
        let of = |file: &OwnedFd| {
            let mut bytes = Vec::new();
            let file = File::open(path_of(file)).map(|file| file.take(MESSAGES_MAX_BYTES));
            let _ = file.and_then(|mut file| file.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        [of(&self.err), of(&self.out)].join("\n").trim().to_owned()
    }
}

/// By which this process and fio open the file from its beginning.
fn path_of(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

fn wrong(operation: &'static str, source: io::Error) -> FioError {
    FioError::Process { operation, source }
}

fn start(command: &FioCommand, files: &Files) -> Result<ProcessGroup, FioError> {
    let arguments = command.arguments(&path_of(&files.result))?;
    let stream = |file: &OwnedFd| file.try_clone().map(Stdio::from);
    let (out, err) = stream(&files.out)
        .and_then(|out| Ok((out, stream(&files.err)?)))
        .map_err(|source| wrong("keep the messages of", source))?;
    let mut fio = Command::new(&command.fio.path);
    fio.args(arguments).stdin(Stdio::null()).stdout(out).stderr(err);
    if let Some(folder) = &command.folder {
        fio.current_dir(folder);
    }
    ProcessGroup::start(&mut fio).map_err(|source| wrong("start", source))
}

/// Waits for the end; true if fio was told to stop.
fn watch(fio: &mut ProcessGroup, stop: &dyn Fn() -> bool) -> io::Result<bool> {
    while !fio.has_ended()? {
        if stop() {
            end(fio, GRACE)?;
            return Ok(true);
        }
        thread::sleep(PAUSE);
    }
    Ok(false)
}

/// Asks fio to end; after the grace period it is killed, with its jobs, which are its own threads
/// (`thread`), and whatever else is in its group.
fn end(fio: &mut ProcessGroup, grace: Duration) -> io::Result<()> {
    kill_process(Pid::from_child(&fio.leader), Signal::INT)?;
    let begin = Instant::now();
    while !fio.has_ended()? {
        if begin.elapsed() >= grace {
            return fio.end().map(drop);
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn conclude(
    status: ExitStatus,
    file: Result<FioFile, FioError>,
    messages: &str,
    is_stopped: bool,
) -> Result<FioRun, FioError> {
    match file {
        Ok(file) if is_stopped || status.success() => {
            let messages = [messages, &file.text].join("\n").trim().to_owned();
            Ok(FioRun { file, messages, is_stopped })
        }
        Err(_) if is_stopped => Err(FioError::Stopped),
        Err(FioError::Read { .. } | FioError::Empty) if status.success() => Err(FioError::NoResult),
        Err(error) if status.success() => Err(error),
        file => Err(failed(status, file.as_ref().map_or("", |file| &file.text), messages)),
    }
}

/// What fio says of its failure is in the streams, or before the result in its file.
fn failed(status: ExitStatus, text: &str, messages: &str) -> FioError {
    let lines = messages.lines().chain(text.lines()).map(str::trim);
    let complaints: Vec<&str> = lines.filter(|line| line.starts_with("fio: ")).take(5).collect();
    let message = match (complaints.as_slice(), messages.trim(), text) {
        ([], "", "") => "it gives no reason".to_owned(),
        ([], "", text) => text.to_owned(),
        ([], messages, _) => messages.to_owned(),
        (complaints, ..) => complaints.join("; "),
    };
    let message = message.chars().take(1000).collect();
    FioError::Failed { status: status.to_string(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ignores_the_end_is_killed_with_its_jobs() {
        let mut program = Command::new("sh");
        program
            .args(["-c", "trap '' INT; sleep 60 & echo $!; while :; do wait; done"])
            .stdout(Stdio::piped());
        let mut group = ProcessGroup::start(&mut program).unwrap();
        let mut answer = [0; 16];
        let length = group.leader.stdout.take().unwrap().read(&mut answer).unwrap();
        let job: u32 = std::str::from_utf8(&answer[..length]).unwrap().trim().parse().unwrap();
        end(&mut group, Duration::from_millis(60)).unwrap();
        assert!(!group.end().unwrap().success());
        let state = || std::fs::read_to_string(format!("/proc/{job}/stat")).unwrap_or_default();
        let is_gone = || state().is_empty() || state().contains(") Z ");
        let begin = Instant::now();
        while !is_gone() && begin.elapsed() < Duration::from_secs(2) {
            thread::sleep(PAUSE);
        }
        assert!(is_gone(), "{}", state());
    }
}
