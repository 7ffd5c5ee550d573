//! Whether a step's memory is there, and the rate at which this machine copies it.
//!
//! The kernel grants more than it has, and ends the process when it is used: too late, and without a
//! word. Buffered I/O cannot be faster than a copy: [`MemoryMeasured`] comes from all processors that
//! the process may use, at once.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use durio_base::Bytes;
use durio_observe::{Host, read_host};
use durio_plan::{EngineKind, Plan, Step};
use durio_record::MemoryMeasured;
use durio_workload::Workload;

use crate::error::RunError;
use crate::recorder::{BucketCounts, per_operation};

/// Histograms that exist per job and kind of operation: those of its interval buffers, and the two
/// parts of a latency. Its total is sparse.
const HISTOGRAMS_PER_KIND: u64 = crate::step::BUFFERS_PER_JOB as u64 + 2;

// In addition to its latencies: a job's thread has a stack, its tables in the kernel and a ring.
const JOB: Bytes = Bytes::from_kib(64);

// A smaller need is not reported.
const LARGE: Bytes = Bytes::from_mib(1024);

/// What this process can have now; none if the machine does not show it.
pub(crate) fn available() -> Option<Bytes> {
    available_on(&read_host())
}

fn available_on(host: &Host) -> Option<Bytes> {
    let free = Some(host.memory_available).filter(|free| *free > Bytes::ZERO);
    // A container's bound is not in /proc/meminfo.
    free.into_iter().chain(host.cgroup.memory_max).min()
}

/// The step of a plan that takes most memory, how much that is at most, and how much can be had now;
/// none if it is little. Those that fio runs take none of ours.
pub fn large_step(plan: &Plan) -> Option<(&Step, Bytes, Option<Bytes>)> {
    let is_ours = |step: &&Step| step.loads().all(|load| load.engine != EngineKind::Fio);
    let steps = plan.steps.iter().filter(is_ours).map(|step| (step, memory_of(step)));
    let (step, need) = steps.max_by_key(|(_, need)| *need)?;
    is_large(need).then(|| (step, need, available()))
}

fn is_large(need: Bytes) -> bool {
    need > LARGE
}

/// Memory that a step takes while it is measured: blocks in flight, and the latencies of each job.
/// Those take a page for each stretch of latencies that occur, so most steps take far less.
pub fn memory_of(step: &Step) -> Bytes {
    let workloads: Vec<_> = step.loads().map(|load| &load.workload).collect();
    needed(step.buffer_bytes(), &workloads)
}

fn needed(buffers: Bytes, workloads: &[&Workload]) -> Bytes {
    let of_jobs = |workload: &&Workload| {
        histogram_bytes(workload).get() + JOB.get() * u64::from(workload.jobs)
    };
    let jobs = workloads.iter().map(of_jobs);
    Bytes::new(jobs.fold(buffers.get(), u64::saturating_add))
}

/// Refuses a step that needs more than is `available`.
pub(crate) fn check_step(step: &Step, available: Option<Bytes>) -> Result<(), RunError> {
    let workloads: Vec<_> = step.loads().map(|load| &load.workload).collect();
    check(step.buffer_bytes(), &workloads, available)
}

/// True if a step can be made ready while another is still measured.
pub(crate) fn is_room_for_both(step: &Step, measured: &Step, available: Option<Bytes>) -> bool {
    // Both are held until the first has ended.
    let both = memory_of(step).get().saturating_add(memory_of(measured).get());
    available.is_none_or(|available| both <= available.get())
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
    let error = RunError::unsupported(format!(
        "{name} needs {need} of memory, {buffers} of it for blocks in flight, but only {available} is available"
    ));
    Err(error.hint("use a smaller --bs, --depth or --jobs"))
}

fn histogram_bytes(workload: &Workload) -> Bytes {
    let kinds = per_operation::<()>(workload).iter().flatten().count() as u64;
    let histograms = kinds * HISTOGRAMS_PER_KIND * u64::from(workload.jobs);
    Bytes::new(BucketCounts::BYTES * histograms)
}

// Per processor and direction: with its copy larger than a core's caches, and on a machine with
// many cores together larger than the last one.
const BUFFER: usize = 16 << 20;

/// So long is copied; a copy of a buffer takes some milliseconds.
const SPAN: Duration = Duration::from_millis(60);

/// The buffers may take this part of the available memory.
const MEMORY_PART: u64 = 8;

/// Copies for a moment; none if the memory for it is not there.
pub(crate) fn measure_bandwidth() -> Option<MemoryMeasured> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let need = (2 * BUFFER as u64).saturating_mul(threads as u64);
    if available().is_none_or(|available| need > available.get() / MEMORY_PART) {
        return None;
    }
    let begin = Barrier::new(threads);
    let rates = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| copy(&begin))).collect();
        workers.into_iter().map(|worker| worker.join().ok()).collect::<Option<Vec<f64>>>()
    })?;
    let copied_per_second: f64 = rates.iter().sum();
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2⁶³")]
    let copied = Bytes::new(copied_per_second as u64);
    (copied > Bytes::ZERO).then_some(MemoryMeasured { threads, copied_per_second: copied })
}

