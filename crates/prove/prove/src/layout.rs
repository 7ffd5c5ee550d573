//! The layout of a target (a label, a log, a table, controls, canaries), and the order of writes to it: a
//! log that goes round, a table written at random places, and controls among them.
//!
//! Takes a size and a seed; returns ranges of cells (4 KiB) and intents in order.

use std::collections::VecDeque;
use std::ops::Range;

use durio_plan::proof::{Arm, FileWrites};
use durio_simdisk::SECTOR;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::ledger::Intent;

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

/// One write in this many is a control: each other write has one that goes with it.
const CONTROL_EVERY: u64 = 2;

/// An endless list of writes; the same layout and seed give the same.
#[derive(Debug, Clone)]
pub struct Schedule {
    layout: Layout,
    write_cells: u64,
    next_seq: u64,
    journal_at: u64,
    chance: Xoshiro256PlusPlus,
    /// The last written cells of the table, which are avoided for a while: two writes of one cell
    /// are never in flight together, and waiting for the first would make the queue less deep.
    recent: VecDeque<u64>,
    apart: usize,
}

impl Schedule {
    /// An arm's writes, which begin with the number `first_seq`.
    ///
    /// # Panics
    /// If the log or the table has no room for one such write.
    #[must_use]
    pub fn new(layout: Layout, arm: &Arm, first_seq: u64, seed: u64) -> Self {
        let &Arm { write_cells, depth, writes, .. } = arm;
        let places = |area: &std::ops::Range<u64>| (area.end - area.start) / write_cells;
        assert!(places(&layout.journal) > 0 && places(&layout.table) > 0, "no room for a write");
        // At most half of the table rests.
        let apart = usize::try_from(places(&layout.table) / 2).unwrap_or(usize::MAX);
        let chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let apart = apart.min(2 * depth as usize);
        let mut schedule = Self {
            layout,
            write_cells,
            next_seq: first_seq,
            journal_at: 0,
            chance,
            recent: VecDeque::with_capacity(apart + 1),
            apart,
        };
        // A log may be anywhere when it is cut; an appended log starts empty.
        if writes != FileWrites::Append {
            schedule.journal_at = schedule.below(places(&schedule.layout.journal));
        }
        schedule
    }

    /// The number of the next write.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.chance.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    fn place_in_journal(&mut self) -> u64 {
        let places = (self.layout.journal.end - self.layout.journal.start) / self.write_cells;
        let place = self.journal_at % places;
        self.journal_at = place + 1;
        self.layout.journal.start + place * self.write_cells
    }

    fn place_in_table(&mut self) -> u64 {
        let places = (self.layout.table.end - self.layout.table.start) / self.write_cells;
        let mut place = self.below(places);
        while self.recent.contains(&place) {
            place = self.below(places);
        }
        self.recent.push_back(place);
        if self.recent.len() > self.apart {
            self.recent.pop_front();
        }
        self.layout.table.start + place * self.write_cells
    }
}

impl Iterator for Schedule {
    type Item = Intent;

    fn next(&mut self) -> Option<Intent> {
        let seq = self.next_seq;
        self.next_seq += 1;
        let is_control = seq.is_multiple_of(CONTROL_EVERY);
        let control = &self.layout.control;
        let (cell, cells) = match is_control {
            true => (control.start + (seq / CONTROL_EVERY) % (control.end - control.start), 1),
            false if self.chance.next_u64() & 1 == 0 => (self.place_in_journal(), self.write_cells),
            false => (self.place_in_table(), self.write_cells),
        };
        let sectors = u16::try_from(cells * CELL_SECTORS).unwrap_or(u16::MAX);
        Some(Intent { seq, sector: cell * CELL_SECTORS, sectors, is_control })
    }
}

#[cfg(test)]
mod tests {
    use durio_plan::proof::DurablePath;

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

    /// Cells of the log, in the order in which they are written.
    fn log(writes: FileWrites, seed: u64) -> Vec<u64> {
        let layout = Layout::new(64);
        let arm = Arm { writes, ..Arm::new(DurablePath::Fdatasync, 1) };
        let schedule = Schedule::new(layout.clone(), &arm, 1, seed);
        let cells = schedule.take(200).map(|intent| intent.sector / CELL_SECTORS);
        cells.filter(|cell| layout.journal.contains(cell)).collect()
    }

    #[test]
    fn an_appended_log_grows_from_its_begin_and_another_goes_on_anywhere() {
        let places: Vec<u64> = Layout::new(64).journal.collect();
        assert!((0..9).all(|seed| log(FileWrites::Append, seed).starts_with(&places)));
        assert!((0..9).any(|seed| !log(FileWrites::Overwrite, seed).starts_with(&places)));
    }

    #[test]
    fn each_second_write_is_a_control_and_the_others_are_whole_writes_of_log_and_table() {
        for (cells, write_cells) in [(64, 1), (256, 4), (1000, 32)] {
            let layout = Layout::new(cells);
            let arm = Arm { write_cells, ..Arm::new(DurablePath::Fdatasync, 8) };
            let writes = |seed| -> Vec<Intent> {
                Schedule::new(layout.clone(), &arm, 11, seed).take(4000).collect()
            };
            let mut controls = std::collections::BTreeSet::new();
            let (mut in_log, mut in_table) = (0, 0);
            for (seq, intent) in (11_u64..).zip(writes(3)) {
                assert_eq!((intent.seq, intent.is_control), (seq, seq.is_multiple_of(2)));
                assert_eq!((intent.sector % 8, intent.sectors % 8), (0, 0), "{seq}");
                let first = intent.sector / 8;
                let end = first + u64::from(intent.sectors) / 8;
                let is_in = |area: &Range<u64>| area.start <= first && end <= area.end;
                if intent.is_control {
                    assert!(end == first + 1 && is_in(&layout.control), "{intent:?}");
                    controls.insert(first);
                } else {
                    assert_eq!(end - first, write_cells, "{intent:?}");
                    in_log += u32::from(is_in(&layout.journal));
                    in_table += u32::from(is_in(&layout.table));
                }
            }
            assert_eq!((in_log + in_table, controls.len() as u64), (2000, cells / 16));
            assert!((800..1200).contains(&in_log), "{in_log} of 2000 in the log");
            assert_eq!(writes(3), writes(3));
            assert_ne!(writes(3), writes(4));
        }
    }
}
