//! Where reads and writes go when part of a random pattern goes on in sequence: expected places follow
//! fio 3.33 on the same job under strace.

use std::collections::BTreeSet;

use durio_base::{Bytes, OperationKind};
use durio_workload::{
    Access, BlockShare, ByteZone, Coverage, JumpShares, Pattern, PerMille, Region, Skew, Stream,
    Workload, Zone,
};

const OFFSET: u64 = 192 << 10;
const BLOCK: u64 = 32 << 10;

/// Random accesses of 32 KiB, 40 % of them reads, with a place for each.
fn mixed() -> Workload {
    Workload {
        name: "mixed".into(),
        pattern: Pattern::Random,
        read_share: PerMille(400),
        block_size: Bytes::new(BLOCK),
        coverage: Coverage::JumpsOnce,
        own_cursors: true,
        ..Workload::default()
    }
}

fn accesses(workload: &Workload, blocks: u64, seed: u64, count: usize) -> Vec<Access> {
    workload.validate().unwrap();
    let region = Region { offset: Bytes::new(OFFSET), length: Bytes::new(BLOCK * blocks) };
    let mut stream = Stream::new(workload, region, seed);
    (0..count).map(|_| stream.next_access()).collect()
}

/// The block of an access, from the region's begin.
fn block(access: &Access) -> u64 {
    assert_eq!((access.offset - OFFSET) % BLOCK, 0, "{access:?}");
    (access.offset - OFFSET) / BLOCK
}

fn random_and_sequential(reads: u16, writes: u16) -> Option<JumpShares> {
    Some(JumpShares { reads: PerMille(reads), writes: PerMille(writes) })
}

#[test]
fn writes_in_sequence_do_not_ask_which_blocks_random_reads_had() {
    for (seed, jumps, sequential) in [
        (1, random_and_sequential(1000, 0), OperationKind::Write),
        (2, random_and_sequential(0, 1000), OperationKind::Read),
    ] {
        let workload = Workload { jumps, cursors_wrap: true, ..mixed() };
        let (mut next, mut touched) = (0, BTreeSet::new());
        let mut passes = 0;
        for access in accesses(&workload, 12, seed, 400) {
            if access.kind == sequential {
                assert_eq!(block(&access), next, "{sequential:?} after {touched:?}");
                next = (next + 1) % 12;
                continue;
            }
            if touched.len() == 12 {
                // Where the map is full fio resets it and both places.
                (touched, next, passes) = (BTreeSet::new(), 0, passes + 1);
            }
            assert!(touched.insert(block(&access)), "{access:?} twice, {touched:?}");
        }
        assert!(passes > 5, "{passes}");
    }
}

#[test]
fn runs_of_reads_and_of_writes_go_on_at_their_own_places_and_count_together() {
    let workload = Workload { run_length: 4, ..mixed() };
    let all = accesses(&workload, 1000, 3, 800);
    let (mut reads, mut writes, mut jumps) = (0, 0, BTreeSet::new());
    for (number, access) in all.iter().enumerate() {
        let place = if access.kind == OperationKind::Read { &mut reads } else { &mut writes };
        let found = block(access);
        if number % 4 == 0 {
            assert!(jumps.insert(found), "jumped to {found} twice");
        } else if *place < 1000 {
            assert_eq!(found, *place, "access {number}: {access:?}");
        }
        *place = found + 1;
    }
    assert_eq!(jumps.len(), 200);
}

#[test]
fn a_share_of_jumps_is_drawn_once_a_run() {
    let jumps = random_and_sequential(500, 500);
    let workload = Workload { run_length: 8, jumps, read_share: PerMille::ALL, ..mixed() };
    let all = accesses(&workload, 100_000, 4, 40_000);
    let blocks: Vec<u64> = all.iter().map(block).collect();
    let jumps = blocks.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    // Half of every eighth, ± 5 standard deviations.
    assert!((2500 - 177..=2500 + 177).contains(&jumps), "{jumps}");
}

#[test]
fn at_the_region_s_end_an_access_goes_back_or_jumps() {
    for wraps in [true, false] {
        let workload = Workload { run_length: 64, cursors_wrap: wraps, ..mixed() };
        let workload = Workload { read_share: PerMille::NONE, ..workload };
        let blocks: Vec<u64> = accesses(&workload, 40, 5, 2000).iter().map(block).collect();
        let after_end = blocks.windows(2).filter(|pair| pair[0] == 39).map(|pair| pair[1]);
        let at_begin = after_end.clone().filter(|&block| block == 0).count();
        let (ends, jumps) = (after_end.clone().count(), after_end.clone().count() - at_begin);
        assert!(ends > 30, "{ends}");
        match wraps {
            // Only the first of a run may jump from there.
            true => assert!(jumps <= ends / 5, "{jumps} of {ends}"),
            false => assert!(at_begin <= ends / 5, "{at_begin} of {ends}"),
        }
    }
}

