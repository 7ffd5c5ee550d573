//! `cargo xtask lab zfs`: OpenZFS for a kernel of the lab.
//!
//! Takes a kernel below the folder for kernels, and Debian's packages. Puts
//! `updates/zfs/{spl,zfs}.ko` next to that kernel's modules, and the programs that speak to ZFS in
//! the kernel's folder `tools`. durio-lab packs them into a guest.
//!
//! Nothing is installed: packages are unpacked into a scratch folder, which is removed in any case.
//! Existing results for this kernel, of the version that apt has, are kept.

mod build;
mod headers;
mod kernel_tree;
mod program;
mod scratch;
mod tools;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use self::build::Modules;
use self::headers::Headers;
use self::kernel_tree::KernelTree;
use self::scratch::ScratchFolder;
use super::debian::Apt;
use super::kernels_folder;
use crate::bench::Interrupt;

/// The drivers' sources.
const SOURCES: &str = "zfs-dkms";
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
    let tools = tools::fetch(apt, version, scratch)?;
    interrupt.check()?;
    let modules = build::build(&sources, &headers, interrupt)?;
    place(tree, &modules, &tools, version)
}

/// The version is written last, into a folder that gets its name when everything else is in place.
fn place(tree: &KernelTree, modules: &Modules, tools: &Path, version: &str) -> Result<()> {
    // The version is in this folder: if the rest is interrupted, the next call builds again.
    replace(&tree.tools(), None)?;
    replace(&tree.zfs_modules(), Some(&modules.folder))?;
    fs::write(tools.join(kernel_tree::VERSION_FILE), format!("{version}\n"))?;
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
