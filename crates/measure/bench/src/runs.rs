//! Finds runs again: by name, by time, or by the start of a name. Lists have a row for each folder
//! in the state folder, and folders can be removed.
//!
//! The facts read from a folder are kept in an index, so a list of a thousand runs takes no more
//! than a thousand looks at their times. The index is made from the folders alone: removing it
//! loses nothing, and a run that has changed since is read again.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use durio_analyse::history::{Percentiles, RunFigures, RunRow};
use durio_analyse::{Headline, RunState};
use durio_block::Folder;
use durio_command::CommandError;
use durio_layers::DeclaredStack;
use durio_record::bench::{BenchFolder, LabCompareFolder};
use durio_record::proof::{PROOF_MANIFEST, ProofFolder};
use durio_record::{
    FolderManifest, FolderName, Journal, OperationName, Outcome, StateFolder, StatePart, file_names,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::state_folder::{path_of, refused, state_folder, state_path};

/// The format of the index; one of another format is rebuilt.
const INDEX_SCHEMA: u32 = 1;

#[derive(Debug, Default, Serialize, Deserialize)]
struct RunIndex {
    schema: u32,
    rows: BTreeMap<String, IndexedRun>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct IndexedRun {
    /// Modification times of the files that were read.
    stamps: Vec<Option<SystemTime>>,
    row: RunRow,
}

/// The runs that the state folder keeps, or the probes of watchers.
#[derive(Debug)]
pub struct KeptRuns {
    part: StatePart,
    /// `None` if no runs are kept yet.
    held: Option<(StateFolder, Folder)>,
}

impl KeptRuns {
    /// The runs.
    ///
    /// # Errors
    /// If the state folder, or its part, is a link or another user's.
    pub fn runs() -> Result<Self, CommandError> {
        Self::open(StatePart::Runs)
    }

    /// The probes.
    ///
    /// # Errors
    /// As [`KeptRuns::runs`].
    pub fn probes() -> Result<Self, CommandError> {
        Self::open(StatePart::Probes)
    }

    fn open(part: StatePart) -> Result<Self, CommandError> {
        let Some(state) = state_folder()? else { return Ok(Self { part, held: None }) };
        let folder = state.part(part).map_err(|error| refused(&path_of(&state, part), &error))?;
        Ok(Self { part, held: folder.map(|folder| (state, folder)) })
    }

    /// The folder of the runs; `None` if there is none.
    pub fn path(&self) -> Option<&Path> {
        self.held.as_ref().map(|(_, runs)| runs.path())
    }

    /// The index file, next to the runs' folder.
    fn index(&self) -> String {
        format!("{}-index.json", self.part.name())
    }
}

/// Every run that is kept, the latest first.
///
/// # Errors
/// If they cannot be read.
pub fn list_runs(kept: &KeptRuns) -> Result<Vec<RunRow>, CommandError> {
    let Some((state, runs)) = &kept.held else { return Ok(Vec::new()) };
    let mut known = read_index(state.folder(), &kept.index());
    let mut is_changed = false;
    let mut rows = BTreeMap::new();
    for name in names(runs)? {
        let folder = runs.path().join(&name);
        let stamps = stamps(&folder);
        let same = known.rows.remove(&name).filter(|row| row.stamps == stamps);
        is_changed |= same.is_none();
        let of_folder = || IndexedRun { row: row(&folder, &name), stamps };
        rows.insert(name.clone(), same.unwrap_or_else(of_folder));
    }
    is_changed |= !known.rows.is_empty();
    let index_of_today = RunIndex { schema: INDEX_SCHEMA, rows };
    if is_changed {
        // Without the index the next list takes longer: a full disk must not stop this one.
        let bytes = serde_json::to_vec(&index_of_today).unwrap_or_default();
        let _ = state.folder().replace(kept.index(), &bytes);
    }
    Ok(index_of_today.rows.into_values().rev().map(|indexed| indexed.row).collect())
}

/// The folder that a word means: a path that exists, `last`, `last~2`, a run's label (of several runs
/// the latest; `label~1` is the one before), a run's name or its start, or its end such as `check-4711`.
///
/// # Errors
/// If it means none, or several.
pub fn find_run(word: &Path) -> Result<PathBuf, CommandError> {
    let text = word.to_string_lossy();
    // Existing paths come first: a run's name must not change the meaning of a user's script.
    if word.exists() || text.contains('/') {
        return Ok(word.to_owned());
    }
    if state_path().is_none() {
        return Ok(word.to_owned());
    }
    let (runs, names) = kept_names(&KeptRuns::runs()?);
    let (label, back) = label_and_steps_back(&text);
    if label == "last" {
        if names.is_empty() {
            return Err(CommandError::cannot_measure("there are no runs yet")
                .hint("durio check DIR makes one"));
        }
        let found = names.iter().rev().nth(back);
        return found.map(|name| runs.join(name)).ok_or_else(|| {
            CommandError::cannot_measure(format!("no run '{text}': {} are kept", names.len()))
                .hint("durio runs lists them")
        });
    }
    let labelled = |name: &&String| label_of(&runs.join(name)).as_deref() == Some(label);
    let named: Vec<PathBuf> = names.iter().filter(labelled).map(|name| runs.join(name)).collect();
    if !named.is_empty() {
        return named.iter().rev().nth(back).cloned().ok_or_else(|| {
            let text = format!("no run '{text}': {} of that name", named.len());
            CommandError::cannot_measure(text).hint("durio runs lists them")
        });
    }
    let is_meant = |name: &&String| name.starts_with(&*text) || own_part(name) == text;
    let of_name = |folder: &Path, names: &[String]| -> Vec<PathBuf> {
        names.iter().filter(is_meant).map(|name| folder.join(name)).collect()
    };
    let mut found = of_name(&runs, &names);
    if found.is_empty() {
        let (probes, names) = kept_names(&KeptRuns::probes()?);
        found = of_name(&probes, &names);
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(CommandError::cannot_measure(format!("'{text}' is neither a path nor a run"))
            .hint("durio runs lists the runs; last is the latest one")),
        several => {
            let shown = several.iter().rev().take(5).filter_map(|path| path.file_name());
            let shown: Vec<String> = shown.map(|name| name.display().to_string()).collect();
            let count = several.len();
            Err(CommandError::wrong_use(format!(
                "'{text}' means {count} runs: {}",
                shown.join(", ")
            ))
            .hint("give more of the name"))
        }
    }
}

/// Checks a name for a run.
///
/// # Errors
/// A sentence, if it could be taken for something else.
pub fn checked_label(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    // A number begins the names of folders, and a dash an option.
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    match begins_well && text.len() <= 40 && text.chars().all(is_plain) && text != "last" {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "'{text}' is not a name for a run; expected a letter, then letters, digits, dots and dashes, \
             40 at most, and not 'last'"
        )),
    }
}

