//! Rules find their examples; timelines add up whatever comes.

mod examples;

use durio_observe::{
    KernelEvent, KernelEventKind, OffProcessor, RequestEvent, RequestOperation, RequestStage,
    SlowCall, SlowWatchFacts, SlowWindow, TraceTask, WindowFacts, parse_kernel_events,
};
use examples::{
    DATABASE, DISK, Example, FLUSH, JOURNAL, LARGE, LOOP, SMALL, Script, Thread, WORKER, examples,
    ordered_data,
};
use proptest::prelude::*;

use super::rules::rules;
use super::*;

fn example(name: &str) -> Example {
    let found = examples().into_iter().find(|example| example.name == name);
    found.unwrap_or_else(|| panic!("no example {name}"))
}

fn explained(window: &SlowWindow) -> ExplainedCall {
    explain(window, 0)
}

fn woken(thread: Thread) -> KernelEventKind {
    let task = TraceTask { id: thread.0, name: thread.1.to_owned() };
    KernelEventKind::Woken { task, processor: thread.2 }
}

/// The pieces of a call as kind, lane and milliseconds.
fn shape(call: &ExplainedCall) -> Vec<(PieceKind, u32, u64)> {
    let pieces = call.pieces.iter();
    pieces.map(|piece| (piece.kind, piece.lane.thread, piece.ns() / 1_000_000)).collect()
}

fn assert_adds_up(call: &ExplainedCall) {
    let mut reached = 0;
    for piece in &call.pieces {
        assert_eq!(piece.begin_ns, reached, "{call:?}");
        assert!(piece.end_ns > piece.begin_ns, "{call:?}");
        reached = piece.end_ns;
    }
    assert_eq!(reached, call.latency_ns, "{call:?}");
}

#[test]
fn the_file_of_causes_can_be_read_and_each_cause_has_a_rule_a_sentence_and_a_source() {
    assert!(causes().len() >= 20, "{}", causes().len());
    for cause in causes() {
        let has_rule = rules().iter().any(|rule| rule.cause == cause.id);
        assert!(has_rule, "{}", cause.id);
        assert!(cause.sentence.contains("{time}"), "{}", cause.id);
        assert!(cause.source.contains("https://"), "{}", cause.id);
        assert!(!cause.advice.is_empty() && !cause.title.is_empty(), "{}", cause.id);
        let same = causes().iter().filter(|other| other.id == cause.id).count();
        assert_eq!(same, 1, "{}", cause.id);
    }
    for rule in rules() {
        assert!(causes().iter().any(|cause| cause.id == rule.cause), "{}", rule.cause);
    }
}

#[test]
fn each_rule_finds_its_example() {
    for rule in rules() {
        let example = example(&rule.example);
        let call = explained(&example.window);
        assert_adds_up(&call);
        assert_eq!(call.cause, rule.cause, "{}: {call:#?}", rule.example);
        let is_known = rule.cause != "unknown";
        assert!(call.cause_share > 0.8 && call.doubts.is_empty() == is_known, "{call:#?}");
    }
}

#[test]
fn no_rule_finds_its_example_without_what_decides() {
    for rule in rules() {
        let Some(window) = example(&rule.example).without_decider() else { continue };
        let call = explained(&window);
        assert_adds_up(&call);
        assert_ne!(call.cause, rule.cause, "{}: {call:#?}", rule.example);
    }
}

#[test]
fn each_example_belongs_to_a_rule() {
    for example in examples() {
        let has_rule = rules().iter().any(|rule| rule.example == example.name);
        assert!(has_rule, "{}", example.name);
    }
}

