//! `bench fsync`: durio next to pg_test_fsync, which rewrites one block and prints mean rates.
//!
//! Prints operations per second of each method by pg_test_fsync, durio, and pg_test_fsync again,
//! interleaved on the same file; checks the goals. pg_test_fsync rewrites one offset again and
//! again, unlike a log.

use std::path::Path;

use anyhow::{Result, ensure};

use super::figures::{Ratio, median};
use super::goals::{self, BenchGoal};
use super::load::Foreign;
use super::session::{BenchSession, Interrupt, Priority};
use super::{durio, machine, pg_test_fsync, scratch, table};

/// Options of `bench fsync`.
#[derive(Debug, clap::Args)]
pub(crate) struct FsyncArguments {
    /// Rounds; ratios are medians over them
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,

    /// Seconds per trial
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// The size of pg_test_fsync's file: DEFAULT_XLOG_SEG_SIZE.
const FILE_MEBIBYTES: usize = 16;

/// durio's rate over pg_test_fsync's may differ from 1 by this.
const TOLERANCE: f64 = 0.15;

/// The same in durio's words, in the order of [`pg_test_fsync::METHODS`]: O_DIRECT where it has it.
const DURIO: [&str; 4] =
    ["--sync o_dsync", "--sync fdatasync --buffered", "--sync fsync --buffered", "--sync o_sync"];

const SAME_FOR_ALL: &str = "--engine sync --rw write --bs 8k --rewrite";

/// Rates of one method, round by round.
#[derive(Debug, Default)]
struct MethodTrials {
    pg: Vec<f64>,
    durio: Vec<f64>,
    pg_again: Vec<f64>,
}

/// The rates of one round; a method that the filesystem refuses has none.
type Rates = [Option<f64>; 4];

/// Runs `bench fsync`.
pub(super) fn run(arguments: &FsyncArguments, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let program = pg_test_fsync::find()?;
    let session = BenchSession::begin(interrupt)?;
    let file = scratch::lay_out(session.scratch(), FILE_MEBIBYTES, interrupt)?;
    machine::print("pg_test_fsync, durio, pg_test_fsync again: one block rewritten", &session);
    println!("- {}: {}", pg_test_fsync::version(&program)?, program.display());
    println!(
        "- trials: {} rounds, {} s each, interleaved in turning order; 8 KiB at offset 0 of one \
         file of {FILE_MEBIBYTES} MiB",
        arguments.pairs, arguments.seconds
    );
    let mut trials: [MethodTrials; 4] = Default::default();
    let mut foreign = Foreign::default();
    for round in 1..=arguments.pairs {
        eprintln!("round {round} of {}", arguments.pairs);
        foreign.during(|| one_round(&mut trials, round, &session, (&program, &file), arguments))?;
    }
    print(&trials);
    foreign.print();
    let goals = goals_of(&trials)?;
    goals::print(&goals);
    Ok(goals)
}

/// Each comes first, second and last in turn: earlier runs leave traces in the storage.
fn one_round(
    trials: &mut [MethodTrials; 4],
    round: u32,
    session: &BenchSession,
    (program, file): (&Path, &Path),
    arguments: &FsyncArguments,
) -> Result<()> {
    let by_pg = || {
        session.interrupt().check()?;
        pg_test_fsync::run(session.prefix(Priority::Realtime), program, file, arguments.seconds)
    };
    let mut rates: [Rates; 3] = Default::default();
    for turn in round..round + 3 {
        let place = (turn % 3) as usize;
        rates[place] = match place {
            1 => by_durio(session, file, arguments.seconds)?,
            _ => by_pg()?,
        };
    }
    session.interrupt().check()?;
    take(trials, rates);
    Ok(())
}

/// Keeps the rates of the methods that all three have.
fn take(trials: &mut [MethodTrials; 4], [pg, durio, pg_again]: [Rates; 3]) {
    for (index, trials) in trials.iter_mut().enumerate() {
        if let (Some(pg), Some(durio), Some(again)) = (pg[index], durio[index], pg_again[index]) {
            trials.pg.push(pg);
            trials.durio.push(durio);
            trials.pg_again.push(again);
        }
    }
}

fn by_durio(session: &BenchSession, file: &Path, seconds: u32) -> Result<Rates> {
    let mut rates = Rates::default();
    for (rate, method) in rates.iter_mut().zip(DURIO) {
        let options = format!("{SAME_FOR_ALL} --duration {seconds}s {method}");
        let mut words = session.durio().run(file, &options);
        words.extend(["--destroy".into(), file.into()]);
        let measured = durio::parse(&session.run(&words, Priority::Realtime)?.stdout)?;
        ensure!(measured.accesses > 0.0, "{method}: nothing was written");
        // Without O_DIRECT it is another test.
        *rate = measured.fallbacks.is_empty().then_some(measured.iops);
    }
    Ok(rates)
}

fn print(trials: &[MethodTrials; 4]) {
    let rows = pg_test_fsync::METHODS.iter().zip(trials).map(|(method, trials)| {
        let MethodTrials { pg, durio, pg_again } = trials;
        if pg.is_empty() {
            let none = || "not here".to_owned();
            return [(*method).to_owned(), none(), none(), none(), none(), none()];
        }
        [
            (*method).to_owned(),
            Ratio::of(durio, pg).to_string(),
            Ratio::of(pg_again, pg).to_string(),
            format!("{:.0}", median(pg)),
            format!("{:.0}", median(durio)),
            format!("{:.0}", median(pg_again)),
        ]
    });
    println!();
    table::print(
        &["operations per second", "durio / pg", "pg again / pg", "pg", "durio", "pg again"],
        rows,
    );
}

fn goals_of(trials: &[MethodTrials; 4]) -> Result<Vec<BenchGoal>> {
    let measured = pg_test_fsync::METHODS.iter().zip(trials).filter(|(_, it)| !it.pg.is_empty());
    let goals: Vec<_> = measured.map(|(method, trials)| goal(method, trials)).collect();
    ensure!(!goals.is_empty(), "no method was measured by both");
    Ok(goals)
}

fn goal(method: &str, trials: &MethodTrials) -> BenchGoal {
    let ratio = Ratio::of(&trials.durio, &trials.pg);
    let noise = Ratio::of(&trials.pg_again, &trials.pg);
    BenchGoal {
        what: format!("rate durio / pg_test_fsync: {method}"),
        goal: format!("1 ± {TOLERANCE}"),
        measured: format!("{:.2}; pg again {:.2}", ratio.median, noise.median),
        holds: (ratio.median - 1.0).abs() <= TOLERANCE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(durio: f64) -> MethodTrials {
        MethodTrials { pg: vec![100.0; 3], durio: vec![durio; 3], pg_again: vec![90.0; 3] }
    }

    #[test]
    fn a_rate_may_differ_either_way_within_the_tolerance() {
        let holds = |durio| goal("fsync", &trials(durio)).holds;
        assert!(holds(86.0) && holds(114.0));
        assert!(!holds(84.0) && !holds(116.0) && !holds(f64::NAN));
    }

    #[test]
    fn each_method_has_its_like_in_durio() {
        for (method, durio) in pg_test_fsync::METHODS.iter().zip(DURIO) {
            let like = method.replace("open_datasync", "o_dsync").replace("open_sync", "o_sync");
            assert_eq!(durio.split(' ').nth(1), Some(like.as_str()));
            // What it opens for syncing it opens with O_DIRECT, and nothing else.
            assert_eq!(durio.contains("--buffered"), !method.starts_with("open"));
        }
    }

    #[test]
    fn a_method_that_one_of_them_lacks_is_left_out() {
        let mut all: [MethodTrials; 4] = Default::default();
        let whole = [Some(1.0); 4];
        let mut lacking = whole;
        lacking[0] = None;
        take(&mut all, [whole, lacking, whole]);
        let goals = goals_of(&all).expect("three are left");
        assert_eq!((goals.len(), all[0].pg.len()), (3, 0));
        assert!(goals_of(&Default::default()).is_err());
    }
}
