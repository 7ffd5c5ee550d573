//! Targets and engines: how operations reach a file or device, and when they were done.
//!
//! ```text
//!                    Engine: Clock + exchange(operations) -> completions
//!        ┌───────────────┬───────────────┬───────────────┐
//!   engines/null    engines/sync    engines/uring   engines/aio
//!   virtual clock   one at a time   a ring           io_submit
//!   no I/O          (blocking)      (asynchronous)   (asynchronous)
//! ```
//!
//! In: [`Operation`]s with offset, length, buffer slot and flags. Out: [`Completion`]s with the
//! kernel's result and two time stamps.
//! Not here: which operations (durio-workload), figures (durio-analyse), printing.
//!
//! Beside them stands what every crate uses to touch the machine safely: a [`Folder`] that is held by
//! its descriptor, files that are read within a bound ([`read_bounded`]), programs that are asked
//! within a time ([`ask`]).
//!
//! All `unsafe` of durio is in this crate, each with its reason: buffers that the kernel writes
//! while no Rust reference exists, ring submission, the time-stamp counter, libaio's calls, what a
//! device or a filesystem says when it is asked, how the allocator gets large pieces, and what a child
//! process does before it becomes a program.
#![expect(unsafe_code, reason = "the crate that owns the kernel's asynchronous interfaces")]

mod aio_calls;
mod buffers;
mod clock;
#[cfg(any(test, feature = "testkit"))]
pub mod conformance;
mod device_word;
mod engine;
mod engines;
mod error;
mod folder;
mod guard;
mod heap;
mod lease;
mod made_file;
mod open;
mod page_cache;
mod program;
mod regular_file;
mod sync_range;
mod watch;

pub use buffers::Buffers;
pub use clock::{Clock, MonotonicClock, Ticks, TscClock, VirtualClock, tsc_is_reliable};
pub use device_word::{
    DmSegment, DmTable, NvmeWord, ScsiWord, dm_table, loop_backing, nvme_word, parse_dm_table,
    scsi_word,
};
pub use engine::{
    Capabilities, Completion, Engine, EngineFacts, Operation, OperationKind, WriteFlags,
};
pub use engines::{
    AioEngine, EngineDescriptor, EngineKind, EngineSetup, EngineUser, NullEngine, Ring, Script,
    SyncEngine, UringEngine,
};
pub use error::{BlockError, ErrorKind};
pub use folder::{Folder, rename_new};
pub use guard::{
    GuardRefusal, HeldTarget, HeldTargets, TargetAccess, TargetIdentity, TargetType, Usage,
    WritePermit, WriteReason,
};
pub use heap::map_large_allocations;
pub use made_file::{
    FileMark, LeftFile, NewFile, Removal, create_named, create_unnamed, remove_left,
};
pub use open::{Alignment, DirectIo, OpenMode, OpenTarget, direct_io, supports_reallocate};
pub use page_cache::drop_cached;
pub use program::{ANSWER_LIMIT, Answer, ProcessGroup, ask, end_with_this_thread};
pub use regular_file::{open_input, open_regular, read_bounded};
pub use sync_range::{probe_range_sync, probe_write_flags};
