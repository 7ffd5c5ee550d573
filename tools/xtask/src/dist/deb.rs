//! The Debian package of a program.
//!
//! Takes files and the binary's dependencies; returns `durio_VERSION_ARCH.deb`. dpkg-deb alone
//! makes it; a maintainer at Debian would choose Debian's way (`debian/rules`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::build::LoaderNeeds;
use super::contents::{self, PackageFile};
use super::{PackagedProgram, succeed};

/// Optional programs that durio starts: to run fio, to build layers, to boot the lab.
const SUGGESTS: &str =
    "btrfs-progs, e2fsprogs, fio, lvm2, mdadm, qemu-system-x86, xfsprogs, zfsutils-linux";

const DESCRIPTION: &str = "\
measures what storage gives a database
 durio tells in one command how many durable commits per second a storage
 gives, how long the slow ones take, what lies under the path, what each layer
 costs, and which of these figures are doubtful.
";

const FLEET_DESCRIPTION: &str = "\
measures the storage of many hosts as one, with durio
 durio-fleet starts durio on many hosts by ssh, has their measured steps start
 together, and collects the runs; durio fleet report then names the slow
 hosts. nats-server is needed on the machine that coordinates.
";

/// Makes the package; nothing if dpkg-deb is not installed.
pub(super) fn make(
    folder: &Path,
    program: PackagedProgram,
    files: &[PackageFile],
    needs: &LoaderNeeds,
    epoch: u64,
) -> Result<Option<PathBuf>> {
    let Some(architecture) = architecture()? else { return Ok(None) };
    // A hyphen would start Debian's revision, and 0.2.0~rc1 comes before 0.2.0.
    let version = env!("CARGO_PKG_VERSION").replace('-', "~");
    let stage = tempfile::tempdir_in(folder).context("no folder for the package's tree")?;
    let root = stage.path().join(program.name());
    contents::write(files, &root.join("usr"))?;
    let control = root.join("DEBIAN");
    fs::create_dir(&control)?;
    let relations = relations(program, &version, &needs.debian_depends()?);
    let text = control_text(program, &version, &architecture, &relations, files);
    fs::write(control.join("control"), text)?;
    fs::write(control.join("md5sums"), sums(&root, files)?)?;
    write_settings(&root, files)?;
    let units = files.iter().filter_map(|file| file.path.strip_prefix(contents::UNITS));
    let units: Vec<_> = units.map(|unit| unit.trim_start_matches('/')).collect();
    if !units.is_empty() {
        write_scripts(&control, &units)?;
    }
    // Independent of the caller's umask.
    succeed(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&root))?;
    let package = folder.join(format!("{}_{version}_{architecture}.deb", program.name()));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&package);
    // dpkg-deb sorts by name and takes no later time than this.
    succeed(build.env("SOURCE_DATE_EPOCH", epoch.to_string()).stdout(std::process::Stdio::null()))?;
    Ok(Some(package))
}

/// Debian's word for this machine.
fn architecture() -> Result<Option<String>> {
    match Command::new("dpkg-deb").arg("--version").output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => bail!("dpkg-deb does not start: {error}"),
        Ok(_) => {}
    }
    let output = Command::new("dpkg").arg("--print-architecture").output();
    let output = output.context("dpkg does not start")?;
    ensure!(output.status.success(), "dpkg does not name the architecture");
    Ok(Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}

/// The other packages that the program needs or can use.
fn relations(program: PackagedProgram, version: &str, libraries: &str) -> String {
    match program {
        PackagedProgram::Durio => format!("Depends: {libraries}\nSuggests: {SUGGESTS}"),
        // durio starts it with its own arguments: the two are released together.
        PackagedProgram::Fleet => format!(
            "Depends: durio (= {version}), {libraries}, openssh-client\nRecommends: nats-server"
        ),
    }
}

