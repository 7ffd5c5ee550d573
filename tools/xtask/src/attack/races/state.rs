//! State folders in which another user has put links and folders: `durio` as another user runs it.
//!
//! Leads a part of the state folder elsewhere; checks that nothing was removed or made there.

use std::fs::{self, File};
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Result;

use super::{LIMIT, VICTIMS, begin, changes};
use crate::attack::arena::Arena;
use crate::attack::random::Random;
use crate::attack::verdict::faults;
use crate::attack::witness::FolderTree;

const NOBODY: u32 = 65_534;
const PARTS: [&str; 6] = ["runs", "watch", "replays", "leftovers", "stacks", "settings"];
const COMMANDS: [&str; 7] = [
    "run --quiet --engine null --ops 10",
    "replay t.trace data --quiet",
    "runs prune --yes --keep 0 --older-than 0d",
    "runs --probes prune --yes --keep 0 --older-than 0d",
    "runs",
    "stack clean",
    "run --quiet --engine null --ops 10 --out out",
];
/// strace's lines of a write and a sync.
const TRACE: &str = "800 1000.000000 pwrite64(3</old/log>, \"\"..., 8192, 0) = 8192 <0.000020>\n\
                     800 1000.000100 fdatasync(3</old/log>) = 0 <0.000100>\n";

/// Files of a user that look like durio's.
fn bait(folder: &Path) -> Result<()> {
    for command in ["run", "watch", "replay"] {
        let run = folder.join(format!("2026-01-02T030405-678Z-{command}-4711"));
        fs::create_dir_all(&run)?;
        fs::write(run.join("run.json"), "{ damaged")?;
        fs::write(run.join("the-users"), "the user's\n")?;
        File::open(&run)?.set_modified(SystemTime::now() - Duration::from_secs(7200))?;
    }
    Ok(())
}

/// A part of the state folder, or the folder itself, leads to a user's files, or is a user's.
pub(super) fn state_links(
    arena: &Arena,
    number: usize,
    random: &mut Random,
) -> Result<Vec<String>> {
    let (case, _) = begin(arena)?;
    let victims = case.path(VICTIMS);
    bait(&victims)?;
    fs::write(case.path("strace.txt"), TRACE)?;
    case.durio("capture --strace strace.txt --trace t.trace").limit(LIMIT).run()?;
    let (base, state) = (case.path("state"), case.path("state/durio"));
    let part = state.join(PARTS[number % PARTS.len()]);
    fs::create_dir_all(&base)?;
    match random.below(if arena.is_root() { 4 } else { 1 }) {
        0 => {
            fs::create_dir_all(&state)?;
            let _ = fs::remove_dir_all(&part);
            symlink(&victims, &part)?;
        }
        // The whole state folder is the user's, in which the parts lead elsewhere.
        1 => {
            fs::create_dir_all(&state)?;
            let _ = fs::remove_dir_all(&part);
            symlink(&victims, &part)?;
            chown(&state, Some(NOBODY), Some(NOBODY))?;
        }
        // The user's link leads to the state folder.
        2 => {
            let _ = fs::remove_dir_all(&state);
            symlink(&victims, &state)?;
            lchown(&state, Some(NOBODY), Some(NOBODY))?;
        }
        _ => {
            let _ = fs::remove_dir_all(&base);
            symlink(&victims, &base)?;
            lchown(&base, Some(NOBODY), Some(NOBODY))?;
        }
    }
    let before = FolderTree::of(&victims);
    let mut wrong = Vec::new();
    for line in COMMANDS {
        let ended = case.durio(line).limit(LIMIT).run()?;
        wrong.extend(faults(&ended));
        wrong.extend(changes(&case, &before).iter().map(|it| format!("{line}: {it}")));
    }
    Ok(wrong)
}
