//! The modules of a kernel: which there are, which a set of them needs, and the indexes by which a
//! guest's modprobe finds them.
//!
//! Takes the folder `lib/modules/RELEASE` as a package has it, with or without depmod's files, and
//! returns unpacked modules in an order in which they can be loaded.
//!
//! What a module needs is read from the module itself (its section `.modinfo`), so that a kernel
//! package that was only unpacked works as one that is installed.

mod closure;
mod index_file;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::LabError;
use crate::kernels::DriverState;

pub(crate) use closure::{Module, closure};
pub(crate) use index_file::index_files;

/// Limit of nested folders; a tree of modules has five.
const DEPTH_MAX: usize = 16;
const SUFFIXES: [&str; 4] = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"];

/// The modules of a kernel by name.
#[derive(Debug, Clone)]
pub(crate) struct ModuleTree {
    root: PathBuf,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
    /// The text of `modules.builtin`.
    pub(crate) built_in_list: String,
}

impl ModuleTree {
    /// Lists the folder `lib/modules/RELEASE`.
    pub(crate) fn open(root: &Path) -> Result<Self, LabError> {
        let mut files = BTreeMap::new();
        collect(root, DEPTH_MAX, &mut files)?;
        let built_in_list = fs::read(root.join("modules.builtin")).unwrap_or_default();
        let built_in_list = String::from_utf8_lossy(&built_in_list).into_owned();
        let built_in = built_in_list.lines().filter_map(|line| module_name(Path::new(line)));
        Ok(Self { root: root.to_owned(), files, built_in: built_in.collect(), built_in_list })
    }

    /// Where the module of this name is.
    pub(crate) fn state(&self, name: &str) -> DriverState {
        let name = normalised(name);
        match (self.built_in.contains(&name), self.files.contains_key(&name)) {
            (true, _) => DriverState::BuiltIn,
            (false, true) => DriverState::Module,
            (false, false) => DriverState::Absent,
        }
    }

    /// The file of a module.
    pub(crate) fn file(&self, name: &str) -> Option<&Path> {
        self.files.get(&normalised(name)).map(PathBuf::as_path)
    }

    /// A module's file relative to the tree, with the ending `.ko`.
    pub(crate) fn unpacked_name(&self, file: &Path) -> PathBuf {
        let relative = file.strip_prefix(&self.root).unwrap_or(file);
        let name = relative.file_name().unwrap_or_default().to_string_lossy();
        let stem = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(&name);
        relative.with_file_name(format!("{stem}.ko"))
    }
}

/// In depmod's order of preference, so that later modules replace earlier ones: other folders
/// override `kernel`, and `updates` overrides all.
fn collect(
    folder: &Path,
    depth: usize,
    files: &mut BTreeMap<String, PathBuf>,
) -> Result<(), LabError> {
    let fail = |source| LabError::reading(folder, source);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        // Links lead to the kernel's sources, and to trees of other kernels.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            paths.push(entry.path());
        }
    }
    paths.sort_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_owned();
        (name == "updates", name != "kernel", name)
    });
    for path in paths {
        if let Some(name) = module_name(&path) {
            files.insert(name, path);
        } else if depth > 0 && path.is_dir() {
            collect(&path, depth - 1, files)?;
        }
    }
    Ok(())
}

/// The name of the module in a file; `None` if the file is not a module.
fn module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let stem = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix))?;
    Some(normalised(stem))
}

/// Names have underscores; files and people also use hyphens.
fn normalised(name: &str) -> String {
    name.trim().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str], built_in: &str) -> (tempfile::TempDir, ModuleTree) {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(root.path().join("modules.builtin"), built_in).unwrap();
        let tree = ModuleTree::open(root.path()).unwrap();
        (root, tree)
    }

    #[test]
    fn modules_are_found_packed_or_not_with_hyphens_or_underscores() {
        let (root, tree) = tree(
            &["kernel/drivers/md/dm-mod.ko.xz", "kernel/fs/xfs/xfs.ko", "kernel/fs/notes.txt"],
            "kernel/fs/ext4/ext4.ko\n",
        );
        assert_eq!(tree.state("dm-mod"), DriverState::Module);
        assert_eq!(tree.state("dm_mod"), DriverState::Module);
        assert_eq!(tree.state("ext4"), DriverState::BuiltIn);
        assert_eq!(tree.state("notes"), DriverState::Absent);
        let file = tree.file("dm_mod").unwrap();
        assert!(file.starts_with(root.path()));
        assert_eq!(tree.unpacked_name(file), Path::new("kernel/drivers/md/dm-mod.ko"));
    }

    #[test]
    fn a_module_among_the_updates_stands_for_that_of_the_kernel() {
        let files = ["updates/dkms/x.ko", "kernel/x.ko", "extra/x.ko"];
        let (root, tree) = tree(&files, "");
        assert_eq!(tree.file("x"), Some(root.path().join("updates/dkms/x.ko").as_path()));
    }

    #[test]
    fn modules_lie_up_to_sixteen_folders_deep() {
        let [sixteen, seventeen] = [16, 17].map(|depth| "d/".repeat(depth));
        let (_root, tree) =
            tree(&[&format!("{sixteen}near.ko"), &format!("{seventeen}far.ko")], "");
        let states = ["near", "far"].map(|name| tree.state(name));
        assert_eq!(states, [DriverState::Module, DriverState::Absent]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_that_names_it() {
        let error = ModuleTree::open(Path::new("/nonexistent/modules")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/modules"), "{error}");
    }

    #[test]
    fn a_loop_of_links_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("build")).unwrap();
        assert!(ModuleTree::open(root.path()).unwrap().files.is_empty());
    }
}
