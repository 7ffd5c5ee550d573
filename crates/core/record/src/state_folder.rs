//! The state folder: where durio keeps runs, and journals of what it must take back.
//!
//! Each part is a folder that is held open, the user's own and not a link. The caller knows the
//! place of the state folder ($XDG_STATE_HOME).
//!
//! Each part decides which files are removed, also by root, so only paths through this type are
//! acted on.

use std::io;
use std::path::Path;
use std::sync::Arc;

use durio_block::Folder;

/// A folder of the state folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatePart {
    /// Run folders.
    Runs,
    /// Run folders of `durio watch`: they are many, and never `last`.
    Probes,
    /// Journals of replays.
    Replays,
    /// Pointers to the journals of runs.
    Leftovers,
    /// Journals of stacks that are built.
    Stacks,
    /// Old values of settings of the kernel.
    Settings,
    /// A mark for each capture that traces by a separate mount.
    Captures,
}

impl StatePart {
    pub const ALL: [Self; 7] = [
        Self::Runs,
        Self::Probes,
        Self::Replays,
        Self::Leftovers,
        Self::Stacks,
        Self::Settings,
        Self::Captures,
    ];

    /// Its name in the state folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Probes => "watch",
            Self::Replays => "replays",
            Self::Leftovers => "leftovers",
            Self::Stacks => "stacks",
            Self::Settings => "settings",
            Self::Captures => "captures",
        }
    }
}

/// The state folder, held open.
#[derive(Debug, Clone)]
pub struct StateFolder(Arc<Folder>);

impl StateFolder {
    /// Opens it; none if it is not there.
    ///
    /// # Errors
    /// If it is a link or another user's, or a link of another user leads to it.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        Ok(Folder::open_own_path(path)?.map(|folder| Self(Arc::new(folder))))
    }

    /// Opens it, made where it is not there.
    ///
    /// # Errors
    /// As [`StateFolder::open`], and if it cannot be made.
    pub fn make(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(Folder::make_own_path(path)?)))
    }

    /// The folder itself.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.0
    }

    /// A part of it; none if it is not there.
    ///
    /// # Errors
    /// If it is a link or another user's.
    pub fn part(&self, part: StatePart) -> io::Result<Option<Folder>> {
        self.0.own_folder(part.name())
    }

    /// A part of it, made where it is not there.
    ///
    /// # Errors
    /// As [`StateFolder::part`], and if it cannot be made.
    pub fn make_part(&self, part: StatePart) -> io::Result<Folder> {
        self.0.own_folder_or_make(part.name())
    }
}
