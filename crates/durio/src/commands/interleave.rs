//! Two specs in turns: A B B A A B …, each run a process of its own, as if typed by hand.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use durio_block::Folder;
use durio_record::FolderName;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;
use crate::state_folder::runs_folder;

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
    let name = FolderName::new("compare", SystemTime::now(), std::process::id());
    let folder = runs_folder(None)?.join(name.as_str());
    let sides = [(a, folder.join("a")), (b, folder.join("b"))];
    Folder::make(&folder)
        .and_then(|folder| folder.make_folder("a").and(folder.make_folder("b")))
        .map_err(|error| cannot("make the folder", &folder, error))?;
    for turn in 0..pairs * 2 {
        let (spec, runs) = &sides[side_of(turn)];
        output::remark(&format!("durio: run {} of {}: {}", turn + 1, pairs * 2, spec.display()));
        if let Some(exit) = run_once(spec, runs, options)? {
            return Ok(Interleaved::Ended(exit));
        }
    }
    Ok(Interleaved::Done(sides.map(|(_, runs)| runs).to_vec()))
}

/// A B B A A B B A: neither side is always first.
pub(super) fn side_of(turn: u32) -> usize {
    usize::from(matches!(turn % 4, 1 | 2))
}

/// One run; the exit code that ends all, if it did not end well.
fn run_once(spec: &Path, runs: &Path, options: &[OsString]) -> Result<Option<Exit>, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| cannot("find durio itself", Path::new("/proc/self/exe"), error))?;
    let status = Command::new(program)
        .arg("run")
        .arg(spec)
        .args(["--fresh", "--out"])
        .arg(runs)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| cannot("start a run of", spec, error))?;
    Ok(match status.code() {
        Some(0) => None,
        Some(2) => Some(Exit::WrongUse),
        Some(4) => Some(Exit::Fault),
        Some(130) | None => Some(Exit::Interrupted),
        Some(_) => Some(Exit::CannotMeasure),
    })
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
