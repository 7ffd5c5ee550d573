//! The disks that lie, under durio and under fio's verify, side by side.
//!
//! Takes a built durio and fio with its nbd engine; prints after how many power cuts each has found
//! a disk.
//!
//! fio is used as its manual describes it for power cuts: a trigger takes the power away when fio has
//! saved which blocks it has written (`--verify_state_save`), and after the restart it verifies those
//! (`--verify_state_load`). Both write 4 KiB at a time, each followed by a flush, over NBD to the same
//! server, and both get as many cuts. fio writes each block once after a restart: overwritten, a block
//! that the cut tore fails fio's checksum on an honest disk too, as fio looks for the older write there.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::bench::nbd::NbdServerProcess;
use crate::bench::session::Interrupt;
use crate::bench::table;

/// Cuts for each, unless durio is known to need more: fio takes two seconds for each.
const CUTS: u64 = 10;
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
pub(super) fn side_by_side(durio: &Path, interrupt: &Interrupt) -> Result<[u64; 3]> {
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
        let cuts = series["expected"]["within"].as_u64().unwrap_or(CUTS).max(CUTS);
        eprintln!("{profile}");
        let name = series["name"].as_str().context("a series without a name")?;
        let [by_durio, by_fio] =
            [durio_finds(durio, name, cuts)?, fio_finds(durio, profile, cuts)?];
        let found = |it: VerifyFinding| u64::from(it != VerifyFinding::Nothing);
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
    table::print(&["disk", "durio", "fio's verify"], rows);
    println!(
        "\nA false alarm of fio's is of its last write, which it counts before the flush has returned: in one \
         that\nwas looked at, 11,591 blocks were written, 11,590 flushed, and block 11,591 was missed."
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
            said.lines().filter(|it| it.contains("verify")).for_each(|it| eprintln!("fio: {it}"));
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
