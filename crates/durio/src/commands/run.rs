//! `durio run`: one job from the command line; a campaign, or the rest of an interrupted one.

use std::path::Path;

use durio_base::{Bytes, Nanos, shell_word};
use durio_bench::{BenchError, CampaignWish, Execution, LocatedPlaces, interrupted, plan_of_spec};
use durio_block::HeldTargets;
use durio_plan::{BatchPolicy, EngineKind, Limit, NullScript, Placement};
use durio_spec::{RunRequest, plan_run};
use durio_workload::{
    Arrivals, CacheMode, Pattern, PerMille, Region, RegionRule, SyncPolicy, Workload,
};

use crate::args::{JobArguments, RunCommand};
use crate::exit_code::Exit;
use crate::measure::{begin, execute, locate, refuse_absent, resume};
use crate::output;

const DURATION_DEFAULT: Nanos = Nanos::from_secs(10);

pub(crate) fn run(arguments: &JobArguments) -> Result<Exit, BenchError> {
    let (execution, request, held) = request("run", arguments)?;
    let plan = plan_run(&request)?;
    refuse_absent(&plan, &arguments.common)?;
    execute(&execution, &plan, held, &arguments.common).map(|(exit, _)| exit)
}

pub(super) fn campaign(spec: &Path, arguments: &RunCommand) -> Result<Exit, BenchError> {
    if spec.is_dir() {
        let word = shell_word(&spec.to_string_lossy());
        return Err(BenchError::wrong_use(format!("'{}' is a directory, no spec", spec.display()))
            .hint(format!("to measure there: durio run --target {word}, or durio check {word}")));
    }
    let options = &arguments.job.common;
    let wish = CampaignWish {
        spec,
        targets: &arguments.job.target,
        scale: arguments.expanding.scale(),
        permission: options.permission(),
        seed: options.seed.unwrap_or(0),
        clock: options.clock,
    };
    let (made, held, execution) = plan_of_spec(&wish, || {
        let execution = begin("campaign", options)?;
        Ok::<_, BenchError>((execution.file_name(), execution))
    })?;
    if let Some(obstacle) = made.obstacles.into_iter().next() {
        return Err(obstacle.into());
    }
    let plan = durio_plan::Plan { seed: execution.seed, ..made.plan };
    refuse_absent(&plan, options)?;
    let earlier = match arguments.fresh {
        true => None,
        // A given seed is part of the request: another seed is another campaign.
        false => interrupted(execution.runs(), &plan, options.seed)?,
    };
    let Some(earlier) = earlier else {
        return execute(&execution, &plan, held, options).map(|(exit, _)| exit);
    };
    output::remark(&format!(
        "durio: resuming {} at step {} of {}; --fresh starts over",
        earlier.folder.path().display(),
        earlier.point.step + 1,
        plan.steps.len()
    ));
    resume(&execution, &earlier, held, options).map(|(exit, _)| exit)
}

/// The request from the options of a job, of `command`, and the facts about its target.
pub(super) fn request(
    command: &str,
    arguments: &JobArguments,
) -> Result<(Execution, RunRequest, HeldTargets), BenchError> {
    let workload = workload(arguments)?;
    if let [_, second, ..] = &arguments.target[..] {
        let text = format!("one job has one target; '{}' is a second one", second.display());
        return Err(BenchError::wrong_use(text)
            .hint("a spec has several: see docs/formats/spec.md and durio plan"));
    }
    let LocatedPlaces { mut places, held } = locate(&arguments.target, &arguments.common)?;
    let execution = begin(command, &arguments.common)?;
    let engine = match &arguments.engine {
        Some(engine) => engine.kind,
        // A sync that is linked to its write is io_uring's alone, at any depth.
        None if arguments.depth == 1 && !arguments.sync.is_linked() => EngineKind::Sync,
        None => EngineKind::Uring,
    };
    let request = RunRequest {
        location: places.pop(),
        workload,
        engine,
        fio_engine: arguments.engine.as_ref().and_then(|engine| engine.fio_engine.clone()),
        arrivals: arrivals(arguments),
        placement: placement(arguments),
        batch: BatchPolicy { submit_max: arguments.batch },
        script: script(arguments)?,
        limit: match arguments.ops {
            Some(count) => Limit::Operations(count),
            None => Limit::Duration(arguments.duration.unwrap_or(DURATION_DEFAULT)),
        },
        ramp: arguments.ramp,
        interval: arguments.interval,
        size: arguments.size,
        self_cost: !arguments.no_self_cost,
        trace_path: arguments.trace_path,
        seed: execution.seed,
        clock: arguments.common.clock,
        file_name: execution.file_name(),
    };
    Ok((execution, request, held))
}

