//! `bench group-commit`: durio's cost of a committed record, and the gain of group commit on a real
//! file over as many independent durable writers.
//!
//! Runs durio on the null engine's virtual clock, and on a separate file. Prints CPU time and
//! instructions per record with the goal, and commits per second of both ways, interleaved. The
//! file has no goal, because its storage is whatever cargo's target folder is on.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::figures::{self, BenchGoal, Ratio, median};
use super::instructions::{callgrind_count, under_callgrind};
use super::session::{self, BenchSession, Interrupt, Priority};
use super::{durio, machine};

/// Options of `bench group-commit`.
#[derive(Debug, clap::Args)]
pub(crate) struct GroupCommitArguments {
    /// Rounds of group commit and independent writers; figures are medians over them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,

    /// Seconds per trial on the file
    #[arg(long, default_value_t = 2)]
    seconds: u32,
}

const COMMITTERS: u32 = 64;
/// A commit record of a small transaction, and a page.
const RECORDS: [&str; 2] = ["256B", "8KiB"];
/// CPU time per committed record of 256 bytes, in nanoseconds at most.
const CPU_NS_MAX: f64 = 1000.0;

/// Records of a timed run on the null engine, and of the two that are counted.
const TIMED: u32 = 2_000_000;
const FEW: u32 = 20_000;
const MANY: u32 = 220_000;

const FILE_MEBIBYTES: usize = 64;

/// The cost of a record, without any storage.
struct RecordCost {
    record: &'static str,
    cpu_ns: f64,
    instructions: f64,
}

/// The commits of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Commits {
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    count: f64,
    cpu_ns: f64,
}

pub(super) fn run(
    arguments: &GroupCommitArguments,
    interrupt: &Interrupt,
) -> Result<Vec<BenchGoal>> {
    let session = BenchSession::begin(interrupt)?;
    machine::print("Group commit: the cost of a record, and 64 committers on a file", &session);
    let costs: Result<Vec<_>> = RECORDS.iter().map(|record| cost(record, &session)).collect();
    let costs = costs?;
    print_costs(&costs);
    let file = session::lay_out(session.scratch(), FILE_MEBIBYTES, interrupt)?;
    print_file(arguments, &file, &session)?;
    let goals: Vec<_> = costs.iter().filter_map(goal).collect();
    figures::print_goals(&goals);
    Ok(goals)
}

/// Copying a page has a fixed cost; the goal is on the record of a small transaction.
fn goal(cost: &RecordCost) -> Option<BenchGoal> {
    let what = format!("CPU time per committed record of {}, {COMMITTERS} committers", cost.record);
    (cost.record == RECORDS[0]).then(|| BenchGoal::at_most(what, cost.cpu_ns, CPU_NS_MAX, 0, " ns"))
}

fn cost(record: &'static str, session: &BenchSession) -> Result<RecordCost> {
    eprintln!("null engine, records of {record}");
    let mut timed = Vec::new();
    for _ in 0..3 {
        let printed = session.run(&on_null(record, TIMED, session), Priority::Realtime)?;
        timed.push(commits(&printed.stdout)?.cpu_ns);
    }
    let count = |records| -> Result<f64> {
        let words = under_callgrind(on_null(record, records, session));
        callgrind_count(&session.run(&words, Priority::Plain)?.stderr)
    };
    let instructions = (count(MANY)? - count(FEW)?) / f64::from(MANY - FEW);
    Ok(RecordCost { record, cpu_ns: median(&timed), instructions })
}

/// No interval ends within a run: its merge would be counted as cost of the records.
fn on_null(record: &str, records: u32, session: &BenchSession) -> Vec<OsString> {
    let Some(program) = session.program().to_str() else { return Vec::new() };
    let out = session.scratch().to_string_lossy();
    let line = format!(
        "run --format json --quiet --no-self-cost --seed 1 --interval 1h --engine null \
         --null-latency 100us,900us --rw write --bs {record} --sync fdatasync \
         --committers {COMMITTERS} --ops {records} --out"
    );
    let words = std::iter::once(program).chain(line.split_whitespace()).map(OsString::from);
    words.chain([OsString::from(out.into_owned())]).collect()
}

