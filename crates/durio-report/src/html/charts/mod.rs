//! The charts of the page, as SVG, and what the page's script needs to show exact values.
//!
//! In: findings. Out: [`Chart`]s. Not here: headings and legends, which are the page's.

mod axis;
mod bars;
mod canvas;
mod convergence;
mod curve;

mod distribution;
mod heat;
mod labels;
mod levels;
mod over_time;
mod search;
mod sequence;
mod spans;
mod xy;

pub(super) use bars::{Bar, BarGroup, bars, bars_to_one_scale};
pub(crate) use canvas::Colour;
use canvas::Frame;
pub(super) use convergence::convergence;
pub(super) use curve::latency_at_rate;
pub(super) use distribution::distribution;
pub(super) use heat::heat_map;
pub(super) use levels::levels;
pub(super) use over_time::over_time;
pub(super) use search::search;
pub(super) use sequence::sequences;
pub(crate) use spans::{SpanGroup, SpanRow, spans};
pub(crate) use xy::{Scale, Series, xy};

use serde::Serialize;

/// A drawing, with its values where it can be hovered over.
#[derive(Debug)]
pub(crate) struct Chart {
    /// The drawing.
    pub(crate) svg: String,
    /// Names and colours of the lines.
    pub(crate) legend: Vec<(String, Colour)>,
    /// For the script; none where every value is printed.
    pub(super) values: Option<Values>,
}

/// What the script knows of a chart.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(super) enum Values {
    /// Latency over the nines of the quantile.
    Distribution {
        /// Where it is.
        frame: Frame,
        /// The lines.
        lines: Vec<Line>,
    },
    /// Rate and latencies over time.
    OverTime {
        /// Where the rate is, and below it the latencies.
        frames: [Frame; 2],
        /// Seconds, operations per second, p50 and p99 in nanoseconds.
        points: Vec<(f64, f64, Option<u64>, Option<u64>)>,
    },
}

/// A line of a distribution.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    /// The operation.
    pub(super) name: String,
    /// Nines of the quantile, −log10(1 − q), and nanoseconds.
    pub(super) points: Vec<(f64, u64)>,
}

/// Rounded for the page: the drawing is no finer, and every byte is sent around.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
