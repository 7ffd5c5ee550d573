//! `cargo xtask lab`: kernels for `durio lab`, and for the tests that boot one.
//!
//! In: Debian's package lists, as apt has them. Out: an unpacked kernel package in the folder where
//! durio looks for kernels. Not here: installing anything; no right is needed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

const DEFAULT_PACKAGE: &str = "linux-image-amd64";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Lab {
    /// Fetches a kernel package and unpacks it into ~/.cache/durio/kernels
    Kernel {
        /// The package; of a package that only names others, the kernel image among them
        #[arg(default_value = DEFAULT_PACKAGE)]
        package: String,
    },
}

pub(crate) fn run(command: &Lab) -> Result<ExitCode> {
    match command {
        Lab::Kernel { package } => fetch(package).map(|()| ExitCode::SUCCESS),
    }
}

/// Fetches the distribution's own kernel unless there is one; without it the tests that boot one are
/// skipped, and say so.
pub(crate) fn provide_kernel() {
    let has_one = kernels_folder().and_then(|folder| {
        Ok(fs::read_dir(folder)?.flatten().any(|it| it.path().join("boot").is_dir()))
    });
    if !has_one.unwrap_or(false)
        && let Err(error) = fetch(DEFAULT_PACKAGE)
    {
        println!("no kernel for the lab: {error:#}");
    }
}

fn fetch(package: &str) -> Result<()> {
    let package = image_package(package)?;
    let folder = kernels_folder()?.join(package.trim_start_matches("linux-image-"));
    if folder.join("boot").is_dir() {
        println!("{} is there already", folder.display());
        return Ok(());
    }
    fs::create_dir_all(folder.parent().unwrap_or(&folder))?;
    let scratch = tempfile::tempdir_in(folder.parent().unwrap_or(&folder))?;
    run_in(scratch.path(), Command::new("apt-get").args(["download", &package]))?;
    let packed = the_package(scratch.path())?;
    let unpacked = scratch.path().join("unpacked");
    run_in(scratch.path(), Command::new("dpkg-deb").arg("-x").arg(packed).arg(&unpacked))?;
    // Only a whole tree gets the name under which it is found.
    fs::rename(&unpacked, &folder).with_context(|| format!("cannot make {}", folder.display()))?;
    println!("{}", folder.display());
    Ok(())
}

/// The package with the image: the one itself, or the first image that it depends on.
fn image_package(package: &str) -> Result<String> {
    let output = Command::new("apt-cache").args(["depends", "--important", package]).output();
    let output = output.context("cannot run apt-cache: kernels are fetched on Debian only")?;
    if !output.status.success() {
        bail!("apt knows no package {package}; apt-get update may help");
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(image_among(&text).unwrap_or(package).to_owned())
}

fn image_among(depends: &str) -> Option<&str> {
    let named = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    named.map(str::trim).find(|name| name.starts_with("linux-image-"))
}

fn the_package(folder: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let packed = entries.find(|path| path.extension().is_some_and(|it| it == "deb"));
    packed.context("apt-get downloaded nothing")
}

fn kernels_folder() -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("durio/kernels"))
}

fn run_in(folder: &Path, command: &mut Command) -> Result<()> {
    let status = command.current_dir(folder).stdin(Stdio::null()).status();
    let status =
        status.with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !status.success() {
        bail!("{} ended with {status}", command.get_program().display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_found_among_what_a_package_depends_on() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n  Depends: kmod\n";
        assert_eq!(image_among(text), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(image_among("linux-image-6.1.0-56-amd64\n  Depends: kmod\n"), None);
    }
}
