//! `bench databases`: real databases next to the predictions of `durio predict`.
//!
//! Prints commits per second, latencies and commits per sync of both, measured by turns in one
//! folder, and the goals. `crate::databases` starts and loads databases; `cargo xtask databases
//! trace` shows their logs.
//!
//! A database stays up while it is predicted, and is idle then. The filesystem is synced between
//! two runs, so that no run pays for the remains of the last one (removed files, for one).
//!
//! Ratios are those of undisturbed pairs; medians are also drawn as bars, in a page without other pictures.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use super::durio;
use super::figures::{self, BenchGoal, Ratio, median};
use super::machine::{self, LoadReading};
use super::session::{BenchSession, Interrupt, Priority};
use crate::databases::{self, Database, ScratchDatabase, ServerGroup};

/// Options of `bench databases`.
#[derive(Debug, clap::Args)]
pub(crate) struct DatabaseBenchArguments {
    /// Only these; all of them if none is named
    names: Vec<String>,

    /// Pairs of database and prediction for each number of clients; figures are medians over them
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,

    /// Seconds per run
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,

    /// A folder on a real filesystem, which the databases' users can reach
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    folder: PathBuf,
}

impl DatabaseBenchArguments {
    /// Checks whether it can run; the exit code, if a package is missing.
    pub(super) fn cannot(&self, is_written: bool) -> Result<Option<ExitCode>> {
        ensure!(
            !is_written || self.names.is_empty(),
            "--write replaces the figures of all databases: name none"
        );
        let databases = databases::chosen(&self.names)?;
        databases::real_filesystem(&self.folder)?;
        Ok(databases::cannot(&databases, &[]))
    }
}

const CLIENTS: [u32; 3] = [1, 8, 32];

/// Transactions of each client in the first, uncounted run, which shows how many fill a run.
const FIRST: u32 = 300;

/// A running database, and the parameters of its prediction.
struct RunningDatabase<'a> {
    database: &'static Database,
    scratch: ScratchDatabase<'a>,
    server: Option<ServerGroup>,
    session: &'a BenchSession,
    seconds: u32,
}

pub(super) fn run(
    arguments: &DatabaseBenchArguments,
    interrupt: &Interrupt,
) -> Result<Vec<BenchGoal>> {
    let databases = databases::chosen(&arguments.names)?;
    let session = BenchSession::begin(interrupt)?;
    machine::print_machine("Databases and their predictions");
    println!("- files: {}", machine::filesystem(&arguments.folder));
    println!(
        "- trials: {} pairs for each number of clients, {} s each, database and prediction first by turns; a pair \
         with more than {NOISY} cores of foreign load or {:.0} % stolen is left out",
        arguments.pairs,
        arguments.seconds,
        STOLEN * 100.0
    );
    let mut rows = Vec::new();
    for database in databases {
        println!(
            "- {}: {}; {}",
            database.name,
            databases::version(database)?,
            database.transaction
        );
        let of_one = all_pairs(database, arguments, &session);
        rows.extend(of_one.with_context(|| format!("{} cannot be measured", database.name))?);
    }
    print_rows(&rows);
    print_picture(&rows);
    let goals = goals_of(&rows);
    figures::print_goals(&goals);
    print_loads(&rows);
    Ok(goals)
}

fn all_pairs(
    database: &'static Database,
    arguments: &DatabaseBenchArguments,
    session: &BenchSession,
) -> Result<Vec<DatabaseRow>> {
    let scratch = ScratchDatabase::new(database, &arguments.folder, session.interrupt())?;
    let server = scratch.serve(&[])?;
    let setting =
        RunningDatabase { database, scratch, server, session, seconds: arguments.seconds };
    let clients = if database.is_for_one { &CLIENTS[..1] } else { &CLIENTS };
    let mut rows: Vec<DatabaseRow> =
        clients.iter().map(|&clients| DatabaseRow::new(database.name, clients)).collect();
    let mut each = Vec::with_capacity(rows.len());
    for row in &rows {
        each.push(setting.each(row.clients, setting.scratch.measure(row.clients, FIRST)?.rate()));
    }
    for pair in 1..=arguments.pairs {
        eprintln!("{}: pair {pair} of {}", database.name, arguments.pairs);
        for (row, each) in rows.iter_mut().zip(&mut each) {
            let pair = if pair % 2 == 1 {
                let real = setting.real(row.clients, *each)?;
                RunPair { real, predicted: setting.predicted(row.clients)? }
            } else {
                let predicted = setting.predicted(row.clients)?;
                RunPair { real: setting.real(row.clients, *each)?, predicted }
            };
            *each = setting.each(row.clients, pair.real.rate);
            row.pairs.push(pair);
        }
    }
    setting.server.map(ServerGroup::stop).transpose()?;
    Ok(rows)
}

