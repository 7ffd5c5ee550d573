//! The plan of a proof: which targets are tried in which way, how often their power is cut, and the
//! expected outcome.

mod guest_layers;

use durio_base::{Bytes, Nanos, RaidLevel};
use durio_block::EngineKind;
use serde::{Deserialize, Serialize};

pub use guest_layers::{GuestArray, GuestArrayKind, GuestFilesystem, GuestLayers};

/// Numbers of cuts by name, with the claim that 95 % confidence allows after that many cuts without
/// a loss.
pub const CUT_PRESETS: [(&str, u32); 4] = [
    // Not every second cut loses something: no gross liar.
    ("smoke", 5),
    // Fewer than 5 %.
    ("standard", 59),
    // Fewer than 1 %.
    ("strong", 299),
    // Fewer than 0.1 %.
    ("paper", 3000),
];

/// Version of the saved form of a proof's plan.
pub const PROOF_PLAN_SCHEMA: u32 = 1;

/// Targets and paths in order, each until its power was cut often enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofPlan {
    /// [`PROOF_PLAN_SCHEMA`] when it was saved.
    pub schema: u32,
    pub name: String,
    /// What it shows; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Seed of every choice.
    pub seed: u64,
    /// In the order in which they run.
    pub series: Vec<ProofSeries>,
}

/// One target on one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofSeries {
    /// Its name: `flush-ignored/fdatasync/1`.
    pub name: String,
    /// The target of the writes.
    pub target: ProofTarget,
    /// How; nothing where a user's command decides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<Arm>,
    /// Cuts, or crash states, after which it ends without a loss.
    pub cuts: u32,
    /// The expected outcome, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<ExpectedVerdict>,
}

/// The target of the writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ProofTarget {
    /// A simulated disk of this profile, cut within durio's process.
    Simulated {
        profile: String,
        size: Bytes,
        /// How it is reached.
        via: SimulatedVia,
    },
    /// A durio array of simulated disks that lose power together, within durio's process.
    Array(ArrayTarget),
    /// Storage of a machine whose agent comes to the witness, and whose power commands cut.
    Agent(AgentTarget),
    /// Simulated disks in a guest of the lab, whose power goes with the disks'.
    Guest(GuestTarget),
    /// What a user's command keeps on such a disk.
    Command(CommandTarget),
}

/// A durio array of simulated disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayTarget {
    /// How data is spread.
    pub level: RaidLevel,
    pub members: u32,
    /// The profile of those members that have one, by its name.
    pub profile: String,
    /// The only member with that profile, from 0; the others are such disks without its lie. Without it all
    /// members have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liar: Option<u32>,
    /// The size of each member.
    pub size: Bytes,
}

impl ArrayTarget {
    /// Those that outlive a member; level 0 loses what any of its disks loses.
    pub const LEVELS: [RaidLevel; 4] =
        [RaidLevel::Raid1, RaidLevel::Raid5, RaidLevel::Raid6, RaidLevel::Raid10];

    /// The words for it: `raid1/fua-ignored@0`.
    pub fn words(&self) -> String {
        let (level, profile) = (self.level.word(), &self.profile);
        match self.liar {
            Some(liar) => format!("{level}/{profile}@{liar}"),
            None => format!("{level}/{profile}"),
        }
    }
}

/// Storage that an agent writes to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTarget {
    /// What it is called; its path is the agent's matter.
    pub name: String,
    /// Where the witness waits for the agent: an address and a port, 0 for any.
    pub listen: String,
    /// The secret for speaking to the witness.
    pub token: String,
    /// Command that starts an agent; none if it starts by itself. `{witness}` and `{token}` stand for
    /// the witness's address and the token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub start: Vec<String>,
    /// Command that cuts the power, which is off when it ends. None if a person cuts it by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<String>,
    /// Command that restores the power; none if nothing needs to be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restore: Vec<String>,
    /// How long the power stays away.
    pub off: Nanos,
    /// How long the target is written to at least.
    pub load: Nanos,
    /// How long the machine may take to come back.
    pub patience: Nanos,
    /// Bytes to use, from the start; 1 GiB without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
}

/// Simulated disks as a guest sees them, as many as its layers take, and what the guest puts on them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestTarget {
    /// The profile of each disk, by its name. Its lie begins when the guest has made its layers.
    pub profile: String,
    /// The only disk with that lie, from 0; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liar: Option<u32>,
    /// The size of each disk.
    pub size: Bytes,
    /// Which device QEMU shows.
    pub front_end: GuestFrontEnd,
    /// Whether that device has a volatile write cache. Without it QEMU sends every write with FUA.
    pub write_cache: bool,
    /// The layers on the disks.
    pub layers: GuestLayers,
    /// How the guest's writer submits.
    pub engine: EngineKind,
    /// The kernel's release or image; the newest without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// One life is recorded and its crash states are read, instead of cutting the power again and again;
    /// the series' cuts are states then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enumerated: bool,
}

/// A user's command in a guest of the lab, whose files lie on a simulated disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandTarget {
    /// The command and its arguments, which runs until the power goes.
    pub command: Vec<String>,
    /// What sh runs once, before the disk begins to lie and before the first cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// The sh script that looks for missing data after each cut.
    pub check: String,
    /// Where all three run, if the guest has it.
    pub directory: String,
    /// How long the command runs at least, from its first acknowledgement on; twice as long at most.
    pub load: Nanos,
    /// The disk's profile, by its name.
    pub profile: String,
    pub size: Bytes,
    /// Which device QEMU shows.
    pub front_end: GuestFrontEnd,
    /// Whether that device has a volatile write cache. Without it QEMU sends every write with FUA.
    pub write_cache: bool,
    /// The filesystem on the disk.
    pub layers: GuestLayers,
    /// What the guest is like.
    pub guest: CommandGuest,
}

