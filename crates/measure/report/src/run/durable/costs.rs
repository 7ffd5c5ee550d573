//! The cost of a write, a sync and a flush: models of size, of shared syncs, of dirty data.
//!
//! Makes sections from findings; the fits are theirs.

use durio_analyse::DeclinedAnalysis;
use durio_analyse::durable::{
    DeviationKind, DurableFindings, FlushSlopeFindings, ModelDeviation, SharedSync, SizeCurve,
    SlopeShape,
};

use super::{charts, method_words, part, tables, warn};
use crate::document::{LabelledText, Section};
use crate::figures::{bandwidth, decimal, estimate, percent, size};

pub(super) fn sizes(found: &DurableFindings) -> Section {
    let summary = "One writer, by the size of its writes. The time of a durable write is taken as a \
                   fixed cost + size ÷ bandwidth; intervals cover 95 %.";
    let mut part = part("Sizes", summary);
    let Some(sizes) = &found.sizes else { return part };
    tables::with_noise_note(tables::sizes(sizes), &mut part);
    for curve in sizes.curves.iter().filter(|it| it.setting.is_durable()) {
        part.facts(of_curve(curve));
    }
    if sizes.free_at_small_sizes == Some(true) {
        let text = "small durable writes keep nearly all of the unsynced bandwidth: durability seems \
                    to cost nothing, as where a storage acknowledges too early; compare the flushes";
        warn(&mut part, text.to_owned());
    }
    part.charts([charts::costs(sizes)]);
    part
}

fn of_curve(curve: &SizeCurve) -> Vec<LabelledText> {
    let name = method_words(&curve.setting);
    let Some(model) = &curve.model else {
        return curve.declined.iter().map(|it| no_model(&name, it)).collect();
    };
    let fixed = estimate(&model.fixed_ns, 1.0);
    let speed = curve.bandwidth_bytes_per_second.and_then(|it| match (it.low, it.high) {
        (Some(low), Some(high)) => {
            Some(format!("{} ({} to {})", bandwidth(it.value?), bandwidth(low), bandwidth(high)))
        }
        // The cost per byte may be zero within its interval: then bandwidth has no upper end.
        (Some(low), None) => Some(format!("at least {}", bandwidth(low))),
        _ => it.value.map(bandwidth),
    });
    let speed = speed.unwrap_or_else(|| "no bandwidth to be told".to_owned());
    let mut said = vec![("cost", format!("{name}: {fixed} + size ÷ {speed}"))];
    said.extend(curve.deviations.iter().map(|it| ("but", format!("{name}: {}", misfit(it)))));
    if let Some(batching) = &curve.batching {
        let shares = batching.for_shares.iter().map(|it| {
            let beyond = if it.is_extrapolated { " (beyond what was measured)" } else { "" };
            format!("{} for {:.0} %{beyond}", size(it.size_bytes), it.share * 100.0)
        });
        let shares: Vec<String> = shares.collect();
        said.push(("batch", format!("{name}: {} of the bandwidth", shares.join(", "))));
        let alone = batching.of_records.iter();
        let alone = alone.map(|it| format!("{} {}", size(it.size_bytes), percent(it.share)));
        let alone: Vec<String> = alone.collect();
        let words = format!("{name}: each record alone reaches {}", alone.join(", "));
        said.push(("alone", format!("{words} of the bandwidth")));
        let factors = batching.unbatched.iter();
        let factors =
            factors.map(|it| format!("{} × for {}", decimal(it.factor), size(it.record_bytes)));
        let factors: Vec<String> = factors.collect();
        if !factors.is_empty() {
            let against = size(batching.batch_bytes);
            let words = format!("{name}: {}; against batches of {against}", factors.join(", "));
            said.push(("without", words));
        }
    }
    said
}

fn no_model(name: &str, reason: &DeclinedAnalysis) -> LabelledText {
    ("no model", format!("{name}: {reason}"))
}

fn misfit(it: &ModelDeviation) -> String {
    let near: Vec<String> = it
        .near
        .iter()
        .map(|near| format!("{} of {} ({})", near.kind.words(), near.layer, size(near.size_bytes)))
        .collect();
    let why = match near.is_empty() {
        true => "no known kernel limit at this size; a device's own cache shows none".to_owned(),
        false => format!("{} lies there", near.join(", ")),
    };
    match it.kind {
        DeviationKind::Bend { from_bytes, to_bytes, factor } => format!(
            "between {} and {} the cost per byte changes by a factor of {}: {why}",
            size(from_bytes),
            size(to_bytes),
            decimal(factor)
        ),
        DeviationKind::Residual { size_bytes, share } => format!(
            "writes of {} take {} {} than the model says: {why}",
            size(size_bytes),
            percent(share.abs()),
            if share > 0.0 { "longer" } else { "shorter" }
        ),
    }
}

pub(super) fn sync_every(found: &DurableFindings) -> Section {
    let summary = "A sync after every N writes: the time of the writer per write, its share of the \
                   sync in it.";
    let mut part = part("Shared syncs", summary);
    part.table(tables::sync_every(&found.sync_every));
    for it in &found.sync_every {
        let name = it.rows.first().map(|row| method_words(&row.arm.setting)).unwrap_or_default();
        part.facts(it.line.iter().map(|line| ("cost", shared(&name, line))));
        part.facts(it.declined.iter().map(|reason| no_model(&name, reason)));
    }
    part
}

fn shared(name: &str, line: &SharedSync) -> String {
    let holds = match line.residual_share_max > 0.25 {
        true => format!("; it errs by up to {}", percent(line.residual_share_max)),
        false => String::new(),
    };
    let write = match line.write_ns.is_known() {
        true => estimate(&line.write_ns, 1.0),
        false => "of next to nothing".to_owned(),
    };
    format!("{name}: a write {write} + a sync {} ÷ N{holds}", estimate(&line.sync_ns, 1.0))
}

pub(super) fn slopes(found: &DurableFindings) -> Section {
    let summary = "The time of one flush against the data that was written before it. A volatile \
                   cache that is written back makes it rise; evidence, no verdict.";
    let mut part = part("Flush slope", summary);
    part.table(tables::flush_slopes(&found.flush_slopes));
    part.facts(found.flush_slopes.iter().filter_map(slope));
    part.charts([charts::slopes(found)]);
    part
}

fn slope(found: &FlushSlopeFindings) -> Option<LabelledText> {
    let name = method_words(&found.setting);
    let Some(slope) = &found.slope else {
        return found.declined.as_ref().map(|reason| no_model(&name, reason));
    };
    let at = slope
        .flush_bytes_per_second
        .map_or_else(String::new, |it| format!("; that is {} of dirty data", bandwidth(it)));
    let (first, each) = (&slope.intercept_ns, &slope.ns_per_mib);
    let alone = first.is_known().then(|| estimate(first, 1.0));
    let text = match (slope.shape == SlopeShape::Rises, alone) {
        (true, Some(alone)) => format!("{alone} + {} per MiB{at}", estimate(each, 1.0)),
        (true, None) => format!("{} per MiB{at}", estimate(each, 1.0)),
        (false, Some(alone)) => format!("{alone}, whatever was written before"),
        (false, None) => "no longer after much data than after little".to_owned(),
    };
    Some((slope.shape.words(), format!("{name}: {text}")))
}
