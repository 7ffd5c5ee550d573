//! Sequences out of traces.

use std::fs;

use durio_base::Nanos;
use durio_observe::{TraceClock, parse_trace};
use durio_record::TracedSequence;

use super::sequences::{Sequences, TracedDevice, sequences};
use super::{CommitRun, begin_instance, refused};
use crate::measured_loop::{EarlyEnding, JobFailure};
use crate::tracefs::InstanceTrace;

fn device(name: &str, number: (u32, u32)) -> TracedDevice {
    TracedDevice { name: name.to_owned(), number, has_requests: true }
}

fn disks() -> Vec<TracedDevice> {
    vec![device("sda", (8, 0)), device("sdb", (8, 16))]
}

/// A trace of lines such as `100 rq_issue: 8,0 W 4096 () 8 + 8`, the time in microseconds; others are
/// marks.
fn traced(lines: &[String]) -> InstanceTrace {
    let line = |line: &String| {
        let (at, event) = line.split_once(' ').unwrap();
        let at = format!("5.{:06}", at.parse::<u32>().unwrap());
        let event = match event.contains(": ") {
            true => format!("block_{event} [x]"),
            false => format!("tracing_mark_write: durio {event}"),
        };
        format!("           durio-9       [000] ..... {at}: {event}\n")
    };
    let text: String = lines.iter().map(line).collect();
    let text = parse_trace(text.as_bytes(), TraceClock::Monotonic);
    assert_eq!((text.events.len(), text.unreadable), (lines.len(), 0));
    InstanceTrace { text, lost: 0, complete_from: Nanos::ZERO }
}

/// Write and flush, begun at `at` microseconds; the write takes `write` of them.
fn commit(number: u64, at: u32, write: u32) -> Vec<String> {
    let after = |micros: u32, event: String| format!("{} {event}", at + micros);
    vec![
        after(0, format!("begin {number}")),
        after(10, "rq_issue: 8,0 W 4096 () 64 + 8".into()),
        after(10 + write, "rq_complete: 8,0 W () 64 + 8".into()),
        after(12 + write, "rq_issue: 8,0 FF 0 () 0 + 0".into()),
        after(42 + write, "rq_complete: 8,0 FF () 18446744073709551615 + 0".into()),
        after(43 + write, "rq_complete: 8,0 WS () 0 + 0".into()),
        after(50 + write, format!("end {number}")),
    ]
}

fn found(lines: &[String]) -> Vec<TracedSequence> {
    sequences(&traced(lines), &disks()).sequences
}

fn words(sequence: &TracedSequence) -> String {
    let word = |request: &durio_record::TracedRequest| {
        let service =
            request.service.map_or("-".to_owned(), |service| (service.get() / 1000).to_string());
        format!(
            "{} {} {} @{} {service}",
            request.device,
            request.flags,
            request.bytes.get(),
            request.issued.get() / 1000
        )
    };
    sequence.requests.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[test]
fn equal_commits_are_one_sequence_with_the_medians_of_their_times() {
    let lines = [commit(0, 0, 100), commit(1, 1000, 300), commit(2, 2000, 110)].concat();
    let found = found(&lines);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].commits, found[0].commit), (3, Nanos::from_micros(160)));
    assert_eq!(words(&found[0]), "sda W 4096 @10 110, sda FF 0 @122 30");
}

#[test]
fn the_most_frequent_sequence_comes_first_and_rare_ones_are_left_out() {
    let mut lines = commit(0, 0, 100);
    for number in 1..=10_u64 {
        // Each with another size.
        let at = u32::try_from(number).unwrap() * 1000;
        lines.push(format!("{at} begin {number}"));
        lines.push(format!("{} rq_issue: 8,0 WFS {} () 64 + 8", at + 1, number * 512));
        lines.push(format!("{} end {number}", at + 2));
    }
    lines.extend(commit(11, 20_000, 100));
    let found = found(&lines);
    assert_eq!(found.len(), 8);
    assert_eq!(found.iter().map(|sequence| sequence.commits).sum::<u64>(), 9, "of 12");
    assert_eq!(words(&found[0]), "sda W 4096 @10 100, sda FF 0 @112 30");
    assert_eq!(found[1].requests[0].service, None, "its end was not seen");
}

