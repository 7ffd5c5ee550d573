//! `cargo xtask dist`: packages for installation.
//!
//! Makes in `target/dist/packages` a Debian package, a tarball, the same with a static binary, and
//! their checksums. Uploads nothing.
//!
//! ```text
//!   build ─ contents ─┬─ deb ─────┬─ try_out
//!                     └─ tarball ─┘
//! ```

mod build;
mod contents;
mod deb;
mod try_out;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use build::{BuildTarget, GlibcVersion};
use comfy_table::{CellAlignment, Table, presets};
use contents::PackageFile;

use crate::cargo;

pub(crate) use try_out::TryOutcome;

/// The first releases with this glibc or a newer one.
const SYSTEMS_WITH_LOWEST_GLIBC: &str = "Debian 12, Ubuntu 22.04, RHEL 9";

/// Makes durio's packages; with --test tries them in a fresh Debian
///
/// In target/dist/packages: a Debian package, a tarball of the same files, a tarball with a static
/// binary where the target for musl is installed (rustup target add x86_64-unknown-linux-musl), and
/// SHA256SUMS. The same sources and the same compiler give the same bytes; files have the time of the
/// last commit, or SOURCE_DATE_EPOCH. Takes about ten minutes of two processors the first time.
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

/// The packages made.
pub(crate) struct Packages {
    folder: PathBuf,
    deb: Option<PathBuf>,
    tarball: PathBuf,
    static_tarball: Option<PathBuf>,
    glibc: GlibcVersion,
}

pub(crate) fn run(arguments: &DistArguments) -> Result<ExitCode> {
    let packages = make(arguments.glibc)?;
    packages.print()?;
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
    packages.print()?;
    try_out::try_out(&packages, try_out::SUITE)
}

fn make(glibc_max: GlibcVersion) -> Result<Packages> {
    let host = BuildTarget::host()?;
    let musl = host.musl()?;
    let targets: Vec<&BuildTarget> = [Some(&host), musl.as_ref()].into_iter().flatten().collect();
    build::build(&targets)?;
    let target_folder = cargo::metadata()?.target_directory.into_std_path_buf();
    let folder = target_folder.join("dist/packages");
    renew(&folder)?;
    let binary = host.binary(&target_folder);
    let needs = build::needs(&binary)?;
    let glibc = needs.glibc.context("the binary names no version of glibc")?;
    ensure!(
        glibc <= glibc_max,
        "the binary needs glibc {glibc} ({}), more than {glibc_max}: build it on an older system, \
         or permit it with --glibc {glibc}",
        needs.newest_symbol_version
    );
    let epoch = build::epoch()?;
    let files = contents::files(&binary, &binary)?;
    let deb = deb::make(&folder, &files, &needs, epoch)?;
    let tarball = make_tarball(&folder, &files, &format!("{}-linux-gnu", host.arch()), epoch)?;
    let static_tarball = musl.map(|musl| {
        let file = musl.binary(&target_folder);
        ensure!(build::needs(&file)?.is_static(), "{} is not static", file.display());
        let files = contents::files(&file, &binary)?;
        make_tarball(&folder, &files, &format!("{}-linux-musl", musl.arch()), epoch)
    });
    let static_tarball = static_tarball.transpose()?;
    write_sums(&folder)?;
    Ok(Packages { folder, deb, tarball, static_tarball, glibc })
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
    fn print(&self) -> Result<()> {
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
        if self.deb.is_none() {
            println!("no Debian package: dpkg-deb is not installed");
        }
        if self.static_tarball.is_none() {
            println!("no static binary: {}", BuildTarget::host()?.how_to_get_musl());
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
}
