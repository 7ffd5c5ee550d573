//! Traces of known shape, recorded ones, and arbitrary ones.

use std::collections::BTreeSet;

use durio_base::{Bytes, Nanos};
use durio_observe::{
    BlockRequest, TraceClock, TraceEvent, TraceEventKind as Kind, TraceText, parse_trace,
};
use durio_record::{LatencyComponents, OperationPath, PathDevice, PathIo};
use proptest::prelude::*;

use super::PathTrace;
use super::Stamps;
use super::TracedLayer;
use super::timeline::timelines;

const JOB: u32 = 7;
const WORKER: u32 = 50;
const STRANGER: u32 = 60;

fn layer(name: &str, number: (u32, u32), lowest: bool, requests: bool) -> TracedLayer {
    let device = PathDevice { name: name.to_owned(), lowest, requests };
    TracedLayer { device, numbers: vec![number] }
}

fn request(number: (u32, u32), flags: &str, sector: u64, bytes: u64) -> BlockRequest {
    BlockRequest { device: number, flags: flags.to_owned(), bytes, sector }
}

fn followed(events: Vec<(u64, u32, Kind)>) -> PathTrace {
    let events = events.into_iter().map(|(at, task, kind)| TraceEvent { at, task, kind }).collect();
    PathTrace {
        text: TraceText { events, unreadable: 0 },
        clock: TraceClock::Tsc,
        thread: JOB,
        strangers: BTreeSet::from([STRANGER]),
        lost: 0,
        complete_from: 0,
    }
}

fn paths(events: Vec<(u64, u32, Kind)>, layers: &[TracedLayer]) -> Vec<OperationPath> {
    timelines(&followed(events), layers, &[Stamps { begin: 100, end: 1000 }], &|ticks| ticks)
}

fn spent(path: &OperationPath) -> [u64; 6] {
    of(&path.spent)
}

/// Device, queued, entry, exit, between, program.
fn of(components: &LatencyComponents) -> [u64; 6] {
    [
        components.device,
        components.queued,
        components.entry,
        components.exit,
        components.between,
        components.program,
    ]
    .map(Nanos::get)
}

const DISK: (u32, u32) = (8, 0);
const OUT: Kind = Kind::SwitchedOut { preempted: false };

#[test]
fn a_write_and_a_flush_on_a_disk_are_taken_apart() {
    let data = || request(DISK, "WS", 64, 4096);
    let events = vec![
        (110, JOB, Kind::Entered),
        (150, JOB, Kind::Queued(data())),
        (160, JOB, Kind::Issued(data())),
        (180, JOB, OUT),
        (400, 0, Kind::Completed(data())),
        (420, WORKER, Kind::SwitchedIn { task: JOB }),
        (450, JOB, Kind::Queued(request(DISK, "FWS", 0, 0))),
        (460, JOB, OUT),
        (470, WORKER, Kind::Issued(request(DISK, "FF", 0, 0))),
        (900, 0, Kind::Completed(request(DISK, "FF", u64::MAX, 0))),
        (901, 0, Kind::Completed(request(DISK, "WS", 0, 0))),
        (930, WORKER, Kind::SwitchedIn { task: JOB }),
        (980, JOB, Kind::Left),
    ];
    let found = paths(events, &[layer("sda", DISK, true, true)]);
    let [path] = &found[..] else { panic!("{found:?}") };
    // 160..400 and 470..900; 150..160 and 450..470; 110..150; 900..980; 400..450; 100..110, 980..1000.
    assert_eq!(spent(path), [670, 30, 40, 80, 50, 30]);
    // 180..400 and 470..900; 460..470; none; 900..930; 400..420.
    assert_eq!(of(&path.off_cpu), [650, 10, 0, 30, 20, 0]);
    assert_eq!((path.waits, path.preemptions), (2, 0));
    let io =
        PathIo { writes: 1, written_bytes: Bytes::from_kib(4), flushes: 1, ..PathIo::default() };
    assert_eq!(path.io, [io]);
}

