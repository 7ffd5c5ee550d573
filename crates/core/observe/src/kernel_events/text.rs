//! Events of the text of a `trace` file, and back: windows of events are kept in this form.
//!
//! Names of threads may hold anything, so fields are looked for from the end of a line.

use std::fmt::Write as _;
use std::str::FromStr;

use super::{
    KernelEvent, KernelEventKind, OffProcessor, RequestEvent, RequestStage, TraceTask,
    add_function, plain_name,
};
use crate::tracefs::{
    BlockRequest, EventLine, TraceClock, TraceLine, bio_request, completed_request, each_line,
    issued_request, low_half,
};

/// The events of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelEventText {
    /// In the order of the text, which is that of time.
    pub events: Vec<KernelEvent>,
    /// Lines of events that are known here and could not be read.
    pub unreadable: u64,
    /// Events that the buffer lost, by lines such as `CPU:1 [LOST 7 EVENTS]`.
    pub lost: u64,
}

/// Reads a text whose clock was `mono`. Comments and other events are passed over.
pub fn parse_kernel_events(text: &[u8]) -> KernelEventText {
    let mut read = KernelEventText::default();
    let mut is_stack = false;
    each_line(text, TraceClock::Monotonic, |line| match line {
        TraceLine::Event(line) => is_stack = read.take(line),
        TraceLine::Function(name) => {
            let last = read.events.last_mut().filter(|_| is_stack);
            let name = plain_name(name);
            if let Some(KernelEvent { kind: KernelEventKind::Stack(functions), .. }) = last
                && !name.is_empty()
            {
                add_function(functions, name.to_owned());
            }
        }
        TraceLine::Lost(number) => read.lost = read.lost.saturating_add(number),
    });
    read
}

impl KernelEventText {
    /// True if the line is the begin of a stack.
    fn take(&mut self, line: EventLine<'_>) -> bool {
        if line.event.trim_end() == STACK {
            self.push(line, KernelEventKind::Stack(Vec::new()));
            return true;
        }
        let Some((name, rest)) = line.event.split_once(": ") else { return false };
        match kind(name, rest.trim_end()) {
            LineKind::Known(kind) => self.push(line, kind),
            LineKind::Unreadable => self.unreadable += 1,
            LineKind::Other => {}
        }
        false
    }

    fn push(&mut self, line: EventLine<'_>, kind: KernelEventKind) {
        let name = if line.task_name == UNKNOWN { "" } else { line.task_name };
        let task = TraceTask { id: line.task, name: name.to_owned() };
        let event = KernelEvent::new(line.at, line.processor, task, line.in_interrupt, kind);
        self.events.push(event);
    }
}

const STACK: &str = "<stack trace>";

/// A thread whose name the kernel does not know any more.
const UNKNOWN: &str = "<...>";

enum LineKind {
    Known(KernelEventKind),
    /// It should be an event known here.
    Unreadable,
    Other,
}

fn kind(name: &str, rest: &str) -> LineKind {
    let kind = match name {
        // A call that a filter of the process forbade.
        "sys_enter" | "sys_exit" if rest.starts_with("NR -1 ") => return LineKind::Other,
        "sys_enter" => entered(rest),
        "sys_exit" => left(rest),
        "sched_switch" => switched(rest),
        "sched_waking" | "sched_wakeup" => woken(rest),
        "jbd2_start_commit" | "jbd2_end_commit" | "jbd2_run_stats" | "jbd2_checkpoint" => {
            of_journal(name, rest)
        }
        "mm_vmscan_direct_reclaim_begin" => Some(KernelEventKind::ReclaimBegan),
        "mm_vmscan_direct_reclaim_end" => {
            let pages = rest.strip_prefix("nr_reclaimed=").and_then(first_number);
            pages.map(|pages| KernelEventKind::ReclaimEnded { pages })
        }
        "balance_dirty_pages" => {
            number(rest, " pause=").map(|pause_ms| KernelEventKind::DirtyPause { pause_ms })
        }
        "workqueue_execute_start" => began(rest),
        "block_bio_remap" => remapped(rest),
        _ => match RequestStage::of_event(name) {
            Some(stage) => requested(stage, rest),
            None => return LineKind::Other,
        },
    };
    kind.map_or(LineKind::Unreadable, LineKind::Known)
}

/// The number behind the last `key`.
fn number<T: FromStr>(text: &str, key: &str) -> Option<T> {
    first_number(text.rsplit_once(key)?.1)
}

fn first_number<T: FromStr>(text: &str) -> Option<T> {
    text.split(' ').next()?.parse().ok()
}

/// `NR 75 (3, 7ffe2, 0, 0, 0, 0)`: the arguments are hexadecimal.
fn entered(text: &str) -> Option<KernelEventKind> {
    let (call, arguments) = text.strip_prefix("NR ")?.split_once(" (")?;
    let first = arguments.split([',', ')']).next()?;
    let fd = low_half(u64::from_str_radix(first, 16).ok()?)?;
    Some(KernelEventKind::CallEntered { number: call.parse().ok()?, fd })
}

