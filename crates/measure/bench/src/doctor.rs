//! What this machine lets durio do in a directory: each thing is tried where that is cheap. Runs
//! use the same probes, so a row says what a run would find.
//!
//! Nothing that exists is written to, and nothing stays: the one file is unnamed, or loses its name
//! before it is written to.

mod directory;
mod machine;
mod programs;

use std::path::Path;

use durio_command::{CommandError, error_chain};
use durio_observe::read_host;
use durio_report::{Diagnosis, DiagnosisRow, DiagnosisState};

use directory::DirectorySurvey;

/// Tries what can be done in `directory` and on this machine.
pub fn diagnose(directory: &Path) -> Diagnosis {
    let host = read_host();
    let DirectorySurvey { mut rows, plan, stack } = directory::survey(directory, &host);
    rows.push(directory::state_folder());
    rows.extend(machine::rows(&host, plan.as_ref(), stack.as_ref()));
    rows.extend(programs::rows());
    Diagnosis::new(directory.display().to_string(), rows)
}

/// The result of a probe.
struct CheckedThing {
    state: DiagnosisState,
    text: String,
    remedy: String,
}

impl CheckedThing {
    fn ok(text: impl Into<String>) -> Self {
        Self { state: DiagnosisState::Ok, text: text.into(), remedy: String::new() }
    }

    fn limited(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { state: DiagnosisState::Limited, text: text.into(), remedy: remedy.into() }
    }

    fn no(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { state: DiagnosisState::No, text: text.into(), remedy: remedy.into() }
    }

    /// An error with its hints.
    fn error(error: &CommandError) -> Self {
        Self::no(error_chain(error), error.hints.join("; "))
    }

    fn row(self, name: &'static str, used_for: &'static str) -> DiagnosisRow {
        let Self { state, text: found, remedy } = self;
        DiagnosisRow { name, state, found, remedy, used_for, needed_by_check: false }
    }

    /// A row without which `durio check` cannot run.
    fn needed(self, name: &'static str, used_for: &'static str) -> DiagnosisRow {
        DiagnosisRow { needed_by_check: true, ..self.row(name, used_for) }
    }
}
