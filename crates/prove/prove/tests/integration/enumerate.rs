//! The enumerator of crash states: against the prover's own writer, a small write-ahead log, and a list
//! of states that was made by hand.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::ops::ControlFlow;

use durio_base::Nanos;
use durio_block::{Buffers, Ticks};
use durio_plan::proof::{Arm, DurablePath};
use durio_prove::enumerate::stamped::{MarkingLedger, StampCheck};
use durio_prove::enumerate::{
    Enumeration, EnumerationLimits, StateName, enumerate, visit, visit_one,
};
use durio_prove::layout::Layout;
use durio_prove::layout::Schedule;
use durio_prove::ledger::Ledger;
use durio_prove::stamp::StampOwner;
use durio_prove::writer::{Writer, prepare};
use durio_simdisk::trace;
use durio_simdisk::{
    Disk, DiskEvent, DiskRequest, Image, Logger, Profile, Recording, SECTOR, SharedDisk, SimEngine,
    Write,
};

const CELLS: u64 = 256;
const OWNER: StampOwner = StampOwner { run: [7; 16], target: 1 };

/// A run of the prover's writer with so many acknowledgements, recorded.
fn writer_run(path: DurablePath, depth: u32, acknowledgements: u64) -> (Recording, Ledger) {
    let disk = SharedDisk::new(Disk::new(Profile::honest(CELLS * 4096), 1));
    // One more for controls.
    let buffers = Buffers::try_new(depth as usize + 1, 4096).unwrap();
    let mut engine = SimEngine::new(disk.clone(), 2, Ticks(0), 1, buffers);
    let layout = Layout::new(CELLS);
    prepare(&mut engine, OWNER, DurablePath::Fdatasync, layout.stamped()).unwrap();
    disk.lock().record();
    let mut ledger = MarkingLedger::new(disk.clone());
    let schedule = Schedule::new(layout, &Arm::new(path, depth), 1, 5);
    let mut writer = Writer::new((&mut engine, &mut ledger), OWNER, path, depth, schedule);
    writer.run(Ticks(u64::MAX), acknowledgements).unwrap();
    let recording = disk.lock().take_recording().unwrap();
    (recording, ledger.into_ledger())
}

fn check_stamps(recording: &Recording, ledger: &Ledger, subsets: usize) -> Enumeration {
    let mut check = StampCheck::new(OWNER, &Layout::new(CELLS), ledger);
    let limits = EnumerationLimits { subsets, ..EnumerationLimits::default() };
    enumerate(recording, limits, |image, state| check.check(image, state))
}

#[test]
fn every_acknowledged_write_is_in_every_state_after_it() {
    for path in [DurablePath::Fdatasync, DurablePath::RwfDsync] {
        for depth in [1, 8] {
            let (recording, ledger) = writer_run(path, depth, 60);
            let found = check_stamps(&recording, &ledger, 300);
            assert_eq!((found.failed, &found.failures[..]), (0, &[][..]), "{path:?} {depth}");
            assert!(found.states > 300, "{found:?}");
        }
    }
}

#[test]
fn a_writer_that_acknowledges_before_the_flush_is_found() {
    // The path of a target that is open with O_DSYNC, which this one is not: no flush ever comes.
    let (recording, ledger) = writer_run(DurablePath::ODsync, 1, 20);
    let found = check_stamps(&recording, &ledger, 300);
    assert!(found.failed > 20, "{found:?}");
    assert_eq!(found.failures.len(), 10, "the first are told");
    let few = EnumerationLimits { failures: 3, ..EnumerationLimits::default() };
    let told = enumerate(&recording, few, |_, _| Err("no".to_owned()));
    assert!(told.failed == told.states && told.failures.len() == 3, "{told:?}");
    let first = &found.failures[0];
    assert!(first.state.starts_with("after mark 'acknowledged 1', "), "{}", first.state);
    assert!(first.reason.contains("must hold write 1, but holds Whole(0)"), "{}", first.reason);
    // What is told of it is enough to have it again.
    let again = visit_one(&recording, first.name, |image, state| {
        let mut check = StampCheck::new(OWNER, &Layout::new(CELLS), &ledger);
        (check.check(image, state), state.to_string())
    });
    assert_eq!(again, Some((Err(first.reason.clone()), first.state.clone())));
}

