//! Which operations a job issues, in which order: definitions and their seeded streams.
//!
//! A [`Workload`] (plain data), a [`Region`] of the target and a seed make a [`Stream`] of
//! [`Access`]es, the same on every machine and version. A [`BlockFiller`] makes the bytes that they
//! write.

mod arrivals;
mod block_filler;
mod blocks;
mod catalogue;
mod contents;
mod definition;
mod file_order;
mod group_commit;
mod permutation;
mod skew;
mod software;
mod stream;
mod sync;
mod touched;
mod varied;

pub use arrivals::{ArrivalSchedule, Arrivals};
pub use block_filler::BlockFiller;
pub use blocks::BlockShare;
pub use catalogue::{WorkloadFile, check_workloads, self_cost_workload};
pub use contents::{Contents, Renewal};
pub use definition::{
    AtEnd, CacheMode, Coverage, DefinitionError, JumpShares, Pattern, PerMille, Region, RegionRule,
    Workload,
};
pub use file_order::{FileChoice, FileOrder};
pub use group_commit::{CommitterThreads, GroupCommit};
pub use skew::{ByteZone, Skew, Zone};
pub use software::{ClientThreads, LogWriter, Software};
pub use stream::{Access, AccessKind, Stream, job_seed};
pub use sync::{SyncMethod, SyncPolicy};
