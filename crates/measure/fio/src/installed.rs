//! The fio of this machine: found, asked for its version, run.
//!
//! Runs jobs given as options until they end or the caller asks to stop, and returns a [`FioRun`]
//! or an error with fio's message.
//!
//! fio runs in a separate process group, so that Ctrl-C in a terminal reaches durio alone, which
//! then ends fio; if durio is killed, the kernel kills fio. fio's output goes to files in memory:
//! no pipe can fill up, and nothing stays on a disk after a kill.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use durio_block::{ANSWER_LIMIT, ProcessGroup};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::FioError;
use crate::job_file::is_program_option;
use crate::json::{self, FioFile};

/// The oldest fio that is run: that of Ubuntu 22.04.
pub const OLDEST: FioVersion = FioVersion { major: 3, minor: 28 };

/// A fio that answers and is new enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fio {
    /// The program as it is started.
    pub path: PathBuf,
    pub version: FioVersion,
    /// Its version as it says it: `fio-3.33`.
    pub version_text: String,
}

impl Fio {
    /// The fio at `given`, or the first in `PATH`.
    ///
    /// # Errors
    /// [`FioError::NotInstalled`], [`FioError::Process`] if it cannot be started, or what it answers
    /// if it is not fio or too old.
    pub fn find(given: Option<&Path>) -> Result<Self, FioError> {
        let path = match given {
            Some(path) if path.is_file() => path.to_owned(),
            Some(path) => return Err(absent(format!("'{}' is not a file", path.display()))),
            None => in_search_path().ok_or_else(|| absent("it is not in PATH".to_owned()))?,
        };
        let version_text = ask(&path)?;
        let Ok(version) = version_text.parse::<FioVersion>() else {
            return Err(FioError::Other(format!(
                "'{}' is not fio: it answers --version with '{version_text}'",
                path.display()
            )));
        };
        if version < OLDEST {
            return Err(FioError::Other(format!(
                "'{}' is {version_text}; {OLDEST} or later is needed",
                path.display()
            )));
        }
        Ok(Self { path, version, version_text })
    }
}

fn absent(place: String) -> FioError {
    FioError::NotInstalled { place }
}

fn in_search_path() -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join("fio")).find(|path| path.is_file())
}

/// The first line of the answer to `--version`.
fn ask(path: &Path) -> Result<String, FioError> {
    let output = durio_block::ask(Command::new(path).arg("--version"), ANSWER_LIMIT);
    let output =
        output.map_err(|source| FioError::Process { operation: "ask the version of", source })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().trim();
    // Whatever program it is, the message stays one line.
    Ok(line.chars().take(80).collect())
}

/// A release of fio, or a build after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FioVersion {
    /// The number before the point.
    pub major: u32,
    /// After the point: 9 is before 10.
    pub minor: u32,
}

/// Not a version of fio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a fio version, such as fio-3.33")]
pub struct NotAVersion;

impl FromStr for FioVersion {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let numbers = text.trim().strip_prefix("fio-").ok_or(NotAVersion)?;
        // git's description of a build follows after a hyphen.
        let release = numbers.split('-').next().unwrap_or_default();
        let mut parts = release.split('.');
        let mut number = || parts.next().and_then(whole).ok_or(NotAVersion);
        Ok(Self { major: number()?, minor: number()? })
    }
}

fn whole(digits: &str) -> Option<u32> {
    // `parse` would take a sign.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { digits.parse().ok() } else { None }
}

impl fmt::Display for FioVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fio-{}.{}", self.major, self.minor)
    }
}

/// One job: its name and its options in order; a later one wins. A flag has the value `1`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedOptions {
    pub name: String,
    /// Options with their values, in order.
    pub options: Vec<(String, String)>,
}

/// The jobs fio must run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FioCommand {
    /// The program as it is started.
    pub fio: Fio,
    /// The jobs, in order.
    pub jobs: Vec<NamedOptions>,
    /// Where fio runs: relative paths of options start there. `None` for the current folder.
    pub folder: Option<PathBuf>,
}

