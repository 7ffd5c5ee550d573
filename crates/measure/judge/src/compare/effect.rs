//! Compares one result of one step with its counterpart: the effect, its interval, the word. It
//! gets the results of every repeat and their scatter; which steps belong together was decided
//! before.
//!
//! With two repeats or more on both sides there are two estimates of the scatter: from the repeats
//! ([`repeats`](durio_base::stats::repeats)), which include all differences from one run to the
//! next, and from blocks of each run's intervals, below which the scatter of few repeats can lie by
//! luck alone. The wider one counts. With one run on a side there is only the second, which does
//! not cover the next run: its interval is shown, and the word is left open. All calculation is in
//! logarithms, so that an effect and its inverse are the same.

use super::bootstrap::{Logarithms, Replicates, logarithm};
use super::comparison::{CompareSettings, FigureComparison, FigureName, Method, SideWord};
use durio_base::stats::least_squares::{count, mean};
use durio_base::stats::repeats::{Mean, Shift, ShiftAnswer, repeats_to_see, scatter, why_open};

/// The results of one repeat.
#[derive(Debug)]
pub(super) struct Repeat {
    /// By the order of [`FigureName::ALL`]; `None` where it was not measured.
    pub(super) values: [Option<f64>; FigureName::ALL.len()],
    /// How far they scatter; `None` with too few intervals.
    pub(super) replicates: Option<Replicates>,
}

/// The comparison of one result; `None` if neither side has it.
pub(super) fn figure(
    figure: FigureName,
    baseline: &[Repeat],
    other: &[Repeat],
    settings: &CompareSettings,
) -> Option<FigureComparison> {
    let at = FigureName::ALL.iter().position(|name| *name == figure)?;
    if !baseline.iter().chain(other).any(|repeat| value(repeat, at).is_some()) {
        return None;
    }
    let sides = [baseline, other];
    let logs = sides.map(|side| logarithms(side, at));
    let middles = logs.each_ref().map(|logs| logs.as_deref().and_then(mean));
    let mut found = FigureComparison { figure, ..FigureComparison::default() };
    [found.baseline, found.other] = middles.map(|middle| middle.map(f64::exp));
    let ([Some(a), Some(b)], [Some(middle_a), Some(middle_b)]) = (logs, middles) else {
        found.reason = Some("too few samples, or none, in one of the runs".to_owned());
        return Some(found);
    };
    let shift = middle_b - middle_a;
    found.effect = Some(shift.exp_m1());
    let by_blocks = by_blocks(at, shift, sides);
    found.repeats_scatter = scatter([&a, &b]).map(f64::exp_m1);
    match Mean::of(&a).zip(Mean::of(&b)).map(|(a, b)| Shift::between(a, b)) {
        None => leave_open(&mut found, by_blocks, [a.len(), b.len()]),
        Some(by_repeats) => judge(&mut found, by_repeats, by_blocks, settings),
    }
    Some(found)
}

fn value(repeat: &Repeat, at: usize) -> Option<f64> {
    repeat.values.get(at).copied().flatten()
}

/// The logarithm of each repeat's value; `None` if a repeat lacks it, or without repeats.
fn logarithms(repeats: &[Repeat], at: usize) -> Option<Vec<f64>> {
    let one = |repeat| value(repeat, at).map(logarithm).filter(|number| number.is_finite());
    repeats.iter().map(one).collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty())
}

/// The uncertainty of `shift` by scatter within the runs; `None` with too few intervals.
fn by_blocks(at: usize, shift: f64, sides: [&[Repeat]; 2]) -> Option<Shift> {
    let [a, b] = sides.map(|side| drawn_mean(side, at));
    Some(Shift { value: shift, ..Shift::between(a?, b?) })
}

/// The mean of the repeats' draws, as distances from the result of each run's whole intervals.
fn drawn_mean(repeats: &[Repeat], at: usize) -> Option<Mean> {
    let of = |figures: &Logarithms| figures.get(at).copied();
    let all: Vec<&Replicates> =
        repeats.iter().map(|repeat| repeat.replicates.as_ref()).collect::<Option<_>>()?;
    let mut draws = vec![0.0; all.iter().map(|replicates| replicates.draws.len()).min()?];
    for one in &all {
        let centre = of(&one.centre)?;
        for (sum, draw) in draws.iter_mut().zip(&one.draws) {
            // From each run's centre: the estimate by repeats already includes the differences
            // between runs.
            *sum += (of(draw)? - centre) * one.stretch / count(all.len());
        }
    }
    // A draw of n blocks scatters less than n blocks do, by (n − 1) / n (Hesterberg, What Teachers
    // Should Know About the Bootstrap, The American Statistician 69, 2015).
    let freedom: f64 =
        all.iter().map(|replicates| count(replicates.blocks) - 1.0).sum::<f64>().max(1.0);
    let widened = 1.0 + count(all.len()) / freedom;
    let of_draw = Mean::of(&draws)?;
    let variance = of_draw.variance * count(draws.len()) * widened;
    Some(Mean { value: of_draw.value, variance, freedom })
}

