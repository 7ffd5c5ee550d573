//! What limited a step.
//!
//! The evidence of one step, and of neighbouring steps, gives a [`LimitingFactor`]: a kind with the
//! sentences that support it, or the missing evidence.
//!
//! Every supported cause is named; the first of them, in the order of [`LimitKind`], is the one to
//! remove first: a processor that is full explains a flat rate, a flat rate does not explain a full
//! processor.

use serde::{Deserialize, Serialize};

use durio_base::percent;
use durio_base::stats::least_squares::count;

/// What limited a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// No more was asked for: an open loop whose offered rate was achieved.
    OfferedRate,
    /// durio itself: its cost per operation fills the cores of its jobs.
    Generator,
    /// Each job's thread fills a core: single-thread speed is the limit.
    CorePerJob,
    /// The kernel uses the machine's processors up.
    KernelCpu,
    /// The bytes moved come near the memory's limit.
    MemoryBandwidth,
    /// The storage: more load adds latency and no rate, and processors have room.
    Device,
    /// The load: nothing waits, more in flight would give more.
    DepthOffered,
    /// The evidence does not suffice.
    CannotTell,
}

/// A step of the same ladder, for comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ComparedStep {
    /// Operations offered at once: jobs × depth.
    pub(crate) in_flight: f64,
    /// Operations per second.
    pub(crate) rate_per_second: f64,
    /// Mean service latency.
    pub(crate) latency_ns_mean: f64,
}

/// The evidence about a step; unknown values are left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepEvidence {
    /// Threads that submit.
    pub(crate) jobs: Option<u32>,
    /// Operations offered at once: jobs × depth.
    pub(crate) in_flight_offered: Option<f64>,
    /// Mean number in flight, as counted.
    pub(crate) in_flight_mean: Option<f64>,
    /// Operations per second.
    pub(crate) rate_per_second: Option<f64>,
    /// Mean service latency.
    pub(crate) latency_ns_mean: Option<f64>,
    /// Operations per second that were offered, of an open loop.
    pub(crate) offered_rate_per_second: Option<f64>,
    /// The step with the least load of the same workload: its latency is that of an idle storage.
    pub(crate) unloaded: Option<ComparedStep>,
    /// A step of the same workload with less load, as near as there is.
    pub(crate) lower: Option<ComparedStep>,
    /// Share of the time in which the device had something to do, 0 to 1.
    pub(crate) device_busy_share: Option<f64>,
    /// Share of a core that each job's thread used, user and system time, 0 to 1.
    pub(crate) job_cpu_shares: Vec<f64>,
    /// System time of the whole machine as a share of all processors, 0 to 1.
    pub(crate) machine_system_share: Option<f64>,
    /// Bytes per second that the step read and wrote.
    pub(crate) bytes_per_second: Option<f64>,
    /// Bytes of such I/O per second that the measured memory would take.
    pub(crate) memory_bytes_per_second: Option<f64>,
    /// durio's processor time per operation.
    pub(crate) generator_ns_per_operation: Option<f64>,
}

/// What limited a step, and why that is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitingFactor {
    /// What to change first.
    pub kind: LimitKind,
    /// Other causes that the evidence supports.
    pub also: Vec<LimitKind>,
    /// The numbers, as sentences; for [`LimitKind::CannotTell`] also the missing ones.
    pub evidence: Vec<String>,
}

/// An offered rate counts as achieved from this share on.
const OFFERED_ACHIEVED: f64 = 0.99;

/// durio's share of its jobs' cores from which it is a limit.
// Its place is below a tenth.
const GENERATOR_SHARE: f64 = 0.5;

/// A thread is full from this share of a core on.
// The kernel's accounting has a granularity of a tick, and a thread that waits for storage at all
// stays well below.
const CORE_FULL: f64 = 0.95;

/// System time of the machine from which the kernel has no room for more interrupts.
const KERNEL_FULL: f64 = 0.80;

