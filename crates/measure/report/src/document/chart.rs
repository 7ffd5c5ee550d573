//! Drawings, as series: the contents, not the drawing.
//!
//! Builders take series from findings and make a [`Chart`]; long series are reduced to the points
//! to draw. Pixels, pens and SVG are in `render`.

mod lanes;

use durio_analyse::CurvePoint;

pub use lanes::{LaneChart, LaneKind, LanePiece};

use super::DetailLevel;
use crate::figures::{bandwidth, decimal, mean_latency, precise, rate_bare, size};

/// What a colour stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Commits, reads, rates.
    First,
    /// Writes, 99th percentiles.
    Second,
    /// Syncs, medians.
    Third,
    /// Anything else.
    Fourth,
    Alarm,
    /// Lines across the whole chart.
    Ink,
    /// Time outside the results.
    Shade,
}

impl Colour {
    /// The colours that can be distinguished on one chart, in order.
    pub const SERIES: [Self; 5] =
        [Self::First, Self::Second, Self::Third, Self::Fourth, Self::Alarm];
}

#[derive(Debug)]
pub struct Chart {
    pub title: String,
    /// What the horizontal axis of a plot counts; empty where its unit says it.
    pub across: String,
    /// In a summary a chart has room for a sparkline only.
    pub level: DetailLevel,
    pub drawing: Drawing,
}

#[derive(Debug)]
pub enum Drawing {
    /// Panels below each other that share the horizontal axis.
    Plot(Vec<Panel>),
    Bars(Bars),
    Map(Map),
    Tiles(TileArea),
    Grid(HostGrid),
    Lanes(LaneChart),
}

/// Two axes and the area between them.
#[derive(Debug)]
pub struct Panel {
    pub x: AxisScale,
    pub y: AxisScale,
    pub series: Vec<ChartSeries>,
}

/// On a linear axis, values further apart than this factor are lost at its foot.
const LINEAR_MAX: f64 = 30.0;

impl Panel {
    /// Makes axes with widely spread values logarithmic. Zero has no place on one, and stalls are
    /// zeros; a horizontal axis of time begins at zero.
    fn spread(&mut self) {
        let far = |values: &mut dyn Iterator<Item = f64>| {
            let finite = values.filter(|value| value.is_finite());
            let (low, high) = finite
                .fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
            low > 0.0 && high > low * LINEAR_MAX
        };
        let is_figure = |series: &&ChartSeries| {
            !matches!(series.style, Style::Spans | Style::Area | Style::Ranges)
        };
        let points = || self.series.iter().filter(is_figure).flat_map(|series| &series.points);
        let (x, y) =
            (far(&mut points().map(|point| point.0)), far(&mut points().map(|point| point.1)));
        for (scale, is_far) in [(&mut self.x, x), (&mut self.y, y)] {
            match scale {
                AxisScale::Linear(
                    unit @ (AxisUnit::Rate | AxisUnit::Latency | AxisUnit::Bandwidth),
                ) if is_far => {
                    *scale = AxisScale::Logarithmic(*unit);
                }
                _ => {}
            }
        }
    }
}

/// How an axis is divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AxisScale {
    /// From zero, or from the lowest where that is below.
    Linear(AxisUnit),
    Logarithmic(AxisUnit),
    /// Quantiles by their nines, −log10(1 − q).
    Nines,
    /// One step each, from zero.
    Steps(Vec<String>),
    /// Moments, in seconds since 1970 in UTC.
    Time,
}

