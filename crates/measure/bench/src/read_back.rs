//! Reads records back: run folders and bench folders as findings, as far as they can be read, and
//! sides of a comparison. A side is a run folder, a directory of run folders, or folders between
//! commas; durio-judge compares them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use durio_analyse::attribution::{StackFindings, attribution, bench_of};
use durio_analyse::why::WhyFindings;
use durio_analyse::{Analyser, Findings};
use durio_base::shell_word;
use durio_command::{CommandError, error_chain};
use durio_judge::compare::{
    CompareSettings, ComparedRun, Comparison, RunReader, Side, compare_named,
};
use durio_judge::judge;
use durio_layers::DeclaredStack;
use durio_record::bench::{BenchFolder, LabCompareFolder};
use durio_record::fleet::CampaignFolder;
use durio_record::proof::ProofFolder;
use durio_record::{Event, RecordError, RunFolder, file_names};

use crate::observer::Observer;
use crate::runs::{find_run, read_run_row};

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
    let mut findings = judge(analyser.finish(path.display().to_string()));
    findings.why = why_of(&folder, observer);
    Ok(ReadBack { findings, is_damaged })
}

/// Why its slow commits were slow, if that was recorded. One that cannot be read is left out: the
/// run's results do not depend on it.
pub(crate) fn why_of(folder: &RunFolder, observer: &dyn Observer) -> Option<Box<WhyFindings>> {
    let read = folder.document(file_names::WHY);
    let tell = |error: &RecordError| {
        observer.remark(&format!("durio: slow commits are left out: {}", error_chain(error)));
    };
    read.inspect_err(tell).ok().flatten()
}

/// Shows `observe` the events of a folder; says where it is damaged. What can be read before that is
/// shown: a record that lost its last seconds to a power cut is still worth its hours.
fn each_event(
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
    folder: &BenchFolder<DeclaredStack>,
    observer: &dyn Observer,
) -> Result<ReadBack<StackFindings>, CommandError> {
    bench_findings(folder, KnownRuns::new(), observer)
}

