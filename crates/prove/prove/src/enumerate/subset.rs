//! Which of the unflushed writes survive: none, one, two, all but one, all; and the names of the crash
//! states that they make, such as `120:all-7`, by which a state is recreated from the same log.
//!
//! Takes the number of writes and a limit on subsets; returns the small and the large subsets
//! first, and how many were left out.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The subsets of a stretch as they are passed on.
pub(super) struct ChosenSubsets {
    pub(super) list: Vec<Subset>,
    pub(super) left_out: u64,
}

/// Which of a number of writes survive, by their places from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subset {
    None,
    One(usize),
    Two(usize, usize),
    /// All but this one.
    AllBut(usize),
    All,
}

impl Subset {
    /// The places, in order.
    pub(super) fn places(self, count: usize, into: &mut Vec<usize>) {
        into.clear();
        match self {
            Self::None => {}
            Self::One(place) => into.push(place),
            Self::Two(first, second) => into.extend([first, second]),
            Self::AllBut(lost) => into.extend((0..count).filter(|&place| place != lost)),
            Self::All => into.extend(0..count),
        }
    }

    /// Whether `count` writes have such a subset.
    pub(super) const fn is_of(self, count: usize) -> bool {
        match self {
            Self::None | Self::All => true,
            Self::One(place) | Self::AllBut(place) => place < count,
            Self::Two(first, second) => first < second && second < count,
        }
    }
}

/// How many subsets of these sizes there are.
pub(super) fn subsets_of(count: usize) -> usize {
    let [singles, all_but_one, pairs] = sizes(count);
    1 + usize::from(count > 0) + singles + all_but_one + pairs
}

/// The number of subsets of one, of all but one, and of two. For one write, none and all are the
/// only subsets; for two, all but one equals one; for three, two equals all but one.
const fn sizes(count: usize) -> [usize; 3] {
    [
        if count > 1 { count } else { 0 },
        if count > 2 { count } else { 0 },
        if count > 3 { count * (count - 1) / 2 } else { 0 },
    ]
}

/// Subsets of `count` writes, each once, and about `most` of them.
pub(super) fn subsets(count: usize, most: usize, chance: &mut Xoshiro256PlusPlus) -> ChosenSubsets {
    let mut list = vec![Subset::None];
    if count > 0 {
        list.push(Subset::All);
    }
    let [singles, all_but_one, pairs] = sizes(count);
    let room = most.saturating_sub(list.len());
    // A quarter each for one write and for all but one; the rest is for pairs.
    let share = if singles + all_but_one + pairs > room { room / 4 } else { count };
    let ones = sample(singles, share, chance);
    list.extend(ones.into_iter().map(Subset::One));
    let lost = sample(all_but_one, share, chance);
    list.extend(lost.into_iter().map(Subset::AllBut));
    let left = most.saturating_sub(list.len());
    list.extend(sample(pairs, left, chance).into_iter().map(pair));
    ChosenSubsets { left_out: (subsets_of(count) - list.len()) as u64, list }
}

/// The pair of this number: (0, 1), (0, 2), (1, 2), (0, 3) …
fn pair(number: usize) -> Subset {
    // The larger place k is the largest with k (k - 1) / 2 <= number.
    let mut second = (2 * number + 1).isqrt().max(1);
    while second * (second - 1) / 2 > number {
        second -= 1;
    }
    while second * (second + 1) / 2 <= number {
        second += 1;
    }
    Subset::Two(number - second * (second - 1) / 2, second)
}

/// Up to `most` different numbers below `bound`, in order.
pub(super) fn sample(bound: usize, most: usize, chance: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    if bound <= most {
        return (0..bound).collect();
    }
    // Floyd's (CACM 30, 1987): each set of this size is as likely as any other.
    let mut chosen = HashSet::with_capacity(most);
    for last in bound - most..bound {
        let number = below(last + 1, chance);
        if !chosen.insert(number) {
            chosen.insert(last);
        }
    }
    let mut chosen: Vec<usize> = chosen.into_iter().collect();
    chosen.sort_unstable();
    chosen
}

fn below(bound: usize, chance: &mut Xoshiro256PlusPlus) -> usize {
    let product = u128::from(chance.next_u64()) * bound as u128;
    usize::try_from(product >> 64).unwrap_or(0)
}

