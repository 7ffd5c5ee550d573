//! The highest rate that keeps a goal: what to try next, and the bounds known so far.
//!
//! The search begins at half of what a closed loop reaches (or at a given first rate). Rates are
//! doubled until one fails, or halved until one keeps the goal; then the gap between the highest
//! rate kept and the lowest failed is halved (by ratio) until it is narrow enough, and the highest
//! rate is tried once more. Neither a lucky trial nor a disturbed one may be the answer: a failure
//! is tried again, too, unless the rate was missed by far, and two of three trials decide. Where
//! rates contradict each other, the lowest failure counts.
//!
//! A trial judges a percentile only with as many responses as that has one beyond itself in (100 for
//! p99): rates too low for that in the time of a trial are not tried, and below them nothing is said.

use durio_plan::Goal;
use durio_record::OperationName;
use serde::{Deserialize, Serialize};

use crate::{WorkloadFindings, grouped};

/// One rate that was offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateTrial {
    /// Round of the section.
    pub round: u32,
    /// Offered accesses per second.
    pub rate_per_second: f64,
    /// Accesses per second that were done.
    pub achieved_per_second: f64,
    /// The goal's percentile of the response latency; `None` with too few responses for it.
    pub latency_ns: Option<u64>,
    #[serde(default)]
    pub responses: u64,
    /// True if there were too few responses for the goal's percentile, so that nothing was judged.
    #[serde(default)]
    pub too_few: bool,
    /// All but a hundredth of the arrivals were started.
    pub keeps_up: bool,
    /// The goal was kept.
    pub kept: bool,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchFindings {
    /// What had to be kept.
    pub goal: Goal,
    /// In the order in which they were made.
    pub trials: Vec<RateTrial>,
    /// The highest rate that kept the goal, below every rate that did not; `None` if none kept it.
    pub kept_per_second: Option<f64>,
    /// The lowest rate that failed; `None` if all kept the goal.
    pub failed_per_second: Option<f64>,
    /// True if the gap is as narrow as requested and the highest rate kept the goal twice.
    pub settled: bool,
    /// The result in words.
    pub sentence: String,
}

/// What to do after the trials so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NextTrial {
    Try(f64),
    Settled,
    /// No rate that can be judged keeps the goal.
    Hopeless,
}

/// The terms of a search, other than its trials.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Width of the interval, as a share.
    pub(crate) precision: f64,
    /// The rate of a closed loop.
    pub(crate) ceiling: Option<f64>,
    /// The lowest rate at which a trial has the responses that the percentile needs.
    pub(crate) rate_least: f64,
}

/// Where a search starts, as a share of a closed loop's rate.
// At that rate the queue of an open loop grows without end; at half of it a wait is about as long
// as a service.
const START_SHARE: f64 = 0.5;

/// The first rate to try.
pub(crate) fn first_rate(terms: Terms) -> Option<f64> {
    Some((terms.ceiling? * START_SHARE).max(terms.rate_least)).filter(|rate| rate.is_finite())
}

/// How many more arrivals are expected than the percentile needs.
// Random arrivals scatter: so one trial in hundreds has too few (100 are needed, 130 expected,
// whose standard deviation is 11.4).
const ARRIVALS_SPARE: f64 = 1.3;

/// Responses that a percentile needs: one beyond it.
pub(crate) fn responses_needed(goal: Goal) -> f64 {
    (1.0 / (1.0 - goal.percentile / 100.0)).max(1.0)
}

/// The lowest rate that a trial of `seconds` can judge.
pub(crate) fn rate_least(goal: Goal, seconds: Option<f64>) -> f64 {
    let seconds = seconds.filter(|seconds| *seconds > 0.0);
    seconds.map_or(RATE_LEAST, |seconds| responses_needed(goal) * ARRIVALS_SPARE / seconds)
}

/// Where the time of a trial is not known.
const RATE_LEAST: f64 = 1.0;
/// Above it no schedule can be kept.
// One arrival in each nanosecond, the unit in which they are scheduled.
const RATE_MOST: f64 = 1e9;

