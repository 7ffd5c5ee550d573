//! `durio stack show`: the tree of layers under each path.
//!
//! With a root, the paths are those of another machine whose `/sys` and `/proc` are copied there.

use std::path::{Path, PathBuf};

use durio_observe::{Stack, StackError, StackErrorKind, read_stack, read_stack_in};
use durio_report::{StackFormat, write_stacks};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

/// Prints the stacks of `paths`; those that cannot be read are named, and the others still shown.
pub(crate) fn show(
    paths: &[PathBuf],
    format: StackFormat,
    root: Option<&Path>,
) -> Result<Exit, Failure> {
    if let Some(root) = root {
        check_root(root)?;
    }
    let read = |path: &PathBuf| match root {
        Some(root) => read_stack_in(root, path),
        None => read_stack(path),
    };
    let (stacks, failures) = apart(paths.iter().map(read));
    if !stacks.is_empty() {
        let mut bytes = Vec::new();
        let options = output::terminal_options();
        write_stacks(format, &stacks, &options, &mut bytes).map_err(|error| {
            Failure::of(Exit::Fault, error).context("cannot write the stacks down")
        })?;
        output::answer(&bytes)?;
    }
    conclude(failures, root)
}

/// A folder that holds no copy would only give paths that are not found.
fn check_root(root: &Path) -> Result<(), Failure> {
    if root.join("proc/self/mountinfo").is_file() {
        return Ok(());
    }
    let text = format!("'{}' holds no copy of a machine's files", root.display());
    Err(Failure::new(Exit::WrongUse, text).hint(
        "it must have proc/self/mountinfo, and sys with class/block, dev/block and devices; links \
         of sysfs are to be copied as links",
    ))
}

fn apart(
    outcomes: impl Iterator<Item = Result<Stack, StackError>>,
) -> (Vec<Stack>, Vec<StackError>) {
    let (mut stacks, mut failures) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(stack) => stacks.push(stack),
            Err(error) => failures.push(error),
        }
    }
    (stacks, failures)
}

/// The last failure ends the command; those before it are remarks.
fn conclude(mut failures: Vec<StackError>, root: Option<&Path>) -> Result<Exit, Failure> {
    let Some(last) = failures.pop() else { return Ok(Exit::Fine) };
    for error in failures {
        let cause = error.source.as_ref().map(|source| format!(": {source}")).unwrap_or_default();
        output::remark(&format!("durio: {error}{cause}"));
    }
    let hint = match (last.kind, root) {
        (StackErrorKind::NotFound, Some(_)) => {
            "give an absolute path of that machine, below a mount of its proc/self/mountinfo"
        }
        (StackErrorKind::NotFound, None) => "for a file that is still to be made, give its folder",
        _ => "give a path that this user may look at",
    };
    let failure = Failure::of(Exit::CannotMeasure, last);
    Err(failure.hint(hint))
}
