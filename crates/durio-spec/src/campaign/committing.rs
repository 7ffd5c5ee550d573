//! The keys of group commit to a policy.

use durio_units::Nanos;
use durio_workload::{CommitterThreads, GroupCommit};

use super::load::Values;

/// What has a meaning only with committers.
const DEPENDENT: [&str; 6] = [
    "committer_threads",
    "commit_delay",
    "commit_siblings",
    "batch_max",
    "pad_to",
    "double_buffer",
];

/// The policy; none without committers, or with 0 of them, the end of a ladder that has both.
pub(super) fn group_commit(values: Values<'_>) -> Result<Option<GroupCommit>, String> {
    let Some(committers) = values.count("committers") else {
        return match DEPENDENT.into_iter().find(|name| values.get(name).is_some()) {
            Some(name) => Err(format!("{name} has no meaning without committers")),
            None => Ok(None),
        };
    };
    if committers == 0 {
        return Ok(None);
    }
    let policy = GroupCommit::of(committers);
    let threads = match values.flag("committer_threads") {
        Some(true) => CommitterThreads::OneEach,
        _ => CommitterThreads::Multiplexed,
    };
    Ok(Some(GroupCommit {
        threads,
        delay: values.delay("commit_delay").unwrap_or(Nanos::ZERO),
        siblings: values.count("commit_siblings").unwrap_or(0),
        batch_max: values.bytes("batch_max").unwrap_or(policy.batch_max),
        pad_to: values.bytes("pad_to").unwrap_or(policy.pad_to),
        double_buffered: values.flag("double_buffer").unwrap_or(policy.double_buffered),
        ..policy
    }))
}

#[cfg(test)]
mod tests {
    use durio_plan::{ClockChoice, Plan, RawPath};
    use durio_units::Bytes;

    use super::*;
    use crate::{CampaignRequest, CampaignSpec, Location, LocationFacts, SpecError, plan_campaign};

    fn plan(step: &str) -> Result<Plan, SpecError> {
        let text = format!(
            "schema = 1\nname = \"x\"\n[[target]]\nname = \"data\"\nsize = \"1GiB\"\n\
             [[step]]\nname = \"log\"\nreads = \"0%\"\nblock_size = \"256B\"\n\
             sync = \"fdatasync\"\nduration = \"10s\"\n{step}"
        );
        let facts = LocationFacts::Directory { free: Bytes::from_gib(100), filesystem: 1 };
        let place = Location { path: RawPath::from("/data"), facts, destroy: false };
        let made = plan_campaign(&CampaignRequest {
            spec: CampaignSpec::parse("x.toml", &text)?,
            places: vec![vec![place]],
            time_scale_per_mille: 100,
            size_scale_per_mille: 1000,
            steps_confirmed: 0,
            seed: 1,
            clock: ClockChoice::Auto,
            file_name: ".durio-1".to_owned(),
        })?;
        assert_eq!(made.obstacles, []);
        Ok(made.plan)
    }

    fn policies(plan: &Plan) -> Vec<Option<GroupCommit>> {
        plan.measured_steps().map(|step| step.load.workload.group_commit).collect()
    }

    #[test]
    fn every_key_has_its_place_in_the_policy() {
        let plan = plan(
            "committers = 64\ncommitter_threads = true\ncommit_delay = \"500us\"\n\
             commit_siblings = 5\nbatch_max = \"128KiB\"\npad_to = \"0B\"\n\
             double_buffer = false\n",
        );
        let expected = GroupCommit {
            committers: 64,
            threads: CommitterThreads::OneEach,
            delay: Nanos::from_micros(500),
            siblings: 5,
            batch_max: Bytes::from_kib(128),
            pad_to: Bytes::ZERO,
            double_buffered: false,
        };
        assert_eq!(policies(&plan.unwrap()), [Some(expected)]);
    }

    #[test]
    fn committers_and_delays_make_a_map_and_delays_are_not_scaled() {
        let ladder = "committers = [0, 8]\ncommit_delay = [\"0us\", \"200us\"]\n";
        let plan = plan(ladder).unwrap();
        let delays = policies(&plan).into_iter().map(|it| it.map(|it| it.delay.get()));
        assert_eq!(delays.collect::<Vec<_>>(), [None, None, Some(0), Some(200_000)]);
        let last = plan.measured_steps().last().unwrap();
        let labels: Vec<_> = last.levels.iter().map(|level| level.label.as_str()).collect();
        assert_eq!(labels, [Nanos::from_micros(200).to_string()]);
    }

    #[test]
    fn what_has_no_meaning_without_committers_is_refused() {
        for line in ["commit_delay = \"1ms\"", "batch_max = \"1MiB\"", "double_buffer = true"] {
            let error = plan(line).unwrap_err().to_string();
            assert!(error.contains("has no meaning without committers"), "{error}");
        }
        assert!(plan("committers = 4\nreads = \"100%\"").is_err(), "named twice");
        assert!(plan("committers = 4\npattern = \"random\"").is_err());
        assert!(plan("committers = 5000\ncommitter_threads = true").is_err());
    }
}
