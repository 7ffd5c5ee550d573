//! `durio run`: one job from the command line; a campaign, or the rest of an interrupted one. `durio plan`
//! shows what a campaign would do, `durio sweep` searches the highest rate of a job that keeps a goal.

use std::os::unix::net::UnixStream;
use std::path::Path;

use clap::Args;
use durio_base::{Bytes, Nanos, shell_word};
use durio_bench::{Execution, SpecRequest, interrupted, plan_of_spec};
use durio_block::{HeldTargets, inherited_socket};
use durio_command::{CommandError, CommandErrorKind, LocatedPlaces, Permission};
use durio_plan::{BatchPolicy, ClockChoice, EngineKind, Goal, Limit, NullScript, Placement};
use durio_report::ShownPlan;
use durio_spec::{RunRequest, SweepRequest, plan_run, plan_sweep, spec_json_schema, written};
use durio_workload::{
    Arrivals, CacheMode, Pattern, PerMille, Region, RegionRule, SyncPolicy, Workload,
};

use super::{fio, profile, spec};
use crate::exit_code::{Exit, TABLE};
use crate::measure::{PLAN_FILE_NAME, begin, execute, locate, refuse_absent, resume};
use crate::options::{JobArguments, PlanArguments, RunCommand};
use crate::{output, values};

/// Find the highest rate at which a latency goal holds
///
/// Tries one rate after another in an open loop and measures the response latency, counted from the
/// scheduled start of each operation. It doubles the rate until the goal fails, narrows the
/// gap, and confirms the result once more. The answer is an interval: the highest rate that met the
/// goal and the lowest that did not.
///
///   durio sweep --goal 'p99 < 2ms' --target /data --rw randread --bs 8k --engine uring --depth 64
///   durio sweep --goal 'p99.9 < 10ms' --target /data --rw write --bs 8k --sync fdatasync
///
/// --duration is the time per trial [default: 10s]. All other options are as for `durio run`.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct SweepArguments {
    /// Latency goal: a percentile of the response latency and its limit, such as 'p99 < 2ms'
    #[arg(long, value_name = "GOAL", value_parser = written::goal, help_heading = "Search")]
    pub(crate) goal: Goal,

    /// First rate to try, in accesses per second [default: half of what a closed loop reaches]
    #[arg(long, value_name = "PER_SECOND", value_parser = written::rate, help_heading = "Search")]
    pub(crate) from: Option<f64>,

    /// Constant instead of Poisson arrivals
    #[arg(long, help_heading = "Search")]
    pub(crate) equally_spaced: bool,

    /// Stop when the interval is this narrow, in percent of the rate
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = values::read_share,
          help_heading = "Search")]
    pub(crate) precision: PerMille,

    /// Maximum number of rates to try
    #[arg(long, value_name = "N", default_value_t = 40, help_heading = "Search")]
    pub(crate) trials: u32,

    #[command(flatten)]
    pub(crate) job: JobArguments,
}

const DURATION_DEFAULT: Nanos = Nanos::from_secs(10);

pub(crate) fn run(arguments: &RunCommand) -> Result<Exit, CommandError> {
    let gate = arguments.gate.map(gate).transpose()?;
    let Some(spec) = &arguments.spec else { return run_job(arguments, gate) };
    // By its prefix alone: a file of such a name is written ./profile:NAME.
    if profile::is_profile(spec) {
        return profile::run(spec, arguments, gate);
    }
    refuse_profile_options(spec, arguments.job.duration, arguments.job.size)?;
    match fio::is_job_file(spec) {
        true => fio::run_file(spec, arguments, gate),
        false => campaign(spec, arguments, gate),
    }
}

/// The socket of `--gate`.
fn gate(number: i32) -> Result<UnixStream, CommandError> {
    inherited_socket(number).map_err(|error| {
        CommandError::of(CommandErrorKind::WrongUse, error)
            .context(format!("--gate {number} is not a connected Unix stream socket"))
            .hint("start durio with one end of a socketpair open under that number")
    })
}

// A spec has its own times and sizes, which are scaled.
fn refuse_profile_options(
    spec: &Path,
    duration: Option<Nanos>,
    size: Option<Bytes>,
) -> Result<(), CommandError> {
    let given = [("--duration", duration.is_some()), ("--size", size.is_some())];
    let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) else {
        return Ok(());
    };
    let text = format!("{option} cannot be used with '{}', which is not a profile", spec.display());
    Err(CommandError::wrong_use(text)
        .hint("a spec accepts --quick, or --scale-time and --scale-size"))
}

fn run_job(arguments: &RunCommand, gate: Option<UnixStream>) -> Result<Exit, CommandError> {
    let (execution, request, held) = request("run", &arguments.job)?;
    let execution = execution.with_gate(gate).with_why(arguments.own.explained());
    let (plan, options) = (plan_run(&request)?, &arguments.job.common);
    refuse_absent(&plan, options)?;
    execute(&execution, &plan, held, options).map(|(exit, _)| exit)
}

