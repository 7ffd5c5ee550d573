//! The load as it really runs, where its targets or the kernel do not allow the planned one: said
//! in the record, never silently.
//!
//! If the planned sync method is not possible on the targets of a load, another one replaces it, with
//! a sentence that says so.
//!
//! The plan says which steps may be declined: for those the adapted step and its error decide whether
//! the run continues without it, with an event that says so. Other errors end the run all the same.

use std::os::fd::OwnedFd;

use durio_base::Bytes;
use durio_block::{BlockError, OpenMode, WriteFlags, probe_range_sync, probe_write_flags};
use durio_plan::{AccessAdvice, EngineKind, Load, Role, Step};
use durio_record::{Event, StepDeclined};
use durio_workload::{AtEnd, CacheMode, Pattern, Region, SyncMethod, Workload};
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;

use super::StepSetup;
use crate::error::{RunError, RunErrorKind};
use crate::layout::PreparedTarget;
use crate::memory;

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
        RunError::target("cannot advise the kernel about the order of accesses")
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
        "this filesystem caches writes that are not whole records of {record}, even with O_DIRECT"
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
            "{unavailable}, and sync with one job per operation in flight cannot replace it: \
             {invalid}"
        ))
        .hint("give fewer --jobs or a smaller --depth"));
    }
    let jobs = match workload.jobs {
        1 => "1 job".to_owned(),
        jobs => format!("{jobs} jobs"),
    };
    let mut fallback = format!("{unavailable}; sync with {jobs} of depth 1 replaces it");
    if effective.stand_ins > 1 && workload.pattern == Pattern::Sequential {
        fallback.push_str(", each on a part of its job's region: many sequential streams, not one");
    }
    effective.fallbacks.push(fallback);
    effective.engine = EngineKind::Sync;
    Ok(())
}

/// Replaces a method that is not possible here; fio brings its own.
pub(super) fn adapt_sync<'a>(
    effective: &mut EffectiveLoad,
    targets: impl Iterator<Item = &'a PreparedTarget>,
) -> Result<(), RunError> {
    if !effective.workload.is_durable() || effective.engine == EngineKind::Fio {
        return Ok(());
    }
    // First: methods that the engine lacks need not be probed in the kernel.
    adapt_to_engine(effective);
    for target in targets {
        let method = effective.workload.sync.method;
        let Some(probe) = probe_of(method) else { return Ok(()) };
        let file = target.open(OpenMode::default())?.file;
        adapt_to_answer(effective, probe(&file));
    }
    Ok(())
}

/// The limits of engines, whatever the kernel and the target.
pub(super) fn adapt_to_engine(effective: &mut EffectiveLoad) {
    let (engine, method) = (effective.engine, effective.workload.sync.method);
    if method.is_linked() && !engine.links_syncs() {
        let call = method.unlinked();
        effective.workload.sync.method = call;
        effective.fallbacks.push(format!(
            "{method} needs io_uring: with {engine}, write and {call} are two calls, one after the \
             other"
        ));
    }
    if method == SyncMethod::FileRange && engine == EngineKind::Aio {
        replace(effective, "aio has no such call");
    }
}

type SyncAttempt = fn(&std::os::fd::OwnedFd) -> Result<(), BlockError>;

/// How it is found out that a method is possible, if it may be missing.
fn probe_of(method: SyncMethod) -> Option<SyncAttempt> {
    match method {
        SyncMethod::RwfDsync => Some(|file| probe_write_flags(file, WriteFlags::Dsync)),
        SyncMethod::RwfSync => Some(|file| probe_write_flags(file, WriteFlags::Sync)),
        SyncMethod::FileRange => Some(|file| probe_range_sync(file)),
        _ => None,
    }
}

/// Switches to another method if a probe fails.
pub(super) fn adapt_to_answer(effective: &mut EffectiveLoad, answer: Result<(), BlockError>) {
    if let Err(error) = answer {
        replace(effective, &error.source.to_string());
    }
}

