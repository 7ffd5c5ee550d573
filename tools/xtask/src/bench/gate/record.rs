//! Pools of runs of the same thing.
//!
//! Takes a session, or a directory of run folders; returns [`Pool`]s: the runs as recorded, and
//! each as if every measured time had been longer.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use durio_judge::compare::{ComparedRun, RunReader};
use durio_record::{Event, RunFolder, file_names};

use super::{SLOWED, stretch};
use crate::bench::scratch;
use crate::bench::session::{BenchSession, Priority};

const FILE_MEBIBYTES: usize = 512;

/// Name, options of `durio run`, and whether it writes.
const WORKLOADS: [(&str, &str, bool); 3] = [
    ("randread 4 KiB, sync", "--rw randread --bs 4k --engine sync", false),
    ("write 4 KiB, fdatasync each", "--rw write --bs 4k --engine sync --sync fdatasync", true),
    (
        "randread 4 KiB, io_uring, depth 32",
        "--rw randread --bs 4k --engine uring --depth 32",
        false,
    ),
];

/// Runs of the same thing.
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) runs: Vec<ComparedRun>,
    /// The same, slower.
    pub(super) slowed: Vec<ComparedRun>,
}

/// Records every workload `runs` times, in turns.
pub(super) fn record(session: &BenchSession, runs: u32, seconds: u32) -> Result<Vec<Pool>> {
    let file = scratch::lay_out(session.scratch(), FILE_MEBIBYTES, session.interrupt())?;
    let folders: Vec<_> = (0..WORKLOADS.len())
        .map(|index| scratch::subfolder(session.scratch(), &format!("runs-{index}")))
        .collect::<Result<_>>()?;
    for round in 1..=runs {
        eprintln!("round {round} of {runs}");
        for ((_, options, writes), out) in WORKLOADS.iter().zip(&folders) {
            let durio = crate::bench::durio::Durio { out, ..session.durio() };
            let mut words = durio.run(&file, &format!("--duration {seconds}s {options}"));
            if *writes {
                words.extend(["--destroy".into(), file.clone().into()]);
            }
            session.run(&words, Priority::Realtime)?;
        }
    }
    let named = WORKLOADS.iter().map(|(name, ..)| (*name).to_owned());
    named.zip(&folders).map(|(name, folder)| Ok(Pool { name, ..read(folder)? })).collect()
}

/// The run folders of a directory.
pub(super) fn read(directory: &Path) -> Result<Pool> {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut pool = Pool { name, runs: Vec::new(), slowed: Vec::new() };
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut folders: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    for folder in folders.iter().filter(|it| it.join(file_names::MANIFEST).is_file()) {
        pool.runs.push(run(folder, 1.0)?);
        pool.slowed.push(run(folder, SLOWED)?);
    }
    Ok(pool)
}

/// One run, with every time in it longer by `factor`.
fn run(folder: &Path, factor: f64) -> Result<ComparedRun> {
    let opened = RunFolder::open(folder).with_context(|| folder.display().to_string())?;
    let mut reader =
        RunReader::new(opened.manifest.clone(), opened.plan.clone(), opened.environment.clone());
    for event in opened.events().with_context(|| folder.display().to_string())? {
        let mut event: Event = event.with_context(|| folder.display().to_string())?.event;
        if factor > 1.0 {
            stretch::stretch(&mut event, factor);
        }
        reader.observe(&event);
    }
    Ok(reader.finish(folder.display().to_string()))
}