/// The same; `known` runs are not read again.
pub(crate) fn bench_findings(
    folder: &BenchFolder<DeclaredStack>,
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
        .find_map(|findings| findings.host.lab.as_ref())
        .map(|lab| lab.timing);
    let bench = bench_of(&folder.manifest, &findings, timing);
    let findings = attribution(&bench)
        .map_err(|error| CommandError::cannot(error).context("nothing was measured"))?;
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

// A directory with more run folders than this is surely not meant as one side.
const RUNS_MAX: usize = 1000;

/// Compares two or more sides; the first is the baseline. `names` are their labels, if there is one
/// for each.
///
/// # Errors
/// If a side is not a run.
pub fn read_comparison(
    sides: &[PathBuf],
    names: &[String],
    settings: &CompareSettings,
    observer: &dyn Observer,
) -> Result<ReadBack<Comparison>, CommandError> {
    let folders = sides.iter().map(|side| folders(side)).collect::<Result<Vec<_>, _>>()?;
    let read = read_all(&folders)?;
    let damage = read.iter().flatten().filter_map(|(_, damage)| damage.as_ref());
    let is_damaged = damage.inspect(|damage| tell(damage, observer)).count() > 0;
    let sides: Vec<Side> = sides.iter().zip(read).map(side_of).collect();
    Ok(ReadBack { findings: compare_named(&sides, names, settings), is_damaged })
}

/// A run to be compared.
///
/// # Errors
/// If it is not a run.
pub fn read_compared_run(
    path: &Path,
    observer: &dyn Observer,
) -> Result<ReadBack<ComparedRun>, CommandError> {
    let (findings, damage) = read_compared(&find_compared(path)?)?;
    damage.iter().for_each(|damage| tell(damage, observer));
    Ok(ReadBack { findings, is_damaged: damage.is_some() })
}

fn tell(damage: &str, observer: &dyn Observer) {
    observer.remark(&format!("durio: {damage}; what comes after is not compared"));
}

fn side_of((source, runs): (&PathBuf, Vec<(ComparedRun, Option<String>)>)) -> Side {
    let runs = runs.into_iter().map(|(run, _)| run).collect();
    Side { source: source.display().to_string(), runs }
}

/// The run folders of one side: itself, those in it, or those between commas.
fn folders(side: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let text = side.to_string_lossy();
    // A folder may have a comma in its name: only a path that does not exist is a list.
    let folders = match !side.exists() && text.contains(',') {
        true => {
            let parts = text.split(',').filter(|part| !part.is_empty());
            parts.map(|part| find_compared(Path::new(part))).collect::<Result<_, _>>()?
        }
        false if side.is_dir() && !is_run(side) && other_record(side).is_none() => {
            folders_in(side)?
        }
        false => vec![find_compared(side)?],
    };
    let mut known: Vec<PathBuf> = Vec::new();
    for folder in &folders {
        // The same run twice would count as two repeats, and agree with itself.
        let path = fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
        if known.contains(&path) {
            let message = format!("'{}' is named twice in the side '{text}'", folder.display());
            return Err(CommandError::wrong_use(message)
                .hint("the same run twice is not a repeat, and would suggest false certainty"));
        }
        known.push(path);
    }
    Ok(folders)
}

fn is_run(folder: &Path) -> bool {
    folder.join(file_names::MANIFEST).is_file()
}

/// The folder of the run that a word means. Other records are refused: the runs of a bench would
/// count as repeats of one measurement.
fn find_compared(word: &Path) -> Result<PathBuf, CommandError> {
    let folder = find_run(word)?;
    let Some((kind, command, answer)) = other_record(&folder) else { return Ok(folder) };
    let word = word.to_string_lossy();
    let name = read_run_row(&folder).targets.into_iter().next();
    let name = name.map_or_else(String::new, |name| format!(" ({name})"));
    Err(CommandError::cannot_measure(format!("'{word}' is {kind}{name}, not a run"))
        .hint(format!("{command} {} {answer}", shell_word(&word))))
}

/// The kind of a record that is not a run, the command that reads it, and its answer.
fn other_record(folder: &Path) -> Option<(&'static str, &'static str, &'static str)> {
    if is_run(folder) {
        None
    } else if BenchFolder::<DeclaredStack>::is_at(folder) {
        Some(("a bench of stacks", "durio report", "compares its stacks and layers"))
    } else if ProofFolder::is_at(folder) {
        Some(("a power-cut proof", "durio report", "shows which writes survived"))
    } else if LabCompareFolder::is_at(folder) {
        Some(("a comparison of two kernels", "durio report", "shows how each layer changed"))
    } else if CampaignFolder::is_at(folder) {
        Some(("a campaign of many hosts", "durio fleet report", "compares its hosts"))
    } else {
        None
    }
}

/// True for a block device and for a directory without a record of durio's: places that can be
/// measured, where a side of a comparison was expected.
pub fn is_place(path: &Path) -> bool {
    let is_record = |path: &Path| is_run(path) || other_record(path).is_some();
    let Ok(facts) = path.metadata() else { return false };
    if !facts.is_dir() {
        return facts.file_type().is_block_device();
    }
    let has_record = || {
        let entries = fs::read_dir(path).into_iter().flatten();
        entries.flatten().any(|entry| is_record(&entry.path()))
    };
    !is_record(path) && !has_record()
}

fn folders_in(directory: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let cannot = |reason: String| {
        let message = format!("cannot compare '{}': {reason}", directory.display());
        CommandError::cannot_measure(message)
            .hint("a side is a run folder, a directory of run folders, or a comma-separated list of folders")
            .hint("to measure two directories without runs in alternation: durio compare A B --pairs 5")
    };
    let entries = fs::read_dir(directory).map_err(|error| cannot(error.to_string()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    // One more than there may be, to know that there are too many.
    let mut runs: Vec<PathBuf> = paths.filter(|path| is_run(path)).take(RUNS_MAX + 1).collect();
    runs.sort();
    match runs.len() {
        0 => {
            let manifest = file_names::MANIFEST;
            Err(cannot(format!("neither it nor a directory in it has a file '{manifest}'")))
        }
        count if count > RUNS_MAX => Err(cannot(format!("it has more than {RUNS_MAX} runs"))),
        _ => Ok(runs),
    }
}

/// A run, and why it cannot be read to its end.
type LoadedRun = (ComparedRun, Option<String>);

/// Reads every side, each in a separate thread.
// Reading takes most of a comparison's time.
fn read_all(sides: &[Vec<PathBuf>]) -> Result<Vec<Vec<LoadedRun>>, CommandError> {
    std::thread::scope(|scope| {
        let read_side = |side: &'_ [PathBuf]| side.iter().map(|run| read_compared(run)).collect();
        let start = |side| scope.spawn(move || -> Result<Vec<_>, CommandError> { read_side(side) });
        let running: Vec<_> = sides.iter().map(|side| start(side)).collect();
        let join = |side: std::thread::ScopedJoinHandle<'_, Result<_, CommandError>>| {
            side.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().map(join).collect()
    })
}

fn read_compared(path: &Path) -> Result<LoadedRun, CommandError> {
    let folder = RunFolder::open(path)?;
    let (manifest, plan) = (folder.manifest.clone(), folder.plan.clone());
    let mut reader = RunReader::new(manifest, plan, folder.environment.clone());
    let damage = each_event(&folder, |event| reader.observe(event))?;
    damage.iter().for_each(|damage| reader.damaged(damage.clone()));
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // Whether it recorded is of interest here, and one that cannot be read is no reason to refuse.
    let why = folder.document(file_names::WHY).ok().flatten();
    Ok((reader.finish(absolute.display().to_string()).with_why(why), damage))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn make_run(folder: &Path) {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join(file_names::MANIFEST), "{}").unwrap();
    }

    /// The names of the runs of a side.
    fn runs(side: &Path) -> Result<Vec<String>, String> {
        let name = |run: &PathBuf| run.file_name().unwrap().to_string_lossy().into_owned();
        let folders = folders(side).map_err(|error| error.to_string())?;
        Ok(folders.iter().map(name).collect())
    }

    #[test]
    fn the_same_run_by_another_way_of_writing_or_by_a_link_is_no_repeat() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        ["a", "b"].map(at).iter().for_each(|run| make_run(run));
        symlink(at("a"), at("link")).unwrap();
        let side = |names: &[&str]| {
            let paths = names.iter().map(|name| at(name).display().to_string());
            PathBuf::from(paths.collect::<Vec<_>>().join(","))
        };
        assert_eq!(runs(&side(&["b", "a"])).unwrap(), ["b", "a"]);
        assert_eq!(runs(&side(&["b", "link"])).unwrap(), ["b", "link"]);
        for again in ["a", "./a", "b/../a", "a/", "link"] {
            let refused = runs(&side(&["a", "b", again])).unwrap_err();
            let named = format!("'{}' is named twice in the side", at(again).display());
            assert!(refused.starts_with(&named), "{refused}");
        }
        // Also in a directory of runs.
        let refused = runs(root.path()).unwrap_err();
        assert!(refused.contains("link' is named twice"), "{refused}");
    }

    #[test]
    fn a_side_is_a_run_or_the_runs_of_a_directory_by_their_names() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        ["b", "a,b", "c"].map(at).iter().for_each(|run| make_run(run));
        fs::create_dir(at("no-run")).unwrap();
        assert_eq!(runs(root.path()).unwrap(), ["a,b", "b", "c"]);
        assert_eq!(runs(&at("a,b")).unwrap(), ["a,b"]);
        // A run with a run in it is one run.
        make_run(&at("c/d"));
        assert_eq!(runs(&at("c")).unwrap(), ["c"]);
        let refused = runs(&at("no-run")).unwrap_err();
        assert!(
            refused.ends_with("neither it nor a directory in it has a file 'run.json'"),
            "{refused}"
        );
    }

    #[test]
    fn a_side_that_is_another_record_is_named_with_the_command_for_it() {
        let root = tempfile::tempdir().unwrap();
        let with = |name: &str, manifest: &str| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(manifest), "{}").unwrap();
            folder
        };
        let bench = with("bench", "bench.json");
        // Its runs are of different layers.
        make_run(&bench.join("01-md"));
        for (folder, kind, hint) in [
            (bench, "a bench of stacks", "durio report {} compares its stacks and layers"),
            (with("p", "proof.json"), "a power-cut proof", "durio report {} shows which writes"),
            (with("k", "lab-compare.json"), "a comparison of two kernels", "durio report {} shows"),
            (with("f", "fleet.json"), "a campaign of many hosts", "durio fleet report {} compares"),
        ] {
            let shown = folder.display().to_string();
            let listed = PathBuf::from(format!("{shown},{shown}"));
            for side in [&folder, &listed] {
                let refused = folders(side).unwrap_err();
                assert_eq!(refused.to_string(), format!("'{shown}' is {kind}, not a run"));
                let hint = hint.replace("{}", &shown);
                assert!(refused.hints[0].starts_with(&hint), "{:?}", refused.hints);
            }
            assert!(!is_place(&folder), "{shown} would be measured");
        }
    }

    #[test]
    fn a_directory_of_more_than_1000_runs_is_no_side() {
        let root = tempfile::tempdir().unwrap();
        (0..1000).for_each(|number| make_run(&root.path().join(number.to_string())));
        assert_eq!(runs(root.path()).unwrap().len(), 1000);
        make_run(&root.path().join("one more"));
        let refused = runs(root.path()).unwrap_err();
        assert!(refused.ends_with("it has more than 1000 runs"), "{refused}");
    }

    #[test]
    fn a_place_is_a_directory_that_holds_no_record() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["empty", "data", "run", "runs/first", "bench"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("data/notes.txt"), "a user's").unwrap();
        fs::write(at("run").join(file_names::MANIFEST), "{}").unwrap();
        fs::write(at("runs/first").join(file_names::MANIFEST), "{}").unwrap();
        fs::write(at("bench/bench.json"), "{}").unwrap();
        let names = ["empty", "data", "run", "runs", "bench", "data/notes.txt", "missing"];
        let places: Vec<&str> = names.into_iter().filter(|name| is_place(&at(name))).collect();
        assert_eq!(places, ["empty", "data"]);
    }
}
