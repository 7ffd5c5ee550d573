//! Targets and engines: how operations reach a file or device, and when they were done.
//!
//! ```text
//!                    Engine: Clock + exchange(operations) -> completions
//!        ┌───────────────┬───────────────┬───────────────┐
//!   engine_null     engine_sync     engine_uring     engine_aio
//!   virtual clock   one at a time   a ring           io_submit
//!   no I/O          (blocking)      (asynchronous)   (asynchronous)
//! ```
//!
//! In: [`Operation`]s with offset, length, buffer slot and flags. Out: [`Completion`]s with the
//! kernel's result and two time stamps.
//! Not here: which operations (durio-workload), figures (durio-analyse), printing.
//!
//! All `unsafe` of durio is in this crate, each with its reason: buffers that the kernel writes
//! while no Rust reference exists, ring submission, the time-stamp counter, libaio's calls, and what
//! a device or a filesystem says when it is asked.
#![expect(unsafe_code, reason = "the crate that owns the kernel's asynchronous interfaces")]

mod aio_calls;
mod buffers;
mod clock;
#[cfg(any(test, feature = "testkit"))]
pub mod conformance;
mod device_word;
mod engine;
mod engine_aio;
mod engine_null;
mod engine_sync;
mod engine_uring;
mod error;
mod made_file;
mod open;
mod page_cache;
mod sync_range;
mod watch;

pub use buffers::Buffers;
pub use clock::{Clock, MonotonicClock, Ticks, TscClock, VirtualClock, tsc_is_reliable};
pub use device_word::{
    DmSegment, DmTable, NvmeWord, ScsiWord, dm_table, nvme_word, parse_dm_table, scsi_word,
};
pub use engine::{
    Capabilities, Completion, Engine, EngineFacts, Operation, OperationKind, WriteFlags,
};
pub use engine_aio::{AioEngine, probe_aio};
pub use engine_null::{NullEngine, Script};
pub use engine_sync::SyncEngine;
pub use engine_uring::{Ring, UringEngine, probe_uring};
pub use error::{BlockError, ErrorKind};
pub use made_file::{
    FileMark, LeftFile, NewFile, Removal, create_named, create_unnamed, remove_left,
};
pub use open::{
    Alignment, DirectIo, OpenMode, OpenTarget, TargetType, direct_io, inspect, open, reopen,
    supports_reallocate,
};
pub use page_cache::drop_cached;
pub use sync_range::{probe_range_sync, probe_write_flags};
