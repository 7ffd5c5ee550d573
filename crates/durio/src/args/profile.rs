//! The arguments of `durio profile`.

use clap::{Args, Subcommand};

use super::Output;
use crate::exit_code::TABLE;

/// Show what databases do to their storage, field by field, each with its source
///
/// A profile is the log that commits wait for, and what runs meanwhile: lookups, checkpoints,
/// compactions. `durio run profile:NAME --target DIR` measures the log idle and under that load.
///
///   durio profile list
///   durio profile show postgresql
///   durio profile show ./mine.toml
///   durio run profile:postgresql --target /data
///   durio run profile:./mine.toml --target log=/log --target data=/data
///
/// How to write one is in docs/formats/profile.md. Values that no document backs are marked as
/// general knowledge or as durio's guess: replace them by what your own database does.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Profile {
    #[command(subcommand)]
    pub(crate) command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List the built-in profiles
    List {
        #[command(flatten)]
        output: Output,
    },
    /// Show a profile: every field, its value, and where it is from
    Show {
        /// Name of a profile, or the path of a TOML file
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        output: Output,
    },
}
