//! The results of a campaign's steps together: section by section, and of each target as a whole.
//!
//! The plan and the findings of every step, stream and round give [`CampaignFindings`]; reports
//! compute nothing from them. The analyses themselves (ladders, steady state, RAID, search) take
//! numbers and know of no campaign.

pub(crate) mod baseline;
mod curve;
mod declared;
mod row;

#[cfg(test)]
mod tests;

use durio_base::Nanos;
use durio_plan::{
    Campaign, Limit as StepLimit, Plan, PlanSection, Role, SectionKind, Tracking, Until,
};
use durio_record::MemoryMeasured;
use serde::{Deserialize, Serialize};

use crate::measurement::{Measurement, Measurements, whole_intervals};
use crate::steady_state::SteadyState;
use crate::steady_state::leaving::{Better, Leaving, LeavingShape, leaving};
use crate::steering::{judge, search_findings, tracked_series};
use crate::{DeclinedAnalysis, SearchFindings, SelfCost};
use row::RowGroup;

pub use baseline::BaselineFindings;
pub use curve::{Curve, MapCell, MapFindings};
pub use declared::{PricePerformance, SheetDelta, SheetFigure, TargetFindings};
pub use row::{CampaignRow, OfferedLoad, RowBasis, RowLatency, RowPart};

/// Seconds per workload from which the results are not provisional.
// Shorter runs do not see garbage collection, throttling, or the end of a burst credit.
pub(crate) const FULL_SECONDS: u64 = 300;

/// What a campaign shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CampaignFindings {
    pub name: String,
    /// What it shows, and after whom.
    pub summary: String,
    /// Why its figures are provisional, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisional: Option<String>,
    /// Its sections, in the order of the plan; measured steps that are in none come last.
    pub sections: Vec<SectionFindings>,
    /// Results that follow from the spec's facts about its targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetFindings>,
}

/// What a section shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SectionFindings {
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

/// The input of a campaign's findings.
pub(crate) struct CampaignInput<'a> {
    pub(crate) plan: &'a Plan,
    /// Every step, preconditioning too.
    pub(crate) table: &'a Measurements<'a>,
    pub(crate) self_cost: &'a [SelfCost],
    /// How fast memory was copied.
    pub(crate) memory_copied: Option<MemoryMeasured>,
}

