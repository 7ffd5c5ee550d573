//! A slow call explained: its pieces with their causes, and the sentence.

use durio_base::stats::least_squares::{float, quotient};
use durio_base::{Bytes, Nanos, percent};
use durio_observe::SlowWindow;

use super::evidence::PieceEvidence;
use super::rules::{self, UNKNOWN};
use super::timeline;
use super::window::{IndexedWindow, WindowPart};
use super::{ExplainedCall, Lane, Other, Piece, PieceKind};

/// Pieces below this part of the latency are joined with a neighbour: one in 200.
const SMALL_PART: u64 = 200;
/// More pieces than this are not a timeline that can be read.
const PIECES_MAX: usize = 200;
/// A second cause is named from a fifth of the time.
const SECOND_PART: f64 = 0.2;
/// Below half of the time the cause is doubtful.
const SURE_PART: f64 = 0.5;
/// The part of the time that may stay without an explanation.
const UNEXPLAINED_MAX: f64 = 0.05;
/// Threads that a sentence names.
const NAMED_MAX: usize = 2;

/// Why a call was slow. `watch_begin` is when the watch began, in nanoseconds of CLOCK_MONOTONIC.
pub fn explain(window: &SlowWindow, watch_begin: u64) -> ExplainedCall {
    let call = &window.call;
    let latency_ns = call.end.saturating_sub(call.begin);
    let indexed = IndexedWindow::new(window);
    let parts = timeline::parts(&indexed);
    let pieces: Vec<Piece> = parts.iter().map(|part| piece(&indexed, part)).collect();
    let causes = time_by_cause(&pieces);
    let (cause, main_ns) = causes.first().copied().unwrap_or((UNKNOWN, 0));
    let second = causes.get(1).copied();
    let second = second.filter(|(_, ns)| quotient(*ns, latency_ns) >= SECOND_PART);
    let unexplained = pieces.iter().filter(|piece| piece.kind == PieceKind::Unknown);
    let unexplained_ns = unexplained.map(Piece::ns).fold(0, u64::saturating_add);
    let unexplained_share = quotient(unexplained_ns, latency_ns);
    let cause_share = quotient(main_ns, latency_ns);
    let sentences = std::iter::once(cause).chain(second.map(|(second, _)| second));
    let sentence: Vec<String> = sentences.map(|cause| sentence(&pieces, cause)).collect();
    ExplainedCall {
        at_seconds: float(call.begin.saturating_sub(watch_begin)) / 1e9,
        process: call.process,
        thread: call.thread.id,
        name: call.thread.name.clone(),
        call: call.name.clone(),
        path: call.path.clone(),
        latency_ns,
        cause,
        cause_share,
        second_cause: second.map(|(cause, _)| cause),
        sentence: sentence.join("; "),
        doubts: doubts(window, cause_share, unexplained_share),
        unexplained_share,
        pieces: joined(pieces, latency_ns),
    }
}

