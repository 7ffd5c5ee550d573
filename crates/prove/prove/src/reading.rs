//! Reads a target and reports the contents of each cell. This is the verifier's separate reader of
//! stamps.
//!
//! Takes an engine and the owner of the expected stamps, and returns observations.

use std::ops::Range;

use durio_block::{BlockError, Completion, Engine, Operation, OperationKind, Ticks, WriteFlags};
use durio_simdisk::SECTOR;
use serde::{Deserialize, Serialize};

use crate::layout::{CELL, CELL_SECTORS, SECTORS};
use crate::stamp::{self, LABEL_SEQ, MAGIC, Stamp, StampOwner, VERSION, checksum, place};

/// The contents of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectorState {
    /// A whole stamp of this place and campaign: of this write.
    Write(u64),
    /// A whole stamp of this campaign and target, from another place.
    Elsewhere {
        /// The cell that the sector was written for, in sectors.
        home: u64,
        seq: u64,
    },
    /// A whole stamp of another campaign or target.
    Foreign,
    Zeros,
    /// Ones in every bit, as erased flash has it.
    Ones,
    /// No stamp, or a damaged one.
    Damaged {
        /// Bits that differ from the stamp, if they are few.
        flipped: Option<u16>,
    },
    Unreadable,
    /// Nothing: the target ends before it, or its file is missing.
    Nothing,
}

/// The contents of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ObservedCell {
    /// One write, here, in all sectors.
    Whole(u64),
    /// Sectors of different states.
    Mixed(Box<[SectorState; SECTORS]>),
}

impl ObservedCell {
    #[must_use]
    pub fn sectors(&self) -> [SectorState; SECTORS] {
        match self {
            Self::Whole(seq) => [SectorState::Write(*seq); SECTORS],
            Self::Mixed(states) => **states,
        }
    }
}

/// Reads all of these cells, as many at once as the engine has buffers for.
///
/// # Errors
/// If the engine itself fails. An unreadable cell is an observation.
pub fn observe<E: Engine + ?Sized>(
    engine: &mut E,
    owner: StampOwner,
    cells: Range<u64>,
    slots: u32,
    into: &mut Vec<ObservedCell>,
) -> Result<(), BlockError> {
    let step = (engine.slot_mut(0).len() / CELL) as u64;
    into.clear();
    let count = usize::try_from(cells.end - cells.start).unwrap_or(usize::MAX);
    into.resize(count, ObservedCell::Whole(0));
    let mut starts = cells.clone().step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let mut reading: Vec<Option<Range<u64>>> = vec![None; slots as usize];
    let mut completions = vec![Completion::default(); slots as usize];
    loop {
        let mut operations = Vec::with_capacity(slots as usize);
        for (slot, state) in (0..).zip(&mut reading).filter(|(_, state)| state.is_none()) {
            let Some(start) = starts.next() else { break };
            let range = start..(start + step).min(cells.end);
            operations.push(read_of(slot, &range));
            *state = Some(range);
        }
        let count = engine.exchange(&operations, &mut completions)?;
        if count == 0 {
            return Ok(());
        }
        for completion in &completions[..count] {
            let Some(range) = reading[completion.slot as usize].take() else { continue };
            let at = usize::try_from(range.start - cells.start).unwrap_or(usize::MAX);
            let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let states = &mut into[at..at + length];
            if usize::try_from(completion.result).is_ok_and(|count| count == length * CELL) {
                let bytes = &engine.slot_mut(completion.slot)[..length * CELL];
                for ((state, bytes), cell) in states.iter_mut().zip(bytes.chunks(CELL)).zip(range) {
                    *state = cell_state(owner, cell, bytes);
                }
            } else {
                // The unreadable cells are found one by one, later.
                states.fill(not_read(completion.result));
            }
        }
    }
}

