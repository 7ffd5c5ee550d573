//! `bench agree`: the same jobs on a real file by fio, by durio, and by fio again.
//!
//! `bench import` is the same with one command line for both: durio imports fio's.
//!
//! Prints percentiles, maximum, mean and rate of durio over fio, next to those of fio over itself,
//! which are the noise. Goals: p50 within a tenth, p99 within fio's scatter, and for the job that
//! mixes cached and uncached reads p99.9 and maximum within 1.3 of fio's: held-back completions
//! would show there.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result};

use super::figures::{
    self, BenchGoal, MeasuredKind, MeasuredTrial, OperationFigures, Ratio, median,
};
use super::machine::{self, Foreign};
use super::session::{self, BenchSession, Interrupt, Priority};
use super::{durio, fio};

/// Where durio's job comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From a separate command line.
    Own,
    /// From fio's command line, imported.
    Imported,
}

/// Options of `bench agree` and `bench import`.
#[derive(Debug, clap::Args)]
pub(crate) struct AgreeArguments {
    /// Rounds of fio, durio, fio; ratios are medians over them
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(7..))]
    pairs: u32,

    /// Seconds per trial
    #[arg(long, default_value_t = 2)]
    seconds: u32,
}

const FILE_MEBIBYTES: usize = 1024;

/// durio's p50 over fio's may differ from 1 by this.
const P50_TOLERANCE: f64 = 0.10;

/// The rate of an imported job over fio's may differ from 1 by this.
const RATE_TOLERANCE: f64 = 0.15;

/// Where cached and uncached reads are mixed, p99.9 and maximum are at most this many times fio's.
const MIXED_MAX: f64 = 1.3;

/// The state of the page cache before a trial, and whether the trial uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageCacheState {
    /// Past it.
    Direct,
    /// All of the file is there.
    Warm,
    /// All but a hundredth is cached. The number of operations is fixed: in a fixed time, the rest
    /// would become cached.
    Mixed { operations: u32 },
}

/// The same job in both languages.
struct ComparedJob {
    title: &'static str,
    fio: &'static str,
    durio: &'static str,
    cache: PageCacheState,
    kinds: &'static [MeasuredKind],
}

const JOBS: [ComparedJob; 9] = [
    ComparedJob {
        title: "randread 4 KiB, sync, depth 1",
        fio: "--ioengine=psync --rw=randread --bs=4k",
        durio: "--engine sync --rw randread --bs 4k",
        cache: PageCacheState::Direct,
        kinds: &[MeasuredKind::Read],
    },
    ComparedJob {
        title: "randread 4 KiB, sync, depth 1, warm",
        fio: "--ioengine=psync --rw=randread --bs=4k",
        durio: "--engine sync --rw randread --bs 4k --buffered",
        cache: PageCacheState::Warm,
        kinds: &[MeasuredKind::Read],
    },
    ComparedJob {
        title: "randread 4 KiB, io_uring, depth 1",
        fio: "--ioengine=io_uring --fixedbufs=1 --registerfiles=1 --iodepth=1 --rw=randread --bs=4k",
        durio: "--engine uring --rw randread --bs 4k",
        cache: PageCacheState::Direct,
        kinds: &[MeasuredKind::Read],
    },
    ComparedJob {
        title: "randread 8 KiB, io_uring, depth 32",
        fio: "--ioengine=io_uring --fixedbufs=1 --registerfiles=1 --iodepth=32 --rw=randread --bs=8k",
        durio: "--engine uring --depth 32 --rw randread --bs 8k",
        cache: PageCacheState::Direct,
        kinds: &[MeasuredKind::Read],
    },
    ComparedJob {
        title: "randread 8 KiB, libaio, depth 32",
        fio: "--ioengine=libaio --iodepth=32 --rw=randread --bs=8k",
        durio: "--engine aio --depth 32 --rw randread --bs 8k",
        cache: PageCacheState::Direct,
        kinds: &[MeasuredKind::Read],
    },
    ComparedJob {
        title: "randread 4 KiB, io_uring, depth 32, a hundredth uncached",
        fio: "--ioengine=io_uring --fixedbufs=1 --registerfiles=1 --iodepth=32 --rw=randread --bs=4k --norandommap=1",
        durio: "--engine uring --depth 32 --rw randread --bs 4k --buffered",
        cache: PageCacheState::Mixed { operations: 200_000 },
        kinds: &[MeasuredKind::Read],
    },
    ComparedJob {
        title: "write 8 KiB, fdatasync each, depth 1",
        fio: "--ioengine=psync --rw=write --bs=8k --fdatasync=1",
        durio: "--engine sync --rw write --bs 8k --sync fdatasync",
        cache: PageCacheState::Direct,
        kinds: &[MeasuredKind::Write, MeasuredKind::Sync],
    },
    ComparedJob {
        title: "70/30 randrw 8 KiB, io_uring, depth 16",
        fio: "--ioengine=io_uring --fixedbufs=1 --registerfiles=1 --iodepth=16 --rw=randrw --rwmixread=70 --bs=8k",
        durio: "--engine uring --depth 16 --rw randrw --mix 70 --bs 8k",
        cache: PageCacheState::Direct,
        kinds: &[MeasuredKind::Read, MeasuredKind::Write],
    },
    ComparedJob {
        title: "randread 4 KiB, sync, 2000/s",
        fio: "--ioengine=psync --rw=randread --bs=4k --rate_iops=2000",
        // fio spaces I/Os evenly by default; durio's arrivals are Poisson's.
        durio: "--engine sync --rw randread --bs 4k --rate 2000 --constant",
        cache: PageCacheState::Direct,
        kinds: &[MeasuredKind::Read],
    },
];

