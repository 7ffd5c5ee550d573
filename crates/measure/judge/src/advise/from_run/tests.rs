//! Facts of runs with planted times: the null engine's, and findings of `durio durable` made by hand.

use durio_base::Nanos;
use durio_observe::{DeviceCounters, Host, LayerKind};
use durio_plan::{
    ClockChoice, EngineKind, Limit, Load, NullScript, PLAN_SCHEMA, Plan, Purpose, Role, Step,
    Target,
};
use durio_record::{Environment, Event, Journal, Manifest};
use durio_run::{EventSink, RunContext, StopFlag, run};
use durio_workload::{GroupCommit, PerMille, SyncPolicy};

use super::*;
use durio_analyse::Analyser;
use durio_analyse::durable::{
    ArmFigures, ArmLatencies, ArmSetting, BatchAdvice, CommitDelayAdvice, CommitDelayFindings,
    DurableArm, DurableFindings, FileModeRow, FileModesFindings, GroupCommitFindings,
    GroupCommitRow, MethodRow, MethodsFindings, SizeCurve, SizeShare, SizesFindings,
    SyncEveryFindings, SyncEveryRow,
};

struct Sink(Analyser);

impl EventSink for Sink {
    fn event(
        &mut self,
        _: Nanos,
        event: Event,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0.observe(&event);
        Ok(())
    }
}

/// Enough for a 99th percentile.
const OPERATIONS: u64 = 120;

/// What each step does, and how long each of its calls takes in microseconds.
fn measured(steps: &[(Workload, u64)]) -> Findings {
    let step = |(index, (workload, micros)): (usize, &(Workload, u64))| {
        let script = NullScript { latencies: vec![Nanos::from_micros(*micros)], fails_at: None };
        let load =
            Load { script: Some(script), ..Load::new(index, workload.clone(), EngineKind::Null) };
        let limit = Limit::Operations(OPERATIONS);
        let step = Step::new(Role::Measure, load, limit, Nanos::from_secs(60));
        Step { index: u32::try_from(index).unwrap(), ..step }
    };
    let target = |index: usize| Target {
        name: format!("t{index}"),
        location: Some("/srv".into()),
        kind: TargetKind::Scripted,
        size: Bytes::from_gib(1),
        destroy: false,
    };
    let plan = Plan {
        thresholds: Vec::new(),
        schema: PLAN_SCHEMA,
        purpose: Purpose::Check,
        seed: 1,
        clock: ClockChoice::Auto,
        targets: (0..steps.len()).map(target).collect(),
        steps: steps.iter().enumerate().map(step).collect(),
        campaign: None,
    };
    plan.validate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::begin(folder.path(), None).unwrap();
    let context = RunContext::new(&mut journal, StopFlag::default());
    let mut sink = Sink(analyser(&plan));
    run(&plan, context, &mut sink).unwrap();
    sink.0.finish("runs/it".to_owned()).findings
}

fn analyser(plan: &Plan) -> Analyser {
    let manifest = Manifest {
        label: None,
        schema: 1,
        run: String::new(),
        durio_version: "0".into(),
        started: String::new(),
        command: Vec::new(),
    };
    let environment = Environment { host: Host::default(), stacks: Vec::new() };
    Analyser::new(manifest, plan.clone(), environment)
}

fn write(method: SyncMethod) -> Workload {
    Workload {
        name: method.name().into(),
        read_share: PerMille::NONE,
        block_size: Bytes::from_kib(8),
        sync: SyncPolicy::each(method),
        ..Workload::default()
    }
}

fn read(pattern: Pattern, kib: u64, share: u16) -> Workload {
    Workload {
        name: format!("{pattern:?}").to_lowercase(),
        pattern,
        read_share: PerMille(share),
        block_size: Bytes::from_kib(kib),
        ..Workload::default()
    }
}

