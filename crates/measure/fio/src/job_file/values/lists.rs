//! Lists with a place each for reads, writes and trims: `bs=4k,8k`; lists of sizes with their shares:
//! `bssplit=4k/10:64k/50:32k/40`; and sets: CPUs, NUMA nodes, names separated by colons, the bytes
//! of `buffer_pattern`.

use super::{KbBase, size};
use crate::job_file::terms::{BlockSizeShare, MemoryPolicy, PerDirection};

/// The parts of a value as fio cuts it: at commas, or else at colons, or else at dashes.
///
/// An empty part leaves its direction as it was.
pub(in crate::job_file) fn pieces(text: &str) -> Vec<&str> {
    let separator = [',', ':', '-'].into_iter().find(|sign| text.contains(*sign));
    separator.map_or_else(|| vec![text], |sign| text.split(sign).collect())
}

/// Reads a list: one part counts for all directions, two for reads and for writes and trims.
pub(in crate::job_file) fn by_direction<T: Copy>(
    parts: &[&str],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<PerDirection<Option<T>>, String> {
    if parts.iter().any(|part| part.contains('(') != part.contains(')')) {
        return Err(
            "fio splits lists at , : and - even within parentheses; write the value".to_owned()
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
        [None] | [_, _] | [_, _, _] => Err("the value is missing".to_owned()),
        _ => Err("expected at most three values: for reads, writes, trims".to_owned()),
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
        return Err("the size is missing".to_owned());
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
        _ => Err(format!("{text:?}: a share must be 1 to 100 percent")),
    }
}

fn with_even_shares(entries: &[(u64, Option<u64>)]) -> Result<Vec<BlockSizeShare>, String> {
    let given: u64 = entries.iter().filter_map(|(_, percent)| *percent).sum();
    let missing =
        u64::try_from(entries.iter().filter(|entry| entry.1.is_none()).count()).unwrap_or(0);
    let rest = 100_u64.checked_sub(given).ok_or("the shares exceed 100 percent")?;
    let even = rest.checked_div(missing).unwrap_or(0);
    let share = |&(bytes, percent): &(u64, Option<u64>)| BlockSizeShare {
        bytes,
        percent: u8::try_from(percent.unwrap_or(even)).unwrap_or(100),
    };
    let mut shares: Vec<_> = entries.iter().map(share).filter(|share| share.percent > 0).collect();
    // fio draws among the entries by rising share, and the last one gets the rest.
    let left_over = rest.saturating_sub(even * missing);
    if let Some(last) = shares.iter_mut().max_by_key(|share| share.percent) {
        last.percent += u8::try_from(left_over).unwrap_or(0);
    }
    Ok(shares)
}

// One more than the largest CPU or node number that is read (`FIO_MAX_CPUS` is 4096 at most).
const NUMBERS_MAX: u32 = 4096;

/// CPUs as `1,5,7-9`, sorted, without repetition.
pub(in crate::job_file) fn cpu_list(text: &str) -> Result<Vec<u32>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(number(from)?..=number(to)?);
        // Ranges may overlap and be many: 0-4095,0-4095,… is a line of memory.
        if cpus.len() > 1 << 16 {
            return Err(format!("{text:?} names too many CPUs"));
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.is_empty() { Err(format!("{text:?} names no CPU")) } else { Ok(cpus) }
}

fn number(text: &str) -> Result<u32, String> {
    let value = text.trim().parse().ok().filter(|number| *number < NUMBERS_MAX);
    value.ok_or_else(|| format!("{text:?} is not a number below {NUMBERS_MAX}"))
}

/// CPUs as the bits of a number: `7` is the first three.
pub(in crate::job_file) fn cpu_mask(mask: u32) -> Result<Vec<u32>, String> {
    let cpus: Vec<u32> = (0..32).filter(|cpu| mask >> cpu & 1 == 1).collect();
    if cpus.is_empty() { Err("the mask names no CPU".to_owned()) } else { Ok(cpus) }
}

/// NUMA nodes as `0,2-3`. libnuma's other forms (`all`, `!0`, `+1`) depend on the machine.
pub(in crate::job_file) fn node_list(text: &str) -> Result<Vec<u32>, String> {
    cpu_list(text).map_err(|_| {
        format!(
            "{text:?}: write the NUMA nodes as numbers, as in 0,2-3 (durio does not support all, \
             !, +)"
        )
    })
}

/// Where memory comes from: `bind:0`, `prefer:1`, `interleave:0-1`, `local`, `default`.
pub(in crate::job_file) fn memory_policy(text: &str) -> Result<MemoryPolicy, String> {
    let (word, nodes) = match text.split_once(':') {
        Some((word, nodes)) => (word, Some(nodes)),
        None => (text, None),
    };
    match (word, nodes) {
        ("default", None) => Ok(MemoryPolicy::Default),
        ("local", None) => Ok(MemoryPolicy::Local),
        ("prefer", Some(node)) => number(node).map(MemoryPolicy::Prefer),
        ("bind", Some(nodes)) => node_list(nodes).map(MemoryPolicy::Bind),
        ("interleave", nodes) => nodes
            .map(node_list)
            .transpose()
            .map(|nodes| MemoryPolicy::Interleave(nodes.unwrap_or_default())),
        ("default" | "local", Some(_)) => Err(format!("{text:?}: {word} takes no nodes")),
        ("prefer" | "bind", None) => Err(format!("{text:?}: {word} needs its nodes: {word}:0")),
        _ => Err(format!("{word:?}: expected one of: default, prefer, bind, interleave, local")),
    }
}

/// Names separated by colons; `\:` is a colon within a name, and a colon at its beginning is
/// dropped.
pub(in crate::job_file) fn name_list(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut name = String::new();
    let mut letters = text.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // Names of devices by path have colons: pci-0000\:00\:1f.0.
            '\\' if letters.peek() == Some(&':') => name.extend(letters.next()),
            ':' if name.is_empty() => {}
            ':' => names.push(std::mem::take(&mut name)),
            other => name.push(other),
        }
    }
    if !name.is_empty() {
        names.push(name);
    }
    if names.is_empty() { Err("the name is missing".to_owned()) } else { Ok(names) }
}

