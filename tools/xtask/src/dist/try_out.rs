//! The packages in a fresh Debian: installed, used, removed.
//!
//! Uses the packages and debootstrap; returns a check for each thing that must hold
//! (`tools/xtask/dist/try-packages.sh`).
//!
//! Everything runs in a private mount namespace: no mount is left however this ends, and the folder
//! below `target` can be removed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::{Packages, cargo, succeed};
use crate::packages;

/// The release of Debian named in README.md.
pub(super) const SUITE: &str = "stable";
const MIRROR: &str = "http://deb.debian.org/debian";
/// man-db: a minimal Debian has no man. openssh-client: durio-fleet depends on it.
const INCLUDED: &str = "--include=man-db,openssh-client";
const SCRIPT: &str = include_str!("../../dist/try-packages.sh");

/// A check and its result.
pub(crate) struct PackageCheck {
    pub(crate) name: String,
    pub(crate) is_good: bool,
}

/// The outcome of the try.
pub(crate) enum TryOutcome {
    /// It cannot be done here, with the reason.
    Skipped(String),
    Checked(Vec<PackageCheck>),
}

/// Why a try is not possible on this machine, if so.
pub(super) fn cannot() -> Option<String> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        return Some("making a fresh Debian needs root".to_owned());
    }
    match packages::provide_one("debootstrap") {
        true => None,
        false => Some("debootstrap is not installed".to_owned()),
    }
}

/// Makes a Debian and tries the packages in it.
pub(super) fn try_out(packages: &Packages, suite: &str) -> Result<TryOutcome> {
    if let Some(reason) = cannot() {
        return Ok(TryOutcome::Skipped(reason));
    }
    if packages.debs.is_empty() {
        return Ok(TryOutcome::Skipped("there is no Debian package".to_owned()));
    }
    let folder = cargo::metadata()?.target_directory.into_std_path_buf().join("dist");
    let debian = Debian::new(folder.join("chroot"))?;
    if let Some(reason) = debian.install(suite, &folder.join("debian-packages"))? {
        return Ok(TryOutcome::Skipped(reason));
    }
    let given = debian.root.join("packages");
    fs::create_dir(&given)?;
    let tarballs = [Some(&packages.tarball), packages.static_tarball.as_ref().ok()];
    for path in packages.debs.iter().chain(tarballs.into_iter().flatten()) {
        fs::copy(path, given.join(path.file_name().unwrap_or_default()))?;
    }
    fs::write(given.join("try-packages.sh"), SCRIPT)?;
    let checks = debian.run_script()?;
    Ok(TryOutcome::Checked(checks))
}

/// A Debian below a folder, which is removed when this is dropped.
struct Debian {
    root: PathBuf,
}

impl Debian {
    fn new(root: PathBuf) -> Result<Self> {
        // A try that was killed leaves one.
        remove(&root)?;
        Ok(Self { root })
    }

    /// Fetches and installs; the reason if the mirror cannot be reached.
    fn install(&self, suite: &str, cache: &Path) -> Result<Option<String>> {
        fs::create_dir_all(cache)?;
        println!("making a Debian {suite} in {}", self.root.display());
        let mut command = in_namespace("debootstrap");
        command.arg("--variant=minbase").arg(INCLUDED).arg("--cache-dir").arg(cache);
        command.arg(suite).arg(&self.root).arg(MIRROR);
        let output = command.output().context("unshare does not start")?;
        if output.status.success() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        let last = text.lines().rev().find(|line| line.starts_with("E: ")).unwrap_or(&text);
        match is_about_the_network(last) {
            true => Ok(Some(format!("debootstrap: {}", last.trim_start_matches("E: ")))),
            false => bail!("debootstrap failed:\n{text}"),
        }
    }

    /// Runs the script, and shows its output.
    fn run_script(&self) -> Result<Vec<PackageCheck>> {
        // The kernel's filesystems as they are in a container: durio reads them.
        let mount = "mount -t proc proc \"$0/proc\" && mount --rbind /sys \"$0/sys\" && \
                     mount --rbind /dev \"$0/dev\" && exec chroot \"$0\" /bin/sh \
                     /packages/try-packages.sh";
        let mut command = in_namespace("sh");
        command.args(["-c", mount]).arg(&self.root).env_clear();
        // No folder of this user's home is there.
        command.env("PATH", packages::search_path()).env("HOME", "/root").env("LC_ALL", "C.UTF-8");
        let output = command.stderr(Stdio::inherit()).output().context("unshare does not start")?;
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}");
        let checks: Vec<_> = text.lines().filter_map(check_of_line).collect();
        ensure!(output.status.success(), "the script in the fresh Debian did not come to its end");
        ensure!(!checks.is_empty(), "the script in the fresh Debian checked nothing");
        Ok(checks)
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.root) {
            println!("{error:#}");
        }
    }
}

fn remove(root: &Path) -> Result<()> {
    if !root.exists() {
        return Ok(());
    }
    // One filesystem only: if a mount is left after all, its contents stay.
    succeed(Command::new("rm").args(["-rf", "--one-file-system"]).arg(root))
        .with_context(|| format!("{} is left", root.display()))
}

/// A program in new namespaces for mounts and processes, which end with it.
fn in_namespace(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--"]);
    command.arg(program).stdin(Stdio::null()).env("PATH", packages::search_path());
    command
}

fn is_about_the_network(line: &str) -> bool {
    let words =
        ["Failed getting release", "Couldn't download", "Unable to", "Invalid Release file"];
    words.iter().any(|word| line.contains(word))
}

/// `ok NAME` or `FAILED NAME`.
fn check_of_line(line: &str) -> Option<PackageCheck> {
    let check = |name: &str, is_good| PackageCheck { name: name.to_owned(), is_good };
    let good = line.strip_prefix("ok ").map(|name| check(name, true));
    good.or_else(|| line.strip_prefix("FAILED ").map(|name| check(name, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_script_are_checks() {
        let names = |text: &str| -> Vec<_> {
            text.lines()
                .filter_map(check_of_line)
                .map(|check| (check.name, check.is_good))
                .collect()
        };
        let found = names("ok it starts\n    okay\nFAILED it ends\n");
        assert_eq!(found, [("it starts".to_owned(), true), ("it ends".to_owned(), false)]);
    }

    #[test]
    fn without_a_network_nothing_is_wrong_with_the_package() {
        assert!(is_about_the_network("E: Failed getting release file http://x/Release"));
        assert!(!is_about_the_network("E: Couldn't install packages"));
    }

    #[test]
    fn the_script_is_a_script() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), SCRIPT).unwrap();
        assert!(Command::new("sh").arg("-n").arg(file.path()).status().unwrap().success());
    }
}
