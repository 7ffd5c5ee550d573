//! Texts of other kernels and other texts, and windows of events as text.

use proptest::prelude::*;

use super::*;

/// Recorded on Linux 6.18: an fdatasync of a file on ext4 without a journal on a loop device.
const NO_JOURNAL: &[u8] = include_bytes!("fixtures/linux-6.18-ext4-no-journal.trace");

fn task(id: u32, name: &str) -> TraceTask {
    TraceTask { id, name: name.to_owned() }
}

/// The contents of a line.
fn read(contents: &str) -> Option<KernelEventKind> {
    let text = format!("              dd-77      [003] d..2.    12.000345: {contents}\n");
    let mut read = parse_kernel_events(text.as_bytes());
    assert!(read.events.len() <= 1);
    read.events.pop().map(|event| event.kind)
}

#[test]
fn a_flush_is_seen_from_the_filesystem_to_the_device_and_back() {
    let read = parse_kernel_events(NO_JOURNAL);
    assert_eq!((read.events.len(), read.unreadable, read.lost), (141, 0, 0));
    let flushes: Vec<_> = read
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            KernelEventKind::Request(request) => Some((event, request)),
            _ => None,
        })
        .filter(|(_, request)| request.operation == RequestOperation::Flush)
        .map(|(event, request)| (event.at, event.task.name.as_str(), request.stage, request.sync))
        .collect();
    let expected = [
        (66_403_138_057_000, "python3", RequestStage::Queued, true),
        (66_403_138_068_000, "kworker/0:1H", RequestStage::Issued, false),
        (66_403_139_671_000, "ksoftirqd/1", RequestStage::Completed, false),
        // The write without data that carried it.
        (66_403_139_671_000, "ksoftirqd/1", RequestStage::Completed, true),
    ];
    assert_eq!(flushes, expected);
}

#[test]
fn forms_of_older_kernels_are_read() {
    let request = |stage, bytes| {
        KernelEventKind::Request(RequestEvent::new(stage, (8, 16), "WS", 2048, bytes))
    };
    let cases = [
        // Before Linux 4.11: no bytes, no priority.
        ("block_rq_issue: 8,16 WS 0 () 2048 + 8 [dd]", request(RequestStage::Issued, 4096)),
        ("block_rq_issue: 8,16 WS 4608 () 2048 + 9 [dd]", request(RequestStage::Issued, 4608)),
        ("block_rq_insert: 8,16 WS 4096 () 2048 + 8 [dd]", request(RequestStage::Inserted, 4096)),
        ("block_rq_complete: 8,16 WS () 2048 + 8 [-5]", request(RequestStage::Completed, 4096)),
        ("block_rq_requeue: 8,16 WS () 2048 + 8 [0]", request(RequestStage::Requeued, 4096)),
        (
            "sched_wakeup: comm=dd pid=9 prio=120 success=1 target_cpu=002",
            KernelEventKind::Woken { task: task(9, "dd"), processor: 2 },
        ),
        (
            "mm_vmscan_direct_reclaim_begin: order=0 may_writepage=1 gfp_flags=GFP_KERNEL",
            KernelEventKind::ReclaimBegan,
        ),
        (
            "workqueue_execute_start: work struct ffff88003fc17e00: function wb_workfn [x]",
            KernelEventKind::WorkBegan { function: "wb_workfn".into() },
        ),
        (
            "workqueue_execute_start: work struct 0: function 0xffffffff81234567",
            KernelEventKind::WorkBegan { function: "0xffffffff81234567".into() },
        ),
    ];
    for (text, kind) in cases {
        assert_eq!(read(text), Some(kind), "{text}");
    }
}

#[test]
fn states_are_told_apart() {
    let states = [
        ("R", OffProcessor::Preempted),
        ("R+", OffProcessor::Preempted),
        ("S", OffProcessor::Interruptible),
        ("D", OffProcessor::Uninterruptible),
        ("D|K", OffProcessor::Uninterruptible),
        ("D|N", OffProcessor::Other),
        ("T", OffProcessor::Stopped),
        ("t", OffProcessor::Stopped),
        ("I", OffProcessor::Other),
        ("X", OffProcessor::Other),
        ("Z", OffProcessor::Other),
        ("P", OffProcessor::Other),
    ];
    for (state, off) in states {
        let text = format!(
            "sched_switch: prev_comm=dd prev_pid=77 prev_prio=120 prev_state={state} ==> \
             next_comm=x next_pid=9 next_prio=120"
        );
        let (from, to) = (task(77, "dd"), task(9, "x"));
        assert_eq!(read(&text), Some(KernelEventKind::Switched { from, off, to }), "{state}");
    }
}

