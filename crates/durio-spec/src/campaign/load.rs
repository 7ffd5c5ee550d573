//! A point of a ladder to a load: typed, and checked against the targets' sizes.

use durio_plan::{BatchPolicy, EngineKind, Load, Placement, Target, TargetKind};
use durio_units::{Bytes, Nanos};
use durio_workload::{
    Arrivals, AtEnd, BlockShare, CacheMode, Contents, Coverage, Pattern, PerMille, Region,
    RegionRule, Skew, SyncMethod, SyncPolicy, Workload,
};

use super::committing::group_commit;
use super::reader::Placed;
use super::value::{RegionValue, Value};

/// The values of one load at one point.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a>(pub(crate) &'a dyn Fn(&str) -> Option<&'a Placed<Value>>);

impl<'a> Values<'a> {
    pub(crate) fn get(self, name: &str) -> Option<&'a Value> {
        (self.0)(name).map(|placed| &placed.value)
    }

    pub(crate) fn count(self, name: &str) -> Option<u32> {
        match self.get(name)? {
            Value::Count(count) => Some(*count),
            _ => None,
        }
    }

    pub(crate) fn bytes(self, name: &str) -> Option<Bytes> {
        match self.get(name)? {
            Value::Bytes(bytes) => Some(*bytes),
            _ => None,
        }
    }

    pub(crate) fn flag(self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    pub(crate) fn delay(self, name: &str) -> Option<Nanos> {
        match self.get(name)? {
            Value::Delay(delay) => Some(*delay),
            _ => None,
        }
    }

    fn share(self, name: &str) -> Option<PerMille> {
        match self.get(name)? {
            Value::Share(share) => Some(*share),
            _ => None,
        }
    }

    fn mix(self, name: &str) -> Vec<BlockShare> {
        match self.get(name) {
            Some(Value::Mix(mix)) => mix.clone(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn word(self, name: &str) -> Option<&'a str> {
        match self.get(name)? {
            Value::Choice(word) => Some(word),
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Makes the load; the error is a sentence without the place.
pub(crate) fn load(
    values: Values<'_>,
    name: String,
    summary: &str,
    members: &[usize],
    targets: &[Target],
) -> Result<Load, String> {
    let first = *members.first().ok_or("has no target")?;
    let whole = &targets[first];
    let paths = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let mut workload = workload(values, whole, paths)?;
    workload.name = name;
    workload.summary = match summary {
        "" => described(&workload),
        summary => summary.to_owned(),
    };
    workload.validate().map_err(|error| error.to_string())?;
    let engine = engine(values, &workload)?;
    let load = Load {
        more_targets: members[1..].to_vec(),
        fio_engine: values.word("fio_engine").map(str::to_owned),
        batch: batch(values)?,
        arrivals: arrivals(values)?,
        placement: placement(values),
        ..Load::new(first, workload, engine)
    };
    check_fio_engine(&load)?;
    check_regions(&load, targets)?;
    Ok(load)
}

fn workload(values: Values<'_>, target: &Target, paths: u32) -> Result<Workload, String> {
    let jobs = jobs(values, paths)?;
    let (block_size, block_mix, write_block_mix) = sizes(values);
    let per_path = (jobs / paths).max(1);
    let pattern = match values.word("pattern") {
        Some("random") => Pattern::Random,
        _ => Pattern::Sequential,
    };
    let mut workload = Workload {
        pattern,
        read_share: values.share("reads").unwrap_or(PerMille::ALL),
        block_size,
        block_mix,
        write_block_mix,
        skew: match values.get("skew") {
            Some(Value::Skew(skew)) => skew.clone(),
            _ => Skew::Uniform,
        },
        coverage: match values.word("coverage") {
            Some("each-once") => Coverage::EachOnce,
            _ => Coverage::Independent,
        },
        run_length: values.count("run_length").unwrap_or(1),
        hole: values.bytes("hole").unwrap_or(Bytes::ZERO),
        contents: contents(values),
        duplicates: values.share("duplicates").unwrap_or(PerMille::NONE),
        region: region(values, pattern, target.size, per_path),
        within: within(values, target.size)?,
        jobs,
        depth: values.count("depth").unwrap_or(1),
        sync: SyncPolicy { method: sync(values), every: values.count("sync_every").unwrap_or(1) },
        cache: cache(values, target),
        at_end: match values.word("at_end") {
            Some("reallocate") => AtEnd::Reallocate,
            _ => AtEnd::WrapAround,
        },
        group_commit: group_commit(values)?,
        ..Workload::default()
    };
    if !workload.writes() {
        // Nothing is written, so nothing is made durable: the end of a ladder over reads.
        workload.sync = SyncPolicy::NONE;
    }
    Ok(workload)
}

fn jobs(values: Values<'_>, paths: u32) -> Result<u32, String> {
    let jobs = values.count("jobs").unwrap_or(1);
    if values.word("jobs_are") == Some("per-target") {
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
fn sizes(values: Values<'_>) -> (Bytes, Vec<BlockShare>, Vec<BlockShare>) {
    let given = values.bytes("block_size");
    let mut mix = values.mix("block_mix");
    let writes = values.mix("write_block_mix");
    let largest = mix.iter().chain(&writes).map(|share| share.size).max();
    let Some(largest) = largest else {
        return (given.unwrap_or(Bytes::from_kib(4)), mix, writes);
    };
    if mix.is_empty() {
        // Reads keep their one size, although writes may be larger.
        let size = given.unwrap_or(Bytes::from_kib(4));
        mix.push(BlockShare { size, weight: PerMille::ALL });
        return (largest.max(size), mix, writes);
    }
    (largest, mix, writes)
}

fn contents(values: Values<'_>) -> Contents {
    match values.share("compressible") {
        None | Some(PerMille::NONE) => Contents::Incompressible,
        Some(zeros) => Contents::Compressible { zeros },
    }
}

fn region(values: Values<'_>, pattern: Pattern, size: Bytes, jobs: u32) -> RegionRule {
    match values.get("region") {
        None => RegionRule::default_of(pattern, jobs),
        Some(Value::Region(RegionValue::ShareEach)) => RegionRule::ShareEach,
        Some(Value::Region(RegionValue::OffsetEach(by))) => {
            RegionRule::OffsetEach { by: by.of(size) }
        }
        Some(Value::Region(RegionValue::Spread)) => {
            let percent = u128::from(100 / jobs.max(1));
            let by = u128::from(size.get()) * percent / 100;
            RegionRule::OffsetEach { by: Bytes::new(u64::try_from(by).unwrap_or(u64::MAX)) }
        }
        _ => RegionRule::Shared,
    }
}

fn within(values: Values<'_>, size: Bytes) -> Result<Option<Region>, String> {
    let Some(Value::Within(from, to)) = values.get("within") else { return Ok(None) };
    let (from, to) = (from.of(size), to.of(size));
    // Shares give odd numbers; direct I/O wants whole blocks.
    let offset = from.rounded_down_to(Bytes::from_mib(1).min(size).max(Bytes::new(1)));
    match to > offset && to <= size {
        true => Ok(Some(Region { offset, length: Bytes::new(to.get() - offset.get()) })),
        false => Err(format!("within = {from} to {to} is no part of a target of {size}")),
    }
}

fn sync(values: Values<'_>) -> SyncMethod {
    let word = values.word("sync").unwrap_or("none");
    SyncMethod::ALL.into_iter().find(|method| method.name() == word).unwrap_or(SyncMethod::None)
}

/// The null devices know no direct I/O.
fn cache(values: Values<'_>, target: &Target) -> CacheMode {
    let is_null = matches!(target.kind, TargetKind::NullDevice { .. });
    match values.word("cache") == Some("buffered") || is_null {
        true => CacheMode::Buffered,
        false => CacheMode::Direct,
    }
}

fn engine(values: Values<'_>, workload: &Workload) -> Result<EngineKind, String> {
    let (depth, method) = (workload.depth, workload.sync.method);
    let named = values
        .word("engine")
        .and_then(|word| EngineKind::ALL.into_iter().find(|engine| engine.name() == word));
    match named {
        Some(EngineKind::Sync) if depth > 1 => Err(format!(
            "depth = {depth}, but the sync engine waits for each operation; use more jobs or \
             engine = \"uring\""
        )),
        Some(engine) if method.is_linked() && !engine.links_syncs() => Err(format!(
            "sync = \"{method}\" is io_uring's; use engine = \"uring\", or sync = \"{}\"",
            method.unlinked()
        )),
        Some(engine) => Ok(engine),
        None if depth == 1 && !method.is_linked() => Ok(EngineKind::Sync),
        None => Ok(EngineKind::Uring),
    }
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

fn batch(values: Values<'_>) -> Result<BatchPolicy, String> {
    match values.count("batch") {
        None => Ok(BatchPolicy::DEFAULT),
        Some(0) => Err("batch = 0 would never submit anything".to_owned()),
        Some(submit_max) => Ok(BatchPolicy { submit_max }),
    }
}

fn arrivals(values: Values<'_>) -> Result<Arrivals, String> {
    let constant = values.word("arrivals") == Some("constant");
    let arrivals = match values.get("rate") {
        Some(Value::Rate(rate)) if constant => Arrivals::Constant { rate_per_second: *rate },
        Some(Value::Rate(rate)) => Arrivals::Poisson { rate_per_second: *rate },
        _ => Arrivals::Closed,
    };
    arrivals.validate().map(|()| arrivals).map_err(|error| error.to_string())
}

fn placement(values: Values<'_>) -> Placement {
    match values.get("placement") {
        Some(Value::Placement(placement)) => placement.clone(),
        _ => Placement::DeviceNode,
    }
}

/// Every job has room for a block.
fn check_regions(load: &Load, targets: &[Target]) -> Result<(), String> {
    let jobs = load.workload.jobs;
    let paths = u32::try_from(load.more_targets.len() + 1).unwrap_or(u32::MAX);
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
