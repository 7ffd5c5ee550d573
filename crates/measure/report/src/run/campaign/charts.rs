//! The charts of a campaign's section: curves, maps, rounds, searches.

use durio_analyse::SearchFindings;
use durio_analyse::campaign::{
    CampaignRow, Convergence, Curve, MapFindings, RowLatency, SectionFindings,
};
use durio_analyse::ladder::{Knee, LadderKind};
use durio_analyse::steady_state::{PlotLine, Window};
use durio_plan::{ParameterValue, Tracking};

use super::table::{axis_name, is_ladder};
use crate::document::chart::{
    AxisScale, AxisUnit, Chart, ChartMapCell, ChartSeries, Colour, Map, Panel, Style,
};
use crate::figures::{latency, precise, rate_bare};

/// The charts of a curve: a line for each result, level by level, and latency against rate.
pub(super) fn curve(section: &SectionFindings, curve: &Curve) -> Vec<Chart> {
    let rows: Vec<&CampaignRow> =
        curve.rows.iter().filter_map(|at| section.rows.get(*at)).collect();
    if rows.len() < 2 {
        return Vec::new();
    }
    let levels = levels(curve, &rows);
    let levels = if is_ladder(section) { levels.in_summary() } else { levels };
    latency_at_rate(curve, &rows).into_iter().chain([levels]).collect()
}

/// All curves of a section in one picture: the cost of durability, or of another level, at each
/// load.
pub(super) fn together(section: &SectionFindings) -> Option<Chart> {
    let axis = &section.curves.first()?.axis;
    let curves: Vec<&Curve> = section.curves.iter().filter(|curve| curve.axis == *axis).collect();
    // More curves than colours cannot be distinguished.
    if curves.len() < 2 || curves.len() > Colour::SERIES.len() {
        return None;
    }
    let of_curve = |(curve, colour): (&&Curve, Colour)| {
        let rows = curve.rows.iter().filter_map(|at| section.rows.get(*at));
        let points =
            rows.filter_map(|row| Some((level_label(curve, row), row.rate, latency_of(row)?)));
        let (labels, points): (Vec<String>, Vec<(f64, f64)>) =
            points.map(|(label, rate, latency)| (label, (rate, latency.mean_ns))).unzip();
        let [line, dots] = ChartSeries::measured(curve.name.as_str(), colour, points, Vec::new());
        [line, ChartSeries { labels, ..dots }]
    };
    let series = curves.iter().zip(Colour::SERIES).flat_map(of_curve).collect();
    let title = format!("All curves: mean latency against IOPS, by {}", axis_name(axis));
    let (x, y) = (AxisUnit::Rate.linear(), AxisUnit::Latency.logarithmic());
    Some(Chart::plot(title, x, y, series))
}

// In an open loop the latencies are those of the response.
fn latency_of(row: &CampaignRow) -> Option<RowLatency> {
    row.response.or(row.service)
}

fn p99(latency: &RowLatency) -> f64 {
    latency.p99_ns.map_or(f64::NAN, precise)
}

/// Rate as columns and latency as lines, level by level.
fn levels(curve: &Curve, rows: &[&CampaignRow]) -> Chart {
    let steps = || AxisScale::Steps(rows.iter().map(|row| level_label(curve, row)).collect());
    let points = |figure: &dyn Fn(&CampaignRow) -> f64| -> Vec<(f64, f64)> {
        (0_u32..).map(f64::from).zip(rows.iter().map(|row| figure(row))).collect()
    };
    let latency = |figure: fn(&RowLatency) -> f64| {
        points(&|row| latency_of(row).as_ref().map_or(f64::NAN, figure))
    };
    let rate = ChartSeries::new("rate", Colour::First, Style::Columns, points(&|row| row.rate));
    let mean = ChartSeries::measured(
        "mean",
        Colour::Third,
        latency(|latency| latency.mean_ns),
        Vec::new(),
    );
    let p99 = ChartSeries::measured("p99", Colour::Second, latency(p99), Vec::new());
    let latencies = mean.into_iter().chain(p99).collect();
    let title = format!("{}: rate and latency by {}", curve.name, axis_name(&curve.axis));
    Chart::panels(
        title,
        vec![
            Panel { x: steps(), y: AxisUnit::Rate.linear(), series: vec![rate] },
            Panel { x: steps(), y: AxisUnit::Latency.logarithmic(), series: latencies },
        ],
    )
    .across(axis_name(&curve.axis))
}

