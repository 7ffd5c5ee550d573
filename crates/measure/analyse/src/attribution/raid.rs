//! Compares arrays with their layout's model, degraded arrays with whole ones, and mirrors with the
//! slowest of as many single devices. The models are in [`raid_efficiency`](crate::raid_efficiency)
//! and [`mirror`](crate::mirror).
//!
//! The model of a layout counts as many drives as the array has. If fewer were measured, their rate
//! is multiplied, unless the processor is the limit: then more drives give no more. A member of a
//! mirror has in flight the hosts' operations times the copies, divided by the members; the single
//! device's latencies predict the mirror's only if it had as many.

use durio_workload::Pattern;

use super::findings::{MirrorRow, RaidRow};
use super::points::{RaidPoint, StackPoint, WorkloadMeasurement, WorkloadTable};
use crate::campaign::baseline::drives_in_words;
use crate::mirror::{Penalty, compare_with_prediction, penalty};
use crate::raid_efficiency::{ArrayRates as Rates, MemberLayout, efficiency};

/// The row of the array at a point; `None` if it was not measured.
pub(super) fn raid_row(
    table: &WorkloadTable<'_>,
    at: usize,
    raid: RaidPoint,
    raw: Option<usize>,
) -> Option<RaidRow> {
    let measured = table.at(at)?;
    Some(match raid.degraded_members {
        0 => whole(table, measured, raid, raw)
            .unwrap_or_else(|declined| RaidRow { declined: Some(declined), ..RaidRow::default() }),
        _ => degraded(table, at, measured, raid),
    })
}

fn whole(
    table: &WorkloadTable<'_>,
    measured: &WorkloadMeasurement<'_>,
    raid: RaidPoint,
    raw: Option<usize>,
) -> Result<RaidRow, String> {
    // Sequential writes fill whole stripes, for which no parity is read.
    let definition = &measured.row.definition;
    if definition.pattern != Pattern::Random {
        return Err("the model covers small random operations only".to_owned());
    }
    let raw = raw.ok_or("no raw storage was measured with this workload")?;
    let (raw_rate, processor_bound, basis) = raw_rate(table, raw, measured, raid.array.members)?;
    let rates = Rates {
        array_rate_per_second: measured.rate(),
        raw_rate_per_second: raw_rate,
        read_share: f64::from(definition.read_share.0) / 1000.0,
    };
    let found = efficiency(raid.array, rates).map_err(|declined| declined.to_string())?;
    let share = |expected: f64| Some(expected / raw_rate);
    Ok(RaidRow {
        raw_rate_per_second: Some(raw_rate),
        share_of_drives: Some(found.share_of_raw),
        processor_bound,
        basis: Some(basis),
        theoretical_share: share(found.expected_rate_per_second),
        efficiency: Some(found.efficiency),
        theoretical_share_reads_counted: share(found.expected_rate_per_second_reads_counted),
        efficiency_reads_counted: Some(found.efficiency_reads_counted),
        ..RaidRow::default()
    })
}

/// The raw rate of the array's drives, whether the processor limits it, and its basis in words.
fn raw_rate(
    table: &WorkloadTable<'_>,
    at: usize,
    array: &WorkloadMeasurement<'_>,
    members: u32,
) -> Result<(f64, bool, String), String> {
    let raw = table.measured.get(at).ok_or("there is no such point")?.as_ref()?;
    let drives = raw.row.drives().max(1);
    let measured = drives_in_words(drives);
    if drives < members && is_processor_bound(table, at, raw) {
        let basis = format!(
            "raw rate of {measured}, not multiplied by {members}: the CPU limits it, so more \
             drives do not help"
        );
        return Ok((raw.rate(), true, basis));
    }
    let mut basis = format!("raw rate of {measured}");
    if drives != members {
        basis = format!("{basis}, multiplied by {members} ÷ {drives}");
    }
    let (own, other) = (raw.offered() / f64::from(drives), array.offered() / f64::from(members));
    if (other - own).abs() > 1e-9 {
        basis = format!(
            "{basis}, with {own:.2} operations in flight per drive; the array had {other:.2}"
        );
    }
    Ok((raw.rate() * (f64::from(members) / f64::from(drives)), false, basis))
}

/// From this share of the processors that it could use, a load is taken to be limited by them.
const BUSY_SHARE: f64 = 0.9;

