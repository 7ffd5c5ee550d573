//! How long a job runs.
//!
//! Turns [`TimingOptions`] into the bounds of one copy; bounds over copies and groups are set
//! elsewhere.

use durio_base::Nanos;

use super::{ImportNotes, or, place_or};
use crate::job_file::{ExitScope, GivenValue, SourcePosition, TimingOptions};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobTiming {
    /// True if `size` bounds it.
    pub(super) is_by_volume: bool,
    pub(super) duration: Option<Nanos>,
    pub(super) ramp: Nanos,
    /// Since the start of fio.
    pub(super) start_delay: Nanos,
    /// The delay is drawn; in fio by each copy of a job.
    pub(super) draws_start: bool,
    pub(super) loops: u32,
    /// The scope of `exitall`, if it is given.
    pub(super) ends: Option<ExitScope>,
}

/// Reads when and how long a job runs; `draw` is a number drawn from all of 64 bits.
pub(super) fn timing(
    options: &TimingOptions,
    (at, draw): (&SourcePosition, u64),
    said: &mut ImportNotes,
) -> JobTiming {
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
    let start_delay = start_delay_us.as_ref().map_or(0, |given| drawn(given, draw, said));
    JobTiming {
        is_by_volume: !is_timed,
        duration,
        // Bytes moved in the ramp count towards the size of a job, in fio as in durio.
        ramp: nanos(or(ramp_us, 0)),
        start_delay: nanos(start_delay),
        draws_start: start_delay_us.as_ref().is_some_and(|given| given.value.0 < given.value.1),
        loops: or(loops, 1),
        ends: exit_all.as_ref().map(|_| or(exit_scope, ExitScope::Group)),
    }
}

/// Microseconds from the range, each as likely as another, as fio draws them.
fn drawn(given: &GivenValue<(u64, u64)>, draw: u64, said: &mut ImportNotes) -> u64 {
    let (least, most) = given.value;
    if most < least {
        said.refuse(given, "the range begins after its end");
    }
    if most <= least {
        return least;
    }
    // The high bits of a product: a remainder would favour low values.
    let width = u128::from((most - least).saturating_add(1));
    let above = (u128::from(draw) * width) >> 64;
    let delay = least.saturating_add(u64::try_from(above).unwrap_or(0));
    said.note(given, &format!("the drawn delay is {}", nanos(delay)));
    delay
}

// Beyond a year, a unit was mistaken; and sums of times must not overflow.
const TIME_MAX: Nanos = Nanos::from_secs(366 * 86_400);

fn nanos(micros: u64) -> Nanos {
    Nanos::from_micros(micros.min(TIME_MAX.get() / 1000 + 1))
}