/// The owner in the target's label, if it has one.
///
/// # Errors
/// If the engine itself fails.
pub fn label_of<E: Engine + ?Sized>(engine: &mut E) -> Result<Option<StampOwner>, BlockError> {
    if !read_cell(engine, 0)? {
        return Ok(None);
    }
    let (sectors, _) = engine.slot_mut(0)[..CELL].as_chunks::<SECTOR>();
    let run = std::array::from_fn(|at| sectors[0][place::RUN.start + at]);
    let owner = StampOwner { run, target: number(&sectors[0], place::TARGET) };
    let is_label = (0..)
        .zip(sectors)
        .all(|(sector, bytes)| sector_state(owner, sector, bytes) == SectorState::Write(LABEL_SEQ));
    Ok(is_label.then_some(owner))
}

/// Reads one cell into the first slot; false if it cannot be read.
pub(crate) fn read_cell<E: Engine + ?Sized>(engine: &mut E, cell: u64) -> Result<bool, BlockError> {
    Ok(usize::try_from(read_one(engine, cell)?) == Ok(CELL))
}

fn read_one<E: Engine + ?Sized>(engine: &mut E, cell: u64) -> Result<i32, BlockError> {
    let mut completions = [Completion::default()];
    let mut count = engine.exchange(&[read_of(0, &(cell..cell + 1))], &mut completions)?;
    while count == 0 {
        count = engine.exchange(&[], &mut completions)?;
    }
    Ok(completions[0].result)
}

/// A cell that was not read completely.
fn not_read(result: i32) -> ObservedCell {
    let state = if result == 0 { SectorState::Nothing } else { SectorState::Unreadable };
    ObservedCell::Mixed(Box::new([state; SECTORS]))
}

/// Extends the observations of a growing log to `cells` cells. A cell that the log has not reached
/// counts as unchanged by any write, and so does a hole left by a write that overtook the one
/// before it.
pub(crate) fn extend_by_log(observed: &mut Vec<ObservedCell>, log_begin: usize, cells: usize) {
    for cell in observed.iter_mut().skip(log_begin) {
        let of_hole = |state| match state {
            SectorState::Zeros => SectorState::Write(0),
            other => other,
        };
        let states = cell.sectors().map(of_hole);
        if states == [SectorState::Write(0); SECTORS] {
            *cell = ObservedCell::Whole(0);
        } else if let ObservedCell::Mixed(mixed) = cell {
            **mixed = states;
        }
    }
    observed.resize(cells, ObservedCell::Whole(0));
}

/// Reads one cell by itself.
///
/// # Errors
/// If the engine itself fails.
pub fn observe_cell<E: Engine + ?Sized>(
    engine: &mut E,
    owner: StampOwner,
    cell: u64,
) -> Result<ObservedCell, BlockError> {
    let result = read_one(engine, cell)?;
    if usize::try_from(result) != Ok(CELL) {
        return Ok(not_read(result));
    }
    Ok(cell_state(owner, cell, &engine.slot_mut(0)[..CELL]))
}

fn read_of(slot: u32, cells: &Range<u64>) -> Operation {
    Operation {
        kind: OperationKind::Read,
        flags: WriteFlags::None,
        link: false,
        file: 0,
        slot,
        length: (cells.end - cells.start) * CELL as u64,
        offset: cells.start * CELL as u64,
        intended_start: Ticks(0),
    }
}

/// Classifies the bytes of a cell.
pub(crate) fn cell_state(owner: StampOwner, cell: u64, bytes: &[u8]) -> ObservedCell {
    let (sectors, _) = bytes.as_chunks::<SECTOR>();
    let first = cell * CELL_SECTORS;
    let seq = number(&sectors[0], place::SEQ);
    let is_whole = (first..)
        .zip(sectors)
        .all(|(sector, bytes)| sector_state(owner, sector, bytes) == SectorState::Write(seq));
    if is_whole {
        return ObservedCell::Whole(seq);
    }
    let mut states = [SectorState::Zeros; SECTORS];
    for ((state, bytes), sector) in states.iter_mut().zip(sectors).zip(first..) {
        *state = sector_state(owner, sector, bytes);
    }
    ObservedCell::Mixed(Box::new(states))
}

