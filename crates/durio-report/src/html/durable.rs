//! What a durable write costs, in the page: tables, pictures and sentences, question by question.
//!
//! In: findings. Out: the part of the page, in the form that campaigns have. Not here: the words,
//! which the terminal shares.

use std::io;

use durio_analyse::Findings;
use durio_analyse::durable::{DurableFindings, MethodRow, SizeCurve, WritersFindings};
use durio_plan::Slice;

use super::campaign::{CampaignPart, FactGroup, SectionPart};
use super::charts::{Bar, BarGroup, Colour, Scale, Series, bars, bars_to_one_scale, sequences, xy};
use super::sections::{Picture, printed};
use durio_workload::CacheMode;

use crate::durable_facts::{DurablePart, files_words, method_words, parts};
use crate::durable_tables::has_absent;
use crate::figures::{ABSENT_NOTE, latency, rate};

/// The colours of series, in order.
const COLOURS: [Colour; 5] =
    [Colour::First, Colour::Second, Colour::Third, Colour::Fourth, Colour::Alarm];

/// More bars of one kind than this are a table.
const BARS_MAX: usize = 24;

/// Points of a fitted line.
const LINE_POINTS: i32 = 48;

/// The part of the page.
pub(super) fn part(findings: &Findings, found: &DurableFindings) -> io::Result<CampaignPart> {
    let parts = parts(found);
    let absent_note = parts.iter().any(|it| has_absent(&it.tables)).then_some(ABSENT_NOTE);
    let sections: io::Result<Vec<SectionPart>> =
        parts.into_iter().map(|part| section(found, part)).collect();
    let campaign = findings.campaign.as_ref();
    Ok(CampaignPart {
        kind: "Study",
        name: campaign.map_or_else(|| "durable".to_owned(), |it| it.name.clone()),
        summary: campaign.map_or_else(String::new, |it| it.summary.clone()),
        sections: sections?,
        targets: Vec::new(),
        absent_note,
    })
}

fn section(found: &DurableFindings, part: DurablePart) -> io::Result<SectionPart> {
    Ok(SectionPart {
        pictures: match part.slice {
            Some(slice) => pictures(found, slice)?,
            None => Vec::new(),
        },
        name: part.title,
        summary: part.summary.to_owned(),
        tables: part.tables,
        note: None,
        said: match part.said.is_empty() {
            true => Vec::new(),
            false => vec![FactGroup { title: String::new(), facts: part.said }],
        },
        rules: None,
    })
}

fn pictures(found: &DurableFindings, slice: Slice) -> io::Result<Vec<Picture>> {
    match slice {
        Slice::Methods => methods(found),
        Slice::Commands => {
            let title = "One commit at the device, median times, one scale".to_owned();
            Ok(sequences(&found.commands)?.map(|it| printed(title, it)).into_iter().collect())
        }
        Slice::Sizes => costs(found),
        Slice::Writers => {
            let of = |it: &WritersFindings| throughput(it);
            found.writers.iter().map(of).filter_map(io::Result::transpose).collect()
        }
        Slice::FlushSlope => slopes(found),
        Slice::GroupCommit => batches(found),
        _ => Ok(Vec::new()),
    }
}

