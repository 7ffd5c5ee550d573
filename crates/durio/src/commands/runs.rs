//! `durio runs`, `durio history`: runs that are kept, listed, removed, and set in a row.

use std::path::Path;
use std::time::{Duration, SystemTime};

use durio_analyse::history;
use durio_base::{Bytes, counted};
use durio_bench::{BenchError, KeptRuns, find_run, list_runs, remove_run, to_prune};
use durio_plan::RawPath;
use durio_report::ShownRuns;

use crate::args::{Runs, RunsCommand, RunsHistory};
use crate::exit_code::Exit;
use crate::output;

pub(crate) fn runs(arguments: &Runs) -> Result<Exit, BenchError> {
    let kept = kept(arguments.probes)?;
    match &arguments.command {
        None => {
            let rows = list_runs(&kept)?;
            output::report(arguments.output, &ShownRuns::new(&rows)).map(|()| Exit::Fine)
        }
        Some(RunsCommand::Rm { runs, yes }) => {
            let names = runs.iter().map(|it| name_of(it, &kept)).collect::<Result<Vec<_>, _>>()?;
            remove(&kept, &names, *yes)
        }
        Some(RunsCommand::Prune { keep, older_than, yes }) => {
            let rows = list_runs(&kept)?;
            let age = Duration::from_nanos(older_than.get());
            let old = to_prune(&rows, *keep, age, SystemTime::now());
            let names: Vec<String> = old.iter().map(|it| it.run.clone()).collect();
            if names.is_empty() {
                output::remark("durio: nothing is that old");
                return Ok(Exit::Fine);
            }
            remove(&kept, &names, *yes)
        }
    }
}

/// Where the runs are, or the probes of watchers.
fn kept(probes: bool) -> Result<KeptRuns, BenchError> {
    if probes { KeptRuns::probes() } else { KeptRuns::runs() }
}

pub(crate) fn history(arguments: &RunsHistory) -> Result<Exit, BenchError> {
    let (target, metric) = (arguments.target.as_deref(), &arguments.metric);
    let rows = list_runs(&kept(arguments.probes)?)?;
    // In the form of records, and in that of lists, from which a user may copy it.
    let names = target.map(|it| [RawPath::from(it).to_string(), it.display().to_string()]);
    let found = match &names {
        None => history::history(&rows, None, metric),
        Some(names) => names.iter().find_map(|name| history::history(&rows, Some(name), metric)),
    };
    let found = found.ok_or_else(|| {
        let figure = format!("{} of {}", metric.figure.name(), metric.workload);
        let place = target.map_or_else(String::new, |target| format!(" at '{}'", target.display()));
        if rows.iter().any(|row| row.has_levels_of(&metric.workload)) {
            let message = format!("'{}' has several levels in a run", metric.workload);
            return BenchError::cannot_measure(message)
                .hint("a history follows a workload that each run measures once; durio compare has levels");
        }
        BenchError::cannot_measure(format!("no run that ended has {figure}{place}"))
            .hint("durio runs lists the runs with their targets")
    })?;
    output::report(arguments.output, &found).map(|()| Exit::Fine)
}

/// The name of a run of the state folder.
fn name_of(word: &Path, kept: &KeptRuns) -> Result<String, BenchError> {
    let folder = find_run(word)?;
    let canonical = folder.canonicalize().ok();
    let runs = kept.path().and_then(|it| it.canonicalize().ok());
    let is_kept =
        runs.is_some() && canonical.as_ref().and_then(|it| it.parent()) == runs.as_deref();
    let name = canonical.as_ref().and_then(|it| it.file_name()).map(|it| it.to_string_lossy());
    match name.filter(|_| is_kept) {
        Some(name) => Ok(name.into_owned()),
        None => {
            Err(BenchError::wrong_use(format!("'{}' is not in the state folder", word.display()))
                .hint(
                    "durio removes only runs that it keeps there; remove other folders with rm -r",
                ))
        }
    }
}

fn remove(kept: &KeptRuns, names: &[String], yes: bool) -> Result<Exit, BenchError> {
    let rows = list_runs(kept)?;
    let bytes = rows.iter().filter(|it| names.contains(&it.run)).map(|it| it.bytes).sum();
    for name in names {
        output::remark(&format!("  {name}"));
    }
    let what = format!("{}, {}", counted(names.len() as u64, "run"), Bytes::new(bytes));
    if !yes && !output::agreed(&format!("this removes {what}"))? {
        return Ok(Exit::Fine);
    }
    names.iter().try_for_each(|name| remove_run(kept, name))?;
    output::remark(&format!("durio: removed {what}"));
    Ok(Exit::Fine)
}
