//! Recorded traces of one thread, and other text.

use proptest::prelude::*;

use super::{TraceClock, TraceEventKind, TraceText, parse_trace};

/// Recorded on Linux 6.18 by the time-stamp counter, while another program wrote to the same disk:
/// writes with O_DIRECT and O_DSYNC into a file on ext4 on a virtio disk.
const EXT4_TSC: &[u8] = include_bytes!("fixtures/linux-6.18-path-ext4-tsc.trace");
/// Recorded there by CLOCK_MONOTONIC: writes with O_DIRECT, and fdatasync.
const EXT4_MONO: &[u8] = include_bytes!("fixtures/linux-6.18-path-ext4-mono.trace");
/// Recorded there: writes with O_DIRECT and O_DSYNC to a loop device, whose file is on that disk.
const LOOP: &[u8] = include_bytes!("fixtures/linux-6.18-path-loop-tsc.trace");
/// Recorded there: the same to zram.
const ZRAM: &[u8] = include_bytes!("fixtures/linux-6.18-path-zram-tsc.trace");

/// The events of the first operation of `task` in short.
fn first_operation(trace: &TraceText, task: u32) -> Vec<String> {
    let of_device =
        |request: &super::BlockRequest| format!("{}:{}", request.device.0, request.device.1);
    let word = |event: &super::TraceEvent| match &event.kind {
        TraceEventKind::Entered => Some("entered".to_owned()),
        TraceEventKind::Left => Some("left".to_owned()),
        TraceEventKind::SwitchedOut { preempted } if event.task == task => {
            Some(format!("out{}", if *preempted { ", taken" } else { "" }))
        }
        TraceEventKind::SwitchedIn { task: next } if *next == task => Some("in".to_owned()),
        TraceEventKind::Queued(request) => {
            Some(format!("queued {} {}", of_device(request), request.flags))
        }
        TraceEventKind::Ended(request) => {
            Some(format!("ended {} {}", of_device(request), request.flags))
        }
        TraceEventKind::Issued(request) => {
            Some(format!("issued {} {}", of_device(request), request.flags))
        }
        TraceEventKind::Completed(request) => {
            Some(format!("completed {} {}", of_device(request), request.flags))
        }
        _ => None,
    };
    let entered =
        trace.events.iter().position(|event| event.kind == TraceEventKind::Entered).unwrap();
    let left = trace.events.iter().position(|event| event.kind == TraceEventKind::Left).unwrap();
    trace.events[entered..=left].iter().filter_map(word).collect()
}

#[test]
fn a_durable_write_to_zram_never_leaves_its_processor() {
    let trace = parse_trace(ZRAM, TraceClock::Tsc);
    assert_eq!(trace.unreadable, 0);
    let expected = ["entered", "queued 253:1 WS", "ended 253:1 WS", "left"];
    assert_eq!(first_operation(&trace, 25761), expected);
    assert_eq!(trace.events[0].kind, TraceEventKind::Mark("durio here".into()));
    assert_eq!((trace.events[0].task, trace.events[0].at), (25761, 62_048_512_201_450));
}

#[test]
fn a_durable_write_through_ext4_waits_for_data_journal_and_flush() {
    let trace = parse_trace(EXT4_TSC, TraceClock::Tsc);
    assert_eq!(trace.unreadable, 0);
    let events = first_operation(&trace, 25613);
    let outs = events.iter().filter(|event| event.starts_with("out")).count();
    // From the idle task this kernel did not show the way back.
    assert_eq!((outs, events.iter().filter(|event| *event == "in").count()), (3, 2), "{events:?}");
    for event in ["queued 254:0 WSM", "queued 254:0 FWS", "issued 254:0 FF", "completed 254:0 FF"] {
        assert!(events.iter().any(|seen| seen == event), "{event}: {events:?}");
    }
}

#[test]
fn the_clock_says_how_times_are_read() {
    let mono = parse_trace(EXT4_MONO, TraceClock::Monotonic);
    assert_eq!((mono.unreadable, mono.events[0].at), (0, 25_371_616_562_000));
    assert!(mono.events.is_sorted_by_key(|event| event.at));
    // The text of one clock read as that of the other has no events, rather than wrong times.
    assert_eq!(parse_trace(EXT4_MONO, TraceClock::Tsc), TraceText::default());
    assert_eq!(parse_trace(EXT4_TSC, TraceClock::Monotonic), TraceText::default());
}

