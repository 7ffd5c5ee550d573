//! The remarks at the headline: its range, and whether it can be relied on.
//!
//! Makes text from the leading results.

use durio_analyse::{Headline, RateVariation, Steadiness};
use durio_base::Nanos;

use crate::figures::{counted, deviation, percent, rate, rate_bare};

// SNIA's limits, as in the analysis: a result beyond one of them is reported.
const RANGE_MAX: f64 = 0.2;
const DRIFT_MAX: f64 = 0.1;

/// Whether the headline's rate was steady.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SteadyVerdict {
    /// It was, and by how much.
    Steady(String),
    /// It was not, and why.
    NotSteady(String),
    /// Too short to tell.
    Unknown(String),
}

/// `4.1 k to 5.6 k over 14 intervals of 100 ms`; none without intervals.
pub(crate) fn range(leading: &Headline) -> Option<String> {
    let even = leading.rate_variation.filter(|it| it.interval > Nanos::ZERO)?;
    Some(format!(
        "{} to {} over {} of {}",
        rate_bare(even.rate_min_per_second),
        rate_bare(even.rate_max_per_second),
        counted(even.intervals, "interval"),
        even.interval
    ))
}

/// The verdict on the rate over its time, and against other steps.
pub(crate) fn verdict(leading: &Headline) -> SteadyVerdict {
    let steadiness = leading.rate_variation.and_then(|it| it.steadiness);
    let mut reasons: Vec<String> = steadiness.iter().filter_map(unsteady).collect();
    if let Some(other) = leading.same_workload.filter(|it| !it.agree) {
        reasons.push(format!(
            "the same workload gave {} to {} in {} of this run",
            rate(other.rate_min_per_second),
            rate(other.rate_max_per_second),
            counted(other.count, "step")
        ));
    }
    match (reasons.is_empty(), steadiness) {
        (false, _) => SteadyVerdict::NotSteady(format!(
            "{}; another run may give another rate",
            reasons.join("; ")
        )),
        (true, Some(it)) => SteadyVerdict::Steady(format!(
            "the rate varied by {} between fifths of the time and drifted {}",
            percent(it.range_share),
            deviation(it.drift_share)
        )),
        (true, None) => SteadyVerdict::Unknown(too_short(leading.rate_variation)),
    }
}

fn too_short(evenness: Option<RateVariation>) -> String {
    let intervals = evenness.map_or(0, |it| it.intervals);
    let counted = counted(intervals, "whole interval");
    // Steadiness is judged by fifths of the time (`fifths_per_second`).
    format!("too short to judge whether the rate is steady ({counted}, 5 needed)")
}

fn unsteady(it: &Steadiness) -> Option<String> {
    let word = match it.drift_share {
        drift if drift < -DRIFT_MAX => "fell",
        drift if drift > DRIFT_MAX => "rose",
        _ if it.range_share > RANGE_MAX => "varied",
        _ => return None,
    };
    let [first @ .., last] = it.fifths_per_second.map(rate_bare);
    Some(format!(
        "the rate {word} while it was measured: {} and {last} per second in the fifths of its time",
        first.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use durio_analyse::Agreement;

    use super::*;

    fn leading(steadiness: Option<Steadiness>, same_workload: Option<Agreement>) -> Headline {
        Headline {
            workload: "commit".to_owned(),
            location: "/data".to_owned(),
            durable_commits_per_second: 5220.0,
            commit_latency_ns_p99: None,
            rate_variation: Some(RateVariation {
                coefficient_of_variation: 0.1,
                intervals: 3,
                intervals_empty: 0,
                intervals_under_half: 0,
                interval: Nanos::from_secs(1),
                rate_min_per_second: 4100.0,
                rate_max_per_second: 5600.0,
                steadiness,
            }),
            same_workload,
        }
    }

    fn fifths(rates: [f64; 5], drift_share: f64) -> Steadiness {
        let range_share = (rates[4] - rates[0]).abs() / rates[2];
        Steadiness { fifths_per_second: rates, range_share, drift_share, steady: true }
    }

    #[test]
    fn the_range_names_its_intervals() {
        let words = range(&leading(None, None)).unwrap();
        assert_eq!(words, "4.1 k to 5.6 k over 3 intervals of 1 s");
    }

    #[test]
    fn a_steady_rate_says_how_steady_and_a_short_one_that_it_cannot_tell() {
        let even = fifths([100.0, 100.0, 100.0, 100.0, 104.0], 0.03);
        let said = SteadyVerdict::Steady(
            "the rate varied by 4.0 % between fifths of the time and drifted +3.0 %".to_owned(),
        );
        assert_eq!(verdict(&leading(Some(even), None)), said);
        assert!(
            matches!(verdict(&leading(None, None)), SteadyVerdict::Unknown(why) if why.contains("3 whole"))
        );
    }

    #[test]
    fn a_drift_a_wide_range_and_steps_that_disagree_are_named() {
        let falling = fifths([900.0, 700.0, 500.0, 300.0, 120.0], -1.5);
        let apart = Agreement {
            count: 3,
            rate_min_per_second: 555.0,
            rate_max_per_second: 8627.0,
            agree: false,
        };
        let SteadyVerdict::NotSteady(said) = verdict(&leading(Some(falling), Some(apart))) else {
            panic!("not said")
        };
        for words in ["fell", "900, 700, 500, 300 and 120 per second", "8.63 k/s in 3 steps"] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn a_rate_is_steady_within_a_fifth_of_range_and_a_tenth_of_drift() {
        let of = |range_share: f64, drift_share: f64| {
            let fifths_per_second = [1.0, 2.0, 3.0, 4.0, 5.0];
            let found = Steadiness { fifths_per_second, range_share, drift_share, steady: true };
            match verdict(&leading(Some(found), None)) {
                SteadyVerdict::Steady(_) => "",
                SteadyVerdict::NotSteady(said) if said.contains("fell") => "fell",
                SteadyVerdict::NotSteady(said) if said.contains("rose") => "rose",
                SteadyVerdict::NotSteady(said) if said.contains("varied") => "varied",
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([of(0.2, 0.1), of(0.2, -0.1)], [""; 2]);
        assert_eq!([of(0.201, 0.1), of(0.2, 0.101), of(0.2, -0.101)], ["varied", "rose", "fell"]);
    }
}
