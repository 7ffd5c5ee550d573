//! Messages between the coordinator of a campaign and its hosts.
//!
//! A message is a line of JSON, and the bytes of a piece of a file after it. Orders are data and
//! times, never commands. A host's [`HostStatus`] is complete in itself, and orders are repeated
//! until a status shows their effect, so nothing depends on an earlier message.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use durio_base::{Bytes, Nanos};
use durio_record::fleet::{Barrier, ClockOffset, HostState};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use crate::folder_digest::FolderDigest;
use crate::region::{REGION_HOSTS_MAX, RegionReport};

/// The version of these messages.
pub const PROTOCOL: Protocol = Protocol { major: 1, minor: 1 };
/// The sender of orders.
pub const COORDINATOR: &str = "coordinator";
/// The sender of a relay's questions to its hosts.
pub const RELAY: &str = "relay";

/// The largest message, which is the limit of a NATS server by default.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a file that one message carries.
pub const PIECE_BYTES: u64 = 256 << 10;
pub const SPEC_BYTES_MAX: usize = 128 << 10;
pub const NAME_BYTES_MAX: usize = 253;
pub const REASON_BYTES_MAX: usize = 2_000;
/// Files of a run folder.
pub const FILES_MAX: usize = 1_000;
/// Bytes of a run folder.
pub const RUN_BYTES_MAX: u64 = 4 << 30;
/// Steps of a plan.
pub const STEPS_MAX: usize = 4_096;

/// Parties with different `major` do not understand each other; a higher `minor` adds fields and
/// kinds. Minor version 1 has relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol {
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BusMessage {
    pub protocol: Protocol,
    pub campaign: String,
    /// Name of a host, or [`COORDINATOR`].
    pub sender: String,
    /// Grows with each process of the sender.
    pub incarnation: u64,
    /// Grows with each message of the process.
    pub sequence: u64,
    pub body: Body,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The piece of a file, after the line.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    /// From a host: when it connects, at each change, and as heartbeat.
    Status(Box<HostStatus>),
    /// A host's clock, in answer to a probe.
    Answer {
        nonce: u64,
        at_ns: u64,
    },
    /// A piece of a run folder; the message has its bytes.
    Piece {
        run: String,
        file: String,
        offset: u64,
    },
    /// From a relay, with statuses as the hosts signed them.
    Region {
        report: Box<RegionReport>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        statuses: Vec<BusMessage>,
    },
    /// Asks for the clock, and tells the host what is known of it.
    Probe {
        nonce: u64,
        /// By the coordinator's monotonic clock.
        at_ns: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<ClockOffset>,
    },
    /// To a relay and on to the hosts: what is known of their clocks.
    Clocks {
        /// By the coordinator's monotonic clock.
        at_ns: u64,
        clocks: BTreeMap<String, ClockOffset>,
    },
    /// To a relay: the newest statuses of these hosts have not arrived.
    Repeat {
        hosts: Vec<String>,
    },
    /// The spec to plan and to check against the host's permits.
    Plan {
        spec: String,
        spec_digest: String,
    },
    Run(Box<RunOrder>),
    Start(Box<StartOrder>),
    Cancel {
        step: CampaignStep,
        attempt: u32,
    },
    Stop {
        reason: String,
    },
    /// Asks for a piece.
    Fetch {
        run: String,
        file: String,
        offset: u64,
        length: u64,
    },
    /// The run folder has arrived.
    Release {
        run: String,
    },
    /// The host takes no part, or no longer: a run that has ended stays with it.
    Refuse {
        reason: String,
    },
}

/// A measured step of a run, in the order in which steps run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct CampaignStep {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<u32>,
    pub round: u32,
    pub step: u32,
}

/// Who and where a host is, and what it does: all that a coordinator needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostStatus {
    pub state: HostState,
    /// When this was true, on the host's clock.
    pub at_ns: u64,
    pub machine: HostIdentity,
    /// While the state is [`HostState::Planned`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanSummary>,
    /// The step whose start is awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<CampaignStep>,
    /// The order that was acknowledged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<OrderedStart>,
    /// The step that started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<StartedStep>,
    /// How long the run, which waits for no order, has neither written, read nor recorded anything.
    #[serde(default, rename = "quiet_ns", skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Nanos>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunSummary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostIdentity {
    pub machine_id: String,
    pub boot_id: String,
    pub version: String,
}

