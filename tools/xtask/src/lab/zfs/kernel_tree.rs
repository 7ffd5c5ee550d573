//! The unpacked kernels that drivers can be built for.
//!
//! Takes the folder for kernels and a name; returns a kernel's release and folders.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::super::kernel::has_kernel;

/// A file in the folder for programs: the package version of the build.
pub(super) const VERSION_FILE: &str = "zfs-version";

/// A kernel's unpacked package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KernelTree {
    pub(super) folder: PathBuf,
    /// As printed by `uname -r`.
    pub(super) release: String,
    modules: PathBuf,
}

impl KernelTree {
    /// The kernel of this release or in the folder of this name; the newest without it.
    pub(super) fn find(kernels: &Path, name: Option<&str>) -> Result<Self> {
        let mut trees = trees_in(kernels);
        trees.sort_by_key(|tree| std::cmp::Reverse(numbers(&tree.release)));
        let is_meant = |tree: &Self| {
            name.is_none_or(|name| tree.release == name || tree.folder.ends_with(name))
        };
        let there: Vec<_> = trees.iter().map(|tree| tree.release.clone()).collect();
        trees.into_iter().find(is_meant).with_context(|| match name {
            _ if there.is_empty() => {
                format!("no kernel in {}: cargo xtask lab kernel fetches one", kernels.display())
            }
            name => format!("no kernel '{}'; there are {}", name.unwrap_or(""), there.join(", ")),
        })
    }

    /// The installed version of ZFS, if complete.
    pub(super) fn zfs_version(&self) -> Option<String> {
        let whole = ["spl.ko", "zfs.ko"].iter().all(|it| self.zfs_modules().join(it).is_file());
        let version = fs::read_to_string(self.tools().join(VERSION_FILE)).ok()?;
        whole.then(|| version.trim().to_owned())
    }

    /// The folder for the modules of ZFS: modules below `updates` take precedence over the
    /// kernel's.
    pub(super) fn zfs_modules(&self) -> PathBuf {
        self.modules.join("updates/zfs")
    }

    /// The folder where the lab searches for the kernel's programs.
    pub(super) fn tools(&self) -> PathBuf {
        self.folder.join("tools")
    }
}

fn trees_in(kernels: &Path) -> Vec<KernelTree> {
    let Ok(entries) = fs::read_dir(kernels) else { return Vec::new() };
    entries.flatten().filter_map(|entry| tree_at(entry.path())).collect()
}

fn tree_at(folder: PathBuf) -> Option<KernelTree> {
    if !has_kernel(&folder) {
        return None;
    }
    let all = ["lib/modules", "usr/lib/modules"].map(|it| folder.join(it));
    let modules = all.iter().filter_map(|it| fs::read_dir(it).ok()).flatten().flatten();
    let modules = modules.map(|it| it.path()).find(|it| it.join("modules.builtin").is_file())?;
    let release = modules.file_name()?.to_str()?.to_owned();
    Some(KernelTree { folder, release, modules })
}

fn numbers(release: &str) -> Vec<u64> {
    let parts = release.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().unwrap_or(u64::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn with_kernels(trees: &[(&str, &str)]) -> tempfile::TempDir {
        let kernels = tempfile::tempdir().expect("a folder");
        for (folder, modules) in trees {
            let tree = kernels.path().join(folder);
            write(&tree.join("boot/vmlinuz"), "");
            write(&tree.join(modules).join("modules.builtin"), "");
        }
        kernels
    }

    #[test]
    fn the_newest_is_meant_unless_one_is_named_by_release_or_folder() {
        let trees = [("6.1", "lib/modules/6.1.0-9"), ("new", "usr/lib/modules/6.12.95+deb12")];
        let kernels = with_kernels(&trees);
        let found = |name| KernelTree::find(kernels.path(), name).expect("a kernel").release;
        assert_eq!(found(None), "6.12.95+deb12");
        assert_eq!(found(Some("6.1")), "6.1.0-9");
        assert_eq!(found(Some("6.1.0-9")), "6.1.0-9");
        let error = KernelTree::find(kernels.path(), Some("5.4")).expect_err("no such kernel");
        assert!(error.to_string().contains("'5.4'; there are 6.12.95+deb12, 6.1.0-9"), "{error}");
    }

    #[test]
    fn without_kernels_the_command_that_fetches_one_is_named() {
        let kernels = with_kernels(&[]);
        fs::create_dir(kernels.path().join("empty")).expect("a folder");
        let error = KernelTree::find(kernels.path(), Some("5.4")).expect_err("no kernel");
        assert!(error.to_string().contains("cargo xtask lab kernel"), "{error}");
    }

    #[test]
    fn zfs_is_there_only_with_modules_and_programs() {
        let kernels = with_kernels(&[("a", "lib/modules/6.1.0-9")]);
        let tree = KernelTree::find(kernels.path(), None).expect("a kernel");
        assert_eq!(tree.zfs_version(), None);
        write(&tree.tools().join(VERSION_FILE), "2.3.2-2\n");
        assert_eq!(tree.zfs_version(), None);
        for name in ["spl.ko", "zfs.ko"] {
            write(&tree.zfs_modules().join(name), "");
        }
        assert_eq!(tree.zfs_version().as_deref(), Some("2.3.2-2"));
    }
}