/// The trials of a job, round by round.
#[derive(Default)]
struct JobTrials {
    fio: Vec<MeasuredTrial>,
    durio: Vec<MeasuredTrial>,
    fio_again: Vec<MeasuredTrial>,
}

/// A value of an operation.
type OperationFigure = fn(&OperationFigures) -> Option<f64>;

/// Latencies are shown in µs, rates in thousands per second: the same factor.
const FIGURES: [(&str, OperationFigure); 6] = [
    ("p50 µs", |operation| operation.p50),
    ("p99 µs", |operation| operation.p99),
    ("p99.9 µs", |operation| operation.p99_9),
    ("max µs", |operation| operation.max),
    ("mean µs", |operation| Some(operation.mean)),
    ("k/s", |operation| Some(operation.rate)),
];

/// Runs `bench agree` or `bench import`.
pub(super) fn run(
    arguments: &AgreeArguments,
    way: Way,
    interrupt: &Interrupt,
) -> Result<Vec<BenchGoal>> {
    let session = BenchSession::begin(interrupt)?;
    let file = session::lay_out(session.scratch(), FILE_MEBIBYTES, interrupt)?;
    let title = match way {
        Way::Own => "The same jobs by fio, durio, fio again: latency and rate",
        Way::Imported => "Jobs by fio, imported and run by durio, by fio again: latency and rate",
    };
    machine::print(title, &session);
    println!(
        "- trials: {} rounds, {} s each, interleaved in turning order; a file of {FILE_MEBIBYTES} MiB, O_DIRECT but where the title says warm or uncached",
        arguments.pairs, arguments.seconds
    );
    let mut all: Vec<_> = JOBS.iter().map(|_| JobTrials::default()).collect();
    let mut foreign = Foreign::default();
    for round in 1..=arguments.pairs {
        eprintln!("round {round} of {}", arguments.pairs);
        foreign.during(|| {
            let mut jobs = JOBS.iter().zip(&mut all);
            jobs.try_for_each(|(job, trials)| {
                one_round((job, way), trials, round, &session, &file, arguments.seconds)
            })
        })?;
    }
    let mut goals = Vec::new();
    for (job, trials) in JOBS.iter().zip(&all) {
        for &kind in job.kinds {
            print(job, kind, trials)?;
            goals.extend(goals_of(job, way, kind, trials)?);
        }
    }
    foreign.print();
    figures::print_goals(&goals);
    Ok(goals)
}

