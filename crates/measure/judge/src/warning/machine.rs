//! Warnings about the machine of the run: its processors, its kernel, times in which durio itself did
//! not run (its own part of the longest latencies), and layers under the target that distort the
//! results; and why a workload's results allow no verdict.
//!
//! Whether its flushes can be believed is reported by signals, not here.

use durio_analyse::{IntervalPoint, WorkloadFindings};
use durio_base::{Bytes, Nanos, percent};
use durio_observe::Stack;
use durio_plan::TargetKind;
use durio_record::{Phase, ProcessGap};
use durio_workload::{CacheMode, Pattern};

use super::figures::is_in;
use super::{RuleInput, figures};
use crate::signals::dropping_options;

// A thread with less idle time than this is at its limit.
const ONE_CORE_SHARE: f64 = 0.9;

// Above this share of a job's rate without any storage, the generator is part of the result.
const OWN_LIMIT_SHARE: f64 = 0.5;

// System time of the whole machine from which the kernel, not the device, may set the rate
// (fast-by-design-measuring-storage names 30 %).
const SYSTEM_SHARE: f64 = 0.3;

// Stolen time that a latency figure notices.
const STEAL_SHARE: f64 = 0.01;

pub(super) fn one_core(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let share = workload.cpu.busiest_job_share;
    (share > ONE_CORE_SHARE).then(|| format!("the busiest job used {} of a core", percent(share)))
}

pub(super) fn durio_limit(input: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let costs = input.self_cost.iter();
    let same = costs.filter(|cost| cost.engine == workload.effective.engine);
    let own = same.map(|cost| cost.iops).fold(0.0, f64::max);
    let each = workload.iops / f64::from(workload.effective.jobs.max(1));
    (own > 0.0 && each > own * OWN_LIMIT_SHARE).then(|| {
        format!("each job reached {each:.0} I/Os per second; without storage it reaches {own:.0}")
    })
}

pub(super) fn system_time(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let share = workload.cpu.machine_system_share?;
    (share > SYSTEM_SHARE)
        .then(|| format!("{} of the machine's time was spent in the kernel", percent(share)))
}

pub(super) fn steal(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let share = workload.cpu.machine_steal_share?;
    (share > STEAL_SHARE)
        .then(|| format!("the hypervisor took {:.1} % of the CPU time", share * 100.0))
}

pub(super) fn throttled(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let held_back = workload.cpu.throttled?;
    (held_back > Nanos::ZERO)
        .then(|| format!("the control group throttled the process for {held_back}"))
}

pub(super) fn tracing(input: &RuleInput<'_>) -> Option<String> {
    // No threshold: each active tracer adds to every operation that passes it, 600 ns to a system
    // call for the events of system calls (the costs are in durio-observe's tracefs/active.rs).
    let tracing = input.environment.host.tracing.iter();
    let seen: Vec<_> = tracing.map(|tracer| format!("{}: {}", tracer.name, tracer.value)).collect();
    let seen = (!seen.is_empty()).then(|| seen.join("; "))?;
    Some(format!("the kernel was tracing when the run started: {seen}"))
}

pub(super) fn limits(input: &RuleInput<'_>) -> Option<String> {
    let host = &input.environment.host;
    let (allowed, online) = (host.cpus_allowed, host.cpus_online);
    let mut seen = Vec::new();
    if !host.cgroup.io_max.is_empty() {
        seen.push(format!("io.max {}", host.cgroup.io_max.join(", ")));
    }
    if let Some(cores) = host.cgroup.cpu_quota_cores.filter(|cores| *cores < f64::from(online)) {
        seen.push(format!("cpu.max allows {cores:.2} of {online} CPUs"));
    }
    if allowed < online {
        seen.push(format!("only {allowed} of {online} CPUs may be used"));
    }
    (!seen.is_empty()).then(|| seen.join("; "))
}

pub(super) fn governor(input: &RuleInput<'_>) -> Option<String> {
    let governor =
        input.environment.host.governor.as_ref().filter(|governor| *governor != "performance")?;
    Some(format!("the frequency governor is '{governor}'"))
}

pub(super) fn stopped(input: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let gaps = input.gaps_of(workload);
    let longest = gaps.iter().max_by_key(|gap| gap.span)?;
    let at = format!("{} from {} on", longest.span, longest.from);
    let text = match gaps.len() {
        1 => format!("durio itself did not run for {at}"),
        count => format!("durio itself did not run {count} times, the longest for {at}"),
    };
    Some(format!("{text}; {}", blamed(workload, &gaps)))
}

