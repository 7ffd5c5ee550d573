//! Events of the ring buffers, by the formats of this kernel.

use std::fmt;

use super::{
    KernelEvent, KernelEventKind, KernelSymbols, OffProcessor, RequestEvent, RequestStage,
    TraceTask, add_function,
};
use crate::tracefs::{EventFormat, TraceField, low_half};

/// An event to switch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelEventName {
    /// System and event, as `sched/sched_waking`.
    pub name: &'static str,
    /// What to switch on if the kernel does not have it.
    pub instead: Option<&'static str>,
    /// Without it nothing can be explained.
    pub is_needed: bool,
    /// That the kernel does not have it, and what durio cannot see without it.
    pub blind: &'static str,
}

macro_rules! event {
    ($name:literal, $use:ident, $unseen:literal) => {
        KernelEventName {
            name: $name,
            instead: None,
            is_needed: $use,
            blind: concat!("this kernel has no event ", $name, ", so durio cannot see ", $unseen),
        }
    };
}

const NEEDED: bool = true;
const USEFUL: bool = false;

/// Every event that is read, apart from [`STACK_EVENT`].
pub static KERNEL_EVENTS: [KernelEventName; 21] = [
    event!("raw_syscalls/sys_enter", NEEDED, "when a call begins"),
    event!("raw_syscalls/sys_exit", NEEDED, "when a call ends"),
    event!("sched/sched_switch", NEEDED, "when a thread runs and when it waits"),
    KernelEventName {
        instead: Some("sched/sched_wakeup"),
        ..event!("sched/sched_waking", NEEDED, "which thread ended a wait")
    },
    event!("block/block_bio_queue", USEFUL, "which thread a request was made for"),
    event!("block/block_bio_backmerge", USEFUL, "which requests were merged"),
    event!("block/block_bio_frontmerge", USEFUL, "which requests were merged"),
    event!("block/block_bio_remap", USEFUL, "which request of a disk serves one of md or dm"),
    event!("block/block_rq_insert", USEFUL, "how long requests wait in the scheduler"),
    event!("block/block_rq_issue", USEFUL, "how long requests are at the device"),
    event!("block/block_rq_requeue", USEFUL, "which requests a driver gave back"),
    event!("block/block_rq_complete", USEFUL, "how long requests are at the device"),
    event!("block/block_bio_complete", USEFUL, "how long requests take at zram, md and dm"),
    event!("jbd2/jbd2_start_commit", USEFUL, "when a commit of ext4's journal begins"),
    event!("jbd2/jbd2_end_commit", USEFUL, "when a commit of ext4's journal ends"),
    event!("jbd2/jbd2_run_stats", USEFUL, "how large commits of ext4's journal are"),
    event!("jbd2/jbd2_checkpoint", USEFUL, "waits for space in ext4's journal"),
    event!("vmscan/mm_vmscan_direct_reclaim_begin", USEFUL, "waits for memory"),
    event!("vmscan/mm_vmscan_direct_reclaim_end", USEFUL, "waits for memory"),
    event!("writeback/balance_dirty_pages", USEFUL, "how long dirty pages hold writers back"),
    event!("workqueue/workqueue_execute_start", USEFUL, "what a worker of the kernel does"),
];

/// The event of a stack. It comes with the trigger `stacktrace` of another event, so it cannot be
/// switched on; its format is read as those of the others are.
pub const STACK_EVENT: &str = "ftrace/kernel_stack";

/// Interrupts in `common_flags`: TRACE_FLAG_HARDIRQ, _SOFTIRQ and _NMI (include/linux/trace_events.h).
const IN_INTERRUPT: u64 = 0x08 | 0x10 | 0x40;

/// Reads the contents of an event.
type KindReader = Box<dyn Fn(&[u8], &KernelSymbols) -> Option<KernelEventKind> + Send + Sync>;

fn reader(
    read: impl Fn(&[u8], &KernelSymbols) -> Option<KernelEventKind> + Send + Sync + 'static,
) -> Option<KindReader> {
    Some(Box::new(read))
}

/// What reads events of one number.
struct FormatReader {
    id: u16,
    kind: KindReader,
    /// The name of the task that made the event.
    task_name: Option<TraceField>,
}

/// The events of [`KERNEL_EVENTS`] and [`STACK_EVENT`], by the formats of this kernel.
#[derive(Default)]
pub struct KernelEventFormats {
    readers: Vec<FormatReader>,
    task: Option<TraceField>,
    flags: Option<TraceField>,
}

