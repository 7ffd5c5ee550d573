//! `cargo xtask dist`: packages for installation.
//!
//! Makes in `target/dist/packages` a Debian package of each program, a tarball of both, the same with
//! static binaries, and their checksums. Uploads nothing.
//!
//! ```text
//!   build ─ contents ─┬─ deb ─────┬─ try_out
//!                     └─ tarball ─┘
//! ```

mod build;
mod contents;
mod deb;
mod try_out;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{fs, iter};

use anyhow::{Context, Result, bail, ensure};
use build::{BuildTarget, GlibcVersion};
use comfy_table::{CellAlignment, Table, presets};
use contents::PackageFile;

use crate::cargo;

pub(crate) use try_out::TryOutcome;

/// The first releases with this glibc or a newer one.
const SYSTEMS_WITH_LOWEST_GLIBC: &str = "Debian 12, Ubuntu 22.04, RHEL 9";

/// The most that the Debian package of a program may have.
const PACKAGE_KIB_MAX: u64 = 8 * 1024;

/// Makes the packages of durio and durio-fleet; with --test tries them in a fresh Debian
///
/// In target/dist/packages: a Debian package of each program, a tarball of the files of both, a
/// tarball with static binaries where the target for musl is installed (rustup target add
/// x86_64-unknown-linux-musl) and musl-gcc (Debian's musl-tools), and SHA256SUMS. A Debian package of
/// more than 8 MiB is an error. The same sources and the same compiler give the same bytes; files have
/// the time of the last commit, or SOURCE_DATE_EPOCH. Takes about ten minutes of two processors the
/// first time.
#[derive(Debug, clap::Args)]
pub(crate) struct DistArguments {
    /// Try the packages in a fresh Debian, made by debootstrap (root, network): install, use, remove
    #[arg(long)]
    test: bool,
    /// With --test: the release of Debian
    #[arg(long, value_name = "NAME", default_value = try_out::SUITE, requires = "test")]
    suite: String,
    /// The newest glibc that the binary may need; a newer one is an error
    #[arg(long, value_name = "VERSION", default_value = build::LOWEST_GLIBC)]
    glibc: GlibcVersion,
}

/// A program, with a package of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PackagedProgram {
    Durio,
    Fleet,
}

impl PackagedProgram {
    /// In the order in which they can be installed.
    const ALL: [Self; 2] = [Self::Durio, Self::Fleet];

    fn name(self) -> &'static str {
        match self {
            Self::Durio => "durio",
            Self::Fleet => "durio-fleet",
        }
    }

    /// The program that a file of `contrib` belongs to, by its path there.
    fn of_example(path: &str) -> Self {
        if path.contains("fleet") { Self::Fleet } else { Self::Durio }
    }
}

/// The packages made.
pub(crate) struct Packages {
    folder: PathBuf,
    /// In the order of [`PackagedProgram::ALL`]; none without dpkg-deb.
    debs: Vec<PathBuf>,
    tarball: PathBuf,
    /// Or what is missing for it.
    static_tarball: Result<PathBuf, String>,
    glibc: GlibcVersion,
}

