//! Machines as text: one file each, which is expanded to a tree of `/sys` and `/proc`.
//!
//! In: a file of `crates/core/observe/tests/machines`. Out: a [`Machine`], and its tree in a temporary directory.
//! Not here: what is expected of reading it.
//!
//! The file: `name = value` lines. Before the first section they describe the machine: `about`,
//! `origin` (`recorded on ...` or `made by hand from ...`), `target` (what is asked about), and
//! `signals` (what is expected, `word id` each, by commas). A section `[/folder]` is a folder of the
//! tree; below it `file = content` is a file (the same name again appends a line; `\0` is a zero
//! byte; after `hex:` come bytes as hexadecimal digits, or `N*00` for N zeros, by commas), `link ->
//! target` a symbolic link relative to the folder. A folder with a `dev` is a block device and gets
//! the kernel's links to it. Of an `origin` that was recorded, files that are not read are left out,
//! and so are mounts of the guest's own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

pub mod conformance;
pub mod fleet;
pub mod plans;
pub mod runs;

/// One entry of the tree.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    File { path: String, content: String },
    Link { path: String, target: String },
}

impl Entry {
    pub fn path(&self) -> &str {
        match self {
            Self::File { path, .. } | Self::Link { path, .. } => path,
        }
    }
}

/// A machine that is to be looked at.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    pub name: String,
    pub about: String,
    pub origin: String,
    pub target: PathBuf,
    /// `word id` each, sorted.
    pub signals: Vec<String>,
    pub entries: Vec<Entry>,
}

/// Every machine, in the order of names.
pub fn machines() -> Vec<Machine> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/core/observe/tests/machines");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| Machine::read(path)).collect()
}

impl Machine {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut machine = Self { name, ..Self::default() };
        let mut folder: Option<String> = None;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(section) = line.strip_prefix('[') {
                folder = Some(section.trim_end_matches(']').trim_end_matches('/').to_owned());
                continue;
            }
            match &folder {
                None => machine.describe(line),
                Some(folder) => machine.add(folder, line),
            }
        }
        machine.signals.sort();
        machine
    }

    #[track_caller]
    fn describe(&mut self, line: &str) {
        let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("{}: {line}", self.name));
        let value = value.trim();
        match name.trim() {
            "about" => value.clone_into(&mut self.about),
            "origin" => value.clone_into(&mut self.origin),
            "target" => self.target = value.into(),
            "signals" => {
                self.signals.extend(value.split(',').map(|signal| signal.trim().to_owned()));
            }
            other => panic!("{}: what is '{other}'?", self.name),
        }
    }

    #[track_caller]
    fn add(&mut self, folder: &str, line: &str) {
        if let Some((name, target)) = line.split_once(" -> ") {
            let path = format!("{folder}/{name}");
            self.entries.push(Entry::Link { path, target: target.to_owned() });
            return;
        }
        let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("{}: {line}", self.name));
        let (path, value) =
            (format!("{folder}/{}", name.trim()), value.trim().replace("\\0", "\0"));
        let known = self.entries.iter_mut().find_map(|entry| match entry {
            Entry::File { path: known, content } if *known == path => Some(content),
            _ => None,
        });
        match known {
            Some(content) => content.push_str(&format!("{value}\n")),
            None => self.entries.push(Entry::File { path, content: format!("{value}\n") }),
        }
    }

    /// The tree; `spoil` may change an entry's content, or leave the file out.
    pub fn expand(&self, spoil: impl Fn(usize, &str) -> Option<Vec<u8>>) -> TempDir {
        let dir = TempDir::with_prefix("machine-").unwrap();
        for (index, entry) in self.entries.iter().enumerate() {
            let path = dir.path().join(entry.path().trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match entry {
                Entry::File { content, .. } => {
                    if let Some(content) = spoil(index, content) {
                        fs::write(&path, content).unwrap();
                    }
                }
                Entry::Link { target, .. } => symlink(target, &path).unwrap(),
            }
        }
        for (folder, number) in self.devices() {
            link_device(dir.path(), folder, number, self);
        }
        dir
    }

    /// The tree as it is described.
    pub fn tree(&self) -> TempDir {
        self.expand(|_, content| Some(bytes_of(content)))
    }

    fn devices(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::File { path, content } => Some((path.strip_suffix("/dev")?, content.trim())),
            Entry::Link { .. } => None,
        })
    }
}

/// The content of a file; of one that is written as hexadecimal digits, without the line end.
fn bytes_of(content: &str) -> Vec<u8> {
    let Some(digits) = content.trim_end().strip_prefix("hex:") else {
        return content.as_bytes().to_vec();
    };
    digits.split(',').flat_map(chunk).collect()
}

fn chunk(digits: &str) -> Vec<u8> {
    if let Some(count) = digits.strip_suffix("*00") {
        return vec![0; count.parse().unwrap()];
    }
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// The links by which the kernel shows a block device: by class, by number, and disks by name.
fn link_device(root: &Path, folder: &str, number: &str, machine: &Machine) {
    let name = folder.rsplit('/').next().unwrap();
    let partition = format!("{folder}/partition");
    let is_part = machine.entries.iter().any(|entry| entry.path() == partition);
    let mut links = vec![format!("sys/class/block/{name}"), format!("sys/dev/block/{number}")];
    links.extend((!is_part).then(|| format!("sys/block/{name}")));
    for link in links {
        let up = "../".repeat(link.matches('/').count());
        let link = root.join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(format!("{up}{}", folder.trim_start_matches('/')), link).unwrap();
    }
}
