//! Lists with a place each for reads, writes and trims: `bs=4k,8k`, and lists of sizes with their
//! shares: `bssplit=4k/10:64k/50:32k/40`.

use super::{KbBase, size};
use crate::job_file::{BlockSizeShare, PerDirection};

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

// The most entries of a direction (`BSSPLIT_MAX`).
const ENTRIES_MAX: usize = 64;

/// Reads a list of sizes for each direction. `None` where a direction stays as it was.
pub(in crate::job_file) fn block_size_split(
    text: &str,
    base: KbBase,
) -> Result<PerDirection<Option<Vec<BlockSizeShare>>>, String> {
    let lists = lists_by_direction(text, |part| one_direction(part.trim(), base))?;
    if lists.read.is_none() && lists.write.is_none() && lists.trim.is_none() {
        return Err("there is no size".to_owned());
    }
    Ok(lists)
}

/// Reads up to three lists between commas: one is for all directions; with two, the second is for writes
/// and trims.
pub(in crate::job_file) fn lists_by_direction<T: Clone>(
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<PerDirection<T>, String> {
    let mut parts = text.splitn(3, ',').skip(1).map(&read);
    let first = read(text.split(',').next().unwrap_or_default())?;
    let write = parts.next().transpose()?.unwrap_or_else(|| first.clone());
    let trim = parts.next().transpose()?.unwrap_or_else(|| write.clone());
    Ok(PerDirection { read: first, write, trim })
}

/// One direction's list; entries without a share split the rest evenly.
fn one_direction(text: &str, base: KbBase) -> Result<Option<Vec<BlockSizeShare>>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let entries = text.split(':').map(|entry| self::entry(entry, base));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    if entries.len() > ENTRIES_MAX {
        return Err(format!("more than {ENTRIES_MAX} sizes"));
    }
    with_even_shares(&entries).map(Some)
}

fn entry(text: &str, base: KbBase) -> Result<(u64, Option<u64>), String> {
    let (bytes, percent) = text.split_once('/').unwrap_or((text, ""));
    let bytes = size(bytes, base)?;
    if bytes == 0 {
        return Err(format!("{text:?}: a block has at least one byte"));
    }
    let percent = percent.strip_suffix('%').unwrap_or(percent);
    if percent.is_empty() {
        return Ok((bytes, None));
    }
    match percent.parse::<u64>() {
        // fio takes a share of 0 for one that is not given.
        Ok(0) => Ok((bytes, None)),
        Ok(percent) if percent <= 100 => Ok((bytes, Some(percent))),
        _ => Err(format!("{text:?}: a share is 1 to 100 percent")),
    }
}

fn with_even_shares(entries: &[(u64, Option<u64>)]) -> Result<Vec<BlockSizeShare>, String> {
    let given: u64 = entries.iter().filter_map(|(_, percent)| *percent).sum();
    let missing = u64::try_from(entries.iter().filter(|it| it.1.is_none()).count()).unwrap_or(0);
    let rest = 100_u64.checked_sub(given).ok_or("the shares exceed 100 percent")?;
    let even = rest.checked_div(missing).unwrap_or(0);
    let share = |&(bytes, percent): &(u64, Option<u64>)| BlockSizeShare {
        bytes,
        percent: u8::try_from(percent.unwrap_or(even)).unwrap_or(100),
    };
    let mut shares: Vec<_> = entries.iter().map(share).filter(|it| it.percent > 0).collect();
    // fio draws among the entries by rising share, and the last one gets the rest.
    let left_over = rest.saturating_sub(even * missing);
    if let Some(last) = shares.iter_mut().max_by_key(|it| it.percent) {
        last.percent += u8::try_from(left_over).unwrap_or(0);
    }
    Ok(shares)
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

    type Shares = Option<Vec<(u64, u8)>>;

    fn shares(text: &str) -> Result<[Shares; 3], String> {
        let plain = |it: Option<Vec<BlockSizeShare>>| -> Shares {
            it.map(|it| it.into_iter().map(|it| (it.bytes, it.percent)).collect())
        };
        let it = block_size_split(text, 1024)?;
        Ok([plain(it.read), plain(it.write), plain(it.trim)])
    }

    #[test]
    fn one_list_is_for_all_directions_and_blank_shares_are_even() {
        let all = Some(vec![(4096, 10), (65536, 50), (32768, 40)]);
        assert_eq!(shares("4k/10:64k/50:32k/40"), Ok([all.clone(), all.clone(), all]));
        let even = Some(vec![(4096, 50), (1024, 25), (2048, 25)]);
        assert_eq!(shares("4k/50:1k/:2k").unwrap()[0], even);
        assert_eq!(shares("4k").unwrap()[0], Some(vec![(4096, 100)]));
    }

    #[test]
    fn directions_are_separated_by_commas() {
        let (two, four, eight) =
            (Some(vec![(2048, 100)]), Some(vec![(4096, 100)]), Some(vec![(8192, 100)]));
        assert_eq!(shares("2k,4k"), Ok([two.clone(), four.clone(), four.clone()]));
        assert_eq!(shares("2k,4k,8k"), Ok([two, four.clone(), eight]));
        assert_eq!(shares(",4k"), Ok([None, four.clone(), four]));
    }

    #[test]
    fn what_is_left_over_goes_to_the_last_entry_of_the_largest_share() {
        let first = |text: &str| shares(text).unwrap()[0].clone().unwrap();
        assert_eq!(first("1k:2k:4k"), [(1024, 33), (2048, 33), (4096, 34)]);
        assert_eq!(first("4k/10"), [(4096, 100)]);
        assert_eq!(first("4k/50:8k/10"), [(4096, 90), (8192, 10)]);
        assert_eq!(first("4k/100:8k"), [(4096, 100)]);
    }

    #[test]
    fn a_direction_has_64_sizes_at_most() {
        let of = |count: u64| {
            let list: Vec<String> = (1..=count).map(|it| format!("{it}k/1")).collect();
            shares(&list.join(":")).map(|it| it[0].as_ref().map(Vec::len))
        };
        assert!(of(64).is_ok(), "{:?}", of(64));
        assert_eq!(of(65), Err("more than 64 sizes".to_owned()));
    }

    #[test]
    fn what_does_not_add_up_is_an_error() {
        for text in ["", ",", "4k/60:8k/50", "4k/x", "0/100", "4k/101", "x/5"] {
            assert!(shares(text).is_err(), "{text}");
        }
    }
}