#[test]
fn a_flush_before_a_write_and_a_write_through_the_cache_are_counted_apart() {
    let queued = |at, flags: &str, sector, bytes| {
        (at, JOB, Kind::Queued(request(DISK, flags, sector, bytes)))
    };
    let events = vec![
        (110, JOB, Kind::Entered),
        queued(120, "WS", 0, 4096),
        queued(130, "WFS", 64, 8192),
        queued(140, "FWFSM", 128, 512),
        queued(150, "WFSM", 192, 1024),
        queued(160, "FWS", 0, 0),
        queued(170, "RA", 512, 16_384),
        (980, JOB, Kind::Left),
    ];
    let io = PathIo {
        device: 0,
        reads: 1,
        read_bytes: Bytes::new(16_384),
        writes: 4,
        written_bytes: Bytes::new(13_824),
        flushes: 2,
        fua: 3,
    };
    assert_eq!(paths(events, &[layer("sda", DISK, true, true)])[0].io, [io]);
}

#[test]
fn what_is_queued_to_a_partition_is_done_by_requests_of_its_disk_at_the_disks_sectors() {
    // The kernel names the partition and adds its begin before it tells of the queue (blk_partition_remap).
    const PART: (u32, u32) = (8, 2);
    const OTHER: (u32, u32) = (8, 1);
    let device = PathDevice { name: "sda".to_owned(), lowest: true, requests: true };
    let layers =
        [layer("sdb", (8, 16), true, true), TracedLayer { device, numbers: vec![PART, DISK] }];
    let begin = 1_026_048;
    let events = vec![
        (110, JOB, Kind::Entered),
        (150, JOB, Kind::Queued(request(PART, "WS", begin + 64, 8192))),
        // Of another partition, and of another disk, at the same place.
        (155, WORKER, Kind::Queued(request(OTHER, "WS", 64, 4096))),
        (160, JOB, Kind::Issued(request(DISK, "WS", 64, 4096))),
        (170, JOB, Kind::Issued(request((8, 16), "WS", begin + 64, 8192))),
        (200, JOB, Kind::Issued(request(DISK, "WS", begin + 64, 8192))),
        (300, 0, Kind::Completed(request(DISK, "WS", 64, 4096))),
        (400, 0, Kind::Completed(request(DISK, "WS", begin + 64, 8192))),
        (500, JOB, Kind::Left),
    ];
    let found = paths(events, &layers);
    // At the disk 200..400; queued 150..200; 110..150 before, 400..500 after, the rest in the program.
    assert_eq!(spent(&found[0]), [200, 50, 40, 100, 0, 510]);
    let io =
        PathIo { device: 1, writes: 1, written_bytes: Bytes::from_kib(8), ..PathIo::default() };
    assert_eq!(found[0].io, [io]);
}

#[test]
fn a_mirror_on_memory_is_layers_and_then_its_members_together() {
    const MD: (u32, u32) = (9, 0);
    let members = [(1, 0), (1, 1)];
    let layers = [
        layer("md0", MD, false, false),
        layer("ram0", members[0], true, false),
        layer("ram1", members[1], true, false),
    ];
    let write = |number| request(number, "WS", 8, 4096);
    let events = vec![
        (110, JOB, Kind::Entered),
        (200, JOB, Kind::Queued(write(MD))),
        (300, JOB, Kind::Queued(write(members[0]))),
        (310, JOB, Kind::Ended(write(members[0]))),
        (320, JOB, Kind::Queued(write(members[1]))),
        (340, JOB, Kind::Ended(write(members[1]))),
        (400, JOB, Kind::Ended(write(MD))),
        (500, JOB, Kind::Left),
    ];
    let found = paths(events, &layers);
    // At the members 10 + 20; in md 200 less that; before 90, after 100, in the program 10 + 500.
    assert_eq!(spent(&found[0]), [30, 170, 90, 100, 0, 510]);
    assert_eq!((found[0].waits, of(&found[0].off_cpu)), (0, [0; 6]));
    let writes: Vec<(u32, u32)> = found[0].io.iter().map(|io| (io.device, io.writes)).collect();
    assert_eq!(writes, [(0, 1), (1, 1), (2, 1)]);
}

#[test]
fn an_end_that_names_no_range_is_of_the_write_that_ends_there() {
    const RAM: (u32, u32) = (1, 0);
    let whole = |sector| request(RAM, "W", sector, 4096);
    let events = vec![
        (110, JOB, Kind::Entered),
        (200, JOB, Kind::Queued(whole(8))),
        (250, JOB, Kind::Queued(whole(64))),
        // Of the second: 64 + 8 sectors of 512 bytes.
        (300, JOB, Kind::Ended(request(RAM, "W", 72, 0))),
        (430, JOB, Kind::Ended(whole(8))),
        (500, JOB, Kind::Left),
    ];
    let found = paths(events, &[layer("ram0", RAM, true, false)]);
    // At the device 200..430; 110..200 before, 430..500 after, in the program 10 + 500.
    assert_eq!(spent(&found[0]), [230, 0, 90, 70, 0, 510]);
}

