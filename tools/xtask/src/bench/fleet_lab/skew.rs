//! When idle hosts really start, and the bound that the campaign prints.
//!
//! The namespaces have one clock, so the record's times of two hosts can be subtracted.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use durio_record::fleet::CampaignEvent;

use super::campaign::{events, gated, runs};
use super::hosts::{FleetLab, LabSettings};
use super::{CAMPAIGN_MAX, spec};
use crate::bench::figures::{self, BenchGoal, median};
use crate::bench::session::Interrupt;

const HOSTS: usize = 8;
/// Runs, each of which has two starts.
const RUNS: u32 = 20;
const SKEW_MAX: f64 = 1.0;
const MS: f64 = 1e6;

pub(super) fn run(programs: Option<&Path>, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let settings =
        LabSettings { hosts: HOSTS, programs, is_installed: true, group: None, shared: None };
    let lab = FleetLab::new(settings, interrupt)?;
    eprintln!("{RUNS} runs of 2 steps that start together on {HOSTS} hosts");
    let repeats = RUNS.to_string();
    let more = ["--barrier", "step", "--repeat", repeats.as_str()];
    let campaign = lab.campaign(&spec(1, Some(20)), &more)?;
    campaign.wait(CAMPAIGN_MAX)?.expect(&[0, 1])?;
    let folder = lab.path("campaign");
    let mut starts: BTreeMap<(usize, u32, u32), Vec<u64>> = BTreeMap::new();
    let (mut offsets, mut excess) = (Vec::new(), Vec::new());
    for host in lab.names() {
        for (number, run) in runs(&folder, &host).iter().enumerate() {
            for gated in gated(run) {
                let key = (number, gated.round, gated.step);
                starts.entry(key).or_default().push(gated.started.get());
                // One clock: the true offset is 0, and all of the estimate is error.
                let error = gated.offset_ns.unsigned_abs() as f64;
                offsets.push(error / MS);
                excess.push((error - gated.bound_ns as f64) / MS);
            }
        }
    }
    starts.retain(|_, times| times.len() == HOSTS);
    ensure!(!starts.is_empty(), "no step was started on all hosts together");
    let skews: Vec<f64> = starts.values().map(|times| spread(times) as f64 / MS).collect();
    let printed: Vec<(f64, f64)> = events(&folder)
        .iter()
        .filter_map(|event| match event {
            CampaignEvent::BarrierPassed { skew_ns, bound_ns, .. } => {
                Some((*skew_ns as f64 / MS, *bound_ns as f64 / MS))
            }
            _ => None,
        })
        .collect();
    let largest = |values: &[f64]| values.iter().copied().fold(f64::NAN, f64::max);
    let (told, bounds): (Vec<f64>, Vec<f64>) = printed.into_iter().unzip();
    bounds.first().context("the campaign printed no bound")?;
    println!("\n### Starts of {HOSTS} idle hosts on one kernel, {} starts, ms\n", skews.len());
    let rows = [
        ("latest start − earliest, by the hosts' one clock", &skews),
        ("the same, as the campaign has it", &told),
        ("printed bound of the clocks", &bounds),
        ("true error of a host's clock", &offsets),
    ];
    let rows = rows.map(|(name, values)| {
        [name.to_owned(), format!("{:.3}", median(values)), format!("{:.3}", largest(values))]
    });
    figures::print_table(&["", "p50", "max"], rows);
    Ok(vec![
        BenchGoal::at_most("start skew, p50", median(&skews), SKEW_MAX, 3, " ms"),
        BenchGoal::at_most("true error − bound, largest", largest(&excess), 0.0, 3, " ms"),
    ])
}

fn spread(times: &[u64]) -> u64 {
    let ends = times.iter().max().zip(times.iter().min());
    ends.map_or(0, |(last, first)| last - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_last_minus_the_first() {
        assert_eq!(spread(&[5, 3, 9]), 6);
        assert_eq!(spread(&[7]), 0);
        assert_eq!(spread(&[]), 0);
    }
}
