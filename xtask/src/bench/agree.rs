//! `bench agree`: the same jobs on a real file by fio, by durio, and by fio again.
//!
//! `bench import` is the same with one command line for both: durio imports fio's.
//!
//! In: pairs, seconds per trial. Out: p50, p99, mean and rate of durio over fio, and of fio over
//! itself beside it, which is the noise; the goal on p50. Not here: higher percentiles, which are
//! not testable on a shared machine.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result};

use super::figures::{Ratio, median};
use super::goals::{self, Goal};
use super::load::Foreign;
use super::measured::{Kind, Measured, Operation};
use super::session::{Interrupt, Priority, Session};
use super::{durio, fio, machine, scratch, table};

/// Where durio's job comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From its own command line.
    Own,
    /// From fio's command line, imported.
    Imported,
}

/// Options of `bench agree` and `bench import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds of fio, durio, fio; ratios are medians over them
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(7..))]
    pairs: u32,

    /// Seconds per trial
    #[arg(long, default_value_t = 2)]
    seconds: u32,

    /// Exit with 1 if a goal does not hold
    #[arg(long)]
    pub(super) check: bool,
}

const FILE_MEBIBYTES: usize = 256;

/// durio's p50 over fio's, and the rate of an imported job, may differ from 1 by this.
const TOLERANCE: f64 = 0.15;

/// The same job in both languages.
struct Job {
    title: &'static str,
    fio: &'static str,
    durio: &'static str,
    kinds: &'static [Kind],
}

const JOBS: [Job; 5] = [
    Job {
        title: "randread 4 KiB, sync, depth 1",
        fio: "--ioengine=psync --rw=randread --bs=4k",
        durio: "--engine sync --rw randread --bs 4k",
        kinds: &[Kind::Read],
    },
    Job {
        title: "randread 4 KiB, io_uring, depth 1",
        fio: "--ioengine=io_uring --fixedbufs=1 --registerfiles=1 --iodepth=1 --rw=randread \
              --bs=4k",
        durio: "--engine uring --rw randread --bs 4k",
        kinds: &[Kind::Read],
    },
    Job {
        title: "randread 8 KiB, io_uring, depth 32",
        fio: "--ioengine=io_uring --fixedbufs=1 --registerfiles=1 --iodepth=32 --rw=randread \
              --bs=8k",
        durio: "--engine uring --depth 32 --rw randread --bs 8k",
        kinds: &[Kind::Read],
    },
    Job {
        title: "write 8 KiB, fdatasync each, depth 1",
        fio: "--ioengine=psync --rw=write --bs=8k --fdatasync=1",
        durio: "--engine sync --rw write --bs 8k --sync fdatasync",
        kinds: &[Kind::Write, Kind::Sync],
    },
    Job {
        title: "70/30 randrw 8 KiB, io_uring, depth 16",
        fio: "--ioengine=io_uring --fixedbufs=1 --registerfiles=1 --iodepth=16 --rw=randrw \
              --rwmixread=70 --bs=8k",
        durio: "--engine uring --depth 16 --rw randrw --mix 70 --bs 8k",
        kinds: &[Kind::Read, Kind::Write],
    },
];

/// The trials of a job, round by round.
#[derive(Default)]
struct Trials {
    fio: Vec<Measured>,
    durio: Vec<Measured>,
    fio_again: Vec<Measured>,
}

/// A figure of an operation.
type Figure = fn(&Operation) -> Option<f64>;

/// Latencies are shown in µs, rates in thousands per second: the same factor.
const FIGURES: [(&str, Figure); 4] = [
    ("p50 µs", |it| it.p50),
    ("p99 µs", |it| it.p99),
    ("mean µs", |it| Some(it.mean)),
    ("k/s", |it| Some(it.rate)),
];

/// Runs `bench agree` or `bench import`.
pub(super) fn run(arguments: &Arguments, way: Way, interrupt: &Interrupt) -> Result<Vec<Goal>> {
    let session = Session::begin(interrupt)?;
    let file = scratch::lay_out(session.scratch(), FILE_MEBIBYTES, interrupt)?;
    let title = match way {
        Way::Own => "The same jobs by fio, durio, fio again: latency and rate",
        Way::Imported => "Jobs by fio, imported and run by durio, by fio again: latency and rate",
    };
    machine::print(title, &session);
    println!(
        "- trials: {} rounds, {} s each, interleaved in turning order; O_DIRECT on a file of {FILE_MEBIBYTES} MiB",
        arguments.pairs, arguments.seconds
    );
    let mut all: Vec<_> = JOBS.iter().map(|_| Trials::default()).collect();
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
            goals.push(goal(job, kind, trials, FIGURES[0])?);
            if way == Way::Imported {
                goals.push(goal(job, kind, trials, FIGURES[3])?);
            }
        }
    }
    foreign.print();
    goals::print(&goals);
    Ok(goals)
}

