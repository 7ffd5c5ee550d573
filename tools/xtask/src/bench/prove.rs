//! `bench prove`: power cuts and crash states per second, and durio next to fio's verify.
//!
//! Takes release builds of durio and of an example of durio-prove, and fio. Prints cuts of
//! simulated disks per second, in process and over NBD; states of a recorded run per second; which
//! liars durio and fio find; the goals. Checks by commands are left out: they take as long as the
//! command.
//!
//! fio is used as its manual describes it for power cuts: a trigger takes the power away when fio has
//! saved which blocks it has written (`--verify_state_save`), and after the restart it verifies those
//! (`--verify_state_load`). Both write 4 KiB at a time, each followed by a flush, over NBD to the same
//! server, and both get as many cuts. fio writes each block once after a restart: overwritten, a block
//! that the cut tore fails fio's checksum on an honest disk too, as fio looks for the older write there.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::figures::{self, BenchGoal, median};
use super::machine;
use super::nbd::NbdServerProcess;
use super::session::Interrupt;
use crate::cargo;

const ROUNDS: usize = 5;
const GOAL: f64 = 2000.0;
/// Whole campaigns with their records, two series at once: which, how many cuts of each, the least rate.
const CUTS: [(&str, [&str; 2], u32, f64); 2] = [
    ("in process", ["write-back/fdatasync/8", "write-through/fdatasync/8"], 5000, 5000.0),
    ("over NBD", ["nbd/write-back/fdatasync/1", "nbd/write-through/fdatasync/1"], 300, 50.0),
];
const CASES: [&str; 2] = ["every cell of each state read", "none read"];

/// Runs `bench prove`.
pub(super) fn run(interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let build = |words: &[&str]| -> Result<()> {
        let words = [&["build", "--release"], words].concat();
        let status = cargo::command(&words).status().context("cannot run cargo")?;
        ensure!(status.success(), "{words:?} failed");
        Ok(())
    };
    build(&["-p", "durio-prove", "--example", "states_per_second"])?;
    build(&["-p", "durio"])?;
    let target = cargo::metadata()?.target_directory.into_std_path_buf();
    let program = target.join("release/examples/states_per_second");
    let durio = target.join("release/durio");
    machine::print_machine("Proofs: power cuts, crash states, and fio's verify on the same disks");
    println!("- disks of 256 cells of 4 KiB; {ROUNDS} rounds, medians");
    println!("- states: one thread, 32 writes in flight");
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        interrupt.check()?;
        let output = Command::new(&program).output().context("cannot run the example")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        let found: Vec<f64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(found.len() == CASES.len(), "the example printed '{text}'");
        rates.iter_mut().zip(found).for_each(|(rates, rate)| rates.push(rate));
    }
    let rows = CASES.iter().zip(&rates);
    println!();
    let row =
        |(case, rates): (&&str, &Vec<f64>)| [(*case).to_owned(), format!("{:.0}", median(rates))];
    figures::print_table(&["states", "per second"], rows.map(row));
    let mut goals = vec![goal(median(&rates[0]))];
    for (how, series, cuts, least) in CUTS {
        let rates: Vec<f64> = (0..ROUNDS)
            .map(|_| interrupt.check().and_then(|()| cuts_per_second(&durio, series, cuts)))
            .collect::<Result<_>>()?;
        let what = format!("power cuts per second, {how}");
        goals.push(BenchGoal::at_least(what, median(&rates), least));
    }
    let [by_durio, by_fio, all] = side_by_side(&durio, interrupt)?;
    println!("\nOf {all} disks that lie durio has found {by_durio}, fio {by_fio}.");
    figures::print_goals(&goals);
    Ok(goals)
}

/// A campaign as a user runs it, record and verdict included.
fn cuts_per_second(durio: &Path, series: [&str; 2], cuts: u32) -> Result<f64> {
    let folder = tempfile::tempdir().context("no folder for a proof")?;
    let mut command = Command::new(durio);
    let only = series.iter().flat_map(|name| ["--only", name]);
    command.args(["prove", "run", "prove-smoke"]).args(only);
    command.args(["--cuts", &cuts.to_string(), "--out"]);
    command.arg(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let begin = Instant::now();
    ensure!(command.status().context("cannot run durio")?.success(), "{series:?}: not as expected");
    Ok(2.0 * f64::from(cuts) / begin.elapsed().as_secs_f64())
}

fn goal(per_second: f64) -> BenchGoal {
    BenchGoal::at_least("crash states per second, every cell read", per_second, GOAL)
}

/// Cuts for each, unless durio is known to need more: fio takes two seconds for each.
const VERIFY_CUTS: u64 = 10;
/// How long fio writes before the power cut.
const LOAD_SECONDS: u32 = 1;
const SEED: &str = "1";

/// The fate of a disk under one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VerifyFinding {
    AtCut(u64),
    Nothing,
}

impl VerifyFinding {
    fn text(self, cuts: u64) -> String {
        match self {
            Self::AtCut(cut) => format!("found at cut {cut}"),
            Self::Nothing => format!("nothing in {cuts}"),
        }
    }
}