impl RunningDatabase<'_> {
    /// Transactions of each client that take as long as a run.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate of seconds is neither that large nor below zero"
    )]
    fn each(&self, clients: u32, rate: f64) -> u32 {
        (rate * f64::from(self.seconds) / f64::from(clients)).max(1.0) as u32
    }

    fn real(&self, clients: u32, each: u32) -> Result<DatabaseRun> {
        let before = self.scratch.syncs()?;
        let (said, foreign, stolen) = self.watched(|| self.scratch.measure(clients, each))?;
        let syncs = self.scratch.syncs()?.zip(before).map(|(after, before)| after - before);
        #[expect(clippy::cast_precision_loss, reason = "commits of seconds")]
        let per_sync =
            syncs.filter(|synced| *synced > 0).map(|syncs| said.commits as f64 / syncs as f64);
        Ok(DatabaseRun {
            rate: said.rate(),
            p50_us: said.p50_us,
            p99_us: said.p99_us,
            per_sync: said.per_sync.or(per_sync),
            foreign,
            stolen,
        })
    }

    fn predicted(&self, clients: u32) -> Result<DatabaseRun> {
        let options = format!("--clients {clients} --duration {}s", self.seconds);
        let durio = self.session.durio();
        let words = durio.predict(self.database.name, self.scratch.folder(), &options);
        let (printed, foreign, stolen) =
            self.watched(|| self.session.run(&words, Priority::Plain))?;
        let findings = durio::findings(&printed.stdout)?;
        let number = |name: &str| durio::number(&findings, &format!("/prediction/points/0/{name}"));
        let microseconds = |name| number(name).ok().map(|nanos| nanos / 1e3);
        Ok(DatabaseRun {
            rate: number("rate_per_second")?,
            p50_us: microseconds("p50_ns"),
            p99_us: microseconds("p99_ns"),
            per_sync: number("commits_per_sync").ok(),
            foreign,
            stolen,
        })
    }

    /// Does the work, and returns the foreign load during it, in cores, and the stolen share.
    fn watched<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, f64, f64)> {
        rustix::fs::syncfs(File::open(self.scratch.folder())?)
            .context("the filesystem cannot be synced")?;
        let server = self.server.as_ref().map(ServerGroup::id);
        let before = LoadReading::read_beside(server).context("no /proc/stat")?;
        let value = work()?;
        let after = LoadReading::read_beside(server).context("no /proc/stat")?;
        Ok((value, after.foreign_since(&before), after.stolen_since(&before)))
    }
}

/// Cores of foreign load, and the stolen share, above which a pair is left out: half of the limit
/// in other benches, because all processors are needed here.
const NOISY: f64 = 0.25;
const STOLEN: f64 = 0.05;

/// Goals: how far a prediction may be off, in how many cases, and in none.
const NEAR: f64 = 0.15;
const NEAR_SHARE: f64 = 15.0 / 18.0;
const FAR: f64 = 0.30;
/// And its latencies.
const NEAR_P50: f64 = 0.20;
const NEAR_P99: f64 = 0.40;
/// And its commits per sync.
const NEAR_PER_SYNC: f64 = 0.10;

/// One run of a database, or of its prediction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct DatabaseRun {
    /// Commits per second.
    rate: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    per_sync: Option<f64>,
    /// Cores that others kept busy.
    foreign: f64,
    /// The share of the wanted time that the hypervisor gave away.
    stolen: f64,
}

