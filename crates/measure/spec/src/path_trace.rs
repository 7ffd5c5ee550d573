//! Steps that follow operations through the kernel, for the measured steps.
//!
//! Makes one step of [`Role::TracePath`] for each measured load that differs from the others even
//! when it runs alone: the jobs and depths of a ladder share one.

use durio_base::Nanos;
use durio_plan::{EngineKind, Limit, Load, Role, Step};

/// Operations that are traced, and as many that are not.
// Enough for a 99th percentile, and a second on a slow disk.
const OPERATIONS: u64 = 300;

/// The steps that follow the first load of each of `measured`, where that can be followed: a log
/// with group commit is not a chain of operations, and fio's and the null engine's operations are
/// not durio's.
pub(crate) fn path_traces<'a>(measured: impl Iterator<Item = &'a Step>) -> Vec<Step> {
    let mut loads: Vec<Load> = Vec::new();
    for step in measured.filter(|step| step.role == Role::Measure) {
        let load = step.load.alone();
        let is_ours = !matches!(load.engine, EngineKind::Null | EngineKind::Fio);
        let mut known = loads.iter();
        if is_ours
            && load.workload.group_commit.is_none()
            && known.all(|other| !is_same(other, &load))
        {
            loads.push(load);
        }
    }
    let step = |load| {
        let limit = Limit::Operations(OPERATIONS);
        let step = Step::new(Role::TracePath, load, limit, Nanos::from_secs(1));
        // A system that refuses one still measures the rest.
        Step { declinable: true, ..step }
    };
    loads.into_iter().map(step).collect()
}

// Names do not affect the operations.
fn is_same(a: &Load, b: &Load) -> bool {
    let mut b = b.clone();
    b.workload.name.clone_from(&a.workload.name);
    b.workload.summary.clone_from(&a.workload.summary);
    *a == b
}

#[cfg(test)]
mod tests {
    use durio_workload::{SyncMethod, SyncPolicy, Workload};

    use super::*;

    fn step(jobs: u32, method: SyncMethod, engine: EngineKind) -> Step {
        let workload = Workload { jobs, sync: SyncPolicy::each(method), ..Workload::default() };
        let limit = Limit::Operations(1);
        Step::new(Role::Measure, Load::new(0, workload, engine), limit, Nanos::from_secs(1))
    }

    #[test]
    fn a_ladder_over_jobs_is_followed_once_and_other_methods_apart() {
        let ladder = [1, 4, 16].map(|jobs| step(jobs, SyncMethod::ODsync, EngineKind::Sync));
        let other = step(4, SyncMethod::Fdatasync, EngineKind::Sync);
        let found = path_traces(ladder.iter().chain([&other]));
        let short: Vec<_> = found
            .iter()
            .map(|step| (step.load.workload.sync.method, step.load.workload.jobs))
            .collect();
        assert_eq!(short, [(SyncMethod::ODsync, 1), (SyncMethod::Fdatasync, 1)]);
        assert!(found.iter().all(|step| step.declinable && step.role == Role::TracePath));
    }

    #[test]
    fn what_is_not_durios_own_operation_is_not_followed() {
        let others =
            [EngineKind::Null, EngineKind::Fio].map(|engine| step(1, SyncMethod::ODsync, engine));
        assert_eq!(path_traces(others.iter()), []);
        let precondition =
            Step { role: Role::Precondition, ..step(1, SyncMethod::None, EngineKind::Sync) };
        assert_eq!(path_traces([&precondition].into_iter()), []);
    }
}
