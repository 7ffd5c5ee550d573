//! The process of a command: the command line that made it, for records, and its program; random
//! seeds and tokens for users who name none; the lines that it shows its user while it works, and how
//! it is stopped from outside. Results are values, not lines.

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use durio_plan::RawPath;

use crate::CommandError;

static COMMAND_LINE: OnceLock<Vec<OsString>> = OnceLock::new();

/// The command line for records, with the bare name of the program; bytes that are not UTF-8 are
/// replaced.
pub fn command_line() -> Vec<String> {
    let words = COMMAND_LINE.get().cloned();
    recorded(words.unwrap_or_else(|| std::env::args_os().collect()))
}

fn recorded(mut words: Vec<OsString>) -> Vec<String> {
    if let Some(program) = words.first_mut() {
        // Records are shared: the path of the program on this machine is left out.
        *program = Path::new(&*program).file_name().unwrap_or_default().to_owned();
    }
    words.into_iter().map(|word| RawPath::from(word).to_string()).collect()
}

/// Sets the command line for records, if it is not the process's: a user's file may have added
/// words.
pub fn set_command_line(words: &[OsString]) {
    // Only the first counts, and there is but one.
    let _ = COMMAND_LINE.set(words.to_vec());
}

/// The program that runs, for a guest or another process: a durio in PATH may be another version.
///
/// # Errors
/// If the system does not tell.
pub fn own_program() -> Result<PathBuf, CommandError> {
    std::env::current_exe()
        .map_err(|error| CommandError::io("find durio's own program,", Path::new("durio"), error))
}

/// A token that cannot be guessed.
pub fn random_token() -> String {
    // The standard library has the system's random numbers for its hash tables alone.
    let word = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", word(), word())
}

/// A seed. Commands that start at the same moment differ by their process.
pub fn random_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Small enough to be typed again.
    u64::from(now.subsec_nanos()) ^ u64::from(std::process::id())
}

/// A terminal, or another place that shows progress.
pub trait ProgressObserver {
    /// A line that every user must see.
    fn remark(&self, line: &str);

    /// A line of progress, at most one for each step.
    fn progress(&self, line: &str);

    /// Progress that is soon out of date, for a place where the next line replaces this one.
    fn status(&self, _line: &dyn Fn() -> String) {}
}

/// When a line of progress is due: soon at first, once a minute in work of hours.
#[derive(Debug)]
pub struct ProgressTimer {
    begin: Instant,
    latest: Instant,
}

impl ProgressTimer {
    const SOONEST: Duration = Duration::from_secs(5);
    const LATEST: Duration = Duration::from_secs(60);

    /// A timer of work that begins now.
    #[expect(clippy::new_without_default, reason = "it starts a clock")]
    pub fn new() -> Self {
        let begin = Instant::now();
        Self { begin, latest: begin }
    }

    /// The seconds since the beginning, if a line is due.
    pub fn now(&mut self) -> Option<u64> {
        let elapsed = self.begin.elapsed();
        let wait = (elapsed / 10).clamp(Self::SOONEST, Self::LATEST);
        (self.latest.elapsed() >= wait).then(|| {
            self.latest = Instant::now();
            elapsed.as_secs()
        })
    }
}

/// Set from a signal handler or another thread: the command ends as soon as it can in order.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks the command to end.
    pub fn set(&self) {
        // The flag guards no data: a thread that sees it late only ends a moment later.
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if the command was asked to end.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for loops that look at it between operations.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// The flag itself, for signal handlers.
    pub fn as_atomic(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(begin: u64, latest: u64) -> Option<u64> {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        let mut timer = ProgressTimer { begin: ago(begin), latest: ago(latest) };
        let due = timer.now();
        assert!(due.is_none() || timer.now().is_none(), "a line is due twice");
        due
    }

    #[test]
    fn a_record_has_the_name_of_the_program_and_the_arguments_as_they_were() {
        let words = |line: &str| recorded(line.split_whitespace().map(OsString::from).collect());
        for program in ["durio", "/usr/bin/durio", "./target/debug/durio", "../durio"] {
            let expected = ["durio", "check", "/data", "--out", "../runs/x"];
            assert_eq!(words(&format!("{program} check /data --out ../runs/x")), expected);
        }
        assert_eq!(words("/opt/durio-0.1/bin/durio-dev"), ["durio-dev"]);
        assert!(words("").is_empty());
    }

    #[test]
    fn a_line_is_due_after_a_tenth_of_the_time_within_bounds() {
        // Seconds since the beginning, since the latest line, and its text.
        let rows = [
            (10, 4, None),
            (10, 6, Some(10)),
            (300, 15, None),
            (300, 31, Some(300)),
            (1000, 30, None),
            (1000, 61, Some(1000)),
        ];
        for (begin, latest, expected) in rows {
            assert_eq!(due(begin, latest), expected, "{begin} {latest}");
        }
        assert_eq!(ProgressTimer::new().now(), None);
    }
}
