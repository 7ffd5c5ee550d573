//! Mutations that ignore a text's form.

use super::token;
use crate::attack::random::Random;

/// Length of nested or long text.
// A parser that recurses without a bound overflows its stack.
const DEEP: usize = 20_000;
/// A line this long is rare, because it burdens the reader and the disk.
const LONG_LINE_BYTES: usize = 100 << 20;
const LONG_LINE_ONCE_IN: usize = 4000;
const OPENERS: [&[u8]; 6] = [b"[", b"{\"a\":", b"[{\"a\":[", b"(", b"a.", b"[["];

pub(super) fn mutate(text: &[u8], others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    if random.once_in(LONG_LINE_ONCE_IN) {
        return long_line(text, random);
    }
    let (from, to) = range(text, random);
    match random.below(12) {
        0 | 1 => flipped(text, random),
        2 => text[..from].to_vec(),
        3 => [&text[..from], &text[to..]].concat(),
        4 => [&text[..to], &text[from..]].concat(),
        5 | 6 => [&text[..from], token(random).as_bytes(), &text[from..]].concat(),
        7 | 8 => other_number(text, random),
        9 => spliced(text, others, random),
        10 => [&text[..from], &random.pick(&OPENERS).repeat(random.below(DEEP)), &text[from..]]
            .concat(),
        _ => [&text[..from], &vec![byte(random); random.below(1 << 16)], &text[from..]].concat(),
    }
}

fn byte(random: &mut Random) -> u8 {
    u8::try_from(random.below(256)).unwrap_or(0)
}

/// A place, and one not far behind it.
fn range(text: &[u8], random: &mut Random) -> (usize, usize) {
    let from = random.below(text.len() + 1);
    (from, (from + random.below(200)).min(text.len()))
}

fn flipped(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut flipped = text.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(text.len());
        if let Some(it) = flipped.get_mut(at) {
            *it = if random.once_in(2) { byte(random) } else { *it ^ (1 << random.below(8)) };
        }
    }
    flipped
}

/// Another number in the place of one.
fn other_number(text: &[u8], random: &mut Random) -> Vec<u8> {
    let start = random.below(text.len() + 1);
    let digit = |at: &usize| text[*at].is_ascii_digit();
    let Some(from) = (start..text.len()).chain(0..start).find(digit) else { return text.to_vec() };
    let to = (from..text.len()).find(|at| !digit(at)).unwrap_or(text.len());
    let number = match random.below(3) {
        0 => token(random).to_owned(),
        1 => random.number().to_string(),
        _ => "9".repeat(random.below(400)),
    };
    [&text[..from], number.as_bytes(), &text[to..]].concat()
}

fn spliced(text: &[u8], others: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    if others.is_empty() {
        return text.to_vec();
    }
    let other = random.pick(others);
    let (at, from) = (random.below(text.len() + 1), random.below(other.len() + 1));
    [&text[..at], &other[from..]].concat()
}

fn long_line(text: &[u8], random: &mut Random) -> Vec<u8> {
    let at = random.below(text.len() + 1);
    [&text[..at], &vec![b'7'; LONG_LINE_BYTES], &text[at..]].concat()
}