/// The operation or gap that caused the maximum.
fn blamed(workload: &WorkloadFindings, gaps: &[ProcessGap]) -> String {
    let measured = workload.intervals.iter().filter(|interval| interval.phase == Phase::Measure);
    let (inside, outside): (Vec<_>, Vec<_>) = measured.partition(|interval| is_in(gaps, interval));
    let longest =
        |points: &[&IntervalPoint]| points.iter().filter_map(|interval| interval.max_ns).max();
    match (longest(&inside), longest(&outside)) {
        (Some(own), Some(other)) if own > other => {
            let (own, other) = (Nanos::new(own), Nanos::new(other));
            format!("the maximum, {own}, occurred at that time ({other} otherwise)")
        }
        _ => "the maximum occurred at another time".to_owned(),
    }
}

/// Why this workload's results allow no judgement; `None` if they are the storage's.
pub(crate) fn invalid(input: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let (stack, definition) = (input.stack_at(&workload.location), &workload.definition);
    if stack.is_some_and(is_memory) {
        return Some("it is in memory, not persistent storage".to_owned());
    }
    if let Some(seen) = figures::inconsistent(input, workload) {
        return Some(format!("its results contradict each other: {seen}"));
    }
    if definition.reads() {
        let fell_back = definition.cache == CacheMode::Direct
            && workload.effective.cache == CacheMode::Buffered;
        if fell_back {
            return Some(
                "direct I/O was not possible: its reads may come from the page cache".to_owned(),
            );
        }
        if let Some(seen) = sparse(input, workload) {
            return Some(format!("reads of blocks never written do not reach a device: {seen}"));
        }
    }
    let dropped = stack.map(dropped_flushes).unwrap_or_default();
    let is_dropped = workload.durable && !dropped.is_empty();
    is_dropped.then(|| format!("its syncs send no flush: {}", dropped.join("; ")))
}

/// True if the filesystem of the location keeps its files in memory.
fn is_memory(stack: &Stack) -> bool {
    stack.filesystem().is_some_and(|filesystem| filesystem.memory_backed)
}

/// For runs that make writes durable, a signal reports this instead.
pub(super) fn memory_backed(input: &RuleInput<'_>) -> Option<(Vec<String>, String)> {
    let memory = input.environment.stacks.iter().filter(|stack| is_memory(stack));
    let about: Vec<String> = memory.map(|stack| stack.target.clone()).collect();
    let seen = format!("{} lies in memory", about.join(", "));
    (!about.is_empty() && !input.writes_durably()).then_some((about, seen))
}

/// The mounts of the stack whose options drop flushes.
fn dropped_flushes(stack: &Stack) -> Vec<String> {
    let layers = stack.walk().map(|(_, layer)| layer);
    let dropping = layers.filter_map(|layer| {
        let option = dropping_options(layer)?.value;
        let mount_point = &layer.filesystem.as_ref()?.mount_point;
        Some(format!("{mount_point} is mounted with {option}"))
    });
    dropping.collect()
}

pub(super) fn raw_reads(input: &RuleInput<'_>) -> Option<(Vec<String>, String)> {
    let targets = input.plan.targets.iter();
    let devices = targets.filter(|target| matches!(target.kind, TargetKind::Device { .. }));
    let mut about: Vec<String> =
        devices.filter_map(|target| Some(target.location.as_ref()?.to_string())).collect();
    about.dedup();
    let seen = format!("reads of {} go wherever the device has data or not", about.join(", "));
    (!about.is_empty()).then_some((about, seen))
}

/// The allocated share of an existing file, if less than the touched bytes.
pub(super) fn sparse(input: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let step = input.plan.steps.get(workload.step as usize)?;
    let target = input.plan.target_of(step.stream(workload.stream)?);
    if !matches!(target.kind, TargetKind::ExistingFile { .. }) {
        return None;
    }
    let allocated = input.stack_at(&workload.location)?.root.fact("allocated_bytes")?;
    let allocated = Bytes::new(allocated.parse().ok()?);
    (allocated < target.size).then(|| format!("{allocated} of {} are allocated", target.size))
}

/// The most sequential jobs that begin at one block of a target.
pub(super) fn shared_walks(input: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let step = input.plan.steps.get(workload.step as usize)?;
    let load = step.stream(workload.stream)?;
    let is_concerned = load.workload.pattern == Pattern::Sequential;
    let walks = input.plan.shared_walks(step).into_iter();
    let of_load = walks.filter(|walk| is_concerned && load.targets().any(|at| at == walk.target));
    let jobs = of_load.map(|walk| walk.jobs).max()?;
    Some(format!("{jobs} jobs access the same blocks sequentially"))
}

