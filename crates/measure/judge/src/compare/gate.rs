//! The answer to `--fail-over`: is anything worse by more than was allowed?
//!
//! Two questions, each with a separate error rate, look at rate and p99 of every step.
//!
//! Is it worse? Over all results together, equal sides are called a regression in at most 5 % of
//! comparisons: one-sided, by Holm's procedure (A simple sequentially rejective multiple test
//! procedure, Scandinavian Journal of Statistics 6, 1979). The effect itself must be beyond the
//! allowed share.
//!
//! Is a loss beyond the allowed share excluded? If one result is truly that much worse, it is
//! called excluded in at most 5 % of comparisons. All results have to pass, so no correction is
//! needed (Berger, Multiparameter hypothesis testing and acceptance sampling, Technometrics 24,
//! 1982). Anything that is neither is undecided.

use durio_base::stats::multiple::holm;

use super::comparison::{FigureComparison, FigureName, Gate, Pair, StepComparison};
use super::effect::repeats_needed;

/// How often equal sides may be called a regression.
const FALSE_ALARMS: f64 = 0.05;

/// With 3 repeats half of the changes of two standard deviations are seen, with 5 nearly all.
pub(super) const REPEATS_FIRST: usize = 5;

/// Judges rate and p99 of every step; what could not be compared is undecided, not fine. With
/// `forced` steps are judged in spite of their cautions.
pub(super) fn gate(pairs: &[Pair], share: f64, forced: bool) -> Gate {
    let mut gate = Gate::default();
    let mut figures = Vec::new();
    for pair in pairs {
        let prefix = format!("{} against {}", pair.other, pair.baseline);
        for step in &pair.steps {
            look(&mut gate, &mut figures, &prefix, (step, forced));
        }
        // A step that the other side lacks may be the very one that regressed, so it must not pass
        // unseen. Steps that only the other side has are not a loss.
        let missing = pair.only_baseline.iter();
        gate.undecided.extend(
            missing.map(|missed| format!("{prefix}: {missed} is missing in {}", pair.other)),
        );
        if pair.steps.is_empty() {
            gate.undecided.push(format!("{prefix}: nothing in common"));
        }
    }
    let p_values: Vec<f64> = figures.iter().map(|found| found.1.p_worse.unwrap_or(1.0)).collect();
    for ((place, figure), adjusted) in figures.iter().zip(holm(&p_values)) {
        judge(&mut gate, place, figure, adjusted <= FALSE_ALARMS, share);
    }
    gate
}

