//! The sheet that charts are drawn on, and the pens.
//!
//! In: a function that draws. Out: SVG. Not here: what is drawn.
//!
//! Colours are those of the light page. The style sheet finds them by their attribute and turns
//! them into those of the dark page, so each colour stands for one meaning.

use std::fmt::Display;
use std::io;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use serde::Serialize;

use super::axis::Axis;

/// Drawn at twice the size at which it is shown, for plotters places points on whole pixels.
pub(super) const WIDTH: u32 = 1120;

/// Of labels, at twice the size at which they are shown.
pub(super) const FONT_SIZE: u32 = 31;

/// What a colour stands for. The page's style sheet knows each by its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Words on the chart.
    Ink,
    /// Lines of the grid.
    Grid,
    /// Commits, reads, rates.
    First,
    /// Writes, 99th percentiles.
    Second,
    /// Syncs, medians.
    Third,
    /// Anything else.
    Fourth,
    /// Stalls.
    Alarm,
    /// The ramp, which is not part of the figures.
    Shade,
}

impl Colour {
    pub(super) const fn rgb(self) -> RGBColor {
        match self {
            Self::Ink => RGBColor(0x4A, 0x55, 0x68),
            Self::Grid => RGBColor(0xE2, 0xE6, 0xEB),
            Self::First => RGBColor(0x25, 0x63, 0xEB),
            Self::Second => RGBColor(0xC2, 0x6A, 0x0A),
            Self::Third => RGBColor(0x0B, 0x87, 0x78),
            Self::Fourth => RGBColor(0x8B, 0x5C, 0xF6),
            Self::Alarm => RGBColor(0xD9, 0x2D, 0x20),
            Self::Shade => RGBColor(0x98, 0xA2, 0xB3),
        }
    }

    /// The style sheet's class for it.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Ink => "ink",
            Self::Grid => "grid",
            Self::First => "first",
            Self::Second => "second",
            Self::Third => "third",
            Self::Fourth => "fourth",
            Self::Alarm => "alarm",
            Self::Shade => "shade",
        }
    }
}

/// Where a chart's coordinates lie on the sheet, for the script.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Frame {
    /// From left to right, in the units of the SVG.
    pub(super) across: (i32, i32),
    /// From top to bottom.
    pub(super) down: (i32, i32),
    /// What the left and the right edge stand for.
    pub(super) x: (f64, f64),
    /// What the bottom and the top edge stand for; of latencies the decimal logarithm.
    pub(super) y: (f64, f64),
}

impl Frame {
    fn new(pixels: (Range<i32>, Range<i32>), x: &Range<f64>, y: &Range<f64>) -> Self {
        let (across, down) = pixels;
        Self {
            across: (across.start, across.end),
            down: (down.start, down.end),
            x: (x.start, x.end),
            y: (y.start, y.end),
        }
    }
}

/// A sheet that is being drawn on.
pub(super) type Sheet<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Whatever plotters may say; drawing into memory does not fail.
pub(super) fn failed(error: impl Display) -> io::Error {
    io::Error::other(format!("drawing a chart: {error}"))
}

/// Draws on an empty sheet of this height; also what `drawing` gives.
pub(super) fn draw<T>(
    height: u32,
    drawing: impl FnOnce(&Sheet<'_>) -> io::Result<T>,
) -> io::Result<(String, T)> {
    let mut svg = String::new();
    let given = {
        let sheet = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let given = drawing(&sheet)?;
        sheet.present().map_err(failed)?;
        given
    };
    Ok((compact(&svg), given))
}

/// A chart whose axes have the marks that we chose.
pub(super) type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Marked, Marked>>;

/// A linear axis with marks of our own.
pub(super) struct Marked {
    axis: RangedCoordf64,
    marks: Vec<f64>,
}

impl Marked {
    fn new(range: Range<f64>, marks: Vec<f64>) -> Self {
        Self { axis: range.into(), marks }
    }
}

impl Ranged for Marked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.axis.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Light lines are asked for by their own weight; there are none.
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.marks.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.axis.range()
    }
}

/// Draws axes and grid on the sheet, with room on the right for half of the last label.
pub(super) fn plot<'a, 'b>(
    sheet: &'a Sheet<'b>,
    x: Axis,
    y: Axis,
) -> io::Result<(Plot<'a, 'b>, Frame)> {
    let (across, up) = (x.range.clone(), y.range.clone());
    let mut chart = ChartBuilder::on(sheet)
        .margin_right(60)
        .margin_top(18)
        .x_label_area_size(60)
        .y_label_area_size(136)
        .build_cartesian_2d(Marked::new(x.range, x.marks), Marked::new(y.range, y.marks))
        .map_err(failed)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .bold_line_style(Colour::Grid.rgb().stroke_width(2))
        .axis_style(Colour::Grid.rgb().stroke_width(2))
        .label_style(label_style())
        .x_label_formatter(&|it| (x.label)(*it))
        .y_label_formatter(&|it| (y.label)(*it))
        .draw()
        .map_err(failed)?;
    let frame = Frame::new(chart.plotting_area().get_pixel_range(), &across, &up);
    Ok((chart, frame))
}

/// Labels.
pub(super) fn label_style() -> TextStyle<'static> {
    ("sans-serif", FONT_SIZE).into_font().color(&Colour::Ink.rgb())
}

/// A line of a chart.
pub(super) fn stroke(colour: Colour) -> ShapeStyle {
    colour.rgb().stroke_width(3)
}

/// Leaves out what says nothing: full opacity, and the size, which the page decides.
fn compact(svg: &str) -> String {
    let size = svg.find(" viewBox").unwrap_or_default();
    let rest = svg.get(size..).unwrap_or_default();
    format!("<svg role=\"img\"{}", rest.replace(" opacity=\"1\"", "").replace(">\n", ">"))
}
