//! The possible contents of each cell of a target, by the ledger.
//!
//! Takes a ledger's entries and a verification's findings; keeps for each cell the last
//! acknowledged write and those intended after it.
//!
//! After a cut a sector may hold the last acknowledged write, or any that was intended later. Two writes
//! of one cell are never in flight together, so their numbers are their order.

use std::ops::Range;

use durio_base::Nanos;

use crate::error::HistoryError;
use crate::layout::{CELL_SECTORS, SECTORS};
use crate::ledger::{Intent, LedgerEntry};

/// A write's number; 0 is the stamp that was there before.
pub(crate) type Seq = u64;

/// Why a sector must hold at least this write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ground {
    /// It was acknowledged, at this time, in this life of the target.
    Acknowledged(Nanos),
    /// It was read after a cut, and nothing was written there since.
    Read,
}

/// The possible contents of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CellHistory {
    /// The least recent write that each sector may hold.
    pub(crate) floor: [Seq; SECTORS],
    pub(crate) ground: Ground,
    /// The writes intended since, in order.
    pub(crate) later: Vec<Seq>,
}

/// The histories of this many cells are allocated together, at the first write to one of them.
const CHUNK: usize = 256;

/// The possible contents of a whole target.
#[derive(Debug, Clone)]
pub(crate) struct History {
    cells: Range<u64>,
    /// The history of a cell that was never written.
    fresh: CellHistory,
    /// The others, allocated on demand: a large target is written to in few places.
    chunks: Vec<Option<Box<[CellHistory]>>>,
    intents: Intents,
    controls_done: Vec<Seq>,
    acknowledged: Vec<(Seq, Nanos)>,
    cut_at: Option<Nanos>,
}

/// Intents since the last cut; their numbers follow each other.
#[derive(Debug, Clone, Default)]
struct Intents {
    list: Vec<Intent>,
}

impl Intents {
    fn find(&self, seq: Seq) -> Option<Intent> {
        let first = self.list.first()?.seq;
        let place = usize::try_from(seq.checked_sub(first)?).ok()?;
        self.list.get(place).copied().filter(|intent| intent.seq == seq)
    }
}

impl History {
    /// The history of freshly stamped cells, acknowledged at `at`.
    pub(crate) fn new(cells: Range<u64>, at: Nanos) -> Self {
        let fresh = CellHistory {
            floor: [0; SECTORS],
            ground: Ground::Acknowledged(at),
            later: Vec::new(),
        };
        let chunks = (cells.end - cells.start).div_ceil(CHUNK as u64);
        Self {
            cells,
            fresh,
            chunks: vec![None; usize::try_from(chunks).unwrap_or(usize::MAX)],
            intents: Intents::default(),
            controls_done: Vec::new(),
            acknowledged: Vec::new(),
            cut_at: None,
        }
    }

    /// The cells that it is of.
    pub(crate) fn cells(&self) -> Range<u64> {
        self.cells.clone()
    }

    /// The history of a cell.
    ///
    /// # Panics
    /// If the cell does not exist.
    pub(crate) fn cell(&self, cell: u64) -> &CellHistory {
        let (chunk, place) = self.place(cell);
        self.chunks[chunk].as_ref().map_or(&self.fresh, |chunk| &chunk[place])
    }

    fn cell_mut(&mut self, cell: u64) -> &mut CellHistory {
        let (chunk, place) = self.place(cell);
        let fresh = &self.fresh;
        &mut self.chunks[chunk].get_or_insert_with(|| vec![fresh.clone(); CHUNK].into())[place]
    }

    /// Writes acknowledged since the cut before the last, in order.
    pub(crate) fn acknowledged(&self) -> &[(Seq, Nanos)] {
        &self.acknowledged
    }

    /// Controls written since the cut before the last.
    pub(crate) fn controls_done(&self) -> impl Iterator<Item = Intent> {
        self.controls_done.iter().filter_map(|&seq| self.intents.find(seq))
    }