/// A crash state of one recording: `120:none` is the durable image after 120 events, `120:3+9` the
/// same with the unflushed writes 3 and 9 (from 0), `120:all-7` with all but number 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateName {
    /// Events before the cut.
    pub events: usize,
    /// Which unflushed writes survived.
    pub subset: Subset,
}

/// Text that does not name a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a crash state; expected EVENTS:none, EVENTS:all, EVENTS:3, EVENTS:3+9 or EVENTS:all-7"
)]
pub struct StateNameError;

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.events)?;
        match self.subset {
            Subset::None => f.write_str("none"),
            Subset::One(place) => write!(f, "{place}"),
            Subset::Two(first, second) => write!(f, "{first}+{second}"),
            Subset::AllBut(place) => write!(f, "all-{place}"),
            Subset::All => f.write_str("all"),
        }
    }
}

impl FromStr for StateName {
    type Err = StateNameError;

    fn from_str(text: &str) -> Result<Self, StateNameError> {
        let number = |text: &str| text.parse::<usize>().map_err(|_| StateNameError);
        let (events, subset) = text.split_once(':').ok_or(StateNameError)?;
        let subset = match (subset, subset.strip_prefix("all-"), subset.split_once('+')) {
            ("none", ..) => Subset::None,
            ("all", ..) => Subset::All,
            (_, Some(place), _) => Subset::AllBut(number(place)?),
            (_, _, Some((first, second))) => Subset::Two(number(first)?, number(second)?),
            (place, ..) => Subset::One(number(place)?),
        };
        Ok(Self { events: number(events)?, subset })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rand_core::SeedableRng;

    use super::*;

    fn sets(count: usize, most: usize) -> (Vec<Vec<usize>>, u64) {
        let chosen = subsets(count, most, &mut Xoshiro256PlusPlus::seed_from_u64(1));
        let places = |subset: &Subset| {
            let mut places = Vec::new();
            subset.places(count, &mut places);
            places
        };
        (chosen.list.iter().map(places).collect(), chosen.left_out)
    }

    #[test]
    fn each_subset_of_these_sizes_comes_once() {
        for count in 0..9_usize {
            let (found, left_out) = sets(count, 1000);
            let different: BTreeSet<_> = found.iter().cloned().collect();
            let is_chosen = |bits: &u32| {
                let ones = bits.count_ones() as usize;
                ones <= 2 || ones + 1 >= count
            };
            let expected = (0_u32..1 << count).filter(is_chosen).count();
            assert_eq!((found.len(), different.len(), left_out), (expected, expected, 0));
        }
    }

    #[test]
    fn of_many_some_of_each_size_are_chosen_and_the_others_counted() {
        let (found, left_out) = sets(200, 100);
        assert_eq!(found.len(), 100);
        assert_eq!(left_out, 2 + 200 + 200 + 199 * 100 - 100);
        for size in [0, 1, 2, 199, 200] {
            assert!(found.iter().any(|subset| subset.len() == size), "{size}");
        }
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 100);
    }

    #[test]
    fn each_set_of_numbers_is_drawn_as_often_as_any_other() {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut counts = BTreeMap::new();
        for _ in 0..1000 {
            *counts.entry(sample(5, 2, &mut chance)).or_insert(0_u32) += 1;
        }
        // Ten pairs, a hundred of each with a standard deviation of 9.5.
        assert_eq!(counts.len(), 10, "{counts:?}");
        assert!(counts.values().all(|count| (50..=150).contains(count)), "{counts:?}");
    }

    #[test]
    fn pairs_are_numbered_without_a_gap() {
        let pairs: Vec<Subset> = (0..6).map(pair).collect();
        let expected = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
        assert_eq!(pairs, expected.map(|(first, second)| Subset::Two(first, second)));
        assert_eq!(pair(199 * 100 - 1), Subset::Two(198, 199));
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for text in ["0:none", "12:all", "12:3", "12:3+9", "12:all-7"] {
            assert_eq!(text.parse::<StateName>().unwrap().to_string(), text);
        }
        for text in ["", "12", "12:", "x:all", "12:all-", "12:3+", "12:-1", "12:1,2"] {
            assert_eq!(text.parse::<StateName>(), Err(StateNameError), "{text}");
        }
    }
}