/// Removes the folder of a kept run that has ended.
///
/// # Errors
/// If it is not a run, is live, or cannot be removed.
pub fn remove_run(kept: &KeptRuns, name: &str) -> Result<(), CommandError> {
    let refused = |why: &str| CommandError::cannot_measure(format!("'{name}' stays: {why}"));
    let Some((_, runs)) = &kept.held else { return Err(refused("there is no such run")) };
    remove_run_folder(runs, name).map_err(|error| refused(&error.to_string()))
}

/// Removes a folder that has a name, an owner, a manifest and locks as only durio's have.
pub(crate) fn remove_run_folder(runs: &Folder, name: &str) -> io::Result<()> {
    // Check all of them: a link, or a folder that was put there, could be another user's data.
    let is_named = FolderName::parse(name).is_some();
    let folder = runs.own_folder(name)?.filter(|_| is_named);
    let folder = folder.ok_or_else(|| io::Error::other("it is not a run folder"))?;
    let manifests = MANIFESTS.map(|manifest| folder.open_own(manifest));
    if manifests.iter().all(Result::is_err) {
        let mut errors = manifests.into_iter().filter_map(Result::err);
        let why = errors.find(|error| error.kind() != io::ErrorKind::NotFound);
        let why = why.map_or_else(|| "it has none".to_owned(), |error| error.to_string());
        return Err(io::Error::other(format!("it has no manifest of a run: {why}")));
    }
    // Held until it is removed, so that no process resumes the run.
    let _held = hold_journals(&folder, JOURNAL_DEPTH)?;
    runs.remove_own_folder(name)
}

/// A bench has folders of stacks, which have those of runs.
const JOURNAL_DEPTH: u32 = 3;

fn hold_journals(folder: &Folder, depth: u32) -> io::Result<Vec<fs::File>> {
    let mut held: Vec<fs::File> = Journal::hold_ended(folder)?.into_iter().collect();
    for name in folder.names()?.into_iter().filter(|_| depth > 0) {
        if let Ok(Some(inside)) = folder.own_folder(&name) {
            held.extend(hold_journals(&inside, depth - 1)?);
        }
    }
    Ok(held)
}

