//! A step in which nothing is like anything else: two streams on two targets, four kinds of operations,
//! two jobs each. Each figure is that of its own operation, stream and phase.

use durio_base::Bytes;
use durio_observe::DeviceCounters;
use durio_plan::{RawPath, Target, TargetKind};
use durio_record::{Batches, ContextSwitches};
use durio_workload::{Arrivals, PerMille, RegionRule, SyncPolicy};

use super::*;
use crate::tests::sample::sample;
use crate::{DeviceTime, Distribution};

/// So many latencies, 1 ns apart, the first 1 ns above `above`.
fn latencies(count: u64, above: u64) -> Latency {
    let mut histogram = Latency::default();
    (1..=count).for_each(|nanos| histogram.record(above + nanos));
    histogram
}

fn record(operation: OperationName, count: u64, above: u64, bytes: u64) -> OperationRecord {
    OperationRecord {
        operation,
        bytes: Bytes::new(bytes),
        service: latencies(count, above),
        submit: None,
        completion: None,
        response: None,
        fio_bins: Vec::new(),
    }
}

fn interval(
    stream: u32,
    phase: Phase,
    seconds: (u64, u64),
    operations: Vec<OperationRecord>,
) -> Interval {
    Interval {
        step: 0,
        repeat: 0,
        round: 4,
        stream,
        target: stream as usize,
        phase,
        index: u64::from(phase == Phase::Measure),
        from: Nanos::from_secs(seconds.0),
        to: Nanos::from_secs(seconds.1),
        unwatched_max: Some(Nanos::from_micros(30 + seconds.1)),
        operations,
    }
}

fn job(stream: u32, job: u32, measured_ms: u64, operations: Vec<OperationRecord>) -> JobEnded {
    let number = u64::from(job);
    JobEnded {
        step: 0,
        round: 4,
        stream,
        job,
        measured: Nanos::from_millis(measured_ms),
        cpu_user: Nanos::from_millis(10 + 10 * number),
        cpu_system: Nanos::from_millis(30 + 20 * number),
        context_switches: Some(ContextSwitches {
            voluntary: 700 + number,
            involuntary: 30 + number,
        }),
        run_delay: None,
        exchanges: 5,
        accounting: Accounting {
            in_flight_ns: 3_000_000_000 + 2_000_000_000 * number,
            span_ns: 3_000_000_000 + 1_000_000_000 * number,
            engine_span_ns: 4_000_000_000 + 1_000_000_000 * number,
            filling_ns: 90_000_000 * number,
        },
        pacing: None,
        batches: None,
        operations,
    }
}

fn stream(jobs: u32, depth: u32) -> StreamStarted {
    StreamStarted {
        engine: EngineKind::Uring,
        jobs,
        depth,
        batch: 7,
        cache: CacheMode::Direct,
        region: RegionRule::Shared,
        clock: "tsc".to_owned(),
        features: Vec::new(),
        fallbacks: Vec::new(),
        arrivals: Arrivals::Closed,
    }
}

