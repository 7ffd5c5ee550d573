//! The kernel's read-ahead, set while files are opened and set back at once: a file keeps the value
//! that its device had when it was opened (file_ra_state_init in the kernel's mm/readahead.c).

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use durio_plan::RawPath;
use durio_record::{ChangedSetting, SettingJournal, StateFolder};
use rustix::fs::{major, minor};

use crate::error::RunError;

/// A changed setting; dropped, it is as it was.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    setting: PathBuf,
    before: String,
    restored: bool,
    /// Lets the next durio restore it if this one is killed; none without a state folder.
    journal: Option<SettingJournal>,
}

impl ReadAhead {
    /// Sets the read-ahead of the device below `path`; none if it has that value already.
    pub(crate) fn set(
        path: &Path,
        bytes: Bytes,
        state: Option<&StateFolder>,
    ) -> Result<Option<Self>, RunError> {
        let fail = |what: &str, error: std::io::Error| {
            let message = format!("cannot {what} the read-ahead below '{}'", path.display());
            RunError::target(message)
                .because(error)
                .hint("run as root, or leave the read-ahead out")
        };
        let facts = fs::metadata(path).map_err(|error| fail("find", error))?;
        let is_device = facts.file_type().is_block_device();
        let number = if is_device { facts.rdev() } else { facts.dev() };
        let name = format!("{}:{}", major(number), minor(number));
        let setting = Path::new("/sys/class/bdi").join(&name).join("read_ahead_kb");
        let before = fs::read_to_string(&setting).map_err(|error| fail("read", error))?;
        let before = before.trim().to_owned();
        let wanted = (bytes.get() / 1024).to_string();
        if before == wanted {
            return Ok(None);
        }
        let entry = ChangedSetting {
            path: RawPath::from(setting.as_path()),
            before: before.clone(),
            after: wanted.clone(),
        };
        // Before it is changed: after a kill only the journal knows the old value.
        let journal = state.map(|state| {
            SettingJournal::begin(
                state,
                &format!("read-ahead-{name}-{}", std::process::id()),
                &entry,
            )
        });
        let journal = journal.transpose().map_err(|error| RunError::sink(error.into()))?;
        let changed = Self { setting, before, restored: false, journal };
        fs::write(&changed.setting, &wanted).map_err(|error| fail("set", error))?;
        Ok(Some(changed))
    }

    /// Sets it back.
    pub(crate) fn restore(mut self) -> Result<(), RunError> {
        self.put_back().map_err(|error| {
            let (setting, before) = (self.setting.display(), &self.before);
            RunError::target(format!("cannot set '{setting}' back to {before}: do it yourself"))
                .because(error)
        })
    }

    // Once: after a failure its entry in the journal stays, for the next run.
    fn put_back(&mut self) -> std::io::Result<()> {
        if std::mem::replace(&mut self.restored, true) {
            return Ok(());
        }
        fs::write(&self.setting, &self.before)?;
        if let Some(journal) = self.journal.take() {
            journal.end();
        }
        Ok(())
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // Another error is on its way.
        let _ = self.put_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use durio_block::testkit::note_skip;
    use durio_record::restore_left_settings;

    /// A killed run cannot set it back; the next one finds the entry.
    #[test]
    fn a_changed_read_ahead_is_remembered_until_it_is_set_back() {
        let (data, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let state = StateFolder::make(place.path()).unwrap();
        let entries = || fs::read_dir(place.path().join("settings")).map_or(0, Iterator::count);
        let number = fs::metadata(data.path()).unwrap().dev();
        let name = format!("/sys/class/bdi/{}:{}/read_ahead_kb", major(number), minor(number));
        let before = fs::read_to_string(&name).unwrap_or_default();
        let kib = before.trim().parse().unwrap_or(0);
        let other = Bytes::from_kib(kib + 4);
        let changed = match ReadAhead::set(data.path(), other, Some(&state)) {
            Ok(changed) => changed.unwrap(),
            Err(error) => return note_skip("a_changed_read_ahead_is_remembered", &error),
        };
        assert_eq!(entries(), 1);
        assert_eq!(fs::read_to_string(&name).unwrap().trim(), (kib + 4).to_string());
        restore_left_settings(&state, |_| panic!("its durio lives"));
        changed.restore().unwrap();
        assert_eq!((fs::read_to_string(&name).unwrap(), entries()), (before, 0));
    }

    #[test]
    fn what_cannot_be_set_back_is_an_error_and_stays_in_the_journal() {
        let place = tempfile::tempdir().unwrap();
        let state = StateFolder::make(place.path()).unwrap();
        let left = |state: &StateFolder| {
            let mut left = Vec::new();
            restore_left_settings(state, |setting| {
                left.push(setting.clone());
                false
            });
            left
        };
        // It can be opened for writing, and takes nothing.
        let setting = PathBuf::from("/dev/full");
        let entry = ChangedSetting {
            path: RawPath::from(setting.as_path()),
            before: "128".into(),
            after: "4096".into(),
        };
        for is_dropped in [false, true] {
            let journal = SettingJournal::begin(&state, "read-ahead-8:0-1", &entry).unwrap();
            let (before, journal) = ("128".to_owned(), Some(journal));
            let changed = ReadAhead { setting: setting.clone(), before, restored: false, journal };
            if is_dropped {
                drop(changed);
            } else {
                let error = changed.restore().unwrap_err().to_string();
                assert_eq!(error, "cannot set '/dev/full' back to 128: do it yourself");
            }
            assert_eq!(left(&state), std::slice::from_ref(&entry), "dropped: {is_dropped}");
        }
    }
}
