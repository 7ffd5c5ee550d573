//! The arguments: text that is checked as text. Nothing here touches the system.
//!
//! The doc comments are the help texts; man pages and completions come from the same definitions.

mod advise;
mod campaign;
mod capture;
mod config;
mod doctor;
mod durable;
mod explain;
mod fio;
mod group_commit;
mod lab;
mod output;
mod predict;
mod profile;
mod prove;
mod prove_exec;
mod prove_plan;
mod prove_states;
mod raid;
mod runs;
mod simdisk;
mod stack;
mod watch;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use durio_base::{Bytes, Nanos};
use durio_bench::{Permission, RunOptions};
use durio_judge::compare::CompareSettings;
use durio_plan::{ClockChoice, Goal, Threshold};
use durio_spec::written;
use durio_workload::{PerMille, SyncMethod};

use crate::exit_code::TABLE;
use crate::values::{self, EngineChoice, ProcessorList};
pub(crate) use advise::Advise;
pub(crate) use campaign::{Expanding, PlanArguments, RunCommand};
pub(crate) use capture::{Capture, ReplayArguments, Whom};
pub(crate) use config::ConfigCommand;
pub(crate) use doctor::Doctor;
pub(crate) use durable::Durable;
pub(crate) use explain::Explain;
pub(crate) use fio::{FioArguments, with_fio_words_last};
pub(crate) use group_commit::CommittingArguments;
pub(crate) use lab::{InGuest, LabArguments, LabCommand, LabCompare, LabRun};
pub(crate) use output::OutputArguments;
pub(crate) use predict::Predict;
pub(crate) use profile::{Calibrate, ProfileArguments, ProfileCommand};
pub(crate) use prove::{
    ProveArguments, ProveCommand, ProveRun, ProveVerify, ProveWitness, ProveWrite, TokenOptions,
};
pub(crate) use prove_exec::ProveExec;
pub(crate) use prove_plan::ProvePlan;
pub(crate) use prove_states::ProveStates;
pub(crate) use raid::{
    FrontChoice, RaidAdd, RaidArguments, RaidCommand, RaidConsent, RaidCreate, RaidExamine,
    RaidReplace, RaidStart,
};
pub(crate) use runs::{Runs, RunsCommand, RunsHistory};
pub(crate) use simdisk::{Control, Simdisk, SimdiskCommand, SimdiskServe};
pub(crate) use stack::{Choosing, StackArguments, StackBenching, StackCommand, StackPlan};
pub(crate) use watch::WatchArguments;

/// Tells what a storage gives a database: durable commits, reads, their latencies, and what to
/// doubt.
///
/// Begin with `durio check DIR`, DIR being a directory on the storage in question.
#[derive(Debug, Parser)]
#[command(name = "durio", version, after_help = TABLE, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: DurioCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DurioCommand {
    Check(CheckArguments),
    Durable(Box<Durable>),
    Run(Box<RunCommand>),
    Plan(PlanArguments),
    Sweep(Box<SweepArguments>),
    Predict(Predict),
    Profile(ProfileArguments),
    Capture(Capture),
    Replay(ReplayArguments),
    Stack(StackArguments),
    Report(ReportArguments),
    Runs(Runs),
    History(RunsHistory),
    Watch(WatchArguments),
    Config(ConfigCommand),
    Doctor(Doctor),
    Explain(Explain),
    Audit(Audit),
    Advise(Box<Advise>),
    Compare(Compare),
    Fio(FioArguments),
    Prove(ProveArguments),
    Simdisk(Simdisk),
    Raid(RaidArguments),
    Lab(LabArguments),
    /// Be the first process of a guest of the lab
    #[command(hide = true)]
    LabInit,
    Completions(Completions),
    Man(Man),
}

