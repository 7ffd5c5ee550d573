//! A step in which a few commits are made, one after the other, while the kernel traces what reaches
//! the devices.
//!
//! In: a step of [`durio_plan::Role::Trace`]; its limit says how many commits. Out: its events, among
//! them one of [`CommitsTraced`]. Where nothing can be traced the commits are made all the same, for
//! the devices' counters count their flushes, and the event says why.
//!
//! Writing a mark costs about a microsecond, which is in the times; no figure of a measurement comes
//! from here. What others do on the same devices meanwhile is in the trace too: a request belongs to
//! the commit during which its driver got it, whoever sent it, for the journal's are sent by others.

mod commits;
mod instance;
mod owner;
mod path;
mod sequences;
#[cfg(test)]
mod tests;

use std::path::Path;

use durio_observe::{block_device_number, find_tracefs, has_request_queue};
use durio_plan::EngineKind;
use durio_record::{CommitsTraced, Event, Outcome, StoppedBy, Warning};

use crate::error::RunError;
use crate::one_by_one::Ending;
use crate::step::{Arming, job_error};
use crate::unmeasured::{SingleLoad, Watching, started};
use commits::{Made, make_commits};
use instance::{TraceInstance, Traced};
pub use owner::{remove_dead_trace_instances, trace_instance_name};
pub(crate) use path::run_path;
use sequences::{Sequences, TracedDevice, sequences};

/// The kernel's EOPNOTSUPP: how a method is refused that the kernel or the filesystem does not have.
const NOT_SUPPORTED: i32 = 95;

/// Makes the commits of a step. `root` is the folder in which `proc` and `sys` are.
pub(crate) fn run_trace(
    arming: Arming<'_>,
    names: &[String],
    root: &Path,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let mut single = SingleLoad::open(arming)?;
    let devices = traced_devices(root, names);
    let instance = match single.effective.engine {
        EngineKind::Null => Err("the null engine reaches no device".to_owned()),
        EngineKind::Fio => return Err(RunError::unsupported("commits of fio are not traced")),
        _ => begin_instance(root, &devices, events_expected(&single)),
    };
    let mut features = Vec::new();
    if let Ok(instance) = &instance {
        features.push(format!("traced by {}", instance.place()));
        single.effective.fallbacks.extend(devices.iter().filter_map(TracedDevice::note));
    }
    emit(started(arming, &single, features));
    let watching = Watching::begin(names);
    let (made, traced) = trace(instance, |marks| make_commits(arming, &mut single, marks));
    let made = made?;
    let stopped =
        arming.stop.is_set() && made.ending.failure.is_none() && made.commits < single.count;
    if !stopped {
        tell(arming, &made, traced, &devices, emit);
    }
    let (outcome, error) = match refused(&made) {
        None => failed(arming, made),
        Some(_) => (Outcome::Complete, None),
    };
    let outcome = if stopped { Outcome::Interrupted } else { outcome };
    if let Some((stopped, _)) = &error {
        emit(Event::Error(stopped.clone()));
    }
    emit(watching.ended(arming, names, outcome));
    error.map_or(Ok(outcome), |(_, error)| Err(error))
}

/// Runs `make` while the kernel traces, if it can.
fn trace<T>(
    instance: Result<TraceInstance, String>,
    make: impl FnOnce(Option<&mut TraceInstance>) -> T,
) -> (T, Result<Traced, String>) {
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
    let tracefs = find_tracefs(root).ok_or_else(|| {
        "tracefs is not mounted (as root: mount -t tracefs tracefs /sys/kernel/tracing)".to_owned()
    })?;
    TraceInstance::begin(&tracefs, root, devices, events)
}

/// A request is cut at this size by most devices (max_sectors_kb is 128 or more).
const REQUEST_BYTES: u64 = 128 << 10;

/// Events of commits, roughly: of each write its pieces, of the journal a dozen requests, each with
/// its end.
fn events_expected(single: &SingleLoad) -> u64 {
    let workload = &single.effective.workload;
    let pieces = workload.block_size.get().div_ceil(REQUEST_BYTES);
    let requests = pieces.saturating_mul(workload.sync.every.into()).saturating_add(12);
    requests.saturating_mul(2).saturating_mul(single.count)
}

fn traced_devices(root: &Path, names: &[String]) -> Vec<TracedDevice> {
    let device = |name: &String| {
        let number = block_device_number(root, name)?;
        let has_requests = has_request_queue(root, name);
        Some(TracedDevice { name: name.clone(), number, has_requests })
    };
    names.iter().filter_map(device).collect()
}

/// Tells what was traced.
fn tell(
    arming: Arming<'_>,
    made: &Made,
    traced: Result<Traced, String>,
    devices: &[TracedDevice],
    emit: &mut dyn FnMut(Event),
) {
    let step = arming.step.index;
    let reason = refused(made).or_else(|| made.mark_error.clone());
    let traced = reason.map_or(traced, Err);
    let mut event = CommitsTraced {
        step,
        commits: made.commits,
        sequences: vec![],
        lost: 0,
        unavailable: None,
    };
    match traced {
        Ok(traced) => {
            let Sequences { sequences, shortened } = sequences(&traced, devices);
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
fn refused(made: &Made) -> Option<String> {
    let failure = made.ending.failure.as_ref().filter(|_| made.commits == 0)?;
    let is_refusal = failure.result == -NOT_SUPPORTED;
    is_refusal.then(|| "the kernel or the filesystem does not have this sync method".to_owned())
}

fn failed(arming: Arming<'_>, made: Made) -> (Outcome, Option<(StoppedBy, RunError)>) {
    let name = &arming.step.load.workload.name;
    let Ending { failure, engine_error } = made.ending;
    match job_error(arming.step.index, name, failure, engine_error) {
        Some(error) => (Outcome::Failed, Some(error)),
        None => (Outcome::Complete, None),
    }
}
