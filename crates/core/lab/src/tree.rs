//! Files as an archive: the files that a guest is booted with, which the kernel unpacks, and those
//! that it brings out.
//!
//! Takes files, links, folders and texts by their paths, and writes an archive to a file without a
//! name or to a sink.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;

use crate::LabError;
use crate::cpio::{CpioHeader, CpioKind, CpioWriter};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Directory,
    /// A file with these contents.
    Bytes(Vec<u8>),
    /// A file of this machine.
    Host(PathBuf),
    Symlink(PathBuf),
    Device(u32, u32),
}

#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<PathBuf, Node>,
}

impl Tree {
    pub(crate) fn directory(&mut self, path: impl AsRef<Path>) {
        self.put(path.as_ref(), Node::Directory);
    }

    pub(crate) fn bytes(&mut self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) {
        self.put(path.as_ref(), Node::Bytes(bytes.into()));
    }

    /// A copy of a file of this machine, with its permissions.
    pub(crate) fn host_file(&mut self, path: impl AsRef<Path>, file: impl Into<PathBuf>) {
        self.put(path.as_ref(), Node::Host(file.into()));
    }

    pub(crate) fn symlink(&mut self, path: impl AsRef<Path>, target: impl Into<PathBuf>) {
        self.put(path.as_ref(), Node::Symlink(target.into()));
    }

    pub(crate) fn device(&mut self, path: impl AsRef<Path>, major: u32, minor: u32) {
        self.put(path.as_ref(), Node::Device(major, minor));
    }

    /// Copies a file or a folder of this machine with its contents; links stay links, and only
    /// files, folders and links are copied.
    pub(crate) fn host_tree(&mut self, path: &Path, source: &Path) -> Result<(), LabError> {
        // No recursion: the user's folders determine the depth.
        let mut pending = vec![(path.to_owned(), source.to_owned())];
        while let Some((path, source)) = pending.pop() {
            let fail = |error| LabError::reading(&source, error);
            let kind = fs::symlink_metadata(&source).map_err(fail)?.file_type();
            if kind.is_symlink() {
                self.symlink(&path, fs::read_link(&source).map_err(fail)?);
            } else if kind.is_dir() {
                self.directory(&path);
                for entry in fs::read_dir(&source).map_err(fail)? {
                    let entry = entry.map_err(fail)?;
                    pending.push((path.join(entry.file_name()), entry.path()));
                }
            } else if kind.is_file() {
                self.host_file(&path, &source);
            }
        }
        Ok(())
    }

    /// The last node wins, but a folder never replaces an existing node.
    fn put(&mut self, path: &Path, node: Node) {
        // The root itself exists on either side, and an entry has a name.
        if path.parent().is_none() {
            return;
        }
        // The kernel makes no folders that an archive does not name.
        for parent in path.ancestors().skip(1).filter(|it| it.parent().is_some()) {
            self.nodes.entry(parent.to_owned()).or_insert(Node::Directory);
        }
        if node == Node::Directory {
            self.nodes.entry(path.to_owned()).or_insert(node);
        } else {
            self.nodes.insert(path.to_owned(), node);
        }
    }

    /// The archive, in memory that is freed when the file is closed.
    pub(crate) fn archive(&self) -> Result<File, LabError> {
        let fail = |error: io::Error| LabError::io("make the guest's files", error);
        let buffered = self.write_to(BufWriter::with_capacity(1 << 20, memory_file()?))?;
        buffered.into_inner().map_err(|error| fail(error.into_error()))
    }

    /// The archive, placed after another one of this length, in separate memory.
    pub(crate) fn archive_behind(&self, first: &File, length: u64) -> Result<File, LabError> {
        let fail = |error: Errno| LabError::io("make the guest's files", error.into());
        let memory = memory_file()?;
        let mut done = 0;
        // By offset: the position of `first` is shared with other boots.
        while done < length {
            let left = usize::try_from(length - done).unwrap_or(usize::MAX);
            if sendfile(&memory, first, Some(&mut done), left).map_err(fail)? == 0 {
                break;
            }
        }
        self.write_to(memory)
    }

