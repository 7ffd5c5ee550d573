//! A binary's requirements on the system that runs it.
//!
//! Reads an ELF file; returns its libraries, and the newest version of glibc whose symbols it uses.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result};
use object::LittleEndian;
use object::elf::{DT_NEEDED, VER_FLG_WEAK};
use object::read::elf::ElfFile64;

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
        let mut numbers = text.split('.').map(|it| it.parse().ok());
        let version = (numbers.next().flatten(), numbers.next().flatten());
        match version {
            (Some(major), Some(minor)) => Ok(Self(major, minor)),
            _ => Err(format!("'{text}' is no version such as {LOWEST_GLIBC}")),
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
    needs_of(&bytes).with_context(|| format!("{} is no program that is known", path.display()))
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
            _ => name.strip_prefix("GLIBC_").and_then(|it| it.parse().ok()),
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
        let named = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect();
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
