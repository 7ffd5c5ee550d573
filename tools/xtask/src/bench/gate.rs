//! `bench compare`: how often `durio compare --fail-over` is wrong, on recorded runs.
//!
//! Takes runs of a few workloads on the real disk, recorded here or given as folders. Prints how
//! often sides drawn from the same runs are called a regression, and how often sides of which one
//! is slowed by 10 % are. durio-analyse's tests have models of storage.
//!
//! A slowed run is a recorded one in which every measured time is longer, also in its histograms. CPU
//! time and counters, which the gate ignores, stay.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use durio_base::Nanos;
use durio_judge::compare::{
    CompareSettings, ComparedRun, FigureName, Gate, RunReader, Side, compare,
};
use durio_record::{Event, Exact, Latency, OperationRecord, RunFolder, file_names};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::figures::{self, BenchGoal};
use super::machine;
use super::session::{self, BenchSession, Interrupt, Priority};

/// Options of `bench compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct GateArguments {
    /// Runs to record of each workload
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(10..))]
    runs: u32,

    /// Seconds per run
    #[arg(long, default_value_t = 2)]
    seconds: u32,

    /// Comparisons to draw for each number of repeats
    #[arg(long, default_value_t = 500)]
    draws: u32,

    /// Draw from the runs of the same thing in this directory, instead of recording; repeatable
    #[arg(long, value_name = "DIR")]
    from: Vec<PathBuf>,
}

/// Repeats per side.
const REPEATS: [usize; 5] = [1, 2, 3, 5, 8];

/// Every time in the record of a slowed run is longer by this factor.
const SLOWED: f64 = 1.10;

/// The permitted regression.
const FAIL_OVER: f64 = 0.05;

/// The goals, in per cent.
const FALSE_ALARMS_MAX: f64 = 5.0;
const FOUND_MIN: f64 = 80.0;
const FOUND_WITH: usize = 5;

/// Beyond this scatter of single runs, no test of 5 against 5 finds 10 % in 80 % of cases: Welch's
/// power with 8 degrees of freedom at 2.5 %, one-sided, is 80 % at 3.2 standard errors, and
/// ln 1.1 / 3.2 / √(2/5) = 0.047.
const SCATTER_MAX: f64 = 0.047;

/// The outcome for one number of repeats.
struct RepeatsRow {
    repeats: usize,
    equal: Outcomes,
    slowed: Outcomes,
}

/// Runs `bench compare`.
pub(super) fn run(arguments: &GateArguments, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let pools = match arguments.from.is_empty() {
        true => recorded(arguments, interrupt)?,
        false => arguments.from.iter().map(|folder| read_pool(folder)).collect::<Result<_>>()?,
    };
    let mut goals = Vec::new();
    for pool in &pools {
        let scatter = scatter(pool);
        let rows = rows(pool, arguments.draws, interrupt)?;
        print(pool, scatter, &rows);
        goals.extend(goals_of(pool, scatter[0], &rows, arguments.draws));
    }
    let is_quiet = |goal: &BenchGoal| goal.goal.starts_with('≥');
    if !goals.iter().any(is_quiet) {
        println!("\nNo workload repeated within {:.1} %: power is not shown.", SCATTER_MAX * 100.0);
    }
    figures::print_goals(&goals);
    Ok(goals)
}

fn recorded(arguments: &GateArguments, interrupt: &Interrupt) -> Result<Vec<Pool>> {
    let session = BenchSession::begin(interrupt)?;
    machine::print("How often compare --fail-over is wrong, on recorded runs", &session);
    println!(
        "- runs: {} of each workload, {} s each, in turns; O_DIRECT on one file",
        arguments.runs, arguments.seconds
    );
    record_pools(&session, arguments.runs, arguments.seconds)
}

