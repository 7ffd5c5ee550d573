//! Reads records back as findings: run folders and bench folders, as far as they can be read.

use std::collections::BTreeMap;
use std::path::Path;

use durio_analyse::attribution::{StackFindings, attribution, bench_of};
use durio_analyse::{Analyser, Findings};
use durio_command::{CommandError, CommandErrorKind, error_chain};
use durio_judge::judged;
use durio_record::bench::BenchFolder;
use durio_record::{Event, RunFolder};

use crate::observer::Observer;

/// The findings that were read back.
#[derive(Debug)]
pub struct ReadBack<T> {
    /// As far as it could be read.
    pub findings: T,
    /// True if that is not to the end.
    pub is_damaged: bool,
}

/// The findings of a run folder.
///
/// # Errors
/// If it is not a run folder, or has no events.
pub fn read_run(
    run: &Path,
    histograms: bool,
    observer: &dyn Observer,
) -> Result<ReadBack<Findings>, CommandError> {
    let folder = RunFolder::open(run)?;
    let mut analyser =
        Analyser::new(folder.manifest.clone(), folder.plan.clone(), folder.environment.clone());
    if histograms {
        analyser.keep_histograms();
    }
    let damage = each_event(&folder, |event| analyser.observe(event))?;
    let is_damaged = damage.is_some();
    if let Some(damage) = damage {
        observer.remark(&format!("durio: {damage}; the report ends there"));
        analyser.damaged(damage);
    }
    // The report says where its record is, wherever it is read from.
    let path = std::path::absolute(run).unwrap_or_else(|_| run.to_owned());
    Ok(ReadBack { findings: judged(analyser.finish(path.display().to_string())), is_damaged })
}

/// Shows `observe` the events of a folder; says where it is damaged. What can be read before that is
/// shown: a record that lost its last seconds to a power cut is still worth its hours.
pub(crate) fn each_event(
    folder: &RunFolder,
    mut observe: impl FnMut(&Event),
) -> Result<Option<String>, CommandError> {
    for event in folder.events()? {
        match event {
            Ok(timed) => observe(&timed.event),
            Err(error) => {
                return Ok(Some(format!("the record is damaged: {}", error_chain(&error))));
            }
        }
    }
    Ok(None)
}

/// The findings of runs by their names, where they are known already.
pub(crate) type KnownRuns = BTreeMap<String, Findings>;

/// The findings of a bench folder: what each layer costs.
///
/// # Errors
/// If nothing was measured.
pub fn read_bench(
    folder: &BenchFolder,
    observer: &dyn Observer,
) -> Result<ReadBack<StackFindings>, CommandError> {
    bench_findings(folder, KnownRuns::new(), observer)
}

/// The same; `known` runs are not read again.
pub(crate) fn bench_findings(
    folder: &BenchFolder,
    mut known: KnownRuns,
    observer: &dyn Observer,
) -> Result<ReadBack<StackFindings>, CommandError> {
    let mut is_damaged = false;
    let mut run_findings = |run: &str| {
        // Taken out: findings are large, and each run has one layer.
        let read = match known.remove(run) {
            Some(findings) => Some(ReadBack { findings, is_damaged: false }),
            None => read_point(&folder.run(run)?, observer),
        };
        // A missing run is as bad as a torn one: the bench lacks its results.
        is_damaged |= read.as_ref().is_none_or(|read| read.is_damaged);
        read.map(|read| read.findings)
    };
    let mut findings: Vec<Vec<Option<Findings>>> = Vec::new();
    for stack in &folder.manifest.stacks {
        let runs = stack.layers.iter().map(|layer| layer.run.as_deref());
        findings.push(runs.map(|run| run_findings(run?)).collect());
    }
    let timing = findings
        .iter()
        .flatten()
        .flatten()
        .find_map(|it| it.host.lab.as_ref())
        .map(|lab| lab.timing);
    let bench = bench_of(&folder.manifest, &findings, timing);
    let findings = attribution(&bench).map_err(|error| {
        CommandError::of(CommandErrorKind::CannotMeasure, error).context("nothing was measured")
    })?;
    Ok(ReadBack { findings, is_damaged })
}

// A run that cannot be read is a row without results; the rest is shown.
fn read_point(path: &Path, observer: &dyn Observer) -> Option<ReadBack<Findings>> {
    let read = read_run(path, false, observer);
    read.inspect_err(|error| {
        observer.remark(&format!("durio: {}: {}", path.display(), error_chain(error)));
    })
    .ok()
}
