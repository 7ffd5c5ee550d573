//! Names that look alike.
//!
//! In: a name that nobody has, and those that exist. Out: the one that was meant.

/// A word so far away is another word.
const DISTANCE_MAX: usize = 4;

/// The name that looks most like `name`; none if all are far from it.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let wanted = name.to_ascii_lowercase();
    let far = |it: &str| distance(&wanted, &it.to_ascii_lowercase());
    let closest = known.into_iter().map(|it| (far(it), it)).min_by_key(|(far, _)| *far)?;
    let (far, it) = closest;
    (far <= DISTANCE_MAX.min(it.len().div_ceil(2))).then(|| it.to_owned())
}

/// Characters to insert, remove or replace (Levenshtein, 1966).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, left) in a.chars().enumerate() {
        let mut diagonal = at;
        let mut before = at + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(&b) {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = *cell;
            *cell = replaced.min(before + 1).min(*cell + 1);
            before = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_levenshtein() {
        for (a, b, expected) in
            [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("ab", "ab", 0)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_name_is_meant_and_a_far_one_is_not() {
        let known = ["scheduler-nvme", "noatime", "B01"];
        assert_eq!(nearest("Scheduler-nvm", known).as_deref(), Some("scheduler-nvme"));
        assert_eq!(nearest("b1", known).as_deref(), Some("B01"));
        assert_eq!(nearest("xyzzyxyzzy", known), None);
    }
}
