//! Programs that go with a kernel's modules: drivers that are built apart from the kernel, as ZFS is,
//! are spoken to by programs of their own version.
//!
//! In: a kernel. Out: where its programs and their libraries are here, and at which paths a guest
//! must have them. Not here: making that folder (`cargo xtask lab zfs`), packing the files.
//!
//! They are in the folder `tools` of the kernel's tree, beside `boot` and `lib`, which is laid out
//! as a root directory: `tools/usr/sbin/zpool` is `/usr/sbin/zpool` in the guest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::kernels::Kernel;
use crate::programs::is_executable;

const FOLDER: &str = "tools";
const PROGRAMS: [&str; 2] = ["usr/sbin", "usr/bin"];
/// Where loaders look without being told; the first is Debian's.
const LIBRARIES: [&str; 3] = ["usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib"];

/// The folder with a kernel's programs, if it has one.
#[derive(Debug, Default)]
pub(crate) struct KernelTools {
    folder: Option<PathBuf>,
}

impl KernelTools {
    /// Those in the tree of the kernel's image; the root directory is no such tree.
    pub(crate) fn of(kernel: &Kernel) -> Self {
        let image = kernel.image.canonicalize().ok();
        let beside = image.as_deref().and_then(Path::parent);
        let tree = beside.and_then(|it| if it.ends_with("boot") { it.parent() } else { Some(it) });
        let tree = tree.filter(|it| it.parent().is_some());
        Self { folder: tree.map(|it| it.join(FOLDER)).filter(|it| it.is_dir()) }
    }

    /// The program of this name.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        let folders = self.below(&PROGRAMS);
        folders.map(|folder| folder.join(name)).find(|path| is_executable(path))
    }

    /// True for a file that is one of them, or a library of theirs.
    pub(crate) fn has(&self, file: &Path) -> bool {
        self.folder.as_deref().is_some_and(|folder| file.starts_with(folder))
    }

    /// Where a guest has a file of this machine: all but these have the same path there.
    pub(crate) fn guest_path(&self, file: &Path) -> PathBuf {
        let below = self.folder.as_deref().and_then(|folder| file.strip_prefix(folder).ok());
        below.map_or_else(|| file.to_owned(), |path| Path::new("/").join(path))
    }

    /// Where the loader shall look first for this program's libraries.
    pub(crate) fn library_path(&self, program: &Path) -> Option<OsString> {
        if !self.has(program) {
            return None;
        }
        std::env::join_paths(self.below(&LIBRARIES).filter(|it| it.is_dir())).ok()
    }

    fn below(&self, folders: &'static [&str]) -> impl Iterator<Item = PathBuf> {
        let folder = self.folder.clone();
        folders.iter().filter_map(move |it| Some(folder.as_ref()?.join(it)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::programs::Programs;

    fn kernel_in(tree: &Path, image: &str) -> Kernel {
        let image = tree.join(image);
        fs::create_dir_all(image.parent().unwrap()).unwrap();
        fs::write(&image, "").unwrap();
        Kernel { release: "6.1.0".to_owned(), image, modules: tree.join("modules") }
    }

    /// A tree whose tools are a copy of this machine's `true`, under another name.
    fn tree_with_tool(name: &str) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree.path().join("tools/usr/sbin");
        fs::create_dir_all(&folder).unwrap();
        let real = crate::find_program(Path::new("true")).unwrap();
        fs::copy(real, folder.join(name)).unwrap();
        tree
    }

    #[test]
    fn tools_beside_the_kernel_come_first_and_are_where_a_root_directory_has_them() {
        for image in ["boot/vmlinuz-6.1.0", "vmlinuz"] {
            let tree = tree_with_tool("sh");
            let tools = KernelTools::of(&kernel_in(tree.path(), image));
            let mut programs = Programs::with(tools);
            programs.add("sh").unwrap();
            let folder = tree.path().canonicalize().unwrap();
            let own = folder.join("tools/usr/sbin/sh");
            assert_eq!(programs.files.get(Path::new("/usr/sbin/sh")), Some(&own), "{image}");
            assert!(programs.files.keys().all(|path| !path.starts_with(&folder)), "{programs:?}");
            let names = programs.files.keys().chain(programs.links.keys());
            let loader = |path: &&PathBuf| path.ends_with("ld-linux-x86-64.so.2");
            assert!(names.into_iter().any(|path| loader(&path)), "its loader is this machine's");
        }
    }

    #[test]
    fn a_kernel_without_tools_has_this_machines_programs() {
        let tree = tempfile::tempdir().unwrap();
        let tools = KernelTools::of(&kernel_in(tree.path(), "boot/vmlinuz"));
        assert_eq!(tools.find("sh"), None);
        assert!(Programs::with(tools).find(Path::new("sh")).is_some());
    }

    #[test]
    fn libraries_are_looked_for_beside_the_tools_alone() {
        let tree = tree_with_tool("x");
        let libraries = tree.path().join("tools/usr/lib/x86_64-linux-gnu");
        fs::create_dir_all(&libraries).unwrap();
        let tools = KernelTools::of(&kernel_in(tree.path(), "vmlinuz"));
        let found = tools.library_path(&tools.find("x").unwrap()).unwrap();
        let expected = [libraries, tree.path().join("tools/usr/lib")];
        let expected = expected.map(|path| path.canonicalize().unwrap());
        assert_eq!(std::env::split_paths(&found).collect::<Vec<_>>(), expected);
        assert_eq!(tools.library_path(Path::new("/usr/bin/env")), None);
    }
}
