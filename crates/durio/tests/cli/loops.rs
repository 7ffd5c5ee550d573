//! Loop devices, mounts and filesystems that are gone at the end of the test, also after a panic.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::requirements::search_path;

/// Runs an administrator's command, which must succeed.
#[track_caller]
pub(crate) fn sh(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).env("PATH", search_path()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn succeeds(line: &str) -> bool {
    let quiet = format!("{line} >/dev/null 2>&1");
    let status = Command::new("sh").args(["-c", &quiet]).env("PATH", search_path()).status();
    status.unwrap().success()
}

/// A sparse file.
pub(crate) fn sparse_file(path: &Path, mib: u64) {
    File::create_new(path).unwrap().set_len(mib << 20).unwrap();
}

/// A loop device over a file.
pub(crate) struct LoopDevice {
    path: PathBuf,
    backing: PathBuf,
    partitions: usize,
}

impl LoopDevice {
    pub(crate) fn over(backing: &Path) -> Self {
        Self::with("", backing)
    }

    pub(crate) fn read_only_over(backing: &Path) -> Self {
        Self::with("--read-only", backing)
    }

    /// One whose logical sectors have so many bytes.
    pub(crate) fn with_sectors_of(bytes: u32, backing: &Path) -> Self {
        Self::with(&format!("--sector-size {bytes}"), backing)
    }

    fn with(options: &str, backing: &Path) -> Self {
        let line = format!("losetup --find --show {options} '{}'", backing.display());
        Self { path: PathBuf::from(sh(&line)), backing: backing.to_owned(), partitions: 0 }
    }

    /// One with partitions: the first sector and the number of sectors of each.
    pub(crate) fn with_partitions(backing: &Path, partitions: &[(u64, u64)]) -> Self {
        let mut device = Self::with("--partscan", backing);
        for (start, sectors) in partitions {
            device.partitions += 1;
            let number = device.partitions;
            sh(&format!("addpart {} {number} {start} {sectors}", device.display()));
        }
        device
    }

    /// The device of the partition of this number, from 1 on.
    pub(crate) fn partition(&self, number: usize) -> String {
        format!("{}p{number}", self.display())
    }

    pub(crate) fn display(&self) -> String {
        self.path.display().to_string()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let (device, backing) = (self.path.display(), self.backing.display());
        let detached = || !succeeds(&format!("losetup -j '{backing}' | grep -q ."));
        for number in 1..=self.partitions {
            let _ = succeeds(&format!("delpart {device} {number}"));
        }
        let _ = succeeds(&format!("losetup -d {device}"));
        let gone = (0..500).any(|_| {
            let gone = detached();
            if !gone {
                thread::sleep(Duration::from_millis(20));
            }
            gone
        });
        assert!(gone || thread::panicking(), "{device} over {backing} is still there");
    }
}

/// A mounted filesystem.
pub(crate) struct Mount {
    point: PathBuf,
    // After the mount itself: a device can go only when nobody has it mounted.
    _device: Option<LoopDevice>,
}

impl Mount {
    /// `mount OPTIONS POINT`, the point being made.
    pub(crate) fn new(options: &str, point: &Path) -> Self {
        fs::create_dir_all(point).unwrap();
        sh(&format!("mount {options} '{}'", point.display()));
        Self { point: point.to_owned(), _device: None }
    }

    /// A memory filesystem of this size.
    pub(crate) fn tmpfs(mib: u64, point: &Path) -> Self {
        Self::new(&format!("-t tmpfs -o size={mib}m durio-test"), point)
    }

    /// A new filesystem of this kind on a loop device over the file, at least as large as its kind
    /// demands.
    pub(crate) fn filesystem(kind: &str, backing: &Path, mib: u64, point: &Path) -> Self {
        Self::filesystem_with("", kind, backing, mib, point)
    }

    /// As [`Self::filesystem`], mounted with further options of `mount`.
    pub(crate) fn filesystem_with(
        options: &str,
        kind: &str,
        backing: &Path,
        mib: u64,
        point: &Path,
    ) -> Self {
        sparse_file(backing, mib);
        let quietly = match kind {
            "ext4" => "-q -F -E lazy_itable_init=0,lazy_journal_init=0",
            _ => "-q -f",
        };
        sh(&format!("mkfs.{kind} {quietly} '{}'", backing.display()));
        let device = LoopDevice::over(backing);
        let mut mount = Self::new(&format!("-t {kind} {options} {}", device.display()), point);
        mount._device = Some(device);
        mount
    }

    pub(crate) fn point(&self) -> &Path {
        &self.point
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let point = self.point.display();
        // Somebody may look at it at this very moment; a lazy unmount is the last resort.
        let gone = (0..50).any(|_| {
            let gone = succeeds(&format!("umount '{point}'"));
            if !gone {
                thread::sleep(Duration::from_millis(20));
            }
            gone
        });
        if !gone {
            let _ = succeeds(&format!("umount -l '{point}'"));
        }
        assert!(gone || thread::panicking(), "{point} was busy: a process was left behind");
    }
}
