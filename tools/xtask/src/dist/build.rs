//! Builds the binaries to pack, one for each installed target, in the `dist` profile, without a
//! path of this machine in it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo;

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

    /// The same machine with musl, which is linked statically; nothing if it is not installed.
    pub(super) fn musl(&self) -> Result<Option<Self>> {
        let triple = self.musl_triple();
        // The folder of its standard library: a distribution's compiler has no rustup to ask.
        let folder = rustc(&["--print", "target-libdir", "--target", &triple])?;
        Ok(Path::new(folder.trim()).is_dir().then_some(Self { triple }))
    }

    pub(super) fn how_to_get_musl(&self) -> String {
        let triple = self.musl_triple();
        format!("the target {triple} is not installed (rustup target add {triple})")
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
    pub(super) fn binary(&self, target_folder: &Path) -> PathBuf {
        target_folder.join(&self.triple).join("dist/durio")
    }

    fn musl_triple(&self) -> String {
        format!("{}-unknown-linux-musl", self.arch())
    }
}

/// Builds durio for all targets at once.
pub(super) fn build(targets: &[&BuildTarget]) -> Result<()> {
    // --locked: pack the versions that were tested.
    let mut command = cargo::command(&["build", "--profile", "dist", "-p", "durio", "--locked"]);
    for target in targets {
        command.args(["--target", &target.triple]);
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", flags()?);
    ensure!(command.status()?.success(), "durio does not compile");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_static_binary_is_for_the_same_machine() {
        let host = BuildTarget { triple: "aarch64-unknown-linux-gnu".to_owned() };
        assert_eq!(host.arch(), "aarch64");
        assert_eq!(host.musl_triple(), "aarch64-unknown-linux-musl");
        let expected = Path::new("/t/aarch64-unknown-linux-gnu/dist/durio");
        assert_eq!(host.binary(Path::new("/t")), expected);
    }

    #[test]
    fn paths_of_this_machine_are_renamed() {
        let flags = flags().unwrap().into_string().unwrap();
        let root = cargo::workspace_root();
        assert!(flags.ends_with(&format!("--remap-path-prefix={}=/durio", root.display())));
        assert!(!flags.contains(' '), "{flags}");
    }
}