    /// Where a write of this life went.
    pub(crate) fn intent(&self, seq: Seq) -> Option<Intent> {
        self.intents.find(seq)
    }

    /// All announced writes of this life, in order.
    pub(crate) fn intents(&self) -> &[Intent] {
        &self.intents.list
    }

    /// When the power was cut.
    pub(crate) fn cut_at(&self) -> Option<Nanos> {
        self.cut_at
    }

    /// Takes the ledger's next entry.
    pub(crate) fn take(&mut self, entry: LedgerEntry) -> Result<(), HistoryError> {
        match entry {
            LedgerEntry::Intended(intent) => self.intend(intent),
            LedgerEntry::Acknowledged { seq, at } => self.acknowledge(seq, at),
            LedgerEntry::ControlDone { seq } => {
                self.intents.find(seq).ok_or(HistoryError::Unannounced(seq))?;
                self.controls_done.push(seq);
                Ok(())
            }
            LedgerEntry::Cut { at } => {
                self.cut_at = Some(at);
                Ok(())
            }
        }
    }

    /// A cell was read after a cut: it holds this, and must hold it from now on.
    pub(crate) fn settle(&mut self, cell: u64, holds: [Seq; SECTORS]) {
        let history = self.cell_mut(cell);
        history.floor = holds;
        history.ground = Ground::Read;
        history.later.clear();
    }

    /// Starts a new life: writes intended in the last one have arrived or are lost.
    pub(crate) fn begin_life(&mut self) {
        self.intents.list.clear();
        self.controls_done.clear();
        self.acknowledged.clear();
        self.cut_at = None;
    }

    /// An appended log starts empty: this was promised before the first write of a life, and these
    /// cells hold nothing of the life before.
    pub(crate) fn empty(&mut self, cells: Range<u64>, at: Nanos) {
        for cell in cells {
            let history = self.cell_mut(cell);
            *history = CellHistory {
                floor: [0; SECTORS],
                ground: Ground::Acknowledged(at),
                later: Vec::new(),
            };
        }
    }

    fn intend(&mut self, intent: Intent) -> Result<(), HistoryError> {
        if self.intents.list.last().is_some_and(|last| last.seq + 1 != intent.seq) {
            return Err(HistoryError::OutOfOrder(intent.seq));
        }
        for cell in self.cells_of(&intent)? {
            self.cell_mut(cell).later.push(intent.seq);
        }
        self.intents.list.push(intent);
        Ok(())
    }

    fn acknowledge(&mut self, seq: Seq, at: Nanos) -> Result<(), HistoryError> {
        let intent = self.intents.find(seq).ok_or(HistoryError::Unannounced(seq))?;
        for cell in self.cells_of(&intent)? {
            let history = self.cell_mut(cell);
            // A repeated or older acknowledgement adds nothing.
            if let Some(order) = history.later.iter().position(|&later| later == seq) {
                history.later.drain(..=order);
                history.floor = [seq; SECTORS];
                history.ground = Ground::Acknowledged(at);
            }
        }
        self.acknowledged.push((seq, at));
        Ok(())
    }

    fn cells_of(&self, intent: &Intent) -> Result<Range<u64>, HistoryError> {
        let outside = HistoryError::Outside(intent.seq);
        let end = intent.sector.checked_add(u64::from(intent.sectors)).ok_or(outside.clone())?;
        let cells = intent.sector / CELL_SECTORS..end.div_ceil(CELL_SECTORS);
        let is_whole =
            intent.sector.is_multiple_of(CELL_SECTORS) && end.is_multiple_of(CELL_SECTORS);
        let ours = self.cells();
        let is_inside = ours.start <= cells.start && cells.end <= ours.end;
        if is_whole && is_inside && !cells.is_empty() { Ok(cells) } else { Err(outside) }
    }

    fn place(&self, cell: u64) -> (usize, usize) {
        assert!(self.cells.contains(&cell), "cell {cell} does not exist on the target");
        let at = usize::try_from(cell - self.cells.start).unwrap_or(usize::MAX);
        (at / CHUNK, at % CHUNK)
    }
}

