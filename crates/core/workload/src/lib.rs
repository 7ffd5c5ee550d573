//! Which operations a job issues, in which order: definitions and their seeded streams.
//!
//! A [`Workload`] (plain data), a [`Region`] of the target and a seed make a [`Stream`] of
//! [`Access`]es, the same on every machine and version. A [`BlockFiller`] makes the bytes that they
//! write.

mod arrivals;
mod block_filler;
mod blocks;
mod catalogue;
mod definition;
mod each_once;
mod file_order;
mod group_commit;
mod skew;
mod stream;
mod sync;
mod varied;

pub use arrivals::{ArrivalSchedule, Arrivals};
pub use block_filler::BlockFiller;
pub use blocks::{BlockShare, Contents, Renewal};
pub use catalogue::{WorkloadFile, check_workloads, self_cost_workload};
pub use definition::{
    AtEnd, CacheMode, Coverage, DefinitionError, JumpShares, Pattern, PerMille, Region, RegionRule,
    Workload,
};
pub use file_order::{FileChoice, FileOrder};
pub use group_commit::{ClientThreads, CommitterThreads, GroupCommit, LogWriter, Software};
pub use skew::{ByteZone, Skew, Zone};
pub use stream::{Access, Stream, job_seed};
pub use sync::{SyncMethod, SyncPolicy};
