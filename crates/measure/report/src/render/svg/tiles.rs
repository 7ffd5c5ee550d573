//! Areas piece by piece, in lines from left to right.
//!
//! Draws [`TileArea`].

use std::fmt::Write as _;

use super::{FONT_SIZE, SvgSheet, TextAnchor, WIDTH, count, hex, short};
use crate::document::chart::TileArea;

/// Pieces of a line: fewer and larger ones where there is room.
const ACROSS: [usize; 2] = [32, 64];
/// More lines of the larger ones than this would be higher than any other chart.
const LINES_MAX: usize = 16;
const LEFT: f64 = 150.0;
const TOP: f64 = 6.0;
/// Room for words, where an area has but one line.
const LINE: f64 = 36.0;
/// Above an area.
const APART: f64 = 8.0;

pub(super) fn draw(tiles: &TileArea) -> String {
    let [few, many] = ACROSS;
    let across_most = if tiles.lines(few).len() <= LINES_MAX { few } else { many };
    let size = (WIDTH - LEFT - 10.0) / count(across_most);
    let lines = tiles.lines(across_most);
    let mut top = TOP;
    let tops: Vec<f64> = (lines.iter())
        .map(|(label, _)| {
            top += if label.is_empty() { LINE } else { LINE + APART };
            top - LINE
        })
        .collect();
    let mut sheet = SvgSheet::default();
    // One path for each kind: an element for each piece would be as large as a page.
    for (kind, it) in tiles.kinds.iter().enumerate() {
        let side = size * it.fill.clamp(0.0, 1.0);
        let mut path = String::new();
        for (down, (_, line)) in lines.iter().enumerate() {
            let those = line.iter().enumerate().filter(|(_, of)| **of == kind);
            for (across, _) in those {
                let x = short(LEFT + count(across) * size + (size - side) / 2.0);
                let y = short(tops[down] + (LINE - side) / 2.0);
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
        sheet.text((LEFT - 14.0, tops[down] + LINE / 2.0), TextAnchor::Right, FONT_SIZE, label);
    }
    sheet.finish("", top + TOP)
}
