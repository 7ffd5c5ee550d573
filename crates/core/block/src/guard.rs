//! The guard: what exists is held by one descriptor, known by its numbers, and written to only with a
//! permit.
//!
//! A [`HeldTarget`] comes from a path that a user named, and a [`WritePermit`] from it: the only
//! value by which something that existed before durio is opened for writing. durio-observe finds
//! who uses a device; the command line reads the words of the permission.
//!
//! A name is looked up once. Whatever becomes of the name, the object that was looked at, permitted
//! and written to is the same, because one descriptor stands for it throughout.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durio_base::Bytes;
use rustix::fs::{
    FileType, FlockOperation, Mode, OFlags, SeekFrom, Stat, flock, fstat, open as open_at, seek,
};
use rustix::io::Errno;

use crate::open::{OpenMode, OpenTarget, open_path};
use crate::{BlockError, ErrorKind};

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetType {
    Directory,
    /// A regular file of this size.
    File(Bytes),
    /// A block device of this size.
    BlockDevice(Bytes),
    /// A character device that completes at once and keeps nothing: /dev/null, /dev/zero, /dev/full.
    NullDevice,
}

impl TargetType {
    /// Bytes of a file or block device.
    #[must_use]
    pub const fn bytes(self) -> Option<u64> {
        match self {
            Self::File(size) | Self::BlockDevice(size) => Some(size.get()),
            Self::Directory | Self::NullDevice => None,
        }
    }
}

/// What a thing is, by numbers: the same for all its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetIdentity {
    /// A device, by its number.
    Device(u64),
    /// A file or directory, by the device of its filesystem and its inode.
    Inode(u64, u64),
}

impl TargetIdentity {
    fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::BlockDevice | FileType::CharacterDevice => Self::Device(stat.st_rdev),
            _ => Self::Inode(stat.st_dev, stat.st_ino),
        }
    }
}

/// Something that exists, held by a descriptor from the moment that its name was looked up.
#[derive(Debug)]
pub struct HeldTarget {
    path: PathBuf,
    /// O_PATH: nothing is read or started by holding it, and no device is woken.
    anchor: OwnedFd,
    kind: TargetType,
    identity: TargetIdentity,
}