/// One run says how far it scatters within, and nothing of the next.
fn leave_open(found: &mut FigureComparison, by_blocks: Option<Shift>, repeats: [usize; 2]) {
    // The place of a file, the device's history and other load are the same for all intervals of a
    // run: its scatter shows none of them (docs/design/0005).
    let sides = if repeats == [1, 1] { "one run per side" } else { "one run on one side" };
    found.reason = Some(format!("{sides} does not show how much runs vary"));
    if let Some(shift) = by_blocks {
        found.interval = interval(&shift);
        found.method = Some(Method::Blocks);
    }
}

fn interval(shift: &Shift) -> Option<[f64; 2]> {
    let ends = shift.interval().map(f64::exp_m1);
    ends.iter().all(|number| number.is_finite()).then_some(ends)
}

fn judge(
    found: &mut FigureComparison,
    by_repeats: Shift,
    by_blocks: Option<Shift>,
    settings: &CompareSettings,
) {
    // The scatter of two or three repeats can be small by luck, but not below the scatter within a
    // run (docs/design/0005).
    let blocks = by_blocks.filter(|shift| shift.half_width() > by_repeats.half_width());
    let (method, shift) = match blocks {
        Some(blocks) => (Method::Blocks, blocks),
        None => (Method::Repeats, by_repeats),
    };
    found.interval = interval(&shift);
    found.method = Some(method);
    found.visible = Some(shift.visible().exp_m1()).filter(|number| number.is_finite());
    let worse = towards_worse(found.figure, shift);
    found.p_worse = Some(worse.p_above_zero());
    // One-sided: a loss is excluded at its upper end alone, so that all 5 % of error are spent
    // there.
    found.worse_at_most = Some(loss(found.figure, worse.value + worse.margin()));
    found.word = match (shift.answer(settings.threshold), found.figure.is_more_better()) {
        (ShiftAnswer::Higher, true) | (ShiftAnswer::Lower, false) => SideWord::Faster,
        (ShiftAnswer::Higher, false) | (ShiftAnswer::Lower, true) => SideWord::Slower,
        (ShiftAnswer::Same, _) => SideWord::NoDifference,
        (ShiftAnswer::Open, _) => SideWord::Undecided,
    };
    let why = || why_open(found.repeats_scatter, shift.visible().exp_m1());
    found.reason = (found.word == SideWord::Undecided).then(why);
}

/// The same shift with worse above zero.
fn towards_worse(figure: FigureName, shift: Shift) -> Shift {
    let sign = if figure.is_more_better() { -1.0 } else { 1.0 };
    Shift { value: sign * shift.value, ..shift }
}

/// A shift towards worse as the share by which the result is worse; below zero if it is better.
fn loss(figure: FigureName, worse: f64) -> f64 {
    if figure.is_more_better() { -(-worse).exp_m1() } else { worse.exp_m1() }
}

/// The shift towards worse that is a loss of this share.
fn shift_of_loss(figure: FigureName, share: f64) -> f64 {
    if figure.is_more_better() { -(-share).ln_1p() } else { share.ln_1p() }
}

/// Repeats per side that would probably decide an undecided effect: as many as show it, or the
/// threshold where the effect is smaller, by the scatter of the present repeats. `None` if a
/// thousand are too few.
pub(super) fn repeats_to_decide(found: &FigureComparison, threshold: f64) -> Option<usize> {
    let shift = found.effect?.ln_1p().abs().max(threshold.ln_1p());
    repeats_to_see(shift, found.repeats_scatter?.ln_1p())
}

