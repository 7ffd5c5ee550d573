//! `durio man` and `durio completions`: from the same definitions as the help texts.

mod pages;

use clap::Command;
use clap_mangen::roff::{Roff, bold, italic, roman};
use durio_command::CommandError;
use durio_manual::{exit_status_section, see_also_section, write_man_pages};

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
    write_man_pages(directory, command, &|command| {
        let name = command.get_bin_name().unwrap_or_default();
        let notes = notes_of(name.trim_start_matches("durio").trim_start());
        Some(notes.map(|notes| note_sections(command, notes)).unwrap_or_default())
    })?;
    output::remark(&format!("man pages are in {}", directory.display()));
    Ok(Exit::Fine)
}

fn note_sections(command: &Command, notes: &PageNotes) -> Vec<Roff> {
    let others = notes.see_also.iter().map(String::as_str);
    let is_own = notes.command.is_empty() || others.clone().any(|page| page == "durio(1)");
    let own = (!is_own).then_some("durio(1)");
    vec![
        examples(notes),
        files(notes),
        exit_status_section(command, TABLE),
        see_also_section(own.into_iter().chain(others)),
    ]
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
