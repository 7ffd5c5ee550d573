//! `bench fsync`: durio next to pg_test_fsync, which rewrites one block and prints mean rates.
//!
//! Prints operations per second of each method by pg_test_fsync, durio, and pg_test_fsync again,
//! interleaved on the same file; checks the goals. pg_test_fsync rewrites one offset again and
//! again, unlike a log.
//!
//! As read in its source (src/bin/pg_test_fsync/pg_test_fsync.c, PostgreSQL 15 and 18): it writes a
//! file of 16 MiB in full and syncs it; then each method writes the same 8 KiB at offset 0 again
//! and again until an alarm ends it, and prints the mean rate. open_datasync and open_sync are
//! O_DSYNC and O_SYNC with O_DIRECT, fdatasync and fsync are calls after a buffered write. A method
//! that the filesystem refuses is `n/a`. durio has no counterpart to the tests after these, so the
//! program is ended when it starts the second list.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::durio;
use super::figures::{self, BenchGoal, Ratio, median};
use super::machine::{self, Foreign};
use super::session::{self, BenchSession, Interrupt, Priority};

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

/// The same in durio's words, in the order of [`METHODS`]: O_DIRECT where it has it.
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
    let program = find()?;
    let session = BenchSession::begin(interrupt)?;
    let file = session::lay_out(session.scratch(), FILE_MEBIBYTES, interrupt)?;
    machine::print("pg_test_fsync, durio, pg_test_fsync again: one block rewritten", &session);
    println!("- {}: {}", version(&program)?, program.display());
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
    figures::print_goals(&goals);
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
        run_pg_test_fsync(session.prefix(Priority::Realtime), program, file, arguments.seconds)
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
    let rows = METHODS.iter().zip(trials).map(|(method, trials)| {
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
    figures::print_table(
        &["operations per second", "durio / pg", "pg again / pg", "pg", "durio", "pg again"],
        rows,
    );
}

fn goals_of(trials: &[MethodTrials; 4]) -> Result<Vec<BenchGoal>> {
    let measured = METHODS.iter().zip(trials).filter(|(_, trials)| !trials.pg.is_empty());
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

/// Its methods that Linux has, in its order.
pub(super) const METHODS: [&str; 4] = ["open_datasync", "fdatasync", "fsync", "open_sync"];

const PROGRAM: &str = "pg_test_fsync";

/// Where Debian's packages have PostgreSQL's programs, a folder for each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The first list is whole when the second one begins.
const SECOND_LIST: &str = "two 8kB writes";

/// The newest one that is installed.
///
/// # Errors
/// If none is installed; names the package that has it.
pub(super) fn find() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    newest(Path::new(DEBIAN))
        .or_else(|| on_path.into_iter().find(|program| program.is_file()))
        .context(
            "pg_test_fsync is not installed. On Debian the package postgresql-15 (or another \
             version) has it: sudo apt-get install --no-install-recommends postgresql-15; with \
             'create_main_cluster = false' in /etc/postgresql-common/createcluster.conf \
             beforehand no server is set up",
        )
}

/// The folder of programs of the newest PostgreSQL that Debian's packages have brought.
pub(crate) fn newest_postgresql() -> Option<PathBuf> {
    newest(Path::new(DEBIAN))?.parent().map(Path::to_owned)
}

fn newest(folder: &Path) -> Option<PathBuf> {
    let version = |name: &OsStr| name.to_str()?.parse::<u32>().ok();
    let versions = fs::read_dir(folder).ok()?.filter_map(|entry| {
        let path = entry.ok()?.path();
        let program = path.join("bin").join(PROGRAM);
        Some((version(path.file_name()?)?, program)).filter(|(_, program)| program.is_file())
    });
    versions.max().map(|(_, program)| program)
}

/// Its version, as it says it.
pub(super) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output().context("cannot run it")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs the tests with one write on `file`, which stays, and returns operations per second of each
/// method; `None` if the filesystem refuses it. `prefix` is the command that runs the program.
///
/// # Errors
/// If it cannot be run or has unexpected output.
pub(super) fn run_pg_test_fsync(
    prefix: &[&str],
    program: &Path,
    file: &Path,
    seconds: u32,
) -> Result<[Option<f64>; METHODS.len()]> {
    let mut words = prefix.iter().map(OsStr::new).chain([program.as_os_str()]);
    let first = words.next().context("no command")?;
    let mut child = Command::new(first)
        .args(words)
        .arg("-f")
        .arg(file)
        .args(["-s", &seconds.to_string()])
        // Its output is translated.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = first_list(&mut child);
    // Not asked to end, it cannot remove the file, which durio writes to next. It may have ended.
    let _ = child.kill();
    child.wait().context("cannot wait for pg_test_fsync")?;
    parse(&text?)
}

/// Its output until the second list begins.
fn first_list(child: &mut Child) -> Result<String> {
    let mut output = BufReader::new(child.stdout.take().context("no output")?);
    let mut text = String::new();
    let mut part = [0; 256];
    while !text.contains(SECOND_LIST) {
        let count = output.read(&mut part).context("cannot read what pg_test_fsync prints")?;
        ensure!(count > 0, "pg_test_fsync ended early, after:\n{text}");
        text.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    Ok(text)
}

fn parse(text: &str) -> Result<[Option<f64>; METHODS.len()]> {
    let list = text.split(SECOND_LIST).next().unwrap_or_default();
    let mut rates = [None; METHODS.len()];
    for (method, rate) in METHODS.iter().zip(&mut rates) {
        let mut lines = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| words.first() == Some(method));
        *rate = match line.as_deref() {
            Some([_, rate, "ops/sec", ..]) => {
                Some(rate.parse().with_context(|| format!("{rate} is not a rate of {method}"))?)
            }
            Some([_, "n/a" | "n/a*", ..]) => None,
            _ => bail!("pg_test_fsync prints no {method}:\n{text}"),
        };
    }
    Ok(rates)
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
        for (method, durio) in METHODS.iter().zip(DURIO) {
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

    /// As 15.14 prints it, with other figures.
    const SAMPLE: &str = "1 second per test
O_DIRECT supported on this platform for open_datasync and open_sync.

Compare file sync methods using one 8kB write:
(in wal_sync_method preference order, except fdatasync is Linux's default)
        open_datasync                      1000.500 ops/sec     999 usecs/op
        fdatasync                          2000.000 ops/sec     500 usecs/op
        fsync                               500.250 ops/sec    1999 usecs/op
        fsync_writethrough                              n/a
        open_sync                           400.000 ops/sec    2500 usecs/op

Compare file sync methods using two 8kB writes:
        open_datasync                         1.000 ops/sec 1000000 usecs/op
";

    #[test]
    fn rates_are_those_of_the_first_list() {
        let rates = parse(SAMPLE).expect("the sample is whole");
        assert_eq!(rates, [Some(1000.5), Some(2000.0), Some(500.25), Some(400.0)]);
    }

    #[test]
    fn a_method_that_the_filesystem_refuses_has_no_rate() {
        let refused = SAMPLE.replace("1000.500 ops/sec     999 usecs/op", "n/a*");
        assert_eq!(parse(&refused).expect("it is whole")[0], None);
    }

    #[test]
    fn a_method_that_is_missing_or_no_number_is_an_error() {
        assert!(parse(&SAMPLE.replace("open_sync", "other")).is_err());
        assert!(parse(&SAMPLE.replace("500.250", "many")).is_err());
        assert!(parse("").is_err());
    }

    #[test]
    fn the_newest_version_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(newest(folder.path()), None);
        for version in ["9", "15", "17", "other"] {
            let bin = folder.path().join(version).join("bin");
            fs::create_dir_all(&bin).expect("a folder");
            // The newest one is not whole.
            if version != "17" {
                fs::write(bin.join(PROGRAM), "").expect("a file");
            }
        }
        assert_eq!(newest(folder.path()), Some(folder.path().join("15/bin").join(PROGRAM)));
        assert_eq!(newest(&folder.path().join("none")), None);
    }
}