/// Prints the table, and says how many liars durio has found, how many fio, and of how many.
///
/// # Errors
/// If durio blames a disk that keeps its word.
fn side_by_side(durio: &Path, interrupt: &Interrupt) -> Result<[u64; 3]> {
    let plan = ["prove", "plan", "prove-smoke", "--only", "nbd/", "--json"];
    let plan: Value = serde_json::from_slice(&answer(Command::new(durio).args(plan))?)?;
    let mut rows = Vec::new();
    let mut counts = [0; 3];
    for series in plan["series"].as_array().context("a plan without series")? {
        if series["arm"]["path"] != "fdatasync" {
            continue;
        }
        interrupt.check()?;
        let profile = series["target"]["profile"].as_str().context("a series without a disk")?;
        let lies = series["expected"]["expect"] == "breaks";
        let cuts = series["expected"]["within"].as_u64().unwrap_or(VERIFY_CUTS).max(VERIFY_CUTS);
        eprintln!("{profile}");
        let name = series["name"].as_str().context("a series without a name")?;
        let [by_durio, by_fio] =
            [durio_finds(durio, name, cuts)?, fio_finds(durio, profile, cuts)?];
        let found = |finding: VerifyFinding| u64::from(finding != VerifyFinding::Nothing);
        ensure!(lies || found(by_durio) == 0, "durio blames {profile}, which keeps its word");
        counts[0] += u64::from(lies) * found(by_durio);
        counts[1] += u64::from(lies) * found(by_fio);
        counts[2] += u64::from(lies);
        let word = if lies { profile.to_owned() } else { format!("{profile} (keeps its word)") };
        let fios = match (lies, by_fio) {
            (false, VerifyFinding::AtCut(cut)) => format!("FALSE ALARM at cut {cut}"),
            _ => by_fio.text(cuts),
        };
        rows.push([word, by_durio.text(cuts), fios]);
    }
    println!(
        "\nPower cuts until a disk that lies is found. Before each durio does 40 to 130 writes, fio some \
         16,000\n(a second of them).\n"
    );
    figures::print_table(&["disk", "durio", "fio's verify"], rows);
    println!(
        "\nfio's false alarms concern its last write, which it counts before the flush has returned: in one \
         that\nwas examined, 11,591 blocks were written, 11,590 flushed, and block 11,591 was missed."
    );
    Ok(counts)
}

fn durio_finds(durio: &Path, series: &str, cuts: u64) -> Result<VerifyFinding> {
    let folder = tempfile::tempdir().context("no folder for a proof")?;
    let mut command = Command::new(durio);
    command.args(["prove", "run", "prove-smoke", "--only", series, "--seed", SEED, "--json"]);
    command.args(["--cuts", &cuts.to_string(), "--out"]).arg(folder.path());
    let output = command.stderr(Stdio::null()).output().context("cannot run durio")?;
    let document: Value = serde_json::from_slice(&output.stdout).context("durio told nothing")?;
    let found = document["series"][0]["loss"]["cut"].as_u64();
    Ok(found.map_or(VerifyFinding::Nothing, VerifyFinding::AtCut))
}

fn fio_finds(durio: &Path, profile: &str, cuts: u64) -> Result<VerifyFinding> {
    let folder = tempfile::tempdir().context("no folder for fio")?;
    let socket = folder.path().join("disk");
    let mut serve = Command::new(durio);
    serve.args(["simdisk", "serve", "--profile", profile, "--size", "1GiB", "--seed", SEED]);
    serve.arg("--socket").arg(&socket).stdout(Stdio::null()).stderr(Stdio::null());
    let disk = NbdServerProcess::begin(serve, socket.clone())?;
    let switch =
        |word: &str| format!("{} simdisk {word} --socket {}", durio.display(), socket.display());
    let fio = |cut: u64, options: &[&str]| {
        let mut command = Command::new("fio");
        command.current_dir(folder.path()).args(["--name=proof", "--ioengine=nbd"]);
        command.arg(format!("--uri={}", disk.uri())).args(["--rw=randwrite", "--bs=4k"]);
        // A new seed after each cut distinguishes this load's data from an earlier one's.
        command.args(["--size=1g", "--verify=crc32c", &format!("--randseed={cut}")]).args(options);
        command.output().context("cannot run fio")
    };
    for cut in 1..=cuts {
        let (trigger, load) =
            (format!("--trigger={}", switch("cut")), format!("--trigger-timeout={LOAD_SECONDS}"));
        fio(cut, &["--fsync=1", "--do_verify=0", "--verify_state_save=1", &load, &trigger])?;
        // Any program notices a disk that does not come back.
        let is_back = Command::new("sh").args(["-c", &switch("restore")]).output()?;
        let seen = fio(cut, &["--verify_state_load=1", "--verify_only"])?;
        if !is_back.status.success() || !seen.status.success() {
            let said = String::from_utf8_lossy(&seen.stderr);
            said.lines()
                .filter(|line| line.contains("verify"))
                .for_each(|line| eprintln!("fio: {line}"));
            return Ok(VerifyFinding::AtCut(cut));
        }
    }
    Ok(VerifyFinding::Nothing)
}

fn answer(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().context("cannot run durio")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goal_holds_from_its_rate_on() {
        assert!(goal(2000.0).holds && !goal(1999.0).holds && !goal(f64::NAN).holds);
    }
}
