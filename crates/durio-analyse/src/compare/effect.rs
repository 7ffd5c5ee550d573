//! One figure of one step against its like: the effect, its interval, the word.
//!
//! In: the figures of every repeat, and how far they scatter. Out: [`FigureComparison`].
//! Not here: which steps belong together, and whether they may be compared.
//!
//! With [`REPEATS_MIN`] repeats on both sides the repeats' ranks decide. With fewer, each run's own
//! intervals are drawn again, and the interval between the 2.5 % and 97.5 % quantiles of the draws
//! is widened for few blocks as Student's t would be (Hesterberg, What Teachers Should Know About
//! the Bootstrap, The American Statistician 69, 2015). All is reckoned in logarithms, so that an
//! effect and its inverse are one and the same.

use super::bootstrap::{Logarithms, Replicates, logarithm};
use super::comparison::{FigureComparison, FigureName, Method, Settings, Word};
use super::normal::{normal_below, student_97_5};
use super::ranks::{self, median_of_sorted};

/// From this many repeats on both sides the ranks decide: then p can be below 1 %.
pub(super) const REPEATS_MIN: usize = 5;

/// One repeat's figures.
#[derive(Debug)]
pub(super) struct Repeat {
    /// By the order of [`FigureName::ALL`]; none where it was not measured.
    pub(super) values: [Option<f64>; FigureName::ALL.len()],
    /// How far they scatter; none with too few intervals.
    pub(super) replicates: Option<Replicates>,
}

/// An effect in logarithms.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    shift: f64,
    interval: (f64, f64),
    p: Option<f64>,
    method: Method,
}

/// The comparison of one figure; none if neither side has it.
pub(super) fn figure(
    figure: FigureName,
    baseline: &[Repeat],
    other: &[Repeat],
    settings: &Settings,
) -> Option<FigureComparison> {
    let at = FigureName::ALL.iter().position(|it| *it == figure)?;
    if !baseline.iter().chain(other).any(|it| value(it, at).is_some()) {
        return None;
    }
    let mut found = empty(figure);
    let (Some(a), Some(b)) = (logarithms(baseline, at), logarithms(other, at)) else {
        found.baseline = logarithms(baseline, at).as_deref().and_then(mean).map(f64::exp);
        found.other = logarithms(other, at).as_deref().and_then(mean).map(f64::exp);
        found.reason = Some("too few samples, or none, in one of the runs".to_owned());
        return Some(found);
    };
    let by_ranks = a.len().min(b.len()) >= REPEATS_MIN;
    let middle = if by_ranks { median } else { mean };
    let (middle_a, middle_b) = (middle(&a)?, middle(&b)?);
    (found.baseline, found.other) = (Some(middle_a.exp()), Some(middle_b.exp()));
    found.effect = Some((middle_b - middle_a).exp_m1());
    let estimate = match by_ranks {
        true => from_ranks(&a, &b),
        false => from_blocks(at, middle_b - middle_a, baseline, other),
    };
    match estimate {
        Some(estimate) => judge(&mut found, &estimate, is_apart(&a, &b, by_ranks), settings),
        None => found.reason = Some(no_interval(figure)),
    }
    Some(found)
}

fn empty(figure: FigureName) -> FigureComparison {
    FigureComparison {
        figure,
        baseline: None,
        other: None,
        effect: None,
        interval: None,
        p: None,
        method: None,
        resolved: false,
        word: Word::CannotTell,
        reason: None,
    }
}

fn value(repeat: &Repeat, at: usize) -> Option<f64> {
    repeat.values.get(at).copied().flatten()
}

/// The logarithm of each repeat's figure; none if any repeat has it not, or none at all.
fn logarithms(repeats: &[Repeat], at: usize) -> Option<Vec<f64>> {
    let one = |repeat| value(repeat, at).map(logarithm).filter(|it| it.is_finite());
    repeats.iter().map(one).collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty())
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn no_interval(figure: FigureName) -> String {
    match figure {
        FigureName::CpuPerOperation => {
            format!("a run has one such figure; {REPEATS_MIN} repeats per side would tell")
        }
        _ => format!("too few intervals; longer runs or {REPEATS_MIN} repeats per side would tell"),
    }
}

/// True if ranks decide, or if no repeat of one side lies among those of the other. Single runs
/// are always apart: of them only the interval speaks.
fn is_apart(a: &[f64], b: &[f64], by_ranks: bool) -> bool {
    let ends = |values: &[f64]| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    };
    let (a, b) = (ends(a), ends(b));
    by_ranks || a.1 < b.0 || b.1 < a.0
}

