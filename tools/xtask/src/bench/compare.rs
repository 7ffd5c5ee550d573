//! `bench self`: durio next to fio on targets that cost next to nothing.
//!
//! Prints IOPS, CPU time per I/O and both as ratios to fio's defaults, from interleaved rounds;
//! checks the goals. `agree` compares latencies. durio's limits for itself are among
//! the goals: size of the binary, time of `--help`, memory, number in flight.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::figures::{self, BenchGoal, MeasuredTrial, Ratio, median};
use super::machine::{self, Foreign};
use super::session::{self, BenchSession, Interrupt, Priority};
use super::{durio, fio};

/// Options of `bench self`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArguments {
    /// Rounds; ratios are medians over them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..))]
    rounds: u32,

    /// Seconds per trial
    #[arg(long, default_value_t = 1)]
    seconds: u32,
}

const FILE_MEBIBYTES: usize = 256;

/// The program whose command line it is.
#[derive(Debug, Clone, Copy)]
enum ProgramKind {
    Fio,
    Durio,
}

/// One program with its options.
#[derive(Debug)]
struct ProgramRow {
    label: &'static str,
    program: ProgramKind,
    options: &'static str,
}

const fn fio_row(label: &'static str, options: &'static str) -> ProgramRow {
    ProgramRow { label, program: ProgramKind::Fio, options }
}

const fn durio_row(label: &'static str, options: &'static str) -> ProgramRow {
    ProgramRow { label, program: ProgramKind::Durio, options }
}

/// The rows to compare; the first is the baseline.
const URING: [ProgramRow; 5] = [
    fio_row(
        "fio io_uring, defaults, fixedbufs, registerfiles",
        "--ioengine=io_uring --iodepth=32 --fixedbufs=1 --registerfiles=1",
    ),
    fio_row(
        "the same, hand-tuned",
        "--ioengine=io_uring --iodepth=32 --fixedbufs=1 --registerfiles=1 \
         --norandommap=1 --random_generator=tausworthe64 --iodepth_batch_submit=32 \
         --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=32",
    ),
    durio_row("durio uring, default batch", "--engine uring --depth 32"),
    durio_row("durio uring, batch 32", "--engine uring --depth 32 --batch 32"),
    durio_row("durio uring, batch 1", "--engine uring --depth 32 --batch 1"),
];
const SYNC: [ProgramRow; 2] = [
    fio_row("fio psync", "--ioengine=psync --iodepth=1"),
    durio_row("durio sync", "--engine sync --depth 1"),
];
const AIO: [ProgramRow; 2] = [
    fio_row("fio libaio, defaults", "--ioengine=libaio --iodepth=32"),
    durio_row("durio aio, default batch", "--engine aio --depth 32"),
];

/// Places of rows that goals are about.
const TUNED: usize = 1;
const DURIO: usize = 2;
const DURIO_BATCH_32: usize = 3;

/// The file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BenchTarget {
    Null,
    Warm,
}

const GROUPS: [(&str, BenchTarget, &[ProgramRow]); 6] = [
    ("null target, depth 32", BenchTarget::Null, &URING),
    ("null target, depth 1", BenchTarget::Null, &SYNC),
    ("null target, depth 32, aio", BenchTarget::Null, &AIO),
    ("warm file, depth 32", BenchTarget::Warm, &URING),
    ("warm file, depth 1", BenchTarget::Warm, &SYNC),
    ("warm file, depth 32, aio", BenchTarget::Warm, &AIO),
];

/// A group's trials: per row, per round.
struct TrialGroup {
    title: &'static str,
    target: BenchTarget,
    rows: &'static [ProgramRow],
    trials: Vec<Vec<MeasuredTrial>>,
}

/// Runs `bench self`.
pub(super) fn run(arguments: &CompareArguments, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let session = BenchSession::begin(interrupt)?;
    let binary = binary_size(&session)?;
    let file = session::lay_out(session.scratch(), FILE_MEBIBYTES, interrupt)?;
    session::warm(&file)?;
    machine::print("durio beside fio: CPU time per I/O and IOPS", &session);
    println!("- trials: {} rounds, {} s each, interleaved", arguments.rounds, arguments.seconds);

    let mut groups: Vec<_> = GROUPS.map(empty_group).into();
    let mut foreign = Foreign::default();
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        foreign.during(|| one_round(&mut groups, &session, &file, arguments.seconds))?;
    }
    groups.iter().for_each(print_group);
    foreign.print();
    print_fallbacks(&groups);

    let mut goals = speed_goals(&groups);
    goals.push(binary);
    goals.extend(measure(&session)?);
    figures::print_goals(&goals);
    Ok(goals)
}

