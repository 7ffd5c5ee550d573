//! Warnings about the figures themselves.

use durio_base::stats::least_squares::float;
use durio_base::{Nanos, counted, percent};
use durio_plan::EngineKind;
use durio_record::{OperationName, Phase, ProcessGap};
use durio_workload::CacheMode;

use super::RuleInput;
use durio_analyse::{DeviceTime, Distribution, IntervalPoint, WorkloadFindings};

// Little's law may be off by this share: the goal of the accounting.
const DEVIATION_MAX: f64 = 0.02;

// Below this span thread start and stop alone can make up the allowed deviation.
const ACCOUNTED_MIN: Nanos = Nanos::from_millis(50);

// The engine's clock may be off by this share; calibration is good to some millionths.
const CLOCK_DEVIATION_MAX: f64 = 0.001;

// Standard deviation / mean of intervals' rates from which one run says little: a difference of
// this size between two runs could be chance.
const VARIATION_MAX: f64 = 0.2;

// Fewer intervals than this say nothing about variation.
const INTERVALS_MIN: u64 = 8;

// A hundredth of the operations this many times slower than the rest hides in the p99.
const TAIL_GAP_MAX: f64 = 10.0;

// On a device that takes its own time, submission is a call of a few microseconds; more means that
// it blocks: allocation, locks, a full queue.
const SUBMIT_MAX: Nanos = Nanos::from_micros(10);

fn headline_distribution(workload: &WorkloadFindings) -> Option<&Distribution> {
    workload.operation(workload.headline).map(|operation| &operation.service)
}

// In an open loop a place is taken and given back for each operation, and the other clock is read
// around it: on a busy machine so much time can lie between the two. In a closed loop at full depth
// the number does not change.
const COUNTED_AROUND_SECONDS: f64 = 10e-6;

// The two clocks are read one after the other at both ends of an operation, 25 ns each (the vDSO's
// clock_gettime): in memory, where an operation takes under a microsecond, that is over 2 %.
const CLOCKS_APART_SECONDS: f64 = 50e-9;

// Once in a while the thread loses the CPU between the two clocks, for a time slice or two:
// in a slow loop that is a share of the few operations counted.
const LOST_SECONDS: f64 = 10e-3;

// Jobs start one after the other: 64 jobs on two processors within 12 ms (measured). The count and
// the latencies see different parts of that time.
const STARTS_SECONDS: f64 = 20e-3;

/// Why nothing has a result.
pub(super) fn unmeasured(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    workload.unmeasured()
}

/// What of the accounting does not hold.
pub(super) fn inconsistent(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let in_flight = &workload.in_flight;
    let counted = in_flight.span >= ACCOUNTED_MIN;
    let apart = (in_flight.counted - in_flight.by_latency).abs();
    let is_open = workload.open_loop.is_some();
    let around = workload.iops * COUNTED_AROUND_SECONDS;
    let lost = LOST_SECONDS / in_flight.span.as_secs_f64();
    let read_apart = workload.iops * CLOCKS_APART_SECONDS;
    let deviating = apart.max((in_flight.deviation * in_flight.counted).abs());
    let is_read_apart = deviating <= read_apart;
    // The share of its time in which a job had not started, or had ended.
    let absent = 1.0 - in_flight.jobs_time_share.unwrap_or(1.0);
    let is_start = absent * in_flight.span.as_secs_f64() <= STARTS_SECONDS
        && deviating <= absent * in_flight.offered;
    let explained = is_read_apart || is_start || is_open && apart <= around + lost;
    (counted && !explained && in_flight.deviation.abs() > DEVIATION_MAX).then(|| {
        format!(
            "latency × rate gives {:.2} operations in flight, the count {:.2}",
            in_flight.by_latency, in_flight.counted
        )
    })
}

pub(super) fn clock(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let in_flight = &workload.in_flight;
    let counted = in_flight.span >= ACCOUNTED_MIN;
    let off = in_flight.clock_deviation;
    (counted && off.abs() > CLOCK_DEVIATION_MAX)
        .then(|| format!("the {} clock is off by {:.2} %", workload.effective.clock, off * 100.0))
}

