//! What the kernel did, event by event, as far as it explains a slow system call: the call, the
//! processors, wake-ups, requests to devices, commits of a journal, and what holds writers back.
//!
//! Events come from the ring buffers ([`KernelEventFormats`]) or from the text of a `trace` file
//! ([`parse_kernel_events`]); both give the same values, but a text has whole microseconds. A window
//! of events is kept as such a text ([`write_kernel_events`]). No event has a byte of a user's data.
//!
//! A [`SlowWindow`] has the events around a slow call, on their way from the runner, which records, to the
//! analyser, which explains.

mod formats;
#[cfg(test)]
mod formats_tests;
#[cfg(test)]
mod recorded_tests;
mod symbols;
mod text;
#[cfg(test)]
mod text_tests;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

pub use formats::{KERNEL_EVENTS, KernelEventFormats, KernelEventName, STACK_EVENT};
pub use symbols::KernelSymbols;
pub use text::{KernelEventText, parse_kernel_events, write_kernel_events};

/// A thread, as an event names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TraceTask {
    /// The kernel's number of the thread; 0 is an idle processor.
    pub id: u32,
    /// `comm`, at most 15 bytes; of an idle processor `swapper/` and its number. Empty if unknown.
    pub name: String,
}

/// Why a thread left its processor (`prev_state` of `sched_switch`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OffProcessor {
    /// It could have run on (R, R+): the processor was taken from it.
    Preempted,
    /// It waits and may be interrupted (S).
    Interruptible,
    /// It waits for the kernel: I/O, a lock, a journal (D).
    Uninterruptible,
    /// A signal or a debugger stopped it (T, t).
    Stopped,
    /// It idles as a worker (I), ended (X, Z), is parked (P).
    Other,
}

/// What a request does, from the kernel's letters (blk_fill_rwbs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestOperation {
    Read,
    Write,
    /// Discard, secure erase, write zeroes.
    Discard,
    /// It empties the device's cache and carries no data. A filesystem queues it as a write without
    /// data (`FWS 0 + 0`).
    Flush,
    Other,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestStage {
    /// A filesystem, the page cache or a layer wants it (block_bio_queue).
    Queued,
    /// It became part of a request that was there (block_bio_backmerge, block_bio_frontmerge).
    Merged,
    /// A layer passed it on (block_bio_remap); `device` and `sector` are the new ones.
    Remapped { from_device: (u32, u32), from_sector: u64 },
    /// The scheduler has it (block_rq_insert).
    Inserted,
    /// The driver got it (block_rq_issue).
    Issued,
    /// The driver gave it back (block_rq_requeue).
    Requeued,
    /// The device has done it (block_rq_complete).
    Completed,
    /// It is done, of devices without requests such as md, dm and zram (block_bio_complete).
    Ended,
}

impl RequestStage {
    /// The stage of an event of this name. A remap has more to it than its name.
    fn of_event(name: &str) -> Option<Self> {
        let stage = match name {
            "block_bio_queue" => Self::Queued,
            "block_bio_backmerge" | "block_bio_frontmerge" => Self::Merged,
            "block_rq_insert" => Self::Inserted,
            "block_rq_issue" => Self::Issued,
            "block_rq_requeue" => Self::Requeued,
            "block_rq_complete" => Self::Completed,
            "block_bio_complete" => Self::Ended,
            _ => return None,
        };
        Some(stage)
    }
}

/// A request to a block device, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestEvent {
    pub stage: RequestStage,
    /// Major and minor number; of the disk, not of a partition.
    pub device: (u32, u32),
    pub operation: RequestOperation,
    /// A flush is done before it (F before the operation).
    pub preflush: bool,
    /// It is durable when it is done (F after the operation).
    pub fua: bool,
    /// A thread waits for it (S).
    pub sync: bool,
    /// It carries a filesystem's own blocks (M).
    pub metadata: bool,
    /// First sector of 512 bytes, whatever the device's sectors are; none where the kernel names none
    /// (flushes).
    pub sector: Option<u64>,
    /// Bytes to read, write or discard; 0 for a flush. For a request that is completed in parts, those
    /// of the part.
    pub bytes: u64,
}

