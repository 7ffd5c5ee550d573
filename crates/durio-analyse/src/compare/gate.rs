//! The answer to `--fail-over`: is anything worse by more than was allowed?
//!
//! In: pairs that were compared. Out: [`Gate`]. Not here: exit codes.

use super::comparison::{FigureComparison, FigureName, Gate, Pair, StepComparison, Word};

/// Looks at rate and p99 of every step. Worse by more than `share` is a regression if the interval
/// does not reach zero; what could not be compared is undecided, not fine.
pub(super) fn gate(pairs: &[Pair], share: f64) -> Gate {
    let mut gate = Gate::default();
    for pair in pairs {
        let prefix = format!("{} against {}", pair.other, pair.baseline);
        for step in &pair.steps {
            look(&mut gate, &prefix, step, share);
        }
        let missing = pair.only_baseline.iter();
        gate.undecided
            .extend(missing.map(|it| format!("{prefix}: {it} is missing in {}", pair.other)));
        if pair.steps.is_empty() {
            gate.undecided.push(format!("{prefix}: nothing in common"));
        }
    }
    gate
}

fn look(gate: &mut Gate, prefix: &str, step: &StepComparison, share: f64) {
    let place = format!("{prefix}: {}", step.title());
    if !step.not_comparable.is_empty() {
        gate.undecided.push(format!("{place}: {}", step.not_comparable.join("; ")));
        return;
    }
    for name in FigureName::ALL.into_iter().filter(|it| it.is_gated()) {
        match step.figure(name) {
            Some(figure) if figure.word != Word::CannotTell => {
                gate.regressions
                    .extend(regression(figure, share).map(|it| format!("{place}: {it}")));
            }
            Some(FigureComparison { reason: Some(reason), .. }) => {
                gate.undecided.push(format!("{place}: {}: {reason}", name.name()));
            }
            _ => gate.undecided.push(format!("{place}: {}: not measured", name.name())),
        }
    }
}

fn regression(figure: &FigureComparison, share: f64) -> Option<String> {
    let worse = figure.worse_by().filter(|worse| figure.resolved && *worse > share)?;
    Some(format!("{} worse by {:.1} %", figure.figure.name(), worse * 100.0))
}
