//! `cargo xtask lab zfs`: OpenZFS for a kernel of the lab.
//!
//! Takes a kernel below the folder for kernels, and Debian's packages. Puts
//! `updates/zfs/{spl,zfs}.ko` next to that kernel's modules, and the programs that speak to ZFS in
//! the kernel's folder `tools`. durio-lab packs them into a guest.
//!
//! Nothing is installed: packages are unpacked into a scratch folder, which is removed in any case.
//! Existing results for this kernel, of the version that apt has, are kept.

mod build;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use build::{Headers, Modules, SOURCES};

use super::debian::{Apt, kernels_folder};
use super::kernel::has_kernel;
use crate::bench::Interrupt;

const NO_SOURCES: &str = "no package zfs-dkms: it is in Debian's component contrib, of the backports or of \
                          what apt is set up for";

/// Builds ZFS for a kernel unless it exists.
pub(super) fn provide(kernel: Option<&str>) -> Result<()> {
    let kernels = kernels_folder()?;
    let tree = KernelTree::find(&kernels, kernel)?;
    let apt = Apt::with(SOURCES, None);
    let newest = apt.as_ref().ok().and_then(|apt| apt.newest_version(SOURCES).ok().flatten());
    if let Some(version) = tree.zfs_version()
        // Without apt's lists nothing newer can be built either.
        && newest.as_ref().is_none_or(|newest| *newest == version)
    {
        println!("OpenZFS {version} is there already: {}", tree.folder.display());
        return Ok(());
    }
    let Some(version) = newest else { bail!(NO_SOURCES) };
    let apt = apt?;
    let interrupt = Interrupt::watch()?;
    let scratch = ScratchFolder::begin(&kernels)?;
    make(&tree, &apt, &version, scratch.path(), &interrupt)
}

fn make(
    tree: &KernelTree,
    apt: &Apt,
    version: &str,
    scratch: &Path,
    interrupt: &Interrupt,
) -> Result<()> {
    println!("OpenZFS {version} for kernel {}: fetching packages", tree.release);
    let headers = Headers::fetch(&tree.release, scratch)?;
    build::check_machine(&headers)?;
    let sources = build::fetch_sources(apt, version, scratch)?;
    // Before the build: report a library that this machine lacks now, not after ten minutes.
    let tools = build::fetch_tools(apt, version, scratch)?;
    interrupt.check()?;
    let modules = build::build(&sources, &headers, interrupt)?;
    place(tree, &modules, &tools, version)
}

/// The version is written last, into a folder that gets its name when everything else is in place.
fn place(tree: &KernelTree, modules: &Modules, tools: &Path, version: &str) -> Result<()> {
    // The version is in this folder: if the rest is interrupted, the next call builds again.
    replace(&tree.tools(), None)?;
    replace(&tree.zfs_modules(), Some(&modules.folder))?;
    fs::write(tools.join(VERSION_FILE), format!("{version}\n"))?;
    replace(&tree.tools(), Some(tools))?;
    println!("{}", tree.zfs_modules().display());
    println!("{}", tree.tools().display());
    Ok(())
}

/// Puts a folder in the place of another.
fn replace(folder: &Path, with: Option<&Path>) -> Result<()> {
    if folder.exists() {
        let context = || format!("cannot remove {}", folder.display());
        fs::remove_dir_all(folder).with_context(context)?;
    }
    let Some(from) = with else { return Ok(()) };
    fs::create_dir_all(folder.parent().unwrap_or(folder))?;
    fs::rename(from, folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// A file in the folder for programs: the package version of the build.
const VERSION_FILE: &str = "zfs-version";

/// A kernel's unpacked package.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KernelTree {
    folder: PathBuf,
    /// As printed by `uname -r`.
    release: String,
    modules: PathBuf,
}

impl KernelTree {
    /// The kernel of this release or in the folder of this name; the newest without it.
    fn find(kernels: &Path, name: Option<&str>) -> Result<Self> {
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
    fn zfs_version(&self) -> Option<String> {
        let whole =
            ["spl.ko", "zfs.ko"].iter().all(|module| self.zfs_modules().join(module).is_file());
        let version = fs::read_to_string(self.tools().join(VERSION_FILE)).ok()?;
        whole.then(|| version.trim().to_owned())
    }

    /// The folder for the modules of ZFS: modules below `updates` take precedence over the
    /// kernel's.
    fn zfs_modules(&self) -> PathBuf {
        self.modules.join("updates/zfs")
    }

    /// The folder where the lab searches for the kernel's programs.
    fn tools(&self) -> PathBuf {
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
    let all = ["lib/modules", "usr/lib/modules"].map(|below| folder.join(below));
    let modules = all.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let modules = modules
        .map(|entry| entry.path())
        .find(|folder| folder.join("modules.builtin").is_file())?;
    let release = modules.file_name()?.to_str()?.to_owned();
    Some(KernelTree { folder, release, modules })
}

fn numbers(release: &str) -> Vec<u64> {
    let parts = release.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().unwrap_or(u64::MAX)).collect()
}

const NAME: &str = ".zfs-build";
/// kbuild and make split paths there.
const SPLITTERS: [char; 3] = [' ', ':', '\t'];

/// The folder; one at a time.
#[derive(Debug)]
struct ScratchFolder {
    path: PathBuf,
    /// Held while the folder is in use; the lock ends with the process.
    _lock: File,
}

impl ScratchFolder {
    /// Makes a new, empty folder.
    fn begin(kernels: &Path) -> Result<Self> {
        // On the filesystem of the kernels: the results are moved by a rename.
        let path = kernels.join(NAME);
        ensure!(
            !path.to_string_lossy().contains(SPLITTERS),
            "kernels' makefiles cannot work below {}: name another folder by XDG_CACHE_HOME",
            kernels.display()
        );
        let lock = File::open(kernels)?;
        lock.try_lock().context("another cargo xtask lab zfs is at work")?;
        let scratch = Self { path, _lock: lock };
        scratch.remove().context("cannot remove what an earlier build left")?;
        fs::create_dir(&scratch.path).context("cannot make a folder to build in")?;
        Ok(scratch)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn remove(&self) -> std::io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
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

    #[test]
    fn it_is_empty_at_first_one_at_a_time_and_gone_in_the_end() {
        let kernels = tempfile::tempdir().expect("a folder");
        let path = kernels.path().join(NAME);
        fs::create_dir(&path).expect("a folder");
        fs::write(path.join("left"), "by a killed build").expect("a file");
        let scratch = ScratchFolder::begin(kernels.path()).expect("a scratch folder");
        assert_eq!(fs::read_dir(scratch.path()).expect("its entries").count(), 0);
        assert!(ScratchFolder::begin(kernels.path()).is_err());
        drop(scratch);
        assert!(!path.exists());
        assert!(ScratchFolder::begin(kernels.path()).is_ok());
    }

    #[test]
    fn a_path_that_make_would_split_is_refused() {
        let error = ScratchFolder::begin(Path::new("/tmp/a b")).expect_err("refused");
        assert!(error.to_string().contains("XDG_CACHE_HOME"), "{error}");
    }
}