#[cfg(test)]
mod tests {
    //! Each error of a ledger once, and what a cell may hold after each entry.

    use super::*;

    const CELLS: Range<u64> = 4..600;

    fn intent(seq: Seq, sector: u64, sectors: u16) -> LedgerEntry {
        LedgerEntry::Intended(Intent { seq, sector, sectors, is_control: false })
    }

    fn acknowledged(seq: Seq, at: u64) -> LedgerEntry {
        LedgerEntry::Acknowledged { seq, at: Nanos::new(at) }
    }

    fn history(entries: &[LedgerEntry]) -> History {
        let mut history = History::new(CELLS, Nanos::new(7));
        entries.iter().for_each(|entry| history.take(*entry).unwrap());
        history
    }

    fn refused(entries: &[LedgerEntry], wrong: LedgerEntry) -> HistoryError {
        history(entries).take(wrong).unwrap_err()
    }

    /// The least state of each sector of a cell, its reason, and later intents.
    fn may(history: &History, cell: u64) -> (Seq, Ground, Vec<Seq>) {
        let CellHistory { floor, ground, later } = history.cell(cell).clone();
        assert_eq!(floor, [floor[0]; SECTORS], "{cell}");
        (floor[0], ground, later)
    }

    #[test]
    fn a_cell_must_hold_the_last_acknowledged_write_or_one_intended_later() {
        let at = |at| Ground::Acknowledged(Nanos::new(at));
        let mut history = history(&[intent(1, 32, 8), intent(2, 40, 16), intent(3, 32, 8)]);
        assert_eq!(may(&history, 4), (0, at(7), vec![1, 3]));
        assert_eq!(may(&history, 5), (0, at(7), vec![2]));
        assert_eq!(may(&history, 6), (0, at(7), vec![2]));
        assert_eq!(may(&history, 7), (0, at(7), vec![]));
        // In another chunk of cells.
        assert_eq!(may(&history, 599), (0, at(7), vec![]));
        history.take(acknowledged(2, 20)).unwrap();
        assert_eq!(may(&history, 4), (0, at(7), vec![1, 3]));
        assert_eq!(may(&history, 6), (2, at(20), vec![]));
        history.take(acknowledged(1, 30)).unwrap();
        assert_eq!(may(&history, 4), (1, at(30), vec![3]));
        assert_eq!(history.acknowledged(), [(2, Nanos::new(20)), (1, Nanos::new(30))]);
        assert_eq!(history.cut_at(), None);
        history.take(LedgerEntry::Cut { at: Nanos::new(44) }).unwrap();
        assert_eq!(history.cut_at(), Some(Nanos::new(44)));
        assert_eq!(history.cells(), CELLS);
    }

    #[test]
    fn a_later_acknowledgement_covers_the_writes_before_it_in_its_cell() {
        let mut history = history(&[intent(1, 32, 8), intent(2, 32, 8), intent(3, 32, 8)]);
        history.take(acknowledged(2, 20)).unwrap();
        let at = Ground::Acknowledged(Nanos::new(20));
        assert_eq!(may(&history, 4), (2, at, vec![3]));
        // Told late, or twice: nothing new of the cell.
        history.take(acknowledged(1, 30)).unwrap();
        history.take(acknowledged(2, 40)).unwrap();
        assert_eq!(may(&history, 4), (2, at, vec![3]));
        assert_eq!(history.acknowledged().len(), 3);
    }

