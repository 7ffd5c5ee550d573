//! `durio stack`: what lies below a path, and what each layer costs.

mod bench;
mod clean;
mod plan;
mod show;

use crate::args::{Stack, StackCommand};
use crate::exit_code::Exit;
use crate::failure::Failure;

pub(super) use bench::show as show_bench;

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
