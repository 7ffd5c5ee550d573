//! Runs a plan: targets are prepared, steps run one after the other, and events report it all.
//!
//! Takes a [`durio_plan::Plan`], a journal, the devices to watch and a stop flag. Events into an
//! [`EventSink`] are the only channel out. Nothing is printed or derived from other numbers here,
//! and the measured loop does not allocate.
//!
//! ```text
//!   run ── prepare (targets)
//!    └── step ── job 0 … job n   measured loop: stream → engine → recorder
//!          │        │ interval buffers, swapped
//!          └── collector          merges intervals, emits events
//! ```
//!
//! # How a campaign runs
//!
//! A plan's steps are grouped in sections (preconditioning, single steps, ladders, maps). A step
//! has one load or several that run side by side (`beside`); a load is a workload by an engine over
//! one target or several. The place of a load among those of its step is the stream in the record.
//!
//! `step_schedule.rs` says which step comes next. While a step runs, the jobs of the likely next
//! one are already made ready and wait at their barrier (`step.rs`, `PreparedStep`), so that next
//! to no time is idle between preconditioning and measurement; the idle time is measured and
//! recorded (`idle_before_ns`).
//!
//! A section can be run in rounds, until a steady state is reached or a search has found its rate.
//! The runner derives no number, so it asks its sink after each round (`EventSink::round_ended`);
//! the command line hands the question to the analyser, which has seen the events (`steering.rs` of
//! durio-analyse). The decision is an event too. A sink also says when a measured step starts
//! (`EventSink::step_ready`, `start.rs`), so that steps of several processes can start together; the
//! jobs wait at their barrier until then. Those are the places where something flows back, and it is
//! a decision, not data.
//!
//! An interrupted campaign continues in its own folder: finished steps are found from the events
//! (`resume.rs` of durio-record, `campaign.rs` of durio-bench); steps that brought the targets into
//! their state are run again.
//!
//! # How a step runs
//!
//! `step.rs` adapts the step to what the target and the kernel allow, and says so in the record
//! (`fallbacks`); nothing falls back silently. Each job is a thread that builds its engine itself
//! (a ring belongs to its thread), reports that it is ready, and starts with all others
//! (`job_input.rs`).
//!
//! The measured loop (`measured_loop.rs`) is generic over the engine, and through it over the
//! clock: stream → engine → recorder. It allocates nothing (a test counts), prints nothing and
//! waits for nothing but the engine. A place in the queue is refilled as it is reaped and starts
//! with the completion's clock value, or with the engine's last look if the completion waited to be
//! given; the place was idle in between, which is counted and in no latency. At most `batch`
//! completions are taken, and refilled, per submission. Plain workloads (one block size, no syncs,
//! no passes) have a copy of the loop without the questions that others need; operations that were
//! started, submitted and seen together are recorded at once.
//!
//! | part of `measured_loop/` | task |
//! |---|---|
//! | `closed.rs` | the loop of an engine that does one operation at a time, without a queue; the loop that lets its queue drain |
//! | `open.rs` | the open loop: a seeded schedule says when operations should start |
//! | `group_commit.rs` | the loop of a log with virtual committers |
//! | `accounting.rs` | the number in flight over time, on the reference clock: the other side of Little's law; the outcomes of arrivals and of the job |
//! | `alike.rs` | operations that were started, submitted and seen together, recorded at once |
//! | `syncs.rs` | what surrounds an access: the data of writes, made before they start (docs/design/0010), syncs, called or linked, and the begin of a pass |
//!
//! Every exchange with an engine asks the kernel for completions, also one that has some left over,
//! and stamps all that this look shows, however few of them it gives (docs/design/0002). An
//! asynchronous engine also notes the longest time between two looks while something was in flight
//! (`LookGap` of durio-block); the loop takes it with `take_unwatched` at the end of each
//! interval.
//!
//! In an open loop service latency begins with the real start, response latency with the intended
//! one. The outcomes of arrivals are counted once the ramp is over (`measured_loop/accounting.rs`): how many were due
//! and started, and the generator's lag, over arrivals that found a free place. The window is as
//! long as was asked for, whenever the last operation completed, so the rate does not depend on the
//! last arrival.
//!
//! Where the intervals of a step lie is said once, in nanoseconds (`grid.rs`): jobs follow that
//! grid on their engine's clock, the collector by number. Latencies go into buffers that are
//! exchanged for empty ones at each interval; the collector merges them on the coordinator's thread
//! and emits an interval when no job can add to it any more.
//!
//! A log with group commit has a loop separate from the measured one
//! (`measured_loop/group_commit.rs` for virtual committers, `committer_threads/` for a thread
//! each), with the same recorder, bounds and accounting; docs/design/0007 has the reason.
//!
//! A step that the plan lets be declined (`step/effective_load.rs`) is recorded with the reason when the kernel
//! or the target refuses it, and the run continues; an error of the storage ends the run all the
//! same.
//!
//! A thread that only ticks reports when durio itself did not run (`counters.rs`): stopped, or
//! without a processor. Such a time is recorded, and no warning blames the storage for it.
//!
//! Three kinds of steps give no results and are done by the coordinator alone. One makes a few
//! commits while the kernel traces the requests to the devices (`trace_step.rs`): in a private
//! instance of tracefs, which goes with the step, or with the next run or `stack clean` if this one
//! was killed. One makes the same sync calls through the C library and by the kernel's own system
//! calls, and counts the flushes (`sync_probe.rs`). The third follows a few hundred operations
//! through the kernel, one at a time (`trace_step/path`): system calls, switches and block events
//! on one clock (the time-stamp counter where it can be trusted, so that a nanosecond is seen), cut
//! into stretches that together are the whole; as many operations are made without tracing, so that
//! its cost is known. Requests that other programs queue to the same devices are left out; those of
//! kernel threads are not, because they send a journal's writes.
//!
//! # Other processes
//!
//! `capture.rs` counts what a running database does to its storage, and `why.rs` keeps what the
//! kernel did around its slow durable writes. Both trace by instances of their own
//! (`trace_files.rs`), look at the same kinds of targets, and measure what tracing costs these
//! (`watched_processes.rs`).

