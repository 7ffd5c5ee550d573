//! The records of a document as CSV, for spreadsheets and scripts.
//!
//! In: a document. Out: a header and one line per record, with plain numbers whose unit is in the
//! column's name; an absent value is an empty cell. Names are in one line and never computed
//! (`visible.rs`). Not here: sections, and names byte by byte, which are in the JSON document.

use std::io;

use crate::Options;
use crate::document::{Cell, Document};
use crate::visible::CellWriter;

pub(crate) fn render(document: &Document, _: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let records = &document.records;
    let mut writer = CellWriter::new(out);
    writer.write_record(records.columns.iter().map(|it| &it.title))?;
    for row in &records.rows {
        writer.write_record(row.cells.iter().map(Cell::plain))?;
    }
    writer.flush()
}
