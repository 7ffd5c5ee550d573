//! Lines, points and columns between axes.

use super::axis::{PanelAxis, coordinate};
use super::labels::{LabelArea, LetterSize, PlotLabels};
use super::{
    AxisValues, ChartSpan, GRID, PanelFrame, PanelValues, SvgLine, SvgSheet, TextAnchor, WIDTH,
    count, hex, key,
};
use crate::document::chart::{AxisScale, AxisUnit, ChartSeries, Panel, Style};

/// The height between the axes: of one panel, by its width on the page, and of one of several.
const INNER: f64 = 470.0;
const INNER_FULL: f64 = 380.0;
const INNER_SHARED: f64 = 240.0;
/// Room for labels at the right end of the axis.
const RIGHT: f64 = 60.0;
/// Room above a panel for the title of its vertical axis.
const TOP: f64 = 62.0;
/// Room for labels and title of the horizontal axis.
const BELOW: f64 = 120.0;
/// Room below a panel whose horizontal axis is labelled at the last of several.
const BETWEEN: f64 = 14.0;
// A span narrower than this would not be seen.
const SPAN_MIN: f64 = 4.0;
/// An expected range; the dot in it is wider.
const RANGE_WIDTH: f64 = 8.0;
/// Long enough to be seen where a sheet is 320 px wide.
const DASHES: &str = " stroke-dasharray=\"16 10\"";
/// Opacity of areas behind lines.
const BEHIND: f64 = 0.25;

/// Panels below each other; `across` names what the horizontal axis counts.
pub(super) fn draw(panels: &[Panel], across: &str, span: ChartSpan) -> String {
    let mut sheet = SvgSheet::default();
    let views: Vec<View<'_>> = (0..panels.len()).map(|at| View::new(panels, at, span)).collect();
    for view in &views {
        view.grid(&mut sheet);
        view.panel.series.iter().for_each(|series| view.series(series, &mut sheet));
    }
    // The page shows the letters that suit its width.
    for size in LetterSize::of(span) {
        sheet.begin_letters(&size);
        for (at, view) in views.iter().enumerate() {
            view.labels(&mut sheet, &size, (at + 1 == views.len()).then_some(across));
        }
        sheet.end_letters();
    }
    let height = views.last().map_or(0.0, |view| view.frame.down.1 + BELOW);
    sheet.finish("", height)
}

/// The values of every panel; areas behind them, and lines across, are described elsewhere.
pub(super) fn values(panels: &[Panel], span: ChartSpan) -> Vec<PanelValues<'_>> {
    let of_panel = |at| {
        let View { panel, frame, .. } = View::new(panels, at, span);
        let shown = panel.series.iter().filter(|series| has_figures(panel, series));
        let lines = shown.map(|series| line(panel, series)).collect();
        PanelValues { frame, x: axis_values(&panel.x), y: axis_values(&panel.y), lines }
    };
    (0..panels.len()).map(of_panel).collect()
}

fn has_figures(panel: &Panel, series: &ChartSeries) -> bool {
    match series.style {
        // A fit, or the path through dots that carry the values.
        Style::Line | Style::Dashes => !panel.series.iter().any(|other| {
            other.style == Style::Dots && other.colour == series.colour && !other.points.is_empty()
        }),
        // Marks on a line that has the values, in a colour that the legend does not have.
        Style::Dots | Style::Columns | Style::Crosses | Style::Rings => {
            let is_named = |other: &ChartSeries| !other.name.is_empty();
            panel.series.iter().any(|other| other.colour == series.colour && is_named(other))
        }
        Style::Spans | Style::Area | Style::Upright | Style::Across | Style::Ranges => false,
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
    // Five digits of seconds since 1970 would be a day.
    let is_time = panel.x == AxisScale::Time;
    let across = |x: f64| if is_time { x.round() } else { brief(x) };
    let points = series.points.iter().filter(is_drawn).map(|(x, y)| (across(*x), brief(*y)));
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
        AxisScale::Time => AxisValues { unit: "time", log: false, steps: &[] },
    }
}

/// A panel's axes and where they lie.
struct View<'a> {
    panel: &'a Panel,
    x: PanelAxis,
    y: PanelAxis,
    frame: PanelFrame,
}