/// Share of the measured memory bandwidth from which it is a limit.
// Each byte crosses the memory at least once, and other traffic is not counted.
const MEMORY_FULL: f64 = 0.70;

/// A device that is busy for less than this share of the time is not the bottleneck.
const DEVICE_BUSY: f64 = 0.90;

/// Latency has grown in proportion to the load if at least by this share of it.
const LATENCY_PROPORTION: f64 = 0.75;

/// Latency up to this factor of that without load is that of a storage that does not queue.
const UNLOADED_FACTOR: f64 = 1.10;

/// What limited the step.
pub(crate) fn limit_of(step: &StepEvidence) -> LimitingFactor {
    // In the order of `LimitKind`: the first that holds is the one to change first.
    let causes = [offered, generator, core_per_job, kernel_cpu, memory, device, depth];
    let found: Vec<(LimitKind, String)> = causes.iter().filter_map(|cause| cause(step)).collect();
    let Some((kind, _)) = found.first() else { return cannot_tell(step) };
    LimitingFactor {
        kind: *kind,
        also: found.iter().skip(1).map(|(kind, _)| *kind).collect(),
        evidence: found.iter().map(|(_, sentence)| sentence.clone()).collect(),
    }
}

type Cause = Option<(LimitKind, String)>;

/// A valid value.
fn usable(figure: Option<f64>) -> Option<f64> {
    figure.filter(|figure| figure.is_finite() && *figure > 0.0)
}

fn offered(step: &StepEvidence) -> Cause {
    let offered = usable(step.offered_rate_per_second)?;
    let share = usable(step.rate_per_second)? / offered;
    let sentence = format!("{} of the offered {offered:.0}/s were achieved", percent(share));
    (share >= OFFERED_ACHIEVED).then_some((LimitKind::OfferedRate, sentence))
}

fn generator(step: &StepEvidence) -> Cause {
    let (cost, rate) = (usable(step.generator_ns_per_operation)?, usable(step.rate_per_second)?);
    let share = cost * rate / 1e9 / usable(step.jobs.map(f64::from))?;
    let sentence = format!(
        "durio's own {cost:.0} ns per operation, at this rate, fill {} of a core per job",
        percent(share)
    );
    (share >= GENERATOR_SHARE).then_some((LimitKind::Generator, sentence))
}

/// The least and the mean share of a core; `None` unless every one is known and finite.
fn job_cpu(step: &StepEvidence) -> Option<(f64, f64)> {
    let shares = &step.job_cpu_shares;
    let is_known = !shares.is_empty() && shares.iter().all(|share| share.is_finite());
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    is_known.then(|| (least, shares.iter().sum::<f64>() / count(shares.len())))
}

fn core_per_job(step: &StepEvidence) -> Cause {
    let (_, mean) = job_cpu(step)?;
    let jobs = step.job_cpu_shares.len();
    let sentence = format!(
        "the threads of {jobs} jobs use {} of a core each: a faster core, or fewer system calls per \
         operation, would give more",
        percent(mean)
    );
    (mean >= CORE_FULL).then_some((LimitKind::CorePerJob, sentence))
}

fn kernel_cpu(step: &StepEvidence) -> Cause {
    let share = usable(step.machine_system_share)?;
    let sentence = format!("the kernel uses {} of all processors", percent(share));
    (share >= KERNEL_FULL).then_some((LimitKind::KernelCpu, sentence))
}

fn memory(step: &StepEvidence) -> Cause {
    let share = usable(step.bytes_per_second)? / usable(step.memory_bytes_per_second)?;
    let sentence = format!("the bytes moved are {} of what the memory moves", percent(share));
    (share >= MEMORY_FULL).then_some((LimitKind::MemoryBandwidth, sentence))
}

/// How a step compares with one of less load: factors of load, rate and latency.
struct Growth {
    load: f64,
    rate: f64,
    latency: f64,
}

