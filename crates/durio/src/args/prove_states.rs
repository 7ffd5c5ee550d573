//! The arguments of `durio prove states`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use durio_base::{Bytes, Nanos};
use durio_prove::enumerate::StateName;

use super::OutputArguments;
use crate::exit_code::TABLE;

/// Check every state in which a power cut may leave a disk, from a log of its writes
///
/// The log is one of the kernel's dm-log-writes, or of `durio simdisk serve --record`. Between two
/// boundaries of it (a mark, a flush, a write with FUA) a cut leaves what is durable, and any of the
/// writes that are not: durio makes the states with none, one, two, all but one and all of them.
///
/// CHECK is a command that looks at one state. $DURIO_STATE is the state as a disk image, in a folder
/// that is removed at the end; the check may change it, as a journal's recovery does. $DURIO_MARK is
/// the last mark before the cut: what was acknowledged by then (durio simdisk mark, dmsetup message
/// DEVICE 0 mark NAME). It exits with 0 if the state is good, with 1 if it is not, and with anything
/// else if it cannot tell.
///
///   durio prove states run.log --size 64MiB -- sh check.sh
///   durio prove states run.log --base before.img --limit 5000 --format json -- ./check
///   durio prove states run.log --size 64MiB --only 120:all-7 --save bad.img
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveStates {
    /// The log of writes
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,

    /// The command that checks a state, after --
    #[arg(value_name = "CHECK", last = true, required_unless_present = "save")]
    pub(crate) check: Vec<OsString>,

    /// Size of the disk [default: that of --base]
    #[arg(long, value_name = "SIZE", required_unless_present = "base", help_heading = "The disk")]
    pub(crate) size: Option<Bytes>,

    /// What the disk held before, as an image [default: zeros]
    #[arg(long, value_name = "FILE", help_heading = "The disk")]
    pub(crate) base: Option<PathBuf>,

    /// States at most: of more, each stretch of the log gets fewer
    #[arg(long, value_name = "COUNT", default_value_t = 1000, help_heading = "Which states",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,

    /// Seed of the choice among more
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = "Which states")]
    pub(crate) seed: u64,

    /// Only this state, by the name that a report has for it
    #[arg(long, value_name = "STATE", help_heading = "Which states")]
    pub(crate) only: Option<StateName>,

    /// Save that state as a new file, as the cut leaves it
    #[arg(long, value_name = "FILE", requires = "only", help_heading = "Which states")]
    pub(crate) save: Option<PathBuf>,

    /// Time for each check; one that takes longer is ended, and cannot tell
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) time_limit: Nanos,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