#[test]
fn sentences_name_who_was_in_the_way_with_figures() {
    let rows = [
        ("large-writes", "waited 47 ms for vda, which had 1 MiB of rsync (812) to do"),
        ("discard", "waited 47 ms for vda, which discarded 64 MiB for rsync (812)"),
        ("flush", "waited 48 ms for vda to flush its cache"),
        ("inode-lock", "waited 48 ms for a lock that rsync (812) held"),
        ("processor-taken", "waited 12 ms for a processor that gcc (900) had"),
        ("stopped", "waited 48 ms while postgres (700) was stopped by a signal or a debugger"),
        ("sync-storm", "waited 47 ms for a commit of the journal, as rsync (812) did"),
    ];
    for (name, expected) in rows {
        assert_eq!(explained(&example(name).window).sentence, expected, "{name}");
    }
}

#[test]
fn a_commit_that_writes_the_data_of_another_process_is_followed_to_the_device_and_names_it() {
    let call = explained(&ordered_data());
    let expected =
        "waited 45 ms for a commit of the journal while 1 MiB were written for rsync (812)";
    assert_eq!(call.sentence, expected);
    let expected = [
        (PieceKind::OnProcessor, DATABASE.0, 1),
        (PieceKind::OnProcessor, JOURNAL.0, 1),
        (PieceKind::Device, JOURNAL.0, 45),
        (PieceKind::OnProcessor, JOURNAL.0, 2),
        (PieceKind::OnProcessor, DATABASE.0, 1),
    ];
    assert_eq!(shape(&call), expected);
    let device = &call.pieces[2];
    assert_eq!(device.device.as_deref(), Some("vda"));
    assert_eq!(device.detail, "write of 1 MiB at vda");
    assert_eq!((call.second_cause, call.unexplained_share), (None, 0.0));
    assert_eq!((call.call.as_str(), call.path.as_deref()), ("fdatasync", Some("/db/wal")));
    assert!((call.at_seconds - 0.01).abs() < 1e-9, "{}", call.at_seconds);
}

#[test]
fn a_request_of_a_loop_device_is_followed_to_its_worker_and_the_disk_below() {
    let worker_stack = ["io_schedule", "folio_wait_writeback"];
    let script = Script::new().at(11_000);
    let script = script.request(DATABASE, RequestStage::Queued, LOOP, SMALL);
    let script =
        script.request(DATABASE, RequestStage::Issued, LOOP, SMALL).wakes(DATABASE, WORKER);
    let script = script.waits(DATABASE, &["io_schedule", "submit_bio_wait"]);
    let script = script.at(13_000).issues(WORKER, SMALL).waits(WORKER, &worker_stack);
    let script = script.at(57_000).completes(DISK, SMALL).interrupt_wakes(WORKER);
    let script = script.at(59_000).request(WORKER, RequestStage::Completed, LOOP, SMALL);
    let call = explained(&script.wakes(WORKER, DATABASE).at(60_000).ends());
    assert_adds_up(&call);
    assert_eq!(call.cause, "device-alone");
    let device = call.pieces.iter().find(|piece| piece.kind == PieceKind::Device).unwrap();
    assert_eq!((device.lane.thread, device.device.as_deref()), (WORKER.0, Some("vda")));
    assert_eq!(device.ns(), 44_000_000);
}

