//! The fio of this machine: found, asked for its version, run.
//!
//! In: a path or none, jobs as options. Out: [`Fio`], [`FioRun`]. Not here: which jobs to run, and
//! reading its JSON.

mod command;
mod process;
mod version;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use durio_block::ANSWER_LIMIT;

use crate::FioError;

pub use command::{FioCommand, JobOptions};
pub use process::{FioRun, run_fio};
pub use version::FioVersion;

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