pub(super) fn page_cache(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let buffered = workload.effective.cache == CacheMode::Buffered;
    // Buffered writes that are synced one by one wait for the device all the same.
    let definition = &workload.definition;
    let waits = definition.commits_each_write() && !definition.reads();
    (buffered && !waits).then(|| "went through the page cache".to_owned())
}

pub(super) fn fallback(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let fallbacks = &workload.effective.fallbacks;
    (!fallbacks.is_empty()).then(|| fallbacks.join("; "))
}

pub(super) fn too_short(input: &RuleInput<'_>) -> Option<String> {
    input.provisional.filter(|_| input.campaign.is_none()).map(str::to_owned)
}

pub(super) fn too_short_campaign(input: &RuleInput<'_>) -> Option<String> {
    input.provisional.filter(|_| input.campaign.is_some()).map(str::to_owned)
}

pub(super) fn stalls(input: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let rates = workload.rate_variation?;
    let gaps = input.gaps_of(workload);
    let (empty, low) = match gaps.as_slice() {
        [] => (rates.intervals_empty, rates.intervals_under_half),
        // Intervals next to a gap are slow because of it.
        gaps => (empty_outside(workload, gaps), 0),
    };
    (empty + low > 0).then(|| {
        format!(
            "of {} intervals, {empty} had no completion and {low} ran at less than half the \
             median rate",
            rates.intervals
        )
    })
}

impl RuleInput<'_> {
    /// The times in which durio did not run during the measurement; fio keeps measuring.
    pub(super) fn gaps_of(&self, workload: &WorkloadFindings) -> Vec<ProcessGap> {
        let is_fio = workload.effective.engine == EngineKind::Fio;
        let is_its =
            |gap: &&ProcessGap| (gap.step, gap.round) == (workload.step, workload.round) && !is_fio;
        self.process_gaps.iter().filter(is_its).copied().collect()
    }
}

/// True if a part of the interval lies in one of the gaps.
pub(super) fn is_in(gaps: &[ProcessGap], interval: &IntervalPoint) -> bool {
    let end = |gap: &ProcessGap| gap.from.get().saturating_add(gap.span.get());
    gaps.iter().any(|gap| interval.from.get() < end(gap) && gap.from < interval.to)
}

/// Intervals without a completion while durio ran.
fn empty_outside(workload: &WorkloadFindings, gaps: &[ProcessGap]) -> u64 {
    let is_empty = |interval: &&IntervalPoint| {
        interval.phase == Phase::Measure
            && !interval.cut_short
            && interval.rate <= 0.0
            && !is_in(gaps, interval)
    };
    workload.intervals.iter().filter(is_empty).count() as u64
}

pub(super) fn noisy(input: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let rates = workload.rate_variation.filter(|_| input.gaps_of(workload).is_empty())?;
    let variation = rates.coefficient_of_variation;
    (rates.intervals >= INTERVALS_MIN && variation > VARIATION_MAX)
        .then(|| format!("rates of intervals differ by {} (σ / mean)", percent(variation)))
}

pub(super) fn tail_gap(input: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let figures = headline_distribution(workload)?;
    let (p99, p99_99) = (figures.p99_ns?, figures.p99_99_ns?);
    // A tail that is as long as a time in which durio was stopped is durio's.
    if input.gaps_of(workload).iter().any(|gap| p99_99 >= gap.span.get() / 2) {
        return None;
    }
    let gap = float(p99_99) / float(p99.max(1));
    (gap > TAIL_GAP_MAX)
        .then(|| format!("p99.99 {} is {gap:.0} × p99 {}", Nanos::new(p99_99), Nanos::new(p99)))
}

pub(super) fn submit_latency(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let p50 = Nanos::new(submits(workload).filter_map(|submit| submit.p50_ns).max()?);
    (p50 > SUBMIT_MAX).then(|| format!("submission takes {p50} (p50)"))
}

