//! Builds the binaries to pack, one for each installed target, in the `dist` profile, without a
//! path of this machine in it. Reads from an ELF file which libraries a binary needs, and the newest
//! version of glibc whose symbols it uses.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::{env, fmt, fs};

use anyhow::{Context, Result, ensure};
use object::LittleEndian;
use object::elf::{DT_NEEDED, VER_FLG_WEAK};
use object::read::elf::ElfFile64;

use super::PackagedProgram;
use crate::{cargo, packages};

/// The compiler of C for musl: durio-fleet's cryptography (ring) is partly C and assembly.
const MUSL_COMPILER: &str = "musl-gcc";

/// A compilation target.
pub(super) struct BuildTarget {
    triple: String,
}

impl BuildTarget {
    /// This machine.
    pub(super) fn host() -> Result<Self> {
        let text = rustc(&["-vV"])?;
        let triple = text.lines().find_map(|line| line.strip_prefix("host: "));
        let triple = triple.context("rustc does not say for what it compiles")?;
        Ok(Self { triple: triple.to_owned() })
    }

    /// The same machine with musl, which is linked statically; or what is missing for it.
    pub(super) fn musl(&self) -> Result<Result<Self, String>> {
        let triple = self.musl_triple();
        // The folder of its standard library: a distribution's compiler has no rustup to ask.
        let folder = rustc(&["--print", "target-libdir", "--target", &triple])?;
        if !Path::new(folder.trim()).is_dir() {
            let how = format!("rustup target add {triple}");
            return Ok(Err(format!("the target {triple} is not installed ({how})")));
        }
        if !packages::provide_one(MUSL_COMPILER) {
            let how = "apt-get install musl-tools";
            return Ok(Err(format!("{MUSL_COMPILER} is not installed ({how})")));
        }
        Ok(Ok(Self { triple }))
    }

    /// Its name, as the compiler has it.
    pub(super) fn triple(&self) -> &str {
        &self.triple
    }

    /// The machine's name as the kernel has it.
    pub(super) fn arch(&self) -> &str {
        self.triple.split('-').next().unwrap_or(&self.triple)
    }

    /// The binary when it is built.
    pub(super) fn binary(&self, program: PackagedProgram, target_folder: &Path) -> PathBuf {
        target_folder.join(&self.triple).join("dist").join(program.name())
    }

    fn musl_triple(&self) -> String {
        format!("{}-unknown-linux-musl", self.arch())
    }
}

