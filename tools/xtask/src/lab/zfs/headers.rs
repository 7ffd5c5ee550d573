//! A kernel's headers and makefiles, by which modules are built for it.
//!
//! Takes a release; unpacks Debian's packages `linux-headers-RELEASE` and their dependencies where
//! they can be used without being installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::super::debian::Apt;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
