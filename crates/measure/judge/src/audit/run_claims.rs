//! Claims from durio's findings: a [`Claim`] per workload, with the settings in effect rather than
//! the requested ones. The warnings of the run use more evidence and stand in its report.

use durio_analyse::{
    BatchFindings, Distribution, Findings, IntervalPoint, OperationFindings, WorkloadFindings,
};
use durio_base::stats::least_squares::float;
use durio_base::{Bytes, Nanos};
use durio_plan::{Target, TargetKind};
use durio_record::{OperationName, Phase};
use durio_workload::{CacheMode, CommitterThreads, Pattern, SyncMethod, Workload};

use super::claim::{Claim, ClaimPlace, Durability, Operations};
use super::figure::Figure;

/// The claims of a run, in the order of its steps; rounds and streams are separate claims.
pub fn run_claims(findings: &Findings) -> Vec<Claim> {
    findings.workloads.iter().map(|workload| claim(findings, workload)).collect()
}

fn claim(findings: &Findings, workload: &WorkloadFindings) -> Claim {
    let definition = &workload.definition;
    let effective = &workload.effective;
    let (name, every) = (definition.sync.method.name(), definition.sync.every);
    let is_call = definition.sync.method.is_separate_call();
    let jobs = f64::from(effective.jobs.max(1));
    let of = |name| operations(workload, name);
    let is_one_size = definition.block_mix.is_empty() && definition.write_block_mix.is_empty();
    let step = findings.plan.steps.get(workload.step as usize);
    // A linked sync holds its write's place until the commit is done, which alone has a latency then.
    let is_linked = workload.operation(OperationName::Sync).is_none()
        && definition.sync.method.is_linked()
        && workload.operation(OperationName::Commit).is_some();
    Claim {
        line: Some(ClaimPlace::Name(place(workload))),
        source: findings.run.run.clone(),
        stack: workload.location.clone(),
        workload: workload.name.clone(),
        durable: if is_call { format!("{name} every {every} writes") } else { name.to_owned() },
        // Rounds and levels of a run are not duplicate rows.
        note: place(workload),
        read_share: Some(f64::from(definition.read_share.0) / 1000.0),
        random: Some(definition.pattern == Pattern::Random),
        block_size: is_one_size.then_some(definition.block_size),
        jobs: Some(effective.jobs),
        depth: Some(effective.depth),
        engine: Some(effective.engine.name().to_owned()),
        blocking: Some(!effective.engine.is_asynchronous()),
        buffered: Some(effective.cache == CacheMode::Buffered),
        mean_bytes: workload.batches.as_ref().and_then(|batches| batch_bytes(batches, definition)),
        durability: if is_linked { Durability::InTheWrite } else { durability(definition) },
        writes_per_sync: (is_call && !is_linked).then_some(every),
        paced: workload.open_loop.is_some() || waits_for_records(workload),
        // The queue drains after the end, and holds the ramp's operations at the start.
        open_ends: 1 + u8::from(step.is_some_and(|step| step.ramp > Nanos::ZERO)),
        jobs_time_share: busy_share(workload),
        read: of(OperationName::Read),
        write: if is_linked { linked(workload) } else { of(OperationName::Write) },
        sync: of(OperationName::Sync),
        bandwidth: Some(Figure::exact(workload.bandwidth)).filter(|figure| figure.value > 0.0),
        runtime: Some(workload.measured),
        size: target(findings, workload).map(|target| target.size),
        memory: Some(findings.host.memory).filter(|&memory| memory > Bytes::ZERO),
        target: Some(workload.location.clone()).filter(|place| !place.is_empty()),
        preconditioned: preconditioned(findings, workload),
        idle: workload.idle_before,
        system_cpu_share: Some(workload.cpu.system_cores / jobs),
        ..Claim::default()
    }
}

/// The share of the jobs' time in which their places in the queue were taken.
fn busy_share(workload: &WorkloadFindings) -> Option<f64> {
    // In a closed loop that was counted: they are idle while data is made, while a place waits to be
    // filled again, and when a job has ended before the others.
    let in_flight = &workload.in_flight;
    let is_counted = in_flight.counted > 0.0 && in_flight.offered > 0.0;
    match workload.open_loop.is_none() && workload.batches.is_none() && is_counted {
        true => Some((in_flight.counted / in_flight.offered).min(1.0)),
        false => in_flight.jobs_time_share,
    }
}

