//! What stores the data of the suite: the bodies prepare it, and look at it past the engine, through
//! this alone.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::OpenMode;
use crate::testkit::open_path;

/// Objects with a name, each a row of bytes. A fault of the store itself is a panic.
pub trait Store {
    /// Makes an object of these contents, durable, in place of one of that name.
    fn create(&self, name: &str, contents: &[u8]);

    /// What the object holds. Asked when no engine is over it.
    fn contents(&self, name: &str) -> Vec<u8>;

    /// The object, for an engine that may write or not.
    fn open(&self, name: &str, write: bool) -> Target {
        Target::Object { name: name.to_owned(), write }
    }

    /// True if an object can end within a block.
    fn takes_any_size(&self) -> bool {
        true
    }

    /// The files that the objects are, for bodies that need more of them than data.
    fn files(&self) -> Option<&Files> {
        None
    }
}

/// What an engine is built over.
#[derive(Debug)]
pub enum Target {
    /// An open file.
    File(OwnedFd),
    /// An object of a store without files, and whether it is to be written to.
    Object {
        /// Its name in the store.
        name: String,
        /// False if writes have to fail.
        write: bool,
    },
}

impl Target {
    /// The open file.
    ///
    /// # Panics
    /// If there is none: the store does not fit the engine.
    #[must_use]
    pub fn into_file(self) -> OwnedFd {
        match self {
            Self::File(file) => file,
            Self::Object { name, .. } => panic!("'{name}' is no file"),
        }
    }
}

/// Files of a directory.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    direct: bool,
}

impl Files {
    /// Files of an existing directory, opened with O_DIRECT or not.
    #[must_use]
    pub fn new(directory: &Path, direct: bool) -> Self {
        Self { directory: directory.to_owned(), direct }
    }

    /// True if they are opened with O_DIRECT.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Where the object is.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Store for Files {
    fn create(&self, name: &str, contents: &[u8]) {
        let path = self.path(name);
        fs::write(&path, contents).expect("writing the file of the suite");
        // Blocks without a place on the disk would turn asynchronous writes into blocking ones.
        fs::File::open(&path).and_then(|file| file.sync_all()).expect("syncing it");
    }

    fn contents(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("reading the file of the suite")
    }

    fn open(&self, name: &str, write: bool) -> Target {
        let mode = OpenMode { write, direct: self.direct, ..OpenMode::default() };
        let target = open_path(&self.path(name), mode).expect("opening the file of the suite");
        assert_eq!(target.direct, self.direct, "O_DIRECT is not possible here");
        Target::File(target.file)
    }

    fn files(&self) -> Option<&Files> {
        Some(self)
    }
}
