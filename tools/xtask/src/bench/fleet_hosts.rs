//! `bench fleet-hosts`: how often verdicts on hosts are wrong, by simulated campaigns.
//!
//! Prints for durio's rules and for those in common use how many innocent hosts they name, and how many
//! slow ones they find. The model is in simulation.rs; a seed gives the same table.

mod simulation;

use anyhow::Result;
use durio_base::stats::least_squares::{mean, median, robust_deviation};
use durio_hosts::HostVerdict;

use super::figures::{self, BenchGoal};
use super::machine;
use super::session::Interrupt;
use simulation::{FleetModel, SimulatedFleet, rates};

#[derive(Debug, clap::Args)]
pub(crate) struct FleetHostsArguments {
    /// Campaigns of 1,000 hosts per row; of small fleets ten times as many
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..))]
    campaigns: u64,

    /// Seed of the first campaign; each further one has the next
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Share of runs that are disturbed.
const DISTURBED: f64 = 0.05;

/// The goals: innocent hosts per campaign that are called slow, shares of slow hosts found.
const FALSE_MAX: f64 = 0.3;
const FOUND_15_MIN: f64 = 0.95;
const FOUND_30_MIN: f64 = 0.99;

/// A rule, and whom it names in a campaign: innocent hosts and slow ones.
struct Rule {
    name: &'static str,
    named: fn(&SimulatedFleet) -> [usize; 2],
}

const RULES: [Rule; 5] = [
    Rule { name: "mean + 3 standard deviations, one run", named: beyond_mean },
    Rule { name: "median + 3 MAD, one run", named: |fleet| beyond_median(fleet, 1, 3.0) },
    Rule {
        name: "median + 3.5 MAD, median of 3 runs",
        named: |fleet| beyond_median(fleet, 3, 3.5),
    },
    Rule { name: "durio: suspect", named: |fleet| fleet.named(&SUSPECTS) },
    Rule { name: "durio: slow, by 5 fresh runs", named: |fleet| fleet.named(&[HostVerdict::Slow]) },
];

/// Suspects, and those that fresh runs decided about.
const SUSPECTS: [HostVerdict; 3] = [HostVerdict::Suspect, HostVerdict::Slow, HostVerdict::Cleared];

pub(super) fn run(
    arguments: &FleetHostsArguments,
    interrupt: &Interrupt,
) -> Result<Vec<BenchGoal>> {
    machine::print_machine("How often verdicts on hosts are wrong, by simulation");
    println!("- {} campaigns per row from seed {}", arguments.campaigns, arguments.seed);
    let large = |slow_factor, disturbed| FleetModel {
        hosts: 1000,
        figures: 10,
        runs: 3,
        slow_hosts: 5,
        slow_factor,
        disturbed,
    };
    let models =
        [large(1.15, 0.0), large(1.15, DISTURBED), large(1.10, DISTURBED), large(1.30, DISTURBED)];
    let mut columns = Vec::new();
    for model in models {
        let campaigns = campaigns(model, arguments.campaigns, arguments.seed, interrupt)?;
        columns.push(campaigns.map(|counts| rates(&counts, model.slow_hosts)));
    }
    let cell = |column: usize, rule: usize| columns[column][rule];
    println!("\n1,000 hosts × 10 figures, 5 slow hosts, innocent hosts per campaign\n");
    let rows = RULES.iter().enumerate().map(|(rule, Rule { name, .. })| {
        [
            (*name).to_owned(),
            format!("{:.2}", cell(0, rule)[0]),
            format!("{:.2}", cell(1, rule)[0]),
            percent(cell(1, rule)[1]),
            percent(cell(2, rule)[1]),
            percent(cell(3, rule)[1]),
        ]
    });
    let found = ["found at 15 %", "found at 10 %", "found at 30 %"];
    let [at_15, at_10, at_30] = found;
    figures::print_table(
        &["rule", "false, clean runs", "false, 5 % disturbed", at_15, at_10, at_30],
        rows,
    );
    small(arguments, interrupt)?;
    let slow = RULES.len() - 1;
    let goals = vec![
        BenchGoal::at_most("innocent hosts called slow", cell(1, slow)[0], FALSE_MAX, 2, ""),
        BenchGoal::at_least("hosts 15 % slow found", cell(1, slow)[1], FOUND_15_MIN),
        BenchGoal::at_least("hosts 30 % slow found", cell(3, slow)[1], FOUND_30_MIN),
    ];
    figures::print_goals(&goals);
    Ok(goals)
}

