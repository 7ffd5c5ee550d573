//! Runs in turns, A B B A A B …, each a separate process, as if typed by hand. Each side is a spec
//! of `durio run` or a place of `durio check`, options of that command, and a folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use durio_block::Folder;
use durio_command::{CommandError, Ending, StopFlag};
use durio_record::FolderName;
use rustix::process::{Pid, Signal, kill_process};

use crate::observer::Observer;
use crate::state_folder::runs_folder;

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The command of each turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnCommand {
    /// As `durio run SPEC` would.
    Run,
    /// As `durio check PATH` would.
    Check,
}

/// Runs in turns that are over.
#[derive(Debug)]
pub struct InterleavedRuns {
    /// The directory of all runs.
    pub folder: PathBuf,
    /// Per side the directory of its runs.
    pub sides: [PathBuf; 2],
    /// How they ended; the run that ended them has said why.
    pub ending: Ending,
}

/// Runs `command` for each of two specs or places `pairs` times, with these options.
///
/// # Errors
/// If no run can be started.
pub fn interleave(
    command: TurnCommand,
    [a, b]: [&Path; 2],
    pairs: u32,
    options: &[OsString],
    stop: &StopFlag,
    observer: &dyn Observer,
) -> Result<InterleavedRuns, CommandError> {
    let name = FolderName::new("compare", SystemTime::now(), std::process::id());
    let folder = runs_folder(None)?.join(name.as_str());
    let sides = [folder.join("a"), folder.join("b")];
    Folder::make(&folder)
        .and_then(|folder| folder.make_folder("a").and(folder.make_folder("b")))
        .map_err(|error| CommandError::io("make the folder", &folder, error))?;
    let ending = turns(pairs, stop, |turn, side| {
        let subject = [a, b][side];
        observer.progress(&format!("durio: run {turn} of {}: {}", pairs * 2, subject.display()));
        let child = durio_turn(command, subject, &sides[side])?
            .args(options)
            .spawn()
            .map_err(|error| CommandError::io("start a run of", subject, error))?;
        follow(child, stop, || Ok(()))
    })?;
    Ok(InterleavedRuns { folder, sides, ending })
}

/// Does `run` for each turn, with its number and its side, until one ends otherwise than well.
pub(crate) fn turns(
    pairs: u32,
    stop: &StopFlag,
    mut run: impl FnMut(u32, usize) -> Result<Ending, CommandError>,
) -> Result<Ending, CommandError> {
    for turn in 0..pairs * 2 {
        let ending =
            if stop.is_set() { Ending::Interrupted } else { run(turn + 1, side_of(turn))? };
        if ending != Ending::Complete {
            return Ok(ending);
        }
    }
    Ok(Ending::Complete)
}

/// A B B A A B B A: neither side is always first.
fn side_of(turn: u32) -> usize {
    // With A B A B a steady drift would always meet B later.
    usize::from(matches!(turn % 4, 1 | 2))
}

/// `durio run SPEC`, with its run folder in `runs`.
pub(crate) fn durio_run(spec: &Path, runs: &Path) -> Result<Command, CommandError> {
    durio_turn(TurnCommand::Run, spec, runs)
}

fn durio_turn(turn: TurnCommand, subject: &Path, runs: &Path) -> Result<Command, CommandError> {
    // This very program: a durio in PATH may be another version, with other results.
    let program = std::env::current_exe().map_err(|error| {
        CommandError::io("find durio itself", Path::new("/proc/self/exe"), error)
    })?;
    let mut command = Command::new(program);
    match turn {
        // `--fresh`: each turn is a new run, never the rest of an interrupted one.
        TurnCommand::Run => command.arg("run").arg(subject).args(["--yes", "--fresh"]),
        // Predictions are not compared: they would only take time.
        TurnCommand::Check => command.arg("check").arg(subject).args(["--yes", "--no-predictions"]),
    };
    // The comparison is shown, not each run's report.
    command.arg("--out").arg(runs).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// Waits for a durio to end; at a stop it is interrupted, and `on_stop` runs.
pub(crate) fn follow(
    mut child: Child,
    stop: &StopFlag,
    on_stop: impl Fn() -> Result<(), CommandError>,
) -> Result<Ending, CommandError> {
    let mut is_told = false;
    loop {
        let status = child
            .try_wait()
            .map_err(|error| CommandError::io("wait for", Path::new("/proc/self/exe"), error))?;
        if let Some(status) = status {
            return Ok(Ending::of_durio(status.code()));
        }
        if stop.is_set() && !is_told {
            is_told = true;
            // As a terminal would: the run ends in order and keeps its record.
            // It may have ended already.
            let _ = kill_process(Pid::from_child(&child), Signal::INT);
            on_stop()?;
        }
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_side_is_always_first() {
        let turns: Vec<usize> = (0..8).map(side_of).collect();
        assert_eq!(turns, [0, 1, 1, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn a_turn_is_a_new_run_of_a_spec_or_a_check_of_a_place() {
        let words = |turn| {
            let command = durio_turn(turn, Path::new("x"), Path::new("/runs/a")).unwrap();
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(TurnCommand::Run), "run x --yes --fresh --out /runs/a");
        assert_eq!(words(TurnCommand::Check), "check x --yes --no-predictions --out /runs/a");
    }

    #[test]
    fn every_turn_has_its_number_and_its_side_until_one_does_not_end_well() {
        let all = [(1, 0), (2, 1), (3, 1), (4, 0), (5, 0), (6, 1)];
        let run = |ends_at: u32| {
            let mut ran = Vec::new();
            let ending = turns(3, &StopFlag::default(), |turn, side| {
                ran.push((turn, side));
                Ok(if turn == ends_at { Ending::Interrupted } else { Ending::Complete })
            });
            (ending.unwrap(), ran)
        };
        assert_eq!(run(99), (Ending::Complete, all.to_vec()));
        assert_eq!(run(4), (Ending::Interrupted, all[..4].to_vec()));
        let mut ran = 0;
        let failed = turns(3, &StopFlag::default(), |_, _| {
            ran += 1;
            Err(CommandError::cannot_measure("planted"))
        });
        assert_eq!((failed.unwrap_err().to_string().as_str(), ran), ("planted", 1));
    }

    #[test]
    fn no_turn_begins_after_a_wish_to_stop() {
        let stop = StopFlag::default();
        let mut ran = 0;
        let ending = turns(3, &stop, |turn, _| {
            ran += 1;
            if turn == 2 {
                stop.set();
            }
            Ok(Ending::Complete)
        });
        assert_eq!((ending.unwrap(), ran), (Ending::Interrupted, 2));
    }
}