impl FioCommand {
    /// The arguments: json+ to `result`.
    ///
    /// # Errors
    /// For no job, a name that is empty, an option that is not a job's, or a value that fio would read
    /// otherwise than it stands.
    fn arguments(&self, result: &Path) -> Result<Vec<OsString>, FioError> {
        if self.jobs.is_empty() {
            return Err(wrong_job("", "no job to run"));
        }
        let mut output = OsString::from("--output=");
        output.push(result);
        let mut arguments = vec!["--output-format=json+".into(), "--eta=never".into(), output];
        for job in &self.jobs {
            add_job(&mut arguments, job)?;
        }
        Ok(arguments)
    }
}

fn add_job(arguments: &mut Vec<OsString>, job: &NamedOptions) -> Result<(), FioError> {
    if job.name.trim().is_empty() || job.name.contains('\0') {
        return Err(wrong_job(&job.name, "a job needs a name"));
    }
    arguments.push(format!("--name={}", job.name).into());
    for (option, value) in &job.options {
        if let Some(what) = complaint(option, value) {
            return Err(wrong_job(&job.name, &what));
        }
        arguments.push(format!("--{option}={value}").into());
    }
    Ok(())
}

fn complaint(option: &str, value: &str) -> Option<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if option.is_empty() || !option.bytes().all(is_part) {
        Some(format!("invalid option name '{option}'"))
    } else if option == "name" || is_program_option(&option.replace('_', "-")) {
        // It would change the result, or where it goes.
        Some(format!("'{option}' is not an option of a job"))
    } else if value.contains('\0') {
        Some(format!("the value of '{option}' contains a NUL byte"))
    } else if value.contains(['#', ';']) || value.trim() != value {
        // fio takes the rest for a comment, and trims blanks: a file name would be another.
        Some(format!("the value of '{option}' is not what fio would read: '{value}'"))
    } else {
        None
    }
}

fn wrong_job(job: &str, what: &str) -> FioError {
    FioError::Other(format!("fio job '{job}': {what}"))
}

/// How often it is asked whether to stop, and whether fio has ended.
const PAUSE: Duration = Duration::from_millis(20);
// How long fio has after SIGINT to end its jobs and to write the result.
const GRACE: Duration = Duration::from_secs(10);
const MESSAGES_MAX_BYTES: u64 = 64 << 10;

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct FioRun {
    /// fio's result, with the text around it.
    pub file: FioFile,
    /// fio's notes and warnings, from its streams and around the result; at most 64 KiB of each.
    pub messages: String,
    /// True if fio was stopped early: the result covers the time until then.
    pub is_stopped: bool,
}

/// Runs fio until its jobs end or `stop` says true, which is asked every 20 ms.
///
/// When stopped, fio gets SIGINT and prints the results so far; after 10 s it and its jobs are
/// killed.
///
/// # Errors
/// For a job that cannot be put on a command line, [`FioError::Process`] if fio cannot be started,
/// fio's message if it says that it failed, [`FioError::Stopped`] if it was stopped and has no result,
/// and those of [`json::read_file`].
pub fn run_fio(command: &FioCommand, stop: &dyn Fn() -> bool) -> Result<FioRun, FioError> {
    let files = MemoryFiles::new().map_err(|source| wrong("keep the result of", source))?;
    let mut fio = start(command, &files)?;
    let ended = watch(&mut fio, stop).and_then(|is_stopped| Ok((is_stopped, fio.end()?)));
    let (is_stopped, status) = ended.map_err(|source| wrong("wait for", source))?;
    let result = json::read_file(&path_of(&files.result));
    conclude(status, result, &files.messages(), is_stopped)
}

/// What fio writes to: files without a name, in memory.
struct MemoryFiles {
    result: OwnedFd,
    out: OwnedFd,
    err: OwnedFd,
}

