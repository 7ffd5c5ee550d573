//! Options that several commands have: measuring, output, one job, a spec. The doc comments are the
//! help texts.

use std::path::PathBuf;

use clap::Args;
use durio_base::{Bytes, Nanos};
use durio_bench::{CampaignScale, RunOptions, StackChoice};
use durio_command::Permission;
use durio_plan::ClockChoice;
use durio_report::Format;
use durio_spec::written;
use durio_workload::{CommitterThreads, GroupCommit, PerMille, SyncMethod};

use crate::exit_code::TABLE;
use crate::values::{self, EngineChoice, ProcessorList, ReportFile};

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

    /// Do not ask for confirmation before taking over 10 minutes or writing over 16 GiB
    #[arg(long, help_heading = "Safety")]
    pub(crate) yes: bool,

    /// Name of the run, for durio report, compare and others (durio fio: fio's own option)
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

    /// Seed of all random choices [default: random, saved in the record]
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

// No doc comment, which would be taken for a command's.
#[derive(Debug, Args)]
pub(crate) struct OwnCommitArguments {
    /// Record why the 20 slowest commits were slow while measuring (needs root and tracefs)
    ///
    /// As durio why does for a running database: the report shows the causes, and with --verbose or
    /// on a page the timeline of each commit. Recording costs some of the rate, and the report and
    /// durio compare say so. Operations through io_uring are counted, not followed.
    #[arg(long, help_heading = "Method")]
    pub(crate) why: bool,
}

impl OwnCommitArguments {
    /// How many of the slowest commits are explained, if any.
    pub(crate) fn explained(&self) -> Option<usize> {
        self.why.then_some(20)
    }
}

// No doc comment, which would be taken for a command's.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArguments {
    /// Output format: text, json, html, markdown, csv, openmetrics, junit or fio-json [default: text;
    /// durio fio: fio's own]
    // Without it `durio fio` prints what fio would, so there is no default format.
    #[arg(long, value_name = "FORMAT", value_parser = values::format, conflicts_with = "json")]
    pub(crate) format: Option<Format>,

    /// The same as --format json
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the report to this new file, in the format of its ending: .txt, .json, .html, .md, .csv,
    /// .prom or .xml, which is JUnit's (durio fio: -o alone; --output is fio's)
    #[arg(long = "output", short = 'o', value_name = "FILE", value_parser = values::report_file(),
          value_hint = clap::ValueHint::FilePath)]
    pub(crate) report_file: Option<ReportFile>,

    /// Show details in text and Markdown: layers, method, evidence
    #[arg(long)]
    pub(crate) verbose: bool,
}

impl OutputArguments {
    pub(crate) fn format(self) -> Format {
        self.named().unwrap_or(Format::Text)
    }

