//! Numbers as fio shortens them: `23.3k`, `90.9MiB`.
//!
//! In: a number, how many characters it may take, the unit. Out: text. Not here: tables.

/// By which number a prefix stands for the next larger unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefixes {
    /// k, M, G: thousands.
    Decimal,
    /// Ki, Mi, Gi: 1024 each.
    Binary,
}

const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// At most `characters` digits and point, with prefix and `unit`. The number is cut step by step to
/// whole units, and the rest of the last step gives the digits behind the point, as in fio: what
/// lies below it is gone, and a rest that rounds up to one carries.
pub(super) fn short(number: u64, characters: usize, prefixes: Prefixes, unit: &str) -> String {
    let (step, names) = match prefixes {
        Prefixes::Decimal => (1000, DECIMAL),
        Prefixes::Binary => (1024, BINARY),
    };
    let (mut whole, mut rest, mut prefix) = (number, None, 0);
    while digits(whole) > characters && prefix + 1 < names.len() {
        rest = Some(whole % step);
        whole /= step;
        prefix += 1;
    }
    let name = names.get(prefix).copied().unwrap_or_default();
    let Some(rest) = rest else { return format!("{whole}{name}{unit}") };
    let room = characters.saturating_sub(digits(whole));
    if room <= 1 {
        let carried = whole + u64::from(rest >= step / 2);
        return format!("{carried}{name}{unit}");
    }
    #[expect(clippy::cast_precision_loss, reason = "below 1024")]
    let fraction = format!("{:.*}", room - 1, rest as f64 / step as f64);
    let carry = u64::from(fraction.starts_with('1'));
    let behind = fraction.get(2..).unwrap_or_default();
    format!("{}.{behind}{name}{unit}", whole + carry)
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_fio_makes_them() {
        let rate = |number| short(number, 4, Prefixes::Decimal, "");
        assert_eq!([0, 1022, 9999, 10_000].map(rate), ["0", "1022", "9999", "10.0k"]);
        assert_eq!([23_272, 127_150, 222_256].map(rate), ["23.3k", "127k", "222k"]);
        // The rest rounds up to one.
        assert_eq!([99_999, 999_999].map(rate), ["100.0k", "1000k"]);
        let binary = |number| short(number, 4, Prefixes::Binary, "B/s");
        assert_eq!([4_190_113, 95_325_090].map(binary), ["4092KiB/s", "90.9MiB/s"]);
        let decimal = |number| short(number, 4, Prefixes::Decimal, "B/s");
        assert_eq!([4_190_113, 95_325_090].map(decimal), ["4190kB/s", "95.3MB/s"]);
        assert_eq!(short(u64::MAX, 4, Prefixes::Binary, "B"), "16.0EiB");
    }
}