/// Check whether storage is fit for a database
///
/// Lays out its own files in a directory (1 GiB, at most a tenth of the free space) and measures
/// eight workloads, one after the other, in about a minute:
///
///   commit           8 KiB into a recycled log, O_DIRECT, fdatasync each, one writer
///   commit-etcd      2300 bytes, buffered, into a preallocated segment, fdatasync each
///   commit-group-1   256-byte records of one committer, buffered, into a recycled log, batches
///                    filled up to 4 KiB, one fdatasync per batch
///   commit-group-8   the same of 8 committers, who share each sync
///   commit-group-64  the same of 64 committers
///   lookup           random 8 KiB reads, 8 jobs with 4 in flight each, O_DIRECT
///   scan             sequential 256 KiB reads, 2 jobs with 16 in flight each, O_DIRECT
///   mixed            random 8 KiB, 70 % reads, 8 jobs with 4 in flight each, not durable
///
/// Existing files and block devices are only read (lookup, scan) unless --destroy names them. With
/// several paths, such as a filesystem and its device, the report shows them side by side. Only the
/// run folder with the record and the report stays behind.
///
/// In a directory, the commits of 32 clients are predicted besides (durio predict) for each of
/// PostgreSQL, MariaDB, etcd and Redis that runs on this machine, and for what --database names.
#[derive(Debug, Args)]
// Verbatim, for clap would join the lines of the table.
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct CheckArguments {
    /// Directories, files or block devices to check
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,

    /// Same as PATH; durio run and durio sweep call it that
    #[arg(long, value_name = "PATH", conflicts_with = "paths", help_heading = "What")]
    pub(crate) target: Vec<PathBuf>,

    /// Finish in under 15 s, with 256 MiB of data
    #[arg(long, conflicts_with_all = ["thorough", "duration"], help_heading = "How long, how large")]
    pub(crate) quick: bool,

    /// Measure each workload for 300 s; shorter figures are marked provisional
    #[arg(long, conflicts_with = "duration", help_heading = "How long, how large")]
    pub(crate) thorough: bool,

    /// Time per workload, such as 30s or 5m
    #[arg(long, value_name = "TIME", help_heading = "How long, how large")]
    pub(crate) duration: Option<Nanos>,

    /// Size of the data file, such as 4GiB; may exceed a tenth of the free space
    #[arg(long, value_name = "SIZE", help_heading = "How long, how large")]
    pub(crate) size: Option<Bytes>,

    /// Only this workload (can be repeated)
    #[arg(long = "workload", value_name = "NAME", value_parser = values::WORKLOAD,
          hide_possible_values = true, help_heading = "How long, how large")]
    pub(crate) workloads: Vec<String>,

    /// Exit with 1 if the storage is unfit for this database (can be repeated)
    ///
    /// The report has verdicts for all known databases; only those named here set the exit code. A
    /// database without a documented threshold has no effect. Its commits are predicted besides, where
    /// durio knows what its software takes.
    #[arg(long = "database", value_name = "NAME", value_parser = values::DATABASE,
          hide_possible_values = true, help_heading = "Verdict")]
    pub(crate) databases: Vec<String>,

    /// Exit with 1 if this goal is missed, such as 'commit p99 < 5ms' (can be repeated)
    ///
    /// WORKLOAD FIGURE < TIME for a latency (mean, p50, p99, p99.9, max), WORKLOAD rate > N or WORKLOAD
    /// bandwidth > SIZE. Latencies are those of commits or reads; another operation is named between
    /// workload and figure: 'commit sync p99 < 2ms'.
    #[arg(long = "goal", value_name = "GOAL", value_parser = written::check_goal, help_heading = "Verdict")]
    pub(crate) goals: Vec<Threshold>,

    #[command(flatten)]
    pub(crate) common: Measuring,
}

/// Options of every command that measures.
#[derive(Debug, Args)]
pub(crate) struct Measuring {
    /// Allow overwriting this file or block device (exact path or serial number)
    #[arg(long, value_name = "PATH", help_heading = "Safety")]
    pub(crate) destroy: Vec<PathBuf>,

    /// Allow --destroy on an unused device that holds a filesystem or a RAID member
    #[arg(long, requires = "destroy", help_heading = "Safety")]
    pub(crate) force_signature: bool,

    /// Create a target that does not exist, as a file that is removed after the run
    #[arg(long, help_heading = "Safety")]
    pub(crate) create: bool,

    /// Do not ask before what takes over 10 minutes or writes over 16 GiB
    #[arg(long, help_heading = "Safety")]
    pub(crate) yes: bool,

    /// Give the run a name, by which durio report, compare and others find it (durio fio: fio's own)
    #[arg(long, value_name = "NAME", value_parser = durio_bench::checked_label, help_heading = "Output")]
    pub(crate) name: Option<String>,

    /// Create the run folder in this directory instead of the state folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Do not show progress on stderr
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Seed of all random choices [default: a new one each time; the record has it]
    #[arg(long, value_name = "N", help_heading = "Method")]
    pub(crate) seed: Option<u64>,

    /// Clock for all latencies: auto (the TSC if it is reliable), tsc or monotonic
    #[arg(long, value_name = "CLOCK", default_value = "auto", value_parser = values::clock,
          help_heading = "Method")]
    pub(crate) clock: ClockChoice,
}

