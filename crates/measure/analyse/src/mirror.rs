//! The expected cost of a mirrored write: the slower of its copies.
//!
//! The latency distribution of a single device, or, where only rates are known, the rates of a
//! device and of the mirror, give the predicted distribution, or a judgement of the measured
//! penalty. Reads are left out: a mirror serves them from either copy.
//!
//! The maximum of k independent draws from a distribution F has the distribution Fᵏ (David and
//! Nagaraja, Order Statistics, 2003, section 2.1); its q quantile is F's quantile of q^(1/k).

use serde::{Deserialize, Serialize};

use crate::DeclinedAnalysis;
use durio_base::stats::least_squares::float;

/// How often a latency was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyCount {
    /// The latency; of a histogram, the middle or the upper edge of its bucket.
    pub latency_ns: u64,
    /// How many operations took it.
    pub count: u64,
}

/// Mean and quantiles of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MirrorFigures {
    pub latency_ns_mean: f64,
    pub latency_ns_p50: u64,
    pub latency_ns_p99: u64,
    pub latency_ns_p99_9: u64,
}

/// A mirror as its single devices predict it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MirrorPrediction {
    /// Copies of each write.
    pub copies: u32,
    pub single: MirrorFigures,
    /// The slowest of the copies, drawn independently.
    pub slowest: MirrorFigures,
    /// Mean of the slowest ÷ mean of a single one; 1 for a device that always takes as long.
    pub penalty: f64,
}

/// Most copies that are predicted.
const COPIES_MAX: u32 = 64;

/// Most different latencies that are taken.
const LATENCIES_MAX: usize = 10_000_000;

/// Predicts a mirror from the latencies of a single device, given in any order.
/// Declined without a sample, with too many different latencies, or for copies other than 1 to 64.
pub(crate) fn predict(
    single: &[LatencyCount],
    copies: u32,
) -> Result<MirrorPrediction, DeclinedAnalysis> {
    check_copies(copies)?;
    DeclinedAnalysis::if_too_many("latencies", single.len(), LATENCIES_MAX)?;
    let steps = steps(single);
    DeclinedAnalysis::unless_enough("samples", steps.len(), 1)?;
    let (one, slowest) = (figures(&steps, 1), figures(&steps, copies));
    let penalty =
        if one.latency_ns_mean > 0.0 { slowest.latency_ns_mean / one.latency_ns_mean } else { 1.0 };
    Ok(MirrorPrediction { copies, single: one, slowest, penalty })
}

fn check_copies(copies: u32) -> Result<(), DeclinedAnalysis> {
    if (1..=COPIES_MAX).contains(&copies) {
        return Ok(());
    }
    let why = format!("{copies} copies; a prediction needs 1 to {COPIES_MAX}");
    Err(DeclinedAnalysis::NoSuchLayout { why })
}

/// A latency and the share of operations that took as long or less.
struct LatencyShare {
    latency_ns: u64,
    share: f64,
}

fn steps(single: &[LatencyCount]) -> Vec<LatencyShare> {
    let mut sorted: Vec<LatencyCount> =
        single.iter().filter(|latency| latency.count > 0).copied().collect();
    sorted.sort_unstable_by_key(|latency| latency.latency_ns);
    let total: u128 = sorted.iter().map(|latency| u128::from(latency.count)).sum();
    let mut so_far = 0_u128;
    let step = |latency: &LatencyCount| {
        so_far += u128::from(latency.count);
        #[expect(clippy::cast_precision_loss, reason = "a share needs no more than 53 bits")]
        let share = so_far as f64 / total as f64;
        LatencyShare { latency_ns: latency.latency_ns, share }
    };
    sorted.iter().map(step).collect()
}

fn figures(steps: &[LatencyShare], copies: u32) -> MirrorFigures {
    let power = f64::from(copies);
    let mut before = 0.0;
    let mut mean = 0.0;
    for step in steps {
        let share = step.share.powf(power);
        // The step's share of the maxima: F(x)ᵏ less the part below.
        mean += float(step.latency_ns) * (share - before);
        before = share;
    }
    MirrorFigures {
        latency_ns_mean: mean,
        latency_ns_p50: quantile(steps, 0.5, power),
        latency_ns_p99: quantile(steps, 0.99, power),
        latency_ns_p99_9: quantile(steps, 0.999, power),
    }
}

