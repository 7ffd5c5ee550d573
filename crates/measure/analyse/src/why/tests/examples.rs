//! The smallest window that shows each rule of data/causes.toml, with the events that decide.

use std::ops::RangeInclusive;

use durio_observe::{
    KernelEvent, KernelEventKind, OffProcessor, RequestEvent, RequestOperation, RequestStage,
    SlowCall, SlowWindow, TraceTask, WindowFacts,
};

/// A window in which one rule is the first that is true of most of the time.
pub(super) struct Example {
    pub(super) name: &'static str,
    pub(super) window: SlowWindow,
    /// Without these events, or without the facts, another cause is named.
    decides: Decider,
}

enum Decider {
    Events(fn(&KernelEvent) -> bool),
    Facts,
    /// There is nothing that could be left out.
    Nothing,
}

impl Example {
    /// The window without what decides.
    pub(super) fn without_decider(&self) -> Option<SlowWindow> {
        let mut window = self.window.clone();
        match self.decides {
            Decider::Events(decides) => {
                let before = window.events.len();
                window.events.retain(|event| !decides(event));
                assert!(window.events.len() < before, "{}: no event decides", self.name);
            }
            Decider::Facts => window.facts = WindowFacts::default(),
            Decider::Nothing => return None,
        }
        Some(window)
    }
}

