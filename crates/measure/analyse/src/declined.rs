//! Why results are missing: analyses that were declined, and steps that the target or the kernel
//! refused. [`DeclinedAnalysis`] is the one error of the analyses, and [`DeclinedStep`] a refused step;
//! both are saved with the findings.

use durio_plan::{ParameterValue, Step};
use durio_record::StepDeclined;
use serde::{Deserialize, Serialize};

/// Why an analysis was declined, and what would make it possible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum DeclinedAnalysis {
    /// Too few values for the question.
    #[error("{given} {what} are too few; measure at least {needed}")]
    TooFew {
        /// The unit of the count.
        what: String,
        /// How many there were.
        given: usize,
        /// How many are needed.
        needed: usize,
    },
    /// More values than the analysis takes in a bounded time.
    #[error("{given} {what} are too many for this analysis; use at most {at_most}")]
    TooMany {
        /// The unit of the count.
        what: String,
        /// How many there were.
        given: usize,
        /// How many are taken.
        at_most: usize,
    },
    /// A value that is not finite, or not above zero where it has to be.
    #[error("{what} number {position} is not a finite number above zero; check the measurement")]
    NotAFigure {
        what: String,
        /// Its position, from one.
        position: usize,
    },
    /// Levels that do not rise from each to the next.
    #[error(
        "level number {position} is not above the previous one; list each level once, in \
             rising order"
    )]
    NotRising {
        /// Position of the level, from one.
        position: usize,
    },
    /// Values that contradict each other by more than the analysis can overlook.
    #[error(
        "the rate at level {level} is {:.0} % below both an earlier and a later level: the ladder \
         is noisy; repeat it with longer steps",
        dip_share * 100.0
    )]
    Noisy {
        /// The level with the dip.
        level: f64,
        /// How far below the smaller of the two it is, 0 to 1.
        dip_share: f64,
    },
    /// A model that was fitted, and whose results would mislead.
    #[error("{model} does not fit these results: {why}")]
    DoesNotDescribe {
        model: String,
        /// How far it misses them, or how little it knows.
        why: String,
    },
    /// A RAID layout that cannot exist as described.
    #[error("invalid layout: {why}")]
    NoSuchLayout {
        /// Why the layout does not exist.
        why: String,
    },
    /// A rule of acceptance that accepts or refuses everything.
    #[error("the rule does not apply: {why}")]
    NoSuchRule {
        /// Why the rule cannot be applied.
        why: String,
    },
}

impl DeclinedAnalysis {
    /// A model and no reason, or a reason and no model: findings have a field for either.
    pub(crate) fn split<T>(found: Result<T, Self>) -> (Option<T>, Option<Self>) {
        match found {
            Ok(found) => (Some(found), None),
            Err(declined) => (None, Some(declined)),
        }
    }

    /// An error unless there are at least `needed` of them.
    pub(crate) fn unless_enough(what: &str, given: usize, needed: usize) -> Result<(), Self> {
        if given >= needed {
            return Ok(());
        }
        Err(Self::TooFew { what: what.to_owned(), given, needed })
    }

    /// An error if there are more than `at_most` of them.
    pub(crate) fn if_too_many(what: &str, given: usize, at_most: usize) -> Result<(), Self> {
        if given <= at_most {
            return Ok(());
        }
        Err(Self::TooMany { what: what.to_owned(), given, at_most })
    }

    /// An error at the first that is not finite and above zero.
    pub(crate) fn unless_positive(
        what: &str,
        figures: impl IntoIterator<Item = f64>,
    ) -> Result<(), Self> {
        match figures.into_iter().position(|figure| !(USABLE.contains(&figure))) {
            None => Ok(()),
            Some(index) => Err(Self::NotAFigure { what: what.to_owned(), position: index + 1 }),
        }
    }
}

/// The range of usable values.
// They lose digits or overflow when multiplied; no real one comes near.
const USABLE: std::ops::RangeInclusive<f64> = 1e-60..=1e60;

/// A message with the system's words for an error number.
pub(crate) fn with_cause(message: &str, errno: Option<i32>) -> String {
    let cause = errno.map(std::io::Error::from_raw_os_error);
    cause.map_or_else(|| message.to_owned(), |cause| format!("{message}: {cause}"))
}

