//! `durio man`: the man pages, from the same definitions as the help texts.

use clap::CommandFactory;

use crate::args::{Arguments, Man};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

pub(crate) fn man(arguments: &Man) -> Result<Exit, Failure> {
    let directory = &arguments.directory;
    clap_mangen::generate_to(Arguments::command(), directory).map_err(|error| Failure {
        exit: Exit::CannotMeasure,
        error: anyhow::Error::new(error)
            .context(format!("cannot write man pages into '{}'", directory.display())),
        hints: Vec::new(),
    })?;
    output::remark(&format!("man pages are in {}", directory.display()));
    Ok(Exit::Fine)
}
