//! The one error of this crate.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use durio_command::{CommandError, CommandErrorKind, Ending};

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
#[derive(Debug)]
pub struct RecordError {
    /// What callers can act on.
    pub kind: RecordErrorKind,
    /// The operation, as "cannot {operation}".
    pub operation: &'static str,
    pub path: PathBuf,
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} '{}'", self.operation, self.path.display())
    }
}

impl std::error::Error for RecordError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.source.as_ref())
    }
}

impl From<RecordError> for CommandError {
    fn from(error: RecordError) -> Self {
        let hint = match error.kind {
            RecordErrorKind::NotOurs => {
                Some("run durio as its owner, or make it root's: chown -R root, chmod -R go-w")
            }
            RecordErrorKind::NotARunFolder => {
                Some("durio runs lists the run folders that are kept")
            }
            RecordErrorKind::NewerSchema => {
                Some("read it with the durio that wrote it, or a newer one")
            }
            RecordErrorKind::Malformed => {
                Some("the record is damaged, or was changed; durio runs lists the others")
            }
            RecordErrorKind::Io => {
                error.is_disk_full().then_some("make room, or name another place with --out")
            }
        };
        let error = Self::of(CommandErrorKind::CannotMeasure, error);
        hint.into_iter().fold(error, Self::hint)
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

impl RecordError {
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self { kind: RecordErrorKind::Io, operation, path, source: source.into() }
    }

    /// An error of the system, or of a file that is not a record's: of another kind, or too long.
    pub(crate) fn reading(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => {
                Self::malformed("read", path, source)
            }
            _ => Self::io("read", path, source),
        }
    }

    pub(crate) fn malformed(
        operation: &'static str,
        path: &Path,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let path = path.to_owned();
        Self { kind: RecordErrorKind::Malformed, operation, path, source: source.into() }
    }

    /// True if the record's storage refused: it is there, and its contents cannot be known now.
    pub fn is_of_storage(&self) -> bool {
        let source = self.source.downcast_ref::<io::Error>().map(io::Error::kind);
        let is_absent =
            matches!(source, Some(io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied));
        self.kind == RecordErrorKind::Io && !is_absent
    }

    /// True if the record's own disk is full.
    pub fn is_disk_full(&self) -> bool {
        let source = self.source.downcast_ref::<io::Error>();
        source.is_some_and(|error| error.kind() == io::ErrorKind::StorageFull)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: io::ErrorKind) -> RecordError {
        RecordError::io("write", Path::new("/r/f"), kind.into())
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
            assert_eq!(error.is_of_storage(), is_of_storage, "{kind:?}");
            assert_eq!(error.is_disk_full(), is_full, "{kind:?}");
        }
        let damaged = RecordError::malformed("read", Path::new("/r/f"), "no JSON");
        assert!(!damaged.is_of_storage() && !damaged.is_disk_full());
    }

    #[test]
    fn an_error_names_what_was_done_to_which_file_and_why() {
        let error = of(io::ErrorKind::StorageFull);
        assert_eq!(error.to_string(), "cannot write '/r/f'");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, io::Error::from(io::ErrorKind::StorageFull).to_string());
        for (kind, expected) in [
            (io::ErrorKind::FileTooLarge, RecordErrorKind::Malformed),
            (io::ErrorKind::InvalidInput, RecordErrorKind::Malformed),
            (io::ErrorKind::NotFound, RecordErrorKind::Io),
            (io::ErrorKind::Other, RecordErrorKind::Io),
        ] {
            let read = RecordError::reading(Path::new("/r/f"), kind.into());
            assert_eq!((read.kind, read.operation), (expected, "read"), "{kind:?}");
        }
    }
}
