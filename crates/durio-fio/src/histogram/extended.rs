//! The few operations of x86's extended floating point with which fio finds a percentile.
//!
//! In: a percentage and a count. Out: the count that must be reached, as fio gets it. fio's source
//! says `(long double) percent / 100.0 * count`; its Makefile has it compiled with `-ffast-math`, and
//! so fio computes (count × 0.01) × percent, with 64 bits of mantissa, rounded to nearest, ties to
//! even (seen in the machine code of Debian's fio 3.33 and of fio 3.42 built with gcc). Not here:
//! other machines, whose `long double` may differ where a percentage falls on a sample. Doubles do
//! not do: 14 % of 50 samples are 8 samples in doubles, and 7 in fio.

/// `mantissa` × 2^`exponent`; the mantissa's highest bit is set unless the value is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extended {
    mantissa: u64,
    exponent: i32,
}

impl Extended {
    /// 0.01, rounded.
    pub(super) const HUNDREDTH: Self = Self { mantissa: 0xa3d7_0a3d_70a3_d70a, exponent: -70 };

    /// The value of a positive finite double, exactly.
    pub(super) fn from_double(value: f64) -> Self {
        let bits = value.to_bits();
        let fraction = bits & ((1 << 52) - 1);
        let stored = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
        let (mantissa, exponent) = match stored {
            0 => (fraction, -1074),
            stored => (fraction | (1 << 52), stored - 1075),
        };
        Self::rounded(mantissa.into(), exponent)
    }

    /// The value of a count, exactly.
    pub(super) fn from_count(value: u64) -> Self {
        Self::rounded(value.into(), 0)
    }

    /// The product, rounded.
    pub(super) fn times(self, factor: Self) -> Self {
        let product = u128::from(self.mantissa) * u128::from(factor.mantissa);
        Self::rounded(product, self.exponent.saturating_add(factor.exponent))
    }

    /// The smallest whole number that is not below the value; `u128::MAX` if that has more bits.
    pub(super) fn ceiling(self) -> u128 {
        let mantissa = u128::from(self.mantissa);
        let places = self.exponent.unsigned_abs();
        if mantissa == 0 {
            0
        } else if self.exponent < 0 {
            // 64 places down to nothing: a positive value below 1.
            if places >= 64 { 1 } else { mantissa.div_ceil(1 << places) }
        } else if places < 64 {
            mantissa << places
        } else {
            u128::MAX
        }
    }

    /// `value` × 2^`exponent` to 64 bits.
    fn rounded(value: u128, exponent: i32) -> Self {
        let bits = 128 - value.leading_zeros();
        let Some(surplus) = bits.checked_sub(64).filter(|&surplus| surplus > 0) else {
            return Self::shifted_up(value, 64 - bits, exponent);
        };
        let (kept, half) = (value >> surplus, 1_u128 << (surplus - 1));
        let rest = value & ((1 << surplus) - 1);
        let up = rest > half || (rest == half && kept & 1 == 1);
        let exponent = exponent.saturating_add_unsigned(surplus);
        match u64::try_from(kept + u128::from(up)) {
            Ok(mantissa) => Self { mantissa, exponent },
            Err(_) => Self { mantissa: 1 << 63, exponent: exponent + 1 },
        }
    }

    fn shifted_up(value: u128, places: u32, exponent: i32) -> Self {
        let mantissa = u64::try_from(value << (places % 64)).unwrap_or(u64::MAX);
        Self { mantissa, exponent: exponent.saturating_sub_unsigned(places % 64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(percent: f64, total: u64) -> u128 {
        let count = Extended::HUNDREDTH.times(Extended::from_count(total));
        count.times(Extended::from_double(percent)).ceiling()
    }

    #[test]
    fn whole_shares_are_whole() {
        assert_eq!(needed(50.0, 200), 100);
        assert_eq!(needed(100.0, 1_000_000_007), 1_000_000_007);
        assert_eq!(needed(25.0, 4), 1);
        assert_eq!(needed(12.5, 17), 3);
    }

    #[test]
    fn fourteen_percent_of_50_samples_are_7_as_in_fio_and_unlike_in_doubles() {
        assert_eq!((14.0_f64 / 100.0 * 50.0).ceil(), 8.0);
        assert_eq!(needed(14.0, 50), 7);
        assert_eq!((needed(30.0, 50), needed(30.0, 100)), (15, 30));
    }

    #[test]
    fn known_answers_of_a_c_compiler_s_long_double() {
        // ceill(total * 0.01L * percent), gcc on x86-64.
        let known = [
            (88.81038698471436, 2_222_085_222_797_998_944, 1_973_442_485_497_055_047),
            (24.988070565833553, 208_851_156, 52_187_875),
        ];
        for (percent, total, expected) in known {
            assert_eq!(needed(percent, total), expected);
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(needed(f64::MIN_POSITIVE, 1), 1);
        assert_eq!(needed(f64::from_bits(1), u64::MAX), 1);
        assert_eq!(needed(1e-300, u64::MAX), 1);
        assert_eq!(needed(f64::MAX, u64::MAX), u128::MAX);
        assert_eq!(needed(50.0, 0), 0);
    }

    #[test]
    fn the_hundredth_is_the_nearest_of_64_bits() {
        // 2^70 / 100 lies between two whole numbers of 64 bits.
        let (below, rest) = ((1_u128 << 70) / 100, (1_u128 << 70) % 100);
        assert!(rest < 50);
        assert_eq!(u128::from(Extended::HUNDREDTH.mantissa), below);
    }
}