/// What a plan would write to one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedWrite {
    /// The target as the spec names it.
    pub target: String,
    pub place: WritePlace,
    /// Space at any time.
    pub size: Bytes,
    /// The most that is written; absent if nothing limits it.
    pub written: Option<Bytes>,
    /// Bytes per second, offered; absent if the plan writes as fast as it can.
    pub rate: Option<Bytes>,
    /// True if something that exists is overwritten.
    pub destroys: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WritePlace {
    Folder(PathBuf),
    Device { path: PathBuf, serial: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlanSummary {
    /// SHA-256 of the plan, in hexadecimal.
    pub plan_digest: String,
    pub steps: Vec<PlannedStep>,
    /// For the operator, who sees them before anything is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<PlannedWrite>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Box<HostFacts>>,
}

impl PlanSummary {
    pub fn new(plan_digest: impl Into<String>, steps: Vec<PlannedStep>) -> Self {
        Self { plan_digest: plan_digest.into(), steps, ..Self::default() }
    }

    fn is_acceptable(&self) -> bool {
        let is_short = |facts: &HostFacts| {
            let places = facts.places.iter().flat_map(|place| [&place.target, &place.filesystem]);
            let mut texts = [&facts.durio, &facts.fleet].into_iter().chain(places);
            facts.places.len() <= STEPS_MAX && texts.all(|text| text.len() <= NAME_BYTES_MAX)
        };
        self.steps.len().max(self.writes.len()) <= STEPS_MAX
            && self.facts.as_deref().is_none_or(is_short)
    }
}

/// What a host says of itself with its plan, for `durio fleet doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    pub durio: String,
    /// Version of its agent.
    pub fleet: String,
    /// The time of day, less the monotonic clock.
    pub epoch_ns: u64,
    /// Absent for no limit.
    pub open_files_max: Option<u64>,
    /// The host file decides what is permitted, not the login.
    pub has_host_file: bool,
    pub places: Vec<PlaceFacts>,
}

/// Where a target of a host is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceFacts {
    pub target: String,
    /// As the kernel names it: `ext4`.
    pub filesystem: String,
    pub free_bytes: u64,
}

/// A step that waits for its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStep {
    pub step: CampaignStep,
    /// Absent for steps that end by volume or by a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedStart {
    pub step: CampaignStep,
    pub attempt: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedStep {
    pub step: CampaignStep,
    /// On the host's clock.
    pub at_ns: u64,
}

/// A run folder on its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    pub name: String,
    /// The run was cut or stopped.
    pub partial: bool,
    /// As [`FolderDigest`] has it.
    pub digest: String,
    pub files: Vec<RunFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    pub name: String,
    pub bytes: u64,
}

/// Go: lay out, precondition, and wait for the start of the first step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOrder {
    pub plan_digest: String,
    pub barrier: Barrier,
    /// A run without word from the coordinator for this long ends.
    #[serde(rename = "silence_max_ns")]
    pub silence_max: Nanos,
    /// A run that takes this long ends.
    #[serde(rename = "run_max_ns")]
    pub run_max: Nanos,
    /// The boot whose clock is meant.
    pub boot_id: String,
    /// On the coordinator's clock.
    #[serde(rename = "not_after_ns")]
    pub not_after: Nanos,
    pub clock: ClockOffset,
}

/// Times are on the coordinator's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartOrder {
    pub step: CampaignStep,
    pub attempt: u32,
    pub boot_id: String,
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    #[serde(rename = "not_after_ns")]
    pub not_after: Nanos,
    /// The host's clock at `at`.
    pub clock: ClockOffset,
    /// Steps that follow without another message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timetable: Vec<TimetableEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimetableEntry {
    pub step: CampaignStep,
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    #[serde(rename = "not_after_ns")]
    pub not_after: Nanos,
}

/// Checks who made a message.
pub trait Verify {
    /// True if the key of `sender` made `signature` over `bytes`.
    fn is_signed(&self, sender: &str, bytes: &[u8], signature: &str) -> bool;
}

