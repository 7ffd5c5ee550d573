//! Drawings, as series: what is drawn, not how.
//!
//! In: series that builders take from findings. Out: [`Chart`]. Not here: pixels, pens, SVG.

use super::Level;
use crate::figures::{bandwidth, decimal, mean_latency, rate_bare};

/// What a colour stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
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
    /// Lines across the whole chart.
    Ink,
    /// What is not part of the figures.
    Shade,
}

impl Colour {
    /// Those that are told apart on one chart, in order.
    pub(crate) const SERIES: [Self; 5] =
        [Self::First, Self::Second, Self::Third, Self::Fourth, Self::Alarm];
}

/// A drawing.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// Its name where exact values can be asked for.
    pub(crate) id: Option<String>,
    /// In a summary a chart has room for a sparkline only.
    pub(crate) level: Level,
    pub(crate) drawing: Drawing,
}

#[derive(Debug)]
pub(crate) enum Drawing {
    /// Panels below each other that share what is across.
    Plot(Vec<Panel>),
    Bars(Bars),
    Map(Map),
}

/// Two axes and what lies between them.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) x: Scale,
    pub(crate) y: Scale,
    pub(crate) series: Vec<Series>,
}

/// How an axis is divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From zero.
    Linear(Unit),
    Logarithmic(Unit),
    /// Quantiles by their nines, −log10(1 − q).
    Nines,
    /// One step each, from zero.
    Steps(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Number,
    Seconds,
    /// Nanoseconds.
    Latency,
    /// Bytes per second.
    Bandwidth,
    /// Per second.
    Rate,
}

impl Unit {
    pub(crate) fn label(self, value: f64) -> String {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let whole = value.round() as u64;
        match self {
            Self::Bytes => durio_units::Bytes::new(whole).to_string(),
            Self::Number => decimal(value),
            Self::Seconds => format!("{} s", decimal(value)),
            Self::Latency => mean_latency(value),
            Self::Bandwidth => bandwidth(value),
            Self::Rate => format!("{}/s", rate_bare(value)),
        }
    }
}

/// Figures of one meaning.
#[derive(Debug)]
pub(crate) struct Series {
    /// For the legend; empty where another series with its colour has a name.
    pub(crate) name: String,
    pub(crate) colour: Colour,
    pub(crate) style: Style,
    /// A figure that is none is a gap.
    pub(crate) points: Vec<(f64, f64)>,
    /// Beside the points, as far as there is room; as many as points, or none.
    pub(crate) labels: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Line,
    Dots,
    Crosses,
    Rings,
    /// From zero up.
    Columns,
    /// From the first to the second coordinate of each point, over the whole height.
    Spans,
    /// Between two corners.
    Area,
    /// A line over the whole height at each point.
    Upright,
    /// A line over the whole width at each point.
    Across,
}

impl Series {
    pub(crate) fn new(
        name: impl Into<String>,
        colour: Colour,
        style: Style,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let (name, points) = (name.into(), points.into_iter().collect());
        Self { name, colour, style, points, labels: Vec::new() }
    }

    /// Dots of what was measured, and a line of what was fitted; without one the dots are joined.
    pub(crate) fn measured(
        name: impl Into<String>,
        colour: Colour,
        points: Vec<(f64, f64)>,
        line: Vec<(f64, f64)>,
    ) -> [Self; 2] {
        let line = if line.is_empty() { points.clone() } else { line };
        [Self::new(name, colour, Style::Line, line), Self::new("", colour, Style::Dots, points)]
    }
}

/// Groups of bars below each other.
#[derive(Debug)]
pub(crate) struct Bars {
    pub(crate) groups: Vec<BarGroup>,
    pub(crate) legend: Vec<(String, Colour)>,
    /// Whether each group has a scale of its own.
    pub(crate) is_scaled_by_group: bool,
}

#[derive(Debug)]
pub(crate) struct BarGroup {
    /// May be empty.
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
}