impl Measuring {
    /// The options of the run.
    pub(crate) fn run_options(&self) -> RunOptions<'_> {
        let histograms = self.output.format().shows_histograms();
        RunOptions {
            out: self.out.as_deref(),
            seed: self.seed,
            histograms,
            label: self.name.as_deref(),
        }
    }

    /// What may be overwritten.
    pub(crate) fn permission(&self) -> Permission<'_> {
        Permission::Named { destroy: &self.destroy, force_signature: self.force_signature }
    }
}

// The options of one job, of `run` and of `sweep`; no doc comment, which would be taken for theirs.
#[derive(Debug, Args)]
pub(crate) struct JobArguments {
    /// Directory, file, block device, or a null device such as /dev/zero
    ///
    /// With a campaign: [NAME=]PATH, where NAME is a target of the spec. Repeat for several
    /// targets, or for several paths of one target.
    #[arg(long, value_name = "PATH", help_heading = "What")]
    pub(crate) target: Vec<PathBuf>,

    /// Access pattern: read, write, rw (sequential), randread, randwrite, randrw
    #[arg(long, value_name = "PATTERN", default_value = "randread", help_heading = "What",
          value_parser = values::access_pattern())]
    pub(crate) rw: String,

    /// Bytes per operation
    #[arg(long, value_name = "SIZE", default_value = "4k", help_heading = "What")]
    pub(crate) bs: Bytes,

    /// Percentage of reads for rw and randrw: 70 or 70/30 [default: 50]
    #[arg(long, value_name = "READS", value_parser = values::read_share, help_heading = "What")]
    pub(crate) mix: Option<PerMille>,

    /// How writes are made durable: none, fsync, fdatasync, o_dsync, o_sync, rwf_dsync, rwf_sync,
    /// sync_file_range (followed by fdatasync), linked_fsync, linked_fdatasync (io_uring: submitted
    /// with the write)
    #[arg(long, value_name = "METHOD", default_value = "none", value_parser = values::sync_method,
          help_heading = "What")]
    pub(crate) sync: SyncMethod,

    /// With fsync or fdatasync: sync after every N writes of a job
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "What")]
    pub(crate) sync_every: u32,

    /// Bytes of the target to access [default: all of an existing target; 1 GiB of a new file]
    #[arg(long, value_name = "SIZE", help_heading = "What")]
    pub(crate) size: Option<Bytes>,

    /// Give each job its own part of the target [default for sequential jobs]
    #[arg(long, conflicts_with = "shared", help_heading = "What")]
    pub(crate) share_each: bool,

    /// Let all jobs access the whole target [default for random jobs]
    #[arg(long, help_heading = "What")]
    pub(crate) shared: bool,

    /// Rewrite the first block over and over, as pg_test_fsync does
    #[arg(long, conflicts_with = "share_each", help_heading = "What")]
    pub(crate) rewrite: bool,

    /// Use the page cache instead of O_DIRECT
    #[arg(long, help_heading = "What")]
    pub(crate) buffered: bool,

    /// Engine: null, sync, uring, aio, mmap or fio [default: sync for depth 1, else uring]
    ///
    /// With fio, the installed fio runs the job and durio reports its figures; fio:libaio selects
    /// the ioengine [default: psync for depth 1, else io_uring].
    #[arg(long, value_name = "ENGINE", value_parser = values::engine, help_heading = "How")]
    pub(crate) engine: Option<EngineChoice>,

    /// Workers, in total
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "How")]
    pub(crate) jobs: u32,

    /// Operations in flight per job
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "How")]
    pub(crate) depth: u32,

    /// Maximum operations per submission
    #[arg(long, value_name = "N", default_value_t = durio_plan::BatchPolicy::DEFAULT.submit_max,
          help_heading = "How")]
    pub(crate) batch: u32,

    /// Start this many accesses per second over all jobs, however slow the storage is (open loop)
    ///
    /// Latency is then reported twice: service, from the actual start, and response, from the
    /// scheduled start. Give enough --depth or --jobs for the backlog that may build up.
    #[arg(long, value_name = "PER_SECOND", value_parser = written::rate, help_heading = "How")]
    pub(crate) rate: Option<f64>,

    /// With --rate: constant instead of Poisson arrivals
    #[arg(long, requires = "rate", help_heading = "How")]
    pub(crate) constant: bool,

    /// CPUs to run on, such as 0,2,4-7, assigned to jobs round-robin
    #[arg(long, value_name = "LIST", value_parser = values::processors, default_value = "",
          hide_default_value = true, help_heading = "How")]
    pub(crate) cpus: ProcessorList,

    /// NUMA node whose CPUs and memory to use [default: that of the target's device]
    #[arg(long, value_name = "N", conflicts_with = "cpus", help_heading = "How")]
    pub(crate) node: Option<u32>,

    #[command(flatten)]
    pub(crate) committing: CommittingArguments,

    /// Latencies of the null engine, repeated in this order: 100us,100us,5ms
    #[arg(long, value_name = "TIMES", value_delimiter = ',', help_heading = "How")]
    pub(crate) null_latency: Vec<Nanos>,

    /// Fail operation N of each job (from 0) with EIO; null engine only
    #[arg(long, value_name = "N", help_heading = "How")]
    pub(crate) null_fails_at: Option<u64>,

    /// Measured time [default: 10s]
    #[arg(long, value_name = "TIME", conflicts_with = "ops", help_heading = "How long")]
    pub(crate) duration: Option<Nanos>,

    /// Total reads and writes, instead of a duration
    #[arg(long, value_name = "N", help_heading = "How long")]
    pub(crate) ops: Option<u64>,

    /// Warm-up time, not part of the figures
    #[arg(long, value_name = "TIME", default_value = "0s", help_heading = "How long")]
    pub(crate) ramp: Nanos,

    /// Length of recorded intervals [default: a fiftieth of the duration]
    #[arg(long, value_name = "TIME", help_heading = "How long")]
    pub(crate) interval: Option<Nanos>,

    /// Do not measure durio's own cost per I/O
    #[arg(long, help_heading = "Method")]
    pub(crate) no_self_cost: bool,

    /// Afterwards, trace some operations through the kernel to show where their time goes (needs
    /// tracefs)
    #[arg(long, help_heading = "Method")]
    pub(crate) trace_path: bool,

    #[command(flatten)]
    pub(crate) common: Measuring,
}

