//! Lines, points and columns between axes.

use super::axis::{PanelAxis, coordinate};
use super::{
    AxisValues, CHARACTER, FONT_SIZE, GRID, PanelFrame, PanelValues, SvgLine, SvgSheet, TextAnchor,
    WIDTH, count, hex, key,
};
use crate::document::chart::{AxisScale, AxisUnit, ChartSeries, Panel, Style};

const HEIGHT: f64 = 640.0;
/// The height of one of several panels.
const HEIGHT_SHARED: f64 = 330.0;
/// Room for labels, and on the right for half of the last.
const LEFT: f64 = 136.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 18.0;
const BELOW: f64 = 60.0;
// A span narrower than this would not be seen.
const SPAN_MIN: f64 = 4.0;
/// Opacity of areas behind lines.
const BEHIND: f64 = 0.25;

pub(super) fn draw(panels: &[Panel]) -> String {
    let mut sheet = SvgSheet::default();
    let last = panels.len().saturating_sub(1);
    for (at, panel) in panels.iter().enumerate() {
        let view = View::new(panels, at);
        view.grid(&mut sheet, at == last);
        panel.series.iter().for_each(|series| view.series(series, &mut sheet));
        let mut labels = PlotLabels::new(view.frame.across, view.frame.down);
        let labelled = || panel.series.iter().filter(|series| !series.labels.is_empty());
        labelled()
            .flat_map(|series| &series.points)
            .for_each(|point| labels.avoid(view.place(*point)));
        for it in labelled() {
            // From the last: where room is short the far end of a curve matters more than its
            // begin.
            for (point, text) in it.points.iter().zip(&it.labels).rev() {
                labels.put(&mut sheet, view.place(*point), text);
            }
        }
    }
    sheet.finish("", height_of(panels) * count(panels.len()))
}

/// The values of every panel; areas behind them, and lines across, are described elsewhere.
pub(super) fn values(panels: &[Panel]) -> Vec<PanelValues<'_>> {
    let of_panel = |at| {
        let View { panel, frame, .. } = View::new(panels, at);
        let shown = panel.series.iter().filter(|series| has_figures(panel, series));
        let lines = shown.map(|series| line(panel, series)).collect();
        PanelValues { frame, x: axis_values(&panel.x), y: axis_values(&panel.y), lines }
    };
    (0..panels.len()).map(of_panel).collect()
}

fn has_figures(panel: &Panel, series: &ChartSeries) -> bool {
    match series.style {
        // A fit, or the path through dots that carry the values.
        Style::Line => !panel.series.iter().any(|other| {
            other.style == Style::Dots && other.colour == series.colour && !other.points.is_empty()
        }),
        Style::Dots | Style::Columns | Style::Crosses | Style::Rings => true,
        Style::Spans | Style::Area | Style::Upright | Style::Across => false,
    }
}

fn line<'a>(panel: &'a Panel, series: &'a ChartSeries) -> SvgLine<'a> {
    let is_alike = |other: &&ChartSeries| other.colour == series.colour && !other.name.is_empty();
    let name = match series.name.as_str() {
        "" => panel.series.iter().find(is_alike).map_or("", |alike| &alike.name),
        name => name,
    };
    let is_drawn = |(x, y): &&(f64, f64)| {
        coordinate(&panel.x, *x).is_finite() && coordinate(&panel.y, *y).is_finite()
    };
    let points = series.points.iter().filter(is_drawn).map(|(x, y)| (brief(*x), brief(*y)));
    SvgLine { name, key: key(series.colour), points: points.collect() }
}

/// To five digits: more than a tip shows, and a third of the bytes.
fn brief(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

fn axis_values(scale: &AxisScale) -> AxisValues<'_> {
    let unit = |unit: &AxisUnit| match unit {
        AxisUnit::Bytes => "bytes",
        AxisUnit::Number | AxisUnit::Milliseconds => "number",
        AxisUnit::Seconds => "seconds",
        AxisUnit::Latency => "latency",
        AxisUnit::Bandwidth => "bandwidth",
        AxisUnit::Rate => "rate",
    };
    match scale {
        AxisScale::Linear(it) => AxisValues { unit: unit(it), log: false, steps: &[] },
        AxisScale::Logarithmic(it) => AxisValues { unit: unit(it), log: true, steps: &[] },
        AxisScale::Nines => AxisValues { unit: "nines", log: false, steps: &[] },
        AxisScale::Steps(steps) => AxisValues { unit: "number", log: false, steps },
    }
}

fn height_of(panels: &[Panel]) -> f64 {
    if panels.len() == 1 { HEIGHT } else { HEIGHT_SHARED }
}

/// A panel's axes and where they lie.
struct View<'a> {
    panel: &'a Panel,
    x: PanelAxis,
    y: PanelAxis,
    frame: PanelFrame,
}

