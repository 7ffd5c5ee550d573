//! How long a job runs.
//!
//! In: [`TimingOptions`]. Out: the bounds of one copy. Not here: what bounds copies and groups together.

use durio_units::Nanos;

use super::{Said, or, place_or};
use crate::job_file::{ExitScope, SourcePosition, TimingOptions};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timing {
    /// True if `size` bounds it.
    pub(super) is_by_volume: bool,
    pub(super) duration: Option<Nanos>,
    pub(super) ramp: Nanos,
    /// Since the start of fio.
    pub(super) start_delay: Nanos,
    pub(super) loops: u32,
    /// The scope of `exitall`, if it is given.
    pub(super) ends: Option<ExitScope>,
}

pub(super) fn timing(options: &TimingOptions, at: &SourcePosition, said: &mut Said) -> Timing {
    let TimingOptions {
        runtime_us,
        time_based,
        ramp_us,
        start_delay_us,
        loops,
        // Groups are made of these where jobs are resolved.
        stonewall: _,
        wait_for: _,
        new_group: _,
        exit_all,
        exit_scope,
    } = options;
    let runtime = or(runtime_us, 0);
    let duration = (runtime > 0).then(|| nanos(runtime));
    let wants_time = time_based.as_ref().filter(|given| given.value);
    if let (Some(given), None) = (wants_time, duration) {
        said.note(given, "without a runtime the size decides, in fio as in durio");
    }
    let is_timed = wants_time.is_some() && duration.is_some();
    if let (true, Some(given)) = (is_timed, loops.as_ref().filter(|given| given.value > 1)) {
        said.note(given, "time_based decides");
    }
    if duration.is_some_and(|duration| duration > TIME_MAX) {
        said.refuse_at(place_or(runtime_us, at), "runtime", "more than a year");
    }
    let one_delay = "durio draws no time to wait; give one";
    said.refuse_unless(start_delay_us, |(least, most)| least == most, one_delay);
    Timing {
        is_by_volume: !is_timed,
        duration,
        // What is moved in the ramp counts for the size of a job, in fio as in durio.
        ramp: nanos(or(ramp_us, 0)),
        start_delay: nanos(or(start_delay_us, (0, 0)).0),
        loops: or(loops, 1),
        ends: exit_all.as_ref().map(|_| or(exit_scope, ExitScope::Group)),
    }
}

// Beyond a year, a unit was mistaken; and sums of times must not overflow.
const TIME_MAX: Nanos = Nanos::from_secs(366 * 86_400);

fn nanos(micros: u64) -> Nanos {
    Nanos::from_micros(micros.min(TIME_MAX.get() / 1000 + 1))
}
