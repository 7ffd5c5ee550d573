//! A fleet whose slow hosts are known: how often the verdicts on hosts are wrong.
//!
//! In logarithms, a figure of a host differs by 2 % from the others' and all of its figures by another
//! 1 %; a run adds 3 %. In a disturbed run each figure is worse with a probability of 0.8, by 15 % on
//! average (exponentially distributed). A slow host is slow in three figures.

use std::collections::BTreeMap;

use durio_analyse::RunState;
use durio_base::stats::least_squares::{count, float};
use durio_hosts::{
    FLEET_SCHEMA, FigureKey, FleetFindings, HostFigure, HostFindings, HostOutcome, HostRun,
    HostStatistic, HostVerdict, ScreeningPower, choose_for_confirmation, judge_hosts,
};
use durio_record::OperationName;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const HOST_DEVIATION: f64 = 0.02;
const COMMON_DEVIATION: f64 = 0.01;
const RUN_DEVIATION: f64 = 0.03;
const DISTURBANCE_MEAN: f64 = 0.15;
const DISTURBED_FIGURES: f64 = 0.8;
const SLOW_FIGURES: usize = 3;
const FRESH_RUNS: usize = 5;

/// The size of a simulated campaign and what is wrong with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FleetModel {
    pub(super) hosts: usize,
    pub(super) figures: usize,
    /// Runs of each host for screening.
    pub(super) runs: usize,
    /// The first hosts are slow.
    pub(super) slow_hosts: usize,
    /// By how much their figures are worse, as a factor.
    pub(super) slow_factor: f64,
    /// Share of runs that are disturbed.
    pub(super) disturbed: f64,
}

/// A campaign of this model.
#[derive(Debug)]
pub(super) struct SimulatedFleet {
    pub(super) model: FleetModel,
    random: Xoshiro256PlusPlus,
    /// By host and figure, the larger the worse.
    truth: Vec<Vec<f64>>,
    /// By host, run and figure, the larger the worse, for other rules to judge.
    pub(super) screening: Vec<Vec<Vec<f64>>>,
    pub(super) findings: FleetFindings,
}

impl SimulatedFleet {
    /// Runs the campaign and judges its hosts.
    pub(super) fn new(model: FleetModel, seed: u64) -> Self {
        let findings = FleetFindings {
            schema: FLEET_SCHEMA.to_owned(),
            campaign: None,
            asked: model.hosts,
            hosts: Vec::new(),
            groups: Vec::new(),
            shared_facts: Vec::new(),
            pooled: Vec::new(),
            power: ScreeningPower::default(),
            doubts: Vec::new(),
        };
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (truth, screening) = (Vec::new(), Vec::new());
        let mut fleet = Self { model, random, truth, screening, findings };
        (0..model.hosts).for_each(|at| fleet.add_host(at));
        judge_hosts(&mut fleet.findings);
        fleet
    }

    /// Makes the fresh runs that decide about the suspects, and judges again.
    pub(super) fn confirm(&mut self, seed: u64) {
        for name in choose_for_confirmation(&self.findings, seed) {
            let runs: Vec<HostRun> =
                (0..FRESH_RUNS).map(|_| host_run(&self.run(number(&name)), true)).collect();
            let host = self.findings.hosts.iter_mut().find(|host| host.name == name);
            host.into_iter().for_each(|host| host.runs.extend_from_slice(&runs));
        }
        judge_hosts(&mut self.findings);
    }

    /// Innocent hosts and slow ones that have one of these verdicts.
    pub(super) fn named(&self, verdicts: &[HostVerdict]) -> [usize; 2] {
        let named = self.findings.hosts.iter().filter(|host| verdicts.contains(&host.verdict));
        let (slow, innocent): (Vec<usize>, Vec<usize>) =
            named.map(|host| number(&host.name)).partition(|at| *at < self.model.slow_hosts);
        [innocent.len(), slow.len()]
    }

    fn add_host(&mut self, at: usize) {
        let common = COMMON_DEVIATION * self.normal();
        let slow_figures = if at < self.model.slow_hosts { SLOW_FIGURES } else { 0 };
        let slow = self.model.slow_factor.ln();
        let figures = self.model.figures;
        let figure = |figure| {
            let slow = if figure < slow_figures { slow } else { 0.0 };
            common + slow + HOST_DEVIATION * self.normal()
        };
        let truth = (0..figures).map(figure).collect();
        self.truth.push(truth);
        let runs: Vec<Vec<f64>> = (0..self.model.runs).map(|_| self.run(at)).collect();
        self.findings.hosts.push(HostFindings {
            name: format!("host-{at:04}"),
            outcome: HostOutcome::Measured,
            reason: None,
            group: None,
            facts: BTreeMap::new(),
            runs: runs.iter().map(|figures| host_run(figures, false)).collect(),
            verdict: HostVerdict::NotJudged,
            evidence: Vec::new(),
            unsteady: Vec::new(),
            shrunk_factor: 1.0,
            rate_over_time: Vec::new(),
        });
        self.screening.push(runs);
    }

