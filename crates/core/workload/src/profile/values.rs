//! Values of a profile: TOML to sizes, times, words, mixes.
//!
//! An error is a sentence that says how to write the value.

use durio_base::{Bytes, Nanos, ParseQuantityError};
use toml::de::DeValue;

use super::{
    AccessOrderProfile, CachePath, FileHandling, LatencyFigure, Provenance, StreamPace,
    ThresholdBound, TimedOperation,
};
use crate::words::nearest_word;
use crate::{Arrivals, BlockShare, ClientThreads, LogWriter, Pattern, PerMille, Skew, SyncMethod};

/// Text; no empty one.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        // An empty name or source would pass for one that says something.
        DeValue::String(text) if !text.trim().is_empty() => Ok(text.to_string()),
        _ => Err("expected a text".to_owned()),
    }
}

pub(super) fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Array(array) => array.iter().map(|item| text(item.get_ref())).collect(),
        _ => Err("expected a list of texts".to_owned()),
    }
}

/// A number from 1 on.
pub(super) fn count(value: &DeValue<'_>) -> Result<u32, String> {
    let wrong = || "expected a whole number from 1 on".to_owned();
    match integer(value)? {
        0 => Err(wrong()),
        count => u32::try_from(count).map_err(|_| wrong()),
    }
}

fn integer(value: &DeValue<'_>) -> Result<u64, String> {
    let wrong = || "expected a whole number".to_owned();
    let DeValue::Integer(number) = value else { return Err(wrong()) };
    u64::from_str_radix(number.as_str(), number.radix()).map_err(|_| wrong())
}

pub(super) fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    match value {
        DeValue::Boolean(flag) => Ok(*flag),
        _ => Err("expected true or false".to_owned()),
    }
}

/// "64KiB", with its unit.
pub(super) fn bytes(value: &DeValue<'_>) -> Result<Bytes, String> {
    with_unit(&text(value)?)
}

fn with_unit(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|error: ParseQuantityError| error.to_string())?;
    match text.trim().ends_with(char::is_alphabetic) && bytes > Bytes::ZERO {
        true => Ok(bytes),
        false => Err(format!("'{text}' is no size; write it as \"4KiB\"")),
    }
}

/// "4KiB", or "none".
pub(super) fn padding(value: &DeValue<'_>) -> Result<Bytes, String> {
    match text(value)?.as_str() {
        "none" => Ok(Bytes::ZERO),
        text => with_unit(text),
    }
}

/// "10ms", with its unit.
pub(super) fn time(value: &DeValue<'_>) -> Result<Nanos, String> {
    let text = text(value)?;
    let span: Nanos = text.parse().map_err(|error: ParseQuantityError| error.to_string())?;
    // Bare, it would be seconds.
    match text.trim().ends_with(char::is_alphabetic) {
        true => Ok(span),
        false => Err(format!("'{text}' has no unit; write it as \"10ms\"")),
    }
}

fn word<T: Copy>(words: &[(&str, T)], value: &DeValue<'_>) -> Result<T, String> {
    let text = text(value)?;
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let meant = nearest_word(&text, known.iter().copied());
        let meant = meant.map_or(String::new(), |word| format!("; did you mean '{word}'?"));
        format!("'{}' is none of {}{meant}", text.escape_debug(), known.join(", "))
    })
}

pub(super) fn file(value: &DeValue<'_>) -> Result<FileHandling, String> {
    word(&FileHandling::WORDS, value)
}

pub(super) fn cache(value: &DeValue<'_>) -> Result<CachePath, String> {
    word(&CachePath::WORDS, value)
}

pub(super) fn client_threads(value: &DeValue<'_>) -> Result<ClientThreads, String> {
    word(&ClientThreads::WORDS, value)
}

pub(super) fn log_writer(value: &DeValue<'_>) -> Result<LogWriter, String> {
    word(&LogWriter::WORDS, value)
}

pub(super) fn sync(value: &DeValue<'_>) -> Result<SyncMethod, String> {
    let words: Vec<(&str, SyncMethod)> =
        SyncMethod::ALL.iter().map(|method| (method.name(), *method)).collect();
    word(&words, value)
}

pub(super) fn provenance(value: &DeValue<'_>) -> Result<Provenance, String> {
    word(&Provenance::WORDS, value)
}

