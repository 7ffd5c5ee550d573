//! Values of a profile, how they are written and shown.

use durio_base::{Bytes, Nanos};
use durio_plan::{LatencyFigure, OperationName, Provenance, ThresholdBound};
use durio_workload::{Arrivals, BlockShare, ClientThreads, LogWriter, Pattern, Skew};

use super::facts::FactText;
use super::{AccessOrderProfile, CachePath, FileHandling, Padding, SizesByWeight, StreamPace};
use crate::SpecError;
use crate::campaign::value::Mix;
use crate::table::TableItem;
use crate::table::value::{KeyedValue, Scalar, bytes, own_words, parsed, words};
use crate::written::thousandths;

words! {
    FileHandling {
        "extend" => Extend,
        "preallocated" => Preallocated,
        "zero-filled" => ZeroFilled,
        "recycled" => Recycled,
    }
    CachePath { "direct" => Direct, "buffered" => Buffered, "mmap" => Mmap }
    ClientThreads { "embedded" => Embedded, "one-thread" => One, "thread-each" => Each }
    LogWriter {
        "committer" => Committer,
        "log-thread" => LogThread,
        "event-loop" => EventLoop,
        "client" => Client,
    }
}

own_words! { Provenance }

parsed! {
    Padding padding, "\"4KiB\"", "`\"4KiB\"`, none", "";
    AccessOrderProfile access, "\"random\"", "sequential, random, `zipf:0.99`", "";
    StreamPace pace, "\"500/s\"", "unlimited, `500/s`, `32MB/s`", "";
    ThresholdFigure figure, "", "`p99 of sync`", "";
}

/// "4KiB", or "none".
fn padding(text: &str) -> Result<Padding, String> {
    if text == "none" { Ok(Padding(Bytes::ZERO)) } else { bytes(text).map(Padding) }
}

impl FactText for Padding {
    fn shown(&self) -> String {
        if self.0 == Bytes::ZERO { "none".to_owned() } else { self.0.to_string() }
    }
}

/// "sequential", "random" or "zipf:0.99".
fn access(text: &str) -> Result<AccessOrderProfile, String> {
    let of = |pattern, skew| Ok(AccessOrderProfile { pattern, skew });
    let theta = text.strip_prefix("zipf:").and_then(thousandths);
    match (text, theta.filter(|theta| *theta < 100_000)) {
        ("sequential", _) => of(Pattern::Sequential, Skew::Uniform),
        ("random", _) => of(Pattern::Random, Skew::Uniform),
        (_, Some(theta_per_mille)) => of(Pattern::Random, Skew::Zipf { theta_per_mille }),
        (text, None) => {
            let text = text.escape_debug();
            Err(format!("'{text}' is not an access; write it as sequential, random or zipf:0.99"))
        }
    }
}

impl FactText for AccessOrderProfile {
    fn shown(&self) -> String {
        match (self.pattern, &self.skew) {
            (Pattern::Sequential, _) => "sequential".to_owned(),
            (Pattern::Random, Skew::Zipf { theta_per_mille }) => {
                format!("random, zipf {}", f64::from(*theta_per_mille) / 1000.0)
            }
            (Pattern::Random, _) => "random".to_owned(),
        }
    }
}

/// "unlimited", "500/s" or "32MB/s".
fn pace(text: &str) -> Result<StreamPace, String> {
    let wrong = || {
        format!("'{}' is not a rate; write it as unlimited, 500/s or 32MB/s", text.escape_debug())
    };
    if text == "unlimited" {
        return Ok(StreamPace::Unlimited);
    }
    let amount = text.strip_suffix("/s").ok_or_else(wrong)?.trim();
    // Only a size has a unit before the slash.
    if !amount.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return size(amount).map(StreamPace::BytesPerSecond).map_err(|_| wrong());
    }
    let rate_per_second: f64 = amount.parse().map_err(|_| wrong())?;
    let arrivals = Arrivals::Constant { rate_per_second };
    arrivals.validate().map(|()| StreamPace::PerSecond(rate_per_second)).map_err(|error| error.0)
}

/// A size that is more than nothing.
fn size(text: &str) -> Result<Bytes, String> {
    match bytes(text)? {
        Bytes::ZERO => Err(format!("'{text}' is not a size; write it as \"4KiB\"")),
        size => Ok(size),
    }
}

impl FactText for StreamPace {
    fn shown(&self) -> String {
        match self {
            Self::Unlimited => "unlimited".to_owned(),
            Self::PerSecond(rate) => format!("{rate} per second"),
            Self::BytesPerSecond(bytes) => format!("{bytes}/s"),
        }
    }
}

