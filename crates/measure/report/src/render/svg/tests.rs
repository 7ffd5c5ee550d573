//! The labels of charts, at the letters of wide and of narrow pages: none covers another, none leaves the
//! sheet.

use super::{ChartSpan, WIDTH, draw, draw_tiles};
use crate::document::chart::{
    AxisScale, AxisUnit, Bar, BarGroup, Chart, ChartMapCell, ChartSeries, Colour, Map, Panel,
    Style, TileArea, TileKind,
};

/// Width of a character by the size of its letters, as DejaVu Sans has it in the mean.
const CHARACTER_EM: f64 = 0.6;
/// Height of a line's box, from the highest ascender to the lowest descender.
const LINE_EM: f64 = 1.17;
/// The style sheet's size for everything but plots on a narrow page.
const NARROW_SPANS: f64 = 38.0;

/// A label with its box: left, top, right, bottom.
type LabelBox = (String, [f64; 4]);

/// The labels that a page shows at once: of a plot one set, of other charts all, in larger letters on a
/// narrow page.
fn shown_at_once(svg: &str) -> Vec<Vec<LabelBox>> {
    match svg.split_once("<g class=\"at-narrow\">") {
        Some((wide, narrow)) => {
            assert!(wide.contains("<g class=\"at-wide\">"), "{svg}");
            vec![boxes(wide, None), boxes(narrow, None)]
        }
        None if svg.starts_with("<svg class=\"spans\"") => {
            vec![boxes(svg, None), boxes(svg, Some(NARROW_SPANS))]
        }
        None => vec![boxes(svg, None)],
    }
}

fn boxes(svg: &str, size: Option<f64>) -> Vec<LabelBox> {
    let label = |part: &str| {
        let (tag, rest) = part.split_once('>').unwrap();
        let text = rest.split("</text>").next().unwrap().to_owned();
        let value = |name: &str| {
            let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap();
            rest.split('"').next().unwrap().to_owned()
        };
        let number = |name: &str| value(name).parse::<f64>().unwrap();
        let size = size.unwrap_or_else(|| number("font-size"));
        let width = text.chars().map(|_| size * CHARACTER_EM).sum::<f64>();
        let left = match value("text-anchor").as_str() {
            "start" => number("x"),
            "middle" => number("x") - width / 2.0,
            _ => number("x") - width,
        };
        let half = size * LINE_EM / 2.0;
        (text, [left, number("y") - half, left + width, number("y") + half])
    };
    svg.split("<text").skip(1).map(label).collect()
}

/// Asserts on both widths of a page; gives the numbers of labels of each set.
#[track_caller]
fn assert_readable(chart: &Chart) -> Vec<usize> {
    let mut counts = Vec::new();
    for span in [ChartSpan::Half, ChartSpan::Full] {
        let svg = draw(chart, span);
        let (_, rest) = svg.split_once("viewBox=\"0 0 1120 ").unwrap();
        let height: f64 = rest.split('"').next().unwrap().parse().unwrap();
        for labels in shown_at_once(&svg) {
            counts.push(labels.len());
            for (at, (text, one)) in labels.iter().enumerate() {
                let is_within =
                    one[0] >= -1.0 && one[1] >= 0.0 && one[2] <= WIDTH + 1.0 && one[3] <= height;
                assert!(is_within, "{span:?} {text:?} {one:?} leaves the sheet: {svg}");
                for (other_text, other) in &labels[at + 1..] {
                    let is_apart = one[2] <= other[0]
                        || other[2] <= one[0]
                        || one[3] <= other[1]
                        || other[3] <= one[1];
                    assert!(is_apart, "{span:?} {text:?} covers {other_text:?}: {svg}");
                }
            }
        }
    }
    counts
}

fn line(points: Vec<(f64, f64)>) -> Vec<ChartSeries> {
    vec![ChartSeries::new("s", Colour::First, Style::Line, points)]
}

#[test]
fn percentiles_from_one_nine_to_nine_have_labels_that_are_apart() {
    for nines in [0.4, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0] {
        let points = vec![(0.0, 20_000.0), (nines, 3e6 * nines)];
        let y = AxisUnit::Latency.logarithmic();
        let counts = assert_readable(&Chart::plot("tail", AxisScale::Nines, y, line(points)));
        assert!(counts.iter().all(|count| *count >= 4), "{nines}: {counts:?}");
    }
    // The zero of the first nines and 50 % collided.
    let points = vec![(0.0, 100_000.0), (6.0, 4e6)];
    let y = AxisUnit::Latency.logarithmic();
    let svg = draw(&Chart::plot("tail", AxisScale::Nines, y, line(points)), ChartSpan::Half);
    let labels: Vec<String> = shown_at_once(&svg).remove(1).into_iter().map(|it| it.0).collect();
    assert!(labels.contains(&"0".to_owned()) && labels.contains(&"90 %".to_owned()), "{labels:?}");
    assert!(!labels.contains(&"50 %".to_owned()), "{labels:?}");
}