/// "sequential", "random" or "zipf:0.99".
pub(super) fn access(value: &DeValue<'_>) -> Result<AccessOrderProfile, String> {
    let text = text(value)?;
    let of = |pattern, skew| Ok(AccessOrderProfile { pattern, skew });
    match (text.as_str(), text.strip_prefix("zipf:").and_then(thousandths)) {
        ("sequential", _) => of(Pattern::Sequential, Skew::Uniform),
        ("random", _) => of(Pattern::Random, Skew::Uniform),
        (_, Some(theta_per_mille)) => of(Pattern::Random, Skew::Zipf { theta_per_mille }),
        (text, None) => {
            let text = text.escape_debug();
            Err(format!("'{text}' is no access; write it as sequential, random or zipf:0.99"))
        }
    }
}

/// 990 of "0.99"; at most three decimals.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 3 || whole.len() > 2 {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let fraction: u32 = format!("{fraction:0<3}").parse().ok()?;
    Some(whole * 1000 + fraction)
}

/// "unlimited", "500/s" or "32MB/s".
pub(super) fn pace(value: &DeValue<'_>) -> Result<StreamPace, String> {
    let text = text(value)?;
    let wrong =
        || format!("'{}' is no rate; write it as unlimited, 500/s or 32MB/s", text.escape_debug());
    if text == "unlimited" {
        return Ok(StreamPace::Unlimited);
    }
    let amount = text.strip_suffix("/s").ok_or_else(wrong)?.trim();
    // Only a size has a unit before the slash.
    if !amount.bytes().all(|it| it.is_ascii_digit() || it == b'.') {
        return with_unit(amount).map(StreamPace::BytesPerSecond).map_err(|_| wrong());
    }
    let rate_per_second: f64 = amount.parse().map_err(|_| wrong())?;
    let arrivals = Arrivals::Constant { rate_per_second };
    arrivals.validate().map(|()| StreamPace::PerSecond(rate_per_second)).map_err(|error| error.0)
}

/// `{ "4KiB" = 700, "8KiB" = 300 }`, the larger ones after the smaller.
pub(super) fn mix(value: &DeValue<'_>) -> Result<Vec<BlockShare>, String> {
    let DeValue::Table(table) = value else {
        return Err("expected sizes by weight: { \"4KiB\" = 700, \"8KiB\" = 300 }".to_owned());
    };
    let mut shares = Vec::new();
    for (size, weight) in table {
        let weight = integer(weight.get_ref()).ok().and_then(|weight| u16::try_from(weight).ok());
        let weight = weight.filter(|weight| (1..=1000).contains(weight));
        let weight = weight.ok_or("weights are thousandths, 1 to 1000")?;
        shares.push(BlockShare { size: with_unit(size.get_ref())?, weight: PerMille(weight) });
    }
    // Tables of TOML have no order, and the order of a mix decides which draw gives which size.
    shares.sort_by_key(|share| share.size);
    if shares.is_empty() {
        return Err("a mix needs at least one size".to_owned());
    }
    Ok(shares)
}

/// What a threshold limits: "p99 of sync", "operations per cpu", "bytes per cpu".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThresholdFigure {
    Latency(LatencyFigure, TimedOperation),
    OperationsPerCpu,
    BytesPerCpu,
}

pub(super) fn figure(value: &DeValue<'_>) -> Result<ThresholdFigure, String> {
    let text = text(value)?;
    match text.as_str() {
        "operations per cpu" => return Ok(ThresholdFigure::OperationsPerCpu),
        "bytes per cpu" => return Ok(ThresholdFigure::BytesPerCpu),
        _ => {}
    }
    let find = || {
        let (figure, operation) = text.split_once(" of ")?;
        let figure = LatencyFigure::WORDS.iter().find(|(word, _)| *word == figure)?.1;
        let operation = TimedOperation::WORDS.iter().find(|(word, _)| *word == operation)?.1;
        Some(ThresholdFigure::Latency(figure, operation))
    };
    find().ok_or_else(|| {
        format!(
            "'{}' is no figure; write it as \"p99 of sync\" (mean, p50, p99, p99.9, max; of sync, \
             commit, read, write), \"operations per cpu\" or \"bytes per cpu\"",
            text.escape_debug()
        )
    })
}