/// What a guest is like that runs a user's command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandGuest {
    /// The kernel's release or image; the newest without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Whether its root is this machine's, read-only below a layer of memory; else it is separate.
    pub shares_root: bool,
    /// Programs for a separate root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Files and folders of this machine that it gets a copy of: where they are here and there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<[String; 2]>,
    pub memory: Bytes,
    /// How long each boot may last.
    pub limit: Nanos,
}

durio_base::worded! {
    /// What a disk looks like to a guest.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum GuestFrontEnd {
        /// Without FUA: the guest's kernel sends a flush after the write.
        VirtioBlk = "virtio-blk",
        /// QEMU promises FUA, and drops it while the write cache is on.
        Nvme = "nvme",
        /// QEMU makes a write and a flush of FUA.
        Scsi = "scsi",
    }
}

durio_base::worded! {
    /// How a simulated disk is reached.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SimulatedVia {
        /// By a call, on a virtual clock.
        Process = "process",
        /// Over NBD, by a socket.
        Nbd = "nbd",
    }
}

impl ProofTarget {
    /// Whether crash states are read instead of cutting the power.
    pub const fn is_enumerated(&self) -> bool {
        matches!(self, Self::Guest(GuestTarget { enumerated: true, .. }))
    }
}

/// How a target is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Arm {
    /// What makes writes durable.
    pub path: DurablePath,
    /// Writes in flight at the same time.
    pub depth: u32,
    /// Cells of 4 KiB that a write has.
    pub write_cells: u64,
    /// How files are written.
    #[serde(default, skip_serializing_if = "FileWrites::is_overwrite")]
    pub writes: FileWrites,
}

impl Arm {
    /// Overwrites of a cell each.
    pub const fn new(path: DurablePath, depth: u32) -> Self {
        Self { path, depth, write_cells: 1, writes: FileWrites::Overwrite }
    }

    /// The words for how a write is made durable: `fdatasync`, `append/fdatasync`.
    pub fn words(&self) -> String {
        match self.writes {
            FileWrites::Overwrite => self.path.word().to_owned(),
            other => format!("{}/{}", other.word(), self.path.word()),
        }
    }
}

durio_base::worded! {
    /// How a file of a filesystem is written.
    #[derive(Default, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FileWrites {
        /// Where it was written before. Devices allow only this.
        #[default]
        Overwrite = "overwrite",
        /// Its log at its end, so that it grows: its new size must last too.
        Append = "append",
        /// A new file is written, made durable, renamed over the old one, and the folder synced.
        Replace = "replace",
        /// The same without the folder's sync: nothing promises that the new name lasts.
        Rename = "rename",
    }
}

impl FileWrites {
    /// True if nothing but data changes.
    pub fn is_overwrite(&self) -> bool {
        *self == Self::Overwrite
    }

    /// True if each write makes a new file.
    pub const fn makes_files(self) -> bool {
        matches!(self, Self::Replace | Self::Rename)
    }
}

durio_base::worded! {
    /// What makes a write durable.
    #[derive(Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DurablePath {
        /// fsync after it.
        Fsync = "fsync",
        /// fdatasync after it.
        Fdatasync = "fdatasync",
        /// The write itself, by its flag `RWF_DSYNC`; NBD and simulated disks take it as FUA.
        RwfDsync = "rwf_dsync",
        /// The write itself, because the target is open with `O_DSYNC`.
        ODsync = "o_dsync",
    }
}

impl DurablePath {
    /// True if a sync follows each write.
    pub const fn syncs(self) -> bool {
        matches!(self, Self::Fsync | Self::Fdatasync)
    }
}

/// The outcome that the user expects of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "expect")]
pub enum ExpectedVerdict {
    /// It keeps every acknowledged write.
    Holds,
    /// It does not, and shows it in this way, within this many cuts in 99 of 100 campaigns.
    Breaks {
        /// The class of loss by which the lie shows.
        class: LossClass,
        /// Within how many cuts.
        within: u32,
    },
    /// It does not, within this many cuts. How it shows depends on what the cut leaves of the data of a
    /// filesystem or an array: a file is older, cannot be read, or is gone with all others.
    Loses {
        /// Within how many cuts.
        within: u32,
    },
    /// Chance decides whether it loses something before it notices what would lose it.
    MayLose,
}

durio_base::worded! {
    /// How a target broke its word.
    #[derive(PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    // In order, the gravest first: the first that was found names what happened, the others may follow
    // from it.
    pub enum LossClass {
        /// The target is gone, or smaller.
        Gone = "gone",
        /// It cannot be read.
        Unreadable = "unreadable",
        /// A write is in another's place.
        Misdirected = "misdirected",
        /// Data that was never written.
        Corrupt = "corrupt",
        /// A block has changed that was certain since an earlier cut and not written since.
        Collateral = "collateral",
        /// Reads contradict each other.
        Unstable = "unstable",
        /// An acknowledged write is not there; something older is.
        Lost = "lost",
        /// Only some sectors of an acknowledged write are there.
        Torn = "torn",
        /// The check of a user's command says so.
        CheckFailed = "check failed",
    }
}

impl LossClass {
    /// What it means, after "the target".
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Gone => "did not come back whole",
            Self::Unreadable => "returns errors for data that was written",
            Self::Misdirected => "stored a write at the wrong place",
            Self::Corrupt => "returns data that was never written",
            Self::Collateral => "changed data that was not being written",
            Self::Unstable => "returns different data for repeated reads",
            Self::Lost => "lost acknowledged writes",
            Self::Torn => "kept acknowledged writes in part",
            Self::CheckFailed => "fails its check: acknowledged data is missing or corrupt",
        }
    }
}
