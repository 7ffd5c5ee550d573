//! Reads a target after a cut, and holds it against a ledger.
//!
//! In: a target, a ledger's history. Out: what was found. Not here: agents, which read for a witness
//! elsewhere.

use durio_block::{BlockError, Engine, EngineUser, MonotonicClock};
use durio_record::proof::CutFindings;

use crate::agent::{Target, Wanted};
use crate::classify::{classify, gone};
use crate::history::History;
use crate::layout::CELL;
use crate::ledger_file::{LedgerBook, LedgerError, LedgerLine};
use crate::reading::{Observed, label_of, observe, observe_cell};
use crate::stamp::Owner;

/// Why a target cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// It cannot be opened.
    #[error(transparent)]
    Target(#[from] BlockError),
    /// It has the label of another proof, so it says nothing of this one.
    #[error("the target has the label of another proof")]
    OtherProof,
}

/// Reads all cells twice, and says what is not as it must be.
///
/// # Errors
/// See [`VerifyError`]. What cannot be read is a finding.
pub fn verify(
    target: &mut impl Target,
    owner: Owner,
    cells: u64,
    history: History,
) -> Result<CutFindings, VerifyError> {
    if target.size() / (CELL as u64) < cells {
        return Ok(gone(Some(&history)));
    }
    target.open(Wanted::READING, Verifier { owner, history })
}

/// Holds two readings against a ledger that is kept, and settles what was found in it. `again` reads one
/// cell once more.
///
/// # Errors
/// Those of `again`, and of the ledger.
pub fn settle<E: From<LedgerError>>(
    book: &mut LedgerBook,
    before: &History,
    readings: [&[Observed]; 2],
    again: impl FnMut(u64) -> Result<Observed, E>,
) -> Result<CutFindings, E> {
    let mut after = before.clone();
    let found = classify(&mut after, readings, again)?;
    for cell in before.cells().filter(|&cell| before.cell(cell) != after.cell(cell)) {
        book.record(LedgerLine::Settled { cell, holds: after.cell(cell).floor })?;
    }
    book.record(LedgerLine::Verified)?;
    book.sync()?;
    Ok(found)
}

struct Verifier {
    owner: Owner,
    history: History,
}

impl EngineUser<MonotonicClock> for Verifier {
    type Output = Result<CutFindings, VerifyError>;

    fn drive<E: Engine<Clock = MonotonicClock>>(mut self, mut engine: E) -> Self::Output {
        // Without a label all of it may be gone; with another one it is another target.
        if label_of(&mut engine)?.is_some_and(|label| label != self.owner) {
            return Err(VerifyError::OtherProof);
        }
        let (cells, mut readings) = (self.history.cells(), [Vec::new(), Vec::new()]);
        for reading in &mut readings {
            observe(&mut engine, self.owner, cells.clone(), Wanted::READING.depth, reading)?;
        }
        let [first, second] = &readings;
        let again = |cell| observe_cell(&mut engine, self.owner, cell);
        Ok(classify(&mut self.history, [first, second], again)?)
    }

    fn refused(self, error: BlockError) -> Self::Output {
        Err(error.into())
    }
}