/// The limit of a statistic, from `below` or `at_least`.
pub(super) fn bound(
    figure: ThresholdFigure,
    below: Option<Nanos>,
    at_least: Option<String>,
) -> Result<ThresholdBound, String> {
    match (figure, below, at_least) {
        (ThresholdFigure::Latency(figure, operation), Some(limit), None) if limit > Nanos::ZERO => {
            Ok(ThresholdBound::LatencyBelow { operation, figure, limit })
        }
        (ThresholdFigure::Latency(..), _, _) => {
            Err("a latency has a limit 'below' and none 'at_least'".to_owned())
        }
        (ThresholdFigure::OperationsPerCpu, None, Some(least)) => {
            let least: f64 = least.parse().map_err(|_| "at_least: expected a number")?;
            let is_good = least.is_finite() && least > 0.0;
            is_good
                .then_some(ThresholdBound::OperationsPerCpu { at_least_per_second: least })
                .ok_or_else(|| "at_least: expected a number above 0".to_owned())
        }
        (ThresholdFigure::BytesPerCpu, None, Some(least)) => {
            with_unit(&least).map(|at_least| ThresholdBound::BandwidthPerCpu { at_least })
        }
        (ThresholdFigure::OperationsPerCpu | ThresholdFigure::BytesPerCpu, _, _) => {
            Err("a rate has a limit 'at_least' and none 'below'".to_owned())
        }
    }
}

