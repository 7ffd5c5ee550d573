//! `durio compare`: compares runs from their folders alone.

use std::path::PathBuf;

use durio_bench::{BenchError, BenchErrorKind, interleave, read_compared_run, read_comparison};
use durio_judge::compare::published::{self, PublishedTable};
use durio_judge::compare::{CompareSettings, Comparison, Pair};
use durio_report::ShownShapes;

use crate::args::{Compare, OutputArguments};
use crate::exit_code::Exit;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

pub(crate) fn run(arguments: &Compare) -> Result<Exit, BenchError> {
    match &arguments.against {
        Some(name) => against(arguments, name),
        None if arguments.interleave => interleaved(arguments),
        None => compared(arguments, &arguments.sides),
    }
}

/// Shows runs side by side; no comparison sets the exit code.
pub(super) fn side_by_side(sides: &[PathBuf], output: OutputArguments) -> Result<Exit, BenchError> {
    let settings = CompareSettings { forced: true, ..CompareSettings::default() };
    let read = read_comparison(sides, &settings, &Terminal::new(true))?;
    output::report(output, &read.findings)?;
    Ok(Exit::of_read(read.is_damaged))
}

fn interleaved(arguments: &Compare) -> Result<Exit, BenchError> {
    let [a, b] = arguments.sides.as_slice() else {
        return Err(BenchError::wrong_use("two specs take turns, neither more nor fewer")
            .hint("durio compare --interleave A.toml B.toml -- --target DIR"));
    };
    let (stop, terminal) = (stop_on_signals()?, Terminal::new(false));
    let done = interleave([a, b], arguments.pairs, &arguments.options, &stop, &terminal)?;
    match Exit::from(done.ending) {
        // Sides of unequal length or with a failed run would be compared as if they were whole.
        Exit::Fine => compared(arguments, &done.sides),
        exit => Ok(exit),
    }
}

fn compared(arguments: &Compare, sides: &[PathBuf]) -> Result<Exit, BenchError> {
    if sides.len() < 2 {
        return Err(BenchError::wrong_use("one side cannot be compared with anything")
            .hint("name two run folders, or one and --against published:NAME"));
    }
    let settings = CompareSettings {
        threshold: arguments.threshold,
        seed: arguments.seed,
        forced: arguments.force,
        fail_over: arguments.fail_over,
    };
    let read = read_comparison(sides, &settings, &Terminal::new(true))?;
    output::report(arguments.output, &read.findings)?;
    Ok(conclusion(&read.findings, read.is_damaged))
}

/// 1 for a regression; else 3 if a requested answer is missing.
fn conclusion(comparison: &Comparison, is_damaged: bool) -> Exit {
    let mut exit = Exit::of_read(is_damaged);
    for pair in comparison.pairs.iter().filter(|pair| !pair.is_any_compared()) {
        let Pair { baseline, other, .. } = pair;
        output::remark(&format!("durio: nothing of {other} could be compared with {baseline}"));
        exit = Exit::CANNOT_MEASURE;
    }
    let Some(gate) = &comparison.gate else { return exit };
    for line in &gate.undecided {
        output::remark(&format!("durio: --fail-over is undecided: {line}"));
        exit = Exit::CANNOT_MEASURE;
    }
    output::remarks(durio_report::gate_advice(comparison));
    // Last, because a regression outweighs undecided results.
    for line in &gate.regressions {
        output::remark(&format!("durio: regression: {line}"));
        exit = Exit::Negative;
    }
    exit
}

fn against(arguments: &Compare, name: &str) -> Result<Exit, BenchError> {
    let [side] = arguments.sides.as_slice() else {
        return Err(BenchError::wrong_use("--against takes one run folder"));
    };
    let tables = tables(name)?;
    let read = read_compared_run(side, &Terminal::new(true))?;
    let mut shapes = published::against(read.findings.findings(), &tables);
    shapes.retain(|it| it.shape.is_any_compared());
    if shapes.is_empty() {
        let message = "the run has no ladder of the same pattern with two published levels";
        return Err(BenchError::cannot_measure(message)
            .hint("a ladder is one workload at several numbers of jobs or depths"));
    }
    output::report(arguments.output, &ShownShapes::new(&shapes))?;
    Ok(Exit::of_read(read.is_damaged))
}

fn tables(name: &str) -> Result<Vec<PublishedTable>, BenchError> {
    let all = published::tables().map_err(|error| {
        BenchError::new(BenchErrorKind::Fault, format!("the published results: {error}"))
    })?;
    let Some(words) = name.strip_prefix("published:") else {
        return Err(BenchError::wrong_use(format!("'{name}' is not published:NAME")));
    };
    let found = published::named(&all, words);
    // An empty text would match every table, which the user cannot mean.
    if !words.trim().is_empty() && !found.is_empty() {
        return Ok(found);
    }
    let mut sources: Vec<&str> = all.iter().map(|it| it.source.as_str()).collect();
    sources.dedup();
    Err(BenchError::wrong_use(format!("no published table has the words '{words}'"))
        .hint(format!("there are tables of {}", sources.join(", "))))
}