fn empty_group(
    (title, target, rows): (&'static str, BenchTarget, &'static [ProgramRow]),
) -> TrialGroup {
    TrialGroup { title, target, rows, trials: rows.iter().map(|_| Vec::new()).collect() }
}

fn one_round(
    groups: &mut [TrialGroup],
    session: &BenchSession,
    file: &Path,
    seconds: u32,
) -> Result<()> {
    for group in groups {
        // Every row once per round: slow drift, such as foreign load, affects all alike.
        for (row, trials) in group.rows.iter().zip(&mut group.trials) {
            trials.push(trial(row, group.target, session, file, seconds)?);
        }
    }
    Ok(())
}

fn trial(
    row: &ProgramRow,
    target: BenchTarget,
    session: &BenchSession,
    file: &Path,
    seconds: u32,
) -> Result<MeasuredTrial> {
    let (path, size) = match target {
        BenchTarget::Null => (PathBuf::from("/dev/zero"), "1G".to_owned()),
        BenchTarget::Warm => (file.to_owned(), format!("{FILE_MEBIBYTES}M")),
    };
    let options = row.options;
    let measured = match row.program {
        ProgramKind::Fio => {
            let options = format!(
                "--rw=randread --bs=4k --size={size} --direct=0 --invalidate=0 --fadvise_hint=0 \
                 --time_based --runtime={seconds} {options}"
            );
            fio::parse(&session.run(&fio::command(&path, &options), Priority::Realtime)?.stdout)?
        }
        ProgramKind::Durio => {
            let options = format!(
                "--rw randread --bs 4k --size {size}iB --buffered --duration {seconds}s {options}"
            );
            let words = session.durio().run(&path, &options);
            durio::parse(&session.run(&words, Priority::Realtime)?.stdout)?
        }
    };
    ensure!(measured.accesses > 0.0, "{}: nothing was read", row.label);
    Ok(measured)
}

fn print_group(group: &TrialGroup) {
    let reference = &group.trials[0];
    let rows = group.rows.iter().zip(&group.trials).map(|(row, trials)| {
        [
            row.label.to_owned(),
            cpu_ratio(trials, reference).to_string(),
            Ratio::of(&all_iops(trials), &all_iops(reference)).to_string(),
            format!("{:.3}", median(&all_cpu(trials)) / 1e3),
            format!("{:.0}", median(&all_iops(trials)) / 1e3),
        ]
    });
    println!();
    let header =
        [group.title, "CPU per I/O, ratio (range)", "IOPS, ratio (range)", "CPU µs/IO", "kIOPS"];
    figures::print_table(&header, rows);
}

/// A fallback, such as to unregistered buffers, would invalidate the comparison.
fn print_fallbacks(groups: &[TrialGroup]) {
    let all = groups.iter().flat_map(|group| &group.trials).flatten();
    let mut fallbacks: Vec<_> = all.flat_map(|trial| &trial.fallbacks).collect();
    fallbacks.sort();
    fallbacks.dedup();
    for fallback in fallbacks {
        println!("durio fell back: {fallback}");
    }
}

fn speed_goals(groups: &[TrialGroup]) -> Vec<BenchGoal> {
    let (uring, sync) = (&groups[0].trials, &groups[1].trials);
    let at_most = |what, these: &[MeasuredTrial], those: &[MeasuredTrial], limit| {
        let ratio = cpu_ratio(these, those);
        let mut goal = BenchGoal::at_most(what, ratio.median, limit, 2, "");
        goal.measured = ratio.to_string();
        goal
    };
    let all = groups.iter().flat_map(|group| &group.trials).flatten();
    let deviation = all.filter_map(|trial| trial.deviation).map(f64::abs).fold(0.0, f64::max);
    vec![
        at_most(
            "CPU per I/O, null target: durio uring, default batch / fio defaults",
            &uring[DURIO],
            &uring[0],
            0.5,
        ),
        at_most(
            "CPU per I/O, null target: durio uring, default batch / hand-tuned fio",
            &uring[DURIO],
            &uring[TUNED],
            0.9,
        ),
        at_most(
            "CPU per I/O, null target: durio uring, batch 32 / hand-tuned fio",
            &uring[DURIO_BATCH_32],
            &uring[TUNED],
            0.9,
        ),
        at_most("CPU per I/O, null target: durio sync / fio psync", &sync[1], &sync[0], 0.75),
        BenchGoal::at_most("Little's law: largest deviation, trials above", deviation, 0.02, 6, ""),
    ]
}

