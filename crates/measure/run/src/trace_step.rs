//! A step in which a few commits are made, one after the other, while the kernel traces the
//! requests to the devices.
//!
//! Runs a step of [`durio_plan::Role::Trace`]; its limit says how many commits. One of its events
//! is [`CommitsTraced`]. Where nothing can be traced the commits are made all the same, because the
//! devices' counters count their flushes, and the event says why.
//!
//! Writing a mark costs about a microsecond, which is in the times; no measured result comes from
//! here. Other requests to the same devices are in the trace too: a request belongs to the commit
//! during which its driver got it, no matter which thread sent it, because other threads send the
//! journal's requests.
//!
//! A mark is written before and after each commit. A commit is as many writes as the workload's sync policy makes durable together, and the sync; for
//! methods that sync each write by itself, one write.

mod path;
mod sequences;
#[cfg(test)]
mod tests;

use std::path::Path;

use durio_block::{Engine, MonotonicClock, OperationKind};
use durio_observe::{block_device_number, has_request_queue};
use durio_plan::EngineKind;
use durio_record::{CommitsTraced, Event, Outcome, Warning};
use durio_workload::{Access, Workload, job_seed};
use rustix::io::Errno;
use sequences::{Sequences, TracedDevice, trace_requests};

use crate::StopFlag;
use crate::error::RunError;
use crate::measured_loop::EarlyEnding;
use crate::step::StepSetup;
use crate::tracefs::{InstanceTrace, TraceInstance, tracefs};
use crate::unmeasured::{EndedEarly, OneByOne, SingleLoad, Watching, started, with_engine};

pub(crate) use path::run_path;

/// Tries whether this process may trace the kernel: makes an instance that traces nothing, and removes it
/// at once. `root` is the folder in which `proc` and `sys` are.
///
/// # Errors
/// Why not, in words.
pub fn probe_tracing(root: &Path) -> Result<(), String> {
    TraceInstance::make(&tracefs(root)?, root, &["mono", "global"], 0).map(drop)
}

/// Makes the commits of a step. `root` is the folder in which `proc` and `sys` are.
pub(crate) fn run_trace(
    setup: StepSetup<'_>,
    names: &[String],
    root: &Path,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let mut single = SingleLoad::open(setup)?;
    let devices = traced_devices(root, names);
    let instance = match single.effective.engine {
        EngineKind::Null => Err("the null engine reaches no device".to_owned()),
        EngineKind::Fio => return Err(RunError::unsupported("commits of fio are not traced")),
        _ => begin_instance(
            root,
            &devices,
            events_expected(&single.effective.workload, single.count),
        ),
    };
    let mut features = Vec::new();
    if let Ok(instance) = &instance {
        features.push(format!("traced by {}", instance.place()));
        single.effective.fallbacks.extend(devices.iter().filter_map(TracedDevice::note));
    }
    emit(started(setup, &single, features));
    let watching = Watching::begin(setup, names);
    let (made, traced) = trace(instance, |marks| make_commits(setup, &mut single, marks));
    let made = made?;
    let stopped =
        setup.stop.is_set() && made.ending.failure.is_none() && made.commits < single.count;
    let refusal = refused(&made);
    let is_refused = refusal.is_some();
    if !stopped {
        let reason = refusal.or(made.mark_error);
        tell(setup, made.commits, reason.map_or(traced, Err), &devices, emit);
    }
    // That the method is not there is the finding.
    let ending = if is_refused { EarlyEnding::default() } else { made.ending };
    watching.conclude(ending, stopped, emit)
}

/// Runs `make` while the kernel traces, if it can.
fn trace<T>(
    instance: Result<TraceInstance, String>,
    make: impl FnOnce(Option<&mut TraceInstance>) -> T,
) -> (T, Result<InstanceTrace, String>) {
    let mut instance = match instance {
        Ok(instance) => instance,
        Err(reason) => return (make(None), Err(reason)),
    };
    let made = make(Some(&mut instance));
    (made, instance.finish())
}

fn begin_instance(
    root: &Path,
    devices: &[TracedDevice],
    events: u64,
) -> Result<TraceInstance, String> {
    if devices.is_empty() {
        return Err("no block device is known below the target".to_owned());
    }
    trace_requests(&tracefs(root)?, root, devices, events)
}

/// A request is cut at this size by most devices (max_sectors_kb is 128 or more).
const REQUEST_BYTES: u64 = 128 << 10;

/// Events of commits, roughly: of each write its pieces, of the journal a dozen requests, each with
/// its end.
fn events_expected(workload: &Workload, commits: u64) -> u64 {
    let pieces = workload.block_size.get().div_ceil(REQUEST_BYTES);
    let requests = pieces.saturating_mul(workload.sync.every.into()).saturating_add(12);
    requests.saturating_mul(2).saturating_mul(commits)
}

