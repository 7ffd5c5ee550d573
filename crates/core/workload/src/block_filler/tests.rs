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
    // Every later version writes the same bytes.
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

/// The bytes of a key by the plain rule: 16 generators of two words, whose first row is one step from
/// their seeds.
fn plain(length: usize, key: u64) -> Vec<u8> {
    let (first, second) = (spread(key), spread(!key));
    let weyl = |lane: u64| lane.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut x: Vec<u64> = (0..16).map(|lane| first.wrapping_add(weyl(lane))).collect();
    let mut y: Vec<u64> = (0..16).map(|lane| second ^ weyl(lane)).collect();
    let mut bytes = Vec::new();
    let mut is_first = true;
    while bytes.len() < length {
        for (x, y) in x.iter_mut().zip(&mut y) {
            *x = x.wrapping_add(*y);
            *y = (*y ^ (*y >> 23)).wrapping_add(*x);
        }
        if std::mem::take(&mut is_first) {
            x[0] = first;
        }
        x.iter().chain(&y).for_each(|word| bytes.extend(word.to_le_bytes()));
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn bytes_of_any_length_are_those_of_the_plain_rule() {
    for length in [1, 7, 8, 9, 100, 255, 256, 257, 263, 264, 511, 512, 1000, 4096] {
        for key in [0, 1, u64::MAX] {
            let mut data = vec![0; length];
            fill_random(&mut data, key);
            assert_eq!(data, plain(length, key), "{length} {key}");
        }
    }
}

#[test]
fn each_unit_has_the_next_key_and_ends_with_its_zeros() {
    let mut data = vec![7; 4096 + 1000];
    fill_units(&mut data, 5, PerMille(750));
    assert_eq!(data[..3072], plain(3072, 5));
    assert!(data[3072..4096].iter().all(|&byte| byte == 0));
    assert_eq!(data[4096..4846], plain(750, 6));
    assert!(data[4846..].iter().all(|&byte| byte == 0));
    // A write takes as many keys as it has units, from the seed on.
    let all = written(&Workload::default(), 40, 5000, 2);
    assert_eq!(all[0], [plain(4096, 42), plain(904, 43)].concat());
    assert_eq!(all[1], [plain(4096, 44), plain(904, 45)].concat());
    let mut filler = BlockFiller::unique(u64::MAX);
    let mut data = vec![0; 5000];
    filler.prime(&mut data);
    assert_eq!(data, [plain(4096, u64::MAX), plain(904, 0)].concat());
}

#[test]
fn a_pattern_is_laid_from_the_begin_again_and_again() {
    let pattern = workload(Contents::Pattern { bytes: b"abc".to_vec() }, Renewal::EachWrite, 0);
    let mut data = vec![0; 7];
    BlockFiller::new(&pattern, 1).prime(&mut data);
    assert_eq!(data, b"abcabca");
}

#[test]
fn a_scrambled_sector_has_its_number_at_one_place_and_the_stamp_at_another() {
    let mut data = vec![0; 1100];
    scramble(&mut data, 3);
    let place = usize::try_from(spread(3) % 8).unwrap() * 64;
    let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    for sector in [0, 1] {
        let begin = sector * 512;
        assert_eq!(word(begin + place), 3 + ((sector as u64) << 9), "sector {sector}");
        assert_eq!(word(begin + 56), 3);
        let changed = data[begin..begin + 512].iter().filter(|&&byte| byte != 0).count();
        assert!((2..=4).contains(&changed), "{changed}");
    }
    // A last sector that is shorter than the place keeps its bytes there.
    let tail: Vec<_> = data[1024..].iter().filter(|&&byte| byte != 0).collect();
    assert!(tail.len() <= 4, "{tail:?}");
    assert_eq!(word(1024 + 56), 3);
}

#[test]
fn the_earlier_64_writes_can_be_repeated() {
    let mut half = Duplicates::new(PerMille(500));
    let found: Vec<_> = (0..8).map(|key| half.next(4096, 100 + key)).collect();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true].repeat(4));
    let mut rare = Duplicates::new(PerMille(1));
    for key in 0..999 {
        assert_eq!(rare.next(4096, key), None);
    }
    let found = rare.next(4096, 999).unwrap();
    assert!((999 - 64..999).contains(&found), "{found}");
    assert_eq!((rare.due, rare.count, EARLIER), (0, 999, 64));
    // None is as long: the duplicate stays due until one is.
    let mut sizes = Duplicates::new(PerMille(1000));
    assert_eq!(sizes.next(512, 1), None);
    assert_eq!((sizes.next(1024, 2), sizes.due), (None, 2000));
    assert_eq!((sizes.next(512, 3), sizes.due), (Some(1), 2000));
    assert_eq!((sizes.next(1024, 3), sizes.due), (Some(2), 2000));
}

#[test]
fn which_earlier_write_is_repeated_is_drawn_and_the_search_goes_round() {
    let mut all = Duplicates::new(PerMille(1));
    (0..999).for_each(|key| assert_eq!(all.next(if key % 3 == 0 { 512 } else { 4096 }, key), None));
    // Place p holds write 896 + p, for p below 999 - 960 write 960 + p.
    let at = |place: u64| if place < 39 { 960 + place } else { 896 + place };
    for key in 999..1040 {
        let begin = spread(key ^ 1000) % 64;
        let wanted = (0..64).map(|step| at((begin + step) % 64)).find(|found| found % 3 == 0);
        let mut draws = all.clone();
        assert_eq!(draws.next(512, key), wanted, "{key}");
    }
    let mut few = Duplicates::new(PerMille(400));
    assert_eq!([1, 2].map(|key| few.next(512, key)), [None, None]);
    let begin = spread(3 ^ 1200) % 64;
    assert_eq!(few.next(512, 3), Some(1 + begin % 2));
}
