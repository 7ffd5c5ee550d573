//! Why a call was slow: the events around it as a timeline that adds up to its latency, and the
//! cause, by rules that are data (`data/causes.toml`).
//!
//! A thread that waits is explained by what woke it: the timeline follows the thread that did the
//! work (a worker, a journal's thread) and the request that was waited for, down to a processor or a
//! device. What no event explains is [`PieceKind::Unknown`].

mod evidence;
mod pieces;
mod requests;
mod rules;
mod summary;
#[cfg(test)]
mod tests;
mod threads;
mod timeline;
mod window;

use durio_observe::SlowWatchFacts;
use serde::{Deserialize, Serialize};

pub use pieces::explain;
pub use rules::{SlowCause, causes};
pub use summary::SlowCalls;

/// A text of the rules. The alias keeps serde from borrowing it from the document that it reads.
pub type CauseText = &'static str;

/// What a part of the time was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PieceKind {
    /// The kernel worked on the call.
    OnProcessor,
    /// It could have run, and others did.
    Runnable,
    /// It waited for a lock.
    Lock,
    /// It waited for a commit of the journal, which no event explains further.
    Journal,
    /// It was held back: limits of a cgroup, dirty pages, memory, a frozen filesystem.
    Throttled,
    /// A request waited in the block layer.
    Queued,
    /// A request was at the device.
    Device,
    /// From a request's end until the waiter was woken.
    Completion,
    /// A signal or a debugger stopped it.
    Stopped,
    /// It waited for something else.
    Waiting,
    /// No event explains it.
    Unknown,
}

/// A part of a slow call's time. Pieces follow one another without gaps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// Nanoseconds from the begin of the call.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// The thread that was looked at: the caller, or one that worked for it.
    pub lane: Lane,
    pub kind: PieceKind,
    /// What it was in words, such as "write of 8 KiB at vda", "gcc (812)".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The cause that a rule gave it.
    #[serde(deserialize_with = "rules::read_id")]
    pub cause: CauseText,
    /// Who caused it, such as "rsync (812)": other processes, with what they did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Other>,
    /// The device of the request that was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lane {
    pub thread: u32,
    pub name: String,
}

/// A process that was in the way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Other {
    pub thread: u32,
    pub name: String,
    /// Nanoseconds on the processor, or with a request at the device, within the piece.
    pub ns: u64,
    /// Bytes of its requests at the device.
    pub bytes: u64,
}

/// A slow call with its explanation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainedCall {
    /// Seconds since the watch began.
    pub at_seconds: f64,
    pub process: u32,
    pub thread: u32,
    pub name: String,
    pub call: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub latency_ns: u64,
    pub pieces: Vec<Piece>,
    /// The cause that took most of the time.
    #[serde(deserialize_with = "rules::read_id")]
    pub cause: CauseText,
    /// The part of the time that is its, 0 to 1.
    pub cause_share: f64,
    /// A second cause that took at least a fifth of the time.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "rules::read_optional_id"
    )]
    pub second_cause: Option<CauseText>,
    /// What the call did, with its names and figures: "waited 44 ms for …", after a semicolon the
    /// second cause.
    pub sentence: String,
    /// Why the cause may be wrong: events lost, less than half of the time, a remainder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The part of the time that no event explains, 0 to 1.
    pub unexplained_share: f64,
}

/// The calls of one cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CauseFindings {
    #[serde(deserialize_with = "rules::read_id")]
    pub cause: CauseText,
    /// The cause in a few words, as "the journal's commit".
    #[serde(skip_deserializing)]
    pub title: CauseText,
    pub calls: usize,
    /// Nanoseconds that it took of all slow calls, those with another main cause too.
    pub lost_ns: u64,
    /// Median latency of its calls.
    pub p50_ns: u64,
    /// The summary sentence with the names of those that were in the way most: the clause that follows
    /// the number of calls.
    pub sentence: String,
    /// The processes that were in the way most, over all of its calls; at most three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub who: Vec<Other>,
    /// What to do about it, and where that is from.
    #[serde(skip_deserializing)]
    pub advice: CauseText,
    #[serde(skip_deserializing)]
    pub source: CauseText,
}

/// Form of the JSON document.
pub const WHY_SCHEMA: &str = "durio-why-1";

/// What a watch found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhyFindings {
    #[serde(deserialize_with = "rules::read_schema")]
    pub schema: CauseText,
    pub watch: SlowWatchFacts,
    /// The most time lost first.
    #[serde(deserialize_with = "rules::read_causes")]
    pub causes: Vec<CauseFindings>,
    /// Explained calls, the slowest first.
    pub calls: Vec<ExplainedCall>,
}
