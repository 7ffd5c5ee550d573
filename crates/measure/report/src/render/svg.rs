//! Charts as SVG, and the data that the page's script needs to show exact values.
//!
//! Makes an element for the page from a [`Chart`]; the page adds headings and legends.
//!
//! Colours are those of the light page. The style sheet finds them by their attribute and turns them
//! into those of the dark page.

mod axis;
mod bars;
mod grid;
mod labels;
mod lanes;
mod plot;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use durio_base::EscapedText;
use serde::Serialize;

use crate::document::chart::{Chart, Colour, Drawing, Map, TileArea};
use crate::figures::precise;

// Drawn at twice the size at which it is shown.
const WIDTH: f64 = 1120.0;

// The size of labels, drawn at twice the size at which they are shown.
const FONT_SIZE: f64 = 31.0;

/// How much of the page's width a chart has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChartSpan {
    Half,
    Full,
}

pub(super) fn draw(chart: &Chart, span: ChartSpan) -> String {
    match &chart.drawing {
        Drawing::Plot(panels) => plot::draw(panels, &chart.across, span),
        Drawing::Bars(bars) => bars::draw(bars),
        Drawing::Map(map) => draw_map(map),
        Drawing::Tiles(tiles) => draw_tiles(tiles),
        Drawing::Grid(grid) => grid::draw(grid),
        Drawing::Lanes(lanes) => lanes::draw(lanes),
    }
}

/// What the script knows of a panel of a chart.
#[derive(Debug, Serialize)]
pub(super) struct PanelValues<'a> {
    frame: PanelFrame,
    x: AxisValues<'a>,
    y: AxisValues<'a>,
    lines: Vec<SvgLine<'a>>,
}

/// How a value becomes a place, and words.
#[derive(Debug, Serialize)]
struct AxisValues<'a> {
    unit: &'static str,
    log: bool,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    steps: &'a [String],
}

/// A series, with its points' values.
#[derive(Debug, Serialize)]
struct SvgLine<'a> {
    name: &'a str,
    key: &'static str,
    points: Vec<(f64, f64)>,
}

/// Where a panel's coordinates lie on the sheet.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct PanelFrame {
    /// From left to right, in the units of the SVG.
    across: (f64, f64),
    /// From top to bottom.
    down: (f64, f64),
    /// What the left and the right edge stand for.
    x: (f64, f64),
    /// What the bottom and the top edge stand for; of latencies the decimal logarithm.
    y: (f64, f64),
}

/// The values of each panel; none of a chart that has its values as words.
pub(super) fn values(chart: &Chart, span: ChartSpan) -> Option<Vec<PanelValues<'_>>> {
    let Drawing::Plot(panels) = &chart.drawing else { return None };
    Some(plot::values(panels, span))
}

/// The class of a coloured element.
pub(super) const fn key(colour: Colour) -> &'static str {
    match colour {
        Colour::First => "first",
        Colour::Second => "second",
        Colour::Third => "third",
        Colour::Fourth => "fourth",
        Colour::Alarm => "alarm",
        Colour::Ink => "ink",
        Colour::Shade => "shade",
    }
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
enum TextAnchor {
    Left,
    Middle,
    Right,
}

/// A drawing that grows.
#[derive(Debug, Default)]
struct SvgSheet(String);

impl SvgSheet {
    /// The element; `class` may be empty.
    fn finish(self, class: &str, height: f64) -> String {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        // As one picture: otherwise a screen reader would read out every label of the axes.
        format!("<svg{class} role=\"img\" viewBox=\"0 0 {WIDTH} {height}\">{}</svg>", self.0)
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.0.write_fmt(element);
    }

    fn rect(&mut self, (left, top): (f64, f64), (right, bottom): (f64, f64), fill: (&str, f64)) {
        let [x, y, width, height] = [left, top, right - left, bottom - top].map(short);
        // Most rectangles are opaque, and every byte of a page is sent around.
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
        self.polyline_of("", points, stroke, width);
    }

    /// With another attribute, which begins with a blank.
    fn polyline_of(&mut self, other: &str, points: &[(f64, f64)], stroke: &str, width: f64) {
        let mut places = String::new();
        for (x, y) in points {
            let _ = write!(places, "{},{} ", short(*x), short(*y));
        }
        let places = places.trim_end();
        self.add(format_args!(
            "<polyline fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\"{other} points=\"{places}\"/>"
        ));
    }

    fn dot(&mut self, (x, y): (f64, f64), radius: f64, fill: &str) {
        let (x, y) = (short(x), short(y));
        self.add(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{fill}\"/>"));
    }

    /// A dot with an edge in the colour of the page, which shows on a bar of any colour.
    fn point(&mut self, (x, y): (f64, f64), radius: f64) {
        let (x, y, ink) = (short(x), short(y), hex(Colour::Ink));
        self.add(format_args!(
            "<circle class=\"dot ink\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{ink}\"/>"
        ));
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

    /// Opens a group of labels that the page shows at some widths.
    fn begin_letters(&mut self, letters: &labels::LetterSize) {
        let class = letters.class;
        self.add(format_args!("<g class=\"{class}\">"));
    }

    fn end_letters(&mut self) {
        self.add(format_args!("</g>"));
    }

    /// Text, in the middle of its line's height at the place.
    fn text(&mut self, at: (f64, f64), side: TextAnchor, size: f64, text: &str) {
        self.text_of("", at, side, size, text);
    }

    /// The title of an axis.
    fn title(&mut self, at: (f64, f64), side: TextAnchor, size: f64, text: &str) {
        self.text_of(" class=\"axis\"", at, side, size, text);
    }

    fn text_of(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        side: TextAnchor,
        size: f64,
        text: &str,
    ) {
        let anchor = match side {
            TextAnchor::Left => "start",
            TextAnchor::Middle => "middle",
            TextAnchor::Right => "end",
        };
        let (x, y, text) = (short(x), short(y), EscapedText(text));
        // Digits are about 0.7 em high: with `dy` half of that, their middle is at the place.
        self.add(format_args!(
            "<text{class} x=\"{x}\" y=\"{y}\" dy=\".35em\" text-anchor=\"{anchor}\" font-size=\"{size}\">{text}</text>"
        ));
    }
}

