//! Pages and examples against the commands that there are.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::*;
use crate::args::{Arguments, with_fio_words_last};

/// Splits a line as a shell does: quotes make one word, and `>`, `|`, `;`, `&` or `#` end the command.
fn words(line: &str) -> Vec<OsString> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, ';' | '>' | '|' | '&') => break,
            (None, '#') if word.is_none() => break,
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from).collect()
}

/// durio's command lines in a document's fences; in help texts only indented lines. What durio
/// prints has a colon after its second or third word, and a usage has `<`.
fn command_lines(text: &str, is_help: bool) -> Vec<String> {
    let (mut is_code, mut lines) = (false, Vec::new());
    for line in text.replace("\\\n", " ").lines() {
        if line.starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let is_indented = !is_help || line.starts_with("  ");
        let command = line.trim_start().trim_start_matches("$ ").trim_start_matches("sudo ");
        let is_output = command.split(' ').take(3).any(|word| word.ends_with(':'));
        if is_code
            && is_indented
            && command.starts_with("durio ")
            && !command.contains('<')
            && !is_output
        {
            lines.push(command.to_owned());
        }
    }
    lines
}

/// The documents, among them all help texts, with their paths.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => folders.push(entry),
                false if entry.extension().is_some_and(|end| end == "md") => paths.push(entry),
                false => {}
            }
        }
    }
    let read = |path: PathBuf| (path.display().to_string(), fs::read_to_string(&path).unwrap());
    paths.into_iter().map(read).collect()
}

#[test]
fn every_command_line_in_help_and_documents_is_one() {
    let (mut count, mut refused) = (0, String::new());
    for (name, text) in documents() {
        for line in command_lines(&text, name.ends_with("reference/commands.md")) {
            let parsed = Arguments::try_parse_from(with_fio_words_last(words(&line)));
            if let Some(error) = parsed.err().filter(|error| error.kind() != ErrorKind::DisplayHelp)
            {
                let _ = writeln!(refused, "{name}: {line}\n{error}");
            }
            count += 1;
        }
    }
    assert_eq!(refused, "");
    assert!(count > 180, "{count} command lines: where are the others?");
}

#[test]
fn a_command_line_ends_where_the_shell_s_part_begins() {
    let split = |line: &str| words(line).into_iter().map(|word| word.into_string().unwrap());
    let split = |line: &str| split(line).collect::<Vec<_>>().join("|");
    assert_eq!(split("durio a 'b c' \"d # e\"f   # g"), "durio|a|b c|d # ef");
    assert_eq!(split("durio a ''; durio b"), "durio|a|");
    assert_eq!(split("durio a=1 >b"), "durio|a=1");
    let text = "durio says\n```sh\n$ durio a \\\n  --b\ndurio: c\ndurio 0.1: d\n```\n  durio e";
    assert_eq!(command_lines(text, false), ["durio a    --b"]);
    let text = "```\n  durio a\ndurio b\n  sudo durio c\n```";
    assert_eq!(command_lines(text, true), ["durio a", "durio c"]);
}

#[test]
fn every_example_is_a_command_line_of_its_command() {
    for page in &file().page {
        let begin = format!("durio {}", page.command);
        for (line, what) in &page.examples {
            assert!(line.starts_with(begin.trim_end()) && what.ends_with('.'), "{line}: {what}");
            let parsed = Arguments::try_parse_from(with_fio_words_last(words(line)));
            assert!(parsed.is_ok(), "{line}\n{}", parsed.unwrap_err());
        }
    }
}

#[test]
fn lists_of_files_are_known_and_used() {
    let lists: Vec<&String> = file().files.keys().collect();
    let named: Vec<&String> = file().page.iter().flat_map(|page| &page.files).collect();
    let unknown: Vec<_> = named.iter().filter(|name| !lists.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let unused: Vec<_> = lists.iter().filter(|name| !named.contains(name)).collect();
    assert!(unused.is_empty() && lists.len() == 13, "{unused:?}");
    let check: Vec<&str> =
        notes_of("check").unwrap().files().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        (check.len(), check[0], check[2]),
        (8, "$XDG_STATE_HOME/durio/runs/", "RUN/run.json")
    );
}

fn expect_notes(command: &clap::Command, name: &str, names: &mut Vec<String>) {
    let page = notes_of(name);
    assert!(page.is_some_and(|page| !page.examples.is_empty()), "no example of '{name}'");
    names.push(match name {
        "" => "durio(1)".to_owned(),
        _ => format!("durio-{}(1)", name.replace(' ', "-")),
    });
    for inner in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        expect_notes(inner, format!("{name} {}", inner.get_name()).trim_start(), names);
    }
}

#[test]
fn every_command_has_a_page_and_pages_name_only_such() {
    let mut names = Vec::new();
    expect_notes(&Arguments::command(), "", &mut names);
    assert_eq!(names.len(), file().page.len(), "{names:?}");
    for other in file().page.iter().flat_map(|page| &page.see_also) {
        let is_ours = other.starts_with("durio");
        assert!(!is_ours || names.iter().any(|name| name == other), "{other} is not a page");
    }
}
