//! `durio stack clean`: takes down what a bench that was killed left behind, and clears up after killed
//! runs.

use durio_stack::build::{CleanOutcome, CleanState};

use super::journals;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::leftovers;
use crate::output;

pub(super) fn clean() -> Result<Exit, Failure> {
    let cleared = leftovers::clear();
    let outcomes = durio_stack::build::clean(&journals()?);
    if outcomes.is_empty() && cleared.is_empty() {
        return output::answer(b"nothing is left of any bench\n").map(|()| Exit::Fine);
    }
    let lines = cleared.into_iter().chain(outcomes.iter().flat_map(lines));
    let text: String = lines.map(|line| line + "\n").collect();
    output::answer(text.as_bytes())?;
    let is_left = |outcome: &CleanOutcome| {
        matches!(outcome.state, CleanState::Kept { .. } | CleanState::Unreadable(_))
    };
    Ok(if outcomes.iter().any(is_left) { Exit::CannotMeasure } else { Exit::Fine })
}

/// What became of a build, in lines.
pub(super) fn lines(outcome: &CleanOutcome) -> Vec<String> {
    let name = format!("stack '{}' ({})", outcome.stack, outcome.id);
    let undone = |undone: &[String]| undone.iter().map(|what| format!("  {what}")).collect();
    match &outcome.state {
        CleanState::Alive { pid } => {
            vec![format!("{name}: its bench lives, process {pid}; nothing was touched")]
        }
        CleanState::Cleaned { undone: done } => {
            let mut lines: Vec<String> = undone(done);
            lines.insert(0, format!("{name}: taken down"));
            lines
        }
        CleanState::Kept { undone: done, failures } => {
            let mut lines: Vec<String> = undone(done);
            lines.insert(0, format!("{name}: something is left"));
            lines.extend(failures.iter().map(|what| format!("  NOT: {what}")));
            lines
        }
        CleanState::Unreadable(why) => vec![format!("{name}: its journal cannot be read: {why}")],
    }
}