/// Gathers the results of a step with their place; steps without results are undecided at once.
fn look<'a>(
    gate: &mut Gate,
    figures: &mut Vec<(String, &'a FigureComparison)>,
    prefix: &str,
    (step, forced): (&'a StepComparison, bool),
) {
    let place = format!("{prefix}: {}", step.title());
    // A rate that drifts is worth its ratio, and no answer that a job depends on.
    let cautions = step.cautions.iter().filter(|_| !forced);
    let against: Vec<&str> =
        step.not_comparable.iter().chain(cautions).map(String::as_str).collect();
    if !against.is_empty() {
        gate.undecided.push(format!("{place}: {}", against.join("; ")));
        return;
    }
    for name in FigureName::ALL.into_iter().filter(|name| name.is_gated()) {
        let place = format!("{place}: {}", name.name());
        match step.figure(name) {
            Some(figure) if figure.p_worse.is_some() => figures.push((place, figure)),
            figure => {
                let reason = figure
                    .and_then(|compared| compared.reason.as_deref())
                    .unwrap_or("not measured");
                gate.undecided.push(format!("{place}: {reason}"));
                let is_single = figure.is_some_and(|compared| compared.effect.is_some());
                // Repeats help only if there is a result to repeat.
                let needed = is_single.then_some(REPEATS_FIRST);
                gate.repeats_needed = gate.repeats_needed.max(needed);
            }
        }
    }
}

fn judge(gate: &mut Gate, place: &str, figure: &FigureComparison, is_worse: bool, share: f64) {
    let (Some(worse), Some(at_most)) = (figure.worse_by(), figure.worse_at_most) else { return };
    // From twice the latency on, a factor is read more easily.
    let is_factor = |share: f64| share >= 1.0 && !figure.figure.is_more_better();
    let by = |share: f64| match is_factor(share) {
        true if share >= 10.0 => format!("a factor of {:.0}", 1.0 + share),
        true => format!("a factor of {:.1}", 1.0 + share),
        false => format!("{:.1} %", share * 100.0),
    };
    // Being worse is not enough: a certain loss of 1 % passes where 5 % are allowed.
    if is_worse && worse > share {
        gate.regressions.push(format!("{place} worse by {}", by(worse)));
    } else if at_most <= share {
        gate.excluded.push(match at_most > 0.0 {
            true => format!("{place} worse by {} at most", by(at_most)),
            false => format!("{place} not worse"),
        });
    } else {
        let why = match (&figure.reason, is_worse) {
            (Some(reason), false) => reason.clone(),
            (_, false) => "a larger loss can be neither shown nor ruled out".to_owned(),
            (_, true) => format!("worse by {}, or up to {}", by(worse), by(at_most)),
        };
        gate.undecided.push(format!("{place}: {why}"));
        gate.repeats_needed = gate.repeats_needed.max(repeats_needed(figure, share));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rate that is worse by a share, at most by another, with this probability by chance.
    fn figure(worse: f64, at_most: f64, p_worse: f64) -> FigureComparison {
        FigureComparison {
            figure: FigureName::Rate,
            effect: Some(-worse),
            p_worse: Some(p_worse),
            worse_at_most: Some(at_most),
            ..FigureComparison::default()
        }
    }

    fn step(figures: Vec<FigureComparison>, not_comparable: &[&str]) -> StepComparison {
        StepComparison {
            name: "commit".to_owned(),
            locations: ["/a", "/a"].map(str::to_owned),
            target: String::new(),
            repeats: [2, 2],
            different_workload: false,
            differences: Vec::new(),
            not_comparable: not_comparable.iter().map(|reason| (*reason).to_owned()).collect(),
            cautions: Vec::new(),
            headline: durio_record::OperationName::Commit,
            figures,
            curves: [Vec::new(), Vec::new()],
            rates: Default::default(),
        }
    }

    fn pair(steps: Vec<StepComparison>, only_baseline: &[&str]) -> Pair {
        Pair {
            baseline: "A".to_owned(),
            other: "B".to_owned(),
            remarks: Vec::new(),
            environment: Vec::new(),
            steps,
            only_baseline: only_baseline.iter().map(|name| (*name).to_owned()).collect(),
            only_other: vec!["new".to_owned()],
        }
    }

    fn judged(figure: &FigureComparison, is_worse: bool) -> Gate {
        let mut gate = Gate::default();
        judge(&mut gate, "it", figure, is_worse, 0.05);
        gate
    }

    #[test]
    fn a_figure_is_a_regression_excluded_or_undecided_by_its_bounds() {
        let regressed = |worse, is_worse| judged(&figure(worse, 1.0, 0.0), is_worse).regressions;
        assert_eq!(regressed(0.051, true), ["it worse by 5.1 %"]);
        let latency = |worse| {
            let rate = figure(worse, 1.0, 0.0);
            let p99 = FigureComparison { figure: FigureName::P99, effect: Some(worse), ..rate };
            judged(&p99, true).regressions
        };
        assert_eq!(latency(0.999), ["it worse by 99.9 %"]);
        assert_eq!(latency(1.0), ["it worse by a factor of 2.0"]);
        assert_eq!(latency(9.9), ["it worse by a factor of 10.9"]);
        assert_eq!(latency(206.589), ["it worse by a factor of 208"]);
        assert_eq!(regressed(1.0, true), ["it worse by 100.0 %"]);
        assert_eq!((regressed(0.05, true), regressed(0.9, false)), (vec![], vec![]));
        let excluded = |at_most| judged(&figure(0.01, at_most, 0.5), false).excluded;
        assert_eq!(excluded(0.05), ["it worse by 5.0 % at most"]);
        assert_eq!(excluded(0.000_9), ["it worse by 0.1 % at most"]);
        assert_eq!(
            (excluded(0.0), excluded(-0.1)),
            (vec!["it not worse".into()], vec!["it not worse".into()])
        );
        assert_eq!(excluded(0.051), [""; 0]);
        let undecided = |figure, is_worse| judged(&figure, is_worse).undecided;
        let words = "it: a larger loss can be neither shown nor ruled out";
        assert_eq!(undecided(figure(0.01, 0.2, 0.5), false), [words]);
        let reason = Some("it scatters".to_owned());
        let scattered = || FigureComparison { reason: reason.clone(), ..figure(0.01, 0.2, 0.5) };
        assert_eq!(undecided(scattered(), false), ["it: it scatters"]);
        assert_eq!(undecided(scattered(), true), ["it: worse by 1.0 %, or up to 20.0 %"]);
        let without = FigureComparison { effect: None, ..figure(0.9, 0.9, 0.0) };
        assert_eq!(judged(&without, true), Gate::default());
        // As many repeats as the most that any figure needs.
        let needed = |scatter| {
            let repeats_scatter = Some(scatter);
            let figure = FigureComparison { repeats_scatter, ..figure(0.01, 0.2, 0.5) };
            judged(&figure, false).repeats_needed
        };
        let [few, many] = [needed(0.01).unwrap(), needed(0.05).unwrap()];
        assert!(few < many, "{few} {many}");
    }

    #[test]
    fn what_was_not_compared_is_undecided_with_its_place_and_reason() {
        let single = FigureComparison {
            p_worse: None,
            reason: Some("one run".to_owned()),
            ..figure(0.5, 0.5, 0.0)
        };
        let none = FigureComparison { figure: FigureName::P99, ..FigureComparison::default() };
        let found = gate(&[pair(vec![step(vec![single, none], &[])], &["scan"])], 0.05, false);
        let expected = [
            "B against A: commit at /a: rate: one run",
            "B against A: commit at /a: p99: not measured",
            "B against A: scan is missing in B",
        ];
        assert_eq!(found.undecided, expected);
        assert_eq!((found.repeats_needed, found.regressions.len()), (Some(5), 0));
        let found =
            gate(&[pair(vec![step(vec![figure(0.5, 0.5, 0.0)], &["x", "y"])], &[])], 0.05, false);
        assert_eq!(found.undecided, ["B against A: commit at /a: x; y"]);
        assert_eq!((found.repeats_needed, found.regressions.len()), (None, 0));
        let found = gate(&[pair(Vec::new(), &[])], 0.05, false);
        assert_eq!(found.undecided, ["B against A: nothing in common"]);
        // A step that drifted is undecided, however clear its loss, unless by force.
        let drifted = |forced| {
            let step = StepComparison {
                cautions: vec!["it drifted".to_owned()],
                ..step(vec![figure(0.5, 0.6, 0.01)], &[])
            };
            gate(&[pair(vec![step], &[])], 0.05, forced)
        };
        assert_eq!(drifted(false).undecided, ["B against A: commit at /a: it drifted"]);
        assert_eq!((drifted(false).regressions.len(), drifted(true).regressions.len()), (0, 1));
        // Without a p99 the rate still counts.
        let found = gate(&[pair(vec![step(vec![figure(0.5, 0.6, 0.01)], &[])], &[])], 0.05, false);
        assert_eq!(found.regressions, ["B against A: commit at /a: rate worse by 50.0 %"]);
        assert_eq!(found.undecided, ["B against A: commit at /a: p99: not measured"]);
        assert_eq!(found.repeats_needed, None);
    }

    #[test]
    fn the_errors_of_all_figures_together_are_five_percent() {
        // Two figures: the first has half of the 5 %, the second all of it.
        let of = |first: f64, second: f64| {
            let p99 = FigureComparison {
                figure: FigureName::P99,
                effect: Some(0.5),
                ..figure(0.5, 0.6, second)
            };
            gate(&[pair(vec![step(vec![figure(0.5, 0.6, first), p99], &[])], &[])], 0.05, false)
                .regressions
                .len()
        };
        assert_eq!((of(0.025, 0.05), of(0.026, 0.026)), (2, 0));
        assert_eq!((of(0.025, 0.051), of(0.06, 0.024)), (1, 1));
        assert_eq!((FALSE_ALARMS, REPEATS_FIRST), (0.05, 5));
    }
}
