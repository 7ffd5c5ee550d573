//! Each bound of a definition on both sides, with the sentence that names it; parts of a target.

use durio_base::Nanos;

use super::*;
use crate::{ByteZone, Zone};

fn random() -> Workload {
    let read_share = PerMille(500);
    Workload { pattern: Pattern::Random, read_share, ..Workload::default() }
}

fn log() -> Workload {
    let read_share = PerMille::NONE;
    let sync = SyncPolicy::each(SyncMethod::Fdatasync);
    Workload { read_share, sync, group_commit: Some(GroupCommit::of(8)), ..Workload::default() }
}

/// The fault of a definition that was changed.
fn fault(mut workload: Workload, change: impl Fn(&mut Workload)) -> Option<String> {
    assert_eq!(workload.validate(), Ok(()));
    change(&mut workload);
    workload.validate().err().map(|error| error.0)
}

fn is_fine(workload: &Workload, change: impl Fn(&mut Workload)) {
    assert_eq!(fault(workload.clone(), change), None);
}

fn is_refused(workload: &Workload, words: &str, change: impl Fn(&mut Workload)) {
    let found = fault(workload.clone(), change).unwrap_or_else(|| panic!("not refused: {words}"));
    assert!(found.contains(words), "{found} for {words}");
}

#[test]
fn each_number_has_its_bounds() {
    let good = random();
    is_fine(&good, |workload| workload.block_size = Bytes::new(1));
    is_fine(&good, |workload| workload.block_size = Bytes::new(1 << 30));
    is_refused(&good, "block size must be 1 B to 1 GiB, not 0 B", |workload| {
        workload.block_size = Bytes::ZERO;
    });
    is_refused(&good, "block size must be", |workload| {
        workload.block_size = Bytes::new((1 << 30) + 1);
    });
    is_fine(&good, |workload| workload.jobs = 4096);
    is_refused(&good, "jobs must be 1 to 4096, not 4097", |workload| workload.jobs = 4097);
    is_refused(&good, "jobs must be 1 to 4096, not 0", |workload| workload.jobs = 0);
    is_fine(&good, |workload| workload.depth = 32_768);
    is_refused(&good, "depth must be 1 to 32768, not 32769", |workload| workload.depth = 32_769);
    is_refused(&good, "depth must be", |workload| workload.depth = 0);
    is_fine(&good, |workload| workload.read_share = PerMille(1000));
    is_refused(&good, "share of reads is 1001 of 1000", |workload| {
        workload.read_share = PerMille(1001);
    });
    is_refused(&good, "end of its region", |workload| workload.at_end = AtEnd::Reallocate);
    is_fine(&Workload::default(), |workload| workload.at_end = AtEnd::Reallocate);
    is_fine(&good, |workload| workload.duplicates = PerMille(1000));
    is_refused(&good, "share of duplicates", |workload| workload.duplicates = PerMille(1001));
    let zeros = |share| Contents::Compressible { zeros: PerMille(share) };
    is_fine(&good, |workload| workload.contents = zeros(1000));
    is_refused(&good, "share of zeros", |workload| workload.contents = zeros(1001));
    is_fine(&good, |workload| workload.contents = Contents::Pattern { bytes: vec![1] });
    is_refused(&good, "a pattern has bytes", |workload| {
        workload.contents = Contents::Pattern { bytes: Vec::new() }
    });
    let words = "would otherwise be new";
    let repeated = |workload: &mut Workload| workload.duplicates = PerMille(1);
    is_refused(&Workload { renewal: Renewal::Never, ..random() }, words, repeated);
    is_refused(&Workload { contents: zeros(1000), ..random() }, words, repeated);
}

