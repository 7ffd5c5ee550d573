//! The kinds of this crate's one error.

use std::error::Error;
use std::io;
use std::path::Path;

use durio_base::{CallError, CallErrorKind};
use durio_command::{CommandErrorKind, Ending};

use crate::Outcome;

/// What callers can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordErrorKind {
    /// The path does not lead to a run folder.
    NotARunFolder,
    /// The folder was written by a newer durio.
    NewerSchema,
    /// A file of the folder is not what its format says.
    Malformed,
    /// Another user can write to the folder, and durio is root.
    NotOurs,
    /// Reading or writing failed.
    Io,
}

/// A failed reading or writing of a record.
pub type RecordError = CallError<RecordErrorKind>;

impl CallErrorKind for RecordErrorKind {
    fn from_system(_source: &io::Error) -> Self {
        Self::Io
    }

    fn hint(self, source: &io::Error) -> Option<&'static str> {
        match self {
            Self::NotOurs => {
                Some("run durio as its owner, or make it root's: chown -R root, chmod -R go-w")
            }
            Self::NotARunFolder => Some("durio runs lists the run folders that are kept"),
            Self::NewerSchema => {
                Some("read it with the version of durio that wrote it, or a newer one")
            }
            Self::Malformed => {
                Some("the record is damaged or was modified; durio runs lists the others")
            }
            Self::Io => (source.kind() == io::ErrorKind::StorageFull)
                .then_some("free some space, or name another place with --out"),
        }
    }
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Complete => Self::Complete,
            Outcome::Interrupted => Self::Interrupted,
            Outcome::Failed => Self::Failed(CommandErrorKind::CannotMeasure),
        }
    }
}

/// An error of the system.
pub(crate) fn failed(operation: &'static str, path: &Path, source: io::Error) -> RecordError {
    RecordError::at(operation, path, source)
}

/// An error of the system, or of a file that is not a record's: of another kind, or too long.
pub(crate) fn reading(path: &Path, source: io::Error) -> RecordError {
    match source.kind() {
        io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => {
            malformed("read", path, source)
        }
        _ => failed("read", path, source),
    }
}

pub(crate) fn malformed(
    operation: &'static str,
    path: &Path,
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> RecordError {
    RecordError::because(RecordErrorKind::Malformed, operation, source).about(path.display())
}

/// True if the record's storage refused: the record exists, and its contents cannot be known now.
pub fn is_of_storage(error: &RecordError) -> bool {
    let is_absent =
        matches!(error.source.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
    error.kind == RecordErrorKind::Io && !is_absent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: io::ErrorKind) -> RecordError {
        failed("write", Path::new("/r/f"), kind.into())
    }

    #[test]
    fn a_storage_that_refuses_is_told_from_a_file_that_is_not_there() {
        use io::ErrorKind as Kind;
        for (kind, is_of_storage, is_full) in [
            (Kind::StorageFull, true, true),
            (Kind::Other, true, false),
            (Kind::TimedOut, true, false),
            (Kind::NotFound, false, false),
            (Kind::PermissionDenied, false, false),
        ] {
            let error = of(kind);
            assert_eq!(super::is_of_storage(&error), is_of_storage, "{kind:?}");
            assert_eq!(error.hint().is_some(), is_full, "{kind:?}");
        }
        let damaged = malformed("read", Path::new("/r/f"), "no JSON");
        assert!(!is_of_storage(&damaged));
        assert!(damaged.hint().unwrap().contains("damaged"));
    }

    #[test]
    fn an_error_names_what_was_done_to_which_file_and_why() {
        let error = of(io::ErrorKind::StorageFull);
        assert_eq!(error.to_string(), "cannot write '/r/f'");
        let source = Error::source(&error).unwrap().to_string();
        assert_eq!(source, io::Error::from(io::ErrorKind::StorageFull).to_string());
        for (kind, expected) in [
            (io::ErrorKind::FileTooLarge, RecordErrorKind::Malformed),
            (io::ErrorKind::InvalidInput, RecordErrorKind::Malformed),
            (io::ErrorKind::NotFound, RecordErrorKind::Io),
            (io::ErrorKind::Other, RecordErrorKind::Io),
        ] {
            let read = reading(Path::new("/r/f"), kind.into());
            assert_eq!((read.kind, read.operation), (expected, "read"), "{kind:?}");
        }
    }
}
