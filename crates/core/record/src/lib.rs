//! The record: a run's plan, environment and [`Event`]s, in a folder that every report is made
//! from.
//!
//! docs/formats/run-folder.md describes the format, which only this crate knows. durio-analyse
//! derives the results.

pub mod bench;
mod error;
mod event;
pub mod fleet;
mod folder;
mod histogram_log;
mod journal;
mod latency;
mod operation_trace;
pub mod proof;
mod reader;
mod resume;
mod setting_journal;
mod writer;

// A name of an operation belongs to the plan, where its limits are, and to every event.
pub use durio_plan::OperationName;
pub use error::{RecordError, RecordErrorKind, is_of_storage};
pub use event::{
    Accounting, Batches, CommitsTraced, ContextSwitches, Event, Interval, JobEnded,
    LatencyComponents, MemoryMeasured, OperationPath, OperationRecord, Outcome, Pacing, PathDevice,
    PathIo, PathTraced, Phase, ProbedCalls, ProcessGap, RoundDecision, RoundEnded, RunEnded,
    RunResumed, StepDeclined, StepEnded, StepGated, StepStarted, StoppedBy, StreamStarted,
    SyncCaller, SyncCallsProbed, TargetPreparation, TargetPrepared, TimedEvent, TracedRequest,
    TracedSequence, Warning,
};
pub use folder::{
    Environment, FolderManifest, FolderName, Manifest, ManifestFolder, RUN_FOLDER_SCHEMA,
    StateFolder, StatePart, file_names,
};
pub use histogram_log::{PayloadReader, payload_text};
pub use journal::{Journal, Leftover, Leftovers, MadeFile, remove_leftovers};
pub use latency::{Exact, LATENCY_NS_MAX, Latency, SIGNIFICANT_DIGITS, SparseHistogram};
pub use operation_trace::{
    OPERATION_TRACE_SCHEMA, OPERATIONS_MAX, OperationTrace, ReplayedOperation, TracedOperation,
};
pub use reader::{EventReader, RunFolder};
pub use resume::{ResumePoint, resume_point};
pub use setting_journal::{ChangedSetting, SettingJournal, restore_left_settings};
pub use writer::RecordWriter;
