//! `durio compare`: runs against runs, from their folders alone.

use std::fs;
use std::path::{Path, PathBuf};

use durio_compare::published::{self, PublishedTable};
use durio_compare::{Comparison, Pair, Run, RunReader, Settings, Side, compare};
use durio_record::{RunFolder, file_names};
use durio_report::Format;

use super::interleave::{Interleaved, interleaved};
use crate::args::Compare;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

/// A directory with more run folders than this is surely not meant as one side.
const RUNS_MAX: usize = 1000;

pub(crate) fn run(arguments: &Compare) -> Result<Exit, Failure> {
    match &arguments.against {
        Some(name) => against(arguments, name),
        None => sides_against_sides(arguments),
    }
}

fn sides_against_sides(arguments: &Compare) -> Result<Exit, Failure> {
    if arguments.interleave {
        let folders = match interleaved(&arguments.sides, arguments.pairs, &arguments.options)? {
            Interleaved::Done(folders) => folders,
            Interleaved::Ended(exit) => return Ok(exit),
        };
        return compared(arguments, &folders);
    }
    compared(arguments, &arguments.sides)
}

fn compared(arguments: &Compare, sides: &[PathBuf]) -> Result<Exit, Failure> {
    if sides.len() < 2 {
        return Err(Failure::new(Exit::WrongUse, "one side cannot be compared with anything")
            .hint("name two run folders, or one and --against published:NAME"));
    }
    let (comparison, is_damaged) = comparison(sides, &settings(arguments))?;
    let options = output::terminal_options();
    let mut bytes = Vec::new();
    durio_report::write_comparison(arguments.format, &comparison, &options, &mut bytes)
        .map_err(cannot_write)?;
    output::answer(&bytes)?;
    Ok(conclusion(&comparison, is_damaged))
}

/// The comparison, and true if a record cannot be read to its end.
pub(super) fn comparison(
    sides: &[PathBuf],
    settings: &Settings,
) -> Result<(Comparison, bool), Failure> {
    let folders = sides.iter().map(|it| folders(it)).collect::<Result<Vec<_>, _>>()?;
    let read = read_all(&folders)?;
    let is_damaged = read.iter().flatten().any(|(_, damaged)| *damaged);
    let sides: Vec<Side> = sides.iter().zip(read).map(side).collect();
    Ok((compare(&sides, settings), is_damaged))
}

fn settings(arguments: &Compare) -> Settings {
    Settings {
        threshold: arguments.threshold,
        seed: arguments.seed,
        forced: arguments.force,
        fail_over: arguments.fail_over,
    }
}

fn side((source, runs): (&PathBuf, Vec<(Run, bool)>)) -> Side {
    let runs = runs.into_iter().map(|(run, _)| run).collect();
    Side { source: source.display().to_string(), runs }
}

fn cannot_write(error: std::io::Error) -> Failure {
    Failure {
        exit: Exit::Fault,
        error: anyhow::Error::new(error).context("cannot make the report"),
        hints: Vec::new(),
    }
}

/// The run folders of one side: itself, those in it, or those between commas.
fn folders(side: &Path) -> Result<Vec<PathBuf>, Failure> {
    let text = side.to_string_lossy();
    let folders = match !side.exists() && text.contains(',') {
        true => text.split(',').filter(|it| !it.is_empty()).map(PathBuf::from).collect(),
        false if side.is_dir() && !is_run(side) => folders_in(side)?,
        false => vec![side.to_owned()],
    };
    let mut known: Vec<PathBuf> = Vec::new();
    for folder in &folders {
        let path = fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
        if known.contains(&path) {
            let message = format!("'{}' is named twice in the side '{text}'", folder.display());
            return Err(Failure::new(Exit::WrongUse, message)
                .hint("the same run again is no repeat, and would feign certainty"));
        }
        known.push(path);
    }
    Ok(folders)
}

fn is_run(folder: &Path) -> bool {
    folder.join(file_names::MANIFEST).is_file()
}

