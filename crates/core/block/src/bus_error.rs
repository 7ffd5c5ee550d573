//! Copies to and from mapped files that end with an error where a page cannot be had.
//!
//! Which files are mapped is decided in `engines/mmap`.
//!
//! A page that a device cannot read, that lies behind a file's new end, or for which a full
//! filesystem has no block raises SIGBUS, which ends a process. The handler replaces the rest of
//! the copy with anonymous memory, so that the copy runs to its end, and marks it. It uses only its
//! thread's atomics and mmap(2), which may be called there; if the process has no memory or mapping
//! left, mmap(2) fails and the signal ends the process.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::param::page_size;

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
pub(crate) fn catch() {
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
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, length: usize, mapped: *const u8) -> bool {
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

    use rustix::mm::{mmap, munmap};

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
        catch();
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
        let name = "bus_error::tests::a_signal_that_is_of_no_copy_ends_the_process";
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
        catch();
        let (file, begin) = mapped_file();
        file.set_len(0).unwrap();
        // SAFETY: within the mapping; the page is missing.
        unsafe { ptr::read_volatile(begin) };
    }

    fn send_the_signal() {
        catch();
        // The first finds the handler of std, which only then goes back to the default.
        for _ in 0..2 {
            // SAFETY: the handler takes what is sent.
            unsafe { libc::raise(libc::SIGBUS) };
        }
    }
}
