//! Cargo, called on this workspace.
//!
//! In: arguments. Out: commands that are ready to run, and the workspace's metadata.
//! Not here: what the answers mean.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};

/// The folder of the workspace's manifest.
pub(crate) fn workspace_root() -> PathBuf {
    // From the build: cargo runs this in whichever folder it was called.
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Cargo in the workspace's folder, without an input.
pub(crate) fn command(arguments: &[&str]) -> Command {
    // Cargo names itself to what it runs; another version may come first on the search path.
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace_root()).stdin(Stdio::null());
    if env::var_os("CI").is_some() && env::var_os("CARGO_TERM_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "never");
    }
    command
}

/// The workspace's packages and the resolved graph of what they use.
pub(crate) fn metadata() -> Result<Metadata> {
    let mut query = MetadataCommand::new();
    query.current_dir(workspace_root()).exec().context("cargo metadata failed")
}
