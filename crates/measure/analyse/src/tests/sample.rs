//! A clean run, to be spoiled by each test; also of the tests of durio-judge.

use durio_base::{Bytes, Nanos};
use durio_observe::{BlockFacts, Host, Layer, LayerKind, Stack, WriteCache};
use durio_plan::{
    ClockChoice, EngineKind, PLAN_SCHEMA, Plan, Purpose, RawPath, Target, TargetKind,
};
use durio_record::{Environment, OperationName};
use durio_workload::{CacheMode, check_workloads};

use durio_analyse::{
    CpuFindings, Distribution, Effective, InFlightFindings, OperationFindings, RateVariation,
    WorkloadFindings,
};

/// A run and what was measured in it.
pub(crate) struct Sample {
    pub(crate) plan: Plan,
    pub(crate) environment: Environment,
    pub(crate) workloads: Vec<WorkloadFindings>,
}

pub(crate) fn sample() -> Sample {
    let location = RawPath::from("/data");
    let (_, workload) = check_workloads().remove(0);
    let path = location.clone();
    let target = Target {
        name: "log".to_owned(),
        location: Some(location),
        kind: TargetKind::ExistingFile { path },
        size: Bytes::from_gib(1),
        destroy: true,
    };
    let load = durio_plan::Load::new(0, workload.clone(), EngineKind::Sync);
    let limit = durio_plan::Limit::Duration(Nanos::from_secs(300));
    let step = durio_plan::Step::new(durio_plan::Role::Measure, load, limit, Nanos::from_secs(1));
    let block = BlockFacts {
        write_cache: Some(WriteCache::WriteBack),
        rotational: Some(false),
        ..BlockFacts::default()
    };
    let root = Layer {
        kind: LayerKind::Disk,
        name: "nvme0n1".to_owned(),
        device: None,
        filesystem: None,
        block: Some(block),
        facts: Vec::new(),
        below: Vec::new(),
    };
    let stack = Stack { target: "/data".to_owned(), root };
    let host = Host { cpus_online: 4, cpus_allowed: 4, ..Host::default() };
    Sample {
        plan: Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Check,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: vec![target],
            steps: vec![step],
            campaign: None,
            thresholds: Vec::new(),
        },
        environment: Environment { host, stacks: vec![stack] },
        workloads: vec![commit_findings(workload)],
    }
}

fn commit_findings(definition: durio_workload::Workload) -> WorkloadFindings {
    let operations = [OperationName::Commit, OperationName::Write, OperationName::Sync];
    WorkloadFindings {
        name: "commit".to_owned(),
        step: 0,
        stream: 0,
        round: 0,
        repeat: 0,
        section: None,
        levels: Vec::new(),
        open_loop: None,
        batches: None,
        data: None,
        idle_before: None,
        gated: None,
        location: "/data".to_owned(),
        target: "log".to_owned(),
        definition,
        effective: Effective {
            engine: EngineKind::Sync,
            jobs: 1,
            depth: 1,
            batch: 1,
            cache: CacheMode::Direct,
            clock: "tsc".to_owned(),
            features: Vec::new(),
            fallbacks: Vec::new(),
        },
        complete: true,
        durable: true,
        measured: Nanos::from_secs(300),
        headline: OperationName::Commit,
        iops: 1000.0,
        bandwidth: 8_192_000.0,
        operations: operations.into_iter().map(operation_findings).collect(),
        in_flight: InFlightFindings {
            by_latency: 1.0,
            counted: 1.0,
            offered: 1.0,
            deviation: 0.0,
            span: Nanos::from_secs(300),
            clock_deviation: 0.0,
            jobs_time_share: None,
        },
        cpu: CpuFindings {
            per_operation_ns: 5000.0,
            user_cores: 0.01,
            system_cores: 0.05,
            workers_cores: None,
            busiest_job_share: 0.06,
            job_shares: vec![0.06],
            machine_system_share: Some(0.05),
            machine_steal_share: Some(0.0),
            foreign_cores: Some(0.03),
            kernel_cores: None,
            throttled: None,
        },
        context_switches_per_operation: Some(1.0),
        involuntary_switches_per_operation: Some(0.0),
        machine_switches_per_operation: None,
        latency_breakdown: None,
        device_time: None,
        foreign_io: None,
        unwatched_max: None,
        rate_variation: Some(RateVariation {
            coefficient_of_variation: 0.02,
            intervals: 300,
            intervals_empty: 0,
            intervals_under_half: 0,
            interval: Nanos::from_secs(1),
            rate_min_per_second: 90.0,
            rate_max_per_second: 110.0,
            rate_median_per_second: 100.0,
            steadiness: None,
        }),
        intervals: Vec::new(),
        exchanges: 0,
        devices: Vec::new(),
    }
}

fn operation_findings(operation: OperationName) -> OperationFindings {
    OperationFindings {
        operation,
        rate: 1000.0,
        bandwidth: 8_192_000.0,
        service: Distribution {
            count: 10_000,
            mean_ns: 500_000.0,
            min_ns: 300_000,
            p1_ns: Some(310_000),
            p50_ns: Some(480_000),
            p90_ns: Some(600_000),
            p99_ns: Some(700_000),
            p99_9_ns: Some(900_000),
            p99_99_ns: Some(1_000_000),
            max_ns: 1_100_000,
        },
        submit: None,
        completion: None,
        response: None,
        response_curve: Vec::new(),
        fio_bins: Vec::new(),
        kept: None,
        curve: Vec::new(),
    }
}
