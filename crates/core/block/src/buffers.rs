//! Aligned memory for the data of operations, one slot per operation in flight; and how the allocator
//! gets large pieces of memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::BlockError;

/// Alignment of every slot: covers the direct-I/O alignment of all devices known (512 or 4096) and
/// the page size of x86-64.
pub(crate) const SLOT_ALIGNMENT: usize = 4096;

/// `count` slots of `length` bytes each, every slot aligned to 4096.
///
/// The kernel reads and writes a slot while its operation is in flight; the engine that owns the
/// buffers hands out a reference to a slot only when it is not.
#[derive(Debug)]
pub struct Buffers {
    first: NonNull<u8>,
    memory: Arc<SlotMemory>,
    count: usize,
    /// Slots after those, without memory.
    bare: usize,
    length: usize,
    stride: usize,
}

// SAFETY: `Buffers` owns its slots exclusively, as a `Box<[u8]>` does; others that share its memory have
// other slots of it.
unsafe impl Send for Buffers {}

/// An allocation, freed with the last slot of it.
#[derive(Debug)]
pub(crate) struct SlotMemory {
    begin: NonNull<u8>,
    layout: Layout,
}

// SAFETY: only `Buffers` reads and writes through it, each in separate slots.
unsafe impl Send for SlotMemory {}
// SAFETY: as above; its own fields never change.
unsafe impl Sync for SlotMemory {}

impl SlotMemory {
    /// Where it lies, for the kernel.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let begin = self.begin.as_ptr() as usize;
        begin..begin + self.layout.size()
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `Buffers::try_new` with this very layout, freed once.
        unsafe { dealloc(self.begin.as_ptr(), self.layout) }
    }
}

impl Buffers {
    /// Allocates zeroed slots.
    ///
    /// # Panics
    /// If count or length is zero, or if the memory is not there.
    #[must_use]
    pub fn new(count: usize, length: usize) -> Self {
        Self::try_new(count, length).expect("memory for buffers")
    }

    /// Allocates zeroed slots.
    ///
    /// # Errors
    /// If the memory is not there, or if it is more than the address space holds.
    ///
    /// # Panics
    /// If count or length is zero.
    pub fn try_new(count: usize, length: usize) -> Result<Self, BlockError> {
        assert!(count > 0 && length > 0, "{count} slots of {length} bytes");
        let none_left = || {
            let source = io::Error::from_raw_os_error(libc::ENOMEM);
            BlockError::new("allocate memory for blocks in flight", source)
        };
        // Slots of odd lengths too begin at an address that direct I/O takes.
        let stride = length.checked_next_multiple_of(SLOT_ALIGNMENT).ok_or_else(none_left)?;
        let bytes = count.checked_mul(stride).ok_or_else(none_left)?;
        let layout = Layout::from_size_align(bytes, SLOT_ALIGNMENT).map_err(|_| none_left())?;
        // Justification: std has no safe aligned allocation.
        // SAFETY: the layout's size is not zero, by the assertion above.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(none_left)?;
        let memory = Arc::new(SlotMemory { begin: first, layout });
        Ok(Self { first, memory, count, bare: 0, length, stride })
    }

    /// Each slot for itself; the memory of all is freed with the last of them.
    pub(crate) fn split(self) -> impl Iterator<Item = Self> {
        (0..self.count).map(move |slot| {
            // Not null, as the first is not.
            let first = NonNull::new(self.slot_pointer(slot)).unwrap_or(self.first);
            Self { first, memory: Arc::clone(&self.memory), count: 1, bare: 0, ..self }
        })
    }

    pub(crate) fn memory(&self) -> &Arc<SlotMemory> {
        &self.memory
    }

    /// Adds `bare` slots without memory behind the others, for operations that move no data: they
    /// have a name in their completion, and cost nothing to pin.
    #[must_use]
    pub fn with_bare(mut self, bare: usize) -> Self {
        self.bare = bare;
        self
    }

