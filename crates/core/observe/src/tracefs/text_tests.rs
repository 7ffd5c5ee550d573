//! Recorded traces, and other text.

use durio_base::Nanos;
use proptest::prelude::*;

use super::{
    BlockRequest, BufferStats, TraceClock, TraceEventKind, TraceText, parse_buffer_stats,
    parse_trace,
};

/// Recorded on Linux 6.18: a write and an fdatasync on a virtio disk.
const LINUX_6_18: &[u8] = include_bytes!("fixtures/linux-6.18-virtio.trace");
/// By hand, in the form of block.h and trace_output.c of Linux 4.19: no priorities, four letters of
/// state.
const LINUX_4_19: &[u8] = include_bytes!("fixtures/linux-4.19-nvme.trace");
/// By hand, in the form of Linux 5.15 with the option record-tgid, and with FUA writes.
const LINUX_5_15: &[u8] = include_bytes!("fixtures/linux-5.15-tgid.trace");

fn trace_of(text: &[u8]) -> TraceText {
    parse_trace(text, TraceClock::Monotonic)
}

/// The events in short: kind, device, letters, bytes.
fn short(trace: &TraceText) -> Vec<String> {
    let word = |kind: &str, request: &BlockRequest| {
        format!(
            "{kind} {}:{} {} {}",
            request.device.0, request.device.1, request.flags, request.bytes
        )
    };
    let line = |kind: &TraceEventKind| match kind {
        TraceEventKind::Issued(request) => word("issued", request),
        TraceEventKind::Completed(request) => word("completed", request),
        TraceEventKind::Queued(request) => word("queued", request),
        TraceEventKind::Ended(request) => word("ended", request),
        TraceEventKind::Mark(text) => format!("mark {text}"),
        other => format!("{other:?}"),
    };
    trace.events.iter().map(|event| line(&event.kind)).collect()
}

#[test]
fn a_recorded_trace_of_linux_6_18_is_read() {
    let trace = trace_of(LINUX_6_18);
    assert_eq!(trace.unreadable, 0);
    let expected = [
        "mark durio begin 1",
        "queued 254:0 WS 4096",
        "issued 254:0 WS 4096",
        "completed 254:0 WS 4096",
        "queued 254:0 WSM 4096",
        "issued 254:0 WSM 4096",
        "completed 254:0 WSM 4096",
        "queued 254:0 FWS 0",
        "issued 254:0 FF 0",
        "completed 254:0 FF 0",
        "completed 254:0 WS 0",
        "mark durio end 1",
    ];
    assert_eq!(short(&trace), expected);
    assert_eq!(trace.events[0].at, 12_724_382_088_000);
    let TraceEventKind::Issued(data) = &trace.events[2].kind else { panic!("an issue") };
    assert_eq!(data.sector, 173_162_880);
}

#[test]
fn older_forms_are_read() {
    let old = trace_of(LINUX_4_19);
    assert_eq!(old.unreadable, 0);
    let expected = [
        "mark durio begin 0",
        "issued 259:0 WFS 4096",
        "completed 259:0 WFS 4096",
        "issued 259:0 N 4096",
        "mark durio end 0",
    ];
    assert_eq!(short(&old), expected);
    let with_tgid = trace_of(LINUX_5_15);
    assert_eq!(with_tgid.unreadable, 0);
    let expected = [
        "mark durio begin 3",
        "queued 252:0 WFS 8192",
        "ended 252:0 WFS 8192",
        "issued 8:0 WS 524288",
        "completed 8:0 WS 524288",
        "mark durio end 3",
    ];
    assert_eq!(short(&with_tgid), expected);
}

#[test]
fn the_name_of_a_task_cannot_forge_an_event() {
    // Sixteen columns, then the dash of the real number.
    let line = b"[0] . 1.1: a: b -77      [001] ..... 5.000001: tracing_mark_write: yes\n";
    assert_eq!(short(&trace_of(line)), ["mark yes"]);
    let line = b"  x-1 [0] 1.2: y-77      [001] ..... 5.000001: block_rq_issue: 8,0 W 0 () 0 + 0 [";
    assert_eq!(short(&trace_of(line)), ["issued 8:0 W 0"]);
}