fn control_text(
    program: PackagedProgram,
    version: &str,
    architecture: &str,
    relations: &str,
    files: &[PackageFile],
) -> String {
    // As dpkg-gencontrol counts: in KiB, each file rounded up.
    let size: usize = files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    let description = match program {
        PackagedProgram::Durio => DESCRIPTION,
        PackagedProgram::Fleet => FLEET_DESCRIPTION,
    };
    format!(
        "Package: {}\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: durio maintainers <durio@localhost>\nInstalled-Size: {size}\n\
         {relations}\nSection: utils\nPriority: optional\nDescription: {description}",
        program.name()
    )
}

/// The checksums for `dpkg --verify`.
fn sums(root: &Path, files: &[PackageFile]) -> Result<String> {
    let paths = files.iter().map(|file| format!("usr/{}", file.path));
    let output = Command::new("md5sum").args(paths).current_dir(root).output();
    let output = output.context("md5sum does not start")?;
    ensure!(output.status.success(), "md5sum failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// Files that units read are in /etc, where administrators change them: dpkg asks before it
/// replaces those.
fn write_settings(root: &Path, files: &[PackageFile]) -> Result<()> {
    let mut listed = String::new();
    for file in files {
        let name = file.path.split_once("/examples/systemd/");
        let name = name.and_then(|(_, name)| name.strip_suffix(".conf"));
        let Some(name) = name else { continue };
        let folder = root.join("etc/default");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), &file.bytes)?;
        listed.push_str(&format!("/etc/default/{name}\n"));
    }
    match listed.is_empty() {
        true => Ok(()),
        false => Ok(fs::write(root.join("DEBIAN/conffiles"), listed)?),
    }
}

/// Makes systemd reload its units when some come or go. None is started or enabled: the
/// administrator who installs durio decides what it measures.
fn write_scripts(control: &Path, units: &[&str]) -> Result<()> {
    let reload = "systemctl daemon-reload || true".to_owned();
    // For a template, every instance.
    let units: Vec<_> =
        units.iter().map(|unit| format!("'{}'", unit.replace("@.", "@*."))).collect();
    let stop = format!("[ \"$1\" != remove ] || systemctl stop {} || true", units.join(" "));
    for (name, line) in [("postinst", &reload), ("prerm", &stop), ("postrm", &reload)] {
        // A container has no running systemd.
        let head = "#!/bin/sh\nset -e\nif [ -d /run/systemd/system ]; then";
        let path = control.join(name);
        fs::write(&path, format!("{head}\n    {line}\nfi\n"))?;
        succeed(Command::new("chmod").arg("+x").arg(path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_has_what_dpkg_asks_for() {
        let file =
            |bytes: usize| PackageFile { path: "x".to_owned(), mode: 0o644, bytes: vec![0; bytes] };
        let files = [file(1), file(1025)];
        let text_of = |program| {
            let relations = relations(program, "0.1.0", "libc6 (>= 2.34)");
            control_text(program, "0.1.0", "amd64", &relations, &files)
        };
        let durio = text_of(PackagedProgram::Durio);
        assert!(durio.starts_with("Package: durio\nVersion: 0.1.0\n"), "{durio}");
        assert!(durio.contains("\nInstalled-Size: 3\nDepends: libc6 (>= 2.34)\n"), "{durio}");
        let fleet = text_of(PackagedProgram::Fleet);
        let needed = "\nInstalled-Size: 3\nDepends: durio (= 0.1.0), libc6 (>= 2.34), \
                      openssh-client\nRecommends: nats-server\n";
        assert!(fleet.starts_with("Package: durio-fleet\n") && fleet.contains(needed), "{fleet}");
        for text in [durio, fleet] {
            let end = text.lines().skip_while(|line| !line.starts_with("Description: ")).skip(1);
            assert!(end.into_iter().all(|line| line.starts_with(' ')), "{text}");
            assert!(text.ends_with('\n') && !text.contains("\n\n"), "{text}");
        }
    }
}
