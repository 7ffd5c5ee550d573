//! `bench instructions`: the cost of an I/O in user space, counted and not timed.
//!
//! Runs durio and fio on /dev/zero, which completes inline. Prints user instructions and system
//! calls per I/O, as the difference of a long and a short run, so that the start cancels. The
//! kernel's instructions are not counted.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::figures::{self, BenchGoal};
use super::session::{BenchSession, Interrupt, Priority};
use super::{durio, fio, machine};

/// No interval ends within a run: its merge would be counted as cost of the I/Os.
// One clock and one seed make runs alike.
const DURIO_OPTIONS: &str = "--size 1GiB --buffered --clock tsc --seed 1 --interval 1h";
const READS: &str = "--rw randread --bs 4k";
/// The same with the bytes of each write: divided by its size, the cost of making data.
const WRITES: &str = "--destroy /dev/zero --rw randwrite --bs 4k";
const FIO_OPTIONS: &str = "--rw=randread --bs=4k --size=1G --direct=0";
const FIO_URING: &str = "--ioengine=io_uring --iodepth=32 --fixedbufs=1 --registerfiles=1";
const FIO_BATCH: &str = "--norandommap=1 --random_generator=tausworthe64 \
                         --iodepth_batch_submit=32 --iodepth_batch_complete_min=1 \
                         --iodepth_batch_complete_max=32";

/// I/Os of the short runs.
const SHORT: u32 = 10_000;

/// By how many I/Os the long runs are longer. durio's work after its loop (percentiles, the
/// histogram log) varies with the latencies by a million instructions; fio's start varies by 30
/// 000.
const APART_DURIO: u32 = 3_000_000;
const APART_FIO: u32 = 100_000;

/// The same for strace, whose counts are exact and slow.
const APART_CALLS: u32 = 20_000;

/// Repeats must agree within this share.
const REPEATABLE: f64 = 0.01;

/// One program with its options.
struct InstructionCase {
    label: &'static str,
    is_durio: bool,
    options: String,
    /// User instructions per I/O at most.
    goal: Option<f64>,
}

/// The counts, per I/O.
struct CountsPerIo {
    instructions: [f64; 2],
    calls: CallCounts,
}

impl CountsPerIo {
    /// How far the repeats are apart, as a share.
    fn scatter(&self) -> f64 {
        let [first, second] = self.instructions;
        (first - second).abs() / first.min(second)
    }

    fn worst(&self) -> f64 {
        self.instructions[0].max(self.instructions[1])
    }
}

fn cases() -> Vec<InstructionCase> {
    let durio = |label, options: &str, goal| {
        let options = match options.contains("--rw") {
            true => format!("{DURIO_OPTIONS} {options}"),
            false => format!("{DURIO_OPTIONS} {READS} {options}"),
        };
        InstructionCase { label, is_durio: true, options, goal }
    };
    let fio = |label, options: String| {
        let options = format!("{FIO_OPTIONS} {options}");
        InstructionCase { label, is_durio: false, options, goal: None }
    };
    vec![
        durio("durio sync", "--engine sync --depth 1", Some(160.0)),
        fio("fio psync", "--ioengine=psync --iodepth=1".to_owned()),
        durio("durio sync, writes", &format!("{WRITES} --engine sync --depth 1"), None),
        fio(
            "fio psync, writes, refill_buffers",
            "--rw=randwrite --refill_buffers=1 --ioengine=psync --iodepth=1".to_owned(),
        ),
        durio("durio uring, depth 32, default batch", "--engine uring --depth 32", Some(265.0)),
        durio("durio uring, depth 32, batch 1", "--engine uring --depth 32 --batch 1", None),
        durio(
            "durio uring, depth 32, batch 32",
            "--engine uring --depth 32 --batch 32",
            Some(215.0),
        ),
        fio("fio io_uring, depth 32, defaults", FIO_URING.to_owned()),
        fio("fio io_uring, depth 32, hand-tuned", format!("{FIO_URING} {FIO_BATCH}")),
        durio("durio aio, depth 32, default batch", "--engine aio --depth 32", None),
        fio("fio libaio, depth 32, defaults", "--ioengine=libaio --iodepth=32".to_owned()),
    ]
}

