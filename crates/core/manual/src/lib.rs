//! The man pages of a program, from the definitions of its arguments.

use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::roff::{Roff, bold, roman};
use durio_block::Folder;
use durio_command::CommandError;

/// Writes a page for each command that is not hidden, and replaces those of another version.
///
/// `further_sections` has the sections after the options; `None` leaves the page out.
///
/// # Errors
/// If a page cannot be written.
pub fn write_man_pages(
    directory: &Path,
    command: Command,
    further_sections: &dyn Fn(&Command) -> Option<Vec<Roff>>,
) -> Result<(), CommandError> {
    // clap would write a page for each `help` of each command, too.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let pages = Folder::open(directory);
    pages.and_then(|folder| write_pages(&folder, &command, further_sections)).map_err(|error| {
        CommandError::io("write man pages into", directory, error)
            .hint("name an existing directory that you may write to")
    })
}

fn write_pages(
    folder: &Folder,
    command: &Command,
    further_sections: &dyn Fn(&Command) -> Option<Vec<Roff>>,
) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(folder, inner, further_sections)?;
    }
    let Some(further) = further_sections(command) else { return Ok(()) };
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
    for section in further {
        section.to_writer(&mut text)?;
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

/// The exit codes: those of the help text, or of a `table` whose first line is a title.
pub fn exit_status_section(command: &Command, table: &str) -> Roff {
    let own = command.get_after_help().map(ToString::to_string);
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for line in own.as_deref().unwrap_or(table).lines().skip(1) {
        match line.trim_start().split_once("  ") {
            Some((code, what)) if code.bytes().all(|byte| byte.is_ascii_digit()) => {
                roff.control("TP", []).text([bold(code)]).text([roman(what.trim_start())])
            }
            _ => roff.text([roman(line.trim_start())]),
        };
    }
    roff
}

/// Other pages, named as `durio-check(1)`.
pub fn see_also_section<'page>(pages: impl IntoIterator<Item = &'page str>) -> Roff {
    let mut parts = Vec::new();
    for page in pages {
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
