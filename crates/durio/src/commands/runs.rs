//! `durio report`, `durio runs`, `durio history`: every view of a saved run again, from its folder
//! alone (of a bench folder its layers, of a comparison of kernels how they changed); and the runs
//! that are kept, listed, removed, and set in a row.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use durio_analyse::history::{self, Metric};
use durio_base::{Bytes, Nanos, counted};
use durio_bench::{KeptRuns, find_run, list_runs, read_run, remove_run, to_prune};
use durio_command::CommandError;
use durio_layers::DeclaredStack;
use durio_plan::RawPath;
use durio_record::bench::{BenchFolder, LabCompareFolder};
use durio_record::file_names;
use durio_record::proof::ProofFolder;
use durio_report::{Format, ShownIntervals, ShownRuns, io_properties};

use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::progress::Terminal;
use crate::{output, values};

/// Make a report from a saved run
///
/// Works on any machine, without the storage. The report of a killed run is marked partial.
///
///   durio report last
///   durio report last --intervals -o intervals.csv
///   durio report last --io-properties > io_properties.yaml
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ReportArguments {
    /// Run: its folder, its name or the start of it, last or last~2; several are shown side by side
    #[arg(value_name = "RUN", default_value = "last")]
    pub(crate) runs: Vec<PathBuf>,

    /// Open the saved page in a browser, and print its path
    #[arg(long, conflicts_with_all = ["format", "json", "verbose", "report_file"])]
    pub(crate) open: bool,

    /// Show the intervals of each workload instead: rate, p50, p99 and max over time
    ///
    /// The counterpart of fio's logs (write_bw_log, write_iops_log, write_lat_log). Their length is
    /// that of --interval when the run was measured. JSON is that of the run, which has them as
    /// workloads[].intervals.
    #[arg(long, conflicts_with = "open")]
    pub(crate) intervals: bool,

    /// Print the run as Seastar's io_properties.yaml, which ScyllaDB and Redpanda read
    ///
    /// The run must have measured IOPS at random and sequential bandwidth, of reads and writes, as
    /// the built-in spec io-properties does; what is missing is an error.
    #[arg(long, conflicts_with_all = ["open", "intervals", "format", "json", "verbose", "report_file"])]
    pub(crate) io_properties: bool,

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
        runs if arguments.intervals || arguments.io_properties => {
            let text = format!("{} takes one run, not {}", option(arguments), runs.len());
            return Err(CommandError::wrong_use(text));
        }
        runs => return super::compare::side_by_side(runs, arguments.output),
    };
    let path = find_run(run)?;
    if arguments.open {
        return open(&path.join(file_names::REPORT));
    }
    // If a folder has both manifests, the run's takes precedence.
    let is_run = path.join(file_names::MANIFEST).is_file();
    if arguments.intervals || arguments.io_properties {
        if !is_run {
            let text = format!("{} takes a run, not '{}'", option(arguments), path.display());
            let hint = "the folder of a bench has a folder for each of its runs";
            return Err(CommandError::wrong_use(text).hint(hint));
        }
        return parts(arguments, &path);
    }
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

/// The option that asks for a part of a run.
const fn option(arguments: &ReportArguments) -> &'static str {
    if arguments.intervals { "--intervals" } else { "--io-properties" }
}

/// The intervals of a run, or what a program on Seastar reads of it.
fn parts(arguments: &ReportArguments, path: &Path) -> Result<Exit, CommandError> {
    let format = arguments.output.format();
    if matches!(format, Format::OpenMetrics | Format::JUnit | Format::FioJson) {
        let hint = "expected text, json, html, markdown or csv";
        return Err(output::unsupported(arguments.output, hint));
    }
    let read = read_run(path, false, &Terminal::new(true))?;
    if arguments.io_properties {
        let text = io_properties(&read.findings).map_err(|missing| {
            let text = format!("the run did not measure {}", missing.join(", "));
            CommandError::cannot_measure(text)
                .hint("durio run io-properties --target data=DIR measures all of them")
        })?;
        output::answer_text(&text)?;
    } else if format == Format::Json {
        output::report(arguments.output, &read.findings)?;
    } else {
        output::report(arguments.output, &ShownIntervals(&read.findings))?;
    }
    Ok(Exit::of_read(read.is_damaged))
}

/// Prints the path of a saved page, and opens it if there is a display.
fn open(page: &Path) -> Result<Exit, CommandError> {
    if !page.is_file() {
        return Err(CommandError::cannot_measure(format!("no page '{}'", page.display()))
            .hint("durio report RUN --format html makes one from the record"));
    }
    output::answer_text(&format!("{}\n", page.display()))?;
    let has_display = ["WAYLAND_DISPLAY", "DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if !has_display {
        output::remark("durio: no display here; open that page in a browser");
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

/// List the runs that are kept, or remove some
///
/// Runs are kept in the state folder ($XDG_STATE_HOME/durio/runs or ~/.local/state/durio/runs),
/// unless --out named another. Wherever a command takes a run, you can write:
///
///   last, last~1     the latest, the one before it
///   NAME, NAME~1     the latest run of this name (durio check --name NAME), the one before it
///   2026-11-23T15    the start of a run's own name, if only one run has it
///   check-4711       the end of it
///   path/to/folder   its folder, wherever it is
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE, args_conflicts_with_subcommands = true)]
pub(crate) struct Runs {
    #[command(subcommand)]
    pub(crate) command: Option<RunsCommand>,

