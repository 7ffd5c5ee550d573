//! The four system calls of Linux's own asynchronous I/O (linux/aio_abi.h), as far as durio needs
//! them.
//!
//! The meaning of a refusal, slots and stamps are in `engines/aio.rs`.
//!
//! The C library has no wrappers for these calls, and libaio adds nothing to them; its reading of
//! the completion ring in user space is not used.

use std::io;

pub(crate) const PREAD: u16 = 0;
pub(crate) const PWRITE: u16 = 1;
pub(crate) const FSYNC: u16 = 2;
pub(crate) const FDSYNC: u16 = 3;

/// `struct iocb`: what to do. The kernel copies it during the submission and looks at it no more.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ControlBlock {
    /// Comes back in the event.
    pub(crate) data: u64,
    // The kernel writes the key; the header swaps these two by byte order.
    #[cfg(target_endian = "little")]
    pub(crate) key: u32,
    pub(crate) rw_flags: i32,
    #[cfg(target_endian = "big")]
    pub(crate) key: u32,
    pub(crate) opcode: u16,
    pub(crate) priority: i16,
    pub(crate) file: u32,
    /// Address of the slot's memory.
    pub(crate) buffer: u64,
    pub(crate) length: u64,
    pub(crate) offset: i64,
    pub(crate) reserved: u64,
    pub(crate) flags: u32,
    pub(crate) event_file: u32,
}

/// `struct io_event`: the result.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IoEvent {
    /// [`ControlBlock::data`] of the operation that completed.
    pub(crate) data: u64,
    /// Address of the control block, which durio may have reused by then.
    pub(crate) block: u64,
    /// Bytes, zero or a negated errno.
    pub(crate) result: i64,
    /// Used by USB gadgets only.
    pub(crate) second_result: i64,
}

const _: () = assert!(size_of::<ControlBlock>() == 64 && size_of::<IoEvent>() == 32);

/// An `aio_context_t`; dropping it destroys it, for which the kernel waits for operations in
/// flight.
#[derive(Debug)]
pub(crate) struct AioContext(libc::c_ulong);

impl AioContext {
    /// A context for this many operations in flight (io_setup).
    pub(crate) fn new(depth: u32) -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // Justification: no crate in use wraps these calls, here and below.
        // SAFETY: the kernel writes one aio_context_t, an unsigned long, to a valid address.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) };
        count_of(result).map(|_| Self(context))
    }

    /// io_submit: says how many of `blocks`, from the first on, the kernel took. An error is that
    /// of the first block.
    ///
    /// # Safety
    /// Every pointer must lead to a control block that is valid for reads and writes during the
    /// call; the memory that the blocks name must stay valid, and have no other user, until
    /// their events are there.
    #[inline]
    pub(crate) unsafe fn submit(&self, blocks: &mut [*mut ControlBlock]) -> io::Result<usize> {
        // SAFETY: the array is valid for its length; what it leads to, the caller promises.
        let result = unsafe {
            libc::syscall(libc::SYS_io_submit, self.0, blocks.len(), blocks.as_mut_ptr())
        };
        count_of(result)
    }

    /// io_getevents: waits for `wanted` events, or until `timeout` is over; takes at most as many as
    /// there is room for.
    #[inline]
    pub(crate) fn events(
        &self,
        wanted: usize,
        events: &mut [IoEvent],
        timeout: Option<&libc::timespec>,
    ) -> io::Result<usize> {
        let timeout = timeout.map_or(std::ptr::null(), std::ptr::from_ref);
        loop {
            // SAFETY: the kernel writes at most `events.len()` events to a valid array of them, and
            // reads a timeout that is valid or absent.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.0,
                    wanted,
                    events.len(),
                    events.as_mut_ptr(),
                    timeout,
                )
            };
            match count_of(result) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }
}

impl Drop for AioContext {
    fn drop(&mut self) {
        // SAFETY: the context came from io_setup and is destroyed once.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

#[inline]
fn count_of(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
