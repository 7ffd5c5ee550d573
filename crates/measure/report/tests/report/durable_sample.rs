//! A run of `durio durable` with planted costs: 150 µs and 1.2 GB/s for a durable write, a quarter
//! of which is done by one writer at a time.

use durio_analyse::durable::{
    CommandsFindings, CommitDelayAdvice, CommitDelayFindings, DurableArm, GroupCommitFindings,
    GroupCommitRow,
};
use durio_analyse::{BatchFindings, Findings};
use durio_base::{Bytes, Nanos};
use durio_plan::{Experiment, FileLayout, Limit, SectionKind};
use durio_record::{
    CommitsTraced, ProbedCalls, SyncCaller, SyncCallsProbed, TracedRequest, TracedSequence,
};
use durio_workload::{CacheMode, GroupCommit, PerMille, SyncMethod, SyncPolicy, Workload};

use crate::campaign_sample::{Maker, level, load};

const OPERATIONS: Limit = Limit::Operations(400);

fn write(method: SyncMethod, cache: CacheMode, size: u64, jobs: u32) -> Workload {
    Workload {
        name: method.name().into(),
        read_share: PerMille::NONE,
        block_size: Bytes::new(size),
        sync: SyncPolicy::each(method),
        cache,
        jobs,
        ..Workload::default()
    }
}

/// Microseconds of a durable write, with some scatter and a tail.
fn script(micros: f64) -> Vec<f64> {
    let scatter = |at: u32| 1.0 + 0.1 * (f64::from(at * at * 7919 % 101) / 50.0 - 1.0);
    let mut all: Vec<f64> = (0..97).map(|at| micros * scatter(at)).collect();
    all.extend([micros * 2.5, micros * 6.0]);
    all
}

fn experiment(maker: &mut Maker, experiment: Experiment) {
    maker.section(
        &format!("{experiment:?}"),
        "an experiment",
        SectionKind::Experiment { experiment },
    );
}

fn durable_micros(bytes: f64) -> f64 {
    150.0 + bytes / 1200.0
}

pub(crate) fn durable() -> Findings {
    let mut maker = Maker::durable();
    methods(&mut maker);
    every(&mut maker);
    sizes(&mut maker);
    writers(&mut maker);
    let mut findings = maker.findings();
    let durable = findings.durable.as_mut().unwrap();
    let methods = durable.methods.as_mut().unwrap();
    methods.rows[3].arm.problems = vec!["RWF_DSYNC is not supported here".into()];
    methods.rows[3].arm.figures = None;
    let like = durable.writers[0].rows[3].arm.clone();
    durable.group_commit = Some(group_commit(&like));
    durable.commit_delays = vec![delays(&like)];
    durable.commands = vec![
        commands(SyncMethod::ODsync, &[("WFS", 4, 8, 130)], 145),
        commands(
            SyncMethod::Fsync,
            &[("W", 4, 6, 60), ("WSM", 16, 80, 70), ("FF", 0, 160, 220)],
            390,
        ),
    ];
    durable.sync_calls = vec![probed()];
    findings
}

fn methods(maker: &mut Maker) {
    use SyncMethod::{Fdatasync, Fsync, None, ODsync, RwfDsync};
    experiment(maker, Experiment::Methods);
    for (method, cache, micros) in [
        (None, CacheMode::Direct, 22.0),
        (ODsync, CacheMode::Direct, 155.0),
        (Fdatasync, CacheMode::Direct, 110.0),
        (RwfDsync, CacheMode::Direct, 158.0),
        (None, CacheMode::Buffered, 3.0),
        (Fdatasync, CacheMode::Buffered, 125.0),
        (Fsync, CacheMode::Buffered, 190.0),
    ] {
        maker.step(load(0, write(method, cache, 4096, 1), &script(micros)), OPERATIONS, Vec::new());
    }
}

fn every(maker: &mut Maker) {
    for of in [Experiment::SyncEvery, Experiment::FlushSlope] {
        experiment(maker, of);
        for every in [1, 4, 16, 64] {
            let sync = SyncPolicy { method: SyncMethod::Fdatasync, every };
            let workload =
                Workload { sync, ..write(SyncMethod::Fdatasync, CacheMode::Direct, 4096, 1) };
            let levels = vec![level("every", every.into(), &every.to_string())];
            maker.step(load(0, workload, &script(60.0)), OPERATIONS, levels);
        }
    }
}

