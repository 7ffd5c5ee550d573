//! Which commit delay and batch bound suit this storage.
//!
//! The arms of the delays' experiment give [`CommitDelayFindings`] with the measured gain against
//! no delay. The rule is durio's choice: the smallest delay whose rate is within the noise of the
//! best one's, if the best gains more than the noise over no delay; else no delay. Likewise the
//! smallest batch bound that is within the noise of the best at that delay.

use durio_base::stats::least_squares::float;
use durio_base::{Bytes, Nanos};
use durio_plan::Experiment;
use serde::{Deserialize, Serialize};

use super::arm::{ArmSetting, DurableArm, ExperimentInput, arms, by_key};

/// The advised setting, and its gain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitDelayAdvice {
    /// The delay; zero for none.
    #[serde(rename = "delay_ns")]
    pub delay: Nanos,
    /// The most bytes in a batch.
    #[serde(rename = "batch_max_bytes")]
    pub batch_max: Bytes,
    /// Position of its arm.
    pub arm: usize,
    /// Position of the arm without delay that it is compared with.
    pub without: usize,
    /// Rate over that without delay, − 1; zero if no delay is advised.
    pub gain_share: f64,
    /// The highest gain of any delay.
    pub best_gain_share: f64,
    /// Gains below it are noise.
    pub noise_share: f64,
    /// 99th percentile of a commit over that without delay, − 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_share: Option<f64>,
}

/// The delays of one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitDelayFindings {
    /// As set and measured, by delay and bound.
    pub arms: Vec<DurableArm>,
    /// What follows; `None` without an arm that has no delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<CommitDelayAdvice>,
}

/// The least that counts as more than noise.
// Smaller differences are not worth a setting, even if they are real.
const NOISE_MIN: f64 = 0.05;

pub(super) fn commit_delays(measured: &ExperimentInput<'_>) -> Vec<CommitDelayFindings> {
    let all = arms(measured, Experiment::CommitDelay).into_iter();
    let logs = all.filter(|arm| arm.setting.group_commit.is_some()).collect();
    let key = |setting: &ArmSetting| {
        (
            setting.method,
            setting.cache,
            setting.block_size,
            setting.committers(),
            setting.location.clone(),
        )
    };
    by_key(logs, key).into_iter().map(of_group).collect()
}

fn of_group(mut arms: Vec<DurableArm>) -> CommitDelayFindings {
    arms.sort_by_key(|arm| (delay(arm), bound(arm)));
    let advice = advice(&arms);
    CommitDelayFindings { arms, advice }
}

fn delay(arm: &DurableArm) -> Nanos {
    arm.setting.group_commit.map_or(Nanos::ZERO, |policy| policy.delay)
}

fn bound(arm: &DurableArm) -> Bytes {
    arm.setting.group_commit.map_or(Bytes::ZERO, |policy| policy.batch_max)
}

/// Two standard errors of the difference, and at least a twentieth.
fn noise(a: &DurableArm, b: &DurableArm) -> f64 {
    let share = |arm: &DurableArm| {
        arm.figures.as_ref().and_then(|figures| figures.noise_share).unwrap_or(0.0)
    };
    let variance = share(a).powi(2) + share(b).powi(2);
    (2.0 * variance.sqrt()).max(NOISE_MIN)
}

