//! Mapped files: a read or a write is a copy between a slot and memory, a sync is msync(2).
//!
//! As fio's engine of that name does it (engines/mmap.c): a shared mapping, msync(MS_SYNC) of all
//! of it for a sync, and with O_DIRECT msync(MS_SYNC) of its pages after each access. fio also asks
//! for POSIX_MADV_DONTNEED there, of which glibc and musl make no call (strace of fio 3.33), so no
//! page is dropped. Each file is mapped as a whole; bytes behind its end are neither written nor
//! read. A page that cannot be had is EIO of its access and of all later ones.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{FileType, OFlags, SeekFrom, fcntl_getfl, fstat, makedev, seek};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, msync, munmap};
use rustix::param::page_size;

use super::sync::{BlockingCalls, SyncEngine, length_of, no_transfer};
use super::{EngineDescriptor, EngineSetup, EngineUser};
use crate::{
    BlockError, Buffers, Clock, EngineFacts, Operation, OperationKind, WriteFlags, bus_error,
};

/// The engine over mapped files: one operation at a time, without a system call for most.
pub type MmapEngine<C> = SyncEngine<C, Mappings>;

pub(super) struct MmapDescriptor;

impl EngineDescriptor for MmapDescriptor {
    const NAME: &'static str = "mmap";
    const FIO_NAME: &'static str = "mmap";
    const IS_ASYNCHRONOUS: bool = false;
    const LINKS_SYNCS: bool = false;
    const WRITES_BY_CALLS: bool = false;

    fn open<C: Clock + Copy, U: EngineUser<C>>(setup: EngineSetup<C>, user: U) -> U::Output {
        let files = std::iter::once(setup.file).chain(setup.more_files);
        let advice = match setup.advice {
            Some(rustix::fs::Advice::Random) => Some(Advice::Random),
            Some(rustix::fs::Advice::Sequential) => Some(Advice::Sequential),
            _ => None,
        };
        match MmapEngine::of_files(setup.clock, files, setup.buffers, advice) {
            Ok(engine) => user.drive(engine),
            Err(errno) => user.refused(BlockError::new("map the file", errno)),
        }
    }
}

impl<C: Clock> MmapEngine<C> {
    /// An engine over an open file.
    ///
    /// # Errors
    /// If the file cannot be mapped: no regular file, block device or /dev/zero, or not open for
    /// reading, which a mapping needs.
    pub fn mapped(clock: C, file: OwnedFd, buffers: Buffers) -> Result<Self, BlockError> {
        Self::of_files(clock, std::iter::once(file), buffers, None)
            .map_err(|errno| BlockError::new("map the file", errno))
    }

    fn of_files(
        clock: C,
        files: impl Iterator<Item = OwnedFd>,
        buffers: Buffers,
        advice: Option<Advice>,
    ) -> Result<Self, Errno> {
        bus_error::catch();
        let window = buffers.slot_length();
        let mappings = files.map(|file| Mapping::of(file, window, advice));
        let mappings = Mappings { mappings: mappings.collect::<Result<_, _>>()? };
        Ok(Self::over(clock, mappings, buffers))
    }
}

/// The mappings of an engine, by the place of their files.
#[derive(Debug)]
pub struct Mappings {
    mappings: Vec<Mapping>,
}

impl BlockingCalls for Mappings {
    const WRITE_FLAGS: bool = false;
    const RANGE_SYNCS: bool = false;

    #[inline]
    fn call(&mut self, operation: &Operation, buffers: &mut Buffers) -> Result<usize, Errno> {
        let mapping = &mut self.mappings[operation.file as usize];
        match operation.kind {
            OperationKind::Read | OperationKind::Write => {
                let data = buffers.slot_mut(operation.slot as usize);
                mapping.access(operation, &mut data[..length_of(operation)])
            }
            OperationKind::Fsync | OperationKind::Fdatasync => mapping.sync().map(|()| 0),
            OperationKind::Reallocate => no_transfer(mapping.file.as_fd(), operation).map(|()| 0),
            OperationKind::SyncFileRange => Err(Errno::OPNOTSUPP),
        }
    }

    fn facts(&self) -> EngineFacts {
        let features = vec!["msync(MS_SYNC) of the whole mapping for a sync".to_owned()];
        let cached = "mapped pages are those of the page cache: with O_DIRECT each access is \
                      followed by msync(MS_SYNC), and reads may find cached pages";
        let is_direct = self.mappings.iter().any(|mapping| mapping.is_direct);
        EngineFacts {
            features,
            fallbacks: is_direct.then(|| cached.to_owned()).into_iter().collect(),
        }
    }
}

#[derive(Debug)]
struct Mapping {
    file: OwnedFd,
    begin: NonNull<u8>,
    /// Zero of an empty file, of which nothing is mapped.
    length: usize,
    /// Every access is at its start: /dev/zero has no size.
    is_window: bool,
    is_writable: bool,
    is_direct: bool,
    advice: Option<Advice>,
    has_lost_pages: bool,
}

