//! The error of a failed call: its kind, the operation, its subject, and the system's error.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

/// What callers can act on.
pub trait CallErrorKind: Copy + fmt::Debug {
    /// The kind of an error that the system gave.
    fn from_system(source: &io::Error) -> Self;

    /// What the user can do about an error of this kind, if anything is known.
    #[must_use]
    fn hint(self, _source: &io::Error) -> Option<&'static str> {
        None
    }
}

/// A failed call, with its context.
#[derive(Debug)]
pub struct CallError<K> {
    /// What callers can act on.
    pub kind: K,
    /// The operation, as "cannot {operation}".
    pub operation: &'static str,
    /// The file, device or address, if one is known.
    pub subject: Option<String>,
    /// The system's error, or the reason that durio gives.
    pub source: io::Error,
}

impl<K> fmt::Display for CallError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}", self.operation)?;
        match &self.subject {
            Some(subject) => write!(f, " '{subject}'"),
            None => Ok(()),
        }
    }
}

impl<K: fmt::Debug> Error for CallError<K> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

impl<K> CallError<K> {
    /// An error that durio itself gives, with its reason.
    pub fn because(
        kind: K,
        operation: &'static str,
        reason: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { kind, operation, subject: None, source: io::Error::other(reason) }
    }

    /// The same error about `subject`.
    #[must_use]
    pub fn about(self, subject: impl fmt::Display) -> Self {
        Self { subject: Some(subject.to_string()), ..self }
    }
}

impl<K: CallErrorKind> CallError<K> {
    /// An error of a call without a subject.
    pub fn new(operation: &'static str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        Self { kind: K::from_system(&source), operation, subject: None, source }
    }

    /// An error of a call on `path`.
    pub fn at(operation: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::new(operation, source).about(path.display())
    }

    /// What the user can do about it, if anything is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        self.kind.hint(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum ToyKind {
        Absent,
        Other,
    }

    impl CallErrorKind for ToyKind {
        fn from_system(source: &io::Error) -> Self {
            match source.kind() {
                io::ErrorKind::NotFound => Self::Absent,
                _ => Self::Other,
            }
        }
    }

    #[test]
    fn an_error_names_its_subject_where_it_has_one_and_keeps_the_cause_apart() {
        let absent = || CallError::<ToyKind>::new("lay out", io::ErrorKind::NotFound);
        assert_eq!(
            (absent().to_string(), absent().kind),
            ("cannot lay out".into(), ToyKind::Absent)
        );
        let at =
            CallError::<ToyKind>::at("lay out", Path::new("/data/a b"), io::ErrorKind::TimedOut);
        assert_eq!(
            (at.to_string(), at.kind),
            ("cannot lay out '/data/a b'".into(), ToyKind::Other)
        );
        let given = CallError::because(ToyKind::Absent, "open", "it is a pipe").about(7);
        assert_eq!((given.to_string(), given.hint()), ("cannot open '7'".into(), None));
        assert_eq!(given.source().map(ToString::to_string), Some("it is a pipe".to_owned()));
    }
}
