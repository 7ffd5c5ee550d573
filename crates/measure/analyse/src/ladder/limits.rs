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
    pub(crate) rate_per_second: f64,
    pub(crate) latency_ns_mean: f64,
}

/// The evidence about a step; unknown values are left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepEvidence {
    pub(crate) jobs: Option<u32>,
    /// Operations offered at once: jobs × depth.
    pub(crate) in_flight_offered: Option<f64>,
    /// Mean number in flight, as counted.
    pub(crate) in_flight_mean: Option<f64>,
    pub(crate) rate_per_second: Option<f64>,
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

/// A value that is finite and above zero.
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
        "at this rate durio's {cost:.0} ns per operation take {} of a core per job",
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
    let sentence = format!("the kernel uses {} of all CPUs", percent(share));
    (share >= KERNEL_FULL).then_some((LimitKind::KernelCpu, sentence))
}

fn memory(step: &StepEvidence) -> Cause {
    let share = usable(step.bytes_per_second)? / usable(step.memory_bytes_per_second)?;
    let sentence = format!("the bytes moved are {} of the memory's bandwidth", percent(share));
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
        None if has_room => "threads and CPUs have room".to_owned(),
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
        ("the CPU time of each job's thread", job_cpu(step).is_some()),
        ("the machine's system time", step.machine_system_share.is_some()),
        ("the share of time that the device is busy", step.device_busy_share.is_some()),
    ];
    let missing: Vec<&str> =
        known.iter().filter(|(_, is_known)| !is_known).map(|(what, _)| *what).collect();
    evidence.push(if missing.is_empty() {
        "none of the known limits is reached: several share the time, or the limit is one that is \
         not measured"
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Depth 16 and 256 of the published flash drive, whose mean latency at depth 1 is 78 µs.
    fn flash(depth: f64, rate: f64, latency_us: f64, busy: f64) -> StepEvidence {
        StepEvidence {
            jobs: Some(1),
            in_flight_offered: Some(depth),
            in_flight_mean: Some(depth * 0.998),
            rate_per_second: Some(rate),
            latency_ns_mean: Some(latency_us * 1e3),
            unloaded: Some(beside(1.0, 12_800.0, 78.0)),
            device_busy_share: Some(busy),
            job_cpu_shares: vec![0.4],
            machine_system_share: Some(0.1),
            generator_ns_per_operation: Some(120.0),
            ..StepEvidence::default()
        }
    }

    fn beside(in_flight: f64, rate_per_second: f64, latency_us: f64) -> ComparedStep {
        ComparedStep { in_flight, rate_per_second, latency_ns_mean: latency_us * 1e3 }
    }

    fn saturated() -> StepEvidence {
        let lower = Some(beside(128.0, 380_000.0, 337.0));
        StepEvidence { lower, ..flash(256.0, 382_000.0, 670.0, 1.0) }
    }

    #[test]
    fn a_flash_drive_at_depth_16_is_limited_by_the_depth() {
        let lower = Some(beside(8.0, 102_400.0, 78.0));
        let found = limit_of(&StepEvidence { lower, ..flash(16.0, 204_800.0, 78.0, 0.6) });
        assert_eq!((found.kind, found.also.len()), (LimitKind::DepthOffered, 0));
        assert!(found.evidence[0].contains("100 % of the depth"), "{:?}", found.evidence);
    }

    #[test]
    fn at_depth_256_the_device_is_the_limit() {
        let found = limit_of(&saturated());
        assert_eq!(found.kind, LimitKind::Device);
        assert!(found.evidence[0].contains("1.01 times the rate and 1.99 times the latency"));
        assert!(found.evidence[0].contains("busy 100 %"), "{:?}", found.evidence);
    }

    #[test]
    fn a_flat_rate_with_an_idle_device_is_not_the_device() {
        let step = StepEvidence { device_busy_share: Some(0.3), ..saturated() };
        let found = limit_of(&step);
        assert_eq!(found.kind, LimitKind::CannotTell);
        assert!(found.evidence.last().unwrap().contains("none of the known limits"));
    }

    #[test]
    fn processors_with_room_exonerate_them_where_the_device_tells_nothing() {
        let step = StepEvidence { device_busy_share: None, ..saturated() };
        assert_eq!(limit_of(&step).kind, LimitKind::Device);
        let blind = StepEvidence { job_cpu_shares: Vec::new(), ..step };
        let found = limit_of(&blind);
        assert_eq!(found.kind, LimitKind::CannotTell);
        let says = found.evidence.join(" ");
        assert!(says.contains("times the latency") && says.contains("each job's thread"), "{says}");
    }

    #[test]
    fn synchronous_writes_that_fill_a_core_per_job_are_bound_by_the_speed_of_one_thread() {
        // The published case: 32 jobs, depth 1, some 18 µs per write, twice the time at half the clock.
        let step = StepEvidence {
            jobs: Some(32),
            in_flight_offered: Some(32.0),
            in_flight_mean: Some(31.0),
            rate_per_second: Some(1_376_000.0),
            latency_ns_mean: Some(20_090.0),
            unloaded: Some(beside(1.0, 58_400.0, 17.04)),
            lower: Some(beside(16.0, 834_000.0, 18.07)),
            job_cpu_shares: vec![0.99; 32],
            machine_system_share: Some(0.17),
            generator_ns_per_operation: Some(250.0),
            ..StepEvidence::default()
        };
        let found = limit_of(&step);
        assert_eq!(found.kind, LimitKind::CorePerJob);
        assert!(found.evidence[0].contains("32 jobs use 99 % of a core"), "{:?}", found.evidence);
        let waiting = StepEvidence { job_cpu_shares: vec![0.5; 32], ..step };
        assert_ne!(limit_of(&waiting).kind, LimitKind::CorePerJob);
    }

    #[test]
    fn a_full_core_comes_before_the_flat_rate_that_it_explains() {
        let step = StepEvidence { job_cpu_shares: vec![0.98], ..saturated() };
        let found = limit_of(&step);
        assert_eq!((found.kind, found.also), (LimitKind::CorePerJob, vec![LimitKind::Device]));
        assert_eq!(found.evidence.len(), 2);
    }

    #[test]
    fn a_generator_that_fills_its_cores_limits_itself() {
        let step = StepEvidence { generator_ns_per_operation: Some(1_500.0), ..saturated() };
        assert_eq!(limit_of(&step).kind, LimitKind::Generator);
    }

    #[test]
    fn the_cost_of_a_generator_is_divided_among_its_jobs() {
        // At 382 000 operations per second these fill 1.53 and 2.29 cores.
        let by_four = |cost_ns: f64| {
            let generator_ns_per_operation = Some(cost_ns);
            let step = StepEvidence { jobs: Some(4), generator_ns_per_operation, ..saturated() };
            limit_of(&step)
        };
        assert_eq!(by_four(4_000.0).kind, LimitKind::Device);
        let found = by_four(6_000.0);
        assert_eq!(found.kind, LimitKind::Generator);
        assert!(found.evidence[0].contains("take 57 % of a core per job"), "{:?}", found.evidence);
    }

    #[test]
    fn the_kernel_of_a_full_machine_is_the_limit() {
        let step = StepEvidence { machine_system_share: Some(0.9), ..saturated() };
        assert_eq!(limit_of(&step).kind, LimitKind::KernelCpu);
    }

    #[test]
    fn bytes_near_the_memory_bandwidth_are_the_limit() {
        let near = |bytes: f64| StepEvidence {
            bytes_per_second: Some(bytes),
            memory_bytes_per_second: Some(20e9),
            ..saturated()
        };
        assert_eq!(limit_of(&near(15e9)).kind, LimitKind::MemoryBandwidth);
        assert_eq!(limit_of(&near(5e9)).kind, LimitKind::Device);
    }

    #[test]
    fn an_offered_rate_that_was_achieved_limits_itself() {
        let step = |offered| StepEvidence { offered_rate_per_second: Some(offered), ..saturated() };
        assert_eq!(limit_of(&step(383_000.0)).kind, LimitKind::OfferedRate);
        assert_eq!(limit_of(&step(500_000.0)).kind, LimitKind::Device);
    }

    #[test]
    fn of_nothing_one_cannot_tell_and_what_is_missing_is_said() {
        let found = limit_of(&StepEvidence::default());
        assert_eq!(found.kind, LimitKind::CannotTell);
        assert!(found.evidence[0].contains("a step with less load"), "{:?}", found.evidence);
    }

    /// The saturated step, changed.
    fn changed(change: impl FnOnce(&mut StepEvidence)) -> LimitKind {
        let mut step = saturated();
        change(&mut step);
        limit_of(&step).kind
    }

    #[test]
    fn each_share_counts_from_its_bound_on_and_not_below_it() {
        use LimitKind::{
            CannotTell, CorePerJob, Device, Generator, KernelCpu, MemoryBandwidth, OfferedRate,
        };
        // 382 000 operations per second by one job.
        let offered = |share: f64| {
            changed(|evidence| evidence.offered_rate_per_second = Some(382_000.0 / share))
        };
        assert_eq!([offered(0.9899), offered(0.9901)], [Device, OfferedRate]);
        let cost = |share: f64| {
            changed(|evidence| evidence.generator_ns_per_operation = Some(share * 1e9 / 382_000.0))
        };
        assert_eq!([cost(0.499), cost(0.501)], [Device, Generator]);
        // The mean of all jobs' threads.
        let cores = |share: f64| {
            changed(|evidence| evidence.job_cpu_shares = vec![share + 0.04, share - 0.04])
        };
        assert_eq!([cores(0.949), cores(0.951)], [Device, CorePerJob]);
        let kernel = |share| changed(|evidence| evidence.machine_system_share = Some(share));
        assert_eq!([kernel(0.799), kernel(0.801)], [Device, KernelCpu]);
        let memory = |share: f64| {
            changed(|evidence| {
                (evidence.bytes_per_second, evidence.memory_bytes_per_second) =
                    (Some(share * 2e10), Some(2e10));
            })
        };
        assert_eq!([memory(0.699), memory(0.701)], [Device, MemoryBandwidth]);
        let busy = |share| changed(|evidence| evidence.device_busy_share = Some(share));
        assert_eq!([busy(0.899), busy(0.901)], [CannotTell, Device]);
    }

    #[test]
    fn a_device_is_saturated_where_latency_grows_as_the_load_does_and_the_rate_does_not() {
        let grown = |rate: f64, latency: f64| {
            let lower = beside(128.0, 382_000.0 / 2_f64.powf(rate), 670.0 / 2_f64.powf(latency));
            changed(|evidence| evidence.lower = Some(lower))
        };
        // In powers of the load, which is twice that below.
        assert_eq!(grown(0.0, 0.751), LimitKind::Device);
        assert_eq!(grown(0.0, 0.749), LimitKind::CannotTell);
        assert_eq!(grown(0.099, 0.9), LimitKind::Device);
        assert_eq!(grown(0.101, 0.9), LimitKind::CannotTell);
    }

    #[test]
    fn a_depth_limits_where_it_is_filled_and_latency_is_that_without_load() {
        let step = |filled: f64, factor: f64| {
            let step = flash(16.0, 204_800.0, 78.0 * factor, 0.6);
            limit_of(&StepEvidence { in_flight_mean: Some(16.0 * filled), ..step }).kind
        };
        assert_eq!(step(0.901, 1.099), LimitKind::DepthOffered);
        assert_eq!(step(0.899, 1.099), LimitKind::CannotTell);
        assert_eq!(step(0.901, 1.101), LimitKind::CannotTell);
    }

    proptest! {
        #[test]
        fn no_evidence_makes_it_panic(figures in prop::collection::vec(any::<f64>(), 16)) {
            let at = |index: usize| figures.get(index).copied();
            let step = StepEvidence {
                jobs: Some(0),
                in_flight_offered: at(0),
                in_flight_mean: at(1),
                rate_per_second: at(2),
                latency_ns_mean: at(3),
                offered_rate_per_second: at(4),
                unloaded: Some(beside(figures[5], figures[6], figures[7])),
                lower: Some(beside(figures[8], figures[9], figures[10])),
                device_busy_share: at(11),
                job_cpu_shares: figures[12..14].to_vec(),
                machine_system_share: at(14),
                bytes_per_second: at(15),
                memory_bytes_per_second: at(0),
                generator_ns_per_operation: at(1),
            };
            prop_assert!(!limit_of(&step).evidence.is_empty());
        }
    }
}
