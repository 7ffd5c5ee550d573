//! Power of the screening, and the order of hosts.

use std::collections::BTreeMap;

use durio_base::stats::least_squares::{count, median, robust_deviation};
use durio_base::stats::repeats::Mean;
use durio_base::stats::student_quantile;

use super::levels::{ALPHA, FigureLevels};
use super::outliers::{ROBUST_FREEDOM, Screening, is_judged};
use crate::findings::{GroupFindings, ScreeningMethod, ScreeningPower};

/// The effect that [`ScreeningPower::runs_for_ten_percent`] is about, and how often it is found.
const EFFECT: f64 = 1.1;
const FOUND: f64 = 0.9;

/// No campaign repeats a run more often.
const RUNS_MAX: u32 = 100;

pub(super) fn power(
    groups: &[GroupFindings],
    levels: &[Vec<FigureLevels>],
    screened: &[Screening],
) -> ScreeningPower {
    let judged = || groups.iter().zip(levels).filter(|(group, _)| is_screened(group));
    let figures = judged().flat_map(|(_, figures)| figures.iter().filter(|all| is_judged(all)));
    let mut keys: Vec<_> = figures.map(|figure| &figure.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let false_suspects = |(group, screening): (&GroupFindings, &Screening)| {
        let mut suspects: Vec<usize> = screening.outliers.iter().map(|found| found.host).collect();
        suspects.sort_unstable();
        suspects.dedup();
        match group.method {
            ScreeningMethod::TooFew => 0.0,
            // The probability of a single one.
            ScreeningMethod::LeaveOneOut => ALPHA,
            // A share of the suspects, and without any the probability of one.
            ScreeningMethod::Robust => ALPHA * count(suspects.len().max(1)),
        }
    };
    ScreeningPower {
        hosts_tested: judged().map(|(group, _)| group.hosts).sum(),
        figures_tested: keys.len(),
        false_suspects: groups.iter().zip(screened).map(false_suspects).sum(),
        runs_for_ten_percent: judged().next().and_then(|(group, all)| runs_needed(group, all)),
    }
}

fn is_screened(group: &GroupFindings) -> bool {
    group.method != ScreeningMethod::TooFew
}

/// Runs that find the effect in the middle one of the group's figures.
fn runs_needed(group: &GroupFindings, figures: &[FigureLevels]) -> Option<u32> {
    let judged: Vec<&FigureLevels> = figures.iter().filter(|levels| is_judged(levels)).collect();
    let cells: usize = judged.iter().map(|levels| levels.hosts.len()).sum();
    let runs = |levels: &&FigureLevels| {
        let hosts = count(levels.hosts.len());
        let freedom = match group.method {
            ScreeningMethod::Robust => ROBUST_FREEDOM * (hosts - 1.0),
            ScreeningMethod::TooFew | ScreeningMethod::LeaveOneOut => hosts - 2.0,
        };
        let quantile = |below| student_quantile(freedom, below);
        let errors = quantile(1.0 - ALPHA / count(cells))? + quantile(FOUND)?;
        // Slow hosts, which are to be found, are not part of the others' scatter.
        let between = levels.without_runs(robust_deviation(&levels.levels())?.powi(2))?;
        let by_runs = levels.run_variance()?;
        let error = |runs: u32| (between + by_runs / f64::from(runs)).sqrt();
        // Above every number of runs where none is enough, so that it is no figure's middle.
        Some((1..=RUNS_MAX).find(|&runs| errors * error(runs) <= EFFECT.ln()).unwrap_or(u32::MAX))
    };
    let mut needed: Vec<u32> = judged.iter().filter_map(runs).collect();
    needed.sort_unstable();
    needed.get(needed.len() / 2).copied().filter(|runs| *runs <= RUNS_MAX)
}

/// The largest factor of each host, shrunk by the share of its variance that is due to its runs, so
/// that hosts with one noisy run do not lead the list.
pub(super) fn shrunk_factors(levels: &[Vec<FigureLevels>]) -> BTreeMap<usize, f64> {
    let mut factors = BTreeMap::new();
    for figure in levels.iter().flatten() {
        let levels = figure.levels();
        let hosts = Mean::of(&levels).map(|mean| mean.variance * count(levels.len()));
        let between = hosts.and_then(|variance| figure.without_runs(variance));
        let Some((middle, between)) = median(&levels).zip(between) else { continue };
        let by_runs = figure.run_variance().unwrap_or(0.0);
        for host in &figure.hosts {
            let variance = between + by_runs / count(host.repeats.len());
            // Without any scatter there is nothing to shrink by.
            let weight = if variance > 0.0 { between / variance } else { 1.0 };
            let factor = (weight * (host.level - middle)).exp();
            let largest = factors.entry(host.host).or_insert(factor);
            *largest = factor.max(*largest);
        }
    }
    factors
}
