//! `durio compare`: compares runs from their folders alone, or measures two sides by turns first.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use durio_base::counted;
use durio_bench::{TurnCommand, interleave, is_place, read_compared_run, read_comparison};
use durio_command::{CommandError, CommandErrorKind};
use durio_judge::compare::published::{self, PublishedTable};
use durio_judge::compare::{CompareSettings, Comparison};
use durio_report::{Format, ShownShapes};

use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;
use crate::{output, values};

/// Compare two places, or runs: how many times faster one is, and whether chance could explain it
///
/// Two directories without runs, or block devices, are measured in alternation (A B B A …), then compared:
///
///   durio compare /mnt/a /mnt/b
///   durio compare /mnt/a /mnt/b --pairs 3 -- --duration 30s
///
/// These runs leave out the predictions of durio check, which are not compared.
///
/// Other sides are runs: a run folder, a directory of run folders, or a comma-separated list of
/// folders; several runs on one side are repeats. The first side is the baseline:
///
///   durio compare before1,before2,before3,before4,before5 after1,after2,after3,after4,after5
///   durio compare before after --fail-over 5%
///   durio compare --interleave a.toml b.toml --pairs 5 --fail-over 5% -- --target /data
///   durio compare ladder --against 'published:xinnor raid10 randread'
///
/// Steps with the same name and place are compared; other differences between the steps, machines and
/// storage are listed. Steps are not comparable if their kinds of operations differ, or if one
/// ended early or fell back to another cache mode. A rate that drifted by more than 10 % is a caution.
///
/// Confidence intervals come from the scatter of the repeats (Welch's, of their logarithms) or, if
/// wider, from blocks within each run. Faster and slower mean by more than the margin (--threshold),
/// with a 95 % interval that excludes zero. "No difference" means that the interval lies within the
/// margin; "undecided", that it extends beyond it. With one run per side there is a ratio but no
/// interval, because the scatter from run to run is unknown.
///
/// With --fail-over, rate and p99 of every step decide the exit code:
///
///   1  regression: worse by more than that, and no chance explains it (one-sided, Holm's procedure
///      over all results: 5 % false alarms in all, however many there are)
///   0  no regression: a loss beyond that is excluded with 95 % confidence, for every result
///   3  undecided: neither is shown, something is missing, not comparable or drifted, or a side has
///      one run
///
/// Measured with --fail-over 5% on recorded runs: equal sides exit with 1 in 0 to 7 % of 200
/// comparisons (up to 4 % of 20,000), with 1, 2, 3, 5 or 8 repeats per side. 10 % slower
/// ends with 1 in 98 % with 5 repeats per side and in 73 % with 3, where rates of single runs scatter
/// by 3 %; where they scatter by 20 % or more, nearly all is undecided.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Compare {
    /// Run folders, directories of run folders, or comma-separated lists of folders; or two
    /// directories or block devices to measure
    #[arg(value_name = "SIDE", required = true)]
    pub(crate) sides: Vec<PathBuf>,

    /// Label of a side, instead of A, B or the name of its run (once for each side, in order)
    #[arg(long = "name", value_name = "NAME", value_parser = durio_bench::checked_label,
          conflicts_with = "against")]
    pub(crate) names: Vec<String>,

    /// Exit with 1 if the rate or p99 of any step is worse by more than this, such as 5%
    ///
    /// Exit with 0 only if a drop larger than that is excluded, and with 3 if undecided; see above. Two directories are
    /// then measured only if --pairs is given: a directory whose runs are missing must not pass.
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    pub(crate) fail_over: Option<f64>,

    /// The margin: effects smaller than this do not matter [default: 5%]
    ///
    /// Where rates scatter by 3.3 % from run to run, as for the steadiest workload recorded for
    /// durio's benchmarks, 9 runs of each side find a change of 5 %; 3 % would take 20.
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    pub(crate) threshold: Option<f64>,

    /// Also compare steps that ended early or fell back; with --fail-over, also judge what drifted
    #[arg(long)]
    pub(crate) force: bool,

    /// Seed of the resampling; the same seed gives the same intervals
    #[arg(long, value_name = "N", default_value_t = CompareSettings::SEED_DEFAULT)]
    pub(crate) seed: u64,

    /// Compare the shape of one run's sweeps with published ones that match these words
    ///
    /// Only ratios within a table are compared, such as how the rate grows with the queue depth.
    #[arg(long, value_name = "published:WORDS",
          conflicts_with_all = ["fail_over", "threshold", "force", "seed"])]
    pub(crate) against: Option<String>,

    /// Take two specs as sides, run them interleaved (A B B A …) and compare the runs
    ///
    /// Interleaved runs see the same neighbours, temperature and drive state. Arguments after
    /// `--` are passed to each `durio run`:
    ///
    ///   durio compare --interleave a.toml b.toml --pairs 5 -- --target /data
    #[arg(long, conflicts_with = "against", verbatim_doc_comment)]
    pub(crate) interleave: bool,

    /// With directories or --interleave: runs of each side [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100),
          conflicts_with = "against")]
    pub(crate) pairs: Option<u32>,

    /// Options of `durio check` for directories [default: --quick], of `durio run` with --interleave
    #[arg(last = true, value_name = "OPTION", conflicts_with = "against")]
    pub(crate) options: Vec<OsString>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

// Five repeats found a loss of 10 % in 89 % of a model's comparisons (docs/design/0005).
const PAIRS_DEFAULT: u32 = 5;

