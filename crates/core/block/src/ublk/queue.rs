//! A queue of a device: its requests, and the answers to them.
//!
//! Completions of fetches, by tag, become requests; ring entries answer a request and fetch the
//! next. The ring is [`crate::MemberRing`]'s.
//!
//! A tag has a buffer while it waits for a request, and a write request brings its data in it. An
//! answer also takes a buffer: it holds the data of a read, and the next request of the tag gets
//! it. So no buffer belongs to the kernel and to another user at a time.

use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{DEPTH_MAX, IoDescriptor, READ_WRITE, SECTOR, command};
use crate::{BlockError, Buffers, LentBuffer};

/// Bytes of `struct ublksrv_io_cmd`.
const COMMAND_BYTES: usize = 16;
pub(super) const FETCH: u32 = command(READ_WRITE, 0x20, COMMAND_BYTES);
pub(super) const COMMIT_AND_FETCH: u32 = command(READ_WRITE, 0x21, COMMAND_BYTES);

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UblkKind {
    /// Bytes.
    Read,
    /// Its bytes written.
    Write,
    /// Make answered writes durable.
    Flush,
    Zero,
    /// Something that was not offered.
    Other,
}

/// A request of a user's.
#[derive(Debug)]
pub struct UblkRequest {
    /// Names it for its answer.
    pub tag: u16,
    /// What it wants.
    pub kind: UblkKind,
    /// Bytes from the start of the device; ignored for a flush.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// The data of a write; a whole chunk, whatever the request.
    pub buffer: LentBuffer,
}

#[derive(Debug)]
pub struct UblkQueue {
    number: u16,
    /// Shared by all queues of the device: it is opened once.
    file: Arc<OwnedFd>,
    /// Those whose requests come here; none if it is the only queue.
    processors: Option<CpuSet>,
    descriptors: NonNull<IoDescriptor>,
    mapped_bytes: usize,
    /// The buffers of tags that wait for a request.
    waiting: Vec<Option<LentBuffer>>,
    buffer_bytes: usize,
}

// SAFETY: it owns its mapping, which nothing else refers to.
unsafe impl Send for UblkQueue {}

impl UblkQueue {
    pub(super) fn map(
        number: u16,
        file: Arc<OwnedFd>,
        processors: Option<CpuSet>,
        depth: u16,
        buffer_bytes: u32,
    ) -> Result<Self, BlockError> {
        let bytes = usize::from(depth) * size_of::<IoDescriptor>();
        let mapped_bytes = bytes.next_multiple_of(rustix::param::page_size());
        let (access, flags) = (ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE);
        let from = u64::from(number) * DEPTH_MAX * size_of::<IoDescriptor>() as u64;
        // SAFETY: a new mapping at a place of the kernel's choice, of the descriptors of this queue.
        let mapped = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), mapped_bytes, access, flags, &file, from)
        };
        let fail = |errno| BlockError::new("map the requests of a ublk device", errno);
        let mapped = mapped.map_err(fail)?.cast();
        let descriptors = NonNull::new(mapped).ok_or_else(|| fail(rustix::io::Errno::NOMEM))?;
        let waiting = (0..depth).map(|_| None).collect();
        let buffer_bytes = buffer_bytes as usize;
        Ok(Self { number, file, processors, descriptors, mapped_bytes, waiting, buffer_bytes })
    }

    /// Has this thread run where the requests of this queue come from, as far as it may run there: so none
    /// wakes another processor.
    pub(crate) fn bind_thread(&self) {
        let Some((here, allowed)) = self.processors.zip(sched_getaffinity(None).ok()) else {
            return;
        };
        let mut both = CpuSet::new();
        let is_both = |processor: &usize| here.is_set(*processor) && allowed.is_set(*processor);
        (0..CpuSet::MAX_CPU).filter(is_both).for_each(|processor| both.set(processor));
        if both.count() > 0 {
            // Elsewhere it is slower, not wrong.
            let _ = sched_setaffinity(None, &both);
        }
    }

    pub(crate) fn depth(&self) -> u16 {
        u16::try_from(self.waiting.len()).unwrap_or(u16::MAX)
    }

    /// Has a tag wait for a request, whose data comes into this buffer, `lent` by name. `answer` is the result
    /// of the last one, bytes or a negated errno; none if this is the first.
    ///
    /// # Panics
    /// If the tag waits, or the buffer is too small.
    pub(crate) fn await_request(
        &mut self,
        tag: u16,
        answer: Option<i32>,
        lent: LentBuffer,
        buffer: &Buffers,
    ) -> squeue::Entry {
        assert!(self.waiting[usize::from(tag)].is_none(), "tag {tag} has no request");
        assert!(buffer.slot_length() >= self.buffer_bytes, "the buffer of tag {tag}");
        let operation = if answer.is_some() { COMMIT_AND_FETCH } else { FETCH };
        let mut bytes = [0; COMMAND_BYTES];
        // struct ublksrv_io_cmd: queue, tag, result, address.
        bytes[..2].copy_from_slice(&self.number.to_ne_bytes());
        bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&answer.unwrap_or(0).to_ne_bytes());
        bytes[8..].copy_from_slice(&(buffer.slot_pointer(0) as u64).to_ne_bytes());
        self.waiting[usize::from(tag)] = Some(lent);
        let file = types::Fd(self.file.as_raw_fd());
        opcode::UringCmd16::new(file, operation).cmd(bytes).build()
    }

    /// The wait of a tag has ended: with this request, or for good, and then it means nothing.
    pub(crate) fn ended(&mut self, tag: u16) -> Option<UblkRequest> {
        let buffer = self.waiting.get_mut(usize::from(tag))?.take()?;
        // SAFETY: the mapping has a descriptor for each tag, and the kernel writes it before the wait
        // ends with a request, and not again before the answer.
        let descriptor = unsafe { self.descriptors.add(tag.into()).read_volatile() };
        let kind = match descriptor.operation & 0xff {
            0 => UblkKind::Read,
            1 => UblkKind::Write,
            2 => UblkKind::Flush,
            5 => UblkKind::Zero,
            _ => UblkKind::Other,
        };
        let offset = descriptor.first_sector.wrapping_mul(SECTOR.into());
        let length = descriptor.sectors.saturating_mul(SECTOR);
        Some(UblkRequest { tag, kind, offset, length, buffer })
    }

    /// Buffers that the kernel may still fill.
    pub(crate) fn waiting(&mut self) -> impl Iterator<Item = LentBuffer> {
        self.waiting.iter_mut().filter_map(Option::take)
    }
}

impl Drop for UblkQueue {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, unmapped once; no reference into it is handed out.
        // A failure leaves the mapping.
        let _ = unsafe { rustix::mm::munmap(self.descriptors.as_ptr().cast(), self.mapped_bytes) };
    }
}
