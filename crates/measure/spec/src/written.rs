//! Values as people write them, in specs and on the command line alike.
//!
//! Parses rates, goals and thousandths. Bytes and times are parsed in durio-base.

use durio_base::{Bytes, Nanos, did_you_mean};
use durio_plan::{Goal, LatencyFigure, OperationName, Threshold, ThresholdBound};
use durio_workload::{Arrivals, check_workloads};

/// A rate per second: `1000`, `2.5k`, `1M`, `20k/s`; k and M are thousands and millions.
///
/// # Errors
/// A sentence, if the text is not a number or not a possible rate of arrivals.
pub fn rate(text: &str) -> Result<f64, String> {
    let wrong =
        || format!("'{text}' is not a rate per second; expected a number such as 500, 20k or 1.5M");
    let trimmed = text.trim();
    let trimmed = trimmed.strip_suffix("/s").unwrap_or(trimmed);
    let (digits, factor) = match (trimmed.strip_suffix('k'), trimmed.strip_suffix('M')) {
        (Some(digits), _) => (digits, 1e3),
        (_, Some(digits)) => (digits, 1e6),
        _ => (trimmed, 1.0),
    };
    // Rust's parser takes inf, nan and 1e9 as well.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match digits.parse::<f64>() {
        Ok(number) if is_plain => checked_rate(number * factor),
        _ => Err(wrong()),
    }
}

/// A rate that arrivals can have.
pub(crate) fn checked_rate(rate_per_second: f64) -> Result<f64, String> {
    let arrivals = Arrivals::Constant { rate_per_second };
    arrivals.validate().map(|()| rate_per_second).map_err(|error| error.to_string())
}

/// A latency goal of a sweep: `p99 < 2ms`; `p99 <= 2ms` and `p99=2ms` mean the same.
///
/// # Errors
/// A sentence, if the text is not a percentile below 100 with a limit that has a unit.
pub fn goal(text: &str) -> Result<Goal, String> {
    let wrong = || {
        format!("'{text}' is not a goal; expected a percentile and its limit, such as 'p99 < 2ms'")
    };
    // The longer sign first: the others are parts of it.
    let parts = ["<=", "<", "="].into_iter().find_map(|sign| text.split_once(sign));
    let (percentile, latency) = parts.ok_or_else(wrong)?;
    let digits = percentile.trim().strip_prefix('p').ok_or_else(wrong)?;
    let percentile: f64 = digits.parse().map_err(|_| wrong())?;
    match percentile > 0.0 && percentile < 100.0 {
        true => Ok(Goal { percentile, latency: time(latency.trim())? }),
        false => Err(wrong()),
    }
}