impl HeldTarget {
    /// Looks up `path`, following symbolic links, and holds what it leads to.
    ///
    /// # Errors
    /// If it does not exist, may not be looked at, or is a socket, a pipe or the like.
    pub fn open(path: &Path) -> Result<Self, BlockError> {
        let fail = |errno: Errno| BlockError::at("look at", path, errno);
        let hold = |flags| open_at(path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty());
        let mut anchor = hold(OFlags::empty()).map_err(fail)?;
        let mut stat = fstat(&anchor).map_err(fail)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            // A filesystem that is mounted by its first use is mounted by O_DIRECTORY, not by O_PATH
            // alone (follow_automount in the kernel's fs/namei.c).
            anchor = hold(OFlags::DIRECTORY).map_err(fail)?;
            stat = fstat(&anchor).map_err(fail)?;
        }
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => TargetType::Directory,
            FileType::RegularFile => TargetType::File(Bytes::new(stat.st_size.cast_unsigned())),
            FileType::CharacterDevice if is_null(&stat) => TargetType::NullDevice,
            FileType::CharacterDevice => {
                return Err(not_storage(path, "it is a character device, not storage"));
            }
            FileType::BlockDevice => TargetType::BlockDevice(
                size_of_device(&anchor).map_err(|errno| BlockError::at("open", path, errno))?,
            ),
            _ => {
                return Err(not_storage(path, "it is neither a directory, a file nor a device"));
            }
        };
        let identity = TargetIdentity::of(&stat);
        Ok(Self { path: path.to_owned(), anchor, kind, identity })
    }

    /// As it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub const fn kind(&self) -> TargetType {
        self.kind
    }

    /// The numbers by which it is known.
    #[must_use]
    pub const fn identity(&self) -> TargetIdentity {
        self.identity
    }

    /// A path that leads this process to the very thing, whatever its name leads to by now.
    #[must_use]
    pub fn path_here(&self) -> PathBuf {
        descriptor_path("self", &self.anchor)
    }

    /// The same for other processes of this user.
    #[must_use]
    pub fn path_for_others(&self) -> PathBuf {
        descriptor_path(&std::process::id().to_string(), &self.anchor)
    }

    /// Opens it for reading.
    ///
    /// # Errors
    /// If that fails, or `mode` is one of writing: that takes a permit.
    pub fn open_to_read(&self, mode: OpenMode) -> Result<OpenTarget, BlockError> {
        match mode.write {
            false => self.open_as(mode),
            true => Err(BlockError::at("write without a permit to", &self.path, Errno::PERM)),
        }
    }

    fn open_as(&self, mode: OpenMode) -> Result<OpenTarget, BlockError> {
        open_path(&self.path_here(), mode).map_err(|error| error.about(self.path.display()))
    }

    /// Shows other durio processes that a file is being read (`flock`, shared), as long as the lock
    /// lives. Nodes of devices are not locked: udev locks them too, for moments, and waits while
    /// they are locked (systemd, BLOCK_DEVICE_LOCKING).
    ///
    /// # Errors
    /// [`GuardRefusal::Locked`] if another process has locked it to write to it.
    pub fn lock_to_read(&self) -> Result<Option<OwnedFd>, GuardRefusal> {
        if !matches!(self.kind, TargetType::File(_)) {
            return Ok(None);
        }
        // What cannot be opened says so when it is measured.
        self.locked(OFlags::empty(), FlockOperation::NonBlockingLockShared).or_else(|refusal| {
            if matches!(refusal, GuardRefusal::Failed(_)) { Ok(None) } else { Err(refusal) }
        })
    }

    /// An open descriptor with a lock on it; none where the filesystem has no locks, or has them only
    /// for descriptors that may write (NFS).
    fn locked(&self, flags: OFlags, lock: FlockOperation) -> Result<Option<OwnedFd>, GuardRefusal> {
        // A claim and a lock need no right to write; and opening for writing would have udev look
        // at the device when it is closed.
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match open_at(self.path_here(), flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::BUSY) => return Err(GuardRefusal::Claimed),
            Err(errno) => return Err(BlockError::at("open", &self.path, errno).into()),
        };
        let is_file = matches!(self.kind, TargetType::File(_));
        match is_file.then(|| flock(&file, lock)) {
            Some(Err(Errno::WOULDBLOCK)) => Err(GuardRefusal::Locked),
            _ => Ok(Some(file)),
        }
    }

    /// The one way to a permit to write to what existed before.
    ///
    /// The permit claims the target: a device exclusively (it cannot be mounted or become part of
    /// an array), a file by a lock that other durio processes obey.
    ///
    /// # Errors
    /// Why it must not be written to.
    pub fn permit(self, reason: WriteReason, usage: &Usage) -> Result<WritePermit, GuardRefusal> {
        if !usage.users.is_empty() {
            return Err(GuardRefusal::InUse(usage.users.clone()));
        }
        if reason == WriteReason::KeepsNothing && self.kind != TargetType::NullDevice {
            return Err(BlockError::at("write without a permit to", &self.path, Errno::PERM).into());
        }
        let (own, others): (Vec<_>, Vec<_>) =
            usage.signatures.iter().cloned().partition(|signature| signature == MEMBER_SIGNATURE);
        match reason {
            WriteReason::Member if own.is_empty() => return Err(GuardRefusal::NoMember),
            WriteReason::Member if !others.is_empty() => {
                return Err(GuardRefusal::Signatures(others));
            }
            WriteReason::Member
            | WriteReason::Built
            | WriteReason::Named { force_signature: true } => {}
            _ if usage.signatures.is_empty() => {}
            _ => return Err(GuardRefusal::Signatures(usage.signatures.clone())),
        }
        let is_device = matches!(self.kind, TargetType::BlockDevice(_));
        // On a block device O_EXCL is a claim, also of a descriptor that only reads (open(2)).
        let exclusive = if is_device { OFlags::EXCL } else { OFlags::empty() };
        let claim = match self.kind {
            TargetType::NullDevice => None,
            _ => self.locked(exclusive, FlockOperation::NonBlockingLockExclusive)?,
        };
        match &claim {
            Some(file) if !is_device && has_writers(file.as_fd()) => Err(GuardRefusal::Written),
            _ => Ok(WritePermit { target: self, reason, claim }),
        }
    }
}

