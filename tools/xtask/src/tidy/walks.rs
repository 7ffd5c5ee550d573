//! Rule: the walks in ARCHITECTURE.md, from an event to the printed text, pass files that exist and
//! name the types of the list.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use super::Problem;
use super::tree::read;

const DOCUMENT: &str = "ARCHITECTURE.md";
const SECTION: &str = "## Three walks";

/// A walk of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Walk {
    title: String,
    stops: Vec<WalkStop>,
}

/// A file of a walk.
#[derive(Debug, PartialEq, Eq)]
struct WalkStop {
    /// Line in the document, from 1.
    line: usize,
    /// Path below `crates`.
    file: String,
    types: Vec<String>,
}

/// The walks of the workspace at `root`.
///
/// # Errors
/// If the document has no walk.
pub(super) fn walks(root: &Path) -> Result<Vec<Walk>> {
    let walks = parse(&read(root, DOCUMENT)?);
    if walks.iter().all(|walk| walk.stops.is_empty()) {
        bail!("{DOCUMENT} has no walk below '{SECTION}'");
    }
    Ok(walks)
}

/// Each stop whose file is missing or does not name a type.
pub(super) fn check(root: &Path) -> Result<Vec<Problem>> {
    let walks = walks(root)?;
    let stops = walks.iter().flat_map(|walk| &walk.stops);
    Ok(stops.flat_map(|stop| check_stop(root, stop)).collect())
}

/// `types on the walk: p99 of a commit` with their number, and the files likewise.
pub(super) fn counts(walks: &[Walk]) -> Vec<(String, usize)> {
    let count = |walk: &Walk| {
        let types: BTreeSet<&String> = walk.stops.iter().flat_map(|stop| &stop.types).collect();
        let files: BTreeSet<&String> = walk.stops.iter().map(|stop| &stop.file).collect();
        let title = walk.title.replace('`', "");
        [
            (format!("types on the walk: {title}"), types.len()),
            (format!("files on the walk: {title}"), files.len()),
        ]
    };
    walks.iter().flat_map(count).collect()
}

fn parse(document: &str) -> Vec<Walk> {
    let lines = (1..).zip(document.lines()).skip_while(|(_, line)| *line != SECTION).skip(1);
    let mut walks: Vec<Walk> = Vec::new();
    for (number, line) in lines.take_while(|(_, line)| !line.starts_with("## ")) {
        if let Some(title) = line.strip_prefix("### ") {
            walks.push(Walk { title: title.to_owned(), stops: Vec::new() });
        }
        if let (Some(walk), Some(item)) = (walks.last_mut(), line.strip_prefix("- ")) {
            let mut words = item.split('`').skip(1).step_by(2).map(str::to_owned);
            let file = words.next().unwrap_or_default();
            walk.stops.push(WalkStop { line: number, file, types: words.collect() });
        }
    }
    walks
}

fn check_stop(root: &Path, stop: &WalkStop) -> Vec<Problem> {
    let problem = |what: String| Problem::new(DOCUMENT, stop.line, what);
    let Ok(text) = fs::read_to_string(root.join("crates").join(&stop.file)) else {
        return vec![problem(format!("no file crates/{}", stop.file))];
    };
    let is_part = |c: char| !c.is_alphanumeric() && c != '_';
    let words: BTreeSet<&str> = text.split(is_part).collect();
    let missing = stop.types.iter().filter(|name| !words.contains(name.as_str()));
    missing.map(|name| problem(format!("{} does not name {name}", stop.file))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n- `no/walk.rs`: `A`\n## Three walks\n\n### Rate of `x`\n\n\
                        - `a/b.rs`: `Alpha`, `Beta`\n- `a/c.rs`: `Beta`\n\n### Verdict\n\n\
                        - `a/b.rs`: `Gamma`\n## After\n- `d.rs`: `D`\n";

    #[test]
    fn a_walk_has_a_title_and_a_stop_per_item_with_its_line() {
        let walks = parse(TEXT);
        assert_eq!(walks.len(), 2);
        assert_eq!(walks[0].title, "Rate of `x`");
        let stop = WalkStop { line: 8, file: "a/c.rs".to_owned(), types: vec!["Beta".to_owned()] };
        assert_eq!(walks[0].stops[1], stop);
        assert_eq!(walks[0].stops.len() + walks[1].stops.len(), 3);
        let counts = counts(&walks);
        let counts: Vec<_> = counts.iter().map(|(title, count)| (title.as_str(), *count)).collect();
        assert_eq!(
            counts,
            [
                ("types on the walk: Rate of x", 2),
                ("files on the walk: Rate of x", 2),
                ("types on the walk: Verdict", 1),
                ("files on the walk: Verdict", 1),
            ]
        );
    }

    #[test]
    fn a_missing_file_and_a_type_that_its_file_does_not_name_are_problems() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("crates/a")).unwrap();
        fs::write(root.path().join(DOCUMENT), TEXT).unwrap();
        fs::write(root.path().join("crates/a/b.rs"), "struct Alpha(Betas); enum Gamma {}").unwrap();
        let told: Vec<_> = check(root.path()).unwrap().iter().map(Problem::to_string).collect();
        assert_eq!(
            told,
            [
                "ARCHITECTURE.md:7: a/b.rs does not name Beta",
                "ARCHITECTURE.md:8: no file crates/a/c.rs"
            ]
        );
        fs::write(root.path().join(DOCUMENT), "# Title\n").unwrap();
        assert!(check(root.path()).unwrap_err().to_string().contains("no walk"));
    }
}
