//! Screening: which hosts are worse than the others of their group.
//!
//! Screening accuses, it does not convict: as soon as runs are disturbed, the distribution behind its
//! p-values is wrong. Only fresh runs name a host.

use std::collections::{BTreeMap, BTreeSet};

use durio_base::stats::least_squares::{count, mean, median, robust_deviation};
use durio_base::stats::multiple::{benjamini_hochberg, holm};
use durio_base::stats::repeats::{Mean, Shift};

use super::levels::{ALPHA, FigureLevels, MARGIN, p_worse};
use crate::findings::{JUDGED_HOSTS_MIN, ScreeningMethod};

/// Degrees of freedom per host of a median absolute deviation: with these, Student's quantiles are
/// the simulated ones for 10 to 1,000 hosts, within a third of the probability; for fewer they are
/// larger.
pub(super) const ROBUST_FREEDOM: f64 = 0.45;

/// Median absolute deviations, scaled, beyond which a host of a small group is far off.
const FAR_OFF: f64 = 3.5;

/// From the mean of absolute errors to the standard deviation of normal ones: √(π/2).
const NORMAL_MEAN: f64 = 1.253_314_137_315_500_1;

/// A figure of a host that is worse than its group's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outlier {
    /// Places of the group, of its figure and of the host among those that have the figure.
    pub(super) group: usize,
    pub(super) figure: usize,
    pub(super) at: usize,
    /// Place of the host in the findings.
    pub(super) host: usize,
    /// Adjusted for the number of tests.
    pub(super) p: f64,
}

/// The result of screening a group.
#[derive(Debug, Default)]
pub(super) struct Screening {
    pub(super) outliers: Vec<Outlier>,
    /// Hosts of a small group, several of which are suspected, so that they hide each other.
    pub(super) hiding: BTreeSet<usize>,
}

/// Screens the group at this place.
pub(super) fn screen(group: usize, method: ScreeningMethod, figures: &[FigureLevels]) -> Screening {
    let mut cells = match method {
        ScreeningMethod::TooFew => return Screening::default(),
        ScreeningMethod::LeaveOneOut => leave_one_out(group, figures),
        ScreeningMethod::Robust => robust(group, figures),
    };
    let mut hiding = BTreeSet::new();
    if method == ScreeningMethod::LeaveOneOut {
        hiding = far_off(figures);
        hiding.extend(named(&cells).map(|cell| cell.host));
        if hiding.len() > 1 {
            // One slow host inflates the scatter that the other is compared with. Medians are not
            // moved, but need more distance to be sure, so each rule finds what the other misses.
            for (cell, other) in cells.iter_mut().zip(robust(group, figures)) {
                cell.p = cell.p.min(other.p);
            }
        } else {
            hiding.clear();
        }
    }
    Screening { outliers: named(&cells).copied().collect(), hiding }
}

fn named(cells: &[Outlier]) -> impl Iterator<Item = &Outlier> {
    cells.iter().filter(|cell| cell.p <= ALPHA)
}

/// Each host against the mean of all others; the error over all hosts and figures by Holm.
fn leave_one_out(group: usize, figures: &[FigureLevels]) -> Vec<Outlier> {
    let mut cells = cells(group, figures, each_against_others);
    let p_values: Vec<f64> = cells.iter().map(|cell| cell.p).collect();
    cells.iter_mut().zip(holm(&p_values)).for_each(|(cell, p)| cell.p = p);
    cells
}

