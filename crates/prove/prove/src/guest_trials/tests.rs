//! When the power of a guest goes, and what its witness takes from it.

use std::collections::BTreeSet;

use durio_plan::proof::DurablePath;

use super::*;
use crate::ledger::Intent;

/// Writes of a cell each, from the first of the log on, are announced.
fn announced(cells: u64, writes: FileWrites) -> LedgerBook {
    let owner = StampOwner { run: [7; 16], target: 1 };
    let arm = Arm { writes, ..Arm::new(DurablePath::Fdatasync, 1) };
    let head = LedgerHead::new(owner, cells, arm);
    let mut book = LedgerBook::begin(tempfile::tempfile().unwrap(), head).unwrap();
    let log = Layout::new(cells).journal;
    let intent = |(seq, cell)| Intent { seq, sector: 8 * cell, sectors: 8, is_control: false };
    let writes = (1..).zip(log).map(intent).collect();
    book.record(LedgerLine::Prepared { at: Nanos::new(5) }).unwrap();
    book.record(LedgerLine::Intended { writes }).unwrap();
    book
}

#[test]
fn a_log_that_grows_is_cut_at_its_half_and_no_other_is() {
    // Of 16 cells, and of 25.
    for (cells, first) in [(64, 9), (100, 13)] {
        let halves = |writes| {
            let book = announced(cells, writes);
            (0..200).filter(|&seq| is_half_of_log(&book, seq)).collect::<Vec<u64>>()
        };
        assert_eq!(halves(FileWrites::Append), (first..=cells / 4).collect::<Vec<_>>());
        for writes in [FileWrites::Overwrite, FileWrites::Replace, FileWrites::Rename] {
            assert!(halves(writes).is_empty(), "{writes:?}");
        }
    }
}

#[test]
fn a_load_takes_half_a_second_to_a_second_and_each_seed_another_time() {
    let spans: BTreeSet<Duration> = (0..100).map(span_of).collect();
    let bounds = Duration::from_millis(500)..=Duration::from_secs(1);
    assert!(spans.iter().all(|span| bounds.contains(span)), "{spans:?}");
    assert_eq!(spans.len(), 100);
    assert!(spans.last().unwrap().abs_diff(*spans.first().unwrap()) > Duration::from_millis(300));
}

#[test]
fn a_ledger_takes_what_a_guest_announces_and_does_and_nothing_else() {
    let mut book = announced(64, FileWrites::Overwrite);
    let mut said =
        |message| record(&mut book, Nanos::new(20), message).map_err(|error| error.to_string());
    assert_eq!(said(AgentSays::Acknowledged { seq: 16 }), Ok(()));
    assert_eq!(said(AgentSays::ControlDone { seq: 3 }), Ok(()));
    let contradiction = Err("the ledger contradicts itself".to_owned());
    assert_eq!(said(AgentSays::Acknowledged { seq: 17 }), contradiction);
    assert_eq!(said(AgentSays::ControlDone { seq: 99 }), contradiction);
    let intent = Intent { seq: 19, sector: 8 * 50, sectors: 8, is_control: false };
    assert_eq!(said(AgentSays::Intend { writes: vec![intent] }), contradiction);
    assert_eq!(
        said(AgentSays::Failed { reason: "no room".to_owned() }),
        Err("the guest: no room".to_owned())
    );
    let unexpected = Err("the guest says something else than was asked for".to_owned());
    for other in [AgentSays::Prepared, AgentSays::ReadingDone, AgentSays::Released] {
        assert_eq!(said(other), unexpected);
    }
    let history = book.state.history.unwrap();
    assert_eq!(history.acknowledged(), [(16, Nanos::new(20))]);
    assert_eq!(history.controls_done().map(|intent| intent.seq).collect::<Vec<_>>(), [3]);
}
