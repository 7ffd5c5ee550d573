//! The plan of `durio run`: one job description over one target.

use durio_base::{Bytes, Nanos};
use durio_plan::{
    BatchPolicy, ClockChoice, EngineKind, FileLayout, Limit, Load, Location, LocationFacts,
    NullScript, Placement, Plan, Purpose, RawPath, Role, Step, Target, TargetKind,
};
use durio_workload::{Arrivals, CacheMode, SyncMethod, Workload};

use crate::{
    DURATION_MAX, INTERVALS_MAX, SpecError, interval_for, intervals, null_target, path_traces,
    plan_of, self_cost_step,
};

/// What the user asks of `durio run`.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRequest {
    /// The target; none for the null engine.
    pub location: Option<Location>,
    pub workload: Workload,
    /// How they are submitted.
    pub engine: EngineKind,
    /// The ioengine, if fio is the engine; fio's by depth if absent.
    pub fio_engine: Option<String>,
    pub arrivals: Arrivals,
    /// Where the jobs run.
    pub placement: Placement,
    /// Operations per submission at most.
    pub batch: BatchPolicy,
    /// The null engine's latencies and its failing operation.
    pub script: Option<NullScript>,
    pub limit: Limit,
    /// Time left out of the results.
    pub ramp: Nanos,
    /// Recorded intervals; by default a fiftieth of the duration.
    pub interval: Option<Nanos>,
    /// Bytes of the target to touch; the whole of an existing one by default.
    pub size: Option<Bytes>,
    /// False to leave out the measurement of durio's own cost.
    pub self_cost: bool,
    /// True to follow some operations through the kernel after the measurement.
    pub trace_path: bool,
    /// Seed of every random choice.
    pub seed: u64,
    pub clock: ClockChoice,
    /// File name for filesystems without unnamed files.
    pub file_name: String,
}

/// The size of a file that is made without `--size`.
const SIZE_DEFAULT: Bytes = Bytes::from_gib(1);

/// Makes the plan.
///
/// # Errors
/// If the request contradicts itself, would overwrite an existing target, or does not fit.
pub fn plan_run(request: &RunRequest) -> Result<Plan, SpecError> {
    check_request(request)?;
    let targets = vec![null_target(), target_for(request)?];
    let mut steps = Vec::new();
    // fio and the null engine have no cost of durio's own to measure.
    let is_ours = !matches!(request.engine, EngineKind::Null | EngineKind::Fio);
    if request.self_cost && is_ours {
        let depth = request.workload.depth;
        steps.push(self_cost_step(0, request.engine, depth, request.batch));
    }
    let step = measured_step(request);
    let of_engine = step.load.validate_log().and_then(|()| step.load.validate_sync());
    of_engine.map_err(|reason| SpecError::wrong_use(format!("the job {reason}")))?;
    let followed = request.trace_path.then(|| path_traces(std::iter::once(&step)));
    steps.push(step);
    steps.extend(followed.into_iter().flatten());
    Ok(plan_of(Purpose::Run, (request.seed, request.clock), targets, steps))
}

fn measured_step(request: &RunRequest) -> Step {
    // A run that ends by count has no known duration: a second, as the longest steps have.
    let interval = match request.limit {
        Limit::Duration(duration) => interval_for(duration, request.ramp),
        Limit::VolumeWithin { .. } | Limit::Operations(_) | Limit::Volume(_) => Nanos::from_secs(1),
    };
    let mut workload = request.workload.clone();
    // The null devices know no direct I/O.
    if matches!(request.location, Some(Location { facts: LocationFacts::NullDevice, .. })) {
        workload.cache = CacheMode::Buffered;
    }
    let load = Load {
        batch: request.batch,
        script: request.script.clone(),
        fio_engine: request.fio_engine.clone(),
        arrivals: request.arrivals,
        placement: request.placement.clone(),
        ..Load::new(1, workload, request.engine)
    };
    let interval = request.interval.unwrap_or(interval);
    Step { ramp: request.ramp, ..Step::new(Role::Measure, load, request.limit, interval) }
}

