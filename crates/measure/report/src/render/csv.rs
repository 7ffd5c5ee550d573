//! The records of a document as CSV, for spreadsheets and scripts.
//!
//! Writes a document's records as a header and one line per record, with plain numbers whose unit
//! is in the column's name; an absent value is an empty cell. Names are in one line and never
//! computed; names byte by byte are in the JSON document.

use std::io;

use durio_base::visible;

use crate::Options;
use crate::document::{Cell, Document};

pub(crate) fn render(document: &Document, _: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let records = &document.records;
    if records.columns.is_empty() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(records.columns.iter().map(|column| inert(&column.title)))?;
    for row in &records.rows {
        writer.write_record(row.cells.iter().map(Cell::plain).map(|cell| inert(&cell)))?;
    }
    writer.flush()
}

// A spreadsheet computes text that begins with one of these (OWASP, CSV injection); an apostrophe
// before it makes it text. A number stays one, and so does a lone sign, which stands for a missing
// value.
fn inert(text: &str) -> String {
    let shown = visible(text);
    let is_formula = shown.starts_with(['=', '+', '-', '@']) && shown.len() > 1;
    if is_formula && shown.parse::<f64>().is_err() { format!("'{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spreadsheet_computes_no_cell_and_numbers_stay_numbers() {
        for formula in ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "=", "--x"] {
            let is_kept = formula.len() == 1;
            assert_eq!(inert(formula).starts_with('\''), !is_kept, "{formula}");
        }
        for plain in ["-3.5", "+0.02", "1e-9", "-", "/a=b", "", "-inf"] {
            assert_eq!(inert(plain), plain);
        }
    }
}