/// Find the highest rate at which a latency goal holds
///
/// Tries one rate after the other in an open loop and looks at the response latency, counted from
/// the scheduled start of each operation. It doubles the rate until the goal fails, narrows the
/// gap, and confirms the result once more. The answer is an interval: the highest rate that met the
/// goal and the lowest that did not.
///
///   durio sweep --goal p99=2ms --target /data --rw randread --bs 8k --engine uring --depth 64
///   durio sweep --goal p99.9=10ms --target /data --rw write --bs 8k --sync fdatasync
///
/// --duration is the time per trial [default: 10s]. All other options are as for `durio run`.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct SweepArguments {
    /// Latency goal: a percentile of the response latency and its limit, such as p99=2ms
    #[arg(long, value_name = "GOAL", value_parser = written::goal, help_heading = "Search")]
    pub(crate) goal: Goal,

    /// First rate to try, in accesses per second [default: half of what a closed loop reaches]
    #[arg(long, value_name = "PER_SECOND", value_parser = written::rate, help_heading = "Search")]
    pub(crate) from: Option<f64>,

    /// Constant instead of Poisson arrivals
    #[arg(long, help_heading = "Search")]
    pub(crate) equally_spaced: bool,

    /// Stop when the interval is this narrow, in percent of the rate
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = values::read_share,
          help_heading = "Search")]
    pub(crate) precision: PerMille,

    /// Maximum number of rates to try
    #[arg(long, value_name = "N", default_value_t = 40, help_heading = "Search")]
    pub(crate) trials: u32,

    #[command(flatten)]
    pub(crate) job: JobArguments,
}

/// Make a report from a saved run
///
/// Works on any machine, without the storage. A run that was killed can be reported too; its report
/// is marked partial.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct ReportArguments {
    /// The run: its folder, its name or the begin of it, last or last~2; several are set side by side
    #[arg(value_name = "RUN", default_value = "last")]
    pub(crate) runs: Vec<PathBuf>,

    /// Open the saved page in a browser, and print its path
    #[arg(long, conflicts_with_all = ["format", "json", "verbose"])]
    pub(crate) open: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Check published figures for what cannot be right