/// The runs to remove, from a list with the latest first: older than `age` and not among the latest
/// `keep`. Runs with a label stay, and damaged ones, whose age is unknown.
pub fn to_prune(rows: &[RunRow], keep: usize, age: Duration, now: SystemTime) -> Vec<&RunRow> {
    // Times in one format sort as text; a wrong clock makes a run old or new, and the latest `keep`
    // stay whatever it said.
    let before = now.checked_sub(age).filter(|time| *time > SystemTime::UNIX_EPOCH);
    let before = before.map(FolderName::rfc3339).unwrap_or_default();
    let is_old =
        |row: &&RunRow| row.started < before && row.label.is_none() && row.damage.is_none();
    rows.iter().skip(keep).filter(is_old).collect()
}

/// The old index; empty if it is damaged, has another format, or belongs to another user.
fn read_index(folder: &Folder, file: &str) -> RunIndex {
    let bytes = folder.open_own(file).and_then(bytes_of);
    let index: Option<RunIndex> = bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    index.filter(|index| index.schema == INDEX_SCHEMA).unwrap_or_default()
}

/// Where kept runs are, and their names.
fn kept_names(kept: &KeptRuns) -> (PathBuf, Vec<String>) {
    let Some((_, runs)) = &kept.held else { return (PathBuf::new(), Vec::new()) };
    (runs.path().to_owned(), names(runs).unwrap_or_default())
}

/// The names of runs, benches, proofs and comparisons, the earliest first. Targets of links are not
/// kept here.
fn names(runs: &Folder) -> Result<Vec<String>, CommandError> {
    let names = runs.names().map_err(|error| {
        CommandError::cannot_measure(format!("cannot read '{}': {error}", runs.path().display()))
    })?;
    let is_run = |name: &String| {
        runs.folder(name).is_ok() && manifest_name(&runs.path().join(name)).is_some()
    };
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let mut names: Vec<String> = names.filter(is_run).collect();
    names.sort_unstable();
    Ok(names)
}

const MANIFESTS: [&str; 4] = [
    file_names::MANIFEST,
    <durio_record::bench::BenchManifest<DeclaredStack> as FolderManifest>::FILE,
    PROOF_MANIFEST,
    <durio_record::bench::LabCompareManifest as FolderManifest>::FILE,
];

fn manifest_name(folder: &Path) -> Option<&'static str> {
    MANIFESTS.into_iter().find(|name| folder.join(name).is_file())
}

/// `last` and 0 for `last`, `nightly` and 2 for `nightly~2`.
fn label_and_steps_back(text: &str) -> (&str, usize) {
    let parts = text.rsplit_once('~');
    parts.and_then(|(label, back)| Some((label, back.parse().ok()?))).unwrap_or((text, 0))
}

/// What follows the time in a folder's name: `check-4711`.
fn own_part(name: &str) -> &str {
    name.split_once("Z-").map_or("", |(_, own)| own)
}

fn stamps(folder: &Path) -> Vec<Option<SystemTime>> {
    let files = manifest_name(folder).into_iter().chain([file_names::FINDINGS]);
    files.map(|name| folder.join(name).metadata().ok()?.modified().ok()).collect()
}

/// What all manifests have.
#[derive(Deserialize)]
struct AnyManifest {
    started: String,
    command: Vec<String>,
    #[serde(default)]
    label: Option<String>,
}

/// durio never writes larger files.
const FILE_MAX: u64 = 256 << 20;