pub(super) fn run(interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let session = BenchSession::begin(interrupt)?;
    machine::print("User instructions and system calls per I/O, /dev/zero, 4 KiB", &session);
    println!(
        "- method: long runs less short runs of {SHORT} I/Os; under callgrind {APART_DURIO} I/Os \
         longer (fio {APART_FIO}), twice; under strace {APART_CALLS}"
    );
    let mut counted = Vec::new();
    for case in cases() {
        eprintln!("{}", case.label);
        let count = count(&case, &session)?;
        counted.push((case, count));
    }
    print(&counted);
    let goals: Vec<_> = counted.iter().filter_map(|(case, count)| goal(case, count)).collect();
    figures::print_goals(&goals);
    Ok(goals)
}

fn count(case: &InstructionCase, session: &BenchSession) -> Result<CountsPerIo> {
    let apart = if case.is_durio { APART_DURIO } else { APART_FIO };
    let repeat = || -> Result<f64> {
        let few = instructions(case, session, SHORT)?;
        Ok((instructions(case, session, SHORT + apart)? - few) / f64::from(apart))
    };
    let instructions = [repeat()?, repeat()?];
    let few = calls(case, session, SHORT)?;
    let many = calls(case, session, SHORT + APART_CALLS)?;
    let calls = per_operation(&few, &many, f64::from(APART_CALLS));
    Ok(CountsPerIo { instructions, calls })
}

fn instructions(case: &InstructionCase, session: &BenchSession, operations: u32) -> Result<f64> {
    let words = under_callgrind(command(case, session, operations));
    let printed = session.run(&words, Priority::Plain)?;
    verify(case, &printed.stdout, operations)?;
    callgrind_count(&printed.stderr)
}

fn calls(case: &InstructionCase, session: &BenchSession, operations: u32) -> Result<CallCounts> {
    let file = &session.scratch().join("calls");
    let words = under_strace(command(case, session, operations), file);
    verify(case, &session.run(&words, Priority::Plain)?.stdout, operations)?;
    Ok(parse_calls(&fs::read_to_string(file).context("strace wrote nothing")?))
}

fn command(case: &InstructionCase, session: &BenchSession, operations: u32) -> Vec<OsString> {
    let target = Path::new("/dev/zero");
    let options = &case.options;
    match case.is_durio {
        true => session.durio().run(target, &format!("{options} --ops {operations}")),
        false => fio::command(target, &format!("{options} --number_ios={operations}")),
    }
}

/// Checks that both programs did the requested work.
fn verify(case: &InstructionCase, stdout: &str, operations: u32) -> Result<()> {
    let measured = if case.is_durio { durio::parse(stdout) } else { fio::parse(stdout) }?;
    let done = measured.accesses;
    ensure!(done == f64::from(operations), "{}: {done} I/Os, not {operations}", case.label);
    Ok(())
}

fn print(counted: &[(InstructionCase, CountsPerIo)]) {
    let rows = counted.iter().map(|(case, count)| {
        let [first, second] = count.instructions;
        let calls = count.calls.iter().map(|(name, calls)| format!("{name} {calls:.3}"));
        [
            case.label.to_owned(),
            format!("{first:.1}"),
            format!("{second:.1}"),
            format!("{:.2} %", count.scatter() * 100.0),
            calls.collect::<Vec<_>>().join(", "),
        ]
    });
    println!();
    figures::print_table(
        &["", "instructions per I/O", "again", "apart", "system calls per I/O"],
        rows,
    );
    for (case, count) in counted.iter().filter(|(_, count)| count.scatter() > REPEATABLE) {
        println!("{}: repeats are {:.1} % apart", case.label, count.scatter() * 100.0);
    }
}

fn goal(case: &InstructionCase, count: &CountsPerIo) -> Option<BenchGoal> {
    let what = format!("user instructions per I/O: {}", case.label);
    Some(BenchGoal::at_most(what, count.worst(), case.goal?, 1, ""))
}

