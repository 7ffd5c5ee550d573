//! A tarball of the same files, for systems other than Debian.
//!
//! Makes `durio-VERSION-MACHINE.tar.gz` with one folder, whose contents go to /usr/local.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::contents::{self, PackageFile};

/// Packs the files.
pub(super) fn make(
    folder: &Path,
    files: &[PackageFile],
    machine: &str,
    epoch: u64,
) -> Result<PathBuf> {
    let name = format!("durio-{}-{machine}", env!("CARGO_PKG_VERSION"));
    let stage = tempfile::tempdir_in(folder).context("no folder for the tarball's tree")?;
    contents::write(files, &stage.path().join(&name))?;
    let mut tar = Command::new("tar");
    // https://reproducible-builds.org/docs/archives/
    tar.args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0"]);
    tar.args(["--numeric-owner", "--mode=u=rwX,go=rX", &format!("--mtime=@{epoch}")]);
    let output = tar.arg("-C").arg(stage.path()).arg(&name).output().context("no tar")?;
    ensure!(output.status.success(), "tar: {}", String::from_utf8_lossy(&output.stderr));
    let path = folder.join(format!("{name}.tar.gz"));
    fs::write(&path, contents::packed(&output.stdout)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let file =
            |path: &str, mode| PackageFile { path: path.to_owned(), mode, bytes: b"x".to_vec() };
        let files = [file("share/b", 0o644), file("bin/a", 0o755)];
        let make = || fs::read(make(folder.path(), &files, "m", 1).unwrap()).unwrap();
        let first = make();
        assert_eq!(first, make());
        // Only the archive is left.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
