//! Lanes of pieces over a shared axis of time.
//!
//! Places are per cent of the width and letters have one size, whatever the width: a page that makes the
//! lanes wider than the screen zooms in time alone.

use std::fmt::Write as _;

use durio_base::EscapedText;

use super::axis::PanelAxis;
use super::hex;
use crate::document::chart::{AxisScale, AxisUnit, LaneChart, LaneKind, LanePiece};
use crate::figures::precise;

const LANE_HEIGHT: u32 = 26;
/// The piece within its lane: distance from the top, and height.
const FULL: (u32, u32) = (1, 24);
const THIN: (u32, u32) = (8, 10);
const AXIS_HEIGHT: u32 = 22;
/// A piece that is narrower could not be seen, in per cent.
const WIDTH_MIN: f64 = 0.15;
/// Width of a letter and of the room around a word, in pixels.
const LETTER: f64 = 7.5;
const AIR: f64 = 10.0;
/// Pixels that lanes have at least: on a narrow page, on a wide one, and on a narrow one that is zoomed.
const ROOM: [f64; 3] = [250.0, 540.0, 1000.0];

/// A picture for each lane below its name, and the axis.
pub(super) fn draw(chart: &LaneChart) -> String {
    let mut text = String::new();
    for (name, pieces) in &chart.lanes {
        let name = EscapedText(name);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "<p>{name}</p><svg role=\"img\" aria-label=\"{name}\" style=\"height:{LANE_HEIGHT}px\">"
        );
        pieces.iter().for_each(|piece| draw_piece(chart, piece, &mut text));
        text.push_str("</svg>");
    }
    let _ = write!(
        text,
        "<svg role=\"img\" aria-label=\"time from the start of the call\" \
         style=\"height:{AXIS_HEIGHT}px\">"
    );
    draw_axis(chart, &mut text);
    text.push_str("</svg>");
    text
}

/// A place on the axis in per cent, to a thousandth.
fn place(chart: &LaneChart, nanos: u64) -> f64 {
    let share = precise(nanos.min(chart.end)) / precise(chart.end.max(1));
    (share * 1e5).round() / 1e3
}

fn draw_piece(chart: &LaneChart, piece: &LanePiece, text: &mut String) {
    let Some(LaneKind { name, colour, is_thin }) = chart.kinds.get(piece.kind) else { return };
    let (left, right) = (place(chart, piece.begin), place(chart, piece.end));
    let width = ((right - left).max(WIDTH_MIN) * 1e3).round() / 1e3;
    let (top, height) = if *is_thin { THIN } else { FULL };
    let (title, fill) = (EscapedText(&piece.title), hex(*colour));
    let _ = write!(
        text,
        "<g><title>{title}</title><rect x=\"{left}%\" y=\"{top}\" width=\"{width}%\" \
         height=\"{height}\" opacity=\"0.5\" fill=\"{fill}\"/>"
    );
    let needed = precise(name.chars().count() as u64) * LETTER + AIR;
    let class = match ROOM.map(|room| room * width / 100.0 >= needed) {
        [true, ..] => Some(""),
        [false, true, _] => Some(" class=\"at-wide\""),
        [false, false, true] => Some(" class=\"at-zoom\""),
        [false, false, false] => None,
    };
    if let Some(class) = class {
        let (middle, name) = (LANE_HEIGHT / 2, EscapedText(name));
        let _ = write!(
            text,
            "<text{class} x=\"{left}%\" y=\"{middle}\" dx=\"5\" dy=\".35em\">{name}</text>"
        );
    }
    text.push_str("</g>");
}

