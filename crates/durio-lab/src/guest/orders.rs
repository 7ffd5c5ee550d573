//! What a guest shall do, as its image says.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Where a command puts what shall be brought out.
pub(crate) const OUT_FOLDER: &str = "/run/durio/out";

/// The orders.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// Modules to load first, in this order.
    pub(super) modules: Vec<PathBuf>,
    /// The command and its arguments.
    pub(super) command: Vec<OsString>,
    /// Variables for it.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Where it is run, if that is there.
    pub(super) directory: PathBuf,
    /// The text of the lab's facts.
    pub(super) facts: String,
    /// Send what is in [`OUT_FOLDER`] at the end.
    pub(super) brings_out: bool,
    /// The root is the host's, below a layer of memory.
    pub(super) shares_root: bool,
}

impl Orders {
    /// Reads them.
    ///
    /// # Errors
    /// A file that is missing.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let load = fs::read_to_string(folder.join("load"))?;
        let pairs = words(&fs::read(folder.join("environment"))?);
        Ok(Self {
            modules: load.lines().map(PathBuf::from).collect(),
            command: words(&fs::read(folder.join("command"))?).map(OsString::from_vec).collect(),
            environment: pairs.filter_map(|it| pair(&it)).collect(),
            directory: PathBuf::from(OsString::from_vec(fs::read(folder.join("directory"))?)),
            facts: fs::read_to_string(folder.join("facts"))?,
            brings_out: folder.join("bring-out").exists(),
            shares_root: folder.join("layer").is_dir(),
        })
    }

    /// The word for the timing.
    pub(super) fn timing(&self) -> &str {
        let line = self.facts.lines().find_map(|line| line.strip_prefix("timing "));
        line.unwrap_or_default()
    }
}

/// Words with a zero byte after each.
fn words(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + use<> {
    let mut words: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    words.pop();
    words.into_iter()
}

fn pair(bytes: &[u8]) -> Option<(OsString, OsString)> {
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let (name, value) = bytes.split_at_checked(at)?;
    let value = value.get(1..)?.to_vec();
    Some((OsString::from_vec(name.to_vec()), OsString::from_vec(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_be_empty_and_have_any_bytes() {
        let found: Vec<_> = words(b"a\0\0\xff b\0").collect();
        assert_eq!(found, [b"a".to_vec(), b"".to_vec(), b"\xff b".to_vec()]);
        assert_eq!(words(&[]).count(), 0);
    }

    #[test]
    fn a_value_may_have_an_equals_sign() {
        let (name, value) = pair(b"A=b=c").unwrap();
        assert_eq!((name.to_str(), value.to_str()), (Some("A"), Some("b=c")));
        assert!(pair(b"none").is_none());
    }

    #[test]
    fn orders_that_are_missing_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Orders::read(folder.path()).is_err());
    }
}
