//! The causes and the rules that find them, from data/causes.toml.

use std::sync::OnceLock;

use durio_observe::RequestOperation;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::evidence::{Beside, PieceEvidence, Who, WindowFact};
use super::{CauseFindings, CauseText, PieceKind, WHY_SCHEMA};

/// A cause of slow calls in words.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowCause {
    /// For programs; it does not change.
    pub id: String,
    /// In a few words, as "a commit of the journal".
    pub title: String,
    /// What the call did, with `{who}`, `{time}`, `{bytes}` and `{device}` for its figures.
    pub sentence: String,
    /// The same where no bytes are known.
    #[serde(default)]
    pub without_bytes: Option<String>,
    /// What to do about it.
    pub advice: String,
    /// Where that is from.
    pub source: String,
}

/// The operation of a request, as rules name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RequestWord {
    Read,
    Write,
    Discard,
    Flush,
}

/// A condition on a part: every list that is given must have one entry that is true of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CauseRule {
    pub(super) cause: String,
    /// The smallest window that the rule is for, by its name in the tests.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests find the rule by it"))]
    pub(super) example: String,
    #[serde(default)]
    piece: Vec<PieceKind>,
    /// Functions in which the caller or a thread that works for it waits.
    #[serde(default)]
    stack: Vec<String>,
    #[serde(default)]
    and_stack: Vec<String>,
    #[serde(default)]
    request: Vec<RequestWord>,
    #[serde(default)]
    beside: Vec<Beside>,
    /// None of these is true.
    #[serde(default)]
    unless: Vec<Beside>,
    #[serde(default)]
    fact: Vec<WindowFact>,
    /// Functions of a worker.
    #[serde(default)]
    work: Vec<String>,
    /// What time that is only waited for is shown as.
    kind: Option<PieceKind>,
    who: Option<Who>,
    /// Threads that wake from these functions are not followed: chance woke them.
    #[serde(default)]
    stops: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CauseFile {
    cause: Vec<SlowCause>,
    rule: Vec<CauseRule>,
}

/// The cause of parts that no rule names.
pub(super) const UNKNOWN: &str = "unknown";

/// What a rule finds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Match {
    pub(super) cause: &'static str,
    pub(super) kind: PieceKind,
    pub(super) who: Option<Who>,
    pub(super) stack: &'static [String],
}

const TEXT: &str = include_str!("../../data/causes.toml");

/// Empty if it cannot be read: a test would have said so.
fn file() -> &'static CauseFile {
    static FILE: OnceLock<CauseFile> = OnceLock::new();
    FILE.get_or_init(|| toml::from_str(TEXT).unwrap_or_default())
}

/// All causes that a slow call can have.
pub fn causes() -> &'static [SlowCause] {
    &file().cause
}

pub(super) fn cause(id: &str) -> Option<&'static SlowCause> {
    causes().iter().find(|cause| cause.id == id)
}

/// Reads the id of a cause that this version knows.
pub(super) fn read_id<'de, D: Deserializer<'de>>(from: D) -> Result<CauseText, D::Error> {
    let id = String::deserialize(from)?;
    let known = cause(&id).map(|cause| cause.id.as_str());
    known.ok_or_else(|| D::Error::custom(format!("unknown cause '{id}'")))
}

pub(super) fn read_optional_id<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<CauseText>, D::Error> {
    read_id(from).map(Some)
}

/// Reads causes, with the texts that they have now.
pub(super) fn read_causes<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<CauseFindings>, D::Error> {
    let mut found = Vec::<CauseFindings>::deserialize(from)?;
    for found in &mut found {
        if let Some(cause) = cause(found.cause) {
            found.title = &cause.title;
            found.advice = &cause.advice;
            found.source = &cause.source;
        }
    }
    Ok(found)
}

pub(super) fn read_schema<'de, D: Deserializer<'de>>(from: D) -> Result<CauseText, D::Error> {
    let schema = String::deserialize(from)?;
    match schema == WHY_SCHEMA {
        true => Ok(WHY_SCHEMA),
        false => Err(D::Error::custom(format!("its form is {schema}; use a newer durio"))),
    }
}

pub(super) fn rules() -> &'static [CauseRule] {
    &file().rule
}

/// True if a thread that waits there is not followed to its waker.
pub(super) fn stops_at(stack: &[String]) -> bool {
    let mut stops = rules().iter().filter(|rule| rule.stops);
    stops.any(|rule| stack.iter().any(|frame| rule.stack.contains(frame)))
}

/// The first rule that is true of a part.
pub(super) fn first_match(evidence: &PieceEvidence<'_, '_>) -> Match {
    let kind = evidence.part.kind;
    let Some(rule) = rules().iter().find(|rule| rule.is_true_of(evidence)) else {
        return Match { cause: UNKNOWN, kind, who: None, stack: &[] };
    };
    let is_waiting = kind == PieceKind::Waiting;
    let kind = rule.kind.filter(|_| is_waiting).unwrap_or(kind);
    Match { cause: &rule.cause, kind, who: rule.who, stack: &rule.stack }
}

impl CauseRule {
    fn is_true_of(&self, evidence: &PieceEvidence<'_, '_>) -> bool {
        // What costs least to find out comes first.
        let is_piece = self.piece.is_empty() || self.piece.contains(&evidence.part.kind);
        is_piece
            && (self.fact.is_empty() || self.fact.iter().any(|fact| evidence.fact(*fact)))
            && (self.request.is_empty() || self.is_for(evidence.operation()))
            && (self.work.is_empty() || evidence.works_on(&self.work))
            && (self.stack.is_empty() || evidence.waits_in(&self.stack))
            && (self.and_stack.is_empty() || evidence.waits_in(&self.and_stack))
            && (self.beside.is_empty() || self.beside.iter().any(|word| evidence.beside(*word)))
            && !self.unless.iter().any(|word| evidence.beside(*word))
            && (self.who != Some(Who::SameStack) || self.has_others(evidence))
    }

    /// A crowd of waiting threads has more than one.
    fn has_others(&self, evidence: &PieceEvidence<'_, '_>) -> bool {
        !evidence.others(self.who, &self.stack).is_empty()
    }

    fn is_for(&self, operation: Option<RequestOperation>) -> bool {
        let word = match operation {
            Some(RequestOperation::Read) => RequestWord::Read,
            Some(RequestOperation::Write) => RequestWord::Write,
            Some(RequestOperation::Discard) => RequestWord::Discard,
            Some(RequestOperation::Flush) => RequestWord::Flush,
            Some(RequestOperation::Other) | None => return false,
        };
        self.request.contains(&word)
    }
}