/// A thread and the processor that it uses.
#[derive(Clone, Copy)]
pub(super) struct Thread(pub(super) u32, pub(super) &'static str, pub(super) u32);

pub(super) const DATABASE: Thread = Thread(700, "postgres", 0);
pub(super) const JOURNAL: Thread = Thread(300, "jbd2/vda1-8", 1);
pub(super) const WORKER: Thread = Thread(55, "kworker/1:2", 1);
pub(super) const WRITEBACK: Thread = Thread(56, "kworker/u4:1", 2);
pub(super) const OTHER: Thread = Thread(812, "rsync", 2);
const RESYNC: Thread = Thread(400, "md0_resync", 2);

pub(super) const DISK: (u32, u32) = (254, 0);
pub(super) const LOOP: (u32, u32) = (7, 0);
const BEGIN_NS: u64 = 10_000_000;

/// Part of a request: what it does, its first sector, its bytes.
pub(super) type Io = (RequestOperation, u64, u64);

pub(super) const SMALL: Io = (RequestOperation::Write, 1000, 8192);
pub(super) const LARGE: Io = (RequestOperation::Write, 50_000, 1 << 20);
pub(super) const FLUSH: Io = (RequestOperation::Flush, 0, 0);

/// Events of a call that begins at 10 ms; times are microseconds.
pub(super) struct Script {
    now: u64,
    events: Vec<KernelEvent>,
    facts: WindowFacts,
}

fn task(thread: Thread) -> TraceTask {
    TraceTask { id: thread.0, name: thread.1.to_owned() }
}

fn idle(processor: u32) -> TraceTask {
    TraceTask { id: 0, name: format!("swapper/{processor}") }
}

impl Script {
    /// The database enters the call at 10,000 µs.
    pub(super) fn new() -> Self {
        let facts = WindowFacts {
            devices: vec![(DISK, "vda".to_owned()), (LOOP, "loop0".to_owned())],
            ..WindowFacts::default()
        };
        let script = Self { now: BEGIN_NS, events: Vec::new(), facts };
        script.does(DATABASE, KernelEventKind::CallEntered { number: 75, fd: 3 })
    }

    pub(super) fn at(mut self, micros: u64) -> Self {
        self.now = micros * 1000;
        self
    }

    fn with_facts(mut self, change: impl FnOnce(&mut WindowFacts)) -> Self {
        change(&mut self.facts);
        self
    }

    fn push(mut self, on: u32, task: TraceTask, in_interrupt: bool, kind: KernelEventKind) -> Self {
        self.events.push(KernelEvent { at: self.now, processor: on, task, in_interrupt, kind });
        self
    }

    pub(super) fn does(self, thread: Thread, kind: KernelEventKind) -> Self {
        self.push(thread.2, task(thread), false, kind)
    }

    /// The processor goes from one thread to another.
    pub(super) fn switches(self, from: Thread, off: OffProcessor, to: Thread) -> Self {
        let kind = KernelEventKind::Switched { from: task(from), off, to: task(to) };
        self.push(from.2, task(from), false, kind)
    }

    /// The thread waits in these functions and leaves its processor idle.
    pub(super) fn sleeps(self, thread: Thread, off: OffProcessor, stack: &[&str]) -> Self {
        let to = idle(thread.2);
        let script = self.does(thread, KernelEventKind::Switched { from: task(thread), off, to });
        if stack.is_empty() {
            return script;
        }
        let stack = stack.iter().map(|&function| function.to_owned()).collect();
        script.does(thread, KernelEventKind::Stack(stack))
    }

    pub(super) fn waits(self, thread: Thread, stack: &[&str]) -> Self {
        self.sleeps(thread, OffProcessor::Uninterruptible, stack)
    }

    /// The thread takes its processor, which was idle.
    pub(super) fn runs(self, thread: Thread) -> Self {
        let (from, off) = (idle(thread.2), OffProcessor::Preempted);
        let kind = KernelEventKind::Switched { from, off, to: task(thread) };
        self.push(thread.2, idle(thread.2), false, kind)
    }

    /// An interrupt wakes the thread, on processor 0, and the thread runs.
    pub(super) fn interrupt_wakes(self, thread: Thread) -> Self {
        let kind = KernelEventKind::Woken { task: task(thread), processor: thread.2 };
        self.push(0, idle(0), true, kind).runs(thread)
    }

    pub(super) fn wakes(self, waker: Thread, thread: Thread) -> Self {
        let kind = KernelEventKind::Woken { task: task(thread), processor: thread.2 };
        self.does(waker, kind).runs(thread)
    }

    /// The thread's request reaches a stage.
    pub(super) fn request(
        self,
        thread: Thread,
        stage: RequestStage,
        on: (u32, u32),
        io: Io,
    ) -> Self {
        self.does(thread, KernelEventKind::Request(request(stage, on, io)))
    }

    /// A request is queued and at its device at once.
    pub(super) fn issues(self, thread: Thread, io: Io) -> Self {
        let script = self.request(thread, RequestStage::Queued, DISK, io);
        script.request(thread, RequestStage::Issued, DISK, io)
    }

    /// An interrupt on processor 0 ends a request.
    pub(super) fn completes(self, on: (u32, u32), io: Io) -> Self {
        let kind = KernelEventKind::Request(request(RequestStage::Completed, on, io));
        self.push(0, idle(0), true, kind)
    }

    /// The call returns now.
    pub(super) fn ends(self) -> SlowWindow {
        let script = self.does(DATABASE, KernelEventKind::CallLeft { number: 75, result: 0 });
        SlowWindow {
            call: SlowCall {
                process: DATABASE.0,
                thread: task(DATABASE),
                name: "fdatasync".to_owned(),
                path: Some("/db/wal".to_owned()),
                begin: BEGIN_NS,
                end: script.now,
            },
            events: script.events,
            is_incomplete: false,
            facts: script.facts,
        }
    }

    /// An interrupt wakes the database 49 ms after the begin, and the call returns at 60 ms.
    pub(super) fn ends_at_60_ms(self) -> SlowWindow {
        self.at(59_000).interrupt_wakes(DATABASE).at(60_000).ends()
    }
}

fn request(stage: RequestStage, device: (u32, u32), io: Io) -> RequestEvent {
    let (operation, sector, bytes) = io;
    RequestEvent {
        stage,
        device,
        operation,
        preflush: false,
        fua: false,
        sync: true,
        metadata: false,
        sector: (bytes > 0).then_some(sector),
        bytes,
    }
}

fn is_stack(event: &KernelEvent) -> bool {
    matches!(event.kind, KernelEventKind::Stack(_))
}

fn is_request(event: &KernelEvent) -> bool {
    matches!(event.kind, KernelEventKind::Request(_))
}

fn is_of(event: &KernelEvent, thread: Thread) -> bool {
    event.task.id == thread.0
}

/// The database waits in these functions from 11 ms on.
fn waiting(stack: &[&str]) -> Script {
    Script::new().at(11_000).waits(DATABASE, stack)
}

/// The database's small write is at the device from 12 ms to 59 ms.
fn small_write(script: Script) -> Script {
    let script = script.at(12_000).issues(DATABASE, SMALL);
    script
        .waits(DATABASE, &["io_schedule", "folio_wait_writeback"])
        .at(59_000)
        .completes(DISK, SMALL)
}

/// As well, this thread's request from 11 ms on.
fn small_write_beside(thread: Thread, io: Io) -> SlowWindow {
    let script = small_write(Script::new().at(11_000).issues(thread, io));
    script.interrupt_wakes(DATABASE).completes(DISK, io).at(60_000).ends()
}

/// A window that one event in the waiting thread's stack explains.
fn stacked(name: &'static str, stack: &[&str]) -> Example {
    let window = waiting(stack).ends_at_60_ms();
    Example { name, window, decides: Decider::Events(is_stack) }
}

fn example(name: &'static str, window: SlowWindow, decides: fn(&KernelEvent) -> bool) -> Example {
    Example { name, window, decides: Decider::Events(decides) }
}

fn by_facts(name: &'static str, window: SlowWindow) -> Example {
    Example { name, window, decides: Decider::Facts }
}

pub(super) fn examples() -> Vec<Example> {
    let mut all = stacks();
    all.extend(held_back());
    all.extend(journals());
    all.extend(processors());
    all.extend(devices());
    all.extend(leftovers());
    all
}

fn stacks() -> Vec<Example> {
    vec![
        stacked("frozen", &["schedule", "percpu_rwsem_wait", "__percpu_down_read", "vfs_write"]),
        stacked("reclaim-by-stack", &["schedule_timeout", "reclaim_throttle", "shrink_node"]),
        stacked("dirty-throttling", &["io_schedule_timeout", "balance_dirty_pages"]),
        stacked("checkpoint", &["schedule", "__jbd2_log_wait_for_space", "start_this_handle"]),
        stacked("io-latency", &["io_schedule", "rq_qos_wait", "blkcg_iolatency_throttle"]),
        stacked("wbt", &["io_schedule", "rq_qos_wait", "wbt_wait", "__rq_qos_throttle"]),
        stacked("queue-full", &["io_schedule", "blk_mq_get_tag", "__blk_mq_alloc_requests"]),
        stacked("journal-wait", &["schedule", "xfs_log_force_seq", "xfs_file_fsync"]),
    ]
}

fn held_back() -> Vec<Example> {
    let stopped = Script::new().at(11_000).sleeps(DATABASE, OffProcessor::Stopped, &[]);
    let frozen = waiting(&["schedule", "ext4_journal_check_start"]);
    let frozen = frozen.with_facts(|facts| facts.is_frozen = true);
    let reclaim = Script::new().at(12_000).does(DATABASE, KernelEventKind::ReclaimBegan);
    let reclaim = reclaim.at(58_000).does(DATABASE, KernelEventKind::ReclaimEnded { pages: 32 });
    let pause = Script::new().at(11_000);
    let pause = pause.does(DATABASE, KernelEventKind::DirtyPause { pause_ms: 48 });
    let barrier = waiting(&["schedule", "wait_barrier", "raid1_write_request"]);
    let resync = ("md0".to_owned(), "resync".to_owned());
    let barrier = barrier.with_facts(|facts| facts.resyncs.push(resync));
    // The worker of the throttle has the write from 11 to 57 ms.
    let limit = waiting(&["io_schedule", "submit_bio_wait"]).at(57_000).interrupt_wakes(WORKER);
    let function = "blk_throtl_dispatch_work_fn".to_owned();
    let limit = limit.does(WORKER, KernelEventKind::WorkBegan { function });
    let limit = limit.issues(WORKER, SMALL).at(59_000).completes(DISK, SMALL);
    vec![
        example("stopped", stopped.at(59_000).wakes(OTHER, DATABASE).at(60_000).ends(), |event| {
            matches!(event.kind, KernelEventKind::Switched { off: OffProcessor::Stopped, .. })
        }),
        by_facts("frozen-by-fact", frozen.ends_at_60_ms()),
        example("reclaim", reclaim.at(60_000).ends(), |event| {
            event.kind == KernelEventKind::ReclaimBegan
        }),
        example("dirty-pause", pause.waits(DATABASE, &[]).ends_at_60_ms(), |event| {
            matches!(event.kind, KernelEventKind::DirtyPause { .. })
        }),
        by_facts("resync-barrier", barrier.ends_at_60_ms()),
        example("io-max", limit.ends_at_60_ms(), |event| {
            matches!(event.kind, KernelEventKind::WorkBegan { .. })
        }),
    ]
}

const COMMIT_STACK: [&str; 3] = ["schedule", "jbd2_log_wait_commit", "ext4_sync_file"];

/// The database waits for the journal's thread, which runs from 11 ms on.
fn waiting_for_journal() -> Script {
    Script::new().at(11_000).wakes(DATABASE, JOURNAL).waits(DATABASE, &COMMIT_STACK)
}

fn began(transaction: u32) -> KernelEventKind {
    KernelEventKind::JournalCommitBegan { device: DISK, transaction }
}

fn ended(transaction: u32) -> KernelEventKind {
    KernelEventKind::JournalCommitEnded { device: DISK, transaction }
}

/// The journal's thread writes the new data of a file that rsync has written.
pub(super) fn ordered_data() -> SlowWindow {
    let stack = ["io_schedule", "folio_wait_writeback", "filemap_fdatawait_range_keep_errors"];
    let script = waiting_for_journal().at(12_000).issues(WRITEBACK, LARGE).waits(JOURNAL, &stack);
    let script = script.does(OTHER, KernelEventKind::DirtyPause { pause_ms: 0 });
    let script = script.at(57_000).completes(DISK, LARGE).interrupt_wakes(JOURNAL);
    script.at(59_000).wakes(JOURNAL, DATABASE).at(60_000).ends()
}

fn sync_storm() -> SlowWindow {
    let buffer = ["io_schedule", "bit_wait_io", "jbd2_journal_commit_transaction"];
    let second: Io = (RequestOperation::Write, 2000, 4096);
    let script = Script::new().at(5_000).does(JOURNAL, began(6));
    let script = script.at(11_000).waits(DATABASE, &COMMIT_STACK).waits(OTHER, &COMMIT_STACK);
    let script = script.at(12_000).issues(JOURNAL, SMALL).waits(JOURNAL, &buffer);
    let script = script.at(34_000).completes(DISK, SMALL).interrupt_wakes(JOURNAL);
    let script = script.does(JOURNAL, ended(6)).does(JOURNAL, began(7));
    let script = script.at(35_000).issues(JOURNAL, second).waits(JOURNAL, &buffer);
    let script = script.at(58_000).completes(DISK, second).interrupt_wakes(JOURNAL);
    let script = script.does(JOURNAL, ended(7)).wakes(JOURNAL, OTHER);
    script.at(59_000).wakes(JOURNAL, DATABASE).at(60_000).ends()
}

fn journals() -> Vec<Example> {
    let checkpoint = waiting(&["schedule", "wait_transaction_locked", "start_this_handle"]);
    let checkpoint = checkpoint.does(OTHER, KernelEventKind::JournalCheckpoint { device: DISK });
    let (device, transaction, handles, blocks) = (DISK, 7, 40, 8000);
    let how = KernelEventKind::JournalCommitted { device, transaction, handles, blocks };
    let large = waiting_for_journal().does(JOURNAL, began(7)).at(58_000).does(JOURNAL, ended(7));
    let large = large.does(JOURNAL, how).at(59_000).wakes(JOURNAL, DATABASE);
    let log = ["schedule", "__mutex_lock", "btrfs_sync_log"];
    let lock = waiting(&["schedule", "rwsem_down_write_slowpath", "ext4_buffered_write_iter"]);
    let lock = lock.runs(OTHER).at(59_000).wakes(OTHER, DATABASE);
    vec![
        example("checkpoint-of-another", checkpoint.ends_at_60_ms(), |event| {
            matches!(event.kind, KernelEventKind::JournalCheckpoint { .. })
        }),
        example("ordered-data", ordered_data(), |event| is_stack(event) && is_of(event, JOURNAL)),
        example("large-commit", large.at(60_000).ends(), |event| {
            matches!(event.kind, KernelEventKind::JournalCommitted { .. })
        }),
        example("sync-storm", sync_storm(), |event| is_stack(event) && is_of(event, OTHER)),
        example("btrfs-log", waiting(&log).waits(OTHER, &log).ends_at_60_ms(), |event| {
            is_stack(event) && is_of(event, OTHER)
        }),
        example("inode-lock", lock.at(60_000).ends(), is_stack),
    ]
}

/// The processor goes from the database to these threads, 12 ms each, and back.
fn preempted(threads: &[Thread]) -> SlowWindow {
    let (mut script, mut has, mut off) = (Script::new(), DATABASE, OffProcessor::Preempted);
    let mut at = 11_000;
    for &thread in threads {
        script = script.at(at).switches(has, off, thread);
        (has, off, at) = (thread, OffProcessor::Interruptible, at + 12_000);
    }
    script.at(at).switches(has, off, DATABASE).at(at + 1000).ends()
}

fn is_left_by(event: &KernelEvent, threads: RangeInclusive<u32>) -> bool {
    matches!(&event.kind, KernelEventKind::Switched { from, .. } if threads.contains(&from.id))
}

fn processors() -> Vec<Example> {
    let steal = Script::new().with_facts(|facts| facts.steal = vec![40_000_000]);
    let limit = Script::new().at(11_000).sleeps(DATABASE, OffProcessor::Preempted, &[]);
    let limit = limit.at(59_000).runs(DATABASE).at(60_000);
    let limit = limit.with_facts(|facts| facts.cpu_throttled = 45_000_000);
    let compiler = Thread(900, "gcc", 0);
    let crowd = [901, 902, 903, 904].map(|id| Thread(id, "make", 0));
    vec![
        by_facts("steal", steal.at(60_000).ends()),
        by_facts("cpu-limit", limit.ends()),
        example("processor-taken", preempted(&[compiler]), |event| is_left_by(event, 700..=700)),
        example("processor-crowded", preempted(&crowd), |event| is_left_by(event, 901..=903)),
    ]
}

fn devices() -> Vec<Example> {
    let discard: Io = (RequestOperation::Discard, 90_000, 64 << 20);
    let own: Io = (RequestOperation::Write, 1000, 2 << 20);
    let trim = Script::new().at(11_000).issues(DATABASE, discard);
    let trim = trim.waits(DATABASE, &["submit_bio_wait"]).at(59_000).completes(DISK, discard);
    let own_write = Script::new().at(11_000).issues(DATABASE, own);
    let own_write = own_write.waits(DATABASE, &["io_schedule"]).at(59_000).completes(DISK, own);
    let flush = Script::new().at(11_000).request(DATABASE, RequestStage::Queued, DISK, FLUSH);
    let flush = flush.waits(DATABASE, &["submit_bio_wait", "blkdev_issue_flush"]);
    let flush = flush.request(WORKER, RequestStage::Issued, DISK, FLUSH);
    let flush = flush.at(59_000).completes(DISK, FLUSH).completes(DISK, FLUSH);
    let requeued = Script::new().at(11_000).issues(DATABASE, SMALL);
    let requeued = requeued.request(DATABASE, RequestStage::Requeued, DISK, SMALL);
    let requeued = requeued.waits(DATABASE, &["io_schedule"]).at(56_000);
    let requeued = requeued.request(WORKER, RequestStage::Issued, DISK, SMALL);
    let requeued = requeued.at(59_000).completes(DISK, SMALL);
    let behind = Script::new().at(11_000).request(WORKER, RequestStage::Issued, DISK, FLUSH);
    let behind = small_write(behind.at(11_500)).interrupt_wakes(DATABASE);
    let behind = behind.completes(DISK, FLUSH).at(60_000).ends();
    vec![
        example("resync-requests", small_write_beside(RESYNC, LARGE), |e| is_of(e, RESYNC)),
        example("discard", small_write_beside(OTHER, discard), |event| is_of(event, OTHER)),
        example("own-discard", trim.ends_at_60_ms(), is_request),
        example("large-writes", small_write_beside(OTHER, LARGE), |event| is_of(event, OTHER)),
        example("buffered-writeback", small_write_beside(WRITEBACK, LARGE), |event| {
            is_of(event, WRITEBACK)
        }),
        example("own-writes", own_write.ends_at_60_ms(), is_request),
        example("flush", flush.ends_at_60_ms(), is_request),
        example("behind-a-flush", behind, |event| is_of(event, WORKER)),
        example("requeued", requeued.ends_at_60_ms(), |event| {
            matches!(&event.kind, KernelEventKind::Request(request)
                if request.stage == RequestStage::Requeued)
        }),
    ]
}

fn leftovers() -> Vec<Example> {
    let queued = Script::new().at(11_000).request(DATABASE, RequestStage::Queued, DISK, SMALL);
    let queued = queued.request(DATABASE, RequestStage::Inserted, DISK, SMALL);
    let queued = queued.waits(DATABASE, &["io_schedule"]).at(57_000);
    let queued = queued.request(WORKER, RequestStage::Issued, DISK, SMALL);
    let queued = queued.at(59_000).completes(DISK, SMALL);
    let kind = KernelEventKind::Woken { task: task(DATABASE), processor: 0 };
    let late = waiting(&["io_schedule"]).at(12_000).push(0, idle(0), true, kind);
    // A short call: a wake-up 0.25 ms after the request is not in the same interrupt.
    let completion = Script::new().at(10_010).issues(DATABASE, SMALL);
    let completion = completion.waits(DATABASE, &["io_schedule"]).at(10_020);
    let completion = completion.completes(DISK, SMALL).at(10_260).interrupt_wakes(DATABASE);
    let mut nothing = Script::new().at(60_000).ends();
    nothing.events.clear();
    vec![
        example("device-alone", small_write(Script::new()).ends_at_60_ms(), is_request),
        example("scheduler-queue", queued.ends_at_60_ms(), |event| {
            matches!(&event.kind, KernelEventKind::Request(request)
                if request.stage == RequestStage::Issued)
        }),
        example("late-wakeup", late.at(59_000).runs(DATABASE).at(60_000).ends(), |event| {
            matches!(event.kind, KernelEventKind::Woken { .. })
        }),
        example("kernel-work", Script::new().at(60_000).ends(), |_| true),
        example("completion", completion.at(10_290).ends(), is_request),
        example("other-wait", waiting(&["schedule", "do_something"]).ends_at_60_ms(), |event| {
            is_stack(event) || matches!(event.kind, KernelEventKind::Woken { .. })
        }),
        Example { name: "nothing-known", window: nothing, decides: Decider::Nothing },
    ]
}
