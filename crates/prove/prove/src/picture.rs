//! The data for pictures of a losing cut, in bounded size: acknowledgements around it, a map of the
//! target.
//!
//! Takes a history, findings and a reading, and returns a [`LossPicture`].

use std::collections::HashMap;

use durio_plan::proof::LossClass;
use durio_record::proof::{
    AcknowledgedWrite, Finding, LossPicture, MapArea, TileState, Tiles, TimeSlot,
};

use crate::history::{History, Seq};
use crate::layout::{CELL_SECTORS, CELLS_MIN, Layout};
use crate::ledger::Intent;
use crate::reading::{ObservedCell, SectorState};

/// The number of columns that fit on half a screen.
const SLOTS_MAX: u64 = 100;
/// The time before a cut that is always shown, if the life is long enough.
const SPAN_MIN: u64 = 100_000_000;
/// Limit for the writes that are present, and for those that are missing.
const WRITES_MAX: usize = 128;
/// 16 lines of 64.
const TILES_MAX: u64 = 1024;

pub(crate) fn picture(
    history: &History,
    findings: &[Finding],
    reading: &[ObservedCell],
) -> LossPicture {
    let mut wrong: HashMap<u64, LossClass> = HashMap::new();
    for finding in findings {
        let class = wrong.entry(finding.sector / CELL_SECTORS).or_insert(finding.class);
        *class = finding.class.min(*class);
    }
    let last = last_acknowledged(history);
    let writes = acknowledged(history, &last, &wrong);
    let (cells_per_tile, areas) = areas(history, |cell| {
        let place = usize::try_from(cell - history.cells().start).unwrap_or(usize::MAX);
        let known = (wrong.get(&cell), last.get(&cell));
        reading.get(place).map_or(TileState::Untouched, |cell| state(history, known, cell))
    });
    LossPicture { areas, cells_per_tile, ..timeline(&writes) }
}

fn cells_of(intent: &Intent) -> impl Iterator<Item = u64> + use<> {
    let first = intent.sector / CELL_SECTORS;
    first..first + u64::from(intent.sectors) / CELL_SECTORS
}

/// For each cell with an acknowledged write of this life, the last one.
fn last_acknowledged(history: &History) -> HashMap<u64, Seq> {
    let intents = history.acknowledged().iter().filter_map(|(seq, _)| history.intent(*seq));
    intents.flat_map(|intent| cells_of(&intent).map(move |cell| (cell, intent.seq))).collect()
}

/// An acknowledged write of this life.
struct KnownWrite {
    /// From the cut on.
    at_ns: i64,
    cell: u64,
    /// `None` if a later acknowledged write is in its place.
    is_there: Option<bool>,
}

fn acknowledged(
    history: &History,
    last: &HashMap<u64, Seq>,
    wrong: &HashMap<u64, LossClass>,
) -> Vec<KnownWrite> {
    let cut_at = i64::try_from(history.cut_at().map_or(0, durio_base::Nanos::get));
    let cut_at = cut_at.unwrap_or(i64::MAX);
    let known = history.acknowledged().iter().filter_map(|(seq, at)| {
        let intent = history.intent(*seq)?;
        let own = || cells_of(&intent).filter(|cell| last.get(cell) == Some(seq));
        let is_there = own().next().map(|_| !own().any(|cell| wrong.contains_key(&cell)));
        let at = i64::try_from(at.get()).unwrap_or(i64::MAX);
        Some(KnownWrite { at_ns: at - cut_at, cell: intent.sector / CELL_SECTORS, is_there })
    });
    known.collect()
}