/// Each program comes first, second and last in turn: what ran before leaves traces in the storage.
fn one_round(
    (job, way): (&Job, Way),
    trials: &mut Trials,
    round: u32,
    session: &Session,
    file: &Path,
    seconds: u32,
) -> Result<()> {
    let by_fio = || fio::parse(&timed(session, &fio_words(job, file, seconds))?);
    for turn in round..round + 3 {
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

fn timed(session: &Session, words: &[OsString]) -> Result<String> {
    Ok(session.run(words, Priority::Realtime)?.stdout)
}

fn fio_words(job: &Job, file: &Path, seconds: u32) -> Vec<OsString> {
    let options = format!(
        "--direct=1 --size={FILE_MEBIBYTES}M --time_based --runtime={seconds} {} {}",
        fio::TOTAL_LATENCIES,
        job.fio
    );
    fio::command(file, &options)
}

fn durio_words(job: &Job, session: &Session, file: &Path, seconds: u32) -> Vec<OsString> {
    let mut words = session.durio().run(file, &format!("--duration {seconds}s {}", job.durio));
    if job.kinds.contains(&Kind::Write) {
        words.extend(["--destroy".into(), file.into()]);
    }
    words
}

/// durio with fio's own words.
fn imported_words(job: &Job, session: &Session, file: &Path, seconds: u32) -> Vec<OsString> {
    let destroy = job.kinds.contains(&Kind::Write).then_some(file);
    session.durio().fio(destroy, fio_words(job, file, seconds).get(1..).unwrap_or_default())
}

fn print(job: &Job, kind: Kind, trials: &Trials) -> Result<()> {
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
    table::print(&[&title, "durio / fio", "fio again / fio", "fio", "durio", "fio again"], rows);
    Ok(())
}

/// One figure of fio, durio and fio again, round by round.
fn values(trials: &Trials, kind: Kind, figure: Figure) -> Result<[Vec<f64>; 3]> {
    let of = |measured: &[Measured]| {
        let figures = measured.iter().map(|trial| figure(trial.operation(kind)?));
        figures.collect::<Option<Vec<_>>>().with_context(|| format!("no figure of a {kind}"))
    };
    Ok([of(&trials.fio)?, of(&trials.durio)?, of(&trials.fio_again)?])
}

fn goal(job: &Job, kind: Kind, trials: &Trials, (name, figure): (&str, Figure)) -> Result<Goal> {
    let [fio, durio, again] = values(trials, kind, figure)?;
    let (ratio, noise) = (Ratio::of(&durio, &fio), Ratio::of(&again, &fio));
    Ok(Goal {
        what: {
            let name = if name == "k/s" { "rate" } else { "p50" };
            format!("{name} durio / fio: {}: {kind}", job.title)
        },
        goal: format!("1 ± {TOLERANCE}"),
        measured: format!("{:.2}; fio again {:.2}", ratio.median, noise.median),
        holds: (ratio.median - 1.0).abs() <= TOLERANCE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(p50: f64) -> Measured {
        let read = Operation { count: 9.0, rate: 9.0, mean: p50, p50: Some(p50), p99: None };
        Measured {
            iops: 9.0,
            accesses: 9.0,
            cpu_ns: 1.0,
            operations: vec![(Kind::Read, read)],
            deviation: None,
            fallbacks: Vec::new(),
        }
    }

    fn trials(durio: f64) -> Trials {
        Trials { fio: vec![trial(100.0)], durio: vec![trial(durio)], fio_again: vec![trial(90.0)] }
    }

    #[test]
    fn a_p50_may_differ_either_way_within_the_tolerance() {
        let holds =
            |durio| goal(&JOBS[0], Kind::Read, &trials(durio), FIGURES[0]).expect("a goal").holds;
        assert!(holds(86.0) && holds(114.0));
        assert!(!holds(84.0) && !holds(116.0));
    }

    #[test]
    fn a_figure_that_is_missing_is_an_error() {
        assert!(values(&trials(1.0), Kind::Read, |it| it.p99).is_err());
        assert!(values(&trials(1.0), Kind::Write, |it| it.p50).is_err());
    }

    #[test]
    fn only_jobs_that_write_may_destroy() {
        for job in &JOBS {
            let writes = job.durio.contains("--rw write") || job.durio.contains("--rw randrw");
            assert_eq!(job.kinds.contains(&Kind::Write), writes, "{}", job.title);
        }
    }
}