#[test]
fn what_other_programs_send_is_not_the_operations() {
    let own = || request(DISK, "W", 64, 4096);
    let other = || request(DISK, "WS", 4096, 1 << 20);
    let events = vec![
        (100, JOB, Kind::Entered),
        (110, STRANGER, Kind::Queued(other())),
        (120, STRANGER, Kind::Issued(other())),
        (200, JOB, Kind::Queued(own())),
        (250, JOB, Kind::Issued(own())),
        (300, JOB, Kind::Completed(own())),
        (350, STRANGER, Kind::Issued(request(DISK, "FF", 0, 0))),
        (990, 0, Kind::Completed(other())),
        (1000, JOB, Kind::Left),
    ];
    let found = paths(events, &[layer("sda", DISK, true, true)]);
    assert_eq!(spent(&found[0]), [50, 50, 100, 700, 0, 0]);
    assert_eq!((found[0].io.len(), found[0].io[0].writes), (1, 1));
}

#[test]
fn a_write_that_is_cut_into_requests_is_done_with_the_last() {
    let part = |sector| request(DISK, "W", sector, 64 << 10);
    let events = vec![
        (100, JOB, Kind::Entered),
        (200, JOB, Kind::Queued(request(DISK, "W", 0, 128 << 10))),
        (300, JOB, Kind::Issued(part(0))),
        (350, JOB, Kind::Completed(part(0))),
        (400, JOB, Kind::Issued(part(128))),
        // Given back and given again.
        (420, JOB, Kind::Issued(part(128))),
        (500, JOB, Kind::Completed(part(128))),
        (1000, JOB, Kind::Left),
    ];
    let found = paths(events, &[layer("sda", DISK, true, true)]);
    assert_eq!(spent(&found[0]), [150, 150, 100, 500, 0, 0]);
}

#[test]
fn without_devices_a_call_is_all_entry() {
    let events = vec![(150, JOB, Kind::Entered), (950, JOB, Kind::Left)];
    assert_eq!(spent(&paths(events, &[])[0]), [0, 0, 800, 0, 0, 100]);
}

#[test]
fn a_thread_that_does_something_runs_although_no_switch_was_shown() {
    let taken = Kind::SwitchedOut { preempted: true };
    let events = vec![(150, JOB, Kind::Entered), (200, JOB, taken), (900, JOB, Kind::Left)];
    let path = &paths(events, &[])[0];
    assert_eq!((of(&path.off_cpu), path.preemptions), ([0, 0, 700, 0, 0, 0], 1));
}

#[test]
fn operations_of_which_events_were_lost_are_left_out() {
    let mut all = followed(vec![(150, JOB, Kind::Entered), (1600, JOB, Kind::Left)]);
    let stamps = [Stamps { begin: 100, end: 1000 }, Stamps { begin: 1100, end: 2000 }];
    assert_eq!(timelines(&all, &[], &stamps, &|ticks| ticks).len(), 2);
    all.complete_from = 101;
    assert_eq!(timelines(&all, &[], &stamps, &|ticks| ticks).len(), 1);
    all.text.events.clear();
    assert_eq!(timelines(&all, &[], &stamps, &|ticks| ticks), []);
}

/// The system calls of a recorded trace as operations: begin and end.
fn calls(text: &TraceText) -> Vec<Stamps> {
    let times = |kind: &Kind| {
        let of_kind = text.events.iter().filter(|event| event.kind == *kind);
        of_kind.map(|event| event.at).collect::<Vec<_>>()
    };
    let pairs = times(&Kind::Entered).into_iter().zip(times(&Kind::Left));
    pairs.map(|(begin, end)| Stamps { begin, end }).collect()
}

fn recorded(
    text: &[u8],
    thread: u32,
    strangers: &[u32],
    layers: &[TracedLayer],
) -> Vec<OperationPath> {
    let text = parse_trace(text, TraceClock::Tsc);
    let stamps = calls(&text);
    let strangers = strangers.iter().copied().collect();
    let clock = TraceClock::Tsc;
    let all = PathTrace { text, clock, thread, strangers, lost: 0, complete_from: 0 };
    let found = timelines(&all, layers, &stamps, &|ticks| ticks);
    for (path, stamps) in found.iter().zip(&stamps) {
        assert_eq!(spent(path).iter().sum::<u64>(), stamps.span(), "components are the whole");
    }
    assert_eq!(found.len(), stamps.len());
    found
}

