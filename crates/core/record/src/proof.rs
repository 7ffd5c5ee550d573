//! A proof folder: the plan, and one [`CutRecord`] for each power cut.
//!
//! The folder of a killed proof can be read back too. docs/formats/proof-folder.md describes the
//! format. durio-prove finds the losses, [`analyse_proof`] makes verdicts of many cuts.
//!
//! A losing cut has what a picture of it needs ([`LossPicture`]): acknowledgements around it, and the
//! target after it. It has a bounded size, however large the target and however many its writes.
//! durio-prove makes it, durio-report draws it.

pub mod crash_states;
mod cuts;
mod verdict;

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};

use durio_block::Folder;
use durio_observe::{Host, PowerState, Stack};
use durio_plan::proof::{LossClass, ProofPlan};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{failed, malformed, reading};
use crate::folder::{FolderManifest, ManifestFolder, check_owner, open_folder};
use crate::{Outcome, RecordError};

pub use cuts::{ACKNOWLEDGED_MIN, Ineffective, LossFindings, LossShape, why_ineffective};
pub use verdict::{
    CONFIDENCE, CheckedCut, PROOF_SCHEMA, ProofFindings, ProofVerdict, SeriesFindings,
    analyse_proof,
};

/// Version of the folder. A reader reads its own version and older ones.
pub const PROOF_FOLDER_SCHEMA: u32 = 1;
/// The file that makes a folder one of a proof.
pub const PROOF_MANIFEST: &str = "proof.json";
/// A line for each cut.
pub const CUTS: &str = "cuts.jsonl";

/// A proof: the request, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofManifest {
    /// [`PROOF_FOLDER_SCHEMA`] of the writer.
    pub schema: u32,
    /// The name of the folder as it was made.
    pub proof: String,
    /// The version of durio that wrote it.
    pub durio_version: String,
    /// Begin, in RFC 3339.
    pub started: String,
    /// The command line; bytes that are not text are replaced.
    pub command: Vec<String>,
    /// The plan of the trials.
    pub plan: ProofPlan,
    /// How it ended; nothing while it runs, and for ever if it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl FolderManifest for ProofManifest {
    const FILE: &'static str = PROOF_MANIFEST;
    const SCHEMA: u32 = PROOF_FOLDER_SCHEMA;
    const MAKING: &'static str = "make the proof folder";
    const READING: &'static str = "read the proof folder";
}

/// The folder of a proof.
pub type ProofFolder = ManifestFolder<ProofManifest>;

// A folder from another user may hold a line without an end. A disk of 4 GiB whose every cell is
// lost, at some 200 bytes each, fits.
const LINE_LENGTH_MAX: u64 = 256 << 20;

/// The system under test, as reported by the machine that has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// The machine with the target; of a guest, the one on which QEMU runs.
    pub host: Host,
    /// The layers of the target; none for a guest's, or for one that is reached over NBD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Stack>,
    /// QEMU's version, of a guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu: Option<String>,
    /// The machine's boot, and the counters of the drives below the target.
    #[serde(default, skip_serializing_if = "PowerState::is_empty")]
    pub power: PowerState,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CutRecord {
    /// The series, by its place in the plan.
    pub series: u32,
    /// Which cut of the series, from 1.
    pub cut: u32,
    /// What shows that the power was gone.
    pub evidence: CutEvidence,
    /// The findings after it.
    pub findings: CutFindings,
    /// From the load's start to the verification's end, in this machine's time.
    pub took_ns: u64,
    /// The system under test: with the first cut of a series, and the first after each resumption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Box<Inventory>>,
}