fn sizes(maker: &mut Maker) {
    experiment(maker, Experiment::Sizes);
    for power in 0..11 {
        let size = 1024_u64 << power;
        let bytes = f64::from(1024_u32 << power);
        let durable = write(SyncMethod::ODsync, CacheMode::Direct, size, 1);
        maker.step(load(0, durable, &script(durable_micros(bytes))), OPERATIONS, Vec::new());
        let unsynced = write(SyncMethod::None, CacheMode::Buffered, size, 1);
        maker.step(load(0, unsynced, &script(1.5 + bytes / 2500.0)), OPERATIONS, Vec::new());
    }
}

fn writers(maker: &mut Maker) {
    for (of, sizes) in
        [(Experiment::Writers, &[8192_u32][..]), (Experiment::SizesAndWriters, &[8192, 65_536])]
    {
        experiment(maker, of);
        for size in sizes {
            for jobs in [1, 2, 4, 8, 16, 32] {
                let slowed = 1.0 + 0.05 * f64::from(jobs - 1);
                let micros = durable_micros(f64::from(*size)) * slowed;
                let workload = write(SyncMethod::ODsync, CacheMode::Direct, u64::from(*size), jobs);
                maker.step(load(0, workload, &script(micros)), Limit::Operations(3200), Vec::new());
            }
        }
    }
}

fn log(like: &DurableArm, policy: GroupCommit, factor: f64, records_mean: f64) -> DurableArm {
    let mut arm = like.clone();
    (arm.setting.jobs, arm.setting.group_commit) = (1, Some(policy));
    let figures = arm.figures.as_mut().unwrap();
    figures.rate_per_second *= factor;
    let sizes = vec![(1, 40), (3, 10), (6, 50), (8, 300)];
    figures.batches = Some(BatchFindings {
        count: 400,
        records_mean,
        records_p50: 8,
        records_p99: 8,
        records_max: 8,
        commits_per_sync: Some(records_mean),
        padding_share: 0.1,
        delayed_share: 0.0,
        full_share: 0.0,
        device_writes_per_commit: None,
        sizes,
    });
    arm
}

fn group_commit(like: &DurableArm) -> GroupCommitFindings {
    let rows = vec![GroupCommitRow {
        arm: log(like, GroupCommit::of(8), 5.2, 6.9),
        independent: Some(like.clone()),
        gain: Some(5.2),
        predicted_per_second: Some(42_000.0),
    }];
    GroupCommitFindings { rows, others: Vec::new() }
}

fn delays(like: &DurableArm) -> CommitDelayFindings {
    let policy = |micros| GroupCommit { delay: Nanos::from_micros(micros), ..GroupCommit::of(64) };
    let advice = CommitDelayAdvice {
        delay: Nanos::from_micros(50),
        batch_max: Bytes::from_mib(1),
        arm: 1,
        without: 0,
        gain_share: 0.3,
        best_gain_share: 0.31,
        noise_share: 0.05,
        p99_share: Some(-0.1),
    };
    CommitDelayFindings {
        arms: vec![log(like, policy(0), 5.0, 32.0), log(like, policy(50), 6.5, 60.0)],
        advice: Some(advice),
    }
}

fn commands(
    method: SyncMethod,
    requests: &[(&str, u64, u64, u64)],
    commit: u64,
) -> CommandsFindings {
    let request = |(flags, kib, issued, service): &(&str, u64, u64, u64)| TracedRequest {
        device: "vda".into(),
        flags: (*flags).into(),
        bytes: Bytes::from_kib(*kib),
        issued: Nanos::from_micros(*issued),
        service: Some(Nanos::from_micros(*service)),
    };
    let sequence = TracedSequence {
        commits: 20,
        requests: requests.iter().map(request).collect(),
        commit: Nanos::from_micros(commit),
    };
    let short =
        sequence.requests.iter().map(|request| format!("{} {}", request.flags, request.bytes));
    CommandsFindings {
        method,
        cache: CacheMode::Direct,
        layout: Some(FileLayout::Incompressible),
        block_size: Bytes::from_kib(4),
        short: vec![short.collect::<Vec<_>>().join(", ")],
        reaches_media: Some(true),
        traced: CommitsTraced {
            step: 0,
            commits: 20,
            sequences: vec![sequence],
            lost: 0,
            unavailable: None,
        },
    }
}

fn probed() -> SyncCallsProbed {
    let call = |caller, flushes| ProbedCalls {
        caller,
        call: "fdatasync".into(),
        calls: 20,
        flushes: Some(flushes),
        writes: Some(20),
        elapsed: Nanos::from_millis(2),
        errno: None,
    };
    SyncCallsProbed {
        step: 0,
        calls: vec![call(SyncCaller::Library, 0), call(SyncCaller::Kernel, 20)],
    }
}