fn check_request(request: &RunRequest) -> Result<(), SpecError> {
    let wrong = |text: &str| Err(SpecError::wrong_use(text));
    let workload = &request.workload;
    workload.validate().map_err(|error| SpecError::wrong_use(error.to_string()))?;
    if !request.engine.is_asynchronous() && workload.depth > 1 {
        let engine = request.engine;
        let text = format!("the {engine} engine waits for each operation: its depth is 1 per job");
        let hint = "use --jobs for more in flight, or --engine uring";
        return Err(SpecError::wrong_use(text).hint(hint));
    }
    let method = workload.sync.method;
    if method.is_linked() && !request.engine.links_syncs() {
        let text = format!("{method} needs io_uring: {} cannot link operations", request.engine);
        let hint = format!("use --engine uring, or --sync {}", method.unlinked());
        return Err(SpecError::wrong_use(text).hint(hint));
    }
    if request.engine == EngineKind::Null && request.script.is_none() {
        return wrong("the null engine needs --null-latency");
    }
    if (request.engine == EngineKind::Null) != request.location.is_none() {
        let text = "--target names what to measure; only the null engine has none";
        return Err(SpecError::wrong_use(text)
            .hint("durio run --target DIR, where DIR is a directory on the storage"));
    }
    if workload.sync.method != SyncMethod::None && !workload.writes() {
        return Err(SpecError::wrong_use("--sync is meaningless for a job that only reads"));
    }
    if request.ramp > DURATION_MAX {
        return Err(SpecError::wrong_use(format!(
            "a ramp of {} is longer than a month",
            request.ramp
        )));
    }
    if request.batch.submit_max == 0 {
        return wrong("--batch 0 would never submit anything");
    }
    if request.interval.is_some_and(|interval| interval < Nanos::from_millis(1)) {
        return wrong("intervals under 1 ms cost more than they reveal");
    }
    check_limit(request)
}

fn check_limit(request: &RunRequest) -> Result<(), SpecError> {
    let wrong = |text: &str| Err(SpecError::wrong_use(text));
    match request.limit {
        Limit::Duration(duration) if duration < Nanos::from_millis(1) => {
            Err(SpecError::wrong_use(format!("a duration of {duration} measures nothing"))
                .hint("give --duration 10s, or --ops N"))
        }
        Limit::Duration(duration) if duration > DURATION_MAX => {
            Err(SpecError::wrong_use(format!("a duration of {duration} is longer than a month")))
        }
        Limit::Operations(0) => wrong("--ops 0 measures nothing"),
        Limit::Volume(Bytes::ZERO) => wrong("a volume of 0 measures nothing"),
        Limit::Operations(_) | Limit::Volume(_) | Limit::VolumeWithin { .. }
            if request.ramp > Nanos::ZERO =>
        {
            Err(SpecError::wrong_use(
                "--ops counts from the first operation: a ramp could leave none to measure",
            )
            .hint("give --duration with --ramp, or --ops alone"))
        }
        Limit::Duration(duration) => {
            check_arrivals(request, duration)?;
            check_intervals(request, duration)
        }
        Limit::Operations(_) | Limit::Volume(_) | Limit::VolumeWithin { .. } => Ok(()),
    }
}

/// Refuses a rate at which not even one operation is due on average.
fn check_arrivals(request: &RunRequest, duration: Nanos) -> Result<(), SpecError> {
    let Some(rate) = request.arrivals.rate_per_second() else { return Ok(()) };
    if rate * duration.as_secs_f64() >= 1.0 {
        return Ok(());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is at least one a week"
    )]
    let every = Nanos::new((1e9 / rate) as u64);
    Err(SpecError::wrong_use(format!(
        "at {rate}/s one operation is due every {every}: there may be none in {duration}"
    ))
    .hint(format!("give a --duration of several times {every}, or a higher --rate")))
}

fn check_intervals(request: &RunRequest, duration: Nanos) -> Result<(), SpecError> {
    let Some(interval) = request.interval else { return Ok(()) };
    let count = intervals(duration, request.ramp, interval);
    if count <= INTERVALS_MAX {
        return Ok(());
    }
    Err(SpecError::wrong_use(format!(
        "{duration} in intervals of {interval} is {count} intervals, more than {INTERVALS_MAX}"
    ))
    .hint("give a longer --interval, or leave it out"))
}