    /// The format, if one was named.
    pub(crate) fn named(self) -> Option<Format> {
        let format = self.format.or_else(|| self.json.then_some(Format::Json));
        format.or_else(|| self.report_file.map(|file| file.format))
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
    /// fio's names psync, io_uring and libaio mean sync, uring and aio. With fio, the installed fio
    /// runs the job and durio reports its results; fio:libaio selects the ioengine [default: psync
    /// for depth 1, else io_uring].
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
    /// scheduled start. Give enough --depth or --jobs for the expected backlog.
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

    /// Warm-up time, not part of the results
    #[arg(long, value_name = "TIME", default_value = "0s", help_heading = "How long")]
    pub(crate) ramp: Nanos,

    /// Length of recorded intervals, which durio report --intervals lists [default: a fiftieth of the
    /// duration]
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

/// How committers share a log; flattened into the options of a job.
#[derive(Debug, Args)]
#[command(next_help_heading = "Group commit")]
pub(crate) struct CommittingArguments {
    /// Make each job a log that this many committers hand records of --bs to; a write is a batch
    ///
    /// Records that wait when the log becomes free are written together and made durable by one
    /// --sync; their commits are acknowledged when it returns. With --rate, records arrive at that
    /// rate.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) committers: Option<u32>,

    /// Run each committer as a thread, so that waking it is part of the latency
    #[arg(long, requires = "committers")]
    pub(crate) committer_threads: bool,

    /// Time a leader waits for more records before it writes (PostgreSQL's commit_delay)
    #[arg(long, value_name = "TIME", default_value = "0s", requires = "committers")]
    pub(crate) commit_delay: Nanos,

    /// Wait only if at least this many other committers are active (PostgreSQL's commit_siblings)
    #[arg(long, value_name = "N", default_value_t = 0, requires = "committers")]
    pub(crate) commit_siblings: u32,

    /// Maximum bytes of records in a batch
    #[arg(long, value_name = "SIZE", default_value = "1MiB", requires = "committers")]
    pub(crate) batch_max: Bytes,

    /// Pad batches to a multiple of this; 0 for no padding
    #[arg(long, value_name = "SIZE", default_value = "4KiB", requires = "committers")]
    pub(crate) pad_to: Bytes,

    /// Copy records that arrive during a flush only after it returns
    #[arg(long, requires = "committers")]
    pub(crate) no_double_buffer: bool,
}

impl CommittingArguments {
    /// The policy; none without committers.
    pub(crate) fn policy(&self) -> Option<GroupCommit> {
        let threads = match self.committer_threads {
            true => CommitterThreads::OneEach,
            false => CommitterThreads::Multiplexed,
        };
        Some(GroupCommit {
            threads,
            delay: self.commit_delay,
            siblings: self.commit_siblings,
            batch_max: self.batch_max,
            pad_to: self.pad_to,
            double_buffered: !self.no_double_buffer,
            ..GroupCommit::of(self.committers?)
        })
    }
}

/// Run one job given on the command line, or a campaign given as a spec
///
/// In a directory durio creates a temporary file, unnamed where the filesystem supports that; with
/// --create also at a path that does not exist. Existing files and devices are written only if
/// --destroy names them.
///
///   durio run --target /data --rw randread --bs 4k --engine uring --depth 32 --duration 30s
///   durio run --target /data --rw write --bs 8k --sync fdatasync
///   durio run --target /dev/zero --rw randread --engine uring --depth 32 --ops 1000000
///
/// A campaign is a sequence of steps. `durio plan` lists the built-in campaigns and shows what a
/// spec would do:
///
///   durio run db-ladder --target /data --quick
///   durio run my-spec.toml --target data=/data --target log=/log
///
/// A profile describes what a database does: its log is measured idle, and under the database's own
/// background load (`durio profile list`). --duration sets the time per step, --size the size of
/// the data file:
///
///   durio run profile:postgresql --target /data
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct RunCommand {
    /// Campaign to run instead of one job: a TOML file, a built-in spec, or profile:NAME
    // A spec sets all of this itself. --target, --duration and --size are for profiles and targets
    // too.
    #[arg(value_name = "SPEC", conflicts_with_all = [
        "rw", "bs", "mix", "sync", "sync_every", "share_each", "shared", "rewrite", "buffered", "engine", "jobs",
        "depth", "batch", "rate", "constant", "cpus", "node", "null_latency", "null_fails_at", "ops",
        "ramp", "interval", "no_self_cost", "trace_path", "committers",
    ])]
    pub(crate) spec: Option<PathBuf>,

    /// Start over instead of resuming an interrupted campaign
    #[arg(long, requires = "spec", help_heading = "Campaign")]
    pub(crate) fresh: bool,

    #[command(flatten)]
    pub(crate) expanding: Expanding,

    /// Start measured steps when another process orders it, over this inherited socket
    ///
    /// FD is the number of a descriptor that the parent left open: one end of a connected Unix stream
    /// socket (socketpair). durio lays out files and preconditions, says that the step is ready, and
    /// starts it at the ordered time of CLOCK_MONOTONIC, so that runs of several processes or hosts
    /// start together. If the other end closes, the run is interrupted. docs/formats/gate.md has the
    /// lines.
    #[arg(long, value_name = "FD", value_parser = clap::value_parser!(i32).range(3..),
          help_heading = "Method")]
    pub(crate) gate: Option<i32>,

    #[command(flatten)]
    pub(crate) own: OwnCommitArguments,

    #[command(flatten)]
    pub(crate) job: JobArguments,
}

/// How a spec becomes a plan.
#[derive(Debug, Args)]
pub(crate) struct Expanding {
    /// Multiply durations, ramps and pauses by this (at least 100 ms each); marks results
    /// provisional
    #[arg(long, value_name = "FACTOR", value_parser = values::scale, default_value = "1",
          requires = "spec", help_heading = "Campaign")]
    pub(crate) scale_time: u32,

    /// Multiply file sizes and volumes in bytes by this, rounded to whole MiB
    #[arg(long, value_name = "FACTOR", value_parser = values::scale, default_value = "1",
          requires = "spec", help_heading = "Campaign")]
    pub(crate) scale_size: u32,

    /// Scale a campaign's times and sizes by 0.02; run a profile with 2 s per step and small files
    #[arg(long, requires = "spec", conflicts_with_all = ["duration", "scale_time", "scale_size"],
          help_heading = "Campaign")]
    pub(crate) quick: bool,

    /// Allow sweeps that expand to this many steps; required above 10000
    #[arg(long, value_name = "N", requires = "spec", help_heading = "Campaign")]
    pub(crate) confirm_steps: Option<u64>,
}

// Five hours become some minutes, and 64 GiB a size for which every machine has room.
const QUICK_PER_MILLE: u32 = 20;

impl Expanding {
    /// How much of a spec.
    pub(crate) fn scale(&self) -> CampaignScale {
        let scaled = |given| if self.quick { QUICK_PER_MILLE } else { given };
        CampaignScale {
            time_per_mille: scaled(self.scale_time),
            size_per_mille: scaled(self.scale_size),
            steps_confirmed: self.confirm_steps.unwrap_or(0),
        }
    }

    /// True if more or less of a spec is asked for than it says.
    pub(crate) fn is_scaled(&self) -> bool {
        self.scale_time != 1000 || self.scale_size != 1000 || self.confirm_steps.is_some()
    }
}

