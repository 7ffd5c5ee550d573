//! Builds the modules spl and zfs.
//!
//! Takes Debian's packages: the sources (zfs-dkms), the kernel's headers and makefiles, the programs
//! that speak to ZFS with their libraries. Makes both modules without debugging data, and a folder laid
//! out as a root directory, with `usr/sbin` and `usr/lib`. A guest gets libraries of other packages from
//! this machine.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::bench::Interrupt;
use crate::lab::debian::Apt;

/// The drivers' sources.
pub(super) const SOURCES: &str = "zfs-dkms";

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
    run_logged(&mut command, &sources.join("configure.out"), interrupt)
        .context("ZFS cannot be configured; its kernel may be newer than this ZFS knows")
}

fn make(sources: &Path, interrupt: &Interrupt) -> Result<()> {
    let jobs = available_parallelism().map_or(1, usize::from);
    let mut command = Command::new("make");
    command.current_dir(sources).arg(format!("-j{jobs}"));
    run_logged(&mut command, &sources.join("make.out"), interrupt).context("ZFS cannot be built")
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

/// Six times the duration of a build of ZFS on two busy processors.
const LIMIT: Duration = Duration::from_secs(3600);
const PAUSE: Duration = Duration::from_millis(100);
/// Lines shown from the end of a failed program's output.
const LINES: usize = 25;

/// Runs a program with its output in `log`.
pub(super) fn run_logged(command: &mut Command, log: &Path, interrupt: &Interrupt) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let file = File::create(log)?;
    command.stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
    // Variables set by cargo, or by a make around us, must not reach another build.
    for variable in ["MAKEFLAGS", "MFLAGS", "ARCH", "CROSS_COMPILE", "KBUILD_OUTPUT"] {
        command.env_remove(variable);
    }
    // A separate group: the signal that ends us must also end all its children.
    command.env("LC_ALL", "C").process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let status = wait(&mut child, interrupt).with_context(|| name.clone())?;
    ensure!(status.success(), "{name} ended with {status}:\n{}", last_lines(log));
    Ok(())
}

fn wait(child: &mut Child, interrupt: &Interrupt) -> Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let why = match start.elapsed() > LIMIT {
            true => format!("not done after {} s", LIMIT.as_secs()),
            false if interrupt.came() => "interrupted".to_owned(),
            false => {
                thread::sleep(PAUSE);
                continue;
            }
        };
        end_group(child)?;
        bail!(why);
    }
}

/// The program was not waited for yet, so its number cannot have been reused.
fn end_group(child: &mut Child) -> Result<()> {
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).status().context("cannot run kill")?;
    child.wait()?;
    Ok(())
}

fn last_lines(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n")
}

/// Unpacked headers of a kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Headers {
    /// Files made when the kernel was built: its configuration and the symbols' versions.
    pub(super) objects: PathBuf,
    /// The sources' headers and makefiles.
    pub(super) sources: PathBuf,
    /// The compiler that the kernel was built with, such as `gcc-12`.
    pub(super) compiler: String,
}

impl Headers {
    /// Fetches and unpacks them.
    pub(super) fn fetch(release: &str, scratch: &Path) -> Result<Self> {
        let package = format!("linux-headers-{release}");
        let apt = Apt::with(&package, None).context(
            "if the archive has none of this kernel any more, fetch its present one by cargo xtask \
             lab kernel",
        )?;
        let depends = apt.depends(&package)?.unwrap_or_default();
        let is_part =
            |name: &String| name.starts_with("linux-headers-") || name.starts_with("linux-kbuild-");
        let parts = depends.into_iter().filter(is_part);
        let all: Vec<_> = [package.clone()].into_iter().chain(parts).collect();
        let folder = scratch.join("headers");
        apt.unpack(&all, scratch, &folder)?;
        Self::settle(&folder, &folder.join("usr/src").join(package))
    }

    /// Headers name each other by the paths at which they would be installed.
    fn settle(root: &Path, objects: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = objects.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let makefile = read("Makefile")?;
        let included = included_in(&makefile).context("the headers' Makefile includes no other")?;
        let included = root.join(included.trim_start_matches('/'));
        fs::write(objects.join("Makefile"), format!("include {}\n", included.display()))?;
        let compiler = compiler_in(&read(".kernelvariables")?)
            .context("the headers do not say which compiler built the kernel")?
            .to_owned();
        // With it, modules would get type information from a program that may be missing.
        let _absent = fs::remove_file(objects.join("vmlinux"));
        let sources = included.parent().unwrap_or(root).to_owned();
        Ok(Self { objects: objects.to_owned(), sources, compiler })
    }
}

fn included_in(makefile: &str) -> Option<&str> {
    makefile.lines().find_map(|line| line.strip_prefix("include ")).map(str::trim)
}

