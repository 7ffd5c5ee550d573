//! How fio reads a value, by kind.
//!
//! Turns the text after `=` into a number, a time, a list, or a sentence that names the fault. fio
//! reads the beginning of a value that makes sense and ignores the rest (`1.5g` is one byte,
//! `10sec` ten microseconds, ` 4k` four bytes); here the whole value must make sense, and then it
//! means what fio would mean.

mod distribution;
mod lists;

use super::arithmetic::arithmetic;
use super::terms::SizeValue;

pub(super) use distribution::{DISTRIBUTIONS, FILE_ORDERS, distribution, file_service};
pub(super) use lists::{
    block_size_split, by_direction, cpu_list, cpu_mask, memory_policy, name_list, node_list,
    pattern, pieces,
};

/// What a value is read with: fio's `kb_base`, 1024 or 1000.
pub(super) type KbBase = u64;

/// A number of bytes, or any number that fio reads with size units.
pub(super) fn size(text: &str, base: KbBase) -> Result<u64, String> {
    match scaled_size(text, base)? {
        SizeValue::Bytes(bytes) => Ok(bytes),
        _ => Err(format!("{text:?}: % and z are not allowed here")),
    }
}

/// A number of bytes, a share in percent, or a number of zones.
pub(super) fn scaled_size(text: &str, base: KbBase) -> Result<SizeValue, String> {
    check_blank(text)?;
    if text.starts_with('(') {
        let value = arithmetic(text, 1, false)?;
        return unsigned(value, text).map(SizeValue::Bytes);
    }
    if let Some(count) = text.strip_suffix('z') {
        let zones = count.parse().map_err(|_| format!("{text:?} is not a number of zones"))?;
        return Ok(SizeValue::Zones(zones));
    }
    let (number, unit) = leading_number(text)?;
    // fio looks at the first character: 100%%, as templates write it, is a share too.
    if unit.starts_with('%') && unit.trim_end_matches('%').is_empty() {
        return match u8::try_from(number) {
            Ok(percent) if percent <= 100 => Ok(SizeValue::Percent(percent)),
            _ => Err(format!("{text:?}: a share must be 0 to 100 %")),
        };
    }
    let scale = size_unit(unit, base).ok_or_else(|| misread_unit(text, number, "k, m, g, t, p"))?;
    let bytes = number.checked_mul(scale).filter(|bytes| i64::try_from(*bytes).is_ok());
    bytes.map(SizeValue::Bytes).ok_or_else(|| format!("{text:?} is too large"))
}

// Refuses arithmetic that fio cuts in two before it computes it: it keeps the last part.
pub(super) fn check_uncut(text: &str) -> Result<(), String> {
    if text.starts_with('(') && text.contains([',', ':', '-']) {
        return Err(format!(
            "fio splits {text:?} at , : and - even within parentheses; write its value"
        ));
    }
    Ok(())
}

/// How many bytes a unit stands for. With a base of 1024, `kib` is 1000, and the other way round.
fn size_unit(unit: &str, base: KbBase) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    if unit.is_empty() || unit == "b" {
        return Some(1);
    }
    // fio's HOWTO (kb_base): 1024 is a mode for old scripts, in which k is a power of two and kib,
    // the IEC prefix, one of ten.
    let opposite = if base == 1000 { 1024_u64 } else { 1000 };
    let (letter, rest) = unit.split_at_checked(1)?;
    let power = "kmgtp".find(letter).and_then(|place| u32::try_from(place + 1).ok())?;
    match rest {
        "" | "b" | "i" => base.checked_pow(power),
        "ib" => opposite.checked_pow(power),
        _ => None,
    }
}

/// A whole number below 2³², which fio reads with size units.
pub(super) fn integer(text: &str, base: KbBase) -> Result<u32, String> {
    let value = size(text, base)?;
    u32::try_from(value).map_err(|_| format!("{text:?} is too large: at most {}", u32::MAX))
}

pub(super) fn signed_size(text: &str, base: KbBase) -> Result<i64, String> {
    let (sign, size) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let size = self::size(size, base)?;
    i64::try_from(size).map(|size| sign * size).map_err(|_| format!("{text:?} is too large"))
}

pub(super) fn percent(text: &str, base: KbBase) -> Result<u8, String> {
    check_uncut(text)?;
    let value = u8::try_from(integer(text, base)?).ok().filter(|percent| *percent <= 100);
    value.ok_or_else(|| format!("{text:?}: expected 0 to 100"))
}

// fio's limit (`FIO_IO_U_LIST_MAX_LEN` in its stat.h).
const PERCENTILES_MAX: usize = 20;