#[cfg(test)]
mod tests {
    use durio_analyse::SelfCost;
    use durio_observe::{Fact, FilesystemFacts};
    use durio_plan::EngineKind;
    use durio_workload::{PerMille, SyncPolicy};

    use super::*;
    use crate::tests::{Sample, check_quiet, check_warns, sample, seen};

    #[test]
    fn the_words_name_the_thresholds() {
        for (id, share) in
            [("one-core", ONE_CORE_SHARE), ("system-cpu", SYSTEM_SHARE), ("steal", STEAL_SHARE)]
        {
            let what = &super::super::TEXTS.get(id).unwrap().what;
            assert!(what.contains(&format!("more than {} %", share * 100.0)), "{id}: {what}");
        }
        // In words: half of the rate without storage.
        assert_eq!(OWN_LIMIT_SHARE, 0.5);
    }

    #[test]
    fn processor_limits_are_named() {
        check_warns("one-core", |sample| {
            sample.workloads[0].cpu.busiest_job_share = 0.95;
        });
        check_warns("system-cpu", |sample| {
            sample.workloads[0].cpu.machine_system_share = Some(0.31);
        });
        check_warns("steal", |sample| {
            sample.workloads[0].cpu.machine_steal_share = Some(0.011);
        });
        check_warns("throttled", |sample| {
            sample.workloads[0].cpu.throttled = Some(Nanos::new(1));
        });
    }

    #[test]
    fn an_active_tracer_is_named_with_its_place() {
        let on = |sample: &mut Sample| {
            let (name, value) = ("/t/instances/x".to_owned(), "tracer function".to_owned());
            sample.environment.host.tracing.push(durio_observe::Fact { name, value });
        };
        check_warns("tracing", on);
    }

    #[test]
    fn durio_near_its_own_limit_is_named() {
        check_warns("durio-limit", |sample| {
            let iops = sample.workloads[0].iops * 1.9;
            let own = SelfCost { engine: EngineKind::Sync, depth: 1, per_operation_ns: 1.0, iops };
            sample.self_cost.push(own);
        });
    }

    #[test]
    fn caps_of_the_kernel_are_named() {
        check_warns("limits", |sample| {
            sample.environment.host.cgroup.io_max.push("8:0 rbps=1".to_owned());
        });
        check_warns("limits", |sample| sample.environment.host.cpus_allowed = 1);
        check_warns("limits", |sample| {
            sample.environment.host.cgroup.cpu_quota_cores = Some(0.5);
        });
        check_warns("governor", |sample| {
            sample.environment.host.governor = Some("powersave".to_owned());
        });
    }

    fn point(from: u64, max_millis: Option<u64>) -> IntervalPoint {
        IntervalPoint {
            phase: Phase::Measure,
            from: Nanos::from_millis(from),
            to: Nanos::from_millis(from + 100),
            rate: if max_millis.is_some() { 1000.0 } else { 0.0 },
            p50_ns: None,
            p99_ns: None,
            max_ns: max_millis.map(|millis| millis * 1_000_000),
            unwatched_max: None,
            kept: Vec::new(),
            cut_short: false,
        }
    }

    /// Stopped from 1 s to 3 s: a sync of 2 s, and intervals without any.
    fn stop(sample: &mut Sample) {
        let (from, span) = (Nanos::from_secs(1), Nanos::from_secs(2));
        sample.process_gaps = vec![ProcessGap { step: 0, round: 0, from, span }];
        let of = |at: u64| match at {
            10..29 => None,
            29 => Some(2000),
            _ => Some(3),
        };
        sample.workloads[0].intervals = (0..50).map(|at| point(at * 100, of(at))).collect();
        let evenness = sample.evenness();
        (evenness.intervals, evenness.intervals_empty) = (50, 19);
        evenness.coefficient_of_variation = 0.6;
    }

    #[test]
    fn a_gap_of_the_process_is_named_and_the_device_is_not_blamed_for_it() {
        check_warns("stopped", stop);
        let seen = seen("stopped", stop).unwrap();
        assert!(seen.contains("did not run for 2 s from 1 s on"), "{seen}");
        assert!(
            seen.contains("the maximum, 2 s, occurred at that time (3 ms otherwise)"),
            "{seen}"
        );
        check_quiet("stalls", stop);
        check_quiet("noisy", stop);
    }

