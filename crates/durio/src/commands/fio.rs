//! `durio fio`: jobs of fio, from job files or a fio command line, run by durio.
//!
//! Takes words as fio does; prints a plan, or runs it and prints results, and lists differences
//! from fio. durio-fio knows what an option means, durio-report writes results.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use clap::Args;
use durio_bench::Execution;
use durio_block::{HeldTargets, open_input};
use durio_command::{CommandError, CommandErrorKind, LocatedPlaces, Permission, locate};
use durio_fio::FioError;
use durio_fio::import::{ImportSettings, ImportedPlan, ResultShape, import, named_paths};
use durio_fio::job_file::{
    FILE_BYTES_MAX, HostParameters, JobFile, JobSource, MachineValues, PrintSettings, Remark,
    note_lines, parse_command_line, resolve,
};
use durio_plan::{ClockChoice, Location};
use durio_report::write_document;

use crate::exit_code::{Exit, TABLE};
use crate::measure::{PLAN_FILE_NAME, begin, execute};
use crate::options::{Expanding, Measuring, PlanArguments, RunCommand};
use crate::output;

/// Run fio's job files and command lines with durio, and print fio's output
///
/// Accepts fio's options and prints fio's output: --output, --output-format (normal, terse, json,
/// json+, and lists of them), --minimal, --terse-version, --append-terse, --status-interval, and the
/// logs of write_bw_log, write_lat_log and write_iops_log. For durio's own formats use --format.
/// Every fio option is honoured, or refused by name and line: --cmdhelp lists them, --cmdhelp=NAME
/// describes one. Differences from fio that do not change what the results mean are printed as
/// notes, once per job file: on stderr, or on stdout if --output names a file for the results.
/// Sections of one stonewall group run at the same time.
///
///   durio fio job.fio
///   durio fio --name=wal --rw=write --bs=8k --size=64m --fdatasync=1 --output-format=json
///   durio fio --destroy /dev/sdx --output=result.json --output-format=json+ job.fio
///   durio fio --plan job.fio
///
/// To let programs that call fio use durio, put a script named fio on the PATH that does
/// `exec durio fio "$@"`.
///
/// durio's options may be mixed with fio's; everything after -- is fio's. Existing files are
/// written only if --destroy names them; files that durio makes are removed. Logs have one line per
/// interval (log_avg_msec, or 100 ms), never one per I/O.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = TABLE,
    override_usage = "durio fio [OPTIONS] [FIO OPTIONS] [JOB FILE]..."
)]
pub(crate) struct FioArguments {
    /// fio's command line: options and job files
    #[arg(last = true, value_name = "FIO OPTIONS")]
    pub(crate) words: Vec<PathBuf>,

    /// Print the plan as JSON, and run nothing
    #[arg(long)]
    pub(crate) plan: bool,

    #[command(flatten)]
    pub(crate) common: Measuring,
}

mod stand_in;
mod status;

pub(crate) fn fio(arguments: &FioArguments) -> Result<Exit, CommandError> {
    let words = words(arguments)?;
    let options = &arguments.common;
    if arguments.plan {
        let imported = import_file(&parse(&words)?, options.permission(), &planning(options))?;
        imported.notes.iter().for_each(|line| note(line));
        let mut bytes = Vec::new();
        write_document(&imported.plan, &mut bytes).map_err(CommandError::unmade)?;
        return output::answer(&bytes).map(|()| Exit::Fine);
    }
    if options.output.named().is_some() {
        return run_words(&words, options, &begin("fio", options)?);
    }
    stand_in::run(&words, options)
}

/// Runs the jobs that `words` describe, and prints durio's report.
fn run_words(
    words: &[String],
    options: &Measuring,
    execution: &Execution,
) -> Result<Exit, CommandError> {
    let file = parse(words)?;
    let settings = ImportSettings { copies_apart: false, ..running(execution, options) };
    let imported = import_file(&file, options.permission(), &settings)?;
    imported.notes.iter().for_each(|line| note(line));
    if !imported.shape.logs.is_empty() || file.printing != PrintSettings::default() {
        note(
            "note: logs, --output, --output-format and --status-interval have no effect here: they \
             belong to fio's output, which durio fio prints without --format",
        );
    }
    execute(execution, &imported.plan, imported.held, options).map(|(exit, _)| exit)
}

