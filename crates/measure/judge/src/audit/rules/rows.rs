//! Rows of a table against each other: those that describe the same measurement, and those of the
//! same series, which differ in nothing but jobs and depth.
//!
//! Reports rows that contradict others, and rows with too many operations in flight whose
//! neighbours show what would fit.

use std::collections::HashMap;

use super::in_flight::{DepthFit, fit_of};
use super::{Claim, LocatedObservation, Observation, Tier};
use crate::audit::claim::ClaimPlace;
use crate::audit::figure::{Figure, bandwidth, percent, rate, time};

// Repetitions of a measurement may differ by this share.
const REPEATED_WITHIN: f64 = 0.2;

// A claim is compared with as many of the same settings, so that a table of nothing but repetitions
// takes no longer than another.
const REPETITIONS_MAX: usize = 16;

pub(super) fn contradictions(claims: &[Claim]) -> Vec<LocatedObservation> {
    let mut same: HashMap<_, Vec<&Claim>> = HashMap::new();
    for claim in claims {
        same.entry(settings(claim)).or_default().push(claim);
    }
    let about = |claim: &Claim| {
        let others = same.get(&settings(claim))?.iter().take(REPETITIONS_MAX);
        // The same line is the claim itself.
        let mut others = others.filter(|other| other.line != claim.line);
        Some(LocatedObservation::new(claim, others.find_map(|other| differ(claim, other))?))
    };
    claims.iter().filter_map(about).collect()
}

fn settings(claim: &Claim) -> [Option<String>; 13] {
    let text = |text: &str| Some(text.to_owned());
    [
        text(&claim.source),
        text(&claim.stack),
        text(&claim.workload),
        text(&claim.durable),
        text(&claim.note),
        claim.block_size.map(|bytes| bytes.get().to_string()),
        claim.jobs.map(|count| count.to_string()),
        claim.depth.map(|count| count.to_string()),
        claim.engine.clone(),
        claim.buffered.map(|buffered| buffered.to_string()),
        claim.target.clone(),
        claim.size.map(|bytes| bytes.get().to_string()),
        claim.runtime.map(|time| time.get().to_string()),
    ]
}

fn differ(claim: &Claim, other: &Claim) -> Option<Observation> {
    // Rows without a description of their method may be anything.
    if claim.block_size.is_none() || claim.workload.is_empty() || claim.stack.is_empty() {
        return None;
    }
    let place = match other.line.as_ref()? {
        ClaimPlace::Number(number) => format!("line {number}"),
        ClaimPlace::Name(name) => format!("'{name}'"),
    };
    let pairs = [
        (claim.bandwidth, other.bandwidth, bandwidth as fn(f64) -> String),
        (claim.read.rate, other.read.rate, rate),
        (claim.write.rate, other.write.rate, rate),
    ];
    let (this, that, shown) = pairs.into_iter().find_map(|(this, that, shown)| {
        let (this, that): (Figure, Figure) = (this?, that?);
        (!this.agrees_with(that, REPEATED_WITHIN)).then_some((this, that, shown))
    })?;
    let reason = format!(
        "{} here, {} in {place} ({} of it), and no setting differs",
        shown(this.value),
        shown(that.value),
        percent(this.value / that.value.max(1e-9)),
    );
    let figures = [("this", this.value), ("other", that.value)];
    Some(Observation::new(Tier::Doubtful, reason, figures))
}

// As many sound neighbours make a series.
const NEIGHBOURS_MIN: usize = 3;

// Rows whose shares of busy workers differ by more are not a series.
const SPREAD_MAX: f64 = 0.05;

pub(super) fn neighbours(claims: &[Claim]) -> Vec<LocatedObservation> {
    let series = |claim: &Claim| [&claim.source, &claim.stack, &claim.workload].map(String::clone);
    let mut shares: HashMap<_, Vec<f64>> = HashMap::new();
    for claim in claims.iter().filter(|claim| !claim.paced) {
        if let Some((in_flight, slots, DepthFit::Fits)) = fit_of(claim) {
            shares.entry(series(claim)).or_default().push(in_flight.value / slots);
        }
    }
    let about = |claim: &Claim| match fit_of(claim)? {
        (_, _, DepthFit::Impossible | DepthFit::Above) => {
            Some(LocatedObservation::new(claim, expected(claim, shares.get(&series(claim))?)?))
        }
        _ => None,
    };
    claims.iter().filter_map(about).collect()
}

