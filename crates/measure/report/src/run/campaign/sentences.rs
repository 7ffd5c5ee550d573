//! The findings of a campaign, in sentences.

use std::fmt::Write as _;

use durio_analyse::campaign::{
    BaselineFindings, CampaignFindings, CampaignRow, Convergence, Curve, LongRun, SectionFindings,
    SheetDelta, SheetFigure, TargetFindings,
};
use durio_analyse::cost_model::{CostModel, Estimate};
use durio_analyse::ladder::limits::LimitKind;
use durio_analyse::ladder::{Knee, LadderFindings, LadderKind, Phases};
use durio_plan::Tracking;

use super::table::{axis_name, limit_name};
use crate::document::LabelledText;
use crate::figures::{
    bandwidth, counted, decimal, deviation, estimate, grouped, mean_latency, percent, rate, size,
};

pub(super) fn curve_facts(section: &SectionFindings, curve: &Curve) -> Vec<LabelledText> {
    let mut facts = Vec::new();
    let label = |level: f64| label(section, curve, level);
    if let Some(ladder) = &curve.ladder {
        facts.push(("phases", phases(&ladder.phases, &curve.axis, &label)));
        // Points beyond the reached rates are not part of a curve, nor are conclusions from them.
        if curve.not_reached_from.is_none() {
            facts.push(("knee", knee(&ladder.knee, ladder.kind)));
            facts.push(("best", best(ladder, &curve.axis, &label)));
        }
        facts.extend(ladder.notes.iter().map(|note| ("note", note.clone())));
    }
    facts.extend(curve.cost.iter().map(|cost| ("cost", cost_line(cost))));
    facts.extend(curve.declined.iter().map(|why| ("not told", why.to_string())));
    facts.extend(curve.not_reached_from.iter().map(|level| {
        let axis = axis_name(&curve.axis);
        let text = format!("from {axis} {} on the offered rate was not reached", level.label);
        ("limit", format!("{text}: those points are left out of the curve"))
    }));
    facts
}

fn label(section: &SectionFindings, curve: &Curve, value: f64) -> String {
    let levels = curve.rows.iter().filter_map(|at| section.rows.get(*at)?.level(&curve.axis));
    let mut same = levels.filter(|level| (level.value - value).abs() <= value.abs() * 1e-9);
    same.next().map_or_else(|| decimal(value), |level| level.label.clone())
}

type Label<'a> = &'a dyn Fn(f64) -> String;

/// The rules for phases and best points, once for all curves.
pub(super) fn ladder_rules(section: &SectionFindings) -> Option<String> {
    let ladder = section.curves.iter().find_map(|curve| curve.ladder.as_ref())?;
    let fit = ladder.saturation.as_ref().map(|fit| format!(" Fit: {}.", fit.criterion));
    Some(format!(
        "Phases: {}. Best points: {}.{}",
        ladder.phases.rule,
        ladder.best.rule,
        fit.unwrap_or_default()
    ))
}

fn phases(phases: &Phases, axis: &str, label: Label<'_>) -> String {
    let axis = axis_name(axis);
    let mut text = match phases.linear_to_level {
        level if level > 0.0 => format!("linear to {axis} {}", label(level)),
        _ => "never linear".to_owned(),
    };
    match phases.saturated_from_level {
        Some(level) => {
            let _ = write!(text, ", saturated from {}", label(level));
        }
        None => text.push_str(", not saturated at the last level"),
    }
    if let Some(back) = phases.retrograde {
        let (peak, loss) = (label(back.peak_level), percent(back.loss_share));
        let levels = counted(back.levels_after as u64, "level");
        let _ = write!(text, ", retrograde after {peak}: {loss} less in the mean of {levels}");
    }
    text
}

// An interval from the least to more than four times that does not locate a bend.
const KNEE_WIDTH_MAX: f64 = 4.0;

fn knee(knee: &Knee, kind: LadderKind) -> String {
    let figure = |units: f64| match kind {
        LadderKind::OfferedRate => rate(units),
        LadderKind::Jobs | LadderKind::Depth => format!("{units:.1}"),
    };
    let what = match kind {
        LadderKind::OfferedRate => "the storage does",
        LadderKind::Jobs | LadderKind::Depth => "parallel units inside the storage:",
    };
    match knee {
        Knee::Measured { units, fitted_low, fitted_high, .. }
            if *fitted_high > KNEE_WIDTH_MAX * fitted_low =>
        {
            format!(
                "{what} {} (highest rate × lowest latency); by their scatter the points do not \
                 say where the curve bends",
                figure(*units)
            )
        }
        Knee::Measured { units, fitted, fitted_low, fitted_high } => format!(
            "{what} {} (highest rate × lowest latency); the fitted curve bends at {} ({} to {})",
            figure(*units),
            figure(*fitted),
            figure(*fitted_low),
            figure(*fitted_high)
        ),
        Knee::AtLeast { units, why } => format!("{what} at least {}: {why}", figure(*units)),
        Knee::CannotTell { why } => format!("cannot tell: {why}"),
    }
}

