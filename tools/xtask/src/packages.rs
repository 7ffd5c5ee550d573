//! The programs of other projects that tests use, and the Debian packages they come from.
//!
//! Inspects this machine; returns the names of missing programs, for `DURIO_TEST_MISSING`. As root,
//! installs missing packages first.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::lab;

const INSTALL: [&str; 3] = ["install", "-y", "--no-install-recommends"];

/// How to detect a requirement.
#[derive(Debug, Clone, Copy)]
enum PackageProbe {
    /// A program of the requirement's name is on the search path.
    Program,
    /// This file exists.
    File(&'static str),
    /// Python runs this.
    Python(&'static str),
}

/// A requirement of tests, under the name that they use for it.
#[derive(Debug, Clone, Copy)]
struct Requirement {
    name: &'static str,
    probe: PackageProbe,
    packages: &'static [&'static str],
}

const fn program(name: &'static str, packages: &'static [&'static str]) -> Requirement {
    Requirement { name, probe: PackageProbe::Program, packages }
}

/// Requirements of a long run only: a fresh Debian to install durio in, and static programs.
const LONG: [Requirement; 2] =
    [program("debootstrap", &["debootstrap"]), program("musl-gcc", &["musl-tools"])];

const REQUIREMENTS: [Requirement; 29] = [
    program("fio", &["fio"]),
    Requirement {
        name: "fio-examples",
        probe: PackageProbe::File("/usr/share/doc/fio/examples/ssd-test.fio"),
        packages: &["fio-examples"],
    },
    program("jq", &["jq"]),
    program("mkfs.xfs", &["xfsprogs"]),
    program("mkfs.btrfs", &["btrfs-progs"]),
    program("mkfs.ext4", &["e2fsprogs"]),
    // Debian has losetup in the package mount, not in util-linux.
    program("losetup", &["mount", "util-linux"]),
    program("strace", &["strace"]),
    program("gzip", &["gzip"]),
    program("lz4", &["lz4"]),
    program("zstd", &["zstd"]),
    program("mdadm", &["mdadm"]),
    program("lvm", &["lvm2"]),
    program("modprobe", &["kmod"]),
    program("qemu-system-x86_64", &["qemu-system-x86"]),
    program("valgrind", &["valgrind"]),
    program("nbdinfo", &["libnbd-bin"]),
    program("nbdsh", &["python3-libnbd"]),
    program("nbdkit", &["nbdkit"]),
    program("qemu-io", &["qemu-utils"]),
    program("sqlite3", &["sqlite3"]),
    // Campaigns on many hosts; each host of a test is an sshd in its own namespaces.
    program("nats-server", &["nats-server"]),
    program("sshd", &["openssh-server"]),
    program("ssh", &["openssh-client"]),
    program("ip", &["iproute2"]),
    // libFuzzer, which the fuzz targets link, is C++.
    program("g++", &["g++"]),
    program("chromium-headless-shell", &["chromium-headless-shell"]),
    // Debian strips ensurepip from python3; without it `python3 -m venv` fails.
    Requirement {
        name: "python3-venv",
        probe: PackageProbe::Python("import venv, ensurepip"),
        packages: &["python3-venv", "python3-pip"],
    },
    Requirement {
        name: "fonts-dejavu-core",
        probe: PackageProbe::File("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"),
        packages: &["fonts-dejavu-core"],
    },
];

/// Installs missing packages if possible; prints and returns those still missing.
pub(crate) fn provide() -> Vec<&'static str> {
    let mut missing = missing();
    if !missing.is_empty() && is_root() && finds("apt-get") {
        install(&packages_of(&missing));
        // The installed programs count, not apt's exit code.
        missing = self::missing();
    }
    println!("{}", advice(&missing));
    lab::provide_kernel();
    missing.iter().map(|requirement| requirement.name).collect()
}

/// The search path with the folders of administrators' programs, which users often lack.
pub(crate) fn search_path() -> OsString {
    let given = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&given).collect();
    for folder in ["/usr/sbin", "/sbin"].map(PathBuf::from) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    env::join_paths(folders).unwrap_or(given)
}

/// True if this program of a long run exists, after installing it if needed.
pub(crate) fn provide_one(name: &str) -> bool {
    let wanted = LONG.iter().find(|requirement| requirement.name == name);
    if let Some(requirement) = wanted.filter(|present| !is_there(present))
        && is_root()
        && finds("apt-get")
    {
        install(&requirement.packages.iter().copied().collect());
    }
    finds(name)
}

fn missing() -> Vec<Requirement> {
    REQUIREMENTS.into_iter().filter(|requirement| !is_there(requirement)).collect()
}

fn is_there(requirement: &Requirement) -> bool {
    match requirement.probe {
        PackageProbe::Program => finds(requirement.name),
        PackageProbe::File(path) => Path::new(path).is_file(),
        PackageProbe::Python(script) => {
            succeeds(quiet(Command::new("python3").args(["-c", script])))
        }
    }
}

fn finds(program: &str) -> bool {
    env::split_paths(&search_path()).any(|folder| folder.join(program).is_file())
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn install(packages: &BTreeSet<&str>) {
    // A failed update is not fatal: the existing lists may do.
    if !succeeds(apt_get().arg("update")) {
        eprintln!("apt-get update failed");
    }
    if !succeeds(apt_get().args(INSTALL).args(packages)) {
        eprintln!("apt-get install failed");
    }
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    // A package that asks a question would wait forever.
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

fn packages_of(missing: &[Requirement]) -> BTreeSet<&'static str> {
    missing.iter().flat_map(|requirement| requirement.packages).copied().collect()
}

fn advice(missing: &[Requirement]) -> String {
    if missing.is_empty() {
        return format!("all {} programs and files that tests use are there", REQUIREMENTS.len());
    }
    let names: Vec<_> = missing.iter().map(|requirement| requirement.name).collect();
    let packages: Vec<_> = packages_of(missing).into_iter().collect();
    format!(
        "missing: {}\nTests that need them are skipped. On Debian, this installs them:\n    \
         sudo apt-get update && sudo apt-get {} {}",
        names.join(", "),
        INSTALL.join(" "),
        packages.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_names_everything_missing_and_the_command_that_installs_it() {
        let missing = [program("fio", &["fio"]), program("losetup", &["mount", "util-linux"])];
        let text = advice(&missing);
        assert!(text.starts_with("missing: fio, losetup\n"), "{text}");
        let command = "sudo apt-get update && \
                       sudo apt-get install -y --no-install-recommends fio mount util-linux";
        assert!(text.ends_with(command), "{text}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_missing() {
        assert!(!is_there(&program("no-such-program-anywhere", &["none"])));
        assert!(is_there(&program("sh", &["dash"])));
    }

    #[test]
    fn a_python_script_that_fails_means_missing() {
        let probe = PackageProbe::Python("import no_such_module_anywhere");
        assert!(!is_there(&Requirement { name: "x", probe, packages: &[] }));
    }

    #[test]
    fn the_search_path_reaches_the_administrators_programs() {
        let folders: Vec<_> = env::split_paths(&search_path()).collect();
        assert!(folders.contains(&PathBuf::from("/usr/sbin")));
    }
}
