//! Texts of each tracer, and what a capture is told of them.

use super::*;

fn read(text: &str) -> (Vec<CaptureEvent>, Result<CaptureEnd, TraceTextError>) {
    let mut events = Vec::new();
    let end = read_block_trace(text.as_bytes(), &mut |event| events.push(event));
    (events, end)
}

/// What a capture is told of a request.
#[derive(Debug, PartialEq)]
struct Request {
    device: String,
    call: &'static str,
    begin: u64,
    took: u64,
    offset: Option<u64>,
    durable: bool,
    result: i64,
}

fn requests(text: &str) -> (Vec<Request>, CaptureEnd) {
    let (events, end) = read(text);
    let mut devices = Vec::new();
    let mut seen: Vec<Request> = Vec::new();
    for event in events {
        match event {
            CaptureEvent::File(file) => devices.push(file.path),
            CaptureEvent::Entered { at: begin, call, file, offset, durable, .. } => {
                let (device, call) = (devices[file.unwrap()].clone(), call.name);
                seen.push(Request { device, call, begin, took: 0, offset, durable, result: 0 });
            }
            CaptureEvent::Left { at, call, result, .. } => {
                let last = seen.last_mut().unwrap();
                assert_eq!(last.call, call.name);
                (last.took, last.result) = (at - last.begin, result);
            }
            _ => panic!("{event:?}"),
        }
    }
    (seen, end.unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Device, call, microseconds that it took, sector, whether it is durable, and result.
type Short<'t> = (&'t str, &'static str, u64, Option<u64>, bool, i64);

fn short(requests: &[Request]) -> Vec<Short<'_>> {
    let of = |request: &'_ Request| {
        assert_eq!(request.took % 1000, 0, "{request:?}");
        assert!(request.offset.is_none_or(|offset| offset % 512 == 0), "{request:?}");
        (
            request.call,
            request.took / 1000,
            request.offset.map(|offset| offset / 512),
            request.durable,
            request.result,
        )
    };
    let with_device = requests
        .iter()
        .map(|request| (request.device.strip_prefix("device ").unwrap(), of(request)));
    with_device
        .map(|(device, (call, took, sector, durable, result))| {
            (device, call, took, sector, durable, result)
        })
        .collect()
}

const TRACE: &str = "\
254,0    0       60     0.002000000   114  Q FWFSM 1048640 + 8 [jbd2/nullb0-8]
254,0    0       62     0.002100000    11  D  FN [kworker/0:0H]
254,0    0       63     0.002200000    11  C  FN 0 [0]
254,0    0       64     0.002300000   114  D WFSM 1048640 + 8 [jbd2/nullb0-8]
254,0    0       65     0.002400000     0  C WFSM 1048640 + 8 [0]
254,0    0       66     0.002410000     0  C WFSM 1048640 + 8 [0]
254,0    0       67     0.002500000   115  D  WS 16 + 16 [dd]
254,0    0       68     0.002620000     0  C  WS 16 + 16 [-5]
254,0    0       69     0.002700000   114  D  RM 1096 + 8 [dd]
254,0    0       70     0.002800000     0  C  RM 1096 + 8 [0]
CPU0 (bt):
 Reads Queued:           5,       20KiB\t Writes Queued:         827,     3308KiB
";

#[test]
fn requests_are_writes_at_their_place_and_flushes_are_syncs() {
    let (seen, end) = requests(TRACE);
    assert_eq!((end.events, end.duration_ns, end.processes), (3, 700_000, 3));
    assert_eq!(end.not_shown, None);
    let begins: Vec<u64> = seen.iter().map(|request| request.begin).collect();
    assert_eq!(begins, [2_100_000, 2_300_000, 2_500_000]);
    assert_eq!(
        short(&seen),
        [
            ("254,0", "fdatasync", 100, None, false, 0),
            ("254,0", "pwrite64", 100, Some(1_048_640), true, 4096),
            ("254,0", "pwrite64", 120, Some(16), false, -5)
        ]
    );
}