#[test]
fn a_loop_device_is_seen_with_the_disk_below_it() {
    let trace = parse_trace(LOOP, TraceClock::Tsc);
    assert_eq!(trace.unreadable, 0);
    let events = first_operation(&trace, 25711);
    for event in ["queued 7:0 WFS", "issued 7:0 WS", "queued 254:0 WS", "completed 254:0 WS"] {
        assert!(events.iter().any(|seen| seen == event), "{event}: {events:?}");
    }
}

#[test]
fn the_name_of_a_task_cannot_forge_a_switch() {
    let head = "           forge-7       [000] d..2. 55: sched_switch: ";
    let line = format!(
        "{head}prev_comm=a next_pid=3 pr prev_pid=7 prev_prio=120 prev_state=S ==> \
         next_comm=b next_pid=8 ne next_pid=9 next_prio=120\n"
    );
    let trace = parse_trace(line.as_bytes(), TraceClock::Tsc);
    let kinds: Vec<_> = trace.events.into_iter().map(|event| (event.task, event.kind)).collect();
    let out = TraceEventKind::SwitchedOut { preempted: false };
    assert_eq!(kinds, [(7, out), (7, TraceEventKind::SwitchedIn { task: 9 })]);
}

#[test]
fn lines_that_should_be_events_and_are_not_are_counted() {
    let head = "              dd-5137    [000] ..... 12724461435: ";
    for wrong in [
        "sys_enter: NR x (1)",
        "sys_exit: ",
        "sched_switch: prev_comm=a prev_pid=1 prev_state=R ==> next_comm=b next_pid=-1 x",
        "sched_switch: next_pid=5",
        "block_bio_queue: 254,0 WS () 1 + 8 [0]",
    ] {
        let trace = parse_trace(format!("{head}{wrong}\n").as_bytes(), TraceClock::Tsc);
        assert_eq!((trace.events.len(), trace.unreadable), (0, 1), "{wrong}");
    }
    let endless = vec![b'x'; 1 << 20];
    assert_eq!(parse_trace(&endless, TraceClock::Tsc), TraceText::default());
}

#[test]
fn a_trace_that_is_cut_off_anywhere_gives_the_events_before() {
    let whole = parse_trace(LOOP, TraceClock::Tsc);
    for end in (0..LOOP.len()).step_by(7) {
        let cut = parse_trace(&LOOP[..end], TraceClock::Tsc);
        // The last line may be one of two events, and may read as another.
        let complete = cut.events.len().saturating_sub(2);
        assert_eq!(cut.events[..complete], whole.events[..complete]);
        assert!(cut.unreadable <= 1);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(
        text in prop::collection::vec(any::<u8>(), 0..4096),
        tsc in any::<bool>(),
    ) {
        let clock = if tsc { TraceClock::Tsc } else { TraceClock::Monotonic };
        let trace = parse_trace(&text, clock);
        prop_assert!(trace.events.len() <= text.len());
    }

    #[test]
    fn a_damaged_trace_never_gives_more_than_its_lines_hold(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut text = EXT4_TSC.to_vec();
        for (place, byte) in places {
            let place = place.index(text.len());
            text[place] = byte;
        }
        let trace = parse_trace(&text, TraceClock::Tsc);
        let lines = text.split(|byte| *byte == b'\n').count();
        prop_assert!(trace.events.len() <= 2 * lines);
        prop_assert!(trace.unreadable <= lines as u64);
    }

    #[test]
    fn a_switch_is_read_as_it_is_printed(
        at in any::<u64>(),
        tasks in (1_u32..4_194_304, 0_u32..4_194_304),
        names in ("[ -~]{16}", "[a-z/:0-9 ]{0,15}", "[a-z/:0-9 ]{0,15}"),
        state in prop::sample::select(vec!["R", "R+", "S", "D", "D|K", "I"]),
    ) {
        let ((task, next), (own, prev_comm, next_comm)) = (tasks, names);
        let line = format!(
            "{own}-{task}     [001] d..2. {at}: sched_switch: prev_comm={prev_comm} \
             prev_pid={task} prev_prio=120 prev_state={state} ==> next_comm={next_comm} \
             next_pid={next} next_prio=120\n"
        );
        let trace = parse_trace(line.as_bytes(), TraceClock::Tsc);
        let preempted = state.starts_with('R');
        prop_assert_eq!(&trace.events[0].kind, &TraceEventKind::SwitchedOut { preempted });
        prop_assert_eq!(&trace.events[1].kind, &TraceEventKind::SwitchedIn { task: next });
        prop_assert!(trace.events.iter().all(|event| event.at == at && event.task == task));
    }
}
