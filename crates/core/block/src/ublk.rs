//! Block devices that a process serves: the kernel's ublk (linux/ublk_cmd.h), as far as durio needs it.
//!
//! durio-raid handles the requests; [`crate::MemberRing`] carries them.
//!
//! ```text
//!  control   add ──► start ──► stop ──► delete       /dev/ublk-control
//!              │       ▲ once all tags are fetched
//!  a queue     └► fetch ──► request ──► commit       /dev/ublkcN, a thread and MemberRing each
//! ```
//!
//! A device has queues, among which the kernel divides the processors: a request comes in the queue
//! of the processor that asks. It says that it has no volatile cache, and gets reads and writes
//! within a chunk: the kernel cuts them. Requests for zeroes carry no data and may span several
//! chunks. Discards are not offered. If its server dies, users wait; a server that finds the device
//! by its mark takes it over, and gets unanswered requests again.
//!
//! Completions of fetches, by tag, become requests; ring entries answer a request and fetch the
//! next. The ring is [`crate::MemberRing`]'s.
//!
//! A tag has a buffer while it waits for a request, and a write request brings its data in it. An
//! answer also takes a buffer: it holds the data of a read, and the next request of the tag gets
//! it. So no buffer belongs to the kernel and to another user at a time.

mod control;

use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{BlockError, Buffers, LentBuffer};

pub use control::{UblkControl, UblkDevice, UblkState};

/// What the kernel must have for ublk, in words.
pub const UBLK_NEEDS: &str = "the kernel module ublk_drv (Linux 6.0 or later)";

/// The shape of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UblkShape {
    /// Bytes of the whole device.
    pub size: u64,
    /// No read or write crosses a multiple of this many bytes: a power of two from 4 KiB on.
    pub chunk: u32,
    /// Bytes that a request for zeroes may have, a multiple of a block.
    pub zeroes_max: u32,
    /// Bytes of a block, 512 or 4096: requests are multiples.
    pub block: u32,
    /// Queues, up to as many as the machine has processors.
    pub queues: u16,
    /// Requests of a queue that are on their way, up to 4096.
    pub depth: u16,
    /// Identifies the served array, so that a device whose server died is found again. Not zero.
    pub mark: u64,
}

const SECTOR: u32 = 512;

/// Commands are ioctl numbers: `_IOC(direction, 'u', number, size)`.
#[expect(clippy::cast_possible_truncation, reason = "sizes of structs, below 16 KiB")]
const fn command(direction: u32, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | (b'u' as u32) << 8 | number
}

/// `UBLK_MAX_QUEUE_DEPTH`, by which the descriptors of queues lie apart.
const DEPTH_MAX: u64 = 4096;

const READ: u32 = 2;
const READ_WRITE: u32 = 3;

/// `struct ublksrv_ctrl_cmd`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct ControlCommand {
    device: u32,
    queue: u16,
    length: u16,
    address: u64,
    data: u64,
    path_length: u16,
    pad: u16,
    reserved: u32,
}

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct DeviceInfo {
    queues: u16,
    depth: u16,
    state: u16,
    pad: u16,
    buffer_bytes: u32,
    device: u32,
    server: i32,
    pad_2: u32,
    flags: u64,
    /// The kernel only keeps it.
    mark: u64,
    owner: [u32; 2],
    reserved: [u64; 2],
}

/// `struct ublk_params` with its first parts, `struct ublk_param_basic` and `struct ublk_param_discard`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Parameters {
    length: u32,
    types: u32,
    attributes: u32,
    logical_shift: u8,
    physical_shift: u8,
    optimal_shift: u8,
    minimal_shift: u8,
    max_sectors: u32,
    chunk_sectors: u32,
    device_sectors: u64,
    boundary_mask: u64,
    discard_alignment: u32,
    discard_granularity: u32,
    max_discard_sectors: u32,
    max_write_zeroes_sectors: u32,
    max_discard_segments: u16,
    pad: [u16; 3],
}

/// `struct ublksrv_io_desc`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct IoDescriptor {
    /// The operation in the lowest byte, then flags.
    operation: u32,
    sectors: u32,
    first_sector: u64,
    address: u64,
}

const _: () = {
    assert!(size_of::<ControlCommand>() == 32 && size_of::<DeviceInfo>() == 64);
    assert!(size_of::<Parameters>() == 64 && size_of::<IoDescriptor>() == 24);
};