/// Writes a note to stderr, in lines that fit.
fn note(line: &str) {
    output::remark(&output::folded(line, output::columns(&std::io::stderr())));
}

/// Settings of an import to run.
fn running(execution: &Execution, options: &Measuring) -> ImportSettings {
    ImportSettings {
        seed: execution.seed,
        clock: options.clock,
        file_name: execution.file_name(),
        copies_apart: true,
    }
}

/// Settings of an import to display only.
fn planning(options: &Measuring) -> ImportSettings {
    ImportSettings {
        // The same plan each time it is displayed.
        seed: options.seed.unwrap_or(0),
        clock: options.clock,
        file_name: PLAN_FILE_NAME.to_owned(),
        copies_apart: true,
    }
}

/// `durio run JOB.fio`.
pub(crate) fn run_file(
    path: &Path,
    arguments: &RunCommand,
    gate: Option<UnixStream>,
) -> Result<Exit, CommandError> {
    check_alone(&arguments.job.target, &arguments.expanding)?;
    let options = &arguments.job.common;
    let words = [word(path)?];
    let execution = begin("fio", options)?.with_gate(gate);
    run_words(&words, options, &execution.with_why(arguments.own.explained()))
}

/// `durio plan JOB.fio`.
pub(crate) fn plan_file(
    path: &Path,
    arguments: &PlanArguments,
) -> Result<durio_plan::Plan, CommandError> {
    check_alone(&arguments.target, &arguments.expanding)?;
    let file_name = PLAN_FILE_NAME.to_owned();
    let settings =
        ImportSettings { seed: 0, clock: ClockChoice::Auto, file_name, copies_apart: false };
    let PlanArguments { destroy, force_signature, .. } = arguments;
    let permission = Permission::Named { destroy, force_signature: *force_signature };
    let imported = import_file(&parse(&[word(path)?])?, permission, &settings)?;
    imported.notes.iter().for_each(|line| note(line));
    Ok(imported.plan)
}

// A job file says itself where and how long.
fn check_alone(targets: &[PathBuf], expanding: &Expanding) -> Result<(), CommandError> {
    if targets.is_empty() && !expanding.is_scaled() {
        return Ok(());
    }
    let text = "--target, --scale-time, --scale-size and --confirm-steps are for specs";
    Err(CommandError::wrong_use(text)
        .hint("a fio job file sets both: see its filename and runtime"))
}

fn word(path: &Path) -> Result<String, CommandError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let text = format!("'{}' is not text; give the file another name", path.display());
        CommandError::wrong_use(text)
    })
}

/// True for a file that is named as fio's job files are (`.fio`, `.job`), or whose name is not that
/// of a TOML file and whose text begins with a section.
pub(crate) fn is_job_file(path: &Path) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("fio" | "job") => return true,
        Some("toml") => return false,
        _ => {}
    }
    // A pipe must not be read here.
    let head = path.is_file().then(|| head_of(path).ok()).flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&head);
    let lines = text.lines().map(str::trim);
    let first = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with([';', '#']));
    first.is_some_and(|line| line.starts_with('['))
}

// Comments before the first section are seldom longer.
const HEAD_BYTES: u64 = 64 << 10;