#[test]
fn stacks_are_read_in_every_form() {
    let text = b"# tracer: nop
              dd-77      [003] d..2.    12.000345: <stack trace>
 => trace_event_raw_event_sched_switch+0x12/0x30
 => __schedule+0x1f8/0x700
 => io_schedule <ffffffff821fb70f>
 => xfs_file_fsync+0x12/0x80 [xfs]
 => ext4_fsync_nojournal.constprop.0
 => 0xffffffff81000130
           <...>-78      [001] .....    12.000346: block_plug: [dd]
 => not_of_a_stack
           <...>-78      [001] .....    12.000347: <stack trace>
          <idle>-0       [001] dNs4.    12.000348: mm_vmscan_direct_reclaim_begin: order=0
";
    let read = parse_kernel_events(text);
    assert_eq!(read.unreadable, 0);
    let functions = ["io_schedule", "xfs_file_fsync", "ext4_fsync_nojournal", "0xffffffff81000130"];
    let stack = KernelEventKind::Stack(functions.map(str::to_owned).to_vec());
    let event = |at, processor, task, in_interrupt, kind| KernelEvent {
        at,
        processor,
        task,
        in_interrupt,
        kind,
    };
    let expected = [
        event(12_000_345_000, 3, task(77, "dd"), false, stack),
        event(12_000_347_000, 1, task(78, ""), false, KernelEventKind::Stack(Vec::new())),
        event(12_000_348_000, 1, task(0, "swapper/1"), true, KernelEventKind::ReclaimBegan),
    ];
    assert_eq!(read.events, expected);
}

#[test]
fn letters_of_state_tell_of_interrupts_with_and_without_thread_groups() {
    for (middle, in_interrupt) in [
        ("[001] ..... ", false),
        ("[001] d.h1. ", true),
        ("[001] d.H1. ", true),
        ("[001] ..s.. ", true),
        ("[001] d.z1. ", true),
        ("[001] d.Z1. ", true),
        // The letter of interrupts alone counts.
        ("[001] s...h ", false),
        ("(   4321) [001] d.h1 ", true),
        ("(-------) [001] ...1 ", false),
        // Without letters, by option.
        ("[001]", false),
    ] {
        let text = format!(
            "              dd-77      {middle} 12.000345: jbd2_checkpoint: dev 8,1 result 0"
        );
        let read = parse_kernel_events(text.as_bytes());
        let events: Vec<_> =
            read.events.iter().map(|event| (event.processor, event.in_interrupt)).collect();
        assert_eq!(events, [(1, in_interrupt)], "{middle}");
    }
}

#[test]
fn lines_that_should_be_events_and_are_not_are_counted() {
    for wrong in [
        "sys_enter: NR 75",
        "sys_enter: NR x (1)",
        "sys_enter: NR 75 ()",
        "sys_exit: NR 75 = x",
        "sched_switch: prev_comm=a prev_pid=1 prev_prio=1 prev_state= ==> next_comm=b next_pid=2 x",
        "sched_switch: prev_comm=a prev_pid=1 prev_state=R ==> next_comm=b next_pid=-1 x",
        "sched_waking: comm=a pid=1 prio=120",
        "sched_waking: comm=a pid=1 prio=120 target_cpu=-1",
        "jbd2_start_commit: dev 8 transaction 5 sync 0",
        "jbd2_run_stats: dev 8,1 tid 5 handle_count 1 blocks 1",
        "mm_vmscan_direct_reclaim_end: nr_reclaimed=",
        "balance_dirty_pages: bdi 8:0: paused=3",
        "workqueue_execute_start: work struct 0: function ",
        "block_bio_remap: 8,1 WS 1 + 8 <- (7,1)",
        "block_bio_remap: 8,1 WS 1 + 8",
        "block_rq_issue: 8,1 WS -1 () 1 + 8 [dd]",
    ] {
        let text = format!("              dd-77      [003] d..2.    12.000345: {wrong}\n");
        let read = parse_kernel_events(text.as_bytes());
        assert_eq!((read.events.len(), read.unreadable), (0, 1), "{wrong}");
    }
    // Others are passed over: comments, other events, calls that a process's filter forbade.
    let other = "# tracer: nop\n\n              dd-77      [003] d..2.    12.000345: block_plug: [dd]\n              \
                 dd-77      [003] .....    12.000346: sys_enter: NR -1 (0, 0, 0, 0, 0, 0)\n              \
                 dd-77      [003] .....    12.000347: sys_exit: NR -1 = -38\n";
    assert_eq!(parse_kernel_events(other.as_bytes()), KernelEventText::default());
}