/// A number or a size, as text.
pub(super) fn amount(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::Integer(_) => integer(value).map(|number| number.to_string()),
        _ => text(value),
    }
}

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::*;

    /// What a reader makes of a value as it stands in a file.
    fn read<T>(how: fn(&DeValue<'_>) -> Result<T, String>, value: &str) -> Result<T, String> {
        let text = format!("it = {value}");
        let table = DeTable::parse(&text).unwrap();
        how(table.get_ref().get("it").unwrap().get_ref())
    }

    #[test]
    fn texts_numbers_and_flags_are_what_they_say() {
        assert_eq!(read(text, "\"a b\""), Ok("a b".to_owned()));
        assert!(read(text, "\" \"").is_err() && read(text, "3").is_err());
        assert_eq!(read(texts, "[\"a\", \"b\"]"), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert!(read(texts, "\"a\"").is_err() && read(texts, "[\"a\", 1]").is_err());
        assert_eq!([read(count, "1"), read(count, "0x10")], [Ok(1), Ok(16)]);
        assert_eq!(read(count, "4294967295"), Ok(u32::MAX));
        for wrong in ["0", "-1", "4294967296", "1.5", "\"1\""] {
            assert!(read(count, wrong).is_err(), "{wrong}");
        }
        assert_eq!([read(flag, "true"), read(flag, "false")], [Ok(true), Ok(false)]);
        assert!(read(flag, "1").is_err());
        assert_eq!(
            (read(amount, "500"), read(amount, "\"2MB\"")),
            (Ok("500".into()), Ok("2MB".into()))
        );
    }

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(read(bytes, "\"4KiB\""), Ok(Bytes::from_kib(4)));
        for wrong in ["\"4096\"", "\"0B\"", "\"4 parsecs\"", "4096"] {
            assert!(read(bytes, wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (read(padding, "\"none\""), read(padding, "\"512B\"")),
            (Ok(Bytes::ZERO), Ok(Bytes::new(512)))
        );
        assert!(read(padding, "\"512\"").is_err());
        assert_eq!(read(time, "\"10ms\""), Ok(Nanos::from_millis(10)));
        assert_eq!(read(time, "\"0s\""), Ok(Nanos::ZERO));
        assert!(read(time, "\"10\"").is_err() && read(time, "\"soon\"").is_err());
    }

    #[test]
    fn accesses_and_rates_are_written_in_one_way_each() {
        let pattern = |value: &str| read(access, value).map(|it| (it.pattern, it.skew));
        let zipf = |theta_per_mille| Ok((Pattern::Random, Skew::Zipf { theta_per_mille }));
        assert_eq!(pattern("\"sequential\""), Ok((Pattern::Sequential, Skew::Uniform)));
        assert_eq!(pattern("\"random\""), Ok((Pattern::Random, Skew::Uniform)));
        assert_eq!(pattern("\"zipf:0.99\""), zipf(990));
        assert_eq!((pattern("\"zipf:1.234\""), pattern("\"zipf:12\"")), (zipf(1234), zipf(12_000)));
        for wrong in [
            "zipf:",
            "zipf:.5",
            "zipf:1.",
            "zipf:0.9999",
            "zipf:100",
            "zipf:-1",
            "zipf:1.2.3",
            "zapf:1",
        ] {
            assert!(pattern(&format!("\"{wrong}\"")).is_err(), "{wrong}");
        }
        assert_eq!(read(pace, "\"unlimited\""), Ok(StreamPace::Unlimited));
        assert_eq!(read(pace, "\"500/s\""), Ok(StreamPace::PerSecond(500.0)));
        assert_eq!(read(pace, "\"0.5 /s\""), Ok(StreamPace::PerSecond(0.5)));
        assert_eq!(
            read(pace, "\"32MB/s\""),
            Ok(StreamPace::BytesPerSecond(Bytes::new(32_000_000)))
        );
        for wrong in ["500", "32MB", "0/s", "1.2.3/s", "x/s", "/s", "2000000000/s"] {
            assert!(read(pace, &format!("\"{wrong}\"")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mix_is_sorted_by_size_and_weighs_1_to_1000() {
        let share =
            |kib, weight| BlockShare { size: Bytes::from_kib(kib), weight: PerMille(weight) };
        let found = read(mix, "{ \"8KiB\" = 1, \"4KiB\" = 999 }");
        assert_eq!(found, Ok(vec![share(4, 999), share(8, 1)]));
        assert_eq!(read(mix, "{ \"4KiB\" = 1000 }"), Ok(vec![share(4, 1000)]));
        for wrong in
            ["{}", "{ \"4KiB\" = 0 }", "{ \"4KiB\" = 1001 }", "{ \"4\" = 1000 }", "\"4KiB\""]
        {
            assert!(read(mix, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn figures_and_their_limits_belong_together() {
        let latency = ThresholdFigure::Latency(LatencyFigure::P99_9, TimedOperation::Write);
        assert_eq!(read(figure, "\"p99.9 of write\""), Ok(latency));
        let mean = ThresholdFigure::Latency(LatencyFigure::Mean, TimedOperation::Sync);
        assert_eq!(read(figure, "\"mean of sync\""), Ok(mean));
        assert_eq!(read(figure, "\"operations per cpu\""), Ok(ThresholdFigure::OperationsPerCpu));
        assert_eq!(read(figure, "\"bytes per cpu\""), Ok(ThresholdFigure::BytesPerCpu));
        for wrong in ["p98 of sync", "p99 of flush", "p99 sync", "p99"] {
            assert!(read(figure, &format!("\"{wrong}\"")).is_err(), "{wrong}");
        }
        let least = |text: &str| Some(text.to_owned());
        let limit = Nanos::new(1);
        let below = ThresholdBound::LatencyBelow {
            operation: TimedOperation::Write,
            figure: LatencyFigure::P99_9,
            limit,
        };
        assert_eq!(bound(latency, Some(limit), None), Ok(below));
        assert!(
            bound(latency, Some(Nanos::ZERO), None).is_err() && bound(latency, None, None).is_err()
        );
        assert!(bound(latency, Some(limit), least("1")).is_err());
        let operations = |text| bound(ThresholdFigure::OperationsPerCpu, None, least(text));
        assert_eq!(
            operations("0.5"),
            Ok(ThresholdBound::OperationsPerCpu { at_least_per_second: 0.5 })
        );
        assert!(["0", "-1", "inf", "nan", "x"].iter().all(|it| operations(it).is_err()));
        assert!(bound(ThresholdFigure::OperationsPerCpu, Some(limit), least("1")).is_err());
        let at_least = Bytes::new(2_000_000);
        assert_eq!(
            bound(ThresholdFigure::BytesPerCpu, None, least("2MB")),
            Ok(ThresholdBound::BandwidthPerCpu { at_least })
        );
        assert!(
            bound(ThresholdFigure::BytesPerCpu, None, least("2")).is_err()
                && bound(ThresholdFigure::BytesPerCpu, None, None).is_err()
        );
    }

    #[test]
    fn words_stand_for_one_thing_each_and_others_are_told_which_there_are() {
        for (word, meaning) in FileHandling::WORDS {
            assert_eq!(read(file, &format!("\"{word}\"")), Ok(meaning));
        }
        for (word, meaning) in CachePath::WORDS {
            assert_eq!(read(cache, &format!("\"{word}\"")), Ok(meaning));
        }
        for (word, meaning) in ClientThreads::WORDS {
            assert_eq!(read(client_threads, &format!("\"{word}\"")), Ok(meaning));
        }
        for (word, meaning) in LogWriter::WORDS {
            assert_eq!(read(log_writer, &format!("\"{word}\"")), Ok(meaning));
        }
        for (word, meaning) in Provenance::WORDS {
            assert_eq!(read(provenance, &format!("\"{word}\"")), Ok(meaning));
            assert_eq!(meaning.word(), word);
        }
        for method in SyncMethod::ALL {
            assert_eq!(read(sync, &format!("\"{method}\"")), Ok(method));
        }
        let error = read(cache, "\"bufered\"").unwrap_err();
        assert_eq!(error, "'bufered' is none of direct, buffered, mmap; did you mean 'buffered'?");
        let error = read(cache, "\"x\"").unwrap_err();
        assert_eq!(error, "'x' is none of direct, buffered, mmap");
    }
}
