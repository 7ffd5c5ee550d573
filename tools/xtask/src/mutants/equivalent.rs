//! Mutants that no test can see, each with its reason: `tools/xtask/mutants.txt`.
//!
//! Takes that file and the mutants of a crate; says whether a mutant is in it, or which entry fits
//! no mutant.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::Mutant;

const FILE: &str = "tools/xtask/mutants.txt";

/// A mutant whose code does the same.
#[derive(Debug)]
struct EquivalentMutant {
    file: String,
    change: String,
    source: String,
}

#[derive(Debug)]
pub(super) struct Equivalents {
    root: PathBuf,
    entries: Vec<EquivalentMutant>,
}

impl Equivalents {
    /// Reads the list of the checkout at `root`.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(FILE)).with_context(|| FILE.to_owned())?;
        let entries = parse(&text)?;
        Ok(Equivalents { root: root.to_owned(), entries })
    }

    /// True if this mutant is listed.
    pub(super) fn has(&self, mutant: &Mutant) -> bool {
        self.entries.iter().any(|entry| self.fits(entry, mutant))
    }

    /// Refuses entries for a crate that fit none of its mutants, because the code has changed
    /// since.
    pub(super) fn check(&self, is_whole: bool, folder: &str, mutants: &[Mutant]) -> Result<()> {
        let is_inside = |entry: &&EquivalentMutant| {
            entry.file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
        };
        for entry in self.entries.iter().filter(is_inside) {
            let is_listed = is_whole || mutants.iter().any(|mutant| mutant.file == entry.file);
            if is_listed && !mutants.iter().any(|mutant| self.fits(entry, mutant)) {
                bail!("{FILE}: no mutant '{}: {}' at '{}'", entry.file, entry.change, entry.source);
            }
        }
        Ok(())
    }

    fn fits(&self, entry: &EquivalentMutant, mutant: &Mutant) -> bool {
        if entry.file != mutant.file || entry.change != mutant.change() {
            return false;
        }
        let text = fs::read_to_string(self.root.join(&mutant.file)).unwrap_or_default();
        let source = text.lines().nth(mutant.line.saturating_sub(1));
        source.is_some_and(|line| line.trim() == entry.source)
    }
}

/// Entries of three parts: file and change, then indented the line of code, then the reason.
fn parse(text: &str) -> Result<Vec<EquivalentMutant>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let lines: Vec<_> = lines.collect();
    let starts: Vec<_> = (0..lines.len()).filter(|&place| !lines[place].starts_with(' ')).collect();
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    let entry = |(start, end): (&usize, usize)| match &lines[*start..end] {
        [head, source, _reason, ..] => {
            let (file, change) =
                head.split_once(": ").context("no ': ' between file and change")?;
            let [file, change, source] = [file, change, source].map(|part| part.trim().to_owned());
            Ok(EquivalentMutant { file, change, source })
        }
        [head, ..] => bail!("{FILE}: '{head}' has no line of code and reason below it"),
        [] => bail!("{FILE}: no entry"),
    };
    starts.iter().zip(ends).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "\
# Comment.
crates/a/src/b.rs: replace < with <= in f
    if low < high {
    Equal bounds give the same.

crates/a/src/c.rs: replace g with 0
    g(x)
    Because.
";

    fn mutant(file: &str, line: usize, change: &str) -> Mutant {
        Mutant { name: format!("{file}:{line}:9: {change}"), file: file.to_owned(), line }
    }

    #[test]
    fn a_mutant_is_listed_by_file_change_and_line_of_code() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("crates/a/src")).unwrap();
        let code = "fn f() {\n    if low < high {\n    if low < other {\n";
        fs::write(root.path().join("crates/a/src/b.rs"), code).unwrap();
        let entries = parse(LISTED).unwrap();
        assert_eq!(entries.len(), 2);
        let equivalents = Equivalents { root: root.path().to_owned(), entries };
        let (file, change) = ("crates/a/src/b.rs", "replace < with <= in f");
        assert!(equivalents.has(&mutant(file, 2, change)));
        assert!(!equivalents.has(&mutant(file, 3, change)));
        assert!(!equivalents.has(&mutant(file, 2, "replace < with > in f")));
        assert!(!equivalents.has(&mutant("crates/a/src/c.rs", 2, change)));
        // An entry without a mutant is stale, if its file is among those that are looked at.
        let seen = [mutant(file, 2, change)];
        let error = equivalents.check(true, "crates/a", &seen).unwrap_err().to_string();
        assert!(error.contains("crates/a/src/c.rs: replace g with 0"), "{error}");
        equivalents.check(false, "crates/a", &seen).unwrap();
        equivalents.check(true, "crates/ab", &[]).unwrap();
        // A folder is a whole path component.
        equivalents.check(true, "crat", &[]).unwrap();
    }

    #[test]
    fn an_entry_needs_its_reason() {
        let without = "crates/a/src/b.rs: replace < with <= in f\n    if low < high {\n";
        let error = parse(without).unwrap_err().to_string();
        assert!(error.contains("replace < with <= in f"), "{error}");
    }

    #[test]
    fn the_list_of_this_checkout_can_be_read() {
        Equivalents::read(&crate::cargo::workspace_root()).unwrap();
    }
}
