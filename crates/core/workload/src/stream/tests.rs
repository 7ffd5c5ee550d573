//! The first accesses of each kind of order, as every version makes them of the same seed.

use super::*;
use crate::{BlockShare, ByteZone, FileChoice, JumpShares, PerMille, Skew, SyncPolicy, Zone};
use durio_base::OperationKind;

const KIB: u64 = 1024;

fn base(pattern: Pattern, read_share: u16) -> Workload {
    Workload { pattern, read_share: PerMille(read_share), ..Workload::default() }
}

fn random() -> Workload {
    base(Pattern::Random, 700)
}

fn mix(weights: &[(u64, u16)]) -> Vec<BlockShare> {
    let share = |&(size, weight)| BlockShare { size: Bytes::new(size), weight: PerMille(weight) };
    weights.iter().map(share).collect()
}

fn zones() -> Skew {
    let zone = |accesses, size| Zone { accesses: PerMille(accesses), size: PerMille(size) };
    Skew::Zones { zones: vec![zone(600, 100), zone(300, 200), zone(100, 700)] }
}

fn byte_zones(first: u16) -> Skew {
    let zone =
        |accesses, kib| ByteZone { accesses: PerMille(accesses), size: Bytes::from_kib(kib) };
    Skew::ByteZones { zones: vec![zone(first, 40), zone(1000 - first, 90)] }
}

fn once() -> Workload {
    Workload { coverage: Coverage::EachOnce, ..random() }
}

fn jumping(reads: u16, writes: u16) -> Workload {
    let jumps = Some(JumpShares { reads: PerMille(reads), writes: PerMille(writes) });
    Workload { jumps, own_cursors: true, ..random() }
}

/// Each kind of order, over a region of so many KiB.
fn orders() -> Vec<(&'static str, Workload, u64)> {
    let sequential = || base(Pattern::Sequential, 700);
    let mixed = || mix(&[(4 * KIB, 500), (8 * KIB, 300), (12 * KIB, 200)]);
    let writes_of_sizes = |workload: Workload| Workload {
        block_size: Bytes::from_kib(12),
        block_mix: mix(&[(6 * KIB, 1000)]),
        write_block_mix: mix(&[(2 * KIB, 500), (8 * KIB, 500)]),
        ..workload
    };
    let of_sizes = |workload: Workload| Workload {
        block_size: Bytes::from_kib(12),
        block_mix: mix(&[(4 * KIB, 500), (8 * KIB, 300), (12 * KIB, 200)]),
        ..workload
    };
    vec![
        ("sequential reads", base(Pattern::Sequential, 1000), 36),
        ("sequential writes", base(Pattern::Sequential, 0), 38),
        ("sequential mixed", sequential(), 36),
        ("sequential with holes", Workload { hole: Bytes::from_kib(8), ..sequential() }, 100),
        ("sequential of sizes", of_sizes(sequential()), 100),
        ("sequential with two cursors", Workload { own_cursors: true, ..sequential() }, 40),
        ("a segment", Workload { at_end: AtEnd::Reallocate, ..base(Pattern::Sequential, 0) }, 26),
        (
            "a pass without the cache",
            Workload { drops_cache_each_pass: true, ..base(Pattern::Sequential, 1000) },
            26,
        ),
        ("random", random(), 4000),
        ("random of sizes", of_sizes(random()), 4000),
        (
            "writes of other sizes",
            Workload { write_block_mix: mixed(), block_size: Bytes::from_kib(12), ..random() },
            4000,
        ),
        (
            "writes alone of sizes",
            Workload {
                write_block_mix: mixed(),
                block_size: Bytes::from_kib(12),
                ..base(Pattern::Random, 0)
            },
            4000,
        ),
        ("aligned", Workload { align: Bytes::new(512), ..random() }, 4000),
        ("runs", Workload { run_length: 3, ..random() }, 4000),
        ("runs to a near end", Workload { run_length: 5, ..random() }, 28),
        ("runs that wrap", Workload { run_length: 5, cursors_wrap: true, ..random() }, 28),
        ("zipf", Workload { skew: Skew::Zipf { theta_per_mille: 1200 }, ..random() }, 4000),
        ("zipf of one", Workload { skew: Skew::Zipf { theta_per_mille: 1000 }, ..random() }, 4000),
        ("pareto", Workload { skew: Skew::Pareto { h_per_mille: 200 }, ..random() }, 4000),
        ("normal", Workload { skew: Skew::Normal { deviation_per_mille: 100 }, ..random() }, 4000),
        ("zones", Workload { skew: zones(), ..random() }, 4000),
        ("zones of bytes", Workload { skew: byte_zones(700), ..random() }, 4000),
        (
            "writes with separate zones",
            Workload { skew: byte_zones(700), write_skew: Some(byte_zones(100)), ..random() },
            4000,
        ),
        ("hot sizes", of_sizes(Workload { skew: zones(), ..random() }), 60),
        ("each once", once(), 44),
        ("each once in runs", Workload { run_length: 3, ..once() }, 44),
        ("each once without the cache", Workload { drops_cache_each_pass: true, ..once() }, 28),
        ("each once of sizes", of_sizes(once()), 60),
        ("each once in zones", Workload { skew: zones(), ..once() }, 44),
        (
            "each once with places",
            Workload { coverage: Coverage::EachOnce, ..jumping(500, 200) },
            44,
        ),
        ("jumps once", Workload { coverage: Coverage::JumpsOnce, ..jumping(500, 200) }, 44),
        (
            "jumps once in runs",
            Workload { coverage: Coverage::JumpsOnce, run_length: 3, ..random() },
            44,
        ),
        ("some jump", jumping(500, 200), 4000),
        ("some jump and wrap", Workload { cursors_wrap: true, ..jumping(100, 100) }, 28),
        (
            "some jump and wrap without the cache",
            Workload { cursors_wrap: true, drops_cache_each_pass: true, ..jumping(100, 100) },
            28,
        ),
        ("sequential with writes of sizes", writes_of_sizes(sequential()), 50),
        (
            "sequential cursors with writes of sizes",
            writes_of_sizes(Workload { own_cursors: true, ..sequential() }),
            30,
        ),
        ("runs with writes of sizes", writes_of_sizes(Workload { run_length: 4, ..random() }), 60),
        ("some jump with writes of sizes", writes_of_sizes(jumping(300, 300)), 60),
        ("each once with writes of sizes", writes_of_sizes(once()), 60),
        ("random without the cache", Workload { drops_cache_each_pass: true, ..random() }, 28),
    ]
}

