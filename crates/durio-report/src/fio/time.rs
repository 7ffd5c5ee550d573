//! Times as fio prints them: `Sun Nov 22 10:16:31 2026`.
//!
//! In: a time. Out: text in UTC, where fio has the local time. Not here: time zones.

use std::time::SystemTime;

use durio_record::FolderName;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// The first of 1970 was a Thursday.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const SECONDS_PER_DAY: u64 = 86_400;

pub(super) fn of_day(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let day = usize::try_from(since.as_secs() / SECONDS_PER_DAY % 7).unwrap_or(0);
    let day = DAYS.get(day).copied().unwrap_or_default();
    // 2026-11-22T10:16:31.000Z
    let text = FolderName::rfc3339(time);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let number = |range| part(range).parse::<usize>().unwrap_or(0);
    let month = MONTHS.get(number(5..7).saturating_sub(1)).copied().unwrap_or_default();
    format!("{day} {month} {:2} {} {}", number(8..10), part(11..19), part(0..4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_as_ctime_writes_them() {
        let at = |seconds| of_day(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        // date -u -d @N '+%a %b %e %H:%M:%S %Y'
        assert_eq!(at(1_795_342_591), "Sun Nov 22 10:16:31 2026");
        assert_eq!(at(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(at(0), "Thu Jan  1 00:00:00 1970");
    }
}