/// Each program comes first, second and last in turn: earlier runs leave traces in the storage.
fn one_round(
    (job, way): (&ComparedJob, Way),
    trials: &mut JobTrials,
    round: u32,
    session: &BenchSession,
    file: &Path,
    seconds: u32,
) -> Result<()> {
    let by_fio = || fio::parse(&timed(session, &fio_words(job, file, seconds))?);
    let prepare = || match job.cache {
        PageCacheState::Direct => Ok(()),
        PageCacheState::Warm => session::warm(file),
        PageCacheState::Mixed { .. } => session::cool_a_hundredth(file),
    };
    for turn in round..round + 3 {
        // Before each trial: the previous one has cached the dropped pages again.
        prepare().context("cannot bring the file into the page cache")?;
        match turn % 3 {
            0 => trials.fio.push(by_fio()?),
            1 => {
                let words = match way {
                    Way::Own => durio_words(job, session, file, seconds),
                    Way::Imported => imported_words(job, session, file, seconds),
                };
                trials.durio.push(durio::parse(&timed(session, &words)?)?);
            }
            _ => trials.fio_again.push(by_fio()?),
        }
    }
    Ok(())
}

fn timed(session: &BenchSession, words: &[OsString]) -> Result<String> {
    Ok(session.run(words, Priority::Realtime)?.stdout)
}

fn fio_words(job: &ComparedJob, file: &Path, seconds: u32) -> Vec<OsString> {
    let (direct, limit) = match job.cache {
        PageCacheState::Direct => (1, format!("--time_based --runtime={seconds}")),
        PageCacheState::Warm => (0, format!("--time_based --runtime={seconds}")),
        PageCacheState::Mixed { operations } => (0, format!("--number_ios={operations}")),
    };
    // --invalidate: by default fio drops the file from the page cache, which a warm job must not.
    let options = format!(
        "--direct={direct} --invalidate={direct} --fadvise_hint=0 --size={FILE_MEBIBYTES}M \
         {limit} {} {}",
        fio::TOTAL_LATENCIES,
        job.fio
    );
    fio::command(file, &options)
}

fn durio_words(
    job: &ComparedJob,
    session: &BenchSession,
    file: &Path,
    seconds: u32,
) -> Vec<OsString> {
    let limit = match job.cache {
        PageCacheState::Direct | PageCacheState::Warm => format!("--duration {seconds}s"),
        PageCacheState::Mixed { operations } => format!("--ops {operations}"),
    };
    let mut words = session.durio().run(file, &format!("{limit} {}", job.durio));
    if job.kinds.contains(&MeasuredKind::Write) {
        words.extend(["--destroy".into(), file.into()]);
    }
    words
}

/// durio with fio's words.
fn imported_words(
    job: &ComparedJob,
    session: &BenchSession,
    file: &Path,
    seconds: u32,
) -> Vec<OsString> {
    let destroy = job.kinds.contains(&MeasuredKind::Write).then_some(file);
    session.durio().fio(destroy, fio_words(job, file, seconds).get(1..).unwrap_or_default())
}

fn print(job: &ComparedJob, kind: MeasuredKind, trials: &JobTrials) -> Result<()> {
    let mut rows = Vec::new();
    for (name, figure) in FIGURES {
        let [fio, durio, again] = values(trials, kind, figure)?;
        rows.push([
            name.to_owned(),
            Ratio::of(&durio, &fio).to_string(),
            Ratio::of(&again, &fio).to_string(),
            format!("{:.1}", median(&fio) / 1e3),
            format!("{:.1}", median(&durio) / 1e3),
            format!("{:.1}", median(&again) / 1e3),
        ]);
    }
    let title = format!("{}: {kind}", job.title);
    println!();
    figures::print_table(
        &[&title, "durio / fio", "fio again / fio", "fio", "durio", "fio again"],
        rows,
    );
    Ok(())
}

/// One value of fio, durio and fio again, round by round.
fn values(
    trials: &JobTrials,
    kind: MeasuredKind,
    figure: OperationFigure,
) -> Result<[Vec<f64>; 3]> {
    let of = |measured: &[MeasuredTrial]| {
        let figures = measured.iter().map(|trial| figure(trial.operation(kind)?));
        figures.collect::<Option<Vec<_>>>().with_context(|| format!("no figure of a {kind}"))
    };
    Ok([of(&trials.fio)?, of(&trials.durio)?, of(&trials.fio_again)?])
}

