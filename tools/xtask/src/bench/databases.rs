//! `bench databases`: real databases next to the predictions of `durio predict`.
//!
//! Prints commits per second, latencies and commits per sync of both, measured by turns in one
//! folder, and the goals. `crate::databases` starts and loads databases; `cargo xtask databases
//! trace` shows their logs.
//!
//! A database stays up while it is predicted, and is idle then. The filesystem is synced between
//! two runs, so that no run pays for the remains of the last one (removed files, for one).

mod figures;
mod picture;

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use self::figures::{DatabaseRow, DatabaseRun, NOISY, RunPair, STOLEN};
use super::goals::{self, BenchGoal};
use super::load::LoadReading;
use super::session::{BenchSession, Interrupt, Priority};
use super::{durio, machine};
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
    figures::print(&rows);
    picture::print(&rows);
    let goals = figures::goals(&rows);
    goals::print(&goals);
    figures::print_loads(&rows);
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
        let per_sync = syncs.filter(|it| *it > 0).map(|syncs| said.commits as f64 / syncs as f64);
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