#[test]
fn a_write_with_a_flush_before_it_is_queued_while_the_device_flushes() {
    let script = Script::new().at(11_000).issues(DATABASE, SMALL);
    let mut window = script.waits(DATABASE, &["io_schedule"]).at(12_000).ends_at_60_ms();
    // The flush from 11 to 40 ms, the write from 41 to 59 ms.
    let flush = |at: u64, stage| {
        let (operation, sector, bytes) = FLUSH;
        let request = RequestEvent {
            stage,
            device: DISK,
            operation,
            preflush: false,
            fua: false,
            sync: false,
            metadata: false,
            sector: (bytes > 0).then_some(sector),
            bytes,
        };
        let task = TraceTask { id: 0, name: "swapper/0".to_owned() };
        let kind = KernelEventKind::Request(request);
        KernelEvent { at, processor: 0, task, in_interrupt: true, kind }
    };
    for event in &mut window.events {
        if let KernelEventKind::Request(request) = &mut event.kind {
            request.preflush = request.stage == RequestStage::Queued;
            if request.stage == RequestStage::Issued {
                event.at = 41_000_000;
                event.in_interrupt = true;
            }
        }
    }
    window.events.push(flush(11_000_000, RequestStage::Issued));
    window.events.push(flush(40_000_000, RequestStage::Completed));
    let is_issue = |event: &&KernelEvent| {
        matches!(&event.kind, KernelEventKind::Request(request)
            if request.stage == RequestStage::Issued && request.bytes > 0)
    };
    let mut done = window.events.iter().find(is_issue).unwrap().clone();
    done.at = 58_999_999;
    if let KernelEventKind::Request(request) = &mut done.kind {
        request.stage = RequestStage::Completed;
    }
    window.events.push(done);
    let call = explained(&window);
    assert_adds_up(&call);
    let device: Vec<(u64, &str)> = call
        .pieces
        .iter()
        .filter(|piece| piece.kind == PieceKind::Device)
        .map(|piece| (piece.ns(), piece.detail.as_str()))
        .collect();
    let expected = [(29_000_000, "flush at vda"), (17_999_999, "write of 8 KiB at vda")];
    assert_eq!(device, expected);
    assert_eq!((call.cause, call.second_cause), ("device-flush", Some("device-alone")));
}

#[test]
fn a_request_of_a_loop_device_that_ends_in_an_interrupt_is_followed_to_its_worker_as_well() {
    let function = "loop_rootcg_workfn".to_owned();
    let script = Script::new().at(11_000);
    let script = script.request(DATABASE, RequestStage::Queued, LOOP, SMALL);
    let script =
        script.request(DATABASE, RequestStage::Issued, LOOP, SMALL).wakes(DATABASE, WORKER);
    let script = script.waits(DATABASE, &["io_schedule", "folio_wait_writeback"]);
    let script = script.does(WORKER, KernelEventKind::WorkBegan { function });
    let script = script.at(13_000).waits(WORKER, &["schedule", "rwsem_down_write_slowpath"]);
    let script = script.at(58_000).interrupt_wakes(WORKER).at(59_000).completes(LOOP, SMALL);
    let call = explained(&script.ends_at_60_ms());
    assert_adds_up(&call);
    assert_eq!(call.cause, "inode-lock");
    let lock = call.pieces.iter().find(|piece| piece.kind == PieceKind::Lock).unwrap();
    assert_eq!((lock.lane.thread, lock.ns()), (WORKER.0, 45_000_000));
}

#[test]
fn an_interrupt_thread_that_gets_no_processor_is_why_a_request_ends_late() {
    let (interrupts, hog) = (Thread(14, "ksoftirqd/0", 0), Thread(950, "stress", 0));
    let script = Script::new().at(11_000).issues(DATABASE, SMALL);
    let script = script.switches(DATABASE, OffProcessor::Uninterruptible, hog);
    // The worker has done the request after 1 ms, and a realtime thread keeps the processor.
    let script = script.at(12_000).does(WORKER, woken(interrupts));
    let script = script.at(58_000).switches(hog, OffProcessor::Interruptible, interrupts);
    let mut window = script.at(58_900).completes(DISK, SMALL).ends_at_60_ms();
    for event in &mut window.events {
        if event.at == 58_900_000 {
            event.task = TraceTask { id: interrupts.0, name: interrupts.1.to_owned() };
        }
    }
    let call = explained(&window);
    assert_adds_up(&call);
    assert_eq!(call.cause, "processor-taken", "{call:#?}");
    assert!(call.sentence.starts_with("waited 46 ms for a processor that stress (950) had"));
}

