//! Sets: CPUs, NUMA nodes, names separated by colons, the bytes of `buffer_pattern`.

use crate::job_file::MemoryPolicy;

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
    let value = text.trim().parse().ok().filter(|it| *it < NUMBERS_MAX);
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
        format!("{text:?}: write the NUMA nodes as numbers, as in 0,2-3 (durio reads no all, !, +)")
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
            .map(|it| MemoryPolicy::Interleave(it.unwrap_or_default())),
        ("default" | "local", Some(_)) => Err(format!("{text:?}: {word} takes no nodes")),
        ("prefer" | "bind", None) => Err(format!("{text:?}: {word} needs its nodes: {word}:0")),
        _ => Err(format!("{word:?} is none of: default, prefer, bind, interleave, local")),
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
    if names.is_empty() { Err("there is no name".to_owned()) } else { Ok(names) }
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
            "{text:?}: durio knows 1 to {LENGTH_MAX} bytes as hexadecimal digits (0xdeadbeef) or a \
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
        assert!(digits(513).unwrap_err().contains("durio knows 1 to 512 bytes"));
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