/// The share of campaigns of few hosts in which any innocent host is named, and in which the slow one
/// is.
fn small(arguments: &FleetHostsArguments, interrupt: &Interrupt) -> Result<()> {
    let mut rows = Vec::new();
    for hosts in [6, 10, 20, 50] {
        let model = |slow_factor| FleetModel {
            hosts,
            figures: 10,
            runs: 3,
            slow_hosts: 1,
            slow_factor,
            disturbed: DISTURBED,
        };
        let number = arguments.campaigns * 10;
        let at_15 = campaigns(model(1.15), number, arguments.seed, interrupt)?;
        let at_30 = campaigns(model(1.30), number, arguments.seed, interrupt)?;
        let any = |counts: &[[usize; 2]], at: usize| {
            let any: Vec<[usize; 2]> = counts.iter().map(|counts| [counts[at].min(1), 0]).collect();
            percent(rates(&any, 1)[0])
        };
        let row = |rule: usize| {
            let [innocent, found] = [0, 1].map(|at| any(&at_15[rule], at));
            format!("{innocent} / {found} / {}", any(&at_30[rule], 1))
        };
        rows.push([hosts.to_string(), row(2), row(3), row(4)]);
    }
    println!("\nFew hosts, one of them slow: any innocent host / found at 15 % / found at 30 %\n");
    let [.., mad, suspect, slow] = RULES.map(|rule| rule.name);
    figures::print_table(&["hosts", mad, suspect, slow], rows);
    Ok(())
}

/// Whom each rule names in each campaign.
fn campaigns(
    model: FleetModel,
    number: u64,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<[Vec<[usize; 2]>; RULES.len()]> {
    let mut counts: [Vec<[usize; 2]>; RULES.len()] = std::array::from_fn(|_| Vec::new());
    for seed in seed..seed + number {
        interrupt.check()?;
        let mut fleet = SimulatedFleet::new(model, seed);
        fleet.confirm(seed);
        for (counts, rule) in counts.iter_mut().zip(&RULES) {
            counts.push((rule.named)(&fleet));
        }
    }
    Ok(counts)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn beyond_mean(fleet: &SimulatedFleet) -> [usize; 2] {
    beyond(fleet, 1, |levels| {
        let middle = mean(levels).unwrap_or(f64::NAN);
        let squares: Vec<f64> = levels.iter().map(|level| (level - middle).powi(2)).collect();
        middle + 3.0 * mean(&squares).unwrap_or(f64::NAN).sqrt()
    })
}

fn beyond_median(fleet: &SimulatedFleet, runs: usize, deviations: f64) -> [usize; 2] {
    beyond(fleet, runs, |levels| {
        let spread = robust_deviation(levels).unwrap_or(f64::NAN);
        median(levels).unwrap_or(f64::NAN) + deviations * spread
    })
}

/// Innocent hosts and slow ones of which a figure is above its limit over all hosts.
fn beyond(fleet: &SimulatedFleet, runs: usize, limit: impl Fn(&[f64]) -> f64) -> [usize; 2] {
    let mut is_named = vec![false; fleet.screening.len()];
    for figure in 0..fleet.model.figures {
        let level = |host: &Vec<Vec<f64>>| {
            let values: Vec<f64> = host.iter().take(runs).map(|run| run[figure]).collect();
            median(&values).unwrap_or(f64::NAN)
        };
        let levels: Vec<f64> = fleet.screening.iter().map(level).collect();
        let limit = limit(&levels);
        is_named.iter_mut().zip(levels).for_each(|(named, level)| *named |= level > limit);
    }
    let (slow, innocent) = is_named.split_at(fleet.model.slow_hosts);
    [innocent, slow].map(|hosts| hosts.iter().filter(|named| **named).count())
}