/// Bytes that one thread copies per second while all do.
#[expect(clippy::cast_precision_loss, reason = "far below 2⁵³ bytes")]
fn copy(begin: &Barrier) -> f64 {
    let from = vec![1_u8; BUFFER];
    let mut to = vec![2_u8; BUFFER];
    // Touched before: the kernel's zeroing of new pages is not copying.
    begin.wait();
    let started = Instant::now();
    let mut copies = 0_u32;
    while started.elapsed() < SPAN {
        // Otherwise the optimiser would find that the copy is never read.
        black_box(&mut to).copy_from_slice(black_box(&from));
        copies += 1;
    }
    BUFFER as f64 * f64::from(copies) / started.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use durio_base::Nanos;
    use durio_plan::{ClockChoice, Limit, Load, PLAN_SCHEMA, Purpose, Role};
    use durio_workload::{PerMille, self_cost_workload};

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

    fn jobs(jobs: u32, read_share: PerMille) -> Workload {
        Workload { jobs, read_share, ..self_cost_workload(4) }
    }

    #[test]
    fn each_job_takes_64_kib_and_five_histograms_of_330_kib_for_each_kind_of_operation() {
        let (reads, both) = (jobs(3, PerMille(1000)), jobs(2, PerMille(500)));
        let of = |kinds: u64| 1024 * (64 + kinds * 5 * 330);
        assert_eq!(needed(Bytes::new(77), &[&reads]), Bytes::new(77 + 3 * of(1)));
        // Writes of this one have neither syncs nor commits.
        assert_eq!(needed(Bytes::ZERO, &[&reads, &both]), Bytes::new(3 * of(1) + 2 * of(2)));
    }

    #[test]
    fn a_step_is_refused_from_the_first_byte_that_is_not_there() {
        let reads = jobs(1, PerMille(1000));
        let check = |available| {
            let checked = check(Bytes::new(4096), &[&reads], available);
            checked.map_err(|error| error.to_string())
        };
        let need = 4096 + 1024 * (64 + 5 * 330);
        assert_eq!((check(None), check(Some(Bytes::new(need)))), (Ok(()), Ok(())));
        let refusal = check(Some(Bytes::new(need - 1))).unwrap_err();
        let expected = format!("self needs {} of memory, 4 KiB of it", Bytes::new(need));
        assert!(refusal.starts_with(&expected), "{refusal}");
    }

    #[test]
    fn more_than_1_gib_is_told_before_it_is_taken() {
        let of = |bytes| is_large(Bytes::new(bytes));
        assert_eq!((of(1_073_741_824), of(1_073_741_825)), (false, true));
    }

    #[test]
    fn all_processors_copy_at_a_rate_that_a_machine_can_have() {
        let measured = measure_bandwidth().unwrap();
        assert!(measured.threads >= 1);
        // From a slow, shared guest to more than any machine of several sockets.
        let range = Bytes::from_mib(50)..Bytes::from_gib(10_000);
        assert!(range.contains(&measured.copied_per_second), "{measured:?}");
    }

    fn step(engine: EngineKind, mib: u64, depth: u32) -> Step {
        let block_size = Bytes::from_mib(mib);
        let workload = Workload { block_size, depth, ..self_cost_workload(1) };
        let load = Load::new(0, workload, engine);
        Step::new(Role::Measure, load, Limit::Operations(1), Nanos::from_secs(1))
    }

    #[test]
    fn two_steps_are_made_ready_together_up_to_the_last_byte_that_there_is() {
        let (one, other) = (step(EngineKind::Null, 1, 4), step(EngineKind::Null, 2, 32));
        let of = |mib: u64| (mib << 20) + 1024 * (64 + 5 * 330);
        assert_eq!((memory_of(&one).get(), memory_of(&other).get()), (of(4), of(64)));
        let both = of(4) + of(64);
        assert!(is_room_for_both(&one, &other, None));
        assert!(is_room_for_both(&one, &other, Some(Bytes::new(both))));
        assert!(!is_room_for_both(&one, &other, Some(Bytes::new(both - 1))));
        assert!(check_step(&other, Some(Bytes::new(of(64)))).is_ok());
        assert!(check_step(&other, Some(Bytes::new(of(64) - 1))).is_err());
        // Loads that run side by side are one step.
        let mut together = one.clone();
        together.beside.push(other.load);
        assert_eq!(memory_of(&together).get(), both);
    }

    #[test]
    fn the_largest_step_is_told_of_those_that_fio_does_not_run() {
        let plan = |steps: Vec<Step>| Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Campaign,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: Vec::new(),
            steps: (0..).zip(steps).map(|(index, step)| Step { index, ..step }).collect(),
            campaign: None,
            thresholds: Vec::new(),
        };
        let (uring, fio) = (EngineKind::Uring, EngineKind::Fio);
        let mut partly = step(uring, 64, 80);
        partly.beside.push(step(fio, 1, 1).load);
        let steps = vec![step(uring, 64, 32), step(uring, 64, 48), step(fio, 64, 64), partly];
        let whole = plan([steps, vec![step(uring, 64, 17)]].concat());
        let (largest, need, _) = large_step(&whole).unwrap();
        assert_eq!((largest.index, need.get()), (1, (3 << 30) + 1024 * (64 + 5 * 330)));
        assert!(large_step(&plan(vec![step(fio, 64, 64)])).is_none());
        assert!(large_step(&plan(vec![step(uring, 64, 8)])).is_none(), "half a GiB");
    }
}
