//! Made-up findings, one function per variant; their numbers come from an index, so all tests agree.

use durio_analyse::*;
use durio_base::{Bytes, Nanos};
use durio_observe::DeviceCounters;
use durio_plan::{
    ClockChoice, EngineKind, Limit, Load, PLAN_SCHEMA, Plan, Purpose, Role, Step, Target,
    TargetKind,
};
use durio_record::{Manifest, OperationName, Phase};
use durio_workload::{Workload, check_workloads};

use crate::sample_machine::{host, stack};

/// Five workloads, sixty intervals, two stalls.
pub(crate) fn complete() -> Findings {
    at_locations(&["/srv/db"], 60)
}

/// The same on a filesystem and on the device below.
pub(crate) fn two_locations() -> Findings {
    at_locations(&["/srv/db", "/dev/vdb"], 60)
}

/// One workload, killed after few commits.
pub(crate) fn partial() -> Findings {
    let mut findings = complete();
    findings.state = RunState::Partial;
    findings.provisional = Some("measured for 1 s per workload; 10 s are needed".into());
    findings.workloads.truncate(1);
    findings.verdicts.clear();
    findings.self_cost.clear();
    let workload = &mut findings.workloads[0];
    workload.complete = false;
    workload.rate_variation = None;
    workload.intervals.truncate(1);
    for operation in &mut workload.operations {
        operation.service = few(operation.service.mean_ns);
        operation.curve.truncate(3);
    }
    if let Some(leading) = &mut findings.headline {
        leading.commit_latency_ns_p99 = None;
    }
    findings
}

pub(crate) fn empty() -> Findings {
    let mut findings = partial();
    findings.state = RunState::Failed;
    findings.errors = vec!["fdatasync of the log: input/output error (5)".into()];
    findings.workloads.clear();
    findings.headline = None;
    findings.stack.clear();
    findings
}

/// What somebody would name a directory to spoil the report.
pub(crate) const HOSTILE: &str =
    "/a\"b'c,d</script><script>alert(1)</script><img src=http://x/>\x1b[2J&";

pub(crate) fn hostile() -> Findings {
    let mut findings = two_locations();
    let text = serde_json::to_string(&findings).unwrap();
    let bad = serde_json::to_string(HOSTILE).unwrap();
    let text = text.replace("\"/srv/db\"", &bad).replace("\"lookup\"", &bad);
    findings = serde_json::from_str(&text.replace("\"overlayblk\"", &bad)).unwrap();
    for verdict in &mut findings.verdicts {
        verdict.database = HOSTILE.into();
        if let Some(source) = &mut verdict.source {
            source.url = "javascript:alert(1)".into();
        }
    }
    findings.run.command.push(HOSTILE.into());
    findings.warnings[0].seen = HOSTILE.into();
    findings.signals[0].read[0].value = HOSTILE.into();
    findings.signals[0].layer = HOSTILE.into();
    findings.provisional = Some(HOSTILE.into());
    findings.errors.push(HOSTILE.into());
    findings
}

/// Ten workloads with three thousand intervals each, no two points alike.
pub(crate) fn large() -> Findings {
    at_locations(&["/srv/db", "/dev/vdb"], 3000)
}

fn at_locations(locations: &[&str], intervals: u64) -> Findings {
    let workloads = check_workloads().into_iter().map(|(_, it)| it);
    let workloads: Vec<Workload> = workloads.filter(|one| one.group_commit.is_none()).collect();
    let measured = locations.iter().enumerate().flat_map(|(place, location)| {
        let one = |(index, it): (usize, &Workload)| workload(it, index, place, location, intervals);
        workloads.iter().enumerate().map(one).collect::<Vec<_>>()
    });
    let workloads_measured: Vec<_> = measured.collect();
    Findings {
        schema: FINDINGS_SCHEMA.into(),
        run: manifest(locations),
        state: RunState::Complete,
        run_folder: "/home/anna/.local/share/durio/runs/2026-11-21T100900-000Z-check-4711".into(),
        headline: Some(leading(&workloads_measured[0])),
        provisional: None,
        workloads: workloads_measured,
        preconditioning: Vec::new(),
        campaign: None,
        profile: None,
        prediction: None,
        predicted: Vec::new(),
        durable: None,
        why: None,
        verdicts: locations.iter().flat_map(|place| verdicts(place)).collect(),
        placements: Vec::new(),
        signals: signals(),
        warnings: warnings(),
        errors: Vec::new(),
        self_cost: vec![
            SelfCost {
                engine: EngineKind::Sync,
                depth: 1,
                per_operation_ns: 412.0,
                iops: 2_310_000.0,
            },
            SelfCost {
                engine: EngineKind::Uring,
                depth: 4,
                per_operation_ns: 338.0,
                iops: 2_890_000.0,
            },
        ],
        stack: locations.iter().map(|place| stack(place)).collect(),
        host: host(),
        declined_steps: Vec::new(),
        memory_max_bytes: Some(31 << 20),
        plan: plan(locations, &workloads),
    }
}