#[test]
fn a_worker_that_gets_no_processor_is_why_a_flush_begins_late() {
    let (worker, hog) = (Thread(57, "kworker/0:1H", 0), Thread(950, "stress", 0));
    let script = Script::new().at(11_000).request(DATABASE, RequestStage::Queued, DISK, FLUSH);
    let script = script.does(DATABASE, woken(worker));
    let script = script.switches(DATABASE, OffProcessor::Uninterruptible, hog);
    let script = script.at(57_000).switches(hog, OffProcessor::Interruptible, worker);
    let script = script.request(worker, RequestStage::Issued, DISK, FLUSH);
    let script = script.sleeps(worker, OffProcessor::Other, &[]);
    let call =
        explained(&script.at(59_000).completes(DISK, FLUSH).completes(DISK, FLUSH).ends_at_60_ms());
    assert_adds_up(&call);
    assert_eq!(call.sentence, "waited 46 ms for a processor that stress (950) had");
}

#[test]
fn time_that_a_layer_holds_a_request_is_the_layers() {
    let layer = (253, 0);
    let script = Script::new().at(11_000).request(DATABASE, RequestStage::Queued, layer, SMALL);
    let script = script.waits(DATABASE, &["io_schedule", "submit_bio_wait"]);
    let script = script.at(57_000).interrupt_wakes(WORKER).issues(WORKER, SMALL);
    let script = script.at(59_000).completes(DISK, SMALL).completes(layer, SMALL);
    let mut window = script.ends_at_60_ms();
    for event in &mut window.events {
        if let KernelEventKind::Request(request) = &mut event.kind
            && request.device == layer
            && request.stage == RequestStage::Completed
        {
            request.stage = RequestStage::Ended;
        }
    }
    let call = explained(&window);
    assert_adds_up(&call);
    let device = &call.pieces[1];
    assert_eq!((device.kind, device.ns()), (PieceKind::Device, 46_000_000), "{call:#?}");
    assert_eq!((call.cause, device.detail.as_str()), ("device-alone", "write of 8 KiB at 253:0"));
}

#[test]
fn a_chain_of_threads_is_followed_eight_deep() {
    let stack = ["schedule", "rwsem_down_write_slowpath"];
    let chain: Vec<Thread> =
        (0..12).map(|number| Thread(900 + number, "worker", 2 + number)).collect();
    let mut script = Script::new().at(11_000).waits(DATABASE, &stack);
    for &thread in &chain {
        script = script.waits(thread, &stack);
    }
    script = script.at(58_000).interrupt_wakes(chain[11]);
    for pair in chain.windows(2).rev() {
        script = script.wakes(pair[1], pair[0]);
    }
    let call = explained(&script.wakes(chain[0], DATABASE).at(60_000).ends());
    assert_adds_up(&call);
    assert_eq!((call.cause, call.unexplained_share), ("inode-lock", 0.0));
    let deepest = call.pieces.iter().map(|piece| piece.lane.thread).max();
    assert_eq!(deepest, Some(906));
}

#[test]
fn two_causes_are_both_named_the_larger_first() {
    // 30 ms for the processor, then 18 ms for the device.
    let compiler = Thread(900, "gcc", 0);
    let script = Script::new().at(11_000).switches(DATABASE, OffProcessor::Preempted, compiler);
    let script = script.at(41_000).switches(compiler, OffProcessor::Interruptible, DATABASE);
    let script = script.issues(DATABASE, SMALL).waits(DATABASE, &["io_schedule"]);
    let call = explained(&script.at(59_000).completes(DISK, SMALL).ends_at_60_ms());
    assert_eq!((call.cause, call.second_cause), ("processor-taken", Some("device-alone")));
    let expected = "waited 30 ms for a processor that gcc (900) had; \
        waited 18 ms for vda, which had nothing else of note to do";
    assert_eq!(call.sentence, expected);
    assert!((call.cause_share - 0.6).abs() < 1e-9, "{}", call.cause_share);
}