fn cpu_ratio(these: &[MeasuredTrial], those: &[MeasuredTrial]) -> Ratio {
    Ratio::of(&all_cpu(these), &all_cpu(those))
}

fn all_cpu(trials: &[MeasuredTrial]) -> Vec<f64> {
    trials.iter().map(|trial| trial.cpu_ns).collect()
}

fn all_iops(trials: &[MeasuredTrial]) -> Vec<f64> {
    trials.iter().map(|trial| trial.iops).collect()
}

const MEBIBYTE: f64 = 1024.0 * 1024.0;
const HELP_CALLS: usize = 20;

/// The size of the release binary.
pub(super) fn binary_size(session: &BenchSession) -> Result<BenchGoal> {
    let bytes = fs::metadata(session.program()).context("no binary")?.len();
    let kibibytes = u32::try_from(bytes / 1024).map_or(f64::INFINITY, f64::from);
    Ok(BenchGoal::at_most("release binary", kibibytes / 1024.0, 8.0, 2, " MiB"))
}

/// Calls `--help`, and checks the folder for files.
pub(super) fn measure(session: &BenchSession) -> Result<Vec<BenchGoal>> {
    let help = help_milliseconds(session)?;
    eprintln!("durio check --quick");
    let folder = session::subfolder(session.scratch(), "checked")?;
    let words = session.durio().check_quick(&folder);
    let check = durio::parse_check(&session.run(&words, Priority::Plain)?.stdout)?;
    // The user determines the buffers: jobs × depth × block size.
    let memory = (check.memory - check.buffers) / MEBIBYTE;
    let in_flight = format!(
        "check --quick: in flight / (jobs × depth), least of {} asynchronous workloads",
        check.asynchronous
    );
    Ok(vec![
        BenchGoal::at_most("--help, median of 20 calls", help, 5.0, 2, " ms"),
        BenchGoal::at_most(
            format!("check --quick: peak memory less {:.0} MiB buffers", check.buffers / MEBIBYTE),
            memory,
            64.0,
            1,
            " MiB",
        ),
        BenchGoal::at_most(
            "check --quick: Little's law, largest deviation",
            check.deviation,
            0.02,
            6,
            "",
        ),
        BenchGoal::at_least(in_flight, check.in_flight, 0.9),
    ])
}

fn help_milliseconds(session: &BenchSession) -> Result<f64> {
    let mut times = Vec::with_capacity(HELP_CALLS);
    for _ in 0..HELP_CALLS {
        session.interrupt().check()?;
        let mut command = Command::new(session.program());
        command.arg("--help").stdin(Stdio::null()).stdout(Stdio::null());
        let begin = Instant::now();
        let status = command.status().context("cannot run durio")?;
        // The first call may read the binary from the disk; the median ignores it.
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        ensure!(status.success(), "durio --help failed");
    }
    Ok(median(&times))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(cpu: [f64; 2]) -> Vec<MeasuredTrial> {
        let trial = |cpu_ns| MeasuredTrial {
            iops: 1e9 / cpu_ns,
            accesses: 1.0,
            cpu_ns,
            operations: Vec::new(),
            deviation: Some(-0.01),
            fallbacks: Vec::new(),
        };
        cpu.map(trial).into()
    }

    #[test]
    fn goals_compare_the_rows_that_they_name() {
        let mut groups: Vec<_> = GROUPS.map(empty_group).into();
        groups[0].trials =
            [[10.0, 10.0], [6.0, 6.0], [5.0, 5.1], [4.0, 4.0], [9.0, 9.0]].map(trials).into();
        groups[1].trials = [[10.0, 20.0], [8.0, 16.0]].map(trials).into();
        let holds: Vec<_> = speed_goals(&groups).iter().map(|goal| goal.holds).collect();
        assert_eq!(holds, [false, true, true, false, true]);
    }

    #[test]
    fn goals_know_the_rows_by_their_place() {
        assert!(URING[TUNED].label.contains("hand-tuned"));
        assert!(URING[DURIO].label.contains("default batch"));
        assert!(URING[DURIO_BATCH_32].label.contains("batch 32"));
    }
}