fn workload(arguments: &JobArguments) -> Result<Workload, BenchError> {
    let (pattern, read_share) = match arguments.rw.as_str() {
        "read" => (Pattern::Sequential, Some(PerMille::ALL)),
        "write" => (Pattern::Sequential, Some(PerMille::NONE)),
        "rw" => (Pattern::Sequential, None),
        "randread" => (Pattern::Random, Some(PerMille::ALL)),
        "randwrite" => (Pattern::Random, Some(PerMille::NONE)),
        _ => (Pattern::Random, None),
    };
    if read_share.is_some() && arguments.mix.is_some() {
        return Err(BenchError::wrong_use(format!(
            "--mix has no meaning with --rw {}",
            arguments.rw
        ))
        .hint("use --rw rw or --rw randrw for a mix"));
    }
    let read_share = read_share.or(arguments.mix).unwrap_or(PerMille(500));
    Ok(Workload {
        name: arguments.rw.clone(),
        summary: match arguments.committing.committers {
            Some(count) => format!("records of {} by {count} committers", arguments.bs),
            None => format!("{} of {}", arguments.rw, arguments.bs),
        },
        pattern,
        read_share,
        block_size: arguments.bs,
        region: region(arguments, pattern),
        within: arguments.rewrite.then_some(Region { offset: Bytes::ZERO, length: arguments.bs }),
        jobs: arguments.jobs,
        depth: arguments.depth,
        sync: SyncPolicy { method: arguments.sync, every: arguments.sync_every },
        cache: if arguments.buffered { CacheMode::Buffered } else { CacheMode::Direct },
        group_commit: arguments.committing.policy(),
        ..Workload::default()
    })
}

fn region(arguments: &JobArguments, pattern: Pattern) -> RegionRule {
    // One block cannot be divided among jobs.
    match (arguments.share_each, arguments.shared || arguments.rewrite) {
        (true, _) => RegionRule::ShareEach,
        (false, true) => RegionRule::Shared,
        (false, false) => RegionRule::default_of(pattern, arguments.jobs),
    }
}

fn arrivals(arguments: &JobArguments) -> Arrivals {
    match arguments.rate {
        None => Arrivals::Closed,
        Some(rate_per_second) if arguments.constant => Arrivals::Constant { rate_per_second },
        Some(rate_per_second) => Arrivals::Poisson { rate_per_second },
    }
}

fn placement(arguments: &JobArguments) -> Placement {
    match (&arguments.cpus.0[..], arguments.node) {
        ([], None) => Placement::DeviceNode,
        ([], Some(node)) => Placement::Node(node),
        (cpus, _) => Placement::Cpus(cpus.to_vec()),
    }
}

fn script(arguments: &JobArguments) -> Result<Option<NullScript>, BenchError> {
    let null = arguments.engine.as_ref().is_some_and(|engine| engine.kind == EngineKind::Null);
    if !null && (!arguments.null_latency.is_empty() || arguments.null_fails_at.is_some()) {
        return Err(BenchError::wrong_use(
            "--null-latency and --null-fails-at belong to --engine null",
        ));
    }
    if arguments.null_latency.contains(&Nanos::ZERO) {
        return Err(BenchError::wrong_use("a null latency of 0 would stop the virtual clock"));
    }
    let latencies = match arguments.null_latency.is_empty() {
        true => vec![Nanos::from_micros(100)],
        false => arguments.null_latency.clone(),
    };
    Ok(null.then_some(NullScript { latencies, fails_at: arguments.null_fails_at }))
}