pub(super) type CallCounts = BTreeMap<String, f64>;

/// Below this, a difference in calls per I/O is the start's, not an I/O's.
const NOTABLE: f64 = 0.002;

/// The words that count the calls of `command` into a file.
pub(super) fn under_strace(command: Vec<OsString>, file: &Path) -> Vec<OsString> {
    // -f: durio's jobs are threads, and so are fio's here.
    let strace = ["strace", "-f", "-c", "-o"].into_iter().map(OsString::from);
    strace.chain([file.into()]).chain(command).collect()
}

/// Reads the table of `strace -c`: share, seconds, µs per call, calls, errors if any, name.
pub(super) fn parse_calls(text: &str) -> CallCounts {
    text.lines()
        .filter_map(|line| {
            let columns: Vec<_> = line.split_whitespace().collect();
            let name = *columns.last()?;
            let calls = columns.get(3)?.parse().ok()?;
            (name != "total").then(|| (name.to_owned(), calls))
        })
        .collect()
}

/// The calls per I/O of `many` beyond `few`, `operations` I/Os apart; the frequent ones only.
pub(super) fn per_operation(few: &CallCounts, many: &CallCounts, operations: f64) -> CallCounts {
    many.iter()
        .map(|(name, calls)| {
            let start = few.get(name).copied().unwrap_or_default();
            (name.clone(), (calls - start) / operations)
        })
        .filter(|(_, calls)| calls.abs() >= NOTABLE)
        .collect()
}

/// The words that count the instructions of `command`.
pub(super) fn under_callgrind(command: Vec<OsString>) -> Vec<OsString> {
    // Only the sum is read; a profile per run would be left in the current folder.
    let callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
    callgrind.into_iter().map(OsString::from).chain(command).collect()
}

/// Reads the count from valgrind's stderr: `==123== Collected : 12345`.
pub(super) fn callgrind_count(text: &str) -> Result<f64> {
    text.lines()
        .filter_map(|line| line.split_once("Collected :"))
        .find_map(|(_, count)| count.trim().parse().ok())
        .context("callgrind printed no count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_repeat_decides() {
        let case = cases().swap_remove(0);
        let counted = CountsPerIo { instructions: [199.0, 201.0], calls: CallCounts::new() };
        assert!(!goal(&case, &counted).expect("sync has a goal").holds);
        assert!(counted.scatter() > REPEATABLE);
    }

    #[test]
    fn goals_are_those_of_the_default_batch_and_of_sync() {
        let goals: Vec<_> = cases().iter().filter_map(|case| case.goal).collect();
        assert_eq!(goals, [160.0, 265.0, 215.0]);
    }

    const FEW: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ------------------
 65.26    0.087823       10977         8         1 futex
 33.31    0.044826          17      2500           io_uring_enter
------ ----------- ----------- --------- --------- ------------------
100.00    0.134567          45      2508         1 total
";

    #[test]
    fn calls_are_the_fourth_column_and_the_total_is_none() {
        let calls = parse_calls(FEW);
        assert_eq!(calls.get("io_uring_enter"), Some(&2500.0));
        assert_eq!(calls.get("futex"), Some(&8.0));
        assert_eq!(calls.len(), 2);
    }

    #[test]
    fn what_the_start_does_cancels() {
        let many = parse_calls(&FEW.replace("2500", "7500").replace("  8  ", "  9  "));
        let calls = per_operation(&parse_calls(FEW), &many, 20_000.0);
        assert_eq!(calls, CallCounts::from([("io_uring_enter".to_owned(), 0.25)]));
    }

    #[test]
    fn the_count_is_found_among_the_other_lines() {
        let text = "==7== Events    : Ir\n==7== Collected : 12935461\n==7== \n\
                    ==7== I   refs:      12,935,461\n";
        assert_eq!(callgrind_count(text).expect("there is a count"), 12_935_461.0);
        assert!(callgrind_count("==7== Events    : Ir\n").is_err());
    }
}