/// Spans on one line.
#[derive(Debug)]
pub(crate) struct Bar {
    /// May be empty.
    pub(crate) name: String,
    /// From, to, in either direction, in the unit of the chart.
    pub(crate) spans: Vec<(f64, f64, Colour)>,
    /// Behind the last.
    pub(crate) text: String,
}

impl Bar {
    /// A bar from zero.
    pub(crate) fn new(name: impl Into<String>, value: f64, colour: Colour, text: String) -> Self {
        Self { name: name.into(), spans: vec![(0.0, value, colour)], text }
    }
}

/// A cell for each pair of levels.
#[derive(Debug)]
pub(crate) struct Map {
    /// To the right.
    pub(crate) x: Vec<String>,
    /// Downwards.
    pub(crate) y: Vec<String>,
    pub(crate) cells: Vec<MapCell>,
}

#[derive(Debug)]
pub(crate) struct MapCell {
    pub(crate) x: usize,
    pub(crate) y: usize,
    /// Decides the shade.
    pub(crate) value: Option<f64>,
    pub(crate) text: String,
    /// What else there is room for in a table.
    pub(crate) beside: String,
}

impl Chart {
    fn new(title: impl Into<String>, drawing: Drawing) -> Self {
        Self { title: title.into(), id: None, level: Level::Detail, drawing }
    }

    pub(crate) fn plot(title: impl Into<String>, panels: Vec<Panel>) -> Self {
        Self::new(title, Drawing::Plot(panels))
    }

    pub(crate) fn map(title: impl Into<String>, map: Map) -> Self {
        Self::new(title, Drawing::Map(map))
    }

    pub(crate) fn bars<L: Into<String>>(
        title: impl Into<String>,
        groups: Vec<BarGroup>,
        legend: impl IntoIterator<Item = (L, Colour)>,
    ) -> Self {
        let legend = legend.into_iter().map(|(name, colour)| (name.into(), colour)).collect();
        Self::new(title, Drawing::Bars(Bars { groups, legend, is_scaled_by_group: false }))
    }

    pub(crate) fn in_summary(mut self) -> Self {
        self.level = Level::Summary;
        self
    }

    pub(crate) fn scaled_by_group(mut self) -> Self {
        if let Drawing::Bars(bars) = &mut self.drawing {
            bars.is_scaled_by_group = true;
        }
        self
    }

    pub(crate) fn with_id(mut self, id: String) -> Self {
        self.id = Some(id);
        self
    }

    /// Names and colours, each name once, lines first.
    pub(crate) fn legend(&self) -> Vec<(&str, Colour)> {
        let mut legend: Vec<(&str, Colour)> = Vec::new();
        match &self.drawing {
            Drawing::Plot(panels) => {
                let named = || {
                    let series = panels.iter().flat_map(|panel| &panel.series);
                    series.filter(|it| !it.name.is_empty() && !it.points.is_empty())
                };
                let is_line = |it: &&Series| matches!(it.style, Style::Line | Style::Columns);
                for it in named().filter(is_line).chain(named()) {
                    if legend.iter().all(|(name, _)| *name != it.name) {
                        legend.push((&it.name, it.colour));
                    }
                }
            }
            Drawing::Bars(bars) => {
                legend.extend(bars.legend.iter().map(|(name, colour)| (name.as_str(), *colour)));
            }
            Drawing::Map(_) => {}
        }
        legend
    }

    /// False without a figure.
    pub(crate) fn is_drawable(&self) -> bool {
        match &self.drawing {
            Drawing::Plot(panels) => {
                let series = panels.iter().flat_map(|panel| &panel.series);
                let points = series.flat_map(|it| &it.points);
                points.filter(|(x, y)| x.is_finite() && y.is_finite()).take(2).count() == 2
            }
            Drawing::Bars(bars) => bars
                .groups
                .iter()
                .flat_map(|group| &group.bars)
                .flat_map(|bar| &bar.spans)
                .any(|(from, to, _)| [from, to].iter().any(|it| it.is_finite() && **it > 0.0)),
            Drawing::Map(map) => !map.cells.is_empty(),
        }
    }
}