/// `step 3, commit`, with round, repetition and stream where they are not the first.
fn place(workload: &WorkloadFindings) -> String {
    let mut place = format!("step {}", workload.step);
    let parts =
        [("round", workload.round), ("repeat", workload.repeat), ("stream", workload.stream)];
    for (word, number) in parts.into_iter().filter(|part| part.1 > 0) {
        place.push_str(&format!(", {word} {number}"));
    }
    format!("{place}, {}", workload.name)
}

/// Writes with linked syncs: their number, and the latency of the commits that they are part of.
fn linked(workload: &WorkloadFindings) -> Operations {
    let Operations { rate, count, .. } = operations(workload, OperationName::Write);
    Operations { rate, count, ..operations(workload, OperationName::Commit) }
}

/// Bytes of a batch in the mean: its records, and what fills it up.
fn batch_bytes(batches: &BatchFindings, definition: &Workload) -> Option<Figure> {
    let filled = 1.0 - batches.padding_share;
    let single = definition.block_mix.is_empty();
    let records = batches.records_mean * float(definition.block_size.get());
    (single && filled > 0.0).then(|| Figure::exact(records / filled))
}

/// A log that waits for records before it writes: by a delay, or for the threads that bring them.
fn waits_for_records(workload: &WorkloadFindings) -> bool {
    let policy = workload.definition.group_commit;
    let threads = policy.is_some_and(|policy| policy.threads == CommitterThreads::OneEach);
    threads || workload.batches.as_ref().is_some_and(|batches| batches.delayed_share > 0.0)
}

fn durability(definition: &Workload) -> Durability {
    match definition.sync.method {
        SyncMethod::None => Durability::Denied,
        SyncMethod::Fsync
        | SyncMethod::Fdatasync
        | SyncMethod::FileRange
        | SyncMethod::LinkedFsync
        | SyncMethod::LinkedFdatasync => Durability::SyncCall,
        SyncMethod::ODsync | SyncMethod::OSync | SyncMethod::RwfDsync | SyncMethod::RwfSync => {
            Durability::InTheWrite
        }
    }
}

fn target<'f>(findings: &'f Findings, workload: &WorkloadFindings) -> Option<&'f Target> {
    let step = findings.plan.steps.get(workload.step as usize)?;
    findings.plan.targets.get(step.stream(workload.stream)?.target)
}

fn preconditioned(findings: &Findings, workload: &WorkloadFindings) -> Option<bool> {
    let device = matches!(target(findings, workload)?.kind, TargetKind::Device { .. });
    let before = findings.preconditioning.iter().any(|before| before.location == workload.location);
    // Only of a device it is known that nothing else could have brought it into its state.
    (before || device).then_some(before)
}

fn operations(workload: &WorkloadFindings, name: OperationName) -> Operations {
    let Some(operation) = workload.operation(name) else { return Operations::default() };
    let service = &operation.service;
    let (bandwidth_min, bandwidth_mean) = samples(workload, operation).unzip();
    Operations {
        rate: Some(Figure::exact(operation.rate)),
        latency_ns_mean: Some(Figure::exact(service.mean_ns)),
        latency_ns_min: Some(Figure::of(service.min_ns)),
        latency_ns_max: Some(Figure::of(service.max_ns)),
        percentiles_ns: percentiles(service),
        count: Some(service.count),
        submit_ns_mean: operation.submit.as_ref().map(|submit| Figure::exact(submit.mean_ns)),
        bandwidth_min,
        bandwidth_mean,
        ..Operations::default()
    }
}

fn percentiles(service: &Distribution) -> Vec<(f64, Figure)> {
    let all = [
        (50.0, service.p50_ns),
        (90.0, service.p90_ns),
        (99.0, service.p99_ns),
        (99.9, service.p99_9_ns),
        (99.99, service.p99_99_ns),
    ];
    all.into_iter().filter_map(|(percent, nanos)| Some((percent, Figure::of(nanos?)))).collect()
}

// The length of a sample, as fio's: the rule that a slow one is a stall is made for those.
const SAMPLE: Nanos = Nanos::from_millis(500);

// Fewer samples than this show no unevenness.
const SAMPLES_MIN: usize = 8;

