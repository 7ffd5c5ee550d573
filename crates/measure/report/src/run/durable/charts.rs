//! The charts of the cost of durable writes.

use durio_analyse::durable::{
    CommandsFindings, DurableFindings, GroupCommitFindings, MethodRow, MethodsFindings, SizeCurve,
    SizesFindings, WritersFindings,
};
use durio_base::Bytes;
use durio_record::TracedRequest;
use durio_workload::CacheMode;

use super::tables::place;
use super::{layout_word, method_words};
use crate::document::chart::{AxisUnit, Bar, BarGroup, Chart, ChartSeries, Colour};
use crate::figures::{latency, precise, rate};
use crate::run::machine::cache_name;

// More bars of one kind than this are a table.
const BARS_MAX: usize = 24;

const LINE_POINTS: i32 = 48;

/// A group of bars for each method, in the order of `wal_sync_method`.
fn method_groups(
    methods: &MethodsFindings,
    bars: impl Fn(&MethodRow) -> Vec<Bar>,
) -> Vec<BarGroup> {
    // A copy into the page cache would make every other bar a hair.
    let is_shown = |row: &&MethodRow| {
        let setting = &row.arm.setting;
        let is_copy = !setting.is_durable() && setting.cache == CacheMode::Buffered;
        row.arm.figures.is_some() && !is_copy
    };
    let mut shown: Vec<&MethodRow> = methods.rows.iter().filter(is_shown).collect();
    // Stable: direct and buffered stay in the order of the plan.
    shown.sort_by_key(|row| place(row));
    shown.truncate(BARS_MAX);
    let group = |row: &MethodRow| BarGroup::new(method_words(&row.arm.setting), bars(row));
    shown.into_iter().map(group).collect()
}

pub(crate) fn method_rates(methods: &MethodsFindings) -> Chart {
    let groups = method_groups(methods, |row| {
        let is_durable = row.arm.setting.is_durable();
        let colour = if is_durable { Colour::First } else { Colour::Shade };
        let rates = row.arm.figures.iter().map(|figure| figure.rate_per_second);
        rates.map(|per_second| Bar::new("", per_second, colour, rate(per_second))).collect()
    });
    let legend = [("durable", Colour::First), ("unsynced", Colour::Shade)];
    Chart::bars("Writes per second: longer is better", groups, legend)
}

pub(super) fn method_latencies(methods: &MethodsFindings) -> Chart {
    let groups = method_groups(methods, |row| {
        let Some(it) = row.arm.figures.as_ref().map(|figures| figures.latency) else {
            return Vec::new();
        };
        let both = [(it.p50_ns, Colour::Third), (it.p99_ns, Colour::Second)];
        let known = both.into_iter().filter_map(|(nanos, colour)| Some((nanos?, colour)));
        known.map(|(nanos, colour)| Bar::new("", precise(nanos), colour, latency(nanos))).collect()
    });
    let legend = [("p50", Colour::Third), ("p99", Colour::Second)];
    Chart::bars("p50 and p99: shorter is better", groups, legend)
}

/// Sizes from the smallest to the largest point, evenly on the logarithm.
fn along(points: &[(f64, f64)]) -> Vec<f64> {
    let low = points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|point| point.0).fold(0.0, f64::max);
    // Also if a bound is NaN, which makes every comparison false.
    if !(low > 0.0 && high > low) {
        return Vec::new();
    }
    let at = |step| low * (high / low).powf(f64::from(step) / f64::from(LINE_POINTS));
    (0..=LINE_POINTS).map(at).collect()
}

fn plot(title: impl Into<String>, x: AxisUnit, y: AxisUnit, series: Vec<ChartSeries>) -> Chart {
    Chart::plot(title, x.logarithmic(), y.logarithmic(), series)
}

/// Cost against size with the fitted lines.
pub(super) fn costs(sizes: &SizesFindings) -> Chart {
    let series = sizes.curves.iter().zip(Colour::SERIES);
    let series = series.flat_map(|(curve, colour)| cost(curve, colour)).collect();
    let title = "Mean time of a write against its size; dots measured, lines fitted";
    plot(title, AxisUnit::Bytes, AxisUnit::Latency, series)
}

fn cost(curve: &SizeCurve, colour: Colour) -> [ChartSeries; 2] {
    let points = curve.arms.iter().flat_map(|arm| {
        let size = precise(arm.setting.block_size.get());
        let samples = arm.figures.iter().flat_map(|figure| &figure.samples);
        samples.map(move |sample| (size, sample.latency_ns_mean))
    });
    let points: Vec<(f64, f64)> = points.collect();
    let line = curve.model.as_ref().map(|model| {
        along(&points).into_iter().map(|size| (size, model.latency_ns(size))).collect()
    });
    ChartSeries::measured(method_words(&curve.setting), colour, points, line.unwrap_or_default())
}

/// Where the writers write.
pub(super) fn files_words(found: &WritersFindings) -> String {
    let setting = found.rows.first().map(|row| &row.arm.setting);
    let method = setting.map_or_else(String::new, method_words);
    let block = setting.map_or_else(String::new, |setting| setting.block_size.to_string());
    let files = if found.file_each { "a file each" } else { "one file" };
    format!("{method}, {block}, {files}")
}