#[test]
fn lost_events_a_small_cause_and_a_remainder_are_doubts() {
    let mut window = example("device-alone").window;
    window.is_incomplete = true;
    assert_eq!(explained(&window).doubts, ["events of this time were lost"]);
    // Three causes of 16, 16 and 18 ms.
    let compiler = Thread(900, "gcc", 0);
    let script = Script::new().at(10_000).switches(DATABASE, OffProcessor::Preempted, compiler);
    let script = script.at(26_000).switches(compiler, OffProcessor::Interruptible, DATABASE);
    let script = script.issues(DATABASE, SMALL).waits(DATABASE, &["io_schedule"]);
    let script = script.at(42_000).completes(DISK, SMALL).interrupt_wakes(DATABASE);
    let window = script.waits(DATABASE, &[]).at(60_000).runs(DATABASE).ends();
    let call = explained(&window);
    let expected = ["the cause took only 32 % of the time", "no event explains 36 % of the time"];
    assert_eq!(call.doubts, expected, "{call:#?}");
    assert!((call.unexplained_share - 0.36).abs() < 1e-9, "{}", call.unexplained_share);
}

#[test]
fn a_thread_is_not_said_to_run_before_the_first_event_of_a_ring_that_lost_some() {
    let script = Script::new().at(40_000).issues(DATABASE, SMALL).waits(DATABASE, &["io_schedule"]);
    let script = script.at(59_000).completes(DISK, SMALL).interrupt_wakes(DATABASE);
    let mut window = script.at(60_000).ends();
    let whole = explained(&window);
    assert_eq!((whole.cause, whole.unexplained_share), ("kernel-work", 0.0));
    window.is_incomplete = true;
    let call = explained(&window);
    assert_adds_up(&call);
    assert_eq!(call.pieces[0].kind, PieceKind::Unknown);
    let begin = whole.pieces[0].begin_ns;
    assert_eq!(call.pieces[0].end_ns - begin, whole.pieces[0].end_ns - begin, "up to the wait");
    assert_eq!((call.cause, call.doubts.len()), ("unknown", 2), "{:?}", call.doubts);
}

#[test]
fn small_pieces_become_part_of_a_neighbour_of_their_kind() {
    // A hundred turns of the processor, 0.1 ms each, in a call of 50 ms.
    let compiler = Thread(900, "gcc", 0);
    let mut script = Script::new();
    for turn in 0..100 {
        let at = 11_000 + turn * 200;
        script = script.at(at).switches(DATABASE, OffProcessor::Preempted, compiler);
        script = script.at(at + 100).switches(compiler, OffProcessor::Preempted, DATABASE);
    }
    let call = explained(&script.at(60_000).ends());
    assert_adds_up(&call);
    assert!(call.pieces.len() <= 201, "{}", call.pieces.len());
    assert_eq!((call.cause, call.second_cause), ("kernel-work", Some("processor-taken")));
}

#[test]
fn the_summary_ranks_causes_by_the_time_lost_and_keeps_only_the_worst_calls() {
    let mut calls = SlowCalls::new(2);
    for name in ["large-writes", "processor-taken", "large-writes", "processor-taken", "flush"] {
        calls.take(explained(&example(name).window));
    }
    assert_eq!(calls.worst().len(), 2);
    let found = calls.findings(SlowWatchFacts::default());
    let causes: Vec<(&str, usize, u64)> =
        found.causes.iter().map(|cause| (cause.cause, cause.calls, cause.lost_ns)).collect();
    let expected = [
        ("device-others", 2, 94_000_000),
        ("device-flush", 1, 48_000_000),
        ("processor-taken", 2, 24_000_000),
    ];
    assert_eq!(causes, expected);
    let first = &found.causes[0];
    assert_eq!(first.sentence, "waited 47 ms for vda, which had 1 MiB of rsync (812) to do");
    assert_eq!((first.who.len(), first.who[0].name.as_str()), (1, "rsync"));
    assert_eq!(first.who[0].bytes, LARGE.2);
    // A histogram's bucket is a thousandth wide.
    assert!(first.p50_ns.abs_diff(50_000_000) < 50_000, "{}", first.p50_ns);
    let latencies: Vec<u64> = found.calls.iter().map(|call| call.latency_ns).collect();
    assert_eq!(latencies, [50_000_000, 50_000_000]);
    assert_eq!(found.schema, "durio-why-1");
}