/// `{ "4KiB" = 700, "8KiB" = 300 }`.
impl KeyedValue for SizesByWeight {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        let mut shares = Mix::read(item)?;
        if shares.is_empty() || shares.iter().any(|share| share.weight.0 == 0) {
            return Err(item.fail("a mix needs at least one size, and weights of 1 or more"));
        }
        // Tables of TOML have no order, and the order of a mix decides which draw gives which size.
        shares.sort_by_key(|share| share.size);
        Ok(Self(shares))
    }
}

impl FactText for SizesByWeight {
    fn shown(&self) -> String {
        let one = |share: &BlockShare| match share.weight.0 {
            1000 => share.size.to_string(),
            weight => format!("{} {} %", share.size, f64::from(weight) / 10.0),
        };
        self.0.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// What a threshold limits: "p99 of sync", "operations per cpu", "bytes per cpu".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThresholdFigure {
    Latency(LatencyFigure, OperationName),
    OperationsPerCpu,
    BytesPerCpu,
}

fn figure(text: &str) -> Result<ThresholdFigure, String> {
    match text {
        "operations per cpu" => return Ok(ThresholdFigure::OperationsPerCpu),
        "bytes per cpu" => return Ok(ThresholdFigure::BytesPerCpu),
        _ => {}
    }
    let find = || {
        let (figure, operation) = text.split_once(" of ")?;
        let figure = LatencyFigure::of_word(figure)?;
        let operation = OperationName::LIMITED.into_iter().find(|name| name.name() == operation)?;
        Some(ThresholdFigure::Latency(figure, operation))
    };
    find().ok_or_else(|| {
        format!(
            "unknown measure '{}'; write it as \"p99 of sync\" (mean, p50, p99, p99.9, max; of sync, \
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
            Err("a latency needs 'below', not 'at_least'".to_owned())
        }
        (ThresholdFigure::OperationsPerCpu, None, Some(least)) => {
            let least: f64 = least.parse().map_err(|_| "at_least: expected a number")?;
            let is_good = least.is_finite() && least > 0.0;
            is_good
                .then_some(ThresholdBound::OperationsPerCpu { at_least_per_second: least })
                .ok_or_else(|| "at_least: expected a number above 0".to_owned())
        }
        (ThresholdFigure::BytesPerCpu, None, Some(least)) => {
            size(&least).map(|at_least| ThresholdBound::BandwidthPerCpu { at_least })
        }
        (ThresholdFigure::OperationsPerCpu | ThresholdFigure::BytesPerCpu, _, _) => {
            Err("a rate needs 'at_least', not 'below'".to_owned())
        }
    }
}

/// A number or a size, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeastAmount(pub(super) String);

impl KeyedValue for LeastAmount {
    fn read(item: TableItem<'_>) -> Result<Self, SpecError> {
        match item.scalar()? {
            Scalar::Integer(number) => Ok(Self(number.to_string())),
            _ => item.text(|text| Ok(Self(text.to_owned()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use durio_workload::{PerMille, SyncMethod};

    use super::*;
    use crate::table::tests::{read, read_field};
    use crate::table::value::WordValue;

    #[test]
    fn texts_numbers_and_flags_are_what_they_say() {
        assert_eq!(read_field::<String>("\"a b\""), Ok("a b".to_owned()));
        assert!(read_field::<String>("\" \"").is_err() && read_field::<String>("3").is_err());
        assert_eq!(
            read_field::<Vec<String>>("[\"a\", \"b\"]"),
            Ok(vec!["a".to_owned(), "b".to_owned()])
        );
        assert!(
            read_field::<Vec<String>>("\"a\"").is_err()
                && read_field::<Vec<String>>("[\"a\", 1]").is_err()
        );
        let count = |value: &str| read::<NonZeroU32>(value).map(NonZeroU32::get);
        let amount = |value: &str| read::<LeastAmount>(value).map(|least| least.0);
        assert_eq!([count("1"), count("0x10")], [Ok(1), Ok(16)]);
        assert_eq!(count("4294967295"), Ok(u32::MAX));
        for wrong in ["0", "-1", "4294967296", "1.5", "\"1\""] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
        assert_eq!([read::<bool>("true"), read::<bool>("false")], [Ok(true), Ok(false)]);
        assert!(read::<bool>("1").is_err());
        assert_eq!((amount("500"), amount("\"2MB\"")), (Ok("500".into()), Ok("2MB".into())));
    }

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(read::<Bytes>("\"4KiB\""), Ok(Bytes::from_kib(4)));
        for wrong in ["\"4096\"", "\"4 parsecs\"", "4096"] {
            assert!(read::<Bytes>(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (read("\"none\""), read("\"512B\"")),
            (Ok(Padding(Bytes::ZERO)), Ok(Padding(Bytes::new(512))))
        );
        assert!(read::<Padding>("\"512\"").is_err());
        assert_eq!(read::<Nanos>("\"10ms\""), Ok(Nanos::from_millis(10)));
        assert_eq!(read::<Nanos>("\"0s\""), Ok(Nanos::ZERO));
        assert!(read::<Nanos>("\"10\"").is_err() && read::<Nanos>("\"soon\"").is_err());
    }

    #[test]
    fn accesses_and_rates_are_written_in_one_way_each() {
        let pattern =
            |value: &str| read(value).map(|order: AccessOrderProfile| (order.pattern, order.skew));
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
        assert_eq!(read::<StreamPace>("\"unlimited\""), Ok(StreamPace::Unlimited));
        assert_eq!(read::<StreamPace>("\"500/s\""), Ok(StreamPace::PerSecond(500.0)));
        assert_eq!(read::<StreamPace>("\"0.5 /s\""), Ok(StreamPace::PerSecond(0.5)));
        assert_eq!(
            read::<StreamPace>("\"32MB/s\""),
            Ok(StreamPace::BytesPerSecond(Bytes::new(32_000_000)))
        );
        for wrong in ["500", "32MB", "0/s", "1.2.3/s", "x/s", "/s", "2000000000/s"] {
            assert!(read::<StreamPace>(&format!("\"{wrong}\"")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mix_is_sorted_by_size_and_weighs_1_to_1000() {
        let share =
            |kib, weight| BlockShare { size: Bytes::from_kib(kib), weight: PerMille(weight) };
        let mix = |value: &str| read::<SizesByWeight>(value).map(|sizes| sizes.0);
        let found = mix("{ \"8KiB\" = 1, \"4KiB\" = 999 }");
        assert_eq!(found, Ok(vec![share(4, 999), share(8, 1)]));
        assert_eq!(mix("{ \"4KiB\" = 1000 }"), Ok(vec![share(4, 1000)]));
        for wrong in
            ["{}", "{ \"4KiB\" = 0 }", "{ \"4KiB\" = 1001 }", "{ \"4\" = 1000 }", "\"4KiB\""]
        {
            assert!(mix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn figures_and_their_limits_belong_together() {
        let latency = ThresholdFigure::Latency(LatencyFigure::P99_9, OperationName::Write);
        assert_eq!(read::<ThresholdFigure>("\"p99.9 of write\""), Ok(latency));
        let mean = ThresholdFigure::Latency(LatencyFigure::Mean, OperationName::Sync);
        assert_eq!(read::<ThresholdFigure>("\"mean of sync\""), Ok(mean));
        assert_eq!(
            read::<ThresholdFigure>("\"operations per cpu\""),
            Ok(ThresholdFigure::OperationsPerCpu)
        );
        assert_eq!(read::<ThresholdFigure>("\"bytes per cpu\""), Ok(ThresholdFigure::BytesPerCpu));
        for wrong in ["p98 of sync", "p99 of flush", "p99 sync", "p99"] {
            assert!(read::<ThresholdFigure>(&format!("\"{wrong}\"")).is_err(), "{wrong}");
        }
        let least = |text: &str| Some(text.to_owned());
        let limit = Nanos::new(1);
        let below = ThresholdBound::LatencyBelow {
            operation: OperationName::Write,
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
        assert!(["0", "-1", "inf", "nan", "x"].iter().all(|text| operations(text).is_err()));
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
        fn each_is_read<T: WordValue + std::fmt::Debug>() {
            for (word, meaning) in T::words() {
                assert_eq!(read(&format!("\"{word}\"")), Ok(meaning));
            }
        }
        each_is_read::<FileHandling>();
        each_is_read::<CachePath>();
        each_is_read::<ClientThreads>();
        each_is_read::<LogWriter>();
        each_is_read::<Provenance>();
        for meaning in Provenance::ALL {
            assert_eq!(Provenance::of_word(meaning.word()), Some(meaning));
        }
        for method in SyncMethod::ALL {
            assert_eq!(read(&format!("\"{method}\"")), Ok(method));
        }
        let error = read::<CachePath>("\"bufered\"").unwrap_err();
        assert_eq!(
            error,
            "x:1:7: key: 'bufered' is not one of direct, buffered, mmap; did you mean 'buffered'?"
        );
        let error = read::<CachePath>("\"x\"").unwrap_err();
        assert_eq!(error, "x:1:7: key: 'x' is not one of direct, buffered, mmap");
    }
}
