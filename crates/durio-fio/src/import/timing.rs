//! How long a job runs, and the pause before a step (`startdelay`).
//!
//! In: [`TimingOptions`], the bytes of one copy; sections, and the steps of their groups. Out: the
//! bounds of one copy; the steps with their pauses. Not here: copies.

use durio_plan::{Limit, Step};
use durio_units::{Bytes, Nanos};

use super::said::{Said, or};
use super::section::Section;
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

/// fio counts from its own start, so what earlier groups take is part of the delay.
pub(super) fn set_pauses(sections: &[Section], steps: &mut [Step], said: &mut Said) {
    let groups = sections.chunk_by(|one, other| one.group == other.group);
    // At least so much, and no more unless a group before ends by what it has moved.
    let (mut elapsed, mut is_known) = (Nanos::ZERO, true);
    for (group, step) in groups.zip(steps) {
        let delay = group.first().map_or(Nanos::ZERO, |first| first.timing.start_delay);
        if let Some(other) = group.iter().find(|it| it.timing.start_delay != delay) {
            let reason =
                "durio starts all jobs of a group at the same moment; use stonewall for order";
            said.refuse_at(&other.at, "startdelay", reason);
        }
        let rest = Nanos::new(delay.get().saturating_sub(elapsed.get()));
        match group.first().filter(|_| rest > Nanos::ZERO && !is_known) {
            None => step.pause_before = rest,
            Some(first) => {
                let reason = "fio counts it from its own start, and how long the jobs before take is \
                              not known: give them time_based and a runtime, or leave it out";
                said.refuse_at(&first.at, "startdelay", reason);
            }
        }
        let own = duration(step);
        is_known &= own.is_some();
        let own = step.pause_before.get().saturating_add(own.unwrap_or(0));
        elapsed = Nanos::new(elapsed.get().saturating_add(own));
    }
}

/// How long a step takes, if time alone bounds it.
fn duration(step: &Step) -> Option<u64> {
    let of = |limit: Limit| match limit {
        Limit::Duration(duration) => Some(duration.get().saturating_add(step.ramp.get())),
        _ => None,
    };
    let limits = step.loads().map(|load| of(load.own_limit.unwrap_or(step.limit)));
    limits.collect::<Option<Vec<_>>>()?.into_iter().max()
}
