//! Targets and engines: how operations reach a file or device, and when they were done.
//!
//! ```text
//!                    Engine: Clock + exchange(operations) -> completions
//!        ┌───────────────┬───────────────┬───────────────┬───────────────┐
//!   engines/null    engines/sync    engines/mmap    engines/uring   engines/aio
//!   virtual clock   one at a time   copies          a ring          io_submit
//!   no I/O          (blocking)      (blocking)      (asynchronous)  (asynchronous)
//! ```
//!
//! Takes [`Operation`]s with offset, length, buffer slot and flags, and gives [`Completion`]s with
//! the kernel's result and two time stamps. durio-workload chooses the operations, durio-analyse
//! computes results.
//!
//! [`MemberRing`] is not an engine: it is one ring over the members of an array, where a buffer is
//! on its way to several files.
//!
//! The crate also holds what every crate uses to touch the machine safely: a [`Folder`] that is
//! held by its descriptor, files that are read within a bound ([`read_bounded`]), programs that are
//! asked within a time ([`ask`]).
//!
//! All `unsafe` of durio is in this crate, each with its reason: buffers that the kernel writes
//! while no Rust reference exists, mapped files and the signal of a page that cannot be had, ring
//! submission, the time-stamp counter, libaio's calls, what a device or a filesystem says when it is
//! asked, how the allocator gets large pieces, what a child process does before it becomes a
//! program, and a socket that was inherited.
//!
//! # The guard
//!
//! Nothing that existed before durio is written to without a value that only the guard makes.
//!
//! ```text
//!  path ──► HeldTarget ──► use_of ──► HeldTarget::permit ──► WritePermit ──► opened for writing
//!           one look-up,   durio-      refuses a target in    held until     by each job; fio gets
//!           O_PATH         observe     use or not named       the run ends   /proc/PID/fd/N
//! ```
//!
//! | to write to | the value, and who makes it |
//! |---|---|
//! | a file or device that existed | `WritePermit`, of `HeldTarget::permit` (`core/block/src/guard.rs`); `core/command/src/locate.rs` asks for it by the words of `--destroy`, and for layers that were just built |
//! | a member of a durio array | the same, because of the superblock that is on it; `raid/commands` asks |
//! | a file that durio makes | `NewFile`, of `core/block/src/made_file.rs`: made with O_EXCL, marked, removed on proof |
//! | the devices of a build | `PermittedCommand` and `PermittedWrite`, of `Grounds` (`measure/layers/src/permit.rs`): made by this build, or declared, named and unused. mkfs claims its device itself, so this permit holds the device open without a claim |
//! | what a dead build left | `Proven`, of `measure/layers/src/undo.rs`: the journal's identity, compared once more |
//! | files of a record | `Folder` (`core/block/src/folder.rs`): new or renamed below a held descriptor |
//! | a setting of the kernel | `SettingJournal`: the old value is on disk before |
//!
//! A name is looked up once, in `HeldTarget::open`; all that follows uses the descriptor.
//! docs/what-durio-touches.md says the same for users, and `cargo xtask attack` attacks it: seeded
//! mutations, kills, races, changing devices and hostile names against the built program, with a
//! witness that hashes all other files. Its small scale is a stage of `cargo xtask test`.
//!
//! Reads of others' folders and files are bounded and take only regular files
//! (`core/block/src/open.rs`); programs that are asked something have a time limit and end
//! as a group (`program.rs`); names from others are spelt out where they enter a page, a table, a
//! cell or a line of stderr (`measure/report/src/visible.rs`), while JSON carries them whole.
#![expect(unsafe_code, reason = "the crate that owns the kernel's asynchronous interfaces")]

mod aio_calls;
mod buffers;
mod clock;
mod device_identity;
mod engine;
mod engines;
mod error;
mod folder;
mod guard;
mod inherited;
mod made_file;
mod member_ring;
mod open;
mod program;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
mod ublk;

pub use buffers::{Buffers, lock_memory, map_large_allocations};
pub use clock::{
    Clock, MonotonicClock, Ticks, TscClock, VirtualClock, WATCHED, sleep_until, tsc_is_reliable,
    tsc_is_reliable_by, wait_until,
};
pub use device_identity::{
    CachingPage, DmSegment, DmTable, NvmeIdentity, NvmePowerCounters, caching_page, dm_table,
    loop_backing, nvme_identity, nvme_power_counters, parse_dm_table,
};
pub use durio_base::OperationKind;
pub use engine::{Capabilities, Completion, Engine, EngineFacts, Operation, WriteFlags};
pub use engines::{
    AioEngine, EngineDescriptor, EngineKind, EngineSetup, EngineUser, LookGap, MmapEngine,
    NullAnswers, NullEngine, Ring, SyncEngine, UringEngine,
};
pub use error::{BlockError, ErrorKind};
pub use folder::{Folder, rename_new};
pub use guard::{
    GuardRefusal, HeldTarget, HeldTargets, MEMBER_SIGNATURE, TargetAccess, TargetIdentity,
    TargetType, Usage, WritePermit, WriteReason,
};
pub use inherited::inherited_socket;
pub use made_file::{
    FileMark, LeftFile, NewFile, Removal, create_named, create_unnamed, remove_left,
};
pub use member_ring::{
    LentBuffer, MemberAction, MemberCompletion, MemberOperation, MemberRing, RingWaker,
};
pub use open::{
    Alignment, DirectIo, OpenMode, OpenTarget, direct_io, drop_cached, open_input, open_regular,
    probe_range_sync, probe_write_flags, read_bounded, start_write_back, supports_reallocate,
};
pub use program::{
    ANSWER_LIMIT, ProcessGroup, ProgramAnswer, ask, ask_stoppable, end_with_this_thread,
    lead_process_group,
};
pub use ublk::{
    UBLK_NEEDS, UblkControl, UblkDevice, UblkKind, UblkQueue, UblkRequest, UblkShape, UblkState,
};