fn from_ranks(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let found = ranks::shift(a, b)?;
    let ranks::Shift { shift, interval, p } = found;
    Some(Estimate { shift, interval, p: Some(p), method: Method::Ranks })
}

/// The mean of the repeats' draws, as far as it is from the repeats' own intervals taken whole.
struct Scatter {
    draws: Vec<f64>,
    blocks: usize,
}

fn scatter(repeats: &[Repeat], at: usize) -> Option<Scatter> {
    let of = |figures: &Logarithms| figures.get(at).copied();
    let all: Vec<&Replicates> =
        repeats.iter().map(|it| it.replicates.as_ref()).collect::<Option<_>>()?;
    let count = all.len() as f64;
    let length = all.iter().map(|it| it.draws.len()).min()?;
    let mut draws = vec![0.0; length];
    for one in &all {
        let centre = of(&one.centre)?;
        for (sum, draw) in draws.iter_mut().zip(&one.draws) {
            *sum += (of(draw)? - centre) * one.stretch / count;
        }
    }
    let blocks = all.iter().map(|it| it.blocks).sum();
    draws.iter().all(|it| it.is_finite()).then_some(Scatter { draws, blocks })
}

impl Scatter {
    /// Variance of the mean, as the draws have it.
    fn variance(&self) -> f64 {
        let mean = mean(&self.draws).unwrap_or_default();
        let squares = self.draws.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
        squares / (self.draws.len() as f64 - 1.0).max(1.0)
    }

    fn freedom(&self) -> f64 {
        (self.blocks as f64 - 1.0).max(1.0)
    }
}

fn from_blocks(at: usize, shift: f64, baseline: &[Repeat], other: &[Repeat]) -> Option<Estimate> {
    let (a, b) = (scatter(baseline, at)?, scatter(other, at)?);
    let tail = tail(&a, &b);
    let mut draws: Vec<f64> = b.draws.iter().zip(&a.draws).map(|(b, a)| b - a).collect();
    draws.sort_by(f64::total_cmp);
    let low = shift + quantile_of_sorted(&draws, tail)?;
    let high = shift + quantile_of_sorted(&draws, 1.0 - tail)?;
    // The estimate itself is always a possible value.
    let interval = (low.min(shift), high.max(shift));
    Some(Estimate { shift, interval, p: None, method: Method::Blocks })
}

/// The share of draws to leave out at either end: 2.5 %, less with few blocks. Degrees of freedom
/// after Welch and Satterthwaite.
fn tail(a: &Scatter, b: &Scatter) -> f64 {
    let (var_a, var_b) = (a.variance(), b.variance());
    let share = var_a.powi(2) / a.freedom() + var_b.powi(2) / b.freedom();
    let freedom = match share > 0.0 {
        true => (var_a + var_b).powi(2) / share,
        false => a.freedom() + b.freedom(),
    };
    let widened = student_97_5(freedom) * ((freedom + 1.0) / freedom).sqrt();
    normal_below(-widened)
}

/// Interpolated between neighbours.
fn quantile_of_sorted(sorted: &[f64], quantile: f64) -> Option<f64> {
    let place = quantile.clamp(0.0, 1.0) * (sorted.len().checked_sub(1)? as f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the length")]
    let below = place.floor() as usize;
    let low = sorted.get(below)?;
    let high = sorted.get(below + 1).unwrap_or(low);
    Some(low + (high - low) * (place - place.floor()))
}

fn judge(found: &mut FigureComparison, it: &Estimate, is_apart: bool, settings: &Settings) {
    let effect = it.shift.exp_m1();
    found.effect = Some(effect);
    let (low, high) = (it.interval.0.exp_m1(), it.interval.1.exp_m1());
    found.interval = (low.is_finite() && high.is_finite()).then_some([low, high]);
    found.p = it.p;
    found.method = Some(it.method);
    let beyond_zero = found.interval.is_some() && (low > 0.0 || high < 0.0);
    found.resolved = beyond_zero && is_apart;
    let is_large = effect.abs() > settings.threshold;
    found.word = match (found.resolved && is_large, effect > 0.0) {
        (false, _) => Word::NoDifference,
        (true, is_more) if is_more == found.figure.is_more_better() => Word::Faster,
        (true, _) => Word::Slower,
    };
    found.reason = match (beyond_zero, is_apart, is_large) {
        (true, true, true) => None,
        (true, true, false) => Some("below the threshold".to_owned()),
        (true, false, _) => Some("repeats of both sides overlap".to_owned()),
        (false, ..) => Some("chance explains it".to_owned()),
    };
}