/// Bytes of `struct ublksrv_io_cmd`.
const COMMAND_BYTES: usize = 16;
const FETCH: u32 = command(READ_WRITE, 0x20, COMMAND_BYTES);
const COMMIT_AND_FETCH: u32 = command(READ_WRITE, 0x21, COMMAND_BYTES);

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UblkKind {
    Read,
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
    pub kind: UblkKind,
    /// Bytes from the start of the device; ignored for a flush.
    pub offset: u64,
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
    fn map(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_header() {
        // UBLK_U_CMD_ADD_DEV, UBLK_U_CMD_GET_DEV_INFO, UBLK_U_IO_FETCH_REQ.
        assert_eq!(command(READ_WRITE, 0x04, 32), 0xc020_7504);
        assert_eq!(command(READ, 0x02, 32), 0x8020_7502);
        assert_eq!(command(READ_WRITE, 0x20, 16), 0xc010_7520);
        // UBLK_U_IO_FETCH_REQ, UBLK_U_IO_COMMIT_AND_FETCH_REQ.
        assert_eq!((FETCH, COMMIT_AND_FETCH), (0xc010_7520, 0xc010_7521));
    }

    #[test]
    fn a_device_waits_for_its_next_server_and_has_what_the_header_has() {
        // User recovery, its reissue, ioctl numbers; parameters basic and of discards; the depth of a
        // queue (linux/ublk_cmd.h).
        assert_eq!((control::FLAGS, control::TYPES, DEPTH_MAX), (0x58, 3, 4096));
        // Up to the padding behind `struct ublk_param_discard`.
        let end = std::mem::offset_of!(Parameters, pad) + size_of::<u16>();
        assert_eq!((control::PARAMETERS_BYTES, end), (60, 60));
    }

    const DEPTH: u16 = 6;

    /// Queue 2 of a device whose descriptors are in a file.
    fn queue(rows: &[(u16, u32, u32, u64)]) -> UblkQueue {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile().unwrap();
        file.set_len(400_000).unwrap();
        for &(tag, operation, sectors, first) in rows {
            let mut bytes = Vec::new();
            bytes.extend(operation.to_ne_bytes());
            bytes.extend(sectors.to_ne_bytes());
            bytes.extend(first.to_ne_bytes());
            file.write_all_at(&bytes, 2 * 4096 * 24 + 24 * u64::from(tag)).unwrap();
        }
        UblkQueue::map(2, Arc::new(file.into()), None, DEPTH, 4096).unwrap()
    }

    fn ring(test: &str) -> Option<crate::MemberRing> {
        let ring = crate::MemberRing::new(1, 8, crate::RingWaker::new().unwrap());
        ring.inspect_err(|error| crate::testkit::note_skip(test, error)).ok()
    }

    #[test]
    fn a_request_is_that_of_its_queue_and_of_its_tag() {
        // Kinds and flags by linux/ublk_cmd.h: 3 is a discard, which is not offered.
        let rows: [(u16, u32, u32, u64); 6] = [
            (0, 0, 8, 16),
            (1, 1 | 1 << 13, 1, 1 << 40),
            (2, 2, 0, 0),
            (3, 3, 8, 8),
            (4, 5 | 1 << 8, 64, 3),
            (5, 4, 8, 8),
        ];
        let kinds = [
            UblkKind::Read,
            UblkKind::Write,
            UblkKind::Flush,
            UblkKind::Other,
            UblkKind::Zero,
            UblkKind::Other,
        ];
        let Some(mut ring) = ring("a_request_is_that_of_its_queue_and_of_its_tag") else { return };
        let mut queue = queue(&rows);
        assert_eq!(queue.depth(), DEPTH);
        for place in &mut queue.waiting {
            *place = Some(ring.lend(Buffers::new(1, 4096)));
        }
        for ((tag, _, sectors, first), kind) in rows.into_iter().zip(kinds) {
            let request = queue.ended(tag).unwrap();
            assert_eq!((request.tag, request.kind), (tag, kind));
            assert_eq!((request.offset, request.length), (first * 512, sectors * 512), "{tag}");
            assert!(queue.ended(tag).is_none(), "the wait of tag {tag} ended twice");
        }
        assert!(queue.ended(DEPTH).is_none());
    }

    #[test]
    fn a_tag_is_fetched_first_and_then_answered_with_its_result() {
        let test = "a_tag_is_fetched_first_and_then_answered_with_its_result";
        let Some(mut ring) = ring(test) else { return };
        let mut queue = queue(&[]);
        for (tag, answer, command, result) in [
            (3_u16, None, 0xc010_7520_u32, 0),
            (4, Some(-5), 0xc010_7521, -5),
            (5, Some(4096), 0xc010_7521, 4096),
        ] {
            let (lent, buffer) = (ring.lend(Buffers::new(1, 4096)), Buffers::new(1, 4096));
            let address = buffer.slot_pointer(0).expose_provenance() as u64;
            let entry = queue.await_request(tag, answer, lent, &buffer);
            assert_eq!(size_of_val(&entry), 64);
            // SAFETY: the size is that of the array, and the crate zeroes an entry before it is filled.
            let bytes: [u8; 64] = unsafe { *std::ptr::from_ref(&entry).cast() };
            assert_eq!(bytes[8..12], command.to_ne_bytes(), "{tag}");
            assert_eq!(bytes[48..50], 2_u16.to_ne_bytes());
            assert_eq!(bytes[50..52], tag.to_ne_bytes());
            assert_eq!(bytes[52..56], i32::to_ne_bytes(result), "{tag}");
            assert_eq!(bytes[56..64], address.to_ne_bytes(), "{tag}");
        }
        assert_eq!(queue.waiting().count(), 3);
    }
}
