//! Whether a step's memory is there. The kernel grants more than it has, and ends the process when
//! it is used: too late, and without a word.

use durio_plan::Step;
use durio_stack::{Host, read_host};
use durio_units::Bytes;
use durio_workload::Workload;

use crate::error::RunError;
use crate::recorder::per_operation;

/// Bytes of a latency histogram.
const HISTOGRAM: Bytes = Bytes::from_kib(264);

/// Histograms that exist per job and kind of operation: those of its interval buffers, its total,
/// and the two parts of a latency.
const HISTOGRAMS_PER_KIND: u64 = crate::step::BUFFERS_PER_JOB as u64 + 3;

/// What this process can have now; none if the machine does not show it.
pub(crate) fn available() -> Option<Bytes> {
    available_on(&read_host())
}

fn available_on(host: &Host) -> Option<Bytes> {
    let free = Some(host.memory_available).filter(|free| *free > Bytes::ZERO);
    free.into_iter().chain(host.cgroup.memory_max).min()
}

/// Memory that a step takes while it is measured: blocks in flight, and the latencies of each job.
#[must_use]
pub fn memory_of(step: &Step) -> Bytes {
    let workloads: Vec<_> = step.loads().map(|load| &load.workload).collect();
    needed(step.buffer_bytes(), &workloads)
}

fn needed(buffers: Bytes, workloads: &[&Workload]) -> Bytes {
    let histograms = workloads.iter().map(|workload| histogram_bytes(workload).get());
    Bytes::new(histograms.fold(buffers.get(), u64::saturating_add))
}

/// Refuses a step that needs more than is `available`.
pub(crate) fn check_step(step: &Step, available: Option<Bytes>) -> Result<(), RunError> {
    let workloads: Vec<_> = step.loads().map(|load| &load.workload).collect();
    check(step.buffer_bytes(), &workloads, available)
}

/// Refuses workloads that, with their `buffers`, need more than is `available`.
pub(crate) fn check(
    buffers: Bytes,
    workloads: &[&Workload],
    available: Option<Bytes>,
) -> Result<(), RunError> {
    let need = needed(buffers, workloads);
    let Some(available) = available.filter(|available| need > *available) else { return Ok(()) };
    let name = workloads.first().map_or("the step", |workload| workload.name.as_str());
    let mut error = RunError::unsupported(format!(
        "{name} needs {need} of memory, {buffers} of it for blocks in flight; {available} can be had"
    ));
    error.hint = Some("give a smaller --bs, --depth or --jobs".to_owned());
    Err(error)
}

fn histogram_bytes(workload: &Workload) -> Bytes {
    let kinds = per_operation::<()>(workload).iter().flatten().count() as u64;
    let histograms = kinds * HISTOGRAMS_PER_KIND * u64::from(workload.jobs);
    Bytes::new(HISTOGRAM.get() * histograms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_group_bounds_what_the_machine_has() {
        let mut host = Host::default();
        assert_eq!(available_on(&host), None);
        host.memory_available = Bytes::from_gib(8);
        assert_eq!(available_on(&host), Some(Bytes::from_gib(8)));
        host.cgroup.memory_max = Some(Bytes::from_gib(1));
        assert_eq!(available_on(&host), Some(Bytes::from_gib(1)));
    }
}
