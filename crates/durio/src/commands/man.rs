//! `durio man`: the man pages, from the same definitions as the help texts.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use durio_block::Folder;

use crate::args::{self, Arguments};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

pub(crate) fn man(arguments: &args::Man) -> Result<Exit, Failure> {
    let directory = &arguments.directory;
    write(directory).map_err(|error| Failure {
        exit: Exit::CannotMeasure,
        error: anyhow::Error::new(error)
            .context(format!("cannot write man pages into '{}'", directory.display())),
        hints: Vec::new(),
    })?;
    output::remark(&format!("man pages are in {}", directory.display()));
    Ok(Exit::Fine)
}

/// A page for each command, in the place of those of another durio.
fn write(directory: &Path) -> io::Result<()> {
    let folder = Folder::open(directory)?;
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
