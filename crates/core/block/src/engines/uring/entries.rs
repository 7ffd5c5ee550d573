//! How a ring is called: submission entries of transfers, built once per slot, and its descriptor.
//!
//! The address and buffer name in a slot's entry never change; direction, file, place, length and
//! flags are written into it. Building 64 bytes again for every operation takes a fifth of what an
//! operation may cost. Entries of syncs are built each time, elsewhere.
//!
//! io_uring_enter(2) takes the ring's place in the thread's table of registered rings where the
//! kernel grants one (Linux 5.18), which saves a look-up per call, else its descriptor. The io-uring
//! crate's call adds a function and an `io::Error`: instructions in each exchange.

use std::io;
use std::mem::{align_of, size_of};
use std::os::fd::{BorrowedFd, RawFd};

use io_uring::squeue::{self, Entry};
use io_uring::{opcode, types};
use rustix::io::Errno;
use rustix::io_uring::{
    IoringEnterFlags, IoringRegisterOp, io_uring_ptr, io_uring_register, io_uring_rsrc_update,
};

use crate::{Buffers, Operation, OperationKind};

/// Where the first registered file is.
const FILE: types::Fixed = types::Fixed(0);

/// The first words of `struct io_uring_sqe` (include/uapi/linux/io_uring.h, kernel 5.1 and later).
#[repr(C)]
struct EntryWords {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    file: i32,
    offset: u64,
    address: u64,
    length: u32,
    rw_flags: i32,
}

const _: () = assert!(size_of::<Entry>() == 64 && align_of::<Entry>() >= align_of::<EntryWords>());
const _: () = assert!(opcode::WriteFixed::CODE == opcode::ReadFixed::CODE + 1);
const _: () = assert!(opcode::Write::CODE == opcode::Read::CODE + 1);

/// An entry for each slot that has memory.
pub(super) struct SlotEntries {
    of_slot: Box<[Entry]>,
    /// Opcode of reads; that of writes is the next one.
    read_opcode: u8,
}

/// The same while operations are put into a ring: their place is read once, not for each.
pub(super) struct EntriesInUse<'entries> {
    of_slot: &'entries mut [Entry],
    read_opcode: u8,
}

impl SlotEntries {
    /// Entries over these buffers, which are registered or not.
    pub(super) fn new(buffers: &Buffers, registered: bool) -> Self {
        let slots = 0..u32::try_from(buffers.count_with_memory()).unwrap_or(u32::MAX);
        let of_slot = slots.map(|slot| {
            let pointer = buffers.slot_pointer(slot as usize);
            let entry = match (registered, u16::try_from(slot)) {
                (true, Ok(index)) => opcode::ReadFixed::new(FILE, pointer, 0, index).build(),
                _ => opcode::Read::new(FILE, pointer, 0).build(),
            };
            entry.user_data(slot.into())
        });
        let read_opcode = if registered { opcode::ReadFixed::CODE } else { opcode::Read::CODE };
        Self { of_slot: of_slot.collect(), read_opcode }
    }

    #[inline(always)]
    pub(super) fn in_use(&mut self) -> EntriesInUse<'_> {
        EntriesInUse { of_slot: &mut self.of_slot, read_opcode: self.read_opcode }
    }
}

impl EntriesInUse<'_> {
    /// The entry of a transfer; none for other operations.
    ///
    /// # Panics
    /// If the operation's slot has no memory.
    #[inline(always)]
    pub(super) fn transfer(&mut self, operation: &Operation) -> Option<&Entry> {
        if !operation.kind.is_transfer() {
            return None;
        }
        let is_read = operation.kind == OperationKind::Read;
        let entry = &mut self.of_slot[operation.slot as usize];
        // Justification: the crate's entries can be built, not changed, and building one costs as
        // much as all else that the engine does for an operation.
        // SAFETY: an entry is 64 bytes in the layout of the kernel's ABI, of which `EntryWords` are the
        // first 32; its alignment suffices (asserted above), and every bit pattern is valid.
        let words = unsafe { &mut *std::ptr::from_mut(entry).cast::<EntryWords>() };
        words.opcode = self.read_opcode + u8::from(!is_read);
        // IO_LINK is one bit: a product in place of a branch.
        words.flags = (u8::from(operation.link) * squeue::Flags::IO_LINK.bits()) | FIXED_FILE;
        words.file = operation.file.cast_signed();
        words.offset = operation.offset;
        // The engine has checked it against the slot, and a slot is at most 1 GiB (durio-workload).
        #[expect(clippy::cast_possible_truncation, reason = "see above")]
        let length = operation.length as u32;
        words.length = length;
        words.rw_flags = if is_read { 0 } else { operation.flags.bits() };
        Some(entry)
    }
}

/// IOSQE_FIXED_FILE: the file is an index of registered ones.
const FIXED_FILE: u8 = 1;

/// "Any free place" of the table (io_uring_register(2), IORING_REGISTER_RING_FDS).
const ANY_PLACE: u32 = u32::MAX;

/// How a thread's calls name its ring.
#[derive(Debug)]
pub(crate) struct RingDescriptor {
    ring: RawFd,
    /// The place in the table, or the descriptor.
    number: RawFd,
    flags: IoringEnterFlags,
}