impl Piece {
    /// Nanoseconds that it took.
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

fn piece(indexed: &IndexedWindow<'_>, part: &WindowPart<'_>) -> Piece {
    let evidence = PieceEvidence::new(indexed, part);
    let found = rules::first_match(&evidence);
    let begin = indexed.window.call.begin;
    let name = indexed.threads.name_of(part.thread).to_owned();
    Piece {
        begin_ns: part.begin.saturating_sub(begin),
        end_ns: part.end.saturating_sub(begin),
        lane: Lane { thread: part.thread, name },
        kind: found.kind,
        detail: evidence.detail(),
        cause: found.cause,
        others: evidence.others(found.who, found.stack),
        device: evidence.device(),
    }
}

/// The causes of pieces with their time, the one that took most first.
pub(super) fn time_by_cause(pieces: &[Piece]) -> Vec<(&'static str, u64)> {
    let mut causes: Vec<(&'static str, u64)> = Vec::new();
    for piece in pieces {
        match causes.iter_mut().find(|(cause, _)| *cause == piece.cause) {
            Some((_, ns)) => *ns = ns.saturating_add(piece.ns()),
            None => causes.push((piece.cause, piece.ns())),
        }
    }
    // The time that no event explains is not a cause while there is one.
    causes.sort_by_key(|(cause, ns)| (*cause == UNKNOWN, std::cmp::Reverse(*ns), *cause));
    if let Some(unknown) = causes.iter().position(|(cause, _)| *cause == UNKNOWN) {
        let rest: u64 = causes.iter().take(unknown).map(|(_, ns)| *ns).sum();
        if causes.get(unknown).is_some_and(|(_, ns)| *ns > rest) {
            let unknown = causes.remove(unknown);
            causes.insert(0, unknown);
        }
    }
    causes
}

fn doubts(window: &SlowWindow, cause_share: f64, unexplained_share: f64) -> Vec<String> {
    let mut doubts = Vec::new();
    if window.is_incomplete {
        doubts.push("events of this time were lost".to_owned());
    }
    if cause_share < SURE_PART {
        doubts.push(format!("the cause took only {} of the time", percent(cause_share)));
    }
    if unexplained_share > UNEXPLAINED_MAX {
        doubts.push(format!("no event explains {} of the time", percent(unexplained_share)));
    }
    doubts
}

/// The figures of a cause, for its sentence.
#[derive(Debug, Clone, Default)]
pub(super) struct CauseFigures {
    pub(super) ns: u64,
    pub(super) others: Vec<Other>,
    /// With the time that was waited for each.
    pub(super) devices: Vec<(String, u64)>,
}

impl CauseFigures {
    /// Adds what the pieces have of this cause.
    pub(super) fn add(&mut self, pieces: &[Piece], cause: &str) {
        for piece in pieces.iter().filter(|piece| piece.cause == cause) {
            self.ns = self.ns.saturating_add(piece.ns());
            for other in &piece.others {
                add_other(&mut self.others, other);
            }
            let Some(device) = &piece.device else { continue };
            match self.devices.iter_mut().find(|(name, _)| name == device) {
                Some((_, ns)) => *ns = ns.saturating_add(piece.ns()),
                None => self.devices.push((device.clone(), piece.ns())),
            }
        }
        self.others.sort_by(|a, b| (b.bytes, b.ns, a.thread).cmp(&(a.bytes, a.ns, b.thread)));
    }

    /// The clause of the cause with these figures and this time.
    pub(super) fn fill(&self, cause: &str, ns: u64) -> String {
        let Some(cause) = rules::cause(cause) else { return String::new() };
        let most = self.others.first();
        let named =
            self.others.iter().take_while(|other| most.is_some_and(|most| is_major(other, most)));
        let named = named.take(NAMED_MAX);
        let names: Vec<String> =
            named.map(|other| format!("{} ({})", other.name, other.thread)).collect();
        let who = if names.is_empty() { "other threads".to_owned() } else { names.join(" and ") };
        let bytes = self.others.iter().map(|other| other.bytes).fold(0, u64::saturating_add);
        let device = self.devices.iter().max_by_key(|(_, ns)| *ns);
        let device = device.map_or("the device", |(name, _)| name.as_str());
        let time = Nanos::new(ns).to_string();
        let plain = cause.without_bytes.as_ref().filter(|_| bytes == 0);
        let sentence = plain.unwrap_or(&cause.sentence);
        let sentence = sentence.replace("{time}", &time).replace("{who}", &who);
        sentence.replace("{bytes}", &Bytes::new(bytes).to_string()).replace("{device}", device)
    }
}

/// True if it was in the way at least a quarter as much as the one that was most.
fn is_major(other: &Other, most: &Other) -> bool {
    let (part, whole) =
        if most.bytes > 0 { (other.bytes, most.bytes) } else { (other.ns, most.ns) };
    part.saturating_mul(4) >= whole
}

/// The pieces of a call name the same requests again where they were waited for in several.
fn add_other(others: &mut Vec<Other>, other: &Other) {
    match others.iter_mut().find(|known| known.thread == other.thread) {
        Some(known) => {
            known.ns = known.ns.saturating_add(other.ns);
            known.bytes = known.bytes.max(other.bytes);
        }
        None => others.push(other.clone()),
    }
}

fn sentence(pieces: &[Piece], cause: &str) -> String {
    let mut figures = CauseFigures::default();
    figures.add(pieces, cause);
    figures.fill(cause, figures.ns)
}

/// Pieces that can be read: neighbours that are alike are one, and small ones are part of a
/// neighbour of their kind.
fn joined(pieces: Vec<Piece>, latency_ns: u64) -> Vec<Piece> {
    let is_alike = |a: &Piece, b: &Piece| {
        a.kind == b.kind && a.lane == b.lane && a.cause == b.cause && a.detail == b.detail
    };
    let pieces = join_neighbours(pieces, is_alike);
    let is_small = |piece: &Piece| piece.ns() < latency_ns / SMALL_PART;
    let pieces = join_neighbours(pieces, |a, b| {
        a.kind == b.kind && a.cause == b.cause && (is_small(a) || is_small(b))
    });
    if pieces.len() <= PIECES_MAX {
        return pieces;
    }
    // At most 200 are not small, and as many runs of small ones lie between them.
    join_neighbours(pieces, |a, b| is_small(a) && is_small(b))
}

/// Joins each piece with the one before it where they belong together; the longer one's words stay.
fn join_neighbours(pieces: Vec<Piece>, is_one: impl Fn(&Piece, &Piece) -> bool) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match joined.last_mut().filter(|last| is_one(last, &piece)) {
            None => joined.push(piece),
            Some(last) => {
                let (begin_ns, end_ns) = (last.begin_ns, piece.end_ns);
                let (mut longer, shorter) = if piece.ns() > last.ns() {
                    (piece, last.clone())
                } else {
                    (last.clone(), piece)
                };
                for other in &shorter.others {
                    add_other(&mut longer.others, other);
                }
                *last = Piece { begin_ns, end_ns, ..longer };
            }
        }
    }
    joined
}
