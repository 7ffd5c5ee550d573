//! Runs a plan: targets are prepared, steps run one after the other, and what happens goes out as
//! events.
//!
//! In: a [`durio_plan::Plan`], a journal, the devices to watch, a stop flag. Out: events into an
//! [`EventSink`], the only channel out.
//! Not here: output, figures derived from others, allocation in the measured loop.
//!
//! ```text
//!   run ── prepare (targets)
//!    └── step ── job 0 … job n   measured loop: stream → engine → recorder
//!          │        │ interval buffers, swapped
//!          └── collector          merges intervals, emits events
//! ```

mod collector;
mod committer_threads;
mod conditions;
mod counters;
mod course;
mod error;
mod fio_step;
mod gate;
mod grid;
mod job;
mod layout;
mod log;
mod measured_loop;
mod memory;
mod memory_bandwidth;
mod one_by_one;
mod pacer;
mod placement;
mod process_gaps;
mod recorder;
mod refusal;
mod session;
mod sink;
mod step;
mod sync_probe;
mod trace_step;
mod unmeasured;

pub use error::{RunError, RunErrorKind};
pub use memory::{large_step, memory_of};
pub use placement::Processors;
pub use session::{Context, Resume, run};
pub use sink::{EventSink, LayoutProgress, StopFlag};
pub use trace_step::{remove_dead_trace_instances, trace_instance_name};
