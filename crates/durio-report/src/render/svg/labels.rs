//! Labels beside points, where they do not cover each other.
//!
//! In: places on the sheet, the most important first. Out: labels drawn, or left out where there is no
//! room: every value is in the table beside the chart.

use super::{CHARACTER, FONT_SIZE, Sheet, Side};

/// Of a line of text.
const LINE: f64 = FONT_SIZE + 2.0;

/// How far a label is from its point.
const GAP: f64 = 20.0;

/// What is taken on a sheet: left, top, right, bottom.
type Taken = (f64, f64, f64, f64);

/// Labels on a sheet.
pub(super) struct Labels {
    within: Taken,
    taken: Vec<Taken>,
}

impl Labels {
    /// For a panel that lies within this.
    pub(super) fn new(across: (f64, f64), down: (f64, f64)) -> Self {
        Self { within: (across.0, down.0, across.1 + 50.0, down.1), taken: Vec::new() }
    }

    /// Keeps labels away from a point.
    pub(super) fn avoid(&mut self, (x, y): (f64, f64)) {
        self.taken.push((x - 8.0, y - 8.0, x + 8.0, y + 8.0));
    }

    /// Draws a label above, left, right or below of the point, wherever there is room.
    pub(super) fn put(&mut self, sheet: &mut Sheet, (x, y): (f64, f64), text: &str) {
        #[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
        let width = text.chars().count() as f64 * CHARACTER;
        let half = width / 2.0;
        let boxes = [
            ((x - half, y - GAP - LINE), (x, y - GAP - LINE / 2.0), Side::Middle),
            ((x - GAP - width, y - LINE / 2.0), (x - GAP, y), Side::Right),
            ((x + GAP, y - LINE / 2.0), (x + GAP, y), Side::Left),
            ((x - half, y + GAP), (x, y + GAP + LINE / 2.0), Side::Middle),
        ];
        for ((left, top), anchor, side) in boxes {
            let place = (left, top, left + width, top + LINE);
            if self.is_free(place) {
                self.taken.push(place);
                return sheet.text(anchor, side, FONT_SIZE, text);
            }
        }
    }

    fn is_free(&self, place: Taken) -> bool {
        let apart = |other: &Taken| {
            place.2 <= other.0 || other.2 <= place.0 || place.3 <= other.1 || other.3 <= place.1
        };
        let (left, top, right, bottom) = self.within;
        let is_within = place.0 >= left && place.1 >= top && place.2 <= right && place.3 <= bottom;
        is_within && self.taken.iter().all(apart)
    }
}