    #[test]
    fn a_stall_at_another_time_stays_the_storages() {
        check_warns("stalls", |sample| {
            stop(sample);
            sample.workloads[0].intervals[40] = point(4000, None);
        });
        let seen = seen("stopped", |sample| {
            stop(sample);
            sample.workloads[0].intervals[40] = point(4000, Some(2500));
        });
        let seen = seen.unwrap();
        assert!(seen.contains("the maximum occurred at another time"), "{seen}");
    }

    #[test]
    fn a_gap_of_another_step_or_of_one_that_fio_runs_is_not_told() {
        check_quiet("stopped", |sample| {
            stop(sample);
            sample.process_gaps[0].round = 1;
        });
        check_quiet("stopped", |sample| {
            stop(sample);
            sample.workloads[0].effective.engine = EngineKind::Fio;
        });
    }

    #[test]
    fn sequential_jobs_that_share_their_blocks_are_told() {
        use durio_workload::RegionRule;
        let with = |region| {
            move |sample: &mut Sample| {
                let workload = &mut sample.plan.steps[0].load.workload;
                (workload.jobs, workload.region) = (4, region);
            }
        };
        check_warns("shared-blocks", with(RegionRule::Shared));
        check_quiet("shared-blocks", with(RegionRule::ShareEach));
    }

    #[test]
    fn memory_is_not_storage_and_durable_runs_have_a_signal_for_it() {
        let in_memory = |sample: &mut Sample| {
            let facts = FilesystemFacts { memory_backed: true, ..FilesystemFacts::default() };
            sample.environment.stacks[0].root.filesystem = Some(facts);
        };
        check_quiet("memory", in_memory);
        check_warns("memory", |sample| {
            in_memory(sample);
            sample.plan.steps[0].load.workload.sync = SyncPolicy::NONE;
        });
    }

    #[test]
    fn holes_in_a_file_are_named() {
        let allocate = |bytes: u64| {
            move |sample: &mut Sample| {
                let fact = Fact { name: "allocated_bytes".into(), value: bytes.to_string() };
                sample.environment.stacks[0].root.facts.push(fact);
            }
        };
        check_warns("sparse", allocate((1 << 30) - 4096));
        check_quiet("sparse", allocate(1 << 30));
    }

    fn reason(spoil: impl FnOnce(&mut Sample)) -> Option<String> {
        let mut sample = sample();
        spoil(&mut sample);
        invalid(&sample.input(), &sample.workloads[0])
    }

    fn filesystem(facts: FilesystemFacts) -> impl FnOnce(&mut Sample) {
        |sample| sample.environment.stacks[0].root.filesystem = Some(facts)
    }

    #[test]
    fn a_clean_workload_is_valid() {
        assert_eq!(reason(|_| {}), None);
    }

    #[test]
    fn figures_of_memory_are_invalid() {
        let facts = FilesystemFacts { memory_backed: true, ..FilesystemFacts::default() };
        assert!(reason(filesystem(facts)).unwrap().contains("memory"));
    }

    #[test]
    fn figures_that_contradict_each_other_are_invalid() {
        let reason = reason(|sample| sample.workloads[0].in_flight.deviation = 0.021);
        assert!(reason.unwrap().contains("contradict"));
    }

    #[test]
    fn reads_that_fell_back_to_the_page_cache_are_invalid_and_commits_are_not() {
        let buffer = |sample: &mut Sample| {
            sample.workloads[0].effective.cache = CacheMode::Buffered;
        };
        assert_eq!(reason(buffer), None);
        let reading = reason(|sample| {
            buffer(sample);
            sample.workloads[0].definition.read_share = PerMille(700);
        });
        assert!(reading.unwrap().contains("page cache"));
    }

    #[test]
    fn syncs_that_send_no_flush_are_invalid() {
        let options = vec!["rw".to_owned(), "nobarrier".to_owned()];
        let facts = FilesystemFacts { options, ..FilesystemFacts::default() };
        assert!(reason(filesystem(facts)).unwrap().contains("nobarrier"));
    }

    #[test]
    fn reads_of_a_sparse_file_are_invalid() {
        let reason = reason(|sample| {
            sample.workloads[0].definition.read_share = PerMille::ALL;
            let fact = Fact { name: "allocated_bytes".to_owned(), value: "4096".to_owned() };
            sample.environment.stacks[0].root.facts.push(fact);
        });
        assert!(reason.unwrap().contains("4 KiB of 1 GiB"));
    }
}