/// The least latency that the wanted share of maxima does not exceed.
fn quantile(steps: &[LatencyShare], wanted: f64, power: f64) -> u64 {
    // The margin is for shares that are a hair off in binary.
    let share = wanted.powf(1.0 / power) - 1e-12;
    let at = steps.partition_point(|step| step.share < share);
    steps.get(at).or(steps.last()).map_or(0, |step| step.latency_ns)
}

/// The judgement of a mirror's penalty, where only rates are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PenaltyVerdict {
    /// The mirror is as fast as a device, or faster: the copies' latencies vary little, or together.
    None,
    /// Waiting for the slowest copy explains it, with latencies that vary less than exponentially.
    Explained,
    /// Waiting explains it only if latencies vary more than exponentially: most are short, a few
    /// very long. The single device's distribution shows whether they do.
    OnlyByLongTail,
    /// No distribution of independent latencies explains it: the mirror itself adds cost.
    BeyondWaiting,
}

/// The penalty of a mirror, with what independent copies would cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Penalty {
    /// Copies of each write.
    pub copies: u32,
    /// Rate of the baseline ÷ rate of the mirror: time per write, as a multiple.
    pub measured: f64,
    /// The penalty for latencies that never vary: 1.
    pub if_constant: f64,
    /// For latencies evenly distributed from 0 to twice the mean: 2k ÷ (k + 1).
    pub if_uniform: f64,
    /// For exponential latencies: 1 + 1/2 + … + 1/k.
    pub if_exponential: f64,
    /// No latencies with this mean give more: k, since the maximum is less than the sum.
    pub at_most: f64,
    /// Least coefficient of variation of a device's latency that explains the penalty; `None` if
    /// none does.
    pub least_variation: Option<f64>,
    pub verdict: PenaltyVerdict,
    /// The conclusion, with its reason.
    pub sentence: String,
}

/// Judges the rates of a mirror against those of the same devices without it: same workload, same
/// jobs, each waiting for its write, so that the time per write is jobs ÷ rate.
/// Declined if a rate is invalid, or for copies other than 2 to 64.
pub(crate) fn penalty(
    baseline_rate_per_second: f64,
    mirror_rate_per_second: f64,
    copies: u32,
) -> Result<Penalty, DeclinedAnalysis> {
    check_copies(copies)?;
    if copies < 2 {
        return Err(DeclinedAnalysis::NoSuchLayout { why: "one copy is not a mirror".to_owned() });
    }
    DeclinedAnalysis::unless_positive("rate", [baseline_rate_per_second, mirror_rate_per_second])?;
    let measured = baseline_rate_per_second / mirror_rate_per_second;
    let k = f64::from(copies);
    let if_exponential = (1..=copies).map(|i| 1.0 / f64::from(i)).sum();
    let verdict = verdict(measured, if_exponential, k);
    let mut found = Penalty {
        copies,
        measured,
        if_constant: 1.0,
        if_uniform: 2.0 * k / (k + 1.0),
        if_exponential,
        at_most: k,
        least_variation: least_variation(measured, copies),
        verdict,
        sentence: String::new(),
    };
    found.sentence = sentence(&found);
    Ok(found)
}

/// A mirror within it is as fast as a device.
// Rates repeat to two per cent at best.
const SAME: f64 = 1.02;

fn verdict(measured: f64, if_exponential: f64, at_most: f64) -> PenaltyVerdict {
    if measured <= SAME {
        PenaltyVerdict::None
    } else if measured <= if_exponential {
        PenaltyVerdict::Explained
    } else if measured < at_most {
        PenaltyVerdict::OnlyByLongTail
    } else {
        PenaltyVerdict::BeyondWaiting
    }
}

/// The least σ ÷ μ of single latencies that explains a penalty.
// Hartley and David (1954), and Gumbel: the mean of the largest of k is at most
// μ + σ (k − 1) ÷ √(2k − 1), whatever the distribution.
fn least_variation(measured: f64, copies: u32) -> Option<f64> {
    let k = f64::from(copies);
    // From k on none does: the maximum of k is less than their sum.
    let explains = measured > 1.0 && measured < k;
    explains.then(|| (measured - 1.0) * (2.0 * k - 1.0).sqrt() / (k - 1.0))
}

