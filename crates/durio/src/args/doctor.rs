//! The arguments of `durio doctor`.

use std::path::PathBuf;

use clap::Args;

use super::OutputArguments;
use crate::exit_code::TABLE;

/// Show what this machine lets durio do, and how to enable the rest
///
/// Tries each thing where that is cheap: sets up a ring, writes 8 KiB to a file of its own in DIR
/// and syncs it, makes a kernel trace that traces nothing, boots a guest of 300 bytes under KVM.
/// Nothing of it stays, and nothing that exists is written to.
///
///   durio doctor /data             # before durio check /data
///   durio doctor --verbose         # also what each thing is used for
///   durio doctor /data --json      # for scripts
///
/// ok: works. limited: works with a restriction, which reports mention. no: does not work. The exit
/// code is 0 if durio check DIR can run, and 3 if it cannot.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Doctor {
    /// Directory on the storage to measure
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