// As long as fio keeps patterns (fio 3.33, options of `verify_pattern` and `buffer_pattern`).
const LENGTH_MAX: usize = 512;

/// Reads hexadecimal digits after `0x`, or a text in quotes; fio's other forms are an error.
pub(in crate::job_file) fn pattern(text: &str) -> Result<Vec<u8>, String> {
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let bytes = match (quoted, hexadecimal) {
        (Some(inner), _) if !inner.contains(['"', '\\']) => Some(inner.as_bytes().to_vec()),
        (None, Some(digits)) => bytes_of(digits),
        _ => None,
    };
    bytes.filter(|bytes| (1..=LENGTH_MAX).contains(&bytes.len())).ok_or_else(|| {
        format!(
            "{text:?}: expected 1 to {LENGTH_MAX} bytes as hexadecimal digits (0xdeadbeef) or a \
             text in quotes"
        )
    })
}

// As fio reads them: an odd number of digits begins with half a byte.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let even = match digits.len() % 2 {
        0 => digits.to_owned(),
        _ => format!("0{digits}"),
    };
    if !even.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = (0..even.len()).step_by(2).map(|at| even.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<[Option<u32>; 3], String> {
        let values =
            by_direction(&pieces(text), |part| part.parse().map_err(|_| "bad".to_owned()))?;
        Ok([values.read, values.write, values.trim])
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
        let plain = |list: Option<Vec<BlockSizeShare>>| -> Shares {
            list.map(|list| list.into_iter().map(|share| (share.bytes, share.percent)).collect())
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
            let list: Vec<String> = (1..=count).map(|size| format!("{size}k/1")).collect();
            shares(&list.join(":")).map(|shares| shares[0].as_ref().map(Vec::len))
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

    #[test]
    fn cpus_are_lists_of_numbers_and_ranges() {
        assert_eq!(cpu_list("7-9,1, 5,8"), Ok(vec![1, 5, 7, 8, 9]));
        assert_eq!(cpu_mask(0b1011), Ok(vec![0, 1, 3]));
        for text in ["", "a", "3-1", "0-99999999", "1,,2", "-1"] {
            assert!(cpu_list(text).is_err(), "{text}");
        }
        assert!(cpu_mask(0).is_err());
        assert_eq!(cpu_list("4095"), Ok(vec![4095]));
        assert_eq!(cpu_list("4096"), Err("\"4096\" is not a number below 4096".to_owned()));
    }

    #[test]
    fn a_pattern_has_512_bytes_at_most() {
        let digits = |bytes: usize| pattern(&format!("0x{}", "5a".repeat(bytes)));
        assert_eq!(digits(512), Ok(vec![0x5a; 512]));
        assert!(digits(513).unwrap_err().contains("expected 1 to 512 bytes"));
        assert!(pattern(&format!("\"{}\"", "a".repeat(513))).is_err());
    }

    #[test]
    fn memory_policies_demand_the_nodes_that_they_need() {
        assert_eq!(memory_policy("bind:0,2-3"), Ok(MemoryPolicy::Bind(vec![0, 2, 3])));
        assert_eq!(memory_policy("prefer:1"), Ok(MemoryPolicy::Prefer(1)));
        assert_eq!(memory_policy("interleave"), Ok(MemoryPolicy::Interleave(vec![])));
        assert_eq!(memory_policy("local"), Ok(MemoryPolicy::Local));
        for text in ["bind", "prefer", "prefer:0-1", "local:0", "default:0", "near:0", "bind:all"] {
            assert!(memory_policy(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_cut_at_colons_that_are_not_escaped() {
        let names = |text: &str| name_list(text).unwrap();
        assert_eq!(names("/dev/a:/dev/b"), ["/dev/a", "/dev/b"]);
        assert_eq!(
            names("/dev/by-path/pci-0000\\:00\\:1f.0:b"),
            ["/dev/by-path/pci-0000:00:1f.0", "b"]
        );
        assert_eq!(names(":a:"), ["a"]);
        assert!(name_list(" : ").is_err());
    }

    #[test]
    fn patterns_are_bytes_as_fio_writes_them() {
        assert_eq!(pattern("0xdeadbeef").unwrap(), [0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(pattern("0xabc").unwrap(), [0x0a, 0xbc]);
        assert_eq!(pattern("\"durio\"").unwrap(), b"durio");
        for text in ["", "\"\"", "0x", "durio", "1234", "-12", "0xg1", "'file'", "\"a\"0x1"] {
            assert!(pattern(text).is_err(), "{text}");
        }
    }
}
