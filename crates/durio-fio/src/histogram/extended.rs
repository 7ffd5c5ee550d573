//! The few operations of x86's extended floating point with which fio finds a percentile.
//!
//! In: a percentage and a count. Out: the count that must be reached, as fio gets it with
//! `long double` on x86 (64 bits of mantissa, rounded to nearest, ties to even). Not here: other
//! machines' `long double`, which may differ where a percentage falls on a sample.
//! Doubles do not do: 30 % of 100
//! samples are 30 in doubles and slightly more in fio, which then takes the 31st.

/// `mantissa` × 2^`exponent`; the mantissa's highest bit is set unless the value is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extended {
    mantissa: u64,
    exponent: i32,
}

impl Extended {
    /// The value of a positive finite double, exactly.
    pub(super) fn new(value: f64) -> Self {
        let bits = value.to_bits();
        let fraction = bits & ((1 << 52) - 1);
        let stored = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
        let (mantissa, exponent) = match stored {
            0 => (fraction, -1074),
            stored => (fraction | (1 << 52), stored - 1075),
        };
        Self::rounded(mantissa.into(), false, exponent)
    }

    pub(super) fn divided_by_100(self) -> Self {
        let dividend = u128::from(self.mantissa) << 63;
        Self::rounded(dividend / 100, dividend % 100 != 0, self.exponent - 63)
    }

    pub(super) fn times(self, factor: u64) -> Self {
        let product = u128::from(self.mantissa) * u128::from(factor);
        Self::rounded(product, false, self.exponent)
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

    /// `value` × 2^`exponent` to 64 bits; `more` if something below its last bit was cut off.
    fn rounded(value: u128, more: bool, exponent: i32) -> Self {
        let bits = 128 - value.leading_zeros();
        let Some(surplus) = bits.checked_sub(64).filter(|&surplus| surplus > 0) else {
            return Self::shifted_up(value, 64 - bits, exponent);
        };
        let (kept, half) = (value >> surplus, 1_u128 << (surplus - 1));
        let rest = value & ((1 << surplus) - 1);
        let up = rest > half || (rest == half && (more || kept & 1 == 1));
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
        Extended::new(percent).divided_by_100().times(total).ceiling()
    }

    #[test]
    fn whole_shares_are_whole() {
        assert_eq!(needed(50.0, 200), 100);
        assert_eq!(needed(100.0, u64::MAX), u128::from(u64::MAX));
        assert_eq!(needed(25.0, 4), 1);
        assert_eq!(needed(12.5, 17), 3);
    }

    #[test]
    fn thirty_percent_of_a_hundred_need_31_samples_as_in_fio_and_unlike_in_doubles() {
        assert_eq!(30.0 / 100.0 * 100.0, 30.0);
        assert_eq!(needed(30.0, 100), 31);
        assert_eq!(needed(30.0, 90_000), 27_001);
    }

    #[test]
    fn known_answers_of_a_c_compiler_s_long_double() {
        // ceill((long double)percent / 100.0 * total), gcc on x86-64.
        let known = [
            (53.316_398_247_658_41, 679_474_992, 362_271_593),
            (59.363_332_015_297_175, 36_182_239_194_748_152, 21_478_982_783_747_333),
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
    fn a_quotient_is_rounded_to_the_nearest_of_64_bits() {
        // 1 / 100 = 0.a3d70a3d70a3d70a|3d70.. × 2^-6: the rest is below a half.
        let hundredth = Extended::new(1.0).divided_by_100();
        assert_eq!(hundredth, Extended { mantissa: 0xa3d7_0a3d_70a3_d70a, exponent: -70 });
    }
}