/// Latency against rate; none without latencies.
fn latency_at_rate(curve: &Curve, rows: &[&CampaignRow]) -> Option<Chart> {
    let figures = rows.iter().filter_map(|row| Some((*row, latency_of(row)?)));
    let figures: Vec<(&CampaignRow, RowLatency)> = figures.collect();
    if figures.len() < 2 {
        return None;
    }
    let which = if rows.iter().any(|row| row.response.is_some()) { "response, " } else { "" };
    let points = |of: fn(&RowLatency) -> f64| -> Vec<(f64, f64)> {
        figures.iter().map(|(row, latency)| (row.rate, of(latency))).collect()
    };
    let means = points(|latency| latency.mean_ns);
    let keeps_up = |row: &CampaignRow| row.open_loop.is_none_or(|open| open.keeps_up);
    let marked = |style, name: &str, colour, is_it: &dyn Fn(&CampaignRow) -> bool| {
        let of = figures.iter().zip(&means).filter(|((row, _), _)| is_it(row));
        let (labels, points): (Vec<String>, Vec<_>) =
            of.map(|((row, _), at)| (level_label(curve, row), *at)).unzip();
        ChartSeries { labels, ..ChartSeries::new(name, colour, style, points) }
    };
    let name = format!("{which}mean, by {}", axis_name(&curve.axis));
    let mut series = vec![
        ChartSeries::new(format!("{which}p99"), Colour::Second, Style::Line, points(p99)),
        ChartSeries::new(name, Colour::First, Style::Line, means.clone()),
        marked(Style::Dots, "", Colour::First, &keeps_up),
        marked(Style::Crosses, "offered rate not reached (cross)", Colour::Alarm, &|row| {
            !keeps_up(row)
        }),
    ];
    if let Some(best) = best_of(curve) {
        let is_best = |row: &CampaignRow| {
            row.level(&curve.axis).is_some_and(|level| (level.value - best).abs() < 1e-9)
        };
        let ring = marked(Style::Rings, "best point (ring)", Colour::Third, &is_best);
        // The dot within the ring has the label.
        series.push(ChartSeries { labels: Vec::new(), ..ring });
    }
    if let Some(knee) = knee_of(curve) {
        let name = "knee: where the fitted asymptotes cross";
        series.push(ChartSeries::new(name, Colour::Fourth, Style::Upright, [knee]));
        series.push(ChartSeries::new("", Colour::Fourth, Style::Dots, [knee]));
    }
    let (x, y) = (AxisUnit::Rate.linear(), AxisUnit::Latency.logarithmic());
    Some(Chart::plot(format!("{}: latency against IOPS", curve.name), x, y, series))
}

fn level_label(curve: &Curve, row: &CampaignRow) -> String {
    row.level(&curve.axis).map_or_else(String::new, |level| level.label.clone())
}

/// The crossing of the asymptotes: highest rate, and latency without load.
fn knee_of(curve: &Curve) -> Option<(f64, f64)> {
    let ladder = curve.ladder.as_ref()?;
    let told = matches!(ladder.knee, Knee::Measured { .. });
    let fit = ladder.saturation.as_ref().filter(|_| told)?;
    let latency = 1e9 / fit.unloaded_rate_per_load;
    // Over offered rates the slope is rate by rate: its inverse is not a latency.
    let is_load = ladder.kind != LadderKind::OfferedRate && latency.is_finite();
    is_load.then_some((fit.highest_rate_per_second, latency))
}

// The best level; none where the offered rate was not reached.
fn best_of(curve: &Curve) -> Option<f64> {
    let ladder = curve.ladder.as_ref().filter(|_| curve.not_reached_from.is_none())?;
    Some(ladder.best.level)
}