#[test]
fn lines_that_should_be_events_and_are_not_are_counted() {
    let head = "              dd-5137    [000] ..... 12724.461435: ";
    for wrong in [
        "block_rq_issue: ",
        "block_rq_issue: 254,0 WS 4096 () 1",
        "block_rq_issue: 254,0 WS -1 () 1 + 8 [dd]",
        "block_rq_issue: 254 WS 4096 () 1 + 8 [dd]",
        "block_rq_issue: 254,0 W\u{1b}S 4096 () 1 + 8 [dd]",
        "block_rq_issue: 254,0 WSWSWSWSWSWSWSWSW 4096 () 1 + 8 [dd]",
        "block_rq_complete: 254,0 WS () 1 + 18446744073709551615 [0]",
        "block_bio_queue: 254,0 WS () 1 + 8 [0]",
    ] {
        let trace = trace_of(format!("{head}{wrong}\n").as_bytes());
        assert_eq!((trace.events.len(), trace.unreadable), (0, 1), "{wrong}");
    }
    let other = format!("{head}block_plug: [dd]\nCPU:1 [LOST 7 EVENTS]\n\n# tracer: nop\n");
    assert_eq!(trace_of(other.as_bytes()), TraceText::default());
    let endless = vec![b'x'; 1 << 20];
    assert_eq!(trace_of(&endless), TraceText::default());
}

#[test]
fn a_trace_that_is_cut_off_anywhere_gives_the_events_before() {
    let whole = trace_of(LINUX_6_18);
    for end in 0..LINUX_6_18.len() {
        let cut = trace_of(&LINUX_6_18[..end]);
        let complete = cut.events.len().saturating_sub(1);
        assert_eq!(cut.events[..complete], whole.events[..complete]);
        assert!(cut.unreadable <= 1);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(text in prop::collection::vec(any::<u8>(), 0..4096)) {
        let trace = trace_of(&text);
        prop_assert!(trace.events.len() <= text.len());
    }

    #[test]
    fn a_damaged_trace_never_gives_more_than_it_has_lines(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut text = LINUX_6_18.to_vec();
        for (place, byte) in places {
            let place = place.index(text.len());
            text[place] = byte;
        }
        let trace = trace_of(&text);
        let lines = text.split(|byte| *byte == b'\n').count();
        prop_assert!(trace.events.len() as u64 + trace.unreadable <= lines as u64);
    }

    #[test]
    fn a_request_is_read_as_it_is_printed(
        device in any::<(u32, u32)>(),
        flags in "[FWRDN][FWSMA]{0,7}",
        bytes in any::<u32>(),
        sector in any::<u64>(),
        micros in 0_u64..1_000_000_000_000_000,
        task in "[ -~]{16}",
    ) {
        let (major, minor) = device;
        let at = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        let line = format!(
            "{task}-7       [003] d..2. {at}: block_rq_issue: {major},{minor} {flags} {bytes} \
             () {sector} + {} none,0,0 [x]\n",
            bytes / 512,
        );
        let trace = trace_of(line.as_bytes());
        let request = BlockRequest { device, flags, bytes: bytes.into(), sector };
        prop_assert_eq!(&trace.events[0].kind, &TraceEventKind::Issued(request));
        prop_assert_eq!(trace.events[0].at, micros * 1000);
    }
}

#[test]
fn all_ways_of_losing_events_are_counted() {
    let text = "entries: 21\noverrun: 4\ncommit overrun: 1\nbytes: 1116\n\
        oldest event ts: 12724.461424\nnow ts: 12724.523515\ndropped events: 2\n\
        read events: 0\n";
    let oldest = Some(Nanos::new(12_724_461_424_000));
    let expected = BufferStats { lost: 7, oldest, oldest_ticks: None };
    assert_eq!(parse_buffer_stats(text), expected);
    let ticks = parse_buffer_stats("overrun: 1\noldest event ts: 62040983613409\n");
    let oldest_ticks = Some(62_040_983_613_409);
    assert_eq!(ticks, BufferStats { lost: 1, oldest: None, oldest_ticks });
}

#[test]
fn odd_texts_lose_nothing() {
    for text in ["", "overrun", "overrun: x", "overrun: -1", "\0: 1", "oldest event ts: x"] {
        assert_eq!(parse_buffer_stats(text), BufferStats::default(), "{text}");
    }
    let huge = parse_buffer_stats("overrun: 18446744073709551615\ndropped events: 9");
    assert_eq!(huge.lost, u64::MAX);
}

#[test]
fn a_line_has_8192_bytes_at_most_and_a_request_16_letters() {
    let line = |text: &str| format!("{:>16}-7     [000] ..... 1.000001: {text}", "durio");
    let read = |line: &str| short(&trace_of(line.as_bytes()));
    let mark = |length: usize| {
        let begin = line("tracing_mark_write: ");
        let text = "x".repeat(length - begin.len());
        read(&(begin + &text)).len()
    };
    assert_eq!((mark(8192), mark(8193)), (1, 0));
    let issued = |letters: &str| {
        read(&line(&format!("block_rq_issue: 8,0 {letters} 4096 () 64 + 8 none,0,0 [db]")))
    };
    let most = "W".repeat(16);
    assert_eq!(issued(&most), [format!("issued 8:0 {most} 4096")]);
    assert_eq!(issued(&(most + "W")), Vec::<String>::new());
}