/// A regular file of the folder; nothing else is waited for.
fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<T, String> {
    let file = Folder::open(folder).and_then(|folder| folder.open_file(name));
    let bytes = file.and_then(bytes_of).map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

// From memory serde_json reads several times as fast as from a reader.
fn bytes_of(file: fs::File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn label_of(folder: &Path) -> Option<String> {
    read::<AnyManifest>(folder, manifest_name(folder)?).ok()?.label
}

/// The row of the run in `folder`.
pub fn read_run_row(folder: &Path) -> RunRow {
    row(folder, &folder.file_name().unwrap_or_default().to_string_lossy())
}

fn row(folder: &Path, name: &str) -> RunRow {
    let bytes = bytes_below(folder);
    let mut row = RunRow { run: name.to_owned(), bytes, ..RunRow::default() };
    let name = manifest_name(folder).unwrap_or(file_names::MANIFEST);
    match read::<AnyManifest>(folder, name) {
        Ok(manifest) => {
            if !FolderName::is_rfc3339(&manifest.started) {
                row.damage = Some(format!("{name}: 'started' is not a time"));
            }
            row.command = command_words(&manifest.command);
            (row.started, row.label) = (manifest.started, manifest.label);
        }
        Err(why) => row.damage = Some(format!("{name}: {why}")),
    }
    match name {
        file_names::MANIFEST => of_run(folder, &mut row),
        PROOF_MANIFEST => of_proof(folder, &mut row),
        _ => row.targets = bench_name(folder).into_iter().collect(),
    }
    row
}

fn of_proof(folder: &Path, row: &mut RunRow) {
    // Problems with its manifest have been reported.
    let Ok(proof) = ProofFolder::open(folder) else { return };
    row.targets = vec![proof.manifest.plan.name];
    row.state = Some(match proof.manifest.outcome {
        Some(Outcome::Complete) => RunState::Complete,
        Some(Outcome::Interrupted) => RunState::Interrupted,
        Some(Outcome::Failed) => RunState::Failed,
        None => RunState::Partial,
    });
    row.found = read::<BriefProof>(folder, file_names::FINDINGS).ok().map(BriefProof::found);
}

fn of_run(folder: &Path, row: &mut RunRow) {
    if let Ok(environment) = read::<BriefEnvironment>(folder, file_names::ENVIRONMENT) {
        row.host = environment.host.hostname.unwrap_or_default();
        row.targets = environment.stacks.into_iter().map(|stack| stack.target).collect();
    }
    match read::<BriefFindings>(folder, file_names::FINDINGS) {
        Ok(found) => {
            row.state = Some(found.state);
            row.headline = found.leading;
            row.figures = found.workloads.into_iter().filter_map(BriefWorkload::figures).collect();
        }
        // A run that was killed, or lives, has none yet.
        Err(_) => row.state = Some(RunState::Partial),
    }
}

fn bench_name(folder: &Path) -> Option<String> {
    if BenchFolder::<DeclaredStack>::is_at(folder) {
        return Some(BenchFolder::<DeclaredStack>::open(folder).ok()?.manifest.name);
    }
    Some(LabCompareFolder::open(folder).ok()?.manifest.kernels.join(", "))
}

/// `check` of `/usr/bin/durio check --quick`, `stack bench` of a bench.
fn command_words(command: &[String]) -> String {
    let is_word = |word: &&String| word.chars().all(|c| c.is_ascii_lowercase());
    let words: Vec<&str> =
        command.iter().skip(1).take(2).take_while(is_word).map(String::as_str).collect();
    match words.as_slice() {
        ["stack" | "lab" | "prove", ..] => words.join(" "),
        [first, ..] => (*first).to_owned(),
        [] => String::new(),
    }
}

/// The part of the findings that a list shows; all else is passed over, not kept.
#[derive(Deserialize)]
struct BriefFindings {
    state: RunState,
    leading: Option<Headline>,
    workloads: Vec<BriefWorkload>,
}

#[derive(Deserialize)]
struct BriefWorkload {
    name: String,
    location: String,
    headline: OperationName,
    iops: f64,
    operations: Vec<BriefOperation>,
}

#[derive(Deserialize)]
struct BriefOperation {
    operation: OperationName,
    rate_per_second: f64,
    service: Percentiles,
}

impl BriefWorkload {
    fn figures(self) -> Option<RunFigures> {
        let of = |name: OperationName| {
            self.operations.iter().find(|operation| operation.operation == name)
        };
        let rate_per_second =
            of(OperationName::Commit).map_or(self.iops, |commits| commits.rate_per_second);
        let latency = of(self.headline)?.service;
        Some(RunFigures { workload: self.name, location: self.location, rate_per_second, latency })
    }
}

/// The part of a proof's findings that a list shows.
#[derive(Deserialize)]
struct BriefProof {
    series: Vec<BriefSeries>,
}

#[derive(Deserialize)]
struct BriefSeries {
    verdict: BriefVerdict,
    as_expected: Option<bool>,
}

#[derive(Deserialize)]
struct BriefVerdict {
    verdict: String,
    #[serde(default)]
    class: Option<String>,
}

impl BriefProof {
    fn found(self) -> String {
        let total = self.series.len();
        let holds = |series: &&BriefSeries| series.verdict.verdict == "no_loss";
        match self.series.as_slice() {
            [BriefSeries { verdict, as_expected: None }] => match &verdict.class {
                Some(class) => class.clone(),
                None => verdict.verdict.replace('_', " "),
            },
            all if all.iter().any(|series| series.as_expected.is_none()) => {
                let held = all.iter().filter(holds).count();
                format!("{held} of {total} without a loss")
            }
            all => {
                let good = all.iter().filter(|series| series.as_expected == Some(true)).count();
                format!("{good} of {total} as expected")
            }
        }
    }
}

#[derive(Deserialize)]
struct BriefEnvironment {
    host: BriefHost,
    stacks: Vec<BriefStack>,
}

#[derive(Deserialize)]
struct BriefHost {
    hostname: Option<String>,
}

#[derive(Deserialize)]
struct BriefStack {
    target: String,
}

fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => bytes_below(&entry.path()),
        Ok(facts) => facts.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str, started: &str, label: Option<&str>) -> RunRow {
        let label = label.map(str::to_owned);
        RunRow { run: name.to_owned(), started: started.to_owned(), label, ..RunRow::default() }
    }

    #[test]
    fn old_runs_go_but_the_latest_and_those_with_a_name_stay() {
        let rows = [
            made("d", "2026-11-22T00:00:00.000Z", None),
            made("c", "2026-01-03T00:00:00.000Z", None),
            made("b", "2026-01-02T00:00:00.000Z", Some("before")),
            made("a", "2026-01-01T00:00:00.000Z", None),
        ];
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_392_000); // 2026-11-23
        let day = Duration::from_secs(86_400);
        let names = |keep, days| -> Vec<&str> {
            to_prune(&rows, keep, day * days, now).iter().map(|row| row.run.as_str()).collect()
        };
        assert_eq!(names(0, 90), ["c", "a"]);
        assert_eq!(names(2, 90), ["a"]);
        assert_eq!(names(0, 0), ["d", "c", "a"]);
        assert!(names(4, 0).is_empty() && names(0, 100_000).is_empty());
    }

    #[test]
    fn names_that_mean_something_else_are_no_names() {
        for name in ["before", "nvme-1.2", "A"] {
            assert_eq!(checked_label(name).as_deref(), Ok(name));
        }
        for name in ["", "last", "2026", "-x", "a/b", "a b", "x\u{1b}", &"x".repeat(41)] {
            assert!(checked_label(name).is_err(), "{name}");
        }
    }

    #[test]
    fn commands_are_their_first_words() {
        let words =
            |line: &str| command_words(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(words("/bin/durio check --quick /data"), "check");
        assert_eq!(words("durio stack bench raid-modes"), "stack bench");
        assert_eq!(words("durio"), "");
    }

    #[test]
    fn a_proof_is_told_by_what_was_expected_else_by_what_was_lost() {
        let found = |series: &str| {
            let text = format!("{{\"series\": [{series}]}}");
            serde_json::from_str::<BriefProof>(&text).unwrap().found()
        };
        let holds = r#"{"verdict": {"verdict": "no_loss"}, "as_expected": null}"#;
        let lost = r#"{"verdict": {"verdict": "breaks", "class": "lost"}, "as_expected": null}"#;
        assert_eq!((found(holds), found(lost)), ("no loss".to_owned(), "lost".to_owned()));
        assert_eq!(found(&[holds, lost].join(",")), "1 of 2 without a loss");
        let expected = [holds, lost].map(|text| text.replace("null", "true")).join(",");
        assert_eq!(found(&expected), "2 of 2 as expected");
    }

    #[test]
    fn a_list_has_the_latency_of_the_leading_operation_and_the_rate_of_the_commits() {
        let of = |name: &str, rate: f64, p50: u64| {
            let service =
                format!(r#"{{"p50_ns": {p50}, "p99_ns": {}, "p99_9_ns": null}}"#, 3 * p50);
            format!(r#"{{"operation": "{name}", "rate_per_second": {rate}, "service": {service}}}"#)
        };
        let (commit, write) = (of("commit", 200.25, 70_000), of("write", 300.5, 21_000));
        let found = |leading: &str, operations: &[&str]| {
            let facts = format!(r#""name": "a", "location": "/b", "headline": "{leading}""#);
            let operations = operations.join(",");
            let text = format!(r#"{{{facts}, "iops": 900.5, "operations": [{operations}]}}"#);
            let found = serde_json::from_str::<BriefWorkload>(&text).unwrap().figures()?;
            Some((found.rate_per_second.to_string(), found.latency.p50_ns?, found.latency.p99_ns?))
        };
        let told = |rate: &str, p50: u64, p99: u64| Some((rate.to_owned(), p50, p99));
        assert_eq!(found("write", &[&commit, &write]), told("200.25", 21_000, 63_000));
        assert_eq!(found("commit", &[&write, &commit]), told("200.25", 70_000, 210_000));
        assert_eq!(found("write", &[&write]), told("900.5", 21_000, 63_000));
        assert_eq!(found("read", &[&write]), None);
    }

    #[test]
    fn the_latest_is_counted_backwards() {
        let found = ["last", "last~2", "nightly~1", "last~x"].map(label_and_steps_back);
        assert_eq!(found, [("last", 0), ("last", 2), ("nightly", 1), ("last~x", 0)]);
    }
}