    #[test]
    fn each_error_of_a_ledger_is_named_with_the_write() {
        let begin = [intent(5, 32, 8), intent(6, 40, 8)];
        // A line is missing.
        assert_eq!(refused(&begin, acknowledged(7, 9)), HistoryError::Unannounced(7));
        assert_eq!(refused(&begin, acknowledged(4, 9)), HistoryError::Unannounced(4));
        assert_eq!(refused(&[], acknowledged(1, 9)), HistoryError::Unannounced(1));
        assert_eq!(
            refused(&begin, LedgerEntry::ControlDone { seq: 7 }),
            HistoryError::Unannounced(7)
        );
        assert_eq!(refused(&begin, intent(8, 48, 8)), HistoryError::OutOfOrder(8));
        // Doubled, and out of order.
        assert_eq!(refused(&begin, intent(6, 40, 8)), HistoryError::OutOfOrder(6));
        assert_eq!(refused(&begin, intent(5, 32, 8)), HistoryError::OutOfOrder(5));
        // Of another device, or damaged.
        for (sector, sectors) in [
            (24, 8),
            (24, 16),
            (4800, 8),
            (4792, 16),
            (33, 8),
            (33, 7),
            (32, 7),
            (32, 9),
            (32, 0),
            (u64::MAX - 7, 8),
            (u64::MAX, 8),
        ] {
            let found = refused(&begin, intent(7, sector, sectors));
            assert_eq!(found, HistoryError::Outside(7), "{sector} {sectors}");
        }
        // The first and the last cell are inside.
        history(&[intent(1, 32, 8), intent(2, 4792, 8), intent(3, 32, 4768)]);
        let texts = [
            HistoryError::Unannounced(7).to_string(),
            HistoryError::OutOfOrder(8).to_string(),
            HistoryError::Outside(9).to_string(),
        ];
        assert_eq!(
            texts,
            [
                "write 7 was acknowledged, but never announced",
                "write 8 was announced out of order",
                "write 9 is outside the stamped area"
            ]
        );
    }

    #[test]
    fn a_life_knows_its_own_writes_alone_and_its_cells_go_on() {
        let mut history = history(&[intent(1, 32, 8), intent(2, 40, 8), acknowledged(1, 20)]);
        history.take(LedgerEntry::ControlDone { seq: 2 }).unwrap();
        let controls = |history: &History| {
            history.controls_done().map(|intent| intent.seq).collect::<Vec<_>>()
        };
        assert_eq!(controls(&history), [2]);
        let seqs = |history: &History| {
            history.intents().iter().map(|intent| intent.seq).collect::<Vec<_>>()
        };
        assert_eq!(seqs(&history), [1, 2]);
        assert_eq!(history.intent(2).unwrap().sector, 40);
        assert_eq!(history.intent(3), None);
        assert_eq!(history.intent(0), None);
        history.take(LedgerEntry::Cut { at: Nanos::new(44) }).unwrap();
        history.settle(5, [2, 2, 2, 2, 0, 0, 0, 0]);
        history.begin_life();
        assert_eq!((controls(&history), seqs(&history)), (vec![], vec![]));
        assert_eq!((history.acknowledged(), history.cut_at()), (&[][..], None));
        assert_eq!(may(&history, 4), (1, Ground::Acknowledged(Nanos::new(20)), vec![]));
        let settled = history.cell(5);
        assert_eq!(settled.floor, [2, 2, 2, 2, 0, 0, 0, 0]);
        assert_eq!((settled.ground, settled.later.len()), (Ground::Read, 0));
        // The numbers go on from any.
        history.take(intent(9, 32, 8)).unwrap();
        assert_eq!(history.intent(9).unwrap().seq, 9);
        assert_eq!(history.intent(1), None);
    }

    #[test]
    fn a_log_that_begins_anew_holds_its_stamps_and_other_cells_stay() {
        let mut history = history(&[intent(1, 32, 24), acknowledged(1, 20), intent(2, 40, 8)]);
        history.empty(5..6, Nanos::new(90));
        let at = |at| Ground::Acknowledged(Nanos::new(at));
        assert_eq!(may(&history, 4), (1, at(20), vec![]));
        assert_eq!(may(&history, 5), (0, at(90), vec![]));
        assert_eq!(may(&history, 6), (1, at(20), vec![]));
    }

    #[test]
    #[should_panic(expected = "cell 600 does not exist on the target")]
    fn a_cell_behind_the_last_is_none() {
        let _ = history(&[]).cell(600);
    }
}
