//! What a device reports about itself when asked, which may differ from the kernel's view.
//!
//! Takes the path of a device node. The kernel's files about devices are read in `durio-observe`.
//!
//! Devices are asked through a descriptor that is open for reading only, by commands that change
//! nothing: NVMe Identify, Get Features and Get Log Page, SCSI MODE SENSE, the table of a device-mapper
//! volume, the state of a loop device. The kernel decides who may ask; a refusal is an error with its
//! reason.
//!
//! SCSI disks, and SATA disks through the kernel's translation, give their caching mode page; the
//! kernel shows pages of vital product data as files, so they are not read here. Commands and the mode parameter header are those of SPC-4 (MODE SENSE (6) and (10)), the page
//! that of SBC-3 (Caching, 08h).

mod device_mapper;
mod nvme;

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater};

use crate::{BlockError, TargetIdentity};

pub use device_mapper::{DmSegment, DmTable, dm_table, parse_dm_table};
pub use nvme::{NvmeIdentity, NvmePowerCounters, nvme_identity, nvme_power_counters};

/// Opens a device node for reading; `is_block` says which of the two kinds it must be.
fn open_node(operation: &'static str, path: &Path, is_block: bool) -> Result<File, BlockError> {
    let at = |source| BlockError::at(operation, path, source);
    // Without O_NONBLOCK a drive for removable media may wait for one.
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(at)?;
    let kind = file.metadata().map_err(at)?.file_type();
    match is_block && kind.is_block_device() || !is_block && kind.is_char_device() {
        true => Ok(file),
        false => Err(BlockError::at(operation, path, Errno::NOTTY)),
    }
}

