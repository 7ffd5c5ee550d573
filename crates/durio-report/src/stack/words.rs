//! Figures of layers in words, for every format.
//!
//! In: parts of the findings. Out: text and cells. Not here: what stands where.

use durio_analyse::TimeSlices;
use durio_analyse::attribution::{
    DeviceCost, IntervalBasis, LayerRow, MirrorRow, PointFacts, PublishedOrder, RaidFacts,
    RowFigures, StackFindings, Timing, WaterfallStep,
};

use crate::document::Cell;
use crate::figures::{added, decimal, mean_latency, share};

/// How far the ends of the interval are from the rate; `*` marks the range of repeats.
pub(super) fn interval(figures: &RowFigures) -> Cell {
    Cell::or_absent(figures.rate_interval, |interval| {
        let rate = figures.rate_per_second;
        let below = 1.0 - interval.low_per_second / rate;
        let above = interval.high_per_second / rate - 1.0;
        let mark = match interval.basis {
            IntervalBasis::Repeats => "*",
            IntervalBasis::Batches => "",
        };
        Cell::text(format!("±{:.1} %{mark}", below.max(above) * 100.0))
    })
}

/// Said under a table of rates.
pub(super) const INTERVAL_NOTE: &str = "per s: commits per second where there are any, else accesses. \
     ±: 95 % from batches of one run, in which what differs between runs is not; * the farthest of \
     the repeats. of raw, of below: rate as a share of that of the raw storage and of the layer just \
     below. p50: median service latency; + p50, + p99: what the layer adds to the median and to the \
     99th percentile of the one just below.";

/// Said under a table of costs.
pub(super) const COST_NOTE: &str = "time/op: 1 ÷ rate. CPU/op, switches: processor time and context \
     switches of the jobs (waits and preemptions) per operation; + CPU, + sw.: what the layer adds to \
     the one just below. dev. writes, dev. bytes: what the devices at the bottom were given per write \
     and byte of the application (†: of operations that were traced one at a time, for the devices \
     count nothing); flushes: per sync call.";

/// Said under a table of published shares.
pub(super) const PUBLISHED_NOTE: &str = "published of raw, measured of raw: rate as a share of that \
     of the raw storage, there and here. ×: measured ÷ published.";

/// Device writes per write, bytes per byte and flushes per sync call.
pub(super) fn device_cells(figures: &RowFigures) -> [Cell; 3] {
    let traced = |it: f64| Cell::text(format!("{}†", decimal(it)));
    match figures.devices {
        None => [Cell::Absent(""), Cell::Absent(""), Cell::Absent("")],
        Some(DeviceCost::CannotTell { .. }) => {
            [Cell::text("cannot tell"), Cell::text("cannot tell"), Cell::Absent("")]
        }
        Some(DeviceCost::Counted { writes_per_write, bytes_per_byte, flushes_per_sync_call }) => [
            Cell::Number(writes_per_write),
            Cell::Number(bytes_per_byte),
            Cell::or_absent(flushes_per_sync_call, Cell::Number),
        ],
        Some(DeviceCost::Traced { writes_per_write, bytes_per_byte }) => {
            [traced(writes_per_write), traced(bytes_per_byte), Cell::Absent("")]
        }
    }
}

/// The point of a row.
pub(super) fn point<'f>(findings: &'f StackFindings, row: &LayerRow) -> Option<&'f PointFacts> {
    findings.points.get(row.point)
}

/// The layer, with its stack where others have a layer of that name.
pub(super) fn row_name(findings: &StackFindings, at: usize) -> String {
    let Some(point) = findings.points.get(at) else { return String::new() };
    let same = findings.points.iter().filter(|other| other.name == point.name).count();
    match same {
        0 | 1 => point.name.clone(),
        _ => format!("{} [{}]", point.name, point.stack),
    }
}

