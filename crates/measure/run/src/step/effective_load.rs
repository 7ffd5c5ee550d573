//! The load as it really runs, where its targets or the kernel do not allow the planned one: said
//! in the record, never silently.

use std::os::fd::OwnedFd;

use durio_base::Bytes;
use durio_block::OpenMode;
use durio_plan::{AccessAdvice, EngineKind, Load, Role};
use durio_workload::{AtEnd, CacheMode, Pattern, Region, SyncMethod, Workload};
use rustix::fs::{Advice, fadvise};

use crate::error::RunError;
use crate::layout::PreparedTarget;
use crate::memory;
use crate::step::StepSetup;
use crate::step::sync_method::adapt_sync;

/// A load as it is in effect.
pub(crate) struct EffectiveLoad {
    pub(crate) engine: EngineKind,
    pub(crate) workload: Workload,
    /// How many jobs of depth 1 stand in for each planned one; 1 if none do.
    pub(super) stand_ins: u32,
    pub(crate) fallbacks: Vec<String>,
}

impl EffectiveLoad {
    pub(crate) fn of(load: &Load) -> Self {
        Self {
            engine: load.engine,
            workload: load.workload.clone(),
            stand_ins: 1,
            fallbacks: Vec::new(),
        }
    }
}

/// The part of the target that a job touches: a stand-in has that of the job it stands in for.
/// A sequential one is divided, for streams that follow each other would find every block warm;
/// where it has not a block for each, it is shared.
pub(crate) fn region_of(
    load: &Load,
    stand_ins: u32,
    index: u32,
    size: Bytes,
) -> Result<Region, RunError> {
    let planned = &load.workload;
    let place = load.place_of(index / stand_ins);
    let region = planned
        .region_among(place.place, place.sharers, size)
        .map_err(|error| RunError::unsupported(error.to_string()))?;
    if planned.pattern == Pattern::Random || planned.group_commit.is_some() {
        return Ok(region);
    }
    let part = Bytes::new(region.length.get() / u64::from(stand_ins));
    let length = part.rounded_down_to(planned.block_size);
    if length == Bytes::ZERO {
        return Ok(region);
    }
    let before = length.get() * u64::from(index % stand_ins);
    Ok(Region { offset: Bytes::new(region.offset.get() + before), length })
}

/// Opens its target, or its targets, for each job; the null engine needs none.
pub(crate) fn open_files(
    effective: &mut EffectiveLoad,
    setup: StepSetup<'_>,
    load: &Load,
) -> Result<Vec<Vec<OwnedFd>>, RunError> {
    let (jobs, stand_ins) = (effective.workload.jobs, effective.stand_ins);
    if effective.engine == EngineKind::Null {
        return Ok((0..jobs).map(|_| Vec::new()).collect());
    }
    let open_each = |mode: OpenMode| -> Result<Vec<Vec<_>>, RunError> {
        let open = |target| setup.target(target)?.open(mode);
        let of_job = |job| load.targets_of(job / stand_ins).map(open);
        (0..jobs).map(|job| of_job(job).collect()).collect()
    };
    let mode = open_mode(&effective.workload);
    let mut opened = open_each(mode)?;
    if opened.iter().flatten().any(|opened| opened.direct != mode.direct) {
        // The answer differs from that at preparation: all jobs use the page cache.
        measure_cache(effective);
        opened = open_each(open_mode(&effective.workload))?;
    }
    let files: Vec<Vec<OwnedFd>> = opened
        .into_iter()
        .map(|of_job| of_job.into_iter().map(|opened| opened.file).collect())
        .collect();
    if let Some(advice) = load.advice {
        let advice = advice_of(advice);
        files.iter().flatten().try_for_each(|file| advise(file, advice))?;
    }
    Ok(files)
}

/// The kernel's name of it.
pub(crate) const fn advice_of(advice: AccessAdvice) -> Advice {
    match advice {
        AccessAdvice::Random => Advice::Random,
        AccessAdvice::Sequential => Advice::Sequential,
        AccessAdvice::NoReuse => Advice::NoReuse,
    }
}

/// Advises the kernel of the accesses to come; it holds for this descriptor alone.
fn advise(file: &OwnedFd, advice: Advice) -> Result<(), RunError> {
    fadvise(file, 0, None, advice).map_err(|errno| {
        RunError::target("cannot advise the kernel of the order of accesses")
            .because(std::io::Error::from(errno))
            .hint("give fadvise_hint=0")
    })
}

fn open_mode(workload: &Workload) -> OpenMode {
    OpenMode {
        write: workload.writes(),
        direct: workload.cache == CacheMode::Direct,
        data_sync: workload.sync.method == SyncMethod::ODsync,
        sync: workload.sync.method == SyncMethod::OSync,
        // The guard's descriptor has the device exclusively already, and the kernel gives that
        // once.
        exclusive: false,
    }
}

/// Adapts a load to what its targets and the kernel allow, and reports the changes.
pub(crate) fn effective(setup: StepSetup<'_>, load: &Load) -> Result<EffectiveLoad, RunError> {
    let mut effective = EffectiveLoad::of(load);
    if load.engine == EngineKind::Null {
        return Ok(effective);
    }
    let targets = || load.targets().filter_map(|index| setup.targets[index].as_ref());
    // One target without O_DIRECT is enough: all jobs of a load do the same.
    for target in targets() {
        adapt_cache(&mut effective, target)?;
        adapt_segment(&mut effective, target);
    }
    adapt_engine(&mut effective, setup.step.role, load)?;
    // Last: which syncs are possible depends on the engine that is used in the end.
    adapt_sync(&mut effective, targets())?;
    Ok(effective)
}