/// Percentages between colons, ascending.
pub(super) fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let pieces = text.split(':').map(str::trim).filter(|piece| !piece.is_empty());
    let percent = |piece: &str| {
        let value = piece.parse().ok().filter(|value| (0.0..=100.0).contains(value));
        value.ok_or_else(|| format!("{piece:?} is not a percentage"))
    };
    let mut list = pieces.map(percent).collect::<Result<Vec<f64>, String>>()?;
    // fio's list ends with the first 0.
    list.truncate(list.iter().position(|value| *value <= 0.0).unwrap_or(list.len()));
    if list.len() > PERCENTILES_MAX {
        return Err(format!("more than {PERCENTILES_MAX} percentiles"));
    }
    list.sort_by(f64::total_cmp);
    Ok(list)
}

/// A time in microseconds, from a value in seconds unless it has a unit.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    check_blank(text)?;
    if text.starts_with('(') {
        let micros = arithmetic(text, 1_000_000, true)?;
        if micros % 1_000_000 != 0 {
            return Err(format!(
                "fio truncates {text:?} to whole seconds; write the time without parentheses"
            ));
        }
        return unsigned(micros, text);
    }
    time(text, 1_000_000)
}

/// The same of a value in microseconds unless it has a unit.
pub(super) fn microseconds(text: &str) -> Result<u64, String> {
    check_blank(text)?;
    if text.starts_with('(') {
        return unsigned(arithmetic(text, 1, true)?, text);
    }
    time(text, 1)
}

/// A number with a unit, or without one `default` microseconds each.
fn time(text: &str, default: u64) -> Result<u64, String> {
    let (number, unit) = leading_number(text)?;
    let scale = time_unit(unit, default);
    let scale = scale.ok_or_else(|| misread_unit(text, number, "us, ms, s, m, h, d"))?;
    number.checked_mul(scale).ok_or_else(|| format!("{text:?} is too long a time"))
}

fn time_unit(unit: &str, default: u64) -> Option<u64> {
    match unit.to_ascii_lowercase().as_str() {
        "" => Some(default),
        // No sec and no min: of these fio would read the number and overlook the rest.
        "us" | "usec" => Some(1),
        "ms" | "msec" => Some(1_000),
        "s" => Some(1_000_000),
        "m" => Some(60_000_000),
        "h" => Some(3_600_000_000),
        "d" => Some(86_400_000_000),
        _ => None,
    }
}

/// The value of a flag: any number but 0 sets it.
pub(super) fn flag(text: &str) -> Result<bool, String> {
    Ok(plain_number(text)? != 0)
}

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match plain_number(text)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(format!("{text:?}: expected 0 or 1")),
    }
}

/// A range of bytes, `a-b` or `a:b`; the smaller end comes first whichever is written first.
pub(super) fn range(text: &str, base: KbBase) -> Result<(u64, u64), String> {
    let ends = text.split_once('-').or_else(|| text.split_once(':'));
    let (a, b) = ends.ok_or_else(|| format!("{text:?} is not a range; write 4k-64k"))?;
    let (a, b) = (size(a, base)?, size(b, base)?);
    Ok((a.min(b), a.max(b)))
}

/// One of the words, and the text behind a colon after it.
pub(super) fn choice<'t>(
    text: &'t str,
    words: &[&'static str],
) -> Result<(&'static str, Option<&'t str>), String> {
    let (word, rest) = match text.split_once(':') {
        Some((word, rest)) => (word, Some(rest)),
        None => (text, None),
    };
    let found = words.iter().find(|known| **known == word);
    let found = found.ok_or_else(|| format!("{word:?}: expected one of: {}", words.join(", ")))?;
    Ok((found, rest))
}

pub(super) fn decimal(text: &str) -> Result<f64, String> {
    // `parse` would also take inf, nan and exponents.
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let value =
        text.parse::<f64>().ok().filter(|number| number.is_finite() && text.chars().all(plain));
    value.ok_or_else(|| format!("{text:?} is not a decimal number"))
}

/// A number without units, decimal or hexadecimal.
fn plain_number(text: &str) -> Result<u64, String> {
    let (number, unit) = leading_number(text)?;
    if unit.is_empty() { Ok(number) } else { Err(format!("{text:?} is not a number")) }
}

