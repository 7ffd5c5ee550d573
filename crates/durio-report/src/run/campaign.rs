//! A campaign, section by section: a table, what its curves say, what limited its rows.
//!
//! In: findings. Out: sections. Not here: any figure that the findings do not have.

mod charts;
mod sentences;
mod table;

use durio_analyse::campaign::{CampaignFindings, LongRun, SectionFindings, TargetFindings};
use durio_analyse::{Findings, WorkloadFindings};

use super::over_time::over_time;
use crate::document::chart::Chart;
use crate::document::{Body, Document, Fact, Level, Section, Tone};

// Baselines are shown one by one up to as many where room is short.
const BASELINES_MAX: usize = 12;

// Long runs are drawn up to as many, each with as many points: the page stays small.
const LONG_RUNS_MAX: usize = 12;
const POINTS_MAX: usize = 400;

/// Adds the campaign; gives the rules by which its curves are read.
pub(super) fn add(
    findings: &Findings,
    campaign: &CampaignFindings,
    document: &mut Document,
) -> Option<String> {
    let mut drawn = 0;
    for it in &campaign.sections {
        let mut section = section(campaign, it);
        // The bound is of the page and not of a section.
        let runs = it.long_runs.iter().take(LONG_RUNS_MAX - drawn);
        let charts: Vec<Chart> = runs.filter_map(|run| over_the_run(findings, it, run)).collect();
        let charts = charts.into_iter().map(|chart| {
            drawn += 1;
            chart.with_id(format!("run-{drawn}"))
        });
        section.charts(charts);
        document.push(section);
    }
    campaign.targets.iter().for_each(|it| document.push(target(it)));
    // The rules are the same for all curves; they are said once, with the notes.
    campaign.sections.iter().find_map(sentences::ladder_rules)
}

fn target(it: &TargetFindings) -> Section {
    let mut section = Section::new(format!("Declared: {}", sentences::target_name(it)));
    section.facts(sentences::target_facts(it));
    section
}

fn section(campaign: &CampaignFindings, it: &SectionFindings) -> Section {
    let mut section = Section::new(&it.name);
    section.note(&it.summary);
    if it.rows.is_empty() {
        section.say(Tone::Warning, "nothing was measured");
        return section;
    }
    // A terminal has the map itself; the table of its cells would be a row for each pair.
    let level = if it.maps.is_empty() { Level::Summary } else { Level::Detail };
    section.push(level, Body::Table(table::figures(it)));
    section.charts(it.maps.iter().map(|map| charts::map(it, map)));
    table::basis_note(it).into_iter().for_each(|note| section.note(note));
    conclusions(campaign, it, &mut section);
    section
}

fn conclusions(campaign: &CampaignFindings, it: &SectionFindings, section: &mut Section) {
    for curve in &it.curves {
        let mut of_curve = Section::new(&curve.name);
        of_curve.charts(charts::curve(it, curve));
        of_curve.facts(sentences::curve_facts(it, curve));
        // A heading over the only curve would repeat that of the section.
        match it.curves.len() {
            1 => section.blocks.extend(of_curve.blocks),
            _ => section.group(of_curve),
        }
    }
    if let Some(found) = &it.convergence {
        let is_steady = found.state.as_ref().is_some_and(|it| it.attained_at.is_some());
        let tone = if is_steady { Tone::Good } else { Tone::Warning };
        section.toned(tone, "steady state", sentences::convergence(found));
        section.charts([charts::convergence(found)]);
    }
    if let Some(found) = &it.search {
        let tone = if found.settled { Tone::Good } else { Tone::Warning };
        section.toned(tone, "goal", &found.sentence);
        section.table(table::trials(found));
        section.charts([charts::search(found)]);
    }
    baselines(campaign, it, section);
    for run in &it.long_runs {
        let tone = if run.leaving.is_worse { Tone::Warning } else { Tone::Plain };
        section.toned(tone, "over time", sentences::long_run(it, run));
    }
    let limits = sentences::limits(it).into_iter();
    section.facts(limits.map(|(word, text)| ("limit", format!("{word}: {text}"))));
}

fn baselines(campaign: &CampaignFindings, it: &SectionFindings, section: &mut Section) {
    for (at, baseline) in it.baselines.iter().enumerate() {
        let Some(row) = it.rows.get(baseline.row) else { continue };
        let text = sentences::baseline(campaign, row, baseline);
        let level = if at < BASELINES_MAX { Level::Summary } else { Level::Detail };
        section.fact_at(level, Fact::new(Tone::Plain, "baseline", text));
    }
    if let Some(more) = it.baselines.len().checked_sub(BASELINES_MAX).filter(|more| *more > 0) {
        section.note(format!("{more} of the baselines are in the page alone"));
    }
}

fn over_the_run(findings: &Findings, section: &SectionFindings, run: &LongRun) -> Option<Chart> {
    let is_it = |it: &&WorkloadFindings| {
        (it.step, it.round, it.stream) == (run.step, run.round, run.stream)
    };
    let workload = findings.workloads.iter().find(is_it)?;
    let name = section.rows.get(run.row).map_or_else(String::new, sentences::row_name);
    over_time(format!("{name} over time"), workload, POINTS_MAX, &run.changes_at)
}