/// A step without results, because the target or the kernel refused it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeclinedStep {
    /// Index of the step in the plan.
    pub step: u32,
    /// The name of its workload.
    pub workload: String,
    /// Where it is on the axes of its section.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<ParameterValue>,
    /// The refused request, with the system's words.
    pub reason: String,
}

impl DeclinedStep {
    pub(crate) fn new(step: &Step, declined: &StepDeclined) -> Self {
        let reason = with_cause(&declined.message, declined.errno);
        let workload = step.load.workload.name.clone();
        Self { step: step.index, workload, levels: step.levels.clone(), reason }
    }

    /// The step's name and the reason.
    pub(crate) fn words(&self) -> String {
        let levels = self.levels.iter().map(ParameterValue::words);
        let name = std::iter::once(self.workload.clone()).chain(levels).collect::<Vec<_>>();
        format!("{} is not supported here: {}", name.join(", "), self.reason)
    }
}

#[cfg(test)]
mod tests {
    use durio_base::Nanos;
    use durio_plan::{EngineKind, Limit, Load, Role};
    use durio_workload::Workload;

    use super::*;

    #[test]
    fn a_reason_says_what_to_do() {
        let few = DeclinedAnalysis::unless_enough("levels", 3, 4).unwrap_err();
        assert_eq!(few.to_string(), "3 levels are too few; measure at least 4");
        let noisy = DeclinedAnalysis::Noisy { level: 8.0, dip_share: 0.25 };
        assert!(noisy.to_string().contains("25 % below"), "{noisy}");
    }

    #[test]
    fn only_finite_figures_above_zero_are_figures() {
        assert!(DeclinedAnalysis::unless_positive("rate", [1e-60, 1.0, 1e60]).is_ok());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 0.99e-60, 1.01e60] {
            let declined = DeclinedAnalysis::unless_positive("rate", [1.0, bad]).unwrap_err();
            assert_eq!(declined, DeclinedAnalysis::NotAFigure { what: "rate".into(), position: 2 });
        }
    }

    #[test]
    fn a_reason_survives_being_saved() {
        let noisy = DeclinedAnalysis::Noisy { level: 8.0, dip_share: 0.25 };
        let text = serde_json::to_string(&noisy).unwrap();
        assert_eq!(serde_json::from_str::<DeclinedAnalysis>(&text).unwrap(), noisy);
    }

    #[test]
    fn the_step_and_the_systems_reason_are_told() {
        let workload = Workload { name: "methods".into(), ..Workload::default() };
        let load = Load::new(0, workload, EngineKind::Sync);
        let step = Step::new(Role::Measure, load, Limit::Operations(1), Nanos::from_secs(1));
        let level = ParameterValue { axis: "method".into(), value: 5.0, label: "rwf_dsync".into() };
        let step = Step { levels: vec![level], ..step };
        let message = "cannot write".to_owned();
        let refused = StepDeclined { step: 0, round: 0, message, errno: Some(95) };
        let words = DeclinedStep::new(&step, &refused).words();
        assert!(words.starts_with("methods, rwf_dsync is not supported here: cannot write: "));
        assert!(words.contains("os error 95"), "{words}");
        let silent = StepDeclined { errno: None, ..refused };
        assert_eq!(DeclinedStep::new(&step, &silent).reason, "cannot write");
    }

    #[test]
    fn as_many_as_are_needed_are_enough_and_as_many_as_are_taken_are_not_too_many() {
        let enough = |given| DeclinedAnalysis::unless_enough("levels", given, 4).is_ok();
        assert_eq!([enough(3), enough(4), enough(5)], [false, true, true]);
        let taken = |given| DeclinedAnalysis::if_too_many("levels", given, 4);
        assert_eq!((taken(3), taken(4)), (Ok(()), Ok(())));
        let declined = taken(5).unwrap_err();
        let what = "levels".to_owned();
        assert_eq!(declined, DeclinedAnalysis::TooMany { what, given: 5, at_most: 4 });
    }
}