fn manifest(locations: &[&str]) -> Manifest {
    let command = ["durio", "check"].iter().chain(locations).map(|a| (*a).to_owned()).collect();
    Manifest {
        label: None,
        schema: 1,
        run: "2026-11-21T100900-000Z-check-4711".into(),
        durio_version: "0.1.0".into(),
        started: "2026-11-21T10:09:00Z".into(),
        command,
    }
}

fn leading(workload: &WorkloadFindings) -> Headline {
    let commit = workload.operation(OperationName::Commit).unwrap();
    Headline {
        workload: workload.name.clone(),
        location: workload.location.clone(),
        durable_commits_per_second: commit.rate,
        commit_latency_ns_p99: commit.service.p99_ns,
        rate_variation: workload.rate_variation,
        same_workload: None,
    }
}

fn workload(
    definition: &Workload,
    index: usize,
    place: usize,
    location: &str,
    intervals: u64,
) -> WorkloadFindings {
    let factor = 1.0 - 0.22 * place as f64;
    let iops = [7_120.0, 6_840.0, 81_400.0, 5_230.0, 64_900.0][index] / factor;
    let operations = operations(definition, iops, factor);
    let block = definition.block_size.get() as f64;
    let offered = f64::from(definition.in_flight_max());
    WorkloadFindings {
        name: definition.name.clone(),
        step: u32::try_from(index + 5 * place).unwrap(),
        stream: 0,
        round: 0,
        repeat: 0,
        section: None,
        levels: Vec::new(),
        batches: None,
        data: None,
        open_loop: None,
        idle_before: None,
        gated: None,
        location: location.into(),
        target: ["log", "segment", "data", "data", "data"][index].into(),
        effective: effective(definition, index),
        complete: true,
        durable: definition.is_durable(),
        measured: Nanos::from_secs(intervals / 10),
        headline: operations[0].operation,
        iops,
        bandwidth: iops * block,
        in_flight: InFlightFindings {
            by_latency: offered * 0.985,
            counted: offered * 0.982,
            offered,
            deviation: 0.003 + 0.001 * index as f64,
            span: Nanos::from_secs(intervals / 10),
            clock_deviation: -0.000_02,
            jobs_time_share: None,
        },
        cpu: CpuFindings {
            per_operation_ns: 4_300.0,
            user_cores: 0.21,
            system_cores: 0.62,
            workers_cores: None,
            busiest_job_share: 0.41,
            job_shares: vec![0.41],
            machine_system_share: Some(0.33),
            machine_steal_share: Some(0.012),
            foreign_cores: Some(0.08),
            kernel_cores: None,
            throttled: Some(Nanos::from_millis(120)),
        },
        context_switches_per_operation: Some(1.024),
        involuntary_switches_per_operation: Some(0.003),
        machine_switches_per_operation: Some(4.2),
        latency_breakdown: None,
        device_time: None,
        foreign_io: None,
        unwatched_max: None,
        rate_variation: Some(RateVariation {
            coefficient_of_variation: 0.087,
            intervals,
            intervals_empty: 1,
            intervals_under_half: 2,
            interval: Nanos::from_secs(1),
            rate_min_per_second: 90.0,
            rate_max_per_second: 110.0,
            rate_median_per_second: iops,
            steadiness: None,
        }),
        intervals: (0..intervals).map(|at| interval(at, iops, &operations[0].service)).collect(),
        exchanges: 0,
        devices: vec![devices()],
        definition: definition.clone(),
        operations,
    }
}

fn operations(definition: &Workload, iops: f64, factor: f64) -> Vec<OperationFindings> {
    let block = definition.block_size.get() as f64;
    let each = f64::from(definition.in_flight_max()) / iops * 1e9;
    let one = |operation, share: f64, latency: f64, block: f64| {
        one_operation(operation, iops * share, block * iops * share, latency * factor)
    };
    match definition.name.as_str() {
        "commit" | "commit-etcd" => vec![
            one(OperationName::Commit, 1.0, each, 0.0),
            one(OperationName::Write, 1.0, each * 0.22, block),
            one(OperationName::Sync, 1.0, each * 0.78, 0.0),
        ],
        "mixed" => vec![
            one(OperationName::Read, 0.7, each * 0.8, block),
            one(OperationName::Write, 0.3, each * 1.4, block),
        ],
        _ => vec![one(OperationName::Read, 1.0, each, block)],
    }
}

