//! Numbers and moments as people read them: three digits and a unit; times in UTC, which manifests
//! have as RFC 3339; and the ends of long paths.

use std::time::{Duration, UNIX_EPOCH};

use durio_analyse::cost_model::Estimate;
pub(crate) use durio_base::counted;
use durio_base::{Bytes, Nanos, Rate};

pub(crate) fn latency(nanos: u64) -> String {
    Nanos::new(nanos).to_string()
}

/// A latency, or the sign that it is absent.
pub(crate) fn latency_or_absent(nanos: Option<u64>) -> String {
    nanos.map_or_else(|| "-".to_owned(), latency)
}

/// A latency that is a mean, to the nanosecond.
pub fn mean_latency(nanos: f64) -> String {
    latency(whole(nanos))
}

/// Events per second, with `/s`.
pub fn rate(per_second: f64) -> String {
    // Rates are made of counts; a thousandth of an event per second is precise enough to print.
    Rate::of(whole(per_second * 1000.0), Nanos::from_secs(1000)).to_string()
}

/// Events per second, where the words around say so.
pub fn rate_bare(per_second: f64) -> String {
    rate(per_second).trim_end_matches("/s").trim_end().to_owned()
}

pub(crate) fn bandwidth(bytes_per_second: f64) -> String {
    format!("{}/s", size(bytes_per_second))
}

/// A share of one as per cent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A share of one as per cent with three digits, because in tables a thousandth may matter.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        it if !it.is_finite() => "unknown".to_owned(),
        // The borders are where rounding would give a fourth digit.
        it if it >= 99.95 => format!("{it:.0} %"),
        it if it >= 9.995 => format!("{it:.1} %"),
        it => format!("{it:.2} %"),
    }
}

/// A time that was added, with its sign.
pub(crate) fn added(nanos: f64) -> String {
    let sign = if nanos < 0.0 { "-" } else { "+" };
    match nanos.abs() < 0.5 {
        // Less than half a nanosecond rounds to nothing, and nothing has no sign.
        true => "0 ns".to_owned(),
        false => format!("{sign}{}", mean_latency(nanos.abs())),
    }
}

/// A deviation as per cent, with its sign.
pub fn deviation(share: f64) -> String {
    match share.is_finite() {
        // No sign before zero, which rounding gives one.
        true if (share * 100.0).abs() < 0.05 => "0.0 %".to_owned(),
        true => format!("{:+.1} %", share * 100.0),
        false => "unknown".to_owned(),
    }
}

/// A size computed as a float, in whole bytes.
pub(crate) fn size(bytes: f64) -> String {
    Bytes::new(whole(bytes)).to_string()
}

/// A time that was fitted, and how far it may be off.
pub(crate) fn estimate(it: &Estimate, times: f64) -> String {
    let value = mean_latency(it.value * times);
    match it.plus_minus {
        Some(error) => format!("{value} ± {}", mean_latency(error * times)),
        None => value,
    }
}

