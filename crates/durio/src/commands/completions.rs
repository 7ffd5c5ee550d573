//! `durio completions`: a completion script on stdout.

use clap::CommandFactory;

use crate::args::{Arguments, Completions};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

pub(crate) fn completions(arguments: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "durio", &mut script);
    output::answer(&script)?;
    Ok(Exit::Fine)
}