/// The nearest method that every kernel has: as durable, by other calls.
fn replace(effective: &mut EffectiveLoad, reason: &str) {
    let method = effective.workload.sync.method;
    let nearest = match method {
        // RWF_DSYNC is the O_DSYNC of a single write (pwritev2(2)), RWF_SYNC its O_SYNC.
        SyncMethod::RwfDsync => SyncMethod::ODsync,
        SyncMethod::RwfSync => SyncMethod::OSync,
        // A range's sync makes nothing durable by itself (sync_file_range(2)): the file's follows anyway.
        SyncMethod::FileRange => SyncMethod::Fdatasync,
        other => other,
    };
    effective.workload.sync.method = nearest;
    effective
        .fallbacks
        .push(format!("{method} is not possible here ({reason}): {nearest} was measured"));
}

/// True if the run continues without `step`: it may be declined, and the target or the kernel
/// refused it. An error of the storage is not a refusal.
pub(crate) fn declines(step: &Step, error: &RunError) -> bool {
    step.declinable && is_refusal(error)
}

/// True if the target or the kernel refused the request; false if the storage failed.
pub(crate) fn is_refusal(error: &RunError) -> bool {
    match error.kind {
        RunErrorKind::Unsupported => true,
        RunErrorKind::Target => error.errno().is_some_and(|errno| REFUSALS.contains(&errno)),
        RunErrorKind::Sink => false,
    }
}

/// What the kernel answers to a flag or a call that a filesystem, or the kernel itself, does not
/// have: EOPNOTSUPP (pwritev2(2)), EINVAL (open(2) of O_DIRECT, write(2) of an alignment that is not
/// enough), ENOSYS (a call of a newer kernel).
const REFUSALS: [i32; 3] =
    [Errno::OPNOTSUPP.raw_os_error(), Errno::INVAL.raw_os_error(), Errno::NOSYS.raw_os_error()];

/// The event for a declined step.
pub(crate) fn declined(step: u32, round: u32, error: &RunError) -> Event {
    let (message, errno) = (error.to_string(), error.errno());
    Event::StepDeclined(StepDeclined { step, round, message, errno })
}

