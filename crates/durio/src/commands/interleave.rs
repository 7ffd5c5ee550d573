//! Two specs in turns: A B B A A B …, each run a process of its own, as if typed by hand.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use durio_block::Folder;
use durio_record::FolderName;
use durio_run::StopFlag;
use rustix::process::{Pid, Signal, kill_process};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;
use crate::state_folder::runs_folder;
use crate::stop_signals::stop_on_signals;

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// What became of the runs.
pub(super) enum Interleaved {
    /// Per side the directory of its runs.
    Done(Vec<PathBuf>),
    /// A run ended otherwise than well; it has said why.
    Ended(Exit),
}

/// Runs each of two specs `pairs` times, with `options` of `durio run`.
pub(super) fn interleaved(
    specs: &[PathBuf],
    pairs: u32,
    options: &[OsString],
) -> Result<Interleaved, Failure> {
    let [a, b] = specs else {
        return Err(Failure::new(Exit::WrongUse, "two specs take turns, neither more nor fewer")
            .hint("durio compare --interleave A.toml B.toml -- --target DIR"));
    };
    let stop = stop_on_signals()?;
    let name = FolderName::new("compare", SystemTime::now(), std::process::id());
    let folder = runs_folder(None)?.join(name.as_str());
    let sides = [(a, folder.join("a")), (b, folder.join("b"))];
    Folder::make(&folder)
        .and_then(|folder| folder.make_folder("a").and(folder.make_folder("b")))
        .map_err(|error| cannot("make the folder", &folder, error))?;
    for turn in 0..pairs * 2 {
        let (spec, runs) = &sides[side_of(turn)];
        output::remark(&format!("durio: run {} of {}: {}", turn + 1, pairs * 2, spec.display()));
        let exit =
            if stop.is_set() { Exit::Interrupted } else { run_once(spec, runs, options, &stop)? };
        if exit != Exit::Fine {
            return Ok(Interleaved::Ended(exit));
        }
    }
    Ok(Interleaved::Done(sides.map(|(_, runs)| runs).to_vec()))
}

/// A B B A A B B A: neither side is always first.
pub(super) fn side_of(turn: u32) -> usize {
    usize::from(matches!(turn % 4, 1 | 2))
}

fn run_once(
    spec: &Path,
    runs: &Path,
    options: &[OsString],
    stop: &StopFlag,
) -> Result<Exit, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| cannot("find durio itself", Path::new("/proc/self/exe"), error))?;
    let child = Command::new(program)
        .arg("run")
        .arg(spec)
        .args(["--fresh", "--out"])
        .arg(runs)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| cannot("start a run of", spec, error))?;
    follow(child, stop, || Ok(()))
}

/// Waits for a durio to end; once told to stop, it is interrupted, and `on_stop` is done.
pub(super) fn follow(
    mut child: Child,
    stop: &StopFlag,
    on_stop: impl Fn() -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut is_told = false;
    loop {
        let status = child
            .try_wait()
            .map_err(|error| cannot("wait for", Path::new("/proc/self/exe"), error))?;
        if let Some(status) = status {
            return Ok(exit_of(status.code()));
        }
        if stop.is_set() && !is_told {
            is_told = true;
            // It may have ended meanwhile.
            let _ = kill_process(Pid::from_child(&child), Signal::INT);
            on_stop()?;
        }
        thread::sleep(LOOK);
    }
}

const fn exit_of(code: Option<i32>) -> Exit {
    match code {
        Some(0) => Exit::Fine,
        Some(2) => Exit::WrongUse,
        Some(4) => Exit::Fault,
        Some(130) | None => Exit::Interrupted,
        Some(_) => Exit::CannotMeasure,
    }
}

fn cannot(what: &str, path: &Path, error: std::io::Error) -> Failure {
    Failure {
        exit: Exit::CannotMeasure,
        error: anyhow::Error::new(error).context(format!("cannot {what} '{}'", path.display())),
        hints: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::side_of;

    #[test]
    fn neither_side_is_always_first() {
        let turns: Vec<usize> = (0..8).map(side_of).collect();
        assert_eq!(turns, [0, 1, 1, 0, 0, 1, 1, 0]);
    }
}
