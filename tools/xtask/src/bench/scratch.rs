//! Files that benches make: one folder inside of cargo's target folder, removed when it is dropped.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::Advice;
use tempfile::TempDir;

use super::session::Interrupt;

/// Bytes per write and read.
const CHUNK: usize = 1 << 20;

/// A new folder on the storage of cargo's target folder.
pub(super) fn folder(target_folder: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(target_folder)
        .with_context(|| format!("cannot make a folder in {}", target_folder.display()))
}

/// Lays out a file in full, with contents that do not compress, and makes it durable. It is in the
/// page cache afterwards.
pub(super) fn lay_out(folder: &Path, mebibytes: usize, interrupt: &Interrupt) -> Result<PathBuf> {
    let path = folder.join("data");
    let mut file = File::create_new(&path).context("cannot make the data file")?;
    // Any number but 0, which xorshift never leaves.
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut chunk = vec![0_u8; CHUNK];
    for _ in 0..mebibytes {
        interrupt.check()?;
        fill(&mut chunk, &mut random);
        file.write_all(&chunk).context("cannot lay out the data file")?;
    }
    // Pending writeback would be load in the first trial, and the kernel drops only clean pages
    // from its cache.
    file.sync_all().context("cannot sync the data file")?;
    Ok(path)
}

/// Reads a file once, so that the page cache holds it.
pub(super) fn warm(path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut chunk = vec![0_u8; CHUNK];
    while file.read(&mut chunk)? > 0 {}
    Ok(())
}

/// Bytes that are dropped of each hundred times as many: runs that are larger than the page cache's
/// folios, of which only whole ones go.
const DROPPED: u64 = 2 << 20;

/// Reads a file once and drops a hundredth of it from the page cache again.
pub(super) fn cool_a_hundredth(path: &Path) -> io::Result<()> {
    warm(path)?;
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    for offset in (0..length).step_by(usize::try_from(100 * DROPPED).unwrap_or(usize::MAX)) {
        rustix::fs::fadvise(&file, offset, NonZero::new(DROPPED), Advice::DontNeed)?;
    }
    Ok(())
}

/// A fresh folder below `folder`.
pub(super) fn subfolder(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// xorshift64: nothing here needs better randomness.
fn fill(chunk: &mut [u8], state: &mut u64) {
    for word in chunk.chunks_exact_mut(size_of::<u64>()) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_laid_out_in_full_and_goes_with_its_folder() {
        let scratch = folder(&std::env::temp_dir()).expect("a folder");
        let path = lay_out(scratch.path(), 1, &Interrupt::never()).expect("a file");
        let data = fs::read(&path).expect("it can be read");
        assert_eq!(data.len(), CHUNK);
        assert!(data.chunks(4096).all(|block| block.iter().any(|&byte| byte != 0)));
        warm(&path).expect("it can be read");
        drop(scratch);
        assert!(!path.exists());
    }
}