/// The 99th percentile of each pair of levels, with the rate.
pub(super) fn map(section: &SectionFindings, map: &MapFindings) -> Chart {
    let axis = |levels: &[ParameterValue]| {
        levels.first().map_or_else(String::new, |level| axis_name(&level.axis))
    };
    let labels =
        |levels: &[ParameterValue]| levels.iter().map(|level| level.label.clone()).collect();
    let cells = map.cells.iter().filter_map(|cell| {
        let row = section.rows.get(cell.row)?;
        let p99 = latency_of(row).and_then(|latency| latency.p99_ns);
        Some(ChartMapCell {
            x: cell.x,
            y: cell.y,
            value: p99.map(precise),
            text: p99.map_or_else(|| "-".to_owned(), latency),
            beside: rate_bare(row.rate),
        })
    });
    let title = format!(
        "{}: IOPS and p99 by {} (across) and {} (down); darker is slower",
        map.name,
        axis(&map.x),
        axis(&map.y)
    );
    let map = Map { x: labels(&map.x), y: labels(&map.y), cells: cells.collect() };
    Chart::map(title, map).in_summary()
}

/// Rounds one after the other: the tracked result, and in the window mean, band and slope.
pub(super) fn convergence(found: &Convergence) -> Chart {
    let unit = match found.tracking {
        Tracking::Iops => AxisUnit::Rate,
        Tracking::Bandwidth => AxisUnit::Bandwidth,
        Tracking::LatencyMean => AxisUnit::Latency,
    };
    let window = found.state.as_ref().and_then(|state| state.window.as_ref());
    let mut series = window.map_or_else(Vec::new, of_window);
    let rounds = (0_u32..).map(f64::from).zip(found.series.iter().copied()).collect();
    series.extend(ChartSeries::measured("each round", Colour::First, rounds, Vec::new()));
    let labels = (1..=found.series.len()).map(|round| round.to_string()).collect();
    let title = format!("{} round by round", found.tracked);
    Chart::plot(title, AxisScale::Steps(labels), unit.linear(), series).across("round").in_summary()
}

/// What the steady state was judged by. The first round is at zero.
fn of_window(window: &Window) -> Vec<ChartSeries> {
    let [from, to] =
        [window.first_round, window.last_round].map(|round| precise(round as u64) - 1.0);
    let lines = &window.lines;
    let line = |line: PlotLine| [(from, line.at_first), (to, line.at_last)];
    let mean = format!("mean of rounds {} to {}", window.first_round, window.last_round);
    let band = [(from, lines.lower.at_first), (to, lines.upper.at_last)];
    vec![
        ChartSeries::new("allowed range", Colour::Shade, Style::Area, band),
        ChartSeries::new(mean, Colour::Third, Style::Line, line(lines.mean)),
        ChartSeries::new("fitted line", Colour::Second, Style::Line, line(lines.best_fit)),
    ]
}

/// The rates that a search tried, with their latencies and the goal.
pub(super) fn search(found: &SearchFindings) -> Chart {
    let trials = |style, name: &str, colour, is_kept: bool| {
        let of = found.trials.iter().filter(|trial| trial.kept == is_kept);
        let of = of.filter_map(|trial| {
            let at = (trial.rate_per_second, precise(trial.latency_ns?));
            Some(((trial.round + 1).to_string(), at))
        });
        let (labels, points): (Vec<String>, Vec<_>) = of.unzip();
        ChartSeries { labels, ..ChartSeries::new(name, colour, style, points) }
    };
    let goal = format!("goal: {}", found.goal.latency);
    let level = [(0.0, precise(found.goal.latency.get()))];
    let series = vec![
        ChartSeries::new(goal, Colour::Third, Style::Across, level),
        trials(Style::Dots, "kept (dot, with its trial)", Colour::First, true),
        trials(Style::Crosses, "missed (cross)", Colour::Alarm, false),
    ];
    let title = format!("p{} of the response at the rates tried", found.goal.percentile);
    Chart::plot(title, AxisUnit::Rate.linear(), AxisUnit::Latency.logarithmic(), series)
}