fn target_for(request: &RunRequest) -> Result<Target, SpecError> {
    let Some(location) = &request.location else {
        let size = request.size.unwrap_or(SIZE_DEFAULT);
        let (name, kind) = ("scripted".to_owned(), TargetKind::Scripted);
        return with_room(request, Target { name, location: None, kind, size, destroy: false });
    };
    let path = &location.path;
    let (name, size) = match location.facts {
        LocationFacts::Directory { free, .. } => ("file", new_size(request, path, free)?),
        LocationFacts::Absent { free } => {
            if path.as_path().file_name().is_none() {
                return Err(SpecError::cannot_measure(format!("'{path}' names no file")));
            }
            ("file", new_size(request, &location.parent(), free)?)
        }
        LocationFacts::File { size } => ("file", existing_size(request, location, size)?),
        LocationFacts::Device { size } => ("device", existing_size(request, location, size)?),
        LocationFacts::NullDevice => ("null device", request.size.unwrap_or(SIZE_DEFAULT)),
    };
    let (name, file_name) = (name.to_owned(), request.file_name.clone());
    with_room(request, location.target(name, file_name, FileLayout::Incompressible, size))
}

fn new_size(request: &RunRequest, directory: &RawPath, free: Bytes) -> Result<Bytes, SpecError> {
    // At most a tenth of the free space, as check: a first run must not fill a disk.
    let size = request.size.unwrap_or(Bytes::new(SIZE_DEFAULT.get().min(free.get() / 10)));
    if size <= free {
        return Ok(size);
    }
    Err(SpecError::cannot_measure(format!(
        "a file of {size} does not fit: '{directory}' has {free} free"
    ))
    .hint("use a smaller --size, or free some space"))
}

fn existing_size(
    request: &RunRequest,
    location: &Location,
    size: Bytes,
) -> Result<Bytes, SpecError> {
    let path = &location.path;
    if request.workload.writes() && !location.destroy {
        return Err(crate::would_destroy(path));
    }
    let wanted = request.size.unwrap_or(size);
    if wanted <= size {
        return Ok(wanted);
    }
    Err(SpecError::cannot_measure(format!("'{path}' has {size}, less than --size {wanted}")))
}