#[test]
fn a_commit_that_sends_nothing_is_a_sequence_of_nothing() {
    let lines = ["1 begin 0", "5 end 0", "6 rq_issue: 8,0 W 4096 () 8 + 8"].map(str::to_owned);
    let found = found(&lines);
    assert_eq!((found[0].commits, found[0].requests.len()), (1, 0));
    assert_eq!(found[0].commit, Nanos::from_micros(4));
}

#[test]
fn requests_of_the_legs_of_a_mirror_may_overtake_each_other() {
    let legs = |number: u64, at: u32, order: [&str; 2]| {
        let issue = |n: u32, minor: &str| format!("{} rq_issue: 8,{minor} W 512 () 8 + 1", at + n);
        let [first, second] = order;
        let (begin, end) = (format!("{at} begin {number}"), format!("{} end {number}", at + 9));
        vec![begin, issue(1, first), issue(2, second), end]
    };
    let orders = [["0", "16"], ["16", "0"], ["16", "0"]];
    let lines: Vec<String> = (0..)
        .zip(orders)
        .flat_map(|(n, order)| legs(n, 100 * u32::try_from(n).unwrap(), order))
        .collect();
    let found = found(&lines);
    assert_eq!((found.len(), found[0].commits), (1, 3));
    assert_eq!(words(&found[0]), "sdb W 512 @1 -, sda W 512 @2 -");
}

#[test]
fn commits_without_an_end_and_other_devices_do_not_count() {
    let mut lines = commit(0, 0, 100);
    lines.splice(1..1, ["5 rq_issue: 9,9 W 512 () 1 + 1".to_owned()]);
    lines.extend(
        ["700 begin 1", "710 rq_issue: 8,0 W 512 () 1 + 1", "720 end 7"].map(str::to_owned),
    );
    let found = found(&lines);
    assert_eq!((found.len(), found[0].requests.len()), (1, 2));
}

#[test]
fn commits_from_before_a_gap_do_not_count() {
    let mut traced = traced(&[commit(0, 0, 100), commit(1, 1000, 100)].concat());
    traced.complete_from = Nanos::from_micros(5_000_500);
    assert_eq!(sequences(&traced, &disks()).sequences[0].commits, 1);
    traced.complete_from = Nanos::from_micros(5_005_000);
    assert_eq!(sequences(&traced, &disks()).sequences, []);
}

#[test]
fn a_device_without_requests_of_its_own_shows_what_is_queued_to_it() {
    let lines = [
        "1 begin 0",
        "2 bio_queue: 252,0 WS 8 + 8",
        "3 bio_complete: 252,0 WS 8 + 8",
        "4 bio_queue: 8,0 WS 8 + 8",
        "5 bio_queue: 252,0 FWS 0 + 0",
        "8 bio_complete: 252,0 FWS 0 + 0",
        "9 end 0",
    ];
    let zram = TracedDevice { has_requests: false, ..device("zram0", (252, 0)) };
    let found = sequences(&traced(&lines.map(str::to_owned)), &[zram.clone(), disks()[0].clone()]);
    assert_eq!(words(&found.sequences[0]), "zram0 WS 4096 @1 1, zram0 FWS 0 @4 3");
    assert!(zram.note().unwrap().contains("zram0") && disks()[0].note().is_none());
    let filter = crate::tracefs::device_filter([zram.number, (8, 1)].into_iter());
    assert_eq!(filter, "dev == 264241152 || dev == 8388609");
}

#[test]
fn a_long_sequence_is_shortened_and_that_is_said() {
    let mut lines = vec!["0 begin 0".to_owned()];
    lines.extend((1..=300).map(|n| format!("{n} rq_issue: 8,0 W 512 () {n} + 1")));
    lines.push("301 end 0".to_owned());
    let alone = sequences(&traced(&lines), &disks());
    assert_eq!((alone.sequences[0].requests.len(), alone.shortened), (256, Some(300)));
    // Two short ones are more frequent and come first.
    let lines = [lines, commit(1, 1000, 100), commit(2, 2000, 100)].concat();
    let Sequences { sequences, shortened } = sequences(&traced(&lines), &disks());
    let lengths: Vec<usize> = sequences.iter().map(|sequence| sequence.requests.len()).collect();
    assert_eq!((lengths, shortened), (vec![2, 256], Some(300)));
}

