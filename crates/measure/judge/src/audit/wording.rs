//! Formats quantities for the sentences of findings, with units.

/// A number with four significant digits, without meaningless zeros.
pub(super) fn number(value: f64) -> String {
    let rounded = significant(value, 4);
    let magnitude = if rounded == 0.0 { 0.0 } else { rounded.abs().log10().floor() };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 9")]
    let decimals = (3.0 - magnitude).clamp(0.0, 9.0) as usize;
    let text = format!("{rounded:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Events per second.
pub(super) fn rate(per_second: f64) -> String {
    let (scale, unit) = scale(per_second, &[(1e6, "M"), (1e3, "k")]);
    format!("{}{unit}/s", number(per_second / scale))
}

pub(super) fn time(nanos: f64) -> String {
    let units = [(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")];
    let (scale, unit) = scale(nanos, &units);
    format!("{}{unit}", number(nanos / scale))
}

/// Bytes per second in powers of 1000, as most tools print it.
pub(super) fn bandwidth(bytes_per_second: f64) -> String {
    // GB/s only from ten: rows of one table compare better in one unit.
    let units = [(1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s")];
    let skipped = usize::from(bytes_per_second < 1e10);
    let (scale, unit) = scale(bytes_per_second, units.get(skipped..).unwrap_or(&units));
    format!("{}{unit}", number(bytes_per_second / scale))
}

/// A share as per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", number(significant(share * 100.0, 3)))
}

fn scale<'a>(value: f64, units: &[(f64, &'a str)]) -> (f64, &'a str) {
    let fits = |(scale, _): &&(f64, &str)| value >= *scale;
    // A value below every unit is shown in the smallest one, or plain if no unit has scale 1.
    let least = units.last().filter(|(scale, _)| *scale == 1.0);
    units.iter().find(fits).or(least).copied().unwrap_or((1.0, ""))
}

/// Rounded to `digits` significant digits; NaN and infinity become zero, because JSON has neither.
pub(super) fn significant(value: f64, digits: usize) -> f64 {
    match value.is_finite() {
        true => format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value),
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_a_unit() {
        assert_eq!(number(14.36412), "14.36");
        assert_eq!(
            (number(0.0), number(96.0), number(123_456.0)),
            ("0".into(), "96".into(), "123500".into())
        );
        assert_eq!(rate(56_800.0), "56.8k/s");
        assert_eq!((rate(12.0), rate(2.7e6)), ("12/s".into(), "2.7M/s".into()));
        assert_eq!((time(70_930.0), time(0.5)), ("70.93 µs".into(), "0.5 ns".into()));
        assert_eq!((bandwidth(584e6), bandwidth(1328e6)), ("584 MB/s".into(), "1328 MB/s".into()));
        assert_eq!(bandwidth(584e9), "584 GB/s");
        assert_eq!(percent(0.46181), "46.2 %");
        assert_eq!((number(f64::NAN), number(1e300)).0, "0");
    }
}