impl RequestEvent {
    /// A request by the kernel's letters.
    fn new(
        stage: RequestStage,
        device: (u32, u32),
        letters: &str,
        sector: u64,
        bytes: u64,
    ) -> Self {
        let letters = letters.as_bytes();
        let (preflush, letters) = match letters {
            [b'F', rest @ ..] if rest.first().is_some_and(|next| b"WRDFNZ".contains(next)) => {
                (true, rest)
            }
            _ => (false, letters),
        };
        let (operation, flags) = match letters {
            // Write zeroes.
            [b'W', b'Z', flags @ ..] => (RequestOperation::Discard, flags),
            [b'W', flags @ ..] if bytes == 0 => (RequestOperation::Flush, flags),
            [b'W', flags @ ..] => (RequestOperation::Write, flags),
            [b'R', flags @ ..] => (RequestOperation::Read, flags),
            [b'D', flags @ ..] => (RequestOperation::Discard, flags),
            [b'F', flags @ ..] => (RequestOperation::Flush, flags),
            // An operation on zones, with a letter for which.
            [b'Z', _, flags @ ..] => (RequestOperation::Other, flags),
            _ => (RequestOperation::Other, letters.get(1..).unwrap_or_default()),
        };
        let has = |letter: u8| flags.contains(&letter);
        Self {
            stage,
            device,
            operation,
            preflush,
            fua: has(b'F') && operation != RequestOperation::Flush,
            sync: has(b'S'),
            metadata: has(b'M'),
            sector: (bytes > 0 && sector != u64::MAX).then_some(sector),
            bytes,
        }
    }

    /// The letters from which this would be read.
    fn letters(&self) -> String {
        let operation = match self.operation {
            RequestOperation::Read => "R",
            RequestOperation::Write => "W",
            RequestOperation::Discard => "D",
            RequestOperation::Flush => "F",
            RequestOperation::Other => "N",
        };
        let flag = |is_set: bool, letter: &'static str| if is_set { letter } else { "" };
        let (preflush, fua) = (flag(self.preflush, "F"), flag(self.fua, "F"));
        let (sync, metadata) = (flag(self.sync, "S"), flag(self.metadata, "M"));
        format!("{preflush}{operation}{fua}{sync}{metadata}")
    }
}

/// What happened, as far as it explains a slow call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelEventKind {
    /// The thread enters a system call.
    CallEntered {
        /// Its number on this machine (`raw_syscalls`).
        number: u32,
        /// The first argument, a descriptor in all calls that are watched.
        fd: i32,
    },
    /// It leaves the call.
    CallLeft {
        number: u32,
        /// Bytes or zero; minus the number of an error.
        result: i64,
    },
    /// A processor goes from one thread to another.
    Switched {
        from: TraceTask,
        off: OffProcessor,
        to: TraceTask,
    },
    /// Functions of the kernel in which `task` waits, innermost first; follows its `Switched`. Frames of
    /// the tracer and of the scheduler's innermost function are left out, as are the suffixes that
    /// compilers add to names (`.isra.0`). A name that the kernel hides is an address: `0xffffffff81000000`.
    Stack(Vec<String>),
    /// A thread that waited may run, on this processor (sched_waking).
    Woken {
        task: TraceTask,
        processor: u32,
    },
    Request(RequestEvent),
    /// A journal of jbd2 begins to commit a transaction (jbd2_start_commit).
    JournalCommitBegan {
        device: (u32, u32),
        /// The journal's number of it; consecutive.
        transaction: u32,
    },
    /// And has committed it (jbd2_end_commit).
    JournalCommitEnded {
        device: (u32, u32),
        transaction: u32,
    },
    /// How a commit went (jbd2_run_stats).
    JournalCommitted {
        device: (u32, u32),
        transaction: u32,
        /// Operations of the filesystem that took part.
        handles: u32,
        /// Blocks of the filesystem (mostly 4 KiB) that were written to the journal.
        blocks: u32,
    },
    /// A journal frees space for new transactions (jbd2_checkpoint).
    JournalCheckpoint {
        device: (u32, u32),
    },
    /// The thread looks for memory itself (mm_vmscan_direct_reclaim_begin).
    ReclaimBegan,
    /// And found some (mm_vmscan_direct_reclaim_end).
    ReclaimEnded {
        /// Pages of the machine's size (4 KiB on x86).
        pages: u64,
    },
    /// A writer is made to wait since too many pages are dirty (balance_dirty_pages).
    DirtyPause {
        /// Milliseconds that it waits from now on; zero or less if it continues at once.
        pause_ms: i64,
    },
    /// A worker begins this function (workqueue_execute_start).
    WorkBegan {
        function: String,
    },
}

/// An event, of the processor and the thread that it interrupted or that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelEvent {
    /// When it happened, in nanoseconds of CLOCK_MONOTONIC.
    pub at: u64,
    /// The processor that recorded it, as the kernel counts them from 0.
    pub processor: u32,
    /// Events of a ring buffer have the number alone, unless they say the name for other reasons
    /// ([`name_tasks`]).
    pub task: TraceTask,
    /// It happened in an interrupt: `task` has nothing to do with it.
    pub in_interrupt: bool,
    pub kind: KernelEventKind,
}

