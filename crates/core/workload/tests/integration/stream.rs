//! Streams against their definition: bounds, shares, order, repeatability.

use durio_base::{Bytes, OperationKind};
use durio_workload::{
    Access, AtEnd, BlockShare, Coverage, FileOrder, JumpShares, Pattern, PerMille, Region,
    RegionRule, Skew, Stream, SyncMethod, SyncPolicy, Workload, check_workloads, job_seed,
};
use proptest::prelude::*;

fn definition(pattern: Pattern, read_share: u16) -> Workload {
    Workload {
        name: "t".into(),
        summary: "t".into(),
        pattern,
        read_share: PerMille(read_share),
        block_size: Bytes::from_kib(4),
        region: RegionRule::ShareEach,
        jobs: 3,
        depth: 4,
        ..Workload::default()
    }
}

fn region(blocks: u64) -> Region {
    Region { offset: Bytes::from_kib(64), length: Bytes::from_kib(4 * blocks) }
}

proptest! {
    #[test]
    fn every_access_is_an_aligned_block_within_its_region(
        random in any::<bool>(), share in 0_u16..=1000, blocks in 1_u64..5000, seed in any::<u64>(),
    ) {
        let pattern = if random { Pattern::Random } else { Pattern::Sequential };
        let mut stream = Stream::new(&definition(pattern, share), region(blocks), seed);
        for _ in 0..200 {
            let access = stream.next_access();
            prop_assert_eq!(access.length, 4096);
            prop_assert_eq!(access.offset % 4096, 0);
            prop_assert!(access.offset >= 65536);
            prop_assert!(access.offset + access.length <= 65536 + blocks * 4096);
        }
    }

    #[test]
    fn shares_of_jobs_do_not_overlap_and_lie_within_the_target(
        size in 12_288_u64..1 << 40, jobs in 1_u32..64,
    ) {
        let workload = Workload { jobs, ..definition(Pattern::Sequential, 1000) };
        let mut end = 0;
        for job in 0..jobs {
            let Ok(region) = workload.region_of(job, Bytes::new(size)) else {
                prop_assert!(size / u64::from(jobs) < 4096);
                return Ok(());
            };
            prop_assert!(region.offset.get() >= end);
            end = region.offset.get() + region.length.get();
            prop_assert!(end <= size);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_accesses_and_another_seed_does_not() {
    let take = |seed| {
        let mut stream = Stream::new(&definition(Pattern::Random, 700), region(1 << 20), seed);
        (0..100).map(|_| stream.next_access()).collect::<Vec<_>>()
    };
    assert_eq!(take(1), take(1));
    assert_ne!(take(1), take(2));
    assert_ne!(job_seed(1, 0, 1), job_seed(1, 1, 0));
}

/// Offsets in blocks, `w` for writes: must never change, or old records could not be repeated.
const GOLDEN_SEED_1: &str = include_str!("../golden/random_700_seed_1.txt");

#[test]
fn the_first_hundred_accesses_of_seed_1_are_as_they_always_were() {
    let mut stream = Stream::new(&definition(Pattern::Random, 700), region(1 << 20), 1);
    let mut lines = String::new();
    for _ in 0..100 {
        let access = stream.next_access();
        let kind = if access.kind == OperationKind::Read { 'r' } else { 'w' };
        lines.push_str(&format!("{kind} {}\n", (access.offset - 65536) / 4096));
    }
    assert_eq!(lines, GOLDEN_SEED_1);
}

#[test]
fn reads_have_their_share_and_offsets_are_uniform() {
    let mut stream = Stream::new(&definition(Pattern::Random, 700), region(16), 7);
    let (mut reads, mut counts) = (0_u32, [0_u32; 16]);
    for _ in 0..160_000 {
        let access = stream.next_access();
        reads += u32::from(access.kind == OperationKind::Read);
        counts[usize::try_from((access.offset - 65536) / 4096).unwrap()] += 1;
    }
    // Five standard deviations: sqrt(160000 × 0.7 × 0.3) = 183, sqrt(160000 × 15/256) = 97.
    assert!(reads.abs_diff(112_000) < 5 * 183, "{reads} reads");
    assert!(counts.iter().all(|count| count.abs_diff(10_000) < 5 * 97), "{counts:?}");
}

#[test]
fn sequential_accesses_follow_each_other_and_wrap() {
    let mut stream = Stream::new(&definition(Pattern::Sequential, 0), region(3), 1);
    let offsets: Vec<_> = (0..5).map(|_| stream.next_access().offset - 65536).collect();
    assert_eq!(offsets, [0, 4096, 8192, 0, 4096]);
}

#[test]
fn a_preallocated_segment_is_reallocated_at_its_end() {
    let workload = Workload { at_end: AtEnd::Reallocate, ..definition(Pattern::Sequential, 0) };
    let mut stream = Stream::new(&workload, region(2), 1);
    let kinds: Vec<_> = (0..6).map(|_| stream.next_access().kind).collect();
    use OperationKind::{Reallocate, Write};
    assert_eq!(kinds, [Write, Write, Reallocate, Write, Write, Reallocate]);
}

#[test]
fn a_sync_follows_every_nth_write_and_no_read() {
    let sync = SyncPolicy { method: SyncMethod::Fdatasync, every: 3 };
    let workload = Workload { sync, ..definition(Pattern::Sequential, 0) };
    let mut stream = Stream::new(&workload, region(8), 1);
    let follow_ups: Vec<_> =
        (0..6).map(|_| stream.follow_up(OperationKind::Write).map(|access| access.kind)).collect();
    let sync = Some(OperationKind::Fdatasync);
    assert_eq!(follow_ups, [None, None, sync, None, None, sync]);
    assert_eq!(stream.follow_up(OperationKind::Read), None);
    assert_eq!(stream.follow_up(OperationKind::Fdatasync), None);
}

#[test]
fn a_range_is_synced_before_its_file_and_a_linked_sync_follows_nothing() {
    let kinds = |method, after| {
        let sync = SyncPolicy::each(method);
        let workload = Workload { sync, ..definition(Pattern::Sequential, 0) };
        let mut stream = Stream::new(&workload, region(8), 1);
        stream.follow_up(after).map(|access| access.kind)
    };
    use OperationKind::{Fdatasync, SyncFileRange, Write};
    assert_eq!(kinds(SyncMethod::FileRange, Write), Some(SyncFileRange));
    assert_eq!(kinds(SyncMethod::FileRange, SyncFileRange), Some(Fdatasync));
    assert_eq!(kinds(SyncMethod::FileRange, Fdatasync), None);
    for method in [SyncMethod::LinkedFsync, SyncMethod::LinkedFdatasync] {
        assert_eq!(kinds(method, Write), None);
    }
}

#[test]
fn a_log_of_batches_knows_no_method_of_single_writes() {
    let log = |method| {
        let good = definition(Pattern::Sequential, 0);
        let group_commit = Some(durio_workload::GroupCommit::of(8));
        Workload { sync: SyncPolicy::each(method), group_commit, depth: 1, ..good }.validate()
    };
    log(SyncMethod::Fdatasync).unwrap();
    for method in [SyncMethod::FileRange, SyncMethod::LinkedFsync, SyncMethod::LinkedFdatasync] {
        log(method).unwrap_err();
    }
}

#[test]
fn impossible_definitions_are_refused() {
    let good = definition(Pattern::Random, 500);
    let bad = [
        Workload { jobs: 0, ..good.clone() },
        Workload { depth: 0, ..good.clone() },
        Workload { depth: 40_000, ..good.clone() },
        Workload { block_size: Bytes::ZERO, ..good.clone() },
        Workload { block_size: Bytes::from_gib(2), ..good.clone() },
        Workload { read_share: PerMille(1001), ..good.clone() },
        Workload { sync: SyncPolicy { method: SyncMethod::Fsync, every: 0 }, ..good.clone() },
        Workload { sync: SyncPolicy { method: SyncMethod::RwfDsync, every: 2 }, ..good.clone() },
        Workload { at_end: AtEnd::Reallocate, ..good.clone() },
    ];
    assert!(good.validate().is_ok());
    assert!(bad.iter().all(|workload| workload.validate().is_err()));
    assert!(good.region_of(0, Bytes::from_kib(8)).is_err());
    assert!(check_workloads().iter().all(|(_, workload)| workload.validate().is_ok()));
}

/// Accesses of a workload of one job over `region`.
fn accesses(workload: &Workload, region: Region, count: usize) -> Vec<durio_workload::Access> {
    workload.validate().unwrap();
    let mut stream = Stream::new(workload, region, 11);
    (0..count).map(|_| stream.next_access()).collect()
}

fn share(kib: u64, weight: u16) -> BlockShare {
    BlockShare { size: Bytes::from_kib(kib), weight: PerMille(weight) }
}

#[test]
fn a_block_size_mix_has_its_weights_and_stays_within_the_region() {
    let workload = Workload {
        block_size: Bytes::from_kib(32),
        block_mix: vec![share(4, 550), share(8, 230), share(16, 168), share(32, 52)],
        ..definition(Pattern::Random, 0)
    };
    let region = Region { offset: Bytes::from_kib(64), length: Bytes::from_mib(8) };
    let all = accesses(&workload, region, 200_000);
    for (kib, weight) in [(4_u64, 550_usize), (8, 230), (16, 168), (32, 52)] {
        let found = all.iter().filter(|access| access.length == kib * 1024).count();
        assert!(found.abs_diff(weight * 200) < 1000, "{kib} KiB: {found}");
    }
    let end = region.offset.get() + region.length.get();
    assert!(
        all.iter().all(|access| access.offset >= 65_536 && access.offset + access.length <= end)
    );
    assert!(all.iter().all(|access| access.offset % 4096 == 0));
    let last = all.iter().filter(|access| access.offset + access.length == end).count();
    assert!(last > 0, "the region's end is reached");
}

#[test]
fn reads_and_writes_can_have_sizes_of_their_own() {
    let workload = Workload {
        block_size: Bytes::from_kib(16),
        write_block_mix: vec![share(4, 1000)],
        ..definition(Pattern::Sequential, 500)
    };
    let all = accesses(&workload, region(1000), 1000);
    for access in &all {
        let expected = if access.kind == OperationKind::Read { 16_384 } else { 4096 };
        assert_eq!(access.length, expected);
    }
    let follows =
        |pair: &[durio_workload::Access]| pair[0].offset + pair[0].length == pair[1].offset;
    assert!(all.windows(2).filter(|pair| follows(pair)).count() > 990, "one after the other");
}

#[test]
fn runs_of_blocks_follow_each_other_and_then_jump() {
    let workload = Workload { run_length: 8, ..definition(Pattern::Random, 1000) };
    let all = accesses(&workload, region(100_000), 8000);
    let follows: Vec<bool> =
        all.windows(2).map(|pair| pair[0].offset + 4096 == pair[1].offset).collect();
    assert_eq!(follows.iter().filter(|&&follows| follows).count(), 7000, "seven of eight follow");
}

#[test]
fn holes_are_left_out_between_sequential_blocks() {
    let workload = Workload { hole: Bytes::from_kib(12), ..definition(Pattern::Sequential, 0) };
    let all = accesses(&workload, region(8), 5);
    let offsets: Vec<u64> = all.iter().map(|access| (access.offset - 65_536) / 4096).collect();
    assert_eq!(offsets, [0, 4, 0, 4, 0]);
}

#[test]
fn blocks_that_each_come_once_cover_the_region_in_every_pass_in_another_order() {
    for run_length in [1, 4] {
        let coverage = Coverage::EachOnce;
        let workload = Workload { coverage, run_length, ..definition(Pattern::Random, 0) };
        let blocks = 1000;
        let all = accesses(&workload, region(blocks), 2000);
        let (first, second) = all.split_at(1000);
        for pass in [first, second] {
            let mut offsets: Vec<u64> = pass.iter().map(|access| access.offset).collect();
            offsets.sort_unstable();
            offsets.dedup();
            assert_eq!(offsets.len(), 1000, "run of {run_length}");
        }
        assert_ne!(first, second);
    }
}

#[test]
fn a_skewed_stream_is_skewed_and_within_its_region() {
    let skew = Skew::Zipf { theta_per_mille: 1100 };
    let workload = Workload { skew, ..definition(Pattern::Random, 0) };
    let all = accesses(&workload, region(10_000), 100_000);
    let mut counts = std::collections::BTreeMap::new();
    all.iter().for_each(|access| *counts.entry(access.offset).or_insert(0_u32) += 1);
    let hottest = *counts.values().max().unwrap();
    assert!(hottest > 10_000, "{hottest}");
    let end = 65_536 + 10_000 * 4096;
    assert!(
        all.iter().all(|access| access.offset >= 65_536 && access.offset + access.length <= end)
    );
}

#[test]
fn regions_can_be_offset_per_job_and_confined() {
    let by = Bytes::from_mib(10);
    let region = RegionRule::OffsetEach { by };
    let workload = Workload { region, jobs: 4, ..definition(Pattern::Sequential, 0) };
    let size = Bytes::from_mib(100);
    let third = workload.region_of(2, size).unwrap();
    assert_eq!((third.offset, third.length), (Bytes::from_mib(20), Bytes::from_mib(80)));
    let within = Some(Region { offset: Bytes::from_mib(50), length: Bytes::from_mib(40) });
    let confined = Workload { within, ..workload };
    let second = confined.region_of(1, size).unwrap();
    assert_eq!((second.offset, second.length), (Bytes::from_mib(60), Bytes::from_mib(30)));
    assert!(confined.region_of(3, Bytes::from_mib(80)).is_err(), "ends before the region");
    let beyond = Workload { jobs: 6, ..confined };
    assert!(beyond.region_of(5, size).is_err(), "no block is left for the sixth job");
}

#[test]
fn contradictions_of_order_and_sizes_are_refused() {
    let random = definition(Pattern::Random, 0);
    let sequential = definition(Pattern::Sequential, 0);
    let zipf = Skew::Zipf { theta_per_mille: 1100 };
    let wrong = [
        Workload { run_length: 0, ..random.clone() },
        Workload { run_length: 2, ..sequential.clone() },
        Workload { skew: zipf.clone(), ..sequential.clone() },
        Workload { skew: zipf, coverage: Coverage::EachOnce, ..random.clone() },
        Workload { hole: Bytes::from_kib(4), ..random.clone() },
        Workload { block_mix: vec![share(8, 1000)], ..random.clone() },
        Workload { block_mix: vec![share(4, 999)], ..random.clone() },
        Workload { skew: Skew::Zipf { theta_per_mille: 0 }, ..random },
        Workload { coverage: Coverage::EachOnce, ..sequential },
    ];
    for workload in wrong {
        assert!(workload.validate().is_err(), "{workload:?}");
    }
}

/// The blocks of all reads, or of all writes.
fn blocks_of(all: &[Access], kind: OperationKind) -> Vec<u64> {
    let kept = all.iter().filter(|access| access.kind == kind);
    kept.map(|access| (access.offset - 65_536) / 4096).collect()
}

#[test]
fn reads_and_writes_in_sequence_have_a_place_each() {
    let workload = Workload { own_cursors: true, ..definition(Pattern::Sequential, 500) };
    let all = accesses(&workload, region(100), 120);
    for kind in [OperationKind::Read, OperationKind::Write] {
        let blocks = blocks_of(&all, kind);
        assert!(blocks.len() > 30, "{}", blocks.len());
        assert!((0..).zip(&blocks).all(|(index, &block)| block == index % 100), "{blocks:?}");
    }
}

#[test]
fn some_random_accesses_follow_the_one_before_of_their_kind() {
    let jumps = Some(JumpShares { reads: PerMille(250), writes: PerMille::ALL });
    let random = definition(Pattern::Random, 500);
    let workload = Workload { jumps, own_cursors: true, ..random };
    let all = accesses(&workload, region(100_000), 4000);
    for (kind, expected) in [(OperationKind::Read, 0.75), (OperationKind::Write, 0.0)] {
        let blocks = blocks_of(&all, kind);
        let follow = blocks.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        let share = follow as f64 / blocks.len() as f64;
        assert!((share - expected).abs() < 0.05, "{kind:?}: {share}");
    }
}

#[test]
fn each_block_comes_once_a_pass_also_where_accesses_follow_the_one_before() {
    let jumps = Some(JumpShares { reads: PerMille(100), writes: PerMille::ALL });
    let random = definition(Pattern::Random, 1000);
    let coverage = Coverage::EachOnce;
    let workload = Workload { jumps, coverage, own_cursors: true, ..random };
    let mut blocks = blocks_of(&accesses(&workload, region(100), 100), OperationKind::Read);
    blocks.sort_unstable();
    assert!((0..).zip(&blocks).all(|(index, &block)| block == index), "{blocks:?}");
}

#[test]
fn a_size_that_is_no_multiple_of_the_smallest_is_not_rounded_up() {
    let random = definition(Pattern::Random, 1000);
    let mix = vec![share(4, 500), share(6, 500)];
    let workload = Workload { block_mix: mix, coverage: Coverage::EachOnce, ..random };
    let workload = Workload { block_size: Bytes::from_kib(6), ..workload };
    let all = accesses(&workload, region(200), 300);
    assert!(all.iter().all(|access| access.length <= 6144), "{all:?}");
    assert!(all.iter().any(|access| access.length == 6144));
}

#[test]
fn each_pass_begins_with_a_cache_that_is_dropped() {
    let sequential = definition(Pattern::Sequential, 0);
    let random = definition(Pattern::Random, 0);
    let each = Workload { coverage: Coverage::EachOnce, ..random.clone() };
    let split = Workload { block_mix: vec![share(4, 500), share(8, 500)], ..each.clone() };
    let split = Workload { block_size: Bytes::from_kib(8), ..split };
    for workload in [sequential, random, each, split] {
        let workload = Workload { drops_cache_each_pass: true, ..workload };
        let all = accesses(&workload, region(16), 60);
        let mut passes = all.split(|access| access.drops_cache);
        let bytes: u64 = passes.next().unwrap().iter().map(|access| access.length).sum();
        assert_eq!(bytes, 16 * 4096, "{workload:?}");
        assert!(passes.count() >= 2);
    }
}

#[test]
fn sizes_of_a_mix_fill_a_pass_to_its_end() {
    let mix = vec![share(4, 300), share(12, 300), share(32, 400)];
    for (pattern, coverage) in
        [(Pattern::Sequential, Coverage::Independent), (Pattern::Random, Coverage::EachOnce)]
    {
        let base = Workload { block_mix: mix.clone(), coverage, ..definition(pattern, 0) };
        let workload = Workload { block_size: Bytes::from_kib(32), ..base };
        let mut touched = vec![0_u32; 1000];
        let (mut bytes, mut taken) = (0, 0);
        for access in accesses(&workload, region(1000), 1000) {
            if bytes == 1000 * 4096 {
                break;
            }
            let first = usize::try_from((access.offset - 65_536) / 4096).unwrap();
            let count = usize::try_from(access.length / 4096).unwrap();
            touched[first..first + count].iter_mut().for_each(|count| *count += 1);
            bytes += access.length;
            taken += 1;
        }
        assert!(touched.iter().all(|&count| count == 1), "{pattern:?}");
        assert!((180..400).contains(&taken), "{pattern:?}: {taken}");
    }
}

#[test]
fn several_files_are_accessed_in_turn_each_in_its_own_order() {
    let workload = Workload { coverage: Coverage::EachOnce, ..definition(Pattern::Random, 1000) };
    let region = Region { offset: Bytes::ZERO, length: Bytes::from_kib(64) };
    let mut stream = Stream::over_files(&workload, region, 1, (3, FileOrder::EACH_IN_TURN));
    let accesses: Vec<_> = (0..48).map(|_| stream.next_access()).collect();
    assert!((0..3).cycle().zip(&accesses).all(|(file, access)| access.file == file));
    let offsets = |file| -> Vec<u64> {
        accesses.iter().filter(|access| access.file == file).map(|access| access.offset).collect()
    };
    assert_ne!(offsets(0), offsets(1));
    for file in 0..3 {
        let mut each = offsets(file);
        each.sort_unstable();
        assert_eq!(each, (0..16).map(|block| block * 4096).collect::<Vec<_>>());
    }
}

#[test]
fn offsets_are_multiples_of_the_alignment_and_blocks_end_within_the_region() {
    let share = |size, weight| BlockShare { size: Bytes::new(size), weight: PerMille(weight) };
    let workload = Workload {
        block_size: Bytes::from_kib(8),
        block_mix: vec![share(512, 500), share(8192, 500)],
        align: Bytes::from_kib(4),
        ..definition(Pattern::Random, 1000)
    };
    workload.validate().unwrap();
    let mut stream = Stream::new(&workload, region(16), 3);
    let accesses: Vec<_> = (0..1000).map(|_| stream.next_access()).collect();
    let end = 65_536 + 16 * 4096;
    assert!(
        accesses
            .iter()
            .all(|access| access.offset % 4096 == 0 && access.offset + access.length <= end)
    );
    // Also where a small block alone fits, and where large blocks overlap.
    assert!(accesses.iter().any(|access| access.offset == end - 4096 && access.length == 512));
    assert!(accesses.iter().any(|access| access.offset == 65_536 + 4096 && access.length == 8192));
    let sequential = Workload { pattern: Pattern::Sequential, ..workload };
    assert!(sequential.validate().is_err());
}