/// A number with two decimals, without those that say nothing.
pub(crate) fn decimal(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A count as a float.
#[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days, 2^53 bytes are 8 PiB")]
pub const fn precise(count: u64) -> f64 {
    count as f64
}

/// `3.4 ×`; whole from 100 on.
pub fn factor(times: f64) -> String {
    match times {
        it if !it.is_finite() => "unknown".to_owned(),
        it if it >= 99.95 => format!("{it:.0} ×"),
        it if it >= 9.995 => format!("{it:.1} ×"),
        it => format!("{it:.2} ×"),
    }
}

/// Bars from zero to the highest value, one for each.
pub(crate) fn sparkline(figures: &[f64]) -> String {
    sparkline_below(figures, figures.iter().copied().fold(0.0, f64::max))
}

/// The same, where the highest bar stands for `highest`.
pub(crate) fn sparkline_below(figures: &[f64], highest: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let bar = |figure: &f64| {
        let eighths = (figure / highest * 8.0).ceil() as usize;
        // The lowest bar for nothing too: lines are broken at blanks.
        BARS[eighths.clamp(1, 8) - 1]
    };
    figures.iter().map(bar).collect()
}

/// Values by their common key, in order of first use.
pub(crate) fn grouped<K: PartialEq, V>(
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// The nearest whole number; zero for a negative number or NaN.
#[expect(clippy::cast_possible_truncation, reason = "saturates; printed only")]
#[expect(clippy::cast_sign_loss, reason = "negative numbers become zero")]
pub(crate) fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// A location as readers see it; scripted targets have none.
pub(crate) fn location_name(location: &str) -> &str {
    if location.is_empty() { "no location" } else { location }
}

/// The end of the year 9999, after which RFC 3339 has no times.
const LAST_SECOND: f64 = 253_402_300_799.0;

/// Seconds since 1970; `None` if the text is not a time, or one before.
pub(crate) fn seconds(rfc3339: &str) -> Option<f64> {
    let time = humantime::parse_rfc3339(rfc3339).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64())
}

/// `2026-11-23 15:27:32` of seconds since 1970.
pub(crate) fn utc(seconds: f64) -> String {
    let since = Duration::try_from_secs_f64(seconds.clamp(0.0, LAST_SECOND)).unwrap_or_default();
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string();
    text.trim_end_matches('Z').replace('T', " ")
}

/// `2026-11-23 15:27` of a time as manifests have it.
pub(crate) fn minute(started: &str) -> String {
    started.get(..16).unwrap_or(started).replace('T', " ")
}

/// `2026-11-23 15:27:32` of a time as manifests have it.
pub(crate) fn second(started: &str) -> String {
    started.get(..19).unwrap_or(started).replace('T', " ")
}

/// The last characters of a path.
pub(crate) fn cut(path: &str, most: usize) -> String {
    let letters: Vec<char> = path.chars().collect();
    match letters.len() > most {
        true => format!("…{}", letters[letters.len() + 1 - most..].iter().collect::<String>()),
        false => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(latency(207_300), "207 µs");
        assert_eq!(latency_or_absent(None), "-");
        assert_eq!(mean_latency(1_234_567.8), "1.23 ms");
        assert_eq!(rate(7_123.4), "7.12 k/s");
        assert_eq!(bandwidth(8192.0 * 1000.0), "7.81 MiB/s");
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(deviation(-0.004), "-0.4 %");
        assert_eq!((deviation(-0.0004), deviation(0.02)), ("0.0 %".into(), "+2.0 %".into()));
        assert_eq!(decimal(31.90), "31.9");
        assert_eq!((counted(1, "job"), counted(2, "job")), ("1 job".into(), "2 jobs".into()));
    }

    #[test]
    fn a_bare_rate_leaves_its_unit_to_the_words_around() {
        assert_eq!(rate_bare(7_123.4), "7.12 k");
        assert_eq!(rate_bare(7.0), "7");
        assert_eq!(rate_bare(0.5), "0.5");
    }

    #[test]
    fn shares_keep_the_digits_that_matter() {
        let shown = [1.0, 0.998, 0.2744, 0.0274, 0.00072, 1.37].map(share);
        assert_eq!(shown, ["100 %", "99.8 %", "27.4 %", "2.74 %", "0.07 %", "137 %"]);
        assert_eq!(share(f64::NAN), "unknown");
    }

    #[test]
    fn what_is_added_has_a_sign() {
        assert_eq!([1500.0, -2e6, 0.2, -0.4].map(added), ["+1.5 µs", "-2 ms", "0 ns", "0 ns"]);
    }

    #[test]
    fn what_is_no_number_is_not_printed_as_one() {
        assert_eq!(rate(f64::NAN), "0 /s");
        assert_eq!(deviation(f64::NAN), "unknown");
        assert_eq!(deviation(f64::INFINITY), "unknown");
    }

    #[test]
    fn three_digits_are_kept_on_both_sides_of_ten_and_of_a_hundred() {
        let shown = [9.994, 9.996, 99.94, 99.96, 1234.4].map(factor);
        assert_eq!(shown, ["9.99 ×", "10.0 ×", "99.9 ×", "100 ×", "1234 ×"]);
        assert_eq!(factor(f64::INFINITY), "unknown");
        let shown = [0.099_94, 0.099_96, 0.999_4, 0.999_6].map(share);
        assert_eq!(shown, ["9.99 %", "10.0 %", "99.9 %", "100 %"]);
    }

    #[test]
    fn an_estimate_and_how_far_it_may_be_off_are_of_as_many() {
        let of = |plus_minus| estimate(&Estimate { value: 1000.0, plus_minus }, 3.0);
        assert_eq!(of(Some(250.0)), "3 µs ± 750 ns");
        assert_eq!(of(None), "3 µs");
    }

    #[test]
    fn bars_reach_from_nothing_to_the_highest_in_eighths() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 5.0, 8.0]), "▁▁▂▅█");
        assert_eq!(sparkline_below(&[2.0, 4.0, 8.0], 16.0), "▁▂▄");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        // A value above some eighths reaches into the next one.
        assert_eq!(sparkline(&[0.1, 1.1, 3.9, 6.5, 7.2, 8.0]), "▁▂▄▇██");
    }

    #[test]
    fn a_time_is_shown_to_the_minute_or_the_second() {
        assert_eq!(minute("2026-11-23T15:27:32.115Z"), "2026-11-23 15:27");
        assert_eq!(second("2026-11-23T15:27:32.115Z"), "2026-11-23 15:27:32");
        assert_eq!([minute("?"), second("?")], ["?", "?"]);
    }

    #[test]
    fn a_time_becomes_seconds_and_is_written_back_in_utc() {
        assert_eq!(seconds("1970-01-02T00:00:01.5Z"), Some(86_401.5));
        assert_eq!(seconds("?"), None);
        assert_eq!(seconds("1969-12-31T23:59:59Z"), None);
        assert_eq!(utc(86_401.5), "1970-01-02 00:00:01");
        assert_eq!(utc(f64::INFINITY), "9999-12-31 23:59:59");
        assert_eq!(utc(f64::NAN), "1970-01-01 00:00:00");
    }
}