#[test]
fn a_system_that_cannot_trace_says_why() {
    let root = tempfile::tempdir().unwrap();
    let because = || begin_instance(root.path(), &disks(), 100).unwrap_err();
    let make = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    assert!(because().contains("tracefs is not mounted"), "nothing is known of mounts");
    make("proc/self/mountinfo", "25 23 8:1 / / rw - ext4 /dev/sda1 rw\n");
    assert!(because().contains("mount -t tracefs"));
    make("proc/self/mountinfo", "25 23 0:12 / /sys/kernel/tracing rw - tracefs tracefs rw\n");
    make("sys/kernel/tracing/trace", "");
    assert!(because().contains("make the trace instance"), "a kernel without instances");
    make("sys/kernel/tracing/instances/README", "");
    assert!(because().contains("trace_marker"), "an instance that the kernel does not fill");
    assert!(begin_instance(root.path(), &[], 100).unwrap_err().contains("no block device"));
}

#[test]
fn a_trace_of_nothing_has_no_sequences() {
    let nothing = Sequences { sequences: vec![], shortened: None };
    assert_eq!(sequences(&traced(&[]), &disks()), nothing);
    assert_eq!(
        sequences(&traced(&["1 end 0".to_owned(), "2 begin x".to_owned()]), &disks()),
        nothing
    );
}

#[test]
fn a_sequence_of_256_requests_is_whole_and_one_more_shortens_it() {
    let shortened = |count: u32| {
        let mut lines = vec!["0 begin 0".to_owned()];
        lines.extend((1..=count).map(|n| format!("{n} rq_issue: 8,0 W 512 () {n} + 1")));
        lines.push(format!("{} end 0", count + 1));
        sequences(&traced(&lines), &disks()).shortened
    };
    assert_eq!((shortened(256), shortened(257)), (None, Some(257)));
}

#[test]
fn a_commit_makes_two_events_for_each_128_kib_that_it_writes_and_24_for_its_journal() {
    let events = |kib, every| {
        let mut workload = durio_workload::self_cost_workload(1);
        workload.block_size = durio_base::Bytes::from_kib(kib);
        workload.sync.every = every;
        super::events_expected(&workload, 10)
    };
    assert_eq!([events(4, 1), events(128, 1), events(132, 1)], [260, 260, 280]);
    assert_eq!(events(132, 3), 10 * 2 * (2 * 3 + 12));
}

#[test]
fn the_median_of_two_commits_is_between_them() {
    let found = found(&[commit(0, 0, 100), commit(1, 1000, 300)].concat());
    assert_eq!((found.len(), found[0].commits), (1, 2));
    assert_eq!(found[0].commit, Nanos::from_micros(250));
    assert_eq!(words(&found[0]), "sda W 4096 @10 200, sda FF 0 @212 30");
}

#[test]
fn commits_that_differ_in_device_letters_or_bytes_are_other_sequences() {
    let one = |number: u32, request: &str| {
        let at = 100 * number;
        let issued = format!("{} rq_issue: {request} () 64 + 8", at + 1);
        vec![format!("{at} begin {number}"), issued, format!("{} end {number}", at + 9)]
    };
    let requests = ["8,0 W 4096", "8,16 W 4096", "8,0 WS 4096", "8,0 W 8192", "8,0 W 4096"];
    let lines: Vec<String> =
        (0..).zip(requests).flat_map(|(number, request)| one(number, request)).collect();
    let found = found(&lines);
    let mut told: Vec<_> =
        found.iter().map(|sequence| (sequence.commits, words(sequence))).collect();
    told.sort_unstable();
    let expected = [
        (1, "sda W 8192 @1 -"),
        (1, "sda WS 4096 @1 -"),
        (1, "sdb W 4096 @1 -"),
        (2, "sda W 4096 @1 -"),
    ];
    assert_eq!(told, expected.map(|(commits, words)| (commits, words.to_owned())));
}

#[test]
fn only_a_first_commit_that_the_kernel_does_not_know_is_a_refusal() {
    let is_refused = |commits, result: Option<i32>| {
        let kind = durio_block::OperationKind::Write;
        let failed = |result| JobFailure { kind, offset: 0, length: 512, result };
        let ending = EarlyEnding { failure: result.map(failed), engine_error: None };
        refused(&CommitRun { commits, ending, mark_error: None }).is_some()
    };
    let unknown = Some(-rustix::io::Errno::OPNOTSUPP.raw_os_error());
    assert!(is_refused(0, unknown));
    assert!(!is_refused(1, unknown) && !is_refused(0, Some(-5)) && !is_refused(0, None));
}
