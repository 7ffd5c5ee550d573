//! Each rule about measured times and counts, with its smallest positive and negative case.

use durio_observe::{DeviceCounters, LayerKind, WriteCache};
use durio_plan::{Campaign, PlanSection};

use super::*;
use crate::tests::{Sample, disk, over, sample};
use durio_analyse::{Signal, SignalWord};

type Rule = fn(&RuleInput<'_>) -> Vec<Signal>;

fn found(rule: Rule, spoil: impl FnOnce(&mut Sample)) -> Vec<Signal> {
    let mut sample = sample();
    spoil(&mut sample);
    rule(&sample.input())
}

#[track_caller]
fn assert_one(rule: Rule, id: &str, word: SignalWord, spoil: impl FnOnce(&mut Sample)) -> Signal {
    let signals = found(rule, spoil);
    assert_eq!(signals.len(), 1, "{signals:?}");
    assert_eq!((signals[0].id.as_str(), signals[0].word), (id, word));
    assert!(!signals[0].read.is_empty());
    signals[0].clone()
}

fn flushes(count: u64) -> impl FnOnce(&mut Sample) {
    move |sample| {
        let flushes_completed = Some(count);
        sample.workloads[0].devices =
            vec![DeviceCounters { flushes_completed, ..DeviceCounters::default() }];
    }
}

fn p50(sample: &mut Sample, name: OperationName, micros: u64) {
    sample.operation(name).service.p50_ns = Some(micros * 1000);
}

/// Makes the first workload one that is durable by its writes.
fn by_writes(sample: &mut Sample) {
    let workload = &mut sample.workloads[0];
    workload.definition.sync.method = SyncMethod::ODsync;
    workload.operations.retain(|operation| operation.operation != OperationName::Sync);
}

#[test]
fn the_words_name_the_thresholds() {
    let what = |id: &str| super::super::FAMILIES.get(id).unwrap().what.clone();
    let fast = format!(
        "of {FAST_SYNCS_MIN} or more consecutive syncs, the fastest hundredth (p1) is \
         faster than the medium allows: {FLASH_FLUSH_MIN} for flash without power-loss protection, \
         {DISK_FLUSH_MIN} for a spinning disk, {VOLUME_FLUSH_MIN} for a replicated volume"
    );
    assert_eq!(what("flush-fast"), fast);
    let nothing = format!("take less than {} % longer", DELTA_SHARE_MIN * 100.0);
    assert!(what("flush-costs-nothing").contains(&nothing));
    // In words: a flush for every two syncs, twice as long.
    assert_eq!((FLUSHES_PER_SYNC_MIN, FLUSH_AT_WORK), (0.5, 2.0));
}

#[test]
fn swallowed_flushes_are_suspect_and_counted_ones_a_fact() {
    let missing = assert_one(flushes_per_sync, "flushes-missing", SignalWord::Suspect, flushes(3));
    assert_eq!(missing.read[1].value, "3");
    assert!(missing.read[0].place.contains("commit at /data"), "{missing:?}");
    assert_one(flushes_per_sync, "flushes-counted", SignalWord::Fact, flushes(20_000));
    assert_eq!(found(flushes_per_sync, |_| {}), [], "a kernel that counts no flushes");
}

#[test]
fn fewer_than_one_flush_for_two_of_twenty_syncs_are_missing() {
    let counted = |syncs: u64, count: u64| {
        found(flushes_per_sync, |sample| {
            flushes(count)(sample);
            sample.operation(OperationName::Sync).service.count = syncs;
        })
    };
    let ids =
        |signals: Vec<Signal>| signals.into_iter().map(|signal| signal.id).collect::<Vec<_>>();
    assert_eq!(ids(counted(20, 9)), ["flushes-missing"]);
    assert_eq!(ids(counted(1000, 499)), ["flushes-missing"]);
    assert_eq!(ids(counted(1000, 500)), ["flushes-counted"]);
    assert_eq!(ids(counted(20, 10)), ["flushes-counted"]);
    assert_eq!(ids(counted(19, 0)), [""; 0], "too few syncs");
    let said = counted(31, 7);
    let values: Vec<&str> = said[0].read.iter().map(|reading| reading.value.as_str()).collect();
    assert_eq!(values, ["31", "7"]);
    // Of an array each layer counts the same flush: the most of one counts.
    let array = found(flushes_per_sync, |sample| {
        let device =
            |count| DeviceCounters { flushes_completed: Some(count), ..DeviceCounters::default() };
        sample.workloads[0].devices = [4, 12, 7].map(device).into();
        sample.operation(OperationName::Sync).service.count = 20;
    });
    assert_eq!((array[0].id.as_str(), array[0].read[1].value.as_str()), ("flushes-counted", "12"));
}

#[test]
fn flushes_of_a_device_that_does_not_count_are_neither_missing_nor_enough() {
    let device = |count, not_counted| DeviceCounters {
        flushes_completed: Some(count),
        not_counted,
        ..DeviceCounters::default()
    };
    let of = |devices: Vec<DeviceCounters>| {
        found(flushes_per_sync, |sample| {
            sample.workloads[0].devices = devices;
            sample.operation(OperationName::Sync).service.count = 40;
        })
    };
    assert_eq!(of(vec![device(0, true)]), []);
    // Counting was switched off after 31.
    let said = of(vec![device(7, false), device(31, true)]);
    assert_eq!((said[0].id.as_str(), said[0].read[1].value.as_str()), ("flushes-missing", "7"));
}

#[test]
fn every_disk_of_an_array_is_named() {
    let array = |sample: &mut Sample| {
        flushes(3)(sample);
        let mut second = disk("nvme2n1");
        second.block.as_mut().unwrap().write_cache = Some(WriteCache::WriteThrough);
        let below = vec![disk("nvme1n1"), second, disk("nvme3n1")];
        sample.environment.stacks[0].root = over(LayerKind::Md, "md0", below);
    };
    let found = assert_one(flushes_per_sync, "flushes-missing", SignalWord::Suspect, array);
    assert_eq!(found.layer, "disk nvme1n1, disk nvme3n1");
    assert_eq!(found.read[1].place, "/sys/class/block/nvme1n1, nvme3n1/stat");
}

#[test]
fn flushes_are_not_held_against_many_writers_nor_against_a_cache_that_gets_none() {
    let crowded = |sample: &mut Sample| {
        flushes(3)(sample);
        sample.workloads[0].effective.jobs = 8;
    };
    assert_eq!(found(flushes_per_sync, crowded), []);
    let write_through = |sample: &mut Sample| {
        flushes(0)(sample);
        sample.block().write_cache = Some(WriteCache::WriteThrough);
    };
    assert_eq!(found(flushes_per_sync, write_through), []);
    let invented = |sample: &mut Sample| {
        flushes(0)(sample);
        sample.workloads[0].effective.engine = EngineKind::Null;
    };
    assert_eq!(found(flushes_per_sync, invented), []);
}

#[test]
fn writes_that_are_durable_by_themselves_are_held_against_flushes_unless_they_are_fua() {
    let by_fua = |fua: bool| {
        move |sample: &mut Sample| {
            by_writes(sample);
            flushes(3)(sample);
            sample.block().fua = Some(fua);
        }
    };
    assert_one(flushes_per_sync, "flushes-missing", SignalWord::Suspect, by_fua(false));
    assert_eq!(found(flushes_per_sync, by_fua(true)), []);
}

fn p1(sample: &mut Sample, micros: u64) {
    sample.operation(OperationName::Sync).service.p1_ns = Some(micros * 1000);
}

#[test]
fn a_sync_is_not_faster_than_its_medium() {
    let fast = |micros| move |sample: &mut Sample| p1(sample, micros);
    let flash = assert_one(latency_floor, "flush-fast", SignalWord::Suspect, fast(149));
    assert_eq!(flash.read[0].what, "time of a sync by fdatasync, p1");
    assert_eq!(flash.read[0].value, "149 µs");
    assert!(flash.implies.contains("needs more than 150 µs"), "{}", flash.implies);
    assert_eq!(found(latency_floor, fast(150)), []);
    let disk = |micros| {
        move |sample: &mut Sample| {
            p1(sample, micros);
            sample.block().rotational = Some(true);
        }
    };
    let turning = assert_one(latency_floor, "flush-fast", SignalWord::Suspect, disk(999));
    assert!(turning.implies.contains("needs more than 1 ms"), "{}", turning.implies);
    assert_eq!(found(latency_floor, disk(1000)), []);
    let virtual_disk = |sample: &mut Sample| {
        disk(999)(sample);
        sample.environment.host.hypervisor = Some("kvm".into());
    };
    assert_eq!(found(latency_floor, virtual_disk), [], "hypervisors call anything rotational");
    let volume = |micros| {
        move |sample: &mut Sample| {
            p1(sample, micros);
            sample.block().model = Some("Amazon Elastic Block Store".into());
        }
    };
    let replicated = assert_one(latency_floor, "flush-fast", SignalWord::Suspect, volume(99));
    assert!(replicated.implies.contains("general knowledge"));
    assert!(replicated.implies.contains("needs more than 100 µs"), "{}", replicated.implies);
    assert_eq!(found(latency_floor, volume(100)), []);
}

#[test]
fn a_busy_machine_hides_no_fast_flush_and_a_few_syncs_show_none() {
    // As one disk was measured idle and under load: the fastest syncs are the same.
    for median in [121, 480, 2300] {
        let loaded = |sample: &mut Sample| {
            p1(sample, 62);
            p50(sample, OperationName::Sync, median);
        };
        let found = assert_one(latency_floor, "flush-fast", SignalWord::Suspect, loaded);
        assert_eq!(found.read[0].value, "62 µs", "p50 of {median} µs");
    }
    let few = |count| {
        move |sample: &mut Sample| {
            p1(sample, 62);
            sample.operation(OperationName::Sync).service.count = count;
        }
    };
    assert_one(latency_floor, "flush-fast", SignalWord::Suspect, few(100));
    assert_eq!(found(latency_floor, few(99)), []);
}

#[test]
fn of_workloads_and_places_on_a_disk_the_fastest_syncs_speak_and_once() {
    let several = |sample: &mut Sample| {
        p1(sample, 140);
        let mut fastest = sample.workloads[0].clone();
        (fastest.name, fastest.location) = ("fastest".into(), "/other".into());
        let mut stack = sample.environment.stacks[0].clone();
        stack.target = "/other".into();
        sample.environment.stacks.push(stack);
        let location = Some(durio_plan::RawPath::from("/other"));
        let target = durio_plan::Target { location, ..sample.plan.targets[0].clone() };
        sample.plan.targets.push(target);
        sample.workloads.push(fastest);
        p1(sample, 145);
        sample.workloads[1]
            .operations
            .iter_mut()
            .for_each(|operation| operation.service.p1_ns = Some(77_000));
    };
    let found = assert_one(latency_floor, "flush-fast", SignalWord::Suspect, several);
    assert_eq!(
        (found.read[0].place.as_str(), found.read[0].value.as_str()),
        ("fastest at /other", "77 µs")
    );
}

#[test]
fn a_device_that_gets_no_flush_is_not_too_fast() {
    let write_through = |sample: &mut Sample| {
        p1(sample, 5);
        sample.block().write_cache = Some(WriteCache::WriteThrough);
    };
    assert_eq!(found(latency_floor, write_through), []);
    assert_eq!(found(flush_delta, write_through), []);
}

#[test]
fn a_flush_that_adds_nothing_to_a_direct_write_is_suspect() {
    let medians = |write, commit| {
        move |sample: &mut Sample| {
            p50(sample, OperationName::Write, write);
            p50(sample, OperationName::Commit, commit);
        }
    };
    assert_one(flush_delta, "flush-costs-nothing", SignalWord::Suspect, medians(100, 105));
    let free =
        assert_one(flush_delta, "flush-costs-nothing", SignalWord::Suspect, medians(100, 109));
    let values: Vec<&str> = free.read.iter().map(|reading| reading.value.as_str()).collect();
    assert_eq!(values, ["100 µs", "109 µs"], "the write, then both");
    assert_eq!(found(flush_delta, medians(100, 110)), []);
    assert_eq!(found(flush_delta, medians(109, 600)), []);
    let of_size = |kib| {
        move |sample: &mut Sample| {
            medians(100, 105)(sample);
            sample.workloads[0].definition.block_size = Bytes::from_kib(kib);
        }
    };
    assert_one(flush_delta, "flush-costs-nothing", SignalWord::Suspect, of_size(16));
    let larger = |sample: &mut Sample| {
        of_size(16)(sample);
        sample.workloads[0].definition.block_size = Bytes::new(16_385);
    };
    assert_eq!(found(flush_delta, larger), []);
    let buffered = |sample: &mut Sample| {
        medians(100, 105)(sample);
        sample.workloads[0].effective.cache = CacheMode::Buffered;
    };
    assert_eq!(found(flush_delta, buffered), [], "a buffered write is a copy in memory");
}

/// A workload with separate syncs, and one with FUA writes beside it.
fn both_ways(fua: u64) -> impl FnOnce(&mut Sample) {
    move |sample| {
        sample.block().fua = Some(true);
        p50(sample, OperationName::Write, 100);
        p50(sample, OperationName::Commit, 900);
        let with_flush = sample.workloads[0].clone();
        by_writes(sample);
        p50(sample, OperationName::Commit, fua);
        sample.workloads.push(with_flush);
    }
}

#[test]
fn fua_at_the_price_of_a_plain_write_is_a_hint_where_flushes_cost() {
    let found_hint =
        assert_one(fua_against_flush, "fua-like-plain-write", SignalWord::Suspect, both_ways(105));
    let values: Vec<&str> = found_hint.read.iter().map(|reading| reading.value.as_str()).collect();
    assert_eq!(values, ["100 µs", "105 µs", "900 µs"], "plain, by FUA, with a flush");
    assert_one(fua_against_flush, "fua-like-plain-write", SignalWord::Suspect, both_ways(114));
    assert_eq!(found(fua_against_flush, both_ways(116)), []);
    let with_flush = |micros: u64| {
        move |sample: &mut Sample| {
            both_ways(105)(sample);
            let commits = sample.workloads[1].operations.iter_mut();
            let commits = commits.filter(|operation| operation.operation == OperationName::Commit);
            commits.for_each(|operation| operation.service.p50_ns = Some(micros * 1000));
        }
    };
    assert_one(fua_against_flush, "fua-like-plain-write", SignalWord::Suspect, with_flush(200));
    assert_eq!(found(fua_against_flush, with_flush(199)), []);
    let without_fua = |sample: &mut Sample| {
        both_ways(105)(sample);
        sample.block().fua = Some(false);
    };
    assert_eq!(found(fua_against_flush, without_fua), []);
}

/// Steps of an experiment that asks for the slope, one per number of blocks, each flush taking so long.
fn experiment(flush_micros: fn(u32) -> u64) -> impl FnOnce(&mut Sample) {
    move |sample| {
        let numbers = [1, 8, 64, 512, 1024];
        sample.plan.campaign = Some(Campaign {
            sections: vec![PlanSection {
                name: "slope".into(),
                summary: "time of a flush".into(),
                kind: SectionKind::Experiment { experiment: Experiment::FlushSlope },
                first_step: 0,
                steps: 5,
                rounds: None,
                baseline: None,
            }],
            ..Campaign::default()
        });
        let (step, first) = (sample.plan.steps[0].clone(), sample.workloads[0].clone());
        sample.plan.steps = vec![step; 5];
        sample.workloads.clear();
        for (index, every) in (0..).zip(numbers) {
            let mut workload = WorkloadFindings { step: index, ..first.clone() };
            workload.definition.sync.every = every;
            let sync = workload.operations.iter_mut();
            let sync = sync.filter(|operation| operation.operation == OperationName::Sync);
            sync.for_each(|operation| operation.service.p50_ns = Some(flush_micros(every) * 1000));
            sample.workloads.push(workload);
        }
    }
}

#[test]
fn the_experiment_of_flushes_tells_a_cache_that_is_emptied_from_one_that_is_not() {
    let slope = slopes;
    let emptied = experiment(|blocks| 400 + 8 * u64::from(blocks));
    let found_slope = assert_one(slope, "flush-slope", SignalWord::Fact, emptied);
    assert_eq!(found_slope.read.len(), 6, "five numbers of blocks and the slope");
    assert_one(slope, "flush-slope", SignalWord::Suspect, experiment(|_| 30));
    let write_through = |sample: &mut Sample| {
        experiment(|_| 2)(sample);
        sample.block().write_cache = Some(WriteCache::WriteThrough);
    };
    assert_one(slope, "flush-slope", SignalWord::Declared, write_through);
    assert_eq!(found(slope, |_| {}), [], "no such experiment");
}

/// A second location, on another disk.
fn add_place(sample: &mut Sample) {
    let stack = Stack { target: "/other".into(), root: disk("sdb") };
    sample.environment.stacks.push(stack);
    let location = Some(durio_plan::RawPath::from("/other"));
    let target = durio_plan::Target { location, ..sample.plan.targets[0].clone() };
    sample.plan.targets.push(target);
}

#[test]
fn each_place_of_an_experiment_has_its_own_flushes_and_its_own_line() {
    let both = |sample: &mut Sample| {
        experiment(|blocks| 400 + 8 * u64::from(blocks))(sample);
        add_place(sample);
        let mut others = sample.workloads.clone();
        for workload in &mut sample.workloads {
            workload.definition.block_size = Bytes::from_kib(16);
        }
        for workload in &mut others {
            workload.location = "/other".into();
            workload.definition.block_size = Bytes::from_kib(4);
            let operations = workload.operations.iter_mut();
            let sync = operations.filter(|found| found.operation == OperationName::Sync);
            sync.for_each(|sync| sync.service.p50_ns = sync.service.p50_ns.map(|nanos| 2 * nanos));
        }
        sample.workloads.extend(others);
    };
    let signals = found(slopes, both);
    let told: Vec<[&str; 3]> = signals
        .iter()
        .flat_map(|signal| [&signal.read[1], signal.read.last().unwrap()])
        .map(|read| [&*read.what, &*read.place, &*read.value])
        .collect();
    let (here, there) = ("experiment of flushes at /data", "experiment of flushes at /other");
    let expected = [
        ["flush after 8 writes of 16 KiB, p50", here, "464 µs"],
        ["added by each MiB", here, "512.0 µs"],
        ["flush after 8 writes of 4 KiB, p50", there, "928 µs"],
        ["added by each MiB", there, "4096.0 µs"],
    ];
    assert_eq!(told, expected);
    let layers: Vec<&str> = signals.iter().map(|signal| &*signal.layer).collect();
    assert_eq!(layers, ["disk nvme0n1", "disk sdb"]);
}

#[test]
fn a_flush_that_costs_nothing_is_found_at_each_place() {
    let second = |sample: &mut Sample| {
        add_place(sample);
        let mut there = sample.workloads[0].clone();
        there.location = "/other".into();
        p50(sample, OperationName::Write, 100);
        p50(sample, OperationName::Commit, 600);
        for operation in &mut there.operations {
            let is_commit = operation.operation == OperationName::Commit;
            operation.service.p50_ns = Some(if is_commit { 104_000 } else { 100_000 });
        }
        sample.workloads.push(there);
    };
    let free = assert_one(flush_delta, "flush-costs-nothing", SignalWord::Suspect, second);
    assert_eq!(free.layer, "disk sdb");
    let told: Vec<[&str; 3]> =
        free.read.iter().map(|read| [&*read.what, &*read.place, &*read.value]).collect();
    let place = "commit at /other";
    let expected =
        [["direct write, p50", place, "100 µs"], ["write and sync, p50", place, "104 µs"]];
    assert_eq!(told, expected);
}

#[test]
fn writes_by_fua_and_with_a_flush_are_compared_at_one_size_alone() {
    let apart = |sample: &mut Sample| {
        both_ways(105)(sample);
        sample.workloads[1].definition.block_size = Bytes::from_kib(64);
    };
    assert_eq!(found(fua_against_flush, apart), []);
    // Of several of a size, the fastest of each kind.
    let several = |sample: &mut Sample| {
        both_ways(105)(sample);
        let mut slower = sample.workloads.clone();
        for operation in slower.iter_mut().flat_map(|workload| &mut workload.operations) {
            operation.service.p50_ns = operation.service.p50_ns.map(|nanos| 3 * nanos);
        }
        slower.append(&mut sample.workloads);
        sample.workloads = slower;
    };
    let hint = assert_one(fua_against_flush, "fua-like-plain-write", SignalWord::Suspect, several);
    let values: Vec<&str> = hint.read.iter().map(|reading| &*reading.value).collect();
    assert_eq!(values, ["100 µs", "105 µs", "900 µs"]);
}

/// Flushes of a fixed time and so many nanoseconds per block of 4 KiB.
fn line(fixed_micros: u64, per_block: u64) -> Vec<FlushPoint> {
    let blocks = [1, 4, 16, 64, 256, 1024];
    let flush = |blocks: u32| Nanos::new(fixed_micros * 1000 + u64::from(blocks) * per_block);
    let of = |&blocks: &u32| point(blocks, Bytes::from_kib(4), flush(blocks));
    blocks.iter().map(of).collect()
}

fn word(points: &[FlushPoint], sends: bool, written: Option<f64>) -> Option<SlopeWord> {
    word_of(&flush_slope(points).unwrap(), points, sends, written)
}

#[test]
fn a_cache_that_is_emptied_rises_from_the_time_that_programming_takes() {
    // 4 KiB in 8 µs are 512 MB/s.
    assert_eq!(word(&line(400, 8000), true, Some(500e6)), Some(SlopeWord::Emptied));
    assert_eq!(word(&line(20, 8000), true, None), Some(SlopeWord::Rises));
}

#[test]
fn a_cache_that_is_emptied_faster_than_it_can_be_written_is_suspect() {
    let steep = Some(SlopeWord::TooSteepToBeTrue);
    assert_eq!(word(&line(400, 8000), true, Some(250e6)), steep);
    assert_eq!(word(&line(400, 8000), true, Some(0.0)), Some(SlopeWord::Emptied));
}

#[test]
fn a_slope_that_is_not_known_well_accuses_nobody() {
    let mut points = line(100, 1000);
    for (index, point) in points.iter_mut().enumerate() {
        point.flush_ns_p50 *= [0.7, 1.4, 0.8, 1.5, 0.6, 1.3][index];
    }
    let found = word(&points, true, Some(1e9));
    assert!(found != Some(SlopeWord::TooSteepToBeTrue), "{found:?}");
}

#[test]
fn flat_and_fast_is_a_declaration_or_suspect_and_flat_and_slow_says_nothing() {
    assert_eq!(word(&line(30, 0), true, None), Some(SlopeWord::ProtectedOrLie));
    assert_eq!(word(&line(2, 0), false, None), Some(SlopeWord::NotSent));
    assert_eq!(word(&line(1200, 0), true, None), Some(SlopeWord::FixedPrice));
}

#[test]
fn a_cache_may_be_emptied_twice_as_fast_as_the_storage_was_written() {
    // 4 KiB in 8 µs are 512 MB/s.
    let of = |written| word(&line(400, 8000), true, Some(written));
    assert_eq!(
        [of(256.5e6), of(255.5e6)],
        [Some(SlopeWord::Emptied), Some(SlopeWord::TooSteepToBeTrue),]
    );
}

#[test]
fn bandwidth_is_that_of_the_fastest_writes_of_128_kib_or_more_at_the_place() {
    let mut sample = sample();
    let mut add = |bytes: u64, bandwidth: f64, location: &str| {
        let mut workload = sample.workloads[0].clone();
        workload.definition.block_size = Bytes::new(bytes);
        (workload.bandwidth, workload.location) = (bandwidth, location.to_owned());
        sample.workloads.push(workload);
    };
    add((128 << 10) - 1, 9e9, "/data");
    add(1 << 20, 8e9, "/other");
    add(128 << 10, 2e9, "/data");
    add(1 << 20, 3e9, "/data");
    add(256 << 10, 1e9, "/data");
    assert_eq!(write_bandwidth(&sample.input(), "/data"), Some(3e9));
    sample.workloads.remove(4);
    assert_eq!(write_bandwidth(&sample.input(), "/data"), Some(2e9));
    // Through the cache, and not made durable: not the storage's.
    for workload in &mut sample.workloads {
        (workload.effective.cache, workload.durable) = (CacheMode::Buffered, false);
    }
    assert_eq!(write_bandwidth(&sample.input(), "/data"), None);
}
