//! A point of a ladder to a load: typed, and checked against the targets' sizes.

use durio_base::{Bytes, Nanos};
use durio_plan::{BatchPolicy, EngineKind, Load, Target, TargetKind};
use durio_workload::{
    Arrivals, AtEnd, BlockShare, CacheMode, CommitterThreads, Contents, GroupCommit, Pattern,
    PerMille, Region, RegionRule, SyncMethod, SyncPolicy, Workload,
};

use super::file::{ArrivalKind, CommitSettings, JobCount, LoadSettings};
use super::value::{RateValue, Regions, Within};
use crate::table::value::SpecTime;

/// Makes the load; the error is a sentence without the place.
pub(crate) fn load(
    said: &LoadSettings,
    name: &str,
    summary: &str,
    members: &[usize],
    targets: &[Target],
) -> Result<Load, String> {
    // Members of a group are taken to be alike: sizes that are shares follow the first one's.
    let first = *members.first().ok_or("has no target")?;
    let whole = &targets[first];
    let paths = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let mut workload = workload(said, whole, paths)?;
    workload.name = name.to_owned();
    workload.summary = match summary {
        "" => described(&workload),
        summary => summary.to_owned(),
    };
    workload.validate().map_err(|error| error.to_string())?;
    let engine = engine(said, &workload)?;
    let load = Load {
        more_targets: members[1..].to_vec(),
        fio_engine: said.fio_engine.get(),
        batch: batch(said)?,
        arrivals: arrivals(said)?,
        placement: said.placement.get().unwrap_or_default(),
        ..Load::new(first, workload, engine)
    };
    check_fio_engine(&load)?;
    check_regions(&load, targets)?;
    Ok(load)
}

fn workload(said: &LoadSettings, target: &Target, paths: u32) -> Result<Workload, String> {
    let jobs = jobs(said, paths)?;
    let (block_size, block_mix, write_block_mix) = sizes(said);
    // The region rule is for jobs that share one path: one job on each of eight needs no share.
    let per_path = (jobs / paths).max(1);
    let pattern = said.pattern.get().unwrap_or(Pattern::Sequential);
    let method = said.sync.get().unwrap_or(SyncMethod::None);
    let mut workload = Workload {
        pattern,
        read_share: said.reads.get().unwrap_or(PerMille::ALL),
        block_size,
        block_mix,
        write_block_mix,
        skew: said.skew.get().unwrap_or_default(),
        coverage: said.coverage.get().unwrap_or_default(),
        run_length: said.run_length.get().unwrap_or(1),
        hole: said.hole.get().unwrap_or(Bytes::ZERO),
        contents: contents(said),
        duplicates: said.duplicates.get().unwrap_or(PerMille::NONE),
        region: region(said, pattern, target.size, per_path),
        within: within(said, target.size)?,
        jobs,
        depth: said.depth.get().unwrap_or(1),
        sync: SyncPolicy { method, every: said.sync_every.get().unwrap_or(1) },
        cache: cache(said, target),
        at_end: said.at_end.get().unwrap_or(AtEnd::WrapAround),
        group_commit: group_commit(&said.commit)?,
        ..Workload::default()
    };
    if !workload.writes() {
        // Nothing is written, so nothing is made durable: the end of a ladder over reads.
        workload.sync = SyncPolicy::NONE;
    }
    Ok(workload)
}

fn jobs(said: &LoadSettings, paths: u32) -> Result<u32, String> {
    let jobs = said.jobs.get().unwrap_or(1);
    if said.jobs_are.get() == Some(JobCount::PerTarget) {
        return jobs.checked_mul(paths).ok_or_else(|| format!("{jobs} jobs on {paths} paths"));
    }
    match jobs < paths {
        true => Err(format!(
            "jobs = {jobs} in total is less than the {paths} paths; give more, or jobs_are = \
             \"per-target\", or over = \"one-by-one\""
        )),
        false => Ok(jobs),
    }
}

/// Block size (the largest), the mix of all accesses, the mix of writes.
fn sizes(said: &LoadSettings) -> (Bytes, Vec<BlockShare>, Vec<BlockShare>) {
    let size = said.block_size.get().unwrap_or(Bytes::from_kib(4));
    let mut mix = said.block_mix.get().unwrap_or_default();
    let writes = said.write_block_mix.get().unwrap_or_default();
    let Some(largest) = mix.iter().chain(&writes).map(|share| share.size).max() else {
        return (size, mix, writes);
    };
    if mix.is_empty() {
        // Reads keep their one size, although writes may be larger.
        mix.push(BlockShare { size, weight: PerMille::ALL });
        return (largest.max(size), mix, writes);
    }
    (largest, mix, writes)
}