impl MemoryFiles {
    fn new() -> io::Result<Self> {
        // Not pipes, which fill up, and not files, which stay if durio is killed.
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

/// A path by which this process and fio open the file from its beginning.
fn path_of(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

fn wrong(operation: &'static str, source: io::Error) -> FioError {
    FioError::Process { operation, source }
}

fn start(command: &FioCommand, files: &MemoryFiles) -> Result<ProcessGroup, FioError> {
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

/// Waits for the end; true if fio was stopped.
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

/// Asks fio to end; after the grace period it is killed.
// With its jobs, which are its own threads (`thread`), and all others in its group.
fn end(fio: &mut ProcessGroup, grace: Duration) -> io::Result<()> {
    // fio ends its jobs at SIGINT and prints what it has.
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
        // A result does not make up for a failure: fio may have written it before it failed.
        Ok(file) if is_stopped || status.success() => {
            let messages = [messages, &file.text].join("\n").trim().to_owned();
            Ok(FioRun { file, messages, is_stopped })
        }
        // It may not have come as far as to have one.
        Err(_) if is_stopped => Err(FioError::Stopped),
        Err(FioError::Read { .. } | FioError::Empty) if status.success() => {
            Err(FioError::Other("fio exited with success but wrote no result".to_owned()))
        }
        Err(error) if status.success() => Err(error),
        file => Err(failed(status, file.as_ref().map_or("", |file| &file.text), messages)),
    }
}

// What fio says of its failure is in the streams, or before the result in its file.
fn failed(status: ExitStatus, text: &str, messages: &str) -> FioError {
    let lines = messages.lines().chain(text.lines()).map(str::trim);
    let complaints: Vec<&str> = lines.filter(|line| line.starts_with("fio: ")).take(5).collect();
    let message = match (complaints.as_slice(), messages.trim(), text) {
        ([], "", "") => "no reason given".to_owned(),
        ([], "", text) => text.to_owned(),
        ([], messages, _) => messages.to_owned(),
        (complaints, ..) => complaints.join("; "),
    };
    let message: String = message.chars().take(1000).collect();
    FioError::Other(format!("fio failed ({status}): {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_and_builds_from_git_are_understood() {
        for (text, expected) in [
            ("fio-3.33", (3, 33)),
            ("fio-3.9\n", (3, 9)),
            ("fio-3.35-74-gb2f1a", (3, 35)),
            ("fio-3.42-dirty", (3, 42)),
            ("fio-2.2.10", (2, 2)),
        ] {
            let version: FioVersion = text.parse().unwrap();
            assert_eq!((version.major, version.minor), expected, "{text}");
        }
    }

    #[test]
    fn other_answers_are_none() {
        for text in
            ["", "fio-", "fio-3", "3.33", "fio-x.y", "fio-+3.1", "fio-3.99999999999", "curl 8"]
        {
            assert_eq!(text.parse::<FioVersion>(), Err(NotAVersion), "{text}");
        }
    }

    #[test]
    fn ten_is_after_nine() {
        let of = |text: &str| text.parse::<FioVersion>().unwrap();
        assert!(of("fio-3.9") < of("fio-3.10") && of("fio-3.28") >= crate::installed::OLDEST);
    }

    fn arguments(jobs: &[(&str, &[(&str, &str)])]) -> Result<Vec<String>, FioError> {
        let version = crate::installed::OLDEST;
        let fio = Fio { path: "fio".into(), version, version_text: version.to_string() };
        let job = |&(name, options): &(&str, &[(&str, &str)])| NamedOptions {
            name: name.to_owned(),
            options: options
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
        };
        let command = FioCommand { fio, jobs: jobs.iter().map(job).collect(), folder: None };
        let arguments = command.arguments(Path::new("/r"))?;
        Ok(arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect())
    }

    #[test]
    fn every_job_begins_with_its_name() {
        let found = arguments(&[("a b", &[("rw", "read"), ("bs", "4k")]), ("c", &[])]).unwrap();
        assert_eq!(found[3..], ["--name=a b", "--rw=read", "--bs=4k", "--name=c"]);
        assert_eq!(found[2], "--output=/r");
    }

    #[test]
    fn what_is_not_a_job_s_option_is_refused() {
        for options in [("output", "x"), ("name", "x"), ("status_interval", "1"), ("", "x")] {
            assert!(arguments(&[("a", &[options])]).is_err(), "{options:?}");
        }
        for options in [("rw read", "x"), ("rw", "a\0b"), ("filename", "a#b"), ("filename", "a ")] {
            assert!(arguments(&[("a", &[options])]).is_err(), "{options:?}");
        }
    }

    #[test]
    fn no_job_and_no_name_are_refused() {
        assert!(arguments(&[]).is_err());
        assert!(arguments(&[(" ", &[])]).is_err());
    }

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