/// Show what a campaign would do: every step, its time, and everything it would write
///
/// Writes nothing and measures nothing. Without SPEC it lists the built-in specs.
/// `durio spec show NAME` prints one to start from; --schema prints a JSON schema for editors.
///
///   durio plan
///   durio plan db-ladder --target /data
///   durio plan my-spec.toml --target data=/data --target log=/log --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct PlanArguments {
    /// TOML file, name of a built-in spec, or profile:NAME
    #[arg(value_name = "SPEC")]
    pub(crate) spec: Option<PathBuf>,

    /// [NAME=]PATH: where a target of the spec is; repeat for several targets or paths
    #[arg(long, value_name = "PATH", requires = "spec", help_heading = "What")]
    pub(crate) target: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) expanding: Expanding,

    /// For a profile: time per step
    #[arg(long, value_name = "TIME", requires = "spec", help_heading = "Campaign")]
    pub(crate) duration: Option<Nanos>,

    /// For a profile: size of the data file
    #[arg(long, value_name = "SIZE", requires = "spec", help_heading = "Campaign")]
    pub(crate) size: Option<Bytes>,

    /// As for `durio run`: allow overwriting this file or block device
    #[arg(long, value_name = "PATH", requires = "spec", help_heading = "Safety")]
    pub(crate) destroy: Vec<PathBuf>,

    /// As for `durio run`: allow --destroy on a device that holds a filesystem or a RAID member
    #[arg(long, requires = "destroy", help_heading = "Safety")]
    pub(crate) force_signature: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Print the JSON schema of spec files
    #[arg(long, conflicts_with = "spec", help_heading = "Output")]
    pub(crate) schema: bool,
}

// Selection and scale of a spec; no doc comment, which would be taken for a command's.
#[derive(Debug, Args)]
pub(crate) struct Choosing {
    /// Only this stack, by its full name (can be repeated)
    #[arg(long, value_name = "STACK", requires = "spec", help_heading = "What")]
    pub(crate) only: Vec<String>,

    /// Measure the longest step for about 1 s, on devices of about 320 MiB instead of larger ones if
    /// every stack fits them; marks results provisional
    ///
    /// All times of the spec shrink by one factor, all sizes by another; durio stack plan SPEC --quick
    /// shows them.
    #[arg(long, requires = "spec", conflicts_with_all = ["scale_time", "scale_size"],
          help_heading = "How long, how large")]
    pub(crate) quick: bool,

    /// Multiply durations, ramps and pauses by this (at least 100 ms each); marks results
    /// provisional
    #[arg(long, value_name = "FACTOR", value_parser = values::scale, default_value = "1",
          requires = "spec", help_heading = "How long, how large")]
    pub(crate) scale_time: u32,

    /// Multiply sizes of devices made by durio, files, regions and volumes by this, rounded to
    /// whole MiB
    #[arg(long, value_name = "FACTOR", value_parser = values::scale, default_value = "1",
          requires = "spec", help_heading = "How long, how large")]
    pub(crate) scale_size: u32,

    /// Allow sweeps that expand to this many steps per point; required above 10000
    #[arg(long, value_name = "N", requires = "spec", help_heading = "How long, how large")]
    pub(crate) confirm_steps: Option<u64>,
}

impl Choosing {
    /// The same as a value.
    pub(crate) fn choice(&self) -> StackChoice {
        let scale = CampaignScale {
            time_per_mille: self.scale_time,
            size_per_mille: self.scale_size,
            steps_confirmed: self.confirm_steps.unwrap_or(0),
        };
        StackChoice { only: self.only.clone(), scale, quick: self.quick }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Arguments, DurioCommand};

    fn policy(options: &str) -> Option<GroupCommit> {
        let line = format!("durio run --rw write {options}");
        let arguments = Arguments::try_parse_from(line.split_whitespace()).unwrap();
        match arguments.command {
            DurioCommand::Run(run) => run.job.committing.policy(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_option_of_group_commit_sets_its_own_part_of_the_policy() {
        assert_eq!(policy(""), None);
        let defaults = GroupCommit {
            committers: 7,
            threads: CommitterThreads::Multiplexed,
            delay: Nanos::ZERO,
            siblings: 0,
            batch_max: Bytes::from_mib(1),
            pad_to: Bytes::from_kib(4),
            rewrites_tail: false,
            double_buffered: true,
            software: None,
        };
        assert_eq!(policy("--committers 7"), Some(defaults));
        let given = "--committers 7 --committer-threads --commit-delay 2ms --commit-siblings 3 \
                     --batch-max 64KiB --pad-to 512 --no-double-buffer";
        let expected = GroupCommit {
            threads: CommitterThreads::OneEach,
            delay: Nanos::from_millis(2),
            siblings: 3,
            batch_max: Bytes::from_kib(64),
            pad_to: Bytes::new(512),
            double_buffered: false,
            ..defaults
        };
        assert_eq!(policy(given), Some(expected));
    }
}
