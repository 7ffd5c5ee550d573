//! `durio compare`: compares runs from their folders alone.

use std::path::PathBuf;

use clap::Args;
use durio_bench::{interleave, read_compared_run, read_comparison};
use durio_command::{CommandError, CommandErrorKind};
use durio_judge::compare::published::{self, PublishedTable};
use durio_judge::compare::{CompareSettings, Comparison, Pair};
use durio_report::ShownShapes;

use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;
use crate::{output, values};

/// Compare runs: what differs, by how much, and whether chance explains it
///
/// A side is a run folder, a directory of run folders, or a comma-separated list of folders;
/// several runs on one side are repeats. The first side is the baseline:
///
///   durio compare before1,before2,before3,before4,before5 after1,after2,after3,after4,after5
///   durio compare before after --fail-over 5%
///   durio compare --interleave a.toml b.toml --pairs 5 --fail-over 5% -- --target /data
///   durio compare ladder --against 'published:xinnor raid10 randread'
///
/// Steps of the same name and place are compared; other differences between the steps, machines and
/// storage are listed. Steps are not comparable if their kinds of operations differ, or if one
/// ended early, fell back to another cache mode, or drifted by more than 10 % in rate.
///
/// Confidence intervals come from the scatter of the repeats (Welch's, of their logarithms) or, if
/// wider, from blocks within each run. Faster and slower mean by more than --threshold, with a 95 %
/// interval that excludes zero. No difference means that the interval lies within the threshold.
/// Everything else is undecided, such as one run per side, which does not show how much the next
/// run would differ.
///
/// With --fail-over, rate and p99 of every step decide the exit code:
///
///   1  regression: worse by more than that, and no chance explains it (one-sided, Holm's procedure
///      over all figures: 5 % false alarms, however many figures)
///   0  no regression: a loss beyond that is excluded with 95 % confidence, for every figure
///   3  undecided: neither is shown, something is missing or not comparable, or a side has one run
///
/// Measured with --fail-over 5% on recorded runs (docs/benchmarks.md): equal sides end with 1 in 0 to
/// 7 % of 200 comparisons (up to 4 % of 20,000), with 1, 2, 3, 5 or 8 repeats per side. 10 % slower
/// ends with 1 in 98 % with 5 repeats per side and in 73 % with 3, where rates of single runs scatter
/// by 3 %; where they scatter by 20 % or more, nearly all is undecided.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Compare {
    /// Run folders, directories of run folders, or comma-separated lists of folders
    #[arg(value_name = "SIDE", required = true)]
    pub(crate) sides: Vec<PathBuf>,

    /// Exit with 1 if the rate or p99 of any step is worse by more than this, such as 5%
    ///
    /// Exit with 0 only if that is excluded, and with 3 if undecided; see above.
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    pub(crate) fail_over: Option<f64>,

    /// Effects smaller than this do not matter
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = values::percent)]
    pub(crate) threshold: f64,

    /// Also compare steps that ended early, fell back or drifted
    #[arg(long)]
    pub(crate) force: bool,

    /// Seed of the resampling; the same seed gives the same intervals
    #[arg(long, value_name = "N", default_value_t = CompareSettings::SEED_DEFAULT)]
    pub(crate) seed: u64,

    /// Compare the shape of one run's sweeps with published ones that match these words
    ///
    /// Only ratios within a table are compared: how the rate grows with the queue depth.
    #[arg(long, value_name = "published:WORDS",
          conflicts_with_all = ["fail_over", "threshold", "force", "seed"])]
    pub(crate) against: Option<String>,

    /// Take two specs as sides, run them interleaved (A B B A …) and compare the runs
    ///
    /// Interleaved runs see the same neighbours, temperature and drive state. What follows `--`
    /// goes to each `durio run`:
    ///
    ///   durio compare --interleave a.toml b.toml --pairs 5 -- --target /data
    #[arg(long, conflicts_with = "against", verbatim_doc_comment)]
    pub(crate) interleave: bool,

    /// With --interleave: runs of each side
    // Five repeats found a loss of 10 % in 89 % of a model's comparisons (docs/design/0005).
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100),
          requires = "interleave")]
    pub(crate) pairs: u32,

    /// With --interleave: options of `durio run`
    #[arg(last = true, value_name = "OPTION", requires = "interleave")]
    pub(crate) options: Vec<std::ffi::OsString>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

pub(crate) fn run(arguments: &Compare) -> Result<Exit, CommandError> {
    match &arguments.against {
        Some(name) => against(arguments, name),
        None if arguments.interleave => interleaved(arguments),
        None => compared(arguments, &arguments.sides),
    }
}

/// Shows runs side by side; no comparison sets the exit code.
pub(super) fn side_by_side(
    sides: &[PathBuf],
    output: OutputArguments,
) -> Result<Exit, CommandError> {
    let settings = CompareSettings { forced: true, ..CompareSettings::default() };
    let read = read_comparison(sides, &settings, &Terminal::new(true))?;
    output::report(output, &read.findings)?;
    Ok(Exit::of_read(read.is_damaged))
}

fn interleaved(arguments: &Compare) -> Result<Exit, CommandError> {
    let [a, b] = arguments.sides.as_slice() else {
        return Err(CommandError::wrong_use("two specs take turns, neither more nor fewer")
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

fn compared(arguments: &Compare, sides: &[PathBuf]) -> Result<Exit, CommandError> {
    if sides.len() < 2 {
        return Err(CommandError::wrong_use("one side cannot be compared with anything")
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

fn against(arguments: &Compare, name: &str) -> Result<Exit, CommandError> {
    let [side] = arguments.sides.as_slice() else {
        return Err(CommandError::wrong_use("--against takes one run folder"));
    };
    let tables = tables(name)?;
    let read = read_compared_run(side, &Terminal::new(true))?;
    let mut shapes = published::against(read.findings.findings(), &tables);
    shapes.retain(|against| against.shape.is_any_compared());
    if shapes.is_empty() {
        let message = "the run has no ladder of the same pattern with two published levels";
        return Err(CommandError::cannot_measure(message)
            .hint("a ladder is one workload at several numbers of jobs or depths"));
    }
    output::report(arguments.output, &ShownShapes::new(&shapes))?;
    Ok(Exit::of_read(read.is_damaged))
}

fn tables(name: &str) -> Result<Vec<PublishedTable>, CommandError> {
    let all = published::tables().map_err(|error| {
        CommandError::new(CommandErrorKind::Fault, format!("the published results: {error}"))
    })?;
    let Some(words) = name.strip_prefix("published:") else {
        return Err(CommandError::wrong_use(format!("'{name}' is not published:NAME")));
    };
    let found = published::named(&all, words);
    // An empty text would match every table, which the user cannot mean.
    if !words.trim().is_empty() && !found.is_empty() {
        return Ok(found);
    }
    let mut sources: Vec<&str> = all.iter().map(|table| table.source.as_str()).collect();
    sources.dedup();
    Err(CommandError::wrong_use(format!("no published table has the words '{words}'"))
        .hint(format!("there are tables of {}", sources.join(", "))))
}