/// The target, where the first and the last job have room for a block.
fn with_room(request: &RunRequest, target: Target) -> Result<Target, SpecError> {
    let size = target.size;
    // No job has less room than the first or the last: shares are equal, offsets only grow.
    for job in [0, request.workload.jobs - 1] {
        let region = request.workload.region_of(job, size);
        region.map_err(|error| match request.size {
            Some(_) => SpecError::wrong_use(format!("--size {size}: {error}")),
            None => SpecError::cannot_measure(error.to_string()),
        })?;
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use durio_command::CommandErrorKind;
    use durio_workload::{check_workloads, self_cost_workload};

    fn request(facts: LocationFacts) -> RunRequest {
        RunRequest {
            location: Some(Location { path: RawPath::from("/x/y"), facts, destroy: false }),
            workload: self_cost_workload(1),
            engine: EngineKind::Sync,
            fio_engine: None,
            arrivals: Arrivals::Closed,
            placement: Placement::DeviceNode,
            batch: BatchPolicy::DEFAULT,
            script: None,
            limit: Limit::Operations(10),
            ramp: Nanos::ZERO,
            interval: None,
            size: None,
            self_cost: true,
            trace_path: false,
            seed: 1,
            clock: ClockChoice::Auto,
            file_name: ".durio-1".to_owned(),
        }
    }

    #[test]
    fn writing_to_what_exists_needs_its_name_after_destroy() {
        let (_, writes) = check_workloads().remove(0);
        let mut request = request(LocationFacts::File { size: Bytes::from_gib(1) });
        request.workload = writes;
        let refused = plan_run(&request).unwrap_err();
        assert_eq!(refused.kind, CommandErrorKind::WrongUse);
        assert!(refused.hints[0].starts_with("permit it with --destroy"), "{refused:?}");
        if let Some(location) = &mut request.location {
            location.destroy = true;
        }
        assert!(plan_run(&request).unwrap().targets[1].may_be_written());
    }

    #[test]
    fn a_path_that_does_not_exist_becomes_a_named_file_in_its_directory() {
        let free = Bytes::from_gib(80);
        let plan = plan_run(&request(LocationFacts::Absent { free })).unwrap();
        let TargetKind::NewFile { directory, file_name, named, .. } = &plan.targets[1].kind else {
            panic!("{:?}", plan.targets[1]);
        };
        assert_eq!(
            (directory.to_string(), file_name.to_string(), *named),
            ("/x".into(), "y".into(), true)
        );
    }

    #[test]
    fn operations_are_followed_after_the_measurement_where_that_is_wished() {
        let mut request =
            request(LocationFacts::Directory { free: Bytes::from_gib(9), filesystem: 1 });
        let last = |request: &RunRequest| plan_run(request).unwrap().steps.pop().unwrap().role;
        assert_eq!(last(&request), Role::Measure);
        request.trace_path = true;
        assert_eq!(last(&request), Role::TracePath);
    }

    #[test]
    fn a_new_file_has_a_gib_or_a_tenth_of_the_free_space_and_what_exists_is_used_whole() {
        let gib = Bytes::from_gib;
        let size = |facts, wish: Option<Bytes>| {
            let request = RunRequest { size: wish, ..request(facts) };
            plan_run(&request).map(|plan| plan.targets[1].size).map_err(|error| error.kind)
        };
        let directory =
            |gib| LocationFacts::Directory { free: Bytes::from_gib(gib), filesystem: 1 };
        assert_eq!(size(directory(80), None), Ok(gib(1)));
        assert_eq!(size(directory(5), None), Ok(Bytes::from_mib(512)));
        assert_eq!(size(LocationFacts::Absent { free: gib(5) }, None), Ok(Bytes::from_mib(512)));
        assert_eq!(size(directory(5), Some(gib(5))), Ok(gib(5)));
        assert_eq!(size(directory(5), Some(gib(6))), Err(CommandErrorKind::CannotMeasure));
        let device = LocationFacts::Device { size: gib(7) };
        assert_eq!((size(device, None), size(device, Some(gib(2)))), (Ok(gib(7)), Ok(gib(2))));
        assert_eq!(size(device, Some(gib(8))), Err(CommandErrorKind::CannotMeasure));
        assert_eq!(size(LocationFacts::NullDevice, None), Ok(gib(1)));
        assert_eq!(size(LocationFacts::NullDevice, Some(gib(3))), Ok(gib(3)));
    }

    #[test]
    fn a_step_has_a_second_per_interval_unless_its_time_is_known_or_it_is_wished_otherwise() {
        let file = LocationFacts::File { size: Bytes::from_gib(1) };
        let step = |limit, interval: Option<u64>, ramp| {
            let ramp = Nanos::from_millis(ramp);
            let interval = interval.map(Nanos::from_millis);
            let request = RunRequest { limit, interval, ramp, ..request(file) };
            plan_run(&request).unwrap().steps.pop().unwrap()
        };
        let time = |seconds| Limit::Duration(Nanos::from_secs(seconds));
        for (limit, wish, ramp, expected) in [
            (Limit::Operations(10), None, 0, 1000),
            (Limit::Volume(Bytes::from_mib(1)), None, 0, 1000),
            (time(3), None, 0, 100),
            (time(20), None, 700, 400),
            (time(900), None, 0, 1000),
            (time(20), Some(3), 0, 3),
            (Limit::Operations(10), Some(70), 0, 70),
        ] {
            let step = step(limit, wish, ramp);
            assert_eq!(step.interval, Nanos::from_millis(expected), "{limit:?}");
            assert_eq!((step.limit, step.ramp), (limit, Nanos::from_millis(ramp)));
        }
    }

    /// durio's own cost is that of the same queue, and of its own engines alone.
    #[test]
    fn the_own_cost_is_measured_before_with_the_engine_the_depth_and_the_batch_of_the_job() {
        let file = LocationFacts::File { size: Bytes::from_gib(1) };
        let batch = BatchPolicy { submit_max: 3 };
        let deep = RunRequest {
            workload: Workload { depth: 6, ..Workload::default() },
            engine: EngineKind::Uring,
            batch,
            ..request(file)
        };
        let steps = plan_run(&deep).unwrap().steps;
        let roles: Vec<_> = steps.iter().map(|step| step.role).collect();
        assert_eq!(roles, [Role::SelfCost, Role::Measure]);
        for (step, target) in steps.iter().zip([0, 1]) {
            let load = &step.load;
            assert_eq!((load.engine, load.batch, load.target), (EngineKind::Uring, batch, target));
            assert_eq!(load.workload.depth, 6);
        }
        for other in [
            RunRequest { self_cost: false, ..deep.clone() },
            RunRequest { engine: EngineKind::Fio, fio_engine: Some("libaio".into()), ..deep },
        ] {
            let steps = plan_run(&other).unwrap().steps;
            assert_eq!((steps.len(), steps[0].role), (1, Role::Measure));
        }
        let cache = |request: &RunRequest| {
            plan_run(request).unwrap().steps.pop().unwrap().load.workload.cache
        };
        let direct = Workload { cache: CacheMode::Direct, ..Workload::default() };
        let null = LocationFacts::NullDevice;
        let on_null = RunRequest { workload: direct.clone(), ..request(null) };
        let on_file = RunRequest { workload: direct, ..request(file) };
        assert_eq!((cache(&on_null), cache(&on_file)), (CacheMode::Buffered, CacheMode::Direct));
    }

    #[test]
    fn a_rate_has_an_operation_in_its_time_and_a_time_has_bounds() {
        let file = LocationFacts::File { size: Bytes::from_gib(1) };
        let fits = |rate_per_second: f64, millis| {
            let arrivals = Arrivals::Constant { rate_per_second };
            let limit = Limit::Duration(Nanos::from_millis(millis));
            plan_run(&RunRequest { arrivals, limit, ..request(file) }).is_ok()
        };
        assert!(fits(0.5, 2000) && !fits(0.5, 1999));
        assert!(fits(2000.0, 1) && fits(0.01, 31 * 86_400_000));
        assert!(!fits(9.0, 31 * 86_400_000 + 1));
    }

    #[test]
    fn contradictions_are_refused() {
        let good = request(LocationFacts::File { size: Bytes::from_gib(1) });
        assert!(plan_run(&good).is_ok());
        let deep = self_cost_workload(2);
        let bad = [
            RunRequest { workload: deep, ..good.clone() },
            RunRequest { engine: EngineKind::Null, ..good.clone() },
            RunRequest { location: None, ..good.clone() },
            RunRequest { limit: Limit::Operations(0), ..good.clone() },
            RunRequest { limit: Limit::Duration(Nanos::ZERO), ..good.clone() },
            RunRequest { batch: BatchPolicy { submit_max: 0 }, ..good.clone() },
            RunRequest { interval: Some(Nanos::ZERO), ..good.clone() },
            RunRequest { ramp: Nanos::from_millis(1), ..good.clone() },
            RunRequest { size: Some(Bytes::new(100)), ..good.clone() },
            RunRequest { size: Some(Bytes::from_gib(2)), ..good },
        ];
        for request in bad {
            assert!(plan_run(&request).is_err(), "{request:?}");
        }
    }

    #[test]
    fn no_step_has_more_than_a_hundred_thousand_intervals() {
        let mut request = request(LocationFacts::File { size: Bytes::from_gib(1) });
        request.limit = Limit::Duration(Nanos::from_secs(100));
        request.interval = Some(Nanos::from_millis(1));
        assert!(plan_run(&request).is_ok());
        request.ramp = Nanos::from_millis(1);
        assert_eq!(plan_run(&request).unwrap_err().kind, CommandErrorKind::WrongUse);
        // Without a wish the intervals grow with the duration.
        (request.limit, request.interval) = (Limit::Duration(DURATION_MAX), None);
        (request.ramp, request.self_cost) = (Nanos::from_secs(86_400), false);
        let plan = plan_run(&request).unwrap();
        let count = intervals(DURATION_MAX, request.ramp, plan.steps[0].interval);
        assert!(count <= INTERVALS_MAX, "{count}");
    }
}