fn sentence(found: &Penalty) -> String {
    let (copies, measured) = (found.copies, found.measured);
    let variation = found.least_variation.unwrap_or_default();
    let says = match found.verdict {
        PenaltyVerdict::None => ": no penalty; the copies' latencies vary little, or the baseline \
                                 was limited by something else"
            .to_owned(),
        PenaltyVerdict::Explained => format!(
            "; waiting for the slower of {copies} independent copies explains it if the standard \
             deviation of a device's latency is at least {variation:.2} of its mean (exponential \
             latencies, whose is 1, would give {:.2})",
            found.if_exponential
        ),
        PenaltyVerdict::OnlyByLongTail => format!(
            "; exponential latencies would give {:.2}: waiting explains it only with a longer tail \
             than that, a standard deviation of at least {variation:.2} of the mean",
            found.if_exponential
        ),
        PenaltyVerdict::BeyondWaiting => format!(
            "; waiting for all of {copies} independent copies never takes {copies} times as long, \
             whatever their distribution (the longest is less than the sum): the mirror itself \
             costs, by locks, by writing one copy after the other, or by a bitmap"
        ),
    };
    format!("a mirrored write takes {measured:.2} times as long as a single one{says}")
}

/// A measured mirror against the prediction from its single device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MirrorComparison {
    pub predicted: MirrorPrediction,
    pub measured: MirrorFigures,
    /// Measured mean ÷ predicted mean: above 1 the mirror costs more than waiting.
    pub mean_ratio: f64,
    /// Measured ÷ predicted 99 % quantile.
    pub p99_ratio: f64,
}

/// Compares a measured mirror with the prediction; declined as [`predict`] is, for either side.
pub(crate) fn compare_with_prediction(
    single: &[LatencyCount],
    mirror: &[LatencyCount],
    copies: u32,
) -> Result<MirrorComparison, DeclinedAnalysis> {
    let predicted = predict(single, copies)?;
    // With one copy this is not a prediction but the measured latencies themselves.
    let measured = predict(mirror, 1)?.single;
    Ok(MirrorComparison {
        mean_ratio: ratio(measured.latency_ns_mean, predicted.slowest.latency_ns_mean),
        p99_ratio: ratio(float(measured.latency_ns_p99), float(predicted.slowest.latency_ns_p99)),
        predicted,
        measured,
    })
}

