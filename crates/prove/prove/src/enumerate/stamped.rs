//! The check of the prover's own stamps: every acknowledged write is in every state after its
//! acknowledgement.
//!
//! Takes the ledger of a writer whose disk was recorded, and checks an image against it. A disk in
//! memory needs neither the two readings nor the classes of losses of `classify.rs`.

use durio_base::Nanos;
use durio_simdisk::{Image, SharedDisk};

use super::CutState;
use crate::classify::is_legal;
use crate::error::{HistoryError, ProveError};
use crate::history::History;
use crate::layout::{CELL, CELL_SECTORS, Layout};
use crate::ledger::{Intent, Ledger, LedgerEntry, Witness};
use crate::reading::cell_state;
use crate::stamp::StampOwner;

/// A ledger that marks each acknowledgement in the disk's recording.
#[derive(Debug)]
pub struct MarkingLedger {
    disk: SharedDisk,
    ledger: Ledger,
}

impl MarkingLedger {
    #[must_use]
    pub fn new(disk: SharedDisk) -> Self {
        Self { disk, ledger: Ledger::default() }
    }

    #[must_use]
    pub fn into_ledger(self) -> Ledger {
        self.ledger
    }
}

impl Witness for MarkingLedger {
    fn intend(&mut self, intents: &[Intent]) -> Result<(), ProveError> {
        self.ledger.intend(intents)
    }

    fn acknowledge(&mut self, seq: u64, now: Nanos) -> Result<(), ProveError> {
        self.disk.lock().mark(&format!("acknowledged {seq}"));
        self.ledger.acknowledge(seq, now)
    }

    fn control_done(&mut self, seq: u64) -> Result<(), ProveError> {
        self.ledger.control_done(seq)
    }
}

/// Checks the states of a recording whose marks are a ledger's acknowledgements, in the order of
/// the recording.
#[derive(Debug)]
pub struct StampCheck<'a> {
    owner: StampOwner,
    history: History,
    /// Entries that the history has not taken yet.
    entries: &'a [LedgerEntry],
    /// Acknowledgements that it has taken.
    acknowledged: usize,
}

impl<'a> StampCheck<'a> {
    /// For a target with this layout, which was stamped before the recording began.
    #[must_use]
    pub fn new(owner: StampOwner, layout: &Layout, ledger: &'a Ledger) -> Self {
        let history = History::new(layout.stamped(), Nanos::ZERO);
        Self { owner, history, entries: ledger.entries(), acknowledged: 0 }
    }

    /// Whether each cell holds its last acknowledged write, or one announced later.
    ///
    /// # Errors
    /// The contents of the first cell that does not, or why the ledger is impossible.
    pub fn check(&mut self, image: &Image, state: &CutState<'_>) -> Result<(), String> {
        self.advance(state.marks).map_err(|error| error.to_string())?;
        let mut bytes = [0; CELL];
        for cell in self.history.cells() {
            image.read(cell * CELL_SECTORS, &mut bytes);
            let observed = cell_state(self.owner, cell, &bytes);
            let may = self.history.cell(cell);
            if !is_legal(may, &observed) {
                let seq = may.floor[0];
                return Err(format!("cell {cell} must hold write {seq}, but holds {observed:?}"));
            }
        }
        Ok(())
    }

    /// Takes the ledger up to the acknowledgement after this many.
    fn advance(&mut self, acknowledged: usize) -> Result<(), HistoryError> {
        while let Some((&entry, rest)) = self.entries.split_first() {
            if matches!(entry, LedgerEntry::Acknowledged { .. }) {
                if self.acknowledged == acknowledged {
                    break;
                }
                self.acknowledged += 1;
            }
            self.history.take(entry)?;
            self.entries = rest;
        }
        Ok(())
    }
}