/// Rates, and below them p50 and p99, of each method.
fn methods(found: &DurableFindings) -> io::Result<Vec<Picture>> {
    let Some(methods) = &found.methods else { return Ok(Vec::new()) };
    // A copy into the page cache would make every other bar a hair.
    let is_shown = |it: &&MethodRow| {
        let setting = &it.arm.setting;
        let is_copy = !setting.is_durable() && setting.cache == CacheMode::Buffered;
        it.arm.figures.is_some() && !is_copy
    };
    let shown: Vec<&MethodRow> = methods.rows.iter().filter(is_shown).take(BARS_MAX).collect();
    let group = |bars: &dyn Fn(&MethodRow) -> Vec<Bar>| -> Vec<BarGroup> {
        let of =
            |row: &&MethodRow| BarGroup { name: method_words(&row.arm.setting), bars: bars(row) };
        shown.iter().map(of).collect()
    };
    let bar = |value: f64, text: String, colour| Bar { value, text, colour };
    let durable = |row: &MethodRow| match row.arm.setting.is_durable() {
        true => Colour::First,
        false => Colour::Shade,
    };
    let rates = group(&|row| {
        let figures = row.arm.figures.iter();
        let per_second = figures.map(|it| it.rate_per_second);
        per_second.map(|it| bar(it, rate(it), durable(row))).collect()
    });
    let latencies = group(&|row| {
        let Some(it) = row.arm.figures.as_ref().map(|it| it.latency) else { return Vec::new() };
        let both = [(it.p50_ns, Colour::Third), (it.p99_ns, Colour::Second)];
        both.into_iter()
            .filter_map(|(nanos, colour)| Some(bar(precise(nanos?), latency(nanos?), colour)))
            .collect()
    });
    let legend = |names: &[(&str, Colour)]| {
        names.iter().map(|(name, colour)| ((*name).to_owned(), *colour)).collect()
    };
    let of_rates = [("durable", Colour::First), ("unsynced", Colour::Shade)];
    let of_latencies = [("p50", Colour::Third), ("p99", Colour::Second)];
    Ok(vec![
        printed(
            "Writes per second: longer is better".into(),
            bars_to_one_scale(&rates, legend(&of_rates))?,
        ),
        printed(
            "p50 and p99: shorter is better".into(),
            bars_to_one_scale(&latencies, legend(&of_latencies))?,
        ),
    ])
}

/// Sizes from the smallest to the largest point, evenly on the logarithm.
fn along(points: &[(f64, f64)]) -> Vec<f64> {
    let low = points.iter().map(|it| it.0).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|it| it.0).fold(0.0, f64::max);
    if !(low > 0.0 && high > low) {
        return Vec::new();
    }
    let at = |step| low * (high / low).powf(f64::from(step) / f64::from(LINE_POINTS));
    (0..=LINE_POINTS).map(at).collect()
}

/// Cost against size with the fitted lines.
fn costs(found: &DurableFindings) -> io::Result<Vec<Picture>> {
    let Some(sizes) = &found.sizes else { return Ok(Vec::new()) };
    let series: Vec<Series> =
        sizes.curves.iter().zip(COLOURS).map(|(curve, colour)| cost(curve, colour)).collect();
    let chart = xy(&series, Scale::Bytes, Scale::Latency)?;
    let title = "Mean time of a write against its size; dots measured, lines fitted";
    Ok(chart.map(|it| printed(title.to_owned(), it)).into_iter().collect())
}

fn cost(curve: &SizeCurve, colour: Colour) -> Series {
    let points = curve.arms.iter().flat_map(|arm| {
        #[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
        let size = arm.setting.block_size.get() as f64;
        let samples = arm.figures.iter().flat_map(|it| &it.samples);
        samples.map(move |it| (size, it.latency_ns_mean))
    });
    let points: Vec<(f64, f64)> = points.collect();
    let line = curve.model.as_ref().map(|model| {
        along(&points).into_iter().map(|size| (size, model.latency_ns(size))).collect()
    });
    Series { name: method_words(&curve.setting), colour, line: line.unwrap_or_default(), points }
}