#[test]
fn a_request_whose_end_is_missing_is_lost_and_one_that_was_requeued_is_not() {
    let issue = "254,0 0 1 0.002300000 114 D WS 16 + 8 [dd]\n";
    let complete = "254,0 0 1 0.002400000 0 C WS 16 + 8 [0]\n";
    let flush = "254,0 0 1 0.002300000 11 D FN [kworker/0:0H]\n";
    let flushed = "254,0 0 1 0.002400000 11 C FN 0 [0]\n";
    let requeue = "254,0 0 1 0.002350000 0 R WS 16 + 8 [0]\n";
    for (text, lost) in [
        (format!("{issue}{complete}{issue}{complete}"), 0),
        (format!("{issue}{issue}{complete}"), 1),
        (format!("{issue}{requeue}{issue}{complete}"), 0),
        // Two hardware queues.
        (format!("{flush}{flush}{flushed}{flushed}"), 0),
        // What the tracers themselves say that they lost.
        (format!("{issue}{complete}CPU:0 [LOST 12 EVENTS]\nCPU:1 [LOST 3 EVENTS]\n"), 15),
        (format!("{issue}{complete}LOST 7 events!\n"), 7),
        (format!("{issue}{complete}Skips: 2 forward (1,041 -   3.4%)\n"), 1041),
    ] {
        assert_eq!(read(&text).1.unwrap().lost_calls, lost, "{text}");
    }
}

/// The same requests as six tracers show them: a write, a read of another device, a flush, a write of the other
/// device at the sector of the first that is done before it, with an error.
const BLKPARSE: &str = include_str!("../../tests/traces/blkparse.txt");

const PERF: &str = include_str!("../../tests/traces/perf-script.txt");

/// By `--ns -F comm,pid,tid,time,period,event,trace`: no processor, and how many events a line stands for.
const PERF_WITHOUT_PROCESSORS: &str =
    include_str!("../../tests/traces/perf-script-without-processors.txt");

const PERF_TRACE: &str = include_str!("../../tests/traces/perf-trace.txt");

const FTRACE: &str = include_str!("../../tests/traces/ftrace.txt");

const BLKPARSE_BY_FORMAT: &str = include_str!("../../tests/traces/blkparse-by-format.txt");

#[test]
fn tracers_of_begins_and_ends_tell_the_same() {
    for (name, text, processes) in [
        ("blkparse", BLKPARSE, 3),
        ("perf script", PERF, 3),
        ("perf script without processors", PERF_WITHOUT_PROCESSORS, 3),
        ("perf trace", PERF_TRACE, 3),
        ("ftrace", FTRACE, 3),
        // Its format has no processes.
        ("blkparse -f", BLKPARSE_BY_FORMAT, 1),
    ] {
        let (seen, end) = requests(text);
        assert_eq!(
            short(&seen),
            [
                ("254,0", "pwrite64", 162, Some(179_848_760), false, 4096),
                ("8,16", "pwrite64", 50, Some(179_848_760), true, -5),
                ("254,0", "fdatasync", 100, None, false, 0)
            ],
            "{name}"
        );
        let begins: Vec<u64> = seen.iter().map(|request| request.begin).collect();
        assert_eq!(begins, [1_000_100_000, 1_000_150_000, 1_000_696_000], "{name}");
        assert_eq!((end.events, end.duration_ns, end.lost_calls), (3, 696_000, 0), "{name}");
        assert_eq!((end.processes, end.not_shown), (processes, None), "{name}");
    }
}

#[test]
fn iosnoop_has_both_times_or_one_and_the_latency() {
    const HEAD: &str = "Tracing block I/O. Ctrl-C to end.\n";
    let both = include_str!("../../tests/traces/iosnoop.txt");
    let without = |column: usize| {
        let line = |line: &str| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            [&words[..column], &words[column + 1..]].concat().join(" ") + "\n"
        };
        HEAD.to_owned() + &both.lines().map(line).collect::<String>()
    };
    let begin = 5_982_800_000_000_000;
    for (text, begins, took) in [
        (HEAD.to_owned() + both, [302_061, 302_500, 302_900], [618, 1400, 50]),
        (without(1), [302_061, 302_500, 302_900], [620, 1400, 50]),
        (without(0), [302_059, 302_500, 302_900], [620, 1400, 50]),
    ] {
        let (seen, end) = requests(&text);
        assert_eq!(
            short(&seen),
            [
                ("202,1", "pwrite64", took[0], Some(17_039_600), false, 4096),
                ("202,16", "pwrite64", took[1], Some(8), true, 16384),
                ("202,1", "fdatasync", took[2], None, false, 0)
            ]
        );
        let seen: Vec<u64> = seen.iter().map(|request| (request.begin - begin) / 1000).collect();
        assert_eq!((seen, end.processes), (begins.to_vec(), 3));
    }
    let error = read(&without(0).replace("ENDs ", "").replace("5982800.302", "")).1.unwrap_err();
    assert_eq!(
        error.to_string(),
        "it is the output of iosnoop without times: run iosnoop with -ts"
    );
}

