//! `cargo xtask book`: the book in docs/.
//!
//! Takes docs/ and the built durio's output. Writes the generated pages of docs/reference and, with
//! mdbook, the book in target/book, and prints a line for each broken link.
//!
//! ```text
//! durio --help, explain, profile, plan ──► pages ──► docs/reference/*.md ─┐
//!                                                     docs/**/*.md ───────┴► mdbook ──► links
//! ```
//!
//! Links out of the book are not fetched.

mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use pages::{BookPage, ExplainedTerm};

use crate::cargo;

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
        problems.iter().for_each(|problem| println!("{problem}"));
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
    problems.extend(of_sources(&root.join(SOURCES), &explained)?);
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
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
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
    let found = of_book(&out, explained)?;
    found.broken.iter().for_each(|link| println!("{link}"));
    if external {
        let addresses: BTreeSet<_> = found.external.iter().collect();
        addresses.iter().for_each(|address| println!("external {address}"));
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

/// The file that lists the book's pages.
const SUMMARY: &str = "SUMMARY.md";

/// The findings of a checker of the built book.
#[derive(Debug, Default)]
struct LinkReport {
    pages: usize,
    internal: usize,
    broken: Vec<String>,
    external: Vec<String>,
}

/// A file with its anchors and links.
#[derive(Debug, Default)]
struct LinkedFile {
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

type LinkedFiles = BTreeMap<PathBuf, LinkedFile>;

/// Broken links of the sources; pages that SUMMARY.md does not have; ids without an anchor.
fn of_sources(folder: &Path, explained: &[ExplainedTerm]) -> Result<Vec<String>> {
    let files = read(folder, "md", of_markdown)?;
    let mut broken = Vec::new();
    for (path, file) in &files {
        for link in &file.links {
            broken.extend(problem(folder, &files, path, link));
        }
    }
    let summary = files.get(Path::new(SUMMARY)).context("docs has no SUMMARY.md")?;
    let listed = |path: &PathBuf| summary.links.iter().any(|link| Path::new(link) == path);
    let missing = files.keys().filter(|page| *page != Path::new(SUMMARY) && !listed(page));
    broken.extend(missing.map(|page| format!("{}: no line in {SUMMARY}", page.display())));
    broken.extend(unexplained(&files, explained, "md"));
    Ok(broken)
}

/// Broken links of the built book, and ids without an anchor.
fn of_book(folder: &Path, explained: &[ExplainedTerm]) -> Result<LinkReport> {
    let mut files = read(folder, "html", of_html)?;
    // One repeats every page, the other is shown at any address.
    for copy in ["print.html", "404.html"] {
        files.remove(Path::new(copy));
    }
    let mut found = LinkReport { pages: files.len(), ..LinkReport::default() };
    for (path, file) in &files {
        for link in &file.links {
            if is_external(link) {
                found.external.push(link.clone());
                continue;
            }
            found.internal += 1;
            found.broken.extend(problem(folder, &files, path, link));
        }
    }
    found.broken.extend(unexplained(&files, explained, "html"));
    found.external.sort_unstable();
    found.external.dedup();
    Ok(found)
}

fn unexplained(files: &LinkedFiles, explained: &[ExplainedTerm], ending: &str) -> Vec<String> {
    let is_missing = |term: &&ExplainedTerm| {
        let file = files.get(Path::new(&format!("{}.{ending}", term.page)));
        !file.is_some_and(|file| file.anchors.contains(&term.anchor))
    };
    let missing = explained.iter().filter(is_missing);
    missing
        .map(|term| format!("{}: no anchor '{}' for what reports print", term.page, term.anchor))
        .collect()
}

fn is_external(link: &str) -> bool {
    ["http:", "https:", "mailto:", "data:"].iter().any(|scheme| link.starts_with(scheme))
}

/// Why a link leads nowhere, if it does not.
fn problem(folder: &Path, files: &LinkedFiles, from: &Path, link: &str) -> Option<String> {
    if is_external(link) {
        return None;
    }
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = match target {
        "" => from.to_owned(),
        _ => joined(from, target),
    };
    let place = from.display();
    let Some(file) = files.get(&path) else {
        let is_there = folder.join(&path).exists();
        return (!is_there).then(|| format!("{place}: '{link}' leads nowhere"));
    };
    let is_missing = !anchor.is_empty() && !file.anchors.contains(anchor);
    is_missing.then(|| format!("{place}: '{link}': no such anchor"))
}

/// The path that a link from `from` means.
fn joined(from: &Path, link: &str) -> PathBuf {
    let mut path = from.parent().unwrap_or(from).to_owned();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." if path.file_name().is_some() && !path.ends_with("..") => {
                path.pop();
            }
            part => path.push(part),
        }
    }
    path
}

