//! The ring's descriptor as io_uring_enter(2) takes it: its place in the thread's table of
//! registered rings where the kernel grants one (Linux 5.18), which saves a look-up per call, else
//! the descriptor.
//!
//! The io-uring crate's call adds a function and an `io::Error`: instructions in each exchange.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::Errno;
use rustix::io_uring::{
    IoringEnterFlags, IoringRegisterOp, io_uring_ptr, io_uring_register, io_uring_rsrc_update,
};

/// "Any free place" of the table (io_uring_register(2), IORING_REGISTER_RING_FDS).
const ANY_PLACE: u32 = u32::MAX;

/// How a thread's calls name its ring.
#[derive(Debug)]
pub(super) struct RingDescriptor {
    ring: RawFd,
    /// The place in the table, or the descriptor.
    number: RawFd,
    flags: IoringEnterFlags,
}

impl RingDescriptor {
    /// The descriptor of an open ring, which must outlive it. It is registered in the calling thread, and
    /// not if there is an error.
    pub(super) fn register(ring: RawFd) -> (Self, io::Result<()>) {
        let flags = IoringEnterFlags::GETEVENTS;
        let plain = Self { ring, number: ring, flags };
        let mut update = io_uring_rsrc_update::default();
        update.offset = ANY_PLACE;
        update.data =
            io_uring_ptr::new(std::ptr::without_provenance_mut(ring.cast_unsigned() as usize));
        match plain.update_table(IoringRegisterOp::RegisterRingFds, &mut update) {
            Ok(_) => {
                let flags = flags | IoringEnterFlags::REGISTERED_RING;
                (Self { ring, number: update.offset.cast_signed(), flags }, Ok(()))
            }
            Err(error) => (plain, Err(error.into())),
        }
    }

    /// Submits `queued` entries of the ring, shows the completions that are there and waits for `wanted` of
    /// them; gives how many entries the kernel took.
    ///
    /// # Safety
    /// What the entries point to must be valid until they are complete.
    #[inline(always)]
    pub(super) unsafe fn enter(&self, queued: u32, wanted: u32) -> Result<u32, Errno> {
        // Through the C library: the tests preload a library that holds requests back in syscall(2).
        // SAFETY: the caller of `register` keeps the ring open and answers for the entries; no argument
        // goes by reference.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.number,
                queued,
                wanted,
                self.flags.bits(),
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        u32::try_from(taken).map_err(|_| last_error())
    }

    /// Takes the ring out of the thread's table, whose reference would keep it open.
    pub(super) fn unregister(&self) -> Result<(), Errno> {
        if !self.flags.contains(IoringEnterFlags::REGISTERED_RING) {
            return Ok(());
        }
        let mut update = io_uring_rsrc_update::default();
        update.offset = self.number.cast_unsigned();
        self.update_table(IoringRegisterOp::UnregisterRingFds, &mut update).map(drop)
    }

    fn update_table(
        &self,
        operation: IoringRegisterOp,
        update: &mut io_uring_rsrc_update,
    ) -> Result<u32, Errno> {
        // SAFETY: the caller of `register` keeps the ring open; the argument is one update, which the kernel
        // reads and writes during the call alone.
        unsafe {
            let ring = BorrowedFd::borrow_raw(self.ring);
            io_uring_register(ring, operation, std::ptr::from_mut(update).cast(), 1)
        }
    }
}

#[cold]
fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
