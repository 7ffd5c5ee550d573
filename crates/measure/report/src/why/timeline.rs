//! The timeline of each slow call: its pieces as rows, and on a page as lanes of threads.

use durio_analyse::why::{ExplainedCall, Piece, PieceKind};

use super::who;
use crate::document::chart::{Chart, Colour, LaneChart, LaneKind, LanePiece};
use crate::document::{Cell, Column, Section, Table, Tone, shown, words};
use crate::figures::{grouped, latency, mean_latency};

/// More pictures than this would make a page of megabytes.
pub(super) const DRAWN_MAX: usize = 20;

pub(super) fn timelines<'c>(calls: impl IntoIterator<Item = &'c ExplainedCall>) -> Section {
    let mut section = Section::detail("timelines");
    for (call, number) in calls.into_iter().zip(1..) {
        section.group(timeline(call, number));
    }
    section
}

fn timeline(call: &ExplainedCall, number: usize) -> Section {
    let file = call.path.as_ref().map(|path| format!(" of {path}")).unwrap_or_default();
    let (took, at) = (latency(call.latency_ns), mean_latency(call.at_seconds * 1e9));
    let heading = format!("{number}: {}{file}, {took} at {at}", call.call);
    let mut section = Section::new(heading);
    if !call.sentence.is_empty() {
        section.say(Tone::Plain, &*call.sentence);
    }
    call.doubts.iter().for_each(|doubt| section.warn(&**doubt));
    if number <= DRAWN_MAX {
        section.charts([lanes(call, number)]);
    }
    let columns: &[Column<Piece>] = &[
        shown("begin", |piece| Cell::nanos(piece.begin_ns)),
        shown("for", |piece| Cell::nanos(piece.ns())),
        words(shown("thread", |piece| Cell::Text(lane_name(piece)))),
        words(shown("state", |piece| Cell::text(label(piece.kind)))),
        words(shown("detail", |piece| match piece.detail.as_str() {
            "" => Cell::Empty,
            text => Cell::text(text),
        })),
        words(shown("cause", |piece| Cell::text(piece.cause))),
        words(shown("who", |piece| who(&piece.others))),
    ];
    section.table(Table::shown(columns, &call.pieces));
    section
}

fn lane_name(piece: &Piece) -> String {
    format!("{} ({})", piece.lane.name, piece.lane.thread)
}

const fn label(kind: PieceKind) -> &'static str {
    match kind {
        PieceKind::OnProcessor => "on a processor",
        PieceKind::Runnable => "runnable",
        PieceKind::Lock => "lock",
        PieceKind::Journal => "journal",
        PieceKind::Throttled => "held back",
        PieceKind::Queued => "queued",
        PieceKind::Device => "device",
        PieceKind::Completion => "completion",
        PieceKind::Stopped => "stopped",
        PieceKind::Waiting => "waiting",
        PieceKind::Unknown => "unknown",
    }
}

/// A colour for each part of the kernel; the kinds of one differ by their height.
const fn look(kind: PieceKind) -> (Colour, bool) {
    match kind {
        PieceKind::OnProcessor => (Colour::Third, false),
        PieceKind::Runnable => (Colour::Third, true),
        PieceKind::Journal => (Colour::Second, false),
        PieceKind::Lock => (Colour::Second, true),
        PieceKind::Device => (Colour::First, false),
        PieceKind::Queued => (Colour::First, true),
        PieceKind::Throttled => (Colour::Fourth, false),
        PieceKind::Completion => (Colour::Fourth, true),
        PieceKind::Stopped => (Colour::Alarm, false),
        PieceKind::Waiting => (Colour::Shade, false),
        PieceKind::Unknown => (Colour::Shade, true),
    }
}

fn lanes(call: &ExplainedCall, number: usize) -> Chart {
    let mut kinds: Vec<PieceKind> = call.pieces.iter().map(|piece| piece.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let place = |piece: &Piece| LanePiece {
        begin: piece.begin_ns,
        end: piece.end_ns,
        kind: kinds.iter().position(|kind| *kind == piece.kind).unwrap_or_default(),
        title: piece_words(piece),
    };
    let threads = grouped(call.pieces.iter().map(|piece| (&piece.lane, piece)));
    let lanes = threads.iter().map(|(_, pieces)| {
        let name = pieces.first().map(|piece| lane_name(piece)).unwrap_or_default();
        let pieces: Vec<LanePiece> = pieces.iter().copied().map(&place).collect();
        (name, pieces)
    });
    let lanes = lanes.collect();
    let named = kinds.iter().map(|kind| {
        let (colour, is_thin) = look(*kind);
        LaneKind { name: label(*kind).to_owned(), colour, is_thin }
    });
    let chart = LaneChart { end: call.latency_ns, kinds: named.collect(), lanes };
    Chart::lanes(format!("Timeline of call {number}"), chart)
}

/// `12 to 48 ms (36 ms) device: write of 8 KiB at vda; rsync (812) 31 MiB`.
fn piece_words(piece: &Piece) -> String {
    let [begin, end, length] = [piece.begin_ns, piece.end_ns, piece.ns()].map(latency);
    let mut text = format!("{begin} to {end} ({length}) {}", label(piece.kind));
    for (separator, part) in [(": ", piece.detail.clone()), ("; ", who(&piece.others).shown())] {
        if !part.is_empty() {
            text += &format!("{separator}{part}");
        }
    }
    text
}