impl DatabaseRun {
    fn is_disturbed(&self) -> bool {
        self.foreign > NOISY || self.stolen > STOLEN
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct RunPair {
    real: DatabaseRun,
    predicted: DatabaseRun,
}

impl RunPair {
    fn is_disturbed(&self) -> bool {
        self.real.is_disturbed() || self.predicted.is_disturbed()
    }
}

/// One database with one number of clients.
#[derive(Debug)]
struct DatabaseRow {
    database: &'static str,
    clients: u32,
    pairs: Vec<RunPair>,
}

impl DatabaseRow {
    fn new(database: &'static str, clients: u32) -> Self {
        Self { database, clients, pairs: Vec::new() }
    }

    /// The database's and the prediction's values, from the undisturbed pairs.
    fn each(&self, of: impl Fn(&DatabaseRun) -> Option<f64>) -> [Vec<f64>; 2] {
        let pairs = || self.pairs.iter().filter(|pair| !pair.is_disturbed());
        let real = pairs().filter_map(|pair| of(&pair.real)).collect();
        [real, pairs().filter_map(|pair| of(&pair.predicted)).collect()]
    }

    fn rates(&self) -> [Vec<f64>; 2] {
        self.each(|run| Some(run.rate))
    }

    /// Predicted to real.
    fn ratio(&self) -> Ratio {
        let [real, predicted] = self.rates();
        Ratio::of(&predicted, &real)
    }

    /// By how much a value is off; `None` if the database's benchmark does not report it.
    fn off(&self, of: fn(&DatabaseRun) -> Option<f64>) -> Option<f64> {
        let [real, predicted] = self.each(of).map(|values| median(&values));
        real.is_finite().then(|| (predicted / real - 1.0).abs())
    }

    /// By how much commits per sync are off; `None` with one client, which shares no syncs.
    fn per_sync_off(&self) -> Option<f64> {
        self.off(|run| run.per_sync).filter(|_| self.clients > 1)
    }

    fn words(&self) -> [String; 8] {
        let both = |of: fn(&DatabaseRun) -> Option<f64>, digits: usize| {
            let [real, predicted] = self.each(of).map(|values| one(median(&values), digits));
            format!("{real}, {predicted}")
        };
        let [real, predicted] = self.rates().map(|values| spread(&values));
        let undisturbed = self.pairs.iter().filter(|pair| !pair.is_disturbed()).count();
        [
            format!("{}, {}", self.database, self.clients),
            real,
            predicted,
            if undisturbed == 0 { "-".to_owned() } else { self.ratio().to_string() },
            both(|run| run.p50_us, 0),
            both(|run| run.p99_us, 0),
            both(|run| run.per_sync, 1),
            format!("{undisturbed} of {}", self.pairs.len()),
        ]
    }
}

/// Median and, in parentheses, least and most.
fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match values {
        [] => "-".to_owned(),
        _ => format!("{:.0} ({least:.0} to {most:.0})", median(values)),
    }
}

/// Formats a number; an unknown one is a dash.
fn one(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "-".to_owned() }
}

fn print_rows(rows: &[DatabaseRow]) {
    println!();
    figures::print_table(
        &[
            "database, clients",
            "real, commits/s",
            "predicted",
            "predicted / real",
            "p50, us: real, predicted",
            "p99, us",
            "commits per sync",
            "pairs",
        ],
        rows.iter().map(DatabaseRow::words),
    );
}

