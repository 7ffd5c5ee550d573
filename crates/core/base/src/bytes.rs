//! A count of bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ParseQuantityError;
use crate::number::{in_largest_unit, parse_scaled};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// A count of bytes, saved as an integer.
///
/// Read with `k`, `m`, `g`, `t` or `KiB`, `MiB`, `GiB`, `TiB` as powers of 1024 (as fio and dd do),
/// and with `kB`, `MB`, `GB`, `TB` as powers of 1000; without a unit, as bytes. `KB` is 1024 bytes, as
/// block sizes are written: the decimal prefix is a small k.
/// Printed in binary units.
///
/// ```
/// use durio_base::Bytes;
/// assert_eq!("8k".parse::<Bytes>().unwrap(), Bytes::from_kib(8));
/// assert_eq!("64MB".parse::<Bytes>().unwrap().get(), 64_000_000);
/// assert_eq!(Bytes::from_mib(256).to_string(), "256 MiB");
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    pub const ZERO: Self = Self(0);

    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// `count` × 1024 bytes.
    pub const fn from_kib(count: u64) -> Self {
        Self(count.saturating_mul(KIB))
    }

    /// `count` × 1024² bytes.
    pub const fn from_mib(count: u64) -> Self {
        Self(count.saturating_mul(MIB))
    }

    /// `count` × 1024³ bytes.
    pub const fn from_gib(count: u64) -> Self {
        Self(count.saturating_mul(GIB))
    }

    /// The count of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The largest multiple of `unit` that is not above this count.
    ///
    /// # Panics
    /// If `unit` is zero.
    #[must_use]
    pub const fn rounded_down_to(self, unit: Self) -> Self {
        Self(self.0 / unit.0 * unit.0)
    }

    /// True if this count is a whole multiple of `unit`; nothing is a multiple of zero.
    pub const fn is_multiple_of(self, unit: Self) -> bool {
        unit.0 != 0 && self.0.is_multiple_of(unit.0)
    }
}

// Powers of 1024, as these words are usually meant.
const UNIT_NAMES: [(&str, &str); 9] = [
    ("kilobytes", "KiB"),
    ("megabytes", "MiB"),
    ("gigabytes", "GiB"),
    ("terabytes", "TiB"),
    ("kibibytes", "KiB"),
    ("mebibytes", "MiB"),
    ("gibibytes", "GiB"),
    ("tebibytes", "TiB"),
    ("bytes", "B"),
];

fn unit_scale(unit: &str) -> Option<u64> {
    match unit {
        "" | "B" | "b" => Some(1),
        // Before the case-insensitive units: only these use case to mark decimal units.
        "kB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        "TB" => Some(1_000_000_000_000),
        _ => match unit.to_ascii_lowercase().as_str() {
            "k" | "ki" | "kib" | "kb" => Some(KIB),
            "m" | "mi" | "mib" => Some(MIB),
            "g" | "gi" | "gib" => Some(GIB),
            "t" | "ti" | "tib" => Some(TIB),
            _ => None,
        },
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = "a size such as 4096, 8k, 64MiB, 1g (powers of 1024) or 64MB (of 1000)";
        parse_scaled(text, expected, unit_scale, &UNIT_NAMES).map(Self)
    }
}

impl fmt::Display for Bytes {
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (1.0, "B"),
            (KIB as f64, "KiB"),
            (MIB as f64, "MiB"),
            (GIB as f64, "GiB"),
            (TIB as f64, "TiB"),
        ];
        // 2300 and 1000 are exact as bytes and would be rounded as KiB.
        if self.0 < 10 * KIB && !self.0.is_multiple_of(KIB) {
            return f.pad(&format!("{} B", self.0));
        }
        f.pad(&in_largest_unit(self.0 as f64, &units))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParseErrorKind;

    fn check(text: &str, expected: u64) {
        assert_eq!(text.parse::<Bytes>().map(Bytes::get), Ok(expected), "{text}");
    }

    fn check_refused(text: &str, kind: ParseErrorKind) {
        assert_eq!(text.parse::<Bytes>().unwrap_err().kind, kind, "{text}");
    }

    #[test]
    fn sizes_are_read_with_binary_and_decimal_units() {
        check("0", 0);
        check("4096", 4096);
        check("8k", 8192);
        check("8K", 8192);
        check("8KiB", 8192);
        check("8kB", 8000);
        check("4KB", 4096);
        check("4 kb", 4096);
        check("64MB", 64_000_000);
        check("1g", 1 << 30);
        check(" 1.5 GiB ", 3 << 29);
        check("16777215t", 16_777_215 << 40);
    }

    #[test]
    fn what_is_not_a_size_is_refused_with_its_reason() {
        check_refused("", ParseErrorKind::Empty);
        check_refused("  ", ParseErrorKind::Empty);
        check_refused("k", ParseErrorKind::NotANumber);
        check_refused("-1", ParseErrorKind::NotANumber);
        check_refused("1.k", ParseErrorKind::NotANumber);
        check_refused("1.2.3k", ParseErrorKind::NotANumber);
        check_refused("8 parsecs", ParseErrorKind::UnknownUnit);
        check_refused("8s", ParseErrorKind::UnknownUnit);
        check_refused("1e9", ParseErrorKind::UnknownUnit);
        check_refused("0.3", ParseErrorKind::NotWhole);
        check_refused("16777216t", ParseErrorKind::TooLarge);
        check_refused(&"9".repeat(60), ParseErrorKind::TooLarge);
    }

    #[test]
    fn a_unit_of_another_spelling_is_answered_with_the_one_that_is_meant() {
        let meant = |text: &str| text.parse::<Bytes>().unwrap_err().meant;
        for (text, expected) in [
            ("4kk", "4KiB"),
            ("1Gb", "1GiB"),
            ("1.5GG", "1.5GiB"),
            ("8 kilobytes", "8KiB"),
            ("1gig", "1GiB"),
            ("512bytes", "512B"),
        ] {
            assert_eq!(meant(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["8s", "1e9", "4elephants", "8 parsecs"] {
            assert_eq!(meant(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_printed_in_the_largest_fitting_unit() {
        let rows = [(0, "0 B"), (512, "512 B"), (2300, "2300 B"), (8192, "8 KiB")];
        for (count, text) in rows {
            assert_eq!(Bytes::new(count).to_string(), text);
        }
        assert_eq!(Bytes::from_gib(1).to_string(), "1 GiB");
        assert_eq!(Bytes::new(3 << 29).to_string(), "1.5 GiB");
    }
}
