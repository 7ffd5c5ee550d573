//! Four hosts on one disk: nbdkit serves it with a delay, the filesystem on it is that of all hosts.
//!
//! `nbdfuse` makes a file of it, so that no kernel module for NBD is needed, and a loop device of that
//! file carries the filesystem.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use durio_hosts::{PooledFindings, read_hosts};
use tempfile::TempDir;

use super::hosts::{FleetLab, LabSettings, program_path, succeed};
use super::{CAMPAIGN_MAX, spec, wait_until};
use crate::bench::figures::{self, BenchGoal};
use crate::bench::session::Interrupt;

const HOSTS: usize = 4;
const PROGRAMS: [&str; 6] = ["nbdkit", "nbdfuse", "losetup", "mkfs.ext4", "mount", "umount"];
const READY_MAX: Duration = Duration::from_secs(20);
const MS: f64 = 1e6;

pub(super) fn run(programs: Option<&Path>, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    println!("\n### Four hosts on one disk over NBD\n");
    if let Some(missing) = PROGRAMS.iter().find(|program| program_path(program).is_none()) {
        println!("Not measured: {missing} is missing.");
        return Ok(Vec::new());
    }
    // Before the lab, and so unmounted after it.
    let disk = match CommonDisk::new(interrupt) {
        Ok(disk) => disk,
        Err(error) => {
            interrupt.check()?;
            println!("Not measured: no disk can be served here: {error:#}.");
            return Ok(Vec::new());
        }
    };
    let folder = disk.mounted();
    let settings = LabSettings {
        hosts: HOSTS,
        programs,
        is_installed: true,
        group: None,
        shared: Some(&folder),
    };
    let lab = FleetLab::new(settings, interrupt)?;
    eprintln!("a campaign of 2 steps on {HOSTS} hosts");
    let campaign = lab.campaign(&spec(8, None), &["--shared"])?;
    campaign.wait(CAMPAIGN_MAX)?.expect(&[0, 1])?;
    let findings = read_hosts(&[lab.path("campaign")])?;
    print_pools(&findings.pooled);
    let fewest = findings.pooled.iter().map(|pooled| pooled.hosts).min().unwrap_or(0);
    let pooled = findings.pooled.iter().filter(|pooled| pooled.rate.is_some()).count();
    Ok(vec![
        BenchGoal::at_least("hosts in each pool", fewest as f64, HOSTS as f64),
        BenchGoal::at_least("workloads with a pooled rate", pooled as f64, 2.0),
    ])
}

/// Pooled figures, the numbers that sums and means would give, and why they differ.
fn print_pools(pools: &[PooledFindings]) {
    let p99s = |pooled: &PooledFindings| -> Vec<f64> {
        let shares = pooled.shares.iter().filter_map(|share| share.p99_ns);
        shares.map(|p99| p99 as f64 / MS).collect()
    };
    let rows = pools.iter().map(|pooled| {
        let ms =
            |value: Option<f64>| value.map_or("–".to_owned(), |ns| format!("{:.2}", ns / MS));
        let merged = pooled.latency.as_ref().and_then(|found| found.p99_ns);
        let each: Vec<String> = p99s(pooled).iter().map(|p99| format!("{p99:.2}")).collect();
        [
            format!("{}, {}", pooled.workload, pooled.operation.name()),
            pooled.rate.map_or("–".to_owned(), |rate| format!("{rate:.0}")),
            format!("{:.0}", pooled.sum_of_rates),
            ms(merged.map(|ns| ns as f64)),
            ms(pooled.mean_of_p99_ns),
            each.join(" "),
            format!("{:.3}", pooled.fairness),
        ]
    });
    let header = [
        "workload",
        "pooled, /s",
        "sum of each host's, /s",
        "merged p99, ms",
        "mean of p99, ms",
        "p99 of each host, ms",
        "fairness",
    ];
    figures::print_table(&header, rows);
    println!(
        "\nThe pooled rate counts whole intervals of the time in which all hosts ran; the sum has all of \
         each host's, also what it did while others had not begun or were done. The merged p99 is that \
         of all requests; the mean of each host's is the latency of no request.\n"
    );
    pools.iter().for_each(|pooled| println!("- {}", difference(pooled)));
}

/// How far the sum of the hosts' rates is from the pooled rate, and the times that explain it.
fn difference(pooled: &PooledFindings) -> String {
    let name = format!("{}, {}", pooled.workload, pooled.operation.name());
    let (window, skew_ms) = (pooled.window_seconds, pooled.skew_seconds * 1e3);
    let times = format!("all ran for {window:.3} s, from starts {skew_ms:.3} ms apart");
    match (pooled.rate, &pooled.no_rate) {
        (Some(rate), _) => {
            let off = (pooled.sum_of_rates / rate - 1.0) * 100.0;
            let error = pooled
                .rate_error
                .map_or("an unknown error".to_owned(), |error| format!("{:.2} %", error * 100.0));
            format!("{name}: {times}; pooled rate within {error}, and the sum {off:+.2} % from it")
        }
        (None, Some(why)) => format!("{name}: {times}; no pooled rate: {why}"),
        (None, None) => format!("{name}: {times}; no pooled rate"),
    }
}

/// A filesystem on a disk that nbdkit serves, until it is dropped.
struct CommonDisk {
    folder: TempDir,
    /// nbdkit, and then nbdfuse.
    processes: Vec<Child>,
    device: Option<String>,
}

impl CommonDisk {
    fn new(interrupt: &Interrupt) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("dfl").tempdir().context("no folder")?;
        let (socket, file) = (folder.path().join("socket"), folder.path().join("nbd/disk"));
        for name in ["nbd", "mounted"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let server = Command::new("nbdkit")
            .args(["--foreground", "--threads", "4", "--unix"])
            .arg(&socket)
            .args(["--filter=delay", "memory", "1G", "delay-read=1ms", "delay-write=1ms"])
            .stdin(Stdio::null())
            .spawn()
            .context("cannot run nbdkit")?;
        let mut disk = Self { folder, processes: vec![server], device: None };
        let listens = || UnixStream::connect(&socket).is_ok();
        wait_until("nbdkit listens", READY_MAX, interrupt, listens)?;
        let fuse = Command::new("nbdfuse")
            .arg(&file)
            .arg("--unix")
            .arg(&socket)
            .stdin(Stdio::null())
            .spawn()
            .context("cannot run nbdfuse")?;
        disk.processes.push(fuse);
        wait_until("the disk is a file", READY_MAX, interrupt, || file.is_file())?;
        let losetup = program_path("losetup").context("losetup is missing")?;
        let device = Command::new(losetup).args(["--find", "--show"]).arg(&file).output()?;
        let device = String::from_utf8_lossy(&device.stdout).trim().to_owned();
        ensure!(device.starts_with("/dev/"), "losetup makes no device of the file");
        disk.device = Some(device.clone());
        eprintln!("a filesystem on {device}, by way of nbdkit and nbdfuse");
        // All of it now: the kernel would write the rest while the hosts measure.
        let options = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        succeed(Command::new("mkfs.ext4").args(["-q", "-E", options, &device]))?;
        succeed(Command::new("mount").arg(&device).arg(disk.mounted()))?;
        Ok(disk)
    }

    fn mounted(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }
}

impl Drop for CommonDisk {
    fn drop(&mut self) {
        let _ = succeed(Command::new("umount").arg(self.mounted()));
        if let Some(device) = &self.device {
            let _ = succeed(Command::new("losetup").args(["--detach", device]));
        }
        let _ = succeed(Command::new("umount").arg(self.folder.path().join("nbd")));
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
