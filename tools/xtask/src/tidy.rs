//! `cargo xtask tidy`: the project's rules that no compiler checks.
//!
//! Takes the manifests, the resolved graph and the sources of the workspace. Prints one line for
//! each problem, `file:line: what, and what to do`.
//!
//! A new rule is a check over plain data, in a module or here, and a line in [`problems`].

mod code;
mod cycles;
mod figures;
mod licences;
mod map;
mod reasons;
mod rows;
mod text;
mod tree;
mod walks;

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use code::words;
use tree::SourceFile;

use crate::cargo;

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    file: String,
    line: usize,
    what: String,
}

impl Problem {
    fn new(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// What is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct TidyArguments {
    /// Draw the crates by row, with their lines and what they use, and check nothing
    #[arg(long)]
    map: bool,
    /// Lower the ceilings of tools/xtask/ceilings.toml to what is measured
    #[arg(long, conflicts_with = "map")]
    lower: bool,
}

/// Prints every problem; without one, the exit code is zero.
pub(crate) fn run(arguments: &TidyArguments) -> Result<ExitCode> {
    if arguments.map || arguments.lower {
        let root = cargo::workspace_root();
        let sources = tree::sources(&root)?;
        if arguments.lower {
            figures::lower(&root, &sources)?;
        } else {
            let manifests = tree::manifests(&root, &cargo::metadata()?)?;
            print!("{}\n{}", map::draw(&manifests, &sources), figures::draw(&root, &sources)?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let problems = problems()?;
    print(&problems);
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints each problem on a separate line.
pub(crate) fn print(problems: &[Problem]) {
    for problem in problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        println!("tidy");
    }
}

/// Every problem of the workspace, in the order of files and lines.
pub(crate) fn problems() -> Result<Vec<Problem>> {
    let root = cargo::workspace_root();
    let metadata = cargo::metadata()?;
    let manifests = tree::manifests(&root, &metadata)?;
    let sources = tree::sources(&root)?;
    let mut problems = rows::check(&manifests);
    problems.extend(manifests.iter().flat_map(reasons::check));
    problems.extend(licences::check(&metadata.packages, &tree::read(&root, "Cargo.lock")?));
    problems.extend(sources.iter().flat_map(check_unsafety));
    problems.extend(sources.iter().flat_map(text::check));
    problems.extend(check_schema(&sources, tree::read(&root, DOCUMENT).ok().as_deref()));
    problems.extend(walks::check(&root)?);
    problems.extend(figures::check(&root, &sources)?);
    problems.sort();
    problems.dedup();
    Ok(problems)
}

/// The number, from one, of the first line for which `is_it` holds; one if none does.
fn line_where(text: &str, is_it: impl Fn(&str) -> bool) -> usize {
    text.lines().position(is_it).map_or(1, |index| index + 1)
}

const ALLOWED: &str = "crates/core/block";

fn check_unsafety(source: &SourceFile) -> Vec<Problem> {
    if source.is_in(ALLOWED) {
        return Vec::new();
    }
    let lines = (1..).zip(source.code.code.lines());
    let unsafe_lines = lines.filter(|(_, line)| words(line).any(|word| word == "unsafe"));
    unsafe_lines
        .map(|(number, _)| {
            let what = format!("unsafe code outside {ALLOWED}; use a safe wrapper, or move it");
            Problem::new(&source.path, number, what)
        })
        .collect()
}

/// Where the format is described.
const DOCUMENT: &str = "docs/formats/run-folder.md";

const CRATE: &str = "crates/core/record/src";
const CONSTANT: &str = "const RUN_FOLDER_SCHEMA: u32 =";
const FIELD: &str = "schema:";

/// Compares the sources with the document, if there is one.
fn check_schema(sources: &[SourceFile], document: Option<&str>) -> Option<Problem> {
    let sources = sources.iter().filter(|source| source.is_in(CRATE));
    let written = sources.filter_map(|source| after(&source.code.code, CONSTANT)).next()?;
    let text = document.unwrap_or_default();
    let line = line_where(text, |line| line.trim().starts_with(FIELD));
    let what = match text.lines().find_map(|line| line.trim().strip_prefix(FIELD)) {
        Some(told) if told.trim() == written => return None,
        Some(told) => format!("tells schema {}, but {CRATE} writes {written}", told.trim()),
        None => format!("no line `{FIELD} {written}`, which is what {CRATE} writes"),
    };
    Some(Problem::new(DOCUMENT, line, format!("{what}; describe the schema that is written")))
}

/// The value between `start` and the next semicolon.
fn after<'text>(text: &'text str, start: &str) -> Option<&'text str> {
    let (_, rest) = text.split_once(start)?;
    rest.split(';').next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check_unsafety(&SourceFile::new(path, text)).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn unsafe_code_outside_its_crate_is_caught() {
        let text =
            "//! Header.\nfn f() {\n    unsafe { g() }\n}\n#[unsafe(no_mangle)]\nfn h() {}\n";
        assert_eq!(found("crates/measure/run/src/lib.rs", text), [3, 5]);
        assert_eq!(found("crates/core/block-extra/src/lib.rs", text), [3, 5]);
        assert!(found("crates/core/block/src/lib.rs", text).is_empty());
    }

    #[test]
    fn the_word_in_a_comment_a_string_or_a_lint_is_none() {
        let text = "//! unsafe\n#![deny(unsafe_code)]\nconst X: &str = \"unsafe\";\n";
        assert!(found("crates/measure/run/src/lib.rs", text).is_empty());
    }

    fn found_by_schema(code: &str, document: Option<&str>) -> Option<usize> {
        let sources = [SourceFile::new("crates/core/record/src/lib.rs", code)];
        check_schema(&sources, document).map(|problem| problem.line)
    }

    const CODE: &str = "//! Header.\npub const RUN_FOLDER_SCHEMA: u32 = 3;\n";

    #[test]
    fn the_document_must_tell_the_schema_of_the_code() {
        assert_eq!(found_by_schema(CODE, Some("# Run folder\n\nschema: 3\n")), None);
        assert_eq!(found_by_schema(CODE, Some("# Run folder\n\nschema: 2\n")), Some(3));
        assert_eq!(found_by_schema(CODE, Some("# Run folder\n")), Some(1));
        assert_eq!(found_by_schema(CODE, None), Some(1));
    }

    #[test]
    fn without_a_schema_in_the_code_nothing_is_asked() {
        assert_eq!(found_by_schema("//! Header.\n", None), None);
        let elsewhere = [SourceFile::new("crates/measure/run/src/lib.rs", CODE)];
        assert_eq!(check_schema(&elsewhere, None), None);
    }
}