fn word(it: &Access) -> String {
    let letter = match it.kind {
        _ if it.drops_cache => 'd',
        OperationKind::Read => 'r',
        OperationKind::Write => 'w',
        OperationKind::Reallocate => 'a',
        OperationKind::Fsync | OperationKind::Fdatasync | OperationKind::SyncFileRange => 's',
    };
    let file = if it.file > 0 { format!("{}:", it.file) } else { String::new() };
    format!("{letter}{file}{:x}+{:x}", it.offset, it.length)
}

fn told(name: &str, stream: &mut Stream) -> String {
    let words: Vec<_> = (0..48).map(|_| word(&stream.next_access())).collect();
    let lines: Vec<_> = words.chunks(8).map(|line| format!("  {}\n", line.join(" "))).collect();
    format!("{name}\n{}", lines.concat())
}

/// Compares with the file, or writes it. Draws of zipf, pareto and the normal distribution use floating
/// point: a machine whose mathematical functions round differently may have another block somewhere.
#[test]
fn the_first_accesses_of_each_order_are_as_they_always_were() {
    let mut made = String::new();
    for (name, workload, kib) in orders() {
        workload.validate().unwrap_or_else(|error| panic!("{name}: {error}"));
        let region = Region { offset: Bytes::from_kib(64), length: Bytes::new(kib * KIB + 512) };
        made += &told(name, &mut Stream::new(&workload, region, 11));
    }
    let region = Region { offset: Bytes::from_kib(64), length: Bytes::from_kib(20) };
    for (name, workload, choice, run, open_max) in [
        ("files in turn", base(Pattern::Sequential, 700), FileChoice::InTurn, 2, 0),
        ("files at random", once(), FileChoice::Random, 1, 2),
        ("files without end", random(), FileChoice::Random, 3, 0),
    ] {
        let order = FileOrder { choice, run, open_max };
        made += &told(name, &mut Stream::over_files(&workload, region, 11, (3, order)));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/orders.txt");
    if std::env::var_os("DURIO_TEST_REWRITE").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    let differs = kept.lines().zip(made.lines()).find(|(kept, made)| kept != made);
    assert_eq!(differs, None);
    assert_eq!(kept.len(), made.len());
}

#[test]
fn seeds_of_jobs_and_steps_are_those_of_splitmix64() {
    // The first outputs of SplitMix64 from 0 and from 1234567 on, as its authors' program prints them.
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    assert_eq!(spread(STEP), 0xE220_A839_7B1D_CDAF);
    let from = |place: u64| spread(1_234_567_u64.wrapping_add(STEP.wrapping_mul(place)));
    let published =
        [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
    assert_eq!([1, 2, 3].map(from), published);
    // Step 0 of plan 0 is the first, step 1 the second.
    assert_eq!([0, 1].map(|step| job_seed(1_234_567, step, 0)), published[..2]);
    let of_job = spread(5_u64.wrapping_add(0xD1B5_4A32_D192_ED03).wrapping_add(STEP));
    assert_eq!(job_seed(5, 0, 1), of_job);
}

#[test]
fn only_what_ends_a_pass_has_passes() {
    let passes = |workload: &Workload| {
        let region = Region { offset: Bytes::ZERO, length: Bytes::from_kib(64) };
        Stream::new(workload, region, 1).has_passes()
    };
    assert!(!passes(&random()));
    assert!(passes(&Workload { drops_cache_each_pass: true, ..random() }));
    assert!(passes(&Workload { at_end: AtEnd::Reallocate, ..base(Pattern::Sequential, 0) }));
    // One file is no order of files.
    let region = Region { offset: Bytes::ZERO, length: Bytes::from_kib(64) };
    let mut one = Stream::over_files(&random(), region, 7, (1, FileOrder::EACH_IN_TURN));
    let mut plain = Stream::new(&random(), region, 7);
    (0..20).for_each(|_| assert_eq!(one.next_access(), plain.next_access()));
}

#[test]
fn each_of_several_files_begins_its_own_pass_in_its_own_turn() {
    let workload = Workload { drops_cache_each_pass: true, ..base(Pattern::Sequential, 1000) };
    let region = Region { offset: Bytes::from_kib(64), length: Bytes::from_kib(12) };
    let order = FileOrder { choice: FileChoice::InTurn, run: 2, open_max: 0 };
    let mut stream = Stream::over_files(&workload, region, 7, (2, order));
    let told: Vec<String> = (0..16)
        .map(|_| {
            let access = stream.next_access();
            match access.drops_cache {
                true => format!("drop {} of {}", access.length >> 10, access.file),
                false => format!("{} of {}", access.offset >> 10, access.file),
            }
        })
        .collect();
    let one_pass = ["64 of 0", "68 of 0", "64 of 1", "68 of 1", "72 of 0", "72 of 1"];
    assert_eq!(told[..6], one_pass);
    let next = ["drop 12 of 0", "64 of 0", "68 of 0", "drop 12 of 1", "64 of 1", "68 of 1"];
    assert_eq!(told[6..12], next);
    assert_eq!(told[12..], ["72 of 0", "72 of 1", "drop 12 of 0", "64 of 0"]);
}

#[test]
fn a_sync_follows_by_its_method_and_after_as_many_writes() {
    let follows = |method, every: u32, kinds: &[OperationKind]| {
        let sync = SyncPolicy { method, every };
        let workload = Workload { sync, ..base(Pattern::Sequential, 0) };
        let region = Region { offset: Bytes::ZERO, length: Bytes::from_kib(64) };
        let mut stream = Stream::new(&workload, region, 1);
        kinds
            .iter()
            .map(|&kind| stream.follow_up(kind).map(|access| access.kind))
            .collect::<Vec<_>>()
    };
    use OperationKind::{Fdatasync, Fsync, Read, SyncFileRange, Write};
    let syncs = follows(SyncMethod::Fsync, 3, &[Write, Read, Write, Write, Write, Write, Write]);
    assert_eq!(syncs, [None, None, None, Some(Fsync), None, None, Some(Fsync)]);
    assert_eq!(follows(SyncMethod::Fdatasync, 1, &[Write, Fdatasync]), [Some(Fdatasync), None]);
    let range = follows(SyncMethod::FileRange, 1, &[Write, SyncFileRange]);
    assert_eq!(range, [Some(SyncFileRange), Some(Fdatasync)]);
    for method in [SyncMethod::None, SyncMethod::ODsync, SyncMethod::LinkedFsync] {
        assert_eq!(follows(method, 1, &[Write]), [None]);
    }
}
