//! Numbers in cells: digits as printed, with or without a unit. A cell gives a figure with its
//! rounding, or an error that names the expected form.
//!
//! The zeros at the end of a whole number are taken as rounding: `3M` and `3000000` stand for
//! 2.5 to 4 million. Zeros after a decimal point were printed on purpose: `3.0M` is 2.95 to 3.1.

use durio_base::{Bytes, Nanos};

use super::Figure;

// Longer cells are not numbers.
const CELL_MAX: usize = 64;

const RATE: &str = "rate such as 56800, 56.8k or 3M (I/Os per second)";
const LATENCY: &str = "latency such as 20.27 (µs), 20.27 µs or 1.5 ms";
const BANDWIDTH: &str = "bandwidth such as 584 (MB/s), 2672 MiB/s or 1.3 GB/s";
const COUNT: &str = "whole number from 1 to 4294967295";
const SIZE: &str = "size such as 4k, 16 KiB or 1M (powers of 1024), or 64MB (of 1000)";
const DURATION: &str = "time such as 60s or 5m (plain numbers are seconds)";
const YES_NO: &str = "yes or no";

/// A cell's value, or the expected form.
pub(super) type CellResult<T> = Result<T, &'static str>;

/// A rate in I/Os per second, such as `56.8k`.
pub(super) fn rate(text: &str) -> CellResult<Figure> {
    let (figure, unit) = digits(text).ok_or(RATE)?;
    rate_unit(unit).map(|scale| figure.scaled(scale))
}

/// The factor of a unit of rates.
pub(super) fn rate_unit(unit: &str) -> CellResult<f64> {
    let unit = unit.trim_end_matches("/s").trim_end().to_ascii_lowercase();
    // Milli-operations do not exist: `m` is a million, like `M`.
    match unit.strip_suffix("iops").unwrap_or(&unit).trim_end() {
        "" => Ok(1.0),
        "k" => Ok(1e3),
        "m" => Ok(1e6),
        _ => Err(RATE),
    }
}

/// Nanoseconds; plain numbers are microseconds.
pub(super) fn latency_ns(text: &str) -> CellResult<Figure> {
    let (figure, unit) = digits(text).ok_or(LATENCY)?;
    let scale = match unit {
        "ns" | "nsec" => 1.0,
        // Print has both: the micro sign (U+00B5) and the Greek letter (U+03BC).
        "" | "us" | "usec" | "µs" | "μs" => 1e3,
        "ms" | "msec" => 1e6,
        "s" | "sec" => 1e9,
        _ => return Err(LATENCY),
    };
    Ok(figure.scaled(scale))
}

/// Bytes per second; plain numbers are MB/s, powers of 1000.
pub(super) fn bandwidth(text: &str) -> CellResult<Figure> {
    let (figure, unit) = digits(text).ok_or(BANDWIDTH)?;
    bandwidth_unit(unit).map(|scale| figure.scaled(scale)).ok_or(BANDWIDTH)
}

/// The unit that is written behind a number, if one is.
pub(super) fn written_unit(text: &str) -> Option<&str> {
    digits(text).map(|(_, unit)| unit).filter(|unit| !unit.is_empty())
}

/// What `22.0` stands for, in the unit behind it, where a program lost the carry of its rounding: 22.95 to 23.
///
/// fio 3.1 and 3.8 print 22.97 so (lib/num2str.c: the digits behind the point are rounded by themselves).
pub(super) fn of_lost_carry(text: &str) -> Option<Figure> {
    let (figure, _) = digits(text)?;
    let (_, rest) = text.split_once('.')?;
    let decimals = rest.bytes().take_while(u8::is_ascii_digit).count();
    let is_zero = decimals > 0 && rest.bytes().take(decimals).all(|digit| digit == b'0');
    let unit = 10_f64.powi(-i32::try_from(decimals).ok()?);
    let next = figure.value + 1.0;
    is_zero.then_some(Figure { value: next - unit / 4.0, low: next - unit / 2.0, high: next })
}