mod capture;
mod collector;
mod committer_threads;
mod conditions;
mod counters;
mod error;
mod fio_step;
mod grid;
mod job;
mod job_input;
mod layout;
mod log;
mod measured_loop;
mod memory;
mod recorder;
mod replay;
mod session;
mod start;
mod step;
mod step_schedule;
mod sync_probe;
mod trace_files;
mod trace_step;
mod tracefs;
mod unmeasured;
mod watched_processes;
mod why;

pub use capture::{CaptureWish, capture};
pub use durio_command::StopFlag;
pub use error::{RunError, RunErrorKind};
pub use job::Processors;
pub use memory::{large_step, memory_of};
pub use replay::{Replay, ReplayProgress, ReplayWish, replay};
pub use session::{Resume, RunContext, run};
pub use start::{GateOrder, StepStart};
pub use trace_files::remove_dead_captures;
pub use trace_step::probe_tracing;
pub use tracefs::{remove_dead_trace_instances, trace_instance_name};
pub use watched_processes::{CaptureTarget, monotonic};
pub use why::{
    BegunWatch, CountedTimes, RecordedTrace, SlowLimit, WhyWish, begin_slow_watch,
    watch_slow_calls, window_text,
};

use durio_base::{Bytes, Nanos};
use durio_plan::Step;
use durio_record::{Event, RoundDecision};

/// How far a file is laid out; for the terminal, not for the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutProgress {
    /// Index of the target in the plan.
    pub target: usize,
    pub done: Bytes,
    pub total: Bytes,
}

/// Takes the events of a run.
pub trait EventSink {
    /// Takes an event that happened `at` after the run's begin.
    ///
    /// # Errors
    /// If the event cannot be kept: then the run ends, because a run without a record is worth
    /// nothing.
    fn event(
        &mut self,
        at: Nanos,
        event: Event,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// Takes a sign of life during layout.
    fn layout_progress(&mut self, _progress: LayoutProgress) {}

    /// Says when a measured step starts whose jobs wait for that, the files laid out; it may wait
    /// itself. By default, at once.
    fn step_ready(&mut self, _step: &Step, _round: u32) -> StepStart {
        StepStart::Now
    }

    /// Decides what follows `round` of `section`, whose events it has. The runner itself derives no
    /// number, so it asks. By default, one round is enough.
    fn round_ended(&mut self, _section: u32, _round: u32) -> RoundDecision {
        RoundDecision::Reached
    }

    /// The rate with which a search begins, where the plan has a step before it that shows the
    /// highest possible rate. Without an answer it is the plan's.
    fn first_rate(&mut self, _section: u32) -> Option<f64> {
        None
    }
}
