//! Small ledgers by hand, and for each state of a cell the finding that follows.

use std::convert::Infallible;

use durio_base::Nanos;
use durio_observe::DriveCounters;

use super::*;
use crate::ledger::{Intent, LedgerEntry};

const FIRST: u64 = 8;
const CUT: u64 = 1000;

fn intended(seq: u64, cell: u64) -> LedgerEntry {
    let is_control = false;
    LedgerEntry::Intended(Intent { seq, sector: cell * CELL_SECTORS, sectors: 8, is_control })
}

fn acknowledged(seq: u64, at: u64) -> LedgerEntry {
    LedgerEntry::Acknowledged { seq, at: Nanos::new(at) }
}

fn history(cells: u64, entries: &[LedgerEntry]) -> History {
    let mut history = History::new(FIRST..FIRST + cells, Nanos::new(100));
    let cut = LedgerEntry::Cut { at: Nanos::new(CUT) };
    entries.iter().chain([&cut]).for_each(|entry| history.take(*entry).unwrap());
    history
}

/// Cell 8 has write 1 since 200, and write 3 in flight; cell 9 has write 2 since 300.
fn two_writes() -> History {
    let entries = [
        intended(1, 8),
        intended(2, 9),
        acknowledged(1, 200),
        acknowledged(2, 300),
        intended(3, 8),
    ];
    history(6, &entries)
}

fn sound() -> Vec<ObservedCell> {
    vec![
        ObservedCell::Whole(1),
        ObservedCell::Whole(2),
        ObservedCell::Whole(0),
        ObservedCell::Whole(0),
        ObservedCell::Whole(0),
        ObservedCell::Whole(0),
    ]
}

/// The same readings but for one cell, which is read as `seen` has it: twice, and then again and again.
fn judged_of(history: &mut History, cell: u64, seen: &[ObservedCell]) -> (CutFindings, usize) {
    let [mut first, mut second] = [sound(), sound()];
    let place = usize::try_from(cell - FIRST).unwrap();
    first[place] = seen[0].clone();
    second[place] = seen[seen.len().min(2) - 1].clone();
    let mut count = 0;
    let again = |asked| {
        assert_eq!(asked, cell);
        count += 1;
        Ok::<_, Infallible>(seen[(count + 1).min(seen.len() - 1)].clone())
    };
    let found = classify(history, [&first, &second], again).unwrap();
    (found, count)
}

fn judged(cell: u64, seen: ObservedCell) -> CutFindings {
    judged_of(&mut two_writes(), cell, &[seen]).0
}

fn all(state: SectorState) -> ObservedCell {
    ObservedCell::Mixed(Box::new([state; SECTORS]))
}

/// The first sectors of the cell in one state, the others in another.
fn parts(count: usize, first: SectorState, rest: SectorState) -> ObservedCell {
    ObservedCell::Mixed(Box::new(std::array::from_fn(|at| if at < count { first } else { rest })))
}

#[test]
fn what_was_acknowledged_and_is_there_is_counted_with_the_youngest() {
    let found = classify(&mut two_writes(), [&sound(), &sound()], |_| {
        Err("a cell that is as it must be is not read again")
    });
    let found = found.unwrap();
    assert_eq!(found.findings, []);
    assert_eq!((found.kept, found.youngest_kept_ns), (2, Some(700)));
    assert_eq!((found.acknowledged, found.acknowledged_late), (2, 2));
    assert_eq!(found.acknowledging_ns, Some(800));
    assert_eq!(found.in_flight, InFlightWrites { kept: 0, torn: 0 });
    assert_eq!((found.left_out, found.picture), (0, None));
}

