//! Tables in Markdown, so that docs/benchmarks.md takes them as they are.

use comfy_table::{CellAlignment, Table, presets};

/// Prints a table; all columns except the first are right-aligned.
pub(crate) fn print<const N: usize>(
    header: &[&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(*header);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}