#[test]
fn losses_are_counted() {
    let lost = |text: &str| parse_kernel_events(text.as_bytes()).lost;
    assert_eq!(lost("CPU:1 [LOST 7 EVENTS]\nCPU:0 [LOST 5 EVENTS]\n"), 12);
    assert_eq!(lost("CPU:1 [LOST EVENTS]\n"), 1, "their number is unknown");
    assert_eq!(lost("CPU:1 [LOST 18446744073709551615 EVENTS]\nCPU:1 [LOST 7 EVENTS]"), u64::MAX);
    assert_eq!(lost("CPU:1 [LOST 7\n[LOST 7 EVENTS]\nCPU 1 buffer started ####\n"), 0);
}

#[test]
fn the_name_of_a_thread_cannot_forge_an_event() {
    let forged = "a next_pid=3 pr";
    let text = format!(
        "sched_switch: prev_comm={forged} prev_pid=7 prev_prio=120 prev_state=S ==> \
         next_comm={forged} next_pid=9 next_prio=120"
    );
    let (from, to) = (task(7, forged), task(9, forged));
    let off = OffProcessor::Interruptible;
    assert_eq!(read(&text), Some(KernelEventKind::Switched { from, off, to }));
    let woken = KernelEventKind::Woken { task: task(9, "a pid=4"), processor: 2 };
    assert_eq!(read("sched_waking: comm=a pid=4 pid=9 prio=1 target_cpu=002"), Some(woken));
}

#[test]
fn a_text_that_is_cut_off_anywhere_gives_the_events_before() {
    let whole = parse_kernel_events(NO_JOURNAL);
    for end in (0..NO_JOURNAL.len()).step_by(31) {
        let cut = parse_kernel_events(&NO_JOURNAL[..end]);
        let complete = cut.events.len().saturating_sub(1);
        assert_eq!(cut.events[..complete], whole.events[..complete]);
        assert!(cut.unreadable <= 1);
    }
}

#[test]
fn a_window_is_written_as_the_kernel_would() {
    let request = RequestEvent::new(RequestStage::Issued, (254, 0), "WFS", 64, 4096);
    let kinds = [
        KernelEventKind::CallEntered { number: 75, fd: -1 },
        KernelEventKind::Stack(vec!["io_schedule".into(), "ext4_sync_file".into()]),
        KernelEventKind::Request(request),
    ];
    let event = |kind| KernelEvent::new(12_000_345_678, 3, task(77, "d\nd"), false, kind);
    let mut events = kinds.map(event).to_vec();
    events.push(KernelEvent::new(
        13_999_999_500,
        1,
        task(0, ""),
        true,
        KernelEventKind::ReclaimBegan,
    ));
    let expected = "\
# tracer: nop
#
             d?d-77      [003] .....    12.000346: sys_enter: NR 75 (ffffffff, 0, 0, 0, 0, 0)
             d?d-77      [003] .....    12.000346: <stack trace>
 => io_schedule
 => ext4_sync_file
             d?d-77      [003] .....    12.000346: block_rq_issue: 254,0 WFS 4096 () 64 + 8 none,0,0 [0]
          <idle>-0       [001] d.h..    14.000000: mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=none
";
    assert_eq!(write_kernel_events(&events), expected);
}