fn one_operation(
    operation: OperationName,
    rate: f64,
    bandwidth: f64,
    mean_ns: f64,
) -> OperationFindings {
    let quantiles: Vec<f64> =
        (0..=90).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 20.0)).collect();
    OperationFindings {
        operation,
        rate,
        bandwidth,
        service: many(mean_ns),
        submit: (operation == OperationName::Read).then(|| many(mean_ns * 0.04)),
        completion: (operation == OperationName::Read).then(|| many(mean_ns * 0.96)),
        response: None,
        response_curve: Vec::new(),
        fio_bins: Vec::new(),
        kept: None,
        curve: quantiles
            .into_iter()
            .map(|quantile| CurvePoint { quantile, latency_ns: at(mean_ns, quantile) })
            .collect(),
    }
}

/// A latency that rises as those of disks do: slowly, then by a step, then steeply.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "made up")]
fn at(mean_ns: f64, quantile: f64) -> u64 {
    let nines = -(1.0 - quantile).log10();
    let step = 2.2 / (1.0 + (-(nines - 3.0) * 4.0).exp());
    (mean_ns * (0.72 + 0.28 * nines + step * nines + 0.02 * nines.powi(4))) as u64
}

fn many(mean_ns: f64) -> Distribution {
    Distribution {
        count: 71_200,
        mean_ns,
        min_ns: at(mean_ns, 0.0),
        p1_ns: Some(at(mean_ns, 0.01)),
        p50_ns: Some(at(mean_ns, 0.5)),
        p90_ns: Some(at(mean_ns, 0.9)),
        p99_ns: Some(at(mean_ns, 0.99)),
        p99_9_ns: Some(at(mean_ns, 0.999)),
        p99_99_ns: Some(at(mean_ns, 0.9999)),
        max_ns: at(mean_ns, 0.999_99),
    }
}

fn few(mean_ns: f64) -> Distribution {
    Distribution {
        count: 40,
        p50_ns: Some(at(mean_ns, 0.5)),
        p90_ns: Some(at(mean_ns, 0.9)),
        p99_ns: None,
        p99_9_ns: None,
        p99_99_ns: None,
        ..many(mean_ns)
    }
}

fn effective(definition: &Workload, index: usize) -> Effective {
    let is_sync = definition.in_flight_max() == 1;
    Effective {
        engine: if is_sync { EngineKind::Sync } else { EngineKind::Uring },
        jobs: definition.jobs,
        depth: definition.depth,
        batch: if is_sync { 1 } else { 4 },
        cache: definition.cache,
        clock: "tsc".into(),
        features: if is_sync { vec![] } else { vec!["registered buffers".into()] },
        fallbacks: match index {
            3 => vec!["no registered buffers: 8 MiB of lockable memory are too few".into()],
            _ => vec![],
        },
    }
}

fn interval(index: u64, iops: f64, service: &Distribution) -> IntervalPoint {
    let wave = 1.0 + 0.06 * (index as f64 * 0.9).sin() + 0.03 * (index as f64 * 2.3).cos();
    let share = match index {
        0..=4 => 0.5 + 0.1 * index as f64,
        31 => 0.0,
        44 | 45 => 0.31,
        _ => wave,
    };
    let scaled = |nanos: Option<u64>| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "made up")]
        (share > 0.0).then(|| nanos.map(|nanos| (nanos as f64 / share) as u64)).flatten()
    };
    IntervalPoint {
        phase: if index < 5 { Phase::Ramp } else { Phase::Measure },
        from: Nanos::from_millis(index * 100),
        to: Nanos::from_millis(index * 100 + 100),
        rate: iops * share,
        p50_ns: scaled(service.p50_ns),
        p99_ns: scaled(service.p99_ns),
        max_ns: scaled(service.p99_9_ns),
        unwatched_max: None,
        cut_short: false,
        kept: Vec::new(),
    }
}

fn devices() -> DeviceCounters {
    DeviceCounters {
        name: "vdb".into(),
        writes_completed: 71_260,
        sectors_written: 1_141_000,
        flushes_completed: Some(71_204),
        io_ms: 9_600,
        ..DeviceCounters::default()
    }
}

