//! What threads did, piece by piece.

use super::Colour;

/// Pieces of time side by side, a lane for each thread, over one axis from zero.
#[derive(Debug)]
pub struct LaneChart {
    /// The end of the axis, in nanoseconds.
    pub end: u64,
    /// What pieces are, for the legend; a thin one differs from another of its colour.
    pub kinds: Vec<LaneKind>,
    /// From top to bottom: names and pieces.
    pub lanes: Vec<(String, Vec<LanePiece>)>,
}

#[derive(Debug)]
pub struct LaneKind {
    pub name: String,
    pub colour: Colour,
    pub is_thin: bool,
}

/// A piece of a lane, in nanoseconds.
#[derive(Debug)]
pub struct LanePiece {
    pub begin: u64,
    pub end: u64,
    /// By its place in the list.
    pub kind: usize,
    /// What a pointer finds.
    pub title: String,
}
