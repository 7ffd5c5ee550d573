//! `bench why`: causes of slow commits that are really made, and what `durio why` calls them.
//!
//! Next to a writer (fio, which commits a log) a cause is planted; `durio why` watches the writer and
//! explains its slowest calls. Right is a call whose cause is one of those that the plant can have;
//! a wrong one counts apart if durio doubted it. Needs root, tracefs, fio, and loop devices.

mod plants;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use self::plants::{PLANTS, Place, PlantedCause};
use super::figures::{self, BenchGoal};
use super::machine;
use super::session::{self, Interrupt};
use crate::cargo;
use crate::databases::ServerGroup;

#[derive(Debug, clap::Args)]
pub(crate) struct WhyArguments {
    /// Only causes with this in their name (can be repeated)
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,

    /// Seconds that each cause is watched
    #[arg(long, value_name = "N", default_value_t = 15,
          value_parser = clap::value_parser!(u32).range(3..=600))]
    seconds: u32,

    /// This durio [default: it is built]
    #[arg(long, value_name = "PATH")]
    durio: Option<PathBuf>,
}

/// Calls that are explained of each cause.
const WORST: usize = 20;
/// From here on a part of the time is unexplained.
const UNEXPLAINED_MAX: f64 = 0.05;
/// The writer has laid its file out and commits.
const SETTLED: Duration = Duration::from_secs(2);
const SHELL_MAX: Duration = Duration::from_secs(60);
/// The processor of the writer.
const PROCESSOR: &str = "1";

/// What `durio why` said of a planted cause.
#[derive(Debug, Default)]
struct NamedCauses {
    calls: usize,
    right: usize,
    wrong_and_doubted: usize,
    adding_up: usize,
    /// Every cause that was named, with its number of calls.
    named: Vec<(String, usize)>,
}

/// Plants each cause, and counts the right answers.
pub(super) fn run(arguments: &WhyArguments, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let durio = match &arguments.durio {
        Some(path) => path.clone(),
        None => built()?,
    };
    machine::print_machine("Planted causes of slow commits, and the causes that durio named");
    println!(
        "- the {WORST} slowest calls of {} s each; processor {PROCESSOR}\n",
        arguments.seconds
    );
    let target = cargo::metadata()?.target_directory.into_std_path_buf();
    let (mut rows, mut sum) = (Vec::new(), NamedCauses::default());
    for plant in PLANTS.iter().filter(|plant| arguments.names(plant)) {
        interrupt.check()?;
        eprintln!("{}", plant.name);
        let found = match planted(plant, arguments.seconds, &durio, &target) {
            Ok(found) => found,
            Err(error) => {
                eprintln!("  not made: {error:#}");
                let why = format!("not made: {error:#}");
                let [name, place] = [plant.name.to_owned(), plant.place.name()];
                rows.push([name, place, String::new(), String::new(), String::new(), why]);
                continue;
            }
        };
        rows.push(found.row(plant));
        sum.add(&found);
    }
    let header = ["planted", "on", "calls", "right", "wrong, doubted", "named"];
    figures::print_table(&header, rows);
    let share = |part: usize| 100.0 * part as f64 / sum.calls as f64;
    let goals = vec![
        BenchGoal::at_least("calls whose cause is right, %", share(sum.right), 95.0),
        BenchGoal::at_least(
            "calls whose timeline adds up within 5 %, %",
            share(sum.adding_up),
            95.0,
        ),
    ];
    figures::print_goals(&goals);
    Ok(goals)
}

impl WhyArguments {
    fn names(&self, plant: &PlantedCause) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| plant.name.contains(text.as_str()))
    }
}

fn built() -> Result<PathBuf> {
    let status = cargo::command(&["build", "--release", "-p", "durio"]).status();
    ensure!(status.context("cannot run cargo")?.success(), "durio cannot be built");
    Ok(cargo::metadata()?.target_directory.into_std_path_buf().join("release/durio"))
}

/// A cause in its folders, gone with all that it made.
struct Planting<'p> {
    plant: &'p PlantedCause,
    scratch: TempDir,
    folder: PathBuf,
    disk: String,
    writer: Option<ServerGroup>,
    text: Option<ServerGroup>,
    is_made: bool,
}

