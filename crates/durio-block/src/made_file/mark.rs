//! What tells a file that durio made from every other.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, XattrFlags, fgetxattr, fsetxattr, statx};
use rustix::ioctl::{Updater, ioctl};
use serde::{Deserialize, Serialize};

use crate::BlockError;

/// How the names begin that durio gives; the random word follows.
const NAME: &str = ".durio-";

/// The attribute that has the random word. Of the user's attributes, for `trusted` ones need
/// CAP_SYS_ADMIN (xattr(7)) and durio is used without; that a copy takes it along (`cp -a`) does no
/// harm, for it is never the only sign.
const ATTRIBUTE: &str = "user.durio";

/// A random word of 122 bits, as text; random.c of the kernel makes a new one for each reader.
const RANDOM_WORD: &str = "/proc/sys/kernel/random/uuid";

/// FS_IOC_GETVERSION, `_IOR('v', 1, long)` (linux/fs.h).
const GET_VERSION: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<std::ffi::c_long>(b'v', 1);

/// What tells a file that durio made with a name from every other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    /// The random word in its name.
    pub word: String,
    /// True if the same word is in its attribute `user.durio`; false before the file is made, and on
    /// filesystems without such attributes.
    #[serde(default)]
    pub in_attribute: bool,
    /// When the filesystem says that it was made: seconds and nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub birth: Option<(i64, u32)>,
    /// The generation of its inode, where the filesystem tells: another one each time that the
    /// inode's number is given out again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

impl FileMark {
    /// A new one, of a file that is not there yet.
    ///
    /// # Errors
    /// If the kernel gives no random word.
    pub fn new() -> Result<Self, BlockError> {
        let word = fs::read_to_string(RANDOM_WORD)
            .map_err(|error| BlockError::at("read", Path::new(RANDOM_WORD), error))?;
        let word = word.trim().to_owned();
        Ok(Self { word, in_attribute: false, birth: None, generation: None })
    }

    /// The name that only a file of this mark has.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{NAME}{}", self.word)
    }

    /// Writes the mark on a file that was just made, and adds what the filesystem tells of it.
    pub(super) fn put_on(self, file: BorrowedFd<'_>) -> Self {
        let written = fsetxattr(file, ATTRIBUTE, self.word.as_bytes(), XattrFlags::CREATE);
        let in_attribute = written.is_ok() && has_word(file, &self.word);
        Self { in_attribute, birth: birth(file), generation: generation(file), ..self }
    }

    /// True if the file has all that was found on the file when it was made.
    pub(super) fn is_on(&self, file: BorrowedFd<'_>) -> bool {
        (!self.in_attribute || has_word(file, &self.word))
            && (self.birth.is_none() || self.birth == birth(file))
            && (self.generation.is_none() || self.generation == generation(file))
    }
}

fn has_word(file: BorrowedFd<'_>, word: &str) -> bool {
    // One byte more: a longer value is another one.
    let mut value = vec![0; word.len() + 1];
    fgetxattr(file, ATTRIBUTE, &mut value[..]) == Ok(word.len())
        && value.starts_with(word.as_bytes())
}

fn birth(file: BorrowedFd<'_>) -> Option<(i64, u32)> {
    let stat = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    known.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec))
}

fn generation(file: BorrowedFd<'_>) -> Option<u32> {
    // The request says long, and the filesystems put an int: the first of two words on 64 bits.
    let mut version = [0_u32; size_of::<std::ffi::c_long>() / 4];
    // SAFETY: the kernel writes a long at most, there is room for one, and all of it has a value.
    unsafe { ioctl(file, Updater::<GET_VERSION, _>::new(&mut version)) }.ok()?;
    Some(version[0])
}