fn goals_of(
    job: &ComparedJob,
    way: Way,
    kind: MeasuredKind,
    trials: &JobTrials,
) -> Result<Vec<BenchGoal>> {
    let ratios = |figure| -> Result<(Ratio, Ratio)> {
        let [fio, durio, again] = values(trials, kind, figure)?;
        Ok((Ratio::of(&durio, &fio), Ratio::of(&again, &fio)))
    };
    let goal = |name: &str, limit: String, (ratio, noise): (Ratio, Ratio), holds: bool| BenchGoal {
        what: format!("{name} durio / fio: {}: {kind}", job.title),
        goal: limit,
        measured: format!("{:.2}; fio again {noise}", ratio.median),
        holds,
    };
    let within = |ratio: Ratio, tolerance: f64| (ratio.median - 1.0).abs() <= tolerance;
    let mut goals = Vec::new();
    if let PageCacheState::Mixed { .. } = job.cache {
        // fio polls for completions when its queue is full: most of its time for a cached read is
        // the wait for that poll, and says nothing about durio's.
        for (name, figure) in &FIGURES[2..4] {
            let both = ratios(*figure)?;
            goals.push(goal(name, format!("≤ {MIXED_MAX}"), both, both.0.median <= MIXED_MAX));
        }
        return Ok(goals);
    }
    let p50 = ratios(|operation| operation.p50)?;
    goals.push(goal("p50", format!("1 ± {P50_TOLERANCE}"), p50, within(p50.0, P50_TOLERANCE)));
    let p99 = ratios(|operation| operation.p99)?;
    let (ratio, noise) = p99;
    // The order of two equal values is chance: the scatter goes both ways.
    let scatter = noise.greatest.max(1.0 / noise.least);
    let holds = (1.0 / scatter..=scatter).contains(&ratio.median);
    goals.push(goal("p99", "within fio's own scatter".to_owned(), p99, holds));
    if way == Way::Imported {
        let rate = ratios(|operation| Some(operation.rate))?;
        let holds = within(rate.0, RATE_TOLERANCE);
        goals.push(goal("rate", format!("1 ± {RATE_TOLERANCE}"), rate, holds));
    }
    Ok(goals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(p50: f64, p99: f64) -> MeasuredTrial {
        let read = OperationFigures {
            count: 9.0,
            rate: 9.0,
            mean: p50,
            p50: Some(p50),
            p99: Some(p99),
            p99_9: Some(p99),
            max: None,
        };
        MeasuredTrial {
            iops: 9.0,
            accesses: 9.0,
            cpu_ns: 1.0,
            operations: vec![(MeasuredKind::Read, read)],
            deviation: None,
            fallbacks: Vec::new(),
        }
    }

    fn trials(p50: f64, p99: f64) -> JobTrials {
        JobTrials {
            fio: vec![trial(100.0, 1000.0)],
            durio: vec![trial(p50, p99)],
            fio_again: vec![trial(90.0, 800.0)],
        }
    }

    #[test]
    fn a_p50_may_differ_by_a_tenth_and_a_p99_by_what_fio_differs_from_itself() {
        let holds = |p50, p99| -> Vec<bool> {
            let goals =
                goals_of(&JOBS[0], Way::Own, MeasuredKind::Read, &trials(p50, p99)).expect("goals");
            goals.iter().map(|goal| goal.holds).collect()
        };
        assert_eq!(holds(91.0, 820.0), [true, true]);
        assert_eq!(holds(109.0, 1240.0), [true, true]);
        assert_eq!(holds(89.0, 1260.0), [false, false]);
        assert_eq!(holds(111.0, 780.0), [false, false]);
    }

    #[test]
    fn a_figure_that_is_missing_is_an_error() {
        assert!(values(&trials(1.0, 1.0), MeasuredKind::Read, |operation| operation.max).is_err());
        assert!(values(&trials(1.0, 1.0), MeasuredKind::Write, |operation| operation.p50).is_err());
    }

    #[test]
    fn only_jobs_that_write_may_destroy() {
        for job in &JOBS {
            let writes = job.durio.contains("--rw write") || job.durio.contains("--rw randrw");
            assert_eq!(job.kinds.contains(&MeasuredKind::Write), writes, "{}", job.title);
        }
    }
}