/// Commits on `/data`, and beside them a mix of reads and writes on `/other`.
fn findings() -> Vec<WorkloadFindings> {
    let mut plan = sample().plan;
    let path = RawPath::from("/other");
    plan.targets.push(Target {
        name: "table".to_owned(),
        location: Some(path.clone()),
        kind: TargetKind::ExistingFile { path },
        ..plan.targets[0].clone()
    });
    let step = &mut plan.steps[0];
    let mut mix = step.load.clone();
    mix.target = 1;
    mix.workload.name = "mix".to_owned();
    (mix.workload.read_share, mix.workload.sync) = (PerMille(800), SyncPolicy::NONE);
    step.beside.push(mix);
    let started =
        StepStarted { step: 0, round: 4, stream: stream(2, 3), beside: vec![stream(4, 5)] };
    let mut state = streams(&started);
    let step = plan.steps[0].clone();
    let mut take = |interval: Interval| {
        let load = step.stream(interval.stream).unwrap();
        state[interval.stream as usize].take_interval(&interval, &step, load, false);
    };
    take(interval(0, Phase::Ramp, (0, 1), vec![record(OperationName::Write, 10, 0, 40_960)]));
    let commits = vec![
        record(OperationName::Write, 200, 0, 819_200),
        record(OperationName::Sync, 110, 400, 0),
        record(OperationName::Commit, 100, 1000, 0),
    ];
    take(interval(0, Phase::Measure, (1, 3), commits));
    let mix = vec![
        record(OperationName::Read, 300, 600, 1_228_800),
        record(OperationName::Write, 60, 1500, 245_760),
    ];
    take(interval(1, Phase::Measure, (1, 3), mix));
    let split = OperationRecord {
        submit: Some(latencies(50, 30)),
        completion: Some(latencies(70, 200)),
        ..record(OperationName::Write, 0, 0, 0)
    };
    state[0].take_job(&job(0, 0, 2000, vec![split]));
    state[0].take_job(&job(0, 1, 1900, Vec::new()));
    state[1].take_job(&job(1, 0, 1500, Vec::new()));
    state[1].take_job(&job(1, 1, 1200, Vec::new()));
    let ended = StepEnded {
        step: 0,
        round: 4,
        outcome: Outcome::Complete,
        measured: Nanos::from_secs(9),
        cpu: None,
        devices: Vec::new(),
        cpu_process_user: None,
        cpu_process_system: None,
        idle_before: Some(Nanos::from_millis(8)),
        context_switches: None,
    };
    state.iter_mut().for_each(|stream| stream.take_end(&ended));
    step_findings(&state, &plan, &step, 4, false)
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "{found} is no {expected}");
}

/// Count, minimum, the percentiles from p1 to p99, maximum.
fn shape(it: &Distribution) -> [u64; 7] {
    let some = |nanos: Option<u64>| nanos.unwrap();
    [
        it.count,
        it.min_ns,
        some(it.p1_ns),
        some(it.p50_ns),
        some(it.p90_ns),
        some(it.p99_ns),
        it.max_ns,
    ]
}

#[test]
fn each_operation_has_its_own_rate_bytes_and_latencies() {
    let [commits, mix] = &findings()[..] else { panic!("two streams") };
    let expected = [
        (OperationName::Commit, 50.0, 409_600.0, [100, 1001, 1001, 1050, 1090, 1099, 1100], 1050.5),
        (OperationName::Write, 100.0, 409_600.0, [200, 1, 2, 100, 180, 198, 200], 100.5),
        (OperationName::Sync, 55.0, 0.0, [110, 401, 402, 455, 499, 509, 510], 455.5),
    ];
    let of_mix = [
        (OperationName::Read, 200.0, 819_200.0, [300, 601, 603, 750, 870, 897, 900], 750.5),
        (OperationName::Write, 40.0, 163_840.0, [60, 1501, 1501, 1530, 1554, 1560, 1560], 1530.5),
    ];
    let all = expected
        .into_iter()
        .map(|expected| (commits, expected))
        .chain(of_mix.map(|expected| (mix, expected)));
    for (workload, (name, rate, bandwidth, percentiles, mean)) in all {
        let found = workload.operation(name).unwrap();
        assert_close(found.rate, rate);
        assert_close(found.bandwidth, bandwidth);
        assert_close(found.service.mean_ns, mean);
        match found.service.p99_ns {
            Some(_) => assert_eq!(shape(&found.service), percentiles, "{name:?}"),
            None => assert_eq!(found.service.count, 60, "{name:?}"),
        }
    }
    assert_eq!(commits.operations.len() + mix.operations.len(), 5);
    // The headline first, then the others in the order of their names' list.
    assert_eq!(commits.operations[0].operation, OperationName::Commit);
    assert_eq!(mix.operations[0].operation, OperationName::Read);
    assert_eq!([commits.headline, mix.headline], [OperationName::Commit, OperationName::Read]);
}