/// The figure of a fact, to within what a thread that shares its processor loses.
#[track_caller]
fn is_near(facts: &Facts, name: &str, expected: f64) {
    let found = facts.number(&format!("run.{name}")).unwrap_or(f64::NAN);
    assert!((found / expected - 1.0).abs() < 0.1, "{name} is {found}, not {expected}");
}

#[test]
fn methods_are_told_by_postgresqls_names_and_the_gain_over_the_one_in_use() {
    let findings = measured(&[
        (write(SyncMethod::Fsync), 300),
        (write(SyncMethod::Fdatasync), 200),
        (write(SyncMethod::ODsync), 100),
        (write(SyncMethod::RwfDsync), 10),
    ]);
    let mut facts = facts(&findings);
    is_near(&facts, "fsync_over_fdatasync", 1.5);
    assert_eq!(facts.text("run.best_sync_method"), Some("open_datasync"), "it has no RWF_DSYNC");
    assert!(facts.get("run.best_sync_gain").is_none(), "without a setting there is no gain");
    facts.put("postgresql.wal_sync_method", FactValue::Text("fdatasync".into()), "test");
    gain_over(&mut facts);
    let gain = facts.number("run.best_sync_gain").unwrap();
    // The script's time is of the write and of the sync each.
    assert!(gain > 1.7, "{gain}");
    assert_eq!(facts.get("run.best_sync_method").unwrap().place, "runs/it");
}

#[test]
fn a_flush_after_8_kib_is_told_with_its_half_as_the_delay_of_commits() {
    let facts = facts(&measured(&[(write(SyncMethod::Fdatasync), 1000)]));
    let flush = facts.number("run.flush_8k").unwrap();
    assert!(flush >= 1e6, "{flush}");
    is_near(&facts, "advised_commit_delay", flush / 2.0);
    is_near(&facts, "half_flush_us", flush / 2000.0);
    assert!(facts.number("run.flush_p50").unwrap() >= 0.9e6);
    assert!(facts.get("run.etcd_sync_p99").is_none(), "that is of etcd's own workload");
}

#[test]
fn etcds_workload_is_known_by_its_name() {
    let workload = Workload { name: "commit-etcd".into(), ..write(SyncMethod::Fdatasync) };
    let facts = facts(&measured(&[(workload, 500)]));
    assert!(facts.number("run.etcd_sync_p99").unwrap() >= 0.5e6);
}

#[test]
fn a_growing_file_is_held_against_one_that_was_written_before() {
    let fast = write(SyncMethod::Fdatasync);
    let mut findings = measured(&[(fast.clone(), 100), (fast.clone(), 250), (fast, 20)]);
    let layouts = [FileLayout::Incompressible, FileLayout::Empty, FileLayout::Preallocated];
    for (target, layout) in findings.plan.targets.iter_mut().zip(layouts) {
        target.kind = TargetKind::NewFile {
            directory: "/srv".into(),
            file_name: "log".into(),
            named: false,
            layout,
        };
    }
    is_near(&facts(&findings), "append_over_recycled", 2.5);
    findings.workloads.remove(0);
    assert!(facts(&findings).get("run.append_over_recycled").is_none(), "there is no pair");
}

#[test]
fn reads_give_the_ratio_of_random_to_sequential_and_the_rate_of_mixed_16_kib() {
    let facts = facts(&measured(&[
        (read(Pattern::Random, 8, 1000), 300),
        (read(Pattern::Sequential, 8, 1000), 100),
        (read(Pattern::Random, 16, 700), 200),
    ]));
    is_near(&facts, "random_over_sequential", 3.0);
    is_near(&facts, "mixed_16k_iops", 5000.0);
}