fn best(ladder: &LadderFindings, axis: &str, label: Label<'_>) -> String {
    let best = &ladder.best;
    let levels: Vec<String> = best.levels.iter().map(|level| label(*level)).collect();
    // A best point at the end of the sweep is only the best that was tried.
    let end = if best.at_ladder_end { "; the last level, more may be worth it" } else { "" };
    format!(
        "{} {}: {} at a mean of {}{end}",
        axis_name(axis),
        levels.join(" and "),
        rate(best.rate_per_second),
        mean_latency(best.latency_ns_mean)
    )
}

fn cost_line(cost: &CostModel) -> String {
    let each = |cost: &Estimate| match cost.is_known() {
        true => format!("{} for each KiB", estimate(cost, 1024.0)),
        false => "too little for a KiB to tell".to_owned(),
    };
    let fixed = estimate(&cost.fixed_ns, 1.0);
    let mut text = format!("{fixed} for each operation and {}", each(&cost.ns_per_byte));
    if let Some(bytes) = cost.break_even_bytes {
        let _ = write!(text, "; at {} both cost the same", size(bytes));
    }
    if let Some(bend) = &cost.bend {
        let above = each(&bend.ns_per_byte_above);
        let _ = write!(text, "; from {} on {above}", size(bend.at_bytes));
    }
    text
}

/// How a long run left its state.
pub(super) fn long_run(section: &SectionFindings, run: &LongRun) -> String {
    let name = section.rows.get(run.row).map_or_else(String::new, row_name);
    let leaving = &run.leaving;
    // A slide has one sentence, steps one each.
    let (changes, rest) = match leaving.drift {
        Some(_) => (Vec::new(), leaving.evidence.as_slice()),
        None => {
            let each = leaving.changes.iter().zip(&run.changes_at);
            let changes: Vec<String> = each.map(|(change, at)| format!(
                "from {at} on the rate is {} in the median, {} before (p = {:.0e}, Pettitt's test)",
                rate(change.after_median),
                rate(change.before_median),
                change.probability
            )).collect();
            (changes, leaving.evidence.get(leaving.changes.len()..).unwrap_or_default())
        }
    };
    let says: Vec<&str> =
        changes.iter().map(String::as_str).chain(rest.iter().map(String::as_str)).collect();
    format!("{name}: {}", says.join("; "))
}

/// What limited the rows, rows with the same limit together: the words, the rows, the evidence of
/// the last of them.
pub(super) fn limits(section: &SectionFindings) -> Vec<(&'static str, String)> {
    let limited = section.rows.iter().filter_map(|row| Some((row.limit.as_ref()?.kind, row)));
    let line = |(kind, rows): (LimitKind, Vec<&CampaignRow>)| {
        let last = *rows.last()?;
        let limit = last.limit.as_ref()?;
        let also: Vec<_> = limit.also.iter().map(|kind| limit_name(*kind)).collect();
        let also = match also.as_slice() {
            [] => String::new(),
            also => format!(" (also: {})", also.join(", ")),
        };
        let at = if rows.len() == 1 {
            row_name(last)
        } else {
            format!("{}, the last of them {}", counted(rows.len() as u64, "row"), row_name(last))
        };
        Some((limit_name(kind), format!("{at}: {}{also}", limit.evidence.join("; "))))
    };
    // An unknown limit is worth a line only where steps can be compared.
    let is_told =
        |(kind, _): &(LimitKind, _)| *kind != LimitKind::CannotTell || !section.curves.is_empty();
    grouped(limited.filter(is_told)).into_iter().filter_map(line).collect()
}

pub(super) fn row_name(row: &CampaignRow) -> String {
    let levels = row.levels.iter();
    let levels: Vec<_> =
        levels.map(|level| format!("{} {}", axis_name(&level.axis), level.label)).collect();
    std::iter::once(row.name.clone()).chain(levels).collect::<Vec<_>>().join(", ")
}