/// Repeats per side that could show a loss of `share`, by the scatter of the present repeats;
/// `None` without two on a side, or if a thousand are too few.
pub(super) fn repeats_needed(found: &FigureComparison, share: f64) -> Option<usize> {
    // The scatter was turned into a share for readers; a shift is compared in logarithms.
    repeats_to_see(shift_of_loss(found.figure, share), found.repeats_scatter?.ln_1p())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} for {expected}");
    }

    #[test]
    fn a_loss_and_its_shift_are_inverse_and_keep_their_direction() {
        // A rate that falls to 0.8 and a latency that rises to 1.25 are shifts of the same length.
        near(loss(FigureName::Rate, -0.8_f64.ln()), 0.2);
        near(loss(FigureName::P99, 1.25_f64.ln()), 0.25);
        near(loss(FigureName::Rate, -1.25_f64.ln()), -0.25);
        near(loss(FigureName::P99, 0.8_f64.ln()), -0.2);
        near(shift_of_loss(FigureName::Bandwidth, 0.2), -0.8_f64.ln());
        near(shift_of_loss(FigureName::CpuPerOperation, 0.25), 1.25_f64.ln());
        let shift = Shift { value: 0.3, error: 0.1, freedom: 5.0 };
        assert_eq!(towards_worse(FigureName::Rate, shift), Shift { value: -0.3, ..shift });
        assert_eq!(towards_worse(FigureName::P50, shift), shift);
    }

    #[test]
    fn repeats_needed_are_those_of_the_loss_and_the_scatter_in_logarithms() {
        let scattered = |figure, repeats_scatter| FigureComparison {
            figure,
            repeats_scatter,
            ..FigureComparison::default()
        };
        // Both shifts are as long as the scatter: 17 repeats by Cohen's table.
        let scatter = Some(0.25);
        assert_eq!(repeats_needed(&scattered(FigureName::P99, scatter), 0.25), Some(17));
        assert_eq!(repeats_needed(&scattered(FigureName::Rate, scatter), 0.2), Some(17));
        assert_eq!(repeats_needed(&scattered(FigureName::Rate, None), 0.2), None);
    }

    #[test]
    fn an_effect_is_decided_by_as_many_repeats_as_show_it_or_the_threshold() {
        let found = |effect: f64| FigureComparison {
            effect: Some(effect),
            repeats_scatter: Some(0.25),
            ..FigureComparison::default()
        };
        // As long as the scatter, either way: 17 repeats by Cohen's table.
        assert_eq!(repeats_to_decide(&found(0.25), 0.05), Some(17));
        assert_eq!(repeats_to_decide(&found(-0.2), 0.05), Some(17));
        assert_eq!(repeats_to_decide(&found(0.01), 0.25), Some(17));
        assert_eq!(repeats_to_decide(&found(0.01), 0.01), None, "more than a thousand");
        let single = FigureComparison { repeats_scatter: None, ..found(0.25) };
        assert_eq!(repeats_to_decide(&single, 0.05), None);
    }

    fn replicates(centre: f64, draws: &[f64], blocks: usize, stretch: f64) -> Replicates {
        let of = |value| [0.0, value, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let draws = draws.iter().map(|value| of(*value)).collect();
        Replicates { centre: of(centre), draws, blocks, stretch }
    }

    fn repeat(replicates: Option<Replicates>) -> Repeat {
        Repeat { values: [None; FigureName::ALL.len()], replicates }
    }

    #[test]
    fn the_draws_of_repeats_are_averaged_around_each_run_s_own_centre() {
        // By hand: (1, 3) − 1 times 2, and (10, 14) − 12, averaged: −1, 3; mean 1, variance 8.
        let both = [
            repeat(Some(replicates(1.0, &[1.0, 3.0], 5, 2.0))),
            repeat(Some(replicates(12.0, &[10.0, 14.0, 99.0], 8, 1.0))),
        ];
        let found = drawn_mean(&both, 1).unwrap();
        near(found.value, 1.0);
        near(found.freedom, 11.0);
        near(found.variance, 8.0 * (1.0 + 2.0 / 11.0));
        let one = drawn_mean(&both[..1], 1).unwrap();
        near(one.variance, 8.0 * (1.0 + 1.0 / 4.0));
        let shift = by_blocks(1, 0.7, [&both[..1], &both]).unwrap();
        near(shift.value, 0.7);
        near(shift.error, (8.0 * 1.25 + 8.0 * 13.0 / 11.0_f64).sqrt());
        assert!(drawn_mean(&[repeat(None)], 1).is_none());
        assert!(by_blocks(1, 0.7, [&both, &[repeat(None)]]).is_none());
    }
}