fn ratio(measured: f64, predicted: f64) -> f64 {
    // Histograms may have a bucket of zero; a nanosecond more changes no ratio that matters.
    (measured + 1.0) / (predicted + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A distribution by its quantile function, in `samples` equal parts.
    fn of(samples: u64, quantile: impl Fn(f64) -> f64) -> Vec<LatencyCount> {
        let middle = |index| (f64::from(u32::try_from(index).unwrap()) + 0.5) / float(samples);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a test's ns")]
        let latency =
            |index: u64| LatencyCount { latency_ns: quantile(middle(index)) as u64, count: 1 };
        (0..samples).map(latency).collect()
    }

    #[test]
    fn constant_latencies_have_no_penalty() {
        let found = predict(&[LatencyCount { latency_ns: 80_000, count: 1_000 }], 2).unwrap();
        assert_eq!((found.penalty, found.slowest.latency_ns_p99), (1.0, 80_000));
    }

    #[test]
    fn uniform_and_exponential_latencies_give_four_thirds_and_three_halves() {
        let uniform = predict(&of(100_000, |q| q * 2e5), 2).unwrap();
        assert!((uniform.penalty - 4.0 / 3.0).abs() < 1e-3, "{}", uniform.penalty);
        let exponential = of(100_000, |q| -(1.0 - q).ln() * 1e5);
        for (copies, expected) in [(2, 1.5), (3, 1.5 + 1.0 / 3.0)] {
            let found = predict(&exponential, copies).unwrap().penalty;
            assert!((found - expected).abs() < 2e-3, "{found} for {expected}");
        }
    }

    #[test]
    fn a_percentile_of_the_slower_is_a_higher_one_of_the_single() {
        // Of uniform latencies to 100 µs: the median of the larger of two is at √0.5.
        let found = predict(&of(100_000, |q| q * 1e5), 2).unwrap();
        let near = |found: u64, expected: f64| (float(found) / expected - 1.0).abs() < 1e-3;
        assert!(near(found.slowest.latency_ns_p50, 70_711.0), "{found:?}");
        assert!(near(found.slowest.latency_ns_p99, 99_499.0), "{found:?}");
        assert!(near(found.single.latency_ns_p50, 50_000.0), "{found:?}");
    }

    #[test]
    fn the_order_of_the_latencies_and_empty_buckets_do_not_matter() {
        let sorted = of(1_000, |q| q * 1e5);
        let mut turned = sorted.clone();
        turned.reverse();
        turned.insert(5, LatencyCount { latency_ns: 77, count: 0 });
        assert_eq!(predict(&sorted, 2), predict(&turned, 2));
    }

    #[test]
    fn a_mirror_that_only_waits_meets_its_prediction_and_a_slower_one_exceeds_it() {
        let single = of(10_000, |q| -(1.0 - q).ln() * 1e5);
        // The larger of two exponential draws, by its quantile function.
        let mirror = of(10_000, |q| -(1.0 - q.sqrt()).ln() * 1e5);
        let found = compare_with_prediction(&single, &mirror, 2).unwrap();
        assert!((found.mean_ratio - 1.0).abs() < 0.01, "{found:?}");
        assert!((found.p99_ratio - 1.0).abs() < 0.01, "{found:?}");
        let slower = of(10_000, |q| -(1.0 - q.sqrt()).ln() * 2e5);
        let found = compare_with_prediction(&single, &slower, 2).unwrap();
        assert!((found.mean_ratio - 2.0).abs() < 0.02, "{found:?}");
    }

    // Percona, "RAID throughput on FusionIO", 24 March 2010: 16 KiB random writes per second, by one
    // thread and by 16.
    const SINGLE: [f64; 2] = [14_357.65, 32_447.07];
    const RAID1: [f64; 2] = [9_821.12, 15_220.57];
    const RAID0: [f64; 2] = [12_993.91, 43_023.12];
    const RAID1_OVER_0: [f64; 2] = [7_395.75, 13_536.86];
    const RAID0_OVER_1: [f64; 2] = [8_830.49, 18_687.97];
    const RAID10_N2: [f64; 2] = [10_634.62, 31_038.5];

    #[test]
    fn with_one_thread_waiting_for_the_slower_card_explains_the_mirror() {
        let found = penalty(SINGLE[0], RAID1[0], 2).unwrap();
        assert!((found.measured - 1.462).abs() < 0.001, "{}", found.measured);
        // Just below the 1.5 of exponential latencies: the cards' latencies would have to vary a lot.
        assert_eq!(found.verdict, PenaltyVerdict::Explained);
        assert!((found.least_variation.unwrap() - 0.80).abs() < 0.005, "{found:?}");
    }

    #[test]
    fn with_16_threads_no_waiting_explains_it() {
        // A reader of the publication explained the loss by the slower of two cards. The figures say
        // that this cannot be all: 2.13 times the time, and the longer of two is less than their sum.
        // At 15 220 writes per second each card had less to do than alone, so that its own latency
        // cannot have been the longer.
        let found = penalty(SINGLE[1], RAID1[1], 2).unwrap();
        assert!((found.measured - 2.132).abs() < 0.001, "{}", found.measured);
        assert_eq!(found.verdict, PenaltyVerdict::BeyondWaiting);
        assert_eq!(found.least_variation, None);
        assert!(found.sentence.contains("less than the sum"), "{}", found.sentence);
    }

    #[test]
    fn mirrors_of_stripes_cost_more_than_waiting_and_the_n2_layout_does_not() {
        // Against the stripe over two cards: the only published baseline; a stripe over four would be
        // faster, and each penalty larger.
        let verdict = |mirror: [f64; 2], i: usize| penalty(RAID0[i], mirror[i], 2).unwrap().verdict;
        assert_eq!(verdict(RAID1_OVER_0, 0), PenaltyVerdict::OnlyByLongTail);
        assert_eq!(verdict(RAID1_OVER_0, 1), PenaltyVerdict::BeyondWaiting);
        assert_eq!(verdict(RAID0_OVER_1, 0), PenaltyVerdict::Explained);
        assert_eq!(verdict(RAID0_OVER_1, 1), PenaltyVerdict::BeyondWaiting);
        assert_eq!(verdict(RAID10_N2, 0), PenaltyVerdict::Explained);
        assert_eq!(verdict(RAID10_N2, 1), PenaltyVerdict::Explained);
    }

    #[test]
    fn what_independent_copies_would_cost_stands_beside_it() {
        let found = penalty(SINGLE[1], RAID1[1], 2).unwrap();
        assert_eq!((found.if_constant, found.if_exponential, found.at_most), (1.0, 1.5, 2.0));
        assert!((found.if_uniform - 4.0 / 3.0).abs() < 1e-12);
        assert_eq!(penalty(1e5, 1e5, 2).unwrap().verdict, PenaltyVerdict::None);
    }

    #[test]
    fn no_samples_and_no_copies_are_declined() {
        assert!(matches!(predict(&[], 2), Err(DeclinedAnalysis::TooFew { .. })));
        let empty = [LatencyCount { latency_ns: 5, count: 0 }];
        assert!(matches!(predict(&empty, 2), Err(DeclinedAnalysis::TooFew { .. })));
        for copies in [0, 65, u32::MAX] {
            assert!(predict(&of(10, |q| q * 1e5), copies).is_err());
        }
        assert!(predict(&of(10, |q| q * 1e5), 64).is_ok());
        assert!(penalty(1.0, 1.0, 1).is_err());
        assert!(penalty(0.0, 1.0, 2).is_err());
    }

    proptest! {
        #[test]
        fn the_slowest_is_between_one_copy_and_all_of_them_one_after_the_other(
            latencies in prop::collection::vec((any::<u32>(), 1..1_000_000_u64), 1..50),
            copies in 1..10_u32,
        ) {
            let counts: Vec<LatencyCount> = latencies
                .into_iter()
                .map(|(latency, count)| LatencyCount { latency_ns: latency.into(), count })
                .collect();
            let found = predict(&counts, copies).unwrap();
            prop_assert!(found.penalty > 1.0 - 1e-9 && found.penalty <= f64::from(copies) + 1e-9);
            prop_assert!(found.slowest.latency_ns_p99 >= found.single.latency_ns_p99);
        }

        #[test]
        fn no_counts_make_it_panic(
            counts in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
            copies in any::<u32>(), a in any::<f64>(), b in any::<f64>(),
        ) {
            let counts: Vec<LatencyCount> = counts
                .into_iter()
                .map(|(latency_ns, count)| LatencyCount { latency_ns, count })
                .collect();
            let _ = predict(&counts, copies);
            let _ = compare_with_prediction(&counts, &counts, 2);
            let _ = penalty(a, b, copies);
        }
    }

    #[test]
    fn each_figure_of_a_mirror_is_of_its_own_percentile_and_of_its_own_side() {
        // Of uniform latencies to 100 µs: the q quantile of the larger of two is at √q.
        let single = of(100_000, |q| q * 1e5);
        let near = |found: u64, expected: f64| {
            assert!((float(found) / expected - 1.0).abs() < 1e-4, "{found} for {expected}");
        };
        let found = predict(&single, 2).unwrap();
        near(found.single.latency_ns_p99, 99_000.0);
        near(found.single.latency_ns_p99_9, 99_900.0);
        near(found.slowest.latency_ns_p99_9, 1e5 * 0.999_f64.sqrt());
        // A mirror of which 15 writes of a thousand take ten times as long.
        let mirror = of(100_000, |q| if q < 0.985 { 1e5 * q.sqrt() } else { 1e6 * q.sqrt() });
        let found = compare_with_prediction(&single, &mirror, 2).unwrap();
        assert!((found.p99_ratio - 10.0).abs() < 0.01, "{found:?}");
        assert!((found.mean_ratio - 1.202).abs() < 0.005, "{found:?}");
        near(found.measured.latency_ns_p50, 1e5 * 0.5_f64.sqrt());
        near(found.measured.latency_ns_p99, 1e6 * 0.99_f64.sqrt());
        near(found.predicted.slowest.latency_ns_p99, 1e5 * 0.99_f64.sqrt());
        near(found.predicted.single.latency_ns_p50, 5e4);
    }

    #[test]
    fn each_bound_of_a_penalty_is_kept_on_both_sides() {
        use PenaltyVerdict::{BeyondWaiting, Explained, OnlyByLongTail};
        let found = [1.02, 1.021, 1.5, 1.501, 1.999, 2.0].map(|times| verdict(times, 1.5, 2.0));
        let none = PenaltyVerdict::None;
        let expected = [none, Explained, Explained, OnlyByLongTail, OnlyByLongTail, BeyondWaiting];
        assert_eq!(found, expected);
        assert_eq!([least_variation(1.0, 2), least_variation(2.0, 2)], [None; 2]);
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-9;
        assert!(near(least_variation(1.5, 2), 0.5 * 3_f64.sqrt()));
        assert!(near(least_variation(2.0, 3), 5_f64.sqrt() / 2.0));
    }
}
