//! Why a stack, a device or a counter could not be read.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What callers can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackErrorKind {
    /// Nothing has this name.
    NotFound,
    /// The right to look is missing.
    PermissionDenied,
    /// It exists and cannot be read.
    Unreadable,
    /// Neither a block device nor a regular file.
    NotADevice,
    /// It was read and does not have the documented form.
    Malformed,
}

impl fmt::Display for StackErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "nothing is found at",
            Self::PermissionDenied => "no permission to read",
            Self::Unreadable => "cannot read",
            Self::NotADevice => "neither a block device nor a regular file:",
            Self::Malformed => "not in the documented format:",
        })
    }
}

/// What could not be read, and why.
#[derive(Debug, thiserror::Error)]
#[error("{kind} '{}'", path.display())]
pub struct StackError {
    pub kind: StackErrorKind,
    pub path: PathBuf,
    /// The system's answer, where there is one.
    pub source: Option<io::Error>,
}

impl StackError {
    pub(crate) fn new(kind: StackErrorKind, path: &Path) -> Self {
        Self { kind, path: path.to_owned(), source: None }
    }

    pub(crate) fn from_io(path: &Path, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StackErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => StackErrorKind::PermissionDenied,
            _ => StackErrorKind::Unreadable,
        };
        Self { kind, path: path.to_owned(), source: Some(source) }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn the_message_names_the_path_and_keeps_the_cause_apart() {
        let error = StackError::from_io(Path::new("/srv/x"), io::ErrorKind::NotFound.into());
        assert_eq!(error.kind, StackErrorKind::NotFound);
        assert_eq!(error.to_string(), "nothing is found at '/srv/x'");
        assert!(error.source().is_some());
    }
}
