//! Pages and examples against the commands that there are.

use std::ffi::OsString;

use clap::{CommandFactory, Parser};

use super::*;
use crate::args::{Arguments, with_fio_words_last};

/// As a shell reads it: `'a b'` is one word, and what follows `>` is not durio's.
fn words(line: &str) -> Vec<OsString> {
    let (mut words, mut quoted) = (Vec::new(), false);
    for part in line.split('\'') {
        match quoted {
            true => words.push(part.to_owned()),
            false => words.extend(part.split_whitespace().map(str::to_owned)),
        }
        quoted = !quoted;
    }
    words.into_iter().take_while(|word| !word.starts_with('>')).map(OsString::from).collect()
}

#[test]
fn every_example_is_a_command_line_of_its_command() {
    for page in pages() {
        let begin = format!("durio {}", page.command);
        for (line, what) in page.examples {
            assert!(line.starts_with(begin.trim_end()) && what.ends_with('.'), "{line}: {what}");
            let parsed = Arguments::try_parse_from(with_fio_words_last(words(line)));
            assert!(parsed.is_ok(), "{line}\n{}", parsed.unwrap_err());
        }
    }
}

fn expect_notes(command: &clap::Command, name: &str, names: &mut Vec<String>) {
    let page = notes_of(name);
    assert!(page.is_some_and(|page| !page.examples.is_empty()), "no example of '{name}'");
    names.push(match name {
        "" => "durio(1)".to_owned(),
        _ => format!("durio-{}(1)", name.replace(' ', "-")),
    });
    for inner in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        expect_notes(inner, format!("{name} {}", inner.get_name()).trim_start(), names);
    }
}

#[test]
fn every_command_has_a_page_and_pages_name_only_such() {
    let mut names = Vec::new();
    expect_notes(&Arguments::command(), "", &mut names);
    assert_eq!(names.len(), pages().count(), "{names:?}");
    for other in pages().flat_map(|page| page.see_also) {
        let is_ours = other.starts_with("durio");
        assert!(!is_ours || names.iter().any(|name| name == other), "{other} is no page");
    }
}