/// One sync each on ext4 with and without a journal and on XFS, on loop devices of Linux 6.18.
const RECORDED: [&str; 3] = [
    include_str!(
        "../../../../core/observe/src/kernel_events/fixtures/linux-6.18-ext4-journal.trace"
    ),
    include_str!(
        "../../../../core/observe/src/kernel_events/fixtures/linux-6.18-ext4-no-journal.trace"
    ),
    include_str!("../../../../core/observe/src/kernel_events/fixtures/linux-6.18-xfs.trace"),
];

#[test]
fn recorded_calls_of_a_real_kernel_add_up_with_hardly_a_remainder() {
    for text in RECORDED {
        let events = parse_kernel_events(text.as_bytes()).events;
        let entered = events.iter().find(|event| {
            let is_sync =
                matches!(event.kind, KernelEventKind::CallEntered { number: 74 | 75, .. });
            is_sync && event.task.name == "python3"
        });
        let (begin, thread) = entered.map(|event| (event.at, event.task.clone())).unwrap();
        let left = events.iter().find(|event| {
            let is_sync = matches!(event.kind, KernelEventKind::CallLeft { number: 74 | 75, .. });
            is_sync && event.task == thread && event.at > begin
        });
        let end = left.unwrap().at;
        let (name, path, facts) = ("fsync".to_owned(), None, WindowFacts::default());
        let call = SlowCall { process: thread.id, thread, name, path, begin, end };
        let call = explained(&SlowWindow { call, events, is_incomplete: false, facts });
        assert_adds_up(&call);
        assert!(call.pieces.len() >= 3 && call.unexplained_share <= 0.05, "{call:#?}");
    }
}

#[test]
fn nothing_slow_has_no_causes() {
    let found = SlowCalls::new(20).findings(SlowWatchFacts::default());
    assert!(found.causes.is_empty() && found.calls.is_empty());
}

#[test]
fn a_call_without_time_is_explained_without_pieces() {
    let mut window = example("nothing-known").window;
    window.call.end = window.call.begin;
    let call = explained(&window);
    assert_eq!((call.pieces.len(), call.latency_ns, call.cause), (0, 0, "unknown"));
    window.call.end = window.call.begin - 1;
    assert_eq!(explained(&window).latency_ns, 0);
}

fn any_task() -> impl Strategy<Value = TraceTask> {
    (0..6_u32)
        .prop_map(|id| TraceTask { id, name: if id == 3 { "kworker/0:1" } else { "" }.into() })
}

fn any_request() -> impl Strategy<Value = KernelEventKind> {
    let devices = prop::sample::select(vec![DISK, LOOP, (9, 0)]);
    let operations = prop::sample::select(vec![
        RequestOperation::Read,
        RequestOperation::Write,
        RequestOperation::Discard,
        RequestOperation::Flush,
    ]);
    let stages = prop::sample::select(vec![
        RequestStage::Queued,
        RequestStage::Merged,
        RequestStage::Remapped { from_device: (9, 0), from_sector: 1 },
        RequestStage::Inserted,
        RequestStage::Issued,
        RequestStage::Requeued,
        RequestStage::Completed,
        RequestStage::Ended,
    ]);
    let bytes = prop::sample::select(vec![0, 512, 8192, 1 << 20, u64::MAX]);
    let sector = prop::option::of(prop::sample::select(vec![0, 1, 8, 16, u64::MAX]));
    let flags = any::<(bool, bool)>();
    (devices, operations, stages, bytes, sector, flags).prop_map(
        |(device, operation, stage, bytes, sector, (preflush, fua))| {
            let (sync, metadata) = (preflush, fua);
            KernelEventKind::Request(RequestEvent {
                stage,
                device,
                operation,
                preflush,
                fua,
                sync,
                metadata,
                sector,
                bytes,
            })
        },
    )
}

