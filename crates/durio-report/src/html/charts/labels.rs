//! Labels beside points, where they do not cover each other.
//!
//! In: places on the sheet, most severe first. Out: labels drawn, or left out where there is no
//! room: every value is in the table beside the chart.

use std::io;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::{FONT_SIZE, Sheet, failed, label_style};

/// The width of a character, in the mean, and of a line.
const CHARACTER: i32 = 18;
const LINE: i32 = FONT_SIZE.cast_signed() + 2;

/// How far a label is from its point.
const GAP: i32 = 20;

/// What is taken on a sheet: left, top, right, bottom.
type Taken = (i32, i32, i32, i32);

/// Labels on a sheet.
pub(super) struct Labels {
    within: Taken,
    taken: Vec<Taken>,
}

impl Labels {
    /// For a plot that lies within these pixels.
    pub(super) fn new(across: (i32, i32), down: (i32, i32)) -> Self {
        Self { within: (across.0, down.0, across.1 + 50, down.1), taken: Vec::new() }
    }

    /// Keeps labels away from a point.
    pub(super) fn avoid(&mut self, (x, y): (i32, i32)) {
        self.taken.push((x - 8, y - 8, x + 8, y + 8));
    }

    /// Draws a label above, left, right or below of the point, wherever there is room; beside the
    /// point first where its line is `steep`.
    pub(super) fn put(
        &mut self,
        sheet: &Sheet<'_>,
        at: (i32, i32),
        text: &str,
        steep: bool,
    ) -> io::Result<()> {
        let width = i32::try_from(text.chars().count()).unwrap_or(i32::MAX / 100) * CHARACTER;
        let (x, y) = at;
        let half = width / 2;
        let mut boxes = [
            ((x - half, y - GAP - LINE), (x, y - GAP - LINE / 2), HPos::Center),
            ((x - GAP - width, y - LINE / 2), (x - GAP, y), HPos::Right),
            ((x + GAP, y - LINE / 2), (x + GAP, y), HPos::Left),
            ((x - half, y + GAP), (x, y + GAP + LINE / 2), HPos::Center),
        ];
        if steep {
            boxes.rotate_left(1);
        }
        for ((left, top), anchor, side) in boxes {
            let place = (left, top, left + width, top + LINE);
            if self.is_free(place) {
                self.taken.push(place);
                let style = label_style().pos(Pos::new(side, VPos::Center));
                let text = Text::new(text.to_owned(), anchor, style);
                return sheet.draw(&text).map_err(failed);
            }
        }
        Ok(())
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
