//! Every event as bytes and as text, by the formats of Linux 6.18 on x86-64, and other formats.

use super::*;

/// Formats of all events, without the lines of how they are printed.
const FORMATS: &str = include_str!("fixtures/linux-6.18.formats");
const SYMBOLS: &str = "\
ffffffff81001000 t trace_event_raw_event_sched_switch
ffffffff81002000 t __schedule
ffffffff81003000 T io_schedule
ffffffff81004000 t ext4_fsync_nojournal.constprop.0
ffffffff81005000 t blk_mq_requeue_work
";

pub(super) fn symbols(text: &str) -> KernelSymbols {
    KernelSymbols::parse(text.as_bytes())
}

/// The format of an event.
pub(super) fn format_of(event: &str) -> &'static str {
    let begins = |text: &&str| text.lines().next() == Some(event);
    FORMATS.split("name: ").find(begins).unwrap_or_else(|| panic!("no format of {event}"))
}

pub(super) fn all_formats() -> KernelEventFormats {
    let mut formats = KernelEventFormats::default();
    let older = KERNEL_EVENTS.iter().filter_map(|event| event.instead);
    let names = KERNEL_EVENTS.iter().map(|event| event.name).chain(older).chain([STACK_EVENT]);
    for name in names {
        assert!(formats.add(name, format_of(name)), "{name}");
    }
    formats
}