/// `NR 75 = 0`.
fn left(text: &str) -> Option<KernelEventKind> {
    let (call, result) = text.strip_prefix("NR ")?.split_once(" = ")?;
    Some(KernelEventKind::CallLeft { number: call.parse().ok()?, result: result.parse().ok()? })
}

/// `prev_comm=dd prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=x next_pid=9 next_prio=120`.
fn switched(text: &str) -> Option<KernelEventKind> {
    let (head, next) = text.rsplit_once(" next_pid=")?;
    let (head, next_name) = head.rsplit_once(" ==> next_comm=")?;
    let to = TraceTask { id: first_number(next)?, name: next_name.to_owned() };
    let (head, state) = head.rsplit_once(" prev_state=")?;
    let (name, previous) = head.strip_prefix("prev_comm=")?.rsplit_once(" prev_pid=")?;
    let from = TraceTask { id: first_number(previous)?, name: name.to_owned() };
    let off = match state.split_at_checked(1)? {
        // R+ was preempted in the kernel.
        ("R", _) => OffProcessor::Preempted,
        ("S", _) => OffProcessor::Interruptible,
        // Before Linux 4.14 a worker that idles is D|N, and a wait that a signal ends D|K.
        ("D", more) if !more.contains('N') => OffProcessor::Uninterruptible,
        ("T" | "t", _) => OffProcessor::Stopped,
        _ => OffProcessor::Other,
    };
    Some(KernelEventKind::Switched { from, off, to })
}

/// `comm=dd pid=7 prio=120 target_cpu=001`; before Linux 4.8 with `success=1`.
fn woken(text: &str) -> Option<KernelEventKind> {
    let processor = number(text, " target_cpu=")?;
    let (name, rest) = text.strip_prefix("comm=")?.rsplit_once(" pid=")?;
    let task = TraceTask { id: first_number(rest)?, name: name.to_owned() };
    Some(KernelEventKind::Woken { task, processor })
}

/// `dev 7,0 transaction 5 sync 0`.
fn of_journal(name: &str, text: &str) -> Option<KernelEventKind> {
    let (device, rest) = text.strip_prefix("dev ")?.split_once(' ')?;
    let device = device_number(device)?;
    let word = |key: &str| -> Option<u32> {
        let mut words = rest.split(' ');
        words.find(|word| *word == key)?;
        words.next()?.parse().ok()
    };
    let kind = match name {
        "jbd2_start_commit" => {
            KernelEventKind::JournalCommitBegan { device, transaction: word("transaction")? }
        }
        "jbd2_end_commit" => {
            KernelEventKind::JournalCommitEnded { device, transaction: word("transaction")? }
        }
        "jbd2_run_stats" => KernelEventKind::JournalCommitted {
            device,
            transaction: word("tid")?,
            handles: word("handle_count")?,
            blocks: word("blocks_logged")?,
        },
        _ => KernelEventKind::JournalCheckpoint { device },
    };
    Some(kind)
}

fn device_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(',')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `work struct 000000007b1e4a5c: function blk_mq_requeue_work`.
fn began(text: &str) -> Option<KernelEventKind> {
    let (_, function) = text.rsplit_once(": function ")?;
    let function = plain_name(function);
    let is_named = !function.is_empty();
    is_named.then(|| KernelEventKind::WorkBegan { function: function.to_owned() })
}

fn requested(stage: RequestStage, text: &str) -> Option<KernelEventKind> {
    let request = match stage {
        RequestStage::Inserted | RequestStage::Issued => issued_request(text),
        RequestStage::Requeued | RequestStage::Completed => completed_request(text),
        _ => bio_request(text),
    };
    request.map(|request| of_request(stage, &request))
}

/// `254,0 WS 173162880 + 8 <- (253,1) 2048`.
fn remapped(text: &str) -> Option<KernelEventKind> {
    let (to, from) = text.split_once(" <- (")?;
    let (device, sector) = from.split_once(") ")?;
    let stage = RequestStage::Remapped {
        from_device: device_number(device)?,
        from_sector: first_number(sector)?,
    };
    Some(of_request(stage, &bio_request(to)?))
}

fn of_request(stage: RequestStage, request: &BlockRequest) -> KernelEventKind {
    let BlockRequest { device, flags, bytes, sector } = request;
    KernelEventKind::Request(RequestEvent::new(stage, *device, flags, *sector, *bytes))
}