/// The findings of the plan's campaign; none if it has none.
pub(crate) fn findings(measured: &CampaignInput<'_>) -> Option<CampaignFindings> {
    let campaign = measured.plan.campaign.as_ref()?;
    let mut sections: Vec<SectionFindings> =
        campaign.sections.iter().map(|planned| section(measured, planned)).collect();
    // Behind the plan's own: positions of sections are indices of the plan's campaign.
    sections.extend(outside(measured, campaign));
    // A baseline may be a later section, so all rows are made before any is compared.
    let baselines: Vec<_> = (0..sections.len())
        .map(|at| baseline::baselines(measured, campaign, &sections, at))
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

fn section(measured: &CampaignInput<'_>, section: &PlanSection) -> SectionFindings {
    let convergence = convergence(measured.table, section);
    let search = section
        .rounds
        .and_then(|rounds| search_findings(measured.plan, section, rounds, measured.table));
    let rounds = RowBasis::of_rounds(convergence.as_ref(), search.as_ref());
    let steps = section.range().filter_map(|step| u32::try_from(step).ok());
    let groups = row::groups(measured.table, steps, rounds);
    let mut found = with_rows(measured, section, &groups);
    (found.convergence, found.search) = (convergence, search);
    found
}

/// Rows, curves and maps of the groups.
fn with_rows(
    measured: &CampaignInput<'_>,
    section: &PlanSection,
    groups: &[RowGroup<'_>],
) -> SectionFindings {
    let mut rows: Vec<CampaignRow> = groups.iter().map(RowGroup::row).collect();
    let curves = curve::curves(&section.kind, &rows);
    curve::set_phases(&mut rows, &curves);
    curve::set_limits(measured, &mut rows, groups, &curves);
    SectionFindings {
        name: section.name.clone(),
        summary: section.summary.clone(),
        kind: section.kind.clone(),
        maps: curve::maps(&section.kind, &rows),
        long_runs: long_runs(groups),
        curves,
        rows,
        convergence: None,
        search: None,
        baselines: Vec::new(),
    }
}

/// Measured steps that are in no section: they are shown, too.
fn outside(measured: &CampaignInput<'_>, campaign: &Campaign) -> Option<SectionFindings> {
    let is_inside = |step: &u32| {
        campaign.sections.iter().any(|section| section.range().contains(&(*step as usize)))
    };
    let steps = measured.plan.measured_steps().map(|step| step.index);
    let groups = row::groups(measured.table, steps.filter(|step| !is_inside(step)), RowBasis::Once);
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

/// The rounds of a section as a series, and the judgement on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// Name of the workload that is tracked.
    pub tracked: String,
    pub tracking: Tracking,
    /// That value in each round: per second, bytes per second, or nanoseconds.
    pub series: Vec<f64>,
    /// The judgement, with the lines of its picture.
    pub state: Option<SteadyState>,
    /// Why the judgement is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<DeclinedAnalysis>,
}

/// The convergence of a section whose rounds end with a steady state.
fn convergence(table: &Measurements<'_>, section: &PlanSection) -> Option<Convergence> {
    let rounds = section.rounds?;
    let Until::SteadyState { tracked, tracking, .. } = rounds.until else { return None };
    let at = |step, round| table.at(step, round).map(|row| row.found);
    let series = tracked_series(section, rounds, rounds.max, at);
    let step = section.first_step.saturating_add(tracked);
    let (state, declined) = DeclinedAnalysis::split(judge(&series, rounds));
    Some(Convergence {
        tracked: at(step, 0).map_or_else(String::new, |found| found.name.clone()),
        tracking,
        series,
        state,
        declined,
    })
}

/// A step whose rate changed while it ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LongRun {
    /// Position of its row in the section.
    pub row: usize,
    /// Index of the step in the plan.
    pub step: u32,
    /// Round of its section.
    pub round: u32,
    /// Place of the load among those of the step.
    pub stream: u32,
    /// How its rate changed, over its measured intervals.
    pub leaving: Leaving,
    /// When the lasting changes were, since the step's start.
    #[serde(rename = "changes_at_ns")]
    pub changes_at: Vec<Nanos>,
}

/// The measured steps that left their state.
fn long_runs(groups: &[RowGroup<'_>]) -> Vec<LongRun> {
    let is_measured =
        |row: &Measurement<'_>| row.step().is_some_and(|step| step.role == Role::Measure);
    let measured = groups.iter().enumerate().filter(|(_, group)| is_measured(&group.first));
    let runs = measured.flat_map(|(at, group)| group.all.iter().map(move |row| (at, row)));
    runs.filter_map(|(at, row)| long_run(at, row)).collect()
}

fn long_run(at: usize, row: &Measurement<'_>) -> Option<LongRun> {
    let whole = whole_intervals(&row.found.intervals);
    let rates: Vec<f64> = whole.iter().map(|point| point.rate).collect();
    // Too few intervals are not a long run.
    let leaving =
        leaving(&rates, Better::Higher).ok().filter(|found| found.shape != LeavingShape::Steady)?;
    let from = |interval: usize| whole.get(interval).map(|point| point.from);
    Some(LongRun {
        row: at,
        step: row.step,
        round: row.round,
        stream: row.stream,
        changes_at: leaving.changes.iter().filter_map(|change| from(change.at_interval)).collect(),
        leaving,
    })
}

/// The share of its durations that a campaign was run with, unless that is all of them.
pub fn time_scale(campaign: &Campaign) -> Option<f64> {
    let scale = campaign.time_scale_per_mille;
    (scale != 0 && scale != 1000).then(|| f64::from(scale) / 1000.0)
}

fn provisional(measured: &CampaignInput<'_>, campaign: &Campaign) -> Option<String> {
    // Thousandths: a product with 100 may have digits behind them.
    let scaled = time_scale(campaign).map(|scale| {
        let percent = (scale * 1000.0).round() / 10.0;
        format!("durations are {percent} % of what the campaign says")
    });
    // Only what ends by the clock: a volume or a count is as long as it is meant to be.
    let timed = |row: &&Measurement<'_>| {
        row.step().is_some_and(|step| {
            step.role == Role::Measure && matches!(step.limit, StepLimit::Duration(_))
        })
    };
    let shortest = measured.table.iter().filter(timed).map(|row| row.measured).min();
    let short = shortest.filter(|time| time.get() < FULL_SECONDS * 1_000_000_000).map(|shortest| {
        format!(
            "the shortest step ran for {shortest}; results are final only from {FULL_SECONDS} s on"
        )
    });
    let reasons: Vec<String> = scaled.into_iter().chain(short).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}