#[derive(Clone, Copy)]
pub(super) enum Value {
    Number(i64),
    Text(&'static str),
    Words(&'static [u64]),
}

/// Offset and size of a field.
fn place(format: &str, field: &str) -> (usize, usize) {
    let of_field = |line: &&str| {
        let declared = line.trim().split(';').next().unwrap_or_default();
        let name = declared.rsplit([' ', '*']).next().unwrap_or_default();
        name.split('[').next() == Some(field)
    };
    let line = format.lines().find(of_field).unwrap_or_else(|| panic!("no field {field}"));
    let number = |key: &str| {
        let (_, rest) = line.split_once(key).unwrap();
        rest.split(';').next().unwrap().parse().unwrap()
    };
    (number("offset:"), number("size:"))
}

/// An event of thread 77 in process context, with these fields; the others are zero.
pub(super) fn event(format: &str, fields: &[(&str, Value)]) -> Vec<u8> {
    let id = format.lines().find_map(|line| line.strip_prefix("ID: ")).unwrap();
    let mut bytes = vec![0; 64];
    let common =
        [("common_type", Value::Number(id.parse().unwrap())), ("common_pid", Value::Number(77))];
    for (name, value) in common.iter().chain(fields) {
        let (offset, size) = place(format, name);
        let value = match value {
            Value::Number(number) => {
                let all = number.to_ne_bytes();
                let at = if cfg!(target_endian = "big") { 8 - size } else { 0 };
                all[at..at + size].to_vec()
            }
            Value::Text(text) => text.as_bytes().to_vec(),
            Value::Words(words) => words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        };
        bytes.resize(bytes.len().max(offset + size.max(value.len())), 0);
        bytes[offset..offset + value.len()].copy_from_slice(&value);
    }
    bytes
}

pub(super) fn task(id: u32, name: &str) -> TraceTask {
    TraceTask { id, name: name.to_owned() }
}

fn request(stage: RequestStage, operation: RequestOperation) -> RequestEvent {
    RequestEvent {
        stage,
        device: (254, 1),
        operation,
        preflush: false,
        fua: false,
        sync: true,
        metadata: false,
        sector: Some(2048),
        bytes: 4096,
    }
}

/// Device 254:1 as the kernel keeps it.
const DEVICE: Value = Value::Number(254 << 20 | 1);

type Fields = Vec<(&'static str, Value)>;

/// An event by its fields, as the kernel prints it, and read.
type Case = (&'static str, Fields, &'static str, KernelEventKind);

fn thread_cases() -> Vec<Case> {
    use Value::{Number, Text, Words};
    vec![
        (
            "raw_syscalls/sys_enter",
            vec![("id", Number(75)), ("args", Words(&[0xffff_ffff_0000_0003, 9, 0, 0, 0, 0]))],
            "sys_enter: NR 75 (ffffffff00000003, 9, 0, 0, 0, 0)",
            KernelEventKind::CallEntered { number: 75, fd: 3 },
        ),
        (
            "raw_syscalls/sys_exit",
            vec![("id", Number(75)), ("ret", Number(-5))],
            "sys_exit: NR 75 = -5",
            KernelEventKind::CallLeft { number: 75, result: -5 },
        ),
        (
            "sched/sched_switch",
            vec![
                ("prev_comm", Text("a pid=9")),
                ("prev_pid", Number(77)),
                ("prev_state", Number(2)),
                ("next_comm", Text("kworker/0:1H")),
                ("next_pid", Number(44)),
            ],
            "sched_switch: prev_comm=a pid=9 prev_pid=77 prev_prio=120 prev_state=D ==> \
             next_comm=kworker/0:1H next_pid=44 next_prio=100",
            KernelEventKind::Switched {
                from: task(77, "a pid=9"),
                off: OffProcessor::Uninterruptible,
                to: task(44, "kworker/0:1H"),
            },
        ),
        (
            "sched/sched_waking",
            vec![("comm", Text("postgres")), ("pid", Number(812)), ("target_cpu", Number(11))],
            "sched_waking: comm=postgres pid=812 prio=120 target_cpu=011",
            KernelEventKind::Woken { task: task(812, "postgres"), processor: 11 },
        ),
        (
            "sched/sched_wakeup",
            vec![("comm", Text("postgres")), ("pid", Number(812)), ("target_cpu", Number(1))],
            "sched_wakeup: comm=postgres pid=812 prio=120 success=1 target_cpu=001",
            KernelEventKind::Woken { task: task(812, "postgres"), processor: 1 },
        ),
        (
            "workqueue/workqueue_execute_start",
            vec![("function", Words(&[0xffff_ffff_8100_5000]))],
            "workqueue_execute_start: work struct 000000007b1e4a5c: function blk_mq_requeue_work",
            KernelEventKind::WorkBegan { function: "blk_mq_requeue_work".into() },
        ),
        (
            STACK_EVENT,
            vec![
                ("size", Number(5)),
                (
                    "caller",
                    Words(&[
                        0xffff_ffff_8100_1035,
                        0xffff_ffff_8100_2cd8,
                        0xffff_ffff_8100_300f,
                        0xffff_ffff_8100_4a25,
                        0x1234,
                        // Behind the last.
                        0xffff_ffff_8100_5000,
                    ]),
                ),
            ],
            "<stack trace>\n => trace_event_raw_event_sched_switch\n => __schedule\n => io_schedule\n \
             => ext4_fsync_nojournal.constprop.0\n => 0x1234",
            KernelEventKind::Stack(
                ["io_schedule", "ext4_fsync_nojournal", "0x1234"].map(str::to_owned).to_vec(),
            ),
        ),
    ]
}

fn request_cases() -> Vec<Case> {
    use RequestOperation::{Discard, Flush, Read, Write};
    use Value::{Number, Text};
    let fields = |letters: &'static str, sector: i64, sectors: i64| -> Fields {
        vec![
            ("dev", DEVICE),
            ("rwbs", Text(letters)),
            ("sector", Number(sector)),
            ("nr_sector", Number(sectors)),
        ]
    };
    let with = |more: &[(&'static str, Value)], mut fields: Fields| {
        fields.extend_from_slice(more);
        fields
    };
    let kind = KernelEventKind::Request;
    let flush = |stage| RequestEvent { sector: None, bytes: 0, ..request(stage, Flush) };
    let old = [("old_dev", Number(253 << 20 | 3)), ("old_sector", Number(0))];
    vec![
        (
            "block/block_bio_queue",
            fields("WFSM", 2048, 8),
            "block_bio_queue: 254,1 WFSM 2048 + 8 [dd]",
            kind(RequestEvent {
                fua: true,
                metadata: true,
                ..request(RequestStage::Queued, Write)
            }),
        ),
        (
            "block/block_bio_queue",
            fields("FWS", 0, 0),
            "block_bio_queue: 254,1 FWS 0 + 0 [dd]",
            kind(RequestEvent { preflush: true, ..flush(RequestStage::Queued) }),
        ),
        (
            "block/block_bio_backmerge",
            fields("WS", 2048, 8),
            "block_bio_backmerge: 254,1 WS 2048 + 8 [dd]",
            kind(request(RequestStage::Merged, Write)),
        ),
        (
            "block/block_bio_frontmerge",
            fields("RA", 2048, 8),
            "block_bio_frontmerge: 254,1 RA 2048 + 8 [dd]",
            kind(RequestEvent { sync: false, ..request(RequestStage::Merged, Read) }),
        ),
        (
            "block/block_bio_remap",
            with(&old, fields("WS", 2048, 8)),
            "block_bio_remap: 254,1 WS 2048 + 8 <- (253,3) 0",
            kind(request(RequestStage::Remapped { from_device: (253, 3), from_sector: 0 }, Write)),
        ),
        (
            "block/block_rq_insert",
            with(&[("bytes", Number(4096))], fields("DS", 2048, 8)),
            "block_rq_insert: 254,1 DS 4096 () 2048 + 8 be,0,4 [dd]",
            kind(request(RequestStage::Inserted, Discard)),
        ),
        (
            "block/block_rq_issue",
            with(&[("bytes", Number(4096))], fields("FWFS", 2048, 8)),
            "block_rq_issue: 254,1 FWFS 4096 () 2048 + 8 be,0,4 [dd]",
            kind(RequestEvent {
                preflush: true,
                fua: true,
                ..request(RequestStage::Issued, Write)
            }),
        ),
        (
            "block/block_rq_issue",
            // A command that is not of sectors.
            with(&[("bytes", Number(36))], fields("N", 0, 0)),
            "block_rq_issue: 254,1 N 36 (12 00 00 00 24 00) 0 + 0 none,0,0 [dd]",
            kind(RequestEvent {
                sync: false,
                sector: Some(0),
                bytes: 36,
                ..request(RequestStage::Issued, RequestOperation::Other)
            }),
        ),
        (
            "block/block_rq_requeue",
            fields("WS", 2048, 8),
            "block_rq_requeue: 254,1 WS () 2048 + 8 be,0,4 [0]",
            kind(request(RequestStage::Requeued, Write)),
        ),
        (
            "block/block_rq_complete",
            fields("FF", -1, 0),
            "block_rq_complete: 254,1 FF () 18446744073709551615 + 0 none,0,0 [0]",
            kind(RequestEvent { preflush: true, sync: false, ..flush(RequestStage::Completed) }),
        ),
        (
            "block/block_bio_complete",
            fields("WS", 2048, 8),
            "block_bio_complete: 254,1 WS 2048 + 8 [0]",
            kind(request(RequestStage::Ended, Write)),
        ),
    ]
}

fn cause_cases() -> Vec<Case> {
    use Value::Number;
    let device = (254, 1);
    vec![
        (
            "jbd2/jbd2_start_commit",
            vec![("dev", DEVICE), ("transaction", Number(1289))],
            "jbd2_start_commit: dev 254,1 transaction 1289 sync 0",
            KernelEventKind::JournalCommitBegan { device, transaction: 1289 },
        ),
        (
            "jbd2/jbd2_end_commit",
            vec![("dev", DEVICE), ("transaction", Number(1289)), ("head", Number(7))],
            "jbd2_end_commit: dev 254,1 transaction 1289 sync 0 head 7",
            KernelEventKind::JournalCommitEnded { device, transaction: 1289 },
        ),
        (
            "jbd2/jbd2_run_stats",
            vec![
                ("dev", DEVICE),
                ("tid", Number(1289)),
                ("handle_count", Number(31)),
                ("blocks", Number(40)),
                ("blocks_logged", Number(42)),
            ],
            "jbd2_run_stats: dev 254,1 tid 1289 wait 0 request_delay 0 running 4 locked 0 flushing 0 \
             logging 4 handle_count 31 blocks 40 blocks_logged 42",
            KernelEventKind::JournalCommitted {
                device,
                transaction: 1289,
                handles: 31,
                blocks: 42,
            },
        ),
        (
            "jbd2/jbd2_checkpoint",
            vec![("dev", DEVICE), ("result", Number(1))],
            "jbd2_checkpoint: dev 254,1 result 1",
            KernelEventKind::JournalCheckpoint { device },
        ),
        (
            "vmscan/mm_vmscan_direct_reclaim_begin",
            vec![("order", Number(0))],
            "mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_NOFS|__GFP_NOFAIL",
            KernelEventKind::ReclaimBegan,
        ),
        (
            "vmscan/mm_vmscan_direct_reclaim_end",
            vec![("nr_reclaimed", Number(33))],
            "mm_vmscan_direct_reclaim_end: nr_reclaimed=33",
            KernelEventKind::ReclaimEnded { pages: 33 },
        ),
        (
            "writeback/balance_dirty_pages",
            vec![("dirtied_pause", Number(32)), ("paused", Number(7)), ("pause", Number(-19))],
            "balance_dirty_pages: bdi 254:0: limit=1 setpoint=1 dirty=1 wb_setpoint=1 wb_dirty=1 \
             dirty_ratelimit=1 task_ratelimit=1 dirtied=1 dirtied_pause=32 paused=7 pause=-19 \
             period=5 think=3 cgroup_ino=1",
            KernelEventKind::DirtyPause { pause_ms: -19 },
        ),
    ]
}

#[test]
fn every_event_is_the_same_as_bytes_and_as_text() {
    let formats = all_formats();
    let symbols = symbols(SYMBOLS);
    let cases = [thread_cases(), request_cases(), cause_cases()].concat();
    for event in &KERNEL_EVENTS {
        assert!(cases.iter().any(|(name, ..)| *name == event.name), "{} has no case", event.name);
    }
    for (name, fields, text, kind) in cases {
        let bytes = event(format_of(name), &fields);
        let from_bytes = formats.read(12_000_345_000, 3, &bytes, &symbols).unwrap();
        assert_eq!(from_bytes.kind, kind, "{name}");
        let (at, processor, id) = (from_bytes.at, from_bytes.processor, from_bytes.task.id);
        assert_eq!((at, processor, id), (12_000_345_000, 3, 77), "{name}");
        assert!(!from_bytes.in_interrupt, "{name}");

        let line = format!("              dd-77      [003] d..2.    12.000345: {text}\n");
        let mut from_text = parse_kernel_events(line.as_bytes());
        assert_eq!((from_text.events.len(), from_text.unreadable), (1, 0), "{text}");
        let mut from_text = from_text.events.remove(0);
        if from_bytes.task.name.is_empty() {
            assert_eq!(from_text.task.name, "dd", "{text}");
            from_text.task.name.clear();
        }
        assert_eq!(from_text, from_bytes, "{text}");
    }
}

#[test]
fn the_flags_of_an_event_tell_of_interrupts() {
    let formats = all_formats();
    let format = format_of("vmscan/mm_vmscan_direct_reclaim_begin");
    for (flags, in_interrupt) in
        [(0, false), (0x01, false), (0x08, true), (0x10, true), (0x40, true), (0xa7, false)]
    {
        let bytes = event(format, &[("common_flags", Value::Number(flags))]);
        let event = formats.read(1, 0, &bytes, &KernelSymbols::default()).unwrap();
        assert_eq!(event.in_interrupt, in_interrupt, "{flags:#x}");
    }
}

#[test]
fn states_of_all_kernels_are_told_apart() {
    let formats = all_formats();
    let off = |state: i64| {
        let bytes = event(format_of("sched/sched_switch"), &[("prev_state", Value::Number(state))]);
        match formats.read(1, 0, &bytes, &KernelSymbols::default()).unwrap().kind {
            KernelEventKind::Switched { off, .. } => off,
            other => panic!("{other:?}"),
        }
    };
    let states = [
        (0, OffProcessor::Preempted),
        // Taken within the kernel: Linux 4.14 and later, and earlier ones.
        (0x100, OffProcessor::Preempted),
        (0x400, OffProcessor::Preempted),
        (1, OffProcessor::Interruptible),
        (2, OffProcessor::Uninterruptible),
        // Until Linux 4.13 a wait that a signal ends, and a worker that idles.
        (0x82, OffProcessor::Uninterruptible),
        (0x402, OffProcessor::Other),
        (4, OffProcessor::Stopped),
        (8, OffProcessor::Stopped),
        (0x10, OffProcessor::Other),
        (0x20, OffProcessor::Other),
        (0x40, OffProcessor::Other),
        (0x80, OffProcessor::Other),
    ];
    for (state, expected) in states {
        assert_eq!(off(state), expected, "{state:#x}");
    }
}

#[test]
fn texts_of_varying_length_and_older_forms_are_read() {
    let queue = format_of("block/block_bio_queue");
    let old = "field:char rwbs[10];\toffset:28;\tsize:10;";
    assert!(queue.contains(old));
    let whole = [("dev", DEVICE), ("nr_sector", Value::Number(8)), ("sector", Value::Number(2048))];
    let read = |format: &str, bytes: &[u8]| {
        let mut formats = KernelEventFormats::default();
        assert!(formats.add("block/block_bio_queue", format));
        formats.read(1, 0, bytes, &KernelSymbols::default()).map(|event| event.kind)
    };
    let expected = KernelEventKind::Request(request(RequestStage::Queued, RequestOperation::Write));
    // Place and length of the letters: of the event, or from behind the field.
    for (kind, from) in [("__data_loc", 0), ("__rel_loc", 32)] {
        let located = format!("field:{kind} char[] rwbs;\toffset:28;\tsize:4;");
        let format = queue.replace(old, &located);
        let mut bytes = event(queue, &whole);
        bytes.resize(80, 0);
        let location = 3_u32 << 16 | (64 - from);
        bytes[28..32].copy_from_slice(&location.to_ne_bytes());
        bytes[64..67].copy_from_slice(b"WS\0");
        assert_eq!(read(&format, &bytes), Some(expected.clone()), "{kind}");
        assert_eq!(read(&format, &bytes[..66]), None, "{kind}, cut off");
    }
    // Older kernels have room for eight letters.
    let short = queue.replace(old, "field:char rwbs[8];\toffset:28;\tsize:8;");
    let bytes = event(&short, &[&whole[..], &[("rwbs", Value::Text("WS"))][..]].concat());
    assert_eq!(read(&short, &bytes), Some(expected));

    // Until Linux 4.10 a request's bytes were those of commands alone.
    let issue = format_of("block/block_rq_issue");
    let bytes = event(issue, &[&whole[..], &[("rwbs", Value::Text("WS"))][..]].concat());
    let event_of_issue = all_formats().read(1, 0, &bytes, &KernelSymbols::default()).unwrap();
    let issued = request(RequestStage::Issued, RequestOperation::Write);
    assert_eq!(event_of_issue.kind, KernelEventKind::Request(issued));
}

#[test]
fn a_stack_ends_with_its_event_or_with_a_word_of_ones() {
    let format = format_of(STACK_EVENT);
    let functions = |size: i64, callers: &'static [u64], length: usize| {
        let fields = [("size", Value::Number(size)), ("caller", Value::Words(callers))];
        let mut bytes = event(format, &fields);
        bytes.resize(length, 0);
        match all_formats().read(1, 0, &bytes, &symbols(SYMBOLS)).map(|event| event.kind) {
            Some(KernelEventKind::Stack(functions)) => functions,
            other => panic!("{other:?}"),
        }
    };
    const TWO: &[u64] = &[0xffff_ffff_8100_3000, 0xffff_ffff_8100_4000];
    let both = ["io_schedule", "ext4_fsync_nojournal"];
    assert_eq!(functions(2, TWO, 32), both);
    assert_eq!(functions(1, TWO, 32), both[..1]);
    assert_eq!(functions(99, TWO, 32), both, "the event is shorter");
    assert_eq!(functions(99, TWO, 31), both[..1]);
    assert_eq!(functions(-1, TWO, 32), both, "a size that is damaged");
    const ENDED: &[u64] = &[0xffff_ffff_8100_3000, u64::MAX, 0xffff_ffff_8100_4000];
    assert_eq!(functions(3, ENDED, 40), both[..1]);
    assert_eq!(functions(3, TWO, 16), [""; 0]);
}

#[test]
fn only_known_events_with_their_fields_are_added() {
    let mut formats = KernelEventFormats::default();
    let issue = format_of("block/block_rq_issue");
    assert!(!formats.add("block/block_getrq", issue), "nobody asked for it");
    assert!(!formats.add("block/block_rq_issue", &issue.replace("rwbs", "letters")));
    assert!(!formats.add("block/block_rq_issue", "nothing"));
    assert_eq!(formats.read(1, 0, &event(issue, &[]), &KernelSymbols::default()), None);
    assert!(formats.add("block/block_rq_issue", issue));
    let other = event(format_of("block/block_rq_insert"), &[]);
    assert_eq!(formats.read(1, 0, &other, &KernelSymbols::default()), None, "another number");
}

#[test]
fn threads_are_named_by_the_events_around_them() {
    let event = |id: u32, name: &str, kind: KernelEventKind| {
        KernelEvent::new(1, 0, task(id, name), false, kind)
    };
    let woken = |id: u32, name: &str| KernelEventKind::Woken { task: task(id, name), processor: 0 };
    let mut events = [
        event(7, "", KernelEventKind::ReclaimBegan),
        event(9, "", woken(7, "bash")),
        event(7, "", KernelEventKind::ReclaimBegan),
        // The thread runs another program from here.
        event(7, "postgres", KernelEventKind::ReclaimBegan),
        event(7, "", KernelEventKind::ReclaimBegan),
        event(0, "", woken(8, "")),
    ];
    name_tasks(&mut events);
    let names = events.map(|event| event.task.name);
    assert_eq!(names, ["bash", "", "bash", "postgres", "postgres", "swapper/0"]);
}
