//! `durio doctor`: checks what durio can do on this machine.

use std::path::PathBuf;

use clap::Args;
use durio_bench::diagnose;

use durio_command::CommandError;

use crate::exit_code::{Exit, TABLE};
use crate::measure::clear_up;
use crate::options::OutputArguments;
use crate::output;

/// Show what durio can do on this machine, and how to enable the rest
///
/// Tries each feature if that is cheap: sets up a ring, writes 8 KiB to a temporary file in DIR
/// and syncs it, creates an empty kernel trace, boots a guest of 300 bytes under KVM. Nothing is
/// left behind, and existing files are not touched.
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

pub(super) fn doctor(arguments: &Doctor) -> Result<Exit, CommandError> {
    let directory = &arguments.directory;
    if directory.exists() && !directory.is_dir() {
        let text = format!("'{}' is not a directory", directory.display());
        return Err(CommandError::wrong_use(text).hint(
            "durio doctor expects the directory in which durio check will create its files",
        ));
    }
    clear_up();
    let diagnosis = diagnose(directory);
    output::report(arguments.output, &diagnosis)?;
    let obstacles: Vec<_> = diagnosis.obstacles().map(|row| row.found.as_str()).collect();
    if obstacles.is_empty() {
        return Ok(Exit::Fine);
    }
    let text = format!("durio check cannot run here: {}", obstacles.join("; "));
    let error = CommandError::cannot_measure(text);
    Err(diagnosis.obstacles().fold(error, |error, row| error.hint(row.remedy.as_str())))
}