/// `CC = $(if …,$(CCACHE)) $(CROSS_COMPILE)gcc-12`.
fn compiler_in(variables: &str) -> Option<&str> {
    let value = variables.lines().find_map(|line| line.strip_prefix("CC = "))?;
    let word = value.split_whitespace().last()?;
    Some(word.rsplit(')').next().unwrap_or(word)).filter(|name| !name.is_empty())
}

const PACKAGE: &str = "zfsutils-linux";
/// Programs to build or inspect a stack.
const PROGRAMS: [&str; 3] = ["zpool", "zfs", "zdb"];
const LIBRARIES: &str = "lib/x86_64-linux-gnu";

/// Unpacks programs and libraries of this version, and keeps the needed files.
pub(super) fn fetch_tools(apt: &Apt, version: &str, scratch: &Path) -> Result<PathBuf> {
    let package = format!("{PACKAGE}={version}");
    let depends = apt.depends(&package)?;
    let depends = depends.with_context(|| format!("no package {PACKAGE} {version}"))?;
    // Those of the same source end so; their numbers differ between versions.
    let libraries =
        depends.iter().filter(|library| library.starts_with("lib") && library.ends_with("linux"));
    let libraries = libraries.map(|name| format!("{name}={version}"));
    let unpacked = scratch.join("programs");
    apt.unpack(&[package].into_iter().chain(libraries).collect::<Vec<_>>(), scratch, &unpacked)?;
    let tools = scratch.join("tools");
    gather_tools(&unpacked, &tools)?;
    check_libraries(&tools)?;
    Ok(tools)
}

fn gather_tools(unpacked: &Path, tools: &Path) -> Result<()> {
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
fn check_libraries(tools: &Path) -> Result<()> {
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

    fn shell(script: &str, interrupt: &Interrupt) -> Result<()> {
        let log = tempfile::NamedTempFile::new()?;
        run_logged(Command::new("sh").args(["-c", script]), log.path(), interrupt)
    }

    #[test]
    fn a_program_that_fails_is_told_with_what_it_said_last() {
        let never = Interrupt::never();
        shell("echo fine", &never).expect("success");
        let script = "for i in $(seq 40); do echo line $i; done; echo why >&2; exit 3";
        let error = shell(script, &never).expect_err("a failure").to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("line 40\nwhy") && !error.contains("line 15\n"), "{error}");
    }

    #[test]
    fn an_interrupt_ends_the_program_and_all_that_it_has_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let late = folder.path().join("late");
        let script = format!("(sleep 1; touch {}) & sleep 60", late.display());
        let start = Instant::now();
        let error = shell(&script, &Interrupt::that_came()).expect_err("interrupted");
        assert!(format!("{error:#}").contains("interrupted"), "{error:#}");
        assert!(start.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(1500));
        assert!(!late.exists());
    }

    const VARIABLES: &str = "override ARCH = x86\nCCACHE = ccache\n\
         CC = $(if $(DEBIAN_KERNEL_USE_CCACHE),$(CCACHE)) $(CROSS_COMPILE)gcc-12\n";

    #[test]
    fn unpacked_headers_name_each_other_where_they_are() {
        let root = tempfile::tempdir().expect("a folder");
        let objects = root.path().join("usr/src/linux-headers-6.1.0-9");
        fs::create_dir_all(&objects).expect("a folder");
        let write = |name: &str, text: &str| fs::write(objects.join(name), text).expect("a file");
        write("Makefile", "include /usr/src/linux-headers-6.1.0-9-common/Makefile\n");
        write(".kernelvariables", VARIABLES);
        write("vmlinux", "");
        let headers = Headers::settle(root.path(), &objects).expect("headers");
        let sources = root.path().join("usr/src/linux-headers-6.1.0-9-common");
        let makefile = fs::read_to_string(objects.join("Makefile")).expect("a Makefile");
        assert_eq!(makefile, format!("include {}\n", sources.join("Makefile").display()));
        assert!(!objects.join("vmlinux").exists());
        assert_eq!(headers, Headers { objects, sources, compiler: "gcc-12".to_owned() });
    }

    #[test]
    fn the_compiler_is_what_stands_behind_the_prefix() {
        assert_eq!(compiler_in(VARIABLES), Some("gcc-12"));
        assert_eq!(compiler_in("CC = gcc\n"), Some("gcc"));
        assert_eq!(compiler_in("CC = $(X)\n"), None);
        assert_eq!(compiler_in(""), None);
    }

    #[test]
    fn headers_that_say_nothing_are_an_error() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(Headers::settle(root.path(), root.path()).is_err());
    }

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
            let error = gather_tools(&unpacked, &tools).expect_err("programs are missing");
            assert!(error.to_string().contains("has no zfs"), "{error}");
            assert!(tools.join("usr/sbin/zpool").is_file());
            let libraries = fs::read_dir(tools.join("usr").join(LIBRARIES)).expect("a folder");
            let names: Vec<_> = libraries.flatten().map(|file| file.file_name()).collect();
            assert_eq!(names, ["libzfs.so.6"]);
        }
    }
}