fn rows(pool: &Pool, draws: u32, interrupt: &Interrupt) -> Result<Vec<RepeatsRow>> {
    let mut rows = Vec::new();
    for repeats in REPEATS.into_iter().filter(|count| 2 * count <= pool.runs.len()) {
        interrupt.check()?;
        eprintln!("{}: {repeats} repeats", pool.name);
        let equal = outcomes(pool, &pool.runs, repeats, draws);
        let slowed = outcomes(pool, &pool.slowed, repeats, draws);
        rows.push(RepeatsRow { repeats, equal, slowed });
    }
    ensure!(!rows.is_empty(), "{}: fewer than two runs", pool.name);
    Ok(rows)
}

fn print(pool: &Pool, [rate, p99]: [f64; 2], rows: &[RepeatsRow]) {
    println!(
        "\n{}: {} runs, rate scatters by {:.1} %, p99 by {:.1} %\n",
        pool.name,
        pool.runs.len(),
        rate * 100.0,
        p99 * 100.0
    );
    let cell = |share: f64| format!("{share:.1} %");
    let row = |row: &RepeatsRow| {
        [
            row.repeats.to_string(),
            cell(row.equal.regression()),
            cell(row.equal.undecided()),
            cell(row.equal.excluded()),
            cell(row.slowed.regression()),
            cell(row.slowed.undecided()),
            cell(row.slowed.excluded()),
        ]
    };
    let header = [
        "repeats per side",
        "equal: exit 1",
        "exit 3",
        "exit 0",
        "10 % slower: exit 1",
        "exit 3",
        "exit 0",
    ];
    figures::print_table(&header, rows.iter().map(row));
}

fn goals_of(pool: &Pool, scatter: f64, rows: &[RepeatsRow], draws: u32) -> Vec<BenchGoal> {
    let limit = false_alarms_max(draws);
    let alarms = rows.iter().map(|row| {
        let what =
            format!("{}: equal sides called a regression, {} repeats", pool.name, row.repeats);
        let measured = row.equal.regression();
        BenchGoal {
            what,
            goal: format!("≤ {FALSE_ALARMS_MAX} %, by chance of the draws {limit:.1} %"),
            measured: format!("{measured:.1} %"),
            holds: measured <= limit,
        }
    });
    let is_quiet = scatter <= SCATTER_MAX;
    let power = rows.iter().filter(|row| row.repeats == FOUND_WITH && is_quiet).map(|row| {
        let found = row.slowed.regression();
        BenchGoal {
            what: format!("{}: 10 % slower found with {FOUND_WITH} repeats", pool.name),
            goal: format!("≥ {FOUND_MIN} %"),
            measured: format!("{found:.1} %"),
            holds: found >= FOUND_MIN,
        }
    });
    alarms.chain(power).collect()
}

/// The most false alarms of this many draws if 5 % are wrong: 3.1 standard deviations above, one in
/// a thousand.
fn false_alarms_max(draws: u32) -> f64 {
    let share = FALSE_ALARMS_MAX / 100.0;
    FALSE_ALARMS_MAX + 310.0 * (share * (1.0 - share) / f64::from(draws)).sqrt()
}

/// The same draws each time.
const SEED: u64 = 20_261_122;

/// How gates ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Outcomes {
    regressions: u32,
    undecided: u32,
    excluded: u32,
}

impl Outcomes {
    fn take(&mut self, gate: &Gate) {
        match (gate.regressions.is_empty(), gate.undecided.is_empty()) {
            (false, _) => self.regressions += 1,
            (true, false) => self.undecided += 1,
            (true, true) => self.excluded += 1,
        }
    }

    fn percent(self, of: u32) -> f64 {
        100.0 * f64::from(of) / f64::from(self.regressions + self.undecided + self.excluded)
    }

    fn regression(self) -> f64 {
        self.percent(self.regressions)
    }

    fn undecided(self) -> f64 {
        self.percent(self.undecided)
    }

    fn excluded(self) -> f64 {
        self.percent(self.excluded)
    }
}

