//! The folder in which packages are unpacked and drivers built: about 700 MB.
//!
//! Makes an empty folder in the folder for kernels, removed when dropped. The next build removes
//! the remains of a killed one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

const NAME: &str = ".zfs-build";
/// kbuild and make split paths there.
const SPLITTERS: [char; 3] = [' ', ':', '\t'];

/// The folder; one at a time.
#[derive(Debug)]
pub(super) struct ScratchFolder {
    path: PathBuf,
    /// Held while the folder is in use; the lock ends with the process.
    _lock: File,
}

impl ScratchFolder {
    /// Makes a new, empty folder.
    pub(super) fn begin(kernels: &Path) -> Result<Self> {
        // On the filesystem of the kernels: the results are moved by a rename.
        let path = kernels.join(NAME);
        ensure!(
            !path.to_string_lossy().contains(SPLITTERS),
            "kernels' makefiles cannot work below {}: name another folder by XDG_CACHE_HOME",
            kernels.display()
        );
        let lock = File::open(kernels)?;
        lock.try_lock().context("another cargo xtask lab zfs is at work")?;
        let scratch = Self { path, _lock: lock };
        scratch.remove().context("cannot remove what an earlier build left")?;
        fs::create_dir(&scratch.path).context("cannot make a folder to build in")?;
        Ok(scratch)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn remove(&self) -> std::io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_empty_at_first_one_at_a_time_and_gone_in_the_end() {
        let kernels = tempfile::tempdir().expect("a folder");
        let path = kernels.path().join(NAME);
        fs::create_dir(&path).expect("a folder");
        fs::write(path.join("left"), "by a killed build").expect("a file");
        let scratch = ScratchFolder::begin(kernels.path()).expect("a scratch folder");
        assert_eq!(fs::read_dir(scratch.path()).expect("its entries").count(), 0);
        assert!(ScratchFolder::begin(kernels.path()).is_err());
        drop(scratch);
        assert!(!path.exists());
        assert!(ScratchFolder::begin(kernels.path()).is_ok());
    }

    #[test]
    fn a_path_that_make_would_split_is_refused() {
        let error = ScratchFolder::begin(Path::new("/tmp/a b")).expect_err("refused");
        assert!(error.to_string().contains("XDG_CACHE_HOME"), "{error}");
    }
}