/// The trial that a round was.
pub(crate) fn trial(round: u32, workload: &WorkloadFindings, goal: Goal) -> Option<RateTrial> {
    let open = workload.open_loop?;
    let operation = workload
        .operation(workload.headline)
        .or_else(|| workload.operation(OperationName::Read))?;
    let response = operation.response_curve_at(goal.percentile);
    let keeps_up = open.keeps_up();
    Some(RateTrial {
        round,
        rate_per_second: open.offered_per_second,
        achieved_per_second: open.achieved_per_second,
        latency_ns: response,
        responses: operation.response.as_ref().map_or(0, |response| response.count),
        // A rate that is missed is missed, however few the responses are.
        too_few: response.is_none() && keeps_up,
        keeps_up,
        kept: keeps_up && response.is_some_and(|latency| latency <= goal.latency.get()),
    })
}

/// What to try after `trials`.
pub(crate) fn next(trials: &[RateTrial], terms: Terms) -> NextTrial {
    let rates = judged(trials);
    if let Some(open) = rates.iter().find(|rate| rate.word == RateOpinion::Open) {
        return NextTrial::Try(open.rate);
    }
    let (kept, failed) = bracket(&rates);
    let least = least(trials, terms);
    match (kept, failed) {
        // Every trial had too few responses, and no higher rate can be offered.
        (None, None) if least >= RATE_MOST => NextTrial::Hopeless,
        (None, None) => NextTrial::Try(least),
        (Some(kept), None) if kept.rate >= RATE_MOST => NextTrial::Settled,
        (Some(kept), None) => NextTrial::Try(upwards(kept.rate, terms.ceiling)),
        (None, Some(failed)) if failed <= least * (1.0 + 1e-9) => NextTrial::Hopeless,
        (None, Some(failed)) => NextTrial::Try((failed / 2.0).max(least)),
        (Some(kept), Some(failed)) if failed / kept.rate - 1.0 > terms.precision => {
            // Halved by ratio: rates span decades, and the precision asked for is a share.
            NextTrial::Try((kept.rate * failed).sqrt())
        }
        // On a shared machine one trial in ten is disturbed (docs/design/0006): the answer must
        // hold twice.
        (Some(kept), Some(_)) if kept.kept < 2 => NextTrial::Try(kept.rate),
        _ => NextTrial::Settled,
    }
}

/// The lowest rate worth trying: well above those that had too few responses.
fn least(trials: &[RateTrial], terms: Terms) -> f64 {
    let too_few = trials.iter().filter(|trial| trial.too_few).map(|trial| trial.rate_per_second);
    // Half as much again: at a rate just above, chance would leave too few responses once more.
    too_few.fold(terms.rate_least, |least, rate| least.max(rate * 1.5)).min(RATE_MOST)
}

/// The judgement of a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RateOpinion {
    Kept,
    Failed,
    /// Another trial has to decide.
    Open,
}

/// All trials of one rate.
#[derive(Debug, Clone, Copy)]
struct JudgedRate {
    rate: f64,
    /// How many of them kept the goal.
    kept: usize,
    word: RateOpinion,
}

/// Below this share of the offered rate a miss is not an accident.
const MISSED_BY_FAR: f64 = 0.9;