/// A goal of `durio check`, of one of its workloads: `commit p99 < 5ms`, `commit rate > 2000`,
/// `scan bandwidth > 1GB`; `p99 < 5ms` is that of `commit`. Latencies are those of commits or reads;
/// `commit sync p99 < 2ms` and `mixed write p99 < 2ms` name another operation.
///
/// # Errors
/// A sentence, if the text names no workload or result of check, or has no value in its unit.
pub fn check_goal(text: &str) -> Result<Threshold, String> {
    let wrong = |why: String| format!("'{text}' is not a goal: {why}");
    let sign = text.find(['<', '>', '=']).ok_or_else(|| {
        wrong("expected a goal such as 'commit p99 < 5ms' or 'commit rate > 2000'".to_owned())
    })?;
    let (left, right) = text.split_at(sign);
    // Meeting the limit exactly is beyond a measurement's precision.
    let value = right[1..].trim_start_matches('=').trim();
    let words: Vec<&str> = left.split_whitespace().collect();
    let (name, operation, figure) = match words.as_slice() {
        [figure] => ("commit", None, *figure),
        [name, figure] => (*name, None, *figure),
        [name, operation, figure] => (*name, Some(*operation), *figure),
        _ => {
            let why =
                "expected a workload and a measure before the sign, such as 'commit p99 < 5ms'";
            return Err(wrong(why.to_owned()));
        }
    };
    if let Some(ours) = foreign_figure(figure) {
        let sign = if is_least(ours) { '>' } else { '<' };
        return Err(wrong(format!(
            "'{figure}' is called {ours} here: {name} {ours} {sign} {value}"
        )));
    }
    if value.contains(" at ") {
        let why = "only durio predict accepts a rate; leave out 'at' and the rest";
        return Err(wrong(why.to_owned()));
    }
    let is_below = right.starts_with('<') || (right.starts_with('=') && !is_least(figure));
    let workloads = check_workloads();
    let workload =
        workloads.iter().find(|(_, workload)| workload.name == name).ok_or_else(|| {
            let names: Vec<&str> =
                workloads.iter().map(|(_, workload)| workload.name.as_str()).collect();
            let meant = did_you_mean(name, &names, "expected");
            wrong(format!("'{name}' is not a workload of check; {meant}"))
        })?;
    let bound = match (figure, is_below, operation) {
        ("rate", false, None) => ThresholdBound::RateAtLeast { at_least_per_second: rate(value)? },
        ("bandwidth", false, None) => {
            let bytes = value.trim_end_matches("/s").parse::<Bytes>();
            let at_least = bytes.map_err(|error| wrong(error.to_string()))?;
            has_unit(value.trim_end_matches("/s"), "\"100MB\"", false)?;
            ThresholdBound::BandwidthAtLeast { at_least }
        }
        ("rate" | "bandwidth", true, _) => {
            return Err(wrong(format!("a {figure} has a lower limit: {figure} > {value}")));
        }
        ("rate" | "bandwidth", ..) => return Err(wrong(format!("{figure} covers all operations"))),
        (_, false, _) => {
            return Err(wrong(format!("a latency has an upper limit: {figure} < {value}")));
        }
        (_, true, operation) => {
            let known = |words: &[&str]| format!("expected {}", words.join(", "));
            let found = LatencyFigure::of_word(figure).ok_or_else(|| {
                let words = LatencyFigure::ALL.map(LatencyFigure::word);
                let words = [words.as_slice(), &["rate", "bandwidth"]].concat();
                wrong(format!("unknown measure '{figure}'; {}", known(&words)))
            })?;
            let commits = workload.1.is_durable();
            let usual = if commits { OperationName::Commit } else { OperationName::Read };
            let operations = OperationName::LIMITED;
            let operation = match operation {
                None => usual,
                Some(named) => {
                    operations.into_iter().find(|known| known.name() == named).ok_or_else(|| {
                        let words = operations.map(OperationName::name);
                        wrong(format!("'{named}' is not an operation; {}", known(&words)))
                    })?
                }
            };
            ThresholdBound::LatencyBelow { operation, figure: found, limit: time(value)? }
        }
    };
    Ok(Threshold::goal(text.trim().to_owned(), name.to_owned(), bound))
}

/// True for a figure of which a goal asks for at least so much.
fn is_least(figure: &str) -> bool {
    matches!(figure, "rate" | "bandwidth")
}

/// The figure that other programs call so.
fn foreign_figure(word: &str) -> Option<&'static str> {
    match word.to_ascii_lowercase().as_str() {
        "iops" | "tps" | "qps" => Some("rate"),
        "bw" | "throughput" => Some("bandwidth"),
        "avg" | "average" => Some("mean"),
        "median" => Some("p50"),
        "p999" => Some("p99.9"),
        _ => None,
    }
}

/// A goal of `durio predict`: `p99 < 5ms`, `rate > 2000`, and `p99 < 5ms at 2000/s` if transactions come at that
/// rate.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictGoal {
    /// The limit on commits.
    pub(crate) threshold: Threshold,
    /// At which rate they come; none if each client sends the next when the last is answered.
    pub(crate) rate_per_second: Option<f64>,
}

/// Reads a goal of `durio predict`.
///
/// # Errors
/// A sentence, if the text is not a result of commits with its limit, or the rate is invalid.
pub fn predict_goal(text: &str) -> Result<PredictGoal, String> {
    let (limit, at) = match text.split_once(" at ") {
        Some((limit, at)) => (limit, Some(rate(at)?)),
        None => (text, None),
    };
    let limit = limit.trim();
    // As a goal of check has it: there, commits are a workload.
    let named = limit.strip_prefix("commit ").unwrap_or(limit);
    let threshold = check_goal(&format!("commit {named}"))?;
    if at.is_some() && !matches!(threshold.bound, ThresholdBound::LatencyBelow { .. }) {
        let why = "at a given rate, a goal can only limit latency";
        return Err(format!("'{text}' is not a goal: {why}"));
    }
    let threshold = Threshold { criterion: text.trim().to_owned(), ..threshold };
    Ok(PredictGoal { threshold, rate_per_second: at })
}

/// A time with its unit: `2ms`, `60s`; a zero needs none.
pub(crate) fn time(text: &str) -> Result<Nanos, String> {
    let span = text.parse::<Nanos>().map_err(|error| error.to_string())?;
    has_unit(text, &format!("\"{text}ms\" or \"{text}s\""), span == Nanos::ZERO).map(|()| span)
}