fn head_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    open_input(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// Jobs of fio as a plan, and fio's messages about them.
pub(crate) struct ImportedJobs {
    pub(crate) plan: durio_plan::Plan,
    pub(crate) held: HeldTargets,
    /// The differences from fio, each once.
    pub(crate) notes: Vec<String>,
    pub(crate) shape: ResultShape,
    pub(crate) global_options: Vec<(String, String)>,
}

/// The words as fio's command line, with the job files that it names.
fn parse(words: &[String]) -> Result<JobFile, CommandError> {
    let environment = |name: &str| std::env::var(name).ok();
    let mut host =
        HostParameters { read: &mut read_source, environment: &environment, machine: machine() };
    parse_command_line(words, &mut host).map_err(|error| {
        let absent = words.iter().find(|word| word.ends_with(".fio") && !Path::new(word).exists());
        let hint = absent.map(|_| "name a job file by its path, or - for stdin");
        hint.into_iter().fold(wrong_use(error), CommandError::hint)
    })
}

/// The plan of the jobs of a command line.
fn import_file(
    file: &JobFile,
    permission: Permission<'_>,
    settings: &ImportSettings,
) -> Result<ImportedJobs, CommandError> {
    let jobs = resolve(file).map_err(wrong_use)?;
    let paths = named_paths(&jobs, &is_device);
    let LocatedPlaces { places: locations, held } = locate(&paths, permission)?;
    let locations: HashMap<&Path, &Location> =
        locations.iter().map(|location| (location.path.as_path(), location)).collect();
    let located = |path: &Path| locations.get(path).map(|&location| location.clone());
    let ImportedPlan { plan, notes, shape } =
        import(&jobs, &located, settings).map_err(|refusals| refused(&refusals))?;
    let notes = note_lines(file.notes.iter().chain(&notes));
    Ok(ImportedJobs { plan, held, notes, shape, global_options: file.global_options() })
}

fn words(arguments: &FioArguments) -> Result<Vec<String>, CommandError> {
    let words: Vec<String> =
        arguments.words.iter().map(|path| word(path)).collect::<Result<_, _>>()?;
    if words.is_empty() {
        let failure = CommandError::wrong_use("no job file and no fio command line");
        return Err(failure.hint("durio fio JOB.fio, or durio fio --name=job --rw=randread …"));
    }
    Ok(words)
}

/// Reads a job file as fio finds it: at its path, or for an include next to the including file.
fn read_source(name: &str, from: Option<&str>) -> Result<JobSource, String> {
    // An included file cannot be standard input; the including file may be.
    if name == "-" && from.is_none() {
        return text_of(name.to_owned(), std::io::stdin());
    }
    let beside = from.and_then(|from| Path::new(from).parent()).map(|folder| folder.join(name));
    let (path, file) = match (open_input(Path::new(name)), beside) {
        (Err(_), Some(beside)) if !Path::new(name).is_absolute() => {
            (beside.display().to_string(), open_input(&beside))
        }
        (opened, _) => (name.to_owned(), opened),
    };
    text_of(path, file.map_err(|error| error.to_string())?)
}

fn text_of(path: String, input: impl std::io::Read) -> Result<JobSource, String> {
    let mut bytes = Vec::new();
    // One byte above the limit shows that the file is too long.
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    input.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    Ok(JobSource { name: path, text })
}

fn machine() -> MachineValues {
    let host = durio_observe::read_host();
    MachineValues {
        page_bytes: u64::try_from(rustix::param::page_size()).unwrap_or(4096),
        memory_mib: host.memory.get() >> 20,
        cpus: configured_cpus().unwrap_or(host.cpus_online),
    }
}

// fio's `$ncpus` counts the processors that are there, also those that are switched off.
fn configured_cpus() -> Option<u32> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/present").ok()?;
    u32::try_from(durio_observe::numbers_in_list(list.trim())?.len()).ok()
}

// fio works on a device that a section is named after.
fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = path.symlink_metadata().map(|facts| facts.file_type());
    kind.is_ok_and(|kind| {
        let is_device = |kind: std::fs::FileType| kind.is_block_device() || kind.is_char_device();
        let target = || path.metadata().is_ok_and(|facts| is_device(facts.file_type()));
        is_device(kind) || (kind.is_symlink() && target())
    })
}

fn wrong_use(error: FioError) -> CommandError {
    CommandError::of(CommandErrorKind::WrongUse, error)
}

fn refused(refusals: &[Remark]) -> CommandError {
    let lines: Vec<String> = refusals.iter().map(|refusal| format!("\n  {refusal}")).collect();
    let text = format!("durio cannot do what these jobs ask for:{}", lines.concat());
    CommandError::wrong_use(text).hint("change these options, or run the job with fio itself")
}