#[test]
fn the_last_size_before_the_end_of_a_run_fits() {
    let share = |kib, weight| BlockShare { size: Bytes::from_kib(kib), weight: PerMille(weight) };
    let workload = Workload {
        block_mix: vec![share(8, 500), share(32, 500)],
        run_length: 1000,
        cursors_wrap: true,
        read_share: PerMille::NONE,
        ..mixed()
    };
    let all = accesses(&workload, 3, 6, 900);
    let end = OFFSET + 3 * BLOCK;
    for pair in all.windows(2).take(800) {
        let after = pair[0].offset + pair[0].length;
        assert!(after <= end, "{:?}", pair[0]);
        assert_eq!(pair[1].offset, if after == end { OFFSET } else { after });
    }
}

/// How many reads, and how many writes, are in each of these parts of blocks.
fn counts(all: &[Access], bounds: &[u64]) -> Vec<[usize; 2]> {
    let parts = bounds.windows(2).map(|bounds| {
        [OperationKind::Read, OperationKind::Write].map(|kind| {
            let within = |access: &&Access| {
                access.kind == kind && (bounds[0]..bounds[1]).contains(&block(access))
            };
            all.iter().filter(within).count()
        })
    });
    parts.collect()
}

#[test]
fn zones_in_bytes_are_at_their_bytes_and_behind_them_is_nothing() {
    let zone = |accesses, blocks| ByteZone {
        accesses: PerMille(accesses),
        size: Bytes::new(blocks * BLOCK),
    };
    let skew = Skew::ByteZones { zones: vec![zone(600, 10), zone(0, 5), zone(400, 50)] };
    let workload = Workload { skew, coverage: Coverage::Independent, ..mixed() };
    let workload = Workload { read_share: PerMille::ALL, ..workload };
    let all = accesses(&workload, 100, 7, 10_000);
    let found: Vec<usize> =
        counts(&all, &[0, 10, 15, 65, 100]).iter().map(|[reads, _]| *reads).collect();
    assert!(found[0].abs_diff(6000) < 250, "{found:?}");
    assert_eq!((found[1], found[2], found[3]), (0, 10_000 - found[0], 0));
    assert_eq!(all.iter().map(block).collect::<BTreeSet<_>>().len(), 60, "every block of a zone");
}

#[test]
fn reads_and_writes_have_zones_of_their_own() {
    let zone = |accesses, size| Zone { accesses: PerMille(accesses), size: PerMille(size) };
    let zones = |first, size| Skew::Zones {
        zones: vec![zone(first, size), zone(1000 - first, 1000 - size)],
    };
    let workload = Workload {
        skew: zones(900, 100),
        write_skew: Some(zones(200, 500)),
        coverage: Coverage::Independent,
        ..mixed()
    };
    let all = accesses(&workload, 200, 8, 20_000);
    let found = counts(&all, &[0, 20, 100, 200]);
    let reads: usize = found.iter().map(|[reads, _]| reads).sum();
    let writes = 20_000 - reads;
    assert!(reads.abs_diff(8000) < 350, "{reads}");
    let shares = |[in_reads, in_writes]: [usize; 2]| {
        (in_reads as f64 / reads as f64, in_writes as f64 / writes as f64)
    };
    // 90 and 10 % of the reads in 10 and 90 % of the region; 20 and 80 % of the writes in its halves.
    for (part, (expected_reads, expected_writes)) in
        [(0, (0.9, 0.04)), (1, (0.1 * 8.0 / 18.0, 0.16)), (2, (0.1 * 10.0 / 18.0, 0.8))]
    {
        let (of_reads, of_writes) = shares(found[part]);
        assert!((of_reads - expected_reads).abs() < 0.02, "part {part}: {of_reads}");
        assert!((of_writes - expected_writes).abs() < 0.02, "part {part}: {of_writes}");
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let zones = Skew::ByteZones {
        zones: vec![ByteZone { accesses: PerMille(999), size: Bytes::from_kib(64) }],
    };
    let empty =
        Skew::ByteZones { zones: vec![ByteZone { accesses: PerMille::ALL, size: Bytes::ZERO }] };
    let zipf = Skew::Zipf { theta_per_mille: 1200 };
    let free = Workload { coverage: Coverage::Independent, ..mixed() };
    for (workload, part) in [
        (Workload { skew: zones, ..free.clone() }, "add up to 100 %"),
        (Workload { skew: empty, ..free.clone() }, "needs a size"),
        (Workload { write_skew: Some(zipf.clone()), ..free }, "independent draws"),
        (Workload { skew: zipf, ..mixed() }, "cannot be skewed"),
        (Workload { pattern: Pattern::Sequential, ..mixed() }, "random patterns"),
    ] {
        let error = workload.validate().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
