//! Mapped files: a read or a write is a copy between a slot and memory, a sync is msync(2).
//!
//! As fio's engine of that name does it (engines/mmap.c): a shared mapping, msync(MS_SYNC) of all
//! of it for a sync, and with O_DIRECT msync(MS_SYNC) of its pages after each access. fio also asks
//! for POSIX_MADV_DONTNEED there, of which glibc and musl make no call (strace of fio 3.33), so no
//! page is dropped. Each file is mapped as a whole; bytes behind its end are neither written nor
//! read. A page that cannot be had is EIO of its access and of all later ones.
//!
//! A page that a device cannot read, that lies behind a file's new end, or for which a full
//! filesystem has no block raises SIGBUS, which ends a process. The handler replaces the rest of
//! the copy with anonymous memory, so that the copy runs to its end, and marks it. It uses only its
//! thread's atomics and mmap(2), which may be called there; if the process has no memory or mapping
//! left, mmap(2) fails and the signal ends the process.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use rustix::fs::{FileType, OFlags, SeekFrom, fcntl_getfl, fstat, makedev, seek};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, mmap_anonymous, msync, munmap,
};
use rustix::param::page_size;

use super::sync::{BlockingCalls, SyncEngine, length_of, no_transfer};
use super::{EngineDescriptor, EngineSetup, EngineUser};
use crate::{BlockError, Buffers, Clock, EngineFacts, Operation, OperationKind, WriteFlags};

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
        catch_bus_errors();
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
        self.has_lost_pages = unsafe { !copy(from, to, length, place) };
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

/// The copy that a thread is in: whole pages of a mapping. A fault is delivered to the thread that it
/// is of, so threads need no order between them.
struct Copying {
    begin: AtomicUsize,
    end: AtomicUsize,
    has_lost_pages: AtomicBool,
}

thread_local! {
    // Constant and without a destructor: an access is a load, also within a signal handler.
    static COPYING: Copying = const {
        Copying {
            begin: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            has_lost_pages: AtomicBool::new(false),
        }
    };
}

/// What SIGBUS did before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Makes missing pages end a copy instead of the process, from the first call on.
fn catch_bus_errors() {
    PREVIOUS.get_or_init(|| {
        // Justification: rustix leaves signal handlers to libc.
        // SAFETY: all zeros is a valid `sigaction`: the default, no flags, an empty mask.
        let [mut action, mut previous]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both outlive the call, which fails only for an invalid signal number; the handler
        // is a function of the type that SA_SIGINFO asks for, and safe to run at any time (see there).
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut previous) };
        previous
    });
}

/// Copies `length` bytes, of which `mapped` is one side; false if one of its pages is missing. Then
/// anonymous memory replaces that page and those behind it: the mapping no longer shows the file.
///
/// # Safety
/// Both sides are valid for `length` bytes as memory, do not overlap, and the pages around `mapped`
/// belong to a mapping that only this thread uses.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, length: usize, mapped: *const u8) -> bool {
    COPYING.with(|copying| {
        let page = page_size();
        let begin = mapped.addr();
        copying.has_lost_pages.store(false, Ordering::Relaxed);
        copying.begin.store(begin & !(page - 1), Ordering::Relaxed);
        copying.end.store((begin + length).next_multiple_of(page), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // Justification: a copy is what this engine measures.
        // SAFETY: as the caller promises; the handler resolves a fault, and the copy continues.
        unsafe { ptr::copy_nonoverlapping(from, to, length) };
        compiler_fence(Ordering::SeqCst);
        copying.end.store(0, Ordering::Relaxed);
        !copying.has_lost_pages.load(Ordering::Relaxed)
    })
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel gives a valid `info`; the address is read of a fault alone.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // What other processes send has a code of zero or less.
    if code > 0 && COPYING.with(|copying| copying.go_on_without(address)) {
        return;
    }
    // SAFETY: all zeros is the default action.
    let default = || unsafe { std::mem::zeroed() };
    let previous = PREVIOUS.get().copied().unwrap_or_else(default);
    // SAFETY: sigaction and raise may be called in a handler. A fault happens again when this
    // returns, and a sent signal is raised again; both then meet the previous disposition.
    unsafe {
        libc::sigaction(signal, &raw const previous, ptr::null_mut());
        if code <= 0 {
            libc::raise(signal);
        }
    }
}

impl Copying {
    /// Anonymous memory from the page of `address` to the end of the copy, if it is of the copy.
    fn go_on_without(&self, address: usize) -> bool {
        let (begin, end) = (self.begin.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
        if !(begin..end).contains(&address) {
            return false;
        }
        self.has_lost_pages.store(true, Ordering::Relaxed);
        // `begin` is the first byte of a page.
        let first = address - (address - begin) % page_size();
        let place = ptr::with_exposed_provenance_mut(first);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the pages are of a mapping that only the copy uses, which this thread is in.
        let mapped = unsafe {
            mmap_anonymous(place, end - first, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        mapped.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// Maps a file of two pages of ones.
    fn mapped_file() -> (std::fs::File, *mut u8) {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; 2 * page_size()], 0).unwrap();
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let begin = unsafe {
            mmap(ptr::null_mut(), 2 * page_size(), rights, MapFlags::SHARED, &file, 0).unwrap()
        };
        (file, begin.cast())
    }

    #[test]
    fn a_copy_of_a_page_that_is_gone_ends_and_says_so() {
        catch_bus_errors();
        let (file, begin) = mapped_file();
        let mut data = vec![7; 2 * page_size()];
        let mut read = || {
            // SAFETY: both have two pages.
            let is_whole = unsafe { copy(begin, data.as_mut_ptr(), data.len(), begin) };
            (is_whole, data[0], data[page_size()])
        };
        assert_eq!(read(), (true, 1, 1));
        file.set_len(page_size() as u64).unwrap();
        assert_eq!(read(), (false, 1, 0));
        // SAFETY: the mapping is not used again.
        unsafe { munmap(begin.cast(), 2 * page_size()).unwrap() };
    }

    /// What the test does when it runs itself again, in a process that this ends.
    const ACT: &str = "DURIO_TEST_BUS_ERROR";

    fn end_of(act: &str) -> Option<i32> {
        let name = "engines::mmap::tests::a_signal_that_is_of_no_copy_ends_the_process";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name]).env(ACT, act).output().unwrap().status.signal()
    }

    #[test]
    fn a_signal_that_is_of_no_copy_ends_the_process() {
        match std::env::var(ACT).as_deref() {
            Ok("fault") => fault_outside_of_a_copy(),
            Ok(_) => send_the_signal(),
            Err(_) => assert_eq!(["fault", "send"].map(end_of), [Some(7), Some(7)]),
        }
    }

    fn fault_outside_of_a_copy() {
        catch_bus_errors();
        let (file, begin) = mapped_file();
        file.set_len(0).unwrap();
        // SAFETY: within the mapping; the page is missing.
        unsafe { ptr::read_volatile(begin) };
    }

    fn send_the_signal() {
        catch_bus_errors();
        // The first finds the handler of std, which only then goes back to the default.
        for _ in 0..2 {
            // SAFETY: the handler takes what is sent.
            unsafe { libc::raise(libc::SIGBUS) };
        }
    }
}