    /// Probes of durio watch instead of runs
    #[arg(long, global = true)]
    pub(crate) probes: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// Remove runs
    Rm {
        /// Runs to remove, as for durio report
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<std::path::PathBuf>,

        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
    /// Remove old runs
    ///
    /// Named runs and the latest ones are kept.
    Prune {
        /// Number of latest runs to keep
        #[arg(long, value_name = "N", default_value_t = 30)]
        keep: usize,

        /// Remove only runs older than this, such as 90d or 12h
        #[arg(long, value_name = "AGE", default_value = "90d", value_parser = values::age)]
        older_than: Nanos,

        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

/// Show how a result changed from run to run
///
/// Shows one result for each run of one machine on one target, the latest last, and marks a lasting
/// change (Pettitt's rank test, which needs five runs before and after).
///
///   durio history /data
///   durio history /data --metric lookup.p99.9
///   durio history /data --metric commit.p99 --probes
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct RunsHistory {
    /// Target, as named in the runs [default: that of the latest run]
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<PathBuf>,

    /// Workload and figure: rate, p50, p99 or p99.9
    #[arg(long, value_name = "WORKLOAD.FIGURE", default_value = "commit.rate",
          value_parser = values::metric)]
    pub(crate) metric: Metric,

    /// Probes of durio watch instead of runs
    #[arg(long)]
    pub(crate) probes: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

pub(crate) fn runs(arguments: &Runs) -> Result<Exit, CommandError> {
    let kept = kept(arguments.probes)?;
    match &arguments.command {
        None => {
            let rows = list_runs(&kept)?;
            output::report(arguments.output, &ShownRuns::new(&rows)).map(|()| Exit::Fine)
        }
        Some(RunsCommand::Rm { runs, yes }) => {
            let mut names: Vec<String> = Vec::new();
            for run in runs {
                let name = name_of(run, &kept)?;
                // One run may be called by two words.
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            remove(&kept, &names, *yes)
        }
        Some(RunsCommand::Prune { keep, older_than, yes }) => {
            let rows = list_runs(&kept)?;
            let age = Duration::from_nanos(older_than.get());
            let old = to_prune(&rows, *keep, age, SystemTime::now());
            let names: Vec<String> = old.iter().map(|row| row.run.clone()).collect();
            if names.is_empty() {
                output::remark("durio: no run is that old");
                return Ok(Exit::Fine);
            }
            remove(&kept, &names, *yes)
        }
    }
}

/// Where the runs are, or the probes of watchers.
fn kept(probes: bool) -> Result<KeptRuns, CommandError> {
    if probes { KeptRuns::probes() } else { KeptRuns::runs() }
}

pub(crate) fn history(arguments: &RunsHistory) -> Result<Exit, CommandError> {
    let (target, metric) = (arguments.target.as_deref(), &arguments.metric);
    let rows = list_runs(&kept(arguments.probes)?)?;
    // In the form of records, and in that of lists, from which a user may copy it.
    let names =
        target.map(|target| [RawPath::from(target).to_string(), target.display().to_string()]);
    let found = match &names {
        None => history::history(&rows, None, metric),
        Some(names) => names.iter().find_map(|name| history::history(&rows, Some(name), metric)),
    };
    let found = found.ok_or_else(|| {
        let figure = format!("{} of {}", metric.figure.name(), metric.workload);
        let place = target.map_or_else(String::new, |target| format!(" at '{}'", target.display()));
        if rows.iter().any(|row| row.has_levels_of(&metric.workload)) {
            let message = format!("'{}' has several levels in a run", metric.workload);
            return CommandError::cannot_measure(message).hint(
                "a history needs a workload that each run measures once; durio compare \
                       shows levels",
            );
        }
        CommandError::cannot_measure(format!("no finished run has {figure}{place}"))
            .hint("durio runs lists the runs with their targets")
    })?;
    output::report(arguments.output, &found).map(|()| Exit::Fine)
}

/// The name of a run of the state folder.
fn name_of(word: &Path, kept: &KeptRuns) -> Result<String, CommandError> {
    let folder = find_run(word)?;
    let canonical = folder.canonicalize().ok();
    let runs = kept.path().and_then(|path| path.canonicalize().ok());
    let is_kept =
        runs.is_some() && canonical.as_ref().and_then(|path| path.parent()) == runs.as_deref();
    let name =
        canonical.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
    match name.filter(|_| is_kept) {
        Some(name) => Ok(name.into_owned()),
        None => {
            Err(CommandError::wrong_use(format!("'{}' is not in the state folder", word.display()))
                .hint(
                    "durio removes only runs in its state folder; remove other folders with rm -r",
                ))
        }
    }
}

fn remove(kept: &KeptRuns, names: &[String], yes: bool) -> Result<Exit, CommandError> {
    let rows = list_runs(kept)?;
    let bytes = rows.iter().filter(|row| names.contains(&row.run)).map(|row| row.bytes).sum();
    for name in names {
        output::remark(&format!("  {name}"));
    }
    let what = format!("{}, {}", counted(names.len() as u64, "run"), Bytes::new(bytes));
    if !yes && !output::agreed(&format!("this removes {what}"))? {
        return Ok(Exit::Fine);
    }
    names.iter().try_for_each(|name| remove_run(kept, name))?;
    output::remark(&format!("durio: removed {what}"));
    Ok(Exit::Fine)
}