#[test]
fn a_state_that_the_recording_has_not_is_not_made() {
    let mut hand = Hand::new();
    hand.write(0, 1);
    hand.write(1, 1);
    let recording = hand.recording();
    let byte_of = |name: &str| {
        let name: StateName = name.parse().unwrap();
        visit_one(&recording, name, |image, _| byte(image, 0))
    };
    let last = recording.events().len();
    assert_eq!(byte_of(&format!("{last}:0")), Some(1));
    assert_eq!(byte_of(&format!("{last}:all-0")), Some(0));
    for wrong in [format!("{}:all", last + 1), format!("{last}:2"), format!("{last}:1+0")] {
        assert_eq!(byte_of(&wrong), None, "{wrong}");
    }
}

#[test]
fn of_more_states_than_are_wanted_some_of_all_stretches_come_or_all_of_some_stretches() {
    let (recording, _) = writer_run(DurablePath::Fdatasync, 8, 40);
    let all = enumerate(&recording, EnumerationLimits::default(), |_, _| Ok(()));
    for states in [1, 2, 30, 500] {
        let mut marks = BTreeSet::new();
        let limits = EnumerationLimits { states, ..EnumerationLimits::default() };
        let found = visit(&recording, limits, |_, state| {
            marks.insert(state.marks);
            ControlFlow::Continue(())
        });
        assert!(found.states > 0 && found.states <= states as u64, "{states}: {found:?}");
        assert_eq!(found.stretches, all.stretches);
        let told = |found: &Enumeration| found.states + found.duplicates + found.left_out;
        assert_eq!(told(&found), told(&all), "each is checked, a duplicate or left out");
        assert!(states < 500 || marks.len() == 41, "{marks:?}");
    }
}

#[test]
fn of_each_stretch_that_is_taken_none_and_all_of_the_writes_come_at_the_least() {
    let (recording, _) = writer_run(DurablePath::Fdatasync, 8, 40);
    let stretches = enumerate(&recording, EnumerationLimits::default(), |_, _| Ok(())).stretches;
    let states = usize::try_from(stretches).unwrap();
    let (mut places, mut is_all) = (BTreeSet::new(), false);
    let limits = EnumerationLimits { states, ..EnumerationLimits::default() };
    visit(&recording, limits, |_, state| {
        places.insert(state.events);
        is_all |= !state.kept.is_empty() && state.kept.len() == state.unflushed.len();
        ControlFlow::Continue(())
    });
    // Room for two of each second one, and not for one of each.
    assert!(places.len() <= states.div_ceil(2), "{} of {stretches}", places.len());
    assert!(is_all);
}

