//! The journal of a setting of the kernel that durio changes for a while.
//!
//! The journal holds a setting's file, its old value and the new one, and outlives durio: from it
//! the next durio learns what a killed one left changed.
//!
//! The journal is on disk before the setting is changed, and locked as long as its durio lives: a
//! journal without a lock is a dead one's.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use durio_base::Bytes;
use durio_block::{Folder, read_bounded};
use durio_plan::RawPath;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::{failed, malformed};
use crate::{RecordError, StateFolder, StatePart};

// An entry is a path and two values; a larger file is not an entry.
const ENTRY_BYTES_MAX: Bytes = Bytes::from_kib(64);

/// A setting of the kernel that is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSetting {
    /// The kernel's file of the setting, below /sys or /proc.
    pub path: RawPath,
    /// The value that must come back.
    pub before: String,
    /// The value during the change.
    pub after: String,
}

/// The entry of a setting that this durio changes.
#[derive(Debug)]
pub struct SettingJournal {
    folder: Folder,
    name: String,
    /// Holds the journal's lock as long as it is open.
    _file: File,
}

impl SettingJournal {
    /// Remembers a setting under `name`, before it is changed.
    ///
    /// # Errors
    /// If that cannot be written to disk: then the setting must not be changed.
    pub fn begin(
        state: &StateFolder,
        name: &str,
        changed: &ChangedSetting,
    ) -> Result<Self, RecordError> {
        let path = state.folder().path().join(StatePart::Settings.name());
        let entry = path.join(name);
        let bytes =
            serde_json::to_vec(changed).map_err(|error| malformed("write", &entry, error))?;
        let folder = state
            .make_part(StatePart::Settings)
            .map_err(|error| failed("make the folder", &path, error))?;
        let file =
            written(&folder, name, &bytes).map_err(|error| failed("write", &entry, error))?;
        Ok(Self { folder, name: name.to_owned(), _file: file })
    }

    /// Forgets the setting, which has its old value again.
    pub fn end(self) {
        // If it stays, the next durio finds the old value where it should be, and forgets it.
        let _ = self.folder.remove_file(&self.name);
    }
}

/// Locked and whole before it is visible by its name.
fn written(folder: &Folder, name: &str, bytes: &[u8]) -> std::io::Result<File> {
    // The name comes last: another durio must not find the journal without its lock, and take this
    // one for dead.
    let hidden = format!(".{name}");
    // A killed durio may have left it half written, and `make_file` replaces nothing.
    folder.remove_file(&hidden)?;
    let mut file = folder.make_file_with(&hidden, 0o600)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    folder.rename(&hidden, name)?;
    folder.sync().map(|()| file)
}

/// Hands every setting that a dead durio left changed to `restore`, and forgets those for which it
/// returns true: the setting is settled.
pub fn restore_left_settings(
    state: &StateFolder,
    mut restore: impl FnMut(&ChangedSetting) -> bool,
) {
    let Ok(Some(folder)) = state.part(StatePart::Settings) else { return };
    for name in folder.names().unwrap_or_default() {
        // Not named yet: its writer has not changed the setting.
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        let Some((changed, _lock)) = left_by_dead(&folder, &name) else { continue };
        if restore(&changed) {
            let _ = folder.remove_file(&name);
        }
    }
}

