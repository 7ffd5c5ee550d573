//! Reads a target after a cut, and compares it with a ledger.
//!
//! Takes a target and a ledger's history, and returns findings. Agents read for a witness
//! elsewhere.

use durio_record::proof::CutFindings;

use crate::agent::{AgentStorage, TargetOpening};
use crate::classify::{classify, gone};
use crate::error::ProveError;
use crate::history::History;
use crate::layout::CELL;
use crate::ledger_file::{LedgerBook, LedgerLine};
use crate::reading::{ObservedCell, label_of, observe, observe_cell};
use crate::stamp::StampOwner;

/// Reads all cells twice, and reports each deviation.
pub(crate) fn verify(
    target: &mut impl AgentStorage,
    owner: StampOwner,
    cells: u64,
    mut history: History,
) -> Result<CutFindings, ProveError> {
    if target.size() / (CELL as u64) < cells {
        return Ok(gone(Some(&history)));
    }
    target.open(TargetOpening::READING, |engine| {
        // Without a label all of it may be lost; with another label it is another target.
        if label_of(engine)?.is_some_and(|label| label != owner) {
            return Err(ProveError::failed("the target has the label of another proof"));
        }
        let (cells, mut readings) = (history.cells(), [Vec::new(), Vec::new()]);
        for reading in &mut readings {
            observe(engine, owner, cells.clone(), TargetOpening::READING.depth, reading)?;
        }
        let [first, second] = &readings;
        Ok(classify(&mut history, [first, second], |cell| observe_cell(engine, owner, cell))?)
    })
}