#[test]
fn each_state_of_a_cell_has_its_class() {
    use LossClass::{Corrupt, Lost, Misdirected, Torn, Unreadable};
    use SectorState::{Damaged, Elsewhere, Foreign, Nothing, Ones, Write, Zeros};
    let elsewhere = Elsewhere { home: 75, seq: 2 };
    let flipped = |bits| Damaged { flipped: Some(bits) };
    for (seen, class, from, sectors, found) in [
        (ObservedCell::Whole(0), Lost, 0, 8, InPlace::Older { seq: 0 }),
        // Nobody announced it.
        (ObservedCell::Whole(9), Lost, 0, 8, InPlace::Older { seq: 9 }),
        // Announced for the other cell.
        (ObservedCell::Whole(2), Lost, 0, 8, InPlace::Older { seq: 2 }),
        (all(Zeros), Lost, 0, 8, InPlace::Zeros),
        (all(Nothing), Lost, 0, 8, InPlace::Nothing),
        (parts(3, Write(1), Write(0)), Torn, 3, 5, InPlace::Older { seq: 0 }),
        (parts(7, Write(1), Zeros), Torn, 7, 1, InPlace::Zeros),
        (parts(1, Zeros, Write(3)), Torn, 0, 1, InPlace::Zeros),
        // What stands beside is none of the write: all of it is gone.
        (parts(2, Write(0), Zeros), Lost, 0, 8, InPlace::Older { seq: 0 }),
        (parts(5, Write(1), Nothing), Torn, 5, 3, InPlace::Nothing),
        (all(Ones), Corrupt, 0, 8, InPlace::Ones),
        (parts(6, Write(1), flipped(3)), Corrupt, 6, 2, InPlace::FlippedBits { bits: 3 }),
        (all(Damaged { flipped: None }), Corrupt, 0, 8, InPlace::Garbage),
        (all(Foreign), Misdirected, 0, 8, InPlace::Foreign),
        (
            parts(4, Write(1), elsewhere),
            Misdirected,
            4,
            4,
            InPlace::OfElsewhere { home: 72, seq: 2 },
        ),
        (all(SectorState::Unreadable), Unreadable, 0, 8, InPlace::Unreadable),
        (parts(2, Write(1), SectorState::Unreadable), Unreadable, 2, 6, InPlace::Unreadable),
    ] {
        let cut = judged(8, seen.clone());
        let expected = Finding {
            class,
            sector: 64 + from,
            sectors,
            seq: 1,
            acknowledged_before_ns: Some(800),
            found,
        };
        assert_eq!(cut.findings, [expected], "{seen:?}");
        assert_eq!(cut.kept, 1, "the other cell: {seen:?}");
        assert!(cut.picture.is_some());
    }
    let two = judged(8, parts(2, Ones, Zeros)).findings;
    let shape: Vec<_> =
        two.iter().map(|finding| (finding.class, finding.sector, finding.sectors)).collect();
    assert_eq!(shape, [(Corrupt, 64, 2), (Lost, 66, 6)]);
    // The stamps from before the first write are promised as well.
    let stamp = &judged(12, all(Zeros)).findings[0];
    assert_eq!((stamp.class, stamp.sector, stamp.seq), (Lost, 96, 0));
    assert_eq!(stamp.acknowledged_before_ns, Some(900));
}

#[test]
fn a_write_in_flight_may_be_there_or_not_or_in_part() {
    for (seen, in_flight) in [
        (ObservedCell::Whole(1), InFlightWrites { kept: 0, torn: 0 }),
        (ObservedCell::Whole(3), InFlightWrites { kept: 1, torn: 0 }),
        (
            parts(3, SectorState::Write(3), SectorState::Write(1)),
            InFlightWrites { kept: 0, torn: 1 },
        ),
    ] {
        let found = judged(8, seen.clone());
        assert_eq!((found.findings.len(), found.kept), (0, 2), "{seen:?}");
        assert_eq!(found.in_flight, in_flight, "{seen:?}");
    }
    // Where nothing was acknowledged it counts as in flight, and not as kept.
    let mut history = history(6, &[intended(1, 8), acknowledged(1, 200), intended(2, 12)]);
    let mut reading = sound();
    (reading[1], reading[4]) = (ObservedCell::Whole(0), ObservedCell::Whole(2));
    let again = |_| Ok::<_, Infallible>(ObservedCell::Whole(2));
    let found = classify(&mut history, [&reading, &reading], again).unwrap();
    assert_eq!((found.kept, found.in_flight.kept, found.findings.len()), (1, 1, 0));
}

#[test]
fn a_cell_that_is_not_as_it_must_be_is_read_eight_times_more() {
    let (found, count) = judged_of(&mut two_writes(), 8, &[ObservedCell::Whole(0)]);
    assert_eq!((found.findings.len(), count), (1, 8));
    let (found, count) = judged_of(&mut two_writes(), 8, &[ObservedCell::Whole(3)]);
    assert_eq!((found.findings.len(), count), (0, 0));
    let error = classify(&mut two_writes(), [&vec![ObservedCell::Whole(7); 6], &sound()], |cell| {
        Err::<ObservedCell, _>(cell)
    });
    assert_eq!(error.unwrap_err(), 8);
}

