//! The parts of a man page beyond the help text: examples, files, related pages (`pages.toml`).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageFile {
    /// Lists of paths, and what is there, by name.
    files: BTreeMap<String, Vec<(String, String)>>,
    page: Vec<PageNotes>,
}

/// The further sections of one command's page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageNotes {
    /// The words after `durio`; none for durio itself.
    pub(super) command: String,
    /// A command line and what it does. A test has each of them parsed.
    pub(super) examples: Vec<(String, String)>,
    /// Names of entries of [`PageFile::files`].
    files: Vec<String>,
    /// Pages as they are named in other pages: `durio-check(1)`.
    pub(super) see_also: Vec<String>,
}

/// The notes of a command; a test asks for those of every command.
pub(super) fn notes_of(command: &str) -> Option<&'static PageNotes> {
    file().page.iter().find(|page| page.command == command)
}

impl PageNotes {
    /// Paths, and what is there.
    pub(super) fn files(&self) -> impl Iterator<Item = &'static (String, String)> {
        self.files.iter().filter_map(|name| file().files.get(name)).flatten()
    }
}

/// Empty if it cannot be read: a test would have said so.
fn file() -> &'static PageFile {
    static FILE: OnceLock<PageFile> = OnceLock::new();
    FILE.get_or_init(|| toml::from_str(include_str!("pages.toml")).unwrap_or_default())
}