fn goals_of(rows: &[DatabaseRow]) -> Vec<BenchGoal> {
    let off: Vec<f64> = rows.iter().map(|row| (row.ratio().median - 1.0).abs()).collect();
    let near = off.iter().filter(|share| **share <= NEAR).count();
    #[expect(clippy::cast_precision_loss, reason = "rows of a table")]
    let share = near as f64 / off.len() as f64;
    // A row without an undisturbed pair is NaN, and meets no goal.
    let greatest =
        |of: &[f64]| if of.iter().any(|value| value.is_nan()) { f64::NAN } else { largest(of) };
    let each =
        |of: &dyn Fn(&DatabaseRow) -> Option<f64>| rows.iter().filter_map(of).collect::<Vec<f64>>();
    let what = format!("share of rates predicted within {:.0} %", NEAR * 100.0);
    let mut goals = vec![
        BenchGoal::at_least(what, share, (NEAR_SHARE * 100.0).floor() / 100.0),
        BenchGoal::at_most("rate furthest off", greatest(&off) * 100.0, FAR * 100.0, 0, " %"),
    ];
    for (what, off, limit) in [
        ("p50 furthest off", each(&|row| row.off(|run| run.p50_us)), NEAR_P50),
        ("p99 furthest off", each(&|row| row.off(|run| run.p99_us)), NEAR_P99),
        ("commits per sync furthest off", each(&DatabaseRow::per_sync_off), NEAR_PER_SYNC),
    ] {
        if !off.is_empty() {
            goals.push(BenchGoal::at_most(what, greatest(&off) * 100.0, limit * 100.0, 0, " %"));
        }
    }
    goals
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Prints the foreign load of each run.
fn print_loads(rows: &[DatabaseRow]) {
    println!(
        "\nForeign load, cores, of database and prediction in each pair; left out is marked *\n\n```"
    );
    for row in rows {
        let pair = |pair: &RunPair| {
            let mark = if pair.is_disturbed() { "*" } else { "" };
            let stolen = pair.real.stolen.max(pair.predicted.stolen);
            let stolen = if stolen >= 0.01 {
                format!(" {:.0} % stolen", stolen * 100.0)
            } else {
                String::new()
            };
            format!("{:.2} {:.2}{stolen}{mark}", pair.real.foreign, pair.predicted.foreign)
        };
        let pairs: Vec<String> = row.pairs.iter().map(pair).collect();
        let name = format!("{}, {}", row.database, row.clients);
        println!("{name:<20} {}", pairs.join(" | "));
    }
    println!("```");
}

/// Characters of the longest bar of a database.
const WIDTH: f64 = 48.0;

/// Eighths of a character.
const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

fn print_picture(rows: &[DatabaseRow]) {
    println!("\nCommits per second; each database by a scale of its own\n\n```");
    for row in rows {
        let most = rows.iter().filter(|other| other.database == row.database).flat_map(medians);
        let most = most.fold(f64::MIN_POSITIVE, f64::max);
        let name = format!("{}, {}", row.database, row.clients);
        for (name, what, value) in bars(&name, medians(row)) {
            println!("{name:<20} {what:<9} {} {value:.0}", bar(value / most));
        }
    }
    println!("```");
}

fn medians(row: &DatabaseRow) -> [f64; 2] {
    // A missing value draws no bar.
    row.rates()
        .map(|values| median(&values))
        .map(|value| if value.is_finite() { value } else { 0.0 })
}

fn bars(name: &str, [real, predicted]: [f64; 2]) -> [(&str, &'static str, f64); 2] {
    [(name, "real", real), ("", "predicted", predicted)]
}

/// A bar of this share of the width.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a few dozen characters"
)]
fn bar(share: f64) -> String {
    let eighths = (share * WIDTH * 8.0).round() as usize;
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(real: f64, predicted: f64) -> RunPair {
        let run =
            |rate| DatabaseRun { rate, per_sync: Some(rate / 10.0), ..DatabaseRun::default() };
        RunPair { real: run(real), predicted: run(predicted) }
    }

    fn row(pairs: &[RunPair]) -> DatabaseRow {
        DatabaseRow { pairs: pairs.to_vec(), ..DatabaseRow::new("toy", 8) }
    }

    #[test]
    fn a_pair_in_which_either_run_was_disturbed_is_left_out_and_counted() {
        let mut pairs = [pair(100.0, 110.0), pair(100.0, 500.0), pair(10.0, 110.0)];
        pairs[1].predicted.foreign = 0.7;
        pairs[2].real.stolen = 0.2;
        let words = row(&pairs).words();
        assert_eq!(words[1..4], ["100 (100 to 100)", "110 (110 to 110)", "1.10 (1.10–1.10)"]);
        assert_eq!((words[4].as_str(), words[7].as_str()), ("-, -", "1 of 3"));
    }

    #[test]
    fn goals_hold_by_the_rows_and_not_without_one_undisturbed_pair() {
        let near = || row(&[pair(100.0, 90.0)]);
        assert!(goals_of(&[near()]).iter().all(|goal| goal.holds));
        let far: Vec<bool> =
            goals_of(&[near(), row(&[pair(100.0, 140.0)])]).iter().map(|goal| goal.holds).collect();
        assert_eq!(far, [false, false, false]);
        let mut disturbed = pair(100.0, 100.0);
        disturbed.real.foreign = 2.0;
        assert!(goals_of(&[near(), row(&[disturbed])]).iter().any(|goal| !goal.holds));
    }

    #[test]
    fn one_client_shares_no_sync_and_is_not_held_against_that_goal() {
        let alone = DatabaseRow { clients: 1, ..row(&[pair(100.0, 100.0)]) };
        assert_eq!(alone.per_sync_off(), None);
    }

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(1.0).chars().count(), 48);
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(0.5 / 48.0), "▌");
    }
}