#[test]
fn orders_that_contradict_each_other_are_refused() {
    let (random, sequential) = (random(), Workload::default());
    let zipf = Skew::Zipf { theta_per_mille: 1200 };
    let zones =
        Skew::Zones { zones: vec![Zone { accesses: PerMille(1000), size: PerMille(1000) }] };
    let jumps =
        |reads, writes| Some(JumpShares { reads: PerMille(reads), writes: PerMille(writes) });
    is_refused(&random, "a run has at least one block", |workload| workload.run_length = 0);
    for change in [
        |workload: &mut Workload| workload.run_length = 2,
        |workload: &mut Workload| workload.skew = Skew::Zipf { theta_per_mille: 1200 },
        |workload: &mut Workload| workload.cursors_wrap = true,
        |workload: &mut Workload| workload.coverage = Coverage::EachOnce,
        |workload: &mut Workload| workload.coverage = Coverage::JumpsOnce,
    ] {
        is_fine(&random, change);
        is_refused(&sequential, "are for random patterns", change);
    }
    is_fine(&sequential, |workload| workload.hole = Bytes::new(1));
    is_refused(&random, "holes between blocks", |workload| workload.hole = Bytes::new(1));
    is_fine(&random, |workload| workload.align = Bytes::new(1));
    is_refused(&sequential, "an alignment is one of", |workload| workload.align = Bytes::new(1));
    let once = Workload { coverage: Coverage::EachOnce, ..random.clone() };
    is_refused(&once, "an alignment is one of", |workload| workload.align = Bytes::new(1));
    is_refused(&once, "cannot be skewed", |workload| workload.skew = zipf.clone());
    is_fine(&once, |workload| workload.skew = zones.clone());
    let own = Workload { own_cursors: true, ..random.clone() };
    is_fine(&own, |workload| workload.jumps = jumps(1000, 0));
    is_refused(&own, "a share of jumps", |workload| workload.jumps = jumps(1001, 0));
    is_refused(&own, "a share of jumps", |workload| workload.jumps = jumps(0, 1001));
    is_refused(&random, "jumps need separate positions", |workload| workload.jumps = jumps(1, 1));
    let words = "separate zones must be independent draws";
    let hot = Workload { skew: zones.clone(), ..random.clone() };
    is_fine(&hot, |workload| workload.write_skew = Some(zones.clone()));
    is_refused(&random, words, |workload| workload.write_skew = Some(zones.clone()));
    is_refused(&hot, words, |workload| workload.write_skew = Some(Skew::Uniform));
    let hot_once = Workload { skew: zones.clone(), ..once };
    is_refused(&hot_once, words, |workload| workload.write_skew = Some(zones.clone()));
    is_refused(&hot, "zipf theta", |workload| {
        workload.write_skew = Some(Skew::Zipf { theta_per_mille: 0 });
    });
}

#[test]
fn each_skew_has_its_bounds() {
    let refused = |skew: Skew| skew.validate().is_err();
    let zipf = |theta_per_mille| refused(Skew::Zipf { theta_per_mille });
    assert_eq!([0, 1, 10_000, 10_001].map(zipf), [true, false, false, true]);
    let pareto = |h_per_mille| refused(Skew::Pareto { h_per_mille });
    assert_eq!([0, 1, 999, 1000].map(pareto), [true, false, false, true]);
    let normal = |deviation_per_mille| refused(Skew::Normal { deviation_per_mille });
    assert_eq!([0, 1, 1000, 1001].map(normal), [true, false, false, true]);
    let zones = |zones: &[(u16, u16)]| {
        let zone = |&(accesses, size)| Zone { accesses: PerMille(accesses), size: PerMille(size) };
        refused(Skew::Zones { zones: zones.iter().map(zone).collect() })
    };
    assert!(!zones(&[(300, 900), (700, 100)]) && !zones(&[(1000, 1000), (0, 0)]));
    assert!(zones(&[(300, 900), (699, 100)]) && zones(&[(300, 900), (701, 100)]));
    assert!(zones(&[(300, 901), (700, 100)]) && zones(&[(300, 899), (700, 100)]));
    assert!(zones(&[(999, 1000), (1, 0)]));
    let many = |count: usize| {
        let mut all = vec![(0, 0); count - 1];
        all.push((1000, 1000));
        zones(&all)
    };
    assert!(!many(256) && many(257));
    let bytes = |zones: &[(u16, u64)]| {
        let zone =
            |&(accesses, size)| ByteZone { accesses: PerMille(accesses), size: Bytes::new(size) };
        refused(Skew::ByteZones { zones: zones.iter().map(zone).collect() })
    };
    assert!(!bytes(&[(300, 1), (700, 5)]) && !bytes(&[(1000, 1), (0, 0)]));
    assert!(
        bytes(&[(300, 1), (699, 5)]) && bytes(&[(300, 1), (701, 5)]) && bytes(&[(999, 1), (1, 0)])
    );
    let many = |count: usize| {
        let mut all = vec![(0, 0); count - 1];
        all.push((1000, 7));
        bytes(&all)
    };
    assert!(!many(256) && many(257));
    let text = Skew::Zipf { theta_per_mille: 12_345 }.validate().unwrap_err().0;
    assert_eq!(text, "zipf theta must be 0.001 to 10, not 12.345");
    let text = Skew::Pareto { h_per_mille: 1500 }.validate().unwrap_err().0;
    assert_eq!(text, "pareto h must be 0.001 to 0.999, not 1.5");
}

