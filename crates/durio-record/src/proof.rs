//! What a power cut left, as a proof folder keeps it.
//!
//! In: nothing. Out: data with its serial form, described in docs/formats/proof-folder.md. Not here:
//! how it is found (durio-prove), what follows from many cuts (durio-analyse).

use serde::{Deserialize, Serialize};

/// How a target broke its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossClass {
    /// The target is gone, or smaller.
    Gone,
    /// It cannot be read.
    Unreadable,
    /// A write stands where another belongs.
    Misdirected,
    /// Data that nobody wrote.
    Corrupt,
    /// What was certain since an earlier cut, and was not written since, is another.
    Collateral,
    /// Reads contradict each other.
    Unstable,
    /// An acknowledged write is not there; something older is.
    Lost,
    /// Of an acknowledged write some sectors are there.
    Torn,
}

impl LossClass {
    /// Each, the gravest first: the first that was found names what happened, the others may follow
    /// from it.
    pub const ALL: [Self; 8] = [
        Self::Gone,
        Self::Unreadable,
        Self::Misdirected,
        Self::Corrupt,
        Self::Collateral,
        Self::Unstable,
        Self::Lost,
        Self::Torn,
    ];
}

/// What stands in place of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum InPlace {
    /// An older write of the same place; 0 is what was there before the first.
    Older {
        /// Its number.
        seq: u64,
    },
    /// A write of another place.
    OfElsewhere {
        /// The sector where it belongs.
        home: u64,
        /// Its number.
        seq: u64,
    },
    /// Data of another campaign or target.
    Foreign,
    /// Zeros.
    Zeros,
    /// Ones in every bit.
    Ones,
    /// The write, but for so many bits.
    FlippedBits {
        /// How many.
        bits: u16,
    },
    /// Something else.
    Garbage,
    /// An error.
    Unreadable,
    /// Now this, now that.
    Changing {
        /// Writes that were read there, one after the other.
        seqs: Vec<u64>,
    },
    /// No target of this size.
    Nothing,
}

/// A cell of a target that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// In which way.
    pub class: LossClass,
    /// The first sector that is not as it must be.
    pub sector: u64,
    /// How many sectors of the cell are not.
    pub sectors: u16,
    /// The write that must be there at least.
    pub seq: u64,
    /// How long before the cut that write was acknowledged; none if it was certain since an earlier cut.
    pub acknowledged_before_ns: Option<u64>,
    /// What is there instead.
    pub found: InPlace,
}

/// What a cut left of the writes without a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Controls {
    /// Cells that were written, and whose write had returned.
    pub written: u64,
    /// Those that are not there.
    pub lost: u64,
}

/// What the writes that nobody was promised have become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InFlight {
    /// Cells where such a write is.
    pub kept: u64,
    /// Cells with a part of it.
    pub torn: u64,
}

/// What was found after a cut.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CutFindings {
    /// Writes that were acknowledged in this life.
    pub acknowledged: u64,
    /// Those among them of the last 100 ms.
    pub acknowledged_late: u64,
    /// Controls.
    pub controls: Controls,
    /// Writes that nobody was promised.
    pub in_flight: InFlight,
    /// What is not as it must be.
    pub findings: Vec<Finding>,
}

impl CutFindings {
    /// What happened, in a word: the gravest class that was found.
    #[must_use]
    pub fn class(&self) -> Option<LossClass> {
        self.findings.iter().map(|it| it.class).min()
    }
}