fn expected(claim: &Claim, shares: &[f64]) -> Option<Observation> {
    // Only where one rate and one latency make the product is it plain what would fit.
    let operations = match (claim.read.rate, claim.write.rate) {
        (Some(_), None) => &claim.read,
        (None, Some(_)) => &claim.write,
        _ => return None,
    };
    let (count, latency) = (operations.rate?, operations.latency_ns_mean?);
    let mut sorted = shares.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let median = *sorted.get(sorted.len() / 2)?;
    if sorted.len() < NEIGHBOURS_MIN || last - first > SPREAD_MAX {
        return None;
    }
    let expected = median * claim.slots()? / latency.value * 1e9;
    let reason = format!(
        "{} other rows of the series keep {} to {} of their workers busy; at {} that would be {}, \
         where {} is printed",
        sorted.len(),
        percent(first),
        percent(last),
        time(latency.value),
        rate(expected),
        rate(count.value),
    );
    let figures = [
        ("rate_per_second", count.value),
        ("rate_per_second_expected", expected),
        ("neighbours_share_median", median),
    ];
    Some(Observation::new(Tier::Doubtful, reason, figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::rules::tests::{operations, sound};

    fn rows(first: f64, second: f64) -> [Claim; 2] {
        let row = |line, rate| {
            let mut claim = sound("randread");
            claim.line = Some(ClaimPlace::Number(line));
            claim.read.rate = Some(Figure::exact(rate));
            claim
        };
        [row(2, first), row(3, second)]
    }

    #[test]
    fn the_same_measurement_with_other_figures_is_told_on_both_rows() {
        let found = contradictions(&rows(1200.0, 554.0));
        assert_eq!(found.len(), 2);
        assert!(found[0].seen.reason.contains("line 3") && found[1].seen.reason.contains("line 2"));
    }

    #[test]
    fn repetitions_and_rows_that_differ_in_a_setting_are_fine() {
        assert!(contradictions(&rows(1200.0, 1100.0)).is_empty());
        let [first, second] = rows(1200.0, 554.0);
        let second = Claim { note: "after a reboot".into(), ..second };
        assert!(contradictions(&[first, second]).is_empty());
    }

    fn row(jobs: u32, rate: f64, latency_us: f64) -> Claim {
        let mut claim = sound("randread");
        claim.jobs = Some(jobs);
        claim.read = operations(rate, latency_us);
        claim
    }

    #[test]
    fn an_impossible_row_is_set_against_its_neighbours() {
        let mut rows = vec![row(1, 14e3, 71.0), row(2, 28e3, 71.0), row(8, 112e3, 71.0)];
        rows.push(row(4, 56.8e3, 70.93));
        let found = neighbours(&rows);
        assert_eq!(found.len(), 1);
        assert!(found[0].seen.reason.contains("56.06k/s"), "{}", found[0].seen.reason);
        assert!(neighbours(&rows[1..]).is_empty(), "two neighbours are no series");
    }

    #[test]
    fn neighbours_that_disagree_tell_nothing() {
        let rows =
            [row(1, 13e3, 71.0), row(2, 28e3, 71.0), row(8, 112e3, 71.0), row(4, 56.8e3, 70.93)];
        assert!(neighbours(&rows).is_empty());
    }

    #[test]
    fn a_row_that_differs_in_any_setting_is_another_measurement() {
        use durio_base::{Bytes, Nanos};
        let changes: [fn(&mut Claim); 13] = [
            |claim| claim.source = "b".into(),
            |claim| claim.stack = "b".into(),
            |claim| claim.workload = "b".into(),
            |claim| claim.durable = "b".into(),
            |claim| claim.note = "b".into(),
            |claim| claim.block_size = Some(Bytes::from_kib(5)),
            |claim| claim.jobs = Some(7),
            |claim| claim.depth = Some(7),
            |claim| claim.engine = Some("b".into()),
            |claim| claim.buffered = Some(true),
            |claim| claim.target = Some("b".into()),
            |claim| claim.size = Some(Bytes::new(7)),
            |claim| claim.runtime = Some(Nanos::new(7)),
        ];
        for (place, change) in changes.into_iter().enumerate() {
            let [first, mut second] = rows(1200.0, 554.0);
            change(&mut second);
            assert!(contradictions(&[first, second]).is_empty(), "setting {place}");
        }
    }

    /// Puts a figure into a claim.
    type Put = fn(&mut Claim, f64);

    #[test]
    fn each_figure_of_a_repetition_may_differ_by_a_fifth() {
        let told = |change: Put, other: f64| {
            let [mut first, mut second] = rows(1000.0, 1000.0);
            change(&mut first, 1000.0);
            change(&mut second, other);
            contradictions(&[first, second]).into_iter().map(|about| about.seen.reason).next()
        };
        let changes: [Put; 3] = [
            |claim, value| claim.read.rate = Some(Figure::exact(value)),
            |claim, value| claim.write.rate = Some(Figure::exact(value)),
            |claim, value| claim.bandwidth = Some(Figure::exact(value)),
        ];
        for change in changes {
            assert_eq!((told(change, 1199.0), told(change, 834.0)), (None, None));
            assert!(told(change, 1201.0).is_some() && told(change, 833.0).is_some());
        }
        let reason = told(changes[0], 2000.0).unwrap();
        assert_eq!(reason, "1k/s here, 2k/s in line 3 (50 % of it), and no setting differs");
        // Rows without a workload.
        for spoil in [
            |claim: &mut Claim| claim.block_size = None,
            |claim: &mut Claim| claim.workload.clear(),
            |claim: &mut Claim| claim.stack.clear(),
        ] {
            let mut both = rows(1000.0, 2000.0);
            both.iter_mut().for_each(spoil);
            assert!(contradictions(&both).is_empty());
        }
        let mut named = rows(1000.0, 2000.0);
        named[1].line = Some(ClaimPlace::Name("again".into()));
        assert!(contradictions(&named)[0].seen.reason.contains("in 'again' (50 %"));
    }

    #[test]
    fn sixteen_repetitions_are_looked_at() {
        let told = |same: u64| {
            let rows: Vec<_> = (0..=same)
                .map(|at| {
                    let mut claim = sound("randread");
                    claim.line = Some(ClaimPlace::Number(at));
                    claim.read.rate = Some(Figure::exact(if at < same { 1000.0 } else { 2000.0 }));
                    claim
                })
                .collect();
            contradictions(&rows).len()
        };
        // All of them and the other; from the seventeenth on only that sees the first.
        assert_eq!((told(15), told(16)), (16, 1));
    }

    #[test]
    fn a_series_has_three_neighbours_that_agree_within_five_percent() {
        let impossible = row(4, 60e3, 71.0);
        let told = |latencies: [f64; 3]| {
            let mut rows: Vec<_> = latencies.iter().map(|&micros| row(1, 10e3, micros)).collect();
            rows.push(impossible.clone());
            neighbours(&rows).into_iter().map(|about| about.seen).next()
        };
        let seen = told([96.0, 99.0, 95.0]).unwrap();
        // 0.96 × 4 ÷ 71 µs.
        assert!(seen.reason.starts_with("3 other rows of the series keep 95 % to 99 % of"));
        assert!(
            seen.reason.contains("at 71 µs that would be 54.08k/s, where 60k/s"),
            "{}",
            seen.reason
        );
        assert!(told([94.1, 99.0, 95.0]).is_some() && told([93.9, 99.0, 95.0]).is_none());
        // A paced row keeps no worker busy, and both kinds of operations tell nothing.
        let mut rows = vec![row(1, 10e3, 96.0), row(1, 10e3, 99.0), row(1, 10e3, 95.0)];
        rows.push(impossible.clone());
        rows[0].paced = true;
        assert!(neighbours(&rows).is_empty());
        rows[0].paced = false;
        rows[3].write.rate = Some(Figure::exact(0.0));
        assert!(neighbours(&rows).is_empty());
        rows[3] = Claim { source: "other".into(), ..impossible };
        assert!(neighbours(&rows).is_empty());
    }
}