/// The entry and its lock; none while its durio lives, or if it cannot be read.
// None of another user's either: it could have any file written.
fn left_by_dead(folder: &Folder, name: &OsStr) -> Option<(ChangedSetting, File)> {
    // The lock is kept while the setting is restored: two durios must not do that at once.
    let file = folder.open_own(name).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let bytes = read_bounded(&file, ENTRY_BYTES_MAX).ok()?;
    Some((serde_json::from_slice(&bytes).ok()?, file))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn changed() -> ChangedSetting {
        let path = RawPath::from(Path::new("/sys/block/x/queue/read_ahead_kb"));
        ChangedSetting { path, before: "128".into(), after: "4096".into() }
    }

    fn state_at(place: &tempfile::TempDir) -> StateFolder {
        StateFolder::make(&place.path().join("durio")).unwrap()
    }

    fn left(state: &StateFolder, forget: bool) -> Vec<ChangedSetting> {
        let mut left = Vec::new();
        restore_left_settings(state, |setting| {
            left.push(setting.clone());
            forget
        });
        left
    }

    #[test]
    fn a_living_durios_setting_is_its_own() {
        let place = tempfile::tempdir().unwrap();
        let state = state_at(&place);
        let journal = SettingJournal::begin(&state, "a", &changed()).unwrap();
        assert!(left(&state, true).is_empty());
        journal.end();
        assert!(left(&state, true).is_empty());
    }

    #[test]
    fn a_dead_durios_setting_is_left_until_it_is_restored() {
        let place = tempfile::tempdir().unwrap();
        let state = state_at(&place);
        // The lock goes with the file, as it does when the process is killed.
        drop(SettingJournal::begin(&state, "a", &changed()).unwrap());
        assert_eq!(left(&state, false), [changed()]);
        assert_eq!(left(&state, true), [changed()]);
        assert!(left(&state, true).is_empty());
    }

    #[test]
    fn an_entry_that_cannot_be_read_keeps_none_of_the_others_from_being_restored() {
        let place = tempfile::tempdir().unwrap();
        let state = state_at(&place);
        // In whatever order the folder lists them.
        for number in 0..8 {
            drop(SettingJournal::begin(&state, &format!("{number}-good"), &changed()).unwrap());
            let folder = state.make_part(StatePart::Settings).unwrap();
            fs::write(folder.path().join(format!("{number}-bad")), "{").unwrap();
        }
        assert_eq!(left(&state, true), vec![changed(); 8]);
        assert!(left(&state, true).is_empty());
    }

    #[test]
    fn garbage_and_unfinished_entries_are_passed_over() {
        let place = tempfile::tempdir().unwrap();
        let state = state_at(&place);
        assert!(left(&state, true).is_empty(), "there is no folder");
        let folder = state.make_part(StatePart::Settings).unwrap();
        let folder = folder.path();
        for (name, bytes) in [("a", &b"{\"path\":"[..]), ("b", b"\xff\xfe"), ("c", b"")] {
            fs::write(folder.join(name), bytes).unwrap();
        }
        fs::write(folder.join(".d"), serde_json::to_vec(&changed()).unwrap()).unwrap();
        assert!(left(&state, true).is_empty());
    }

    #[test]
    fn an_entry_has_64_kib_at_most() {
        let place = tempfile::tempdir().unwrap();
        let state = state_at(&place);
        let folder = state.make_part(StatePart::Settings).unwrap();
        let mut entry = serde_json::to_vec(&changed()).unwrap();
        entry.resize(65_537, b' ');
        fs::write(folder.path().join("a"), &entry).unwrap();
        assert!(left(&state, true).is_empty());
        fs::write(folder.path().join("a"), &entry[..65_536]).unwrap();
        assert_eq!(left(&state, true), [changed()]);
    }

    #[test]
    fn a_state_folder_that_cannot_be_written_to_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let state = state_at(&place);
        fs::write(place.path().join("durio/settings"), "").unwrap();
        let error = SettingJournal::begin(&state, "a", &changed()).unwrap_err();
        assert!(error.to_string().contains("durio/settings"), "{error}");
    }

    /// Whatever the user's umask: the entry says what is written where, with this user's rights.
    #[test]
    fn an_entry_is_for_its_user_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let state = state_at(&place);
        let journal = SettingJournal::begin(&state, "a", &changed()).unwrap();
        let folder = state.make_part(StatePart::Settings).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.path().join("a")), 0o600);
        assert!(!folder.path().join(".a").exists());
        journal.end();
        assert!(!folder.path().join("a").exists());
    }
}