/// A host's name as one part of a subject, in which '.' separates. ',' is in no host name.
#[must_use]
pub fn subject_token(host: &str) -> String {
    host.replace('.', ",")
}

/// To whom a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    Coordinator,
    Host(String),
    All,
}

#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    #[error("message of {0} bytes; at most {max} are accepted", max = MESSAGE_BYTES_MAX)]
    TooLarge(usize),
    #[error("'{sender}' speaks protocol {protocol}; expected {expected}", expected = PROTOCOL)]
    Protocol { sender: String, protocol: Protocol },
    #[error("invalid message: {0}")]
    Json(#[from] serde_json::Error),
    #[error("message with invalid or too long {0}")]
    Field(&'static str),
}

impl BusMessage {
    /// Of this protocol, to be signed; `number` is incarnation and sequence.
    pub(crate) fn new(campaign: &str, sender: &str, number: (u64, u64), body: Body) -> Self {
        let (incarnation, sequence) = number;
        Self {
            protocol: PROTOCOL,
            campaign: campaign.to_owned(),
            sender: sender.to_owned(),
            incarnation,
            sequence,
            body,
            signature: None,
            bytes: Vec::new(),
        }
    }

    /// What goes over the bus.
    ///
    /// # Errors
    /// If it is larger than the bus carries.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        let mut encoded = serde_json::to_vec(self)?;
        encoded.push(b'\n');
        encoded.extend_from_slice(&self.bytes);
        if encoded.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLarge(encoded.len()));
        }
        Ok(encoded)
    }

    /// A message from the bus, all of whose fields are within their limits.
    ///
    /// # Errors
    /// If it is not, or of another major version.
    pub fn decode(encoded: &[u8]) -> Result<Self, MessageError> {
        #[derive(Deserialize)]
        struct Head {
            protocol: Protocol,
            sender: String,
        }
        if encoded.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLarge(encoded.len()));
        }
        let end = encoded.iter().position(|&byte| byte == b'\n').unwrap_or(encoded.len());
        let line = &encoded[..end];
        // The rest may have any form in another version.
        let Head { protocol, sender } = serde_json::from_slice(line)?;
        if !is_name(&sender) {
            return Err(MessageError::Field("sender"));
        }
        if protocol.major != PROTOCOL.major {
            return Err(MessageError::Protocol { sender, protocol });
        }
        let mut message: Self = serde_json::from_slice(line)?;
        message.bytes = encoded.get(end + 1..).unwrap_or_default().to_vec();
        message.check()?;
        Ok(message)
    }

    /// What a signature is made over; an error is one of [`Self::encode`].
    pub fn signed_bytes(&self) -> Result<Vec<u8>, MessageError> {
        Ok(signable(&match self.signature {
            None => self.encode()?,
            Some(_) => Self { signature: None, ..self.clone() }.encode()?,
        }))
    }

    /// True if the sender signed it.
    pub fn is_signed(&self, verify: &dyn Verify) -> bool {
        let (Some(signature), Ok(bytes)) = (&self.signature, self.signed_bytes()) else {
            return false;
        };
        verify.is_signed(&self.sender, &bytes, signature)
    }

    /// The bus's subject, which permissions are given for.
    pub fn subject(&self, to: &Recipient) -> String {
        let (campaign, kind) = (&self.campaign, self.body.kind());
        match to {
            Recipient::Coordinator => {
                format!("c.{campaign}.h.{}.{kind}", subject_token(&self.sender))
            }
            Recipient::Host(name) => format!("c.{campaign}.to.{}.{kind}", subject_token(name)),
            Recipient::All => format!("c.{campaign}.all.{kind}"),
        }
    }

    fn check(&self) -> Result<(), MessageError> {
        if !is_campaign(&self.campaign) {
            return Err(MessageError::Field("campaign"));
        }
        if self.bytes.len() as u64 > PIECE_BYTES {
            return Err(MessageError::Field("piece"));
        }
        self.body.check().map_or(Ok(()), |field| Err(MessageError::Field(field)))
    }
}