#[test]
fn a_log_beside_other_load_is_held_against_the_same_log_alone() {
    let log = write(SyncMethod::Fdatasync);
    let mut findings =
        measured(&[(log.clone(), 100), (log, 400), (read(Pattern::Random, 8, 1000), 100)]);
    assert!(facts(&findings).get("run.log_p99_loaded_over_idle").is_none(), "nothing was beside");
    // As if the third had run beside the second.
    findings.workloads[2].step = findings.workloads[1].step;
    findings.workloads[2].stream = 1;
    let ratio = facts(&findings).number("run.log_p99_loaded_over_idle").unwrap();
    assert!(ratio > 1.5, "{ratio}");
}

#[test]
fn what_ended_early_tells_nothing() {
    let mut findings = measured(&[(write(SyncMethod::Fdatasync), 100)]);
    findings.workloads[0].complete = false;
    let facts = facts(&findings);
    assert!(facts.get("run.flush_8k").is_none() && facts.get("run.flush_p50").is_none());
}

#[test]
fn contents_and_evenness_are_those_of_the_worst_step() {
    let zeros = Contents::Compressible { zeros: PerMille(800) };
    let findings = measured(&[
        (write(SyncMethod::Fdatasync), 50),
        (Workload { contents: zeros, ..write(SyncMethod::Fdatasync) }, 50),
    ]);
    let facts = facts(&findings);
    is_near(&facts, "compressible_share", 0.8);
    let worst = findings.workloads.iter().filter_map(|workload| workload.rate_variation);
    let worst = worst.map(|rates| rates.coefficient_of_variation).max_by(f64::total_cmp);
    assert_eq!(facts.number("run.unsteadiness"), worst);
}

#[test]
fn a_run_of_nothing_has_no_facts() {
    let mut findings = measured(&[(write(SyncMethod::Fdatasync), 10)]);
    findings.workloads.clear();
    let facts = facts(&findings);
    for name in ["flush_8k", "best_sync_method", "unsteadiness", "queue_over_requests"] {
        assert!(facts.get(&format!("run.{name}")).is_none(), "{name}");
    }
}

fn setting(method: SyncMethod, cache: CacheMode) -> ArmSetting {
    ArmSetting {
        location: "/srv".into(),
        engine: EngineKind::Sync,
        method,
        every: 1,
        cache,
        layout: Some(FileLayout::Incompressible),
        block_size: Bytes::from_kib(8),
        jobs: 1,
        files: 1,
        group_commit: None,
    }
}

fn arm(setting: ArmSetting, rate: f64) -> DurableArm {
    let latency = ArmLatencies {
        count: 1000,
        mean_ns: 1e9 / rate,
        p50_ns: None,
        p99_ns: None,
        p99_9_ns: None,
        max_ns: 1,
    };
    let figures = ArmFigures {
        rate_per_second: rate,
        bandwidth_bytes_per_second: 8192.0 * rate,
        latency,
        sync: None,
        device: None,
        batches: None,
        samples: Vec::new(),
        noise_share: None,
    };
    DurableArm { setting, step: 0, figures: Some(figures), problems: Vec::new() }
}

/// The facts of these findings alone, whatever was measured besides.
fn facts_of(durable: DurableFindings) -> Facts {
    let mut findings = measured(&[(write(SyncMethod::Fdatasync), 5000)]);
    findings.durable = Some(durable);
    facts(&findings)
}

fn methods(rates: &[(SyncMethod, CacheMode, f64)]) -> DurableFindings {
    let row = |(method, cache, rate): &(SyncMethod, CacheMode, f64)| MethodRow {
        arm: arm(setting(*method, *cache), *rate),
        share_of_unsynced: None,
        share_of_best: None,
    };
    let rows = rates.iter().map(row).collect();
    let methods = MethodsFindings { rows, fastest: None, steadiest: None };
    DurableFindings { methods: Some(methods), ..DurableFindings::default() }
}