#[test]
fn whoever_has_had_enough_sees_no_other_state() {
    let (recording, _) = writer_run(DurablePath::Fdatasync, 1, 20);
    let mut seen = 0;
    visit(&recording, EnumerationLimits::default(), |_, _| {
        seen += 1;
        if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(seen, 3);
}

/// A disk that is written by hand.
struct Hand {
    disk: Disk,
    now: u64,
}

impl Hand {
    fn new() -> Self {
        let mut disk = Disk::new(Profile::honest(1 << 20), 1);
        disk.record();
        Self { disk, now: 0 }
    }

    fn ask(&mut self, request: DiskRequest<'_>) {
        self.now += 1;
        self.disk.carry_out(0, Nanos::new(self.now), request, &mut []).unwrap();
    }

    fn write(&mut self, sector: u64, byte: u8) {
        self.ask(DiskRequest::Write { sector, data: &[byte; SECTOR], fua: false });
    }

    fn flush(&mut self) {
        self.ask(DiskRequest::Flush);
    }

    fn mark(&mut self, name: &str) {
        self.disk.mark(name);
    }

    fn recording(mut self) -> Recording {
        self.disk.take_recording().unwrap()
    }
}

fn byte(image: &Image, sector: u64) -> u8 {
    image.sector(sector).map_or(0, |bytes| bytes[0])
}

/// The first byte of the first three sectors in each state, with the marks before it.
fn states_of(recording: &Recording) -> BTreeSet<(usize, [u8; 3])> {
    let mut states = BTreeSet::new();
    let found = enumerate(recording, EnumerationLimits::default(), |image, state| {
        let is_new = states.insert((state.marks, [0, 1, 2].map(|sector| byte(image, sector))));
        assert!(is_new, "{state} came twice");
        Ok(())
    });
    assert_eq!(found.states, states.len() as u64);
    states
}

#[test]
fn the_states_are_those_that_may_be_and_each_comes_once() {
    let mut hand = Hand::new();
    hand.write(0, 1);
    hand.write(1, 1);
    hand.flush();
    hand.mark("a");
    hand.write(0, 2);
    hand.write(0, 3);
    hand.write(2, 4);
    // The same bytes again: with it or without it is the same state.
    hand.write(1, 1);
    let states = states_of(&hand.recording());
    let before = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]].map(|contents| (0, contents));
    let after = [[1, 1, 0], [2, 1, 0], [3, 1, 0], [1, 1, 4], [2, 1, 4], [3, 1, 4]];
    let expected: BTreeSet<_> =
        before.into_iter().chain(after.map(|contents| (1, contents))).collect();
    assert_eq!(states, expected);
}

#[test]
fn a_write_with_fua_is_in_every_state_after_its_end_and_an_older_one_never_over_it() {
    let mut hand = Hand::new();
    hand.write(0, 1);
    hand.write(1, 1);
    hand.ask(DiskRequest::Write { sector: 0, data: &[2; SECTOR], fua: true });
    hand.mark("a");
    let after: BTreeSet<_> =
        states_of(&hand.recording()).into_iter().filter(|state| state.0 == 1).collect();
    assert_eq!(after, BTreeSet::from([(1, [2, 0, 0]), (1, [2, 1, 0])]));
}

#[test]
fn a_log_of_dm_log_writes_gives_states_that_its_recording_gives_too() {
    let mut hand = Hand::new();
    for round in 1..6 {
        hand.write(0, round);
        hand.write(1, round + 100);
        hand.ask(DiskRequest::Write { sector: 2, data: &[round; SECTOR], fua: round % 2 == 0 });
        if round != 3 {
            hand.flush();
        }
        hand.mark(&round.to_string());
    }
    let recording = hand.recording();
    let mut logger = Logger::new(Cursor::new(Vec::new())).unwrap();
    logger.take(recording.events()).unwrap();
    let log = logger.finish().unwrap().into_inner();
    let entries = trace::parse(&log).unwrap();
    let of_log = states_of(&Recording::from_log(Image::default(), &entries));
    let of_recording = states_of(&recording);
    assert!(of_log.is_subset(&of_recording), "{:?}", of_log.difference(&of_recording));
    println!("{} states by the log, {} by the recording", of_log.len(), of_recording.len());
    assert!(of_log.len() * 2 > of_recording.len());
}

/// A table of 16 sectors whose changes go through a journal: two sectors of the table are changed at
/// once, or not at all. Transactions use the two halves of the journal in turn.
struct WriteAheadLog {
    hand: Hand,
    without: Option<Flush>,
}

/// Which flush of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// After the records, before the commit record that makes them count.
    BeforeCommit,
    /// After the commit record, before the table is written and somebody is told.
    BeforeTable,
    /// After the table. The next transaction leaves this one's half of the journal alone, and flushes
    /// the table with its own records.
    AfterTable,
}

const TABLE: u64 = 32;
const COMMIT: u64 = 4;

impl WriteAheadLog {
    fn flush(&mut self, which: Flush) {
        if self.without != Some(which) {
            self.hand.flush();
        }
    }