fn growth(step: &StepEvidence, lower: Option<ComparedStep>) -> Option<Growth> {
    let lower = lower?;
    let factor = |now, then| Some(usable(now)? / usable(Some(then))?);
    let load = factor(step.in_flight_offered, lower.in_flight).filter(|load| *load > 1.0)?;
    let rate = factor(step.rate_per_second, lower.rate_per_second)?;
    let latency = factor(step.latency_ns_mean, lower.latency_ns_mean)?;
    Some(Growth { load, rate, latency })
}

/// Whether more load has added latency and no rate.
fn is_saturated(growth: &Growth) -> bool {
    // Both are asked: by Little's law a flat rate at an unchanged latency means that the load never
    // arrived.
    let is_flat = growth.rate.ln() < super::WORTHWHILE_ELASTICITY * growth.load.ln();
    is_flat && growth.latency.ln() >= LATENCY_PROPORTION * growth.load.ln()
}

fn saturation_sentence(growth: &Growth) -> String {
    format!(
        "{:.2} times the load gives {:.2} times the rate and {:.2} times the latency",
        growth.load, growth.rate, growth.latency
    )
}

/// The device: saturation, and either it is known to be busy or the processors to have room.
fn device(step: &StepEvidence) -> Cause {
    let growth = growth(step, step.lower).filter(is_saturated)?;
    let busy = usable(step.device_busy_share);
    // One way only: a drive that works on many requests at once is busy long before it is full.
    if busy.is_some_and(|busy| busy < DEVICE_BUSY) {
        return None;
    }
    // The same curve comes out where processors are the limit: the device must be seen busy, or the
    // processors to have room.
    let has_room = job_cpu(step).is_some_and(|(_, mean)| mean < CORE_FULL)
        && step.machine_system_share.is_some_and(|share| share < KERNEL_FULL);
    let reason = match busy {
        Some(busy) => format!("the device is busy {} of the time", percent(busy)),
        None if has_room => "threads and processors have room".to_owned(),
        None => return None,
    };
    Some((LimitKind::Device, format!("{}; {reason}", saturation_sentence(&growth))))
}

fn depth(step: &StepEvidence) -> Cause {
    let unloaded = step.unloaded?;
    let factor = usable(step.latency_ns_mean)? / usable(Some(unloaded.latency_ns_mean))?;
    let filled = usable(step.in_flight_mean)? / usable(step.in_flight_offered)?;
    let sentence = format!(
        "{} of the depth offered is in flight, at {factor:.2} times the latency without load: \
         more depth would give more",
        percent(filled)
    );
    // A depth that is not filled is not the bottleneck: something before the queue is.
    let is_full = filled >= super::LINEAR_EFFICIENCY;
    (is_full && factor <= UNLOADED_FACTOR).then_some((LimitKind::DepthOffered, sentence))
}

fn cannot_tell(step: &StepEvidence) -> LimitingFactor {
    let mut evidence: Vec<String> =
        growth(step, step.lower).filter(is_saturated).iter().map(saturation_sentence).collect();
    let known = [
        ("a step with less load", growth(step, step.lower).is_some()),
        ("latency without load, or the mean number in flight", depth_is_known(step)),
        ("the processor time of each job's thread", job_cpu(step).is_some()),
        ("the machine's system time", step.machine_system_share.is_some()),
        ("the share of time that the device is busy", step.device_busy_share.is_some()),
    ];
    let missing: Vec<&str> =
        known.iter().filter(|(_, is_known)| !is_known).map(|(what, _)| *what).collect();
    evidence.push(if missing.is_empty() {
        "none of the known limits is reached: several share the time, or one that is not measured"
            .to_owned()
    } else {
        format!("not known: {}", missing.join("; "))
    });
    LimitingFactor { kind: LimitKind::CannotTell, also: Vec::new(), evidence }
}

fn depth_is_known(step: &StepEvidence) -> bool {
    let latency = step.unloaded.and_then(|step| usable(Some(step.latency_ns_mean)));
    latency.is_some() && usable(step.in_flight_mean).is_some()
}

#[cfg(test)]
mod tests;