/// Marks in round numbers; every second one where the page is narrow.
fn draw_axis(chart: &LaneChart, text: &mut String) {
    let values = [precise(chart.end)].into_iter();
    let axis = PanelAxis::new(&AxisScale::Linear(AxisUnit::Latency), values);
    text.push_str("<rect x=\"0%\" y=\"0\" width=\"100%\" height=\"1\" fill=\"#98A2B3\"/>");
    for (at, (nanos, label)) in axis.marks.iter().enumerate() {
        let left = (nanos / precise(chart.end.max(1)) * 1e5).round() / 1e3;
        // The last mark's label would be beyond the page.
        if left > 90.0 {
            break;
        }
        let class = if at % 2 == 1 { " class=\"at-wide\"" } else { "" };
        let label = EscapedText(label);
        let _ = write!(
            text,
            "<g{class}><rect x=\"{left}%\" y=\"0\" width=\"1\" height=\"6\" fill=\"#98A2B3\"/>\
             <text x=\"{left}%\" y=\"13\" dx=\"3\" dy=\".35em\">{label}</text></g>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::chart::Colour;

    fn chart(pieces: &[(u64, u64, usize)]) -> LaneChart {
        let kind = |name: &str, is_thin| LaneKind {
            name: name.to_owned(),
            colour: Colour::First,
            is_thin,
        };
        let piece = |&(begin, end, kind): &(u64, u64, usize)| LanePiece {
            begin,
            end,
            kind,
            title: format!("<{begin}>"),
        };
        LaneChart {
            end: 1_000_000,
            kinds: vec![kind("device", false), kind("queued", true)],
            lanes: vec![("a<b (7)".to_owned(), pieces.iter().map(piece).collect())],
        }
    }

    #[test]
    fn a_piece_has_its_place_in_per_cent_its_height_and_its_words_escaped() {
        let svg = draw(&chart(&[(0, 250_000, 0), (250_000, 1_000_000, 1)]));
        assert!(svg.contains("<p>a&#60;b (7)</p>"), "{svg}");
        assert!(svg.contains("<title>&#60;0&#62;</title><rect x=\"0%\" y=\"1\" width=\"25%\""));
        assert!(svg.contains("<rect x=\"25%\" y=\"8\" width=\"75%\" height=\"10\""), "{svg}");
    }

    #[test]
    fn a_label_is_drawn_where_its_piece_has_room_for_it() {
        // "device" needs 55 pixels: of 1000, of 540 and of 250.
        for (end, class) in [
            (54_000, None),
            (56_000, Some(" class=\"at-zoom\"")),
            (101_000, Some(" class=\"at-zoom\"")),
            (102_000, Some(" class=\"at-wide\"")),
            (219_000, Some(" class=\"at-wide\"")),
            (221_000, Some("")),
        ] {
            let svg = draw(&chart(&[(0, end, 0)]));
            let text = class.map(|class| format!("<text{class} x=\"0%\" y=\"13\" dx=\"5\""));
            assert!(text.iter().all(|text| svg.contains(text)), "{end}: {svg}");
            assert_eq!(svg.matches(">device</text>").count(), text.iter().count(), "{end}");
        }
    }

    #[test]
    fn short_pieces_are_seen_and_odd_ones_stay_within() {
        let svg = draw(&chart(&[(500_000, 500_001, 0), (0, u64::MAX, 1), (1, 2, 9)]));
        assert!(svg.contains("x=\"50%\" y=\"1\" width=\"0.15%\""), "{svg}");
        assert!(svg.contains("x=\"0%\" y=\"8\" width=\"100%\""), "{svg}");
        assert_eq!(svg.matches("<title>").count(), 2);
        let empty = draw(&LaneChart { end: 0, ..chart(&[(0, 0, 0)]) });
        assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
    }

    #[test]
    fn the_axis_has_round_marks_from_zero() {
        let svg = draw(&chart(&[(0, 1, 0)]));
        for (place, label) in [("0%", "0 ns"), ("20%", "200 µs"), ("80%", "800 µs")] {
            let mark = format!("<text x=\"{place}\" y=\"13\" dx=\"3\" dy=\".35em\">{label}</text>");
            assert!(svg.contains(&mark), "{svg}");
        }
        assert!(!svg.contains("1 ms"), "{svg}");
    }
}