/// Total and per-writer throughput against writers with the fitted law.
fn throughput(found: &WritersFindings) -> io::Result<Option<Picture>> {
    let writers = |jobs: u32| f64::from(jobs);
    let total: Vec<(f64, f64)> = found
        .rows
        .iter()
        .filter_map(|row| {
            let figures = row.arm.figures.as_ref()?;
            Some((writers(row.arm.setting.jobs), figures.bandwidth_bytes_per_second))
        })
        .collect();
    let each: Vec<(f64, f64)> = found
        .rows
        .iter()
        .map(|row| (writers(row.arm.setting.jobs), row.per_writer_bytes_per_second))
        .collect();
    let block = found.rows.first().map_or(0, |row| row.arm.setting.block_size.get());
    #[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
    let block = block as f64;
    let held = found.contention.as_ref().filter(|it| it.holds_from.is_some());
    let law = |divided: bool| -> Vec<(f64, f64)> {
        let Some(it) = held else { return Vec::new() };
        let from = it.holds_from.unwrap_or(1.0) - 1e-9;
        let of = |n: f64| it.law.total_per_second(n) * block / if divided { n } else { 1.0 };
        along(&total).into_iter().filter(|n| *n >= from).map(|n| (n, of(n))).collect()
    };
    let series = [
        Series {
            name: "total".into(),
            colour: Colour::First,
            line: law(false),
            points: total.clone(),
        },
        Series { name: "per writer".into(), colour: Colour::Second, line: law(true), points: each },
    ];
    let title = match held {
        Some(_) => format!(
            "{}: throughput against writers; dots measured, lines the law",
            files_words(found)
        ),
        None => format!("{}: throughput against writers", files_words(found)),
    };
    Ok(xy(&series, Scale::Number, Scale::Bandwidth)?.map(|it| printed(title, it)))
}

fn slopes(found: &DurableFindings) -> io::Result<Vec<Picture>> {
    let series = found.flush_slopes.iter().zip(COLOURS).map(|(it, colour)| {
        let points: Vec<(f64, f64)> =
            it.points.iter().map(|point| (point.dirty_bytes, point.flush_ns_p50)).collect();
        let line = it.slope.as_ref().map(|slope| {
            let at = |bytes: f64| {
                slope.intercept_ns.value + slope.ns_per_mib.value * bytes / 1_048_576.0
            };
            along(&points).into_iter().map(|bytes| (bytes, at(bytes))).collect()
        });
        let name = method_words(&it.setting);
        Series { name, colour, line: line.unwrap_or_default(), points }
    });
    let chart = xy(&series.collect::<Vec<_>>(), Scale::Bytes, Scale::Latency)?;
    let title = "Time of a flush against the data written before it".to_owned();
    Ok(chart.map(|it| printed(title, it)).into_iter().collect())
}

/// Records per batch of each log, in classes of powers of two.
fn batches(found: &DurableFindings) -> io::Result<Vec<Picture>> {
    let Some(commits) = &found.group_commit else { return Ok(Vec::new()) };
    let mut groups = Vec::new();
    for row in &commits.rows {
        let batches = row.arm.figures.as_ref().and_then(|it| it.batches.as_ref());
        let Some(batches) = batches.filter(|it| it.count > 0) else { continue };
        let committers = row.arm.setting.committers();
        let bars = classes(&batches.sizes, batches.count);
        groups.push(BarGroup { name: format!("{committers} comm."), bars });
    }
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let legend = vec![("share of the batches with so many records".to_owned(), Colour::First)];
    Ok(vec![printed("Records per batch, by committers".into(), bars(&groups, legend)?)])
}

#[expect(clippy::cast_precision_loss, reason = "the length of a bar")]
fn classes(sizes: &[(u32, u64)], count: u64) -> Vec<Bar> {
    let mut classes: Vec<(u32, u64)> = Vec::new();
    for (records, batches) in sizes {
        let class = records.max(&1).ilog2();
        match classes.last_mut().filter(|(last, _)| *last == class) {
            Some((_, sum)) => *sum = sum.saturating_add(*batches),
            None => classes.push((class, *batches)),
        }
    }
    let bar = |(class, batches): (u32, u64)| {
        let from = 1_u64 << class;
        let range = if from == 1 { "1".to_owned() } else { format!("{from} to {}", 2 * from - 1) };
        let share = batches as f64 / count as f64;
        Bar {
            value: share,
            text: format!("{range}: {:.0} %", share * 100.0),
            colour: Colour::First,
        }
    };
    classes.into_iter().map(bar).collect()
}

#[expect(clippy::cast_precision_loss, reason = "the length of a bar")]
fn precise(nanos: u64) -> f64 {
    nanos as f64
}