fn timeline(writes: &[KnownWrite]) -> LossPicture {
    let age = |write: &KnownWrite| u64::try_from(-write.at_ns).unwrap_or(0);
    let missing = writes.iter().filter(|write| write.is_there == Some(false)).map(age);
    // A little more than the missing span, to show what precedes it.
    let wanted = missing.max().map_or(0, |age| age + age / 8).max(SPAN_MIN);
    let before = wanted.min(writes.iter().map(age).max().unwrap_or(0));
    let after =
        writes.iter().map(|write| u64::try_from(write.at_ns).unwrap_or(0)).max().unwrap_or(0);
    let slot_ns = round_up((before + after).div_ceil(SLOTS_MAX));
    let begin_before_ns = before.div_ceil(slot_ns) * slot_ns;
    let place = |write: &KnownWrite| {
        let since = i64::try_from(begin_before_ns).ok()? + write.at_ns;
        // Acknowledgements at the moment of the cut count as before it.
        usize::try_from(u64::try_from(since).ok()?.saturating_sub(1) / slot_ns).ok()
    };
    let count = writes.iter().filter_map(place).max().map_or(0, |slot| slot + 1);
    let mut slots = vec![TimeSlot::default(); count];
    for write in writes {
        if let Some(slot) = place(write).and_then(|slot| slots.get_mut(slot)) {
            slot.acknowledged += 1;
            slot.missing += u32::from(write.is_there == Some(false));
        }
    }
    let shown = || writes.iter().filter(|write| place(write).is_some());
    let mut chosen = choice(shown(), true);
    chosen.extend(choice(shown(), false));
    chosen.sort_by_key(|write| write.at_ns);
    LossPicture { slot_ns, begin_before_ns, slots, writes: chosen, ..LossPicture::default() }
}

/// The smallest of 1, 2, 5, 10 … µs that is at least this long.
fn round_up(nanos: u64) -> u64 {
    let decades = std::iter::successors(Some(1000_u64), |decade| decade.checked_mul(10));
    let round = decades.flat_map(|decade| [1, 2, 5].map(|times| decade.saturating_mul(times)));
    round.into_iter().find(|duration| *duration >= nanos).unwrap_or(u64::MAX)
}

/// Selects writes that are present, or missing, evenly from the last one back.
fn choice<'a>(
    writes: impl DoubleEndedIterator<Item = &'a KnownWrite> + Clone,
    is_there: bool,
) -> Vec<AcknowledgedWrite> {
    let those = writes.filter(|write| write.is_there == Some(is_there));
    let every = those.clone().count().div_ceil(WRITES_MAX).max(1);
    let chosen = those.rev().step_by(every);
    chosen
        .map(|write| AcknowledgedWrite { at_ns: write.at_ns, cell: write.cell, is_there })
        .collect()
}

/// The state of a cell: its loss class, or the write it holds.
fn state(
    history: &History,
    (wrong, last): (Option<&LossClass>, Option<&Seq>),
    observed: &ObservedCell,
) -> TileState {
    if let Some(class) = wrong {
        return TileState::Wrong(*class);
    }
    let first = history.intents().first().map_or(Seq::MAX, |intent| intent.seq);
    let newest = observed.sectors().into_iter().filter_map(|state| match state {
        SectorState::Write(seq) => Some(seq),
        _ => None,
    });
    let newest = newest.max().filter(|seq| *seq >= first);
    match (last, newest) {
        (Some(acknowledged), Some(newest)) if newest > *acknowledged => TileState::InFlight,
        (Some(_), _) => TileState::Kept,
        (None, Some(_)) => TileState::InFlight,
        (None, None) => TileState::Untouched,
    }
}

