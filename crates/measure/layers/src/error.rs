//! Why a stack could not be built, or not be undone.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    Program {
        name: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A driver that is neither in the kernel nor can be loaded.
    Driver {
        module: &'static str,
        /// What it is for.
        purpose: &'static str,
    },
    /// The process is not root's.
    Root,
}

impl Missing {
    pub(crate) const fn program(name: &'static str, package: &'static str) -> Self {
        Self::Program { name, package }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { name, package } => {
                write!(f, "no program {name} (Debian package {package})")
            }
            Self::Driver { module, purpose } => write!(f, "no driver {module} ({purpose})"),
            Self::Root => f.write_str("only root can build it"),
        }
    }
}

/// What went wrong while a stack was checked, built or torn down.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Programs, drivers or the right to build are missing.
    #[error("cannot build stack '{stack}' {}: {}", machine(.missing), list(.missing))]
    Missing { stack: String, missing: Vec<Missing> },
    /// A declaration that no machine, or not this one, can build; a device that is not overwritten; a
    /// command that failed; a layer that came up otherwise than declared: the problem, and what to do.
    #[error("{0}")]
    Failed(String),
    /// The stop flag was set.
    #[error("stopped before stack '{0}' was built; the layers already built have been removed")]
    Stopped(String),
    /// The journal of the build could not be written; nothing is built without it.
    #[error("cannot write the journal of what is built, '{}'", .path.display())]
    Journal { path: PathBuf, source: io::Error },
    /// Building failed, and so did tearing down.
    #[error("{first}; {}", Self::NotTornDown(.left.clone()))]
    AndNotTornDown {
        first: Box<BuildError>,
        /// What could not be undone; it stays in the journal.
        left: Vec<String>,
    },
    /// What could not be undone; it stays in the journal.
    #[error("not everything could be torn down; `durio stack clean` tries again: {}", .0.join("; "))]
    NotTornDown(Vec<String>),
}

impl BuildError {
    pub(super) fn and_not_torn_down(self, left: Vec<String>) -> Self {
        Self::AndNotTornDown { first: Box::new(self), left }
    }

    pub(super) fn journal(path: &Path, source: io::Error) -> Self {
        Self::Journal { path: path.to_owned(), source }
    }
}

/// If a driver is missing, the answer names the kernel.
fn machine(missing: &[Missing]) -> String {
    let has_no_driver = missing.iter().any(|need| matches!(need, Missing::Driver { .. }));
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    if has_no_driver { format!("on Linux {release}") } else { "here".to_owned() }
}

fn list(missing: &[Missing]) -> String {
    let words: Vec<String> = missing.iter().map(Missing::to_string).collect();
    words.join("; ")
}
