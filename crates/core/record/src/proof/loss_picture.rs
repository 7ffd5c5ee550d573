//! What pictures of a losing cut need: acknowledgements around it, and the target after it.
//!
//! The data has a bounded size, however large the target and however many its writes. durio-prove
//! makes it, durio-report draws it.

use std::fmt;

use durio_plan::proof::LossClass;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Acknowledgements around a cut, and what the target holds after it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LossPicture {
    /// How long a slot of time is.
    pub slot_ns: u64,
    /// How long before the cut the first slot begins.
    pub begin_before_ns: u64,
    /// One after the other; the last ones may lie after the cut.
    pub slots: Vec<TimeSlot>,
    /// Acknowledged writes of these slots, in order; a choice of them where there are many.
    pub writes: Vec<AcknowledgedWrite>,
    /// The target, area by area.
    pub areas: Vec<MapArea>,
    /// Cells of 4 KiB per letter of an area.
    pub cells_per_tile: u64,
}

/// Acknowledgements in a slot of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "[u32; 2]", from = "[u32; 2]")]
pub struct TimeSlot {
    /// Writes.
    pub acknowledged: u32,
    /// Those that are not there as they must be.
    pub missing: u32,
}

impl From<TimeSlot> for [u32; 2] {
    fn from(slot: TimeSlot) -> Self {
        [slot.acknowledged, slot.missing]
    }
}

impl From<[u32; 2]> for TimeSlot {
    fn from([acknowledged, missing]: [u32; 2]) -> Self {
        Self { acknowledged, missing }
    }
}

/// An acknowledged write that no later one has overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "(i64, u64, bool)", from = "(i64, u64, bool)")]
pub struct AcknowledgedWrite {
    /// When its acknowledgement came, from the cut; before it below 0.
    pub at_ns: i64,
    /// Its first cell.
    pub cell: u64,
    /// All of it is there.
    pub is_there: bool,
}

impl From<AcknowledgedWrite> for (i64, u64, bool) {
    fn from(write: AcknowledgedWrite) -> Self {
        (write.at_ns, write.cell, write.is_there)
    }
}

impl From<(i64, u64, bool)> for AcknowledgedWrite {
    fn from((at_ns, cell, is_there): (i64, u64, bool)) -> Self {
        Self { at_ns, cell, is_there }
    }
}

/// A part of the target, and what its cells hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapArea {
    /// Which: `journal`, `table`, `control`, `canary`.
    pub name: String,
    pub first_cell: u64,
    /// What its cells hold, a letter for each or for several.
    pub tiles: Tiles,
}

/// States of cells; saved as one letter each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tiles(pub Vec<TileState>);

impl Serialize for Tiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Tiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|fate| write!(f, "{}", fate.letter()))
    }
}

impl<'de> Deserialize<'de> for Tiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // This version cannot draw a letter of a later one.
        let state = |letter| TileState::of_letter(letter).unwrap_or(TileState::Untouched);
        Ok(Self(text.chars().map(state).collect()))
    }
}

/// What a cell holds after a cut, or the gravest of several cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// In order, the gravest first.
pub enum TileState {
    /// Not what it must.
    Wrong(LossClass),
    /// No longer the control that was written there: a cut may take it.
    ControlLost,
    /// A write that was not acknowledged, or a part of it: it may be there.
    InFlight,
    /// The acknowledged write.
    Kept,
    /// The control that was written there.
    ControlKept,
    /// What it held before this life.
    Untouched,
}

impl TileState {
    /// Each, the gravest first.
    pub const ALL: [Self; 13] = [
        Self::Wrong(LossClass::Gone),
        Self::Wrong(LossClass::Unreadable),
        Self::Wrong(LossClass::Misdirected),
        Self::Wrong(LossClass::Corrupt),
        Self::Wrong(LossClass::Collateral),
        Self::Wrong(LossClass::Unstable),
        Self::Wrong(LossClass::Lost),
        Self::Wrong(LossClass::Torn),
        Self::ControlLost,
        Self::InFlight,
        Self::Kept,
        Self::ControlKept,
        Self::Untouched,
    ];

    /// Its letter; upper case for what must not be.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Wrong(LossClass::Gone) => 'G',
            Self::Wrong(LossClass::Unreadable) => 'E',
            Self::Wrong(LossClass::Misdirected) => 'M',
            Self::Wrong(LossClass::Corrupt) => 'X',
            Self::Wrong(LossClass::Collateral) => 'C',
            Self::Wrong(LossClass::Unstable) => 'U',
            // A user's check reports losses of a whole, never of a cell.
            Self::Wrong(LossClass::Lost | LossClass::CheckFailed) => 'L',
            Self::Wrong(LossClass::Torn) => 'T',
            Self::ControlLost => 'x',
            Self::InFlight => 'f',
            Self::Kept => 'k',
            Self::ControlKept => 'c',
            Self::Untouched => '.',
        }
    }

    fn of_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|fate| fate.letter() == letter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_letter_of_its_own_and_comes_back_from_it() {
        let tiles = Tiles(TileState::ALL.to_vec());
        let text = serde_json::to_string(&tiles).unwrap();
        assert_eq!(text, "\"GEMXCULTxfkc.\"");
        assert_eq!(serde_json::from_str::<Tiles>(&text).unwrap(), tiles);
        assert!(TileState::ALL.is_sorted(), "the gravest of several cells is the least");
    }

    #[test]
    fn a_letter_of_a_later_version_stops_no_reader() {
        let tiles: Tiles = serde_json::from_str("\"kZ\"").unwrap();
        assert_eq!(tiles.0, [TileState::Kept, TileState::Untouched]);
    }
}
