//! The evidence of what limited a row.

use durio_base::stats::least_squares::float;
use durio_plan::EngineKind;
use durio_workload::CacheMode;

use super::CampaignInput;
use super::curve::Curve;
use super::row::{CampaignRow, RowGroup};
use crate::ladder::limits::{ComparedStep, StepEvidence, limit_of};
use crate::{SelfCost, WorkloadFindings};

/// Sets the limit of each row that ran alone: concurrent loads limit each other.
pub(super) fn set_limits(
    measured: &CampaignInput<'_>,
    rows: &mut [CampaignRow],
    groups: &[RowGroup<'_>],
    curves: &[Curve],
) {
    let mut lower = vec![(None, None); rows.len()];
    for curve in curves {
        let steps: Vec<_> = curve.rows.iter().map(|at| rows.get(*at).and_then(compared)).collect();
        let before = std::iter::once(None).chain(steps.iter().copied());
        for (at, before) in curve.rows.iter().zip(before) {
            // A level alone has nothing to be compared with but itself.
            // Rows stand by rising load: the first is the nearest to an idle storage that there is.
            let unloaded = steps.first().copied().flatten().filter(|_| steps.len() > 1);
            if let Some(place) = lower.get_mut(*at) {
                *place = (before, unloaded);
            }
        }
    }
    for ((row, group), (lower, unloaded)) in rows.iter_mut().zip(groups).zip(lower) {
        let step = measured.plan.steps.get(row.step as usize);
        if step.is_none_or(|step| step.beside.is_empty()) {
            let known = of_workload(&group.middle(), measured);
            let mut known = of_row(row, known, lower, unloaded);
            // The number of random arrivals differed a little from the offer: the started ones
            // count.
            if let Some(open) = group.middle().open_loop.filter(|open| open.keeps_up()) {
                known.rate_per_second = Some(open.offered_per_second * open.started_share);
            }
            row.limit = Some(limit_of(&known));
        }
    }
}

/// Operations at once that a row's load stands for: of an open loop, those that there were.
fn in_flight(row: &CampaignRow) -> f64 {
    if row.open_loop.is_some() { row.in_flight_mean } else { row.in_flight_offered }
}

fn compared(row: &CampaignRow) -> Option<ComparedStep> {
    Some(ComparedStep {
        in_flight: in_flight(row),
        rate_per_second: row.rate,
        latency_ns_mean: row.service?.mean_ns,
    })
}

fn of_row(
    row: &CampaignRow,
    known: StepEvidence,
    lower: Option<ComparedStep>,
    unloaded: Option<ComparedStep>,
) -> StepEvidence {
    StepEvidence {
        jobs: Some(row.jobs),
        in_flight_offered: Some(in_flight(row)),
        in_flight_mean: Some(row.in_flight_mean),
        rate_per_second: Some(row.rate),
        latency_ns_mean: row.service.map(|service| service.mean_ns),
        offered_rate_per_second: row.open_loop.map(|open| open.offered_per_second),
        // An open loop has no depth that could be too small.
        unloaded: unloaded.filter(|_| row.open_loop.is_none()),
        lower,
        bytes_per_second: Some(row.bandwidth),
        ..known
    }
}

/// Evidence from the machine and the device; virtual time gives none.
fn of_workload(workload: &WorkloadFindings, measured: &CampaignInput<'_>) -> StepEvidence {
    if workload.effective.engine == EngineKind::Null {
        return StepEvidence::default();
    }
    StepEvidence {
        device_busy_share: busy_share(workload),
        job_cpu_shares: workload.cpu.job_shares.clone(),
        machine_system_share: workload.cpu.machine_system_share,
        generator_ns_per_operation: own_cost(workload, measured.self_cost),
        memory_bytes_per_second: memory(workload, measured),
        ..StepEvidence::default()
    }
}

/// Bytes of I/O per second that the memory would take.
// A buffered byte is copied once; a direct byte only crosses the memory, which moves twice the
// bytes that it copies.
fn memory(workload: &WorkloadFindings, measured: &CampaignInput<'_>) -> Option<f64> {
    let copied = float(measured.memory_copied?.copied_per_second.get());
    Some(match workload.effective.cache {
        CacheMode::Buffered => copied,
        CacheMode::Direct => 2.0 * copied,
    })
}

/// That of the busiest device; its counters cover the whole step.
fn busy_share(workload: &WorkloadFindings) -> Option<f64> {
    let counting = workload.devices.iter().filter(|device| !device.not_counted);
    // Time with a request in flight (Documentation/block/stat.rst): a device that works on several
    // at once is not full when it is busy all the time.
    let busiest = counting.map(|device| device.io_ms).max()?;
    let share = float(busiest) / 1000.0 / workload.counted_seconds();
    share.is_finite().then_some(share.min(1.0))
}

/// durio's cost with the same engine, at the nearest depth.
fn own_cost(workload: &WorkloadFindings, self_cost: &[SelfCost]) -> Option<f64> {
    let same = self_cost.iter().filter(|cost| cost.engine == workload.effective.engine);
    // Operations in flight share calls: cost per operation falls with the depth, so it is not a
    // constant of the engine.
    let nearest = same.min_by_key(|cost| cost.depth.abs_diff(workload.effective.depth))?;
    Some(nearest.per_operation_ns)
}
