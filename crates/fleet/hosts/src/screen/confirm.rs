//! Confirmation: fresh runs of suspects, and of as many other hosts at the same time.
//!
//! Screening picks the worst of thousands of results, whose luck does not last: only data that was not
//! used to pick can name a host. The other hosts' runs show what all of them met at that time.

use std::collections::BTreeSet;

use durio_base::stats::least_squares::{count, mean, median};
use durio_base::stats::multiple::holm;
use durio_base::stats::repeats::{Mean, Shift};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::levels::{FigureLevels, HostLevel, p_worse};
use super::outliers::is_judged;
use crate::findings::{
    FleetDoubtKind, FleetFindings, HostEvidence, HostFindings, HostOutcome, HostVerdict,
};

/// Fewest fresh runs of a host that decide.
const FRESH_RUNS_MIN: usize = 5;

/// The suspects' fresh runs against those of the other hosts, in every figure that both have enough
/// of, the error over all of them by Holm.
// In all figures, not only in those of the screening: in a simulation of 1,000 hosts that calls a tenth
// as many innocent hosts slow, and finds as many that are 15 % slow.
pub(super) fn confirm(
    levels: &[Vec<FigureLevels>],
    suspects: &BTreeSet<usize>,
) -> Vec<(usize, HostEvidence)> {
    let mut found: Vec<(usize, HostEvidence)> = Vec::new();
    for figure in levels.iter().flatten().filter(|figure| is_judged(figure)) {
        for host in figure.hosts.iter().filter(|host| suspects.contains(&host.host)) {
            let evidence = against_controls(figure, host, suspects);
            found.extend(evidence.map(|evidence| (host.host, evidence)));
        }
    }
    let p_values: Vec<f64> = found.iter().map(|(_, evidence)| evidence.p).collect();
    found.iter_mut().zip(holm(&p_values)).for_each(|((_, evidence), p)| evidence.p = p);
    found
}

/// A suspect's fresh runs against those of hosts of its group that are not suspect; `None` with too
/// few of either.
fn against_controls(
    figure: &FigureLevels,
    host: &HostLevel,
    suspects: &BTreeSet<usize>,
) -> Option<HostEvidence> {
    let has_fresh = |host: &&HostLevel| host.fresh.len() >= FRESH_RUNS_MIN;
    if !has_fresh(&host) {
        return None;
    }
    let innocent = || figure.hosts.iter().filter(move |level| !suspects.contains(&level.host));
    let controls: Vec<&HostLevel> = innocent().filter(has_fresh).collect();
    let medians: Vec<f64> = controls.iter().filter_map(|control| median(&control.fresh)).collect();
    let reference = mean(&medians)?;
    let value = median(&host.fresh)? - reference;
    // Innocent hosts differ as well: a suspect must be worse than they scatter, and not only worse
    // than the controls, which may happen to be fast.
    let levels: Vec<f64> = innocent().map(|level| level.level).collect();
    let hosts = Mean::of(&levels)?;
    let variance = hosts.variance * count(levels.len());
    let error = (variance * (1.0 + 1.0 / count(medians.len()))).sqrt();
    let fresh: Vec<f64> = controls.iter().flat_map(|control| &control.fresh).copied().collect();
    let by_runs = Shift::between(Mean::of(&fresh)?, Mean::of(&host.fresh)?);
    Some(HostEvidence {
        key: figure.key.clone(),
        value: figure.value(value + reference + host.explained),
        group_median: figure.value(reference + host.explained),
        factor: value.exp(),
        interval: Some(Shift { value, ..by_runs }.interval().map(f64::exp)),
        p: p_worse(&Shift { value, error, freedom: hosts.freedom }),
        is_confirmed: true,
    })
}

/// The hosts whose fresh runs decide about the suspects: these, and in each of their groups as many
/// other hosts at random. The same seed chooses the same hosts.
pub fn choose_for_confirmation(findings: &FleetFindings, seed: u64) -> Vec<String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut chosen = Vec::new();
    // They may be measured by the runs before, and cannot be asked for more.
    let silent = findings.doubts.iter().filter(|doubt| doubt.kind == FleetDoubtKind::Lost);
    let silent: BTreeSet<&String> = silent.flat_map(|doubt| &doubt.hosts).collect();
    let can_be_asked = |host: &&HostFindings| is_control(host) && !silent.contains(&host.name);
    for group in 0..findings.groups.len() {
        let members = || findings.hosts.iter().filter(move |host| host.group == Some(group));
        let suspects: Vec<&HostFindings> =
            members().filter(|host| host.verdict == HostVerdict::Suspect).collect();
        let mut others: Vec<&str> =
            members().filter(can_be_asked).map(|host| host.name.as_str()).collect();
        // Their order in the findings is that of their effects.
        others.sort_unstable();
        let mut drawn: Vec<(u64, &str)> =
            others.into_iter().map(|name| (random.next_u64(), name)).collect();
        drawn.sort_unstable();
        chosen.extend(suspects.iter().map(|host| host.name.clone()));
        chosen.extend(drawn.iter().take(suspects.len()).map(|(_, name)| (*name).to_owned()));
    }
    chosen
}

/// True for a host that others may be compared with, and that can be asked for runs.
fn is_control(host: &HostFindings) -> bool {
    let is_like_others =
        matches!(host.verdict, HostVerdict::Alike | HostVerdict::Cleared | HostVerdict::Unsteady);
    is_like_others && matches!(host.outcome, HostOutcome::Measured | HostOutcome::Partial)
}
