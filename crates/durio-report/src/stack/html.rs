//! A bench of stacks as one page for a browser, which needs nothing but itself.
//!
//! In: findings. Out: one HTML file with style and charts inside, without any script, and forbidden
//! by its own policy to ask anybody for anything. Not here: the words, which the terminal shares,
//! and the charts.

use std::io;

use askama::Template;
use durio_analyse::attribution::{StackFindings, WorkloadRows};

use super::ladders::{LADDER_NOTE, Ladder, ladders};
use super::pictures::{Picture, pictures};
use super::tables::{ARRAYS_NOTE, Grid, array_words, arrays, costs, published, rates};
use super::words;
use crate::html::STYLE;
use crate::visible::visible_lines;

/// What the template is filled with; all text in it is escaped there.
#[derive(Template)]
#[template(path = "stack.html")]
struct StackPage<'a> {
    findings: &'a StackFindings,
    version: &'static str,
    style: &'static str,
    head: String,
    failures: Vec<(String, &'a str)>,
    workloads: Vec<WorkloadPart<'a>>,
}

struct WorkloadPart<'a> {
    label: String,
    tables: Vec<TablePart>,
    remarks: Vec<String>,
    pictures: Vec<Picture>,
    models: Vec<String>,
    order: Option<&'a str>,
}

/// A table with what is said under it.
struct TablePart {
    title: String,
    grid: Grid,
    note: &'static str,
}

pub(super) fn write(findings: &StackFindings, out: &mut dyn io::Write) -> io::Result<()> {
    let overviews = ladders(findings);
    let overviews = overviews.iter().map(|it| overview(findings, it));
    let parts = overviews.chain(findings.workloads.iter().map(|it| part(findings, it)));
    let mut parts: Vec<WorkloadPart<'_>> = parts.collect::<io::Result<_>>()?;
    say_once(&mut parts);
    let failed = findings.points.iter().enumerate();
    let failed = failed
        .filter_map(|(at, point)| Some((words::row_name(findings, at), point.failure.as_deref()?)));
    let page = StackPage {
        findings,
        version: env!("CARGO_PKG_VERSION"),
        style: STYLE,
        head: words::head(findings),
        failures: failed.collect(),
        workloads: parts,
    };
    let html = page.render().map_err(io::Error::other)?;
    out.write_all(visible_lines(&html).as_bytes())
}

/// What the columns are is said under the first table that has them.
fn say_once(parts: &mut [WorkloadPart<'_>]) {
    let mut said: Vec<&str> = Vec::new();
    for table in parts.iter_mut().flat_map(|part| &mut part.tables) {
        match said.contains(&table.note) {
            true => table.note = "",
            false => said.push(table.note),
        }
    }
}

/// A ladder, before its levels one by one.
fn overview<'a>(findings: &StackFindings, ladder: &Ladder<'_>) -> io::Result<WorkloadPart<'a>> {
    let title = "Rate and share of raw".to_owned();
    Ok(WorkloadPart {
        label: ladder.title(),
        tables: vec![TablePart { title, grid: ladder.table(findings), note: LADDER_NOTE }],
        remarks: Vec::new(),
        pictures: ladder.pictures(findings)?,
        models: Vec::new(),
        order: None,
    })
}

fn part<'a>(findings: &'a StackFindings, it: &'a WorkloadRows) -> io::Result<WorkloadPart<'a>> {
    let mut remarks: Vec<String> =
        it.rows.iter().flat_map(|row| words::remarks(findings, row)).collect();
    remarks.extend(words::untold(findings, &it.rows));
    let mirrors = it.rows.iter().filter_map(|row| {
        let mirror = row.figures.as_ref()?.mirror.as_ref()?;
        Some(words::mirror(&words::row_name(findings, row.point), mirror))
    });
    let mut models = array_words(findings, it);
    models.extend(mirrors.flatten());
    Ok(WorkloadPart {
        label: it.label.clone(),
        tables: tables(findings, it),
        remarks,
        pictures: pictures(findings, it)?,
        models,
        order: it.published.as_ref().map(|it| it.sentence.as_str()),
    })
}

fn tables(findings: &StackFindings, it: &WorkloadRows) -> Vec<TablePart> {
    let titled = |title: &str, grid: Grid, note| TablePart { title: title.to_owned(), grid, note };
    let mut tables = vec![
        titled("Rate and latency", rates(findings, it), words::INTERVAL_NOTE),
        titled("Costs per operation", costs(findings, it), words::COST_NOTE),
    ];
    let arrays = arrays(findings, it);
    if !arrays.rows.is_empty() {
        tables.push(titled("Arrays and their models", arrays, ARRAYS_NOTE));
    }
    if let (Some(order), Some(grid)) = (&it.published, published(it)) {
        let title = words::published_title(findings, order);
        tables.push(TablePart { title, grid, note: words::PUBLISHED_NOTE });
    }
    tables
}
