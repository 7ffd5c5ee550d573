//! A campaign, section by section: a table, the findings of its curves, the limits of its rows.

mod charts;
mod sentences;
mod table;

use durio_analyse::campaign::{CampaignFindings, LongRun, SectionFindings, TargetFindings};
use durio_analyse::{Findings, WorkloadFindings};

use super::over_time::over_time;
use crate::document::chart::Chart;
use crate::document::{Cell, DetailLevel, Document, Section, SectionBody, Table, Tone};

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
    let level = match campaign.sections.as_slice() {
        // Its table has said it, in the database's words.
        _ if findings.prediction.is_some() => DetailLevel::Detail,
        [] | [_] => DetailLevel::Summary,
        _ => {
            document.push(glance(campaign));
            DetailLevel::Detail
        }
    };
    for it in &campaign.sections {
        let mut section = Section { level, ..section(campaign, it) };
        // The bound is of the page and not of a section.
        let runs = it.long_runs.iter().take(LONG_RUNS_MAX - drawn);
        let charts: Vec<Chart> = runs.filter_map(|run| over_the_run(findings, it, run)).collect();
        drawn += charts.len();
        section.charts(charts);
        document.push(section);
    }
    campaign.targets.iter().for_each(|declared| document.push(target(declared)));
    // The rules are the same for all curves; they are said once, with the notes.
    campaign.sections.iter().find_map(sentences::ladder_rules)
}

fn target(it: &TargetFindings) -> Section {
    let mut section = Section::detail(format!("Declared: {}", sentences::target_name(it)));
    section.facts(sentences::target_facts(it));
    section
}

/// The sections side by side: the slowest and the fastest rate of each, and its findings.
fn glance(campaign: &CampaignFindings) -> Section {
    let mut section = Section::new("Sections");
    let row = |section: &SectionFindings| {
        let rates = || section.rows.iter().filter(|row| row.stream == 0);
        let slowest = rates().min_by(|a, b| a.rate.total_cmp(&b.rate));
        let fastest = rates().max_by(|a, b| a.rate.total_cmp(&b.rate));
        vec![
            Cell::text(section.name.as_str()),
            Cell::Count(section.rows.len() as u64),
            Cell::or_absent(slowest, |row| Cell::Rate(row.rate)),
            Cell::or_absent(fastest, |row| Cell::Rate(row.rate)),
            Cell::of(fastest, |row| Cell::text(table::label(section, row))),
            Cell::of(fastest, |row| {
                Cell::of(row.service.as_ref(), |service| Cell::percentile(service.p99_ns))
            }),
        ]
    };
    let titles = ["section", "rows", "lowest /s", "highest /s", "highest at", "its p99"];
    let table = Table::new(titles).with_words(&["highest at"]);
    section.table(table.with(campaign.sections.iter().map(row)));
    // The answers to the user's questions.
    for it in &campaign.sections {
        answers(it).into_iter().for_each(|(tone, text)| section.toned(tone, &it.name, text));
    }
    section
}

/// Whether a section became steady, and whether its goal holds.
fn answers(it: &SectionFindings) -> Vec<(Tone, String)> {
    let steady = it.convergence.iter().map(|found| {
        let is_steady = found.state.as_ref().is_some_and(|state| state.attained_at.is_some());
        (if is_steady { Tone::Good } else { Tone::Warning }, sentences::convergence(found))
    });
    let goal = it.search.iter().map(|found| {
        (if found.settled { Tone::Good } else { Tone::Warning }, found.sentence.clone())
    });
    steady.chain(goal).collect()
}

fn section(campaign: &CampaignFindings, it: &SectionFindings) -> Section {
    let mut section = Section::new(&it.name);
    section.note(&it.summary);
    if it.rows.is_empty() {
        section.warn("nothing was measured");
        return section;
    }
    // A terminal has the map itself; the table of its cells would be a row for each pair.
    let level = if it.maps.is_empty() { DetailLevel::Summary } else { DetailLevel::Detail };
    section.push(level, SectionBody::Table(table::figures(it)));
    section.charts(it.maps.iter().map(|map| charts::map(it, map)));
    table::basis_note(it).into_iter().for_each(|note| section.note(note));
    conclusions(campaign, it, &mut section);
    section
}

fn conclusions(campaign: &CampaignFindings, it: &SectionFindings, section: &mut Section) {
    section.charts(charts::together(it));
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
    for (tone, text) in answers(it) {
        let label = if it.search.is_some() { "goal" } else { "steady state" };
        section.toned(tone, label, text);
    }
    section.charts(it.convergence.iter().map(charts::convergence));
    if let Some(found) = &it.search {
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
        let level = if at < BASELINES_MAX { DetailLevel::Summary } else { DetailLevel::Detail };
        section.toned_at(level, Tone::Plain, "baseline", text);
    }
    if let Some(more) = it.baselines.len().checked_sub(BASELINES_MAX).filter(|more| *more > 0) {
        section.note(format!("{more} more baselines are only in the HTML page"));
    }
}

fn over_the_run(findings: &Findings, section: &SectionFindings, run: &LongRun) -> Option<Chart> {
    let is_it = |workload: &&WorkloadFindings| {
        (workload.step, workload.round, workload.stream) == (run.step, run.round, run.stream)
    };
    let workload = findings.workloads.iter().find(is_it)?;
    let name = section.rows.get(run.row).map_or_else(String::new, sentences::row_name);
    over_time(format!("{name} over time"), workload, POINTS_MAX, &run.changes_at)
}
