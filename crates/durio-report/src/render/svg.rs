//! Charts as SVG, and what the page's script needs to show exact values.
//!
//! In: a [`Chart`]. Out: an element for the page. Not here: headings and legends, which are the page's.
//!
//! Colours are those of the light page. The style sheet finds them by their attribute and turns them
//! into those of the dark page.

mod axis;
mod bars;
mod labels;
mod map;
mod plot;

use std::fmt::Write as _;

use serde::Serialize;

use crate::document::chart::{Chart, Colour, Drawing};

/// Drawn at twice the size at which it is shown.
const WIDTH: f64 = 1120.0;

/// Of labels, at twice the size at which they are shown.
const FONT_SIZE: f64 = 31.0;

/// A character's width, in the mean.
const CHARACTER: f64 = 18.0;

pub(super) fn draw(chart: &Chart) -> String {
    match &chart.drawing {
        Drawing::Plot(panels) => plot::draw(panels),
        Drawing::Bars(bars) => bars::draw(bars),
        Drawing::Map(map) => map::draw(map),
    }
}

/// What the script knows of a chart.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(super) enum Values<'a> {
    /// Latency over the nines of the quantile.
    Distribution {
        /// Where it is.
        frame: Frame,
        /// The lines.
        lines: Vec<Line<'a>>,
    },
    /// Rate and latencies over time.
    OverTime {
        /// Where the rate is, and below it the latencies.
        frames: [Frame; 2],
        /// Seconds, operations per second, p50 and p99 in nanoseconds.
        points: Vec<(f64, f64, Option<f64>, Option<f64>)>,
    },
}

/// A line of a distribution: nines of the quantile and nanoseconds.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    name: &'a str,
    points: &'a [(f64, f64)],
}

/// Where a panel's coordinates lie on the sheet.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Frame {
    /// From left to right, in the units of the SVG.
    across: (f64, f64),
    /// From top to bottom.
    down: (f64, f64),
    /// What the left and the right edge stand for.
    x: (f64, f64),
    /// What the bottom and the top edge stand for; of latencies the decimal logarithm.
    y: (f64, f64),
}

/// The values of a chart that can be hovered over.
pub(super) fn values(chart: &Chart) -> Option<Values<'_>> {
    let Drawing::Plot(panels) = &chart.drawing else { return None };
    plot::values(panels)
}

const fn hex(colour: Colour) -> &'static str {
    match colour {
        Colour::First => "#2563EB",
        Colour::Second => "#C26A0A",
        Colour::Third => "#0B8778",
        Colour::Fourth => "#8B5CF6",
        Colour::Alarm => "#D92D20",
        Colour::Ink => "#4A5568",
        Colour::Shade => "#98A2B3",
    }
}

const GRID: &str = "#E2E6EB";

/// On which side of its place a text ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Middle,
    Right,
}

/// A drawing that grows.
#[derive(Debug, Default)]
struct Sheet(String);

impl Sheet {
    /// The element; `class` may be empty.
    fn finish(self, class: &str, height: f64) -> String {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        format!("<svg{class} role=\"img\" viewBox=\"0 0 {WIDTH} {height}\">{}</svg>", self.0)
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.0.write_fmt(element);
    }

    fn rect(&mut self, (left, top): (f64, f64), (right, bottom): (f64, f64), fill: (&str, f64)) {
        let [x, y, width, height] = [left, top, right - left, bottom - top].map(short);
        let opacity = match fill.1 {
            it if it < 1.0 => format!(" opacity=\"{}\"", short(it * 10.0) / 10.0),
            _ => String::new(),
        };
        let fill = fill.0;
        self.add(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{opacity} fill=\"{fill}\"/>"
        ));
    }

    fn polyline(&mut self, points: &[(f64, f64)], stroke: &str, width: f64) {
        let mut places = String::new();
        for (x, y) in points {
            let _ = write!(places, "{},{} ", short(*x), short(*y));
        }
        let places = places.trim_end();
        self.add(format_args!(
            "<polyline fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" points=\"{places}\"/>"
        ));
    }

    fn dot(&mut self, (x, y): (f64, f64), radius: f64, fill: &str) {
        let (x, y) = (short(x), short(y));
        self.add(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{fill}\"/>"));
    }

    fn ring(&mut self, (x, y): (f64, f64), radius: f64, stroke: &str) {
        let (x, y) = (short(x), short(y));
        self.add(format_args!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"5\"/>"
        ));
    }

    fn cross(&mut self, (x, y): (f64, f64), stroke: &str) {
        for way in [-11.0, 11.0] {
            self.polyline(&[(x - 11.0, y - way), (x + 11.0, y + way)], stroke, 5.0);
        }
    }

    /// Text, in the middle of its line's height at the place.
    fn text(&mut self, (x, y): (f64, f64), side: Side, size: f64, text: &str) {
        let anchor = match side {
            Side::Left => "start",
            Side::Middle => "middle",
            Side::Right => "end",
        };
        let (x, y, text) = (short(x), short(y), escaped(text));
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" dy=\".35em\" text-anchor=\"{anchor}\" font-size=\"{size}\">{text}</text>"
        ));
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&#38;").replace('<', "&#60;").replace('>', "&#62;")
}

/// A tenth of a unit is finer than any screen.
fn short(value: f64) -> f64 {
    let value = (value * 10.0).round() / 10.0;
    // What is no number is drawn nowhere; no minus before zero.
    if value.is_finite() { value + 0.0 } else { 0.0 }
}

/// A name that is not longer than there is room.
fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}
