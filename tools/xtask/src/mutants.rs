//! `cargo xtask mutants`: do the tests see faults in the code whose faults would be wrong results or
//! lost data?
//!
//! Takes the crates of [`SCOPE`], a sample size and a seed. Prints a table of mutants found and
//! missed per crate, and each missed one; exit code 1 if a crate is below the goal. cargo-mutants
//! (installed below the target folder) and [`constants`] make and run mutants; [`equivalent`] lists
//! those that no test can see.

mod constants;
mod equivalent;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::{bench, cargo};
use equivalent::Equivalents;

/// The version used for the list of equivalent mutants: another one may name mutants differently.
const VERSION: &str = "27.1.0";

/// The crates whose faults would be wrong results or lost data, with the relevant files if not all
/// are.
const SCOPE: [(&str, &[&str]); 8] = [
    ("durio-base", &[]),
    ("durio-judge", &[]),
    ("durio-workload", &[]),
    ("durio-plan", &["threshold"]),
    (
        "durio-spec",
        &[
            "profile/contradictions",
            "profile/facts",
            "profile/streams",
            "profile/threshold",
            "profile/values",
        ],
    ),
    ("durio-record", &[]),
    ("durio-prove", &["classify", "evidence", "history", "ledger", "ledger_file", "verify"]),
    ("durio-raid", &["assembly", "superblock"]),
];

/// Share of viable mutants that must be found, in percent.
const GOAL_PERCENT: f64 = 90.0;

/// Seconds after which a test run counts as stuck, even under load.
const TIMEOUT_SECONDS: &str = "300";

/// Which mutants are tried.
#[derive(Debug, clap::Args)]
pub(crate) struct MutantsArguments {
    /// Only these crates
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
    /// Try N mutants of each crate, drawn at random; without it all of them, which takes hours
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Seed of the draw
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Double a number in each constant in place of cargo-mutants' changes; of any crate
    #[arg(long, requires = "crates")]
    constants: bool,
    /// Replace the table in docs/benchmarks.md
    #[arg(long)]
    write: bool,
}

/// A possible fault.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mutant {
    /// File, line, column and change, as cargo-mutants prints it.
    name: String,
    file: String,
    line: usize,
}

impl Mutant {
    /// The change alone: lines move.
    fn change(&self) -> &str {
        self.name.splitn(4, ':').nth(3).unwrap_or(&self.name).trim()
    }
}

/// The outcomes of a crate's mutants.
#[derive(Debug, Default)]
struct MutantsOutcome {
    all: usize,
    found: usize,
    timed_out: usize,
    unviable: usize,
    equivalent: usize,
    missed: Vec<String>,
}

impl MutantsOutcome {
    fn viable(&self) -> usize {
        self.found + self.timed_out + self.missed.len()
    }

    /// Percent of the viable mutants that a test or a time-out found.
    #[expect(clippy::cast_precision_loss, reason = "far fewer mutants than 2^52")]
    fn found_percent(&self) -> f64 {
        let found = self.found + self.timed_out;
        if self.viable() == 0 { 100.0 } else { found as f64 * 100.0 / self.viable() as f64 }
    }
}

/// Tries the mutants, crate by crate.
pub(crate) fn run(arguments: &MutantsArguments) -> Result<ExitCode> {
    if arguments.write {
        return bench::write_down("mutants");
    }
    if arguments.constants {
        return run_constants(arguments);
    }
    let known: Vec<_> = SCOPE.iter().map(|(name, _)| *name).collect();
    if let Some(name) = arguments.crates.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("no crate '{name}' among {}", known.join(", "));
    }
    let program = provide()?;
    let equivalents = Equivalents::read(&cargo::workspace_root())?;
    print_head("Planted mutants", arguments);
    let is_wanted = |name: &str| {
        arguments.crates.is_empty() || arguments.crates.iter().any(|chosen| chosen == name)
    };
    let mut outcomes = Vec::new();
    for (name, files) in SCOPE.iter().filter(|(name, _)| is_wanted(name)) {
        let mutants = list(&program, name, files)?;
        equivalents.check(files.is_empty(), &cargo::crate_folder(name)?, &mutants)?;
        let (equivalent, mutants): (Vec<_>, Vec<_>) =
            mutants.into_iter().partition(|mutant| equivalents.has(mutant));
        let chosen = sample(&mutants, arguments.sample, arguments.seed);
        let is_all = chosen.len() == mutants.len() && equivalent.is_empty();
        let mut outcome = try_out(&program, name, files, (!is_all).then_some(&chosen[..]))?;
        outcome.all = mutants.len() + equivalent.len();
        outcome.equivalent = equivalent.len();
        outcomes.push((*name, outcome));
    }
    Ok(conclude(&outcomes))
}

