//! Cargo, called on this workspace.
//!
//! Returns commands that are ready to run, and the workspace's metadata.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};

/// The folder of the workspace's manifest.
pub(crate) fn workspace_root() -> PathBuf {
    // From the build: cargo runs this in the caller's folder.
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.ancestors().nth(2).unwrap_or(xtask).to_owned()
}

/// The folder of a crate of the workspace, relative to the workspace: `crates/core/base` of `durio-base`.
pub(crate) fn crate_folder(name: &str) -> Result<String> {
    let metadata = metadata()?;
    let packages = metadata.workspace_packages();
    let package = packages.into_iter().find(|package| package.name.as_str() == name);
    let manifest = &package.with_context(|| format!("no crate '{name}'"))?.manifest_path;
    let folder = manifest.parent().context("a manifest without a folder")?;
    Ok(folder.strip_prefix(&metadata.workspace_root)?.to_string())
}

/// Cargo in the workspace's folder, without an input.
pub(crate) fn command(arguments: &[&str]) -> Command {
    // Cargo names itself in the environment; another version may come first on the search path.
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace_root()).stdin(Stdio::null());
    if env::var_os("CI").is_some() && env::var_os("CARGO_TERM_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "never");
    }
    command
}

/// The workspace's packages and the resolved graph of their dependencies.
pub(crate) fn metadata() -> Result<Metadata> {
    let mut query = MetadataCommand::new();
    query.current_dir(workspace_root()).exec().context("cargo metadata failed")
}