impl<'a> View<'a> {
    fn new(panels: &'a [Panel], at: usize) -> Self {
        let panel = &panels[at];
        let top = height_of(panels) * count(at);
        let all = panels.iter().flat_map(|panel| &panel.series);
        // All panels have the same axis across, so that a stall is seen in each at the same place.
        let x = PanelAxis::new(
            &panel.x,
            all.filter(|series| series.style != Style::Across).flat_map(xs),
        );
        let y = PanelAxis::new(&panel.y, panel.series.iter().flat_map(ys));
        let frame = PanelFrame {
            across: (LEFT, WIDTH - RIGHT),
            down: (top + TOP, top + height_of(panels) - BELOW),
            x: (x.low, x.high),
            y: (y.low, y.high),
        };
        Self { panel, x, y, frame }
    }

    fn across(&self, coordinate: f64) -> f64 {
        let (left, right) = self.frame.across;
        left + (coordinate - self.x.low) / (self.x.high - self.x.low) * (right - left)
    }

    fn down(&self, coordinate: f64) -> f64 {
        let (top, bottom) = self.frame.down;
        let share = (coordinate - self.y.low) / (self.y.high - self.y.low);
        bottom - share.clamp(0.0, 1.0) * (bottom - top)
    }

    /// A point on the sheet; NaN where the point has no place.
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.across(coordinate(&self.panel.x, x)), self.down(coordinate(&self.panel.y, y)))
    }

    fn grid(&self, sheet: &mut SvgSheet, is_labelled: bool) {
        let (left, right) = self.frame.across;
        let (top, bottom) = self.frame.down;
        for (at, label) in &self.y.marks {
            let y = self.down(*at);
            sheet.polyline(&[(left, y), (right, y)], GRID, 2.0);
            sheet.text((left - 14.0, y), TextAnchor::Right, FONT_SIZE, label);
        }
        for (at, label) in &self.x.marks {
            let x = self.across(*at);
            sheet.polyline(&[(x, top), (x, bottom)], GRID, 2.0);
            if is_labelled {
                sheet.text((x, bottom + 34.0), TextAnchor::Middle, FONT_SIZE, label);
            }
        }
        sheet.polyline(&[(left, top), (left, bottom), (right, bottom)], GRID, 2.0);
    }

    fn series(&self, it: &ChartSeries, sheet: &mut SvgSheet) {
        let colour = hex(it.colour);
        let (left, right) = self.frame.across;
        let (top, bottom) = self.frame.down;
        let places: Vec<(f64, f64)> = it.points.iter().map(|point| self.place(*point)).collect();
        let is_drawn = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        let drawn = || places.iter().copied().filter(is_drawn);
        match it.style {
            // A gap where a point has no value: a line across it would look measured.
            Style::Line => {
                let parts = places.split(|place| !is_drawn(place)).filter(|part| !part.is_empty());
                parts.for_each(|part| sheet.polyline(part, colour, 3.0));
            }
            Style::Dots => drawn().for_each(|at| sheet.dot(at, 7.0, colour)),
            Style::Crosses => drawn().for_each(|at| sheet.cross(at, colour)),
            Style::Rings => drawn().for_each(|at| sheet.ring(at, 17.0, colour)),
            Style::Columns => {
                let half = 0.32 * (self.across(spacing(it)) - self.across(0.0));
                drawn().filter(|(_, y)| *y < bottom).for_each(|(x, y)| {
                    sheet.rect((x - half, y), (x + half, bottom), (colour, 1.0));
                });
            }
            Style::Spans => {
                for (from, to) in &it.points {
                    let from = self.across(*from).clamp(left, right);
                    let to = self.across(*to).clamp(from, right).max(from + SPAN_MIN);
                    sheet.rect((from, top), (to, bottom), (colour, BEHIND));
                }
            }
            Style::Area => {
                if let [(x1, y1), (x2, y2)] = places[..] {
                    let corners = ((x1.min(x2), y1.min(y2)), (x1.max(x2), y1.max(y2)));
                    sheet.rect(corners.0, corners.1, (colour, BEHIND));
                }
            }
            Style::Upright => {
                drawn().for_each(|(x, _)| sheet.polyline(&[(x, top), (x, bottom)], colour, 4.0));
            }
            Style::Across => {
                let levels = places.iter().map(|(_, y)| *y).filter(|y| y.is_finite());
                levels.for_each(|y| sheet.polyline(&[(left, y), (right, y)], colour, 3.0));
            }
        }
    }
}

/// How far apart columns are: a step, or less where they are closer.
fn spacing(series: &ChartSeries) -> f64 {
    let pairs = series.points.windows(2).map(|pair| (pair[1].0 - pair[0].0).abs());
    pairs.filter(|gap| *gap > 0.0).fold(1.0, f64::min)
}

/// What must fit from left to right.
fn xs(series: &ChartSeries) -> Vec<f64> {
    match series.style {
        // A span may end beyond the axis, which cuts it.
        Style::Spans => series.points.iter().map(|(from, _)| *from).collect(),
        _ => series.points.iter().map(|(x, _)| *x).collect(),
    }
}

/// What must fit from bottom to top.
fn ys(series: &ChartSeries) -> Vec<f64> {
    match series.style {
        // These go over the whole height, whatever it is.
        Style::Spans | Style::Upright => Vec::new(),
        _ => series.points.iter().map(|(_, y)| *y).collect(),
    }
}