/// Total and per-writer throughput against writers with the fitted law.
pub(super) fn throughput(found: &WritersFindings) -> Chart {
    let total = found.rows.iter().filter_map(|row| {
        let figures = row.arm.figures.as_ref()?;
        Some((f64::from(row.arm.setting.jobs), figures.bandwidth_bytes_per_second))
    });
    let total: Vec<(f64, f64)> = total.collect();
    let each = found.rows.iter();
    let each = each.map(|row| (f64::from(row.arm.setting.jobs), row.per_writer_bytes_per_second));
    let block = found.rows.first().map_or(0.0, |row| precise(row.arm.setting.block_size.get()));
    // A law that holds nowhere in the range does not go through these dots.
    let held = found.contention.as_ref().filter(|contention| contention.holds_from.is_some());
    let law = |divided: bool| -> Vec<(f64, f64)> {
        let Some(it) = held else { return Vec::new() };
        // The first point must not be lost to rounding.
        let from = it.holds_from.unwrap_or(1.0) - 1e-9;
        let of = |n: f64| it.law.total_per_second(n) * block / if divided { n } else { 1.0 };
        // The law is not drawn where the report says that it does not hold.
        along(&total).into_iter().filter(|n| *n >= from).map(|n| (n, of(n))).collect()
    };
    let each = ChartSeries::measured("per writer", Colour::Second, each.collect(), law(true));
    let all = ChartSeries::measured("total", Colour::First, total.clone(), law(false));
    let what = if held.is_some() { "; dots measured, lines the law" } else { "" };
    let title = format!("{}: throughput against writers{what}", files_words(found));
    let series = all.into_iter().chain(each).collect();
    plot(title, AxisUnit::Number, AxisUnit::Bandwidth, series).across("writers")
}

pub(super) fn slopes(found: &DurableFindings) -> Chart {
    let series = found.flush_slopes.iter().zip(Colour::SERIES).flat_map(|(slopes, colour)| {
        let points: Vec<(f64, f64)> =
            slopes.points.iter().map(|point| (point.dirty_bytes, point.flush_ns_p50)).collect();
        let line = slopes.slope.as_ref().map(|slope| {
            let at = |bytes: f64| {
                slope.intercept_ns.value + slope.ns_per_mib.value * bytes / 1_048_576.0
            };
            along(&points).into_iter().map(|bytes| (bytes, at(bytes))).collect()
        });
        ChartSeries::measured(
            method_words(&slopes.setting),
            colour,
            points,
            line.unwrap_or_default(),
        )
    });
    let title = "Time of a flush against the data written before it";
    plot(title, AxisUnit::Bytes, AxisUnit::Latency, series.collect())
}

/// Records per batch of each log, in classes of powers of two.
pub(super) fn batches(commits: &GroupCommitFindings) -> Chart {
    let groups = commits.rows.iter().filter_map(|row| {
        let batches = row.arm.figures.as_ref()?.batches.as_ref().filter(|batch| batch.count > 0)?;
        let title = format!("{} committers", row.arm.setting.committers());
        Some(BarGroup::new(title, classes(&batches.sizes, batches.count)))
    });
    let legend = [("share of the batches with this many records", Colour::First)];
    Chart::bars("Records per batch, by committers", groups.collect(), legend).scaled_by_group()
}

fn classes(sizes: &[(u32, u64)], count: u64) -> Vec<Bar> {
    let mut classes: Vec<(u32, u64)> = Vec::new();
    for (records, batches) in sizes {
        // Sizes of batches spread over decades: a bar for each number would be a comb.
        let class = records.max(&1).ilog2();
        match classes.last_mut().filter(|(last, _)| *last == class) {
            Some((_, sum)) => *sum = sum.saturating_add(*batches),
            None => classes.push((class, *batches)),
        }
    }
    let bar = |(class, batches): (u32, u64)| {
        let from = 1_u64 << class;
        let range = if from == 1 { "1".to_owned() } else { format!("{from} to {}", 2 * from - 1) };
        let share = precise(batches) / precise(count);
        Bar::new("", share, Colour::First, format!("{range}: {:.0} %", share * 100.0))
    };
    classes.into_iter().map(bar).collect()
}

/// What a commit sends to the device: a bar per request from where the driver got it to its
/// completion, before that of the whole commit.
pub(super) fn sequences(found: &[CommandsFindings]) -> Chart {
    let group = |commands: &CommandsFindings| {
        let sequence = commands.traced.sequences.first()?;
        let name = format!(
            "{} {}, {}: {}",
            commands.method,
            cache_name(commands.cache),
            layout_word(commands.layout),
            sequence.commit
        );
        let mut spans = vec![(0.0, precise(sequence.commit.get()), Colour::Shade)];
        spans.extend(sequence.requests.iter().map(|request| {
            let from = precise(request.issued.get());
            let service = request.service.map_or(0.0, |time| precise(time.get()));
            (from, from + service, colour(request))
        }));
        let flags: Vec<&str> = sequence.requests.iter().map(|request| &*request.flags).collect();
        Some(BarGroup {
            title: String::new(),
            bars: vec![Bar { name, spans, point: None, text: flags.join(" ") }],
        })
    };
    let legend = [
        ("write", Colour::First),
        ("flush", Colour::Second),
        ("past the cache (FUA)", Colour::Third),
        ("metadata", Colour::Fourth),
        ("the commit, to its end", Colour::Shade),
    ];
    let title = "One commit at the device, median times, one scale";
    Chart::bars(title, found.iter().filter_map(group).collect(), legend)
}

fn colour(request: &TracedRequest) -> Colour {
    // Flags as the kernel's tracepoints write them: an F before the letter of the operation is a
    // flush, one after it FUA.
    let after = request.flags.strip_prefix('F').unwrap_or(&request.flags);
    let letters = after.get(1..).unwrap_or_default();
    if request.bytes == Bytes::ZERO && request.flags.starts_with('F') {
        Colour::Second
    } else if letters.contains('F') {
        Colour::Third
    } else if letters.contains('M') {
        Colour::Fourth
    } else {
        Colour::First
    }
}