/// Times of biosnoop count from its first line, which is moved so that no begin is before zero.
const DAY_MICROS: i64 = 86_400_000_000;

fn biosnoop_begins(seen: &[Request]) -> Vec<i64> {
    seen.iter().map(|request| i64::try_from(request.begin / 1000).unwrap() - DAY_MICROS).collect()
}

#[test]
fn times_of_biosnoop_are_ends_from_which_the_latency_leads_to_the_begin() {
    let plain = include_str!("../../tests/traces/biosnoop.txt");
    // -Q, -P, both, as an older version prints it, and without its head.
    let of = |head: [&str; 2], behind: &str, nine: &str| {
        let mut text = plain.replace("BYTES ", head[0]).replace("LAT(ms)", head[1]);
        for bytes in ["4096 ", "8192 ", "65536", "16384"] {
            text = text.replace(&format!(" {bytes}  "), &format!(" {bytes} {behind}  "));
        }
        for time in ["0.000000", "0.005000", "0.006000", "0.012000"] {
            text = text.replace(&format!("{time} "), &format!("{time}{nine} "));
        }
        text
    };
    for text in [
        plain.to_owned(),
        of(["BYTES ", "QUE(ms) LAT(ms)"], "0.11", ""),
        of(["BYTES P", "LAT(ms)"], "R", ""),
        of(["BYTES P", "QUE(ms) LAT(ms)"], "S    0.04", ""),
        of(["BYTES ", "LAT(ms)"], "", "000"),
        plain.split_once('\n').unwrap().1.to_owned(),
    ] {
        let (seen, end) = requests(&text);
        assert_eq!(
            short(&seen),
            [
                ("nvme0n1", "pwrite64", 3100, Some(1000), false, 4096),
                ("sda", "pwrite64", 4900, Some(9000), false, 8192),
                ("nvme0n1", "pwrite64", 3200, Some(1008), false, 16384)
            ],
            "{text}"
        );
        assert_eq!(biosnoop_begins(&seen), [-3100, 100, 8800], "{text}");
        assert_eq!((end.duration_ns, end.processes, end.events), (15_100_000, 2, 3));
        assert!(end.not_shown.unwrap().contains("neither flushes nor FUA"));
    }
}

#[test]
fn the_other_biosnoop_of_bcc_has_the_kernels_letters_and_times_of_the_day() {
    let text = "\
TIMESTAMP    COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)
23:59:59.990 jbd2/vda1-8    477     vda     WFSM 9000       8192      0.011   4.900
23:59:59.995 kworker/1:1H   44      vda     FF   0          0        -1.000   0.250
00:00:00.001 db             812     Unknown RA   16         4096      0.002   0.100
00:00:00.002 db             812     Unknown W    16         4096      0.002   0.125
";
    let (seen, end) = requests(text);
    assert_eq!(
        short(&seen),
        [
            ("vda", "pwrite64", 4900, Some(9000), true, 8192),
            ("vda", "fdatasync", 250, None, false, 0),
            ("Unknown", "pwrite64", 125, Some(16), false, 4096)
        ]
    );
    assert_eq!((end.duration_ns, end.not_shown), (16_900_000, None));
}

#[test]
fn requests_are_told_in_the_order_of_their_begins() {
    let text = "\
STARTs ENDs COMM PID TYPE DEV BLOCK BYTES LATms
1.000200 1.000300 db 1 W 202,1 16 4096 0.10
1.000100 1.000400 db 1 W 202,1 8 4096 0.30
";
    let sectors: Vec<_> = short(&requests(text).0).iter().map(|request| request.3).collect();
    assert_eq!(sectors, [Some(8), Some(16)]);
    // Beyond those that are held.
    let line = |number: usize| format!("1.{number:06} 1.900000 db 1 W 202,1 {number} 512 0.10\n");
    let text: String = (0..3 * HELD_MAX).map(line).collect();
    let (seen, end) = requests(&text);
    assert_eq!((seen.len(), end.events), (3 * HELD_MAX, 3 * HELD_MAX as u64));
    assert!(seen.is_sorted_by_key(|request| request.begin));
}