fn read(folder: &Path, ending: &str, linked: fn(&str) -> LinkedFile) -> Result<LinkedFiles> {
    let (mut files, mut waiting) = (LinkedFiles::new(), vec![folder.to_owned()]);
    while let Some(next) = waiting.pop() {
        let entries =
            fs::read_dir(&next).with_context(|| format!("no folder {}", next.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("{} cannot be read", path.display()))?;
                let name = path.strip_prefix(folder).unwrap_or(&path).to_owned();
                files.insert(name, linked(&text));
            }
        }
    }
    Ok(files)
}

/// Headings and links of Markdown, as far as this book writes them.
fn of_markdown(text: &str) -> LinkedFile {
    let mut linked = LinkedFile::default();
    let mut in_fence = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        // Code is shown unchanged.
        if in_fence || line.starts_with("    ") {
            continue;
        }
        if let Some(heading) = line.trim_start_matches('#').strip_prefix(' ')
            && line.starts_with('#')
        {
            let anchor = anchor(heading);
            let again = (1..).map(|n| format!("{anchor}-{n}"));
            let free = [anchor.clone()].into_iter().chain(again);
            linked.anchors.extend(free.into_iter().find(|id| !linked.anchors.contains(id)));
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        linked.links.extend(targets.map(str::to_owned));
    }
    linked
}

/// The id that mdbook and GitHub give a heading.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | ' ');
    let text: String = heading.trim().chars().filter(kept).collect();
    text.to_lowercase().replace(' ', "-")
}

/// Ids and links of HTML as mdbook writes it.
fn of_html(text: &str) -> LinkedFile {
    let values = |name: &str| -> Vec<String> {
        let mark = format!(" {name}=\"");
        let values = text.split(mark.as_str()).skip(1).filter_map(|rest| rest.split('"').next());
        values.map(|value| value.replace("&amp;", "&")).collect()
    };
    let links = [values("href"), values("src")].concat();
    let links = links.into_iter().filter(|link| !link.is_empty());
    LinkedFile { anchors: values("id").into_iter().collect(), links: links.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        of_sources(folder.path(), &[]).unwrap()
    }

    #[test]
    fn a_sound_book_has_no_problem() {
        let summary = "# Summary\n\n- [A](a.md)\n- [B](b/c.md)\n";
        let a = "# A\n\n[b](b/c.md#two-words) `[no](link)`\n\n```text\n[no](link)\n```\n";
        let b = "# B\n\n## Two words\n\n[a](../a.md), [x](https://x/), [own](#b)\n";
        assert_eq!(broken(&[("SUMMARY.md", summary), ("a.md", a), ("b/c.md", b)]), [""; 0]);
    }

    #[test]
    fn links_anchors_and_pages_that_are_missing_are_named() {
        let summary = "# Summary\n\n- [A](a.md)\n";
        let a = "# A\n\n[b](b.md) [c](#c) [d](d.md)\n";
        let found = broken(&[("SUMMARY.md", summary), ("a.md", a), ("d.md", "# D\n")]);
        assert_eq!(
            found,
            [
                "a.md: 'b.md' leads nowhere",
                "a.md: '#c': no such anchor",
                "d.md: no line in SUMMARY.md"
            ]
        );
    }

    #[test]
    fn what_reports_print_needs_its_anchor() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.html"), "<h2 id=\"a\"><a href=\"#a\">a</a></h2>").unwrap();
        let explained = |anchor: &str| ExplainedTerm { page: "x", anchor: anchor.to_owned() };
        let found = of_book(folder.path(), &[explained("a"), explained("b")]).unwrap();
        assert_eq!((found.pages, found.internal), (1, 1));
        assert_eq!(found.broken, ["x: no anchor 'b' for what reports print"]);
    }

    #[test]
    fn anchors_are_those_that_mdbook_makes() {
        assert_eq!(anchor("B01"), "b01");
        assert_eq!(anchor("What to do?"), "what-to-do");
        assert_eq!(anchor("Ids, `code` and 70/30"), "ids-code-and-7030");
    }
}
