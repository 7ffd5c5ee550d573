//! A path of any bytes, in a form that can be saved as text.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path. Saved as text in which a byte that is not part of valid UTF-8 is `\xNN` and a
/// backslash is `\\`, so that every path survives the way through JSON unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RawPath(PathBuf);

impl RawPath {
    /// The path itself.
    #[must_use]
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
    /// The saved form.
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
                let value = std::str::from_utf8(&digits).ok();
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
}