/// The number of cells per tile, and the target's areas in tiles.
fn areas(history: &History, state: impl Fn(u64) -> TileState) -> (u64, Vec<MapArea>) {
    let cells = history.cells();
    if cells.end < CELLS_MIN {
        return (1, Vec::new());
    }
    let per_tile = (cells.end - cells.start).div_ceil(TILES_MAX).next_power_of_two();
    let mut controls: HashMap<u64, Seq> = HashMap::new();
    controls.extend(
        history.controls_done().map(|control| (control.sector / CELL_SECTORS, control.seq)),
    );
    let layout = Layout::new(cells.end);
    let areas = [
        ("journal", layout.journal),
        ("table", layout.table),
        ("control", layout.control.clone()),
        ("canary", layout.canary),
    ];
    let of_cell = |cell: u64| match state(cell) {
        // A control whose write had returned is present, or was lost in a cut.
        TileState::InFlight if controls.contains_key(&cell) => TileState::ControlKept,
        TileState::Untouched if controls.contains_key(&cell) => TileState::ControlLost,
        other => other,
    };
    let areas = areas.map(|(name, range)| {
        let tiles = range.clone().step_by(usize::try_from(per_tile).unwrap_or(usize::MAX));
        let tile = |first: u64| (first..range.end.min(first + per_tile)).map(of_cell).min();
        let tiles = tiles.filter_map(tile).collect();
        MapArea { name: name.to_owned(), first_cell: range.start, tiles: Tiles(tiles) }
    });
    (per_tile, areas.into())
}

#[cfg(test)]
mod tests {
    use durio_base::Nanos;

    use super::*;
    use crate::ledger::LedgerEntry;

    const MS: u64 = 1_000_000;

    fn intent(seq: u64, cell: u64) -> Intent {
        let is_control = Layout::new(64).control.contains(&cell);
        Intent { seq, sector: cell * CELL_SECTORS, sectors: 8, is_control }
    }

    /// Writes to cells of a target of 64, acknowledged at these milliseconds; the cut comes at 50.
    fn history(writes: &[(u64, Option<u64>)]) -> History {
        let mut history = History::new(1..64, Nanos::ZERO);
        for (seq, (cell, at)) in (1..).zip(writes) {
            history.take(LedgerEntry::Intended(intent(seq, *cell))).unwrap();
            if let Some(at) = at {
                history.take(LedgerEntry::Acknowledged { seq, at: Nanos::new(at * MS) }).unwrap();
            }
        }
        history.take(LedgerEntry::Cut { at: Nanos::new(50 * MS) }).unwrap();
        history
    }

    fn lost(cell: u64) -> Finding {
        Finding {
            class: LossClass::Lost,
            sector: cell * CELL_SECTORS,
            sectors: 8,
            seq: 1,
            acknowledged_before_ns: None,
            found: durio_record::proof::InPlace::Zeros,
        }
    }

    fn reading(of: &[(usize, u64)]) -> Vec<ObservedCell> {
        let mut cells = vec![ObservedCell::Whole(0); 63];
        of.iter().for_each(|(cell, seq)| cells[cell - 1] = ObservedCell::Whole(*seq));
        cells
    }

    #[test]
    fn the_timeline_ends_at_the_cut_and_shows_which_acknowledged_writes_are_missing() {
        let writes = [(1, Some(10)), (2, Some(20)), (1, Some(30)), (3, Some(49)), (4, Some(51))];
        let found = picture(&history(&writes), &[lost(3)], &reading(&[(1, 3), (2, 2), (4, 5)]));
        assert_eq!((found.slot_ns, found.begin_before_ns), (500_000, 40 * MS));
        // What comes at the end of a slot is in it.
        let slot = |ms: usize| found.slots[(2 * ms).saturating_sub(1)];
        let slot = |ms: usize| (slot(ms).acknowledged, slot(ms).missing);
        assert_eq!(
            [slot(0), slot(10), slot(20), slot(39), slot(41)],
            [(1, 0), (1, 0), (1, 0), (1, 1), (1, 0)]
        );
        // The first write of cell 1 was overwritten, so its fate is unknown.
        let fates: Vec<_> = found
            .writes
            .iter()
            .map(|write| (write.at_ns / 1_000_000, write.cell, write.is_there))
            .collect();
        assert_eq!(fates, [(-30, 2, true), (-20, 1, true), (-1, 3, false), (1, 4, true)]);
    }

