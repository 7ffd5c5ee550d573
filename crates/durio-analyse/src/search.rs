//! The highest rate that keeps a goal: what to try next, and what is known.
//!
//! Rates grow from a quarter of what a closed loop reaches (or from the first rate tried) by
//! doubling until one fails, then the gap between the highest rate that kept the goal and the lowest
//! that failed is halved (by ratio) until it is narrow enough, and the highest rate is tried once
//! more: neither one lucky trial nor one that something else disturbed shall be the answer. So a
//! failure is tried again too, unless the rate was missed by far, and of three trials two decide.
//! Where rates contradict each other, the lowest failure counts.

use durio_plan::Goal;
use durio_record::OperationName;
use serde::{Deserialize, Serialize};

use crate::WorkloadFindings;

/// One rate that was offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Round of the section.
    pub round: u32,
    /// Offered accesses per second.
    pub rate_per_second: f64,
    /// Accesses per second that were done.
    pub achieved_per_second: f64,
    /// The goal's percentile of the response latency (the maximum with too few samples for it); none
    /// without a completion.
    pub latency_ns: Option<u64>,
    /// All but a hundredth of the arrivals were started.
    pub keeps_up: bool,
    /// The goal was kept.
    pub kept: bool,
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchFindings {
    /// What had to be kept.
    pub goal: Goal,
    /// In the order in which they were made.
    pub trials: Vec<Trial>,
    /// The highest rate that kept the goal, below every rate that did not; none if none did.
    pub kept_per_second: Option<f64>,
    /// The lowest rate that did not; none if all did.
    pub failed_per_second: Option<f64>,
    /// True if the interval between the two is as narrow as was asked for and the highest rate kept
    /// the goal twice.
    pub settled: bool,
    /// The result in words.
    pub sentence: String,
}

/// What to do after the trials so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Next {
    Try(f64),
    Settled,
    /// No rate keeps the goal.
    Hopeless,
}

/// Below this rate a search gives up: a trial of seconds would hold no sample of a percentile.
const RATE_LEAST: f64 = 1.0;
/// Above it no schedule can be kept.
const RATE_MOST: f64 = 1e9;

/// The trial that a round was.
pub(crate) fn trial(round: u32, workload: &WorkloadFindings, goal: Goal) -> Option<Trial> {
    let open = workload.open_loop?;
    let operation = workload
        .operation(workload.headline)
        .or_else(|| workload.operation(OperationName::Read))?;
    // With too few samples for the percentile, the slowest of them must keep the goal.
    let slowest = operation.response.as_ref().map(|response| response.max_ns);
    let response = operation.response_curve_at(goal.percentile).or(slowest);
    let keeps_up = open.keeps_up();
    Some(Trial {
        round,
        rate_per_second: open.offered_per_second,
        achieved_per_second: open.achieved_per_second,
        latency_ns: response,
        keeps_up,
        kept: keeps_up && response.is_some_and(|latency| latency <= goal.latency.get()),
    })
}

/// What to try after `trials`; `ceiling` is what a closed loop reaches.
pub(crate) fn next(trials: &[Trial], precision: f64, ceiling: Option<f64>) -> Next {
    let rates = judged(trials);
    if let Some(open) = rates.iter().find(|rate| rate.word == Word::Open) {
        return Next::Try(open.rate);
    }
    let (kept, failed) = bracket(&rates);
    let last = trials.last().map_or(RATE_LEAST, |trial| trial.rate_per_second);
    match (kept, failed) {
        (None, None) => Next::Try(last),
        (Some(kept), None) if kept.rate >= RATE_MOST => Next::Settled,
        (Some(kept), None) => Next::Try(upwards(kept.rate, ceiling)),
        (None, Some(failed)) if failed <= RATE_LEAST => Next::Hopeless,
        (None, Some(failed)) => Next::Try((failed / 4.0).max(RATE_LEAST)),
        (Some(kept), Some(failed)) if failed / kept.rate - 1.0 > precision => {
            Next::Try((kept.rate * failed).sqrt())
        }
        (Some(kept), Some(_)) if kept.kept < 2 => Next::Try(kept.rate),
        _ => Next::Settled,
    }
}

/// What is thought of a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Word {
    Kept,
    Failed,
    /// Another trial decides.
    Open,
}

/// All trials of one rate.
#[derive(Debug, Clone, Copy)]
struct Judged {
    rate: f64,
    kept: u32,
    failed: u32,
    word: Word,
}

/// Below this share of the offered rate a miss is no accident.
const MISSED_BY_FAR: f64 = 0.9;

fn judged(trials: &[Trial]) -> Vec<Judged> {
    let mut rates: Vec<Judged> = Vec::new();
    for trial in trials {
        let rate = trial.rate_per_second;
        let same = |known: &&mut Judged| (known.rate / rate - 1.0).abs() < 1e-9;
        let fresh = Judged { rate, kept: 0, failed: 0, word: Word::Open };
        let place = match rates.iter_mut().find(same) {
            Some(known) => known,
            None => {
                rates.push(fresh);
                // Just pushed.
                let Some(last) = rates.last_mut() else { continue };
                last
            }
        };
        if trial.kept {
            place.kept += 1;
        } else if trial.achieved_per_second < MISSED_BY_FAR * rate {
            place.failed += 2;
        } else {
            place.failed += 1;
        }
        place.word = match (place.kept, place.failed) {
            (kept, failed) if failed >= 2 && failed > kept => Word::Failed,
            (kept, failed) if kept > failed => Word::Kept,
            _ => Word::Open,
        };
    }
    rates
}

