//! RAID 0, 1, 5, 6 and 10 for small durable writes: a state machine, its simulator, its server.
//!
//! ```text
//!  devices ──► newest ──► assemble ──► StartPlan ──► Engine::start
//!  (superblocks, maps)                             │
//!  submit, completed, tick, ───────────────► Engine ──► EngineOutput: member operations, answers
//!  member_failed, add, scrub
//! ```
//!
//! Takes events and the caller's time; returns operations on members and answers to requests. The
//! engine names buffers and never sees a byte of data, so a server may move data in any way:
//! [`server`] does so over files and devices. Only [`server`] has clocks, threads, files and rings.
//!
//! Invariants (docs/design/0014-raid-engine.md says why):
//!
//! - A write is answered when all copies in sync have it durably. One that failed is faulty in the
//!   superblocks of the others before that.
//! - Requests on the same bytes are carried out in the order in which they came, on all copies.
//! - A region is marked on all copies in sync before a write of it begins, and cleared when no write is
//!   on its way.
//! - After a stop that was not clean, marked regions are read from one copy until they are the same.
//! - At levels 5 and 6 a log holds each parity without the chunk being written, so an unclean stop
//!   loses nothing that a stripe protects.
//!
//! With the feature `simdisk` there are arrays of simulated disks ([`simulated`]), with `simulate` also a
//! simulator ([`sim`]) and faults that it plants.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a geometry and a configuration limit the numbers of roles, parts, pages and regions"
)]

mod assembly;
mod claims;
mod engine;
mod galois;
mod geometry;
pub mod layout;
mod log_entry;
mod map_page;
pub mod server;
#[cfg(any(test, feature = "simulate"))]
pub mod sim;
#[cfg(any(test, feature = "simdisk"))]
pub mod simulated;
mod superblock;

pub use assembly::{AssembleError, AssembleOptions, Behind, FoundDevice, StartPlan, assemble};
pub use claims::{Blocks, Damage, Member, RecognizedMember, create, recognize};
pub use engine::fault::Fault;
pub use engine::output::{
    COPY_BUFFERS, EngineOutput, MemberOp, MemberOpKind, OpBuffer, OpOutcome, OpTag,
    RequestCompletion, Sum,
};
pub use engine::request::{ArrayRequest, RequestError, RequestKind};
pub use engine::{
    Config, Engine, JoinAs, MISMATCHES_KEPT, Newcomer, OrderError, RoleStatus, Status, StopReason,
};
pub use geometry::{BLOCK, BytePlace, CreateError, Geometry, MEMBERS_MAX, SECTOR, Stripe};
pub use superblock::{
    HISTORY_EPOCHS, MemberEntry, MemberState, MemberTable, NAME_BYTES, SPARES_MAX, Superblock,
    SuperblockError, newest,
};

/// Names an array or a member: 16 random bytes from its creator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub [u8; 16]);

/// Limit for epochs, revisions and generations: counting cannot reach it, so adding one never
/// overflows.
pub(crate) const COUNTED_MAX: u64 = 1 << 62;