fn verdicts(location: &str) -> Vec<Verdict> {
    let source = ThresholdSource {
        publisher: "etcd project".into(),
        document: "Hardware recommendations, Disks".into(),
        url: "https://etcd.io/docs/v3.6/op-guide/hardware/#disks".into(),
        kind: None,
    };
    let base = Verdict {
        database: "etcd".into(),
        location: location.into(),
        verdict: VerdictWord::Fit,
        provisional: false,
        criterion: "p99 of fdatasync below 10 ms".into(),
        limit: "p99 of sync < 10 ms".into(),
        measured: "commit: p99 271 µs".into(),
        workload: "commit".into(),
        doubt: None,
        value: Some(271_000.0),
        headroom: Some(36.9),
        threshold: Some(10_000_000.0),
        unit: "ns".into(),
        source: Some(source),
        note: None,
        asked: false,
    };
    let unfit = Verdict {
        database: "oracle".into(),
        verdict: VerdictWord::Unfit,
        criterion: "log file sync below 100 µs on average".into(),
        limit: "mean of commit < 100 µs".into(),
        measured: "commit: mean 140 µs".into(),
        value: Some(140_000.0),
        headroom: Some(0.714),
        note: Some("the threshold is for one writer without group commit".into()),
        ..base.clone()
    };
    let cannot = Verdict {
        database: "sqlserver".into(),
        verdict: VerdictWord::CannotTell,
        criterion: "writes of 60 KiB to the log below 5 ms".into(),
        limit: "p99 of commit < 5 ms".into(),
        measured: "not measured: no workload of this run writes 60 KiB".into(),
        doubt: Some("no workload of this run writes 60 KiB".into()),
        value: None,
        headroom: None,
        ..base.clone()
    };
    let open = |database: &str| Verdict {
        database: database.into(),
        verdict: VerdictWord::NoDocumentedThreshold,
        criterion: "none documented".into(),
        measured: "p99 of a durable commit 266 µs".into(),
        value: None,
        headroom: None,
        threshold: None,
        source: None,
        ..base.clone()
    };
    vec![base.clone(), unfit, cannot, open("postgresql"), open("mysql"), open("mongodb")]
}

fn signals() -> Vec<Signal> {
    let reading = |what: &str, place: &str, value: &str| EvidenceReading {
        what: what.into(),
        place: place.into(),
        value: value.into(),
    };
    let view = |value| reading("kernel's view", "/sys/class/block/vdb/queue/write_cache", value);
    vec![
        Signal {
            id: "cache-view-overridden".into(),
            word: SignalWord::UnsafeConfig,
            layer: "disk vdb".into(),
            read: vec![
                view("write through"),
                reading("device's own", "/sys/class/block/vdb/cache_type", "write back"),
            ],
            implies: "somebody told the kernel that the cache is not volatile".into(),
            advice: "echo 'write back' into queue/write_cache of the device".into(),
        },
        Signal {
            id: "flush-sent".into(),
            word: SignalWord::Fact,
            layer: "disk vdc".into(),
            read: vec![view("write back")],
            implies: "the kernel sends a flush for each sync".into(),
            advice: String::new(),
        },
    ]
}

fn warnings() -> Vec<WarningFinding> {
    vec![
        WarningFinding {
            code: "virtual-disk-rotational".into(),
            about: vec!["/srv/db".into()],
            seen: "vdb is a virtio disk and says that it has spinning platters".into(),
            why: "the kernel schedules and reads ahead as for a hard disk; hypervisors say so of \
                  anything"
                .into(),
            advice: "echo 0 > /sys/block/vdb/queue/rotational, and measure again".into(),
        },
        WarningFinding {
            code: "stalls".into(),
            about: vec!["commit".into(), "mixed".into()],
            seen: "1 interval of 100 ms without a completion, 2 under half of the average".into(),
            why: "a database waits for as long as the storage does; averages hide it".into(),
            advice: "look at the time series; measure longer; ask what else uses the device".into(),
        },
    ]
}

fn plan(locations: &[&str], workloads: &[Workload]) -> Plan {
    let targets = locations.iter().map(|location| Target {
        name: "data".into(),
        location: Some((*location).into()),
        kind: TargetKind::ExistingFile { path: (*location).into() },
        size: Bytes::from_gib(1),
        destroy: false,
    });
    let targets: Vec<Target> = targets.collect();
    let steps = (0..targets.len()).flat_map(|at| workloads.iter().map(move |one| (at, one)));
    let steps = (0..).zip(steps).map(|(index, (target, workload))| {
        let load = Load::new(target, workload.clone(), EngineKind::Uring);
        let limit = Limit::Duration(Nanos::from_secs(6));
        let step = Step::new(Role::Measure, load, limit, Nanos::from_millis(100));
        Step { index, ramp: Nanos::from_millis(500), ..step }
    });
    Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Check,
        seed: 1,
        clock: ClockChoice::Auto,
        steps: steps.collect(),
        targets,
        campaign: None,
        thresholds: Vec::new(),
    }
}
