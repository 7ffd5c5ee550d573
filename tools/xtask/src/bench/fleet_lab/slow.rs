//! One command on eight hosts with nothing but ssh, of which one is slowed down.

use std::path::Path;

use anyhow::{Context, Result};
use durio_hosts::{FleetFindings, HostFindings, HostVerdict, read_hosts};

use super::hosts::{FleetLab, LabSettings};
use super::throttle::LabGroup;
use super::{CAMPAIGN_MAX, spec};
use crate::bench::figures::{self, BenchGoal};
use crate::bench::session::Interrupt;
use crate::cargo;

const HOSTS: usize = 8;
const SLOWED: usize = 3;
const SLOWED_HOSTS: &[usize] = &[SLOWED];
/// Far below what a disk without a limit gives each of eight hosts.
const OPERATIONS: u64 = 40;

pub(super) fn run(programs: Option<&Path>, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let folder = cargo::metadata()?.target_directory.into_std_path_buf();
    // A container may show control groups that it cannot change, or without the disk's controller.
    let group = match LabGroup::new(&folder, OPERATIONS) {
        Ok(group) => group,
        Err(error) => {
            println!("\n### A host that is slow\n\nNot measured: {error:#}.");
            return Ok(Vec::new());
        }
    };
    let limit = group.limit.clone();
    let settings = LabSettings {
        hosts: HOSTS,
        programs,
        is_installed: false,
        group: Some((group, SLOWED_HOSTS)),
        shared: None,
    };
    let lab = FleetLab::new(settings, interrupt)?;
    println!("\n### A host that is slow\n\ndb{SLOWED} is slowed down by {limit}.\n");
    eprintln!("3 runs of 2 steps on {HOSTS} hosts, programs copied by ssh");
    let campaign = lab.campaign(&spec(2, None), &["--push", "--repeat", "3"])?;
    // 1: the report may have a finding.
    let ended = campaign.wait(CAMPAIGN_MAX)?.expect(&[0, 1])?;
    let words = lab.words(&spec(2, None))?.join(" ");
    show(&lab, &format!("$ durio fleet {words} --push --repeat 3\n{}", ended.said));
    let screened = read_hosts(&[lab.path("campaign")])?;
    eprintln!("confirm: 5 fresh runs of the suspects and of others");
    let words = ["confirm", "campaign", "--yes"].map(str::to_owned);
    let ended = lab.start(&words)?.wait(CAMPAIGN_MAX)?.expect(&[0, 1])?;
    show(&lab, &format!("$ durio fleet {}\n{}", words.join(" "), ended.said));
    let confirmed = read_hosts(&[lab.path("campaign")])?;
    print(&lab, &screened, &confirmed)?;
    let slowed = format!("db{SLOWED}");
    let named = |findings: &FleetFindings, verdict: HostVerdict, is_slowed: bool| {
        let is_named =
            |host: &&HostFindings| host.verdict == verdict && (host.name == slowed) == is_slowed;
        findings.hosts.iter().filter(is_named).count() as f64
    };
    Ok(vec![
        BenchGoal::at_least(
            "slowed host is suspect",
            named(&screened, HostVerdict::Suspect, true),
            1.0,
        ),
        BenchGoal::at_least(
            "slowed host is named",
            named(&confirmed, HostVerdict::Slow, true),
            1.0,
        ),
        BenchGoal::at_most(
            "other hosts called slow",
            named(&confirmed, HostVerdict::Slow, false),
            0.0,
            0,
            "",
        ),
        BenchGoal::at_most(
            "other hosts still suspect",
            named(&confirmed, HostVerdict::Suspect, false),
            0.0,
            0,
            "",
        ),
    ])
}

/// A command line and its output, without the folder of this lab.
fn show(lab: &FleetLab, text: &str) {
    let folder = lab.path("").display().to_string();
    println!("```text\n{}\n```\n", text.replace(&folder, "LAB/").trim_end());
}

fn print(lab: &FleetLab, screened: &FleetFindings, confirmed: &FleetFindings) -> Result<()> {
    let mut rows = Vec::new();
    for name in lab.names() {
        let of = |findings: &FleetFindings| {
            let host = findings.hosts.iter().find(|host| host.name == name);
            let host = host.with_context(|| format!("{name} is not in the findings"))?;
            let worst = host.evidence.first();
            let factor = worst.map_or_else(String::new, |worst| format!(" ×{:.2}", worst.factor));
            anyhow::Ok(format!("{:?}{factor}", host.verdict).to_lowercase())
        };
        rows.push([name.clone(), of(screened)?, of(confirmed)?]);
    }
    figures::print_table(&["host", "after 3 runs", "after confirm"], rows);
    Ok(())
}