/// The known uses of a target that is about to be overwritten.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// Who uses it, a clause each: "/dev/sdb1 is mounted on /data".
    pub users: Vec<String>,
    /// The signatures on it: "ext4".
    pub signatures: Vec<String>,
}

/// Why something that existed before may be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteReason {
    /// The user named it with `--destroy`.
    Named {
        /// `--force-signature` was given: signatures on it may be lost.
        force_signature: bool,
    },
    /// It is /dev/null or the like.
    KeepsNothing,
    /// It is a layer that durio built, or is on a device that durio was permitted to overwrite.
    Built,
    /// It is a member of an array that the user starts: [`MEMBER_SIGNATURE`] is its only signature.
    Member,
}

/// The signature of a member of a durio array.
pub const MEMBER_SIGNATURE: &str = "durio raid";

/// Why something must not be written to.
#[derive(Debug, thiserror::Error)]
pub enum GuardRefusal {
    /// It is in use.
    #[error("it is in use: {}", .0.join("; "))]
    InUse(Vec<String>),
    /// Something is on it.
    #[error("it holds {}", .0.join(", "))]
    Signatures(Vec<String>),
    /// It should be a member of one of durio's arrays.
    #[error("it is not a member of a durio RAID")]
    NoMember,
    /// A process holds the device exclusively, possibly in another namespace.
    #[error("another process or filesystem holds it exclusively")]
    Claimed,
    /// The file is open for writing: by a program, a loop device, swap.
    #[error(
        "it is open for writing by an unknown holder: the kernel (a loop device, an NFS server) \
         or a program of another user"
    )]
    Written,
    /// Another durio is at work on it.
    #[error("another durio or another program has locked it")]
    Locked,
    /// It cannot be opened.
    #[error(transparent)]
    Failed(#[from] BlockError),
}

/// A permit to write to one thing that existed before durio.
#[derive(Debug)]
pub struct WritePermit {
    target: HeldTarget,
    reason: WriteReason,
    /// While this is open, no other process can have the target exclusively.
    claim: Option<OwnedFd>,
}

impl WritePermit {
    /// What may be written to.
    #[must_use]
    pub const fn target(&self) -> &HeldTarget {
        &self.target
    }

    #[must_use]
    pub const fn reason(&self) -> WriteReason {
        self.reason
    }

    /// One more descriptor of what claims it: the claim ends with the last of them.
    pub fn claim(&self) -> Result<Option<OwnedFd>, BlockError> {
        let cloned = self.claim.as_ref().map(OwnedFd::try_clone).transpose();
        cloned.map_err(|error| BlockError::at("claim", self.target.path(), error))
    }

    /// Opens it, also for writing.
    pub fn open(&self, mode: OpenMode) -> Result<OpenTarget, BlockError> {
        self.target.open_as(mode)
    }
}

/// An existing target to measure, with its permitted uses.
#[derive(Debug)]
pub enum TargetAccess {
    /// It may be read; the lock shows that to other durio processes.
    Read(HeldTarget, Option<OwnedFd>),
    /// It may be overwritten.
    Write(WritePermit),
}