#[test]
fn methods_of_one_cache_mode_are_compared_and_postgresql_is_told_only_its_own() {
    use CacheMode::{Buffered, Direct};
    let facts = facts_of(methods(&[
        (SyncMethod::None, Buffered, 600_000.0),
        (SyncMethod::Fsync, Buffered, 2000.0),
        (SyncMethod::Fdatasync, Buffered, 4000.0),
        (SyncMethod::ODsync, Buffered, 5000.0),
        (SyncMethod::RwfDsync, Buffered, 6000.0),
        (SyncMethod::OSync, Direct, 9000.0),
    ]));
    is_near(&facts, "fsync_over_fdatasync", 2.0);
    assert_eq!(facts.text("run.fastest_sync_method"), Some("rwf_dsync"));
    is_near(&facts, "fastest_sync_gain", 1.5);
    assert_eq!(facts.text("run.best_sync_method"), Some("open_datasync"));
    is_near(&facts, "time_of_fsync_over_best", 2.5);
    assert!(facts.get("run.time_of_open_sync_over_best").is_none(), "that was direct");
}

#[test]
fn without_fsync_the_linked_pair_tells_what_times_cost() {
    let facts = facts_of(methods(&[
        (SyncMethod::LinkedFsync, CacheMode::Direct, 1000.0),
        (SyncMethod::LinkedFdatasync, CacheMode::Direct, 1700.0),
        (SyncMethod::OSync, CacheMode::Direct, 1000.0),
        (SyncMethod::ODsync, CacheMode::Direct, 1000.0),
    ]));
    is_near(&facts, "fsync_over_fdatasync", 1.7);
    assert!(facts.get("run.fastest_sync_gain").is_none(), "there is no fdatasync to hold against");
}

#[test]
fn file_modes_are_those_of_fdatasync_where_several_were_measured() {
    let group = |method: SyncMethod, empty: f64, preallocated: f64| {
        let row = |layout: FileLayout, share: f64| FileModeRow {
            arm: arm(
                ArmSetting { layout: Some(layout), ..setting(method, CacheMode::Buffered) },
                1000.0 * share,
            ),
            share_of_recycled: Some(share),
            further_writes_per_commit: None,
        };
        let rows = vec![
            row(FileLayout::Incompressible, 1.0),
            row(FileLayout::Empty, empty),
            row(FileLayout::Preallocated, preallocated),
        ];
        FileModesFindings { rows }
    };
    let file_modes =
        vec![group(SyncMethod::ODsync, 0.25, 0.4), group(SyncMethod::Fdatasync, 0.5, 0.8)];
    let facts = facts_of(DurableFindings { file_modes, ..DurableFindings::default() });
    is_near(&facts, "append_over_recycled", 2.0);
    is_near(&facts, "preallocated_over_recycled", 1.25);
}

#[test]
fn the_flush_of_the_sizes_slice_stands_before_another_workloads() {
    let setting = setting(SyncMethod::Fdatasync, CacheMode::Buffered);
    let share =
        |share: f64, size_bytes: f64| SizeShare { size_bytes, share, is_extrapolated: false };
    let batching = BatchAdvice {
        bandwidth_bytes_per_second: 1e9,
        for_shares: vec![share(0.5, 1e5), share(0.8, 4e5), share(0.95, 2e6)],
        of_records: Vec::new(),
        batch_bytes: 4e5,
        unbatched: Vec::new(),
    };
    let curve = SizeCurve {
        arms: vec![arm(setting.clone(), 4000.0)],
        setting,
        model: None,
        bandwidth_bytes_per_second: None,
        deviations: Vec::new(),
        batching: Some(batching),
        declined: None,
    };
    let sizes = SizesFindings {
        curves: vec![curve],
        shares: Vec::new(),
        boundaries: Vec::new(),
        free_at_small_sizes: None,
    };
    let facts = facts_of(DurableFindings { sizes: Some(sizes), ..DurableFindings::default() });
    is_near(&facts, "flush_8k", 250e3);
    is_near(&facts, "half_flush_us", 125.0);
    is_near(&facts, "batch_bytes", 4e5);
}

