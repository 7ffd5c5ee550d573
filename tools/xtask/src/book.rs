//! `cargo xtask book`: the book in docs/.
//!
//! Takes docs/ and the built durio's output. Writes the generated pages of docs/reference and, with
//! mdbook, the book in target/book, and prints a line for each broken link.
//!
//! ```text
//! durio --help, explain, profile, plan ──► pages ──► docs/reference/*.md ─┐
//!                                                     docs/**/*.md ───────┴► mdbook ──► links
//! ```

mod links;
mod pages;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::cargo;
use pages::{BookPage, ExplainedTerm};

/// The folder of the book's sources and of SUMMARY.md, which lists its pages.
const SOURCES: &str = "docs";

/// A program that the book needs is missing: durio's exit code for unavailable features.
const CANNOT: u8 = 3;

/// What is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct BookArguments {
    /// Only say which generated pages are not current and which links of the sources are broken;
    /// writes nothing and needs no mdbook
    #[arg(long)]
    check: bool,
    /// List the links that leave the book; they are not fetched
    #[arg(long)]
    external: bool,
}

/// Builds the book, or checks its sources.
pub(crate) fn run(arguments: &BookArguments) -> Result<ExitCode> {
    let built = cargo::command(&["build", "--quiet", "-p", "durio"]).status()?;
    ensure!(built.success(), "durio does not compile");
    let program = cargo::metadata()?.target_directory.into_std_path_buf().join("debug/durio");
    if arguments.check {
        let problems = problems(&program)?;
        problems.iter().for_each(|it| println!("{it}"));
        if problems.is_empty() {
            println!("the book's sources are current, their links resolve");
        }
        return Ok(ended(problems.is_empty()));
    }
    let root = cargo::workspace_root();
    let (pages, explained) = pages::pages(&program)?;
    for page in &pages {
        write(&root, page)?;
    }
    let Some(mdbook) = mdbook() else {
        eprintln!(
            "error: mdbook is not installed, so that the book cannot be built\n\
             hint: cargo install mdbook --locked, or the package mdbook of your distribution; \
             MDBOOK=PATH names one that is not on the PATH"
        );
        return Ok(ExitCode::from(CANNOT));
    };
    build(&mdbook, &root, &pages, &explained, arguments.external)
}

/// Faults of the sources: outdated pages, broken links.
pub(crate) fn problems(program: &Path) -> Result<Vec<String>> {
    let root = cargo::workspace_root();
    let (pages, explained) = pages::pages(program)?;
    let mut problems = Vec::new();
    for page in &pages {
        // A missing page is outdated too.
        if fs::read_to_string(root.join(&page.path)).unwrap_or_default() != page.text {
            problems.push(format!("{}: not current; cargo xtask book writes it anew", page.path));
        }
    }
    problems.extend(links::of_sources(&root.join(SOURCES), &explained)?);
    Ok(problems)
}

fn write(root: &Path, page: &BookPage) -> Result<()> {
    let path = root.join(&page.path);
    if fs::read_to_string(&path).unwrap_or_default() == page.text {
        return Ok(());
    }
    println!("{} written", page.path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, &page.text).with_context(|| format!("{} cannot be written", page.path))
}

/// The program that builds books.
fn mdbook() -> Option<PathBuf> {
    let named = env::var_os("MDBOOK").map(PathBuf::from);
    let found = |program: &PathBuf| {
        Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success())
    };
    named.or_else(|| Some(PathBuf::from("mdbook"))).filter(found)
}

fn build(
    mdbook: &Path,
    root: &Path,
    pages: &[BookPage],
    explained: &[ExplainedTerm],
    external: bool,
) -> Result<ExitCode> {
    let out = cargo::metadata()?.target_directory.into_std_path_buf().join("book");
    let status = Command::new(mdbook)
        .arg("build")
        .arg(root.join(SOURCES))
        .arg("--dest-dir")
        .arg(&out)
        .status()
        .with_context(|| format!("{} does not start", mdbook.display()))?;
    ensure!(status.success(), "mdbook failed");
    let found = links::of_book(&out, explained)?;
    found.broken.iter().for_each(|it| println!("{it}"));
    if external {
        let addresses: BTreeSet<_> = found.external.iter().collect();
        addresses.iter().for_each(|it| println!("external {it}"));
    }
    println!(
        "{}: {} pages, {} of them generated; {} internal links and {} ids checked, {} broken; {} \
         external links not fetched",
        out.display(),
        found.pages,
        pages.len(),
        found.internal,
        explained.len(),
        found.broken.len(),
        found.external.len()
    );
    Ok(ended(found.broken.is_empty()))
}

fn ended(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
