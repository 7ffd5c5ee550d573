//! Which operations a job issues, in which order: definitions and their seeded streams.
//!
//! In: a [`Workload`] (plain data), a [`Region`] of the target and a seed.
//! Out: a [`Stream`] of [`Access`]es; the same definition, region and seed give the same accesses
//! on every machine and version.
//! Not here: I/O, clocks, buffers, threads.

mod catalogue;
mod definition;
mod stream;

pub use catalogue::{Files, check_workloads, self_cost_workload};
pub use definition::{
    AtEnd, CacheMode, DefinitionError, Pattern, PerMille, Region, RegionRule, SyncMethod,
    SyncPolicy, Workload,
};
pub use stream::{Access, AccessKind, Stream, job_seed};