fn leading_number(text: &str) -> Result<(u64, &str), String> {
    if text.is_empty() {
        return Err("the value is missing".to_owned());
    }
    let not_a_number = || format!("{text:?} is not a number");
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let is_hex = !hex.is_empty() && hex.chars().all(|digit| digit.is_ascii_hexdigit());
        let value = u64::from_str_radix(hex, 16).ok().filter(|_| is_hex);
        let what =
            || format!("{text:?} is not a hexadecimal number; fio accepts no unit after one");
        return value.map(|value| (value, "")).ok_or_else(what);
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end).ok_or_else(not_a_number)?;
    if digits.is_empty() {
        return Err(not_a_number());
    }
    // fio keeps it in a signed number.
    let value = digits.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok());
    // Scripts write whole numbers as `4096.0`: the part that fio ignores is zero.
    let is_zero = |fraction: &str| fraction.bytes().all(|digit| digit == b'0');
    let unit = if unit.strip_prefix('.').is_some_and(is_zero) { "" } else { unit };
    Ok((value.ok_or_else(|| format!("{text:?} is too large"))?, unit))
}

fn check_blank(text: &str) -> Result<(), String> {
    if text.starts_with(|c: char| c.is_ascii_whitespace()) {
        return Err("fio ignores a unit after a blank; remove the blank after =".to_owned());
    }
    Ok(())
}

fn misread_unit(text: &str, number: u64, units: &str) -> String {
    format!("{text:?}: fio would read {number} and ignore the rest; units here are {units}")
}

fn unsigned(value: i64, text: &str) -> Result<u64, String> {
    u64::try_from(value).map_err(|_| format!("{text:?} is negative"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_fio_s_units_with_both_bases() {
        let cases = [
            ("4k", 4096, 4000),
            ("4K", 4096, 4000),
            ("4kb", 4096, 4000),
            ("4ki", 4096, 4000),
            ("4kib", 4000, 4096),
            ("4KiB", 4000, 4096),
            ("2m", 2 << 20, 2_000_000),
            ("1Pb", 1 << 50, 1_000_000_000_000_000),
            ("512", 512, 512),
            ("512b", 512, 512),
            ("0x200", 512, 512),
            ("(4k+1)", 4097, 4097),
            ("4096.0", 4096, 4096),
        ];
        for (text, binary, decimal) in cases {
            assert_eq!(size(text, 1024), Ok(binary), "{text}");
            assert_eq!(size(text, 1000), Ok(decimal), "{text}");
        }
    }

    #[test]
    fn what_fio_would_misread_is_an_error() {
        for text in [
            "",
            " 4k",
            "1.5g",
            "1.0g",
            "4kk",
            "4 k",
            "4x",
            "0x10k",
            "-4k",
            "k",
            "9999999999p",
            "4%",
            "3z",
        ] {
            assert!(size(text, 1024).is_err(), "{text}");
        }
        for text in ["", " 5m", "1m30s", "10sec", "1.5", "(500ms)", "(3600)", "10min"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        for text in ["", "yes", "2", "1k", "0x2"] {
            assert!(boolean(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_and_zones_are_told_apart_from_bytes() {
        assert_eq!(scaled_size("50%", 1024), Ok(SizeValue::Percent(50)));
        assert_eq!(scaled_size("90%%", 1024), Ok(SizeValue::Percent(90)));
        assert!(scaled_size("101%%", 1024).is_err());
        assert!(scaled_size("90%k", 1024).is_err());
        assert_eq!(scaled_size("3z", 1024), Ok(SizeValue::Zones(3)));
        assert!(scaled_size("101%", 1024).is_err());
    }

    #[test]
    fn times_are_seconds_unless_they_say_otherwise() {
        let cases = [
            ("30", 30_000_000),
            ("2m", 120_000_000),
            ("5ms", 5_000),
            ("7us", 7),
            ("1d", 86_400_000_000),
            ("(10s)", 10_000_000),
        ];
        for (text, micros) in cases {
            assert_eq!(seconds(text), Ok(micros), "{text}");
        }
    }

    #[test]
    fn twenty_percentiles_are_kept_as_fio_keeps_them() {
        let of = |count: u32| {
            let list: Vec<String> = (1..=count).map(|percent| format!("{percent}.5")).collect();
            percentiles(&list.join(":")).map(|list| list.len())
        };
        assert_eq!(of(20), Ok(20));
        assert_eq!(of(21), Err("more than 20 percentiles".to_owned()));
    }

    #[test]
    fn ranges_are_ordered() {
        assert_eq!(range("64k-4k", 1024), Ok((4096, 65536)));
        assert_eq!(range("1:2k", 1024), Ok((1, 2048)));
        assert!(range("4k", 1024).is_err());
    }

    #[test]
    fn a_zero_clears_a_flag() {
        assert_eq!(flag("0"), Ok(false));
        assert_eq!(flag("2"), Ok(true));
        assert!(flag("").is_err());
    }
}