/// Draws two sides from different runs `draws` times: the baseline as recorded, the other from
/// `others`.
fn outcomes(pool: &Pool, others: &[ComparedRun], repeats: usize, draws: u32) -> Outcomes {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut outcomes = Outcomes::default();
    let settings = CompareSettings { fail_over: Some(FAIL_OVER), ..CompareSettings::default() };
    for _ in 0..draws {
        let drawn = some_of(pool.runs.len(), 2 * repeats, &mut random);
        let (a, b) = drawn.split_at(repeats);
        let sides = [side("A", &pool.runs, a), side("B", others, b)];
        if let Some(gate) = compare(&sides, &settings).gate {
            outcomes.take(&gate);
        }
    }
    outcomes
}

fn side(source: &str, runs: &[ComparedRun], places: &[usize]) -> Side {
    let runs = places.iter().filter_map(|&place| runs.get(place).cloned()).collect();
    Side { source: source.to_owned(), runs }
}

/// Different places below `count`, in random order: the first steps of Fisher and Yates.
fn some_of(count: usize, wanted: usize, random: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    for at in 0..wanted.min(count) {
        let rest = (count - at) as u64;
        // The remainder's bias is far below what some hundred draws can show.
        let offset = usize::try_from(random.next_u64() % rest).unwrap_or_default();
        places.swap(at, at + offset);
    }
    places.truncate(wanted);
    places
}

/// How far single runs scatter, as shares: rate and p99.
fn scatter(pool: &Pool) -> [f64; 2] {
    let places: Vec<usize> = (0..pool.runs.len()).collect();
    let (odd, even): (Vec<_>, Vec<_>) = places.iter().partition(|place| *place % 2 == 1);
    let sides = [side("A", &pool.runs, &even), side("B", &pool.runs, &odd)];
    // By force: how steady each run was does not matter here.
    let found = compare(&sides, &CompareSettings { forced: true, ..CompareSettings::default() });
    let step = found.pairs.first().and_then(|pair| pair.steps.first());
    [FigureName::Rate, FigureName::P99].map(|name| {
        let figure = step.and_then(|step| step.figure(name));
        figure.and_then(|scatter| scatter.repeats_scatter).unwrap_or(f64::NAN)
    })
}

const FILE_MEBIBYTES: usize = 512;

/// Name, options of `durio run`, and whether it writes.
const WORKLOADS: [(&str, &str, bool); 3] = [
    ("randread 4 KiB, sync", "--rw randread --bs 4k --engine sync", false),
    ("write 4 KiB, fdatasync each", "--rw write --bs 4k --engine sync --sync fdatasync", true),
    (
        "randread 4 KiB, io_uring, depth 32",
        "--rw randread --bs 4k --engine uring --depth 32",
        false,
    ),
];

/// Runs of the same thing.
struct Pool {
    name: String,
    runs: Vec<ComparedRun>,
    /// The same, slower.
    slowed: Vec<ComparedRun>,
}

/// Records every workload `runs` times, in turns.
fn record_pools(session: &BenchSession, runs: u32, seconds: u32) -> Result<Vec<Pool>> {
    let file = session::lay_out(session.scratch(), FILE_MEBIBYTES, session.interrupt())?;
    let folders: Vec<_> = (0..WORKLOADS.len())
        .map(|index| session::subfolder(session.scratch(), &format!("runs-{index}")))
        .collect::<Result<_>>()?;
    for round in 1..=runs {
        eprintln!("round {round} of {runs}");
        for ((_, options, writes), out) in WORKLOADS.iter().zip(&folders) {
            let durio = crate::bench::durio::Durio { out, ..session.durio() };
            let mut words = durio.run(&file, &format!("--duration {seconds}s {options}"));
            if *writes {
                words.extend(["--destroy".into(), file.clone().into()]);
            }
            session.run(&words, Priority::Realtime)?;
        }
    }
    let named = WORKLOADS.iter().map(|(name, ..)| (*name).to_owned());
    named.zip(&folders).map(|(name, folder)| Ok(Pool { name, ..read_pool(folder)? })).collect()
}

