//! The arguments of group commit: committers that share a log.

use clap::Args;
use durio_units::{Bytes, Nanos};
use durio_workload::{CommitterThreads, GroupCommit};

use crate::values;

/// How committers share a log; flattened into the options of a job.
#[derive(Debug, Args)]
pub(crate) struct Committing {
    /// Each job is a log to which so many committers hand records of --bs; a write is a batch
    ///
    /// Records that wait when the log is free are written together and made durable by one --sync;
    /// a commit is acknowledged when that has returned. With --rate, records arrive at that rate.
    #[arg(long, value_name = "N", help_heading = "Group commit",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) committers: Option<u32>,

    /// A thread for each committer, so that the cost of waking them is in the latency
    #[arg(long, requires = "committers", help_heading = "Group commit")]
    pub(crate) committer_threads: bool,

    /// How long a leader waits for more records before it writes (PostgreSQL's commit_delay)
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::nanos,
          requires = "committers", help_heading = "Group commit")]
    pub(crate) commit_delay: Nanos,

    /// It waits only if so many other committers are at work (PostgreSQL's commit_siblings)
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "committers",
        help_heading = "Group commit"
    )]
    pub(crate) commit_siblings: u32,

    /// The most bytes of records in a batch
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = values::bytes,
          requires = "committers", help_heading = "Group commit")]
    pub(crate) batch_max: Bytes,

    /// Batches are filled up to a multiple of this; 0 for not at all
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = values::bytes,
          requires = "committers", help_heading = "Group commit")]
    pub(crate) pad_to: Bytes,

    /// Copy records that arrive during a flush only when it has returned
    #[arg(long, requires = "committers", help_heading = "Group commit")]
    pub(crate) no_double_buffer: bool,
}

impl Committing {
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