// A reader must not have to guess.
pub(crate) fn has_unit(text: &str, such_as: &str, is_zero: bool) -> Result<(), String> {
    match is_zero || text.trim().ends_with(char::is_alphabetic) {
        true => Ok(()),
        false => Err(format!("missing unit in '{text}'; write it as {such_as}")),
    }
}

/// `0.99` as 990; below 10 000, at most three decimals, nothing is rounded.
pub fn thousandths(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str, most: usize| {
        !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole, 4) || !is_number(fraction, 3) {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let fraction: u32 = format!("{fraction:0<3}").parse().ok()?;
    Some(whole * 1000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_thousands_and_millions() {
        let texts = ["500", "2.5k", "1M/s", "20k"];
        assert_eq!(texts.map(|text| rate(text).unwrap()), [500.0, 2500.0, 1e6, 20_000.0]);
        for wrong in ["", "k", "0", "-5", "1G", "nan", "inf", "1e9", "5m", "1k/s/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_goal_of_a_sweep_may_be_written_with_each_of_three_signs() {
        let goal_of = |percentile, latency| Ok(Goal { percentile, latency });
        assert_eq!(goal("p99 < 2ms"), goal_of(99.0, Nanos::from_millis(2)));
        assert_eq!(goal("p99=2ms"), goal_of(99.0, Nanos::from_millis(2)));
        assert_eq!(goal("p99.9 <= 500us"), goal_of(99.9, Nanos::from_micros(500)));
        for wrong in
            ["p99 > 2ms", "p100=2ms", "p0=2ms", "p99", "99=2ms", "p99=2", "p99=x", "pnan=1ms"]
        {
            assert!(goal(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn goals_of_check_name_a_workload_a_figure_and_a_limit() {
        let bound = |text| check_goal(text).unwrap().bound;
        let commit = ThresholdBound::LatencyBelow {
            operation: OperationName::Commit,
            figure: LatencyFigure::P99,
            limit: Nanos::from_millis(5),
        };
        let texts = ["commit p99 < 5ms", " commit p99<=5ms", "commit p99=5ms", "p99 < 5ms"];
        assert_eq!(texts.map(bound), [commit; 4]);
        let read = bound("lookup p99.9 < 5ms");
        assert!(matches!(
            read,
            ThresholdBound::LatencyBelow { operation: OperationName::Read, .. }
        ));
        let sync = bound("commit sync mean < 1ms");
        assert!(matches!(
            sync,
            ThresholdBound::LatencyBelow { operation: OperationName::Sync, .. }
        ));
        assert_eq!(
            bound("commit rate > 2k"),
            ThresholdBound::RateAtLeast { at_least_per_second: 2000.0 }
        );
        assert_eq!(bound("rate=2000"), bound("commit rate > 2k"));
        let scan = ThresholdBound::BandwidthAtLeast { at_least: Bytes::new(1_000_000_000) };
        assert_eq!(bound("scan bandwidth >= 1GB/s"), scan);
        for (wrong, why) in [
            ("commit p99 5ms", "expected a goal such as"),
            ("comit p99 < 5ms", "did you mean 'commit'?"),
            ("write p99 < 5ms", "not a workload of check; expected commit,"),
            ("commit p98 < 5ms", "expected mean, p50, p99, p99.9, max, rate, bandwidth"),
            ("commit p99 > 5ms", "a latency has an upper limit: p99 < 5ms"),
            ("commit iops > 100", "'iops' is called rate here: commit rate > 100"),
            ("scan bw > 1GB", "'bw' is called bandwidth here: scan bandwidth > 1GB"),
            ("lookup avg < 1ms", "'avg' is called mean here: lookup mean < 1ms"),
            ("commit p99 < 5ms at 2000/s", "only durio predict accepts a rate"),
            ("commit rate < 5", "a rate has a lower limit: rate > 5"),
            ("commit p99 < 5", "missing unit"),
            ("commit fsync p99 < 5ms", "expected sync, commit, read, write"),
            ("< 5ms", "a workload and a measure"),
            ("commit rate > many", "not a rate"),
            ("scan bandwidth > 5", "missing unit"),
        ] {
            let error = check_goal(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn thousandths_are_never_rounded() {
        assert_eq!(
            ["0.02", "1", "0.001", "99.5"].map(thousandths),
            [20, 1000, 1, 99_500].map(Some)
        );
        for wrong in ["", "0.0001", "10000", "-1", "x", "1e3", ".5", "5."] {
            assert_eq!(thousandths(wrong), None, "{wrong}");
        }
    }
}
