//! What is in a directory before and after: names, kinds, permissions, times, every byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;

/// One thing in a directory.
#[derive(PartialEq, Eq)]
struct Entry {
    mode: u32,
    modified: (i64, i64),
    content: Content,
}

#[derive(PartialEq, Eq)]
enum Content {
    Bytes(Vec<u8>),
    Link(PathBuf),
    Other,
}

type Tree = BTreeMap<PathBuf, Entry>;

/// Asserts, when it is dropped, that the directory is as it was.
pub(crate) struct Watch {
    directory: PathBuf,
    before: Tree,
}

impl Watch {
    /// Looks at `directory` now.
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), before: tree(directory) }
    }

    /// From now on, what is there now is right: the test has changed it, or permitted it.
    pub(crate) fn accept(&mut self) {
        self.before = tree(&self.directory);
    }

    /// What is other than it was, in words.
    pub(crate) fn differences(&self) -> Vec<String> {
        let after = tree(&self.directory);
        let gone = self.before.keys().filter(|path| !after.contains_key(*path));
        let mut words: Vec<String> =
            gone.map(|path| format!("{} is gone", path.display())).collect();
        for (path, entry) in &after {
            match self.before.get(path) {
                None => words.push(format!("{} is new", path.display())),
                Some(before) if before != entry => {
                    words.push(format!("{} has changed", path.display()));
                }
                Some(_) => {}
            }
        }
        words
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !thread::panicking() {
            let differences = self.differences();
            assert!(differences.is_empty(), "in {}: {differences:?}", self.directory.display());
        }
    }
}

fn tree(directory: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let facts = path.symlink_metadata().unwrap();
            if facts.is_dir() {
                pending.push(path.clone());
            }
            let content = content_of(&path, &facts);
            let is_directory = facts.is_dir();
            // Making and removing a named file touches the time of the directory.
            let modified = if is_directory { (0, 0) } else { (facts.mtime(), facts.mtime_nsec()) };
            tree.insert(path, Entry { mode: facts.mode(), modified, content });
        }
    }
    tree
}

fn content_of(path: &Path, facts: &fs::Metadata) -> Content {
    let kind = facts.file_type();
    if kind.is_symlink() {
        Content::Link(fs::read_link(path).unwrap())
    } else if kind.is_dir() || kind.is_fifo() || kind.is_socket() || kind.is_block_device() {
        Content::Other
    } else {
        Content::Bytes(fs::read(path).unwrap())
    }
}
