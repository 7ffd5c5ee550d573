//! The kernel's read-ahead, set while files are opened and set back at once: a file keeps the value
//! that its device had when it was opened (file_ra_state_init in the kernel's mm/readahead.c).

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use durio_units::Bytes;
use rustix::fs::{major, minor};

use crate::error::RunError;

/// A changed setting; dropped, it is as it was.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    setting: PathBuf,
    before: String,
    restored: bool,
}

impl ReadAhead {
    /// Sets the read-ahead of the device below `path`; none if it has that value already.
    pub(crate) fn set(path: &Path, bytes: Bytes) -> Result<Option<Self>, RunError> {
        let fail = |what: &str, error: std::io::Error| {
            let message = format!("cannot {what} the read-ahead below '{}'", path.display());
            let mut error = RunError::target(message, Some(Box::new(error)));
            error.hint = Some("run as root, or leave the read-ahead out".to_owned());
            error
        };
        let facts = fs::metadata(path).map_err(|error| fail("find", error))?;
        let is_device = facts.file_type().is_block_device();
        let number = if is_device { facts.rdev() } else { facts.dev() };
        let name = format!("{}:{}", major(number), minor(number));
        let setting = Path::new("/sys/class/bdi").join(name).join("read_ahead_kb");
        let before = fs::read_to_string(&setting).map_err(|error| fail("read", error))?;
        let wanted = (bytes.get() / 1024).to_string();
        if before.trim() == wanted {
            return Ok(None);
        }
        let changed = Self { setting, before, restored: false };
        fs::write(&changed.setting, &wanted).map_err(|error| fail("set", error))?;
        Ok(Some(changed))
    }

    /// Sets it back.
    pub(crate) fn restore(mut self) -> Result<(), RunError> {
        self.restored = true;
        fs::write(&self.setting, self.before.trim()).map_err(|error| {
            let message = format!(
                "cannot set '{}' back to {}: do it yourself",
                self.setting.display(),
                self.before.trim()
            );
            RunError::target(message, Some(Box::new(error)))
        })
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if !self.restored {
            // Another error is on its way.
            let _ = fs::write(&self.setting, self.before.trim());
        }
    }
}
