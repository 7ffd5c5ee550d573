//! Rows of the same series, which differ in nothing but jobs and depth.
//!
//! In: a table. Out: rows with too many in flight, whose neighbours tell what would fit. Not here:
//! rows that fit.

use std::collections::HashMap;

use super::super::wording::{evidence, percent, rate as shown};
use super::in_flight::{Fit, fit_of};
use super::{About, Claim, Seen, Tier};

/// As many sound neighbours make a series.
const NEIGHBOURS_MIN: usize = 3;

/// Shares of busy workers that differ by more are no series.
const SPREAD_MAX: f64 = 0.05;

pub(super) fn rate(claims: &[Claim]) -> Vec<About> {
    let mut shares: HashMap<_, Vec<f64>> = HashMap::new();
    for claim in claims.iter().filter(|claim| !claim.paced) {
        if let Some((in_flight, slots, Fit::Fits)) = fit_of(claim) {
            shares.entry(series(claim)).or_default().push(in_flight.value / slots);
        }
    }
    let too_much =
        |claim: &&Claim| matches!(fit_of(claim), Some((_, _, Fit::Impossible | Fit::Above)));
    let about = |claim: &Claim| {
        let seen = expected(claim, shares.get(&series(claim))?)?;
        Some(About::new(claim, seen))
    };
    claims.iter().filter(too_much).filter_map(about).collect()
}

fn series(claim: &Claim) -> (&str, &str, &str) {
    (&claim.source, &claim.stack, &claim.workload)
}

/// Only where one rate and one latency make the product is it plain what would fit.
fn expected(claim: &Claim, shares: &[f64]) -> Option<Seen> {
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
        super::super::wording::time(latency.value),
        shown(expected),
        shown(count.value),
    );
    let evidence = evidence([
        ("rate_per_second", count.value),
        ("rate_per_second_expected", expected),
        ("neighbours_share_median", median),
    ]);
    Some(Seen::new(Tier::Doubtful, reason, evidence))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{operations, sound};
    use super::*;

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
        let found = rate(&rows);
        assert_eq!(found.len(), 1);
        assert!(found[0].seen.reason.contains("56.06k/s"), "{}", found[0].seen.reason);
        assert!(rate(&rows[1..]).is_empty(), "two neighbours are no series");
    }

    #[test]
    fn neighbours_that_disagree_tell_nothing() {
        let rows =
            [row(1, 13e3, 71.0), row(2, 28e3, 71.0), row(8, 112e3, 71.0), row(4, 56.8e3, 70.93)];
        assert!(rate(&rows).is_empty());
    }
}
