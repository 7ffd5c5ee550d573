//! Files and directories that a step makes, and how they are removed.

use std::io;

use super::prelude::*;
use crate::undo::{backing_of, parent_of};

/// A file that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveFile {
    pub(crate) path: String,
}

impl UndoStep for RemoveFile {
    fn text(&self) -> String {
        format!("remove file {}", self.path)
    }

    fn made_path(&self) -> Option<&str> {
        Some(&self.path)
    }

    fn folder(&self) -> Option<&str> {
        parent_of(&self.path)
    }

    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        Ok(LiveThing::of(&self.path, prover.system.file_identity(Path::new(&self.path))))
    }

    fn fault_of_begun(&self, prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        let folder = Path::new(&self.path).parent();
        let now = folder.and_then(|folder| prover.system.file_identity(folder));
        let is_ours =
            matches!((prover.known.folder, &now), (Some(a), Some(b)) if a.difference(b).is_none());
        (!is_ours).then(|| "its folder is not the one that this bench made".to_owned())
    }

    fn after_restart(&self, _prover: &Prover<'_>) -> ThingState {
        ThingState::Ours(Vec::new())
    }

    /// A file that a loop device stands on is in use.
    fn further(
        &self,
        prover: &mut Prover<'_>,
        found: &LiveThing,
    ) -> Result<ThingState, UndoFailure> {
        let backing = backing_of(&found.identity);
        // The kernel would remove the name and keep the space until the device is detached, unseen.
        match prover.loops()?.into_iter().find(|(_, behind)| Some(behind) == backing.as_ref()) {
            Some((node, _)) => Err(format!("{node} stands on it")),
            None => Ok(ThingState::Ours(Vec::new())),
        }
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        in_words(undoer.system.remove_file(proven)).map(|()| Undone::Done)
    }
}

/// A directory that was made, if it is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveDirectory {
    pub(crate) path: String,
}

impl UndoStep for RemoveDirectory {
    fn text(&self) -> String {
        format!("remove directory {}", self.path)
    }

    fn made_path(&self) -> Option<&str> {
        Some(&self.path)
    }

    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        Ok(LiveThing::of(&self.path, prover.system.file_identity(Path::new(&self.path))))
    }

    /// Its name has this build's tag, and only an empty one is removed.
    fn fault_of_begun(&self, _prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        None
    }

    fn after_restart(&self, _prover: &Prover<'_>) -> ThingState {
        ThingState::Ours(Vec::new())
    }

    /// Files that others put there are not removed with it.
    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        match undoer.system.remove_directory(proven) {
            Ok(()) => Ok(Undone::Done),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Ok(Undone::LeftAlone("something is in it that this bench did not make".into()))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