/// What shows that a cut was one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CutEvidence {
    /// The disk is simulated, and was cut by its own command.
    #[serde(default)]
    pub simulated: bool,
    /// The drive's counter of unexpected power losses, before and after; of several drives that which
    /// rose least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsafe_shutdowns: Option<[u64; 2]>,
    /// That drive's counter of power-ons, before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_cycles: Option<[u64; 2]>,
    /// The machine's boot identifier changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebooted: Option<bool>,
    /// Instead of a cut, this crash state of a recorded life was put on the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Acknowledgements that came after the cut: any of them shows that it was not a cut.
    #[serde(default)]
    pub acknowledged_after: u64,
}

/// The contents in place of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum InPlace {
    /// An older write of the same place; 0 is the state before the first.
    Older {
        seq: u64,
    },
    /// A write of another place.
    OfElsewhere {
        /// The sector where it belongs.
        home: u64,
        seq: u64,
    },
    /// Data of another campaign or target.
    Foreign,
    Zeros,
    /// Ones in every bit.
    Ones,
    /// The write, with this many bits flipped.
    FlippedBits {
        bits: u16,
    },
    /// Bytes that no write of the proof made.
    Garbage,
    /// Reading it is an error.
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
    pub class: LossClass,
    /// The first sector that is not as it must be.
    pub sector: u64,
    /// How many sectors of the cell are not, in this way.
    pub sectors: u16,
    /// The write that must be there at least.
    pub seq: u64,
    /// How long before the cut that write was acknowledged; none if it was certain since an earlier cut.
    pub acknowledged_before_ns: Option<u64>,
    /// The contents there instead, in the first of them.
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

/// The fate of the writes that were never promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InFlightWrites {
    /// Cells where such a write is.
    pub kept: u64,
    /// Cells with a part of it.
    pub torn: u64,
}

/// How long before a cut an acknowledgement is late: what any volatile cache may still hold. Drives
/// lost writes that they had acknowledged up to 700 ms before (Ahmadian et al., DATE 2018).
pub const LATE_NS: u64 = 100_000_000;

/// The findings after a cut.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CutFindings {
    /// Writes that were acknowledged in this life.
    pub acknowledged: u64,
    /// Those among them of the last 100 ms ([`LATE_NS`]).
    pub acknowledged_late: u64,
    /// From the first of them to the cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledging_ns: Option<u64>,
    /// Cells with an acknowledged write of this life that is there.
    pub kept: u64,
    /// How long before the cut the last of them was acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub youngest_kept_ns: Option<u64>,
    pub controls: Controls,
    /// Writes that were never promised.
    pub in_flight: InFlightWrites,
    /// Deviations; at most 1000, the gravest first.
    pub findings: Vec<Finding>,
    /// Those that are left out of the list.
    #[serde(default)]
    pub left_out: u64,
    /// What the check of a user's command said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckFindings>,
    /// For pictures of a cut that lost something; none for other cuts, or from an older durio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<Box<LossPicture>>,
}

/// What the check of a user's command said after a cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFindings {
    /// Its exit code: 0 if all is there, 1 if not; none if the filesystem could not be mounted.
    pub exit_code: Option<u8>,
    /// The end of what it wrote to stdout and stderr; why the filesystem could not be mounted.
    pub said: String,
    /// The command's last lines before the cut, as the host has them.
    pub last_acknowledged: String,
    /// Lines of the command that came after the cut, having been on their way: they do not count.
    pub on_the_way: u64,
}

impl CutFindings {
    /// What happened, in a word: the gravest class that was found.
    pub fn class(&self) -> Option<LossClass> {
        let of_check = self.check.as_ref().and_then(|check| match check.exit_code {
            Some(0) => None,
            Some(_) => Some(LossClass::CheckFailed),
            None => Some(LossClass::Gone),
        });
        self.findings.iter().map(|finding| finding.class).chain(of_check).min()
    }

    /// Whether something is not as it must be.
    pub fn is_loss(&self) -> bool {
        self.class().is_some()
    }
}

/// Appends cuts to a folder.
#[derive(Debug)]
pub struct CutWriter {
    folder: Folder,
    file: File,
}

