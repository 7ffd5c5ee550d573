//! The arguments of `durio prove plan`.

use std::path::PathBuf;

use clap::Args;

use super::OutputArguments;
use crate::exit_code::TABLE;

/// Show what a proof spec would try: each series, its power cuts, what is expected
///
/// Writes nothing and cuts nothing. Without SPEC it lists the built-in proof specs.
/// docs/formats/proof-spec.md explains how to write one; --schema prints a JSON schema for editors.
///
///   durio prove plan
///   durio prove plan prove-smoke
///   durio prove plan my-disks.toml --only nbd/ --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProvePlan {
    /// A TOML file, or the name of a built-in proof spec
    #[arg(value_name = "SPEC")]
    pub(crate) spec: Option<PathBuf>,

    /// Only series whose name contains this text (can be repeated)
    #[arg(long, value_name = "TEXT", requires = "spec", help_heading = "What")]
    pub(crate) only: Vec<String>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Print the JSON schema of proof specs
    #[arg(long, conflicts_with = "spec", help_heading = "Output")]
    pub(crate) schema: bool,
}
