//! The figures, one table per location, and side by side where there are several locations.

use comfy_table::{
    Attribute, Cell, CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, Table,
    TableStyle,
};
use durio_analyse::Findings;

use super::page::{Look, Page, clean};
use crate::figures::ABSENT_NOTE;
use crate::rows::{COLUMNS, Row, has_absent, headline_at, locations, rows, workload_names};

/// Below this width labels are short, so that every column still fits.
const WIDTH_ROOMY: usize = 92;

/// No borders; a light line under the headings.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none().junction(' '));

pub(super) fn write(findings: &Findings, page: &mut Page) {
    let locations = locations(findings);
    let mut is_any_absent = false;
    for location in &locations {
        page.heading(&figures_heading(location, locations.len()));
        is_any_absent |= at_location(findings, location, page);
    }
    if is_any_absent {
        page.paragraph("  ", Look::Dim, ABSENT_NOTE);
    }
    cut_short(findings, page);
    if locations.len() > 1 {
        side_by_side(findings, &locations, page);
    }
}

fn figures_heading(location: &str, locations: usize) -> String {
    match locations {
        1 => "Figures (latencies: service, syncs apart; IOPS: operations per second)".to_owned(),
        _ => format!("Figures at {location}"),
    }
}

/// Writes the table of one location; true if a percentile is absent.
fn at_location(findings: &Findings, location: &str, page: &mut Page) -> bool {
    let mut header = vec!["workload"];
    header.extend(COLUMNS);
    let mut table = new_table(page, header);
    let mut is_any_absent = false;
    for workload in findings.workloads.iter().filter(|it| it.location == location) {
        let rows = rows(workload);
        is_any_absent |= has_absent(&rows);
        table.add_rows(rows.iter().map(|row| cells(row, page)));
    }
    put(table, page);
    is_any_absent
}

fn cells(row: &Row, page: &Page) -> Vec<Cell> {
    let label = if page.width() < WIDTH_ROOMY { &row.label_short } else { &row.label };
    let indent = if row.is_part { "  " } else { "" };
    let mut label = Cell::new(format!("{indent}{}", clean(label)));
    if !row.is_part {
        label = label.add_attribute(Attribute::Bold);
    }
    std::iter::once(label).chain(row.cells.iter().map(Cell::new)).collect()
}

fn cut_short(findings: &Findings, page: &mut Page) {
    let names: Vec<_> =
        findings.workloads.iter().filter(|it| !it.complete).map(|it| it.name.as_str()).collect();
    if !names.is_empty() {
        let text = format!("ended before their limit: {}", names.join(", "));
        page.paragraph("  ", Look::Heed, &text);
    }
}

fn side_by_side(findings: &Findings, locations: &[&str], page: &mut Page) {
    page.heading("Side by side: operations per second and p99");
    let mut header = vec!["workload".to_owned()];
    for location in locations {
        header.extend([clean(location), "p99".to_owned()]);
    }
    let mut table = new_table(page, header);
    for name in workload_names(findings) {
        let mut row = vec![clean(name)];
        for location in locations {
            let (rate, p99) = headline_at(findings, name, location);
            row.extend([rate, p99]);
        }
        table.add_row(row);
    }
    put(table, page);
}

pub(crate) fn new_table<T: ToString>(page: &Page, header: Vec<T>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(page.width().saturating_sub(2)).unwrap_or(u16::MAX));
    match page.colour() {
        true => table.enforce_styling(),
        false => table.force_no_tty(),
    };
    table.set_header(header);
    table
}

pub(crate) fn put(mut table: Table, page: &mut Page) {
    let roomy = page.width() >= WIDTH_ROOMY;
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, u16::from(roomy)));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        page.line(&format!("  {line}"));
    }
}