#[test]
fn a_stream_has_its_own_place_time_jobs_and_totals() {
    let [commits, mix] = &findings()[..] else { panic!("two streams") };
    let place = |found: &WorkloadFindings| {
        (
            found.stream,
            found.round,
            found.name.clone(),
            found.location.clone(),
            found.target.clone(),
        )
    };
    assert_eq!(place(commits), (0, 4, "commit".into(), "/data".into(), "log".into()));
    assert_eq!(place(mix), (1, 4, "mix".into(), "/other".into(), "table".into()));
    let effective = |found: &WorkloadFindings| {
        [found.effective.jobs, found.effective.depth, found.effective.batch]
    };
    assert_eq!([effective(commits), effective(mix)], [[2, 3, 7], [4, 5, 7]]);
    // Each stream has the time of its longest job.
    let times = [commits.measured, mix.measured].map(|time| time.to_string());
    assert_eq!(times, ["2 s", "1.5 s"]);
    assert_close(commits.iops, 100.0);
    assert_close(mix.iops, 240.0);
    assert_close(commits.bandwidth, 409_600.0);
    assert_close(mix.bandwidth, 983_040.0);
    assert_close(commits.headline_rate(), 50.0);
    assert_close(mix.headline_rate(), 240.0);
    assert_eq!([commits.durable, mix.durable], [true, false]);
    assert_eq!(commits.idle_before, Some(Nanos::from_millis(8)));
}

#[test]
fn submission_and_completion_are_told_apart() {
    let [commits, _] = &findings()[..] else { panic!("two streams") };
    let write = commits.operation(OperationName::Write).unwrap();
    let [submit, completion] =
        [&write.submit, &write.completion].map(|latency| latency.as_ref().unwrap());
    assert_eq!([submit.count, submit.min_ns, submit.max_ns], [50, 31, 80]);
    assert_eq!([submit.p1_ns, submit.p50_ns, submit.p90_ns], [None, Some(55), Some(75)]);
    assert_eq!([completion.count, completion.min_ns, completion.max_ns], [70, 201, 270]);
    assert_eq!([completion.p50_ns, completion.p90_ns], [Some(235), Some(263)]);
    assert!(commits.operation(OperationName::Sync).unwrap().submit.is_none());
}

#[test]
fn both_sides_of_littles_law_take_the_ramp_and_leave_commits_out() {
    let [commits, mix] = &findings()[..] else { panic!("two streams") };
    // 10 and 200 writes and 110 syncs, whose latencies are consecutive numbers.
    let sum = 55.0 + 20_100.0 + (110.0 * 400.0 + 6105.0);
    assert_close(commits.in_flight.by_latency, sum / 4e9);
    assert_close(commits.in_flight.counted, 2.0);
    assert_close(commits.in_flight.offered, 6.0);
    assert_close(mix.in_flight.offered, 20.0);
    assert_close(commits.in_flight.deviation, sum / 8e9 - 1.0);
    assert_close(commits.in_flight.clock_deviation, 0.25);
    assert_close(commits.in_flight.jobs_time_share.unwrap(), 0.975);
    assert_close(mix.in_flight.jobs_time_share.unwrap(), 0.9);
    assert_eq!(commits.in_flight.span, Nanos::from_secs(4));
}

