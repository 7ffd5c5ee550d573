//! The programs that speak to ZFS, and their libraries.
//!
//! Takes a version; makes a folder laid out as a root directory, with `usr/sbin` and `usr/lib`. A
//! guest gets libraries of other packages from this machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::super::debian::Apt;

const PACKAGE: &str = "zfsutils-linux";
/// Programs to build or inspect a stack.
const PROGRAMS: [&str; 3] = ["zpool", "zfs", "zdb"];
const LIBRARIES: &str = "lib/x86_64-linux-gnu";

/// Unpacks programs and libraries of this version, and keeps the needed files.
pub(super) fn fetch(apt: &Apt, version: &str, scratch: &Path) -> Result<PathBuf> {
    let package = format!("{PACKAGE}={version}");
    let depends = apt.depends(&package)?;
    let depends = depends.with_context(|| format!("no package {PACKAGE} {version}"))?;
    // Those of the same source end so; their numbers differ between versions.
    let libraries = depends.iter().filter(|it| it.starts_with("lib") && it.ends_with("linux"));
    let libraries = libraries.map(|name| format!("{name}={version}"));
    let unpacked = scratch.join("programs");
    apt.unpack(&[package].into_iter().chain(libraries).collect::<Vec<_>>(), scratch, &unpacked)?;
    let tools = scratch.join("tools");
    gather(&unpacked, &tools)?;
    check(&tools)?;
    Ok(tools)
}

fn gather(unpacked: &Path, tools: &Path) -> Result<()> {
    let programs = tools.join("usr/sbin");
    let libraries = tools.join("usr").join(LIBRARIES);
    fs::create_dir_all(&programs)?;
    fs::create_dir_all(&libraries)?;
    // Packages of Debian 12 and before have both outside of usr.
    for root in [unpacked.to_owned(), unpacked.join("usr")] {
        for name in PROGRAMS {
            move_if_there(&root.join("sbin").join(name), &programs.join(name))?;
        }
        for entry in fs::read_dir(root.join(LIBRARIES)).into_iter().flatten() {
            let entry = entry?;
            if entry.file_name().to_string_lossy().contains(".so.") {
                fs::rename(entry.path(), libraries.join(entry.file_name()))?;
            }
        }
    }
    let missing = PROGRAMS.iter().find(|name| !programs.join(name).is_file());
    missing.map_or(Ok(()), |name| bail!("{PACKAGE} has no {name}"))
}

fn move_if_there(from: &Path, to: &Path) -> Result<()> {
    if from.is_file() {
        fs::rename(from, to)?;
    }
    Ok(())
}

/// Reports now, not when a guest is made, which libraries of other packages this machine lacks.
fn check(tools: &Path) -> Result<()> {
    for name in PROGRAMS {
        let mut path = OsString::from("LD_LIBRARY_PATH=");
        path.push(tools.join("usr").join(LIBRARIES));
        let program = tools.join("usr/sbin").join(name);
        let output = Command::new("env").arg(path).arg("ldd").arg(program).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Some(missing) = text.lines().find_map(|line| line.split_once(" => not found")) {
            bail!(
                "{name} needs {}, which this machine lacks: install the libraries that apt-cache \
                 depends {PACKAGE} names",
                missing.0.trim()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_libraries_are_gathered_below_usr_from_either_layout() {
        for prefix in ["", "usr/"] {
            let folder = tempfile::tempdir().expect("a folder");
            let unpacked = folder.path().join("unpacked");
            let write = |name: &str| {
                let path = unpacked.join(format!("{prefix}{name}"));
                fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
                fs::write(path, "").expect("a file");
            };
            write("sbin/zpool");
            write("lib/x86_64-linux-gnu/libzfs.so.6");
            write("lib/x86_64-linux-gnu/notes");
            let tools = folder.path().join("tools");
            let error = gather(&unpacked, &tools).expect_err("programs are missing");
            assert!(error.to_string().contains("has no zfs"), "{error}");
            assert!(tools.join("usr/sbin/zpool").is_file());
            let libraries = fs::read_dir(tools.join("usr").join(LIBRARIES)).expect("a folder");
            let names: Vec<_> = libraries.flatten().map(|it| it.file_name()).collect();
            assert_eq!(names, ["libzfs.so.6"]);
        }
    }
}
