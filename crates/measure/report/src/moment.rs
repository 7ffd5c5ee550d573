//! Moments, as manifests have them (RFC 3339) and as charts and people read them. All are in UTC.

use std::time::{Duration, UNIX_EPOCH};

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

#[cfg(test)]
mod tests {
    use super::*;

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