// Time outside of the device that is worth a warning, as a share of the latency and at the least:
// system calls and an interrupt take some tens of microseconds on a slow machine.
const OUTSIDE_SHARE_MAX: f64 = 0.25;
const OUTSIDE_NS_MAX: f64 = 50_000.0;

pub(super) fn outside_device(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let time = workload.device_time.as_ref()?;
    let outside = time.outside_ns_mean;
    let is_much = time.outside_share > OUTSIDE_SHARE_MAX && outside > OUTSIDE_NS_MAX;
    is_much.then(|| {
        format!(
            "{} of each operation ({}) passed outside of {}, which takes {} per request: {}",
            mean(outside),
            percent(time.outside_share),
            time.device,
            mean(time.request_ns_mean),
            spent_outside(workload, time)
        )
    })
}

pub(super) fn trace_lost(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let path = workload.latency_breakdown.as_ref().filter(|path| path.lost_events > 0)?;
    let (lost, whole) = (counted(path.lost_events, "event"), counted(path.operations, "operation"));
    Some(format!(
        "the trace of the path lost {lost}: its times are those of {whole} traced in full"
    ))
}

/// The times that submission took, where it was measured.
fn submits(workload: &WorkloadFindings) -> impl Iterator<Item = &Distribution> {
    let names = [OperationName::Read, OperationName::Write];
    names.into_iter().filter_map(|name| workload.operation(name)?.submit.as_ref())
}