impl fmt::Debug for KernelEventFormats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<u16> = self.readers.iter().map(|reader| reader.id).collect();
        formatter.debug_struct("KernelEventFormats").field("ids", &ids).finish_non_exhaustive()
    }
}

impl KernelEventFormats {
    /// Takes the format of an event; false if the event is not known here, or its format does not have
    /// the fields that are needed.
    pub fn add(&mut self, event: &str, text: &str) -> bool {
        let Some(format) = EventFormat::parse(text) else { return false };
        let kind = of_thread(event, &format)
            .or_else(|| of_request(event, &format))
            .or_else(|| of_journal(event, &format))
            .or_else(|| of_memory(event, &format));
        let Some(kind) = kind else { return false };
        self.task = self.task.or(format.field("common_pid"));
        self.flags = self.flags.or(format.field("common_flags"));
        let task_name = event.starts_with("block/").then(|| format.field("comm")).flatten();
        self.readers.push(FormatReader { id: format.id, kind, task_name });
        true
    }

    /// An event of a sub-buffer of this processor, at this time; none if its format was not added or
    /// the bytes are damaged.
    pub fn read(
        &self,
        at: u64,
        processor: u32,
        event: &[u8],
        symbols: &KernelSymbols,
    ) -> Option<KernelEvent> {
        let id = u16::from_ne_bytes(*event.first_chunk()?);
        let reader = self.readers.iter().find(|reader| reader.id == id)?;
        let kind = (reader.kind)(event, symbols)?;
        let id = number(self.task?, event)?;
        let name = reader.task_name.and_then(|field| field.text(event)).unwrap_or_default();
        let in_interrupt = self.flags?.unsigned(event)? & IN_INTERRUPT != 0;
        Some(KernelEvent::new(at, processor, TraceTask { id, name }, in_interrupt, kind))
    }
}

fn number(field: TraceField, event: &[u8]) -> Option<u32> {
    u32::try_from(field.unsigned(event)?).ok()
}

/// Name and number of a thread.
#[derive(Clone, Copy)]
struct TaskFields {
    name: TraceField,
    id: TraceField,
}

impl TaskFields {
    fn new(format: &EventFormat, name: &str, id: &str) -> Option<Self> {
        Some(Self { name: format.field(name)?, id: format.field(id)? })
    }

    fn read(self, event: &[u8]) -> Option<TraceTask> {
        Some(TraceTask { id: number(self.id, event)?, name: self.name.text(event)? })
    }
}

fn of_thread(event: &str, format: &EventFormat) -> Option<KindReader> {
    let field = |name: &str| format.field(name);
    match event {
        "raw_syscalls/sys_enter" => {
            let (call, arguments) = (field("id")?, field("args")?);
            reader(move |event, _| {
                let fd = low_half(arguments.words(event).next()?)?;
                Some(KernelEventKind::CallEntered { number: number(call, event)?, fd })
            })
        }
        "raw_syscalls/sys_exit" => {
            let (call, result) = (field("id")?, field("ret")?);
            reader(move |event, _| {
                let result = result.signed(event)?;
                Some(KernelEventKind::CallLeft { number: number(call, event)?, result })
            })
        }
        "sched/sched_switch" => {
            let from = TaskFields::new(format, "prev_comm", "prev_pid")?;
            let to = TaskFields::new(format, "next_comm", "next_pid")?;
            let state = field("prev_state")?;
            reader(move |event, _| {
                let (from, to) = (from.read(event)?, to.read(event)?);
                let off = off_processor(state.unsigned(event)?);
                Some(KernelEventKind::Switched { from, off, to })
            })
        }
        "sched/sched_waking" | "sched/sched_wakeup" => {
            let (task, target) = (TaskFields::new(format, "comm", "pid")?, field("target_cpu")?);
            reader(move |event, _| {
                let processor = number(target, event)?;
                Some(KernelEventKind::Woken { task: task.read(event)?, processor })
            })
        }
        "workqueue/workqueue_execute_start" => {
            let function = field("function")?;
            reader(move |event, symbols| {
                let function = symbols.name(function.unsigned(event)?);
                Some(KernelEventKind::WorkBegan { function })
            })
        }
        STACK_EVENT => {
            let (size, callers) = (field("size"), field("caller")?);
            reader(move |event, symbols| {
                let size = size.and_then(|size| number(size, event));
                let size = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
                // Older kernels end a stack with a word of ones.
                let is_function = |address: &u64| ![0, u64::MAX].contains(address);
                let mut functions = Vec::new();
                for address in callers.words(event).take(size).take_while(is_function) {
                    add_function(&mut functions, symbols.name(address));
                }
                Some(KernelEventKind::Stack(functions))
            })
        }
        _ => None,
    }
}

