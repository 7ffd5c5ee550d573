//! The picture of a run's answer, which a page shows first: predicted commits by clients, the methods of a
//! study of durable writes, or the latency of the commit among typical ones.

use durio_analyse::prediction::{PredictionFindings, PredictionPoint};
use durio_analyse::{Distribution, Findings, Headline, PlacedClass, WorkloadFindings};
use durio_record::OperationName;

use super::durable::method_rates;
use super::figures::labelled_places;
use super::over_time::TAIL_POINTS_MAX;
use crate::document::chart::{AxisScale, AxisUnit, Chart, ChartSeries, Colour, Panel, Style, tail};
use crate::figures::{latency, precise};
use crate::typical::band_words;

/// More bands than this hide each other; those of the classes next to the commits are shown.
const BANDS_MAX: usize = 4;

/// Colours of bands, as far as no curve has them; marks on curves have another.
const BAND_COLOURS: [Colour; BANDS_MAX] =
    [Colour::Third, Colour::Second, Colour::Fourth, Colour::Shade];

pub(super) fn poster(findings: &Findings) -> Option<Chart> {
    if let Some(prediction) = &findings.prediction {
        return Some(by_clients(prediction)).filter(Chart::is_drawable);
    }
    let methods = findings.durable.as_ref().and_then(|durable| durable.methods.as_ref());
    match methods {
        Some(methods) => Some(method_rates(methods)),
        None => commit_curve(findings, findings.headline.as_ref()?),
    }
    .filter(Chart::is_drawable)
}

/// The headline's commit at one place.
struct CommitCurve<'f> {
    /// Empty if there is one place.
    label: String,
    colour: Colour,
    style: Style,
    service: &'f Distribution,
    points: Vec<(f64, f64)>,
}

/// The percentiles of the headline's commit at each place, with the bands of the classes that it is
/// compared with.
fn commit_curve(findings: &Findings, headline: &Headline) -> Option<Chart> {
    let curves = curves(findings, headline);
    if curves.is_empty() {
        return None;
    }
    let last = curves.iter().flat_map(|curve| &curve.points).map(|(nines, _)| *nines);
    let end = last.fold(1.0, f64::max);
    let is_it =
        |location: &str, name: &str| location == headline.location && name == headline.workload;
    let placement =
        findings.placements.iter().find(|placed| is_it(&placed.location, &placed.workload));
    let is_free = |colour: &Colour| curves.iter().all(|curve| curve.colour != *colour);
    let free: Vec<Colour> = BAND_COLOURS.into_iter().filter(is_free).collect();
    let bands = placement.map_or_else(Vec::new, |placed| {
        nearest(&placed.among, placed.commit_latency_ns_p50, free.len())
    });
    let mut series: Vec<ChartSeries> =
        bands.into_iter().zip(free).map(|(class, colour)| band(class, colour, end)).collect();
    let labels: Vec<&str> = curves.iter().map(|curve| curve.label.as_str()).collect();
    let mut title = format!("Durable commit by percentile{}", at_places(&labels));
    if placement.is_some() {
        title.push_str(", compared with typical storage");
    }
    for CommitCurve { label, colour, style, service, points } in curves {
        let name = format!("durable commit{}", at_places(&[&label]));
        let line = ChartSeries::new(name, colour, style, points);
        series.extend([line, marked(service, &label)]);
    }
    Some(Chart::plot(title, AxisScale::Nines, AxisUnit::Latency.logarithmic(), series))
}

/// ` at A and B`; empty for the only place.
fn at_places(labels: &[&str]) -> String {
    match labels {
        [] | [""] => String::new(),
        labels => format!(" at {}", labels.join(" and ")),
    }
}

/// As many places as there are colours.
fn curves<'f>(findings: &'f Findings, headline: &Headline) -> Vec<CommitCurve<'f>> {
    let mut places = labelled_places(findings);
    if places.is_empty() {
        places.push((String::new(), headline.location.clone()));
    }
    let measured = places.into_iter().filter_map(|(label, place)| {
        let is_it = |workload: &&WorkloadFindings| {
            workload.name == headline.workload && workload.location == place
        };
        let workload = findings.workloads.iter().find(is_it)?;
        let commit = workload.operation(OperationName::Commit)?;
        let points = tail(&commit.curve, TAIL_POINTS_MAX);
        // One latency is a point, not a shape.
        (points.len() > 1).then_some((label, &commit.service, points))
    });
    // Neighbours differ in more than their colours; where more than two cross, their labels tell.
    let styles = [Style::Line, Style::Dashes].into_iter().cycle();
    let drawn = measured.zip(Colour::SERIES).zip(styles);
    let curve = |(((label, service, points), colour), style)| CommitCurve {
        label,
        colour,
        style,
        service,
        points,
    };
    drawn.map(curve).collect()
}