#[test]
fn axes_of_every_unit_and_magnitude_have_labels_that_are_apart() {
    let units = [
        AxisUnit::Bytes,
        AxisUnit::Number,
        AxisUnit::Milliseconds,
        AxisUnit::Seconds,
        AxisUnit::Latency,
        AxisUnit::Bandwidth,
        AxisUnit::Rate,
    ];
    for unit in units {
        for (low, high) in
            [(0.0, 0.0), (1.0, 2.0), (3.0, 1e4), (1e3, 1e6), (7e5, 3.3e9), (1e9, 1e12)]
        {
            for x in [unit.linear(), unit.logarithmic()] {
                for y in [unit.linear(), unit.logarithmic()] {
                    let points = vec![(low, low), (high, high)];
                    let chart = Chart::plot("units", x.clone(), y, line(points));
                    assert_readable(
                        &chart.across("clients, or whatever a long title of an axis counts"),
                    );
                }
            }
        }
    }
}

#[test]
fn moments_from_seconds_to_years_have_labels_that_are_apart() {
    let from = 1_795_964_852.0;
    for span in [0.0, 5.0, 62.0, 3_000.0, 40_000.0, 90_000.0, 1e6, 4e7, 3e9] {
        let points = vec![(from, 10_000.0), (from + span, 40_000.0)];
        let chart = Chart::plot("time", AxisScale::Time, AxisUnit::Latency.linear(), line(points));
        assert_readable(&chart);
    }
}

#[test]
fn steps_panels_and_labels_of_points_are_apart() {
    for count in [2_u32, 7, 10, 33] {
        let names = || (0..count).map(|at| format!("{} KiB", 1_u64 << (at % 21))).collect();
        let points = || (0..count).map(|at| (f64::from(at), 1000.0 * f64::from(at + 1)));
        let labels: Vec<String> = names();
        let mut series = line(points().collect());
        series[0].labels = labels;
        let panel = |y: AxisScale| Panel {
            x: AxisScale::Steps(names()),
            y,
            series: line(points().collect()),
        };
        let labelled = Panel { x: AxisScale::Steps(names()), y: AxisUnit::Rate.linear(), series };
        let panels = vec![labelled, panel(AxisUnit::Latency.logarithmic())];
        assert_readable(&Chart::panels("steps", panels).across("block size"));
    }
}

#[test]
fn bars_and_maps_have_texts_that_are_apart_and_stay_on_the_sheet() {
    for (name, text) in [
        ("fdatasync", "1.2 k/s"),
        ("md RAID10 n2 chunk 64 KiB bitmap internal near", "3.33 ms, 12 % of the operation's time"),
    ] {
        for value in [0.0, 1.0, 5.0] {
            let bars = (0..3).map(|_| Bar::new(name, value, Colour::First, text.to_owned()));
            let unnamed = (0..3).map(|_| Bar::new("", value, Colour::First, text.to_owned()));
            let groups = vec![BarGroup::new(name, bars), BarGroup::new("p99", unnamed)];
            assert_readable(&Chart::bars("bars", groups, [("b", Colour::First)]));
        }
    }
    for count in [1_usize, 4, 9, 20] {
        let labels =
            |unit: &str| (0..count).map(|at| format!("{} {unit}", 1 << (at % 11))).collect();
        let cells = (0..count).flat_map(|x| (0..count).map(move |y| (x, y)));
        let cell = |(x, y): (usize, usize)| {
            let value = Some(1e6);
            ChartMapCell { x, y, value, text: "1.25 ms".into(), beside: "800".into() }
        };
        let map = Map { x: labels("jobs"), y: labels("KiB"), cells: cells.map(cell).collect() };
        assert_readable(&Chart::map("map", map));
    }
}

#[test]
fn an_area_of_several_lines_has_its_label_at_the_first_alone() {
    let kind = |letter: char, colour: Colour, fill: f64| {
        let name = letter.to_string();
        TileKind { letter, name, colour, fill }
    };
    let tiles = TileArea {
        kinds: vec![kind('k', Colour::Third, 1.0), kind('w', Colour::Alarm, 0.5)],
        areas: vec![("journal".to_owned(), vec![0; 33]), ("data".to_owned(), vec![0, 1])],
    };
    let svg = draw_tiles(&tiles);
    assert!(svg.starts_with("<svg role=\"img\" viewBox=\"0 0 1120 136\">"), "{svg}");
    let texts: Vec<&str> = svg.split("<text").skip(1).collect();
    let expected = [
        " x=\"136\" y=\"32\" dy=\".35em\" text-anchor=\"end\" font-size=\"31\">journal</text>",
        " x=\"136\" y=\"112\" dy=\".35em\" text-anchor=\"end\" font-size=\"31\">data</text></svg>",
    ];
    assert_eq!(texts, expected);
    // The last of 32 pieces, the 33rd below the first, and the first of the other area.
    let whole = "M1080 17h30v30h-30zM150 53h30v30h-30zM150 97h30v30h-30z\"";
    assert!(svg.contains(whole), "{svg}");
    assert!(svg.contains(" d=\"M187.5 104.5h15v15h-15z\""), "{svg}");
}
