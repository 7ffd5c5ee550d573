//! Places that the user names, and the files and devices there that are read and written.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How a file that durio makes is laid out before it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileLayout {
    /// Fully written with incompressible contents, no two blocks alike.
    Incompressible,
    /// Fully written with zeros.
    ZeroFilled,
    /// Allocated with fallocate, unwritten.
    Preallocated,
    /// Empty: it grows as it is written.
    Empty,
}

/// The kind of a target, and with it what may happen to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum TargetKind {
    /// A file that durio lays out in `directory` and removes at the end. It has no name (O_TMPFILE)
    /// where the filesystem supports that, else a random one: files under a user's name are the
    /// user's.
    NewFile {
        directory: RawPath,
        /// What it is called in texts.
        file_name: RawPath,
        /// True if the user named it so, false if only the directory was named.
        named: bool,
        /// What it contains before the first step.
        layout: FileLayout,
    },
    /// A regular file that existed before.
    ExistingFile {
        path: RawPath,
    },
    Device {
        path: RawPath,
    },
    /// A character device that completes at once, such as /dev/zero: the null target.
    NullDevice {
        path: RawPath,
    },
    /// Nothing: the null engine's scripted latencies.
    Scripted,
}

/// A file or device to read and write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Short name within the plan: data, log, segment, device, null.
    pub name: String,
    /// The user's path under which this target lies; none for durio's null target.
    pub location: Option<RawPath>,
    #[serde(flatten)]
    pub kind: TargetKind,
    /// The bytes that may be touched, from the start.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    /// True if the user permitted to overwrite what exists (`--destroy`).
    pub destroy: bool,
}

impl Target {
    /// True if steps may write to this target.
    pub fn may_be_written(&self) -> bool {
        match self.kind {
            // durio may write to what it makes; existing targets need the user's permission.
            TargetKind::NewFile { .. } | TargetKind::NullDevice { .. } | TargetKind::Scripted => {
                true
            }
            TargetKind::ExistingFile { .. } | TargetKind::Device { .. } => self.destroy,
        }
    }
}

/// What a location is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocationFacts {
    /// A directory in which files can be laid out.
    Directory {
        /// Bytes that this user may still allocate.
        free: Bytes,
        /// Which filesystem it is on: several directories of one share its free space.
        filesystem: u64,
    },
    /// A path that does not exist, in an existing directory.
    Absent {
        /// Bytes that this user may still allocate there.
        free: Bytes,
    },
    /// An existing regular file.
    File {
        size: Bytes,
    },
    Device {
        size: Bytes,
    },
    /// A character device that completes at once: /dev/zero, /dev/null, /dev/full.
    NullDevice,
}

/// A place that the user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// As the user wrote it.
    pub path: RawPath,
    pub facts: LocationFacts,
    /// True if the user permitted to overwrite it (`--destroy` with this very path).
    pub destroy: bool,
}

impl Location {
    /// The target that it is: what exists, or a file that durio makes, in a directory as `file_name`.
    pub fn target(
        &self,
        name: String,
        file_name: String,
        layout: FileLayout,
        size: Bytes,
    ) -> Target {
        let path = self.path.clone();
        let kind = match self.facts {
            LocationFacts::Directory { .. } => {
                let file_name = RawPath::from(file_name);
                TargetKind::NewFile { directory: path, file_name, named: false, layout }
            }
            LocationFacts::Absent { .. } => {
                let own = path.as_path().file_name().map(RawPath::from);
                let file_name = own.unwrap_or_else(|| RawPath::from(file_name));
                TargetKind::NewFile { directory: self.parent(), file_name, named: true, layout }
            }
            LocationFacts::File { .. } => TargetKind::ExistingFile { path },
            LocationFacts::Device { .. } => TargetKind::Device { path },
            LocationFacts::NullDevice => TargetKind::NullDevice { path },
        };
        Target { name, location: Some(self.path.clone()), kind, size, destroy: self.destroy }
    }

    /// The directory in which it is, or would be.
    pub fn parent(&self) -> RawPath {
        let parent = self.path.as_path().parent();
        // The parent of a bare name is an empty path, which no call takes.
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        RawPath::from(parent.unwrap_or(Path::new(".")))
    }
}

/// A path. Saved as text in which a byte that is not part of valid UTF-8 is `\xNN` and a
/// backslash is `\\`, so that every path survives the way through JSON unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RawPath(PathBuf);

