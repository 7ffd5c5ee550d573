//! `durio man` and `durio completions`: from the same definitions as the help texts.

mod pages;

use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::roff::{Roff, bold, italic, roman};
use durio_block::Folder;

use durio_command::CommandError;

use crate::args::{Completions, Man};
use crate::exit_code::{Exit, TABLE};
use crate::output;
use pages::{PageNotes, notes_of};

pub(crate) fn completions(
    arguments: &Completions,
    mut command: Command,
) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "durio", &mut script);
    output::answer(&script)?;
    Ok(Exit::Fine)
}

pub(crate) fn man(arguments: &Man, command: Command) -> Result<Exit, CommandError> {
    let directory = &arguments.directory;
    write(directory, command).map_err(|error| {
        CommandError::io("write man pages into", directory, error)
            .hint("name an existing directory that you may write to")
    })?;
    output::remark(&format!("man pages are in {}", directory.display()));
    Ok(Exit::Fine)
}

/// A page for each command, in the place of those of another durio.
fn write(directory: &Path, command: Command) -> io::Result<()> {
    let folder = Folder::open(directory)?;
    // clap would write a page for each `help` of each command, too.
    let mut arguments = command.disable_help_subcommand(true);
    arguments.build();
    write_pages(&folder, &arguments)
}

fn write_pages(folder: &Folder, command: &Command) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(folder, inner)?;
    }
    // `durio-stack-bench`, as `build` has named it.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let page = clap_mangen::Man::new(command.clone())
        .title(name.to_uppercase())
        .source(concat!("durio ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    description(command).to_writer(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        page.render_subcommands_section(&mut text)?;
    }
    let words = command.get_bin_name().unwrap_or_default().trim_start_matches("durio").trim_start();
    if let Some(notes) = notes_of(words) {
        examples(notes).to_writer(&mut text)?;
        files(notes).to_writer(&mut text)?;
        exit_status(command).to_writer(&mut text)?;
        see_also(notes).to_writer(&mut text)?;
    }
    folder.replace(page.get_filename(), &text)
}

// As the help has it: clap_mangen would list every option without the name of its value.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]).text([roman(usage.trim_start_matches("Usage: "))]);
    roff
}

// The long help without its first paragraph, which NAME has already. Indented lines are tables and
// command lines: clap_mangen would have them filled like a paragraph.
fn description(command: &Command) -> Roff {
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let rest = about.split_once("\n\n").map_or(about.as_str(), |(_, rest)| rest);
    let mut roff = Roff::new();
    roff.control("SH", ["DESCRIPTION"]);
    let mut is_verbatim = false;
    for line in rest.lines() {
        if line.starts_with(' ') != is_verbatim && !line.is_empty() {
            is_verbatim = !is_verbatim;
            roff.control(if is_verbatim { "nf" } else { "fi" }, []);
        }
        match line {
            "" => roff.control("PP", []),
            _ => roff.text([roman(line)]),
        };
    }
    if is_verbatim {
        roff.control("fi", []);
    }
    roff
}

fn examples(notes: &PageNotes) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for (line, what) in &notes.examples {
        roff.control("PP", []).text([roman(what.as_str())]);
        roff.control("PP", []).control("RS", ["4"]).control("nf", []);
        roff.text([bold(line.as_str())]).control("fi", []).control("RE", []);
    }
    roff
}

fn files(notes: &PageNotes) -> Roff {
    let mut roff = Roff::new();
    for (index, (path, what)) in notes.files().enumerate() {
        if index == 0 {
            roff.control("SH", ["FILES"]);
        }
        roff.control("TP", []).text([italic(path.as_str())]).text([roman(what.as_str())]);
    }
    roff
}

// Those of the help text: the table of all commands, or that of a command which passes on another's.
fn exit_status(command: &Command) -> Roff {
    let table = command.get_after_help().map_or_else(|| TABLE.to_owned(), ToString::to_string);
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for line in table.lines().skip(1) {
        match line.trim_start().split_once("  ") {
            Some((code, what)) if code.bytes().all(|byte| byte.is_ascii_digit()) => {
                roff.control("TP", []).text([bold(code)]).text([roman(what.trim_start())])
            }
            _ => roff.text([roman(line.trim_start())]),
        };
    }
    roff
}

fn see_also(notes: &PageNotes) -> Roff {
    let others = notes.see_also.iter().map(String::as_str);
    let is_own = notes.command.is_empty() || others.clone().any(|page| page == "durio(1)");
    let own = (!is_own).then_some("durio(1)");
    let mut parts = Vec::new();
    for page in own.into_iter().chain(others) {
        let (name, section) = page.split_at(page.find('(').unwrap_or(page.len()));
        if !parts.is_empty() {
            parts.push(roman(", "));
        }
        parts.extend([bold(name), roman(section)]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]).text(parts);
    roff
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Command;
    use crate::args::Arguments;

    /// A help is at most 100 columns wide; options stand 10 columns in.
    fn broken_lines(command: &Command, broken: &mut Vec<String>) {
        let texts = command.get_long_about().into_iter().map(|about| (about.to_string(), 100));
        let options = command.get_arguments().filter_map(|argument| argument.get_long_help());
        for (text, columns) in texts.chain(options.map(|help| (help.to_string(), 90))) {
            for (line, next) in text.lines().zip(text.lines().skip(1)) {
                if line.chars().count() > columns && !next.is_empty() {
                    broken.push(format!("{}: {line}", command.get_name()));
                }
            }
        }
        command.get_subcommands().for_each(|command| broken_lines(command, broken));
    }

    #[test]
    fn no_line_of_a_help_is_broken_a_second_time() {
        let mut broken = Vec::new();
        broken_lines(&Arguments::command(), &mut broken);
        assert_eq!(broken, [""; 0]);
    }
}
