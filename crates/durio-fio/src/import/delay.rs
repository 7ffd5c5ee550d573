//! `startdelay`: a pause before a step.
//!
//! In: sections, and the steps of their groups. Out: the steps with their pauses. Not here: jobs of
//! a group that begin at different moments, which are refused.

use durio_plan::{Limit, Step};
use durio_units::Nanos;

use super::said::Said;
use super::section::Section;

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
