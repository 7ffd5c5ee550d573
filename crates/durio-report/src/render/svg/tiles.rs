//! Areas piece by piece, in lines from left to right.
//!
//! In: [`Tiles`]. Out: SVG. Not here: what they stand for.

use std::fmt::Write as _;

use super::{FONT_SIZE, Sheet, Side, WIDTH, count, hex, short};
use crate::document::chart::Tiles;

/// Pieces of a line.
const ACROSS: usize = 64;
const LEFT: f64 = 150.0;
const TOP: f64 = 6.0;
const SIZE: f64 = (WIDTH - LEFT - 10.0) / 64.0;
/// Room for words, where each area has but one line.
const LINE: f64 = 26.0;

pub(super) fn draw(tiles: &Tiles) -> String {
    let lines = tiles.lines(ACROSS);
    let mut sheet = Sheet::default();
    // One path for each kind: an element for each piece would be a page of its own.
    for (kind, it) in tiles.kinds.iter().enumerate() {
        let side = SIZE * it.fill.clamp(0.0, 1.0);
        let mut path = String::new();
        for (down, (_, line)) in lines.iter().enumerate() {
            let those = line.iter().enumerate().filter(|(_, of)| **of == kind);
            for (across, _) in those {
                let x = short(LEFT + count(across) * SIZE + (SIZE - side) / 2.0);
                let y = short(TOP + count(down) * LINE + (LINE - side) / 2.0);
                let side = short(side);
                // Writing to a string does not fail.
                let _ = write!(path, "M{x} {y}h{side}v{side}h-{side}z");
            }
        }
        if !path.is_empty() {
            let fill = hex(it.colour);
            sheet.add(format_args!("<path fill=\"{fill}\" d=\"{path}\"/>"));
        }
    }
    for (down, (label, _)) in lines.iter().enumerate().filter(|(_, (label, _))| !label.is_empty()) {
        let middle = TOP + (count(down) + 0.5) * LINE;
        sheet.text((LEFT - 14.0, middle), Side::Right, FONT_SIZE, label);
    }
    sheet.finish("", TOP + count(lines.len()) * LINE + TOP)
}