fn campaign(
    spec: &Path,
    arguments: &RunCommand,
    gate: Option<UnixStream>,
) -> Result<Exit, CommandError> {
    if spec.is_dir() {
        let word = shell_word(&spec.to_string_lossy());
        return Err(CommandError::wrong_use(format!(
            "'{}' is a directory, not a spec",
            spec.display()
        ))
        .hint(format!("to measure there: durio run --target {word}, or durio check {word}")));
    }
    let options = &arguments.job.common;
    let wish = SpecRequest {
        spec,
        targets: &arguments.job.target,
        scale: arguments.expanding.scale(),
        permission: options.permission(),
        seed: options.seed.unwrap_or(0),
        clock: options.clock,
    };
    let (made, held, execution) = plan_of_spec(&wish, || {
        let execution = begin("campaign", options)?;
        let execution = execution.with_gate(gate).with_why(arguments.own.explained());
        Ok::<_, CommandError>((execution.file_name(), execution))
    })?;
    if let Some(obstacle) = made.obstacles.into_iter().next() {
        return Err(obstacle);
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
fn request(
    command: &str,
    arguments: &JobArguments,
) -> Result<(Execution, RunRequest, HeldTargets), CommandError> {
    let workload = workload(arguments)?;
    if let [_, second, ..] = &arguments.target[..] {
        let text = format!("one job has one target; '{}' is a second one", second.display());
        return Err(CommandError::wrong_use(text)
            .hint("a spec has several: durio spec show NAME prints it, durio plan explains it"));
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

fn workload(arguments: &JobArguments) -> Result<Workload, CommandError> {
    let (pattern, read_share) = match arguments.rw.as_str() {
        "read" => (Pattern::Sequential, Some(PerMille::ALL)),
        "write" => (Pattern::Sequential, Some(PerMille::NONE)),
        "rw" => (Pattern::Sequential, None),
        "randread" => (Pattern::Random, Some(PerMille::ALL)),
        "randwrite" => (Pattern::Random, Some(PerMille::NONE)),
        _ => (Pattern::Random, None),
    };
    if read_share.is_some() && arguments.mix.is_some() {
        return Err(CommandError::wrong_use(format!(
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

fn script(arguments: &JobArguments) -> Result<Option<NullScript>, CommandError> {
    let null = arguments.engine.as_ref().is_some_and(|engine| engine.kind == EngineKind::Null);
    if !null && (!arguments.null_latency.is_empty() || arguments.null_fails_at.is_some()) {
        return Err(CommandError::wrong_use(
            "--null-latency and --null-fails-at belong to --engine null",
        ));
    }
    if arguments.null_latency.contains(&Nanos::ZERO) {
        return Err(CommandError::wrong_use("a null latency of 0 would stop the virtual clock"));
    }
    let latencies = match arguments.null_latency.is_empty() {
        true => vec![Nanos::from_micros(100)],
        false => arguments.null_latency.clone(),
    };
    Ok(null.then_some(NullScript { latencies, fails_at: arguments.null_fails_at }))
}

/// Accesses per second.
const FIRST_RATE: f64 = 100.0;

pub(crate) fn sweep(arguments: &SweepArguments) -> Result<Exit, CommandError> {
    let job = &arguments.job;
    if job.rate.is_some() {
        return Err(CommandError::wrong_use("a sweep searches for the rate")
            .hint("give --from for the first rate, and leave out --rate"));
    }
    let (execution, mut run, held) = request("sweep", job)?;
    // Without a first rate the closed loop decides; the plan shows this one.
    let rate_per_second = arguments.from.unwrap_or(FIRST_RATE);
    run.arrivals = match arguments.equally_spaced {
        true => Arrivals::Constant { rate_per_second },
        false => Arrivals::Poisson { rate_per_second },
    };
    let plan = plan_sweep(&SweepRequest {
        run,
        goal: arguments.goal,
        precision: arguments.precision,
        trials_max: arguments.trials,
        from_ceiling: arguments.from.is_none(),
    })?;
    refuse_absent(&plan, &job.common)?;
    let (exit, findings) = execute(&execution, &plan, held, &job.common)?;
    let section = findings.campaign.as_ref().and_then(|campaign| campaign.sections.last());
    let found = section.and_then(|section| section.search.as_ref());
    let is_open = found.is_none_or(|found| found.kept_per_second.is_none());
    // Finding no rate is a result too, but not the requested one.
    Ok(if exit == Exit::Fine && is_open { Exit::CANNOT_MEASURE } else { exit })
}

pub(crate) fn plan(arguments: &PlanArguments) -> Result<Exit, CommandError> {
    let Some(spec) = &arguments.spec else {
        let text = match arguments.schema {
            true => spec_json_schema(),
            false => format!(
                "Built-in specs; durio plan NAME --target PATH shows one:\n\n{}",
                spec::listed(&spec::campaigns()?)
            ),
        };
        return output::answer(text.as_bytes()).map(|()| Exit::Fine);
    };
    if profile::is_profile(spec) {
        return show(arguments, &profile::plan(spec, arguments)?, &[]);
    }
    refuse_profile_options(spec, arguments.duration, arguments.size)?;
    if fio::is_job_file(spec) {
        return show(arguments, &fio::plan_file(spec, arguments)?, &[]);
    }
    let wish = SpecRequest {
        spec,
        targets: &arguments.target,
        scale: arguments.expanding.scale(),
        permission: Permission::Named {
            destroy: &arguments.destroy,
            force_signature: arguments.force_signature,
        },
        // A run draws its seed; a plan does not need one.
        seed: 0,
        clock: ClockChoice::Auto,
    };
    let file_name = || Ok::<_, CommandError>((PLAN_FILE_NAME.to_owned(), ()));
    let (made, _held, ()) = plan_of_spec(&wish, file_name)?;
    let obstacles: Vec<String> = made.obstacles.iter().map(obstacle).collect();
    show(arguments, &made.plan, &obstacles)
}

fn show(
    arguments: &PlanArguments,
    plan: &durio_plan::Plan,
    obstacles: &[String],
) -> Result<Exit, CommandError> {
    output::report(arguments.output, &ShownPlan { plan, obstacles }).map(|()| Exit::Fine)
}

fn obstacle(error: &CommandError) -> String {
    error.hints.iter().fold(error.to_string(), |text, hint| format!("{text}; {hint}"))
}