    /// Both sectors get `value`.
    fn transaction(&mut self, places: [u8; 2], value: u8) {
        for (sector, place) in (u64::from(value % 2) * 2..).zip(places) {
            self.hand.write(sector, place);
        }
        self.flush(Flush::BeforeCommit);
        self.hand.write(COMMIT, value);
        self.flush(Flush::BeforeTable);
        self.hand.mark(&format!("committed {value}"));
        for place in places {
            self.hand.write(TABLE + u64::from(place), value);
        }
        self.flush(Flush::AfterTable);
    }

    /// What a reader finds after a cut: the table, with what is committed in the journal.
    fn recover(image: &Image) -> [u8; 16] {
        let mut table = [0; 16];
        for (sector, value) in (TABLE..).zip(&mut table) {
            *value = byte(image, sector);
        }
        let committed = byte(image, COMMIT);
        let half = u64::from(committed % 2) * 2;
        if committed > 0 {
            let places = [half, half + 1].map(|sector| byte(image, sector));
            places.iter().for_each(|&place| table[usize::from(place)] = committed);
        }
        table
    }
}

/// The tables after 0, 1, 2 … transactions, and a recording of them.
fn transactions(without: Option<Flush>) -> (Recording, Vec<[u8; 16]>) {
    let mut log = WriteAheadLog { hand: Hand::new(), without };
    let mut tables = vec![[0; 16]];
    for value in 1..20 {
        let places = [value % 16, (value * 7 + 3) % 16];
        log.transaction(places, value);
        let mut table = *tables.last().unwrap();
        places.iter().for_each(|&place| table[usize::from(place)] = value);
        tables.push(table);
    }
    (log.hand.recording(), tables)
}

fn check_transactions(without: Option<Flush>) -> Enumeration {
    let (recording, tables) = transactions(without);
    enumerate(&recording, EnumerationLimits::default(), |image, state| {
        let table = WriteAheadLog::recover(image);
        // All that was committed, and perhaps the next one, which nobody was told of.
        let may = &tables[state.marks..tables.len().min(state.marks + 2)];
        let told = || format!("{table:?} after {} transactions", state.marks);
        if may.contains(&table) { Ok(()) } else { Err(told()) }
    })
}

#[test]
fn a_write_ahead_log_that_flushes_where_it_must_passes() {
    let found = check_transactions(None);
    assert_eq!(found.failures, []);
    assert!(found.states > 100 && found.left_out == 0, "{found:?}");
}

#[test]
fn a_missing_flush_of_a_write_ahead_log_is_found() {
    for flush in [Flush::BeforeCommit, Flush::BeforeTable] {
        let found = check_transactions(Some(flush));
        assert!(found.failed > 0, "{flush:?}: {found:?}");
        let first = &found.failures[0];
        println!("{flush:?}: {} of {} states, first {first:?}", found.failed, found.states);
    }
}

#[test]
fn a_flush_that_a_write_ahead_log_does_not_need_is_not_missed() {
    assert_eq!(check_transactions(Some(Flush::AfterTable)).failures, []);
}

#[test]
fn what_is_left_out_of_many_is_counted_and_the_seed_repeats_the_choice() {
    let mut hand = Hand::new();
    (0..300).for_each(|sector| hand.write(sector, 1));
    let recording = hand.recording();
    assert_eq!(
        recording.events().iter().filter(|event| matches!(event, DiskEvent::Begun(_))).count(),
        300
    );
    let run = |seed| {
        let mut kept: Vec<Vec<u64>> = Vec::new();
        let limits = EnumerationLimits { subsets: 200, seed, ..EnumerationLimits::default() };
        let found = enumerate(&recording, limits, |_, state| {
            let numbers = |writes: &[Write]| {
                state.kept.iter().map(|&number| writes[number].number()).collect()
            };
            kept.push(numbers(state.unflushed));
            Ok(())
        });
        assert_eq!(found.left_out, 2 + 300 + 300 + 299 * 150 - 200);
        kept
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