/// The same with constants.
fn run_constants(arguments: &MutantsArguments) -> Result<ExitCode> {
    print_head("Doubled constants", arguments);
    let mut outcomes = Vec::new();
    for name in &arguments.crates {
        let all = constants::list(name)?;
        let chosen = sample(&all, arguments.sample, arguments.seed);
        let outcome = constants::try_out(name, &chosen)?;
        outcomes.push((name.as_str(), MutantsOutcome { all: all.len(), ..outcome }));
    }
    Ok(conclude(&outcomes))
}

fn print_head(title: &str, arguments: &MutantsArguments) {
    bench::print_machine(title);
    match arguments.sample {
        Some(count) => println!("- mutants: up to {count} per crate, seed {}\n", arguments.seed),
        None => println!("- mutants: all\n"),
    }
}

fn conclude(outcomes: &[(&str, MutantsOutcome)]) -> ExitCode {
    print(outcomes);
    let is_good = outcomes.iter().all(|(_, outcome)| outcome.found_percent() >= GOAL_PERCENT);
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The program, built below the target folder if it is not there.
fn provide() -> Result<PathBuf> {
    let root = cargo::metadata()?.target_directory.into_std_path_buf().join("tools");
    let program = root.join("bin/cargo-mutants");
    let is_right = || {
        let output = Command::new(&program).args(["mutants", "--version"]).output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION))
    };
    if !is_right() {
        let words = ["install", "cargo-mutants", "--locked", "--version", VERSION, "--root"];
        let status = cargo::command(&words).arg(&root).status()?;
        ensure!(status.success(), "cargo-mutants {VERSION} cannot be installed");
        ensure!(is_right(), "'{}' is not cargo-mutants {VERSION}", program.display());
    }
    Ok(program)
}

/// cargo-mutants on these files of a crate.
fn command(program: &Path, name: &str, files: &[&str]) -> Result<Command> {
    let mut command = Command::new(program);
    command.current_dir(cargo::workspace_root()).stdin(Stdio::null());
    command.args(["mutants", "--no-config", "--package", name]);
    let folder = cargo::crate_folder(name)?;
    for file in files {
        command.arg("--file").arg(format!("{folder}/src/{file}.rs"));
    }
    Ok(command)
}

/// All mutants of these files.
fn list(program: &Path, name: &str, files: &[&str]) -> Result<Vec<Mutant>> {
    let output = command(program, name, files)?
        .args(["--list", "--json"])
        .stderr(Stdio::inherit())
        .output()
        .context("cargo-mutants does not start")?;
    ensure!(output.status.success(), "cargo-mutants cannot list the mutants of {name}");
    let listed: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    let mutants: Option<Vec<_>> = listed.iter().map(mutant).collect();
    let mutants = mutants.context("cargo-mutants lists its mutants in another form")?;
    ensure!(!mutants.is_empty(), "{name} has no mutants: did a file move?");
    Ok(mutants)
}

fn mutant(listed: &Value) -> Option<Mutant> {
    Some(Mutant {
        name: listed["name"].as_str()?.to_owned(),
        file: listed["file"].as_str()?.to_owned(),
        line: usize::try_from(listed["span"]["start"]["line"].as_u64()?).ok()?,
    })
}

/// `count` mutants, drawn without replacement, in their order.
fn sample<T: Clone>(mutants: &[T], count: Option<usize>, seed: u64) -> Vec<T> {
    let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut keyed: Vec<_> =
        mutants.iter().enumerate().map(|(i, _)| (draws.next_u64(), i)).collect();
    keyed.sort_unstable();
    let mut places: Vec<_> =
        keyed.iter().take(count.unwrap_or(mutants.len())).map(|(_, i)| *i).collect();
    places.sort_unstable();
    places.into_iter().map(|place| mutants[place].clone()).collect()
}

