//! The possible contents of each cell of a target, by the ledger.
//!
//! Takes a ledger's entries and a verification's findings; keeps for each cell the last
//! acknowledged write and those intended after it.
//!
//! After a cut a sector may hold the last acknowledged write, or any that was intended later. Two writes
//! of one cell are never in flight together, so their numbers are their order.

use std::ops::Range;

use durio_base::Nanos;

use crate::layout::{CELL_SECTORS, SECTORS};
use crate::ledger::{Intent, LedgerEntry};

/// A write's number; 0 is the stamp that was there before.
pub type Seq = u64;

/// Why a sector must hold at least this write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// It was acknowledged, at this time, in this life of the target.
    Acknowledged(Nanos),
    /// It was read after a cut, and nothing was written there since.
    Read,
}

/// The possible contents of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellHistory {
    /// The least recent write that each sector may hold.
    pub floor: [Seq; SECTORS],
    pub ground: Ground,
    /// The writes intended since, in order.
    pub later: Vec<Seq>,
}

/// The histories of this many cells are allocated together, at the first write to one of them.
const CHUNK: usize = 256;

/// The possible contents of a whole target.
#[derive(Debug, Clone)]
pub struct History {
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

/// Why a ledger cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// An acknowledgement of a write that was never announced.
    #[error("write {0} was acknowledged, but never announced")]
    Unannounced(Seq),
    /// Numbers that do not follow each other.
    #[error("write {0} was announced out of its order")]
    OutOfOrder(Seq),
    /// Something happened before the target was stamped.
    #[error("something is told of a target that was not stamped yet")]
    Unprepared,
    /// A write outside the stamped cells.
    #[error("write {0} is outside the stamped area")]
    Outside(Seq),
}

impl History {
    /// The history of freshly stamped cells, acknowledged at `at`.
    #[must_use]
    pub fn new(cells: Range<u64>, at: Nanos) -> Self {
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
    #[must_use]
    pub fn cells(&self) -> Range<u64> {
        self.cells.clone()
    }

    /// The history of a cell.
    ///
    /// # Panics
    /// If the cell does not exist.
    #[must_use]
    pub fn cell(&self, cell: u64) -> &CellHistory {
        let (chunk, place) = self.place(cell);
        self.chunks[chunk].as_ref().map_or(&self.fresh, |chunk| &chunk[place])
    }

    fn cell_mut(&mut self, cell: u64) -> &mut CellHistory {
        let (chunk, place) = self.place(cell);
        let fresh = &self.fresh;
        &mut self.chunks[chunk].get_or_insert_with(|| vec![fresh.clone(); CHUNK].into())[place]
    }

    /// Writes acknowledged since the cut before the last, in order.
    #[must_use]
    pub fn acknowledged(&self) -> &[(Seq, Nanos)] {
        &self.acknowledged
    }

    /// Controls written since the cut before the last.
    pub fn controls_done(&self) -> impl Iterator<Item = Intent> {
        self.controls_done.iter().filter_map(|&seq| self.intents.find(seq))
    }

    /// Where a write of this life went.
    #[must_use]
    pub fn intent(&self, seq: Seq) -> Option<Intent> {
        self.intents.find(seq)
    }

    /// All announced writes of this life, in order.
    #[must_use]
    pub fn intents(&self) -> &[Intent] {
        &self.intents.list
    }

    /// When the power was cut.
    #[must_use]
    pub fn cut_at(&self) -> Option<Nanos> {
        self.cut_at
    }

    /// Takes the ledger's next entry.
    ///
    /// # Errors
    /// If such a ledger is impossible.
    pub fn take(&mut self, entry: LedgerEntry) -> Result<(), HistoryError> {
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
    pub fn settle(&mut self, cell: u64, holds: [Seq; SECTORS]) {
        let history = self.cell_mut(cell);
        history.floor = holds;
        history.ground = Ground::Read;
        history.later.clear();
    }

    /// Starts a new life: writes intended in the last one have arrived or are lost.
    pub fn begin_life(&mut self) {
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
        assert!(self.cells.contains(&cell), "cell {cell} is none of the target's");
        let at = usize::try_from(cell - self.cells.start).unwrap_or(usize::MAX);
        (at / CHUNK, at % CHUNK)
    }
}

#[cfg(test)]
mod tests;
