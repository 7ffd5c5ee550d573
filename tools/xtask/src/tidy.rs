//! `cargo xtask tidy`: the project's rules that no compiler checks.
//!
//! Takes the manifests, the resolved graph and the sources of the workspace. Prints one line for
//! each problem, `file:line: what, and what to do`.
//!
//! A new rule is a module with a check over plain data, and a line in [`problems`].

mod code;
mod cycles;
mod english;
mod figures;
mod licences;
mod map;
mod reasons;
mod rows;
mod schema;
mod spdx;
mod text;
mod tree;
mod unsafety;
mod walks;

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;

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
    problems.extend(sources.iter().flat_map(unsafety::check));
    problems.extend(sources.iter().flat_map(text::check));
    problems.extend(schema::check(&sources, tree::read(&root, schema::DOCUMENT).ok().as_deref()));
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