/// The height of a line of text.
const LINE: f64 = FONT_SIZE + 2.0;

/// How far a label is from its point.
const GAP: f64 = 20.0;

/// A taken area of the sheet: left, top, right, bottom.
type SheetArea = (f64, f64, f64, f64);

/// Labels next to points, where they do not cover each other. Labels without room are left out:
/// every value is in the table next to the chart.
struct PlotLabels {
    within: SheetArea,
    taken: Vec<SheetArea>,
}

impl PlotLabels {
    /// For a panel that lies within this.
    fn new(across: (f64, f64), down: (f64, f64)) -> Self {
        // Right of the panel there is room for half of the axis's last label (`RIGHT`).
        Self { within: (across.0, down.0, across.1 + 50.0, down.1), taken: Vec::new() }
    }

    /// Keeps labels away from a point.
    fn avoid(&mut self, (x, y): (f64, f64)) {
        self.taken.push((x - 8.0, y - 8.0, x + 8.0, y + 8.0));
    }

    /// Draws a label above, left, right or below of the point, wherever there is room.
    fn put(&mut self, sheet: &mut SvgSheet, (x, y): (f64, f64), text: &str) {
        let width = count(text.chars().count()) * CHARACTER;
        let half = width / 2.0;
        let boxes = [
            ((x - half, y - GAP - LINE), (x, y - GAP - LINE / 2.0), TextAnchor::Middle),
            ((x - GAP - width, y - LINE / 2.0), (x - GAP, y), TextAnchor::Right),
            ((x + GAP, y - LINE / 2.0), (x + GAP, y), TextAnchor::Left),
            ((x - half, y + GAP), (x, y + GAP + LINE / 2.0), TextAnchor::Middle),
        ];
        for ((left, top), anchor, side) in boxes {
            let place = (left, top, left + width, top + LINE);
            if self.is_free(place) {
                self.taken.push(place);
                return sheet.text(anchor, side, FONT_SIZE, text);
            }
        }
    }

    fn is_free(&self, place: SheetArea) -> bool {
        let apart = |other: &SheetArea| {
            place.2 <= other.0 || other.2 <= place.0 || place.3 <= other.1 || other.3 <= place.1
        };
        let (left, top, right, bottom) = self.within;
        let is_within = place.0 >= left && place.1 >= top && place.2 <= right && place.3 <= bottom;
        is_within && self.taken.iter().all(apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::chart::Colour;

    fn panel(style: Style, points: Vec<(f64, f64)>) -> Panel {
        let (x, y) =
            (AxisScale::Logarithmic(AxisUnit::Number), AxisScale::Logarithmic(AxisUnit::Bandwidth));
        Panel { x, y, series: vec![ChartSeries::new("s", Colour::First, style, points)] }
    }

    #[test]
    fn figures_that_are_none_are_gaps() {
        let odd = [(1.0, 0.0), (f64::NAN, 1.0), (2.0, f64::INFINITY), (4.0, 2.0), (8.0, 3.0)];
        for style in [Style::Line, Style::Dots, Style::Columns, Style::Across, Style::Upright] {
            let svg = draw(&[panel(style, odd.into())]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{style:?}: {svg}");
        }
        let line = vec![(1.0, 1.0), (2.0, 2.0), (3.0, f64::NAN), (4.0, 2.0), (5.0, 1.0)];
        let svg = draw(&[panel(Style::Line, line)]);
        assert_eq!(svg.matches("stroke=\"#2563EB\"").count(), 2, "{svg}");
    }

    #[test]
    fn columns_closer_than_a_step_are_as_narrow_as_their_gap_and_stand_on_the_axis() {
        let points = [(10.0, 5.0), (10.5, 2.5), (12.0, 4.0)];
        let series = vec![ChartSeries::new("s", Colour::First, Style::Columns, points)];
        let (x, y) = (AxisUnit::Number.linear(), AxisUnit::Number.linear());
        let svg = draw(&[Panel { x, y, series }]);
        let columns: Vec<&str> = svg.split("<rect").skip(1).collect();
        let expected = [
            " x=\"850.8\" y=\"49.8\" width=\"23.2\" height=\"530.2\" fill=\"#2563EB\"/>",
            " x=\"887.1\" y=\"314.9\" width=\"23.2\" height=\"265.1\" fill=\"#2563EB\"/>",
            " x=\"996.1\" y=\"155.8\" width=\"23.2\" height=\"424.2\" fill=\"#2563EB\"/></svg>",
        ];
        assert_eq!(columns, expected);
    }

    #[test]
    fn panels_share_what_is_across() {
        let upper = panel(Style::Dots, vec![(1.0, 1.0), (8.0, 2.0)]);
        let lower = panel(Style::Dots, vec![(2.0, 1.0), (64.0, 2.0)]);
        let panels = [upper, lower];
        assert_eq!(View::new(&panels, 0).frame.x, View::new(&panels, 1).frame.x);
    }
}
