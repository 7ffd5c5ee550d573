//! The arguments of group commit: committers that share a log.

use clap::Args;
use durio_base::{Bytes, Nanos};
use durio_workload::{CommitterThreads, GroupCommit};

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
