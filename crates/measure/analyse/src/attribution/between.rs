//! The same bench on two kernels: how the cost per I/O of each layer changed.
//!
//! Every repeat on both kernels has [`StackFindings`]; the result is a [`LabComparison`]. Absolute
//! speeds are not compared, and ordinary runs are compared by durio-judge.
//!
//! The cost is time per operation, 1 ÷ rate. Each repeat is a separate guest: the noise is the
//! difference between boots, which repeats within one guest do not show.
//!
//! The rule is that of durio-judge: the 95 % interval of the ratio, Welch's, of the means of the
//! logarithms ([`repeats`](durio_base::stats::repeats)), does not hold 1, and the change is more
//! than 1 %. If the interval lies within 1 %, there is no difference; else it is undecided.

use durio_base::stats::least_squares::{mean, range};
use durio_base::stats::repeats::{Mean, Shift, ShiftAnswer, scatter as scatter_of, why_open};
use serde::{Deserialize, Serialize};

use super::findings::{PointFacts, RowFigures, StackFindings, WorkloadRows};
use super::points::{StepKey, Timing};
use crate::{DeclinedAnalysis, each_once, grouped};

/// Name and version of the document.
pub const LAB_COMPARE_SCHEMA: &str = "durio-lab-compare-1";

/// Benches on two kernels, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabComparison {
    /// Form of the document: [`LAB_COMPARE_SCHEMA`].
    pub schema: String,
    /// How time passed, on both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// The kind of the values, if they are not speeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The baseline, and the other.
    pub sides: [SideName; 2],
    pub workloads: Vec<WorkloadChanges>,
    /// Workloads and points that only one side has, in words.
    pub only_one_side: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideName {
    /// Name of the bench.
    pub name: String,
    /// Its kernels, each once.
    pub kernels: Vec<String>,
    /// The number of its benches, each in a separate guest.
    pub repeats: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadChanges {
    /// The workload in words.
    pub label: String,
    /// Layer by layer, in the order of the baseline.
    pub layers: Vec<LayerChange>,
}

/// One point on both sides. The baseline comes first in each pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerChange {
    /// Name of the stack.
    pub stack: String,
    /// The layers from the top down.
    pub name: String,
    /// Time per operation, of the layer with all that lies below it: geometric mean of the repeats.
    pub time_per_operation_ns: [f64; 2],
    /// The same of each repeat, in the order in which they were made.
    pub time_per_operation_ns_of_repeats: [Vec<f64>; 2],
    /// How far the repeats of each side scatter: highest ÷ lowest − 1; `None` unless both have two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scatter: Option<[f64; 2]>,
    /// Other ÷ baseline: above 1 it became dearer.
    pub ratio: f64,
    /// 95 % confidence interval of the ratio; `None` unless both sides have two repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_interval: Option<[f64; 2]>,
    /// Mean time that the layer adds to the point below; `None` if that has no results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_ns: Option<[f64; 2]>,
    /// Other ÷ baseline of the added time; `None` unless both sides add something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_ratio: Option<f64>,
    /// CPU time per operation, mean of the repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_operation: Option<[f64; 2]>,
    /// Other ÷ baseline of the CPU time per operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ratio: Option<f64>,
    /// Context switches per operation, mean of the repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches_per_operation: Option<[f64; 2]>,
    pub change: CostChange,
    /// Why it is undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a cost changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostChange {
    /// Less than before, by more than the noise.
    Cheaper,
    /// More than before, by more than the noise.
    Dearer,
    /// The interval lies within 1 % on both sides of none.
    NoDifference,
    /// Neither: the repeats scatter too much, or a side was measured once.
    Undecided,
}

/// Compares the benches of two kernels, one for each repeat; points are the same if stack and
/// layers have the same names. A point without results in a repeat has one repeat less.
///
/// # Errors
///
/// [`DeclinedAnalysis::TooFew`] without a bench of a side; [`DeclinedAnalysis::NoSuchRule`] if times are counted in
/// one bench and not in another.
pub fn compare_labs(
    baseline: &[StackFindings],
    other: &[StackFindings],
) -> Result<LabComparison, DeclinedAnalysis> {
    let too_few =
        |given| DeclinedAnalysis::TooFew { what: "benches of a kernel".into(), given, needed: 1 };
    let (first, of_other) = baseline.first().zip(other.first()).ok_or(too_few(0))?;
    // Counted time includes no waits and no contention, so it cannot be compared with a clock's.
    if baseline.iter().chain(other).any(|bench| bench.timing != first.timing) {
        let why = "one side counts instructions and the other does not, or one is not from the \
                   lab: their times are not comparable; measure both with the same --timing";
        return Err(DeclinedAnalysis::NoSuchRule { why: why.to_owned() });
    }
    let [before, after] = [gathered(baseline), gathered(other)];
    let mut only_one_side = only(&before, &after, "the baseline");
    only_one_side.extend(only(&after, &before, "the other side"));
    let workloads =
        before.iter().filter_map(|workload| Some(changes(workload, workload.like(&after)?)));
    Ok(LabComparison {
        schema: LAB_COMPARE_SCHEMA.to_owned(),
        timing: first.timing,
        label: first.label.clone(),
        sides: [side(first, baseline), side(of_other, other)],
        workloads: workloads.filter(|workload| !workload.layers.is_empty()).collect(),
        only_one_side,
    })
}

