//! Charts of a single workload: the shape of its tail, and how even it was over time.

use durio_analyse::{Findings, IntervalPoint, WorkloadFindings};
use durio_base::Nanos;
use durio_record::Phase;

use super::figures::{colour, headline_rate, operation_label, workload_title};
use crate::document::Section;
use crate::document::chart::{
    AxisScale, AxisUnit, Chart, ChartSeries, Colour, Panel, Style, kept, rounded, tail,
};
use crate::figures::{counted, precise};

// Points of all time series together; keeps the page well below 1 MiB.
const POINTS_ALL: usize = 6000;

// More points of one time series than the chart has columns.
const POINTS_MAX: usize = 600;

// More points than this cannot be distinguished on a distribution.
pub(super) const TAIL_POINTS_MAX: usize = 240;

pub(super) fn workloads(findings: &Findings) -> Section {
    let mut section = Section::detail("Workloads");
    // At least twelve: two extremes of three series in two stretches.
    let points_max = (POINTS_ALL / findings.workloads.len().max(1)).clamp(12, POINTS_MAX);
    for workload in &findings.workloads {
        let mut group = Section::new(workload_title(findings, workload));
        let evenness = evenness(workload).unwrap_or_default();
        group.note(format!("{}. {evenness}", workload.definition.summary));
        let count = workload.intervals.len();
        let title = match count > points_max {
            true => format!("Rate and latency over time (the extremes of {count} intervals)"),
            false => "Rate and latency over time".to_owned(),
        };
        let time = over_time(title, workload, points_max, &[]);
        group.charts(std::iter::once(distribution(workload)).chain(time));
        section.group(group);
    }
    section
}

// The stalls in words, so that readers need not distinguish colours.
fn evenness(workload: &WorkloadFindings) -> Option<String> {
    let it = workload.rate_variation?;
    let of = counted(it.intervals, "interval");
    Some(match (it.intervals_empty, it.intervals_under_half) {
        (0, 0) => format!("No stall in {of}."),
        (empty, half) => format!(
            "Of {of}, {empty} had no completion and {half} ran at less than half the median rate."
        ),
    })
}

/// Latency over the nines of the quantile, a line per operation: the shape of the tail.
fn distribution(workload: &WorkloadFindings) -> Chart {
    // One latency is a point, not a shape.
    let drawable = workload.operations.iter().filter(|operation| operation.curve.len() > 1);
    let series = drawable.map(|operation| {
        let name = operation_label(workload, operation.operation);
        ChartSeries::new(
            name,
            colour(operation.operation),
            Style::Line,
            tail(&operation.curve, TAIL_POINTS_MAX),
        )
    });
    let title = "Latency over percentiles (both logarithmic)";
    Chart::plot(title, AxisScale::Nines, AxisUnit::Latency.logarithmic(), series.collect())
}

/// Rate and latencies of at most `points_max` points, with lines at lasting changes; none with fewer
/// than two intervals.
pub(super) fn over_time(
    title: String,
    workload: &WorkloadFindings,
    points_max: usize,
    changes: &[Nanos],
) -> Option<Chart> {
    // One that is cut short would be drawn as a stall or as a spike.
    let whole: Vec<_> = workload.intervals.iter().filter(|interval| !interval.cut_short).collect();
    if whole.len() < 2 {
        return None;
    }
    let kept = points(&whole, points_max);
    let line = |name: &str, colour, figure: &dyn Fn(&IntervalPoint) -> f64| {
        let points = kept.iter().map(|interval| (rounded(middle(interval)), figure(interval)));
        ChartSeries::new(name, colour, Style::Line, points)
    };
    // Without completions an interval has no latency: the line has a gap, not a zero.
    let known = |nanos: Option<u64>| nanos.map_or(f64::NAN, precise);
    let rate = [line("rate", Colour::First, &|interval| rounded(interval.rate))];
    let latencies = [
        line("p50", Colour::Third, &|interval| known(interval.p50_ns)),
        line("p99", Colour::Second, &|interval| known(interval.p99_ns)),
    ];
    let behind = || {
        let ramp = workload.intervals.iter().rfind(|interval| interval.phase == Phase::Ramp);
        let ramp = ramp.map(|last| (0.0, last.to.as_secs_f64()));
        let variation = workload.rate_variation.as_ref();
        let median = variation.map(|variation| variation.rate_median_per_second);
        // Older documents have no median; the mean is near it unless there were bursts.
        let usual = median.filter(|median| *median > 0.0).unwrap_or(headline_rate(workload));
        // As in the sentence above the chart.
        let stalls = stalls(&whole, usual / 2.0);
        let changes = changes.iter().map(|at| (at.as_secs_f64(), 0.0));
        [
            ChartSeries::new("ramp, not counted", Colour::Shade, Style::Spans, ramp),
            ChartSeries::new(
                "stall (less than half the median rate)",
                Colour::Alarm,
                Style::Spans,
                stalls,
            ),
            ChartSeries::new("lasting change", Colour::Ink, Style::Upright, changes),
        ]
    };
    let panel = |y, lines: Vec<ChartSeries>| {
        let series = behind().into_iter().filter(|series| !series.points.is_empty()).chain(lines);
        Panel { x: AxisUnit::Seconds.linear(), y, series: series.collect() }
    };
    let upper = panel(AxisUnit::Rate.linear(), rate.into());
    let lower = panel(AxisUnit::Latency.logarithmic(), latencies.into());
    Some(Chart::panels(title, vec![upper, lower]))
}

fn middle(interval: &IntervalPoint) -> f64 {
    f64::midpoint(interval.from.as_secs_f64(), interval.to.as_secs_f64())
}

fn points<'a>(intervals: &[&'a IntervalPoint], points_max: usize) -> Vec<&'a IntervalPoint> {
    let rate = |index: usize| intervals.get(index).map(|interval| interval.rate);
    let p50 = |index: usize| intervals.get(index)?.p50_ns.map(precise);
    let p99 = |index: usize| intervals.get(index)?.p99_ns.map(precise);
    let kept = kept(intervals.len(), points_max, &[&rate, &p50, &p99]);
    kept.into_iter().map(|index| intervals[index]).collect()
}

// Where nothing, or less than half of the median, was completed; spans that touch are one.
fn stalls(intervals: &[&IntervalPoint], half: f64) -> Vec<(f64, f64)> {
    // Slowness while it warms up is not a stall.
    let measured = intervals.iter().filter(|interval| interval.phase == Phase::Measure);
    let mut spans: Vec<(f64, f64)> = Vec::new();
    for interval in measured.filter(|interval| interval.rate < half) {
        let (from, to) = (interval.from.as_secs_f64(), interval.to.as_secs_f64());
        match spans.last_mut() {
            Some(last) if from <= last.1 => last.1 = to,
            _ => spans.push((from, to)),
        }
    }
    spans
}
