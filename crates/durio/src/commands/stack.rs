//! `durio stack`: what lies below a path, and what each layer costs.

mod bench;
mod clean;
mod guest_needs;
mod in_lab;
mod plan;
mod show;

use std::path::{Path, PathBuf};

use durio_layers::DeclaredStack;
use durio_spec::{StackBench, shipped_stack_spec, shipped_stack_specs};

use crate::args::{Choosing, Stack, StackCommand};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::state_folder::state_folder;
use crate::text_file::{name_if_no_file, read_text};

pub(super) use bench::show as show_bench;
pub(super) use in_lab::GuestBench;

pub(crate) fn stack(arguments: Stack) -> Result<Exit, Failure> {
    match arguments.command {
        StackCommand::Show(arguments) => {
            show::show(&arguments.paths, arguments.format, arguments.root.as_deref())
        }
        StackCommand::Plan(arguments) => plan::plan(&arguments),
        StackCommand::Bench(arguments) => bench::bench(&arguments),
        StackCommand::Clean(_) => clean::clean(),
    }
}

/// Reads a file, or the built-in one of this name.
fn read(path: &Path) -> Result<StackBench, Failure> {
    if let Some(name) = name_if_no_file(path) {
        match shipped_stack_spec(name) {
            Some(shipped) => return Ok(StackBench::parse(shipped.name, shipped.text)?),
            None if path.is_dir() => {}
            None => return Err(unknown(name)),
        }
    }
    let text = read_text(path, "spec")?;
    Ok(StackBench::parse(&path.display().to_string(), &text)?)
}

fn unknown(name: &str) -> Failure {
    let names: Vec<&str> = shipped_stack_specs().iter().map(|spec| spec.name).collect();
    let text = format!("'{name}' is neither a file nor a built-in stack spec");
    Failure::new(Exit::WrongUse, text).hint(format!("built-in stack specs: {}", names.join(", ")))
}

/// The stacks that were asked for, scaled.
fn chosen(bench: &StackBench, choosing: &Choosing) -> Result<Vec<DeclaredStack>, Failure> {
    let all = bench.scaled(choosing.scale_size)?;
    let is_there = |name: &&String| all.iter().any(|stack| stack.name == **name);
    if let Some(name) = choosing.only.iter().find(|name| !is_there(name)) {
        let names: Vec<&str> = all.iter().map(|stack| stack.name.as_str()).collect();
        let text = format!("the spec has no stack '{name}'");
        return Err(
            Failure::new(Exit::WrongUse, text).hint(format!("its stacks are {}", names.join(", ")))
        );
    }
    let wanted =
        |stack: &DeclaredStack| choosing.only.is_empty() || choosing.only.contains(&stack.name);
    Ok(all.into_iter().filter(wanted).collect())
}

/// Where the journals of builds are.
fn journals() -> Result<PathBuf, Failure> {
    let state = state_folder().ok_or_else(|| {
        Failure::new(Exit::CannotMeasure, "there is no state folder to remember in what was built")
            .hint("set HOME or XDG_STATE_HOME")
    })?;
    Ok(state.join("stacks"))
}

/// Where files of loop devices are made.
fn files_folder() -> PathBuf {
    std::env::temp_dir()
}