/// Each host against the median; the error over a host's figures by Bonferroni, and the share of
/// innocent hosts among the suspects by Benjamini and Hochberg.
fn robust(group: usize, figures: &[FigureLevels]) -> Vec<Outlier> {
    let mut cells = cells(group, figures, each_against_median);
    let mut hosts: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
    for cell in &cells {
        let (smallest, tests) = hosts.entry(cell.host).or_insert((1.0, 0));
        *smallest = smallest.min(cell.p);
        *tests += 1;
    }
    let p_values: Vec<f64> =
        hosts.values().map(|(p, tests)| (p * count(*tests)).min(1.0)).collect();
    let suspects = benjamini_hochberg(&p_values).iter().filter(|p| **p <= ALPHA).count();
    // With k suspects of n hosts the limit for a host is k/n of the level: adjusted by it, the same
    // figures are at or below the level.
    let hosts_per_suspect = count(hosts.len()) / count(suspects.max(1));
    for cell in &mut cells {
        let tests = hosts.get(&cell.host).map_or(1, |(_, tests)| *tests);
        cell.p = (cell.p * count(tests) * hosts_per_suspect).min(1.0);
    }
    cells
}

/// One test for each host and figure that enough hosts have.
fn cells(
    group: usize,
    figures: &[FigureLevels],
    shifts: impl Fn(&[f64]) -> Option<Vec<Shift>>,
) -> Vec<Outlier> {
    let judged = figures.iter().enumerate().filter(|(_, levels)| is_judged(levels));
    let mut cells = Vec::new();
    for (figure, levels) in judged {
        let shifts = shifts(&levels.levels()).unwrap_or_default();
        for (at, (host, shift)) in levels.hosts.iter().zip(&shifts).enumerate() {
            cells.push(Outlier { group, figure, at, host: host.host, p: p_worse(shift) });
        }
    }
    cells
}

/// True if enough hosts have the figure.
pub(super) fn is_judged(levels: &FigureLevels) -> bool {
    levels.hosts.len() >= JUDGED_HOSTS_MIN
}

/// Places of the hosts that are compared with others in a figure.
pub(super) fn judged_hosts(levels: &[Vec<FigureLevels>]) -> BTreeSet<usize> {
    let judged = levels.iter().flatten().filter(|figure| is_judged(figure));
    judged.flat_map(|figure| &figure.hosts).map(|host| host.host).collect()
}

/// Each value against the mean of the others, with the error of a single one; `None` for fewer than
/// three.
pub(super) fn each_against_others(values: &[f64]) -> Option<Vec<Shift>> {
    let one = |at: usize| {
        let others = [values.get(..at)?, values.get(at + 1..)?].concat();
        let mean = Mean::of(&others)?;
        // The variance of a mean of n, for one more value and that mean: (1 + 1/n) n.
        let error = (mean.variance * (count(others.len()) + 1.0)).sqrt();
        Some(Shift { value: values.get(at)? - mean.value, error, freedom: mean.freedom })
    };
    (0..values.len()).map(one).collect()
}

/// Each value against the median, with the median absolute deviation as its error; `None` for fewer
/// than two.
pub(super) fn each_against_median(values: &[f64]) -> Option<Vec<Shift>> {
    let middle = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    // Percentiles are binned: if half of the hosts are in the same bin, the median distance is zero.
    let error = robust_deviation(values).filter(|deviation| *deviation > 0.0);
    let error = error.or_else(|| Some(NORMAL_MEAN * mean(&distances)?))?;
    let freedom = ROBUST_FREEDOM * (count(values.len()) - 1.0);
    let shift = |value: &f64| Shift { value: value - middle, error, freedom };
    (freedom > 0.0).then(|| values.iter().map(shift).collect())
}

/// Hosts far from the median in a figure in which another one is, too.
fn far_off(figures: &[FigureLevels]) -> BTreeSet<usize> {
    let far = |levels: &FigureLevels| {
        let shifts = each_against_median(&levels.levels()).unwrap_or_default();
        let hosts =
            levels.hosts.iter().zip(shifts).filter(|(_, shift)| {
                shift.value >= MARGIN.ln() && shift.value > FAR_OFF * shift.error
            });
        hosts.map(|(host, _)| host.host).collect::<BTreeSet<_>>()
    };
    figures
        .iter()
        .filter(|levels| is_judged(levels))
        .map(far)
        .filter(|hosts| hosts.len() > 1)
        .flatten()
        .collect()
}
