//! Steps that may be declined: which errors are refusals, and which end the run all the same.
//!
//! The step as adapted to its targets and its error decide whether the run continues without it,
//! with an event that says so. The plan says which steps may be declined.

use durio_plan::{Load, Step};
use durio_record::{Event, StepDeclined};
use rustix::io::Errno;

use crate::error::{RunError, RunErrorKind};
use crate::layout::PreparedTarget;
use crate::step::EffectiveLoad;

/// True if the run continues without `step`: it may be declined, and the target or the kernel
/// refused it. An error of the storage is not a refusal.
pub(crate) fn declines(step: &Step, error: &RunError) -> bool {
    step.declinable && is_refusal(error)
}

/// True if the target or the kernel refused the request; false if the storage failed.
pub(crate) fn is_refusal(error: &RunError) -> bool {
    match error.kind {
        RunErrorKind::Unsupported => true,
        RunErrorKind::Target => error.errno().is_some_and(|errno| REFUSALS.contains(&errno)),
        RunErrorKind::Sink => false,
    }
}

/// What the kernel answers to a flag or a call that a filesystem, or the kernel itself, does not
/// have: EOPNOTSUPP (pwritev2(2)), EINVAL (open(2) of O_DIRECT, write(2) of an alignment that is not
/// enough), ENOSYS (a call of a newer kernel).
const REFUSALS: [i32; 3] =
    [Errno::OPNOTSUPP.raw_os_error(), Errno::INVAL.raw_os_error(), Errno::NOSYS.raw_os_error()];

/// The event for a declined step.
pub(crate) fn event(step: u32, round: u32, error: &RunError) -> Event {
    let (message, errno) = (error.to_string(), error.errno());
    Event::StepDeclined(StepDeclined { step, round, message, errno })
}

/// A declinable step gets no substitutes: neither the page cache for the device, nor another
/// engine, nor zeros for preallocated blocks.
pub(crate) fn check(
    step: &Step,
    load: &Load,
    effective: &EffectiveLoad,
    targets: &[Option<PreparedTarget>],
) -> Result<(), RunError> {
    if !step.declinable {
        return Ok(());
    }
    // A result of something else under the requested name would be worse than none.
    if effective.workload.cache != load.workload.cache {
        return Err(RunError::unsupported("O_DIRECT is not possible here"));
    }
    let is_replaced = effective.workload.sync != load.workload.sync;
    if is_replaced
        || effective.engine != load.engine
        || effective.workload.at_end != load.workload.at_end
    {
        return Err(RunError::unsupported(effective.fallbacks.join("; ")));
    }
    let zeros = |index: usize| targets[index].as_ref().is_some_and(|target| target.zeros_stand_in);
    match load.targets().any(zeros) {
        true => Err(RunError::unsupported("fallocate is not possible here")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use durio_base::Nanos;
    use durio_plan::{EngineKind, Limit, Role};
    use durio_workload::Workload;

    use super::*;

    fn step(declinable: bool) -> Step {
        let load = Load::new(0, Workload::default(), EngineKind::Sync);
        let step = Step::new(Role::Measure, load, Limit::Operations(1), Nanos::from_secs(1));
        Step { declinable, ..step }
    }

    fn system(errno: i32) -> RunError {
        RunError::target("planted").because(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn only_a_refusal_of_a_declinable_step_lets_the_run_go_on() {
        for errno in REFUSALS {
            assert!(declines(&step(true), &system(errno)));
            assert!(!declines(&step(false), &system(errno)));
        }
        assert!(declines(&step(true), &RunError::unsupported("planted")));
        let (eio, enospc) = (5, 28);
        for errno in [eio, enospc] {
            assert!(!declines(&step(true), &system(errno)));
        }
        assert!(!declines(&step(true), &RunError::sink("planted".into())));
    }
}
