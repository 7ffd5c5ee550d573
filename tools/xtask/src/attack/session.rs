//! One call of the suite: makes the folder, runs the suite inside, takes everything down, and
//! returns each row's outcome.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::arena::{Arena, is_root, take_down};
use super::random::Random;
use super::rows::AttackRow;
use super::{AttackArguments, archives, devices, inputs, kills, names, network, races, sockets};
use crate::bench::Interrupt;
use crate::cargo;

/// How long a running case may take after Ctrl-C.
const END_LIMIT: Duration = Duration::from_secs(5);
const RESULTS: &str = "results.json";

/// The outcome of a row.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RowOutcome {
    pub(crate) row: String,
    pub(crate) tried: usize,
    /// Cases with faults, each with its faults.
    pub(crate) violations: Vec<(usize, Vec<String>)>,
    /// Why it was not run.
    pub(crate) not_run: Option<String>,
}

/// Runs the suite on a copy of durio, inside its namespaces where permitted.
pub(super) fn carry_out(
    arguments: &AttackArguments,
    interrupt: &Interrupt,
) -> Result<Vec<RowOutcome>> {
    let program = match &arguments.durio {
        Some(program) => program.clone(),
        None => build()?,
    };
    let scratch = AttackFolder::make(arguments)?;
    // A copy: no build may replace the attacked program.
    let copy = scratch.path().join("durio");
    fs::copy(&program, &copy).with_context(|| format!("no durio at {}", program.display()))?;
    let child = inner(arguments, scratch.path())?.spawn().context("cannot run unshare")?;
    let status = wait(child, interrupt)?;
    interrupt.check()?;
    ensure!(status.success(), "the suite itself failed: {status}");
    let text = fs::read(scratch.path().join(RESULTS)).context("the suite left no results")?;
    Ok(serde_json::from_slice(&text)?)
}

/// Waits for the inner process, which Ctrl-C reaches too, and kills it if it does not end after an
/// interrupt.
fn wait(mut child: Child, interrupt: &Interrupt) -> Result<ExitStatus> {
    let mut interrupted = None;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait")? {
            return Ok(status);
        }
        if interrupt.came() {
            let since = *interrupted.get_or_insert_with(Instant::now);
            if since.elapsed() > END_LIMIT {
                // Everything in its namespaces ends with it.
                child.kill().context("cannot end the suite")?;
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The release build.
fn build() -> Result<PathBuf> {
    let status = cargo::command(&["build", "--release", "-p", "durio"]).status();
    ensure!(status.context("cannot run cargo")?.success(), "durio cannot be built");
    Ok(cargo::metadata()?.target_directory.into_std_path_buf().join("release/durio"))
}

fn inner(arguments: &AttackArguments, scratch: &Path) -> Result<Command> {
    let own = env::current_exe().context("this program has no path")?;
    let mut command =
        if is_root() && namespaces().arg("true").status().is_ok_and(|status| status.success()) {
            let mut command = namespaces();
            command.arg(own);
            command
        } else {
            Command::new(own)
        };
    command.arg("attack").args(arguments.words()).arg("--inside").arg(scratch);
    Ok(command)
}

/// A command in private namespaces, which end with it; a container may refuse them.
fn namespaces() -> Command {
    let mut command = Command::new("unshare");
    // --fork: the namespace of processes begins with a child. --kill-child: if unshare is killed,
    // the kernel ends that child, and with it everything inside.
    command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]);
    // Else /proc would show the machine's processes, under numbers that mean others here.
    command.args(["--mount-proc", "--"]);
    command
}

/// The folder of one call, and the mounts and devices over its files, until dropped.
struct AttackFolder {
    folder: Option<TempDir>,
    is_kept: bool,
}

impl AttackFolder {
    fn make(arguments: &AttackArguments) -> Result<Self> {
        // Not /tmp: it is covered inside, and often in memory.
        let place = arguments.scratch.clone().unwrap_or_else(|| PathBuf::from("/var/tmp"));
        let folder = tempfile::Builder::new().prefix("durio-attack-").tempdir_in(&place);
        let folder =
            folder.with_context(|| format!("cannot make a folder in {}", place.display()))?;
        Ok(Self { folder: Some(folder), is_kept: arguments.keep })
    }

    fn path(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new(""), TempDir::path)
    }
}

