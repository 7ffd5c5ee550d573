//! `durio stack clean`: takes down what a bench that was killed left behind, and clears up after killed
//! runs.

use durio_bench::{build_journals, clear_leftovers};
use durio_layers::{CleanOutcome, CleanState};
use durio_report::visible;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

pub(super) fn clean() -> Result<Exit, Failure> {
    let cleared = clear_leftovers();
    let outcomes = durio_layers::clean(&build_journals()?);
    if outcomes.is_empty() && cleared.is_empty() {
        return output::answer_text("nothing is left of any bench\n").map(|()| Exit::Fine);
    }
    let lines = cleared.into_iter().chain(outcomes.iter().flat_map(lines));
    let text: String = lines.map(|line| visible(&line) + "\n").collect();
    output::answer_text(&text)?;
    let is_left = |outcome: &CleanOutcome| {
        matches!(outcome.state, CleanState::Kept { .. } | CleanState::Unreadable(_))
    };
    Ok(if outcomes.iter().any(is_left) { Exit::CannotMeasure } else { Exit::Fine })
}

/// What became of a build, in lines.
pub(super) fn lines(outcome: &CleanOutcome) -> Vec<String> {
    let name = format!("stack '{}' ({})", outcome.stack, outcome.id);
    let (head, undone, left_alone, failures): (_, &[String], &[String], &[String]) =
        match &outcome.state {
            CleanState::Alive { pid } => {
                let what = format!("its bench lives, process {pid}; nothing was touched");
                (what, &[], &[], &[])
            }
            CleanState::Cleaned { undone, left_alone } if undone.is_empty() => {
                ("nothing that it made is there any more".to_owned(), &[], left_alone, &[])
            }
            CleanState::Cleaned { undone, left_alone } => {
                ("taken down".to_owned(), undone, left_alone, &[])
            }
            CleanState::Kept { undone, left_alone, failures } => {
                ("something is left".to_owned(), undone, left_alone, failures)
            }
            CleanState::Unreadable(why) => {
                (format!("its journal cannot be read: {why}"), &[], &[], &[])
            }
        };
    let mut lines = vec![format!("{name}: {head}")];
    lines.extend(undone.iter().map(|what| format!("  {what}")));
    lines.extend(left_alone.iter().map(|what| format!("  left alone: {what}")));
    lines.extend(failures.iter().map(|what| format!("  NOT: {what}")));
    lines
}
