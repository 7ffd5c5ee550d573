//! Warnings: what was seen, why it matters, what to do.
//!
//! A rule is a function from the basis to any number of warnings, with its threshold as a constant
//! that says where it comes from. A new rule is a function and a line in [`RULES`].

mod campaign;
mod disowned;
mod figures;
mod gaps;
mod machine;
mod storage;

pub(crate) use disowned::disowned;

use durio_analyse::{WarningFinding, WorkloadFindings};

use crate::Basis;

/// A rule.
pub(crate) type Rule = fn(&Basis<'_>) -> Vec<WarningFinding>;

/// Every rule, most severe first.
const RULES: &[Rule] = &[
    gaps::stopped,
    figures::inconsistent,
    figures::clock,
    campaign::time_scale,
    campaign::not_steady,
    campaign::left_state,
    campaign::offered_rate,
    campaign::idle_gap,
    storage::memory_backed,
    figures::page_cache,
    figures::fallback,
    figures::too_short,
    figures::stalls,
    figures::noisy,
    figures::tail_gap,
    figures::submit_latency,
    figures::outside_device,
    figures::unwatched,
    machine::one_core,
    machine::durio_limit,
    machine::system_time,
    machine::steal,
    machine::throttled,
    machine::tracing,
    machine::limits,
    machine::governor,
    storage::raw_reads,
    storage::sparse_files,
    storage::shared_walks,
    figures::notes,
];

/// All warnings that the basis gives.
pub(crate) fn warnings(basis: &Basis<'_>) -> Vec<WarningFinding> {
    RULES.iter().flat_map(|rule| rule(basis)).collect()
}

/// A warning about some workloads or locations.
fn warning(
    code: &str,
    about: Vec<String>,
    seen: impl Into<String>,
    why: &str,
    advice: &str,
) -> WarningFinding {
    WarningFinding {
        code: code.to_owned(),
        about,
        seen: seen.into(),
        why: why.to_owned(),
        advice: advice.to_owned(),
    }
}

/// One warning for all workloads that `seen` says something about; none if there is none.
fn per_workload(
    basis: &Basis<'_>,
    code: &str,
    seen: impl Fn(&WorkloadFindings) -> Option<String>,
    why: &str,
    advice: &str,
) -> Vec<WarningFinding> {
    let several = basis.plan.locations().len() > 1;
    let (mut about, mut texts) = (Vec::new(), Vec::new());
    for workload in basis.workloads {
        if let Some(text) = seen(workload) {
            let name = match several {
                true => format!("{} on {}", workload.name, workload.location),
                false => workload.name.clone(),
            };
            texts.push(format!("{}: {text}", place(workload, &name)));
            if basis.campaign.is_none() || !about.contains(&name) {
                about.push(name);
            }
        }
    }
    if texts.is_empty() {
        return Vec::new();
    }
    vec![warning(code, about, joined(basis, &texts, "step"), why, advice)]
}

/// The name with the levels of its ladder and the round.
fn place(workload: &WorkloadFindings, name: &str) -> String {
    let mut place = name.to_owned();
    for level in &workload.levels {
        place.push_str(&format!(", {} {}", level.axis, level.label));
    }
    if workload.round > 0 {
        place.push_str(&format!(", round {}", workload.round + 1));
    }
    place
}

/// So many steps of a campaign are named one by one; the others are counted.
const NAMED_MAX: usize = 4;

fn joined(basis: &Basis<'_>, texts: &[String], what: &str) -> String {
    match texts.get(..NAMED_MAX) {
        Some(first) if basis.campaign.is_some() && texts.len() > NAMED_MAX => {
            let more = texts.len() - NAMED_MAX;
            let plural = if more == 1 { "" } else { "s" };
            format!("{}; and {more} more {what}{plural}", first.join("; "))
        }
        _ => texts.join("; "),
    }
}

/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
