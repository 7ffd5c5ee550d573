//! Lists with a place each for reads, writes and trims: `bs=4k,8k`.

use crate::job_file::PerDirection;

/// The parts of a value as fio cuts it: at commas, or else at colons, or else at dashes.
///
/// An empty part leaves its direction as it was.
pub(in crate::job_file) fn pieces(text: &str) -> Vec<&str> {
    let separator = [',', ':', '-'].into_iter().find(|it| text.contains(*it));
    separator.map_or_else(|| vec![text], |it| text.split(it).collect())
}

/// Reads a list: one part counts for all directions, two for reads and for writes and trims.
pub(in crate::job_file) fn by_direction<T: Copy>(
    parts: &[&str],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<PerDirection<Option<T>>, String> {
    if parts.iter().any(|part| part.contains('(') != part.contains(')')) {
        return Err(
            "fio cuts lists at , : and - even within parentheses; write the value".to_owned()
        );
    }
    let one = |part: &&str| if part.is_empty() { Ok(None) } else { read(part).map(Some) };
    let values = parts.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    match *values.as_slice() {
        [Some(all)] => Ok(PerDirection { read: Some(all), write: Some(all), trim: Some(all) }),
        // `8k,` ends with an empty part: writes and trims stay as they were.
        [read, write] if read.or(write).is_some() => Ok(PerDirection { read, write, trim: write }),
        [read, write, trim] if read.or(write).or(trim).is_some() => {
            Ok(PerDirection { read, write, trim })
        }
        [None] | [_, _] | [_, _, _] => Err("there is no value".to_owned()),
        _ => Err("at most three values are possible: for reads, writes, trims".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<[Option<u32>; 3], String> {
        let it = by_direction(&pieces(text), |part| part.parse().map_err(|_| "bad".to_owned()))?;
        Ok([it.read, it.write, it.trim])
    }

    #[test]
    fn missing_parts_follow_the_part_before_them_and_empty_ones_change_nothing() {
        assert_eq!(read("1"), Ok([Some(1); 3]));
        assert_eq!(read("1,2"), Ok([Some(1), Some(2), Some(2)]));
        assert_eq!(read("1:2:3"), Ok([Some(1), Some(2), Some(3)]));
        assert_eq!(read("1-2"), Ok([Some(1), Some(2), Some(2)]));
        assert_eq!(read(",2"), Ok([None, Some(2), Some(2)]));
        assert_eq!(read("1,"), Ok([Some(1), None, None]));
        assert_eq!(read("1,,3"), Ok([Some(1), None, Some(3)]));
    }

    #[test]
    fn empty_and_overlong_lists_are_errors() {
        for text in ["", ",", ",,", "1,2,3,4", "1,x", "(1-2)"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
