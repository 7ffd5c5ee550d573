//! The fio of this machine: found, asked for its version, run.
//!
//! In: a path or none, jobs as options. Out: [`Fio`], [`FioRun`]. Not here: which jobs to run, and
//! reading its JSON.

mod command;
mod process;

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use durio_block::ANSWER_LIMIT;

use crate::FioError;

pub use command::{FioCommand, JobOptions};
pub use process::{FioRun, run_fio};

/// The oldest fio that is run: that of Ubuntu 22.04.
pub const OLDEST: FioVersion = FioVersion { major: 3, minor: 28 };

/// A fio that answers and is new enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fio {
    /// The program.
    pub path: PathBuf,
    /// Its version.
    pub version: FioVersion,
    /// Its version as it says it: `fio-3.33`.
    pub version_text: String,
}

impl Fio {
    /// The fio at `given`, or the first in `PATH`.
    ///
    /// # Errors
    /// [`FioError::NotInstalled`], [`FioError::NotFioProgram`], [`FioError::TooOldProgram`], and
    /// [`FioError::Process`] if it cannot be started.
    pub fn find(given: Option<&Path>) -> Result<Self, FioError> {
        let path = match given {
            Some(path) if path.is_file() => path.to_owned(),
            Some(path) => return Err(absent(format!("'{}' is no file", path.display()))),
            None => in_search_path().ok_or_else(|| absent("it is not in PATH".to_owned()))?,
        };
        let version_text = ask(&path)?;
        let Ok(version) = version_text.parse::<FioVersion>() else {
            return Err(FioError::NotFioProgram { path, answer: version_text });
        };
        if version < OLDEST {
            let needed = OLDEST.to_string();
            return Err(FioError::TooOldProgram { path, version: version_text, needed });
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
    Ok(line.chars().take(80).collect())
}

/// A release of fio, or what was built after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FioVersion {
    /// Before the point.
    pub major: u32,
    /// After the point: 9 is before 10.
    pub minor: u32,
}

/// Not a version of fio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a version of fio, which is as fio-3.33")]
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
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { digits.parse().ok() } else { None }
}

impl fmt::Display for FioVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fio-{}.{}", self.major, self.minor)
    }
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
}