fn group(committers: u32) -> ArmSetting {
    let group_commit = GroupCommit::of(committers);
    let single = setting(SyncMethod::Fdatasync, CacheMode::Buffered);
    ArmSetting { group_commit: Some(group_commit), ..single }
}

fn sync_every() -> SyncEveryFindings {
    let row = |(every, ns_per_write): (u32, f64)| SyncEveryRow {
        arm: arm(
            ArmSetting { every, ..setting(SyncMethod::Fdatasync, CacheMode::Buffered) },
            1e9 / ns_per_write,
        ),
        ns_per_write,
    };
    let rows = [(1, 300e3), (8, 60e3), (64, 10e3), (1024, 1e3)].map(row).into();
    SyncEveryFindings { rows, line: None, declined: None }
}

#[test]
fn batches_gain_what_most_committers_gained_or_what_a_shared_sync_did() {
    let row = |(committers, gain): (u32, f64)| GroupCommitRow {
        arm: arm(group(committers), 1000.0),
        independent: None,
        gain: Some(gain),
        predicted_per_second: None,
    };
    let rows = [(1, 0.9), (64, 5.0), (64, 54.0), (8, 2.0)].map(row).into();
    let group_commit = Some(GroupCommitFindings { rows, others: Vec::new() });
    let both =
        DurableFindings { group_commit, sync_every: vec![sync_every()], ..Default::default() };
    is_near(&facts_of(both), "batch_gain", 54.0);
    let every = DurableFindings { sync_every: vec![sync_every()], ..Default::default() };
    is_near(&facts_of(every), "batch_gain", 30.0);
}

#[test]
fn a_measured_delay_takes_the_place_of_half_a_flush_also_where_none_is_best() {
    let advised = |micros: u64, gain_share: f64| {
        let advice = CommitDelayAdvice {
            delay: Nanos::from_micros(micros),
            batch_max: Bytes::from_mib(1),
            arm: 0,
            without: 0,
            gain_share,
            best_gain_share: gain_share,
            noise_share: 0.05,
            p99_share: None,
        };
        CommitDelayFindings { arms: vec![arm(group(64), 1000.0)], advice: Some(advice) }
    };
    let with = |commit_delays| facts_of(DurableFindings { commit_delays, ..Default::default() });
    let facts = with(vec![advised(0, 0.0), advised(200, 0.4)]);
    assert_eq!(facts.number("run.advised_commit_delay"), Some(200e3));
    assert_eq!(facts.number("run.advised_commit_delay_us"), Some(200.0));
    is_near(&facts, "commit_delay_gain", 1.4);
    let facts = with(vec![advised(0, 0.0)]);
    assert_eq!(facts.number("run.advised_commit_delay"), Some(0.0));
    assert!(
        facts.number("run.half_flush_us").unwrap() > 1000.0,
        "the flush itself is told as it is"
    );
}

#[test]
fn arms_without_figures_tell_nothing() {
    let mut durable = methods(&[(SyncMethod::Fdatasync, CacheMode::Buffered, 4000.0)]);
    let rows = &mut durable.methods.as_mut().unwrap().rows;
    rows[0].arm.figures = None;
    let facts = facts_of(durable);
    assert!(facts.get("run.fastest_sync_gain").is_none());
}

