//! Which file a loop device stands on, by that file's numbers.
//!
//! In: the path of a loop device. Out: an identity. Not here: the file's name, which sysfs has, and
//! which may lead to another file by now or to none.

use std::path::Path;

use rustix::ioctl::{Getter, Opcode, ioctl};

use super::open_node;
use crate::TargetIdentity;

/// `LOOP_GET_STATUS64` (include/uapi/linux/loop.h).
const GET_STATUS: Opcode = 0x4c05;

/// `struct loop_info64`, of which the first two numbers are of use here.
#[repr(C)]
struct Status {
    device: u64,
    inode: u64,
    rest: [u8; 216],
}

/// The file that a loop device stands on; none for what is no loop device, is not in use, or may not be
/// asked.
#[must_use]
pub fn loop_backing(device: &Path) -> Option<TargetIdentity> {
    let file = open_node("ask the loop device", device, true).ok()?;
    // Justification: no crate in use wraps the call.
    // SAFETY: the kernel fills the struct, which has the size and layout of loop_info64 and no invalid
    // values; drivers of other block devices answer an opcode that they do not know with an error.
    let status = unsafe { ioctl(&file, Getter::<GET_STATUS, Status>::new()) }.ok()?;
    Some(TargetIdentity::Inode(status.device, status.inode))
}

const _: () = assert!(size_of::<Status>() == 232, "the size of loop_info64");
