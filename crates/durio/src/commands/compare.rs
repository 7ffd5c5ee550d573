//! `durio compare`: runs against runs, from their folders alone.

use std::path::PathBuf;

use durio_bench::{interleave, read_compared_run, read_comparison};
use durio_compare::published::{self, PublishedTable};
use durio_compare::{Comparison, Pair, Settings};
use durio_report::Format;

use crate::args::Compare;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

pub(crate) fn run(arguments: &Compare) -> Result<Exit, Failure> {
    match &arguments.against {
        Some(name) => against(arguments, name),
        None => sides_against_sides(arguments),
    }
}

fn sides_against_sides(arguments: &Compare) -> Result<Exit, Failure> {
    match arguments.interleave {
        true => interleaved(arguments),
        false => compared(arguments, &arguments.sides),
    }
}

fn interleaved(arguments: &Compare) -> Result<Exit, Failure> {
    let [a, b] = arguments.sides.as_slice() else {
        return Err(Failure::new(Exit::WrongUse, "two specs take turns, neither more nor fewer")
            .hint("durio compare --interleave A.toml B.toml -- --target DIR"));
    };
    let (stop, terminal) = (stop_on_signals()?, Terminal::new(false));
    let done = interleave([a, b], arguments.pairs, &arguments.options, &stop, &terminal)?;
    match Exit::from(done.ending) {
        Exit::Fine => compared(arguments, &done.sides),
        exit => Ok(exit),
    }
}

fn compared(arguments: &Compare, sides: &[PathBuf]) -> Result<Exit, Failure> {
    if sides.len() < 2 {
        return Err(Failure::new(Exit::WrongUse, "one side cannot be compared with anything")
            .hint("name two run folders, or one and --against published:NAME"));
    }
    let read = read_comparison(sides, &settings(arguments), &Terminal::new(true))?;
    let options = output::terminal_options();
    let mut bytes = Vec::new();
    durio_report::write_comparison(arguments.format, &read.findings, &options, &mut bytes)
        .map_err(Failure::unmade)?;
    output::answer(&bytes)?;
    Ok(conclusion(&read.findings, read.is_damaged))
}

fn settings(arguments: &Compare) -> Settings {
    Settings {
        threshold: arguments.threshold,
        seed: arguments.seed,
        forced: arguments.force,
        fail_over: arguments.fail_over,
    }
}

/// 1 for a regression; else 3 if a question that was asked has no answer.
fn conclusion(comparison: &Comparison, is_damaged: bool) -> Exit {
    let mut exit = Exit::of_read(is_damaged);
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
    let read = read_compared_run(side, &Terminal::new(true))?;
    let mut shapes = published::against(read.findings.findings(), &tables);
    shapes.retain(|it| it.shape.is_any_compared());
    if shapes.is_empty() {
        let message = "the run has no ladder of the same pattern with two published levels";
        return Err(Failure::new(Exit::CannotMeasure, message)
            .hint("a ladder is one workload at several numbers of jobs or depths"));
    }
    let mut bytes = Vec::new();
    let options = output::terminal_options();
    durio_report::write_published(arguments.format, &shapes, &options, &mut bytes)
        .map_err(Failure::unmade)?;
    output::answer(&bytes)?;
    Ok(Exit::of_read(read.is_damaged))
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
