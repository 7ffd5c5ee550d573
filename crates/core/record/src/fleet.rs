//! The folder of a campaign on many hosts.
//!
//! ```text
//! FOLDER/fleet.json        the campaign: spec, hosts asked, policy, versions
//!        hosts.jsonl       changes of the hosts' states
//!        events.jsonl      barriers, losses, decisions, orders of the operator
//!        hosts/NAME/RUN/   run folders, byte for byte
//! ```
//!
//! Folders come from hosts that may lie: the reader bounds every file, and names of hosts and runs
//! are checked before they are part of a path.

mod folder;

use durio_base::Nanos;
use serde::{Deserialize, Serialize};

pub use folder::{
    CampaignFolder, NamedFolders, ReadLines, campaign_files, check_name, named_folders,
};

/// Version of the campaign folder.
pub const CAMPAIGN_FOLDER_SCHEMA: u32 = 1;

/// The campaign as it was ordered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CampaignManifest {
    /// [`CAMPAIGN_FOLDER_SCHEMA`] of the writer.
    pub schema: u32,
    /// 128 random bits, as 32 hexadecimal digits.
    pub campaign: String,
    pub name: String,
    /// Version of the program that wrote it.
    pub version: String,
    /// Start, in RFC 3339.
    pub started: String,
    /// The command line; bytes that are not text are replaced.
    pub command: Vec<String>,
    /// The spec's text, as sent to every host.
    pub spec: String,
    /// SHA-256 of the spec, in hexadecimal.
    pub spec_digest: String,
    /// Hosts asked, in the operator's order.
    pub hosts: Vec<String>,
    pub policy: CampaignPolicy,
    /// The coordinator's public key; absent where orders are not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What the coordinator does by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CampaignPolicy {
    pub barrier: Barrier,
    pub lost: LostPolicy,
    /// Hosts that must remain, or the campaign stops.
    pub hosts_min: u32,
    pub repeats: u32,
    /// True if the targets are one storage.
    pub shared: bool,
}

/// Which steps start at the same time on all hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Barrier {
    /// The first; further steps follow on each host by itself.
    Start,
    /// The first of each section.
    Section,
    Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostPolicy {
    GoOn,
    Stop,
}

/// A host's place in the campaign.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    #[default]
    Asked,
    Joined,
    Planned,
    Permitted,
    /// Laid out and preconditioned: the next step waits for its start.
    Armed,
    /// Has the time of the next start.
    Ordered,
    Running,
    /// Its run ended; the folder is on the host.
    Ended,
    /// Final: the folder is here.
    Collected,
    /// Final unless the host comes back.
    Lost,
    /// Final: the plan, the version or the machine was not accepted.
    Refused,
    /// Final: durio failed there.
    Failed,
    /// Final: stopped by the operator or the policy before its run ended.
    Stopped,
}

impl HostState {
    /// True for the states in which a campaign may end.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Collected | Self::Lost | Self::Refused | Self::Failed | Self::Stopped)
    }
}

/// A line of hosts.jsonl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostChange {
    /// Since the campaign's start, by the coordinator's monotonic clock.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    pub host: String,
    pub state: HostState,
    /// Why, where the state does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// SHA-256 of the host's plan, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
    /// Name of the run folder that this change is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// SHA-256 of the collected folder as the host signed it, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder_digest: Option<String>,
    /// Changes since the host's line before this one that have no line.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unwritten: u64,
}

// A reference, because serde gives one.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The host's monotonic clock − the coordinator's, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    pub offset_ns: i64,
    /// The offset is right within ± this.
    pub bound_ns: u64,
}

/// A line of events.jsonl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedCampaignEvent {
    /// Since the campaign's start, by the coordinator's monotonic clock.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    #[serde(flatten)]
    pub event: CampaignEvent,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum CampaignEvent {
    /// One run on each host begins, is continued or is collected; all lines until the next event of
    /// this kind belong to it.
    PassStarted {
        /// Empty for the runs that were ordered first.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        label: String,
        /// From 0 on, of the passes with this label.
        number: u32,
        /// How many were ordered.
        passes: u32,
        /// Empty if all hosts of the campaign take part.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hosts: Vec<String>,
    },
    /// All expected hosts are armed for the step.
    BarrierReached {
        step: u32,
        hosts: u32,
    },
    /// The start was ordered, ahead of its time by `lead_ns`.
    BarrierOrdered {
        step: u32,
        attempt: u32,
        start_ns: u64,
        lead_ns: u64,
    },
    /// Not all hosts acknowledged in time.
    BarrierCancelled {
        step: u32,
        attempt: u32,
        silent: Vec<String>,
    },
    /// Every host of the barrier started.
    BarrierPassed {
        step: u32,
        skew_ns: u64,
        bound_ns: u64,
    },
    HostLost {
        host: String,
        silent_ns: u64,
    },
    HostBack {
        host: String,
    },
    /// A relay is silent; lines about its hosts follow.
    RelayLost {
        relay: String,
        hosts: u32,
        silent_ns: u64,
    },
    RelayBack {
        relay: String,
    },
    /// A host asked to join while the campaign ran.
    LateJoiner {
        host: String,
    },
    /// A host was refused.
    HostRefused {
        host: String,
        reason: String,
    },
    BusLost,
    BusBack,
    /// The coordinator went on with the campaign of an earlier process.
    Resumed {
        hosts: u32,
    },
    /// An order of the operator, or what the policy decided.
    Decision {
        decision: String,
        reason: String,
    },
    /// Messages without effect: duplicates, stale or foreign ones.
    MessagesIgnored {
        count: u64,
    },
    Ended {
        outcome: CampaignOutcome,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CampaignOutcome {
    Complete,
    Stopped,
    /// Fewer hosts than the policy wants.
    TooFewHosts,
}