impl AxisScale {
    /// The quantity, for the axis's title. The labels of the marks have the units.
    pub fn title(&self) -> String {
        match self {
            Self::Linear(unit) => unit.quantity().to_owned(),
            Self::Logarithmic(unit) if unit.quantity().is_empty() => String::new(),
            Self::Logarithmic(unit) => format!("{} (log scale)", unit.quantity()),
            Self::Nines => "percentile".to_owned(),
            Self::Steps(_) => String::new(),
            Self::Time => "time (UTC)".to_owned(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisUnit {
    Bytes,
    Number,
    /// Also before a moment, below zero.
    Milliseconds,
    Seconds,
    /// Nanoseconds.
    Latency,
    /// Bytes per second.
    Bandwidth,
    /// Per second.
    Rate,
}

impl AxisUnit {
    pub const fn linear(self) -> AxisScale {
        AxisScale::Linear(self)
    }

    pub const fn logarithmic(self) -> AxisScale {
        AxisScale::Logarithmic(self)
    }

    /// Empty for a number, which may count anything.
    const fn quantity(self) -> &'static str {
        match self {
            Self::Bytes => "size",
            Self::Number => "",
            Self::Milliseconds => "time from the cut",
            Self::Seconds => "time from the start",
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Rate => "operations per second",
        }
    }

    pub fn label(self, value: f64) -> String {
        match self {
            Self::Bytes => size(value),
            Self::Number => decimal(value),
            Self::Milliseconds => format!("{} ms", decimal(value)),
            Self::Seconds => format!("{} s", decimal(value)),
            Self::Latency => mean_latency(value),
            Self::Bandwidth => bandwidth(value),
            Self::Rate => format!("{}/s", rate_bare(value)),
        }
    }
}

/// Figures of one meaning.
#[derive(Debug)]
pub struct ChartSeries {
    /// For the legend; empty where another series with its colour has a name.
    pub name: String,
    pub colour: Colour,
    pub style: Style,
    /// A value that is not a number is a gap.
    pub points: Vec<(f64, f64)>,
    /// The labels next to the points, as far as there is room; as many as points, or empty.
    pub labels: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Line,
    /// A broken line, which differs from another without its colour.
    Dashes,
    Dots,
    Crosses,
    Rings,
    /// Columns from zero up.
    Columns,
    /// From the first to the second coordinate of each point, over the whole height.
    Spans,
    /// A rectangle between two corners.
    Area,
    /// A line over the whole height at each point.
    Upright,
    /// A line over the whole width at each point.
    Across,
    /// An upright bar from each point with an even place to the next: where a value is expected.
    Ranges,
}

impl Style {
    /// Whether the points follow each other, so that a terminal can show them in one line.
    pub const fn is_sequence(self) -> bool {
        matches!(self, Self::Line | Self::Dashes | Self::Columns)
    }
}

impl ChartSeries {
    pub fn new(
        name: impl Into<String>,
        colour: Colour,
        style: Style,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let (name, points) = (name.into(), points.into_iter().collect());
        Self { name, colour, style, points, labels: Vec::new() }
    }

    /// Dots for the measured values, and a line for the fit; without one the dots are joined.
    pub fn measured(
        name: impl Into<String>,
        colour: Colour,
        points: Vec<(f64, f64)>,
        line: Vec<(f64, f64)>,
    ) -> [Self; 2] {
        // A fit and the path through the dots together would hide the measured values.
        let line = if line.is_empty() { points.clone() } else { line };
        [Self::new(name, colour, Style::Line, line), Self::new("", colour, Style::Dots, points)]
    }
}

/// Groups of bars below each other.
#[derive(Debug)]
pub struct Bars {
    pub groups: Vec<BarGroup>,
    pub legend: Vec<(String, Colour)>,
    /// Whether each group has a separate scale.
    pub is_scaled_by_group: bool,
}

#[derive(Debug)]
pub struct BarGroup {
    pub title: String,
    pub bars: Vec<Bar>,
}

impl BarGroup {
    pub fn new(title: impl Into<String>, bars: impl IntoIterator<Item = Bar>) -> Self {
        Self { title: title.into(), bars: bars.into_iter().collect() }
    }
}

/// Spans on one line.
#[derive(Debug)]
pub struct Bar {
    pub name: String,
    /// From, to, in either direction, in the unit of the chart.
    pub spans: Vec<(f64, f64, Colour)>,
    /// The estimate, where a span is its interval.
    pub point: Option<f64>,
    /// Stands behind the last span.
    pub text: String,
}

impl Bar {
    /// A bar from zero.
    pub fn new(name: impl Into<String>, value: f64, colour: Colour, text: String) -> Self {
        Self { name: name.into(), spans: vec![(0.0, value, colour)], point: None, text }
    }
}

/// A cell for each pair of levels.
#[derive(Debug)]
pub struct Map {
    /// Labels from left to right.
    pub x: Vec<String>,
    /// Labels from top to bottom.
    pub y: Vec<String>,
    pub cells: Vec<ChartMapCell>,
}

#[derive(Debug)]
pub struct ChartMapCell {
    pub x: usize,
    pub y: usize,
    /// The higher, the darker the cell.
    pub value: Option<f64>,
    pub text: String,
    /// What else there is room for in a table.
    pub beside: String,
}

/// What fills an area, piece by piece, in lines as a text has them.
#[derive(Debug)]
pub struct TileArea {
    pub kinds: Vec<TileKind>,
    /// Labels, and the kind of each piece by its place in the list.
    pub areas: Vec<(String, Vec<usize>)>,
}

#[derive(Debug)]
pub struct TileKind {
    /// The sign without pictures.
    pub letter: char,
    pub name: String,
    pub colour: Colour,
    /// The share of its place that it fills, so that colours are not the only sign.
    pub fill: f64,
}

/// A cell for each of many things, in rows with labels.
#[derive(Debug)]
pub struct HostGrid {
    /// What the letters stand for, each beginning with its letter, and their colours.
    pub letters: Vec<(String, Colour)>,
    /// Labels, and the cells of each in as many lines as they need.
    pub rows: Vec<(String, Vec<GridCell>)>,
}

#[derive(Debug)]
pub struct GridCell {
    pub letter: usize,
    /// The higher, the darker: 0 to 1.
    pub shade: f64,
    /// What a pointer finds.
    pub title: String,
}

impl TileArea {
    /// Lines of at most `most` pieces; the first of an area has its label.
    pub fn lines(&self, most: usize) -> Vec<(&str, &[usize])> {
        let mut lines = Vec::new();
        for (label, tiles) in &self.areas {
            for (at, line) in tiles.chunks(most.max(1)).enumerate() {
                lines.push((if at == 0 { label.as_str() } else { "" }, line));
            }
        }
        lines
    }
}

impl Chart {
    fn new(title: impl Into<String>, drawing: Drawing) -> Self {
        Self { title: title.into(), across: String::new(), level: DetailLevel::Detail, drawing }
    }

    pub fn plot(
        title: impl Into<String>,
        x: AxisScale,
        y: AxisScale,
        series: Vec<ChartSeries>,
    ) -> Self {
        Self::panels(title, vec![Panel { x, y, series }])
    }

    pub fn panels(title: impl Into<String>, mut panels: Vec<Panel>) -> Self {
        panels.iter_mut().for_each(Panel::spread);
        Self::new(title, Drawing::Plot(panels))
    }

    pub fn map(title: impl Into<String>, map: Map) -> Self {
        Self::new(title, Drawing::Map(map))
    }

    pub fn tiles(title: impl Into<String>, tiles: TileArea) -> Self {
        Self::new(title, Drawing::Tiles(tiles))
    }

    pub fn grid(title: impl Into<String>, grid: HostGrid) -> Self {
        Self::new(title, Drawing::Grid(grid))
    }

    pub fn lanes(title: impl Into<String>, lanes: LaneChart) -> Self {
        Self::new(title, Drawing::Lanes(lanes))
    }

    pub fn bars<L: Into<String>>(
        title: impl Into<String>,
        groups: Vec<BarGroup>,
        legend: impl IntoIterator<Item = (L, Colour)>,
    ) -> Self {
        let legend = legend.into_iter().map(|(name, colour)| (name.into(), colour)).collect();
        Self::new(title, Drawing::Bars(Bars { groups, legend, is_scaled_by_group: false }))
    }

    /// Names what the horizontal axis counts.
    pub fn across(mut self, what: impl Into<String>) -> Self {
        self.across = what.into();
        self
    }

    pub fn in_summary(mut self) -> Self {
        self.level = DetailLevel::Summary;
        self
    }

    pub fn scaled_by_group(mut self) -> Self {
        if let Drawing::Bars(bars) = &mut self.drawing {
            bars.is_scaled_by_group = true;
        }
        self
    }

    /// Names and colours, each name once, lines first.
    pub fn legend(&self) -> Vec<(&str, Colour)> {
        let mut legend: Vec<(&str, Colour)> = Vec::new();
        match &self.drawing {
            Drawing::Plot(panels) => {
                let named = || {
                    let series = panels.iter().flat_map(|panel| &panel.series);
                    series.filter(|series| !series.name.is_empty() && !series.points.is_empty())
                };
                // Spans and marks that lie behind would else begin the legend.
                for it in named().filter(|series| series.style.is_sequence()).chain(named()) {
                    if legend.iter().all(|(name, _)| *name != it.name) {
                        legend.push((&it.name, it.colour));
                    }
                }
            }
            Drawing::Bars(bars) => {
                legend.extend(bars.legend.iter().map(|(name, colour)| (name.as_str(), *colour)));
            }
            Drawing::Tiles(tiles) => {
                legend.extend(tiles.kinds.iter().map(|kind| (kind.name.as_str(), kind.colour)));
            }
            Drawing::Grid(grid) => {
                legend.extend(grid.letters.iter().map(|(name, colour)| (name.as_str(), *colour)));
            }
            Drawing::Lanes(lanes) => {
                legend.extend(lanes.kinds.iter().map(|kind| (kind.name.as_str(), kind.colour)));
            }
            Drawing::Map(_) => {}
        }
        legend
    }

    /// Whether the series of this name is a broken line.
    pub fn is_dashed(&self, name: &str) -> bool {
        let Drawing::Plot(panels) = &self.drawing else { return false };
        let mut series = panels.iter().flat_map(|panel| &panel.series);
        series.any(|series| series.name == name && series.style == Style::Dashes)
    }

    /// Whether pieces of this name are drawn thinner than others.
    pub fn is_thin(&self, name: &str) -> bool {
        let Drawing::Lanes(lanes) = &self.drawing else { return false };
        lanes.kinds.iter().any(|kind| kind.name == name && kind.is_thin)
    }

    /// False without a value.
    pub fn is_drawable(&self) -> bool {
        match &self.drawing {
            Drawing::Plot(panels) => {
                let series = panels.iter().flat_map(|panel| &panel.series);
                let points = series.flat_map(|series| &series.points);
                // A single point is not a curve.
                points.filter(|(x, y)| x.is_finite() && y.is_finite()).take(2).count() == 2
            }
            Drawing::Bars(bars) => {
                let bars = bars.groups.iter().flat_map(|group| &group.bars);
                let mut spans = bars.flat_map(|bar| &bar.spans);
                spans.any(|(from, to, _)| {
                    [*from, *to].iter().any(|end| end.is_finite() && *end > 0.0)
                })
            }
            Drawing::Map(map) => !map.cells.is_empty(),
            Drawing::Tiles(tiles) => tiles.areas.iter().any(|(_, tiles)| !tiles.is_empty()),
            Drawing::Grid(grid) => grid.rows.iter().any(|(_, cells)| !cells.is_empty()),
            Drawing::Lanes(lanes) => {
                lanes.end > 0 && lanes.lanes.iter().any(|(_, pieces)| !pieces.is_empty())
            }
        }
    }
}

/// Latencies over the nines of their quantiles, −log10(1 − q): at most `points_max` points.
pub fn tail(curve: &[CurvePoint], points_max: usize) -> Vec<(f64, f64)> {
    // Nine nines are as far as the axis goes; the maximum itself would lie at infinity.
    let nines = |quantile: f64| -(1.0 - quantile.clamp(0.0, 1.0 - 1e-9)).log10();
    let value = |at: usize| curve.get(at).map(|point| precise(point.latency_ns.max(1)).log10());
    let kept = kept(curve.len(), points_max, &[&value]);
    let kept = kept.into_iter().filter_map(|at| curve.get(at));
    kept.map(|point| (rounded(nines(point.quantile)), precise(point.latency_ns))).collect()
}

/// To a thousandth, which is finer than a chart.
pub fn rounded(value: f64) -> f64 {
    // The drawing is not finer, and every byte of a page is sent around.
    (value * 1000.0).round() / 1000.0
}

/// The indices to draw, in order: at most `points_max`, with the lowest and the highest value of
/// every series in each of equally many stretches.
///
/// A point without a value counts as lowest, because a gap must be seen.
pub fn kept(
    count: usize,
    points_max: usize,
    series: &[&dyn Fn(usize) -> Option<f64>],
) -> Vec<usize> {
    if count <= points_max {
        return (0..count).collect();
    }
    // Two points of each series per stretch: its lowest and its highest.
    let stretches = (points_max / (2 * series.len().max(1))).max(1);
    let mut kept = Vec::with_capacity(points_max);
    for stretch in 0..stretches {
        let indices = count * stretch / stretches..count * (stretch + 1) / stretches;
        for value in series {
            let value = |index: &usize| value(*index).unwrap_or(f64::NEG_INFINITY);
            kept.extend(indices.clone().min_by(|a, b| value(a).total_cmp(&value(b))));
            kept.extend(indices.clone().max_by(|a, b| value(a).total_cmp(&value(b))));
        }
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_are_all_kept() {
        assert_eq!(kept(3, 600, &[&|_| Some(1.0)]), [0, 1, 2]);
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn of_many_points_the_extremes_are_kept() {
        let saw = |index: usize| Some(if index == 777 { 1e9 } else { (index % 7) as f64 });
        let gap = |index: usize| (index != 1234).then_some(5.0);
        let kept = kept(3000, 600, &[&saw, &gap]);
        assert!(kept.len() <= 600 && kept.len() > 200, "{}", kept.len());
        assert!(kept.contains(&777) && kept.contains(&1234));
        assert!(kept.is_sorted());
    }

    #[test]
    fn a_legend_names_each_series_with_values_once_and_lines_first() {
        let series =
            |name: &str, colour, style| ChartSeries::new(name, colour, style, [(1.0, 2.0)]);
        let (x, y) = (AxisUnit::Seconds.linear(), AxisUnit::Rate.linear());
        let chart = Chart::plot(
            "over time",
            x,
            y,
            vec![
                series("stalls", Colour::Alarm, Style::Spans),
                series("reads", Colour::First, Style::Line),
                series("", Colour::First, Style::Dots),
                series("writes", Colour::Second, Style::Columns),
                series("reads", Colour::First, Style::Line),
                series("best", Colour::Ink, Style::Rings),
                ChartSeries::new("syncs", Colour::Third, Style::Line, []),
            ],
        );
        let expected = [
            ("reads", Colour::First),
            ("writes", Colour::Second),
            ("stalls", Colour::Alarm),
            ("best", Colour::Ink),
        ];
        assert_eq!(chart.legend(), expected);
    }
}