fn requests() -> impl Strategy<Value = KernelEventKind> {
    let letters = vec![
        "R", "RA", "RM", "W", "WS", "WFSM", "FWFS", "FWS", "FF", "FFS", "F", "FS", "D", "DS", "DE",
        "WZ", "N", "NS", "ZR", "ZF",
    ];
    let remapped = (any::<(u32, u32)>(), any::<u64>())
        .prop_map(|(from_device, from_sector)| RequestStage::Remapped { from_device, from_sector });
    let stage = prop_oneof![
        Just(RequestStage::Queued),
        Just(RequestStage::Merged),
        remapped,
        Just(RequestStage::Inserted),
        Just(RequestStage::Issued),
        Just(RequestStage::Requeued),
        Just(RequestStage::Completed),
        Just(RequestStage::Ended),
    ];
    let place = (prop_oneof![any::<u64>(), Just(u64::MAX)], 0_u64..1 << 33);
    (stage, any::<(u32, u32)>(), prop::sample::select(letters), place).prop_map(
        |(stage, device, letters, (sector, sectors))| {
            let request = RequestEvent::new(stage, device, letters, sector, sectors * 512);
            KernelEventKind::Request(request)
        },
    )
}

fn tasks() -> impl Strategy<Value = TraceTask> {
    (any::<u32>(), "[!-~]([ -~]{0,13}[!-~])?").prop_map(|(id, name)| TraceTask { id, name })
}

fn kinds() -> impl Strategy<Value = KernelEventKind> {
    let off = prop::sample::select(vec![
        OffProcessor::Preempted,
        OffProcessor::Interruptible,
        OffProcessor::Uninterruptible,
        OffProcessor::Stopped,
        OffProcessor::Other,
    ]);
    let function = "[a-z_][a-z0-9_]{0,30}";
    prop_oneof![
        (any::<u32>(), any::<i32>())
            .prop_map(|(number, fd)| KernelEventKind::CallEntered { number, fd }),
        (any::<u32>(), any::<i64>())
            .prop_map(|(number, result)| KernelEventKind::CallLeft { number, result }),
        (tasks(), off, tasks()).prop_map(|(from, off, to)| KernelEventKind::Switched {
            from,
            off,
            to
        }),
        prop::collection::vec(function, 0..30).prop_map(KernelEventKind::Stack),
        (tasks(), any::<u32>())
            .prop_map(|(task, processor)| KernelEventKind::Woken { task, processor }),
        requests(),
        (any::<(u32, u32)>(), any::<u32>()).prop_map(|(device, transaction)| {
            KernelEventKind::JournalCommitBegan { device, transaction }
        }),
        (any::<(u32, u32)>(), any::<u32>()).prop_map(|(device, transaction)| {
            KernelEventKind::JournalCommitEnded { device, transaction }
        }),
        (any::<(u32, u32)>(), any::<(u32, u32, u32)>()).prop_map(|(device, numbers)| {
            let (transaction, handles, blocks) = numbers;
            KernelEventKind::JournalCommitted { device, transaction, handles, blocks }
        }),
        any::<(u32, u32)>().prop_map(|device| KernelEventKind::JournalCheckpoint { device }),
        Just(KernelEventKind::ReclaimBegan),
        any::<u64>().prop_map(|pages| KernelEventKind::ReclaimEnded { pages }),
        any::<i64>().prop_map(|pause_ms| KernelEventKind::DirtyPause { pause_ms }),
        function.prop_map(|function| KernelEventKind::WorkBegan { function }),
    ]
}

fn events() -> impl Strategy<Value = KernelEvent> {
    (any::<u64>(), any::<u32>(), tasks(), any::<bool>(), kinds()).prop_map(
        |(at, processor, task, in_interrupt, kind)| {
            KernelEvent::new(at, processor, task, in_interrupt, kind)
        },
    )
}

proptest! {
    #[test]
    fn a_window_is_read_as_it_was_written(
        mut window in prop::collection::vec(events(), 0..20),
    ) {
        let read = parse_kernel_events(write_kernel_events(&window).as_bytes());
        for event in &mut window {
            event.at = event.at.saturating_add(500) / 1000 * 1000;
        }
        prop_assert_eq!(read, KernelEventText { events: window, unreadable: 0, lost: 0 });
    }

    #[test]
    fn any_bytes_are_read_without_harm(text in prop::collection::vec(any::<u8>(), 0..4096)) {
        prop_assert!(parse_kernel_events(&text).events.len() <= text.len());
    }

    #[test]
    fn a_damaged_text_never_gives_more_than_it_has_lines(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut text = NO_JOURNAL.to_vec();
        for (place, byte) in places {
            let place = place.index(text.len());
            text[place] = byte;
        }
        let read = parse_kernel_events(&text);
        let lines = text.split(|byte| *byte == b'\n').count();
        prop_assert!(read.events.len() as u64 + read.unreadable <= lines as u64);
    }
}