/// Compares two readings with a ledger, and records the findings in it. `again` reads one cell once
/// more.
pub(crate) fn settle(
    book: &mut LedgerBook,
    before: &History,
    readings: [&[ObservedCell]; 2],
    again: impl FnMut(u64) -> Result<ObservedCell, ProveError>,
) -> Result<CutFindings, ProveError> {
    let mut after = before.clone();
    let found = classify(&mut after, readings, again)?;
    for cell in before.cells().filter(|&cell| before.cell(cell) != after.cell(cell)) {
        book.record(LedgerLine::Settled { cell, holds: after.cell(cell).floor })?;
    }
    book.record(LedgerLine::Verified)?;
    book.sync()?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use durio_base::Nanos;
    use durio_block::{Buffers, EngineKind, EngineSetup, MonotonicClock};
    use durio_plan::proof::{Arm, DurablePath, LossClass};

    use super::*;
    use crate::agent::{EngineLoan, TargetEngine};
    use crate::layout::{CELL_SECTORS, CELLS_MIN, Layout};
    use crate::ledger::{Intent, LedgerEntry};
    use crate::ledger_file::{LedgerHead, read_ledger};
    use crate::stamp::LABEL_SEQ;
    use crate::writer::seal_write;

    const OWNER: StampOwner = StampOwner { run: [7; 16], target: 3 };

    struct FileTarget(tempfile::NamedTempFile);

    impl FileTarget {
        /// A label and stamps in cells of their own, as [`crate::writer::prepare`] writes them.
        fn stamped() -> Self {
            let mut target = Self(tempfile::NamedTempFile::new().unwrap());
            target.write(OWNER, LABEL_SEQ, 0);
            (1..CELLS_MIN).for_each(|cell| target.write(OWNER, 0, cell));
            target
        }

        fn write(&mut self, owner: StampOwner, seq: u64, cell: u64) {
            let mut bytes = vec![0; CELL];
            seal_write(owner, seq, cell * CELL_SECTORS, &mut bytes);
            let file = self.0.as_file_mut();
            file.seek(SeekFrom::Start(cell * CELL as u64)).unwrap();
            file.write_all(&bytes).unwrap();
        }
    }

    impl AgentStorage for FileTarget {
        fn size(&self) -> u64 {
            self.0.as_file().metadata().unwrap().len()
        }

        fn open<T>(
            &mut self,
            wanted: TargetOpening,
            work: impl FnOnce(&mut TargetEngine<'_>) -> Result<T, ProveError>,
        ) -> Result<T, ProveError> {
            let setup = EngineSetup {
                clock: MonotonicClock,
                file: self.0.reopen().unwrap().into(),
                more_files: Vec::new(),
                buffers: Buffers::try_new(wanted.depth as usize, wanted.slot).unwrap(),
                depth: 1,
                entries: 1,
                blocking_syncs: false,
                advice: None,
            };
            EngineKind::Sync.open(setup, EngineLoan(work))
        }
    }

    /// Cell 5 has write 1.
    fn history() -> History {
        let mut history = History::new(Layout::new(CELLS_MIN).stamped(), Nanos::new(1));
        let sector = 5 * CELL_SECTORS;
        for entry in [
            LedgerEntry::Intended(Intent { seq: 1, sector, sectors: 8, is_control: false }),
            LedgerEntry::Acknowledged { seq: 1, at: Nanos::new(2) },
            LedgerEntry::Cut { at: Nanos::new(9) },
        ] {
            history.take(entry).unwrap();
        }
        history
    }

    fn classes(target: &mut FileTarget) -> Vec<(LossClass, u64)> {
        let found = verify(target, OWNER, CELLS_MIN, history()).unwrap();
        assert_eq!(found.acknowledged, 1);
        found
            .findings
            .iter()
            .map(|finding| (finding.class, finding.sector / CELL_SECTORS))
            .collect()
    }

    #[test]
    fn a_target_is_held_against_its_ledger_cell_by_cell() {
        let mut target = FileTarget::stamped();
        assert_eq!(classes(&mut target), [(LossClass::Lost, 5)]);
        target.write(OWNER, 1, 5);
        assert_eq!(classes(&mut target), []);
        target.write(OWNER, 1, 63);
        assert_eq!(classes(&mut target), [(LossClass::Lost, 63)]);
    }

    #[test]
    fn a_target_that_is_smaller_than_its_cells_is_gone_and_a_larger_one_is_not() {
        let mut target = FileTarget::stamped();
        target.write(OWNER, 1, 5);
        let size = CELLS_MIN * CELL as u64;
        for (bytes, is_gone) in [(size - 1, true), (size, false), (size + 5, false), (0, true)] {
            target.0.as_file().set_len(size).unwrap();
            target.write(OWNER, 0, 63);
            target.0.as_file().set_len(bytes).unwrap();
            let gone = [(LossClass::Gone, 0)];
            assert_eq!(
                classes(&mut target),
                if is_gone { &gone[..] } else { &[] },
                "{bytes} bytes"
            );
        }
    }

    #[test]
    fn a_target_of_another_proof_says_nothing_and_one_without_a_label_may_have_lost_it() {
        let mut target = FileTarget::stamped();
        target.write(OWNER, 1, 5);
        target.write(StampOwner { target: 4, ..OWNER }, LABEL_SEQ, 0);
        let error = verify(&mut target, OWNER, CELLS_MIN, history()).unwrap_err();
        assert_eq!(error.to_string(), "the target has the label of another proof");
        let file = target.0.as_file_mut();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&[0; CELL]).unwrap();
        assert_eq!(classes(&mut target), []);
    }

    #[test]
    fn only_cells_that_hold_something_else_now_are_settled_and_then_all_are_verified() {
        let file = tempfile::tempfile().unwrap();
        let head = LedgerHead::new(OWNER, CELLS_MIN, Arm::new(DurablePath::Fdatasync, 1));
        let mut book = LedgerBook::begin(file.try_clone().unwrap(), head).unwrap();
        let writes = [5, 6].map(|cell| {
            let (seq, sector) = (cell - 4, cell * CELL_SECTORS);
            Intent { seq, sector, sectors: 8, is_control: false }
        });
        for line in [
            LedgerLine::Prepared { at: Nanos::new(1) },
            LedgerLine::Intended { writes: writes.to_vec() },
            LedgerLine::Acknowledged { seq: 1, at: Nanos::new(2) },
            LedgerLine::Cut { at: Nanos::new(9) },
        ] {
            book.record(line).unwrap();
        }
        let before = book.state.history.clone().unwrap();
        let cells = before.cells();
        let reading: Vec<_> = cells
            .clone()
            .map(|cell| ObservedCell::Whole(if cell == 5 || cell == 6 { cell - 4 } else { 0 }))
            .collect();
        let again = |cell: u64| {
            let place = usize::try_from(cell - cells.start).unwrap();
            Ok::<_, ProveError>(reading[place].clone())
        };
        let found = settle(&mut book, &before, [&reading, &reading], again).unwrap();
        assert_eq!((found.findings.len(), found.in_flight.kept), (0, 1));
        let mut text = String::new();
        let mut file = file;
        file.seek(SeekFrom::Start(0)).unwrap();
        std::io::Read::read_to_string(&mut file, &mut text).unwrap();
        let lines: Vec<_> = text.lines().skip(5).collect();
        // The stamps become the readings: each cell is reported once.
        assert_eq!(lines.len(), usize::try_from(cells.end - cells.start).unwrap() + 1);
        let expected = r#"{"entry":"settled","cell":6,"holds":[2,2,2,2,2,2,2,2]}"#;
        assert_eq!(lines.iter().filter(|text| **text == expected).count(), 1);
        assert_eq!(*lines.last().unwrap(), r#"{"entry":"verified"}"#);
        // The next cut finds them as they are, and tells none.
        let before = book.state.history.clone().unwrap();
        let again = |_| Err::<ObservedCell, _>(ProveError::failed("read again"));
        settle(&mut book, &before, [&reading, &reading], again).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let state = read_ledger(&file).unwrap();
        assert!(!state.has_load && state.history.unwrap().cell(6).floor == [2; 8]);
        let length = file.metadata().unwrap().len();
        let told = r#"{"entry":"verified"}"#.len() as u64 + 1;
        assert_eq!(length, text.len() as u64 + told);
    }
}