    #[test]
    fn the_timeline_begins_before_the_oldest_missing_write_where_that_is_within_a_slot() {
        // 47 ms before the cut and 60 ms after it: more than 100 slots of 1 ms.
        let writes = [(1, Some(3)), (2, Some(20)), (3, Some(50)), (4, Some(110))];
        let found = picture(&history(&writes), &[lost(1)], &reading(&[(2, 2), (3, 3), (4, 4)]));
        assert_eq!((found.slot_ns, found.begin_before_ns), (2 * MS, 48 * MS));
        let slot = |at: usize| (found.slots[at].acknowledged, found.slots[at].missing);
        assert_eq!([slot(0), slot(8), slot(23), slot(53)], [(1, 1), (1, 0), (1, 0), (1, 0)]);
        assert_eq!(found.slots.len(), 54);
        let fates: Vec<_> = found
            .writes
            .iter()
            .map(|write| (write.at_ns / 1_000_000, write.cell, write.is_there))
            .collect();
        assert_eq!(fates, [(-47, 1, false), (-30, 2, true), (0, 3, true), (60, 4, true)]);
    }

    #[test]
    fn each_area_of_the_map_shows_what_its_cells_hold() {
        let Layout { journal, table, control, .. } = Layout::new(64);
        let (log, anywhere, control) = (journal.start, table.start + 3, control.start);
        let writes = [
            (log, Some(10)),
            (log + 1, Some(20)),
            (anywhere, None),
            (control, None),
            (control + 1, None),
        ];
        let mut history = history(&writes);
        history.take(LedgerEntry::ControlDone { seq: 4 }).unwrap();
        history.take(LedgerEntry::ControlDone { seq: 5 }).unwrap();
        let there = [(log, 1), (anywhere, 3), (control, 4)]
            .map(|(cell, seq)| (usize::try_from(cell).unwrap(), seq));
        let found = picture(&history, &[lost(log + 1)], &reading(&there));
        let tiles: Vec<String> = found.areas.iter().map(|area| area.tiles.to_string()).collect();
        assert_eq!(found.cells_per_tile, 1);
        assert_eq!(tiles[0], "kL..............");
        assert_eq!(tiles[1].find('f'), Some(3), "{tiles:?}");
        assert_eq!(tiles[2], "cx..");
        assert!(tiles[3].chars().all(|tile| tile == '.'), "{tiles:?}");
    }

    #[test]
    fn a_large_target_and_many_writes_make_no_larger_picture() {
        let mut history = History::new(1..262_144, Nanos::ZERO);
        for seq in 1..=20_000 {
            history.take(LedgerEntry::Intended(intent(seq, seq))).unwrap();
            let at = Nanos::new(seq * MS / 100);
            history.take(LedgerEntry::Acknowledged { seq, at }).unwrap();
        }
        history.take(LedgerEntry::Cut { at: Nanos::new(201 * MS) }).unwrap();
        let found = picture(&history, &[lost(19_000)], &vec![ObservedCell::Whole(0); 262_143]);
        assert!(found.slots.len() <= 101, "{}", found.slots.len());
        assert_eq!(found.writes.iter().filter(|write| !write.is_there).count(), 1);
        assert!((100..=129).contains(&found.writes.len()), "{}", found.writes.len());
        let tiles: Vec<&Tiles> = found.areas.iter().map(|area| &area.tiles).collect();
        let all: usize = tiles.iter().map(|tile| tile.0.len()).sum();
        assert!((1000..=1028).contains(&all), "{all}");
        let lost = |tiles: &&Tiles| tiles.0.contains(&TileState::Wrong(LossClass::Lost));
        assert_eq!(tiles.into_iter().filter(lost).count(), 1);
        assert!(serde_json::to_vec(&found).unwrap().len() < 16 << 10);
    }

    #[test]
    fn a_slot_has_a_round_length() {
        for (nanos, round) in [
            (0, 1000),
            (1001, 2000),
            (400_000, 500_000),
            (500_001, 1_000_000),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(round_up(nanos), round);
        }
    }
}
