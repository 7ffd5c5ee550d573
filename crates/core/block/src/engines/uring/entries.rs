//! Submission entries of transfers, built once per slot.
//!
//! The address and buffer name in a slot's entry never change; direction, file, place, length and
//! flags are written into it. Building 64 bytes again for every operation takes a fifth of what an
//! operation may cost. Entries of syncs are built each time, elsewhere.

use std::mem::{align_of, size_of};

use io_uring::squeue::{self, Entry};
use io_uring::{opcode, types};

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
}