/// The highest rate kept below the lowest that failed, and that one.
fn bracket(rates: &[Judged]) -> (Option<Judged>, Option<f64>) {
    let failed = rates.iter().filter(|rate| rate.word == Word::Failed).map(|rate| rate.rate);
    let failed = failed.min_by(f64::total_cmp);
    let kept = rates.iter().filter(|rate| rate.word == Word::Kept);
    let below = |rate: &&Judged| failed.is_none_or(|failed| rate.rate < failed);
    let kept = kept.filter(below).max_by(|a, b| a.rate.total_cmp(&b.rate));
    (kept.copied(), failed)
}

/// From far below the ceiling at once to a quarter of it; else to the double.
fn upwards(kept: f64, ceiling: Option<f64>) -> f64 {
    let quarter = ceiling.map_or(0.0, |ceiling| ceiling / 4.0);
    if quarter > 2.0 * kept { quarter } else { (2.0 * kept).min(RATE_MOST) }
}

/// The findings of a search.
pub(crate) fn findings(
    goal: Goal,
    trials: Vec<Trial>,
    precision: f64,
    ceiling: Option<f64>,
) -> SearchFindings {
    let (kept, failed) = bracket(&judged(&trials));
    let kept = kept.map(|kept| kept.rate);
    let settled = kept.is_some() && next(&trials, precision, ceiling) == Next::Settled;
    let limit = goal.latency;
    let goal_words = format!("p{} of the response at most {limit}", goal.percentile);
    let sentence = match (kept, failed, settled) {
        (Some(kept), Some(failed), true) => {
            format!("{goal_words}: kept at {kept:.0}/s, not at {failed:.0}/s")
        }
        (Some(kept), Some(failed), false) => format!(
            "{goal_words}: kept at {kept:.0}/s, not at {failed:.0}/s; not settled within the rounds"
        ),
        (Some(kept), None, _) => {
            format!("{goal_words}: kept at every rate tried, up to {kept:.0}/s")
        }
        (None, Some(failed), _) => format!("{goal_words}: not kept even at {failed:.0}/s"),
        (None, None, _) => format!("{goal_words}: nothing was tried to its end"),
    };
    SearchFindings {
        goal,
        trials,
        kept_per_second: kept,
        failed_per_second: failed,
        settled,
        sentence,
    }
}

#[cfg(test)]
mod tests {
    use durio_units::Nanos;

    use super::*;

    const GOAL: Goal = Goal { percentile: 99.0, latency: Nanos::from_millis(2) };

    fn tried(rate: f64, kept: bool) -> Trial {
        Trial {
            round: 0,
            rate_per_second: rate,
            achieved_per_second: if kept { rate } else { rate * 0.95 },
            latency_ns: Some(1),
            keeps_up: kept,
            kept,
        }
    }

    /// Searches where `keeps` says which rate keeps the goal.
    fn search(
        start: f64,
        ceiling: Option<f64>,
        keeps: impl Fn(usize, f64) -> bool,
    ) -> SearchFindings {
        let mut trials = vec![tried(start, keeps(0, start))];
        while let Next::Try(rate) = next(&trials, 0.05, ceiling) {
            assert!(trials.len() < 80, "no end: {trials:?}");
            trials.push(tried(rate, keeps(trials.len(), rate)));
        }
        findings(GOAL, trials, 0.05, ceiling)
    }

    #[test]
    fn the_true_limit_is_within_an_interval_of_the_width_asked_for() {
        for limit in [3.0, 57.0, 1234.0, 98_765.0, 7e6] {
            for start in [1.0, 1000.0, 1e6] {
                let found = search(start, None, |_, rate| rate <= limit);
                let (kept, failed) =
                    (found.kept_per_second.unwrap(), found.failed_per_second.unwrap());
                assert!(kept <= limit && limit < failed, "{limit}: {kept} to {failed}");
                assert!(failed / kept <= 1.05 + 1e-9, "{limit}: {kept} to {failed}");
                assert!(found.settled && found.trials.len() < 70, "{}", found.trials.len());
            }
        }
    }

    #[test]
    fn a_known_ceiling_saves_trials() {
        let without = search(100.0, None, |_, rate| rate <= 80_000.0).trials.len();
        let with = search(100.0, Some(100_000.0), |_, rate| rate <= 80_000.0).trials.len();
        assert!(with + 5 < without, "{with} against {without}");
    }

    #[test]
    fn neither_a_lucky_trial_nor_a_disturbed_one_is_the_answer() {
        for odd in 0..20 {
            let honest = |rate: f64| rate <= 3000.0;
            let found = search(1000.0, None, |number, rate| honest(rate) != (number == odd));
            let (kept, failed) = (found.kept_per_second.unwrap(), found.failed_per_second.unwrap());
            assert!(kept <= 3000.0 && failed > 3000.0, "odd trial {odd}: {kept} to {failed}");
            assert!(found.settled);
        }
    }

    #[test]
    fn no_rate_at_all_and_every_rate_are_told() {
        let none = search(1000.0, None, |_, _| false);
        assert!(!none.settled && none.kept_per_second.is_none());
        assert!(none.sentence.contains("not kept even at"), "{}", none.sentence);
        let all = search(1000.0, None, |_, _| true);
        assert!(all.sentence.contains("every rate tried"), "{}", all.sentence);
    }
}