impl Mapping {
    fn of(file: OwnedFd, window: usize, advice: Option<Advice>) -> Result<Self, Errno> {
        let facts = fstat(&file)?;
        let is_device = FileType::from_raw_mode(facts.st_mode) == FileType::CharacterDevice;
        let is_window = is_device && facts.st_rdev == makedev(1, 5);
        let flags = fcntl_getfl(&file)?;
        let mut mapping = Self {
            file,
            begin: NonNull::dangling(),
            length: 0,
            is_window,
            is_writable: flags.contains(OFlags::RDWR),
            is_direct: flags.contains(OFlags::DIRECT),
            advice,
            has_lost_pages: false,
        };
        match (is_window, is_device) {
            (true, _) => mapping.map(window)?,
            (false, true) => return Err(Errno::NODEV),
            (false, false) => mapping.map_all()?,
        }
        Ok(mapping)
    }

    /// Maps the file as long as it is now.
    fn map_all(&mut self) -> Result<(), Errno> {
        let length = seek(&self.file, SeekFrom::End(0))?;
        self.map(usize::try_from(length).map_err(|_| Errno::FBIG)?)
    }

    fn map(&mut self, length: usize) -> Result<(), Errno> {
        if length == self.length {
            return Ok(());
        }
        self.unmap();
        if length == 0 {
            return Ok(());
        }
        let write = if self.is_writable { ProtFlags::WRITE } else { ProtFlags::empty() };
        let rights = ProtFlags::READ | write;
        // Justification: the engine's accesses are those of mapped memory.
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let begin =
            unsafe { mmap(ptr::null_mut(), length, rights, MapFlags::SHARED, &self.file, 0)? };
        self.begin = NonNull::new(begin.cast()).ok_or(Errno::NOMEM)?;
        self.length = length;
        let Some(advice) = self.advice else { return Ok(()) };
        // SAFETY: advice about the order of accesses, for the whole of the mapping made above.
        unsafe { madvise(begin, length, advice) }
    }

    #[inline]
    fn access(&mut self, operation: &Operation, data: &mut [u8]) -> Result<usize, Errno> {
        let is_write = operation.kind == OperationKind::Write;
        if operation.flags != WriteFlags::None {
            return Err(Errno::OPNOTSUPP);
        }
        if is_write && !self.is_writable {
            return Err(Errno::BADF);
        }
        if self.has_lost_pages {
            return Err(Errno::IO);
        }
        let offset = if self.is_window { 0 } else { operation.offset };
        let end = offset.checked_add(operation.length).filter(|end| i64::try_from(*end).is_ok());
        let (Some(end), Ok(offset)) = (end, usize::try_from(offset)) else {
            return Err(Errno::INVAL);
        };
        // msync takes whole pages, so fio refuses such jobs.
        if self.is_direct && ((offset | data.len()) & (page_size() - 1)) != 0 {
            return Err(Errno::INVAL);
        }
        if end > self.length as u64 {
            self.map_all()?;
        }
        let length = data.len().min(self.length.saturating_sub(offset));
        if is_write && length < data.len() {
            // A mapping does not make its file longer.
            return Err(Errno::OPNOTSUPP);
        }
        if length == 0 {
            return Ok(0);
        }
        // SAFETY: offset + length is within the mapping, by the line above.
        let place = unsafe { self.begin.as_ptr().add(offset) };
        let slot = data.as_mut_ptr();
        let (from, to) = if is_write { (slot, place) } else { (place, slot) };
        // SAFETY: both sides have `length` bytes, one of them in a slot, which lies outside of the mapping,
        // of which nothing but this engine knows.
        self.has_lost_pages = unsafe { !bus_error::copy(from, to, length, place) };
        if self.has_lost_pages {
            return Err(Errno::IO);
        }
        if self.is_direct {
            // SAFETY: within the mapping; the call writes pages to the file and changes no memory.
            unsafe { msync(place.cast(), length, MsyncFlags::SYNC)? };
        }
        Ok(length)
    }

    fn sync(&self) -> Result<(), Errno> {
        match (self.has_lost_pages, self.length) {
            (true, _) => Err(Errno::IO),
            (false, 0) => Ok(()),
            // SAFETY: the whole of the mapping; the call changes no memory.
            (false, length) => unsafe {
                msync(self.begin.as_ptr().cast(), length, MsyncFlags::SYNC)
            },
        }
    }

    fn unmap(&mut self) {
        if self.length > 0 {
            // It fails for addresses outside of mappings alone.
            // SAFETY: no pointer to the mapping is kept but `begin`, which is not used at length 0.
            let _ = unsafe { munmap(self.begin.as_ptr().cast(), self.length) };
            self.length = 0;
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.unmap();
    }
}
