//! Streams against their definition: bounds, shares, order, repeatability.

use durio_units::Bytes;
use durio_workload::{
    AccessKind, AtEnd, CacheMode, Pattern, PerMille, Region, RegionRule, Stream, SyncMethod,
    SyncPolicy, Workload, check_workloads, job_seed,
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
        sync: SyncPolicy::NONE,
        cache: CacheMode::Direct,
        at_end: AtEnd::WrapAround,
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
const GOLDEN_SEED_1: &str = include_str!("golden/random_700_seed_1.txt");

#[test]
fn the_first_hundred_accesses_of_seed_1_are_as_they_always_were() {
    let mut stream = Stream::new(&definition(Pattern::Random, 700), region(1 << 20), 1);
    let mut lines = String::new();
    for _ in 0..100 {
        let access = stream.next_access();
        let kind = if access.kind == AccessKind::Read { 'r' } else { 'w' };
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
        reads += u32::from(access.kind == AccessKind::Read);
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
    use AccessKind::{Reallocate, Write};
    assert_eq!(kinds, [Write, Write, Reallocate, Write, Write, Reallocate]);
}

#[test]
fn a_sync_follows_every_nth_write_and_no_read() {
    let sync = SyncPolicy { method: SyncMethod::Fdatasync, every: 3 };
    let workload = Workload { sync, ..definition(Pattern::Sequential, 0) };
    let mut stream = Stream::new(&workload, region(8), 1);
    let follow_ups: Vec<_> =
        (0..6).map(|_| stream.follow_up(AccessKind::Write).map(|access| access.kind)).collect();
    let sync = Some(AccessKind::Fdatasync);
    assert_eq!(follow_ups, [None, None, sync, None, None, sync]);
    assert_eq!(stream.follow_up(AccessKind::Read), None);
    assert_eq!(stream.follow_up(AccessKind::Fdatasync), None);
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