/// A declinable step gets no substitutes: neither the page cache for the device, nor another
/// engine, nor zeros for preallocated blocks.
pub(super) fn check_declinable(
    step: &Step,
    load: &Load,
    effective: &EffectiveLoad,
    targets: &[Option<PreparedTarget>],
) -> Result<(), RunError> {
    if !step.declinable {
        return Ok(());
    }
    // A result of something else under the requested name would be worse than none.
    if effective.workload.cache != load.workload.cache {
        return Err(RunError::unsupported("O_DIRECT is not possible here"));
    }
    let is_replaced = effective.workload.sync != load.workload.sync;
    if is_replaced
        || effective.engine != load.engine
        || effective.workload.at_end != load.workload.at_end
    {
        return Err(RunError::unsupported(effective.fallbacks.join("; ")));
    }
    let zeros = |index: usize| targets[index].as_ref().is_some_and(|target| target.zeros_stand_in);
    match load.targets().any(zeros) {
        true => Err(RunError::unsupported("fallocate is not possible here")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Error, pipe};

    use durio_base::Nanos;
    use durio_block::ErrorKind;
    use durio_plan::{EngineKind, Limit, Load, Role};
    use durio_workload::{BlockShare, GroupCommit, PerMille, SyncPolicy, Workload};
    use rustix::io::Errno;

    use super::*;

    fn load(engine: EngineKind, method: SyncMethod) -> EffectiveLoad {
        let sync = SyncPolicy::each(method);
        let workload = Workload { sync, read_share: PerMille::NONE, ..Workload::default() };
        EffectiveLoad::of(&Load::new(0, workload, engine))
    }

    /// The method in effect, and whether a fallback says that it is another.
    fn after(effective: &EffectiveLoad, planned: SyncMethod) -> SyncMethod {
        let method = effective.workload.sync.method;
        let told = effective.fallbacks.iter().any(|text| text.starts_with(planned.name()));
        assert_eq!(told, method != planned, "{:?}", effective.fallbacks);
        effective.workload.validate().unwrap();
        method
    }

    #[test]
    fn a_linked_sync_is_a_call_of_its_own_where_there_are_no_links() {
        use SyncMethod::{Fdatasync, Fsync, LinkedFdatasync, LinkedFsync};
        for (method, call) in [(LinkedFsync, Fsync), (LinkedFdatasync, Fdatasync)] {
            for engine in [EngineKind::Sync, EngineKind::Aio] {
                let mut effective = load(engine, method);
                adapt_to_engine(&mut effective);
                assert_eq!(after(&effective, method), call);
            }
            for engine in [EngineKind::Uring, EngineKind::Null] {
                let mut effective = load(engine, method);
                adapt_to_engine(&mut effective);
                assert_eq!(after(&effective, method), method);
            }
        }
    }

    #[test]
    fn aio_cannot_sync_a_range() {
        for engine in [EngineKind::Sync, EngineKind::Uring, EngineKind::Aio] {
            let mut effective = load(engine, SyncMethod::FileRange);
            adapt_to_engine(&mut effective);
            let expected = if engine == EngineKind::Aio {
                SyncMethod::Fdatasync
            } else {
                SyncMethod::FileRange
            };
            assert_eq!(after(&effective, SyncMethod::FileRange), expected);
        }
    }

    #[test]
    fn what_the_kernel_does_not_know_is_replaced_by_what_is_as_durable() {
        use SyncMethod::{Fdatasync, FileRange, ODsync, OSync, RwfDsync, RwfSync};
        for (method, nearest) in [(RwfDsync, ODsync), (RwfSync, OSync), (FileRange, Fdatasync)] {
            for errno in [Errno::OPNOTSUPP, Errno::NOSYS] {
                let mut effective = load(EngineKind::Sync, method);
                let source = Error::from_raw_os_error(errno.raw_os_error());
                let error = BlockError::because(ErrorKind::Unsupported, "planted", source);
                adapt_to_answer(&mut effective, Err(error));
                assert_eq!(after(&effective, method), nearest);
            }
        }
    }

    #[test]
    fn every_method_that_may_be_missing_is_asked_for() {
        let (reader, _writer) = pipe().unwrap();
        let pipe = reader.into();
        // A pipe has no ranges: the kernel's own no.
        let probe = probe_of(SyncMethod::FileRange).unwrap();
        let mut effective = load(EngineKind::Sync, SyncMethod::FileRange);
        adapt_to_answer(&mut effective, probe(&pipe));
        assert_eq!(after(&effective, SyncMethod::FileRange), SyncMethod::Fdatasync);
        assert!(effective.fallbacks[0].contains("Illegal seek"), "{:?}", effective.fallbacks);
        let asked = SyncMethod::ALL.into_iter().filter(|&method| probe_of(method).is_some());
        let missing = [SyncMethod::RwfDsync, SyncMethod::RwfSync, SyncMethod::FileRange];
        assert_eq!(asked.collect::<Vec<_>>(), missing);
    }

    fn step(declinable: bool) -> Step {
        let load = Load::new(0, Workload::default(), EngineKind::Sync);
        let step = Step::new(Role::Measure, load, Limit::Operations(1), Nanos::from_secs(1));
        Step { declinable, ..step }
    }

    fn system(errno: i32) -> RunError {
        RunError::target("planted").because(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn only_a_refusal_of_a_declinable_step_lets_the_run_go_on() {
        for errno in REFUSALS {
            assert!(declines(&step(true), &system(errno)));
            assert!(!declines(&step(false), &system(errno)));
        }
        assert!(declines(&step(true), &RunError::unsupported("planted")));
        let (eio, enospc) = (5, 28);
        for errno in [eio, enospc] {
            assert!(!declines(&step(true), &system(errno)));
        }
        assert!(!declines(&step(true), &RunError::sink("planted".into())));
    }

    #[test]
    fn what_direct_io_needs_is_asked_of_each_size_and_place() {
        let odd = |change: fn(&mut Workload)| {
            let block_size = Bytes::from_kib(8);
            let mut workload = Workload { block_size, ..Workload::default() };
            change(&mut workload);
            odd_to(&workload, Bytes::from_kib(4)).map(Bytes::get)
        };
        assert_eq!(odd(|_| {}), None);
        assert_eq!(odd(|workload| workload.block_size = Bytes::new(6144)), Some(6144));
        let share = |bytes| BlockShare { size: Bytes::new(bytes), weight: PerMille(500) };
        let mix = Workload { block_mix: vec![share(8192), share(512)], ..Workload::default() };
        assert_eq!(odd_to(&mix, Bytes::from_kib(4)), Some(Bytes::new(512)));
        assert_eq!(odd(|workload| workload.hole = Bytes::new(1024)), Some(1024));
        assert_eq!(odd(|workload| workload.align = Bytes::new(2048)), Some(2048));
        let within = |offset| {
            let within = Some(Region { offset: Bytes::new(offset), length: Bytes::new(50_000) });
            odd_to(&Workload { within, ..Workload::default() }, Bytes::from_kib(4))
        };
        assert_eq!((within(8192), within(4608)), (None, Some(Bytes::new(4608))));
        // A log's batches are filled up; without that its records are what is written.
        let log = |pad_to| {
            let pad_to = Bytes::new(pad_to);
            let group_commit = Some(GroupCommit { pad_to, ..GroupCommit::of(2) });
            let block_size = Bytes::new(100);
            let log = Workload { group_commit, block_size, ..Workload::default() };
            odd_to(&log, Bytes::from_kib(4)).map(Bytes::get)
        };
        assert_eq!([log(4096), log(512), log(0)], [None, Some(512), Some(100)]);
    }

    #[test]
    fn a_target_is_opened_as_its_workload_reads_writes_and_syncs_it() {
        let mode = |read_share, method, cache| {
            let (read_share, sync) = (PerMille(read_share), SyncPolicy::each(method));
            let mode = open_mode(&Workload { read_share, sync, cache, ..Workload::default() });
            [mode.write, mode.direct, mode.data_sync, mode.sync, mode.exclusive]
        };
        use CacheMode::{Buffered, Direct};
        assert_eq!(mode(1000, SyncMethod::None, Direct), [false, true, false, false, false]);
        assert_eq!(mode(999, SyncMethod::Fsync, Buffered), [true, false, false, false, false]);
        assert_eq!(mode(0, SyncMethod::ODsync, Direct), [true, true, true, false, false]);
        assert_eq!(mode(0, SyncMethod::OSync, Direct), [true, true, false, true, false]);
        assert_eq!(mode(0, SyncMethod::RwfDsync, Buffered), [true, false, false, false, false]);
    }

    #[test]
    fn stand_ins_divide_what_does_not_divide_evenly_in_whole_blocks() {
        let kib = Bytes::from_kib;
        // 11 blocks of 8 KiB, and something more.
        let within = Some(Region { offset: kib(24), length: Bytes::new(88 * 1024 + 100) });
        let workload = Workload { block_size: kib(8), within, ..Workload::default() };
        let load = Load::new(0, workload, EngineKind::Uring);
        let regions = [0, 1, 2].map(|index| {
            let region = region_of(&load, 3, index, Bytes::from_mib(1)).unwrap();
            (region.offset.get() >> 10, region.length.get() >> 10)
        });
        assert_eq!(regions, [(24, 24), (48, 24), (72, 24)]);
    }

    #[test]
    fn a_declinable_step_takes_nothing_else_for_what_was_asked_for() {
        let sync = SyncPolicy::each(SyncMethod::RwfDsync);
        let workload = Workload { sync, read_share: PerMille::NONE, ..Workload::default() };
        let load = Load::new(0, workload, EngineKind::Uring);
        let check = |declinable, change: fn(&mut EffectiveLoad)| {
            let mut effective = EffectiveLoad::of(&load);
            effective.fallbacks.push("as told".to_owned());
            change(&mut effective);
            check_declinable(&step(declinable), &load, &effective, &[None])
                .map_err(|error| (error.kind, error.to_string()))
        };
        assert_eq!(check(true, |_| {}), Ok(()));
        let changes: [fn(&mut EffectiveLoad); 4] = [
            |effective| effective.workload.cache = CacheMode::Buffered,
            |effective| effective.workload.sync.method = SyncMethod::ODsync,
            |effective| effective.engine = EngineKind::Sync,
            |effective| effective.workload.at_end = AtEnd::Reallocate,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert_eq!(check(false, change), Ok(()), "change {number}");
            let reason = if number == 0 { "O_DIRECT is not possible here" } else { "as told" };
            let refused = (RunErrorKind::Unsupported, reason.to_owned());
            assert_eq!(check(true, change), Err(refused), "change {number}");
        }
    }
}