    /// Number of slots, the bare ones included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count + self.bare
    }

    /// Number of slots that have memory: the first ones.
    pub(crate) fn count_with_memory(&self) -> usize {
        self.count
    }

    #[must_use]
    pub fn slot_length(&self) -> usize {
        self.length
    }

    /// The address of a slot, for the kernel.
    ///
    /// # Panics
    /// If the slot does not exist or is bare.
    #[inline]
    pub(crate) fn slot_pointer(&self, slot: usize) -> *mut u8 {
        if slot >= self.count {
            no_such(slot, self.count);
        }
        // SAFETY: slot < count, so the offset is within the one allocation of count × stride.
        unsafe { self.first.as_ptr().add(slot * self.stride) }
    }

    /// Gives the memory up, for a kernel that does not answer any more: better lost than freed while it
    /// may still be written to. The slots that share it are lost with it.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::replace(self, Self::new(1, 1)));
    }

    /// The contents of a slot.
    ///
    /// # Panics
    /// If the slot does not exist or is bare.
    #[inline]
    pub fn slot_mut(&mut self, slot: usize) -> &mut [u8] {
        let pointer = self.slot_pointer(slot);
        // SAFETY: the slot's `length` bytes are within the allocation and initialised (zeroed at
        // allocation); `&mut self` excludes other Rust references, and the owning engine calls
        // this only for a slot that the kernel does not use.
        unsafe { std::slice::from_raw_parts_mut(pointer, self.length) }
    }

    /// The contents of a slot, to be looked at: several at a time, for engines that hand slots to
    /// the kernel only for the time of a call.
    ///
    /// # Panics
    /// If the slot does not exist or is bare.
    #[inline]
    #[must_use]
    pub fn slot(&self, slot: usize) -> &[u8] {
        let pointer = self.slot_pointer(slot);
        // SAFETY: as for `slot_mut`, but shared: `&self` excludes references that may write, and
        // the owning engine calls this only for a slot that the kernel does not use.
        unsafe { std::slice::from_raw_parts(pointer, self.length) }
    }
}

/// Out of line: inlined, the printed values would be kept in memory at the check.
#[cold]
fn no_such(slot: usize, count: usize) -> ! {
    panic!("slot {slot} of {count}")
}

/// More than glibc's own default, less than a job's counts of latencies.
#[cfg(target_env = "gnu")]
const MAPPED_FROM_BYTES: libc::c_int = 256 << 10;

/// Has allocations from 256 KiB on come from the kernel, as pages that are zero and take no memory
/// until they are written to, for the rest of the process.
///
/// glibc does so from 128 KiB on, until the first of them is freed: then it takes all of up to that
/// size from its heap, where zeroing touches the memory by which the heap was extended in advance.
/// Thousands of jobs took a gigabyte that way.
pub fn map_large_allocations() {
    #[cfg(target_env = "gnu")]
    // Justification: no crate in use wraps the call.
    // SAFETY: the call takes two numbers, may come at any time from any thread, and changes where later
    // allocations come from; those that exist know where they came from.
    unsafe {
        // A refusal costs memory and nothing else.
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
    }
}

/// Keeps the memory that this process has now from being paged out: what serves storage must not wait for
/// storage. Memory that it gets later is not locked, for under a limit that would be memory that it does
/// not get.
///
/// # Errors
/// If that is not permitted (RLIMIT_MEMLOCK of plain users).
pub fn lock_memory() -> Result<(), BlockError> {
    use rustix::mm::{MlockAllFlags, mlockall};
    let locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT);
    locked.map_err(|errno| BlockError::new("lock memory", errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_slots_are_counted_and_have_no_memory() {
        let mut buffers = Buffers::new(2, 4096).with_bare(3);
        assert_eq!((buffers.count(), buffers.count_with_memory()), (5, 2));
        buffers.slot_mut(1).fill(1);
        let bare = std::panic::catch_unwind(move || buffers.slot_pointer(2));
        assert!(bare.is_err());
    }

    #[test]
    fn slots_are_aligned_and_do_not_overlap() {
        let mut buffers = Buffers::new(3, 2300);
        for slot in 0..3_u8 {
            buffers.slot_mut(slot.into()).fill(slot + 1);
        }
        for slot in 0..3_u8 {
            let address = buffers.slot_pointer(slot.into()) as usize;
            assert_eq!(address % SLOT_ALIGNMENT, 0);
            assert_eq!(buffers.slot_mut(slot.into()), [slot + 1; 2300]);
        }
    }

    #[test]
    fn slots_that_were_split_keep_their_place_and_outlive_each_other() {
        let whole = Buffers::new(3, 2300);
        let places: Vec<_> = (0..3).map(|slot| whole.slot_pointer(slot)).collect();
        let mut slots: Vec<_> = whole.split().collect();
        assert_eq!(slots.iter().map(|slot| slot.slot_pointer(0)).collect::<Vec<_>>(), places);
        drop(slots.remove(1));
        slots[1].slot_mut(0).fill(7);
        assert_eq!((slots[1].slot(0)[2299], slots[0].slot(0)[2299], slots[0].count()), (7, 0, 1));
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        for (count, length) in [(1, usize::MAX), (usize::MAX, 4096), (1 << 20, 1 << 40)] {
            let error = Buffers::try_new(count, length).unwrap_err();
            assert_eq!(error.source.raw_os_error(), Some(libc::ENOMEM));
        }
    }

    #[test]
    #[should_panic(expected = "slot 3 of 3")]
    fn a_slot_that_does_not_exist_is_a_programmers_error() {
        Buffers::new(3, 512).slot_mut(3);
    }
}