/// Bytes per second in a unit.
pub(super) fn bandwidth_unit(unit: &str) -> Option<f64> {
    Some(match unit {
        "B/s" => 1.0,
        "kB/s" | "KB/s" => 1e3,
        "" | "MB/s" => 1e6,
        "GB/s" => 1e9,
        "KiB/s" => 1024.0,
        "MiB/s" => 1024.0 * 1024.0,
        "GiB/s" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

pub(super) fn count(text: &str) -> CellResult<u32> {
    text.parse().ok().filter(|&count| count > 0).ok_or(COUNT)
}

/// Bytes; `k` is 1024, as with fio and dd.
pub(super) fn size(text: &str) -> CellResult<Bytes> {
    text.parse::<Bytes>().ok().filter(|size| size.get() > 0).ok_or(SIZE)
}

pub(super) fn duration(text: &str) -> CellResult<Nanos> {
    text.parse().map_err(|_| DURATION)
}

pub(super) fn yes_no(text: &str) -> CellResult<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "1" => Ok(true),
        "no" | "false" | "0" => Ok(false),
        _ => Err(YES_NO),
    }
}

/// The number at the start of `text`, with its rounding, and what follows it.
pub(super) fn digits(text: &str) -> Option<(Figure, &str)> {
    let text = text.trim();
    if text.len() > CELL_MAX {
        return None;
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let plain = without_separators(number)?;
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let is_number = !whole.is_empty() && !fraction.contains('.') && !plain.ends_with('.');
    let value: f64 = if is_number { plain.parse().ok()? } else { return None };
    Some((Figure::printed(value, last_digit(whole, fraction)), unit.trim()))
}

/// The value of one unit in the last significant digit.
fn last_digit(whole: &str, fraction: &str) -> f64 {
    let significant = whole.trim_end_matches('0');
    let power = match (fraction.len(), significant.is_empty()) {
        (0, true) => 0,
        (0, false) => whole.len() - significant.len(),
        (decimals, _) => return 10_f64.powi(-i32::try_from(decimals).unwrap_or(0)),
    };
    10_f64.powi(i32::try_from(power).unwrap_or(0))
}

fn without_separators(number: &str) -> Option<String> {
    // Commas are taken only where they part thousands: `12,800`; `1,2` could be a decimal comma.
    let (whole, _) = number.split_once('.').unwrap_or((number, ""));
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let parted = number.contains(',');
    let sound = groups.all(|group| group.len() == 3) && (1..=3).contains(&first.len());
    let fraction_sound = !number.split_once('.').is_some_and(|(_, rest)| rest.contains(','));
    (!parted || (sound && fraction_sound)).then(|| number.replace(',', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cell: CellResult<Figure>, value: f64, low: f64, high: f64) {
        let figure = cell.unwrap();
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        assert!(close(figure.value, value), "{figure:?}");
        assert!(close(figure.low, low) && close(figure.high, high), "{figure:?}");
    }

    #[test]
    fn rates_are_read_with_their_rounding() {
        check(rate("14.0k"), 14_000.0, 13_950.0, 14_100.0);
        check(rate("3M"), 3e6, 2.5e6, 4e6);
        check(rate("3000000"), 3e6, 2.5e6, 4e6);
        check(rate("12,800 IOPS"), 12_800.0, 12_750.0, 12_900.0);
        check(rate("14357.65"), 14_357.65, 14_357.645, 14_357.66);
        check(rate("58.4 k/s"), 58_400.0, 58_350.0, 58_500.0);
        check(rate("0"), 0.0, 0.0, 1.0);
    }

    #[test]
    fn latencies_are_microseconds_unless_they_say_otherwise() {
        check(latency_ns("20.27"), 20_270.0, 20_265.0, 20_280.0);
        check(latency_ns("20.27 μs"), 20_270.0, 20_265.0, 20_280.0);
        check(latency_ns("1.5ms"), 1.5e6, 1.45e6, 1.6e6);
        check(latency_ns("71"), 71e3, 70.5e3, 72e3);
    }

    #[test]
    fn bandwidths_tell_powers_of_1000_from_those_of_1024() {
        check(bandwidth("584"), 584e6, 583.5e6, 585e6);
        let mib = 1024.0 * 1024.0;
        check(bandwidth("2672MiB/s"), 2672.0 * mib, 2671.5 * mib, 2673.0 * mib);
        check(bandwidth("1.3 GB/s"), 1.3e9, 1.25e9, 1.4e9);
    }

    #[test]
    fn a_zero_behind_the_point_may_be_a_carry_that_was_lost() {
        let carry = of_lost_carry("22.0 MiB/s").unwrap();
        assert_eq!((carry.low, carry.high), (22.95, 23.0));
        let carry = of_lost_carry("4.00k").unwrap();
        assert_eq!((carry.low, carry.high), (4.995, 5.0));
        for text in ["22", "22.1", "22.01", "20", "x", "22."] {
            assert_eq!(of_lost_carry(text), None, "{text}");
        }
        assert_eq!((written_unit("46 GB/s"), written_unit("46")), (Some("GB/s"), None));
    }

    #[test]
    fn what_is_no_figure_is_refused() {
        for text in ["", "-1", "nan", "inf", "1e6", "1.2.3", "1,2", "1,", ".5", "5.", "k", "é"] {
            assert!(rate(text).is_err(), "{text}");
            assert!(latency_ns(text).is_err(), "{text}");
        }
        for text in ["14 parsecs", "14kk", "14MB/s", &"9".repeat(65)] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert!(bandwidth("5 Mb/s").is_err() && bandwidth("5k").is_err());
        for text in ["0", "-1", "1.5", "4294967296", "x"] {
            assert!(count(text).is_err(), "{text}");
        }
        assert!(size("0").is_err() && size("4 parsecs").is_err() && yes_no("maybe").is_err());
    }

    #[test]
    fn block_sizes_are_powers_of_1024() {
        assert_eq!(size("4k"), Ok(Bytes::from_kib(4)));
        assert_eq!(size("16M"), Ok(Bytes::from_mib(16)));
    }

    #[test]
    fn each_unit_has_its_scale() {
        let value = |cell: CellResult<Figure>| cell.unwrap().value;
        for (unit, scale) in [
            ("", 1e3),
            ("ns", 1.0),
            ("nsec", 1.0),
            ("us", 1e3),
            ("usec", 1e3),
            ("\u{b5}s", 1e3),
            ("\u{3bc}s", 1e3),
            ("ms", 1e6),
            ("msec", 1e6),
            ("s", 1e9),
            ("sec", 1e9),
        ] {
            assert_eq!(value(latency_ns(&format!("3 {unit}"))), 3.0 * scale, "{unit}");
        }
        for (unit, scale) in [
            ("B/s", 1.0),
            ("kB/s", 1e3),
            ("KB/s", 1e3),
            ("MB/s", 1e6),
            ("", 1e6),
            ("GB/s", 1e9),
            ("KiB/s", 1024.0),
            ("MiB/s", 1_048_576.0),
            ("GiB/s", 1_073_741_824.0),
        ] {
            assert_eq!(value(bandwidth(&format!("3{unit}"))), 3.0 * scale, "{unit}");
        }
        for (unit, scale) in [("", 1.0), ("k", 1e3), ("K", 1e3), ("m", 1e6), ("M IOPS", 1e6)] {
            assert_eq!(value(rate(&format!("3{unit}"))), 3.0 * scale, "{unit}");
        }
    }

    #[test]
    fn a_last_digit_counts_what_stands_behind_it() {
        let unit = |text: &str| {
            let (figure, _) = digits(text).unwrap();
            figure.high - figure.value
        };
        for (text, expected) in [
            ("7", 1.0),
            ("10", 10.0),
            ("1200", 100.0),
            ("1201", 1.0),
            ("0", 1.0),
            ("00", 1.0),
            ("20.0", 0.1),
            ("20.00", 0.01),
        ] {
            assert!((unit(text) - expected).abs() < 1e-12, "{text}");
        }
    }

    #[test]
    fn commas_part_thousands_and_nothing_else() {
        let value = |text: &str| digits(text).map(|(figure, _)| figure.value);
        assert_eq!(value("1,234,567"), Some(1_234_567.0));
        assert_eq!((value("12,345.5"), value("123,456")), (Some(12_345.5), Some(123_456.0)));
        for text in ["1234,567", ",123", "12,34", "1,2345", "1.234,567", "1,234.5,6"] {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!(value(&"1".repeat(64)).map(f64::log10).map(f64::floor), Some(63.0));
        assert_eq!(value(&"1".repeat(65)), None);
    }

    #[test]
    fn counts_sizes_times_and_answers_are_what_they_say() {
        assert_eq!((count("1"), count("4294967295")), (Ok(1), Ok(u32::MAX)));
        assert_eq!(size("64MB"), Ok(Bytes::new(64_000_000)));
        assert_eq!(
            (duration("60"), duration("5m")),
            (Ok(Nanos::from_secs(60)), Ok(Nanos::from_secs(300)))
        );
        assert!(duration("soon").is_err());
        for (text, answer) in [
            ("yes", true),
            ("True", true),
            ("1", true),
            ("no", false),
            ("FALSE", false),
            ("0", false),
        ] {
            assert_eq!(yes_no(text), Ok(answer), "{text}");
        }
        let carry = of_lost_carry("7.0").unwrap();
        assert!((carry.value - 7.975).abs() < 1e-12, "{carry:?}");
    }
}
