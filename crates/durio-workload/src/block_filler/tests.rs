//! What can be seen of the bytes without compressing them; gzip, lz4 and zstd judge those of real
//! runs (crates/durio/tests/cli).

use std::collections::HashSet;

use super::*;

fn workload(contents: Contents, renewal: Renewal, duplicates: u16) -> Workload {
    let read_share = PerMille::NONE;
    let duplicates = PerMille(duplicates);
    Workload { contents, renewal, duplicates, read_share, ..Workload::default() }
}

/// `writes` of `length` bytes from one buffer, one after the other.
fn written(workload: &Workload, seed: u64, length: usize, writes: usize) -> Vec<Vec<u8>> {
    let mut filler = BlockFiller::new(workload, seed);
    let mut buffer = vec![0; length];
    filler.prime(&mut buffer);
    let next = |_| {
        filler.fill(&mut buffer);
        buffer.clone()
    };
    (0..writes).map(next).collect()
}

fn equal_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a == b).count()
}

#[test]
fn every_write_differs_from_the_one_before_in_all_its_bytes_but_by_chance() {
    for length in [100, 512, 4096, 5000, 65_536] {
        let all = written(&Workload::default(), 7, length, 64);
        for pair in all.windows(2) {
            // One byte of 256 is equal by chance; ten standard deviations.
            let expected = length as f64 / 256.0;
            let most = expected + 10.0 * expected.sqrt() + 1.0;
            let equal = equal_bytes(&pair[0], &pair[1]);
            assert!((equal as f64) < most, "{equal} of {length}");
        }
    }
}

#[test]
fn bytes_are_evenly_spread() {
    let mut counts = [0_u32; 256];
    for block in written(&Workload::default(), 3, 4096, 1024) {
        block.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    }
    let expected = 4096.0 * 1024.0 / 256.0;
    let deviation = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
    let chi_squared: f64 = counts.iter().map(deviation).sum();
    // 255 degrees of freedom: the mean is 255, six standard deviations are 136.
    assert!((119.0..391.0).contains(&chi_squared), "{chi_squared}");
}

#[test]
fn no_unit_of_any_job_begins_as_another() {
    let mut seen = HashSet::new();
    for job in 0..8 {
        let seed = crate::job_seed(1, 5, job);
        for block in written(&Workload::default(), seed, 3 * UNIT, 500) {
            for unit in block.chunks(UNIT) {
                assert!(seen.insert(unit[..8].to_vec()));
            }
        }
    }
    assert_eq!(seen.len(), 8 * 500 * 3);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_does_not() {
    let of = |seed| written(&Workload::default(), seed, 4096, 3);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    // What was written once is written again by every later version.
    assert_eq!(of(1)[0][..8], FIRST_OF_SEED_1);
}

/// The bijection of key 2: key 1 filled the buffer before the first write.
const FIRST_OF_SEED_1: [u8; 8] = spread(2).to_le_bytes();

#[test]
fn a_share_of_each_unit_is_zeros() {
    let half = workload(Contents::Compressible { zeros: PerMille(500) }, Renewal::EachWrite, 0);
    for block in written(&half, 1, 6 * 1024, 8) {
        assert!(block[..2048].iter().any(|byte| *byte != 0));
        assert!(block[2048..4096].iter().all(|byte| *byte == 0));
        assert!(block[5120..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn the_share_of_duplicates_is_kept_exactly_and_each_is_an_earlier_write() {
    for (share, length) in [(200, 4096), (200, 65_536), (500, 8192), (1000, 4096)] {
        let all = written(
            &workload(Contents::Incompressible, Renewal::EachWrite, share),
            9,
            length,
            1000,
        );
        let mut seen = HashSet::new();
        let repeated = all.iter().filter(|block| !seen.insert((*block).clone())).count();
        let wanted = usize::from(share).min(999);
        assert!(repeated.abs_diff(wanted) <= 1, "{repeated} of {share}");
    }
}

#[test]
fn duplicates_among_several_sizes_repeat_whole_writes() {
    let workload = workload(Contents::Incompressible, Renewal::EachWrite, 300);
    let mut filler = BlockFiller::new(&workload, 4);
    let (mut seen, mut repeated) = (HashSet::new(), 0);
    for index in 0..1000 {
        let mut block = vec![0; [4096, 16_384, 512][index % 3]];
        filler.fill(&mut block);
        repeated += usize::from(!seen.insert(block));
    }
    assert!((297..=300).contains(&repeated), "{repeated}");
}

#[test]
fn scrambled_buffers_keep_most_of_their_bytes_and_are_never_equal() {
    let scrambled = workload(Contents::Incompressible, Renewal::Scrambled, 0);
    let all = written(&scrambled, 1, 4096, 100);
    let different: HashSet<_> = all.iter().collect();
    assert_eq!(different.len(), 100);
    assert!(all.windows(2).all(|pair| equal_bytes(&pair[0], &pair[1]) > 4096 * 9 / 10));
}

#[test]
fn what_never_changes_costs_nothing() {
    let pattern = Contents::Pattern { bytes: b"abc".to_vec() };
    let zeros = Contents::Compressible { zeros: PerMille::ALL };
    for (contents, renewal) in [
        (pattern, Renewal::EachWrite),
        (zeros, Renewal::EachWrite),
        (Contents::Incompressible, Renewal::Never),
    ] {
        let workload = workload(contents, renewal, 0);
        assert!(!BlockFiller::new(&workload, 1).renews());
        let all = written(&workload, 1, 4096, 2);
        assert_eq!(all[0], all[1]);
    }
}