#[test]
fn what_cannot_be_used_is_named() {
    let why = |text: &str| read(text).1.unwrap_err().to_string();
    for (text, words) in [
        ("", "it has no line of blkparse"),
        ("TIME(ms)     DISK ID        COMM             PID    LAT(ms)\n", "bpftrace's biosnoop"),
        ("TIME(ms)     COMM             PID    LAT(ms)\n611 bash 4179 10\n", "bpftrace's biosnoop"),
        ("Device: rrqm/s wrqm/s r/s w/s rkB/s\nxvda 0.0 0.0 0.0 4.0 0.0\n", "iostat"),
        ("812 1.0 pwrite64(3</x>, \"\"..., 1, 0) = 1\n", "read it with --strace"),
        ("  0.1 ( 0.01 ms): dd/12 write(fd: 1</d/x>, count: 512) = 512\n", "perf trace shows them"),
        ("1.000100000,254,0,D,179848760,8\n1.000100000 D 179848760 8\n", "blkparse with a format"),
        ("TIME     COMM PID T BYTES OFF_KB LAT(ms) FILENAME\n", "a table of another tracer"),
        (
            "254,0 0 1 0.002300000 114 D WS 16 + 8 [dd]\n",
            "no write or flush is issued and completed",
        ),
        ("PERFILE2\n", "perf script"),
        ("\0\0\0\0", "line 1 contains NUL bytes"),
    ] {
        let why = why(text);
        assert!(why.contains(words), "{text}: {why}");
    }
    let (_, end) = read(&TRACE[..TRACE.len() - 3]);
    assert_eq!(end.unwrap().ended_early.as_deref(), Some("the trace ends in the middle of a line"));
}

#[test]
fn a_request_that_was_given_back_is_not_lost_whoever_shows_it() {
    let perf = [
        "  fio  7842 [001]     1.000100:    block:block_rq_issue: 254,0 W 4096 () 16 + 8 0x2,0,4 [fio]\n",
        "  fio  7842 [001]     1.000150:  block:block_rq_requeue: 254,0 W () 16 + 8 0x2,0,4 [0]\n",
        "  fio  7842 [001]     1.000300: block:block_rq_complete: 254,0 W () 16 + 8 0x2,0,4 [0]\n",
    ];
    let kernel = [
        "  fio-7842  [001] d..1.  1.000100: block_rq_issue: 254,0 W 4096 () 16 + 8 0x2,0,4 [fio]\n",
        "  fio-7842  [001] d..1.  1.000150: block_rq_requeue: 254,0 W () 16 + 8 0x2,0,4 [0]\n",
        "  fio-7842  [001] ..s1.  1.000300: block_rq_complete: 254,0 W () 16 + 8 0x2,0,4 [0]\n",
    ];
    let perf_trace = [
        "  1000.100 fio/7842 block:block_rq_issue(dev: 266338304, sector: 16, nr_sector: 8, bytes: 4096, rwbs: \"W\", comm: \"fio\")\n",
        "  1000.150 fio/7842 block:block_rq_requeue(dev: 266338304, sector: 16, nr_sector: 8, rwbs: \"W\")\n",
        "  1000.300 fio/7842 block:block_rq_complete(dev: 266338304, sector: 16, nr_sector: 8, rwbs: \"W\")\n",
    ];
    for [issue, requeue, complete] in [perf, kernel, perf_trace] {
        let lost = |text: String| read(&text).1.unwrap().lost_calls;
        assert_eq!(lost(format!("{issue}{requeue}{issue}{complete}")), 0, "{requeue}");
        assert_eq!(lost(format!("{issue}{issue}{complete}")), 1, "{issue}");
    }
}

#[test]
fn a_request_without_an_end_is_lost_unless_it_began_in_the_last_tenth() {
    let line = |at: &str, action: &str, sector: u32| {
        format!("254,0 0 1 {at} 114 {action} WS {sector} + 8 [0]\n")
    };
    for (began, lost) in [("1.000200000", 1), ("1.899999999", 1), ("1.900000000", 0)] {
        let text = [
            line("1.000000000", "D", 16),
            line("1.000100000", "C", 16),
            line(began, "D", 64),
            line("1.950000000", "D", 16),
            line("2.000000000", "C", 16),
        ];
        let end = read(&text.concat()).1.unwrap();
        assert_eq!((end.lost_calls, end.events, end.duration_ns), (lost, 2, 1_000_000_000));
    }
}
