//! The verdict of a user's check on the crash states of a recorded run.
//!
//! The result of each state gives counts, the first failures and a verdict. durio-prove makes
//! the states and runs the check.
//!
//! A state is not a power cut: it was not drawn by chance, so their number gives no share of
//! failing cuts.

use serde::Serialize;

/// The form of the JSON document.
pub const CRASH_STATES_SCHEMA: &str = "durio-crash-states-1";
/// States that are listed one by one.
const LISTED_MAX: usize = 20;

/// The results of a check on a log's crash states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CrashStateFindings {
    /// Form of the document: [`CRASH_STATES_SCHEMA`].
    pub schema: &'static str,
    /// The log, as the user named it.
    pub log: String,
    /// The seed of the choice among more states than were wanted.
    pub seed: u64,
    /// False if it was interrupted.
    pub is_complete: bool,
    /// Stretches between two boundaries of the log.
    pub stretches: u64,
    /// States that were made and checked.
    pub states: u64,
    /// States that had been checked after the same mark, by their contents.
    pub duplicates: u64,
    /// States that were not made, because there are more than were wanted.
    pub left_out: u64,
    pub passed: u64,
    pub failed: u64,
    /// States on which the check cannot decide.
    pub undecided: u64,
    /// The first that failed.
    pub failures: Vec<CrashStateFinding>,
    /// The first undecided ones.
    pub undecided_states: Vec<CrashStateFinding>,
}

/// A state that did not pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CrashStateFinding {
    /// The name that makes it again.
    pub state: String,
    /// The same in words.
    pub description: String,
    /// The last mark before the cut.
    pub mark: Option<String>,
    /// How the check ended.
    pub reason: String,
    /// The last that it said.
    pub said: String,
}

/// What came of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The state is good.
    Passed,
    Failed,
    /// The check cannot tell.
    Undecided,
}

impl CrashStateFindings {
    pub fn new(log: String, seed: u64) -> Self {
        Self {
            schema: CRASH_STATES_SCHEMA,
            log,
            seed,
            is_complete: true,
            stretches: 0,
            states: 0,
            duplicates: 0,
            left_out: 0,
            passed: 0,
            failed: 0,
            undecided: 0,
            failures: Vec::new(),
            undecided_states: Vec::new(),
        }
    }

    /// Counts a state; `finding` describes one that did not pass.
    pub fn take(&mut self, outcome: CheckOutcome, finding: impl FnOnce() -> CrashStateFinding) {
        self.states += 1;
        let (count, list) = match outcome {
            CheckOutcome::Passed => {
                self.passed += 1;
                return;
            }
            CheckOutcome::Failed => (&mut self.failed, &mut self.failures),
            CheckOutcome::Undecided => (&mut self.undecided, &mut self.undecided_states),
        };
        *count += 1;
        if list.len() < LISTED_MAX {
            list.push(finding());
        }
    }

    /// Failed if any state did; passed if all did.
    pub const fn verdict(&self) -> CheckOutcome {
        if self.failed > 0 {
            CheckOutcome::Failed
        } else if self.undecided > 0 || self.states == 0 {
            CheckOutcome::Undecided
        } else {
            CheckOutcome::Passed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding() -> CrashStateFinding {
        let empty = String::new;
        CrashStateFinding {
            state: "1:all".into(),
            description: empty(),
            mark: None,
            reason: empty(),
            said: empty(),
        }
    }

    #[test]
    fn one_failure_decides_and_what_is_open_is_no_pass() {
        let mut findings = CrashStateFindings::new("log".into(), 1);
        assert_eq!(findings.verdict(), CheckOutcome::Undecided);
        for (outcome, verdict) in [
            (CheckOutcome::Passed, CheckOutcome::Passed),
            (CheckOutcome::Undecided, CheckOutcome::Undecided),
            (CheckOutcome::Failed, CheckOutcome::Failed),
            (CheckOutcome::Passed, CheckOutcome::Failed),
        ] {
            findings.take(outcome, finding);
            assert_eq!(findings.verdict(), verdict);
        }
        let counts = [findings.states, findings.passed, findings.failed, findings.undecided];
        assert_eq!(counts, [4, 2, 1, 1]);
    }

    #[test]
    fn twenty_states_of_each_outcome_are_told_and_all_are_counted() {
        let mut findings = CrashStateFindings::new("log".into(), 1);
        for (outcome, count) in [(CheckOutcome::Failed, 19), (CheckOutcome::Undecided, 23)] {
            (0..count).for_each(|_| findings.take(outcome, finding));
        }
        let listed =
            |found: &CrashStateFindings| [found.failures.len(), found.undecided_states.len()];
        assert_eq!((listed(&findings), findings.undecided), ([19, 20], 23));
        (0..2).for_each(|_| findings.take(CheckOutcome::Failed, finding));
        assert_eq!((listed(&findings), findings.failed), ([20, 20], 21));
    }

    #[test]
    fn every_field_is_described() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/other-documents.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, text) = text.split_once(CRASH_STATES_SCHEMA).unwrap();
        let mut findings = CrashStateFindings::new("log".into(), 1);
        findings.take(CheckOutcome::Failed, finding);
        let value = serde_json::to_value(findings).unwrap();
        let fields = value.as_object().unwrap().keys();
        for field in fields.chain(value["failures"][0].as_object().unwrap().keys()) {
            assert!(text.contains(&format!("`{field}`")), "{field}");
        }
    }
}
