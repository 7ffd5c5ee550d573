//! `durio stack`: shows the layers below a path, and measures the cost of each.
//!
//! This file has `show`, the tree of layers under each path, and `clean`, which takes down the
//! remains of a killed bench.

mod bench;
mod plan;

use std::path::{Path, PathBuf};

use durio_bench::{
    BenchError, BenchErrorKind, LookFor, clear_leftovers, journals_of_builds, with_causes,
};
use durio_layers::{CleanOutcome, CleanState};
use durio_observe::{StackError, StackErrorKind, read_stack, read_stack_in};
use durio_prove::background::clear_dead_servers;
use durio_report::{Stacks, visible};

use crate::args::{OutputArguments, StackArguments, StackCommand};
use crate::exit_code::Exit;
use crate::output;

pub(super) use bench::show as show_bench;

pub(crate) fn stack(arguments: StackArguments) -> Result<Exit, BenchError> {
    match arguments.command {
        StackCommand::Show(arguments) => {
            show(&arguments.paths, arguments.output, arguments.root.as_deref())
        }
        StackCommand::Plan(arguments) => plan::plan(&arguments),
        StackCommand::Bench(arguments) => bench::bench(&arguments),
        StackCommand::Clean(_) => clean(),
    }
}

/// Prints the stacks of `paths`; those that cannot be read are named, and the others still shown.
fn show(
    paths: &[PathBuf],
    wished: OutputArguments,
    root: Option<&Path>,
) -> Result<Exit, BenchError> {
    if let Some(root) = root {
        check_root(root)?;
    }
    let read = |path: &PathBuf| match root {
        Some(root) => read_stack_in(root, path),
        None => read_stack(path),
    };
    let (mut stacks, mut failures) = (Vec::new(), Vec::new());
    for outcome in paths.iter().map(read) {
        match outcome {
            Ok(stack) => stacks.push(stack),
            Err(error) => failures.push(error),
        }
    }
    // Readable stacks are shown first: a script gets them whatever happens to the others.
    if !stacks.is_empty() {
        output::report(wished, &Stacks::new(&stacks))?;
    }
    conclude(failures, root)
}

// A folder that holds no copy would only give paths that are not found.
fn check_root(root: &Path) -> Result<(), BenchError> {
    if root.join("proc/self/mountinfo").is_file() {
        return Ok(());
    }
    let text = format!("'{}' holds no copy of a machine's files", root.display());
    Err(BenchError::wrong_use(text).hint(
        "it must have proc/self/mountinfo, and sys with class/block, dev/block and devices; links \
         of sysfs are to be copied as links",
    ))
}

/// The last failure ends the command; those before it are remarks.
fn conclude(mut failures: Vec<StackError>, root: Option<&Path>) -> Result<Exit, BenchError> {
    let Some(last) = failures.pop() else { return Ok(Exit::Fine) };
    output::remarks(failures.iter().map(|error| with_causes(error)));
    let hint = match (last.kind, root) {
        (StackErrorKind::NotFound, Some(_)) => {
            "give an absolute path of that machine, below a mount of its proc/self/mountinfo"
        }
        (StackErrorKind::NotFound, None) => "for a file that is still to be made, give its folder",
        _ => "give a path that this user may look at",
    };
    let failure = BenchError::of(BenchErrorKind::CannotMeasure, last);
    Err(failure.hint(hint))
}

fn clean() -> Result<Exit, BenchError> {
    let mut cleared = clear_leftovers(LookFor::All);
    cleared.extend(clear_dead_servers());
    let journals = journals_of_builds()?;
    let outcomes = journals.map(|journals| durio_layers::clean(&journals)).unwrap_or_default();
    if outcomes.is_empty() && cleared.is_empty() {
        return output::answer_text("nothing is left of any bench\n").map(|()| Exit::Fine);
    }
    let lines = cleared.into_iter().chain(outcomes.iter().flat_map(lines));
    let text: String = lines.map(|line| visible(&line) + "\n").collect();
    output::answer_text(&text)?;
    let is_left = |outcome: &CleanOutcome| {
        matches!(outcome.state, CleanState::Kept { .. } | CleanState::Unreadable(_))
    };
    // A script must see that something stays.
    Ok(if outcomes.iter().any(is_left) { Exit::CANNOT_MEASURE } else { Exit::Fine })
}

/// The outcome of a build, in lines.
fn lines(outcome: &CleanOutcome) -> Vec<String> {
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