/// Reads the commits of the first workload.
fn commits(text: &str) -> Result<Commits> {
    let findings = durio::findings(text)?;
    let workload = findings.pointer("/workloads/0").context("no workload in the findings")?;
    let operations = durio::array(workload, "/operations");
    let of = |name: &str| {
        operations
            .iter()
            .find(|operation| operation.get("operation").and_then(Value::as_str) == Some(name))
    };
    let count = |name| of(name).and_then(|commit| durio::number(commit, "/service/count").ok());
    let commit = of("commit").context("no commit in the findings")?;
    let committed = durio::number(commit, "/service/count")?;
    let calls = count("write").unwrap_or(0.0) + count("sync").unwrap_or(0.0);
    let percentile = |name: &str| {
        durio::number(commit, &format!("/service/{name}")).map_or(f64::NAN, |nanos| nanos / 1e3)
    };
    Ok(Commits {
        per_second: durio::number(commit, "/rate_per_second")?,
        p50_us: percentile("p50_ns"),
        p99_us: percentile("p99_ns"),
        count: committed,
        // durio reports it per write and sync, of which there are few.
        cpu_ns: durio::number(workload, "/cpu/per_operation_ns")? * calls / committed,
    })
}

fn print_costs(costs: &[RecordCost]) {
    println!("\nCost of a record, null engine, {COMMITTERS} committers\n");
    let rows = costs.iter().map(|cost| {
        let RecordCost { record, cpu_ns, instructions } = cost;
        [(*record).to_owned(), format!("{cpu_ns:.0}"), format!("{instructions:.0}")]
    });
    figures::print_table(&["record", "CPU time, ns", "user instructions"], rows);
}

fn print_file(arguments: &GroupCommitArguments, file: &Path, session: &BenchSession) -> Result<()> {
    println!(
        "\nOn a file, through the page cache, fdatasync, median of {} interleaved rounds\n",
        arguments.pairs
    );
    let mut rows = Vec::new();
    for record in RECORDS {
        let (mut grouped, mut alone) = (Vec::new(), Vec::new());
        for round in 1..=arguments.pairs {
            eprintln!("file, records of {record}, round {round} of {}", arguments.pairs);
            let committing = format!("--committers {COMMITTERS}");
            grouped.push(on_file(arguments, record, &committing, file, session)?);
            let writers = format!("--jobs {COMMITTERS} --share-each");
            alone.push(on_file(arguments, record, &writers, file, session)?);
        }
        rows.push(row(record, "group commit", &grouped, None));
        rows.push(row(record, "independent writers", &alone, Some(&grouped)));
    }
    figures::print_table(
        &["record", "", "commits/s", "p50, us", "p99, us", "group commit is faster by"],
        rows,
    );
    Ok(())
}

fn on_file(
    arguments: &GroupCommitArguments,
    record: &str,
    ways: &str,
    file: &Path,
    session: &BenchSession,
) -> Result<Commits> {
    let options = format!(
        "--rw write --bs {record} --buffered --sync fdatasync --duration {}s {ways}",
        arguments.seconds
    );
    let mut words = session.durio().run(file, &options);
    words.extend(["--destroy".into(), file.into()]);
    commits(&session.run(&words, Priority::Plain)?.stdout)
}

fn row(record: &str, way: &str, these: &[Commits], grouped: Option<&[Commits]>) -> [String; 6] {
    let all = |of: fn(&Commits) -> f64, commits: &[Commits]| -> Vec<f64> {
        commits.iter().map(of).collect()
    };
    let rate = |commits: &[Commits]| all(|run| run.per_second, commits);
    [
        record.to_owned(),
        way.to_owned(),
        format!("{:.0}", median(&rate(these))),
        format!("{:.0}", median(&all(|run| run.p50_us, these))),
        format!("{:.0}", median(&all(|run| run.p99_us, these))),
        grouped.map_or_else(String::new, |grouped| {
            Ratio::of(&rate(grouped), &rate(these)).to_string()
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_per_record_and_not_per_call() {
        let text = r#"{"state": "complete", "workloads": [{"cpu": {"per_operation_ns": 3200.0},
            "operations": [
            {"operation": "commit", "rate_per_second": 64000.0,
             "service": {"count": 6400, "p50_ns": 1000, "p99_ns": null}},
            {"operation": "write", "service": {"count": 100}},
            {"operation": "sync", "service": {"count": 100}}]}]}"#;
        let read = commits(text).expect("the sample is whole");
        assert_eq!((read.count, read.cpu_ns, read.p50_us), (6400.0, 100.0, 1.0));
        assert!(read.p99_us.is_nan());
        assert!(commits(&text.replace("\"commit\"", "\"read\"")).is_err());
    }

    #[test]
    fn the_goal_is_on_small_records() {
        let cost = |record, cpu_ns| RecordCost { record, cpu_ns, instructions: 0.0 };
        assert!(goal(&cost(RECORDS[0], 999.0)).expect("it has a goal").holds);
        assert!(!goal(&cost(RECORDS[0], 1001.0)).expect("it has a goal").holds);
        assert!(goal(&cost(RECORDS[1], 1.0)).is_none());
    }
}
