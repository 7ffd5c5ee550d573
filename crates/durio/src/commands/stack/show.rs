//! `durio stack show`: the layers below a path.

use durio_report::PlanFormat;
use durio_stack::{Stack, read_stack};

use crate::args::StackShow;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

pub(super) fn show(arguments: &StackShow) -> Result<Exit, Failure> {
    let read = |path| {
        read_stack(path).map_err(|error| Failure {
            exit: Exit::CannotMeasure,
            error: error.into(),
            hints: Vec::new(),
        })
    };
    let stacks: Vec<Stack> =
        arguments.paths.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let text = match arguments.format {
        PlanFormat::Json => format!("{:#}\n", serde_json::json!(stacks)),
        PlanFormat::Text => stacks.iter().map(tree).collect(),
    };
    output::answer(text.as_bytes()).map(|()| Exit::Fine)
}

fn tree(stack: &Stack) -> String {
    let line = |(depth, layer): (usize, &durio_stack::Layer)| {
        format!("{}{:?} {}\n", "  ".repeat(depth + 1), layer.kind, layer.name)
    };
    let layers: String = stack.walk().map(line).collect();
    format!("{}\n{layers}", stack.target)
}