/// The classes whose bands are nearest, in the order of latency.
fn nearest(among: &[PlacedClass], p50: u64, bands_max: usize) -> Vec<&PlacedClass> {
    let distance = |class: &PlacedClass| {
        let [low, high, own] = [class.latency_ns_min, class.latency_ns_max, p50]
            .map(|nanos| precise(nanos.max(1)).ln());
        (low - own).max(own - high).max(0.0)
    };
    let mut classes: Vec<&PlacedClass> = among.iter().collect();
    classes.sort_by(|one, other| distance(one).total_cmp(&distance(other)));
    classes.truncate(bands_max);
    classes.sort_by_key(|class| (class.latency_ns_min, class.latency_ns_max));
    classes
}

fn band(class: &PlacedClass, colour: Colour, end: f64) -> ChartSeries {
    let name = format!("{} ({})", class.name, band_words(class));
    let corners = [(0.0, precise(class.latency_ns_min)), (end, precise(class.latency_ns_max))];
    ChartSeries::new(name, colour, Style::Area, corners)
}

/// The percentiles that databases are judged by, on the curve, with the label of its place.
fn marked(service: &Distribution, place: &str) -> ChartSeries {
    let known = [("p50", 0.5, service.p50_ns), ("p99", 0.99, service.p99_ns)];
    let known = known.into_iter().filter_map(|(name, quantile, nanos)| {
        let nanos = nanos?;
        let nines: f64 = -(1.0_f64 - quantile).log10();
        let text = format!("{place} {name} {}", latency(nanos));
        Some((text.trim_start().to_owned(), (nines, precise(nanos))))
    });
    let (labels, points): (Vec<String>, Vec<(f64, f64)>) = known.unzip();
    // Without a name: the pointer shows values of the curve alone.
    ChartSeries { labels, ..ChartSeries::new("", Colour::Ink, Style::Dots, points) }
}

/// Predicted commits per second with the range in which the real rate is expected, and the latency of a
/// transaction, by clients.
fn by_clients(prediction: &PredictionFindings) -> Chart {
    // Transactions that come at a rate have no other.
    let points = || prediction.points.iter().filter(|point| point.offered_per_second.is_none());
    let clients = |point: &PredictionPoint| f64::from(point.clients);
    let rates = points().map(|point| (clients(point), point.rate_per_second)).collect();
    let expected = points().flat_map(|point| {
        let ends = point.expected.map(|(least, most)| [least, most]);
        ends.into_iter().flatten().map(move |rate| (clients(point), rate))
    });
    let latencies = |figure: fn(&PredictionPoint) -> Option<u64>| -> Vec<(f64, f64)> {
        points().map(|point| (clients(point), figure(point).map_or(f64::NAN, precise))).collect()
    };
    let p99 = latencies(|point| point.p99_ns);
    let p50 = latencies(|point| point.p50_ns);
    let name = "expected in a real database";
    let mut upper = vec![ChartSeries::new(name, Colour::Shade, Style::Ranges, expected)];
    upper.extend(ChartSeries::measured("predicted commits", Colour::First, rates, Vec::new()));
    let lower = ChartSeries::measured("p99", Colour::Second, p99, Vec::new());
    let lower =
        lower.into_iter().chain(ChartSeries::measured("p50", Colour::Third, p50, Vec::new()));
    let x = || AxisUnit::Number.logarithmic();
    let panels = vec![
        Panel { x: x(), y: AxisUnit::Rate.linear(), series: upper },
        Panel { x: x(), y: AxisUnit::Latency.logarithmic(), series: lower.collect() },
    ];
    let title =
        format!("{}: commits per second, and latency of a transaction", prediction.database);
    Chart::panels(title, panels).across("clients")
}