fn sector_state(owner: StampOwner, sector: u64, bytes: &[u8; SECTOR]) -> SectorState {
    if number(bytes, place::CHECKSUM) != checksum(bytes) || bytes[place::MAGIC] != MAGIC {
        return damaged(owner, sector, bytes);
    }
    let is_ours = bytes[place::VERSION] == VERSION.to_le_bytes()
        && bytes[place::RUN] == owner.run
        && number(bytes, place::TARGET) == owner.target;
    let (home, seq) = (number(bytes, place::SECTOR), number(bytes, place::SEQ));
    match is_ours {
        false => SectorState::Foreign,
        true if home == sector => SectorState::Write(seq),
        true => SectorState::Elsewhere { home, seq },
    }
}

fn damaged(owner: StampOwner, sector: u64, bytes: &[u8; SECTOR]) -> SectorState {
    match bytes[0] {
        0 if bytes.iter().all(|&byte| byte == 0) => SectorState::Zeros,
        0xff if bytes.iter().all(|&byte| byte == 0xff) => SectorState::Ones,
        _ => SectorState::Damaged { flipped: flipped_bits(owner, sector, bytes) },
    }
}

/// How many bits flipped, if the intact fields still identify the stamp.
fn flipped_bits(owner: StampOwner, sector: u64, bytes: &[u8; SECTOR]) -> Option<u16> {
    /// More bits than this differ in half a sector of other data.
    const FEW: u32 = 64;
    let short =
        |place: Range<usize>| u16::from_le_bytes([bytes[place.start], bytes[place.start + 1]]);
    let (index, count) = (short(place::INDEX), short(place::COUNT));
    let told = Stamp { owner, sector, seq: number(bytes, place::SEQ), index, count };
    let mut differing = 0;
    for (word, bytes) in stamp::fill_words(&told).zip(bytes[place::FILL].chunks(8)) {
        differing += word.iter().zip(bytes).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        if differing > FEW {
            return None;
        }
    }
    // If the fill is whole, the flipped bits are in the fields or in the checksum.
    u16::try_from(differing.max(1)).ok()
}

/// Places of 8 bytes begin at a multiple of 8.
fn number(bytes: &[u8; SECTOR], place: Range<usize>) -> u64 {
    u64::from_le_bytes(bytes.as_chunks::<8>().0[place.start / 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_64_bits_are_told_as_turned_and_more_as_other_data() {
        let owner = StampOwner { run: [3; 16], target: 2 };
        let of = |bits: usize| {
            let mut bytes = [0; SECTOR];
            crate::writer::seal(
                &Stamp { owner, sector: 9, seq: 5, index: 1, count: 8 },
                &mut bytes,
            );
            // One bit of a byte, anywhere in the fill.
            (0..bits).for_each(|at| bytes[60 + 6 * at] ^= 1 << (at % 8));
            sector_state(owner, 9, &bytes)
        };
        assert_eq!(of(0), SectorState::Write(5));
        assert_eq!(of(1), SectorState::Damaged { flipped: Some(1) });
        assert_eq!(of(64), SectorState::Damaged { flipped: Some(64) });
        assert_eq!(of(65), SectorState::Damaged { flipped: None });
    }

    #[test]
    fn what_a_log_has_not_reached_and_its_holes_hold_what_no_write_has_changed() {
        let mixed = |states: [SectorState; SECTORS]| ObservedCell::Mixed(Box::new(states));
        let zeros = mixed([SectorState::Zeros; SECTORS]);
        let mut torn = [SectorState::Zeros; SECTORS];
        torn[0] = SectorState::Write(9);
        let mut cells = vec![zeros.clone(), ObservedCell::Whole(7), zeros.clone(), mixed(torn)];
        extend_by_log(&mut cells, 1, 5);
        torn[1..].fill(SectorState::Write(0));
        let holes =
            [ObservedCell::Whole(7), ObservedCell::Whole(0), mixed(torn), ObservedCell::Whole(0)];
        assert_eq!(cells[0], zeros, "no cell of the log");
        assert_eq!(cells[1..], holes);
    }
}