///
/// Reads a run folder of durio or its findings.json, a fio result (--output-format=json or json+),
/// or a CSV table of results.
///
/// A table has the columns source, stack, workload, block_size, jobs, iodepth, durable, read_iops,
/// read_latency_us, write_iops, write_latency_us, bandwidth_mb_s. Leave cells of unknown figures
/// empty. Optional columns: note, engine, direct, paced, runtime, size, memory, target,
/// preconditioned, idle, syncs, sync_latency_us, and for read, write and sync _latency_min_us,
/// _latency_max_us and percentiles such as read_latency_p99.9_us.
///
/// Each finding names the line or step, the reason and the figures behind it; rounding alone never
/// causes one. The exit code is 1 if a figure cannot be right, 3 if the file cannot be read.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct Audit {
    /// The table, result or run folder
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Compare runs: what differs, by how much, and whether chance explains it
///
/// A side is a run folder, a directory of run folders, or a comma-separated list of folders;
/// several runs on one side are repeats. The first side is the baseline:
///
///   durio compare before1,before2,before3,before4,before5 after1,after2,after3,after4,after5
///   durio compare before after --fail-over 5%
///   durio compare --interleave a.toml b.toml --pairs 5 --fail-over 5% -- --target /data
///   durio compare ladder --against 'published:xinnor raid10 randread'
///
/// Steps of the same name and place are compared; other differences between the steps, machines and
/// storage are listed. Steps are not comparable if their kinds of operations differ, or if one
/// ended early, fell back to another cache mode, or drifted by more than 10 % in rate.
///
/// Confidence intervals come from the scatter of the repeats (Welch's, of their logarithms) or, if
/// wider, from blocks within each run. Faster and slower mean by more than --threshold, with a 95 %
/// interval that excludes zero. No difference means that the interval lies within the threshold.
/// Everything else is undecided, such as one run per side, which does not show how much the next
/// run would differ.
///
/// With --fail-over, rate and p99 of every step decide the exit code:
///
///   1  regression: worse by more than that, and no chance explains it (one-sided, Holm's procedure
///      over all figures: 5 % false alarms, however many figures)
///   0  no regression: a loss beyond that is excluded with 95 % confidence, for every figure
///   3  undecided: neither is shown, something is missing or not comparable, or a side has one run
///
/// Measured with --fail-over 5% on recorded runs (docs/benchmarks.md): equal sides end with 1 in 0 to
/// 7 % of 200 comparisons (up to 4 % of 20,000), with 1, 2, 3, 5 or 8 repeats per side. 10 % slower
/// ends with 1 in 98 % with 5 repeats per side and in 73 % with 3, where rates of single runs scatter
/// by 3 %; where they scatter by 20 % or more, nearly all is undecided.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Compare {
    /// Run folders, directories of run folders, or comma-separated lists of folders
    #[arg(value_name = "SIDE", required = true)]
    pub(crate) sides: Vec<PathBuf>,

    /// Exit with 1 if the rate or p99 of any step is worse by more than this, such as 5%
    ///
    /// Exit with 0 only if that is excluded, and with 3 if undecided; see above.
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    pub(crate) fail_over: Option<f64>,

    /// Effects smaller than this do not matter
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = values::percent)]
    pub(crate) threshold: f64,

    /// Also compare steps that ended early, fell back or drifted
    #[arg(long)]
    pub(crate) force: bool,

    /// Seed of the resampling; the same seed gives the same intervals
    #[arg(long, value_name = "N", default_value_t = CompareSettings::SEED_DEFAULT)]
    pub(crate) seed: u64,

    /// Compare the shape of one run's sweeps with published ones that match these words
    ///
    /// Only ratios within a table are compared: how the rate grows with the queue depth.
    #[arg(long, value_name = "published:WORDS",
          conflicts_with_all = ["fail_over", "threshold", "force", "seed"])]
    pub(crate) against: Option<String>,

    /// Take two specs as sides, run them interleaved (A B B A …) and compare the runs
    ///
    /// Interleaved runs see the same neighbours, temperature and drive state. What follows `--`
    /// goes to each `durio run`:
    ///
    ///   durio compare --interleave a.toml b.toml --pairs 5 -- --target /data
    #[arg(long, conflicts_with = "against", verbatim_doc_comment)]
    pub(crate) interleave: bool,

    /// With --interleave: runs of each side
    // Five repeats found a loss of 10 % in 89 % of a model's comparisons (docs/design/0005).
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100),
          requires = "interleave")]
    pub(crate) pairs: u32,

    /// With --interleave: options of `durio run`
    #[arg(last = true, value_name = "OPTION", requires = "interleave")]
    pub(crate) options: Vec<std::ffi::OsString>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// Write the man pages into a directory
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Where; it must exist
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent_and_every_option_has_a_help_text() {
        let mut command = Arguments::command();
        command.build();
        command.clone().debug_assert();
        for command in command.get_subcommands() {
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} {}",
                    command.get_name(),
                    argument.get_id()
                );
            }
        }
    }
}