#[test]
fn reads_that_contradict_each_other_are_unstable_with_what_was_read() {
    let seen = [
        ObservedCell::Whole(1),
        ObservedCell::Whole(0),
        ObservedCell::Whole(0),
        ObservedCell::Whole(1),
    ];
    let found = judged_of(&mut two_writes(), 8, &seen).0.findings;
    let expected = Finding {
        class: LossClass::Unstable,
        sector: 64,
        sectors: 8,
        seq: 1,
        acknowledged_before_ns: Some(800),
        found: InPlace::Changing { seqs: vec![1, 0, 1] },
    };
    assert_eq!(found, [expected]);
    // Also where nothing is in flight, and the first reading is as it must be.
    let seen = [ObservedCell::Whole(2), ObservedCell::Whole(0), ObservedCell::Whole(2)];
    let found = judged_of(&mut two_writes(), 9, &seen).0.findings;
    assert_eq!(found[0].found, InPlace::Changing { seqs: vec![2, 0, 2] });
    // Two legal writes, now this and now that, are no less so.
    let seen = [ObservedCell::Whole(3), ObservedCell::Whole(1)];
    let found = judged_of(&mut two_writes(), 8, &seen).0.findings;
    assert_eq!(found[0].found, InPlace::Changing { seqs: vec![3, 1] });
}

#[test]
fn what_can_be_read_by_itself_is_no_loss_and_what_cannot_is_one() {
    let unreadable = all(SectorState::Unreadable);
    let there = ObservedCell::Whole(1);
    // Only the chunk could not be read.
    let seen = [unreadable.clone(), unreadable.clone(), there.clone()];
    assert_eq!(judged_of(&mut two_writes(), 8, &seen).0.findings, []);
    let seen = [there.clone(), unreadable.clone(), there.clone()];
    assert_eq!(judged_of(&mut two_writes(), 8, &seen).0.findings, []);
    // By itself it can now and cannot then.
    let seen = [there.clone(), unreadable.clone(), there.clone(), unreadable.clone(), there];
    let found = judged_of(&mut two_writes(), 8, &seen).0.findings;
    let expected = Finding {
        class: LossClass::Unreadable,
        sector: 64,
        sectors: 8,
        seq: 1,
        acknowledged_before_ns: Some(800),
        found: InPlace::Unreadable,
    };
    assert_eq!(found, [expected]);
    // Unreadable, and something else that it must not hold: the last reading decides.
    let seen = [unreadable.clone(), ObservedCell::Whole(1), ObservedCell::Whole(0)];
    let found = judged_of(&mut two_writes(), 8, &seen).0.findings;
    assert_eq!((found[0].class, &found[0].found), (LossClass::Lost, &InPlace::Older { seq: 0 }));
    let seen = [unreadable, ObservedCell::Whole(0)];
    let found = judged_of(&mut two_writes(), 8, &seen).0.findings;
    assert_eq!((found[0].class, &found[0].found), (LossClass::Lost, &InPlace::Older { seq: 0 }));
}

#[test]
fn what_was_read_after_an_earlier_cut_must_stay_and_its_loss_is_collateral() {
    let mut history = two_writes();
    judged_of(&mut history, 8, &[ObservedCell::Whole(3)]);
    for (cell, holds) in [(8, 3), (9, 2), (12, 0)] {
        let may = history.cell(cell);
        assert_eq!((may.floor, may.ground, may.later.len()), ([holds; 8], Ground::Read, 0));
    }
    history.begin_life();
    history.take(LedgerEntry::Cut { at: Nanos::new(5000) }).unwrap();
    let mut kept = history.clone();
    let mut reading = sound();
    reading[0] = ObservedCell::Whole(3);
    let none = |_| Err::<ObservedCell, _>("read again");
    let found = classify(&mut kept, [&reading, &reading], none).unwrap();
    assert_eq!((found.kept, found.acknowledged, found.findings.len()), (0, 0, 0));
    let (found, _) = judged_of(&mut history, 8, &[ObservedCell::Whole(1)]);
    let expected = Finding {
        class: LossClass::Collateral,
        sector: 64,
        sectors: 8,
        seq: 3,
        acknowledged_before_ns: None,
        found: InPlace::Older { seq: 1 },
    };
    assert_eq!(found.findings, [expected]);
    // From now on that is what it holds.
    assert_eq!(history.cell(8).floor, [1; 8]);
    // What has no number leaves what must be there.
    let (_, _) = judged_of(&mut history, 8, &[parts(3, SectorState::Zeros, SectorState::Write(1))]);
    assert_eq!(history.cell(8).floor, [1; 8]);
}

