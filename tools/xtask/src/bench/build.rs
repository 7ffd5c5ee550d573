//! `bench build`: the cost of building durio.
//!
//! Builds a fresh clone of the commit in a separate target folder, with downloaded crates. Prints
//! processor time and elapsed time of the first release build, where it goes, the size of the
//! packaged binary, and the time from a changed line in a warning to the end of its crate's tests.
//! `cargo xtask test` prints the time of all tests.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::figures::{self, BenchGoal};
use super::machine;
use super::session::{self, Interrupt};
use crate::cargo;

const CPU_SECONDS_MAX: f64 = 240.0;
const ELAPSED_SECONDS_MAX: f64 = 150.0;
const PACKAGED_MEBIBYTES_MAX: f64 = 8.0;
const REBUILD_SECONDS_MAX: f64 = 15.0;

/// Units of the build to show.
const UNITS_SHOWN: usize = 15;
/// Smaller sections of the binary are shown together.
const SECTION_BYTES_MIN: u64 = 64 * 1024;
/// A rule as short as any.
const WARNING: &str = "crates/measure/judge/src/warning/figures.rs";

/// The cost of a command.
struct CommandTimes {
    cpu_seconds: f64,
    elapsed_seconds: f64,
}

pub(super) fn run(interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let target = cargo::metadata()?.target_directory.into_std_path_buf();
    let scratch = session::folder(&target)?;
    let tree = scratch.path().join("durio");
    let root = cargo::workspace_root();
    // A clone has the commit and no build results.
    let clone = ["git", "clone", "--quiet", "--local"];
    timed(Command::new(clone[0]).args(&clone[1..]).arg(&root).arg(&tree))?;
    machine::print_machine("A fresh build, and a build again");
    let build = |words: &[&str]| {
        interrupt.check()?;
        timed(cargo_in(&tree).args(words))
    };
    let fresh = build(&["build", "--release", "-p", "durio", "--timings"])?;
    print_units(&tree)?;
    // Packages contain this profile's binary, linked with fat LTO: users copy this size.
    let packaged = build(&["build", "--profile", "dist", "-p", "durio"])?;
    let binary = tree.join("target/dist/durio");
    let size = fs::metadata(&binary).context("no packaged binary")?.len();
    print_sections(&binary)?;
    let tests = ["test", "-p", "durio-judge", "--lib"];
    // Once before, so that the second build is that of a changed line alone.
    build(&tests)?;
    let warning = tree.join(WARNING);
    let text = fs::read_to_string(&warning).with_context(|| format!("no {WARNING}"))?;
    // A comment suffices: cargo compares the file's time, and rebuilds the crate.
    fs::write(&warning, format!("{text}\n// Another line.\n"))?;
    let again = build(&tests)?;
    println!("\n`--profile dist` took {:.0} s of processor time.", packaged.cpu_seconds);
    let mebibytes = u32::try_from(size / 1024).map_or(f64::INFINITY, f64::from) / 1024.0;
    let goals = vec![
        at_most("fresh release build: processor time", fresh.cpu_seconds, CPU_SECONDS_MAX),
        at_most("fresh release build: elapsed", fresh.elapsed_seconds, ELAPSED_SECONDS_MAX),
        at_most(
            "a line in a warning, until its crate's tests have run",
            again.elapsed_seconds,
            REBUILD_SECONDS_MAX,
        ),
        BenchGoal::at_most("packaged binary", mebibytes, PACKAGED_MEBIBYTES_MAX, 2, " MiB"),
    ];
    figures::print_goals(&goals);
    Ok(goals)
}

fn at_most(what: &str, seconds: f64, limit: f64) -> BenchGoal {
    BenchGoal::at_most(what, seconds, limit, 1, " s")
}

/// Cargo in another checkout, with the target folder of that one.
fn cargo_in(tree: &Path) -> Command {
    let mut command = cargo::command(&[]);
    // A caller's variable would lead to a folder with existing builds.
    command.current_dir(tree).env("CARGO_TARGET_DIR", tree.join("target"));
    command.stdout(Stdio::null());
    command
}