impl KernelEvent {
    fn new(
        at: u64,
        processor: u32,
        task: TraceTask,
        in_interrupt: bool,
        kind: KernelEventKind,
    ) -> Self {
        let task = match &kind {
            _ if task.id == 0 => TraceTask { id: 0, name: format!("swapper/{processor}") },
            // The text of a trace has the name that the thread has when the text is made.
            KernelEventKind::Switched { from, .. } if from.id == task.id => from.clone(),
            _ => task,
        };
        Self { at, processor, task, in_interrupt, kind }
    }
}

/// Gives threads without a name the one that other events name: the last event before, else the first
/// behind.
pub fn name_tasks(events: &mut [KernelEvent]) {
    let mut names = HashMap::new();
    for event in events.iter_mut() {
        name_task(event, &mut names);
    }
    names.clear();
    for event in events.iter_mut().rev() {
        name_task(event, &mut names);
    }
}

fn name_task(event: &mut KernelEvent, names: &mut HashMap<u32, String>) {
    let mut learn = |task: &TraceTask| {
        if !task.name.is_empty() && names.get(&task.id) != Some(&task.name) {
            names.insert(task.id, task.name.clone());
        }
    };
    learn(&event.task);
    match &event.kind {
        KernelEventKind::Switched { from, to, .. } => {
            learn(from);
            learn(to);
        }
        KernelEventKind::Woken { task, .. } => learn(task),
        _ => {}
    }
    if event.task.name.is_empty()
        && let Some(name) = names.get(&event.task.id)
    {
        event.task.name.clone_from(name);
    }
}

/// A function's name without offset, module, and the suffix of a compiler.
fn plain_name(text: &str) -> &str {
    let word = text.split([' ', '\t', '\n', '+']).next().unwrap_or_default();
    match word.find('.') {
        Some(end) if end > 0 => &word[..end],
        _ => word,
    }
}

/// Adds a function of a stack, innermost first. The tracer is called by the scheduler's innermost
/// function, so what came before that is the tracer's.
fn add_function(functions: &mut Vec<String>, name: String) {
    if name == "__schedule" {
        functions.clear();
    } else {
        functions.push(name);
    }
}

/// A call that took longer than the limit, with the events from a little before it to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowWindow {
    pub call: SlowCall,
    /// In the order of time.
    pub events: Vec<KernelEvent>,
    /// Events of this time were lost, or the ring had no room for all of it.
    pub is_incomplete: bool,
    /// What was true at that time and no event says.
    pub facts: WindowFacts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowCall {
    pub process: u32,
    pub thread: TraceTask,
    /// The call, as fsync.
    pub name: String,
    /// The path of the file, if it could be looked up.
    pub path: Option<String>,
    /// When it was entered and left, in nanoseconds of CLOCK_MONOTONIC.
    pub begin: u64,
    pub end: u64,
}

/// Facts about a window that are read beside the trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WindowFacts {
    /// The kernel's names of devices, by number.
    pub devices: Vec<((u32, u32), String)>,
    /// md arrays that resync, recover or check now, with the word of `sync_action`.
    pub resyncs: Vec<(String, String)>,
    /// Nanoseconds that the hypervisor gave each processor's time to others, while the window ran.
    pub steal: Vec<u64>,
    /// Nanoseconds that the cgroup of the process was held back by cpu.max, while the window ran.
    pub cpu_throttled: u64,
    /// The mount of the file is frozen or was in the window.
    pub is_frozen: bool,
}

/// How the watch went.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SlowWatchFacts {
    /// What was watched, as "unit postgresql@15-main" or "process 812".
    pub target: String,
    pub processes: usize,
    pub seconds: f64,
    /// Calls that were seen, and their latencies.
    pub calls: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// From which latency a call was slow.
    pub limit_ns: u64,
    /// Slow calls, explained or not.
    pub slow: u64,
    /// Slow calls whose events were not read, since too many came at once.
    pub passed_over: u64,
    pub lost_events: u64,
    /// Events and causes that this kernel cannot tell, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blind: Vec<String>,
    /// Write calls per second of the watched processes with and without recording, where both were
    /// counted: the cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_recorded: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_unrecorded: Option<f64>,
    /// Processor time of durio itself.
    pub cpu_seconds: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<String>,
    pub interrupted: bool,
}