fn side(first: &StackFindings, repeats: &[StackFindings]) -> SideName {
    let kernels = each_once(repeats.iter().flat_map(|bench| bench.kernels.iter().cloned()));
    SideName { name: first.name.clone(), kernels, repeats: repeats.len() }
}

/// What only `here` has, in words.
fn only(here: &[GatheredWorkload<'_>], there: &[GatheredWorkload<'_>], word: &str) -> Vec<String> {
    let mut only = Vec::new();
    for workload in here {
        let others = workload.like(there);
        for GatheredPoint { facts, .. } in &workload.points {
            if !others.is_some_and(|workload| {
                workload.points.iter().any(|point| is_same(point.facts, facts))
            }) {
                only.push(format!(
                    "{} on {} in stack {}: measured on {word} only",
                    workload.label, facts.name, facts.stack
                ));
            }
        }
    }
    only
}

fn changes(before: &GatheredWorkload<'_>, after: &GatheredWorkload<'_>) -> WorkloadChanges {
    let change = |point: &GatheredPoint<'_>| {
        let other = after.points.iter().find(|other| is_same(other.facts, point.facts))?;
        layer_change(point, other)
    };
    let layers = before.points.iter().filter_map(change).collect();
    WorkloadChanges { label: before.label.to_owned(), layers }
}

fn layer_change(baseline: &GatheredPoint<'_>, other: &GatheredPoint<'_>) -> Option<LayerChange> {
    let sides = [baseline, other];
    let costs = |point: &GatheredPoint<'_>| -> Vec<f64> {
        point.figures.iter().map(|figures| figures.time_per_operation_ns).collect()
    };
    let costs = sides.map(costs);
    let verdict = verdict([&costs[0], &costs[1]])?;
    let both =
        |of: &dyn Fn(&RowFigures) -> Option<f64>| Some([baseline.mean(of)?, other.mean(of)?]);
    let added_ns = both(&|figures| Some(figures.against_below?.time_per_operation_ns));
    let cpu = both(&|figures| figures.cpu_ns_per_operation);
    // A layer may be faster than the one below it: a quotient of negative differences is not a
    // factor.
    let quotient = |[a, b]: [f64; 2]| (a > 0.0 && b > 0.0).then(|| b / a);
    Some(LayerChange {
        stack: baseline.facts.stack.clone(),
        name: baseline.facts.name.clone(),
        time_per_operation_ns: verdict.means,
        scatter: scatter(&costs),
        time_per_operation_ns_of_repeats: costs,
        ratio: verdict.ratio,
        ratio_interval: verdict.interval,
        added_ns,
        added_ratio: added_ns.and_then(quotient),
        cpu_ns_per_operation: cpu,
        cpu_ratio: cpu.and_then(quotient),
        context_switches_per_operation: both(&|figures| figures.context_switches_per_operation),
        change: verdict.change,
        reason: verdict.reason,
    })
}

/// Highest ÷ lowest − 1 of both sides; `None` unless both have two repeats.
fn scatter(costs: &[Vec<f64>; 2]) -> Option<[f64; 2]> {
    let of = |side: &Vec<f64>| {
        let (low, high) = range(side.iter().copied());
        high / low - 1.0
    };
    costs.iter().all(|side| side.len() > 1).then(|| costs.each_ref().map(of))
}

/// A workload with its points, in the order in which they first come.
#[derive(Debug)]
struct GatheredWorkload<'a> {
    key: &'a StepKey,
    label: &'a str,
    points: Vec<GatheredPoint<'a>>,
}

#[derive(Debug)]
struct GatheredPoint<'a> {
    facts: &'a PointFacts,
    /// One for each repeat with results for it.
    figures: Vec<&'a RowFigures>,
}

