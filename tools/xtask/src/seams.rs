//! Proof that an extension touches one existing file at most.
//!
//! Takes the patches in `tools/xtask/seams`, each of which adds a toy as ARCHITECTURE.md says. Runs
//! a test for each, and one for the tree that has all of them: it must compile.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::cargo;

/// How many existing files a toy may touch, not counting tests and documents.
// A seam that needs a second file is in the wrong place and should move first (CONTRIBUTING.md).
const TOUCHED_MAX: usize = 1;

/// The outcome of a toy.
pub(crate) struct ToyOutcome {
    pub(crate) name: String,
    pub(crate) is_good: bool,
}

/// Tests and reports each toy.
pub(crate) fn run() -> Result<ExitCode> {
    let outcomes = outcomes()?;
    for outcome in &outcomes {
        println!("{}: {}", outcome.name, if outcome.is_good { "ok" } else { "FAILED" });
    }
    let is_good = outcomes.iter().all(|outcome| outcome.is_good);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Adds every toy to a copy of the tree.
pub(crate) fn outcomes() -> Result<Vec<ToyOutcome>> {
    let target = cargo::metadata()?.target_directory.into_std_path_buf();
    let copy = target.join("seams");
    renew(&cargo::workspace_root(), &copy)?;
    let mut outcomes = Vec::new();
    // All in one copy: one check costs less than one for each, and they must work together.
    for patch in patches()? {
        let text = fs::read_to_string(&patch)?;
        let (touched, fits) = (touched(&text), apply(&patch, &copy, &target)?);
        let name = format!("seam {}", patch.file_stem().unwrap_or_default().display());
        println!("{name}: touches {}", touched.join(", "));
        outcomes.push(ToyOutcome { name, is_good: fits && touched.len() <= TOUCHED_MAX });
    }
    // The same target folder: it already has the dependencies' builds.
    let mut check = cargo::command(&["check", "--workspace", "--quiet"]);
    let status = check.current_dir(&copy).env("CARGO_TARGET_DIR", &target).status()?;
    outcomes.push(ToyOutcome { name: "seams together".to_owned(), is_good: status.success() });
    Ok(outcomes)
}

fn patches() -> Result<Vec<PathBuf>> {
    let folder = cargo::workspace_root().join("tools/xtask/seams");
    let entries = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// The existing files of the product that a patch changes.
fn touched(patch: &str) -> Vec<&str> {
    let old = patch.lines().filter_map(|line| line.strip_prefix("--- a/"));
    old.filter(|path| !path.contains("/tests/") && !path.ends_with(".md")).collect()
}

/// True if the patch applies. Outside any repository git resolves paths from the current folder.
fn apply(patch: &Path, copy: &Path, ceiling: &Path) -> Result<bool> {
    let mut git = Command::new("git");
    // With git's three lines of context a patch would break whenever a neighbour in a list changes.
    git.args(["apply", "-C1"]).arg(patch).current_dir(copy);
    let status = git.env("GIT_CEILING_DIRECTORIES", ceiling).status();
    Ok(status.context("git does not start")?.success())
}

/// Makes `copy` equal to the checkout, uncommitted changes included. Equal files are not written
/// again, so that cargo does not rebuild them.
fn renew(root: &Path, copy: &Path) -> Result<()> {
    let wanted = files(root)?;
    let is_stale = |path: &&PathBuf| !wanted.contains(*path);
    files_below(copy, Path::new(""))?
        .iter()
        .filter(is_stale)
        .try_for_each(|path| fs::remove_file(copy.join(path)))?;
    for path in &wanted {
        let (bytes, to) = (fs::read(root.join(path))?, copy.join(path));
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            fs::create_dir_all(to.parent().unwrap_or(copy))?;
            fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    Ok(())
}

/// Files that git tracks or would add.
fn files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(list).current_dir(root).output()?;
    ensure!(output.status.success(), "git does not list the files of {}", root.display());
    let names = String::from_utf8(output.stdout)?;
    let is_there = |path: &PathBuf| root.join(path).is_file();
    Ok(names.split_terminator('\0').map(PathBuf::from).filter(is_there).collect())
}

fn files_below(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => found.extend(files_below(root, &path)?),
            false => found.push(path),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_files_tests_and_documents_do_not_count() {
        let patch = "--- a/src/list.rs\n+++ b/src/list.rs\n--- /dev/null\n+++ b/src/toy.rs\n\
                     --- a/crates/x/tests/toy.rs\n--- a/ARCHITECTURE.md\n";
        assert_eq!(touched(patch), ["src/list.rs"]);
    }

    #[test]
    fn a_copy_has_what_is_there_and_nothing_else() {
        let (root, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let git =
            |words: &[&str]| Command::new("git").args(words).current_dir(root.path()).output();
        git(&["init"]).unwrap();
        fs::create_dir(root.path().join("src")).unwrap();
        fs::write(root.path().join("src/a"), "1").unwrap();
        fs::create_dir(copy.path().join("old")).unwrap();
        fs::write(copy.path().join("old/b"), "2").unwrap();
        renew(root.path(), copy.path()).unwrap();
        let found = files_below(copy.path(), Path::new("")).unwrap();
        assert_eq!(found, [PathBuf::from("src/a")]);
    }
}