impl<'a> View<'a> {
    fn new(panels: &'a [Panel], at: usize, span: ChartSpan) -> Self {
        let panel = &panels[at];
        let inner = match (panels.len(), span) {
            (1, ChartSpan::Half) => INNER,
            (1, ChartSpan::Full) => INNER_FULL,
            _ => INNER_SHARED,
        };
        let top = TOP + (TOP + inner + BETWEEN) * count(at);
        let all = || panels.iter().flat_map(|panel| &panel.series);
        // All panels have the same axis across, so that a stall is seen in each at the same place.
        let x = PanelAxis::new(
            &panel.x,
            all().filter(|series| series.style != Style::Across).flat_map(xs),
        );
        let axis = |panel: &Panel| PanelAxis::new(&panel.y, panel.series.iter().flat_map(ys));
        let marks = panels.iter().flat_map(|panel| axis(panel).marks);
        let left = LetterSize::left_of_marks(marks.map(|(_, label)| label));
        let y = axis(panel);
        let frame = PanelFrame {
            across: (left, WIDTH - RIGHT),
            down: (top, top + inner),
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

    fn grid(&self, sheet: &mut SvgSheet) {
        let (left, right) = self.frame.across;
        let (top, bottom) = self.frame.down;
        for (at, _) in &self.y.marks {
            let y = self.down(*at);
            sheet.polyline(&[(left, y), (right, y)], GRID, 2.0);
        }
        for (at, _) in &self.x.marks {
            let x = self.across(*at);
            sheet.polyline(&[(x, top), (x, bottom)], GRID, 2.0);
        }
        sheet.polyline(&[(left, top), (left, bottom), (right, bottom)], GRID, 2.0);
    }

    /// Titles and marks of the axes, and the labels of points, in letters of one size; the horizontal
    /// axis has them at the last panel.
    fn labels(&self, sheet: &mut SvgSheet, size: &LetterSize, across: Option<&str>) {
        let (left, right) = self.frame.across;
        let (top, bottom) = self.frame.down;
        let line = size.line();
        size.title(sheet, (left, top - line * 0.75), TextAnchor::Left, &self.panel.y.title());
        let mut taken = LabelArea::default();
        for (at, label) in &self.y.marks {
            taken.put(sheet, size, (left - 14.0, self.down(*at)), TextAnchor::Right, label);
        }
        if let Some(across) = across {
            for (at, label) in &self.x.marks {
                let place = size.within_sheet(self.across(*at), label);
                taken.put(sheet, size, (place, bottom + line * 1.05), TextAnchor::Middle, label);
            }
            let title = if across.is_empty() { self.panel.x.title() } else { across.to_owned() };
            size.title(sheet, (right, bottom + line * 2.1), TextAnchor::Right, &title);
        }
        let mut points = PlotLabels::new(size, self.frame.across, self.frame.down);
        let labelled = || self.panel.series.iter().filter(|series| !series.labels.is_empty());
        labelled()
            .flat_map(|series| &series.points)
            .for_each(|point| points.avoid(self.place(*point)));
        for it in labelled() {
            // From the last: where room is short the far end of a curve matters more than its
            // begin.
            for (point, text) in it.points.iter().zip(&it.labels).rev() {
                points.put(sheet, self.place(*point), text);
            }
        }
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
            Style::Line | Style::Dashes => {
                let dashes = if it.style == Style::Dashes { DASHES } else { "" };
                let parts = places.split(|place| !is_drawn(place)).filter(|part| !part.is_empty());
                parts.for_each(|part| sheet.polyline_of(dashes, part, colour, 3.0));
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
                    let (high, low) = (y1.min(y2), y1.max(y2));
                    let corners = ((x1.min(x2), high), (x1.max(x2), low.max(high + SPAN_MIN)));
                    sheet.rect(corners.0, corners.1, (colour, BEHIND));
                }
            }
            Style::Ranges => {
                let whole = places.chunks_exact(2).filter(|ends| ends.iter().all(is_drawn));
                whole.for_each(|ends| sheet.polyline(ends, colour, RANGE_WIDTH));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::chart::Colour;

    fn panel(style: Style, points: Vec<(f64, f64)>) -> Panel {
        let (x, y) =
            (AxisScale::Logarithmic(AxisUnit::Number), AxisScale::Logarithmic(AxisUnit::Bandwidth));
        Panel { x, y, series: vec![ChartSeries::new("s", Colour::First, style, points)] }
    }

    fn drawn(panels: &[Panel]) -> String {
        draw(panels, "", ChartSpan::Half)
    }

    #[test]
    fn figures_that_are_none_are_gaps() {
        let odd = [(1.0, 0.0), (f64::NAN, 1.0), (2.0, f64::INFINITY), (4.0, 2.0), (8.0, 3.0)];
        for style in [Style::Line, Style::Dots, Style::Columns, Style::Across, Style::Upright] {
            let svg = drawn(&[panel(style, odd.into())]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{style:?}: {svg}");
        }
        let line = vec![(1.0, 1.0), (2.0, 2.0), (3.0, f64::NAN), (4.0, 2.0), (5.0, 1.0)];
        let svg = drawn(&[panel(Style::Line, line)]);
        assert_eq!(svg.matches("stroke=\"#2563EB\"").count(), 2, "{svg}");
    }

    #[test]
    fn columns_closer_than_a_step_are_as_narrow_as_their_gap_and_stand_on_the_axis() {
        let points = [(10.0, 5.0), (10.5, 2.5), (12.0, 4.0)];
        let series = vec![ChartSeries::new("s", Colour::First, Style::Columns, points)];
        let (x, y) = (AxisUnit::Number.linear(), AxisUnit::Number.linear());
        let svg = drawn(&[Panel { x, y, series }]);
        let (marks, _) = svg.split_once("<g class").unwrap();
        let columns: Vec<&str> = marks.split("<rect").skip(1).collect();
        let expected = [
            " x=\"844.9\" y=\"88.6\" width=\"23.9\" height=\"443.4\" fill=\"#2563EB\"/>",
            " x=\"882.2\" y=\"310.3\" width=\"23.9\" height=\"221.7\" fill=\"#2563EB\"/>",
            " x=\"994.3\" y=\"177.3\" width=\"23.9\" height=\"354.7\" fill=\"#2563EB\"/>",
        ];
        assert_eq!(columns, expected);
    }

    #[test]
    fn panels_share_what_is_across() {
        let upper = panel(Style::Dots, vec![(1.0, 1.0), (8.0, 2.0)]);
        let lower = panel(Style::Dots, vec![(2.0, 1.0), (64.0, 2.0)]);
        let panels = [upper, lower];
        let [first, last] = [0, 1].map(|at| View::new(&panels, at, ChartSpan::Half).frame);
        assert_eq!((first.x, first.across), (last.x, last.across));
        assert!(first.down.1 + TOP < last.down.0, "{first:?} {last:?}");
    }
}
