//! The layout of a target: a label, a log, a table, controls, canaries.
//!
//! Takes a size and returns ranges of cells (4 KiB).

use std::ops::Range;

use durio_plan::proof::FileWrites;
use durio_simdisk::SECTOR;

/// Bytes of a cell, the prover's unit of a target.
pub const CELL: usize = 4096;
/// Sectors of a cell, as a count of places in it.
pub const SECTORS: usize = CELL / SECTOR;
/// Sectors of a cell.
pub const CELL_SECTORS: u64 = SECTORS as u64;
/// Bytes of a target that are used by default: all of it is read twice after each cut.
pub const USED_MAX: u64 = 1 << 30;
/// A target needs at least this many cells.
pub const CELLS_MIN: u64 = 64;

/// The areas of a target, each a range of cells. The first cell has the label, and the log is last,
/// so that a file can grow by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Written from start to end and again, as a database writes its log.
    pub journal: Range<u64>,
    /// Written anywhere, as a database writes its tables.
    pub table: Range<u64>,
    /// Written without a sync: a cut that takes nothing from here proves nothing.
    pub control: Range<u64>,
    /// Written once, at the start: a later change was not made by the writer.
    pub canary: Range<u64>,
}

impl Layout {
    /// The areas of a target of `cells` cells: a quarter is the log, half the table, a sixteenth
    /// controls, and canaries are the rest.
    ///
    /// # Panics
    /// If there are fewer than [`CELLS_MIN`].
    #[must_use]
    pub fn new(cells: u64) -> Self {
        assert!(cells >= CELLS_MIN, "{cells} cells are too few");
        let [journal, table, control] = [cells / 4, cells / 2, cells / 16];
        let borders = [1, 1 + table, 1 + table + control, cells - journal, cells];
        Self {
            table: borders[0]..borders[1],
            control: borders[1]..borders[2],
            canary: borders[2]..borders[3],
            journal: borders[3]..borders[4],
        }
    }

    /// All cells but the label's.
    #[must_use]
    pub fn stamped(&self) -> Range<u64> {
        self.table.start..self.journal.end
    }

    /// The cells that exist before the first write: an appended log has none yet.
    #[must_use]
    pub fn prepared(&self, writes: FileWrites) -> Range<u64> {
        let end = if writes == FileWrites::Append { self.journal.start } else { self.journal.end };
        self.table.start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_follow_each_other_and_only_an_appended_log_is_not_there_at_first() {
        for cells in [CELLS_MIN, 65, 1024] {
            let layout = Layout::new(cells);
            let Layout { journal, table, control, canary } = layout.clone();
            let ends = [table.end, control.end, canary.end, journal.end];
            assert_eq!(ends, [control.start, canary.start, journal.start, cells]);
            assert_eq!(layout.prepared(FileWrites::Replace), layout.stamped());
            assert_eq!(layout.prepared(FileWrites::Append), 1..journal.start);
        }
    }
}