fn judged(trials: &[RateTrial]) -> Vec<JudgedRate> {
    // Rates come from halving and doubling: the same rate may differ in its last digits.
    let is_same =
        |a: &&RateTrial, b: &&RateTrial| (a.rate_per_second / b.rate_per_second - 1.0).abs() < 1e-9;
    let rates = grouped(trials.iter().filter(|trial| !trial.too_few), is_same);
    let judge = |trials: Vec<&RateTrial>| {
        let rate = trials.first().map_or(0.0, |trial| trial.rate_per_second);
        let kept = trials.iter().filter(|trial| trial.kept).count();
        let failures = trials.iter().filter(|trial| !trial.kept).map(|trial| {
            // A rate that is missed by far is failed at once, as if by two trials.
            if trial.achieved_per_second < MISSED_BY_FAR * rate { 2 } else { 1 }
        });
        let failed = failures.sum();
        let word = match (kept, failed) {
            (kept, failed) if failed >= 2 && failed > kept => RateOpinion::Failed,
            (kept, failed) if kept > failed => RateOpinion::Kept,
            // Two trials of three decide: a single failure is open until it is repeated.
            _ => RateOpinion::Open,
        };
        JudgedRate { rate, kept, word }
    };
    rates.into_iter().map(judge).collect()
}

/// The highest rate kept below the lowest that failed, and that one.
fn bracket(rates: &[JudgedRate]) -> (Option<JudgedRate>, Option<f64>) {
    let failed = rates.iter().filter(|rate| rate.word == RateOpinion::Failed).map(|rate| rate.rate);
    // The lowest failure counts, also below rates that were kept: storage that fails at less load
    // was lucky at more.
    let failed = failed.min_by(f64::total_cmp);
    let kept = rates.iter().filter(|rate| rate.word == RateOpinion::Kept);
    let below = |rate: &&JudgedRate| failed.is_none_or(|failed| rate.rate < failed);
    let kept = kept.filter(below).max_by(|a, b| a.rate.total_cmp(&b.rate));
    (kept.copied(), failed)
}

/// From far below the ceiling at once to half of it; else to the double.
fn upwards(kept: f64, ceiling: Option<f64>) -> f64 {
    let half = ceiling.map_or(0.0, |ceiling| ceiling * START_SHARE);
    if half > 2.0 * kept { half } else { (2.0 * kept).min(RATE_MOST) }
}