#[test]
fn processor_time_is_of_the_jobs_of_the_stream_and_of_its_operations() {
    let [commits, mix] = &findings()[..] else { panic!("two streams") };
    assert_close(commits.cpu.user_cores, 0.03 / 5.0);
    assert_close(commits.cpu.system_cores, 0.08 / 5.0);
    assert_close(commits.cpu.job_shares[0], 0.04 / 4.0);
    assert_close(commits.cpu.job_shares[1], 0.07 / 5.0);
    assert_close(commits.cpu.busiest_job_share, 0.014);
    // 200 writes and 110 syncs in 2 of the 5 s, 300 reads and 60 writes in 1.5 of them.
    assert_close(commits.cpu.per_operation_ns, 110e6 / 310.0 * 0.4);
    assert_close(mix.cpu.per_operation_ns, 110e6 / 360.0 * 0.3);
    assert_close(commits.context_switches_per_operation.unwrap(), 1401.0 / 310.0 * 0.4);
    assert_close(commits.involuntary_switches_per_operation.unwrap(), 61.0 / 310.0 * 0.4);
    assert_close(commits.data.as_ref().unwrap().making_share, 0.09 / 9.0);
}

#[test]
fn an_interval_has_the_rate_and_the_latencies_of_the_headline() {
    let [commits, mix] = &findings()[..] else { panic!("two streams") };
    let [ramp, measured] = &commits.intervals[..] else { panic!("two intervals") };
    assert_eq!([ramp.phase, measured.phase], [Phase::Ramp, Phase::Measure]);
    assert_eq!([ramp.p50_ns, ramp.p99_ns, ramp.max_ns], [None; 3]);
    assert_eq!([measured.p50_ns, measured.p99_ns], [Some(1050), Some(1099)]);
    assert_eq!(measured.max_ns, Some(1100));
    assert_close(measured.rate, 50.0);
    assert_eq!(measured.unwatched_max, Some(Nanos::from_micros(33)));
    assert_eq!(commits.unwatched_max, Some(Nanos::from_micros(33)));
    let [reads] = &mix.intervals[..] else { panic!("one interval") };
    // Reads and writes together, and the latencies of reads.
    assert_close(reads.rate, 180.0);
    assert_eq!([reads.p50_ns, reads.p99_ns, reads.max_ns], [Some(750), Some(897), Some(900)]);
}

/// A stream alone, whose device completed so many requests for 1000 writes of 500.5 µs; reads and writes
/// took the device 300 ms, with the 20 of flushes.
fn device_time(requests: u64, cache: CacheMode) -> Option<DeviceTime> {
    let mut plan = sample().plan;
    plan.steps[0].load.workload.sync = SyncPolicy::NONE;
    let step = plan.steps[0].clone();
    let alone = StreamStarted { cache, ..stream(1, 1) };
    let started = StepStarted { step: 0, round: 4, stream: alone, beside: Vec::new() };
    let mut state = streams(&started);
    let write = OperationRecord {
        service: {
            let mut histogram = Latency::default();
            (0..1000).for_each(|at| histogram.record(at * 1000 + 1000));
            histogram
        },
        ..record(OperationName::Write, 1, 0, 1000 * 4096)
    };
    let interval = interval(0, Phase::Measure, (1, 3), vec![write]);
    state[0].take_interval(&interval, &step, &step.load, false);
    state[0].take_job(&job(0, 0, 2000, Vec::new()));
    let idle = DeviceCounters { name: "other".to_owned(), ..DeviceCounters::default() };
    let counted = DeviceCounters {
        name: "vda".to_owned(),
        reads_completed: 100,
        writes_completed: requests - 100,
        read_ms: 90,
        write_ms: 210,
        flush_ms: Some(20),
        ..DeviceCounters::default()
    };
    state[0].take_end(&StepEnded {
        step: 0,
        round: 4,
        outcome: Outcome::Complete,
        measured: Nanos::from_secs(2),
        cpu: None,
        devices: vec![idle, counted],
        cpu_process_user: None,
        cpu_process_system: None,
        idle_before: None,
        context_switches: None,
    });
    step_findings(&state, &plan, &step, 4, false).remove(0).device_time
}