/// True if the jobs kept as many processors busy as they could have.
fn is_processor_bound(table: &WorkloadTable<'_>, at: usize, raw: &WorkloadMeasurement<'_>) -> bool {
    let cpu = &raw.row.cpu;
    let busy = cpu.user_cores + cpu.system_cores + cpu.workers_cores.unwrap_or_default();
    // Repeats of a point are made on one machine.
    let host = table.points.get(at).and_then(|point| point.runs.first()).map(|run| &run.host);
    let cores = host.into_iter().flat_map(|host| [host.cpus_allowed, host.cpus_online]);
    let cores = cores.filter(|cores| *cores > 0).min();
    // A job is one thread: it cannot use more processors than there are jobs.
    let jobs = raw.row.effective.jobs;
    let usable = cores.map_or(jobs, |cores| cores.min(jobs));
    busy >= BUSY_SHARE * f64::from(usable.max(1))
}

fn degraded(
    table: &WorkloadTable<'_>,
    at: usize,
    measured: &WorkloadMeasurement<'_>,
    raid: RaidPoint,
) -> RaidRow {
    let healthy = healthy_of(table.points, at, raid);
    let whole = healthy.as_ref().ok().and_then(|at| table.at(*at));
    let removed = raid.degraded_members;
    let members = raid.array.members;
    let without = |why: &str| {
        format!(
            "the model is for complete arrays, but {removed} of {members} members are removed; \
             {why}"
        )
    };
    RaidRow {
        share_of_healthy: whole.map(|whole| measured.rate() / whole.rate()),
        declined: Some(match (&healthy, whole) {
            (Err(why), _) => without(why),
            (Ok(_), None) => without("the complete array has no results"),
            (Ok(_), Some(_)) => without("it is compared with the complete one"),
        }),
        healthy: healthy.ok(),
        ..RaidRow::default()
    }
}

/// The same array whole: of the stack, or the only one of the bench.
fn healthy_of(
    points: &[StackPoint<'_>],
    at: usize,
    raid: RaidPoint,
) -> Result<usize, &'static str> {
    let own = points.get(at).ok_or("there is no such point")?;
    let is_whole = |point: &StackPoint<'_>| {
        point.base == own.base
            && point
                .raid
                .is_some_and(|array| array.array == raid.array && array.degraded_members == 0)
    };
    let whole: Vec<(usize, &StackPoint<'_>)> =
        points.iter().enumerate().filter(|(_, point)| is_whole(point)).collect();
    let of_stack = whole.iter().find(|(_, point)| point.stack == own.stack);
    match (of_stack, whole.as_slice()) {
        // The same stack comes first: another stack may have been measured hours before.
        (Some((at, _)), _) | (None, [(at, _)]) => Ok(*at),
        (None, []) => Err("the complete array was not measured"),
        (None, [..]) => Err("several complete arrays have this layout"),
    }
}

/// The row of a whole mirror that is only written to; `None` of anything else.
pub(super) fn mirror_row(
    table: &WorkloadTable<'_>,
    at: usize,
    raid: RaidPoint,
    raw: Option<usize>,
) -> Option<MirrorRow> {
    let (MemberLayout::Raid1 { copies } | MemberLayout::Raid10 { copies }) = raid.array.layout
    else {
        return None;
    };
    let (measured, raw) = (table.at(at)?, table.at(raw?)?);
    let found = measured.row.found;
    // A read waits for one copy, so that a mix would take less than the maximum of two draws.
    let compares = raid.degraded_members == 0 && !found.definition.reads();
    // In an open loop the arrivals determine the time per write, not in flight ÷ rate.
    if !compares || found.open_loop.is_some() {
        return None;
    }
    let per_member = measured.offered() * f64::from(copies) / f64::from(raid.array.members.max(1));
    let per_drive = raw.offered() / f64::from(raw.row.drives().max(1));
    // Quotients of small whole numbers: equal ones differ in the last bit at most.
    let alike = (per_member - per_drive).abs() < 1e-9;
    let row = MirrorRow {
        penalty: if alike { penalty_of(measured, raw, copies) } else { None },
        beside: compare_with_prediction(&raw.row.latency_counts(), &found.latency_counts(), copies)
            .ok(),
        remark: (!alike).then(|| {
            format!(
                "each member has {per_member:.2} writes in flight, the single device had \
                 {per_drive:.2}: part of the difference is queueing"
            )
        }),
    };
    (row.penalty.is_some() || row.beside.is_some()).then_some(row)
}

/// Time per write is operations in flight ÷ rate.
fn penalty_of(
    mirror: &WorkloadMeasurement<'_>,
    raw: &WorkloadMeasurement<'_>,
    copies: u32,
) -> Option<Penalty> {
    let in_mirror = mirror.rate() / mirror.offered();
    penalty(raw.rate() / raw.offered(), in_mirror, copies).ok()
}