/// The findings of a search.
pub(crate) fn findings(goal: Goal, trials: Vec<RateTrial>, terms: Terms) -> SearchFindings {
    let (kept, failed) = bracket(&judged(&trials));
    let kept = kept.map(|kept| kept.rate);
    let settled = kept.is_some() && next(&trials, terms) == NextTrial::Settled;
    let percentile = goal.percentile;
    let needed = responses_needed(goal).ceil();
    let says = match (kept, failed, settled) {
        (Some(kept), Some(failed), true) => format!("met at {kept:.0}/s, missed at {failed:.0}/s"),
        (Some(kept), Some(failed), false) => {
            let rates = format!("met at {kept:.0}/s, missed at {failed:.0}/s");
            format!("{rates}; not narrowed further within the rounds")
        }
        (Some(kept), None, _) => format!("met at every rate tried, up to {kept:.0}/s"),
        (None, Some(failed), _) if failed > least(&trials, terms) * (1.0 + 1e-9) => {
            format!("missed at {failed:.0}/s; not narrowed further within the rounds")
        }
        (None, Some(failed), _) => format!(
            "missed at {failed:.0}/s; undecided below that: p{percentile} needs {needed} \
             responses, and a trial of this length has fewer (use a longer --duration)"
        ),
        (None, None, _) => format!(
            "undecided: no trial had the {needed} responses that p{percentile} needs; use longer \
             trials (--duration)"
        ),
    };
    let sentence = format!("p{percentile} of the response at most {}: {says}", goal.latency);
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
    use durio_base::Nanos;

    use super::*;

    const GOAL: Goal = Goal { percentile: 99.0, latency: Nanos::from_millis(2) };

    fn tried(rate: f64, kept: bool) -> RateTrial {
        RateTrial {
            round: 0,
            rate_per_second: rate,
            achieved_per_second: if kept { rate } else { rate * 0.95 },
            latency_ns: Some(1),
            responses: 1000,
            too_few: false,
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
        let terms = Terms { precision: 0.05, ceiling, rate_least: RATE_LEAST };
        while let NextTrial::Try(rate) = next(&trials, terms) {
            assert!(trials.len() < 80, "no end: {trials:?}");
            trials.push(tried(rate, keeps(trials.len(), rate)));
        }
        findings(GOAL, trials, terms)
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
    fn a_rate_that_was_kept_above_one_that_failed_is_not_the_answer() {
        let terms = Terms { precision: 0.05, ceiling: None, rate_least: RATE_LEAST };
        let of = |kept: &[f64], failed: &[f64]| {
            let kept = kept.iter().map(|&rate| tried(rate, true));
            // Two trials decide.
            let failed = failed.iter().flat_map(|&rate| [tried(rate, false), tried(rate, false)]);
            let trials: Vec<_> = kept.chain(failed).collect();
            (next(&trials, terms), findings(GOAL, trials, terms))
        };
        let (then, found) = of(&[900.0, 100.0, 200.0, 150.0], &[1000.0, 800.0, 950.0]);
        assert_eq!(then, NextTrial::Try(400.0), "between 200 and 800 by ratio");
        assert_eq!((found.kept_per_second, found.failed_per_second), (Some(200.0), Some(800.0)));
        let says = "met at 200/s, missed at 800/s; not narrowed further within the rounds";
        assert!(found.sentence.ends_with(says), "{}", found.sentence);
        let (then, found) = of(&[900.0, 850.0], &[800.0]);
        assert_eq!(then, NextTrial::Try(400.0), "half of what failed");
        assert_eq!((found.kept_per_second, found.failed_per_second), (None, Some(800.0)));
        let says = "missed at 800/s; not narrowed further within the rounds";
        assert!(found.sentence.ends_with(says) && !found.settled, "{}", found.sentence);
    }

    #[test]
    fn a_gap_that_is_narrow_enough_is_settled_once_its_lower_end_was_kept_twice() {
        let terms = Terms { precision: 0.05, ceiling: None, rate_least: RATE_LEAST };
        let [kept, failed] = [tried(1000.0, true), tried(1040.0, false)];
        let lower = [tried(500.0, true), tried(500.0, true), tried(500.0, true)];
        let mut trials = [&lower[..], &[kept.clone(), failed.clone(), failed]].concat();
        assert_eq!(next(&trials, terms), NextTrial::Try(1000.0));
        assert!(!findings(GOAL, trials.clone(), terms).settled);
        trials.push(kept);
        assert_eq!(next(&trials, terms), NextTrial::Settled);
        let found = findings(GOAL, trials.clone(), terms);
        assert!(found.settled && found.sentence.ends_with("met at 1000/s, missed at 1040/s"));
        let narrower = Terms { precision: 0.03, ..terms };
        assert!(matches!(next(&trials, narrower), NextTrial::Try(rate) if rate > 1000.0));
    }

    #[test]
    fn no_rate_at_all_and_every_rate_are_told() {
        let none = search(1000.0, None, |_, _| false);
        assert!(!none.settled && none.kept_per_second.is_none());
        assert!(none.sentence.contains("missed at 1/s; undecided below that"), "{}", none.sentence);
        let all = search(1000.0, None, |_, _| true);
        assert!(all.sentence.contains("every rate tried"), "{}", all.sentence);
    }

    #[test]
    fn rates_whose_trials_have_too_few_responses_are_neither_tried_nor_judged() {
        let second = rate_least(GOAL, Some(1.0));
        assert!((second - 130.0).abs() < 1e-6, "p99 needs 100, random arrivals scatter: {second}");
        let terms = Terms { precision: 0.05, ceiling: Some(623.0), rate_least: second };
        assert_eq!(first_rate(terms), Some(311.5), "half of what a closed loop reaches");
        let mut trials = vec![tried(311.5, false)];
        while let NextTrial::Try(rate) = next(&trials, terms) {
            assert!(rate >= 129.9, "{rate}");
            trials.push(tried(rate, false));
        }
        let found = findings(GOAL, trials, terms);
        assert!(found.sentence.contains("missed at 130/s; undecided below that"), "{found:?}");
        assert!(found.sentence.contains("p99 needs 100 responses"), "{}", found.sentence);
    }

    #[test]
    fn a_trial_with_too_few_responses_says_nothing_and_a_higher_rate_is_tried() {
        let few =
            RateTrial { too_few: true, latency_ns: None, responses: 16, ..tried(16.0, false) };
        let terms = Terms { precision: 0.05, ceiling: None, rate_least: RATE_LEAST };
        assert_eq!(next(std::slice::from_ref(&few), terms), NextTrial::Try(24.0));
        let found = findings(GOAL, vec![few], terms);
        assert_eq!((found.kept_per_second, found.failed_per_second), (None, None));
        assert!(found.sentence.contains("undecided: no trial"), "{}", found.sentence);
    }

    #[test]
    fn a_rate_that_is_missed_by_a_tenth_needs_no_second_trial() {
        let after = |share: f64| {
            let missed = RateTrial { achieved_per_second: 1000.0 * share, ..tried(1000.0, false) };
            next(&[missed], Terms { precision: 0.05, ceiling: None, rate_least: 1.0 })
        };
        assert_eq!([after(0.899), after(0.901)], [NextTrial::Try(500.0), NextTrial::Try(1000.0)]);
    }

    #[test]
    fn rates_are_one_per_second_to_one_per_nanosecond() {
        assert_eq!([rate_least(GOAL, None), rate_least(GOAL, Some(0.0))], [1.0; 2]);
        let terms = Terms { precision: 0.05, ceiling: None, rate_least: 1.0 };
        let after = |rate| next(&[tried(rate, true), tried(rate, true)], terms);
        assert_eq!(after(4e8), NextTrial::Try(8e8));
        assert_eq!([after(6e8), after(0.99e9)], [NextTrial::Try(1e9); 2]);
        assert_eq!(after(1e9), NextTrial::Settled);
    }

    #[test]
    fn a_trial_keeps_its_goal_up_to_the_limit_with_its_rate_and_enough_responses() {
        let of = |started_share: f64, count: u64, latency_ns: u64| {
            let mut found = crate::tests::sample::sample().workloads.remove(0);
            assert_eq!(trial(7, &found, GOAL), None, "no rate was offered");
            found.open_loop = Some(crate::OpenLoop {
                arrivals: durio_workload::Arrivals::Constant { rate_per_second: 500.0 },
                offered_per_second: 500.0,
                achieved_per_second: 490.0,
                due: 3000,
                never_started: 0,
                started_share,
                lag_ns_mean: 1.0,
                lag_ns_max: 2,
                behind_ns_max: 3,
            });
            let commit = &mut found.operations[0];
            let mut response = commit.service.clone();
            (response.count, response.max_ns) = (count, 9_000_000);
            commit.response = Some(response);
            let point = |quantile, latency_ns| crate::CurvePoint { quantile, latency_ns };
            commit.response_curve =
                vec![point(0.5, 1), point(0.99, latency_ns), point(0.999, 8_000_000)];
            trial(7, &found, GOAL).unwrap()
        };
        let kept = RateTrial {
            round: 7,
            rate_per_second: 500.0,
            achieved_per_second: 490.0,
            latency_ns: Some(2_000_000),
            responses: 100,
            too_few: false,
            keeps_up: true,
            kept: true,
        };
        assert_eq!(of(0.99, 100, 2_000_000), kept);
        let slow = RateTrial { latency_ns: Some(2_000_001), kept: false, ..kept.clone() };
        assert_eq!(of(0.99, 100, 2_000_001), slow);
        let late = RateTrial { keeps_up: false, kept: false, ..kept.clone() };
        assert_eq!(of(0.989, 100, 2_000_000), late);
        let few = RateTrial { latency_ns: None, responses: 99, kept: false, too_few: true, ..kept };
        assert_eq!(of(0.99, 99, 1), few);
        assert_eq!(of(0.5, 99, 1), RateTrial { too_few: false, keeps_up: false, ..few });
    }
}