#[test]
fn a_log_of_batches_has_one_order_and_one_sync_for_each() {
    let good = log();
    let words = "one batch after another";
    is_refused(&good, words, |workload| workload.read_share = PerMille(1));
    is_refused(&good, words, |workload| workload.pattern = Pattern::Random);
    is_refused(&good, words, |workload| workload.hole = Bytes::new(1));
    let words = "one batch in flight";
    is_refused(&good, words, |workload| workload.depth = 2);
    is_refused(&good, words, |workload| workload.sync.every = 2);
    is_refused(&good, "starts over at its end", |workload| workload.at_end = AtEnd::Reallocate);
    let words = "synced by fsync";
    is_refused(&good, words, |workload| workload.sync.method = SyncMethod::LinkedFsync);
    is_refused(&good, words, |workload| workload.sync.method = SyncMethod::FileRange);
    for method in [SyncMethod::Fsync, SyncMethod::ODsync, SyncMethod::RwfSync, SyncMethod::None] {
        is_fine(&good, |workload| workload.sync.method = method);
    }
    let threads = |jobs, committers| {
        move |workload: &mut Workload| {
            let policy = GroupCommit { committers, ..GroupCommit::of(1) };
            workload.group_commit =
                Some(GroupCommit { threads: CommitterThreads::OneEach, ..policy });
            workload.jobs = jobs;
        }
    };
    is_fine(&good, threads(4, 1024));
    is_refused(&good, "4100 committers with one thread each exceed 4096", threads(4, 1025));
    is_fine(&good, |workload| {
        (workload.jobs, workload.group_commit) = (4, Some(GroupCommit::of(1025)));
    });
    is_refused(&good, "committers must be", |workload| {
        workload.group_commit = Some(GroupCommit::of(0));
    });
}

#[test]
fn a_segment_is_written_in_blocks_of_one_size_at_one_place() {
    let share = |kib| vec![BlockShare { size: Bytes::from_kib(kib), weight: PerMille(1000) }];
    let segment = Workload { at_end: AtEnd::Reallocate, ..Workload::default() };
    is_refused(&segment, "blocks of one size", |workload| workload.block_mix = share(4));
    is_refused(&segment, "blocks of one size", |workload| workload.write_block_mix = share(4));
    is_refused(&segment, "at one position", |workload| workload.own_cursors = true);
    is_fine(&random(), |workload| workload.block_mix = share(4));
    let words = "larger than the block size 4 KiB";
    is_refused(&random(), words, |workload| workload.block_mix = share(5));
    is_refused(&random(), words, |workload| workload.write_block_mix = share(5));
}