#[test]
fn a_write_that_stands_elsewhere_is_misplaced_and_not_lost_as_well() {
    let findings = |seq: u64, missing: ObservedCell| {
        let elsewhere = all(SectorState::Elsewhere { home: 66, seq });
        let mut reading = sound();
        (reading[0], reading[4]) = (missing.clone(), elsewhere.clone());
        let again =
            |cell| Ok::<_, Infallible>(if cell == 8 { missing.clone() } else { elsewhere.clone() });
        let found = classify(&mut two_writes(), [&reading, &reading], again).unwrap();
        found.findings.iter().map(|finding| (finding.class, finding.sector)).collect::<Vec<_>>()
    };
    let (lost, misdirected) = ((LossClass::Lost, 64), (LossClass::Misdirected, 96));
    assert_eq!(findings(1, ObservedCell::Whole(0)), [misdirected]);
    // Another write of that place.
    assert_eq!(findings(3, ObservedCell::Whole(0)), [lost, misdirected]);
    let torn = parts(3, SectorState::Write(1), SectorState::Zeros);
    assert_eq!(findings(1, torn), [(LossClass::Torn, 67), misdirected]);
}

#[test]
fn an_acknowledgement_is_late_up_to_100_ms_before_the_cut() {
    assert_eq!(LATE_NS, 100_000_000);
    let cut = 900_000_000;
    let mut history = History::new(FIRST..FIRST + 6, Nanos::new(0));
    for (seq, age) in [(1, LATE_NS + 1), (2, LATE_NS), (3, 5)] {
        history.take(intended(seq, 8)).unwrap();
        history.take(acknowledged(seq, cut - age)).unwrap();
    }
    history.take(LedgerEntry::Cut { at: Nanos::new(cut) }).unwrap();
    let mut reading = sound();
    (reading[0], reading[1]) = (ObservedCell::Whole(3), ObservedCell::Whole(0));
    let none = |_| Err::<ObservedCell, _>("read again");
    let found = classify(&mut history, [&reading, &reading], none).unwrap();
    assert_eq!((found.acknowledged, found.acknowledged_late), (3, 2));
    assert_eq!(found.acknowledging_ns, Some(LATE_NS + 1));
    assert_eq!((found.kept, found.youngest_kept_ns), (1, Some(5)));
}

#[test]
fn a_control_is_lost_unless_it_or_a_later_write_is_in_all_its_sectors() {
    let control = |seq, cell| {
        let sector = cell * CELL_SECTORS;
        LedgerEntry::Intended(Intent { seq, sector, sectors: 8, is_control: true })
    };
    let done = |seq| LedgerEntry::ControlDone { seq };
    // Two in one cell count once, by the later; one that has not returned counts not at all.
    let entries =
        [control(1, 10), control(2, 10), control(3, 12), control(4, 13), done(1), done(2), done(3)];
    let write = SectorState::Write;
    for (ten, twelve, lost) in [
        (ObservedCell::Whole(2), ObservedCell::Whole(3), 0),
        (ObservedCell::Whole(1), ObservedCell::Whole(3), 1),
        (ObservedCell::Whole(0), ObservedCell::Whole(0), 2),
        (ObservedCell::Whole(5), ObservedCell::Whole(3), 0),
        (parts(7, write(2), write(1)), ObservedCell::Whole(3), 1),
        (all(SectorState::Zeros), ObservedCell::Whole(3), 1),
    ] {
        let mut reading = vec![ObservedCell::Whole(0); 6];
        (reading[2], reading[4]) = (ten.clone(), twelve.clone());
        let again =
            |cell| Ok::<_, Infallible>(reading[usize::try_from(cell - FIRST).unwrap()].clone());
        let found = classify(&mut history(6, &entries), [&reading, &reading], again).unwrap();
        assert_eq!(found.controls, Controls { written: 2, lost }, "{ten:?} {twelve:?}");
    }
    // A reading that ends before it.
    let short = vec![ObservedCell::Whole(0); 2];
    let again = |_| Ok::<_, Infallible>(ObservedCell::Whole(0));
    let found = classify(&mut history(6, &entries), [&short, &short], again).unwrap();
    assert_eq!(found.controls, Controls { written: 2, lost: 2 });
}