#[test]
fn a_queue_is_held_against_the_limit_of_its_own_disk_and_the_fullest_counts() {
    let log = write(SyncMethod::Fdatasync);
    let mut findings = measured(&[(log.clone(), 10), (log, 10)]);
    let limited = |name: &str, requests| {
        let mut layer = crate::tests::disk(name);
        layer.block.as_mut().unwrap().nr_requests = requests;
        layer
    };
    let disks = vec![
        limited("sda", Some(64)),
        limited("sdb", Some(4)),
        limited("sdc", Some(1)),
        limited("sdd", None),
    ];
    findings.stack = vec![crate::tests::stack_of(crate::tests::over(LayerKind::Md, "md0", disks))];
    let counted = |name: &str, weighted_io_ms| DeviceCounters {
        name: name.to_owned(),
        weighted_io_ms,
        not_counted: name == "sdc",
        ..DeviceCounters::default()
    };
    let all = [
        vec![counted("sda", 32_000), counted("sdb", 6_000), counted("sdc", 900_000)],
        vec![counted("sda", 48_000), counted("sdb", 10_000), counted("sdd", 900_000)],
    ];
    for (workload, devices) in findings.workloads.iter_mut().zip(all) {
        workload.devices = devices;
        // Of 4 s.
        let mut last = workload.intervals.pop().unwrap();
        last.to = Nanos::from_secs(4);
        workload.intervals = vec![last];
    }
    // 12 of 64, and 2.5 of 4 in the mean.
    assert_eq!(facts(&findings).number("run.queue_over_requests"), Some(0.625));
}

#[test]
fn shares_of_processors_are_those_of_the_worst_step() {
    let log = write(SyncMethod::Fdatasync);
    let mut findings = measured(&[(log.clone(), 10), (log.clone(), 10), (log, 10)]);
    for (workload, (busiest, stolen)) in
        findings.workloads.iter_mut().zip([(0.2, Some(0.01)), (0.7, None), (0.5, Some(0.03))])
    {
        workload.cpu.busiest_job_share = busiest;
        workload.cpu.machine_steal_share = stolen;
    }
    let facts = facts(&findings);
    assert_eq!(facts.number("run.busiest_job_share"), Some(0.7));
    assert_eq!(facts.number("run.steal_share"), Some(0.03));
}

#[test]
fn the_smallest_file_of_buffered_reads_is_held_against_the_memory_that_it_could_have() {
    let random = read(Pattern::Random, 8, 1000);
    let mut findings =
        measured(&[(random.clone(), 10), (random, 10), (write(SyncMethod::Fdatasync), 10)]);
    findings.host.memory = Bytes::from_gib(8);
    findings.plan.targets[1].size = Bytes::from_gib(4);
    findings.plan.targets[2].size = Bytes::from_kib(4);
    let over = |findings: &Findings| facts(findings).number("run.file_over_memory");
    for workload in &mut findings.workloads {
        workload.effective.cache = CacheMode::Direct;
    }
    assert_eq!(over(&findings), None, "past the cache");
    for workload in &mut findings.workloads {
        workload.effective.cache = CacheMode::Buffered;
    }
    assert_eq!(over(&findings), Some(0.125), "1 of 8 GiB; writes do not count");
    findings.plan.steps[0].memory_bound = Some(Bytes::new(1 << 29));
    assert_eq!(over(&findings), Some(0.5), "4 of 8 GiB; the other has 1 of a half");
}

#[test]
fn a_run_of_other_devices_is_noted_with_both() {
    let mut findings = measured(&[(write(SyncMethod::Fdatasync), 10)]);
    let stack = |names: &[&str]| {
        let disks = names.iter().map(|name| crate::tests::disk(name)).collect();
        crate::tests::stack_of(crate::tests::over(LayerKind::Md, "md0", disks))
    };
    let here = stack(&["sda", "sdb"]);
    let mut noted = |there: &[&str]| {
        findings.stack = vec![stack(there)];
        super::super::notes(&crate::advise::AdviceRequest {
            target: "/srv".to_owned(),
            system: crate::advise::FactOrigin {
                stack: &here,
                readings: &durio_observe::TuningReadings::default(),
            },
            role: None,
            database: None,
            settings: crate::advise::DatabaseSettings { given: Vec::new(), from_file: Vec::new() },
            run: Some(&findings),
            rule: None,
        })
    };
    assert_eq!(noted(&["sdb", "sdc"]), [""; 0], "one of them is the same");
    let text = "the run measured other devices (sdc, sdd) than the target is on (sda, sdb); its \
                results may not hold here";
    assert_eq!(noted(&["sdc", "sdd"]), [text]);
}