fn traced_devices(root: &Path, names: &[String]) -> Vec<TracedDevice> {
    let device = |name: &String| {
        let number = block_device_number(root, name)?;
        let has_requests = has_request_queue(root, name);
        Some(TracedDevice { name: name.clone(), number, has_requests })
    };
    names.iter().filter_map(device).collect()
}

/// Emits the event of the traced commits, or of the reason why nothing was traced.
fn tell(
    setup: StepSetup<'_>,
    commits: u64,
    traced: Result<InstanceTrace, String>,
    devices: &[TracedDevice],
    emit: &mut dyn FnMut(Event),
) {
    let step = setup.step.index;
    let (sequences, lost, unavailable) = (Vec::new(), 0, None);
    let mut event = CommitsTraced { step, commits, sequences, lost, unavailable };
    match traced {
        Ok(traced) => {
            let Sequences { sequences, shortened } = sequences::sequences(&traced, devices);
            (event.sequences, event.lost) = (sequences, traced.lost);
            if let Some(length) = shortened {
                let message = format!(
                    "step {step}: a commit sent {length} requests; only the first {} are recorded",
                    sequences::REQUESTS_MAX
                );
                emit(Event::Warning(Warning { message }));
            }
        }
        Err(reason) => event.unavailable = Some(reason),
    }
    emit(Event::CommitsTraced(event));
}

/// Why no commit could be made, if the kernel or the filesystem does not have the method.
fn refused(made: &CommitRun) -> Option<String> {
    let failure = made.ending.failure.as_ref().filter(|_| made.commits == 0)?;
    let is_refusal = failure.result == -Errno::OPNOTSUPP.raw_os_error();
    is_refusal.then(|| "the kernel or the filesystem does not have this sync method".to_owned())
}

/// What became of the commits.
#[derive(Debug, Default)]
struct CommitRun {
    /// Commits that were acknowledged.
    commits: u64,
    ending: EarlyEnding,
    mark_error: Option<String>,
}

/// Makes the commits of a step; with the null engine, none.
fn make_commits(
    setup: StepSetup<'_>,
    single: &mut SingleLoad,
    marks: Option<&mut TraceInstance>,
) -> Result<CommitRun, RunError> {
    let workload = &single.effective.workload;
    let Some(file) = single.file.take() else { return Ok(CommitRun::default()) };
    let seed = job_seed(setup.plan.seed, setup.step.index.into(), 0);
    let mut committing = TracedCommits {
        operations: OneByOne::new(workload, single.region, seed),
        writes_each: workload.sync.every,
        count: single.count,
        stop: setup.stop,
        marks,
        made: CommitRun::default(),
    };
    let engine = (single.effective.engine, MonotonicClock);
    with_engine(engine, workload, file, seed, &mut |engine| committing.run(engine))?;
    Ok(CommitRun { ending: committing.operations.ending, ..committing.made })
}

struct TracedCommits<'a> {
    operations: OneByOne<'a>,
    writes_each: u32,
    count: u64,
    stop: &'a StopFlag,
    marks: Option<&'a mut TraceInstance>,
    made: CommitRun,
}

impl TracedCommits<'_> {
    fn run(&mut self, engine: &mut dyn Engine<Clock = MonotonicClock>) {
        while self.made.commits < self.count && !self.stop.is_set() {
            if self.commit(engine).is_err() {
                return;
            }
            self.made.commits += 1;
        }
    }

    fn commit(
        &mut self,
        engine: &mut dyn Engine<Clock = MonotonicClock>,
    ) -> Result<(), EndedEarly> {
        // Resetting a segment to its first state at its end is not part of a commit.
        let mut access = self.next_write(engine)?;
        self.mark("begin");
        for left in (0..self.writes_each).rev() {
            self.operations.access_and_syncs(engine, access)?;
            if left > 0 {
                access = self.next_write(engine)?;
            }
        }
        self.mark("end");
        Ok(())
    }

    fn next_write(
        &mut self,
        engine: &mut dyn Engine<Clock = MonotonicClock>,
    ) -> Result<Access, EndedEarly> {
        loop {
            let access = self.operations.next(engine);
            if access.kind == OperationKind::Write {
                return Ok(access);
            }
            self.operations.access(engine, access)?;
        }
    }

    fn mark(&mut self, word: &str) {
        let Some(marks) = &mut self.marks else { return };
        if let Err(reason) = marks.mark(word, self.made.commits) {
            // Commits without marks cannot be separated: the others need none either.
            self.made.mark_error = Some(reason);
            self.marks = None;
        }
    }
}
