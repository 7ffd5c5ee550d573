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

use crate::args::{Expanding, Fio, Measuring, Plan as PlanArguments, RunCommand};
use crate::execute::{Execution, execute};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::locate::locate_with;
use crate::output;

pub(crate) fn fio(arguments: &Fio) -> Result<Exit, Failure> {
    let words = words(arguments)?;
    if arguments.plan {
        let settings = ImportSettings {
            seed: arguments.common.seed.unwrap_or(0),
            clock: arguments.common.clock,
            file_name: ".durio-plan".to_owned(),
        };
        let plan = import_words(&words, Permitted::of(&arguments.common), &settings)?;
        output::answer(&plan_text(&plan)?)?;
        return Ok(Exit::Fine);
    }
    run_words(&words, &arguments.common)
}

/// Runs the jobs that `words` describe.
pub(crate) fn run_words(words: &[String], options: &Measuring) -> Result<Exit, Failure> {
    let execution = Execution::begin("fio", options)?;
    let settings = ImportSettings {
        seed: execution.seed,
        clock: options.clock,
        file_name: execution.file_name(),
    };
    let plan = import_words(words, Permitted::of(options), &settings)?;
    execute(&execution, &plan, options).map(|(exit, _)| exit)
}

/// `durio run JOB.fio`.
pub(crate) fn run_file(path: &Path, arguments: &RunCommand) -> Result<Exit, Failure> {
    check_alone(&arguments.job.target, &arguments.expanding)?;
    run_words(&[word(path)?], &arguments.job.common)
}

/// `durio plan JOB.fio`.
pub(crate) fn plan_file(path: &Path, arguments: &PlanArguments) -> Result<Plan, Failure> {
    check_alone(&arguments.target, &arguments.expanding)?;
    let settings = ImportSettings {
        seed: 0,
        clock: durio_plan::ClockChoice::Auto,
        file_name: ".durio-plan".to_owned(),
    };
    let permitted =
        Permitted { destroy: &arguments.destroy, force_signature: arguments.force_signature };
    import_words(&[word(path)?], permitted, &settings)
}

/// A job file says itself where and how long.
fn check_alone(targets: &[PathBuf], expanding: &Expanding) -> Result<(), Failure> {
    let scaled = expanding.scale_time != 1000 || expanding.scale_size != 1000;
    if targets.is_empty() && !scaled && expanding.confirm_steps.is_none() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::WrongUse,
        "--target, --scale-time, --scale-size and --confirm-steps are for specs",
    )
    .hint("a job file of fio says itself where and how long: see filename and runtime in it"))
}

fn word(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(Exit::WrongUse, format!("the name '{}' is no text", path.display()))
    })
}

/// What may be overwritten.
#[derive(Clone, Copy)]
pub(crate) struct Permitted<'a> {
    pub(crate) destroy: &'a [PathBuf],
    pub(crate) force_signature: bool,
}

impl<'a> Permitted<'a> {
    fn of(options: &'a Measuring) -> Self {
        Self { destroy: &options.destroy, force_signature: options.force_signature }
    }
}

/// True for a file that is named as fio's job files are.
pub(crate) fn is_job_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "fio")
}

/// The plan of the jobs that `words` describe, the names of job files among them; notes go to
/// stderr.
pub(crate) fn import_words(
    words: &[String],
    permitted: Permitted<'_>,
    settings: &ImportSettings,
) -> Result<Plan, Failure> {
    let environment = |name: &str| std::env::var(name).ok();
    let mut surroundings =
        Surroundings { read: &mut read_source, environment: &environment, machine: machine() };
    let file = parse_command_line(words, &mut surroundings).map_err(wrong_use)?;
    let jobs = resolve(&file).map_err(wrong_use)?;
    let paths = named_paths(&jobs);
    let locations = locate_with(&paths, permitted.destroy, permitted.force_signature)?;
    let facts =
        |path: &Path| locations.iter().find(|it| it.path.as_path() == path).map(place_facts);
    let ImportedPlan { plan, notes } =
        import(&jobs, &facts, settings).map_err(|refusals| refused(&refusals))?;
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