    /// The figures of one run of a host.
    fn run(&mut self, host: usize) -> Vec<f64> {
        let is_disturbed = self.uniform() < self.model.disturbed;
        let truth = self.truth.get(host).cloned().unwrap_or_default();
        let figure = |truth: f64| {
            let is_worse = is_disturbed && self.uniform() < DISTURBED_FIGURES;
            let disturbance = if is_worse { -DISTURBANCE_MEAN * self.uniform().ln() } else { 0.0 };
            truth + disturbance + RUN_DEVIATION * self.normal()
        };
        truth.into_iter().map(figure).collect()
    }

    /// Above 0, at most 1.
    fn uniform(&mut self) -> f64 {
        1.0 - float(self.random.next_u64() >> 11) / float(1 << 53)
    }

    /// By Box and Muller: a sum of uniform numbers has too few far from the mean, where limits for
    /// thousands of tests are.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

fn number(name: &str) -> usize {
    name.trim_start_matches("host-").parse().unwrap_or(usize::MAX)
}

/// Rates and latencies by turns.
fn host_run(figures: &[f64], is_confirmation: bool) -> HostRun {
    let figure = |(at, level): (usize, &f64)| {
        let is_rate = at % 2 == 0;
        let key = FigureKey {
            workload: format!("workload-{at}"),
            target: "data".to_owned(),
            operation: OperationName::Read,
            statistic: if is_rate { HostStatistic::Rate } else { HostStatistic::P99 },
        };
        let logarithm = if is_rate { -level } else { *level };
        HostFigure { key, value: 1000.0 * logarithm.exp() }
    };
    HostRun {
        folder: "run".to_owned(),
        state: RunState::Complete,
        started: "2026-11-30T10:00:00Z".to_owned(),
        is_confirmation,
        figures: figures.iter().enumerate().map(figure).collect(),
    }
}

/// Innocent hosts per campaign and the share of slow hosts found, over campaigns that each give both
/// counts.
pub(super) fn rates(campaigns: &[[usize; 2]], slow_hosts: usize) -> [f64; 2] {
    let sum = |at: usize| count(campaigns.iter().map(|counts| counts[at]).sum());
    let number = count(campaigns.len().max(1));
    [sum(0) / number, sum(1) / (number * count(slow_hosts.max(1)))]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Innocent hosts and slow ones, suspected and named, over campaigns from this seed.
    fn simulated(model: FleetModel, campaigns: u64, first_seed: u64) -> [[usize; 2]; 2] {
        let mut sums = [[0; 2]; 2];
        for seed in first_seed..first_seed + campaigns {
            let mut fleet = SimulatedFleet::new(model, seed);
            let suspects = fleet.named(&[HostVerdict::Suspect]);
            fleet.confirm(seed);
            let slow = fleet.named(&[HostVerdict::Slow]);
            for (sum, counts) in sums.iter_mut().zip([suspects, slow]) {
                sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        }
        eprintln!("seeds from {first_seed}: suspects {:?}, slow {:?}", sums[0], sums[1]);
        sums
    }

    const LARGE: FleetModel = FleetModel {
        hosts: 300,
        figures: 10,
        runs: 3,
        slow_hosts: 5,
        slow_factor: 1.15,
        disturbed: 0.05,
    };

    #[test]
    fn a_large_fleet_has_few_innocent_suspects_and_hardly_one_that_is_called_slow() {
        // The same rules written in Python name 20 innocent suspects in 8 campaigns, call 0.7 innocent
        // hosts slow, and find 38 to 39 of the 40 slow ones.
        let [suspects, slow] = simulated(LARGE, 8, 1);
        assert!((3..=45).contains(&suspects[0]), "{suspects:?}");
        assert!(slow[0] <= 4, "{slow:?}");
        assert!(suspects[1] >= 34 && slow[1] >= 34, "{suspects:?} {slow:?}");
        let [_, slow] = simulated(FleetModel { slow_factor: 1.3, ..LARGE }, 4, 100);
        assert!(slow[1] >= 19 && slow[0] <= 3, "{slow:?}");
    }

    #[test]
    fn a_fleet_without_slow_hosts_and_disturbed_runs_has_hardly_a_suspect() {
        let model = FleetModel { slow_hosts: 0, disturbed: 0.0, ..LARGE };
        // At most 5 % of campaigns have one.
        let [suspects, slow] = simulated(model, 8, 200);
        assert!(suspects[0] <= 4 && slow[0] <= 2, "{suspects:?} {slow:?}");
    }

    #[test]
    fn of_few_hosts_the_slow_one_is_found_and_the_others_are_seldom_named() {
        let model = |hosts| FleetModel { hosts, slow_hosts: 1, slow_factor: 1.3, ..LARGE };
        for (hosts, found_min) in [(6, 28), (10, 34), (20, 36)] {
            // In Python 38, 40 and 40 of 40 are found, and 1 innocent host is called slow.
            let [_, slow] = simulated(model(hosts), 40, 300);
            assert!(slow[0] <= 6, "{hosts} hosts: {slow:?}");
            assert!(slow[1] >= found_min, "{hosts} hosts: {slow:?}");
        }
    }
}
