//! A table for a terminal. In a narrow one columns are left out, for broken words and numbers cannot
//! be read.

use comfy_table::{
    Attribute, Cell as TextCell, CellAlignment, ColumnConstraint, ContentArrangement,
    ContentLineStyle, LineStyle, Table as TextTable, TableStyle, Width,
};
use durio_base::{counted, visible};

use super::TextPage;
use crate::document::{Cell, DetailLevel, Row, Table, Tone};

/// From this width on columns have air between them.
const WIDTH_ROOMY: usize = 92;

/// Below this width columns are left out.
const WIDTH_NARROW: usize = 80;

/// Longer words may be broken: they are paths.
const WORD_MAX: usize = 24;

/// No borders; a light line under the headings.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none().junction(' '));

pub(super) fn table(table: &Table, indent: &str, page: &mut TextPage) {
    let level = page.level();
    let mut shown = table.columns_up_to(level);
    let (all, room) = (shown.len(), page.width().saturating_sub(indent.len()));
    let is_narrow = page.width() < WIDTH_NARROW;
    if is_narrow {
        leave_out(table, &mut shown, level, room);
    }
    let mut text = TextTable::new();
    text.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
    // Dynamic arrangement needs a width.
    text.set_width(u16::try_from(room).unwrap_or(u16::MAX));
    match page.colour() {
        true => text.enforce_styling(),
        // Otherwise the library asks the real terminal, which need not be where this text goes.
        false => text.force_no_tty(),
    };
    text.set_header(shown.iter().map(|at| TextCell::new(visible(&table.columns[*at].title))));
    for row in table.rows_up_to(level) {
        text.add_row(shown.iter().enumerate().map(|(place, at)| cell(row, *at, place == 0)));
    }
    let padding = u16::from(page.width() >= WIDTH_ROOMY);
    let least = |at: usize| least_width(table, at, level, is_narrow);
    // Where even whole words are too wide, the library divides the room.
    let between = usize::from(padding) + 1;
    let fits = shown.iter().map(|at| least(*at) + between).sum::<usize>() <= room;
    let whole = text.column_max_content_widths();
    let breaks = whole.into_iter().map(|width| usize::from(width) + between).sum::<usize>() > room;
    for (place, (column, at)) in text.column_iter_mut().zip(&shown).enumerate() {
        // The air goes first where a terminal is narrow: wrapped cells are worse.
        column.set_padding((0, padding));
        if place > 0 && !table.columns[*at].is_words {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if is_narrow || (fits && breaks) {
            let least = u16::try_from(least(*at)).unwrap_or(u16::MAX).saturating_add(padding);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
    }
    for line in text.lines() {
        page.finished_line(&format!("{indent}{line}"));
    }
    if shown.len() < all {
        let count = counted((all - shown.len()) as u64, "column");
        page.paragraph(indent, Tone::Note, &format!("{count} left out: the terminal is narrow"));
    }
}

/// Leaves out the widest numbers, of several the last, until no word is broken. Words stay: they are
/// judgements, or say what a row is about.
fn leave_out(table: &Table, shown: &mut Vec<usize>, level: DetailLevel, room: usize) {
    let least = |at: usize| least_width(table, at, level, true);
    let is_trend = |at: usize| {
        let mut cells = table.rows.iter().filter_map(|row| row.cells.get(at));
        cells.any(|cell| matches!(cell, Cell::Trend(_)))
    };
    let is_number = |at: usize| !table.columns[at].is_words || is_trend(at);
    // A blank between two columns.
    let needed = |shown: &[usize]| shown.iter().map(|at| least(*at) + 1).sum::<usize>() - 1;
    while shown.len() > 2 && needed(shown) > room {
        let numbers = shown.iter().enumerate().skip(1).filter(|(_, at)| is_number(**at));
        let widest = numbers.max_by_key(|(_, at)| least(**at)).map(|(place, _)| place);
        let Some(place) = widest else { return };
        shown.remove(place);
    }
}

/// The width of a column in which no word but a path is broken, nor a number from its unit if those
/// are to stay together.
fn least_width(table: &Table, at: usize, level: DetailLevel, keeps_units: bool) -> usize {
    let longest = |text: &str| text.split_whitespace().map(|word| word.chars().count()).max();
    let is_words = at == 0 || table.columns[at].is_words || !keeps_units;
    let width = |row: &Row| {
        let text = visible(&row.cells.get(at).unwrap_or(&Cell::Empty).shown());
        let width = match is_words {
            true => longest(&text).unwrap_or(0),
            false => text.chars().count(),
        };
        // A part stands further in.
        width.min(WORD_MAX) + if at == 0 && row.is_part { 2 } else { 0 }
    };
    let cells = table.rows_up_to(level).map(width).max();
    cells.unwrap_or(0).max(longest(&table.columns[at].title).unwrap_or(0)).max(1)
}

fn cell(row: &Row, at: usize, is_label: bool) -> TextCell {
    let cell = row.cells.get(at).unwrap_or(&Cell::Empty);
    let text = visible(&cell.shown());
    let is_bold = is_label && !row.is_part
        || matches!(cell, Cell::Word(Tone::Good | Tone::Bad | Tone::Strong, _));
    match (is_label && row.is_part, is_bold) {
        (true, _) => TextCell::new(format!("  {text}")),
        (false, true) => TextCell::new(text).add_attribute(Attribute::Bold),
        (false, false) => TextCell::new(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    fn at_width(width: usize) -> String {
        let mut table =
            Table::new(["workload", "per second", "bandwidth", "p50", "p99", "over time"]);
        for (name, trend) in [("commit", [1.0, 2.0, 8.0]), ("commit-etcd", [4.0, 2.0, 1.0])] {
            table.row([
                Cell::text(name),
                Cell::Rate(1810.0),
                Cell::Bandwidth(14.1 * 1024.0 * 1024.0),
                Cell::Latency(225_000.0),
                Cell::Latency(3_870_000.0),
                Cell::Trend(trend.to_vec()),
            ]);
        }
        let mut page = TextPage::new(&Options { width, ..Options::default() });
        super::table(&table, "", &mut page);
        page.text().to_owned()
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns_and_whole_words() {
        let wide = at_width(80);
        assert!(
            wide.contains("MiB/s") && wide.contains('█') && !wide.contains("left out"),
            "{wide}"
        );
        for width in [40, 48, 56, 64, 72] {
            let text = at_width(width);
            let rows: Vec<&str> = text.lines().filter(|line| line.contains("1.81 k")).collect();
            assert!(rows.len() == 2 && rows[1].starts_with("commit-etcd "), "{width}: {text}");
            assert!(rows.iter().all(|row| row.contains("3.87 ms")), "{width}: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        }
        let narrow = at_width(40);
        assert!(!narrow.contains("MiB/s") && narrow.contains("1 column left out"), "{narrow}");
    }
    #[test]
    fn cells_of_a_wide_table_are_broken_between_words() {
        let columns = [
            ("clients", "8"),
            ("offered", "max"),
            ("commits/s", "9.11 k"),
            ("expected", "7.9 k to 11 k"),
            ("range", "8.44 k to 10.2 k"),
            ("p50", "850 µs"),
            ("p99", "1.92 ms"),
            ("per sync", "3.81"),
            ("log busy", "75 %"),
            ("CPU", "53 %"),
            ("bound by", "waits"),
            ("disk ×2", "≤ 14.2 k"),
        ];
        let mut table = Table::new(columns.map(|(title, _)| title));
        table.row(columns.map(|(_, value)| Cell::text(value)));
        for width in [80, 91, 92, 100] {
            let mut page = TextPage::new(&Options { width, ..Options::default() });
            super::table(&table, "  ", &mut page);
            let shown: Vec<&str> = page.text().split_whitespace().collect();
            for word in columns.iter().flat_map(|(title, value)| [title, value]) {
                let mut parts = word.split(' ');
                assert!(
                    parts.all(|part| shown.contains(&part)),
                    "{width}, {word}: {}",
                    page.text()
                );
            }
        }
    }
}
