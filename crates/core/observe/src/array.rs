//! The state of an array of durio, and what its superblocks say, as data: durio-raid-commands asks the server
//! and reads superblocks, durio-report shows the answers.

use durio_base::RaidLevel;
use serde::{Deserialize, Serialize};

/// The forms of the JSON documents.
const STATUS_SCHEMA: &str = "durio-raid-status-1";
const LIST_SCHEMA: &str = "durio-raid-list-1";
const EXAMINATION_SCHEMA: &str = "durio-raid-examination-1";

/// What all members of an array agree on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayShape {
    pub name: String,
    /// Its identity, 32 hexadecimal digits.
    pub array: String,
    #[serde(with = "durio_base::raid_level::as_number")]
    pub level: RaidLevel,
    /// Members with a role; spares are not counted.
    pub members: u8,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes that are marked as dirty together.
    pub region_bytes: u64,
    /// Bytes of the array.
    pub size_bytes: u64,
    /// Where data begins on a member.
    pub data_at_bytes: u64,
    /// Bytes of data on each member.
    pub member_bytes: u64,
}

/// How an array stands that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayState {
    /// Its first superblocks are being written.
    Starting,
    /// All members are in sync, and their common contents are equal.
    Running,
    /// All members have every acknowledged write; elsewhere their copies, or parities, are still being made
    /// equal.
    Resyncing,
    /// It runs, and members are missing or are being rebuilt.
    Degraded,
    /// It has stopped by itself.
    Stopped,
}

/// How a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberStanding {
    /// It has every acknowledged write.
    InSync,
    /// It gets every write, and lacks older data.
    Rebuilding,
    /// It is away, or has failed.
    Faulty,
    /// It waits to take the place of a faulty one.
    Spare,
    /// Its device is here, and the array does not use it.
    GivenUp,
}

impl MemberStanding {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::InSync => "in sync",
            Self::Rebuilding => "rebuilding",
            Self::Faulty => "faulty",
            Self::Spare => "spare",
            Self::GivenUp => "given up",
        }
    }
}

/// A member of an array that is served, or a device that it has given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its role; none of a spare, a replacement and a device that was given up.
    pub role: Option<u8>,
    /// The role that it takes when it is in sync, if it is a replacement.
    pub replaces: Option<u8>,
    pub state: MemberStanding,
    /// Its device, if it is here.
    pub path: Option<String>,
    /// Bytes of its data that are rebuilt, while that is being done.
    pub rebuilt_bytes: Option<u64>,
    /// A rebuild copies only the regions that the map says it lacks.
    pub by_map: bool,
    /// Operations that are on their way to it.
    pub in_flight: u32,
    /// Reads that have ended well.
    pub reads: u64,
    pub writes: u64,
    /// Operations that have failed.
    pub errors: u64,
}

/// How an array stands that is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayStatus {
    /// The form of the JSON document.
    pub schema: String,
    #[serde(flatten)]
    pub shape: ArrayShape,
    /// Where its users find it: a block device, or a URI of NBD.
    pub served_at: String,
    pub state: ArrayState,
    /// Why it has stopped by itself.
    pub stopped_because: Option<String>,
    /// The epoch of its newest table of members.
    pub epoch: u64,
    /// Every member knows of every failure.
    pub is_settled: bool,
    /// Members that may fail, whichever they are, before an acknowledged write is lost.
    pub may_fail: u8,
    /// Regions of all members' data.
    pub regions: u32,
    /// Regions that are marked as dirty.
    pub regions_dirty: u32,
    /// The part of those whose copies must still be made equal.
    pub regions_to_resync: u32,
    /// Requests on their way, in pieces of a chunk.
    pub requests: u32,
    /// The newest scrub since it is served.
    pub scrub: Option<ArrayScrub>,
    /// Members by role, spares, devices that were given up.
    pub devices: Vec<MemberStatus>,
}

/// The progress of a scrub, and its findings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ArrayScrub {
    /// False when it has ended.
    pub is_running: bool,
    /// It makes copies equal.
    pub repairs: bool,
    /// Bytes that it has gone over, in one copy of each set.
    pub done_bytes: u64,
    /// Bytes to go over until it ends.
    pub all_bytes: u64,
    /// The part of `done_bytes` that could not be compared: copies may differ, or fewer than two are in sync.
    pub skipped_bytes: u64,
    /// Copies of chunks that differ from the first in sync, or parities that are not those of the data.
    pub mismatches: u64,
    /// Copies of chunks that could not be read.
    pub unreadable: u64,
    /// Copies of chunks that were written, of both kinds.
    pub repaired: u64,
    /// Where the first mismatches are; `mismatches` counts all.
    pub places: Vec<MismatchPlace>,
}

/// A copy of a chunk that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MismatchPlace {
    /// Where the chunk begins in the array.
    pub offset_bytes: u64,
    /// The role of the member with that copy.
    pub role: u8,
}

/// The arrays that are served on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArrayList {
    /// The form of the JSON document.
    pub schema: &'static str,
    pub arrays: Vec<ListedArray>,
}

impl ArrayList {
    #[must_use]
    pub const fn new(arrays: Vec<ListedArray>) -> Self {
        Self { schema: LIST_SCHEMA, arrays }
    }
}

/// A served array, by its socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedArray {
    pub socket: String,
    /// `None` if its server does not answer.
    pub status: Option<ArrayStatus>,
    /// Why its server does not answer.
    pub problem: Option<String>,
}

impl ArrayStatus {
    /// The name of the JSON document's form, for its makers.
    #[must_use]
    pub fn schema() -> String {
        STATUS_SCHEMA.to_owned()
    }
}

/// What a superblock says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExaminedMember {
    #[serde(flatten)]
    pub shape: ArrayShape,
    /// The member's identity, 32 hexadecimal digits.
    pub member: String,
    /// Its role; none of a spare, and of one whose role has gone to another.
    pub role: Option<u8>,
    /// How it stands by its own superblock.
    pub state: MemberStanding,
    /// The epoch of its table of members.
    pub epoch: u64,
    /// How often superblocks were written.
    pub revision: u64,
    /// Regions that its map marks.
    pub regions_marked: u32,
    /// How all roles stand by its own superblock, spares last.
    pub roles: Vec<MemberStanding>,
}

/// A device that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExaminedDevice {
    /// As it was named.
    pub path: String,
    /// Why it is not a member, or not a trusted one.
    pub problem: Option<String>,
    /// Why a start of all these rebuilds it.
    pub older: Option<String>,
    pub member: Option<ExaminedMember>,
}

/// The contents of devices, and whether they start together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArrayExamination {
    schema: &'static str,
    /// As they were named.
    pub devices: Vec<ExaminedDevice>,
    /// Why the members do not start together.
    pub does_not_start: Option<String>,
}

impl ArrayExamination {
    #[must_use]
    pub const fn new(devices: Vec<ExaminedDevice>, does_not_start: Option<String>) -> Self {
        Self { schema: EXAMINATION_SCHEMA, devices, does_not_start }
    }
}