impl TargetAccess {
    #[must_use]
    pub const fn target(&self) -> &HeldTarget {
        match self {
            Self::Read(target, _) => target,
            Self::Write(permit) => permit.target(),
        }
    }

    /// Opens it as far as that is permitted.
    pub fn open(&self, mode: OpenMode) -> Result<OpenTarget, BlockError> {
        match self {
            Self::Read(target, _) => target.open_to_read(mode),
            Self::Write(permit) => permit.open(mode),
        }
    }
}

/// The existing places to measure, each by the path that the user named.
#[derive(Debug, Clone, Default)]
pub struct HeldTargets(Vec<Arc<TargetAccess>>);

impl HeldTargets {
    pub fn hold(&mut self, access: TargetAccess) {
        self.0.push(Arc::new(access));
    }

    /// What `path` led to when it was looked up.
    ///
    /// # Errors
    /// If it was not looked up: then whether it may be written to was never checked.
    pub fn find(&self, path: &Path) -> Result<Arc<TargetAccess>, BlockError> {
        let found = self.0.iter().find(|access| access.target().path() == path);
        found.cloned().ok_or_else(|| BlockError::at("open without a look at", path, Errno::PERM))
    }
}

/// `F_SETSIG` (include/uapi/asm-generic/fcntl.h), which the libc crate does not have.
const SET_SIGNAL: libc::c_int = 10;

/// NFS, SMB, CIFS, FUSE, 9p (include/uapi/linux/magic.h).
const OF_A_SERVER: [u32; 5] = [0x6969, 0xfe53_4d42, 0xff53_4d42, 0x6573_5546, 0x0102_1997];

/// Asks for a read lease, which the kernel gives only if no process has the file open for writing
/// (fcntl(2), F_SETLEASE): programs, loop devices, swap, the NFS server. It is given back at once.
///
/// False also where this cannot be determined: leases are for a file's owner and CAP_LEASE, some
/// filesystems have none, and on network filesystems the server's answer (no delegation, no oplock)
/// looks like a refusal.
fn has_writers(file: BorrowedFd<'_>) -> bool {
    let magic = rustix::fs::fstatfs(file).ok().and_then(|facts| u32::try_from(facts.f_type).ok());
    if magic.is_none_or(|magic| OF_A_SERVER.contains(&magic)) {
        return false;
    }
    let number = file.as_raw_fd();
    // Opening the file during the lease raises this signal, which is ignored by default; the usual
    // one, SIGIO, would end the process.
    // SAFETY: plain calls on a descriptor that is borrowed; no memory is handed over.
    let answer = unsafe {
        libc::fcntl(number, SET_SIGNAL, libc::SIGURG);
        libc::fcntl(number, libc::F_SETLEASE, libc::F_RDLCK)
    };
    let error = io::Error::last_os_error();
    if answer == 0 {
        // SAFETY: as above.
        unsafe { libc::fcntl(number, libc::F_SETLEASE, libc::F_UNLCK) };
        return false;
    }
    error.raw_os_error() == Some(libc::EAGAIN)
}

fn descriptor_path(process: &str, file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/fd/{}", file.as_raw_fd()))
}

fn size_of_device(anchor: &OwnedFd) -> Result<Bytes, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let device = open_at(descriptor_path("self", anchor), flags, Mode::empty())?;
    Ok(Bytes::new(seek(&device, SeekFrom::End(0))?))
}

/// The memory devices 3, 5 and 7 (kernel documentation, admin-guide/devices.txt): null, zero, full.
fn is_null(stat: &Stat) -> bool {
    rustix::fs::major(stat.st_rdev) == 1 && [3, 5, 7].contains(&rustix::fs::minor(stat.st_rdev))
}

fn not_storage(path: &Path, reason: &str) -> BlockError {
    BlockError::because(ErrorKind::WrongType, "measure", reason).about(path.display())
}

#[cfg(test)]
mod tests;