fn folders_in(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = |reason: String| {
        let message = format!("cannot compare '{}': {reason}", directory.display());
        Failure::new(Exit::CannotMeasure, message)
            .hint("a side is a run folder, a directory of run folders, or folders between commas")
    };
    let entries = fs::read_dir(directory).map_err(|error| cannot(error.to_string()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut runs: Vec<PathBuf> = paths.filter(|path| is_run(path)).take(RUNS_MAX + 1).collect();
    runs.sort();
    match runs.len() {
        0 => {
            let manifest = file_names::MANIFEST;
            Err(cannot(format!("neither it nor a directory in it has a file '{manifest}'")))
        }
        count if count > RUNS_MAX => Err(cannot(format!("it has more than {RUNS_MAX} runs"))),
        _ => Ok(runs),
    }
}

/// Reads every side in a thread of its own, for reading takes most of the time.
fn read_all(sides: &[Vec<PathBuf>]) -> Result<Vec<Vec<(Run, bool)>>, Failure> {
    std::thread::scope(|scope| {
        let read_side = |side: &'_ [PathBuf]| side.iter().map(|it| read(it)).collect();
        let start = |side| scope.spawn(move || -> Result<Vec<_>, Failure> { read_side(side) });
        let running: Vec<_> = sides.iter().map(|side| start(side)).collect();
        let join = |side: std::thread::ScopedJoinHandle<'_, Result<_, Failure>>| {
            side.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().map(join).collect()
    })
}

/// The run, and true if its record cannot be read to the end.
fn read(path: &Path) -> Result<(Run, bool), Failure> {
    let folder = RunFolder::open(path)?;
    let (manifest, plan) = (folder.manifest.clone(), folder.plan.clone());
    let mut reader = RunReader::new(manifest, plan, folder.environment.clone());
    let mut is_damaged = false;
    for event in folder.events()? {
        match event {
            Ok(timed) => reader.observe(&timed.event),
            Err(error) => {
                let failure = Failure::from(error);
                let damage = format!("the record is damaged: {:#}", failure.error);
                output::remark(&format!("durio: {damage}; what comes after is not compared"));
                reader.damaged(damage);
                is_damaged = true;
                break;
            }
        }
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Ok((reader.finish(absolute.display().to_string()), is_damaged))
}

/// 1 for a regression; else 3 if a question that was asked has no answer.
fn conclusion(comparison: &Comparison, is_damaged: bool) -> Exit {
    let mut exit = if is_damaged { Exit::CannotMeasure } else { Exit::Fine };
    for pair in comparison.pairs.iter().filter(|pair| !pair.is_any_compared()) {
        let Pair { baseline, other, .. } = pair;
        output::remark(&format!("durio: nothing of {other} could be compared with {baseline}"));
        exit = Exit::CannotMeasure;
    }
    let Some(gate) = &comparison.gate else { return exit };
    for line in &gate.undecided {
        output::remark(&format!("durio: --fail-over is undecided: {line}"));
        exit = Exit::CannotMeasure;
    }
    if let Some(advice) = durio_report::gate_advice(comparison) {
        output::remark(&format!("durio: {advice}"));
    }
    for line in &gate.regressions {
        output::remark(&format!("durio: regression: {line}"));
        exit = Exit::Negative;
    }
    exit
}

fn against(arguments: &Compare, name: &str) -> Result<Exit, Failure> {
    let [side] = arguments.sides.as_slice() else {
        return Err(Failure::new(Exit::WrongUse, "--against takes one run folder"));
    };
    if arguments.format == Format::Html {
        return Err(Failure::new(Exit::WrongUse, "--against has no page for a browser")
            .hint("use --format text, json or csv"));
    }
    let tables = tables(name)?;
    let (run, is_damaged) = read(side)?;
    let mut shapes = published::against(run.findings(), &tables);
    shapes.retain(|it| it.shape.is_any_compared());
    if shapes.is_empty() {
        let message = "the run has no ladder of the same pattern with two published levels";
        return Err(Failure::new(Exit::CannotMeasure, message)
            .hint("a ladder is one workload at several numbers of jobs or depths"));
    }
    let mut bytes = Vec::new();
    let options = output::terminal_options();
    durio_report::write_published(arguments.format, &shapes, &options, &mut bytes)
        .map_err(cannot_write)?;
    output::answer(&bytes)?;
    Ok(if is_damaged { Exit::CannotMeasure } else { Exit::Fine })
}

fn tables(name: &str) -> Result<Vec<PublishedTable>, Failure> {
    let all = published::tables()
        .map_err(|error| Failure::new(Exit::Fault, format!("the published results: {error}")))?;
    let Some(words) = name.strip_prefix("published:") else {
        return Err(Failure::new(Exit::WrongUse, format!("'{name}' is not published:NAME")));
    };
    let found = published::named(&all, words);
    if !words.trim().is_empty() && !found.is_empty() {
        return Ok(found);
    }
    let mut sources: Vec<&str> = all.iter().map(|it| it.source.as_str()).collect();
    sources.dedup();
    Err(Failure::new(Exit::WrongUse, format!("no published table has the words '{words}'"))
        .hint(format!("there are tables of {}", sources.join(", "))))
}