pub(super) fn convergence(found: &Convergence) -> String {
    let figure = match found.tracking {
        Tracking::Iops => "rate",
        Tracking::Bandwidth => "bandwidth",
        Tracking::LatencyMean => "mean latency",
    };
    let judged = match (&found.state, &found.declined) {
        (Some(state), _) => state.sentence.clone(),
        (None, Some(why)) => why.to_string(),
        (None, None) => "not judged".to_owned(),
    };
    format!("{figure} of {}: {judged}", found.tracked)
}

/// A row compared with its baseline.
pub(super) fn baseline(
    campaign: &CampaignFindings,
    row: &CampaignRow,
    it: &BaselineFindings,
) -> String {
    let base = campaign.sections.get(it.baseline_section);
    let target = base.and_then(|section| section.rows.get(it.baseline_row));
    let target = target.map_or("the baseline", |row| row.target.as_str());
    let mut text = format!(
        "{}: {} is {} of {} on {target}",
        row_name(row),
        rate(row.rate),
        percent(it.share_of_raw),
        rate(it.raw_rate_per_second)
    );
    if let Some(added) = it.latency_ns_added {
        let sign = if added < 0.0 { "less" } else { "more" };
        let _ = write!(text, ", {} {sign} latency in the mean", mean_latency(added.abs()));
    }
    if let Some(raid) = &it.raid {
        let _ = write!(
            text,
            "; of what the layout could give {} (device writes only) and {} (reads counted)",
            percent(raid.efficiency),
            percent(raid.efficiency_reads_counted)
        );
    }
    if let Some(penalty) = &it.mirror_penalty {
        let _ = write!(text, "; {}", penalty.sentence);
    }
    if let Some(beside) = &it.mirror_beside {
        let _ = write!(
            text,
            "; its mean is {} times that of the slowest of {} independent draws, its p99 {} times",
            decimal(beside.mean_ratio),
            beside.predicted.copies,
            decimal(beside.p99_ratio)
        );
    }
    for why in it.declined.iter().map(ToString::to_string).chain(it.note.clone()) {
        let _ = write!(text, "; {why}");
    }
    text
}

/// Consequences of the declared facts about a target.
pub(super) fn target_facts(target: &TargetFindings) -> Vec<LabelledText> {
    let mut facts = Vec::new();
    if let Some(model) = &target.raid {
        let (least, most) = (model.failures_survived_min, model.failures_survived_max);
        let failures = match least == most {
            true => format!("{least} failed of {}", model.array.members),
            false => {
                let members = model.array.members;
                format!("any {least} failed of {members}, up to {most} if they are the right ones")
            }
        };
        facts.push(("model", model.sentence.clone()));
        let usable = percent(model.usable_capacity_share);
        facts.push(("survives", format!("{failures}; {usable} of the capacity can be used")));
    }
    facts.extend(target.declined.iter().map(|why| ("not told", why.to_string())));
    if let Some(writes) = target.device_writes_per_write {
        let factors = target.write_factors.iter();
        let factors: Vec<_> = factors
            .map(|factor| format!("{} {}", factor.layer, decimal(factor.writes_per_write)))
            .collect();
        let text = format!(
            "a small write of the application is {} device writes: {}",
            decimal(writes),
            factors.join(" × ")
        );
        facts.push(("writes", text));
    }
    facts.extend(target.sheet.iter().map(|compared| ("sheet", sheet(compared))));
    facts.extend(price(target).map(|text| ("price", text)));
    facts
}

fn sheet(it: &SheetDelta) -> String {
    let (name, shown): (_, fn(f64) -> String) = match it.figure {
        SheetFigure::RandomReadIops => ("random reads", rate),
        SheetFigure::RandomWriteIops => ("random writes", rate),
        SheetFigure::ReadBandwidth => ("sequential reads", bandwidth),
        SheetFigure::WriteBandwidth => ("sequential writes", bandwidth),
    };
    format!(
        "{name}: {} measured, {} specified: {}",
        shown(it.measured),
        shown(it.specified),
        deviation(it.delta_share)
    )
}

fn price(target: &TargetFindings) -> Option<String> {
    let (price, currency) = (target.price?, target.currency.as_deref()?);
    let each = target.per_price.iter().map(|price| {
        format!("{} {} for each {currency}", price.workload, rate(price.rate_per_price))
    });
    let each: Vec<_> = each.collect();
    (!each.is_empty()).then(|| format!("{} {currency}: {}", decimal(price), each.join(", ")))
}

pub(super) fn target_name(target: &TargetFindings) -> String {
    match target.location.is_empty() {
        true => target.target.clone(),
        false => format!("{} at {}", target.target, target.location),
    }
}
