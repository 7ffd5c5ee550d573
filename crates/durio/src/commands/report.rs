//! `durio report`: every view again, from the run folder alone; of a bench folder its
//! layers, of a comparison of kernels how they changed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use durio_bench::{find_run, read_run};
use durio_command::CommandError;
use durio_layers::DeclaredStack;
use durio_record::bench::{BenchFolder, LabCompareFolder};
use durio_record::file_names;
use durio_record::proof::ProofFolder;

use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::output;
use crate::progress::Terminal;

/// Make a report from a saved run
///
/// Works on any machine, without the storage. A run that was killed can be reported too; its report
/// is marked partial.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct ReportArguments {
    /// The run: its folder, its name or the begin of it, last or last~2; several are set side by side
    #[arg(value_name = "RUN", default_value = "last")]
    pub(crate) runs: Vec<PathBuf>,

    /// Open the saved page in a browser, and print its path
    #[arg(long, conflicts_with_all = ["format", "json", "verbose"])]
    pub(crate) open: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

pub(crate) fn report(arguments: &ReportArguments) -> Result<Exit, CommandError> {
    let run = match arguments.runs.as_slice() {
        [run] => run,
        runs if arguments.open => {
            let text = format!("--open takes one run, not {}", runs.len());
            return Err(
                CommandError::wrong_use(text).hint("--format html writes one page of several")
            );
        }
        runs => return super::compare::side_by_side(runs, arguments.output),
    };
    let path = find_run(run)?;
    if arguments.open {
        return open(&path.join(file_names::REPORT));
    }
    // If a folder has both manifests, the run's takes precedence.
    let is_run = path.join(file_names::MANIFEST).is_file();
    if BenchFolder::<DeclaredStack>::is_at(&path) && !is_run {
        let folder = BenchFolder::<DeclaredStack>::open(&path)?;
        return super::stack::show_bench(&folder, arguments.output);
    }
    if ProofFolder::is_at(&path) && !is_run {
        return super::prove_run::show(&path, arguments.output);
    }
    if LabCompareFolder::is_at(&path) && !is_run {
        let folder = LabCompareFolder::open(&path)?;
        return super::lab::show_comparison(&folder, arguments.output);
    }
    let histograms = arguments.output.format().shows_histograms();
    let read = read_run(&path, histograms, &Terminal::new(true))?;
    output::report(arguments.output, &read.findings)?;
    Ok(Exit::of_read(read.is_damaged))
}

/// Prints the path of a saved page, and opens it if there is a display.
fn open(page: &Path) -> Result<Exit, CommandError> {
    if !page.is_file() {
        return Err(CommandError::cannot_measure(format!("there is no page '{}'", page.display()))
            .hint("durio report RUN --format html makes one from the record"));
    }
    output::answer_text(&format!("{}\n", page.display()))?;
    let has_display = ["WAYLAND_DISPLAY", "DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if !has_display {
        return Ok(Exit::Fine);
    }
    // The desktop's program may outlive durio, and its output is not durio's.
    let null = || Stdio::null();
    let started =
        Command::new("xdg-open").arg(page).stdin(null()).stdout(null()).stderr(null()).status();
    match started {
        Ok(status) if status.success() => {}
        Ok(status) => output::remark(&format!("durio: no browser: xdg-open ended with {status}")),
        Err(error) => output::remark(&format!("durio: no browser: xdg-open: {error}")),
    }
    Ok(Exit::Fine)
}