// A tenth of a unit is finer than a screen shows, and keeps the page small.
fn short(value: f64) -> f64 {
    let value = (value * 10.0).round() / 10.0;
    // NaN and infinity are not drawn; no minus before zero.
    if value.is_finite() { value + 0.0 } else { 0.0 }
}

/// A name that is not longer than there is room.
fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// A number of cells, steps or characters, as a length.
fn count(items: usize) -> f64 {
    precise(items as u64)
}

const CELL_HEIGHT: f64 = 66.0;
const MAP_LEFT: f64 = 190.0;
/// Width of a character of a map, by its size.
const MAP_CHARACTER_EM: f64 = 0.64;
/// Characters for which there is room left of a map.
const MAP_LABEL_MAX: usize = 9;
const MAP_TOP: f64 = 10.0;
const MAP_BELOW: f64 = 56.0;
/// Smaller letters than this cannot be read; the table has the values.
const MAP_LETTERS_MIN: f64 = 14.0;

/// Shades from the lightest to the darkest, as opacities.
// Words stay readable on each.
const SHADES: (f64, f64) = (0.06, 0.55);

/// A cell for each pair of levels, with its value in words and in a shade.
fn draw_map(map: &Map) -> String {
    let width = (WIDTH - MAP_LEFT - 10.0) / count(map.x.len().max(1));
    let bottom = MAP_TOP + count(map.y.len().max(1)) * CELL_HEIGHT;
    let corner =
        |x: usize, y: usize| (MAP_LEFT + count(x) * width, MAP_TOP + count(y) * CELL_HEIGHT);
    let mut sheet = SvgSheet::default();
    let words = map.cells.iter().map(|cell| &cell.text).chain(&map.x);
    let longest = words.map(|text| text.chars().count()).max().unwrap_or(1).max(1);
    let size = FONT_SIZE.min((width - 6.0) / (count(longest) * MAP_CHARACTER_EM));
    let write = |sheet: &mut SvgSheet, at: (f64, f64), text: &str| {
        if size >= MAP_LETTERS_MIN {
            sheet.text(at, TextAnchor::Middle, short(size), text);
        }
    };
    let shade = shades(map);
    for cell in &map.cells {
        let (left, top) = corner(cell.x, cell.y);
        let end = (left + width - 2.0, top + CELL_HEIGHT - 2.0);
        sheet.rect((left + 2.0, top + 2.0), end, (hex(Colour::Second), shade(cell.value)));
        write(&mut sheet, (left + width / 2.0, top + CELL_HEIGHT / 2.0), &cell.text);
    }
    for (at, label) in map.x.iter().enumerate() {
        write(&mut sheet, (corner(at, 0).0 + width / 2.0, bottom + MAP_BELOW / 2.0), label);
    }
    for (at, label) in map.y.iter().enumerate() {
        let middle = corner(0, at).1 + CELL_HEIGHT / 2.0;
        let label = cut(label, MAP_LABEL_MAX);
        sheet.text((MAP_LEFT - 14.0, middle), TextAnchor::Right, FONT_SIZE, &label);
    }
    sheet.finish("", bottom + MAP_BELOW)
}

/// The shade of a value, by its logarithm.
fn shades(map: &Map) -> impl Fn(Option<f64>) -> f64 {
    // Latencies of a map span decades: on a linear scale all but one cell would be pale.
    let logarithm = |value: f64| value.max(1.0).log10();
    let known = map.cells.iter().filter_map(|cell| cell.value).map(logarithm);
    let (low, high) =
        known.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    move |value| {
        let Some(value) = value else { return 0.0 };
        let share = if high > low { (logarithm(value) - low) / (high - low) } else { 0.0 };
        SHADES.0 + (SHADES.1 - SHADES.0) * share
    }
}

/// Pieces of a line: fewer and larger ones where there is room.
const TILES_ACROSS: [usize; 2] = [32, 64];
/// More lines of the larger ones than this would be higher than any other chart.
const TILE_LINES_MAX: usize = 16;
const TILES_LEFT: f64 = 150.0;
const TILES_TOP: f64 = 6.0;
/// Room for words, where an area has but one line.
const TILES_LINE: f64 = 36.0;
/// Room above an area with a label.
const TILES_APART: f64 = 8.0;

fn draw_tiles(tiles: &TileArea) -> String {
    let [few, many] = TILES_ACROSS;
    let across_most = if tiles.lines(few).len() <= TILE_LINES_MAX { few } else { many };
    let size = (WIDTH - TILES_LEFT - 10.0) / count(across_most);
    let lines = tiles.lines(across_most);
    let mut top = TILES_TOP;
    let tops: Vec<f64> = (lines.iter())
        .map(|(label, _)| {
            top += if label.is_empty() { TILES_LINE } else { TILES_LINE + TILES_APART };
            top - TILES_LINE
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
                let x = short(TILES_LEFT + count(across) * size + (size - side) / 2.0);
                let y = short(tops[down] + (TILES_LINE - side) / 2.0);
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
        sheet.text(
            (TILES_LEFT - 14.0, tops[down] + TILES_LINE / 2.0),
            TextAnchor::Right,
            FONT_SIZE,
            label,
        );
    }
    sheet.finish("", top + TILES_TOP)
}
