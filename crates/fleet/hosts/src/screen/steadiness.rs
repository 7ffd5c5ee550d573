//! Hosts whose repeats scatter or drift more than those of their group. That is another question than
//! their level: a host can be steadily slow.

use durio_base::stats::least_squares::{count, median};
use durio_base::stats::multiple::holm;
use durio_base::stats::repeats::{Mean, pooled_variance};
use durio_base::stats::variance_ratio_above;

use super::levels::{ALPHA, FigureLevels, HostLevel, MARGIN, SCATTER_RUNS_MIN, p_worse};
use super::outliers::{each_against_median, each_against_others};
use crate::findings::{JUDGED_HOSTS_MIN, ROBUST_HOSTS_MIN, UnsteadyFigure};

/// Fewest repeats whose slope a single disturbed run does not make.
const DRIFT_RUNS_MIN: usize = 5;

/// The hosts of a group with their unsteady figures, surest first; the error over hosts, figures and
/// both tests by Holm.
pub(super) fn unsteady(figures: &[FigureLevels]) -> Vec<(usize, UnsteadyFigure)> {
    let mut tested: Vec<(usize, UnsteadyFigure)> = Vec::new();
    for figure in figures {
        tested.extend(scattering(figure));
        tested.extend(drifting(figure));
    }
    let p_values: Vec<f64> = tested.iter().map(|(_, figure)| figure.p).collect();
    tested.iter_mut().zip(holm(&p_values)).for_each(|((_, figure), p)| figure.p = p);
    tested.retain(|(_, figure)| figure.p <= ALPHA);
    tested.sort_by(|a, b| a.1.p.total_cmp(&b.1.p));
    tested
}

/// The variance of each host's repeats against that of all others' (Fisher's F).
fn scattering(figure: &FigureLevels) -> Vec<(usize, UnsteadyFigure)> {
    let hosts = with_runs(figure, SCATTER_RUNS_MIN);
    let all: Vec<(f64, f64)> = hosts.iter().filter_map(|host| variance(&host.repeats)).collect();
    let squares: f64 = all.iter().map(|(variance, freedom)| variance * freedom).sum();
    let freedom: f64 = all.iter().map(|(_, freedom)| freedom).sum();
    let test = |(host, own): (&&HostLevel, &(f64, f64))| {
        let others = ((squares - own.0 * own.1) / (freedom - own.1)).max(0.0);
        let (variance, own_freedom) = variance(&without_farthest(&host.repeats)?)?;
        // A scatter below the margin does not matter, however steady the others are.
        let is_large = variance.sqrt() >= MARGIN.ln();
        let p = variance_ratio_above(variance / others, [own_freedom, freedom - own.1]);
        let unsteady = UnsteadyFigure {
            key: figure.key.clone(),
            scatter: variance.sqrt().exp_m1(),
            group_scatter: others.sqrt().exp_m1(),
            drift: None,
            p: p.filter(|_| is_large).unwrap_or(1.0),
        };
        Some((host.host, unsteady))
    };
    hosts.iter().zip(&all).filter_map(test).collect()
}

/// How far each host gets worse from its first repeat to its last, against the others.
fn drifting(figure: &FigureLevels) -> Vec<(usize, UnsteadyFigure)> {
    let hosts = with_runs(figure, DRIFT_RUNS_MIN);
    let changes: Vec<f64> = hosts.iter().filter_map(|host| change(&host.repeats)).collect();
    let shifts = match changes.len() {
        ..ROBUST_HOSTS_MIN => each_against_others(&changes),
        _ => each_against_median(&changes),
    };
    let typical = pooled_variance(hosts.iter().map(|host| host.repeats.as_slice()));
    let test = |((host, change), shift): ((&&HostLevel, &f64), _)| {
        let (own, _) = variance(&without_farthest(&host.repeats)?)?;
        let unsteady = UnsteadyFigure {
            key: figure.key.clone(),
            scatter: own.sqrt().exp_m1(),
            group_scatter: typical?.0.sqrt().exp_m1(),
            drift: Some(change.exp()),
            p: p_worse(&shift),
        };
        Some((host.host, unsteady))
    };
    hosts.iter().zip(&changes).zip(shifts.unwrap_or_default()).filter_map(test).collect()
}

/// The hosts with at least this many repeats; none unless they are enough to compare.
fn with_runs(figure: &FigureLevels, runs: usize) -> Vec<&HostLevel> {
    let hosts: Vec<_> = figure.hosts.iter().filter(|host| host.repeats.len() >= runs).collect();
    if hosts.len() < JUDGED_HOSTS_MIN { Vec::new() } else { hosts }
}

/// Variance of single repeats and its degrees of freedom.
fn variance(repeats: &[f64]) -> Option<(f64, f64)> {
    let mean = Mean::of(repeats)?;
    Some((mean.variance * count(repeats.len()), mean.freedom))
}

/// All but the repeat farthest from the median: one disturbed run does not make a host unsteady.
fn without_farthest(repeats: &[f64]) -> Option<Vec<f64>> {
    let middle = median(repeats)?;
    let mut sorted = repeats.to_vec();
    sorted.sort_by(|a, b| (a - middle).abs().total_cmp(&(b - middle).abs()));
    sorted.pop();
    Some(sorted)
}

/// The change from the first to the last repeat along the median of the slopes of all pairs (Theil and
/// Sen), which one disturbed run of five does not make.
fn change(repeats: &[f64]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (later, end) in repeats.iter().enumerate() {
        for (earlier, begin) in repeats.iter().enumerate().take(later) {
            slopes.push((end - begin) / count(later - earlier));
        }
    }
    Some(median(&slopes)? * (count(repeats.len()) - 1.0))
}
