//! The figures, one table per location, and side by side where there are several locations.

use comfy_table::{
    Attribute, Cell, CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, Table,
    TableStyle,
};
use durio_analyse::Findings;

use super::page::{Look, Page};
use crate::figures::ABSENT_NOTE;
use crate::rows::{COLUMNS, Row, has_absent, headline_at, locations, rows, workload_names};
use crate::visible::visible;

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
    let mut table = TextTable::new(page, header);
    let mut is_any_absent = false;
    for workload in findings.workloads.iter().filter(|it| it.location == location) {
        let rows = rows(workload);
        is_any_absent |= has_absent(&rows);
        rows.iter().for_each(|row| table.add_row(cells(row, page)));
    }
    table.put(page);
    is_any_absent
}

fn cells(row: &Row, page: &Page) -> Vec<TextCell> {
    let label = if page.width() < WIDTH_ROOMY { &row.label_short } else { &row.label };
    let label = match row.is_part {
        true => format!("  {label}").into(),
        false => TextCell::bold(label),
    };
    std::iter::once(label).chain(row.cells.iter().map(TextCell::from)).collect()
}

fn cut_short(findings: &Findings, page: &mut Page) {
    let names: Vec<_> =
        findings.workloads.iter().filter(|it| !it.complete).map(|it| it.name.as_str()).collect();
    if !names.is_empty() {
        let text = format!("ended before their limit: {}", names.join(", "));
        page.paragraph("  ", Look::Warning, &text);
    }
}

fn side_by_side(findings: &Findings, locations: &[&str], page: &mut Page) {
    page.heading("Side by side: operations per second and p99");
    let mut header = vec!["workload".to_owned()];
    for location in locations {
        header.extend([(*location).to_owned(), "p99".to_owned()]);
    }
    let mut table = TextTable::new(page, header);
    for name in workload_names(findings) {
        let mut row = vec![name.to_owned()];
        for location in locations {
            let (rate, p99) = headline_at(findings, name, location);
            row.extend([rate, p99]);
        }
        table.add_row(row);
    }
    table.put(page);
}

/// A cell's text, spelt out.
pub(crate) struct TextCell(Cell);

impl<T: AsRef<str>> From<T> for TextCell {
    fn from(text: T) -> Self {
        Self(Cell::new(visible(text.as_ref())))
    }
}

impl TextCell {
    pub(crate) fn bold(text: &str) -> Self {
        Self(Self::from(text).0.add_attribute(Attribute::Bold))
    }
}

/// A table; what its cells are made of has no say in how it looks.
pub(crate) struct TextTable(Table);

impl TextTable {
    pub(crate) fn new<T: Into<TextCell>>(page: &Page, header: impl IntoIterator<Item = T>) -> Self {
        let mut table = Table::new();
        table.load_style(STYLE);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(page.width().saturating_sub(2)).unwrap_or(u16::MAX));
        match page.colour() {
            true => table.enforce_styling(),
            false => table.force_no_tty(),
        };
        table.set_header(cells_of(header));
        Self(table)
    }

    pub(crate) fn add_row<T: Into<TextCell>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.0.add_row(cells_of(cells));
    }

    pub(crate) fn put(mut self, page: &mut Page) {
        let roomy = page.width() >= WIDTH_ROOMY;
        for (index, column) in self.0.column_iter_mut().enumerate() {
            column.set_padding((0, u16::from(roomy)));
            if index > 0 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in self.0.lines() {
            page.finished_line(&format!("  {line}"));
        }
    }
}

fn cells_of<T: Into<TextCell>>(cells: impl IntoIterator<Item = T>) -> Vec<Cell> {
    cells.into_iter().map(|cell| cell.into().0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn names_of_other_hands_leave_a_table_aligned_and_its_rows_whole() {
        let hostile = ["a\nb", "\x1b[31mred", "tab\tbed", "\u{9b}2J", "\u{202e}evil", "\r", "日本"];
        for colour in [false, true] {
            let mut page = Page::new(&Options { width: 60, colour });
            let mut table = TextTable::new(&page, ["na\x07me", "1"]);
            for name in hostile {
                table.add_row([TextCell::bold(name), "7".into()]);
            }
            table.put(&mut page);
            let text = page.text().replace("\x1b[1m", "").replace("\x1b[0m", "");
            // Two columns for each of these.
            let width =
                |line: &str| line.chars().map(|c| 1 + usize::from("日本".contains(c))).sum();
            let widths: Vec<usize> = text.lines().map(width).collect();
            assert_eq!(widths.len(), hostile.len() + 2, "{text}");
            assert!(widths.iter().all(|it| it == &widths[0]), "{text}");
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        }
    }
}