/// The run folders of a directory.
fn read_pool(directory: &Path) -> Result<Pool> {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut pool = Pool { name, runs: Vec::new(), slowed: Vec::new() };
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut folders: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    for folder in folders.iter().filter(|folder| folder.join(file_names::MANIFEST).is_file()) {
        pool.runs.push(read_slowed(folder, 1.0)?);
        pool.slowed.push(read_slowed(folder, SLOWED)?);
    }
    Ok(pool)
}

/// One run, with every time in it longer by `factor`.
fn read_slowed(folder: &Path, factor: f64) -> Result<ComparedRun> {
    let opened = RunFolder::open(folder).with_context(|| folder.display().to_string())?;
    let mut reader =
        RunReader::new(opened.manifest.clone(), opened.plan.clone(), opened.environment.clone());
    for event in opened.events().with_context(|| folder.display().to_string())? {
        let mut event: Event = event.with_context(|| folder.display().to_string())?.event;
        if factor > 1.0 {
            stretch(&mut event, factor);
        }
        reader.observe(&event);
    }
    Ok(reader.finish(folder.display().to_string()))
}

/// Makes the times of an event longer by `factor`.
fn stretch(event: &mut Event, factor: f64) {
    let longer = |nanos: &mut Nanos| *nanos = Nanos::new(longer(nanos.get(), factor));
    match event {
        Event::Interval(interval) => {
            longer(&mut interval.from);
            longer(&mut interval.to);
            stretch_all(&mut interval.operations, factor);
        }
        Event::JobEnded(job) => {
            longer(&mut job.measured);
            stretch_all(&mut job.operations, factor);
        }
        Event::StepEnded(step) => longer(&mut step.measured),
        _ => {}
    }
}

fn stretch_all(operations: &mut [OperationRecord], factor: f64) {
    for it in operations {
        it.service = latency(&it.service, factor);
        for other in [&mut it.submit, &mut it.completion, &mut it.response].into_iter().flatten() {
            *other = latency(other, factor);
        }
    }
}

fn latency(latency: &Latency, factor: f64) -> Latency {
    let exact = latency.exact;
    let stretched = Exact {
        count: exact.count,
        sum_ns: longer(exact.sum_ns, factor),
        min_ns: longer(exact.min_ns, factor),
        max_ns: longer(exact.max_ns, factor),
    };
    let buckets = latency.histogram().into_iter().flat_map(|histogram| histogram.buckets());
    // The record does not have a latency's place in its bucket.
    let counts =
        buckets.map(|(lowest, highest, count)| (longer(lowest.midpoint(highest), factor), count));
    Latency::about(stretched, counts)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a time that was measured, far below 2^53 ns"
)]
fn longer(nanos: u64, factor: f64) -> u64 {
    (nanos as f64 * factor).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_draws_leave_less_to_chance() {
        assert!((false_alarms_max(500) - 8.02).abs() < 0.01);
        assert!((false_alarms_max(1_000_000) - 5.07).abs() < 0.01);
    }

    #[test]
    fn no_run_is_drawn_twice() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for _ in 0..100 {
            let mut drawn = some_of(10, 6, &mut random);
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), 6);
            assert!(drawn.iter().all(|place| *place < 10));
        }
    }

    #[test]
    fn every_latency_and_their_sum_are_longer_and_none_is_lost() {
        let mut full = Latency::default();
        (1..=1000_u64).for_each(|time| full.record(time * 1000));
        let found = latency(&full, 1.1);
        assert_eq!(found.exact.count, 1000);
        assert_eq!((found.exact.min_ns, found.exact.max_ns), (1100, 1_100_000));
        let median = found.histogram().expect("latencies").value_at_quantile(0.5);
        assert!((549_000..=551_500).contains(&median), "{median}");
    }
}
