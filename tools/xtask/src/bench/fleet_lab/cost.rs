//! What an agent costs next to a run, and whether runs differ with and without it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use durio_record::fleet::HostState;
use rustix::process::Pid;

use super::campaign::runs;
use super::hosts::{FleetLab, LabSettings, program_path};
use super::{CAMPAIGN_MAX, spec};
use crate::bench::figures::{self, BenchGoal};
use crate::bench::session::Interrupt;

const STEP_SECONDS: u32 = 10;
/// With and without by turns.
const PAIRS: u32 = 5;
const CPU_MAX: f64 = 0.2;
const MEMORY_MAX: f64 = 12.0;
/// The kernel counts processor time in these (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;
const SETTLED: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(15);

pub(super) fn run(programs: Option<&Path>, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let settings =
        LabSettings { hosts: 1, programs, is_installed: true, group: None, shared: None };
    let mut lab = FleetLab::new(settings, interrupt)?;
    for side in ["with", "without"] {
        fs::create_dir(lab.path(side)).context("cannot make a folder for runs")?;
    }
    let (mut shares, mut memory) = (Vec::new(), Vec::new());
    for pair in 1..=PAIRS {
        eprintln!("pair {pair} of {PAIRS}");
        lab.clean()?;
        let mut campaign = lab.campaign(&spec(STEP_SECONDS, None), &[])?;
        campaign.await_state(&lab.names(), HostState::Running, CAMPAIGN_MAX)?;
        thread::sleep(SETTLED);
        let agent = lab.processes("db1", "durio-fleet agent")?;
        let agent = *agent.first().context("no agent")?;
        let (began, before) = (Instant::now(), processor_seconds(agent)?);
        thread::sleep(MEASURED);
        let spent = processor_seconds(agent)? - before;
        shares.push(100.0 * spent / began.elapsed().as_secs_f64());
        memory.push(memory_max(agent)?);
        campaign.wait(CAMPAIGN_MAX)?.expect(&[0, 1])?;
        let found = runs(&lab.path("campaign"), "db1");
        let run = found.first().context("no run was collected")?;
        let kept = lab.path(&format!("with/run-{pair}"));
        fs::rename(run, &kept).context("cannot keep a run")?;
        run_alone(&lab)?;
    }
    let (compared, is_slower) = compare(&lab)?;
    let largest = |values: &[f64]| values.iter().copied().fold(f64::NAN, f64::max);
    println!("\n### An agent next to a run\n");
    let row = |name: &str, values: &[f64]| {
        [
            name.to_owned(),
            format!("{:.2}", figures::median(values)),
            format!("{:.2}", largest(values)),
        ]
    };
    let rows = [row("% of a core", &shares), row("largest resident memory, MiB", &memory)];
    figures::print_table(&["agent", "p50 of the runs", "max"], rows);
    println!(
        "\nRuns without an agent against runs with one:\n\n```text\n{}\n```",
        compared.trim_end()
    );
    Ok(vec![
        BenchGoal::at_most("agent, processor", figures::median(&shares), CPU_MAX, 2, " %"),
        BenchGoal::at_most("agent, resident memory", largest(&memory), MEMORY_MAX, 1, " MiB"),
        BenchGoal::at_most(
            "compare finds a loss with the agent",
            f64::from(u8::from(is_slower)),
            0.0,
            0,
            "",
        ),
    ])
}

/// The same spec by durio alone, in the namespaces of the host.
fn run_alone(lab: &FleetLab) -> Result<()> {
    let sshd = lab.processes("db1", "sshd")?;
    let pid = sshd.first().context("db1 has no sshd")?.as_raw_nonzero();
    let status = Command::new(program_path("nsenter").context("nsenter is missing")?)
        .args([format!("--net=/proc/{pid}/ns/net"), format!("--mount=/proc/{pid}/ns/mnt")])
        .arg(lab.path("bin/durio"))
        .args(["run", "--fresh", "--yes", "--quiet"])
        .arg(lab.path("lab.toml"))
        .arg("--target")
        .arg(format!("data={}", lab.path("data").display()))
        .arg("--out")
        .arg(lab.path("without"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("cannot run durio")?;
    ensure!(status.success(), "durio run without an agent: {status}");
    Ok(())
}

/// What compare prints, and true if it finds a loss of more than a twentieth.
fn compare(lab: &FleetLab) -> Result<(String, bool)> {
    let output = Command::new(lab.path("bin/durio"))
        .args(["compare", "--fail-over", "5%", "--name", "without", "--name", "with"])
        .args([lab.path("without"), lab.path("with")])
        .stdin(Stdio::null())
        .output()
        .context("cannot run durio compare")?;
    let code = output.status.code();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(code, Some(0 | 1 | 3)), "durio compare ended with {code:?}: {}", said.trim());
    let folder = lab.path("").display().to_string();
    let shown = String::from_utf8_lossy(&output.stdout).replace(&folder, "");
    Ok((shown, code == Some(1)))
}

/// The time that a process and its threads have used.
pub(super) fn processor_seconds(pid: Pid) -> Result<f64> {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    ticks(&stat).map(|ticks| ticks / TICKS_PER_SECOND).context("an unknown form of /proc/PID/stat")
}

/// utime and stime: fields 14 and 15, counted past the name, which may hold blanks.
fn ticks(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields = after_name.split_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<f64>().ok()).sum()
}

/// The largest resident memory so far, in MiB.
fn memory_max(pid: Pid) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    Ok(kib.context("no VmHWM")? / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_children_is_not_that_of_the_process() {
        let stat = "12 (a b) c) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        assert_eq!(ticks(stat), Some(11.0 + 12.0));
        assert_eq!(ticks("12 (a) R 1"), Some(0.0));
        assert_eq!(ticks("x"), None);
    }

    #[test]
    fn this_process_has_memory() {
        let own = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(memory_max(own).unwrap() > 1.0);
        assert!(processor_seconds(own).unwrap() >= 0.0);
    }
}
