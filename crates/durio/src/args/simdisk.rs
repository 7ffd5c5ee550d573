//! The arguments of `durio simdisk`.

use clap::{Args, Subcommand};

/// Serve simulated disks that keep their word, or break it in a known way
#[derive(Debug, Args)]
pub(crate) struct Simdisk {
    #[command(subcommand)]
    pub(crate) command: SimdiskCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimdiskCommand {
    /// List the profiles, honest ones first
    List,
}