impl GatheredPoint<'_> {
    /// Mean over the repeats of a value that all of them have.
    fn mean(&self, of: impl Fn(&RowFigures) -> Option<f64>) -> Option<f64> {
        // A mean over other repeats could not be compared with the time's.
        let figures: Option<Vec<f64>> = self.figures.iter().map(|figures| of(figures)).collect();
        mean(&figures?)
    }
}

/// Every point with results in at least one repeat.
fn gathered(repeats: &[StackFindings]) -> Vec<GatheredWorkload<'_>> {
    let all =
        repeats.iter().flat_map(|bench| bench.workloads.iter().map(move |rows| (bench, rows)));
    let workloads = grouped(all, |a, b| a.1.key == b.1.key).into_iter();
    workloads.filter_map(gathered_workload).collect()
}

fn gathered_workload<'a>(
    alike: Vec<(&'a StackFindings, &'a WorkloadRows)>,
) -> Option<GatheredWorkload<'a>> {
    let (_, first) = *alike.first()?;
    let rows =
        alike.into_iter().flat_map(|(bench, rows)| rows.rows.iter().map(move |row| (bench, row)));
    let measured =
        rows.filter_map(|(bench, row)| bench.points.get(row.point).zip(row.figures.as_ref()));
    let points = grouped(measured, |a, b| is_same(a.0, b.0)).into_iter().filter_map(|point| {
        let facts = point.first()?.0;
        Some(GatheredPoint { facts, figures: point.into_iter().map(|figures| figures.1).collect() })
    });
    Some(GatheredWorkload { key: &first.key, label: &first.label, points: points.collect() })
}

/// Points are the same if stack and layers are named alike.
fn is_same(a: &PointFacts, b: &PointFacts) -> bool {
    a.stack == b.stack && a.name == b.name
}

impl<'a> GatheredWorkload<'a> {
    /// This workload's like among others.
    fn like<'b>(&self, others: &'b [GatheredWorkload<'a>]) -> Option<&'b GatheredWorkload<'a>> {
        others.iter().find(|other| other.key == self.key)
    }
}

/// Ratios nearer to one are the same: counted guests repeat within about 1 %.
// Two full runs of the counted lab differed by 0.0 to 0.9 % on md, ext4 and XFS; btrfs with O_DSYNC
// (3 to 18 %) and ZFS (up to 5 %) repeat worse, and their interval shows it.
const SAME: f64 = 0.01;

/// What repeats of two sides say.
#[derive(Debug, Clone, PartialEq)]
struct RepeatsVerdict {
    /// Geometric mean of each side.
    means: [f64; 2],
    /// Cost on the other side ÷ on the baseline.
    ratio: f64,
    /// Its 95 % interval; `None` with a single repeat on a side.
    interval: Option<[f64; 2]>,
    change: CostChange,
    /// Why it is undecided.
    reason: Option<String>,
}

/// Judges costs above zero, one per repeat; `None` if a side has none, or an invalid one.
fn verdict(costs: [&[f64]; 2]) -> Option<RepeatsVerdict> {
    // Logarithms: half and twice are as far from one, whichever kernel is the baseline.
    let logs = costs.map(|side| side.iter().map(|value| value.ln()).collect::<Vec<_>>());
    let [before, after] = [middle(&logs[0])?, middle(&logs[1])?];
    let shift = Mean::of(&logs[0]).zip(Mean::of(&logs[1])).map(|(a, b)| Shift::between(a, b));
    let (change, reason) = match &shift {
        None => (CostChange::Undecided, Some(single(costs))),
        Some(shift) => word(shift, scatter_of([&logs[0], &logs[1]])),
    };
    let interval = shift.map(|shift| shift.interval().map(f64::exp));
    let ratio = (after - before).exp();
    Some(RepeatsVerdict { means: [before.exp(), after.exp()], ratio, interval, change, reason })
}

fn middle(logs: &[f64]) -> Option<f64> {
    mean(logs).filter(|mean| mean.is_finite())
}

fn single(costs: [&[f64]; 2]) -> String {
    match costs.iter().all(|side| side.len() == 1) {
        true => "one run per side; use --repeat N to find out".to_owned(),
        false => "one run on one side; use --repeat N to find out".to_owned(),
    }
}

