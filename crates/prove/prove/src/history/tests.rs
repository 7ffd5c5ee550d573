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

/// What each sector of a cell must hold at least, why, and what was intended since.
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
    assert_eq!(refused(&begin, LedgerEntry::ControlDone { seq: 7 }), HistoryError::Unannounced(7));
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
            "write 8 was announced out of its order",
            "write 9 is outside the stamped area"
        ]
    );
}

#[test]
fn a_life_knows_its_own_writes_alone_and_its_cells_go_on() {
    let mut history = history(&[intent(1, 32, 8), intent(2, 40, 8), acknowledged(1, 20)]);
    history.take(LedgerEntry::ControlDone { seq: 2 }).unwrap();
    let controls =
        |history: &History| history.controls_done().map(|intent| intent.seq).collect::<Vec<_>>();
    assert_eq!(controls(&history), [2]);
    let seqs =
        |history: &History| history.intents().iter().map(|intent| intent.seq).collect::<Vec<_>>();
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
#[should_panic(expected = "cell 600 is none of the target's")]
fn a_cell_behind_the_last_is_none() {
    let _ = history(&[]).cell(600);
}
