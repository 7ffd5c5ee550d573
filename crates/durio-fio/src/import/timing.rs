//! How long a job runs.
//!
//! In: [`TimingOptions`], the bytes of one copy. Out: the bounds of one copy. Not here: copies.

use durio_plan::Limit;
use durio_units::{Bytes, Nanos};

use super::said::{Said, or};
use crate::job_file::{ExitScope, Given, Place, TimingOptions};

/// The bounds of one copy; at least one of them is there, or else it was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) bytes: Option<u64>,
    pub(super) duration: Option<Nanos>,
}

impl Bounds {
    /// The limit of `jobs` copies together.
    pub(super) fn limit(self, jobs: u32) -> Limit {
        let volume = |bytes: u64| Bytes::new(bytes.saturating_mul(u64::from(jobs)));
        match (self.bytes, self.duration) {
            (Some(bytes), None) => Limit::Volume(volume(bytes)),
            (None, duration) => Limit::Duration(duration.unwrap_or(Nanos::ZERO)),
            (Some(bytes), Some(duration)) => {
                Limit::VolumeWithin { volume: volume(bytes), duration }
            }
        }
    }
}

/// How long a job runs, and whom its end ends.
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

/// Reads the timing.
pub(super) fn timing(options: &TimingOptions, at: &Place, said: &mut Said) -> Timing {
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
    let runtime = or(runtime_us.as_ref(), 0);
    let duration = (runtime > 0).then(|| nanos(runtime));
    let wants_time = time_based.as_ref().filter(|given| given.value);
    if let (Some(given), None) = (wants_time, duration) {
        said.note(given, "without a runtime the size decides, in fio as in durio");
    }
    let is_timed = wants_time.is_some() && duration.is_some();
    // What is moved in the ramp counts for the size of a job, in fio as in durio.
    let ramp = or(ramp_us.as_ref(), 0);
    if let (true, Some(given)) = (is_timed, loops.as_ref().filter(|given| given.value > 1)) {
        said.note(given, "time_based decides");
    }
    if duration.is_some_and(|duration| duration > TIME_MAX) {
        said.refuse_at(runtime_us.as_ref().map_or(at, |it| &it.at), "runtime", "more than a year");
    }
    let scope = or(exit_scope.as_ref(), ExitScope::Group);
    Timing {
        is_by_volume: !is_timed,
        duration,
        ramp: nanos(ramp),
        start_delay: start_delay(start_delay_us.as_ref(), said),
        loops: or(loops.as_ref(), 1),
        ends: exit_all.as_ref().map(|_| scope),
    }
}

fn start_delay(given: Option<&Given<(u64, u64)>>, said: &mut Said) -> Nanos {
    let Some(given) = given else { return Nanos::ZERO };
    let (least, most) = given.value;
    if least != most {
        said.refuse(given, "durio draws no time to wait; give one");
    }
    nanos(least)
}

/// Beyond a year, a unit was mistaken; and sums of times must not overflow.
const TIME_MAX: Nanos = Nanos::from_secs(366 * 86_400);

fn nanos(micros: u64) -> Nanos {
    Nanos::from_micros(micros.min(TIME_MAX.get() / 1000 + 1))
}
