//! `durio-fleet man` and `durio-fleet completions`: from the same definitions as the help texts.

use std::path::Path;

use clap::{Command, CommandFactory as _};
use durio_command::CommandError;
use durio_manual::{exit_status_section, see_also_section, write_man_pages};

use crate::options::{ProgramArguments, TABLE};
use crate::words::answer;

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut ProgramArguments::command(), "durio-fleet", &mut script);
    answer(&String::from_utf8_lossy(&script))
}

pub(crate) fn man(directory: &Path) -> Result<(), CommandError> {
    // Users type `durio fleet run`. `durio man` has the pages of `durio` and `durio fleet`.
    let fleet = ProgramArguments::command().name("fleet");
    write_man_pages(directory, Command::new("durio").subcommand(fleet), &|command| {
        let is_ours = command.get_bin_name().is_some_and(|name| name.starts_with("durio fleet "));
        let pages = ["durio-fleet(1)", "durio-fleet-report(1)", "durio(1)", "ssh(1)"];
        is_ours.then(|| vec![exit_status_section(command, TABLE), see_also_section(pages)])
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_command_that_users_type_has_a_page_under_the_name_that_they_type() {
        let folder = tempfile::tempdir().unwrap();
        man(folder.path()).unwrap();
        let entries = fs::read_dir(folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        let commands = ProgramArguments::command();
        let shown = commands.get_subcommands().filter(|command| !command.is_hide_set());
        let mut expected: Vec<String> =
            shown.map(|command| format!("durio-fleet-{}.1", command.get_name())).collect();
        expected.sort();
        assert_eq!(names, expected);
        assert!(names.iter().any(|name| name == "durio-fleet-run.1"), "{names:?}");
        // `durio-fleet.1` is a page of durio.
        assert!(!names.iter().any(|name| name == "durio-fleet.1"), "{names:?}");
    }

    #[test]
    fn a_page_has_the_command_line_the_options_and_the_exit_codes() {
        let folder = tempfile::tempdir().unwrap();
        man(folder.path()).unwrap();
        let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let run = page("durio-fleet-run.1");
        assert!(run.contains("\n.SH SYNOPSIS\ndurio fleet run [OPTIONS] <SPEC>\n"), "{run}");
        assert!(run.contains("\\fB\\-\\-lost\\-after\\fR"), "{run}");
        for name in ["durio-fleet-run.1", "durio-fleet-status.1"] {
            let text = page(name);
            let codes = ".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\nsuccess\n";
            assert!(text.contains(codes), "{name}: {text}");
        }
    }
}