fn contents(said: &LoadSettings) -> Contents {
    match said.compressible.get() {
        None | Some(PerMille::NONE) => Contents::Incompressible,
        Some(zeros) => Contents::Compressible { zeros },
    }
}

fn region(said: &LoadSettings, pattern: Pattern, size: Bytes, jobs: u32) -> RegionRule {
    match said.region.get() {
        None => RegionRule::default_of(pattern, jobs),
        Some(Regions::Shared) => RegionRule::Shared,
        Some(Regions::ShareEach) => RegionRule::ShareEach,
        Some(Regions::OffsetEach(by)) => RegionRule::OffsetEach { by: by.of(size) },
        Some(Regions::Spread) => {
            // Whole per cent, as the published study's jobs were set: 6 for 16 of them, not 6.25.
            let percent = u128::from(100 / jobs.max(1));
            let by = u128::from(size.get()) * percent / 100;
            RegionRule::OffsetEach { by: Bytes::new(u64::try_from(by).unwrap_or(u64::MAX)) }
        }
    }
}

fn within(said: &LoadSettings, size: Bytes) -> Result<Option<Region>, String> {
    let Some(Within(from, to)) = said.within.get() else { return Ok(None) };
    let (from, to) = (from.of(size), to.of(size));
    // Shares give odd numbers; direct I/O wants whole blocks.
    let offset = from.rounded_down_to(Bytes::from_mib(1).min(size).max(Bytes::new(1)));
    match to > offset && to <= size {
        true => Ok(Some(Region { offset, length: Bytes::new(to.get() - offset.get()) })),
        false => Err(format!("within = {from} to {to} does not fit a target of {size}")),
    }
}

/// The null devices know no direct I/O.
fn cache(said: &LoadSettings, target: &Target) -> CacheMode {
    // The devices of memory have no O_DIRECT: open refuses it (EINVAL), and nothing would be cached
    // anyway.
    match target.kind {
        TargetKind::NullDevice { .. } => CacheMode::Buffered,
        _ => said.cache.get().unwrap_or(CacheMode::Direct),
    }
}

/// The policy; none without committers, or with 0 of them, the end of a ladder that has both.
fn group_commit(said: &CommitSettings) -> Result<Option<GroupCommit>, String> {
    let Some(committers) = said.committers.get() else {
        return match said.fields().into_iter().find(|(_, setting)| setting.is_said()) {
            Some((name, _)) => Err(format!("{name} is meaningless without committers")),
            None => Ok(None),
        };
    };
    if committers == 0 {
        return Ok(None);
    }
    let policy = GroupCommit::of(committers);
    let threads = match said.committer_threads.get() {
        Some(true) => CommitterThreads::OneEach,
        _ => CommitterThreads::Multiplexed,
    };
    Ok(Some(GroupCommit {
        threads,
        delay: said.commit_delay.get().map_or(Nanos::ZERO, |SpecTime(delay)| delay),
        siblings: said.commit_siblings.get().unwrap_or(0),
        batch_max: said.batch_max.get().unwrap_or(policy.batch_max),
        pad_to: said.pad_to.get().unwrap_or(policy.pad_to),
        double_buffered: said.double_buffer.get().unwrap_or(policy.double_buffered),
        ..policy
    }))
}

fn engine(said: &LoadSettings, workload: &Workload) -> Result<EngineKind, String> {
    let (depth, method) = (workload.depth, workload.sync.method);
    match said.engine.get() {
        Some(engine) if !engine.is_asynchronous() && depth > 1 => Err(format!(
            "depth = {depth}, but the {engine} engine waits for each operation; use more jobs or \
             engine = \"uring\""
        )),
        Some(engine) if method.is_linked() && !engine.links_syncs() => Err(format!(
            "sync = \"{method}\" needs io_uring; use engine = \"uring\", or sync = \"{}\"",
            method.unlinked()
        )),
        Some(engine) => Ok(engine),
        // At depth 1 io_uring waits for each operation as well and costs more: fio's psync took 0.4
        // µs of processor time per read of /dev/zero, its io_uring 0.9.
        None if depth == 1 && !method.is_linked() => Ok(EngineKind::Sync),
        None => Ok(EngineKind::Uring),
    }
}

fn batch(said: &LoadSettings) -> Result<BatchPolicy, String> {
    match said.batch.get() {
        None => Ok(BatchPolicy::DEFAULT),
        Some(0) => Err("batch = 0 would never submit anything".to_owned()),
        Some(submit_max) => Ok(BatchPolicy { submit_max }),
    }
}

