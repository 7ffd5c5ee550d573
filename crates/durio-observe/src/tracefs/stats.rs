//! What a ring buffer could not keep: `per_cpu/cpu*/stats`.

use durio_units::Nanos;

use super::text::seconds;

/// The state of the buffer of one processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferStats {
    /// Events that were overwritten or dropped.
    pub lost: u64,
    /// The time of the oldest event that is still there, on the clock of the trace; before it this
    /// processor's events are incomplete if any was lost.
    pub oldest: Option<Nanos>,
    /// The same of a clock whose times are no nanoseconds, in its ticks.
    pub oldest_ticks: Option<u64>,
}

/// Reads the text of a `stats` file; what is absent counts as zero, for kernels differ in the lines
/// that they show.
#[must_use]
pub fn parse_buffer_stats(text: &str) -> BufferStats {
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    let count = |name: &str| value(name).and_then(|text| text.parse().ok()).unwrap_or(0_u64);
    let lost = ["overrun", "commit overrun", "dropped events"].map(count);
    BufferStats {
        lost: lost.into_iter().fold(0, u64::saturating_add),
        oldest: value("oldest event ts").and_then(seconds),
        oldest_ticks: value("oldest event ts").and_then(|text| text.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_of_losing_events_are_counted() {
        let text = "entries: 21\noverrun: 4\ncommit overrun: 1\nbytes: 1116\n\
            oldest event ts: 12724.461424\nnow ts: 12724.523515\ndropped events: 2\n\
            read events: 0\n";
        let oldest = Some(Nanos::new(12_724_461_424_000));
        let expected = BufferStats { lost: 7, oldest, oldest_ticks: None };
        assert_eq!(parse_buffer_stats(text), expected);
        let ticks = parse_buffer_stats("overrun: 1\noldest event ts: 62040983613409\n");
        let oldest_ticks = Some(62_040_983_613_409);
        assert_eq!(ticks, BufferStats { lost: 1, oldest: None, oldest_ticks });
    }

    #[test]
    fn odd_texts_lose_nothing() {
        for text in ["", "overrun", "overrun: x", "overrun: -1", "\0: 1", "oldest event ts: x"] {
            assert_eq!(parse_buffer_stats(text), BufferStats::default(), "{text}");
        }
        let huge = parse_buffer_stats("overrun: 18446744073709551615\ndropped events: 9");
        assert_eq!(huge.lost, u64::MAX);
    }
}
