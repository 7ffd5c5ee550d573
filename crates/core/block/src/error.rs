//! The kinds of this crate's only error.

use std::io;

use durio_base::{CallError, CallErrorKind};
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

/// A failed call on a file or device.
pub type BlockError = CallError<ErrorKind>;

impl CallErrorKind for ErrorKind {
    fn from_system(source: &io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR | libc::ENXIO | libc::ENODEV) => Self::NotFound,
            Some(libc::EACCES | libc::EPERM) => Self::PermissionDenied,
            Some(libc::EROFS) => Self::ReadOnly,
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => Self::NoSpace,
            Some(libc::EBUSY | libc::ETXTBSY) => Self::Busy,
            Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY | libc::EISDIR) => {
                Self::Unsupported
            }
            _ => Self::Io,
        }
    }

    fn hint(self, _source: &io::Error) -> Option<&'static str> {
        self.hint_for(geteuid().is_root())
    }
}

impl ErrorKind {
    const fn hint_for(self, is_root: bool) -> Option<&'static str> {
        match self {
            // By an attribute of the file, a rule of the container, or the server of a network filesystem.
            Self::PermissionDenied if is_root => Some(
                "it is refused even to root: in a container, allow the device (--device); else see \
                 lsattr and dmesg",
            ),
            Self::PermissionDenied => Some("run as a user who may write there, or as root"),
            Self::ReadOnly => Some("name a place on a filesystem mounted read-write"),
            Self::NoSpace => Some("free some space, or use a smaller --size"),
            Self::Busy => Some("it is mounted or in use; name something that is not"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn root_is_not_told_to_run_as_root() {
        let refused = |number| {
            BlockError::at("open", Path::new("/dev/sdx"), io::Error::from_raw_os_error(number))
        };
        for number in [libc::EPERM, libc::EACCES] {
            let hints =
                [false, true].map(|is_root| refused(number).kind.hint_for(is_root).unwrap());
            assert!(hints[0].ends_with("or as root"), "{hints:?}");
            assert!(!hints[1].contains("run as") && hints[1].contains("--device"), "{hints:?}");
        }
        assert_eq!(refused(libc::EIO).kind.hint_for(true), None);
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
        let given = BlockError::because(WrongType, "open", "it is a pipe");
        assert_eq!((given.kind, given.source.to_string()), (WrongType, "it is a pipe".to_owned()));
        let has_hint = |kind: ErrorKind| kind.hint_for(false).is_some();
        let hinted = [PermissionDenied, ReadOnly, NoSpace, Busy].map(has_hint);
        let bare = [NotFound, Unsupported, WrongType, Io].map(has_hint);
        assert_eq!((hinted, bare), ([true; 4], [false; 4]));
    }
}