// In a sample of this many random arrivals, half as many are five standard deviations away.
const ARRIVALS_MIN: f64 = 100.0;

/// The slowest sample's bandwidth and the mean, if all accesses are of one kind.
fn samples(workload: &WorkloadFindings, operation: &OperationFindings) -> Option<(Figure, Figure)> {
    let definition = &workload.definition;
    let alone = definition.reads() != definition.writes();
    let rates = sample_rates(&workload.intervals);
    if !alone || rates.len() < SAMPLES_MIN || operation.rate <= 0.0 {
        return None;
    }
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = rates.iter().sum::<f64>() / float(rates.len() as u64);
    let expected = mean * SAMPLE.as_secs_f64();
    let each = operation.bandwidth / operation.rate;
    let is_chance = workload.open_loop.is_some() && expected < ARRIVALS_MIN;
    (!is_chance).then(|| (Figure::exact(least * each), Figure::exact(mean * each)))
}

/// Rates over neighbouring intervals that are a sample long together.
fn sample_rates(intervals: &[IntervalPoint]) -> Vec<f64> {
    let (mut rates, mut nanos, mut done) = (Vec::new(), 0.0, 0.0);
    for interval in
        intervals.iter().filter(|interval| interval.phase == Phase::Measure && !interval.cut_short)
    {
        let span = float(interval.to.saturating_sub(interval.from).get());
        (nanos, done) = (nanos + span, done + interval.rate * span);
        if nanos >= float(SAMPLE.get()) {
            rates.push(done / nanos);
            (nanos, done) = (0.0, 0.0);
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_plan::{EngineKind, RawPath};
    use serde_json::{from_value, json};

    use super::*;

    /// A mixed load of 3 jobs at depth 5, the second step of two, on a file beside a device.
    fn findings() -> Findings {
        serde_json::from_str(include_str!("run_claims/findings.json")).unwrap()
    }

    /// The claim of findings that were changed.
    fn changed(change: impl Fn(&mut Findings)) -> Claim {
        let mut findings = findings();
        change(&mut findings);
        run_claims(&findings).remove(0)
    }

    /// The same of the workload alone.
    fn of_workload(change: impl Fn(&mut WorkloadFindings)) -> Claim {
        changed(|findings| change(&mut findings.workloads[0]))
    }

    fn exact(value: f64) -> Option<Figure> {
        Some(Figure::exact(value))
    }

    #[test]
    fn each_field_of_a_claim_is_the_figure_of_that_name() {
        let claims = run_claims(&findings());
        assert_eq!(claims.len(), 1);
        let percentiles = |base: f64| {
            [50.0, 90.0, 99.0, 99.9, 99.99]
                .into_iter()
                .zip(1_u8..)
                .map(|(percent, more)| (percent, Figure::exact(base + f64::from(more))))
                .collect()
        };
        let operations = |rate, base: f64, count| Operations {
            rate: exact(rate),
            latency_ns_mean: exact(base + 0.5),
            latency_ns_min: exact(base - 100.0),
            latency_ns_max: exact(base + 6.0),
            percentiles_ns: percentiles(base),
            count: Some(count),
            submit_ns_mean: exact(base / 10.0 + 0.5),
            ..Operations::default()
        };
        let expected = Claim {
            line: Some(ClaimPlace::Name("step 1, mixed".to_owned())),
            source: "2026-11-21T153439-226Z-sweep-15910".to_owned(),
            stack: "/mnt/data".to_owned(),
            workload: "mixed".to_owned(),
            durable: "fdatasync every 3 writes".to_owned(),
            note: "step 1, mixed".to_owned(),
            read_share: Some(0.3),
            random: Some(true),
            block_size: Some(Bytes::from_kib(8)),
            jobs: Some(3),
            depth: Some(5),
            engine: Some("uring".to_owned()),
            blocking: Some(false),
            buffered: Some(true),
            durability: Durability::SyncCall,
            writes_per_sync: Some(3),
            open_ends: 1,
            // 3.0 of 15 places were taken.
            jobs_time_share: Some(0.2),
            read: operations(300.0, 10_000.0, 3000),
            write: operations(701.0, 20_000.0, 7010),
            sync: operations(234.0, 30_000.0, 2340),
            bandwidth: exact(8_192_000.0),
            runtime: Some(Nanos::from_secs(10)),
            size: Some(Bytes::from_gib(1)),
            memory: Some(Bytes::from_gib(16)),
            target: Some("/mnt/data".to_owned()),
            idle: Some(Nanos::from_secs(7)),
            // 0.6 cores of three jobs.
            system_cpu_share: Some(0.6 / 3.0),
            ..Claim::default()
        };
        assert_eq!(claims[0], expected);
    }

    #[test]
    fn rounds_repetitions_and_streams_are_named_where_they_are_not_the_first() {
        let place = |round, repeat, stream| {
            let claim = of_workload(|workload| {
                (workload.round, workload.repeat, workload.stream) = (round, repeat, stream);
            });
            assert_eq!(claim.line, Some(ClaimPlace::Name(claim.note.clone())));
            claim.note
        };
        assert_eq!(place(0, 0, 0), "step 1, mixed");
        assert_eq!(place(2, 0, 0), "step 1, round 2, mixed");
        assert_eq!(place(1, 3, 4), "step 1, round 1, repeat 3, stream 4, mixed");
    }

    #[test]
    fn settings_are_those_that_were_in_effect() {
        let claim = of_workload(|workload| {
            workload.effective.engine = EngineKind::Sync;
            workload.effective.cache = CacheMode::Direct;
            workload.definition.pattern = Pattern::Sequential;
            workload.effective.jobs = 0;
            workload.bandwidth = 0.0;
            workload.location = String::new();
        });
        assert_eq!((claim.engine.as_deref(), claim.blocking), (Some("sync"), Some(true)));
        assert_eq!((claim.buffered, claim.random), (Some(false), Some(false)));
        assert_eq!((claim.system_cpu_share, claim.bandwidth), (Some(0.6), None));
        assert_eq!(claim.target, None);
        let mix = || from_value(json!([[4096, 500], [8192, 500]])).unwrap();
        assert_eq!(of_workload(|workload| workload.definition.block_mix = mix()).block_size, None);
        assert_eq!(
            of_workload(|workload| workload.definition.write_block_mix = mix()).block_size,
            None
        );
        let memory = |bytes| changed(|findings| findings.host.memory = Bytes::new(bytes)).memory;
        assert_eq!((memory(0), memory(1)), (None, Some(Bytes::new(1))));
        // A ramp has operations at the begin as well.
        let ramped = changed(|findings| findings.plan.steps[1].ramp = Nanos::new(1));
        assert_eq!(ramped.open_ends, 2);
        assert_eq!(changed(|findings| findings.plan.steps[0].ramp = Nanos::new(1)).open_ends, 1);
    }

    #[test]
    fn each_method_of_syncing_is_durable_in_its_way() {
        let told = |method: SyncMethod| {
            let claim = of_workload(|workload| workload.definition.sync.method = method);
            (claim.durability, claim.durable, claim.writes_per_sync)
        };
        for (method, durability, durable, every) in [
            (SyncMethod::None, Durability::Denied, "none", None),
            (SyncMethod::Fsync, Durability::SyncCall, "fsync every 3 writes", Some(3)),
            (
                SyncMethod::FileRange,
                Durability::SyncCall,
                "sync_file_range every 3 writes",
                Some(3),
            ),
            (SyncMethod::ODsync, Durability::InTheWrite, "o_dsync", None),
            (SyncMethod::OSync, Durability::InTheWrite, "o_sync", None),
            (SyncMethod::RwfDsync, Durability::InTheWrite, "rwf_dsync", None),
            (SyncMethod::RwfSync, Durability::InTheWrite, "rwf_sync", None),
        ] {
            assert_eq!(told(method), (durability, durable.to_owned(), every));
        }
    }

    #[test]
    fn a_linked_sync_is_in_its_commit_and_no_call_of_its_own() {
        let linked = |without: &[OperationName]| {
            of_workload(|workload| {
                workload.definition.sync.method = SyncMethod::LinkedFsync;
                workload.operations.retain(|operation| !without.contains(&operation.operation));
            })
        };
        let claim = linked(&[OperationName::Sync]);
        assert_eq!((claim.durability, claim.writes_per_sync), (Durability::InTheWrite, None));
        // The writes' number, with the latency of their commits.
        assert_eq!((claim.write.rate, claim.write.count), (exact(701.0), Some(7010)));
        assert_eq!(claim.write.latency_ns_mean, exact(50_000.5));
        assert_eq!(claim.write.submit_ns_mean, exact(5_000.5));
        for without in [&[][..], &[OperationName::Sync, OperationName::Commit]] {
            let claim = linked(without);
            assert_eq!(claim.durability, Durability::SyncCall, "{without:?}");
            assert_eq!(claim.write.latency_ns_mean, exact(20_000.5));
        }
        // A call after the write, of which none was seen.
        let claim = of_workload(|workload| {
            workload.operations.retain(|operation| operation.operation != OperationName::Sync);
        });
        assert_eq!((claim.durability, claim.writes_per_sync), (Durability::SyncCall, Some(3)));
        assert_eq!(claim.sync, Operations::default());
    }

    fn open_loop() -> durio_analyse::OpenLoop {
        from_value(json!({
            "arrivals": {"poisson": {"rate_per_second": 1000.0}}, "offered_per_second": 1000.0,
            "achieved_per_second": 999.0, "due": 54, "never_started": 0, "started_share": 1.0,
            "lag_ns_mean": 0.0, "lag_ns_max": 0, "behind_ns_max": 0
        }))
        .unwrap()
    }

    fn batches(delayed_share: f64, padding_share: f64) -> BatchFindings {
        from_value(json!({
            "count": 10, "records_mean": 2.5, "records_p50": 2, "records_p99": 4, "records_max": 4,
            "padding_share": padding_share, "delayed_share": delayed_share, "full_share": 0.0,
            "sizes": [[2, 5], [3, 5]]
        }))
        .unwrap()
    }

    #[test]
    fn a_load_is_paced_by_its_arrivals_or_by_a_log_that_waits_for_records() {
        assert!(!of_workload(|_| {}).paced);
        assert!(of_workload(|workload| workload.open_loop = Some(open_loop())).paced);
        assert!(!of_workload(|workload| workload.batches = Some(batches(0.0, 0.0))).paced);
        assert!(of_workload(|workload| workload.batches = Some(batches(0.01, 0.0))).paced);
        let with_threads = |threads: &str| {
            let policy = json!({"committers": 4, "threads": threads, "batch_bytes_max": 65536});
            of_workload(|workload| {
                workload.definition.group_commit = Some(from_value(policy.clone()).unwrap());
            })
        };
        assert!(with_threads("one_each").paced);
        assert!(!with_threads("multiplexed").paced);
    }

    #[test]
    fn a_batch_has_the_bytes_of_its_records_and_what_fills_it_up() {
        let mean = |padding_share, is_mixed: bool| {
            let mix = json!([[4096, 500], [8192, 500]]);
            of_workload(|workload| {
                workload.batches = Some(batches(0.0, padding_share));
                if is_mixed {
                    workload.definition.block_mix = from_value(mix.clone()).unwrap();
                }
            })
            .mean_bytes
        };
        assert_eq!(mean(0.0, false), exact(2.5 * 8192.0));
        assert_eq!(mean(0.2, false), exact(2.5 * 8192.0 / 0.8));
        assert_eq!((mean(1.0, false), mean(0.0, true)), (None, None));
    }

    #[test]
    fn the_time_of_jobs_is_counted_in_a_closed_loop_and_else_their_own() {
        let share = |change: &dyn Fn(&mut WorkloadFindings)| {
            of_workload(|workload| change(workload)).jobs_time_share
        };
        let own = Some(0.75);
        assert_eq!(share(&|workload| workload.open_loop = Some(open_loop())), own);
        assert_eq!(share(&|workload| workload.batches = Some(batches(0.0, 0.0))), own);
        assert_eq!(share(&|workload| workload.in_flight.counted = 0.0), own);
        assert_eq!(share(&|workload| workload.in_flight.offered = 0.0), own);
        assert_eq!(share(&|workload| workload.in_flight.counted = 16.0), Some(1.0));
        assert_eq!(share(&|workload| workload.in_flight.counted = 12.0), Some(0.8));
    }

    #[test]
    fn only_of_a_device_and_of_what_was_brought_into_its_state_is_that_known() {
        assert_eq!(changed(|_| {}).preconditioned, None);
        let on_device = |findings: &mut Findings| {
            let path = RawPath::from(std::path::PathBuf::from("/dev/vdb"));
            findings.plan.targets[1].kind = TargetKind::Device { path };
        };
        assert_eq!(changed(on_device).preconditioned, Some(false));
        let before = |location: &str| {
            changed(|findings| {
                let mut other = findings.workloads[0].clone();
                other.location = location.to_owned();
                findings.preconditioning = vec![other];
            })
            .preconditioned
        };
        assert_eq!((before("/mnt/data"), before("/mnt/other")), (Some(true), None));
        // A stream that the plan has not.
        assert_eq!(of_workload(|workload| workload.stream = 1).size, None);
        assert_eq!(of_workload(|workload| workload.step = 0).size, Some(Bytes::from_gib(2)));
    }

    /// Intervals of so many milliseconds at these rates, one after the other.
    fn intervals(each_ms: u64, rates: &[f64]) -> Vec<IntervalPoint> {
        let point = |(at, &rate): (u64, &f64)| {
            let (from, to) = (at * each_ms * 1_000_000, (at + 1) * each_ms * 1_000_000);
            from_value(json!({
                "phase": "measure", "from_ns": from, "to_ns": to, "rate_per_second": rate,
                "p50_ns": null, "p99_ns": null, "max_ns": null
            }))
            .unwrap()
        };
        (0..).zip(rates).map(point).collect()
    }

    #[test]
    fn a_sample_is_as_many_intervals_as_have_500_ms() {
        assert_eq!(SAMPLE, Nanos::new(500_000_000));
        let one_each = intervals(500, &[100.0, 300.0, 50.0]);
        assert_eq!(sample_rates(&one_each), [100.0, 300.0, 50.0]);
        // Of 200 ms it takes three, and the last two are none.
        let rates = [10.0, 20.0, 60.0, 1.0, 2.0, 3.0, 7.0, 8.0];
        let found = sample_rates(&intervals(200, &rates));
        assert_eq!(found.len(), 2);
        assert!((found[0] - 30.0).abs() < 1e-9 && (found[1] - 2.0).abs() < 1e-9, "{found:?}");
        assert_eq!(sample_rates(&intervals(250, &[10.0, 30.0])), [20.0]);
        assert_eq!(sample_rates(&intervals(249, &[10.0, 30.0])), [0.0; 0]);
        // What does not count.
        let mut some = one_each;
        some[0].phase = Phase::Ramp;
        some[2].cut_short = true;
        assert_eq!(sample_rates(&some), [300.0]);
    }

    #[test]
    fn the_slowest_of_eight_samples_counts_where_all_accesses_are_of_one_kind() {
        let sampled = |change: &dyn Fn(&mut WorkloadFindings)| {
            let claim = of_workload(|workload| {
                workload.definition.read_share.0 = 1000;
                workload.intervals =
                    intervals(500, &[300.0, 300.0, 300.0, 60.0, 300.0, 300.0, 300.0, 300.0]);
                change(workload);
            });
            (claim.read.bandwidth_min, claim.read.bandwidth_mean)
        };
        // 60 and 270 reads of 8 KiB a second.
        let seen = (exact(60.0 * 8192.0), exact(270.0 * 8192.0));
        assert_eq!(sampled(&|_| {}), seen);
        assert_eq!(sampled(&|workload| workload.definition.read_share.0 = 500), (None, None));
        assert_eq!(sampled(&|workload| workload.intervals.truncate(7)), (None, None));
        let at_rest = |workload: &mut WorkloadFindings| {
            workload.operations.iter_mut().for_each(|operation| operation.rate = 0.0);
        };
        assert_eq!(sampled(&at_rest), (None, None));
        // Of 135 arrivals in a sample 30 are no chance, of 99.9 they might be.
        assert_eq!(sampled(&|workload| workload.open_loop = Some(open_loop())), seen);
        let fewer = |rate: f64| {
            move |workload: &mut WorkloadFindings| {
                workload.open_loop = Some(open_loop());
                workload.intervals.iter_mut().for_each(|point| point.rate = rate);
            }
        };
        assert_eq!(sampled(&fewer(199.9)), (None, None));
        assert_eq!(sampled(&fewer(200.0)), (exact(200.0 * 8192.0), exact(200.0 * 8192.0)));
    }
}