pub(crate) fn run(arguments: &Compare) -> Result<Exit, CommandError> {
    let (sides, names) = (arguments.sides.len(), arguments.names.len());
    if names > 0 && names != sides {
        let text =
            format!("{} for {}", counted(names as u64, "name"), counted(sides as u64, "side"));
        return Err(CommandError::wrong_use(text).hint("give --name once for each side, or never"));
    }
    if let Some(name) = &arguments.against {
        return against(arguments, name);
    }
    if arguments.interleave {
        return match arguments.sides.as_slice() {
            [a, b] => measured(arguments, TurnCommand::Run, [a, b]),
            _ => Err(CommandError::wrong_use("--interleave needs exactly two specs")
                .hint("durio compare --interleave A.toml B.toml -- --target DIR")),
        };
    }
    match arguments.sides.as_slice() {
        [a, b] if are_places(arguments, [a, b]) => measured(arguments, TurnCommand::Check, [a, b]),
        sides if arguments.pairs.is_none() && arguments.options.is_empty() => {
            compared(arguments, sides, None)
        }
        _ => Err(CommandError::wrong_use("--pairs and the options after -- are for measuring")
            .hint("name two directories without runs, or two specs and --interleave")),
    }
}

/// True if the sides are to be measured.
fn are_places(arguments: &Compare, sides: [&Path; 2]) -> bool {
    // In a job, directories whose runs were not copied would be measured, and found equal.
    let is_wanted = arguments.fail_over.is_none() || arguments.pairs.is_some();
    is_wanted && sides.iter().all(|side| is_place(side))
}

/// Shows runs side by side; no comparison sets the exit code.
pub(super) fn side_by_side(
    sides: &[PathBuf],
    output: OutputArguments,
) -> Result<Exit, CommandError> {
    let settings = CompareSettings { forced: true, ..CompareSettings::default() };
    let read = read_comparison(sides, &[], &settings, &Terminal::new(true))?;
    output::report(output, &read.findings)?;
    Ok(Exit::of_read(read.is_damaged))
}

/// Measures two specs or places alternately, and compares the runs.
fn measured(
    arguments: &Compare,
    command: TurnCommand,
    sides: [&Path; 2],
) -> Result<Exit, CommandError> {
    let quick = [OsString::from("--quick")];
    let options = match (command, arguments.options.as_slice()) {
        (TurnCommand::Check, []) => quick.as_slice(),
        (_, given) => given,
    };
    let (stop, terminal) = (stop_on_signals()?, Terminal::new(false));
    let pairs = arguments.pairs.unwrap_or(PAIRS_DEFAULT);
    let done = interleave(command, sides, pairs, options, &stop, &terminal)?;
    match Exit::from(done.ending) {
        // Sides of unequal length or with a failed run would be compared as if they were whole.
        Exit::Fine => {
            output::remark(&format!("durio: the runs are in {}", done.folder.display()));
            compared(arguments, &done.sides, Some(sides))
        }
        exit => Ok(exit),
    }
}

/// Compares the runs of `sides`; `sources` are the specs or places that were measured alternately.
fn compared(
    arguments: &Compare,
    sides: &[PathBuf],
    sources: Option<[&Path; 2]>,
) -> Result<Exit, CommandError> {
    if sides.len() < 2 {
        return Err(CommandError::wrong_use("one side cannot be compared with anything")
            .hint("name two run folders, or one and --against published:NAME"));
    }
    let settings = CompareSettings {
        threshold: arguments.threshold.unwrap_or(CompareSettings::THRESHOLD_DEFAULT),
        seed: arguments.seed,
        forced: arguments.force,
        fail_over: arguments.fail_over,
    };
    let mut read = read_comparison(sides, &arguments.names, &settings, &Terminal::new(true))?;
    for (facts, source) in read.findings.sides.iter_mut().zip(sources.into_iter().flatten()) {
        facts.source = source.display().to_string();
    }
    output::report(arguments.output, &read.findings)?;
    let exit = conclusion(&read.findings, read.is_damaged);
    if exit != Exit::Fine {
        tell_failure(arguments, &read.findings, exit);
    }
    Ok(exit)
}

/// 1 for a regression; else 3 if a requested answer is missing.
fn conclusion(comparison: &Comparison, is_damaged: bool) -> Exit {
    let gate = comparison.gate.as_ref();
    let is_open = comparison.pairs.iter().any(|pair| !pair.is_any_compared())
        || gate.is_some_and(|gate| !gate.undecided.is_empty());
    // A regression outweighs undecided results.
    if gate.is_some_and(|gate| !gate.regressions.is_empty()) {
        Exit::Negative
    } else if is_open {
        Exit::CANNOT_MEASURE
    } else {
        Exit::of_read(is_damaged)
    }
}

/// A line on stderr for an answer that ends a job: the sentence of the report, unless it is on the
/// screen already.
fn tell_failure(arguments: &Compare, comparison: &Comparison, exit: Exit) {
    let output = arguments.output;
    let is_shown =
        matches!(output.format(), Format::Text | Format::Markdown) && output.report_file.is_none();
    match (is_shown, comparison.gate.is_some()) {
        (true, true) if exit == Exit::Negative => {
            output::remark("durio: --fail-over: there is a regression");
        }
        (true, true) => output::remark("durio: --fail-over: undecided"),
        (true, false) => {}
        (false, _) => {
            output::remark(&format!("durio: {}", comparison.sentence()));
            if let Some(command) = &comparison.answer.command {
                output::remark(&format!("hint: {command}"));
            }
        }
    }
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
    Err(CommandError::wrong_use(format!("no published table matches '{words}'"))
        .hint(format!("there are tables of {}", sources.join(", "))))
}