/// ioctl(2), and the number that it returned.
///
/// # Safety
/// `argument` must be what the kernel's interface asks for with this opcode, valid until the call
/// returns, and to be written to where the kernel writes.
unsafe fn ioctl(file: &File, opcode: Opcode, argument: *mut c_void) -> Result<i32, Errno> {
    // Justification: rustix takes a call whose result is a number, or whose argument is longer than its
    // type, only with an unsafe trait implemented for each.
    // SAFETY: as the caller promises.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), opcode as libc::Ioctl, argument) };
    if result >= 0 {
        return Ok(result);
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// `LOOP_GET_STATUS64` (include/uapi/linux/loop.h).
const LOOP_GET_STATUS: Opcode = 0x4c05;

/// `struct loop_info64`, of which the first two numbers are of use here.
#[repr(C)]
struct LoopStatus {
    device: u64,
    inode: u64,
    rest: [u8; 216],
}

const _: () = assert!(size_of::<LoopStatus>() == 232, "the size of loop_info64");

/// The file behind a loop device, by device and inode number: its name in sysfs may lead to another
/// file by now, or to none. None if the device is not a loop device, is not in use, or may not be
/// asked.
#[must_use]
pub fn loop_backing(device: &Path) -> Option<TargetIdentity> {
    let file = open_node("ask the loop device", device, true).ok()?;
    let mut status = LoopStatus { device: 0, inode: 0, rest: [0; 216] };
    // SAFETY: the kernel fills the struct, which has the size and layout of loop_info64 and no invalid
    // values; drivers of other block devices answer an opcode that they do not know with an error.
    unsafe { ioctl(&file, LOOP_GET_STATUS, (&raw mut status).cast()) }.ok()?;
    Some(TargetIdentity::Inode(status.device, status.inode))
}

/// The text of a field that is padded with blanks or zeros; none if nothing is left.
fn padded_text(field: Option<&[u8]>) -> Option<String> {
    let text = String::from_utf8_lossy(field?);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

/// SG_IO has a number from before numbers held the size of their argument.
const SG_IO: Opcode = 0x2285;

const MODE_SENSE_6: u8 = 0x1a;
const MODE_SENSE_10: u8 = 0x5a;
const PAGE_CODE: u8 = 0x08;

/// More than header, block descriptor and page need: 8 + 8 + 20 bytes.
const ANSWER_LEN: u8 = 64;

const TEN: [u8; 10] = [MODE_SENSE_10, 0, PAGE_CODE, 0, 0, 0, 0, 0, ANSWER_LEN, 0];
const SIX: [u8; 6] = [MODE_SENSE_6, 0, PAGE_CODE, 0, ANSWER_LEN, 0];

const SENSE_LEN: u8 = 32;

/// That of the kernel's own commands to disks is 30 s.
const TIMEOUT_MS: u32 = 30_000;

/// `struct sg_io_hdr` of the kernel's scsi/sg.h; its pointers are addresses here.
#[repr(C)]
#[derive(Default)]
struct SgIoHeader {
    interface: i32,
    direction: i32,
    command_len: u8,
    sense_len: u8,
    vectors: u16,
    data_len: u32,
    data: usize,
    command: usize,
    sense: usize,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: usize,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_written: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration: u32,
    info: u32,
}

/// From the device to memory (SG_DXFER_FROM_DEV).
const FROM_DEVICE: i32 = -3;

/// A disk's report about its cache, with the current settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachingPage {
    /// Writes are acknowledged once they are in the cache (WCE).
    pub write_cache_enabled: bool,
    /// Reads are answered from the cache (RCD is clear).
    pub read_cache_enabled: bool,
    /// Writes can bypass the cache (DPOFUA).
    pub fua: bool,
}

/// Asks the disk at `path`.
///
/// # Errors
/// If `path` is not a block device, may not be read, takes no SCSI commands, or lacks the page.
pub fn caching_page(path: &Path) -> Result<CachingPage, BlockError> {
    const OPERATION: &str = "query the caching mode page of";
    let file = open_node(OPERATION, path, true)?;
    let asked = send(&file, &TEN).and_then(|answer| parse_ten(&answer).ok_or(Errno::OPNOTSUPP));
    let asked = asked
        .or_else(|_| send(&file, &SIX).and_then(|page| parse_six(&page).ok_or(Errno::OPNOTSUPP)));
    asked.map_err(|errno| BlockError::at(OPERATION, path, errno))
}

/// Sends a command that reads at most [`ANSWER_LEN`] bytes, and gives those that came.
fn send(file: &File, command: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut answer = vec![0_u8; usize::from(ANSWER_LEN)];
    let mut sense = [0_u8; SENSE_LEN as usize];
    let mut request = SgIoHeader {
        interface: i32::from(b'S'),
        direction: FROM_DEVICE,
        command_len: u8::try_from(command.len()).map_err(|_| Errno::INVAL)?,
        sense_len: SENSE_LEN,
        data_len: u32::from(ANSWER_LEN),
        data: answer.as_mut_ptr().expose_provenance(),
        command: command.as_ptr().expose_provenance(),
        sense: sense.as_mut_ptr().expose_provenance(),
        timeout_ms: TIMEOUT_MS,
        ..SgIoHeader::default()
    };
    // Justification: no crate in use wraps the call.
    // SAFETY: the struct has the kernel's layout, as a test checks by its size. The kernel reads
    // `command_len` bytes of the command, and writes at most `data_len` bytes to `answer` and
    // `sense_len` to `sense`, all of which live and are not otherwise in use until it returns. The
    // command only reads from the disk.
    unsafe { rustix::ioctl::ioctl(file, Updater::<SG_IO, _>::new(&mut request)) }?;
    if request.status != 0 || request.host_status != 0 || request.driver_status != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let unwritten = usize::try_from(request.residual).unwrap_or(0);
    answer.truncate(answer.len().saturating_sub(unwritten));
    Ok(answer)
}

/// The answer to MODE SENSE (10): 8 bytes of header, the length of the descriptors in its last two.
fn parse_ten(answer: &[u8]) -> Option<CachingPage> {
    let descriptors = u16::from_be_bytes(answer.get(6..8)?.try_into().ok()?);
    parse_page(answer.get(8 + usize::from(descriptors)..)?, *answer.get(3)?)
}

/// The answer to MODE SENSE (6): 4 bytes of header.
fn parse_six(answer: &[u8]) -> Option<CachingPage> {
    parse_page(answer.get(4 + usize::from(*answer.get(3)?)..)?, *answer.get(2)?)
}

/// `specific`: the device-specific parameter of the header, whose bit 4 is DPOFUA.
fn parse_page(page: &[u8], specific: u8) -> Option<CachingPage> {
    let is_caching = page.first()? & 0x7f == PAGE_CODE && *page.get(1)? >= 1;
    let flags = *page.get(2).filter(|_| is_caching)?;
    Some(CachingPage {
        write_cache_enabled: flags & 0b100 != 0,
        read_cache_enabled: flags & 0b001 == 0,
        fua: specific & 0x10 != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn what_is_no_device_is_not_asked() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = nvme_identity(file.path()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{error:?}");
        assert!(caching_page(file.path()).is_err());
        assert_eq!(nvme_identity(Path::new("/dev/none")).unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(caching_page(Path::new("/dev/null")).unwrap_err().kind, ErrorKind::Unsupported);
    }

    #[test]
    fn a_padded_field_is_its_text() {
        assert_eq!(padded_text(Some(b"QEMU NVMe Ctrl   \0")).as_deref(), Some("QEMU NVMe Ctrl"));
        assert_eq!(padded_text(Some(b"   ")), None);
        assert_eq!(padded_text(None), None);
    }

    /// Made by hand from SPC-4 and SBC-3: header, one short block descriptor, the page.
    fn ten(specific: u8, flags: u8) -> Vec<u8> {
        let mut answer = vec![0, 34, 0, specific, 0, 0, 0, 8];
        answer.extend([0, 0, 0, 0, 0, 0, 2, 0]);
        answer.extend([0x88, 0x12, flags]);
        answer.resize(36, 0);
        answer
    }

    fn six(specific: u8, flags: u8) -> Vec<u8> {
        let mut answer = vec![23, 0, specific, 0, 0x08, 0x12, flags];
        answer.resize(24, 0);
        answer
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_request_has_the_size_that_the_kernel_expects() {
        assert_eq!(size_of::<SgIoHeader>(), 88);
    }

    /// The numbers are those of SPC-4, SBC-3 and the kernel's scsi/sg.h.
    #[test]
    fn both_commands_ask_for_the_current_values_of_page_8_in_64_bytes() {
        assert_eq!(TEN, [0x5a, 0, 8, 0, 0, 0, 0, 0, 64, 0]);
        assert_eq!(SIX, [0x1a, 0, 8, 0, 64, 0]);
        assert_eq!((SG_IO, FROM_DEVICE, TIMEOUT_MS), (0x2285, -3, 30_000));
    }

    #[test]
    fn the_write_cache_is_read_from_either_answer() {
        let on = CachingPage { write_cache_enabled: true, read_cache_enabled: true, fua: false };
        assert_eq!(parse_ten(&ten(0, 0x04)), Some(on));
        assert_eq!(parse_six(&six(0, 0x04)), Some(on));
        let off = CachingPage { write_cache_enabled: false, read_cache_enabled: false, fua: true };
        assert_eq!(parse_ten(&ten(0x10, 0x01)), Some(off));
        assert_eq!(parse_six(&six(0x10, 0x01)), Some(off));
    }

    #[test]
    fn another_page_or_a_short_answer_says_nothing() {
        let mut other = ten(0, 4);
        other[16] = 0x0a;
        assert_eq!(parse_ten(&other), None);
        let mut empty = ten(0, 4);
        empty[17] = 0;
        assert_eq!(parse_ten(&empty), None);
        for len in 0..18 {
            assert_eq!(parse_ten(&ten(0, 4)[..len]), None, "{len}");
            assert_eq!(parse_six(&six(0, 4)[..len.min(6)]), None, "{len}");
        }
        let mut beyond = ten(0, 4);
        beyond[6] = 0xff;
        assert_eq!(parse_ten(&beyond), None);
    }
}
