//! The figures of hosts as logarithms, the larger the worse.
//!
//! A host's level is the median of its runs: a single disturbed run of three does not move it, while
//! in a simulation with 5 % of disturbed runs means make 15 times as many innocent hosts suspect.

use std::collections::BTreeMap;
use std::f64::consts::FRAC_PI_2;

use durio_base::stats::least_squares::{count, mean, median, range, robust_deviation};
use durio_base::stats::repeats::{Mean, Shift, pooled_variance};

use crate::findings::{FigureKey, GroupFigure, HostEvidence, HostFindings, HostRun, HostStatistic};

/// Fewest repeats that show scatter. Without the farthest, two are left; the 95 % interval of two is
/// nine times as wide as their distance.
pub(super) const SCATTER_RUNS_MIN: usize = 3;

/// How much worse a figure must be to count, as a factor.
pub(super) const MARGIN: f64 = 1.05;

/// How often chance alone may name a host.
pub(super) const ALPHA: f64 = 0.05;

/// One figure of one host.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HostLevel {
    /// Place in the findings.
    pub(super) host: usize,
    pub(super) level: f64,
    /// From screening runs, in the order of their starts.
    pub(super) repeats: Vec<f64>,
    /// From runs that were made to confirm or clear suspects.
    pub(super) fresh: Vec<f64>,
    /// The effect of a shared fact, which was taken from all of the above.
    pub(super) explained: f64,
}

impl HostLevel {
    pub(super) fn explain(&mut self, effect: f64) {
        self.level -= effect;
        let values = self.repeats.iter_mut().chain(&mut self.fresh);
        values.for_each(|value| *value -= effect);
        self.explained += effect;
    }
}

/// One figure of the hosts of a group.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FigureLevels {
    pub(super) key: FigureKey,
    pub(super) hosts: Vec<HostLevel>,
}

impl FigureLevels {
    pub(super) fn levels(&self) -> Vec<f64> {
        self.hosts.iter().map(|host| host.level).collect()
    }

    /// The number behind a level.
    pub(super) fn value(&self, level: f64) -> f64 {
        if self.key.statistic.is_higher_better() { (-level).exp() } else { level.exp() }
    }

    pub(super) fn summary(&self) -> Option<GroupFigure> {
        let levels = self.levels();
        let (min, max) = range(levels.iter().map(|&level| self.value(level)));
        Some(GroupFigure {
            key: self.key.clone(),
            hosts: levels.len(),
            median: self.value(median(&levels)?),
            min,
            max,
            spread: robust_deviation(&levels)?,
        })
    }

    /// Variance of single runs of a host; `None` unless one has two.
    pub(super) fn run_variance(&self) -> Option<f64> {
        pooled_variance(self.hosts.iter().map(|host| host.repeats.as_slice()))
            .map(|(variance, _)| variance)
    }

    /// This variance of the hosts' levels without the part that single runs add to it.
    pub(super) fn without_runs(&self, variance: f64) -> Option<f64> {
        let shares: Vec<f64> =
            self.hosts.iter().map(|host| 1.0 / count(host.repeats.len())).collect();
        let by_runs = self.run_variance().unwrap_or(0.0) * mean(&shares)?;
        Some((variance - by_runs).max(0.0))
    }

    /// Why the host at this place is suspect.
    pub(super) fn evidence(&self, at: usize, p: f64) -> Option<HostEvidence> {
        let (host, levels) = (self.hosts.get(at)?, self.levels());
        let middle = median(&levels)?;
        // The median of n normal values varies by π/2 times as much as their mean.
        let group = Mean {
            value: middle,
            variance: FRAC_PI_2 * robust_deviation(&levels)?.powi(2) / count(levels.len()),
            freedom: count(levels.len()) - 1.0,
        };
        let value = host.level - middle;
        let own = (host.repeats.len() >= SCATTER_RUNS_MIN).then(|| Mean::of(&host.repeats));
        let shift = own.flatten().map(|own| Shift { value, ..Shift::between(group, own) });
        Some(HostEvidence {
            key: self.key.clone(),
            value: self.value(host.level + host.explained),
            group_median: self.value(middle + host.explained),
            factor: value.exp(),
            interval: shift.map(|shift| shift.interval().map(f64::exp)),
            p,
            is_confirmed: false,
        })
    }
}

/// The figures of each group.
pub(super) fn figure_levels(hosts: &[HostFindings], groups: usize) -> Vec<Vec<FigureLevels>> {
    let mut all = vec![BTreeMap::<FigureKey, BTreeMap<usize, [Vec<f64>; 2]>>::new(); groups];
    for (at, host) in hosts.iter().enumerate() {
        let Some(figures) = host.group.and_then(|group| all.get_mut(group)) else { continue };
        let mut runs: Vec<&HostRun> = host.runs.iter().collect();
        // Drift is looked for in the order of time.
        runs.sort_by(|a, b| a.started.cmp(&b.started));
        for run in runs {
            for figure in &run.figures {
                let level = worseness(figure.key.statistic, figure.value);
                if level.is_finite() {
                    let values = figures.entry(figure.key.clone()).or_default();
                    let kinds = values.entry(at).or_default();
                    kinds[usize::from(run.is_confirmation)].push(level);
                }
            }
        }
    }
    let figure = |(key, hosts): (FigureKey, BTreeMap<usize, [Vec<f64>; 2]>)| FigureLevels {
        key,
        hosts: hosts.into_iter().filter_map(host_level).collect(),
    };
    all.into_iter().map(|figures| figures.into_iter().map(figure).collect()).collect()
}

/// `None` for a host that has fresh runs alone: it was never screened.
fn host_level((host, [repeats, fresh]): (usize, [Vec<f64>; 2])) -> Option<HostLevel> {
    Some(HostLevel { host, level: median(&repeats)?, repeats, fresh, explained: 0.0 })
}

/// The larger the worse; not finite unless the value is above zero.
fn worseness(statistic: HostStatistic, value: f64) -> f64 {
    if statistic.is_higher_better() { -value.ln() } else { value.ln() }
}

/// The probability that chance makes a host this much worse; 1 for less than the margin.
pub(super) fn p_worse(shift: &Shift) -> f64 {
    if shift.value >= MARGIN.ln() { shift.p_above_zero() } else { 1.0 }
}