#[test]
fn of_more_than_1000_findings_the_gravest_and_of_those_the_oldest_are_listed() {
    for (cells, listed, left_out) in [(1000, 1000, 0), (1001, 1000, 1), (1200, 1000, 200)] {
        let count = u64::try_from(cells).unwrap();
        let mut history = History::new(1..1 + count, Nanos::new(100));
        for entry in
            [intended(1, 9), acknowledged(1, 500), LedgerEntry::Cut { at: Nanos::new(CUT) }]
        {
            history.take(entry).unwrap();
        }
        let mut reading = vec![all(SectorState::Zeros); cells];
        reading[cells - 1] = all(SectorState::Ones);
        let again = |cell| Ok::<_, Infallible>(reading[usize::try_from(cell - 1).unwrap()].clone());
        let found = classify(&mut history, [&reading, &reading], again).unwrap();
        assert_eq!((found.findings.len(), found.left_out), (listed, left_out));
        let place =
            |class| found.findings.iter().position(|finding| finding.class == class).unwrap();
        let is_sorted = left_out > 0;
        assert_eq!(place(LossClass::Corrupt), if is_sorted { 0 } else { cells - 1 });
        // Acknowledged later than the stamps: the first to be left out.
        assert_eq!(found.findings.iter().any(|finding| finding.seq == 1), !is_sorted);
    }
}

#[test]
fn a_target_that_is_gone_is_one_finding_beside_what_was_acknowledged() {
    let found = gone(Some(&two_writes()));
    let expected = Finding {
        class: LossClass::Gone,
        sector: 0,
        sectors: 0,
        seq: 0,
        acknowledged_before_ns: None,
        found: InPlace::Nothing,
    };
    assert_eq!((found.findings, found.acknowledged), (vec![expected], 2));
    assert_eq!(gone(None).acknowledged, 0);
}

fn power_state(boot: &str, drives: &[(&str, Option<u64>)]) -> PowerState {
    let drive = |(name, unsafe_shutdowns): &(&str, Option<u64>)| DriveCounters {
        drive: (*name).to_owned(),
        unsafe_shutdowns: *unsafe_shutdowns,
        power_cycles: Some(9),
        missing: None,
    };
    let drives = drives.iter().map(drive).collect();
    PowerState { boot_id: Some(boot.to_owned()), drives }
}

#[test]
fn of_several_drives_the_one_counts_that_rose_least() {
    let before = power_state("a", &[("S1", Some(4)), ("S2", Some(70)), ("S3", None)]);
    let after = power_state("b", &[("S3", Some(1)), ("S2", Some(70)), ("S1", Some(5))]);
    let found = compare_power(&before, &after);
    assert_eq!((found.unsafe_shutdowns, found.power_cycles), (Some([70, 70]), Some([9, 9])));
    assert_eq!(found.rebooted, Some(true));
}

#[test]
fn what_nobody_told_is_no_evidence() {
    let found =
        compare_power(&power_state("a", &[("S1", Some(4))]), &power_state("a", &[("S2", Some(9))]));
    assert_eq!((found.unsafe_shutdowns, found.rebooted), (None, Some(false)));
    let nothing = compare_power(&PowerState::default(), &power_state("a", &[]));
    assert_eq!(nothing, CutEvidence::default());
}

#[test]
fn only_counters_of_the_same_drive_that_both_told_count() {
    let drive = |name: &str, shutdowns, cycles| DriveCounters {
        drive: name.to_owned(),
        unsafe_shutdowns: shutdowns,
        power_cycles: cycles,
        missing: None,
    };
    let of = |drives: Vec<DriveCounters>| PowerState { boot_id: None, drives };
    let before = of(vec![drive("A", Some(3), Some(20)), drive("B", Some(5), Some(30))]);
    let after = of(vec![drive("B", Some(7), Some(33)), drive("A", Some(4), Some(21))]);
    let found = compare_power(&before, &after);
    let pairs = (found.unsafe_shutdowns, found.power_cycles, found.rebooted);
    assert_eq!(pairs, (Some([3, 4]), Some([20, 21]), None));
    // The cycles of the drive whose shutdowns count; of none, if it told them but once.
    let after = of(vec![drive("B", Some(6), None), drive("A", Some(9), Some(29))]);
    let found = compare_power(&before, &after);
    assert_eq!((found.unsafe_shutdowns, found.power_cycles), (Some([5, 6]), None));
    // A counter that went back has not risen.
    let after = of(vec![drive("A", Some(1), Some(1)), drive("B", Some(6), Some(31))]);
    assert_eq!(compare_power(&before, &after).unsafe_shutdowns, Some([3, 1]));
}