fn adapt_cache(effective: &mut EffectiveLoad, target: &PreparedTarget) -> Result<(), RunError> {
    let workload = &effective.workload;
    if workload.cache == CacheMode::Buffered {
        return Ok(());
    }
    if !target.direct {
        measure_cache(effective);
        return Ok(());
    }
    // Without the kernel's word, the smallest sector there is.
    let whole = target.alignment.map_or(Bytes::new(512), |alignment| alignment.offset);
    let part = target.alignment.filter(|_| target.caches_parts).map(|alignment| alignment.memory);
    let unit = part.unwrap_or(whole);
    if let Some(odd) = odd_to(workload, unit) {
        return Err(misaligned(workload, odd, unit));
    }
    if odd_to(workload, whole).is_some() && workload.writes() {
        // ZFS does so: measured all the same, and said.
        effective.fallbacks.push(through_own_cache(whole));
    }
    Ok(())
}

fn misaligned(workload: &Workload, odd: Bytes, unit: Bytes) -> RunError {
    let is_log = workload.group_commit.is_some();
    let what = if is_log { "a batch in units of" } else { "a block size of" };
    let option = if is_log { "--pad-to" } else { "--bs" };
    RunError::unsupported(format!(
        "{what} {odd} is not a multiple of {unit}, which O_DIRECT needs here"
    ))
    .hint(format!("give another {option}, or --buffered"))
}

fn through_own_cache(record: Bytes) -> String {
    format!(
        "this filesystem takes writes that are no whole records of {record} through its own cache, \
         O_DIRECT or not"
    )
}

/// A size or place of its accesses that is not a multiple of the unit.
fn odd_to(workload: &Workload, unit: Bytes) -> Option<Bytes> {
    let sizes = transfer_units(workload).into_iter();
    let begins = workload.within.map(|within| within.offset);
    let holes = Some(workload.hole).filter(|hole| *hole > Bytes::ZERO);
    let aligned = Some(workload.align).filter(|align| *align > Bytes::ZERO);
    let mut all = sizes.chain(begins).chain(holes).chain(aligned);
    all.find(|bytes| !bytes.is_multiple_of(unit))
}

/// The units of reads and writes: the sizes of blocks, or the unit that batches are filled up to.
fn transfer_units(workload: &Workload) -> Vec<Bytes> {
    let pad_to = workload.group_commit.map(|policy| policy.pad_to);
    match pad_to.filter(|pad_to| *pad_to > Bytes::ZERO) {
        Some(pad_to) => vec![pad_to],
        None => workload.block_sizes(),
    }
}

fn measure_cache(effective: &mut EffectiveLoad) {
    if effective.workload.cache == CacheMode::Buffered {
        return;
    }
    effective.workload.cache = CacheMode::Buffered;
    effective.fallbacks.push(
        "O_DIRECT is not possible here: the page cache was measured, not the device".to_owned(),
    );
}

fn adapt_segment(effective: &mut EffectiveLoad, target: &PreparedTarget) {
    if effective.workload.at_end == AtEnd::Reallocate && !target.reallocates {
        effective.workload.at_end = AtEnd::WrapAround;
        effective.fallbacks.push(
            "this filesystem cannot return a segment to the preallocated state: from its second \
             pass on the segment is overwritten in place"
                .to_owned(),
        );
    }
}

fn adapt_engine(effective: &mut EffectiveLoad, role: Role, load: &Load) -> Result<(), RunError> {
    let Err(error) = effective.engine.probe() else { return Ok(()) };
    stand_in(effective, role, &format!("{error}: {}", error.source))?;
    memory::check(load.buffer_bytes(), &[&effective.workload], memory::available())
}

/// Puts the sync engine in the place of an asynchronous one: each place in the queue becomes a job.
pub(super) fn stand_in(
    effective: &mut EffectiveLoad,
    role: Role,
    reason: &str,
) -> Result<(), RunError> {
    let workload = &mut effective.workload;
    // The cost of one job is asked for, so one job it stays.
    effective.stand_ins = if role == Role::SelfCost { 1 } else { workload.depth };
    workload.jobs *= effective.stand_ins;
    workload.depth = 1;
    let unavailable = format!("{} is not available ({reason})", effective.engine);
    if let Err(invalid) = workload.validate() {
        return Err(RunError::unsupported(format!(
            "{unavailable}, and sync, one job for each operation in flight, cannot stand in for \
             it: {invalid}"
        ))
        .hint("give fewer --jobs or a smaller --depth"));
    }
    let jobs = match workload.jobs {
        1 => "1 job".to_owned(),
        jobs => format!("{jobs} jobs"),
    };
    let mut fallback = format!("{unavailable}; sync with {jobs} of depth 1 stands in for it");
    if effective.stand_ins > 1 && workload.pattern == Pattern::Sequential {
        fallback.push_str(", each on a part of its job's region: many sequential streams, not one");
    }
    effective.fallbacks.push(fallback);
    effective.engine = EngineKind::Sync;
    Ok(())
}