#[test]
fn what_a_workload_does_follows_from_its_parts() {
    let of = |read_share, method, every, group_commit| {
        let sync = SyncPolicy { method, every };
        let read_share = PerMille(read_share);
        let it = Workload { read_share, sync, group_commit, ..Workload::default() };
        let commits = [it.commits_each_write(), it.has_commits()];
        ([it.reads(), it.writes(), it.is_durable()], commits)
    };
    use SyncMethod::{Fsync, None as NoSync};
    assert_eq!(of(1000, Fsync, 1, None), ([true, false, false], [false, false]));
    assert_eq!(of(999, Fsync, 1, None), ([true, true, true], [true, true]));
    assert_eq!(of(1, Fsync, 2, None), ([true, true, true], [false, false]));
    assert_eq!(of(0, Fsync, 1, None), ([false, true, true], [true, true]));
    assert_eq!(of(0, NoSync, 1, None), ([false, true, false], [false, false]));
    let policy = Some(GroupCommit::of(3));
    assert_eq!(of(0, NoSync, 1, policy), ([false, true, false], [false, true]));
    assert_eq!(of(1000, NoSync, 1, policy), ([true, false, false], [false, false]));
    assert_eq!(Workload { jobs: 3, depth: 7, ..random() }.in_flight_max(), 21);
    assert_eq!(random().transfer_max(), Bytes::from_kib(4));
    let policy = GroupCommit { batch_max: Bytes::from_kib(16), ..GroupCommit::of(64) };
    assert_eq!(
        Workload { group_commit: Some(policy), ..log() }.transfer_max(),
        Bytes::from_kib(16)
    );
    let new = |renewal, contents: &Contents| {
        Workload { renewal, contents: contents.clone(), ..random() }.has_new_blocks()
    };
    let zeros = Contents::Compressible { zeros: PerMille::ALL };
    assert!(new(Renewal::EachWrite, &Contents::Incompressible));
    assert!(!new(Renewal::EachWrite, &zeros) && !new(Renewal::Never, &Contents::Incompressible));
}

#[test]
fn sizes_that_occur_are_told_once_in_order() {
    let share =
        |kib: u64, weight| BlockShare { size: Bytes::from_kib(kib), weight: PerMille(weight) };
    let of = |read_share, reads: &[u64], writes: &[u64]| {
        let mix = |sizes: &[u64]| sizes.iter().map(|&kib| share(kib, 500)).collect();
        let it = Workload {
            block_size: Bytes::from_kib(64),
            read_share: PerMille(read_share),
            block_mix: mix(reads),
            write_block_mix: mix(writes),
            ..random()
        };
        assert_eq!(it.has_mix(), !reads.is_empty() || !writes.is_empty());
        it.block_sizes().into_iter().map(|size| size.get() >> 10).collect::<Vec<_>>()
    };
    assert_eq!(of(500, &[], &[]), [64]);
    assert_eq!(of(500, &[16, 4], &[]), [4, 16]);
    assert_eq!(of(500, &[16, 4], &[8, 4]), [4, 8, 16]);
    assert_eq!(of(500, &[], &[8, 4]), [4, 8, 64]);
    assert_eq!(of(0, &[], &[8, 4]), [4, 8]);
    let both =
        Workload { block_mix: vec![share(4, 1)], write_block_mix: vec![share(8, 1)], ..random() };
    assert_eq!(
        (both.mix(false)[0].size, both.mix(true)[0].size),
        (Bytes::from_kib(4), Bytes::from_kib(8))
    );
    let one = Workload { block_mix: vec![share(4, 1)], ..random() };
    assert_eq!(one.mix(true), one.mix(false));
}

