//! Names of sides, seeds of draws, work in parallel.

use super::*;

#[test]
fn sides_are_called_by_letters_and_after_those_by_numbers() {
    assert_eq!([0, 1, 25, 26, 300].map(label), ["A", "B", "Z", "27", "301"]);
}

#[test]
fn work_in_parallel_gives_its_results_in_order() {
    for count in [0, 1, 2, 3, 7, 100] {
        let items: Vec<u32> = (0..count).collect();
        let found = in_parallel(&items, |&it| (it % 3 != 1).then_some(it * 2));
        let expected: Vec<u32> = items.iter().filter(|it| *it % 3 != 1).map(|it| it * 2).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn draws_of_sides_runs_and_steps_have_the_seeds_of_splitmix64() {
    // From 0 the first output of SplitMix64, and each part is mixed into the one before.
    let first = mixed_seed(0, [0]);
    assert_eq!(first, 0xE220_A839_7B1D_CDAF);
    assert_eq!(mixed_seed(0, [0, 0]), mixed_seed(first, [0]));
    let plain = |state: u64, part: u64| {
        let z = (state ^ part).wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    assert_eq!(mixed_seed(9, [3, 5, 7]), plain(plain(plain(9, 3), 5), 7));
}