pub(crate) fn run(arguments: &DistArguments) -> Result<ExitCode> {
    let packages = make(arguments.glibc)?;
    packages.print_and_check_sizes()?;
    if !arguments.test {
        return Ok(ExitCode::SUCCESS);
    }
    match try_out::try_out(&packages, &arguments.suite)? {
        TryOutcome::Skipped(reason) => println!("SKIPPED: {reason}"),
        TryOutcome::Checked(checks) => {
            let failed = checks.iter().filter(|check| !check.is_good).count();
            println!("{} passed, {failed} failed", checks.len() - failed);
            ensure!(failed == 0, "the packages are not good");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the packages and tries them, for the tests.
pub(crate) fn test() -> Result<TryOutcome> {
    if let Some(reason) = try_out::cannot() {
        // Before minutes of linking.
        return Ok(TryOutcome::Skipped(reason));
    }
    let packages = make(build::LOWEST_GLIBC.parse().map_err(anyhow::Error::msg)?)?;
    packages.print_and_check_sizes()?;
    try_out::try_out(&packages, try_out::SUITE)
}

fn make(glibc_max: GlibcVersion) -> Result<Packages> {
    let host = BuildTarget::host()?;
    let musl = host.musl()?;
    let targets: Vec<&BuildTarget> = iter::once(&host).chain(musl.as_ref().ok()).collect();
    build::build(&targets)?;
    let target_folder = cargo::metadata()?.target_directory.into_std_path_buf();
    let folder = target_folder.join("dist/packages");
    renew(&folder)?;
    let epoch = build::epoch()?;
    let (mut all_files, mut debs) = (Vec::new(), Vec::new());
    let mut newest: Option<GlibcVersion> = None;
    for program in PackagedProgram::ALL {
        let binary = host.binary(program, &target_folder);
        let needs = build::needs(&binary)?;
        newest = newest.max(Some(needs.permitted_glibc(glibc_max)?));
        let files = contents::files(program, &binary, &binary)?;
        debs.extend(deb::make(&folder, program, &files, &needs, epoch)?);
        all_files.extend(files);
    }
    let tarball = make_tarball(&folder, &all_files, &format!("{}-linux-gnu", host.arch()), epoch)?;
    let static_tarball = match musl {
        Ok(musl) => {
            let files = static_files(&musl, &host, &target_folder)?;
            Ok(make_tarball(&folder, &files, &format!("{}-linux-musl", musl.arch()), epoch)?)
        }
        Err(missing) => Err(missing),
    };
    write_sums(&folder)?;
    let glibc = newest.context("there is no program")?;
    Ok(Packages { folder, debs, tarball, static_tarball, glibc })
}

/// The files of both packages, with static binaries.
fn static_files(
    musl: &BuildTarget,
    host: &BuildTarget,
    target_folder: &Path,
) -> Result<Vec<PackageFile>> {
    let mut files = Vec::new();
    for program in PackagedProgram::ALL {
        let binary = musl.binary(program, target_folder);
        ensure!(build::needs(&binary)?.is_static(), "{} is not static", binary.display());
        files.extend(contents::files(program, &binary, &host.binary(program, target_folder))?);
    }
    Ok(files)
}

/// An empty folder: a package of another version would be taken for one of this.
fn renew(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

fn write_sums(folder: &Path) -> Result<()> {
    let names: Vec<_> = file_names(folder)?;
    let output = Command::new("sha256sum").args(&names).current_dir(folder).output();
    let output = output.context("sha256sum does not start")?;
    ensure!(output.status.success(), "sha256sum failed");
    fs::write(folder.join("SHA256SUMS"), output.stdout).context("cannot write SHA256SUMS")
}

fn file_names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

impl Packages {
    fn print_and_check_sizes(&self) -> Result<()> {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(["file", "KiB"]);
        for name in file_names(&self.folder)? {
            let bytes = fs::metadata(self.folder.join(&name))?.len();
            table.add_row([name, bytes.div_ceil(1024).to_string()]);
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        println!("{}\n{table}", self.folder.display());
        println!(
            "lowest glibc: {} (allowed: {}, that is {SYSTEMS_WITH_LOWEST_GLIBC} and later)",
            self.glibc,
            build::LOWEST_GLIBC
        );
        if self.debs.is_empty() {
            println!("no Debian packages: dpkg-deb is not installed");
        }
        if let Err(missing) = &self.static_tarball {
            println!("no static binaries: {missing}");
        }
        for deb in &self.debs {
            let kib = fs::metadata(deb)?.len().div_ceil(1024);
            let name = deb.display();
            ensure!(
                kib <= PACKAGE_KIB_MAX,
                "{name} has {kib} KiB, more than {PACKAGE_KIB_MAX} KiB"
            );
        }
        Ok(())
    }
}

/// Runs a program that packs, without an input.
fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let status = command.stdin(std::process::Stdio::null()).status();
    let status = status.with_context(|| format!("{} does not start", program.display()))?;
    if !status.success() {
        bail!("{} ended with {status}", program.display());
    }
    Ok(())
}

/// Packs the files.
fn make_tarball(
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
        let packed = || fs::read(make_tarball(folder.path(), &files, "m", 1).unwrap()).unwrap();
        let first = packed();
        assert_eq!(first, packed());
        // Only the archive is left.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_containerfile_builds_an_image_of_each_program_and_durio_s_without_a_target() {
        let text = fs::read_to_string(cargo::workspace_root().join("Containerfile")).unwrap();
        for name in PackagedProgram::ALL.map(PackagedProgram::name) {
            let build = format!("cargo build --locked --profile dist -p {name} --target ");
            let copied = format!(" /usr/bin/{name} /usr/bin/{name}\n");
            let stage = format!("\nFROM scratch AS {name}\n");
            let entry = format!("\nENTRYPOINT [\"/usr/bin/{name}\"]\n");
            for part in [build, copied, stage, entry] {
                assert!(text.contains(&part), "{part}");
            }
        }
        let last = text.lines().rfind(|line| line.starts_with("FROM "));
        assert_eq!(last, Some("FROM scratch AS durio"));
    }
}
