//! A user's data: files next to durio's, with names like durio's, of every kind; a mounted
//! filesystem.
//!
//! Makes files in a folder that only the user may change. `witness` checks them.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::arena::sh;

/// Bytes of a file that has contents everywhere.
const FULL_BYTES: usize = 64 << 10;
const SPARSE_BYTES: u64 = 8 << 20;

/// Files in a folder where durio works, next to durio's.
pub(super) fn files(folder: &Path) -> Result<()> {
    let bytes: Vec<u8> = (0..=250).cycle().take(FULL_BYTES).collect();
    for name in
        ["notes.txt", "user.db", "new.bak", "ne", "new2", "keep", ".durio-mine", "durio-0.tmp"]
    {
        fs::write(folder.join(name), &bytes).with_context(|| format!("cannot write {name}"))?;
    }
    fs::hard_link(folder.join("user.db"), folder.join("user.link"))?;
    symlink("user.db", folder.join("user.symlink"))?;
    let sparse = File::create_new(folder.join("sparse"))?;
    sparse.set_len(SPARSE_BYTES)?;
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"the user's", SPARSE_BYTES / 2)?;
    mknodat(CWD, folder.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    fs::create_dir(folder.join("deep"))?;
    Ok(fs::write(folder.join("deep/new"), "the user's\n")?)
}

/// Makes an ext4 on a loop device and mounts it, with files.
pub(super) fn mounted_filesystem(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let (image, point) = (folder.join("image"), folder.join("mounted"));
    ext4(&image, 16)?;
    fs::create_dir(&point)?;
    sh(&format!("mount -o loop '{}' '{}'", image.display(), point.display()))?;
    files(&point)?;
    Ok(point)
}

/// A file with an empty ext4 in it.
pub(super) fn ext4(image: &Path, mib: u64) -> Result<()> {
    File::create_new(image).context("cannot make an image")?.set_len(mib << 20)?;
    // Else the kernel writes inode tables after the mount, and durio would be blamed for it.
    let quickly = "-q -F -E lazy_itable_init=0,lazy_journal_init=0";
    sh(&format!("mkfs.ext4 {quickly} '{}'", image.display())).map(drop)
}
