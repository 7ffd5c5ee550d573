//! The test language: a command of durio, how it ended, what it said.
//!
//! Every run must end within [`PATIENCE`], without a panic and without exit code 4.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::requirements::search_path;

/// The longest that a short run may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A command line that is being put together.
pub(crate) struct Durio {
    program: PathBuf,
    wrapper: Vec<OsString>,
    arguments: Vec<OsString>,
    command: Command,
}

impl Durio {
    /// durio in an empty environment.
    pub(crate) fn new() -> Self {
        let mut command = Command::new("env");
        command.env_clear().env("PATH", search_path()).stdin(Stdio::null());
        let program = PathBuf::from(env!("CARGO_BIN_EXE_durio"));
        Self { program, wrapper: Vec::new(), arguments: Vec::new(), command }
    }

    /// Another copy of the program.
    pub(crate) fn program(mut self, path: &Path) -> Self {
        self.program = path.to_owned();
        self
    }

    /// Words in front of the command, such as `setpriv --reuid 65534`.
    pub(crate) fn within<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.wrapper = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    /// The words of `line`, split at blanks.
    pub(crate) fn words(mut self, line: &str) -> Self {
        self.arguments.extend(line.split_whitespace().map(OsString::from));
        self
    }

    /// One word as it is.
    pub(crate) fn word(mut self, word: impl AsRef<OsStr>) -> Self {
        self.arguments.push(word.as_ref().to_owned());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn directory(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Starts it with stdout going to `stdout`.
    pub(crate) fn start_onto(mut self, stdout: Stdio) -> Running {
        let errors = NamedTempFile::new().unwrap();
        let words: Vec<_> = self
            .wrapper
            .iter()
            .map(OsString::as_os_str)
            .chain([self.program.as_os_str()])
            .collect();
        let line = format!("{words:?} {:?}", self.arguments);
        self.command.args(words).args(&self.arguments).stdout(stdout);
        let child = self.command.stderr(errors.reopen().unwrap()).spawn().unwrap();
        Running { line, child, answer: None, errors, ended: None }
    }

    /// Starts it.
    pub(crate) fn start(self) -> Running {
        let answer = NamedTempFile::new().unwrap();
        let stdout = Stdio::from(answer.reopen().unwrap());
        let mut running = self.start_onto(stdout);
        running.answer = Some(answer);
        running
    }

    /// Starts it and waits for its end.
    pub(crate) fn run(self) -> Ended {
        self.start().wait()
    }
}

/// A process that is killed and waited for when the test leaves it behind.
pub(crate) struct Running {
    line: String,
    child: Child,
    answer: Option<NamedTempFile>,
    errors: NamedTempFile,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Sends a signal; a process that has ended already does not mind.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.child.try_wait().unwrap().is_none() {
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// What it has said on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.errors.path()).unwrap()).into_owned()
    }

    /// The end of its stdout, if it is a pipe.
    pub(crate) fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// True as long as it runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    pub(crate) fn wait(self) -> Ended {
        self.wait_at_most(PATIENCE)
    }

    /// Waits for its end, which must come within `patience`.
    pub(crate) fn wait_at_most(mut self, patience: Duration) -> Ended {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < patience, "{} still runs after {patience:?}", self.line);
            thread::sleep(Duration::from_millis(2));
        };
        self.ended = Some(status);
        let stdout = self.answer.as_ref().map(|answer| fs::read(answer.path()).unwrap());
        let ended = Ended {
            line: self.line.clone(),
            status,
            stdout: stdout.unwrap_or_default(),
            stderr: self.stderr(),
        };
        ended.assert(!ended.stderr.contains("panicked"), "it panicked");
        ended.assert(status.code() != Some(4), "a fault in durio");
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A process that has ended.
pub(crate) struct Ended {
    line: String,
    status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ended {
    #[track_caller]
    fn assert(&self, holds: bool, what: &str) {
        let Self { line, status, stderr, .. } = self;
        let stdout = self.text();
        assert!(holds, "{what}\n{line}\n{status}\n--- stderr\n{stderr}--- stdout\n{stdout}");
    }

    #[track_caller]
    pub(crate) fn expect_exit(self, code: i32) -> Self {
        self.assert(self.status.code() == Some(code), &format!("not exit code {code}"));
        self
    }

    /// The exit code as a shell shows it: 128 + N for signal N.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().or(self.status.signal().map(|signal| 128 + signal)).unwrap()
    }

    #[track_caller]
    pub(crate) fn expect_stderr(self, part: &str) -> Self {
        self.assert(self.stderr.contains(part), &format!("no '{part}' on stderr"));
        self
    }

    #[track_caller]
    pub(crate) fn expect_stdout(self, part: &str) -> Self {
        self.assert(self.text().contains(part), &format!("no '{part}' on stdout"));
        self
    }

    #[track_caller]
    pub(crate) fn expect_no_stdout(self) -> Self {
        self.assert(self.stdout.is_empty(), "stdout is not empty");
        self
    }

    #[track_caller]
    pub(crate) fn expect_no_stderr(self) -> Self {
        self.assert(self.stderr.is_empty(), "stderr is not empty");
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// stdout, which must be exactly one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let mut documents = serde_json::Deserializer::from_slice(&self.stdout).into_iter::<Value>();
        let first = documents.next();
        self.assert(documents.next().is_none(), "more than one JSON document");
        match first {
            Some(Ok(document)) if document.is_object() => document,
            other => {
                self.assert(false, &format!("no JSON document: {other:?}"));
                Value::Null
            }
        }
    }
}

/// All that can be read, at most `count` bytes.
pub(crate) fn read_at_most(mut source: impl Read, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let read = source.read(&mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}

/// A file open for writing, as the stdout of a process.
pub(crate) fn onto(path: &str) -> Stdio {
    File::options().write(true).open(path).unwrap().into()
}
