//! Workloads of all hosts together: rate, latencies, and how evenly the storage serves the hosts.

use durio_base::Nanos;
use durio_base::stats::least_squares::median;
use durio_report::document::{DetailLevel, LabelledFact, Section, Tone};
use durio_report::figures::{mean_latency, precise, rate, share};

use super::{FleetView, TEXT_MAX, charts, cut, pooled_label};
use crate::pooled::listed;
use crate::{PooledFindings, SharedStorage};

/// Workloads of all hosts that are drawn; more make a page of a thousand hosts too large.
const POOLED_CHARTS_MAX: usize = 3;

/// Smaller errors do not change the three digits of a rate.
const SHOWN_ERROR_MIN: f64 = 0.0005;

/// Workloads of all hosts taken together: on storage that they share, or on local drives.
pub(super) fn section(view: &FleetView<'_>, heading: &str, is_shared: bool) -> Section {
    let mut section = match is_shared {
        true => Section::new(heading),
        false => Section::detail(heading),
    };
    let all = view.findings.pooled.iter().filter(|pooled| pooled.shared.is_some() == is_shared);
    for (at, pooled) in all.enumerate() {
        // A screen has room for one.
        let level = if at == 0 { DetailLevel::Summary } else { DetailLevel::Detail };
        let mut label = pooled_label(pooled);
        for text in pooled_texts(pooled) {
            let fact = LabelledFact::new(Tone::Plain, &std::mem::take(&mut label), text);
            section.fact_at(level, fact);
        }
        if at < POOLED_CHARTS_MAX {
            section.charts(charts::pooled(pooled));
        }
    }
    section
}

/// The p99 of the hosts in the time that all ran. A slow host does few operations, so that latencies
/// of all requests hide it.
fn host_latencies(pooled: &PooledFindings) -> Option<String> {
    let known = || pooled.shares.iter().filter_map(|share| Some((share.p99_ns?, &share.host)));
    let middle = median(&known().map(|(nanos, _)| precise(nanos)).collect::<Vec<f64>>())?;
    let (worst, host) = known().max_by_key(|(nanos, _)| *nanos)?;
    let [middle, worst] = [middle, precise(worst)].map(mean_latency);
    Some(format!("p99 of each host: median {middle}, worst {worst} ({host})"))
}

/// ` (± 0.32 %)`, if the digits of the rate show it.
fn error_text(pooled: &PooledFindings) -> String {
    let error = pooled.rate_error.filter(|error| *error >= SHOWN_ERROR_MIN);
    error.map_or_else(String::new, |error| format!(" (± {})", share(error)))
}

/// Rate and latencies of all hosts, or why they are missing, and the time that they are of.
fn rate_and_latencies(pooled: &PooledFindings) -> String {
    let seconds = |seconds: f64| mean_latency(seconds * 1e9);
    let hosts = match pooled.absent.len() {
        0 => format!("{} hosts together", pooled.hosts),
        absent => format!("{} of {} hosts together", pooled.hosts, pooled.hosts + absent),
    };
    let rate_text = match (pooled.rate, &pooled.no_rate) {
        (Some(together), _) => format!("{}{} of {hosts}", rate(together), error_text(pooled)),
        (None, Some(why)) => format!("no rate or latencies of {hosts}: {why}"),
        (None, None) => format!("no rate or latencies of {hosts}"),
    };
    let mut numbers: Vec<String> = Vec::new();
    if let Some(all) = &pooled.latency {
        let named = [("p50", all.p50_ns), ("p99", all.p99_ns), ("p99.9", all.p99_9_ns)];
        let known = named.into_iter().filter_map(|(name, nanos)| Some((name, nanos?)));
        numbers.extend(known.map(|(name, nanos)| format!("{name} {}", Nanos::new(nanos))));
    }
    // Without a time in common the starts may not be known.
    if pooled.window_seconds > 0.0 {
        let [window, skew] = [pooled.window_seconds, pooled.skew_seconds].map(seconds);
        numbers.push(format!("in the {window} that all ran, from starts {skew} apart"));
    }
    let after_rate = if pooled.rate.is_some() { ", " } else { "; " };
    let numbers = match numbers.is_empty() {
        true => String::new(),
        false => format!("{after_rate}{}", numbers.join(", ")),
    };
    let absent: Vec<&str> = pooled.absent.iter().map(String::as_str).collect();
    let without = match absent.is_empty() {
        true => String::new(),
        false => format!("; without {}, whose newest run had ended before", listed(&absent)),
    };
    format!("{rate_text}{numbers}{without}")
}

/// Rate and latencies of all hosts, the numbers that a sum of reports would give, and the shares.
fn pooled_texts(pooled: &PooledFindings) -> Vec<String> {
    let mean = pooled.mean_of_p99_ns.map_or_else(String::new, |nanos| {
        format!(
            "; the mean of their p99, {}, is a latency that no request had",
            mean_latency(nanos)
        )
    });
    let sum = rate(pooled.sum_of_rates);
    let mut texts = vec![
        rate_and_latencies(pooled),
        format!("the sum of the hosts' rates, {sum}, counts time in which not all ran{mean}"),
    ];
    if let (Some(most), Some(least)) = (pooled.shares.first(), pooled.shares.last()) {
        texts.push(format!(
            "fairness {:.2} (Jain's index, 1 is equal): {} has {}, {} {}",
            pooled.fairness,
            most.host,
            share(most.share),
            least.host,
            share(least.share)
        ));
    }
    texts.extend(host_latencies(pooled));
    texts.extend(pooled.shared.as_ref().map(|shared| match shared {
        SharedStorage::Stated => "shared, as the spec says".to_owned(),
        SharedStorage::Detected(identity) => {
            format!("shared: the same identity on all of them, {}", cut(identity, TEXT_MAX))
        }
    }));
    texts
}