fn word(shift: &Shift, scatter: Option<f64>) -> (CostChange, Option<String>) {
    match shift.answer(SAME) {
        ShiftAnswer::Higher => (CostChange::Dearer, None),
        ShiftAnswer::Lower => (CostChange::Cheaper, None),
        ShiftAnswer::Same => (CostChange::NoDifference, None),
        ShiftAnswer::Open => {
            let why = why_open(scatter.map(f64::exp_m1), shift.visible().exp_m1());
            (CostChange::Undecided, Some(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn change(before: &[f64], after: &[f64]) -> CostChange {
        verdict([before, after]).unwrap().change
    }

    /// About normal: the sum of twelve uniform ones (variance 1).
    fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
        let uniform = |_| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        (0..12).map(uniform).sum::<f64>() - 6.0
    }

    fn repeats(random: &mut Xoshiro256PlusPlus, mean: f64, spread: f64, n: usize) -> Vec<f64> {
        (0..n).map(|_| mean * (normal(random) * spread).exp()).collect()
    }

    #[test]
    fn the_interval_is_welchs() {
        // scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95) of SciPy 1.17.
        let costs = |logs: &[f64]| logs.iter().map(|value| value.exp()).collect::<Vec<_>>();
        let found = verdict([&costs(&[0.0, 0.1, 0.2]), &costs(&[1.0, 1.4])]).unwrap();
        let [low, high] = found.interval.unwrap();
        assert!((low.ln() + 0.790_730_639_745_839_3).abs() < 1e-9, "{low}");
        assert!((high.ln() - 2.990_730_639_745_839).abs() < 1e-9, "{high}");
        assert!((found.ratio.ln() - 1.1).abs() < 1e-12);
    }

    #[test]
    fn single_runs_are_not_judged_however_far_apart() {
        let found = verdict([&[1.0], &[5.0]]).unwrap();
        assert!((found.ratio - 5.0).abs() < 1e-9);
        assert_eq!((found.interval, found.change), (None, CostChange::Undecided));
        assert!(found.reason.unwrap().contains("one run per side"));
        let found = verdict([&[1.0, 1.0], &[5.0]]).unwrap();
        assert_eq!(found.change, CostChange::Undecided);
        assert!(found.reason.unwrap().contains("on one side"));
        assert_eq!(verdict([&[], &[1.0]]), None);
        assert_eq!(verdict([&[f64::NAN, 1.0], &[1.0]]), None);
        assert_eq!(verdict([&[0.0], &[1.0]]), None);
    }

    #[test]
    fn what_is_not_shown_is_undecided_and_no_difference_is_shown_too() {
        assert_eq!(change(&[1.0, 1.001, 0.999], &[1.05, 1.051, 1.049]), CostChange::Dearer);
        assert_eq!(change(&[1.05, 1.051, 1.049], &[1.0, 1.001, 0.999]), CostChange::Cheaper);
        assert_eq!(change(&[1.0, 1.001, 0.999], &[1.002, 1.001, 1.0]), CostChange::NoDifference);
        assert_eq!(change(&[2.0, 2.0], &[2.0, 2.0]), CostChange::NoDifference);
        assert_eq!(change(&[2.0, 2.0], &[3.0, 3.0]), CostChange::Dearer);
        let found = verdict([&[1.0, 1.1], &[1.2, 1.3]]).unwrap();
        assert_eq!(found.change, CostChange::Undecided);
        let reason = found.reason.unwrap();
        assert!(reason.starts_with("the repeats scatter by 6.4 %, a change of "), "{reason}");
        // Dearer, but perhaps by less than 1 %.
        assert_eq!(change(&[1.0, 1.0001], &[1.0099, 1.0102]), CostChange::Undecided);
    }

    #[test]
    fn equal_kernels_are_seldom_told_apart_and_unequal_ones_mostly_are() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for (n, found_at_least) in [(2, 100), (3, 900), (5, 990)] {
            let mut told = [0, 0];
            for _ in 0..1000 {
                for (at, other) in [1.0, 1.1].into_iter().enumerate() {
                    let before = repeats(&mut random, 1.0, 0.02, n);
                    let after = repeats(&mut random, other, 0.02, n);
                    let change = change(&before, &after);
                    let is_told = matches!(change, CostChange::Cheaper | CostChange::Dearer);
                    told[at] += usize::from(is_told);
                }
            }
            assert!(told[0] <= 60, "{n} repeats of the same differ {} times in 1000", told[0]);
            assert!(told[1] >= found_at_least, "{n} repeats find 10 % {} times", told[1]);
        }
    }

    #[test]
    fn one_percent_is_the_bound_of_no_difference() {
        let of = |ratio: f64| change(&[1.0, 1.0], &[ratio, ratio]);
        assert_eq!([of(1.0099), of(1.0101)], [CostChange::NoDifference, CostChange::Dearer]);
        assert_eq!([of(0.9901), of(0.9899)], [CostChange::NoDifference, CostChange::Cheaper]);
    }
}
