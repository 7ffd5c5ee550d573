//! A campaign, section by section: a table, what its curve says, what limited its rows.

use durio_analyse::SearchFindings;
use durio_analyse::campaign::{CampaignFindings, Curve, MapFindings, SectionFindings};

use super::page::{Look, Page};
use super::table::{TextCell, TextTable};
use crate::campaign_facts::{
    baseline, convergence, curve_facts, ladder_rules, limits, long_run, target_facts, target_name,
};
use crate::campaign_table::{
    Room, SectionTable, axis_name, basis_note, is_ladder, section_table, trials_table,
};
use crate::figures::{ABSENT_NOTE, latency_or_absent, rate_bare};

/// The widest label: steady state.
const LABEL_WIDTH: usize = 12;

/// Baselines are shown one by one up to as many.
const BASELINES_MAX: usize = 12;

/// The campaign's name, as what `kind` says, and what it shows.
pub(super) fn title(kind: &str, campaign: &CampaignFindings, page: &mut Page) {
    page.paragraph("  ", Look::Bold, &format!("{kind} {}", campaign.name));
    page.paragraph("  ", Look::Plain, &campaign.summary);
}

pub(super) fn write(campaign: &CampaignFindings, page: &mut Page) {
    let mut is_any_absent = false;
    let mut rules = None;
    for section in &campaign.sections {
        is_any_absent |= of_section(campaign, section, page);
        rules = rules.or_else(|| ladder_rules(section));
    }
    for target in &campaign.targets {
        page.heading(&format!("Declared: {}", target_name(target)));
        for (label, text) in target_facts(target) {
            page.labelled(label, LABEL_WIDTH, Look::Plain, &text);
        }
    }
    page.blank();
    if let Some(rule) = rules {
        page.paragraph("  ", Look::Dim, &rule);
    }
    if is_any_absent {
        page.paragraph("  ", Look::Dim, ABSENT_NOTE);
    }
}

/// Writes a section; true if a percentile is absent.
fn of_section(campaign: &CampaignFindings, section: &SectionFindings, page: &mut Page) -> bool {
    page.heading(&section.name);
    page.paragraph("  ", Look::Dim, &section.summary);
    if section.rows.is_empty() {
        page.paragraph("  ", Look::Warning, "nothing was measured");
        return false;
    }
    let is_absent = match section.maps.as_slice() {
        [] => figures(&section_table(section, Room::Narrow), page),
        maps => {
            maps.iter().for_each(|it| map(section, it, page));
            false
        }
    };
    if let Some(note) = basis_note(section) {
        page.paragraph("  ", Look::Dim, &note);
    }
    conclusions(campaign, section, page);
    is_absent
}

pub(super) fn figures(table: &SectionTable, page: &mut Page) -> bool {
    let mut shown = TextTable::new(page, &table.header);
    for row in &table.rows {
        let mut cells = row.cells.iter();
        let label = cells.next().map_or("", String::as_str);
        let label = match row.is_part {
            true => format!("  {label}").into(),
            false => TextCell::bold(label),
        };
        shown.add_row(std::iter::once(label).chain(cells.map(TextCell::from)));
    }
    shown.put(page);
    table.has_absent()
}

/// What is to be read from the figures of a section.
fn conclusions(campaign: &CampaignFindings, section: &SectionFindings, page: &mut Page) {
    let several = section.curves.len() > 1;
    for curve in &section.curves {
        if several {
            page.paragraph("  ", Look::Bold, &curve.name);
        }
        sparklines(section, curve, page);
        for (label, text) in curve_facts(section, curve) {
            page.labelled(label, LABEL_WIDTH, Look::Plain, &text);
        }
    }
    if let Some(found) = &section.convergence {
        let steady = found.state.as_ref().is_some_and(|it| it.attained_at.is_some());
        let look = if steady { Look::Good } else { Look::Warning };
        page.labelled("steady state", LABEL_WIDTH, look, &convergence(found));
        page.labelled("rounds", LABEL_WIDTH, Look::Plain, &sparkline(found.series.iter().copied()));
    }
    if let Some(found) = &section.search {
        search(found, page);
    }
    for it in section.baselines.iter().take(BASELINES_MAX) {
        let Some(row) = section.rows.get(it.row) else { continue };
        page.labelled("baseline", LABEL_WIDTH, Look::Plain, &baseline(campaign, row, it));
    }
    if section.baselines.len() > BASELINES_MAX {
        let more = section.baselines.len() - BASELINES_MAX;
        page.labelled("", LABEL_WIDTH, Look::Dim, &format!("and {more} more in the page"));
    }
    for run in &section.long_runs {
        let look = if run.leaving.is_worse { Look::Warning } else { Look::Plain };
        page.labelled("over time", LABEL_WIDTH, look, &long_run(section, run));
    }
    for (word, text) in limits(section) {
        page.labelled("limit", LABEL_WIDTH, Look::Plain, &format!("{word}: {text}"));
    }
}

/// Rate and latency over the levels, each on its own scale.
fn sparklines(section: &SectionFindings, curve: &Curve, page: &mut Page) {
    let rows = || curve.rows.iter().filter_map(|at| section.rows.get(*at));
    if !is_ladder(section) || rows().count() < 2 {
        return;
    }
    let text = format!(
        "rate {}  mean latency {}  by {}",
        sparkline(rows().map(|row| row.rate)),
        sparkline(rows().map(|row| row.service.map_or(0.0, |it| it.mean_ns))),
        axis_name(&curve.axis)
    );
    page.labelled("curve", LABEL_WIDTH, Look::Plain, &text);
}

/// Bars from nothing to the highest figure, one for each.
fn sparkline(figures: impl Iterator<Item = f64> + Clone) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = figures.clone().fold(0.0, f64::max);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let bar = |figure: f64| {
        let eighths = (figure / highest * 8.0).ceil() as usize;
        BARS[eighths.clamp(1, 8) - 1]
    };
    figures.map(bar).collect()
}

fn map(section: &SectionFindings, map: &MapFindings, page: &mut Page) {
    let axis = |levels: &[durio_plan::Level]| {
        levels.first().map_or_else(String::new, |it| axis_name(&it.axis))
    };
    let (x, y) = (axis(&map.x), axis(&map.y));
    let heading = format!("{}: IOPS and p99 by {x} (across) and {y} (down)", map.name);
    page.paragraph("  ", Look::Bold, &heading);
    let mut header = vec![y];
    header.extend(map.x.iter().map(|level| level.label.clone()));
    let mut table = TextTable::new(page, header);
    for (up, level) in map.y.iter().enumerate() {
        let mut cells = vec![level.label.clone()];
        cells.extend((0..map.x.len()).map(|across| {
            let cell = map.cells.iter().find(|it| (it.x, it.y) == (across, up));
            let row = cell.and_then(|cell| section.rows.get(cell.row));
            row.map_or_else(String::new, |row| {
                let p99 = latency_or_absent(row.service.and_then(|it| it.p99_ns));
                format!("{} · {p99}", rate_bare(row.rate))
            })
        }));
        table.add_row(cells);
    }
    table.put(page);
}

fn search(found: &SearchFindings, page: &mut Page) {
    let look = if found.settled { Look::Good } else { Look::Warning };
    page.labelled("goal", LABEL_WIDTH, look, &found.sentence);
    figures(&trials_table(found), page);
}