fn any_kind() -> impl Strategy<Value = KernelEventKind> {
    let off = prop::sample::select(vec![
        OffProcessor::Preempted,
        OffProcessor::Interruptible,
        OffProcessor::Uninterruptible,
        OffProcessor::Stopped,
        OffProcessor::Other,
    ]);
    let functions = prop::sample::select(vec![
        "io_schedule",
        "jbd2_log_wait_commit",
        "filemap_fdatawait_range_keep_errors",
        "rwsem_down_write_slowpath",
        "blk_mq_get_tag",
        "balance_dirty_pages",
    ]);
    let (device, transaction) = (DISK, 7);
    prop_oneof![
        6 => (any_task(), off, any_task())
            .prop_map(|(from, off, to)| KernelEventKind::Switched { from, off, to }),
        6 => (any_task(), 0..3_u32)
            .prop_map(|(task, processor)| KernelEventKind::Woken { task, processor }),
        3 => prop::collection::vec(functions, 0..3).prop_map(|functions| {
            KernelEventKind::Stack(functions.into_iter().map(str::to_owned).collect())
        }),
        9 => any_request(),
        1 => Just(KernelEventKind::JournalCommitBegan { device, transaction }),
        1 => Just(KernelEventKind::JournalCommitEnded { device, transaction }),
        1 => any::<u32>().prop_map(move |blocks| KernelEventKind::JournalCommitted {
            device,
            transaction,
            handles: 1,
            blocks,
        }),
        1 => Just(KernelEventKind::JournalCheckpoint { device }),
        1 => Just(KernelEventKind::ReclaimBegan),
        1 => Just(KernelEventKind::ReclaimEnded { pages: 1 }),
        1 => (-9..9_i64).prop_map(|pause_ms| KernelEventKind::DirtyPause { pause_ms }),
        1 => Just(KernelEventKind::WorkBegan { function: "wb_workfn".to_owned() }),
        1 => Just(KernelEventKind::CallEntered { number: 75, fd: 3 }),
        1 => Just(KernelEventKind::CallLeft { number: 75, result: 0 }),
    ]
}

fn any_event() -> impl Strategy<Value = KernelEvent> {
    // Most within the call, some at the ends of time.
    let at = prop_oneof![9 => 0..4000_u64, 1 => Just(u64::MAX), 1 => Just(0)];
    (at, 0..3_u32, any_task(), any::<bool>(), any_kind()).prop_map(
        |(at, processor, task, in_interrupt, kind)| KernelEvent {
            at,
            processor,
            task,
            in_interrupt,
            kind,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn pieces_add_up_and_do_not_overlap_whatever_events_come_in_whatever_order(
        mut events in prop::collection::vec(any_event(), 0..120),
        doubled in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        is_sorted in any::<bool>(), is_incomplete in any::<bool>(),
        begin in 0..2000_u64, latency in 0..3000_u64,
    ) {
        if !events.is_empty() {
            for index in &doubled {
                events.push(index.get(&events).clone());
            }
        }
        if is_sorted {
            events.sort_by_key(|event| event.at);
        }
        let call = SlowCall {
            process: 1,
            thread: TraceTask { id: 1, name: "database".to_owned() },
            name: "fsync".to_owned(),
            path: None,
            begin,
            end: begin + latency,
        };
        let facts = WindowFacts { steal: vec![700], ..WindowFacts::default() };
        let call = explain(&SlowWindow { call, events, is_incomplete, facts }, begin);
        assert_adds_up(&call);
        prop_assert_eq!(call.latency_ns, latency);
        for piece in &call.pieces {
            prop_assert!(causes().iter().any(|cause| cause.id == piece.cause), "{}", piece.cause);
        }
        prop_assert!((0.0..=1.0).contains(&call.cause_share), "{}", call.cause_share);
        prop_assert!((0.0..=1.0).contains(&call.unexplained_share), "{}", call.unexplained_share);
        let mut calls = SlowCalls::new(1);
        calls.take(call);
        prop_assert!(calls.findings(SlowWatchFacts::default()).causes.len() <= 1);
    }
}
