//! The results of a campaign's steps together: section by section, and of each target as a whole.
//!
//! The plan and the findings of every step, stream and round give [`CampaignFindings`]; reports
//! compute nothing from them. The analyses themselves (ladders, steady state, RAID, search) take
//! numbers and know of no campaign.

pub(crate) mod baseline;
mod curve;
mod declared;
mod evidence;
mod gather;
mod row;
mod steady;

#[cfg(test)]
mod tests;

use durio_plan::{Campaign, Limit as StepLimit, Plan, PlanSection, Role, SectionKind};
use durio_record::MemoryMeasured;
use serde::{Deserialize, Serialize};

use crate::analyser::FULL_SECONDS;
use crate::steering::search_findings;
use crate::{SearchFindings, SelfCost, WorkloadFindings};

pub use baseline::BaselineFindings;
pub use curve::{Curve, MapCell, MapFindings};
pub use declared::{PricePerformance, SheetDelta, SheetFigure, TargetFindings};
pub use row::{CampaignRow, OfferedLoad, RowBasis, RowLatency, RowPart};
pub use steady::{Convergence, LongRun};

/// What a campaign shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CampaignFindings {
    /// Its short name.
    pub name: String,
    /// What it shows, and after whom.
    pub summary: String,
    /// Why its figures are provisional, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisional: Option<String>,
    /// Its sections, in the order of the plan; measured steps that are in none come last.
    pub sections: Vec<SectionFindings>,
    /// What follows from what was said of its targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetFindings>,
}

/// What a section shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SectionFindings {
    /// Its short name.
    pub name: String,
    /// What it shows, in a sentence.
    pub summary: String,
    /// What its steps are to each other.
    #[serde(flatten)]
    pub kind: SectionKind,
    /// One for each step and stream; repetitions and rounds are taken together.
    pub rows: Vec<CampaignRow>,
    /// The curves of a ladder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// The maps of a section with two axes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<MapFindings>,
    /// Whether its rounds came to a steady state, where that was to end them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub convergence: Option<Convergence>,
    /// The highest rate that keeps a goal, where that was to end its rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchFindings>,
    /// Its rows beside those of its baseline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<BaselineFindings>,
    /// Long steps that left their state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub long_runs: Vec<LongRun>,
}

/// The findings of every step, to be found by step and stream.
pub(crate) struct CampaignInput<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) workloads: &'a [WorkloadFindings],
    pub(crate) preconditioning: &'a [WorkloadFindings],
    pub(crate) self_cost: &'a [SelfCost],
    /// How fast memory was copied.
    pub(crate) memory_copied: Option<MemoryMeasured>,
}

/// The findings of the plan's campaign; none if it has none.
pub(crate) fn findings(measured: &CampaignInput<'_>) -> Option<CampaignFindings> {
    let campaign = measured.plan.campaign.as_ref()?;
    let index = gather::FindingsIndex::of(measured);
    let mut sections: Vec<SectionFindings> =
        campaign.sections.iter().map(|it| section(measured, &index, it)).collect();
    // Behind the plan's own: positions of sections are indices of the plan's campaign.
    sections.extend(outside(measured, &index, campaign));
    // A baseline may be a later section, so all rows are made before any is compared.
    let baselines: Vec<_> = (0..sections.len())
        .map(|at| baseline::baselines(measured, &index, campaign, &sections, at))
        .collect();
    for (section, found) in sections.iter_mut().zip(baselines) {
        section.baselines = found;
    }
    Some(CampaignFindings {
        name: campaign.name.clone(),
        summary: campaign.summary.clone(),
        provisional: provisional(measured, campaign),
        targets: declared::targets(measured, campaign, &sections),
        sections,
    })
}

fn section(
    measured: &CampaignInput<'_>,
    index: &gather::FindingsIndex<'_>,
    section: &PlanSection,
) -> SectionFindings {
    let convergence = steady::convergence(index, section);
    let search = section
        .rounds
        .and_then(|rounds| search_findings(measured.plan, section, rounds, measured.workloads));
    let rounds = RowBasis::of_rounds(convergence.as_ref(), search.as_ref());
    let steps = section.range().filter_map(|step| u32::try_from(step).ok());
    let groups = gather::groups(index, steps, rounds);
    let mut found = with_rows(measured, section, &groups);
    (found.convergence, found.search) = (convergence, search);
    found
}

/// Rows, curves and maps of the groups.
fn with_rows(
    measured: &CampaignInput<'_>,
    section: &PlanSection,
    groups: &[gather::RowGroup<'_>],
) -> SectionFindings {
    let mut rows: Vec<CampaignRow> = groups.iter().map(|group| row::row(group)).collect();
    let curves = curve::curves(&section.kind, &rows);
    curve::set_phases(&mut rows, &curves);
    evidence::set_limits(measured, &mut rows, groups, &curves);
    SectionFindings {
        name: section.name.clone(),
        summary: section.summary.clone(),
        kind: section.kind.clone(),
        maps: curve::maps(&section.kind, &rows),
        long_runs: steady::long_runs(measured.plan, groups),
        curves,
        rows,
        convergence: None,
        search: None,
        baselines: Vec::new(),
    }
}

/// Measured steps that are in no section: they are shown, too.
fn outside(
    measured: &CampaignInput<'_>,
    index: &gather::FindingsIndex<'_>,
    campaign: &Campaign,
) -> Option<SectionFindings> {
    let is_inside =
        |step: u32| campaign.sections.iter().any(|it| it.range().contains(&(step as usize)));
    let steps = measured.plan.measured_steps().map(|step| step.index);
    let groups = gather::groups(index, steps.filter(|it| !is_inside(*it)), RowBasis::Once);
    let section = PlanSection {
        name: "other steps".to_owned(),
        summary: "measured steps that are in no section".to_owned(),
        kind: SectionKind::Single,
        first_step: 0,
        steps: 0,
        rounds: None,
        baseline: None,
    };
    (!groups.is_empty()).then(|| with_rows(measured, &section, &groups))
}

/// The share of its durations that a campaign was run with, unless that is all of them.
pub fn time_scale(campaign: &Campaign) -> Option<f64> {
    let scale = campaign.time_scale_per_mille;
    (scale != 0 && scale != 1000).then(|| f64::from(scale) / 1000.0)
}

fn provisional(measured: &CampaignInput<'_>, campaign: &Campaign) -> Option<String> {
    let scaled = time_scale(campaign)
        .map(|scale| format!("durations are {} % of what the campaign says", scale * 100.0));
    // Only what ends by the clock: a volume or a count is as long as it is meant to be.
    let timed = |it: &&WorkloadFindings| {
        let step = measured.plan.steps.get(it.step as usize);
        step.is_some_and(|step| {
            step.role == Role::Measure && matches!(step.limit, StepLimit::Duration(_))
        })
    };
    let shortest = measured.workloads.iter().filter(timed).map(|it| it.measured).min();
    let short = shortest.filter(|it| it.get() < FULL_SECONDS * 1_000_000_000).map(|shortest| {
        format!("the shortest step was measured for {shortest}; figures are final only for runs of {FULL_SECONDS} s or more")
    });
    let reasons: Vec<String> = scaled.into_iter().chain(short).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}