#[test]
fn the_time_of_a_device_is_told_where_its_requests_are_as_many_as_accesses_to_a_tenth() {
    let is_told = |requests| device_time(requests, CacheMode::Direct).is_some();
    assert_eq!(
        [is_told(899), is_told(901), is_told(1099), is_told(1101)],
        [false, true, true, false]
    );
    assert_eq!(
        device_time(1000, CacheMode::Buffered),
        None,
        "what is written back later is not in it"
    );
    let found = device_time(1000, CacheMode::Direct).unwrap();
    assert_eq!(found.device, "vda");
    assert_close(found.requests_per_access, 1.0);
    assert_close(found.request_ns_mean, 300_000.0);
    // 500.5 ms in all.
    assert_close(found.outside_ns_mean, 200_500.0);
    assert_close(found.outside_share, 200.5 / 500.5);
    // The jobs had an operation under way for an eighth of their time.
    assert_eq!(found.shares, None);
}

/// What others read and wrote per second below a step of 5 s, whose streams read 1,228,800 bytes; the
/// device moved 10 MiB each way.
fn foreign_io_with(change: impl FnOnce(&mut Plan, &mut [StreamStarted; 2])) -> Option<[f64; 2]> {
    let mut plan = sample().plan;
    let workload = &mut plan.steps[0].load.workload;
    (workload.read_share, workload.sync) = (PerMille::ALL, SyncPolicy::NONE);
    let reads = plan.steps[0].load.clone();
    plan.steps[0].beside.push(reads);
    let mut started = [stream(1, 1), stream(1, 1)];
    change(&mut plan, &mut started);
    // The step is the last of the plan.
    let step = plan.steps.last().unwrap().clone();
    let [first, second] = started;
    let mut state =
        streams(&StepStarted { step: 0, round: 4, stream: first, beside: vec![second] });
    let of_stream = |stream| {
        let reads = vec![record(OperationName::Read, 300, 600, 614_400)];
        interval(stream, Phase::Ramp, (0, 5), reads)
    };
    for (number, state) in (0..).zip(&mut state) {
        state.take_interval(&of_stream(number), &step, step.stream(number).unwrap(), false);
        state.take_job(&job(number, 1, 2000, Vec::new()));
        let sectors = 10 * 2048;
        let device = DeviceCounters {
            name: "vda".to_owned(),
            reads_completed: 9,
            sectors_read: sectors,
            sectors_written: sectors,
            ..DeviceCounters::default()
        };
        state.take_end(&StepEnded {
            step: 0,
            round: 4,
            outcome: Outcome::Complete,
            measured: Nanos::from_secs(2),
            cpu: None,
            devices: vec![device],
            cpu_process_user: None,
            cpu_process_system: None,
            idle_before: None,
            context_switches: None,
        });
    }
    let found = step_findings(&state, &plan, &step, 4, false);
    assert_eq!(found[1].foreign_io, None, "the streams share the device");
    let io = found[0].foreign_io.as_ref()?;
    Some([io.read_bytes_per_second, io.written_bytes_per_second])
}

#[test]
fn io_of_others_is_what_the_streams_of_a_step_did_not_cause() {
    let all = 10.0 * 1_048_576.0;
    let reads = (all - 1_228_800.0) / 5.0;
    assert_eq!(foreign_io_with(|_, _| {}), Some([reads, all / 5.0]));
    let cached = foreign_io_with(|_, started| started[1].cache = CacheMode::Buffered);
    assert_eq!(cached, Some([0.0, all / 5.0]));
    let writes =
        foreign_io_with(|plan, _| plan.steps[0].beside[0].workload.read_share = PerMille(999));
    assert_eq!(writes, Some([reads, 0.0]));
    for engine in [EngineKind::Null, EngineKind::Fio] {
        assert_eq!(foreign_io_with(|_, started| started[1].engine = engine), None);
    }
    let mapped = foreign_io_with(|_, started| started[0].engine = EngineKind::Mmap);
    assert_eq!(mapped, Some([0.0, all / 5.0]));
}

