//! A campaign in the page: tables, pictures and sentences, section by section.
//!
//! In: findings. Out: the part of the page. Not here: the words, which the terminal shares.

use std::io;

use askama::Template;
use durio_analyse::campaign::{CampaignFindings, Curve, LongRun, Row, SectionFindings};
use durio_analyse::{Findings, WorkloadFindings};

use super::ValuesByName;
use super::charts::{convergence, heat_map, latency_at_rate, levels, over_time, search};
use super::sections::{Picture, hoverable, printed};
use crate::campaign_facts::{
    Said, baseline, convergence as convergence_words, curve_facts, ladder_rules, limits, long_run,
    row_name, target_facts, target_name,
};
use crate::campaign_table::{
    Room, SectionTable, axis_name, basis_note, section_table, trials_table,
};
use crate::figures::ABSENT_NOTE;

/// Long runs are drawn up to as many, each with as many points: the page stays small.
const LONG_RUNS_MAX: usize = 12;
const POINTS_MAX: usize = 400;

/// What the template is filled with.
#[derive(Debug, Template)]
#[template(path = "campaign.html")]
pub(super) struct CampaignPart {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) sections: Vec<SectionPart>,
    pub(super) targets: Vec<FactGroup>,
    pub(super) absent_note: Option<&'static str>,
}

/// A section.
#[derive(Debug)]
pub(super) struct SectionPart {
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) tables: Vec<SectionTable>,
    pub(super) note: Option<String>,
    pub(super) pictures: Vec<Picture>,
    pub(super) said: Vec<FactGroup>,
    pub(super) rules: Option<String>,
}

/// Named facts under a title, which may be empty.
#[derive(Debug)]
pub(super) struct FactGroup {
    pub(super) title: String,
    pub(super) facts: Vec<Said>,
}

/// The part of the page; values of charts that can be hovered over go into `values`.
pub(super) fn part(
    findings: &Findings,
    campaign: &CampaignFindings,
    values: &mut ValuesByName,
) -> io::Result<CampaignPart> {
    let mut sections = Vec::with_capacity(campaign.sections.len());
    let mut drawn = 0;
    for section in &campaign.sections {
        let mut pictures = pictures(section)?;
        for run in section.long_runs.iter().take(LONG_RUNS_MAX - drawn) {
            pictures.extend(over_the_run(findings, section, run, drawn, values)?);
            drawn += 1;
        }
        sections.push(SectionPart {
            name: section.name.clone(),
            summary: section.summary.clone(),
            tables: tables(section),
            note: basis_note(section),
            pictures,
            said: said(campaign, section),
            rules: ladder_rules(section),
        });
    }
    let target = |it| FactGroup { title: target_name(it), facts: target_facts(it) };
    let is_absent = sections.iter().flat_map(|it| &it.tables).any(SectionTable::has_absent);
    Ok(CampaignPart {
        kind: if findings.profile.is_some() { "Profile" } else { "Campaign" },
        name: campaign.name.clone(),
        summary: campaign.summary.clone(),
        sections,
        targets: campaign.targets.iter().map(target).collect(),
        absent_note: is_absent.then_some(ABSENT_NOTE),
    })
}

/// The figures, and the trials of a search.
fn tables(section: &SectionFindings) -> Vec<SectionTable> {
    let figures = section_table(section, Room::Wide);
    let tables = std::iter::once(figures).chain(section.search.as_ref().map(trials_table));
    tables.filter(|table| !table.rows.is_empty()).collect()
}

fn pictures(section: &SectionFindings) -> io::Result<Vec<Picture>> {
    let mut pictures = Vec::new();
    for curve in &section.curves {
        pictures.extend(of_curve(section, curve)?);
    }
    for map in &section.maps {
        let axis = |levels: &[durio_plan::Level]| {
            levels.first().map_or_else(String::new, |level| axis_name(&level.axis))
        };
        let title = format!(
            "{}: p99 by {} (to the right) and {} (upwards); darker is slower",
            map.name,
            axis(&map.x),
            axis(&map.y)
        );
        pictures.push(printed(title, heat_map(section, map)?));
    }
    if let Some(found) = &section.convergence
        && let Some(chart) = convergence(found)?
    {
        pictures.push(printed(format!("{} round by round", found.tracked), chart));
    }
    if let Some(found) = &section.search
        && let Some(chart) = search(found)?
    {
        let title = format!("p{} of the response at the rates tried", found.goal.percentile);
        pictures.push(printed(title, chart));
    }
    Ok(pictures)
}

fn of_curve(section: &SectionFindings, curve: &Curve) -> io::Result<Vec<Picture>> {
    let rows: Vec<&Row> = curve.rows.iter().filter_map(|at| section.rows.get(*at)).collect();
    if rows.len() < 2 {
        return Ok(Vec::new());
    }
    let mut pictures = Vec::new();
    if let Some(chart) = latency_at_rate(curve, &rows)? {
        pictures.push(printed(format!("{}: latency against IOPS", curve.name), chart));
    }
    let title = format!("{}: rate and latency by {}", curve.name, axis_name(&curve.axis));
    pictures.push(printed(title, levels(curve, &rows)?));
    Ok(pictures)
}

/// The time series of a long run, with its changes.
fn over_the_run(
    findings: &Findings,
    section: &SectionFindings,
    run: &LongRun,
    drawn: usize,
    values: &mut ValuesByName,
) -> io::Result<Option<Picture>> {
    let is_it = |it: &&WorkloadFindings| {
        (it.step, it.round, it.stream) == (run.step, run.round, run.stream)
    };
    let Some(workload) = findings.workloads.iter().find(is_it) else { return Ok(None) };
    let name = section.rows.get(run.row).map_or_else(String::new, row_name);
    let chart = over_time(workload, POINTS_MAX, &run.changes_at)?;
    let title = format!("{name} over time");
    Ok(chart.map(|chart| hoverable(format!("run-{drawn}"), &title, chart, values)))
}

/// What is to be read from the figures of a section.
fn said(campaign: &CampaignFindings, section: &SectionFindings) -> Vec<FactGroup> {
    let mut groups = Vec::new();
    for curve in &section.curves {
        groups.push(FactGroup { title: curve.name.clone(), facts: curve_facts(section, curve) });
    }
    let mut facts: Vec<Said> = Vec::new();
    let steady = section.convergence.as_ref();
    facts.extend(steady.map(|found| ("steady state", convergence_words(found))));
    facts.extend(section.search.as_ref().map(|found| ("goal", found.sentence.clone())));
    facts.extend(
        section
            .baselines
            .iter()
            .filter_map(|it| Some(("baseline", baseline(campaign, section.rows.get(it.row)?, it)))),
    );
    facts.extend(section.long_runs.iter().map(|run| ("over time", long_run(section, run))));
    groups.push(FactGroup { title: String::new(), facts });
    let limits = limits(section);
    let limits = limits.into_iter().collect();
    groups.push(FactGroup { title: "What limited it".to_owned(), facts: limits });
    groups.retain(|group| !group.facts.is_empty());
    groups
}
