//! Which programs have a file or a device open for writing.
//!
//! In: an identity. Out: their names. Not here: the kernel's own users, such as loop devices and swap.

use std::fs;
use std::path::Path;

use durio_block::TargetIdentity;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, makedev, statx};

/// The programs, this one left out. Those of other users are seen by root alone.
pub(crate) fn writers_of(identity: TargetIdentity) -> Vec<String> {
    let own = std::process::id().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let named = processes.filter_map(|entry| entry.file_name().into_string().ok());
    named
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own)
        .filter(|process| writes_to(process, identity))
        .map(|process| format!("{} (process {process})", name_of(&process)))
        .collect()
}

fn writes_to(process: &str, identity: TargetIdentity) -> bool {
    let folder = Path::new("/proc").join(process);
    let files = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    files.into_iter().any(|file| {
        let info = fs::read_to_string(folder.join("fdinfo").join(file.file_name()));
        is_open_for_writing(&info.unwrap_or_default()) && leads_to(&file.path(), identity)
    })
}

/// The kernel follows these links to the open file itself, not to its name. No server is asked: one that
/// does not answer would hold up the look at everybody's files.
fn leads_to(link: &Path, identity: TargetIdentity) -> bool {
    let mask = StatxFlags::TYPE | StatxFlags::INO;
    let Ok(stat) = statx(CWD, link, AtFlags::STATX_DONT_SYNC, mask) else { return false };
    match identity {
        TargetIdentity::Device(number) => {
            let is_block = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::BlockDevice;
            is_block && makedev(stat.stx_rdev_major, stat.stx_rdev_minor) == number
        }
        TargetIdentity::Inode(device, inode) => {
            (makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino) == (device, inode)
        }
    }
}

/// `flags:` is octal, with the access mode in its last two bits (proc_pid_fdinfo(5)); a descriptor
/// of O_PATH has no access.
fn is_open_for_writing(info: &str) -> bool {
    const PATH_ONLY: u32 = 0o10_000_000;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0);
    flags & PATH_ONLY == 0 && flags & 3 != 0
}

fn name_of(process: &str) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_access_mode_tells_a_writer() {
        for (info, expected) in [
            ("pos:\t0\nflags:\t0100000\nmnt_id:\t29\n", false),
            ("pos:\t0\nflags:\t0100001\n", true),
            ("pos:\t0\nflags:\t02100002\n", true),
            ("flags:\t012000000\n", false),
            ("", false),
            ("flags:\tx\n", false),
        ] {
            assert_eq!(is_open_for_writing(info), expected, "{info}");
        }
    }
}
