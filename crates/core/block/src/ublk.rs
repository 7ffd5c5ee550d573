//! Block devices that a process serves: the kernel's ublk (linux/ublk_cmd.h), as far as durio needs it.
//!
//! durio-raid handles the requests; [`crate::MemberRing`] carries them.
//!
//! ```text
//!  control.rs   add ──► start ──► stop ──► delete       /dev/ublk-control
//!                 │       ▲ once all tags are fetched
//!  queue.rs       └► fetch ──► request ──► commit       /dev/ublkcN, a thread and MemberRing each
//! ```
//!
//! A device has queues, among which the kernel divides the processors: a request comes in the queue
//! of the processor that asks. It says that it has no volatile cache, and gets reads and writes
//! within a chunk: the kernel cuts them. Requests for zeroes carry no data and may span several
//! chunks. Discards are not offered. If its server dies, users wait; a server that finds the device
//! by its mark takes it over, and gets unanswered requests again.

mod control;
mod queue;

pub use control::{UblkControl, UblkDevice, UblkState};
pub use queue::{UblkKind, UblkQueue, UblkRequest};

/// What the kernel must have for ublk, in words.
pub const UBLK_NEEDS: &str = "the kernel module ublk_drv, of Linux 6.0 or later";

/// The shape of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UblkShape {
    /// Bytes.
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
        assert_eq!((queue::FETCH, queue::COMMIT_AND_FETCH), (0xc010_7520, 0xc010_7521));
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
}
