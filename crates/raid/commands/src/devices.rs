//! Devices that are members, or may become members: held with their permits, open, and read.
//!
//! Which of them make an array is for durio-raid to say.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durio_block::{
    DirectIo, HeldTarget, OpenMode, TargetAccess, TargetType, WriteFlags, direct_io, drop_cached,
    probe_write_flags,
};
use durio_command::{CommandError, Permission, locate};
use durio_raid::server::{MemberFile, find_member};
use durio_raid::{FoundDevice, SuperblockError};

/// A device that this server holds.
#[derive(Debug)]
pub(super) struct ServerDevice {
    /// The server's name of it.
    pub(super) number: u8,
    pub(super) path: PathBuf,
    access: Arc<TargetAccess>,
    /// Open for writing. The ring's files are in no list of descriptors: this one shows other
    /// processes which process has the device.
    file: File,
}

impl ServerDevice {
    /// True if this path leads to it, or once did.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let identity = HeldTarget::open(path).map(|target| target.identity());
        identity.is_ok_and(|identity| identity == self.access.target().identity())
            || self.path == path
    }

    /// Its size now: a file may have been made longer since it was claimed.
    pub(super) fn bytes(&self) -> Result<u64, CommandError> {
        let size = (&self.file).seek(SeekFrom::End(0));
        size.map_err(|error| CommandError::io("find the size of", &self.path, error))
    }

    /// Makes a file that was truncated as long as a member has to be.
    pub(super) fn lengthen(&self, needed: u64) -> Result<(), CommandError> {
        let is_file = matches!(self.access.target().kind(), TargetType::File(_));
        if !is_file || self.bytes()? >= needed {
            return Ok(());
        }
        let longer = self.file.set_len(needed);
        longer.map_err(|error| CommandError::io("lengthen", &self.path, error))
    }

    pub(super) fn find(&self) -> Result<Result<FoundDevice, SuperblockError>, CommandError> {
        let file = open_direct(&self.access, false)?;
        let found = find_member(&file, self.number, self.bytes()?);
        found.map_err(|error| CommandError::io("read the superblocks of", &self.path, error))
    }

    /// It, open for writing.
    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// As the server takes it.
    pub(super) fn member_file(&self) -> Result<MemberFile, CommandError> {
        let claim = match &*self.access {
            TargetAccess::Write(permit) => permit.claim()?,
            TargetAccess::Read(..) => None,
        };
        let file = open_direct(&self.access, true)?.into();
        Ok(MemberFile { device: self.number, file, claim })
    }

    /// The alignment that the device needs for offsets and lengths.
    pub(super) fn alignment(&self) -> Result<u32, CommandError> {
        let asked = match direct_io(self.file.as_fd()) {
            DirectIo::Possible(alignment) | DirectIo::CachesParts(alignment) => {
                alignment.offset.get()
            }
            // It goes through the page cache.
            DirectIo::Impossible => 512,
            // A kernel that does not tell: no device asks for more.
            DirectIo::Unknown => 4096,
        };
        u32::try_from(asked.clamp(512, 4096).next_power_of_two())
            .map_err(|_| CommandError::cannot_measure("an alignment of more than a block"))
    }
}

/// Looks devices up and claims them, numbered from `first` on.
pub(super) fn claim_devices(
    paths: &[PathBuf],
    permission: Permission<'_>,
    first: u8,
) -> Result<Vec<ServerDevice>, CommandError> {
    let located = locate(paths, permission)?;
    let claim = |(number, path): (u8, &PathBuf)| {
        let nothing = || CommandError::cannot_measure(format!("'{}' is no member", path.display()));
        let access = located.held.find(path).map_err(|_| nothing())?;
        let bytes = match access.target().kind() {
            TargetType::File(size) | TargetType::BlockDevice(size) => size.get(),
            TargetType::Directory | TargetType::NullDevice => return Err(nothing()),
        };
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        refuse_without_flags(&access, &path)?;
        let file = open_direct(&access, true)?;
        // Recognising the device filled the page cache, where each direct write would look for
        // pages to invalidate. If the pages stay, that is the only cost.
        let _ = drop_cached(file.as_fd(), 0, bytes);
        Ok(ServerDevice { number, path, access, file })
    };
    (first..).zip(paths).map(claim).collect()
}

/// Writes must be durable by flag, because nothing else makes them durable here.
fn refuse_without_flags(access: &TargetAccess, path: &Path) -> Result<(), CommandError> {
    let opened = access.open(OpenMode::default())?;
    probe_write_flags(&opened.file, WriteFlags::Dsync).map_err(|error| {
        let text = format!("'{}' takes no writes that are durable (RWF_DSYNC)", path.display());
        CommandError::cannot(error).context(text)
    })
}

/// Past the page cache, where that is possible.
pub(super) fn open_direct(access: &TargetAccess, write: bool) -> Result<File, CommandError> {
    let opened = access.open(OpenMode { write, direct: true, ..OpenMode::default() })?;
    Ok(opened.file.into())
}
