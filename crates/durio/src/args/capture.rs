//! The arguments of `durio capture` and `durio replay`.

use std::path::PathBuf;

use clap::Args;
use durio_base::Nanos;

use super::OutputArguments;
use crate::exit_code::TABLE;
use crate::values;

/// Watch what a running database does to its storage, and make a profile of it
///
/// Traces system calls of its processes and threads (write, pwrite64, writev, pwritev, pwritev2,
/// fsync, fdatasync, sync_file_range) and requests to the devices below: which files it writes, in
/// which sizes, where, who syncs and how often. Needs root, and no more than the kernel's tracefs:
/// where that is not mounted, durio mounts it for itself alone. Nothing stays behind.
///
///   durio capture --pid 812 --for 60s --output mine.toml
///   durio capture --unit postgresql@15-main
///   durio capture --path /var/lib/mysql --html page.html
///   durio run profile:mine.toml --target /mnt/other
///   durio capture --path /mnt/other --against before.json
///   durio capture --strace trace.txt --output mine.toml
///   durio capture --pid 812 --trace mine.trace
///   durio replay mine.trace /mnt/other
///
/// Paths of files and sizes are recorded, contents never. What goes through io_uring is counted,
/// without file and size. Ctrl-C ends it, and shows what was seen. Reads are not captured.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Capture {
    #[command(flatten)]
    pub(crate) whom: Whom,

    /// How long to watch, such as 60s or 10m
    ///
    /// Afterwards durio counts the calls that write without tracing them, for a tenth of that time and 4s
    /// at most: the report says how much tracing slowed the database down.
    #[arg(
        long = "for",
        value_name = "TIME",
        default_value = "60s",
        conflicts_with_all = ["strace", "block_trace"],
        help_heading = "How long"
    )]
    pub(crate) duration: Nanos,

    /// Show an earlier capture beside this one, saved by durio capture --json: that of the database whose
    /// profile runs now, or from before a change
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) against: Option<PathBuf>,

    /// Write a profile of it to this new file; durio run profile:FILE measures it
    #[arg(long = "output", value_name = "FILE", help_heading = "Output")]
    pub(crate) profile: Option<PathBuf>,

    /// Write every write and sync to this new file, with its time; durio replay does them again elsewhere
    ///
    /// Takes 100 bytes of memory for each until the capture ends, and ends it after 20,000,000.
    #[arg(long, value_name = "FILE", conflicts_with = "block_trace", help_heading = "Output")]
    pub(crate) trace: Option<PathBuf>,

    /// Write the report as a page to this new file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

// No doc comment, which would be taken for a command's.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Whom")]
pub(crate) struct Whom {
    /// A process and its children, such as PostgreSQL's postmaster
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,

    /// The processes of a running unit of systemd; without a suffix .service is meant
    #[arg(long, value_name = "NAME")]
    pub(crate) unit: Option<String>,

    /// Those who hold files below this directory open; only such files count
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,

    /// Instead of watching, read a file that strace wrote, on any machine and without root
    ///
    /// It needs times and paths of files: strace -f -ttt -T -y -o FILE -p PID. Devices are not in it.
    /// While strace watches, a database is slower, so rates and times of syncs are those of a slow one.
    #[arg(long, value_name = "FILE")]
    pub(crate) strace: Option<PathBuf>,

    /// Instead of watching, read what blkparse, perf, ftrace, iosnoop or biosnoop wrote of devices
    ///
    /// Each device counts as a file: its write requests are writes, durable with FUA, and its flushes
    /// are syncs. To make one: blktrace -d DEV -w 60 -o - | blkparse -i - > FILE; or perf record -a -c 1
    /// -e block:block_rq_issue -e block:block_rq_requeue -e block:block_rq_complete -- sleep 60, then
    /// perf script > FILE; or perf trace with the same events; or the kernel's own trace of them; or
    /// iosnoop -ts 60 > FILE; or biosnoop > FILE (of bcc, which shows neither flushes nor FUA).
    #[arg(long, value_name = "FILE")]
    pub(crate) block_trace: Option<PathBuf>,
}

/// Do again what a database did, on other storage
///
/// Makes the writes and syncs of a trace (durio capture --trace) once more, in files of its own in the
/// directory: the same sizes, places, syncs and times, by as many threads. An operation begins when it
/// is due, but not before the one before of its thread has ended, nor before those of its file that
/// had ended in the trace when it began. The report says whether this storage keeps up, and has rates
/// and times of syncs beside those of the trace. The files are gone at the end.
///
///   durio capture --unit postgresql@15-main --for 60s --trace mine.trace
///   durio replay mine.trace /mnt/other
///   durio replay mine.trace /mnt/other --speed 2
///
/// Contents are not in a trace: what is written is random. Files have the sizes that they had; only
/// the parts that are written again are laid out. On slower storage a database would join more commits
/// to a sync, and a replay does not: for that, see durio predict.
///
/// Exits with 1 if the storage does not keep up: if the replay, or the beginning of one operation of a
/// hundred, is late by more than 1 % of its time (50 ms at least).
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ReplayArguments {
    /// A trace that durio capture --trace wrote
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,

    /// Directory on the storage in question
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// So many times as fast as the trace; 0.5 is half as fast
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = values::speed)]
    pub(crate) speed: f64,

    /// Do not ask before a replay that takes over 10 minutes
    #[arg(long)]
    pub(crate) yes: bool,

    /// Write the report as a page to this new file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,

    /// No progress on stderr
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