fn planted(plant: &PlantedCause, seconds: u32, durio: &Path, target: &Path) -> Result<NamedCauses> {
    let mut planting = Planting::new(plant, target)?;
    planting.make()?;
    planting.write()?;
    sleep(SETTLED);
    planting.disturb()?;
    sleep(SETTLED);
    let writer = planting.writer.as_ref().context("no writer")?.id();
    let limit = format!("{}ms", plant.slower_ms);
    let output = Command::new(durio)
        .args(["why", "--pid", &writer.to_string(), "--slower-than", &limit])
        .args(["--for", &format!("{seconds}s"), "--format", "json"])
        .output()
        .context("durio cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let document: Value = serde_json::from_str(&text)
        .with_context(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())?;
    NamedCauses::read(&document, plant)
}

impl<'p> Planting<'p> {
    fn new(plant: &'p PlantedCause, target: &Path) -> Result<Self> {
        let scratch = session::folder(target)?;
        let folder = match plant.place {
            Place::Disk => session::subfolder(scratch.path(), "disk")?,
            Place::Ext4 { .. } | Place::Xfs => session::subfolder(scratch.path(), "mounted")?,
        };
        let disk = disk_below(scratch.path())?;
        Ok(Self { plant, scratch, folder, disk, writer: None, text: None, is_made: false })
    }

    fn make(&mut self) -> Result<()> {
        let Some(text) = self.plant.place.made() else { return Ok(()) };
        self.is_made = true;
        self.shell(&text)
    }

    fn write(&mut self) -> Result<()> {
        let options = self.plant.writer;
        let text = format!(
            "exec taskset --cpu-list {PROCESSOR} fio --name=log --directory=$DIR {options} --thread \
             --time_based --runtime=1000 --output=/dev/null"
        );
        self.writer = Some(ServerGroup::spawn(self.command(&text))?);
        Ok(())
    }

    fn disturb(&mut self) -> Result<()> {
        self.text = Some(ServerGroup::spawn(self.command(self.plant.text))?);
        Ok(())
    }

    fn command(&self, text: &str) -> Command {
        let mut command = Command::new("/bin/bash");
        command.arg("-c").arg(text);
        command.env("DIR", &self.folder).env("SCRATCH", self.scratch.path());
        command.env("DISK", &self.disk).env("CPU", PROCESSOR);
        if let Some(writer) = &self.writer {
            command.env("WRITER", writer.id().to_string());
        }
        command
    }

    fn shell(&self, text: &str) -> Result<()> {
        let output = self.command(text).output().context("no shell")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }
}

impl Drop for Planting<'_> {
    fn drop(&mut self) {
        // The text first: it may have stopped the writer.
        drop(self.text.take());
        let undone = self.shell(self.plant.undo);
        drop(self.writer.take());
        let unmade = if self.is_made { self.unmake() } else { Ok(()) };
        for error in [undone, unmade].into_iter().filter_map(Result::err) {
            eprintln!("  left behind: {error:#}");
        }
    }
}

impl Planting<'_> {
    fn unmake(&self) -> Result<()> {
        let began = Instant::now();
        // Processes that were ended may hold the mount for a moment.
        loop {
            match self.shell(Place::UNMADE) {
                Err(_) if began.elapsed() < SHELL_MAX => sleep(Duration::from_millis(200)),
                result => return result,
            }
        }
    }
}

/// The disk that holds a folder, of a partition the whole one.
fn disk_below(folder: &Path) -> Result<String> {
    let output = Command::new("findmnt").args(["-no", "SOURCE", "-T"]).arg(folder).output()?;
    let source = String::from_utf8(output.stdout)?;
    let source = source.lines().next().context("no filesystem")?.trim();
    let name = Path::new(source).file_name().context("no device")?;
    let path = fs::canonicalize(Path::new("/sys/class/block").join(name))
        .with_context(|| format!("{source} is not a block device"))?;
    let whole = if path.join("partition").exists() { path.parent() } else { Some(path.as_path()) };
    let name = whole.and_then(Path::file_name).context("no disk")?;
    Ok(name.to_string_lossy().into_owned())
}

impl NamedCauses {
    fn read(document: &Value, plant: &PlantedCause) -> Result<Self> {
        let Some(calls) = document["calls"].as_array() else { bail!("no calls in the document") };
        let mut found = Self::default();
        for call in calls.iter().take(WORST) {
            let cause = call["cause"].as_str().context("a call has no cause")?;
            let is_right = plant.right.contains(&cause);
            let is_doubted = call["doubts"].as_array().is_some_and(|doubts| !doubts.is_empty());
            let unexplained = call["unexplained_share"].as_f64().context("no share")?;
            found.calls += 1;
            found.right += usize::from(is_right);
            found.wrong_and_doubted += usize::from(!is_right && is_doubted);
            found.adding_up += usize::from(unexplained <= UNEXPLAINED_MAX);
            match found.named.iter_mut().find(|(name, _)| name == cause) {
                Some((_, count)) => *count += 1,
                None => found.named.push((cause.to_owned(), 1)),
            }
        }
        Ok(found)
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.right += other.right;
        self.adding_up += other.adding_up;
    }

    fn row(&self, plant: &PlantedCause) -> [String; 6] {
        let named = self.named.iter().map(|(name, count)| format!("{count} {name}"));
        [
            plant.name.to_owned(),
            plant.place.name(),
            self.calls.to_string(),
            self.right.to_string(),
            self.wrong_and_doubted.to_string(),
            named.collect::<Vec<_>>().join(", "),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(cause: &str, doubts: &[&str], unexplained: f64) -> Value {
        serde_json::json!({ "cause": cause, "doubts": doubts, "unexplained_share": unexplained })
    }

    #[test]
    fn right_wrong_and_doubted_calls_are_counted_apart() {
        let plant = PLANTS.iter().find(|plant| plant.right == ["frozen"]).unwrap();
        let calls = [
            call("frozen", &[], 0.0),
            call("frozen", &["events were lost"], 0.05),
            call("device-alone", &["less than half of the time"], 0.051),
            call("device-alone", &[], 0.0),
        ];
        let found = NamedCauses::read(&serde_json::json!({ "calls": calls }), plant).unwrap();
        assert_eq!((found.calls, found.right, found.wrong_and_doubted), (4, 2, 1));
        assert_eq!(found.adding_up, 3);
        assert_eq!(found.row(plant)[5], "2 frozen, 2 device-alone");
        assert!(NamedCauses::read(&serde_json::json!({}), plant).is_err());
    }

    #[test]
    fn every_right_cause_is_one_that_durio_explains() {
        let known: Vec<&str> =
            durio_analyse::why::causes().iter().map(|cause| cause.id.as_str()).collect();
        for cause in PLANTS.iter().flat_map(|plant| plant.right) {
            assert!(known.contains(cause), "{cause}");
        }
        assert!(PLANTS.iter().all(|plant| plant.undo.is_empty() || !plant.text.is_empty()));
    }
}
