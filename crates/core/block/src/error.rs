//! This crate's only error: its kind, the operation, its object, and the system's error.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// What callers can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The path does not exist.
    NotFound,
    /// A right is missing.
    PermissionDenied,
    /// The filesystem or device is read-only.
    ReadOnly,
    /// No space, or over quota.
    NoSpace,
    /// In use by another process.
    Busy,
    /// The kernel, filesystem or device cannot do this.
    Unsupported,
    /// The path is of a type that cannot be measured.
    WrongType,
    /// The device or filesystem answered with an error.
    Io,
}

/// A failed call, with its context.
#[derive(Debug, thiserror::Error)]
pub struct BlockError {
    /// What callers can act on.
    pub kind: ErrorKind,
    /// The operation, as "cannot {operation}".
    pub operation: &'static str,
    /// The file or device, if one is known.
    pub path: Option<PathBuf>,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}", self.operation)?;
        if let Some(path) = &self.path {
            write!(f, " '{}'", path.display())?;
        }
        Ok(())
    }
}

impl BlockError {
    /// An error of a call on `path`.
    pub(crate) fn at(operation: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        let mut error = Self::new(operation, source);
        error.path = Some(path.to_owned());
        error
    }

    /// What the user can do about it, if anything is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        self.hint_for(geteuid().is_root())
    }

    const fn hint_for(&self, is_root: bool) -> Option<&'static str> {
        match self.kind {
            // By an attribute of the file, a rule of the container, or the server of a network filesystem.
            ErrorKind::PermissionDenied if is_root => Some(
                "it is refused even to root: in a container, allow the device (--device); else see \
                 lsattr and dmesg",
            ),
            ErrorKind::PermissionDenied => Some("run as a user who may write there, or as root"),
            ErrorKind::ReadOnly => Some("name a place on a filesystem mounted for writing"),
            ErrorKind::NoSpace => Some("make room, or give a smaller --size"),
            ErrorKind::Busy => Some("it is mounted or in use; name something that is not"),
            _ => None,
        }
    }

    /// An error of a call without a path.
    pub(crate) fn new(operation: &'static str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        Self { kind: kind_of(&source), operation, path: None, source }
    }

    /// An error that durio itself gives, with its reason in words.
    pub(crate) fn because(
        kind: ErrorKind,
        operation: &'static str,
        path: Option<&Path>,
        reason: &str,
    ) -> Self {
        let source = io::Error::other(reason.to_owned());
        Self { kind, operation, path: path.map(Path::to_owned), source }
    }
}

fn kind_of(source: &io::Error) -> ErrorKind {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENXIO | libc::ENODEV) => ErrorKind::NotFound,
        Some(libc::EACCES | libc::EPERM) => ErrorKind::PermissionDenied,
        Some(libc::EROFS) => ErrorKind::ReadOnly,
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => ErrorKind::NoSpace,
        Some(libc::EBUSY | libc::ETXTBSY) => ErrorKind::Busy,
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY | libc::EISDIR) => {
            ErrorKind::Unsupported
        }
        _ => ErrorKind::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_run_as_root() {
        let refused = |number| {
            BlockError::at("open", Path::new("/dev/sdx"), io::Error::from_raw_os_error(number))
        };
        for number in [libc::EPERM, libc::EACCES] {
            let hints = [false, true].map(|is_root| refused(number).hint_for(is_root).unwrap());
            assert!(hints[0].ends_with("or as root"), "{hints:?}");
            assert!(!hints[1].contains("run as") && hints[1].contains("--device"), "{hints:?}");
        }
        assert_eq!(refused(libc::EIO).hint_for(true), None);
    }

    #[test]
    fn each_number_of_the_system_has_its_kind() {
        use ErrorKind::{
            Busy, Io, NoSpace, NotFound, PermissionDenied, ReadOnly, Unsupported, WrongType,
        };
        let numbers = [
            (libc::ENOENT, NotFound),
            (libc::ENOTDIR, NotFound),
            (libc::ENXIO, NotFound),
            (libc::ENODEV, NotFound),
            (libc::EACCES, PermissionDenied),
            (libc::EPERM, PermissionDenied),
            (libc::EROFS, ReadOnly),
            (libc::ENOSPC, NoSpace),
            (libc::EDQUOT, NoSpace),
            (libc::EFBIG, NoSpace),
            (libc::EBUSY, Busy),
            (libc::ETXTBSY, Busy),
            (libc::EINVAL, Unsupported),
            (libc::EOPNOTSUPP, Unsupported),
            (libc::ENOSYS, Unsupported),
            (libc::ENOTTY, Unsupported),
            (libc::EISDIR, Unsupported),
            (libc::EIO, Io),
            (libc::ETIMEDOUT, Io),
            (libc::ENOMEM, Io),
        ];
        for (number, kind) in numbers {
            let error = BlockError::new("open", io::Error::from_raw_os_error(number));
            assert_eq!(error.kind, kind, "{number}");
        }
        assert_eq!(BlockError::new("open", io::Error::other("no number")).kind, Io);
        let given = BlockError::because(WrongType, "open", None, "it is a pipe");
        assert_eq!((given.kind, given.source.to_string()), (WrongType, "it is a pipe".to_owned()));
        let of_kind = |kind| BlockError { kind, ..BlockError::new("x", io::Error::other("")) };
        let has_hint = |kind| of_kind(kind).hint_for(false).is_some();
        let hinted = [PermissionDenied, ReadOnly, NoSpace, Busy].map(has_hint);
        let bare = [NotFound, Unsupported, WrongType, Io].map(has_hint);
        assert_eq!((hinted, bare), ([true; 4], [false; 4]));
    }

    #[test]
    fn an_error_names_its_path_where_it_has_one() {
        let full = || io::Error::from_raw_os_error(libc::ENOSPC);
        let at = BlockError::at("lay out", Path::new("/data/a b"), full());
        assert_eq!(at.to_string(), "cannot lay out '/data/a b'");
        assert_eq!(BlockError::new("lay out", full()).to_string(), "cannot lay out");
    }
}