/// Builds both programs for all targets at once.
pub(super) fn build(targets: &[&BuildTarget]) -> Result<()> {
    // --locked: pack the versions that were tested.
    let mut command = cargo::command(&["build", "--profile", "dist", "--locked"]);
    for program in PackagedProgram::ALL {
        command.args(["-p", program.name()]);
    }
    for target in targets {
        command.args(["--target", &target.triple]);
        // For targets other than x86_64, ring's build would look for it under another name.
        let compiler = format!("CC_{}", target.triple.replace('-', "_"));
        if target.triple.ends_with("-musl") && env::var_os(&compiler).is_none() {
            command.env(compiler, MUSL_COMPILER);
        }
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", flags()?);
    ensure!(command.status()?.success(), "the programs do not compile");
    Ok(())
}

/// The user's flags, and those that take this machine's paths out of the messages of panics: another
/// machine makes the same bytes.
fn flags() -> Result<OsString> {
    let home = env::home_dir().context("no home folder")?;
    let cargo_home = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let mut flags = env::var_os("CARGO_ENCODED_RUSTFLAGS").unwrap_or_else(|| {
        let given = env::var("RUSTFLAGS").unwrap_or_default();
        given.split_whitespace().collect::<Vec<_>>().join("\x1f").into()
    });
    let root = cargo::workspace_root();
    for (path, name) in [(cargo_home.as_path(), "/cargo"), (root.as_path(), "/durio")] {
        if !flags.is_empty() {
            flags.push("\x1f");
        }
        flags.push("--remap-path-prefix=");
        flags.push(path);
        flags.push("=");
        flags.push(name);
    }
    Ok(flags)
}

/// The time that all packed files have, in seconds since 1970.
pub(super) fn epoch() -> Result<u64> {
    // https://reproducible-builds.org/specs/source-date-epoch/
    if let Ok(text) = env::var("SOURCE_DATE_EPOCH") {
        return text.parse().with_context(|| format!("SOURCE_DATE_EPOCH is '{text}'"));
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(cargo::workspace_root());
    let time = git
        .output()
        .ok()
        .and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
    // Sources from a tarball have no last commit; any fixed time will do.
    Ok(time.unwrap_or(0))
}

fn rustc(words: &[&str]) -> Result<String> {
    let program = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(program).args(words).output().context("rustc does not start")?;
    ensure!(output.status.success(), "rustc {} failed", words.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The newest glibc that the packages of a release may need: README.md promises it.
// 2.34 merged libpthread and libdl into libc (its NEWS), which moved the symbols that every program of
// Rust uses: nothing that is built on a newer system needs less.
pub(super) const LOWEST_GLIBC: &str = "2.34";

/// A version such as 2.34.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GlibcVersion(u32, u32);

impl FromStr for GlibcVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = text.split('.').map(|part| part.parse().ok());
        let version = (numbers.next().flatten(), numbers.next().flatten());
        match version {
            (Some(major), Some(minor)) => Ok(Self(major, minor)),
            _ => Err(format!("'{text}' is not a version such as {LOWEST_GLIBC}")),
        }
    }
}

impl fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The loader's requirements.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LoaderNeeds {
    pub(super) libraries: BTreeSet<String>,
    pub(super) glibc: Option<GlibcVersion>,
    /// In the binary's spelling, such as `GLIBC_2.34`.
    pub(super) newest_symbol_version: String,
}

impl LoaderNeeds {
    pub(super) fn is_static(&self) -> bool {
        self.libraries.is_empty()
    }

    /// The glibc that the binary needs, if it is not newer than `newest`.
    pub(super) fn permitted_glibc(&self, newest: GlibcVersion) -> Result<GlibcVersion> {
        let glibc = self.glibc.context("the binary names no version of glibc")?;
        ensure!(
            glibc <= newest,
            "the binary needs glibc {glibc} ({}), more than {newest}: build it on an older system, \
             or permit it with --glibc {glibc}",
            self.newest_symbol_version
        );
        Ok(glibc)
    }

    /// Debian's packages with the libraries.
    pub(super) fn debian_depends(&self) -> Result<String> {
        let mut packages = BTreeSet::new();
        for library in &self.libraries {
            packages.insert(match library.as_str() {
                // Since Debian 10, this package has GCC's runtime, whose symbols are older.
                "libgcc_s.so.1" => "libgcc-s1 (>= 4.2)".to_owned(),
                name if is_of_glibc(name) => {
                    let version = self.glibc.context("no version of glibc is named")?;
                    format!("libc6 (>= {version})")
                }
                other => anyhow::bail!("which package of Debian has {other} is not known here"),
            });
        }
        Ok(packages.into_iter().collect::<Vec<_>>().join(", "))
    }
}

fn is_of_glibc(library: &str) -> bool {
    let names = ["libc.so.", "libm.so.", "libpthread.so.", "libdl.so.", "librt.so.", "ld-linux"];
    names.iter().any(|name| library.starts_with(name))
}

/// Reads the file's requirements.
pub(super) fn needs(path: &Path) -> Result<LoaderNeeds> {
    let bytes = fs::read(path).with_context(|| format!("no {}", path.display()))?;
    needs_of(&bytes).with_context(|| format!("{} is not a program that is known", path.display()))
}

fn needs_of(bytes: &[u8]) -> Result<LoaderNeeds> {
    let file: ElfFile64<LittleEndian> = ElfFile64::parse(bytes)?;
    let sections = file.elf_section_table();
    let mut needs = LoaderNeeds::default();
    let table = sections.dynamic_table(LittleEndian, bytes)?;
    for entry in table.iter().filter(|entry| entry.tag == DT_NEEDED) {
        needs.libraries.insert(String::from_utf8_lossy(table.string(entry)?).into_owned());
    }
    let Some((mut libraries, link)) = sections.gnu_verneed(LittleEndian, bytes)? else {
        return Ok(needs);
    };
    let strings = sections.strings(LittleEndian, bytes, link)?;
    while let Some((_, mut versions)) = libraries.next()? {
        while let Some(version) = versions.next()? {
            // A weak symbol may be missing: the standard library looks for some calls at run time.
            if !version.vna_flags.get(LittleEndian).contains(VER_FLG_WEAK) {
                let name = version.name(LittleEndian, strings)?;
                needs.add_symbol_version(&String::from_utf8_lossy(name));
            }
        }
    }
    Ok(needs)
}

impl LoaderNeeds {
    fn add_symbol_version(&mut self, name: &str) {
        let version = match name {
            // No version of a symbol but of the loader, since 2.36 (its NEWS).
            "GLIBC_ABI_DT_RELR" => Some(GlibcVersion(2, 36)),
            _ => name.strip_prefix("GLIBC_").and_then(|version| version.parse().ok()),
        };
        if version.is_some() && version > self.glibc {
            self.glibc = version;
            name.clone_into(&mut self.newest_symbol_version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_static_binary_is_for_the_same_machine() {
        let host = BuildTarget { triple: "aarch64-unknown-linux-gnu".to_owned() };
        assert_eq!(host.arch(), "aarch64");
        assert_eq!(host.musl_triple(), "aarch64-unknown-linux-musl");
        let expected = Path::new("/t/aarch64-unknown-linux-gnu/dist/durio");
        assert_eq!(host.binary(PackagedProgram::Durio, Path::new("/t")), expected);
        let expected = Path::new("/t/aarch64-unknown-linux-gnu/dist/durio-fleet");
        assert_eq!(host.binary(PackagedProgram::Fleet, Path::new("/t")), expected);
    }

    #[test]
    fn paths_of_this_machine_are_renamed() {
        let flags = flags().unwrap().into_string().unwrap();
        let root = cargo::workspace_root();
        assert!(flags.ends_with(&format!("--remap-path-prefix={}=/durio", root.display())));
        assert!(!flags.contains(' '), "{flags}");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |text: &str| text.parse::<GlibcVersion>().unwrap();
        assert!(version("2.9") < version("2.34"));
        assert_eq!(version("2.2.5").to_string(), "2.2");
        assert!("2".parse::<GlibcVersion>().is_err());
    }

    #[test]
    fn the_newest_version_of_glibc_counts() {
        let mut needs = LoaderNeeds::default();
        for name in ["GLIBC_2.9", "GCC_4.2.0", "GLIBC_2.34", "GLIBC_2.17", "GLIBC_PRIVATE"] {
            needs.add_symbol_version(name);
        }
        assert_eq!(needs.glibc.unwrap().to_string(), "2.34");
        assert_eq!(needs.newest_symbol_version, "GLIBC_2.34");
        needs.add_symbol_version("GLIBC_ABI_DT_RELR");
        assert_eq!(needs.glibc.unwrap().to_string(), "2.36");
    }

    #[test]
    fn libraries_become_packages_of_debian() {
        let named = |names: &[&str]| names.iter().map(|&library| library.to_owned()).collect();
        let mut needs = LoaderNeeds {
            libraries: named(&["libc.so.6", "libgcc_s.so.1", "libm.so.6"]),
            glibc: Some(GlibcVersion(2, 34)),
            ..LoaderNeeds::default()
        };
        assert_eq!(needs.debian_depends().unwrap(), "libc6 (>= 2.34), libgcc-s1 (>= 4.2)");
        needs.libraries = named(&["libzfs.so.4"]);
        assert!(needs.debian_depends().is_err());
    }

    #[test]
    fn this_program_needs_a_libc_and_a_text_is_no_program() {
        let own = needs(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.libraries.contains("libc.so.6") && !own.is_static(), "{own:?}");
        assert!(own.glibc >= Some(GlibcVersion(2, 2)), "{own:?}");
        assert!(needs_of(b"text").is_err());
    }
}