fn arrivals(said: &LoadSettings) -> Result<Arrivals, String> {
    let arrivals = match (said.rate.get(), said.arrivals.get()) {
        (None, _) => Arrivals::Closed,
        (Some(RateValue(rate_per_second)), Some(ArrivalKind::Constant)) => {
            Arrivals::Constant { rate_per_second }
        }
        // Evenly spaced arrivals hardly ever queue below the storage's highest rate, and flatter
        // its tail.
        (Some(RateValue(rate_per_second)), _) => Arrivals::Poisson { rate_per_second },
    };
    arrivals.validate().map(|()| arrivals).map_err(|error| error.to_string())
}

fn check_fio_engine(load: &Load) -> Result<(), String> {
    match (load.engine, &load.fio_engine) {
        (EngineKind::Fio, None) => {
            Err("engine = \"fio\" needs fio_engine, such as \"io_uring\"".to_owned())
        }
        (EngineKind::Fio, Some(_)) | (_, None) => Ok(()),
        (_, Some(_)) => Err("fio_engine belongs to engine = \"fio\"".to_owned()),
    }
}

/// Every job has room for a block.
fn check_regions(load: &Load, targets: &[Target]) -> Result<(), String> {
    let jobs = load.workload.jobs;
    let paths = u32::try_from(load.more_targets.len() + 1).unwrap_or(u32::MAX);
    // Shares are alike, and of regions from an offset on the last job has the least: those between
    // need not be asked.
    let last_on_each = (0..jobs).skip(jobs.saturating_sub(paths) as usize);
    for job in (0..jobs.min(paths)).chain(last_on_each) {
        let place = load.place_of(job);
        let size = targets[place.target].size;
        load.workload
            .region_among(place.place, place.sharers, size)
            .map_err(|error| format!("{error} ('{}')", targets[place.target].name))?;
    }
    Ok(())
}

/// What a load does, in words.
fn described(workload: &Workload) -> String {
    let order = match workload.pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
    };
    let what = match workload.read_share {
        PerMille::ALL => "reads".to_owned(),
        PerMille::NONE => "writes".to_owned(),
        PerMille(reads) => format!("accesses, {} % reads,", f64::from(reads) / 10.0),
    };
    let size = match workload.has_mix() {
        true => format!("up to {}", workload.block_size),
        false => workload.block_size.to_string(),
    };
    let sync = match workload.sync.method {
        SyncMethod::None => String::new(),
        method => format!(", {method}"),
    };
    let (jobs, depth) = (workload.jobs, workload.depth);
    if let Some(policy) = workload.group_commit {
        let committers = policy.committers;
        return format!(
            "records of {size} by {committers} committers on each of {jobs} logs{sync}"
        );
    }
    format!("{order} {what} of {size}, {jobs} jobs with {depth} in flight each{sync}")
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_plan::{ClockChoice, Location, LocationFacts, Plan, RawPath};

    use super::*;
    use crate::{CampaignRequest, CampaignSpec, SpecError, plan_campaign};

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
        assert!(made.obstacles.is_empty(), "{:?}", made.obstacles);
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
            rewrites_tail: false,
            double_buffered: false,
            software: None,
        };
        assert_eq!(policies(&plan.unwrap()), [Some(expected)]);
    }

    #[test]
    fn committers_and_delays_make_a_map_and_delays_are_not_scaled() {
        let ladder = "committers = [0, 8]\ncommit_delay = [\"0us\", \"200us\"]\n";
        let plan = plan(ladder).unwrap();
        let delays =
            policies(&plan).into_iter().map(|policy| policy.map(|policy| policy.delay.get()));
        assert_eq!(delays.collect::<Vec<_>>(), [None, None, Some(0), Some(200_000)]);
        let last = plan.measured_steps().last().unwrap();
        let labels: Vec<_> = last.levels.iter().map(|level| level.label.as_str()).collect();
        assert_eq!(labels, [Nanos::from_micros(200).to_string()]);
    }

    #[test]
    fn what_has_no_meaning_without_committers_is_refused() {
        for line in ["commit_delay = \"1ms\"", "batch_max = \"1MiB\"", "double_buffer = true"] {
            let error = plan(line).unwrap_err().to_string();
            assert!(error.contains("is meaningless without committers"), "{error}");
        }
        assert!(plan("committers = 4\nreads = \"100%\"").is_err(), "named twice");
        assert!(plan("committers = 4\npattern = \"random\"").is_err());
        assert!(plan("committers = 5000\ncommitter_threads = true").is_err());
    }
}