/// The part that took most of the time outside of the device, by time stamps and counters.
fn spent_outside(workload: &WorkloadFindings, time: &DeviceTime) -> String {
    let submit = submits(workload).map(|submit| submit.mean_ns).max_by(f64::total_cmp);
    if let Some(submit) = submit.filter(|submit| *submit > time.outside_ns_mean / 2.0) {
        return format!("submission took {}", mean(submit));
    }
    if let Some(shares) = time.shares {
        let part = |share: f64| mean(share * shares.mean_ns);
        return format!(
            "{} waiting for a CPU, {} in the filesystem and kernel",
            part(shares.cpu_wait),
            part(shares.kernel)
        );
    }
    match workload.unwatched_max.filter(|_| submit.is_some()) {
        Some(unwatched) => format!(
            "most of it after completion at the device, before durio saw it (the longest time \
             without looking was {unwatched})"
        ),
        None => "in the kernel above the device, or waiting for a CPU".to_owned(),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive mean")]
fn mean(nanos: f64) -> Nanos {
    Nanos::new(nanos as u64)
}

// A time without a look below this, or below twice what an operation usually takes, is that of a
// system call.
const UNWATCHED_MIN: Nanos = Nanos::from_millis(1);

// One interval in this many with a long unwatched time is chance on a busy machine.
const UNWATCHED_INTERVALS: usize = 4;

pub(super) fn unwatched(_: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let figures = headline_distribution(workload)?;
    let usual = figures.p50_ns.unwrap_or(figures.max_ns);
    let long = Nanos::new(usual.saturating_mul(2)).max(UNWATCHED_MIN);
    let measured = workload.intervals.iter().filter(|interval| interval.phase == Phase::Measure);
    let all = measured.clone().count();
    let late =
        measured.filter(|interval| interval.unwatched_max.is_some_and(|span| span >= long)).count();
    let longest = workload.unwatched_max?;
    (late > 0 && late * UNWATCHED_INTERVALS >= all).then(|| {
        format!(
            "a job went up to {longest} without looking for completions, {long} or more in \
             {late} of {all} intervals"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Sample, check_quiet, check_warns, sample, seen};
    use durio_analyse::{IntervalPoint, OpenLoop, TimeShares};
    use durio_workload::{Arrivals, PerMille, SyncPolicy};

    #[test]
    fn a_workload_without_operations_is_said_to_be_unmeasured_and_why() {
        let spoil = |phase: Phase, seconds: u64| {
            seen("unmeasured", |sample: &mut Sample| {
                let workload = &mut sample.workloads[0];
                workload.operations.clear();
                workload.measured = Nanos::from_secs(seconds);
                workload.intervals = vec![IntervalPoint { phase, ..point(0) }];
            })
        };
        let ramp = spoil(Phase::Ramp, 0).unwrap();
        assert_eq!(ramp, "commit: it finished before its ramp was over");
        let idle = spoil(Phase::Measure, 7).unwrap();
        assert_eq!(idle, "commit: no operation was completed in the 7 s that count");
        assert_eq!(spoil(Phase::Measure, 0).unwrap(), "commit: no operation was completed");
        check_quiet("unmeasured", |_| {});
    }

    fn point(unwatched_millis: u64) -> IntervalPoint {
        IntervalPoint {
            phase: Phase::Measure,
            from: Nanos::ZERO,
            to: Nanos::from_secs(1),
            rate: 1000.0,
            p50_ns: None,
            p99_ns: None,
            max_ns: None,
            unwatched_max: Some(Nanos::from_millis(unwatched_millis)),
            kept: Vec::new(),
            cut_short: false,
        }
    }

    #[test]
    fn the_words_name_the_thresholds() {
        let what = |id: &str| super::super::TEXTS.get(id).unwrap().what.clone();
        let percent = |share: f64| format!("more than {} %", share * 100.0);
        for (id, part) in [
            ("inconsistent", percent(DEVIATION_MAX)),
            ("clock", percent(CLOCK_DEVIATION_MAX)),
            ("noisy", percent(VARIATION_MAX)),
            ("submit", format!("above {SUBMIT_MAX}")),
            ("outside-device", format!("and more than {} µs", OUTSIDE_NS_MAX / 1e3)),
            ("unwatched", format!("for {UNWATCHED_MIN} or more")),
        ] {
            assert!(what(id).contains(&part), "{id}: {part} in {}", what(id));
        }
        // Those in words: ten times, a quarter of the latency, a quarter of the intervals.
        assert_eq!((TAIL_GAP_MAX, OUTSIDE_SHARE_MAX, UNWATCHED_INTERVALS), (10.0, 0.25, 4));
    }

    #[test]
    fn a_planted_accounting_fault_is_named() {
        check_warns("inconsistent", |sample| {
            sample.workloads[0].in_flight.deviation = -0.021;
        });
        check_quiet("inconsistent", |sample| {
            sample.workloads[0].in_flight.deviation = -0.021;
            sample.workloads[0].in_flight.span = Nanos::from_millis(1);
        });
    }

    #[test]
    fn the_two_clocks_of_an_operation_in_memory_may_be_read_50_ns_apart() {
        let spoil = |sample: &mut Sample, counted: f64| {
            let workload = &mut sample.workloads[0];
            (workload.iops, workload.in_flight.by_latency) = (1e6, 0.95);
            (workload.in_flight.counted, workload.in_flight.deviation) = (counted, 0.04);
        };
        check_quiet("inconsistent", |sample| spoil(sample, 0.901));
        check_warns("inconsistent", |sample| spoil(sample, 0.899));
        // At 1000 operations per second it is nothing.
        check_warns("inconsistent", |sample| {
            spoil(sample, 0.94);
            sample.workloads[0].iops = 1000.0;
        });
    }

    #[test]
    fn the_count_of_an_open_loop_may_be_taken_around_its_operations() {
        let open = |rate: f64| OpenLoop {
            arrivals: Arrivals::Constant { rate_per_second: rate },
            offered_per_second: rate,
            achieved_per_second: rate,
            due: 1000,
            never_started: 0,
            started_share: 1.0,
            lag_ns_mean: 0.0,
            lag_ns_max: 0,
            behind_ns_max: 0,
        };
        // 1000 a second, 20 µs by latency, counted for 25 µs.
        let spoil = |sample: &mut Sample, counted: f64| {
            let workload = &mut sample.workloads[0];
            (workload.iops, workload.in_flight.by_latency) = (1000.0, 0.02);
            (workload.in_flight.counted, workload.in_flight.deviation) = (counted, -0.2);
            workload.open_loop = Some(open(1000.0));
        };
        check_quiet("inconsistent", |sample| spoil(sample, 0.025));
        check_warns("inconsistent", |sample| spoil(sample, 0.04));
        check_warns("inconsistent", |sample| {
            spoil(sample, 0.025);
            sample.workloads[0].open_loop = None;
        });
    }

    #[test]
    fn jobs_that_start_some_milliseconds_apart_explain_a_deviation_of_their_share() {
        // As 64 jobs on two processors: 61.1 of 62.5 in 295 ms, of which a job missed 4.2 %.
        let spoil = |sample: &mut Sample, share: f64, by_latency: f64, millis: u64| {
            let in_flight = &mut sample.workloads[0].in_flight;
            (in_flight.offered, in_flight.counted) = (64.0, 62.5);
            in_flight.by_latency = by_latency;
            in_flight.deviation = by_latency / 62.5 - 1.0;
            in_flight.jobs_time_share = Some(share);
            in_flight.span = Nanos::from_millis(millis);
        };
        check_quiet("inconsistent", |sample| spoil(sample, 0.958, 61.1, 295));
        // 4.2 % of 64 are 2.69 operations.
        check_quiet("inconsistent", |sample| spoil(sample, 0.958, 59.82, 295));
        check_warns("inconsistent", |sample| spoil(sample, 0.958, 59.80, 295));
        // 20 ms of 476 ms; a longer absence is not a start.
        check_quiet("inconsistent", |sample| spoil(sample, 0.958, 61.1, 476));
        check_warns("inconsistent", |sample| spoil(sample, 0.958, 61.1, 477));
        check_warns("inconsistent", |sample| spoil(sample, 1.0, 61.1, 295));
    }

    #[test]
    fn time_outside_of_the_device_is_named_with_who_holds_it() {
        let timed = |sample: &mut Sample, (outside, shares): (f64, _), submit: Option<f64>| {
            sample.workloads[0].device_time = Some(DeviceTime {
                device: "sda".to_owned(),
                requests_per_access: 1.0,
                request_ns_mean: 200_000.0,
                outside_ns_mean: outside,
                outside_share: outside / (outside + 200_000.0),
                shares,
            });
            sample.workloads[0].unwatched_max = Some(Nanos::from_millis(5));
            let write = sample.operation(OperationName::Write);
            write.submit = submit.map(|mean_ns| Distribution { mean_ns, ..write.service.clone() });
        };
        let seen_with = |time, submit| seen("outside-device", |sample| timed(sample, time, submit));
        let seen = |outside, submit| seen_with((outside, None), submit);
        assert_eq!(seen(60_000.0, None), None);
        assert_eq!(seen(45_000.0, None), None);
        let late = seen(300_000.0, Some(10_000.0)).unwrap();
        assert!(late.contains("300 µs of each operation (60 %") && late.contains("5 ms"), "{late}");
        let submitted = seen(300_000.0, Some(250_000.0)).unwrap();
        assert!(submitted.ends_with("200 µs per request: submission took 250 µs"), "{submitted}");
        assert!(seen(300_000.0, None).unwrap().contains("in the kernel above the device, or"));
        let shares = TimeShares { mean_ns: 500_000.0, device: 0.4, cpu_wait: 0.45, kernel: 0.15 };
        assert_eq!(
            seen_with((300_000.0, Some(shares)), None).unwrap(),
            "commit: 300 µs of each operation (60 %) passed outside of sda, which takes 200 µs per \
             request: 225 µs waiting for a CPU, 75 µs in the filesystem and kernel"
        );
    }

    #[test]
    fn intervals_in_which_nobody_looked_are_named_if_they_are_many_and_longer_than_usual() {
        let spoil = |sample: &mut Sample, unwatched: &[u64]| {
            sample.workloads[0].intervals = unwatched.iter().copied().map(point).collect();
            sample.workloads[0].unwatched_max =
                unwatched.iter().max().copied().map(Nanos::from_millis);
        };
        check_warns("unwatched", |sample| spoil(sample, &[0, 0, 0, 5]));
        check_quiet("unwatched", |sample| spoil(sample, &[0, 0, 0, 0, 5]));
        check_quiet("unwatched", |sample| {
            spoil(sample, &[5, 5, 5]);
            sample.headline().service.p50_ns = Some(3_000_000);
        });
    }

    #[test]
    fn a_clock_that_drifts_is_named() {
        check_warns("clock", |sample| {
            sample.workloads[0].in_flight.clock_deviation = 0.002;
        });
    }

    #[test]
    fn the_page_cache_is_named_unless_every_access_is_a_commit() {
        check_warns("page-cache", |sample| {
            sample.workloads[0].effective.cache = CacheMode::Buffered;
            sample.workloads[0].definition.sync = SyncPolicy::NONE;
            sample.workloads[0].durable = false;
        });
        check_warns("page-cache", |sample| {
            sample.workloads[0].effective.cache = CacheMode::Buffered;
            sample.workloads[0].definition.sync.every = 100;
        });
        check_warns("page-cache", |sample| {
            sample.workloads[0].effective.cache = CacheMode::Buffered;
            sample.workloads[0].definition.read_share = PerMille(700);
        });
        check_quiet("page-cache", |sample| {
            sample.workloads[0].effective.cache = CacheMode::Buffered;
        });
    }

    #[test]
    fn fallbacks_short_runs_and_notes_are_passed_on() {
        check_warns("fallback", |sample| {
            sample.workloads[0].effective.fallbacks.push("no ring".to_owned());
        });
        check_warns("too-short", |sample| sample.provisional = Some("1 s".to_owned()));
        check_warns("note", |sample| sample.notes.push("waited".to_owned()));
    }

    #[test]
    fn empty_and_slow_intervals_are_stalls() {
        check_warns("stalls", |sample| {
            sample.evenness().intervals_empty = 1;
        });
        check_warns("stalls", |sample| {
            sample.evenness().intervals_under_half = 1;
        });
    }

    #[test]
    fn uneven_rates_are_noisy_only_over_enough_intervals() {
        check_warns("noisy", |sample| sample.evenness().coefficient_of_variation = 0.21);
        check_quiet("noisy", |sample| {
            *sample.evenness() = durio_analyse::RateVariation {
                coefficient_of_variation: 0.9,
                intervals: 3,
                intervals_empty: 0,
                intervals_under_half: 0,
                interval: Nanos::from_secs(1),
                rate_min_per_second: 90.0,
                rate_max_per_second: 110.0,
                rate_median_per_second: 100.0,
                steadiness: None,
            };
        });
    }

    #[test]
    fn events_that_a_trace_of_the_path_lost_are_a_doubt() {
        let path = |lost_events| durio_analyse::LatencyBreakdown {
            step: 0,
            operations: 312,
            lost_events,
            clock: "mono".into(),
            resolution_ns: 1000,
            mean_ns: 1e5,
            traced_p50_ns: None,
            untraced_p50_ns: None,
            overhead_share: None,
            components: Vec::new(),
            off_cpu_share: 0.0,
            waits_per_operation: 0.0,
            preemptions_per_operation: 0.0,
            devices: Vec::new(),
            unavailable: None,
        };
        check_warns("trace-lost", |sample| {
            sample.workloads[0].latency_breakdown = Some(path(1037));
        });
        check_quiet("trace-lost", |sample| {
            sample.workloads[0].latency_breakdown = Some(path(0));
        });
    }

    #[test]
    fn a_wide_tail_and_a_blocking_submission_are_named() {
        check_warns("tail", |sample| {
            sample.headline().service.p99_99_ns = Some(200_000_000);
        });
        check_warns("submit", |sample| {
            let mut submit = sample.headline().service.clone();
            submit.p50_ns = Some(10_001);
            sample.workloads[0].operations[1].submit = Some(submit);
        });
        let sample = sample();
        assert!(sample.workloads[0].operations[1].submit.is_none());
    }
}