#[test]
fn recorded_writes_through_ext4_wait_for_the_disk_and_others_writes_are_left_out() {
    let text = include_bytes!(
        "../../../../../core/observe/src/tracefs/fixtures/linux-6.18-path-ext4-tsc.trace"
    );
    let found = recorded(text, 25613, &[25658], &[layer("vda", (254, 0), true, true)]);
    assert_eq!(found.len(), 4);
    for path in &found {
        let io = path.io[0];
        // The data, and now and then the journal; each 4 KiB. The other program's are 1 MiB.
        assert_eq!(io.written_bytes.get(), u64::from(io.writes) * 4096, "{path:?}");
        assert!(io.flushes == 1 && path.waits == io.writes + 1, "{path:?}");
        assert!(path.off_cpu.device > path.off_cpu.entry && path.spent.entry > Nanos::ZERO);
    }
}

#[test]
fn recorded_writes_to_zram_never_wait() {
    let text = include_bytes!(
        "../../../../../core/observe/src/tracefs/fixtures/linux-6.18-path-zram-tsc.trace"
    );
    let found = recorded(text, 25761, &[], &[layer("zram1", (253, 1), true, false)]);
    let device: Vec<u64> = found.iter().map(|path| path.spent.device.get()).collect();
    assert_eq!(device, [113_239, 9457, 7375, 7179]);
    assert!(found.iter().all(|path| path.waits == 0 && path.spent.queued == Nanos::ZERO));
}

#[test]
fn a_recorded_loop_device_is_a_layer_over_its_disk() {
    let text = include_bytes!(
        "../../../../../core/observe/src/tracefs/fixtures/linux-6.18-path-loop-tsc.trace"
    );
    let layers = [layer("loop0", (7, 0), false, true), layer("vda", (254, 0), true, true)];
    for path in recorded(text, 25711, &[], &layers) {
        assert!(path.spent.queued > Nanos::ZERO && path.spent.device > Nanos::ZERO);
        assert!(path.io.iter().any(|io| io.device == 0) && path.io.iter().any(|io| io.device == 1));
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    let flags = prop::sample::select(vec!["W", "WS", "FWS", "FF", "R", "WFSM", "D"]);
    let numbers = prop::sample::select(vec![DISK, (9, 0), (1, 0), (99, 9)]);
    let sectors = prop_oneof![0_u64..32, Just(u64::MAX)];
    let block = (numbers, flags, sectors, prop::sample::select(vec![0_u64, 512, 4096, u64::MAX]));
    let block =
        block.prop_map(|(number, flags, sector, bytes)| request(number, flags, sector, bytes));
    prop_oneof![
        Just(Kind::Entered),
        Just(Kind::Left),
        any::<bool>().prop_map(|preempted| Kind::SwitchedOut { preempted }),
        prop::sample::select(vec![JOB, WORKER]).prop_map(|task| Kind::SwitchedIn { task }),
        block.clone().prop_map(Kind::Queued),
        block.clone().prop_map(Kind::Ended),
        block.clone().prop_map(Kind::Issued),
        block.prop_map(Kind::Completed),
    ]
}

proptest! {
    #[test]
    fn stretches_are_the_whole_whatever_was_traced(
        mut events in prop::collection::vec(
            (0_u64..3000, prop::sample::select(vec![JOB, WORKER, STRANGER, 0]), kind()), 0..120),
    ) {
        events.sort_by_key(|event| event.0);
        let layers = [
            layer("md0", (9, 0), false, false),
            layer("sda", DISK, true, true),
            layer("ram0", (1, 0), true, false),
        ];
        let stamps = [Stamps { begin: 100, end: 900 }, Stamps { begin: 901, end: 2500 }];
        for (path, stamps) in
            timelines(&followed(events), &layers, &stamps, &|ticks| ticks).iter().zip(&stamps)
        {
            prop_assert!(spent(path).iter().sum::<u64>() <= 1600);
            let whole = [800, 1599];
            prop_assert!(whole.contains(&spent(path).iter().sum::<u64>()), "{stamps:?} {path:?}");
            for (off, all) in of(&path.off_cpu).into_iter().zip(spent(path)) {
                prop_assert!(off <= all);
            }
        }
    }
}