/// Builds and tests each chosen mutant, or all.
fn try_out(
    program: &Path,
    name: &str,
    files: &[&str],
    chosen: Option<&[Mutant]>,
) -> Result<MutantsOutcome> {
    let folder = cargo::metadata()?.target_directory.into_std_path_buf().join("mutants").join(name);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut command = command(program, name, files)?;
    command.args(["--timeout", TIMEOUT_SECONDS, "--output"]).arg(&folder);
    if let Some(chosen) = chosen {
        // Fields that are left out of a struct expression pass every `--re` (cargo-mutants 27.1.0): of
        // them a difference leaves those of the chosen lines, which are not counted.
        let path = folder.join("chosen.diff");
        let difference = difference(&cargo::workspace_root(), chosen)?;
        fs::write(&path, difference).with_context(|| path.display().to_string())?;
        command.arg("--in-diff").arg(path);
        for mutant in chosen {
            command.arg("--re").arg(format!("^{}$", escaped(&mutant.name)));
        }
    }
    eprintln!(
        "{name}: {} mutants",
        chosen.map_or("all".to_owned(), |chosen| chosen.len().to_string())
    );
    // Its progress is for the waiting user, not part of the table.
    let status = command.stdout(Stdio::null()).status().context("cargo-mutants does not start")?;
    let path = folder.join("mutants.out/outcomes.json");
    let text = fs::read_to_string(&path)
        .with_context(|| format!("{name}: cargo-mutants ended with {status} and no outcomes"))?;
    let is_wanted =
        |name: &str| chosen.is_none_or(|all| all.iter().any(|chosen| chosen.name == name));
    let outcome = outcome(&serde_json::from_str(&text)?, is_wanted).with_context(|| {
        format!("{name}: its tests fail or do not compile without a mutant, see {}", path.display())
    })?;
    let tried = outcome.viable() + outcome.unviable;
    let wanted = chosen.map_or(tried, <[Mutant]>::len);
    ensure!(tried == wanted, "{name}: cargo-mutants tried {tried} mutants of {wanted}");
    Ok(outcome)
}

/// A difference that adds the lines on which these mutants begin, and nothing else.
fn difference(root: &Path, mutants: &[Mutant]) -> Result<String> {
    let mut lines: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for mutant in mutants {
        lines.entry(&mutant.file).or_default().insert(mutant.line);
    }
    let mut text = String::new();
    for (file, lines) in lines {
        let source = fs::read_to_string(root.join(file)).with_context(|| file.to_owned())?;
        text.push_str(&format!("--- a/{file}\n+++ b/{file}\n"));
        for (before, line) in lines.into_iter().enumerate() {
            let added = source.lines().nth(line.saturating_sub(1)).unwrap_or_default();
            let old = line.saturating_sub(1 + before);
            text.push_str(&format!("@@ -{old},0 +{line},1 @@\n+{added}\n"));
        }
    }
    Ok(text)
}

/// The counts from cargo-mutants's record, of the wanted mutants; `None` if the tests fail without
/// a mutant.
fn outcome(record: &Value, is_wanted: impl Fn(&str) -> bool) -> Option<MutantsOutcome> {
    let mut outcome = MutantsOutcome::default();
    for each in record["outcomes"].as_array()? {
        let name = each["scenario"]["Mutant"]["name"].as_str();
        if name.is_some_and(|name| !is_wanted(name)) {
            continue;
        }
        match (each["summary"].as_str()?, name) {
            ("Success", None) => {}
            ("CaughtMutant", Some(_)) => outcome.found += 1,
            ("Timeout", Some(_)) => outcome.timed_out += 1,
            ("Unviable", Some(_)) => outcome.unviable += 1,
            ("MissedMutant", Some(name)) => outcome.missed.push(name.to_owned()),
            _ => return None,
        }
    }
    Some(outcome)
}

/// A regular expression that matches only this text. Only special characters are escaped: `\<`
/// would be the start of a word.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

