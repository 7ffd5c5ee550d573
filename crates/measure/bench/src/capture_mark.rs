//! A mark in the state folder for each capture that traces the kernel.
//!
//! The mark is a file, locked while the capture lives; an unlocked one shows that a capture was
//! killed.
//!
//! Where tracefs is not mounted, a capture mounts it for itself, and its instances trace on after a kill
//! where no other process sees them. To look for them takes a mount, so it is done only for a mark.

use std::ffi::OsString;
use std::fs::File;
use std::time::SystemTime;

use durio_block::Folder;
use durio_command::CommandError;
use durio_record::{FolderName, StateFolder, StatePart};
use rustix::fs::{FlockOperation, flock};

use crate::state_folder::{path_of, refused, state_for};

/// The mark of a capture, gone when this is dropped.
#[derive(Debug)]
pub struct CaptureMark {
    folder: Folder,
    name: FolderName,
    /// Holds the lock.
    _file: File,
}

impl CaptureMark {
    /// Makes it, before anything is traced.
    ///
    /// # Errors
    /// If the state folder cannot be used.
    pub fn begin() -> Result<Self, CommandError> {
        let state = state_for("a capture")?;
        let path = path_of(&state, StatePart::Captures);
        let name = FolderName::new("capture", SystemTime::now(), std::process::id());
        let begun = state.make_part(StatePart::Captures).and_then(|folder| {
            let file = folder.make_file_with(name.as_str(), 0o600)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok((folder, file))
        });
        let (folder, file) = begun.map_err(|error| refused(&path, &error))?;
        Ok(Self { folder, name, _file: file })
    }
}

impl Drop for CaptureMark {
    fn drop(&mut self) {
        // One that stays costs the next run a look.
        let _ = self.folder.remove_file(self.name.as_str());
    }
}

/// Marks of captures that were killed.
#[derive(Default)]
pub(crate) struct DeadMarks(Option<(Folder, Vec<OsString>)>);

impl DeadMarks {
    pub(crate) fn of(state: &StateFolder) -> Self {
        let Ok(Some(folder)) = state.part(StatePart::Captures) else { return Self(None) };
        let names = folder.names().unwrap_or_default();
        let is_dead = |name: &OsString| {
            let file = folder.open_own(name);
            file.is_ok_and(|it| flock(&it, FlockOperation::NonBlockingLockExclusive).is_ok())
        };
        let dead: Vec<OsString> = names.into_iter().filter(is_dead).collect();
        Self((!dead.is_empty()).then_some((folder, dead)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Once nothing is left of their captures.
    pub(crate) fn forget(self) {
        if let Some((folder, names)) = self.0 {
            for name in names {
                // It is looked at again, no more.
                let _ = folder.remove_file(name);
            }
        }
    }
}