/// By TASK_REPORT (include/linux/sched.h), whose low bits have not changed since Linux 2.6.
fn off_processor(state: u64) -> OffProcessor {
    /// TASK_NOLOAD until Linux 4.13: a worker that idles as if it waited for I/O.
    const IDLE: u64 = 0x400;
    match state & 0xff {
        0 => OffProcessor::Preempted,
        low if low & 1 != 0 => OffProcessor::Interruptible,
        low if low & 2 != 0 && state & IDLE == 0 => OffProcessor::Uninterruptible,
        low if low & (4 | 8) != 0 => OffProcessor::Stopped,
        _ => OffProcessor::Other,
    }
}

fn of_request(event: &str, format: &EventFormat) -> Option<KindReader> {
    let name = event.strip_prefix("block/")?;
    let field = |name: &str| format.field(name);
    let (device, letters) = (field("dev")?, field("rwbs")?);
    let (sector, sectors, bytes) = (field("sector")?, field("nr_sector")?, field("bytes"));
    let request = move |event: &[u8], stage: RequestStage| {
        let whole_sectors = sectors.unsigned(event)?.saturating_mul(512);
        // Before Linux 4.11 the bytes of a filesystem's request were zero.
        let bytes = bytes.and_then(|bytes| bytes.unsigned(event)).unwrap_or(0).max(whole_sectors);
        let (device, letters) = (device.device(event)?, letters.text(event)?);
        let request = RequestEvent::new(stage, device, &letters, sector.unsigned(event)?, bytes);
        Some(KernelEventKind::Request(request))
    };
    if name == "block_bio_remap" {
        let (from_device, from_sector) = (field("old_dev")?, field("old_sector")?);
        return reader(move |event, _| {
            let from_device = from_device.device(event)?;
            let from_sector = from_sector.unsigned(event)?;
            request(event, RequestStage::Remapped { from_device, from_sector })
        });
    }
    let stage = RequestStage::of_event(name)?;
    reader(move |event, _| request(event, stage))
}

fn of_journal(event: &str, format: &EventFormat) -> Option<KindReader> {
    let name = event.strip_prefix("jbd2/")?;
    let field = |name: &str| format.field(name);
    let device = field("dev")?;
    match name {
        "jbd2_start_commit" => {
            let transaction = field("transaction")?;
            reader(move |event, _| {
                let (device, transaction) = (device.device(event)?, number(transaction, event)?);
                Some(KernelEventKind::JournalCommitBegan { device, transaction })
            })
        }
        "jbd2_end_commit" => {
            let transaction = field("transaction")?;
            reader(move |event, _| {
                let (device, transaction) = (device.device(event)?, number(transaction, event)?);
                Some(KernelEventKind::JournalCommitEnded { device, transaction })
            })
        }
        "jbd2_run_stats" => {
            let (transaction, handles) = (field("tid")?, field("handle_count")?);
            let blocks = field("blocks_logged")?;
            reader(move |event, _| {
                Some(KernelEventKind::JournalCommitted {
                    device: device.device(event)?,
                    transaction: number(transaction, event)?,
                    handles: number(handles, event)?,
                    blocks: number(blocks, event)?,
                })
            })
        }
        "jbd2_checkpoint" => reader(move |event, _| {
            Some(KernelEventKind::JournalCheckpoint { device: device.device(event)? })
        }),
        _ => None,
    }
}

fn of_memory(event: &str, format: &EventFormat) -> Option<KindReader> {
    match event {
        "vmscan/mm_vmscan_direct_reclaim_begin" => {
            reader(|_, _| Some(KernelEventKind::ReclaimBegan))
        }
        "vmscan/mm_vmscan_direct_reclaim_end" => {
            let pages = format.field("nr_reclaimed")?;
            reader(move |event, _| {
                Some(KernelEventKind::ReclaimEnded { pages: pages.unsigned(event)? })
            })
        }
        "writeback/balance_dirty_pages" => {
            let pause = format.field("pause")?;
            reader(move |event, _| {
                Some(KernelEventKind::DirtyPause { pause_ms: pause.signed(event)? })
            })
        }
        _ => None,
    }
}