impl RawPath {
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl<P: Into<PathBuf>> From<P> for RawPath {
    fn from(path: P) -> Self {
        Self(path.into())
    }
}

impl fmt::Display for RawPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // JSON is text and a path is bytes: bytes that are not UTF-8 must come back unchanged.
        for chunk in self.0.as_os_str().as_bytes().utf8_chunks() {
            write!(f, "{}", chunk.valid().replace('\\', "\\\\"))?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02X}")?;
            }
        }
        Ok(())
    }
}

/// Reads the saved form; an unknown escape is kept unchanged.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                rest = tail;
            }
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digits = [*high, *low];
                // Else a sign would be taken for a digit.
                let is_number = digits.iter().all(u8::is_ascii_hexdigit);
                let value = std::str::from_utf8(&digits).ok().filter(|_| is_number);
                match value.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                    Some(value) => {
                        bytes.push(value);
                        rest = tail;
                    }
                    None => bytes.push(b'\\'),
                }
            }
            _ => bytes.push(first),
        }
    }
    bytes
}

impl Serialize for RawPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RawPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self(PathBuf::from(OsString::from_vec(unescape(&text)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_target_survives_its_saved_form() {
        let path = RawPath::from("/x");
        let (directory, file_name) = (path.clone(), path.clone());
        let layout = FileLayout::ZeroFilled;
        let kinds = [
            TargetKind::NewFile { directory, file_name, named: false, layout },
            TargetKind::ExistingFile { path: path.clone() },
            TargetKind::Device { path: path.clone() },
            TargetKind::NullDevice { path: path.clone() },
            TargetKind::Scripted,
        ];
        for kind in kinds {
            let location = Some(path.clone());
            let size = Bytes::from_mib(1);
            let target = Target { name: "data".into(), location, kind, size, destroy: false };
            let text = serde_json::to_string(&target).unwrap();
            assert_eq!(serde_json::from_str::<Target>(&text).unwrap(), target, "{text}");
        }
    }

    #[test]
    fn a_path_of_any_bytes_survives_its_saved_form() {
        let paths: [&[u8]; 5] =
            [b"/data", b"with space", b"b\xFFad \xC3\xA4", b"back\\slash\\x41", b"\\"];
        for bytes in paths {
            let path = RawPath::from(PathBuf::from(OsString::from_vec(bytes.to_vec())));
            assert_eq!(unescape(&path.to_string()), bytes, "{path}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_shown_in_hexadecimal() {
        let path = RawPath::from(PathBuf::from(OsString::from_vec(b"a\xFFb".to_vec())));
        assert_eq!(path.to_string(), "a\\xFFb");
    }

    #[test]
    fn an_escape_that_is_none_is_kept_as_it_is() {
        for text in ["\\x+F", "\\x-1", "\\x4", "\\xg0", "\\n", "a\\", "\\x"] {
            assert_eq!(unescape(text), text.as_bytes(), "{text}");
        }
        assert_eq!(unescape("\\x4a\\x4A\\\\x41"), b"JJ\\x41");
    }

    #[test]
    fn each_place_makes_its_own_kind_of_target() {
        let free = Bytes::from_mib(5);
        let size = Bytes::from_mib(1);
        let layout = FileLayout::Preallocated;
        let new = |directory: &str, file_name: &str, named| TargetKind::NewFile {
            directory: directory.into(),
            file_name: file_name.into(),
            named,
            layout,
        };
        let rows = [
            ("/d", LocationFacts::Directory { free, filesystem: 1 }, new("/d", "own", false), true),
            ("/d/f", LocationFacts::Absent { free }, new("/d", "f", true), true),
            ("f", LocationFacts::Absent { free }, new(".", "f", true), true),
            (
                "/d/f",
                LocationFacts::File { size },
                TargetKind::ExistingFile { path: "/d/f".into() },
                false,
            ),
            (
                "/dev/x",
                LocationFacts::Device { size },
                TargetKind::Device { path: "/dev/x".into() },
                false,
            ),
            (
                "/dev/null",
                LocationFacts::NullDevice,
                TargetKind::NullDevice { path: "/dev/null".into() },
                true,
            ),
        ];
        for (path, facts, kind, is_writable) in rows {
            for destroy in [false, true] {
                let location = Location { path: path.into(), facts, destroy };
                let target = location.target("data".into(), "own".into(), layout, size);
                assert_eq!(target.kind, kind, "{path}");
                assert_eq!((target.destroy, target.size), (destroy, size), "{path}");
                assert_eq!(target.location, Some(RawPath::from(path)), "{path}");
                assert_eq!(target.may_be_written(), is_writable || destroy, "{path}");
            }
        }
    }
}