#[test]
fn what_an_earlier_step_left_in_the_page_cache_is_not_written_by_others() {
    let after = |cache, sync| {
        let found = foreign_io_with(|plan, _| {
            let mut earlier = plan.steps[0].clone();
            earlier.load.workload.read_share = PerMille::NONE;
            (earlier.load.workload.cache, earlier.load.workload.sync) = (cache, sync);
            plan.steps[0].index = 1;
            plan.steps.insert(0, earlier);
        });
        found.unwrap()[1] > 0.0
    };
    let every_write = sample().plan.steps[0].load.workload.sync;
    assert!(after(CacheMode::Direct, SyncPolicy::NONE));
    assert!(after(CacheMode::Buffered, every_write));
    assert!(!after(CacheMode::Buffered, SyncPolicy::NONE));
}

/// A stream alone whose operations come at 300 a second, to two jobs.
fn paced(batches: Option<&Batches>) -> WorkloadFindings {
    let plan = sample().plan;
    let step = plan.steps[0].clone();
    let arrivals = Arrivals::Constant { rate_per_second: 300.0 };
    let alone = StreamStarted { arrivals, ..stream(2, 3) };
    let mut state = streams(&StepStarted { step: 0, round: 4, stream: alone, beside: Vec::new() });
    let records = vec![
        record(OperationName::Write, 200, 0, 819_200),
        record(OperationName::Sync, 110, 400, 0),
        record(OperationName::Commit, 100, 1000, 0),
    ];
    let measured = interval(0, Phase::Measure, (1, 3), records);
    state[0].take_interval(&measured, &step, &step.load, false);
    let pacings = [
        Pacing {
            due: 500,
            started: 480,
            punctual: 200,
            lag_ns_sum: 4000,
            lag_ns_max: 90,
            behind_ns_max: 7000,
        },
        Pacing {
            due: 300,
            started: 300,
            punctual: 100,
            lag_ns_sum: 2000,
            lag_ns_max: 60,
            behind_ns_max: 8000,
        },
    ];
    for (number, pacing) in (0..).zip(pacings) {
        state[0].take_job(&JobEnded {
            pacing: Some(pacing),
            batches: batches.cloned(),
            ..job(0, number, 2000, Vec::new())
        });
    }
    state[0].take_end(&StepEnded {
        step: 0,
        round: 4,
        outcome: Outcome::Complete,
        measured: Nanos::from_secs(2),
        cpu: None,
        devices: Vec::new(),
        cpu_process_user: None,
        cpu_process_system: None,
        idle_before: None,
        context_switches: None,
    });
    step_findings(&state, &plan, &step, 4, false).remove(0)
}

#[test]
fn an_open_loop_is_that_of_all_jobs_and_its_longest_waits_those_of_the_worst() {
    let open = paced(None).open_loop.unwrap();
    assert_eq!((open.due, open.never_started), (800, 20));
    assert_eq!((open.lag_ns_max, open.behind_ns_max), (90, 8000));
    assert_close(open.offered_per_second, 300.0);
    assert_close(open.started_share, 0.975);
    // 6 µs of 300 that were punctual.
    assert_close(open.lag_ns_mean, 20.0);
    // 200 writes in 2 s; at a log its 100 commits.
    assert_close(open.achieved_per_second, 100.0);
    let (padding, delayed, full) = (Bytes::new(4096), 1, 2);
    let log = Batches { sizes: vec![(3, 20)], padding, delayed, full };
    let found = paced(Some(&log));
    assert_close(found.open_loop.unwrap().achieved_per_second, 50.0);
    let batches = found.batches.unwrap();
    assert_eq!((batches.count, batches.records_max), (40, 3));
    // 120 records by 110 syncs.
    assert_close(batches.commits_per_sync.unwrap(), 120.0 / 110.0);
    assert_close(batches.delayed_share, 0.05);
    assert_close(batches.full_share, 0.1);
}