/// The positions that this holds of, with their rates.
fn rates<'a>(
    arms: &'a [DurableArm],
    is: impl Fn(&DurableArm) -> bool + 'a,
) -> impl Iterator<Item = (usize, &'a DurableArm, f64)> + 'a {
    let all = arms.iter().enumerate().filter(move |(_, arm)| is(arm));
    all.filter_map(|(at, arm)| Some((at, arm, arm.rate()?)))
}

fn highest<'a>(
    of: impl Iterator<Item = (usize, &'a DurableArm, f64)>,
) -> Option<(usize, &'a DurableArm, f64)> {
    of.max_by(|a, b| a.2.total_cmp(&b.2))
}

fn advice(arms: &[DurableArm]) -> Option<CommitDelayAdvice> {
    // Against the best bound without delay: else a larger batch would pass for the delay's gain.
    let none = |arm: &DurableArm| delay(arm) == Nanos::ZERO;
    let (_, best_without, rate_without) = highest(rates(arms, none))?;
    let best = highest(rates(arms, |arm| !none(arm)));
    let gain = |rate: f64| rate / rate_without - 1.0;
    let noise_share = best.map_or(NOISE_MIN, |(_, arm, _)| noise(arm, best_without));
    let best_gain_share = best.map_or(0.0, |(_, _, rate)| gain(rate));
    // A delay costs every commit its time: it has to earn more than noise could.
    let chosen = match best.filter(|_| best_gain_share > noise_share) {
        None => Nanos::ZERO,
        Some((_, best, rate)) => {
            let close = rates(arms, |arm| !none(arm)).filter(|(_, arm, own)| {
                own / rate >= 1.0 - noise(arm, best) && gain(*own) > noise_share
            });
            // The shortest of equally good delays: it costs single commits least.
            close.map(|(_, arm, _)| delay(arm)).min()?
        }
    };
    let (at, arm) = smallest_bound(arms, chosen)?;
    let without = smallest_bound(arms, Nanos::ZERO)?.0;
    let p99 = |at: usize| arms.get(at)?.figures.as_ref()?.latency.p99_ns;
    let p99_share = p99(at).zip(p99(without)).map(|(a, b)| float(a) / float(b.max(1)) - 1.0);
    let is_none = chosen == Nanos::ZERO;
    Some(CommitDelayAdvice {
        delay: chosen,
        batch_max: bound(arm),
        arm: at,
        without,
        gain_share: if is_none { 0.0 } else { arm.rate().map_or(0.0, gain) },
        best_gain_share,
        noise_share,
        p99_share: p99_share.filter(|_| !is_none),
    })
}

/// The arm of a delay with the smallest bound within the noise of its best.
fn smallest_bound(arms: &[DurableArm], chosen: Nanos) -> Option<(usize, &DurableArm)> {
    let of = || rates(arms, move |arm| delay(arm) == chosen);
    let (_, best, rate) = highest(of())?;
    let close = of().filter(|(_, arm, own)| own / rate >= 1.0 - noise(arm, best));
    close.min_by_key(|(_, arm, _)| bound(arm)).map(|(at, arm, _)| (at, arm))
}

#[cfg(test)]
mod tests {
    use durio_plan::{EngineKind, FileLayout};
    use durio_workload::{CacheMode, GroupCommit, SyncMethod};

    use super::*;
    use crate::durable::{ArmFigures, ArmLatencies};

    /// A log of 64 committers: delay in microseconds, bound in KiB, commits per second, 99th percentile
    /// in microseconds, noise.
    fn arm((micros, kib, rate, p99_us, noise): (u64, u64, f64, u64, f64)) -> DurableArm {
        let policy = GroupCommit {
            delay: Nanos::from_micros(micros),
            batch_max: Bytes::from_kib(kib),
            ..GroupCommit::of(64)
        };
        let setting = ArmSetting {
            location: "/srv".into(),
            engine: EngineKind::Sync,
            method: SyncMethod::Fdatasync,
            every: 1,
            cache: CacheMode::Buffered,
            layout: Some(FileLayout::Incompressible),
            block_size: Bytes::new(256),
            jobs: 1,
            files: 1,
            group_commit: Some(policy),
        };
        let latency = ArmLatencies {
            count: 10_000,
            mean_ns: 64e9 / rate,
            p50_ns: None,
            p99_ns: Some(p99_us * 1000),
            p99_9_ns: None,
            max_ns: 1,
        };
        let figures = ArmFigures {
            rate_per_second: rate,
            bandwidth_bytes_per_second: rate * 256.0,
            latency,
            sync: None,
            device: None,
            batches: None,
            samples: Vec::new(),
            noise_share: Some(noise),
        };
        DurableArm { setting, step: 0, figures: Some(figures), problems: Vec::new() }
    }

    fn advised(arms: &[(u64, u64, f64, u64, f64)]) -> Option<CommitDelayAdvice> {
        of_group(arms.iter().copied().map(arm).collect()).advice
    }

    #[test]
    fn the_smallest_delay_within_the_noise_of_the_best_is_advised() {
        let found = advised(&[
            (0, 1024, 1000.0, 700, 0.0),
            (50, 1024, 1300.0, 800, 0.0),
            (100, 1024, 1950.0, 900, 0.0),
            (500, 1024, 2000.0, 1400, 0.0),
        ])
        .unwrap();
        assert_eq!(found.delay, Nanos::from_micros(100), "{found:?}");
        assert!(
            (found.gain_share - 0.95).abs() < 1e-9 && (found.best_gain_share - 1.0).abs() < 1e-9
        );
        assert!((found.p99_share.unwrap() - 2.0 / 7.0).abs() < 1e-9, "{found:?}");
        assert_eq!((found.without, found.arm), (0, 2));
    }

    #[test]
    fn a_gain_within_the_noise_is_none() {
        // 1.04 times is less than a twentieth; 1.2 times is less than two standard errors of a tenth each.
        for (rate, noise) in [(1040.0, 0.0), (1200.0, 0.1)] {
            let found =
                advised(&[(0, 1024, 1000.0, 700, noise), (200, 1024, rate, 900, noise)]).unwrap();
            assert_eq!((found.delay, found.gain_share), (Nanos::ZERO, 0.0), "{found:?}");
            assert!(found.best_gain_share > 0.03 && found.p99_share.is_none(), "{found:?}");
        }
    }

    #[test]
    fn the_smallest_bound_that_costs_nothing_is_advised() {
        let found = advised(&[
            (0, 4, 500.0, 900, 0.0),
            (0, 64, 980.0, 700, 0.0),
            (0, 1024, 1000.0, 700, 0.0),
            (200, 1024, 600.0, 1400, 0.0),
        ])
        .unwrap();
        assert_eq!((found.delay, found.batch_max), (Nanos::ZERO, Bytes::from_kib(64)), "{found:?}");
    }

    #[test]
    fn without_an_arm_that_has_no_delay_nothing_is_advised() {
        assert!(advised(&[(100, 1024, 1000.0, 700, 0.0)]).is_none());
        assert!(advised(&[]).is_none());
        let found = advised(&[(0, 1024, 1000.0, 700, 0.0)]).unwrap();
        assert_eq!(
            (found.delay, found.best_gain_share),
            (Nanos::ZERO, 0.0),
            "none is all there is"
        );
    }

    #[test]
    fn a_delay_has_to_gain_more_than_a_twentieth() {
        let delay = |rate| {
            let arms = [(0, 1024, 1000.0, 700, 0.0), (200, 1024, rate, 900, 0.0)];
            advised(&arms).unwrap().delay
        };
        assert_eq!([delay(1049.0), delay(1051.0)], [Nanos::ZERO, Nanos::from_micros(200)]);
        // Two standard errors of the difference of two that are off by 4 %: 11.3 %.
        let delay = |rate| {
            let arms = [(0, 1024, 1000.0, 700, 0.04), (200, 1024, rate, 900, 0.04)];
            advised(&arms).unwrap().delay
        };
        assert_eq!([delay(1112.0), delay(1114.0)], [Nanos::ZERO, Nanos::from_micros(200)]);
    }
}