#[test]
fn parts_of_a_target_are_whole_blocks_and_hold_one() {
    let part = |region, place, sharers, size: u64| {
        let workload = Workload { region, ..random() };
        let found = workload.region_among(place, sharers, Bytes::new(size));
        found.map(|region| (region.offset.get(), region.length.get())).map_err(|error| error.0)
    };
    assert_eq!(part(RegionRule::Shared, 1, 3, 4096), Ok((0, 4096)));
    assert_eq!(part(RegionRule::Shared, 1, 3, 12_287), Ok((0, 8192)));
    let words = "a target of 4095 B does not hold a block of 4 KiB for each of 1 jobs";
    assert_eq!(part(RegionRule::Shared, 1, 3, 4095), Err(words.to_owned()));
    assert_eq!(part(RegionRule::ShareEach, 0, 3, 3 * 8192 + 4095), Ok((0, 8192)));
    assert_eq!(part(RegionRule::ShareEach, 2, 3, 3 * 8192 + 4095), Ok((16_384, 8192)));
    assert_eq!(part(RegionRule::ShareEach, 2, 3, 3 * 4096), Ok((8192, 4096)));
    let words = part(RegionRule::ShareEach, 2, 3, 3 * 4096 - 1).unwrap_err();
    assert!(words.ends_with("for each of 3 jobs"), "{words}");
    let by = |bytes| RegionRule::OffsetEach { by: Bytes::new(bytes) };
    assert_eq!(part(by(8191), 2, 3, 20_000), Ok((8192, 8192)));
    assert_eq!(part(by(8192), 2, 3, 20_480), Ok((16_384, 4096)));
    assert!(part(by(8192), 2, 3, 20_479).is_err() && part(by(u64::MAX), 2, 3, 20_479).is_err());
    // A log's parts are multiples of what its batches are filled up to, and hold one.
    let of_log = |pad_to, size: u64| {
        let policy = GroupCommit { pad_to, batch_max: Bytes::from_kib(8), ..GroupCommit::of(64) };
        let log = Workload { group_commit: Some(policy), block_size: Bytes::new(256), ..log() };
        log.region_of(0, Bytes::new(size))
            .map(|region| region.length.get())
            .map_err(|error| error.0)
    };
    assert_eq!(of_log(Bytes::new(4096), 12_287), Ok(8192));
    assert_eq!(of_log(Bytes::ZERO, 12_287), Ok(12_032));
    let words = "a target of 8191 B does not hold a batch of 8 KiB for each of 1 jobs";
    assert_eq!(of_log(Bytes::new(4096), 8191), Err(words.to_owned()));
}

#[test]
fn a_region_within_a_target_ends_where_that_does() {
    let within = |offset: u64, length: u64, size: u64| {
        let within = Some(Region { offset: Bytes::new(offset), length: Bytes::new(length) });
        let found = Workload { within, ..random() }.region_of(0, Bytes::new(size));
        found.map(|region| (region.offset.get(), region.length.get())).ok()
    };
    assert_eq!(within(8192, 4096, 12_288), Some((8192, 4096)));
    assert_eq!(within(8192, 4096, 12_287), None);
    assert_eq!(within(u64::MAX, 4096, u64::MAX), None);
    let rule = |pattern, jobs| RegionRule::default_of(pattern, jobs);
    assert_eq!(rule(Pattern::Sequential, 1), RegionRule::Shared);
    assert_eq!(rule(Pattern::Sequential, 2), RegionRule::ShareEach);
    assert_eq!(rule(Pattern::Random, 2), RegionRule::Shared);
}