/// What was looked at, in one line.
pub(super) fn head(findings: &StackFindings) -> String {
    let stacks = findings.points.iter().enumerate().filter(|(at, point)| {
        findings.points.iter().take(*at).all(|before| before.stack != point.stack)
    });
    let timing = match findings.timing {
        None => "on this machine".to_owned(),
        Some(Timing::Counted) => "in the lab, counted".to_owned(),
        Some(Timing::Wall) => "in the lab, by the wall clock".to_owned(),
    };
    let stacks = crate::figures::counted(stacks.count() as u64, "stack");
    let points = crate::figures::counted(findings.points.len() as u64, "point");
    format!("{stacks}, {points}, {timing}, kernel {}", findings.kernels.join(", "))
}

/// Why a row, or a part of it, is to be read with care: one line each.
pub(super) fn remarks(findings: &StackFindings, row: &LayerRow) -> Vec<String> {
    let name = row_name(findings, row.point);
    let mut lines: Vec<String> = Vec::new();
    lines.extend(row.absent.iter().map(|why| format!("{name}: no figures: {why}")));
    let Some(figures) = &row.figures else { return lines };
    lines.extend(figures.remarks.iter().map(|remark| format!("{name}: {remark}")));
    lines
}

/// Why device writes cannot be told, each reason with the rows that it is of.
pub(super) fn untold(findings: &StackFindings, rows: &[LayerRow]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for row in rows {
        let Some(DeviceCost::CannotTell { why }) =
            row.figures.as_ref().and_then(|it| it.devices.as_ref())
        else {
            continue;
        };
        let name = row_name(findings, row.point);
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    let line = |(why, names): (&str, Vec<String>)| {
        format!("device writes: cannot tell of {}: {why}", names.join(", "))
    };
    reasons.into_iter().map(line).collect()
}

/// What an array survives.
pub(super) fn survives(facts: &RaidFacts) -> String {
    let further = if facts.degraded_members > 0 { " more" } else { "" };
    match (facts.failures_left_min, facts.failures_left_max) {
        (least, most) if least == most => format!("{least}{further}"),
        (least, most) => format!("{least} to {most}{further}"),
    }
}

/// What a mirror says, in sentences.
pub(super) fn mirror(name: &str, row: &MirrorRow) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(beside) = &row.beside {
        let (slowest, measured) = (&beside.predicted.slowest, &beside.measured);
        lines.push(format!(
            "{name}: the slower of {} independent draws from the single device would take {} on \
             average and {} at p99; measured {} and {}: {} and {} times that",
            beside.predicted.copies,
            mean_latency(slowest.latency_ns_mean),
            crate::figures::latency(slowest.latency_ns_p99),
            mean_latency(measured.latency_ns_mean),
            crate::figures::latency(measured.latency_ns_p99),
            decimal(beside.mean_ratio),
            decimal(beside.p99_ratio),
        ));
    }
    lines.extend(row.penalty.iter().map(|it| format!("{name}: {}", it.sentence)));
    lines.extend(row.remark.iter().map(|it| format!("{name}: {it}")));
    lines
}

/// Where the time went, in one line.
pub(super) fn slices(name: &str, slices: &TimeSlices) -> String {
    let passed = slices.slices.iter().filter(|it| it.mean_ns > 0.0);
    let mut parts: Vec<String> =
        passed.map(|it| format!("{} {}", it.stretch.words(), mean_latency(it.mean_ns))).collect();
    parts.push(format!("{} of it on no processor", share(slices.off_cpu_share)));
    format!("{name}: {} ({} traced)", parts.join(", "), slices.operations)
}

/// A step of a waterfall in words.
pub(super) fn step(at: usize, step: &WaterfallStep) -> String {
    match at {
        0 => format!("{} {}", step.layer, mean_latency(step.total_ns)),
        _ => format!("{} {}", added(step.added_ns), step.layer),
    }
}

/// Over what was published; counted figures never stand there without their label.
pub(super) fn published_title(findings: &StackFindings, order: &PublishedOrder) -> String {
    let title = format!("Beside what was published: {}", order.sources.join(", "));
    match &findings.label {
        Some(label) => format!("{title} (measured here: {label})"),
        None => title,
    }
}
