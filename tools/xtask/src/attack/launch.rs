//! One process, watched: how it ended, what it printed, how much memory it took.
//!
//! Takes a program, arguments, an environment and a time limit; returns [`EndedProcess`].
//!
//! Output goes to files without a name, not to pipes: a process that holds a pipe open keeps its
//! reader waiting.
//!
//! A process may be in the foreground of a pseudo-terminal, which can be closed under it as a window is.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// How often the memory of a process is sampled. Filling more than 256 MiB takes longer.
const LOOK: Duration = Duration::from_millis(4);
/// A process that takes this much is killed: the machine has other users.
const MEMORY_END_BYTES: u64 = 1 << 30;
/// A process without processor time for this long is waiting.
const STILL: Duration = Duration::from_secs(2);
/// The unit of times in /proc/PID/stat, USER_HZ, on all of Linux's usual architectures.
const TICKS_PER_SECOND: u64 = 100;
/// The bytes kept and inspected of each stream.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// The program to run.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) words: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) folder: PathBuf,
    pub(super) limit: Duration,
}

impl Launch {
    /// Adds blank-separated arguments.
    pub(super) fn words(mut self, line: &str) -> Self {
        self.words.extend(line.split_whitespace().map(OsString::from));
        self
    }

    /// Adds one word.
    pub(super) fn word(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().to_owned());
        self
    }

    /// Sets a variable.
    pub(super) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.retain(|(variable, _)| variable != name.as_ref());
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Restores the default action of every signal, even if the suite's parent ignores hang-ups
    /// (nohup, a service).
    pub(super) fn default_signals(mut self) -> Self {
        self.words.splice(0..0, ["env", "--default-signal"].map(OsString::from));
        self
    }

    /// Another limit of time.
    pub(super) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it to its end, or to the limit.
    pub(super) fn run(self) -> Result<EndedProcess> {
        let limit = self.limit;
        self.start()?.wait(limit)
    }

    pub(super) fn start(self) -> Result<Running> {
        let (stdout, stderr) = (unnamed()?, unnamed()?);
        let of = |file: &File| file.try_clone().map(Stdio::from);
        let streams = [Stdio::null(), of(&stdout)?, of(&stderr)?];
        Ok(Running { child: self.spawn(streams)?, stdout, stderr, peak: 0, is_ended_by_us: false })
    }

    /// Starts it as the leader of a session with this terminal. The caller enforces the time limit.
    pub(super) fn start_on(self, terminal: &File) -> Result<Running> {
        let of = || terminal.try_clone().map(Stdio::from);
        let streams = [of()?, of()?, of()?];
        let mut leader = self;
        leader.words.splice(0..0, ["setsid", "--ctty"].map(OsString::from));
        // setsid forks if it leads a group already: then no one would wait for durio.
        let child = leader.spawn_in_its_group(streams, false)?;
        Ok(Running {
            child,
            stdout: unnamed()?,
            stderr: unnamed()?,
            peak: 0,
            is_ended_by_us: false,
        })
    }

    fn spawn(&self, streams: [Stdio; 3]) -> Result<Child> {
        self.spawn_in_its_group(streams, true)
    }

    fn spawn_in_its_group(&self, streams: [Stdio; 3], own_group: bool) -> Result<Child> {
        let program = self.words.first().context("no program")?;
        let [stdin, stdout, stderr] = streams;
        let mut command = Command::new(program);
        command.args(&self.words[1..]).current_dir(&self.folder);
        // A case must be reproducible on another machine, whatever its user's settings.
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        if own_group {
            // The kill at the limit reaches its children, and not this suite.
            command.process_group(0);
        }
        command.spawn().with_context(|| format!("cannot start {}", program.display()))
    }
}

fn unnamed() -> Result<File> {
    Ok(memfd_create("attack", MemfdFlags::CLOEXEC).context("no memory file")?.into())
}

/// A process that lives, or has ended and was not waited for.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    stdout: File,
    stderr: File,
    peak: u64,
    is_ended_by_us: bool,
}

