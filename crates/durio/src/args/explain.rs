//! The arguments of `durio explain`.

use clap::Args;

use super::OutputArguments;
use crate::exit_code::TABLE;

/// Explain what a report says: a warning, a signal, a verdict, a rule
///
/// ID is the word as the report prints it, such as not-steady, flush-fast, unfit or B01. The same
/// explanations are the reference part of the book. Without ID it lists all of them.
///
///   durio explain
///   durio explain flush-fast
///   durio explain --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Explain {
    /// What to explain; several may have the same id, and all of them are shown
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