impl ProofFolder {
    /// Continues writing the cuts. Bytes behind the last whole line were unreadable, and are cut
    /// off.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn writer(&self) -> Result<CutWriter, RecordError> {
        let folder = open_folder(self.path(), "write the proof folder")?;
        check_owner(&folder)?;
        let path = folder.path().join(CUTS);
        let fail = |error| failed("write", &path, error);
        let file = match folder.open_own(CUTS) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => folder.make_file(CUTS),
            file => file,
        };
        let mut file = file.map_err(fail)?;
        let whole = whole_lines(&mut file).map_err(fail)?;
        file.set_len(whole).map_err(fail)?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(fail)?;
        Ok(CutWriter { folder, file })
    }

    /// The cuts in their order. A last line that is not whole is passed over.
    ///
    /// # Errors
    /// If the file cannot be read, or one of its lines is not a cut.
    pub fn cuts(&self) -> Result<Vec<CutRecord>, RecordError> {
        let folder = open_folder(self.path(), "read the proof folder")?;
        let path = folder.path().join(CUTS);
        let file = match folder.open_file(CUTS) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file.map_err(|error| reading(&path, error))?,
        };
        let mut reader = BufReader::new(file);
        let mut cuts = Vec::new();
        while let Some(line) = whole_line(&mut reader).map_err(|error| reading(&path, error))? {
            let cut = serde_json::from_slice(&line).map_err(|error| {
                let reason = format!("line {}: {error}", cuts.len() + 1);
                malformed("read", &path, reason)
            })?;
            cuts.push(cut);
        }
        Ok(cuts)
    }
}

impl CutWriter {
    /// Appends a cut.
    ///
    /// # Errors
    /// If it cannot be written, for example because the disk is full.
    pub fn write(&mut self, cut: &CutRecord) -> Result<(), RecordError> {
        let path = self.folder.path().join(CUTS);
        let mut line = serde_json::to_vec(cut).map_err(|error| malformed("write", &path, error))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| failed("write", &path, error))
    }
}

/// The next line with its line feed; none at the end, and none for a last line without one.
fn whole_line(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let count = reader.take(LINE_LENGTH_MAX).read_until(b'\n', &mut line)?;
    match line.ends_with(b"\n") {
        true => Ok(Some(line)),
        false if count as u64 == LINE_LENGTH_MAX => {
            Err(std::io::Error::other("a line is longer than 256 MiB"))
        }
        false => Ok(None),
    }
}

/// Bytes until the end of the last whole line.
fn whole_lines(file: &mut File) -> std::io::Result<u64> {
    let mut reader = BufReader::new(file);
    let mut whole = 0;
    while let Some(line) = whole_line(&mut reader)? {
        whole += line.len() as u64;
    }
    Ok(whole)
}

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
    /// Writes acknowledged in this slot of time.
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
    /// The acknowledged write is there.
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
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_cut_has_256_mib_at_most_and_a_torn_one_is_none() {
        let line = |bytes: u64| {
            let blank = std::io::repeat(b' ').take(bytes);
            whole_line(&mut BufReader::new(blank.chain(&b"\n"[..])))
        };
        assert_eq!(line(268_435_455).unwrap().map(|line| line.len()), Some(268_435_456));
        assert_eq!(line(268_435_456).unwrap_err().to_string(), "a line is longer than 256 MiB");
        assert_eq!(whole_line(&mut &b"{\"cut\":"[..]).unwrap(), None);
    }

    #[test]
    fn a_cut_that_cannot_be_written_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        let file = File::options().write(true).open("/dev/full").unwrap();
        let cut = CutRecord {
            series: 0,
            cut: 1,
            evidence: CutEvidence::default(),
            findings: CutFindings::default(),
            took_ns: 1,
            inventory: None,
        };
        let error = CutWriter { folder, file }.write(&cut).unwrap_err();
        assert!(error.to_string().contains("cuts.jsonl"), "{error}");
    }

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