impl Running {
    pub(super) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    /// Sends a signal to the process alone; has no effect on one that has ended.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It may be gone already.
            let _ = kill_process(pid, signal);
        }
    }

    /// The bytes on stderr so far.
    pub(super) fn said(&self) -> Result<String> {
        let length = usize::try_from(self.stderr.metadata()?.len().min(OUTPUT_BYTES_MAX))?;
        let mut bytes = vec![0; length];
        // With an explicit offset: the process writes at the file's position.
        let count = self.stderr.read_at(&mut bytes, 0).context("cannot read what it says")?;
        bytes.truncate(count);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has ended; at the limit the process and its group are killed.
    pub(super) fn wait(mut self, limit: Duration) -> Result<EndedProcess> {
        let mut patience = ProcessPatience::begin(limit);
        let mut is_late = false;
        // waitpid has no limit of time; a pidfd can be polled with one.
        if let Some(pid) = self.pid()
            && let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
        {
            let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
            while poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&look)) == Ok(0) {
                self.peak = self.peak.max(peak_of(pid));
                is_late |= patience.is_over(pid);
                if is_late || self.peak > MEMORY_END_BYTES {
                    self.end();
                }
            }
        }
        let status = self.child.wait().context("cannot wait")?;
        let text = |file: &mut File| -> Result<Vec<u8>> {
            file.seek(SeekFrom::Start(0))?;
            let mut bytes = Vec::new();
            file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let (stdout, stderr) = (text(&mut self.stdout)?, text(&mut self.stderr)?);
        let is_ended_by_us = self.is_ended_by_us;
        Ok(EndedProcess { status, stdout, stderr, peak: self.peak, is_late, is_ended_by_us })
    }

    fn end(&mut self) {
        self.is_ended_by_us = true;
        if let Some(pid) = self.pid() {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        // On a terminal this group does not exist until setsid has made it.
        let _ = self.child.kill();
    }
}

/// How long to wait for a process. On a busy machine that gives it no time, it is not late.
struct ProcessPatience {
    limit: Duration,
    begin: Instant,
    /// Processor time when it last advanced, and when that was.
    advanced: (u64, Instant),
}

impl ProcessPatience {
    fn begin(limit: Duration) -> Self {
        let now = Instant::now();
        Self { limit, begin: now, advanced: (0, now) }
    }

    /// True if the limit has passed and the process had the time, is waiting, or is not done after
    /// ten times as long.
    fn is_over(&mut self, pid: Pid) -> bool {
        let (elapsed, ticks) = (self.begin.elapsed(), ticks_of(pid));
        if ticks != self.advanced.0 {
            self.advanced = (ticks, Instant::now());
        }
        let had_time = ticks / TICKS_PER_SECOND >= self.limit.as_secs().max(1);
        let waits = self.advanced.1.elapsed() > STILL;
        elapsed > self.limit && (had_time || waits || elapsed > 10 * self.limit)
    }
}

/// Processor time of a process, in the kernel's ticks; 0 if it is gone.
fn ticks_of(pid: Pid) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let stat = stat.unwrap_or_default();
    // The name in brackets may hold blanks; utime and stime are the 12th and 13th field after it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|tick| tick.parse::<u64>().ok()).sum()
}

/// The largest resident memory of a process so far; 0 if it is gone.
fn peak_of(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// How a process ended.
#[derive(Debug)]
pub(super) struct EndedProcess {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Largest resident memory, in bytes; 0 if it was gone before the first sample.
    pub(super) peak: u64,
    /// It took longer than it may.
    pub(super) is_late: bool,
    /// It was killed here, for exceeding its time or memory.
    pub(super) is_ended_by_us: bool,
}

impl EndedProcess {
    /// As a shell reports it: 128 plus the signal for a killed process.
    pub(super) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    pub(super) fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub(super) fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// The window's side; dropping it closes the terminal.
#[derive(Debug)]
pub(super) struct PseudoTerminal(File);

impl PseudoTerminal {
    /// Starts a command with a new terminal.
    pub(super) fn start(launch: Launch) -> Result<(Self, Running)> {
        // NOCTTY: it must not become the terminal of the suite itself.
        let window = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .context("no pseudo-terminal")?;
        grantpt(&window)?;
        unlockpt(&window)?;
        let name = ptsname(&window, Vec::new())?;
        let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(path, flags, Mode::empty());
        let terminal = terminal.with_context(|| format!("cannot open {}", path.display()))?.into();
        let running = launch.start_on(&terminal)?;
        Ok((Self(window.into()), running))
    }

    /// Reads all output, until the last process has closed the terminal.
    pub(super) fn read_to_end(mut self) -> Vec<u8> {
        let mut printed = Vec::new();
        // A closed terminal gives an error (EIO); the output before it is kept.
        let _ = self.0.read_to_end(&mut printed);
        printed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Launch {
        let words = ["sh", "-c", script].map(OsString::from).to_vec();
        let environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
        Launch { words, environment, folder: "/".into(), limit: Duration::from_secs(60) }
    }

    #[test]
    fn what_is_printed_and_how_it_ended_is_told() {
        let ended = shell("echo out; echo err >&2; exit 3").run().unwrap();
        assert_eq!(
            (ended.code(), ended.stdout, ended.stderr.as_slice()),
            (3, b"out\n".into(), &b"err\n"[..])
        );
    }

    #[test]
    fn what_hangs_is_ended_with_its_children_at_the_limit() {
        let begin = Instant::now();
        let ended = shell("sleep 60 & wait").limit(Duration::from_millis(100)).run().unwrap();
        assert!(ended.is_late && ended.is_ended_by_us && begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn memory_is_seen() {
        let ended = shell("x=$(head -c 80000000 /dev/zero | tr '\\0' x); sleep 0.1").run().unwrap();
        assert!(ended.peak > 70 << 20, "{}", ended.peak);
    }
}