impl Body {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Status(_) => "status",
            Self::Answer { .. } => "answer",
            Self::Piece { .. } => "piece",
            Self::Region { .. } => "region",
            Self::Clocks { .. } => "clocks",
            Self::Repeat { .. } => "repeat",
            Self::Probe { .. } => "probe",
            Self::Plan { .. } => "plan",
            Self::Run(_) => "run",
            Self::Start(_) => "start",
            Self::Cancel { .. } => "cancel",
            Self::Stop { .. } => "stop",
            Self::Fetch { .. } => "fetch",
            Self::Release { .. } => "release",
            Self::Refuse { .. } => "refuse",
        }
    }

    /// The first field beyond its limit.
    fn check(&self) -> Option<&'static str> {
        match self {
            Self::Status(status) => status.check(),
            Self::Region { report, statuses } => {
                let is_status = |message: &BusMessage| {
                    matches!(message.body, Self::Status(_))
                        && is_name(&message.sender)
                        && message.check().is_ok()
                };
                let hosts = report.words.len().max(statuses.len());
                let is_long = report.boot_id.len() > NAME_BYTES_MAX || hosts > REGION_HOSTS_MAX;
                let is_foreign = !statuses.iter().all(is_status);
                is_long.then_some("region").or(is_foreign.then_some("status"))
            }
            Self::Repeat { hosts } => (hosts.len() > REGION_HOSTS_MAX).then_some("hosts"),
            Self::Clocks { clocks, .. } => (clocks.len() > REGION_HOSTS_MAX).then_some("clocks"),
            Self::Piece { run, file, .. } | Self::Fetch { run, file, .. } => {
                (!is_name(run) || !is_name(file)).then_some("file")
            }
            Self::Release { run } => (!is_name(run)).then_some("run"),
            Self::Plan { spec, .. } => (spec.len() > SPEC_BYTES_MAX).then_some("spec"),
            Self::Start(order) => (order.timetable.len() > STEPS_MAX).then_some("timetable"),
            Self::Stop { reason } | Self::Refuse { reason } => {
                (reason.len() > REASON_BYTES_MAX).then_some("reason")
            }
            Self::Answer { .. } | Self::Probe { .. } | Self::Run(_) | Self::Cancel { .. } => None,
        }
    }
}

impl HostStatus {
    fn check(&self) -> Option<&'static str> {
        let is_long = |text: &String| text.len() > NAME_BYTES_MAX;
        let HostIdentity { machine_id, boot_id, version } = &self.machine;
        if [machine_id, boot_id, version].into_iter().any(is_long) {
            return Some("machine");
        }
        if self.reason.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES_MAX) {
            return Some("reason");
        }
        if self.plan.as_ref().is_some_and(|plan| !plan.is_acceptable()) {
            return Some("plan");
        }
        self.run.as_ref().and_then(|run| (!run.is_acceptable()).then_some("run"))
    }
}

impl RunSummary {
    /// Names that can be part of a path, each once, and sizes within limits.
    fn is_acceptable(&self) -> bool {
        let mut names: Vec<&str> = self.files.iter().map(|file| file.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let bytes = self.files.iter().try_fold(0u64, |sum, file| sum.checked_add(file.bytes));
        is_name(&self.name)
            && self.files.len() <= FILES_MAX
            && names.len() == self.files.len()
            && names.iter().all(|name| is_name(name))
            && bytes.is_some_and(|bytes| bytes <= RUN_BYTES_MAX)
    }
}

/// True for 32 hexadecimal digits.
pub fn is_campaign(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// True for names of hosts, runs and files: no path, no option, no space.
pub fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with(['-', '.'])
        && name.bytes().all(is_plain)
}

/// True for versions of one release: patches of it measure alike, other releases may differ.
#[must_use]
pub fn is_same_release(one: &str, other: &str) -> bool {
    let release = |version: &str| version.rsplit_once('.').map(|(release, _)| release.to_owned());
    release(one) == release(other)
}

/// SHA-256 of a text, in hexadecimal.
pub fn digest(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

/// The bytes that are signed for a message. Each party also signs, with the same key, a text that the
/// server chooses when the party signs in. No text has the first byte, so it is never a message.
pub fn signable(bytes: &[u8]) -> Vec<u8> {
    [&b"\xffdurio-fleet\n"[..], bytes].concat()
}

#[cfg(test)]
mod tests;