/// Runs a command, which must succeed, under GNU time: its processor time is that of all compilers.
fn timed(command: &mut Command) -> Result<CommandTimes> {
    let times = tempfile::NamedTempFile::new().context("no file for times")?;
    let mut timed = Command::new("time");
    timed.args(["-f", "%U %S", "-o"]).arg(times.path()).arg(command.get_program());
    timed.args(command.get_args()).stdin(Stdio::null()).stdout(Stdio::null());
    timed.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
    timed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let begin = Instant::now();
    let status = timed.status().context("cannot run GNU time")?;
    let elapsed_seconds = begin.elapsed().as_secs_f64();
    ensure!(status.success(), "{command:?} failed");
    let text = fs::read_to_string(times.path())?;
    let seconds = text.split_whitespace().filter_map(|number| number.parse::<f64>().ok());
    Ok(CommandTimes { cpu_seconds: seconds.sum(), elapsed_seconds })
}

/// Shows the units that took longest, from cargo's page of the build.
fn print_units(tree: &Path) -> Result<()> {
    let page = tree.join("target/cargo-timings/cargo-timing.html");
    let page = fs::read_to_string(page).context("cargo made no page of timings")?;
    let mut units = units(&page)?;
    units.sort_by(|a, b| b.1.total_cmp(&a.1));
    println!("\nElapsed time of units beside others, the longest of {}\n", units.len());
    let longest = units.into_iter().take(UNITS_SHOWN);
    let rows = longest.map(|(name, seconds)| [name, format!("{seconds:.1}")]);
    figures::print_table(&["unit", "s"], rows);
    Ok(())
}

/// Shows the parts of the binary, by `size` of binutils, which come with every linker.
fn print_sections(binary: &Path) -> Result<()> {
    let output = Command::new("size").arg("-A").arg(binary).output().context("cannot run size")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut rest = 0;
    let mut rows = Vec::new();
    for (name, bytes) in sections(&text) {
        match bytes < SECTION_BYTES_MIN {
            true => rest += bytes,
            false => rows.push([name.to_owned(), (bytes / 1024).to_string()]),
        }
    }
    ensure!(!rows.is_empty(), "size found no sections");
    rows.push(["others".to_owned(), (rest / 1024).to_string()]);
    println!("\nThe packaged binary by section\n");
    figures::print_table(&["section", "KiB"], rows);
    Ok(())
}

/// Sections and their bytes from the table of `size -A`: name, size and address, after two lines of
/// titles and before the sum.
fn sections(table: &str) -> impl Iterator<Item = (&str, u64)> {
    table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next().filter(|section| section.starts_with('.'))?;
        Some((name, words.next()?.parse().ok()?))
    })
}

/// Names of units and their seconds.
fn units(page: &str) -> Result<Vec<(String, f64)>> {
    let (_, data) = page.split_once("const UNIT_DATA = ").context("timings of another form")?;
    let mut values = serde_json::Deserializer::from_str(data).into_iter::<Vec<Value>>();
    let all = values.next().context("no timings")?.context("timings of another form")?;
    let unit = |unit: &Value| {
        let (name, target) = (unit["name"].as_str()?, unit["target"].as_str().unwrap_or_default());
        Some((format!("{name}{target}"), unit["duration"].as_f64()?))
    };
    Ok(all.iter().filter_map(unit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_from_the_page_of_cargo() {
        let page = "x\nconst UNIT_DATA = [\n  {\"i\": 0, \"name\": \"serde\", \"target\": \" build \
                    script\", \"duration\": 1.5},\n  {\"name\": \"durio\", \"target\": \"\", \
                    \"duration\": 7.25}\n];\nconst OTHER = 1;\n";
        let expected = [("serde build script".to_owned(), 1.5), ("durio".to_owned(), 7.25)];
        assert_eq!(units(page).unwrap(), expected);
        assert!(units("const UNIT_DATA = ?").is_err() && units("").is_err());
    }

    #[test]
    fn sections_are_read_from_the_table_of_size() {
        let table =
            "durio  :\nsection  size  addr\n.text  7092002  2352256\n.bss  32  0\nTotal  9\n";
        assert!(sections(table).eq([(".text", 7_092_002), (".bss", 32)]));
    }
}
