//! The runs of a proof: A B B A …, each a process of its own, the setting switched before each.
//!
//! In: specs, values, a setting. Out: how it ended. Not here: what is compared.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use durio_run::StopFlag;

use crate::commands::interleave::{follow, side_of};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;
use crate::switched::Switched;

/// What takes turns.
pub(super) struct Turns<'a> {
    /// Per side its spec and the directory of its runs.
    pub(super) sides: &'a [(PathBuf, PathBuf); 2],
    /// Of the setting, per side; the first is the one that must come back.
    pub(super) values: [&'a str; 2],
    /// Runs of each side.
    pub(super) pairs: u32,
    /// Where durio lays out its file.
    pub(super) place: &'a Path,
    /// The setting; none for what is durio's own.
    pub(super) switched: Option<&'a Switched>,
    /// Set by a signal.
    pub(super) stop: &'a StopFlag,
}

pub(super) fn turns(turns: &Turns<'_>) -> Result<Exit, Failure> {
    let count = turns.pairs * 2;
    for turn in 0..count {
        let side = side_of(turn);
        let value = turns.values[side];
        if turns.stop.is_set() {
            return Ok(Exit::Interrupted);
        }
        if let Some(switched) = turns.switched {
            switched.set(value)?;
        }
        output::remark(&format!("durio: run {} of {count}: {value}", turn + 1));
        let exit = run(turns, &turns.sides[side])?;
        if exit != Exit::Fine {
            return Ok(exit);
        }
    }
    Ok(Exit::Fine)
}

/// One run, in a process group of its own: a signal reaches this durio first, which restores and
/// hands it on.
fn run(turns: &Turns<'_>, (spec, runs): &(PathBuf, PathBuf)) -> Result<Exit, Failure> {
    let child = start(spec, runs, turns.place).map_err(|error| cannot(&error))?;
    follow(child, turns.stop, || {
        turns.switched.map_or(Ok(()), |switched| switched.set(turns.values[0]))
    })
}

fn start(spec: &Path, runs: &Path, place: &Path) -> std::io::Result<Child> {
    let mut target = OsString::from("data=");
    target.push(place);
    Command::new(std::env::current_exe()?)
        .arg("run")
        .arg(spec)
        .args(["--fresh", "--quiet", "--out"])
        .arg(runs)
        .arg("--target")
        .arg(target)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
}

fn cannot(error: &std::io::Error) -> Failure {
    Failure::new(Exit::CannotMeasure, format!("cannot run durio itself: {error}"))
}
