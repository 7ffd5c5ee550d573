//! Debian's packages: which there are, fetching and unpacking them.
//!
//! In: names. Out: files in a folder. Not here: installing; no right is needed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Fetches packages into `scratch`, each `NAME` or `NAME=VERSION`, and unpacks all of them into `folder`.
pub(super) fn unpack(packages: &[String], scratch: &Path, folder: &Path) -> Result<()> {
    let packed = tempfile::tempdir_in(scratch)?;
    let mut apt = Command::new("apt-get");
    // As root apt would fetch as another user, who cannot write here, and warn of it.
    apt.args(["--quiet=2", "-o", "APT::Sandbox::User=", "download"]).args(packages);
    apt.current_dir(packed.path());
    succeed(&mut apt).with_context(|| {
        format!("cannot fetch {}; apt-get update may help", packages.join(", "))
    })?;
    for entry in fs::read_dir(packed.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "deb") {
            succeed(Command::new("dpkg-deb").arg("-x").arg(path).arg(folder))?;
        }
    }
    Ok(())
}

fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {}", program.display()))?;
    if !status.success() {
        bail!("{} ended with {status}", program.display());
    }
    Ok(())
}

/// The newest version of a package that can be fetched, if apt knows any.
pub(super) fn newest_version(package: &str) -> Result<Option<String>> {
    let text = apt_cache(&["madison", package])?.unwrap_or_default();
    Ok(text.lines().next().and_then(version_of_line).map(str::to_owned))
}

/// `PACKAGE | VERSION | SOURCE`; the newest stands first.
fn version_of_line(line: &str) -> Option<&str> {
    line.split('|').nth(1).map(str::trim).filter(|version| !version.is_empty())
}

/// What a package depends on, without versions and alternatives; nothing if apt does not know it.
pub(super) fn depends(package: &str) -> Result<Option<Vec<String>>> {
    let text = apt_cache(&["depends", "--important", package])?;
    Ok(text.map(|text| depends_in(&text)))
}

fn depends_in(text: &str) -> Vec<String> {
    let named = text.lines().filter_map(|line| {
        // apt-cache puts a bar before an alternative that has another one after it.
        let line = line.trim().trim_start_matches('|');
        line.strip_prefix("Depends: ").or_else(|| line.strip_prefix("PreDepends: "))
    });
    named.map(|name| name.trim().to_owned()).collect()
}

fn apt_cache(words: &[&str]) -> Result<Option<String>> {
    let output = Command::new("apt-cache").args(words).stdin(Stdio::null()).output();
    let output = output.context("cannot run apt-cache: packages are fetched on Debian only")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output.status.success() && !text.is_empty()).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_second_column() {
        let line = "  zfs-dkms | 2.3.2-2~bpo12+2 | http://deb.debian.org/debian x/contrib Packages";
        assert_eq!(version_of_line(line), Some("2.3.2-2~bpo12+2"));
        assert_eq!(version_of_line(""), None);
    }

    #[test]
    fn what_a_package_depends_on_is_read_with_alternatives() {
        let text = "linux-headers-6.12.95\n  Depends: linux-base\n |Depends: linux-image-6.12.95\n  \
                    PreDepends: x\n  Breaks: y\n  Depends: <libc-dev>\n    libc6-dev\n";
        assert_eq!(depends_in(text), ["linux-base", "linux-image-6.12.95", "x", "<libc-dev>"]);
    }
}
