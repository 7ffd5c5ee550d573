//! `durio man` and `durio completions`: from the same definitions as the help texts.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use durio_bench::BenchError;
use durio_block::Folder;

use crate::args::{self, Arguments, Completions};
use crate::exit_code::Exit;
use crate::output;

pub(crate) fn completions(arguments: &Completions) -> Result<Exit, BenchError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "durio", &mut script);
    output::answer(&script)?;
    Ok(Exit::Fine)
}

pub(crate) fn man(arguments: &args::Man) -> Result<Exit, BenchError> {
    let directory = &arguments.directory;
    write(directory).map_err(|error| BenchError::io("write man pages into", directory, error))?;
    output::remark(&format!("man pages are in {}", directory.display()));
    Ok(Exit::Fine)
}

/// A page for each command, in the place of those of another durio.
fn write(directory: &Path) -> io::Result<()> {
    let folder = Folder::open(directory)?;
    // clap would write a page for each `help` of each command, too.
    let mut arguments = Arguments::command().disable_help_subcommand(true);
    arguments.build();
    write_pages(&folder, &arguments)
}

fn write_pages(folder: &Folder, command: &Command) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write_pages(folder, inner)?;
    }
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    folder.replace(page.get_filename(), &text)
}