fn print(outcomes: &[(&str, MutantsOutcome)]) {
    let header =
        ["crate", "mutants", "equivalent", "tried", "viable", "found", "missed", "found, %"];
    let rows = outcomes.iter().map(|(name, outcome)| {
        [
            (*name).to_owned(),
            outcome.all.to_string(),
            outcome.equivalent.to_string(),
            (outcome.viable() + outcome.unviable).to_string(),
            outcome.viable().to_string(),
            (outcome.found + outcome.timed_out).to_string(),
            outcome.missed.len().to_string(),
            format!("{:.0}", outcome.found_percent()),
        ]
    });
    bench::print_table(&header, rows);
    let missed: BTreeMap<_, _> =
        outcomes.iter().map(|(name, outcome)| (*name, &outcome.missed)).collect();
    if missed.values().any(|missed| !missed.is_empty()) {
        println!("\nMissed:\n");
        missed.values().flat_map(|missed| missed.iter()).for_each(|name| println!("- `{name}`"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(line: usize) -> Mutant {
        let name = format!("crates/a/src/b.rs:{line}:7: replace < with <= in f::{line}");
        Mutant { name, file: "crates/a/src/b.rs".to_owned(), line }
    }

    #[test]
    fn a_seed_draws_the_same_mutants_again_and_each_at_most_once() {
        let mutants: Vec<_> = (1..=100).map(named).collect();
        let drawn = sample(&mutants, Some(10), 7);
        assert_eq!(drawn, sample(&mutants, Some(10), 7));
        assert_ne!(drawn, sample(&mutants, Some(10), 8));
        let lines: Vec<_> = drawn.iter().map(|mutant| mutant.line).collect();
        assert!(lines.is_sorted_by(|a, b| a < b) && lines.len() == 10, "{lines:?}");
        assert_eq!(sample(&mutants, None, 7), mutants);
        assert_eq!(sample(&mutants, Some(101), 7), mutants);
    }

    #[test]
    fn a_change_is_named_without_its_place() {
        assert_eq!(named(31).change(), "replace < with <= in f::31");
    }

    #[test]
    fn a_name_is_no_pattern() {
        assert_eq!(
            escaped("a.rs:1: replace < with || in (b)"),
            r"a\.rs:1: replace < with \|\| in \(b\)"
        );
    }

    #[test]
    fn mutants_are_counted_by_what_became_of_them() {
        let of = |summary: &str, name: &str| json!({"summary": summary, "scenario": {"Mutant": {"name": name}}});
        let baseline = json!({"summary": "Success", "scenario": "Baseline"});
        let outcomes = [
            baseline,
            of("CaughtMutant", "a"),
            of("CaughtMutant", "b"),
            of("CaughtMutant", "c"),
            of("MissedMutant", "d"),
            of("MissedMutant", "e"),
            of("Timeout", "f"),
            of("Unviable", "g"),
        ];
        let record = json!({ "outcomes": outcomes });
        let counted = outcome(&record, |_| true).unwrap();
        assert_eq!((counted.found, counted.timed_out, counted.unviable), (3, 1, 1));
        assert_eq!((counted.viable(), counted.missed.join(" ")), (6, "d e".to_owned()));
        assert!((counted.found_percent() - 400.0 / 6.0).abs() < 1e-9);
        assert!((MutantsOutcome::default().found_percent() - 100.0).abs() < 1e-9);
        // One that was tried and not drawn.
        let counted = outcome(&record, |name| name != "b" && name != "e").unwrap();
        assert_eq!((counted.found, counted.missed.join(" ")), (2, "d".to_owned()));
    }

    #[test]
    fn a_difference_adds_each_line_of_a_chosen_mutant_once() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("crates/a/src")).unwrap();
        fs::write(root.path().join("crates/a/src/b.rs"), "one\ntwo\nthree\nfour\n").unwrap();
        let made = difference(root.path(), &[named(4), named(2), named(4)]).unwrap();
        let expected = "--- a/crates/a/src/b.rs\n+++ b/crates/a/src/b.rs\n\
            @@ -1,0 +2,1 @@\n+two\n@@ -2,0 +4,1 @@\n+four\n";
        assert_eq!(made, expected);
        assert!(difference(root.path(), &[]).unwrap().is_empty());
        difference(&root.path().join("elsewhere"), &[named(1)]).unwrap_err();
    }

    #[test]
    fn tests_that_fail_without_a_mutant_are_no_result() {
        let failed = json!({"outcomes": [{"summary": "Failure", "scenario": "Baseline"}]});
        assert!(outcome(&failed, |_| true).is_none());
        assert!(outcome(&json!({}), |_| true).is_none());
    }
}