/// Writes events as the kernel does, with whole microseconds; fields that are not kept are zero.
pub fn write_kernel_events(events: &[KernelEvent]) -> String {
    let mut text = "# tracer: nop\n#\n".to_owned();
    for event in events {
        let KernelEvent { at, processor, task, in_interrupt, kind } = event;
        // Rounded as the kernel does it (ns2usecs).
        let micros = at.saturating_add(500) / 1000;
        let name = match task {
            TraceTask { id: 0, .. } => "<idle>".to_owned(),
            TraceTask { name, .. } if name.is_empty() => UNKNOWN.to_owned(),
            TraceTask { name, .. } => printable(name),
        };
        let state = if *in_interrupt { "d.h.." } else { "....." };
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "{name:>16}-{:<7} [{processor:03}] {state} {seconds:>5}.{micros:06}: {}",
            task.id,
            contents(kind)
        );
        if let KernelEventKind::Stack(functions) = kind {
            for function in functions {
                let _ = writeln!(text, " => {function}");
            }
        }
    }
    text
}

/// A name of at most 15 bytes without those that would break its column or its line.
fn printable(name: &str) -> String {
    let is_plain = |letter: char| letter == ' ' || letter.is_ascii_graphic();
    name.chars().take(15).map(|letter| if is_plain(letter) { letter } else { '?' }).collect()
}

fn contents(kind: &KernelEventKind) -> String {
    match kind {
        KernelEventKind::CallEntered { number, fd } => {
            format!("sys_enter: NR {number} ({:x}, 0, 0, 0, 0, 0)", fd.cast_unsigned())
        }
        KernelEventKind::CallLeft { number, result } => {
            format!("sys_exit: NR {number} = {result}")
        }
        KernelEventKind::Switched { from, off, to } => format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={} ==> next_comm={} \
             next_pid={} next_prio=120",
            printable(&from.name),
            from.id,
            state_letter(*off),
            printable(&to.name),
            to.id
        ),
        KernelEventKind::Stack(_) => STACK.to_owned(),
        KernelEventKind::Woken { task, processor } => {
            let (name, id) = (printable(&task.name), task.id);
            format!("sched_waking: comm={name} pid={id} prio=120 target_cpu={processor:03}")
        }
        KernelEventKind::Request(request) => request_text(request),
        KernelEventKind::JournalCommitBegan { device: (major, minor), transaction } => {
            format!("jbd2_start_commit: dev {major},{minor} transaction {transaction} sync 0")
        }
        KernelEventKind::JournalCommitEnded { device: (major, minor), transaction } => {
            format!("jbd2_end_commit: dev {major},{minor} transaction {transaction} sync 0 head 0")
        }
        KernelEventKind::JournalCommitted {
            device: (major, minor),
            transaction,
            handles,
            blocks,
        } => format!(
            "jbd2_run_stats: dev {major},{minor} tid {transaction} wait 0 request_delay 0 running \
             0 locked 0 flushing 0 logging 0 handle_count {handles} blocks 0 blocks_logged {blocks}"
        ),
        KernelEventKind::JournalCheckpoint { device: (major, minor) } => {
            format!("jbd2_checkpoint: dev {major},{minor} result 0")
        }
        KernelEventKind::ReclaimBegan => {
            "mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=none".to_owned()
        }
        KernelEventKind::ReclaimEnded { pages } => {
            format!("mm_vmscan_direct_reclaim_end: nr_reclaimed={pages}")
        }
        KernelEventKind::DirtyPause { pause_ms } => {
            format!("balance_dirty_pages: bdi 0:0: paused=0 pause={pause_ms} period=0 think=0")
        }
        KernelEventKind::WorkBegan { function } => {
            format!("workqueue_execute_start: work struct 0: function {function}")
        }
    }
}

const fn state_letter(off: OffProcessor) -> &'static str {
    match off {
        OffProcessor::Preempted => "R",
        OffProcessor::Interruptible => "S",
        OffProcessor::Uninterruptible => "D",
        OffProcessor::Stopped => "T",
        OffProcessor::Other => "I",
    }
}

fn request_text(request: &RequestEvent) -> String {
    let ((major, minor), bytes) = (request.device, request.bytes);
    let letters = request.letters();
    let sector = request.sector.unwrap_or(if bytes > 0 { u64::MAX } else { 0 });
    let place = format!("{sector} + {}", bytes / 512);
    let device = format!("{major},{minor} {letters}");
    match request.stage {
        RequestStage::Queued => format!("block_bio_queue: {device} {place} [0]"),
        RequestStage::Merged => format!("block_bio_backmerge: {device} {place} [0]"),
        RequestStage::Remapped { from_device: (major, minor), from_sector } => {
            format!("block_bio_remap: {device} {place} <- ({major},{minor}) {from_sector}")
        }
        RequestStage::Inserted => {
            format!("block_rq_insert: {device} {bytes} () {place} none,0,0 [0]")
        }
        RequestStage::Issued => format!("block_rq_issue: {device} {bytes} () {place} none,0,0 [0]"),
        RequestStage::Requeued => format!("block_rq_requeue: {device} () {place} none,0,0 [0]"),
        RequestStage::Completed => format!("block_rq_complete: {device} () {place} none,0,0 [0]"),
        RequestStage::Ended => format!("block_bio_complete: {device} {place} [0]"),
    }
}
