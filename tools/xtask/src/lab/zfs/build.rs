//! Builds the modules spl and zfs.
//!
//! Takes the sources as the package zfs-dkms has them, and a kernel's headers; returns both modules
//! without debugging data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::super::debian::Apt;
use super::headers::Headers;
use super::{SOURCES, program};
use crate::bench::Interrupt;

/// A folder with the modules and nothing else.
#[derive(Debug)]
pub(super) struct Modules {
    pub(super) folder: PathBuf,
}

/// Reports missing build tools before minutes are spent.
pub(super) fn check_machine(headers: &Headers) -> Result<()> {
    let compiler = headers.compiler.as_str();
    for (name, package) in [
        (compiler, compiler),
        ("make", "make"),
        ("strip", "binutils"),
        ("awk", "mawk"),
        ("perl", "perl"),
    ] {
        let words = ["-c", "command -v \"$1\" >/dev/null", "sh", name];
        ensure!(
            Command::new("sh").args(words).status()?.success(),
            "{name} is missing, which modules of this kernel are built with: apt-get install \
             {package} libc6-dev"
        );
    }
    Ok(())
}

/// Unpacks the sources of this version.
pub(super) fn fetch_sources(apt: &Apt, version: &str, scratch: &Path) -> Result<PathBuf> {
    let folder = scratch.join("sources");
    apt.unpack(&[format!("{SOURCES}={version}")], scratch, &folder)?;
    let found = fs::read_dir(folder.join("usr/src"))?.flatten().map(|entry| entry.path());
    let found = found.into_iter().find(|path| path.join("configure").is_file());
    found.with_context(|| format!("{SOURCES} {version} has no sources in usr/src"))
}

/// Configures, makes, strips.
pub(super) fn build(sources: &Path, headers: &Headers, interrupt: &Interrupt) -> Result<Modules> {
    let start = Instant::now();
    println!("configuring, about 3 minutes");
    configure(sources, headers, interrupt)?;
    println!("after {} s: compiling, about 6 minutes of two processors", start.elapsed().as_secs());
    make(sources, interrupt)?;
    println!("after {} s: done", start.elapsed().as_secs());
    gather(sources)
}

fn configure(sources: &Path, headers: &Headers, interrupt: &Interrupt) -> Result<()> {
    let mut command = Command::new("./configure");
    // The tree is built once and removed: tracking dependencies between files is useless.
    command.current_dir(sources).args(["--with-config=kernel", "--disable-dependency-tracking"]);
    command.arg(format!("--with-linux={}", headers.sources.display()));
    command.arg(format!("--with-linux-obj={}", headers.objects.display()));
    // Another compiler may not support the flags that the kernel was configured with.
    command.args(["CC", "KERNEL_CC"].map(|name| format!("{name}={}", headers.compiler)));
    program::run(&mut command, &sources.join("configure.out"), interrupt)
        .context("ZFS cannot be configured; its kernel may be newer than this ZFS knows")
}

fn make(sources: &Path, interrupt: &Interrupt) -> Result<()> {
    let jobs = available_parallelism().map_or(1, usize::from);
    let mut command = Command::new("make");
    command.current_dir(sources).arg(format!("-j{jobs}"));
    program::run(&mut command, &sources.join("make.out"), interrupt).context("ZFS cannot be built")
}

fn gather(sources: &Path) -> Result<Modules> {
    let folder = sources.join("built");
    fs::create_dir(&folder)?;
    for name in ["spl.ko", "zfs.ko"] {
        let (from, to) = (sources.join("module").join(name), folder.join(name));
        fs::rename(&from, &to).with_context(|| format!("make built no {name}"))?;
        // Only debug information: the kernel links a module by its symbols.
        if !Command::new("strip").arg("--strip-debug").arg(&to).status()?.success() {
            bail!("strip failed on {name}");
        }
    }
    Ok(Modules { folder })
}