impl Drop for AttackFolder {
    fn drop(&mut self) {
        // First the devices over its files: a loop device would keep them, without a name.
        take_down(self.path());
        let Some(folder) = self.folder.take() else { return };
        if self.is_kept {
            eprintln!("kept: {}", folder.keep().display());
        } else if let Err(error) = super::arena::remove(folder.path()) {
            eprintln!("warning: {error:#}");
        }
    }
}

/// Inside: runs every row, one after another, and writes the outcomes into the folder.
pub(super) fn run_inside(arguments: &AttackArguments, scratch: &Path) -> Result<()> {
    let arena = Arena::enter(scratch)?;
    let mut outcomes = Vec::new();
    for row in chosen(&arguments.only)? {
        outcomes.push(run_row(&arena, &row, arguments)?);
    }
    let text = serde_json::to_vec(&outcomes)?;
    fs::write(scratch.join(RESULTS), text).context("cannot write the results")
}

fn run_row(arena: &Arena, row: &AttackRow, arguments: &AttackArguments) -> Result<RowOutcome> {
    let mut outcome = RowOutcome { row: row.name.to_owned(), ..RowOutcome::default() };
    if let Some(reason) = (row.missing)(arena) {
        eprintln!("{}: not run: {reason}", row.name);
        return Ok(RowOutcome { not_run: Some(reason), ..outcome });
    }
    // Remains of the previous row over the case's folder must not be blamed on this one.
    arena.clean_case()?;
    let begin = Instant::now();
    let cases = match arguments.case {
        Some(case) => case..case + 1,
        None => 0..arguments.count.unwrap_or_else(|| row.count(arguments.scale)),
    };
    for case in cases {
        arena.interrupt().check()?;
        let mut random = Random::of_case(arguments.seed, row.name, case);
        let wrong = (row.attack)(arena, case, &mut random)
            .with_context(|| format!("{} case {case} could not be carried out", row.name))?;
        outcome.tried += 1;
        if !wrong.is_empty() {
            eprintln!("{} case {case}: {}", row.name, wrong.join("; "));
            outcome.violations.push((case, wrong));
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    eprintln!(
        "{}: {} cases, {:.1} s, {:.0} a second",
        row.name,
        outcome.tried,
        seconds,
        f64::from(u32::try_from(outcome.tried).unwrap_or(u32::MAX)) / seconds
    );
    Ok(outcome)
}

fn all() -> Vec<AttackRow> {
    [
        inputs::rows(),
        kills::rows(),
        races::rows(),
        devices::rows(),
        names::rows(),
        archives::rows(),
        sockets::rows(),
        network::rows(),
    ]
    .concat()
}

/// The rows with these names or in these groups; all if no name is given.
fn chosen(names: &[String]) -> Result<Vec<AttackRow>> {
    let rows = all();
    let is_it =
        |row: &AttackRow, name: &str| row.name == name || row.name.split(':').next() == Some(name);
    for name in names {
        let known: Vec<_> = rows.iter().map(|row| row.name).collect();
        ensure!(rows.iter().any(|row| is_it(row, name)), "no '{name}' among {}", known.join(", "));
    }
    let is_chosen = |row: &AttackRow| names.is_empty() || names.iter().any(|name| is_it(row, name));
    Ok(rows.into_iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(outcome: &RowOutcome) -> RowOutcome {
        serde_json::from_slice(&serde_json::to_vec(outcome).unwrap()).unwrap()
    }

    #[test]
    fn an_outcome_arrives_as_it_was_sent() {
        let outcome = RowOutcome {
            row: "kills:check".to_owned(),
            tried: 9,
            violations: vec![(3, vec!["left: x".to_owned(), "hangs".to_owned()])],
            not_run: None,
        };
        assert_eq!(sent(&outcome), outcome);
        let skipped = RowOutcome { not_run: Some("no root".to_owned()), ..RowOutcome::default() };
        assert_eq!(sent(&skipped), skipped);
    }

    #[test]
    fn a_row_is_chosen_by_its_name_or_its_group_and_every_name_is_one() {
        let rows = all();
        assert_eq!(chosen(&[]).unwrap().len(), rows.len());
        for row in &rows {
            assert_eq!(chosen(&[row.name.to_owned()]).unwrap().len(), 1, "{}", row.name);
        }
        assert!(chosen(&["inputs".to_owned()]).unwrap().len() > 5);
        assert!(chosen(&["nothing".to_owned()]).is_err());
    }
}