#[test]
fn group_commit_and_software_have_their_bounds() {
    use crate::{ClientThreads, LogWriter, Software};
    let good = GroupCommit::of(64);
    let fits = |policy: GroupCommit| policy.validate().is_ok();
    let committers = |committers| fits(GroupCommit { committers, ..good });
    assert!(committers(1) && committers(65_536) && !committers(65_537));
    let each =
        |committers| fits(GroupCommit { committers, threads: CommitterThreads::OneEach, ..good });
    assert!(each(4096) && !each(4097));
    let batch = |bytes| fits(GroupCommit { batch_max: Bytes::new(bytes), ..good });
    assert!(batch(1) && batch(64 << 20) && !batch((64 << 20) + 1));
    let pad = |bytes| fits(GroupCommit { pad_to: Bytes::new(bytes), ..good });
    assert!(pad(0) && pad(64 << 20) && !pad((64 << 20) + 1));
    let delay = |nanos| fits(GroupCommit { delay: Nanos::new(nanos), ..good });
    assert!(delay(1_000_000_000) && !delay(1_000_000_001));
    assert_eq!(good.thread_count(), 1);
    let threads = GroupCommit { threads: CommitterThreads::OneEach, ..good };
    assert_eq!(threads.thread_count(), 64);
    let padded = |bytes| good.padded(Bytes::new(bytes)).get();
    assert_eq!([0, 1, 4096, 4097].map(padded), [0, 4096, 4096, 8192]);
    let time = Nanos::from_secs(1);
    let software = Software {
        clients: ClientThreads::One,
        writer: LogWriter::Committer,
        wakes_all: false,
        flushes: 16,
        turn: None,
        client: time,
        before: time,
        after: time,
        batch: time,
        apply: Some(time),
        yields: Some(time),
        wake: time,
    };
    assert_eq!(software.validate(), Ok(()));
    let more = Nanos::new(1_000_000_001);
    for change in [
        |software: &mut Software, more| software.client = more,
        |software: &mut Software, more| software.before = more,
        |software: &mut Software, more| software.after = more,
        |software: &mut Software, more| software.batch = more,
        |software: &mut Software, more| software.apply = Some(more),
        |software: &mut Software, more| software.yields = Some(more),
        |software: &mut Software, more| software.turn = Some(more),
        |software: &mut Software, more| software.wake = more,
    ] {
        let mut wrong = software;
        change(&mut wrong, more);
        assert!(wrong.validate().unwrap_err().0.contains("at most a second"));
    }
    // What a database does itself takes a thread for each committer, and a client's log has one.
    let with = |policy: GroupCommit| fits(GroupCommit { software: Some(software), ..policy });
    assert!(with(threads) && !with(good));
    let client = Software {
        clients: ClientThreads::Embedded,
        writer: LogWriter::Client,
        client: Nanos::ZERO,
        apply: None,
        yields: None,
        ..software
    };
    let of_client =
        |committers| fits(GroupCommit { committers, software: Some(client), ..threads });
    assert!(of_client(1) && !of_client(2));
}

#[test]
fn only_what_differs_from_the_default_is_saved_and_all_of_it_is_read_back() {
    let saved = serde_json::to_value(Workload::default()).unwrap();
    let keys: Vec<_> = saved.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "at_end",
        "block_size_bytes",
        "cache",
        "depth",
        "jobs",
        "name",
        "pattern",
        "read_share_per_mille",
        "region",
        "renewal",
        "summary",
        "sync",
    ];
    assert_eq!(keys, expected);
    let share = |kib| vec![BlockShare { size: Bytes::from_kib(kib), weight: PerMille(1000) }];
    let all = Workload {
        block_mix: share(4),
        write_block_mix: share(2),
        skew: Skew::Zipf { theta_per_mille: 7 },
        write_skew: Some(Skew::Normal { deviation_per_mille: 8 }),
        coverage: Coverage::JumpsOnce,
        run_length: 2,
        own_cursors: true,
        jumps: Some(JumpShares { reads: PerMille(3), writes: PerMille(4) }),
        cursors_wrap: true,
        hole: Bytes::new(5),
        align: Bytes::new(6),
        contents: Contents::Pattern { bytes: vec![9] },
        duplicates: PerMille(10),
        within: Some(Region { offset: Bytes::new(11), length: Bytes::new(12) }),
        drops_cache_each_pass: true,
        syncs_at_end: true,
        group_commit: Some(GroupCommit::of(13)),
        ..Workload::default()
    };
    let saved = serde_json::to_value(&all).unwrap();
    assert_eq!(saved.as_object().unwrap().len(), 12 + 17);
    assert_eq!(serde_json::from_value::<Workload>(saved).unwrap(), all);
}