impl RingDescriptor {
    /// The descriptor of an open ring, which must outlive it.
    pub(crate) fn plain(ring: RawFd) -> Self {
        Self { ring, number: ring, flags: IoringEnterFlags::GETEVENTS }
    }

    /// The same, registered in the calling thread, and not if there is an error.
    pub(super) fn register(ring: RawFd) -> (Self, io::Result<()>) {
        let plain = Self::plain(ring);
        let mut update = io_uring_rsrc_update::default();
        update.offset = ANY_PLACE;
        update.data =
            io_uring_ptr::new(std::ptr::without_provenance_mut(ring.cast_unsigned() as usize));
        match plain.update_table(IoringRegisterOp::RegisterRingFds, &mut update) {
            Ok(_) => {
                let flags = plain.flags | IoringEnterFlags::REGISTERED_RING;
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
    pub(crate) unsafe fn enter(&self, queued: u32, wanted: u32) -> Result<u32, Errno> {
        // Through the C library: the tests preload a library that holds requests back in syscall(2).
        // SAFETY: the caller of `plain` keeps the ring open and answers for the entries; no argument
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ticks, WriteFlags};

    fn bytes(entry: &Entry) -> [u8; 64] {
        // SAFETY: the size is asserted above, and an entry has no padding: the crate zeroes it
        // before it is filled.
        unsafe { *std::ptr::from_ref(entry).cast() }
    }

    fn operation(kind: OperationKind, flags: WriteFlags, link: bool) -> Operation {
        let intended_start = Ticks::default();
        let (length, offset) = (512, 1 << 40);
        Operation { kind, flags, link, file: 3, slot: 1, length, offset, intended_start }
    }

    /// The crate's own builder is the peer.
    fn built(operation: &Operation, buffers: &Buffers, registered: bool) -> Entry {
        let (pointer, offset) = (buffers.slot_pointer(1), operation.offset);
        let file = types::Fixed(operation.file);
        let flags = operation.flags.bits();
        let entry = match (operation.kind, registered) {
            (OperationKind::Read, true) => {
                opcode::ReadFixed::new(file, pointer, 512, 1).offset(offset).build()
            }
            (OperationKind::Read, false) => {
                opcode::Read::new(file, pointer, 512).offset(offset).build()
            }
            (_, true) => opcode::WriteFixed::new(file, pointer, 512, 1)
                .offset(offset)
                .rw_flags(flags)
                .build(),
            (_, false) => {
                opcode::Write::new(file, pointer, 512).offset(offset).rw_flags(flags).build()
            }
        };
        let entry = entry.user_data(1);
        if operation.link { entry.flags(squeue::Flags::IO_LINK) } else { entry }
    }

    #[test]
    fn entries_are_those_of_the_crates_builder_whatever_was_in_them_before() {
        let buffers = Buffers::new(2, 4096);
        for registered in [false, true] {
            let mut entries = SlotEntries::new(&buffers, registered);
            let mut entries = entries.in_use();
            for kind in [OperationKind::Write, OperationKind::Read, OperationKind::Write] {
                for flags in [WriteFlags::Sync, WriteFlags::None, WriteFlags::Dsync] {
                    for link in [true, false] {
                        let operation = operation(kind, flags, link);
                        let expected = built(&operation, &buffers, registered);
                        assert_eq!(bytes(entries.transfer(&operation).unwrap()), bytes(&expected));
                    }
                }
            }
        }
    }

    /// Opcodes, flags and places by linux/io_uring.h.
    #[test]
    fn operations_without_data_say_what_is_to_be_done_and_where() {
        let of = |kind, link| {
            let operation = operation(kind, WriteFlags::None, link);
            bytes(&super::super::UringEngine::<crate::MonotonicClock>::other(&operation))
        };
        let zero_and_keep = 0x11_u32;
        for (kind, opcode, length, flags) in [
            (OperationKind::Fsync, 3, 0, 0_u32),
            (OperationKind::Fdatasync, 3, 0, 1),
            (OperationKind::SyncFileRange, 8, 512, 7),
            (OperationKind::Reallocate, 17, zero_and_keep, 0),
        ] {
            for (link, on) in [(false, 1), (true, 1 | 4)] {
                let entry = of(kind, link);
                assert_eq!((entry[0], entry[1]), (opcode, on), "{kind:?}");
                assert_eq!(entry[4..8], 3_u32.to_ne_bytes(), "{kind:?}");
                assert_eq!(entry[24..28], u32::to_ne_bytes(length), "{kind:?}");
                assert_eq!(entry[28..32], flags.to_ne_bytes(), "{kind:?}");
                assert_eq!(entry[32..40], 1_u64.to_ne_bytes(), "{kind:?}");
            }
        }
        for kind in [OperationKind::SyncFileRange, OperationKind::Reallocate] {
            assert_eq!(of(kind, false)[8..16], (1_u64 << 40).to_ne_bytes(), "{kind:?}");
        }
        assert_eq!(of(OperationKind::Reallocate, false)[16..24], 512_u64.to_ne_bytes());
    }
}
