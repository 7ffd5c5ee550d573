//! A run of fio.
//!
//! In: [`FioCommand`], a question whether to stop. Out: [`FioRun`], or an error with what fio said.
//! Not here: progress. fio works in a process group of its own, so that Ctrl-C in a terminal reaches
//! durio alone, which then ends fio. What fio prints goes to files: no pipe can fill up.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

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
    let files =
        TempDir::new().map_err(|source| wrong("make a folder for the result of", source))?;
    let result = files.path().join("result.json");
    let mut child = start(command, files.path(), &result)?;
    let is_stopped = match watch(&mut child, stop) {
        Ok(is_stopped) => is_stopped,
        Err(source) => {
            let _ = kill(&mut child);
            return Err(wrong("wait for", source));
        }
    };
    let status = child.wait().map_err(|source| wrong("wait for", source))?;
    let messages = messages(files.path());
    conclude(status, json::read_file(&result), &messages, is_stopped)
}

fn wrong(operation: &'static str, source: io::Error) -> FioError {
    FioError::Process { operation, source }
}

fn start(command: &FioCommand, files: &Path, result: &Path) -> Result<Child, FioError> {
    let arguments = command.arguments(result, files)?;
    let stream = |name: &str| File::create(files.join(name)).map(Stdio::from);
    let (out, err) = stream("out")
        .and_then(|out| Ok((out, stream("err")?)))
        .map_err(|source| wrong("keep the messages of", source))?;
    let mut fio = Command::new(&command.fio.path);
    fio.args(arguments).stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    if let Some(folder) = &command.folder {
        fio.current_dir(folder);
    }
    fio.spawn().map_err(|source| wrong("start", source))
}

/// Waits for the end; true if fio was told to stop.
fn watch(child: &mut Child, stop: &dyn Fn() -> bool) -> io::Result<bool> {
    while child.try_wait()?.is_none() {
        if stop() {
            end(child, GRACE)?;
            return Ok(true);
        }
        thread::sleep(PAUSE);
    }
    Ok(false)
}

fn end(child: &mut Child, grace: Duration) -> io::Result<()> {
    signal(child.id(), Signal::INT)?;
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() >= grace {
            return kill(child);
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// fio's jobs are processes in sessions of their own, which outlive a killed fio: they go first.
fn kill(child: &mut Child) -> io::Result<()> {
    for job in children(child.id()) {
        // A job that has just ended needs no signal.
        let _ = signal(job, Signal::KILL);
    }
    child.kill()
}

/// The processes that `parent` started. It has not been waited for: no other has its number.
fn children(parent: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn signal(process: u32, signal: Signal) -> io::Result<()> {
    let number = i32::try_from(process).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    Ok(kill_process(number, signal)?)
}

/// Both streams, the errors first.
fn messages(files: &Path) -> String {
    let of = |name: &str| {
        let mut bytes = Vec::new();
        let file = File::open(files.join(name)).map(|file| file.take(MESSAGES_MAX_BYTES));
        let _ = file.and_then(|mut file| file.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).trim().to_owned()
    };
    [of("err"), of("out")].join("\n").trim().to_owned()
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
        Err(FioError::Read { .. }) if status.success() => Err(FioError::NoResult),
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
        let mut child = program.spawn().unwrap();
        let mut answer = [0; 16];
        let length = child.stdout.take().unwrap().read(&mut answer).unwrap();
        let job: u32 = std::str::from_utf8(&answer[..length]).unwrap().trim().parse().unwrap();
        assert_eq!(children(child.id()), [job]);
        end(&mut child, Duration::from_millis(60)).unwrap();
        assert!(!child.wait().unwrap().success());
        let state = || fs::read_to_string(format!("/proc/{job}/stat")).unwrap_or_default();
        let is_gone = || state().is_empty() || state().contains(") Z ");
        let begin = Instant::now();
        while !is_gone() && begin.elapsed() < Duration::from_secs(2) {
            thread::sleep(PAUSE);
        }
        assert!(is_gone(), "{}", state());
    }
}
