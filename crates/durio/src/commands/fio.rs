//! `durio fio`: jobs of fio, from job files or a fio command line, run by durio.
//!
//! In: words as fio takes them. Out: a plan, and on stderr what is not as in fio. Not here: what an
//! option means (durio-fio), and running.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use durio_fio::FioError;
use durio_fio::import::{ImportSettings, ImportedPlan, PlaceFacts, import, named_paths};
use durio_fio::job_file::{
    FILE_BYTES_MAX, Machine, Note, Refusal, Source, Surroundings, parse_command_line, resolve,
};
use durio_plan::Plan;
use durio_spec::{Location, LocationFacts};

use crate::args::{Fio, Measuring};
use crate::execute::{Execution, execute};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::locate::locate;
use crate::output;

pub(crate) fn fio(arguments: &Fio) -> Result<Exit, Failure> {
    let words = words(arguments)?;
    if arguments.plan {
        let seed = arguments.common.seed.unwrap_or(0);
        let plan = import_words(&words, &arguments.common, (seed, ".durio-plan".to_owned()))?;
        output::answer(&plan_text(&plan)?)?;
        return Ok(Exit::Fine);
    }
    run_words(&words, &arguments.common)
}

/// Runs the jobs that `words` describe.
pub(crate) fn run_words(words: &[String], options: &Measuring) -> Result<Exit, Failure> {
    let execution = Execution::begin("fio", options)?;
    let plan = import_words(words, options, (execution.seed, execution.file_name()))?;
    execute(&execution, &plan, options).map(|(exit, _)| exit)
}

/// The plan of the jobs that `words` describe, the names of job files among them; notes go to
/// stderr. `seed` and `file_name` are those of the run.
pub(crate) fn import_words(
    words: &[String],
    options: &Measuring,
    (seed, file_name): (u64, String),
) -> Result<Plan, Failure> {
    let environment = |name: &str| std::env::var(name).ok();
    let mut surroundings =
        Surroundings { read: &mut read_source, environment: &environment, machine: machine() };
    let file = parse_command_line(words, &mut surroundings).map_err(wrong_use)?;
    let jobs = resolve(&file).map_err(wrong_use)?;
    let paths = named_paths(&jobs);
    let locations = locate(&paths, options)?;
    let facts =
        |path: &Path| locations.iter().find(|it| it.path.as_path() == path).map(place_facts);
    let settings = ImportSettings { seed, clock: options.clock, file_name };
    let ImportedPlan { plan, notes } =
        import(&jobs, &facts, &settings).map_err(|refusals| refused(&refusals))?;
    for note in file.notes.iter().chain(&notes) {
        output::remark(&format!("note: {}", note_line(note)));
    }
    Ok(plan)
}

fn words(arguments: &Fio) -> Result<Vec<String>, Failure> {
    let text = |path: &PathBuf| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            let text = format!("'{}' is no text; give the file another name", path.display());
            Failure::new(Exit::WrongUse, text)
        })
    };
    let files = arguments.files.iter().map(text);
    let words: Vec<String> =
        files.chain(arguments.command_line.iter().cloned().map(Ok)).collect::<Result<_, _>>()?;
    if words.is_empty() {
        let failure = Failure::new(Exit::WrongUse, "neither a job file nor a command line of fio");
        return Err(failure.hint("durio fio JOB.fio, or durio fio -- --name=job --rw=randread …"));
    }
    Ok(words)
}

/// Reads a job file as fio finds it: as it is named, or for an include beside the file that names
/// it.
fn read_source(name: &str, from: Option<&str>) -> Result<Source, String> {
    let beside = from.and_then(|from| Path::new(from).parent()).map(|folder| folder.join(name));
    let (path, file) = match (File::open(name), beside) {
        (Err(_), Some(beside)) if !Path::new(name).is_absolute() => {
            (beside.display().to_string(), File::open(&beside))
        }
        (opened, _) => (name.to_owned(), opened),
    };
    let mut bytes = Vec::new();
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    file.and_then(|file| file.take(most).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is no text (UTF-8)".to_owned())?;
    Ok(Source { name: path, text })
}

fn machine() -> Machine {
    let host = durio_stack::read_host();
    Machine {
        page_bytes: u64::try_from(rustix::param::page_size()).unwrap_or(4096),
        memory_mib: host.memory.get() >> 20,
        cpus: configured_cpus().unwrap_or(host.cpus_online),
    }
}

/// fio's `$ncpus` counts the processors that are there, also those that are switched off.
fn configured_cpus() -> Option<u32> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/present").ok()?;
    u32::try_from(durio_stack::numbers_in_list(list.trim())?.len()).ok()
}

fn place_facts(location: &Location) -> PlaceFacts {
    let destroy = location.destroy;
    match location.facts {
        LocationFacts::Directory { free, .. } => PlaceFacts::Directory { free },
        LocationFacts::Absent { free } => PlaceFacts::Absent { free },
        LocationFacts::File { size } => PlaceFacts::File { size, destroy },
        LocationFacts::Device { size } => PlaceFacts::Device { size, destroy },
        LocationFacts::NullDevice => PlaceFacts::NullDevice,
    }
}

fn wrong_use(error: FioError) -> Failure {
    Failure { exit: Exit::WrongUse, error: error.into(), hints: Vec::new() }
}

fn refused(refusals: &[Refusal]) -> Failure {
    let lines: Vec<String> = refusals.iter().map(|refusal| format!("\n  {refusal}")).collect();
    let text = format!("durio cannot do what these jobs ask for:{}", lines.concat());
    Failure::new(Exit::WrongUse, text)
        .hint("change what is named, or run the job by fio itself: durio run --engine fio, or fio")
}

fn note_line(note: &Note) -> String {
    let Note { option, value, at, what } = note;
    match value {
        Some(value) => format!("{at}: {option}={value}: {what}"),
        None => format!("{at}: {option}: {what}"),
    }
}

fn plan_text(plan: &Plan) -> Result<Vec<u8>, Failure> {
    let mut bytes = serde_json::to_vec_pretty(plan).map_err(|error| Failure {
        exit: Exit::Fault,
        error: error.into(),
        hints: Vec::new(),
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}
