//! What a device reports about itself when asked, which may differ from the kernel's view.
//!
//! Takes the path of a device node. The kernel's files about devices are read in `durio-observe`.
//!
//! Devices are asked through a descriptor that is open for reading only, by commands that change
//! nothing: NVMe Identify, Get Features and Get Log Page, SCSI MODE SENSE, the table of a device-mapper
//! volume, the state of a loop device. The kernel decides who may ask; a refusal is an error with its
//! reason.

mod caching_page;
mod device_mapper;
mod nvme;

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::ioctl::Opcode;

pub use caching_page::{CachingPage, caching_page};
pub use device_mapper::{DmSegment, DmTable, dm_table, parse_dm_table};
pub use nvme::{NvmeIdentity, NvmePowerCounters, nvme_identity, nvme_power_counters};

use crate::{BlockError, TargetIdentity};

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
}