    /// Writes the archive, and returns the sink.
    pub(crate) fn write_to<W: io::Write>(&self, sink: W) -> Result<W, LabError> {
        let mut writer = CpioWriter::new(sink);
        for (path, node) in &self.nodes {
            append(&mut writer, path, node)?;
        }
        writer.finish().map_err(|error| LabError::io("make the guest's files", error))
    }
}

/// QEMU opens it by our descriptor: without a name, nothing can be left behind.
fn memory_file() -> Result<File, LabError> {
    let memory = memfd_create("durio-lab", MemfdFlags::CLOEXEC);
    Ok(memory.map_err(|error| LabError::io("make the guest's files", error.into()))?.into())
}

fn append(
    writer: &mut CpioWriter<impl io::Write>,
    path: &Path,
    node: &Node,
) -> Result<(), LabError> {
    let name = path.strip_prefix("/").unwrap_or(path);
    let (kind, permissions, mut bytes): (_, _, &[u8]) = match node {
        Node::Directory => (CpioKind::Directory, 0o755, &[]),
        Node::Device(major, minor) => (CpioKind::Device(*major, *minor), 0o600, &[]),
        Node::Bytes(bytes) => (CpioKind::File, 0o644, bytes),
        Node::Symlink(target) => (CpioKind::Symlink, 0o777, target.as_os_str().as_bytes()),
        Node::Host(file) => return append_host(writer, name, file),
    };
    let header = CpioHeader { path: name.to_owned(), kind, permissions, size: bytes.len() as u64 };
    let written = writer.append(&header, &mut bytes);
    written.map_err(|error| LabError::io("make the guest's files", error))
}

fn append_host(
    writer: &mut CpioWriter<impl io::Write>,
    name: &Path,
    path: &Path,
) -> Result<(), LabError> {
    let fail = |error| LabError::reading(path, error);
    let mut file = File::open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    let header = CpioHeader {
        path: name.to_owned(),
        kind: CpioKind::File,
        permissions: metadata.permissions().mode() & 0o777,
        size: metadata.len(),
    };
    writer.append(&header, &mut file).map_err(fail)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom};

    use super::*;
    use crate::cpio::CpioReader;

    fn unpacked(tree: &Tree) -> Vec<(String, CpioKind, Vec<u8>)> {
        let mut file = tree.archive().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut reader = CpioReader::new(file);
        let mut found = Vec::new();
        while let Some(header) = reader.next_entry().unwrap() {
            let mut content = Vec::new();
            reader.read_to_end(&mut content).unwrap();
            found.push((header.path.display().to_string(), header.kind, content));
        }
        found
    }

    #[test]
    fn folders_come_before_what_is_in_them_and_links_are_not_replaced_by_folders() {
        let mut tree = Tree::default();
        tree.bytes("/lib/modules/x", "content");
        tree.symlink("/lib", "usr/lib");
        tree.directory("/lib");
        let found = unpacked(&tree);
        assert_eq!(found[0], ("lib".to_owned(), CpioKind::Symlink, b"usr/lib".to_vec()));
        assert_eq!(found[1].1, CpioKind::Directory);
        assert_eq!(found[2], ("lib/modules/x".to_owned(), CpioKind::File, b"content".to_vec()));
    }

    #[test]
    fn folders_of_this_machine_are_copied_with_their_links() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/b"), "text").unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("a/c")).unwrap();
        let mut tree = Tree::default();
        tree.host_tree(Path::new("/given"), folder.path()).unwrap();
        let found = unpacked(&tree);
        let file = ("given/a/b".to_owned(), CpioKind::File, b"text".to_vec());
        let link = ("given/a/c".to_owned(), CpioKind::Symlink, b"b".to_vec());
        assert!(found.contains(&file) && found.contains(&link), "{found:?}");
    }

    #[test]
    fn a_file_that_is_gone_is_an_error_that_names_it() {
        let mut tree = Tree::default();
        tree.host_file("/x", "/nonexistent/file");
        assert!(tree.archive().unwrap_err().to_string().contains("/nonexistent/file"));
    }
}
