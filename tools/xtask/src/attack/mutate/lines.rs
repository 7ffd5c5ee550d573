//! Mutations of texts that consist of lines: settings and tables.

use super::token;
use crate::attack::random::Random;

/// Values in TOML's form; the tokens alone are usually not valid TOML.
const VALUES: [&str; 28] = [
    "0",
    "1",
    "-1",
    "2",
    "9223372036854775807",
    "-9223372036854775808",
    "1.5",
    "nan",
    "inf",
    "true",
    "\"\"",
    "\"0\"",
    "\"1\"",
    "\"4KiB\"",
    "\"16EiB\"",
    "\"0B\"",
    "\"100%\"",
    "\"1ns\"",
    "\"1h\"",
    "[]",
    "{}",
    "[1, \"2\", [3]]",
    "[\"4KiB\", \"8KiB\"]",
    "[0, 1, 1000000]",
    "1979-05-27T07:32:00Z",
    "\"\\u001B[2J\"",
    "\"\\u202E\"",
    "\"{x}\"",
];

/// Mutates lines `key = value`.
pub(super) fn mutate_settings(text: &[u8], random: &mut Random) -> Vec<u8> {
    mutate(text, random, |line, random| {
        let Some((key, value)) = line.split_once('=') else {
            return format!("{}{line}", token(random));
        };
        match random.below(6) {
            0 => format!("{key}={}", token(random)),
            1 => format!("{key}= \"{}\"", token(random)),
            2 => format!("{}={value}", token(random)),
            3 => format!("{key}={value}{}", token(random)),
            _ => format!("{key}= {}", random.pick(&VALUES)),
        }
    })
}

/// Mutates cells between commas.
pub(super) fn mutate_cells(text: &[u8], random: &mut Random) -> Vec<u8> {
    mutate(text, random, |line, random| {
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        let at = random.below(cells.len());
        match random.below(5) {
            0 => cells.insert(at, token(random).to_owned()),
            1 => drop(cells.remove(at)),
            2 => cells[at] = format!("\"{}", cells[at]),
            _ => token(random).clone_into(&mut cells[at]),
        }
        cells.join(",")
    })
}

/// Drops, moves, doubles or changes a line.
fn mutate(
    text: &[u8],
    random: &mut Random,
    change: impl Fn(&str, &mut Random) -> String,
) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let (at, to) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(9) {
        0 => drop(lines.remove(at)),
        1 => lines.swap(at, to),
        2 => lines.insert(to, lines[at].clone()),
        _ => lines[at] = change(&lines[at], random),
    }
    lines.join("\n").into_bytes()
}
