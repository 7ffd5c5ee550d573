//! One job section: the work of its copies, and the place of each.
//!
//! Turns a [`ResolvedJob`] into an [`ImportedSection`]; `loads` decides which sections become one load.

use durio_base::Bytes;
use durio_plan::{AccessAdvice, EngineKind, FileLayout};
use durio_workload::{CacheMode, Coverage, FileOrder, Pattern, Skew, Workload, job_seed};

use super::accesses::{Writing, accesses, set_data, set_syncs};
use super::extent::{CopyExtent, Extents, file_order};
use super::queue::{ImportedQueue, JobTiming, queue, timing};
use super::rows::{Reporting, reporting};
use super::targets::{ImportTargets, SpotClaim, TargetsOf};
use super::{CpuBinding, ImportNotes, ImportSettings, binding, or, place_or};
use crate::job_file::{
    AdviceHint, Direction, Fallocate, GivenOption, JobOptions, NameOptions, ResolvedJob, SizeValue,
    SourcePosition, TargetOptions,
};

/// Bytes of a page, of which msync(2) takes whole ones.
const PAGE: u64 = 4096;

/// A job section with everything but the region of its load.
#[derive(Debug)]
pub(super) struct ImportedSection {
    pub(super) at: SourcePosition,
    pub(super) group: u32,
    pub(super) reporting_group: u32,
    /// Without region, jobs and limits.
    pub(super) workload: Workload,
    pub(super) queue: ImportedQueue,
    pub(super) blocking_syncs: bool,
    pub(super) binding: CpuBinding,
    pub(super) timing: JobTiming,
    /// Whether the page cache is dropped before; none where it does not matter.
    pub(super) drops_cache: Option<bool>,
    pub(super) reporting: Reporting,
    pub(super) copies: Vec<CopyPlace>,
    pub(super) file_order: FileOrder,
    pub(super) advice: Option<AccessAdvice>,
    /// The number of the first copy among those of all sections.
    pub(super) first_copy: u32,
}

#[derive(Debug)]
pub(super) struct CopyPlace {
    /// One, or several of which each is accessed in turn.
    pub(super) targets: Vec<usize>,
    /// In each of them.
    pub(super) extent: CopyExtent,
    /// Bytes that it moves in all its loops; none if time alone bounds it.
    pub(super) bytes: Option<u64>,
}

impl CopyPlace {
    /// The length of all its files together.
    fn length(&self) -> u64 {
        let files = u64::try_from(self.targets.len()).unwrap_or(u64::MAX);
        self.extent.length.saturating_mul(files)
    }
}

// No step has this number, so that no job shares the draw of a delay.
const DELAY_DRAW: u64 = u64::MAX;

/// Reads a section; `first` is the number of its first copy among those of all sections. None if it
/// has no place to work on.
pub(super) fn section(
    job: &ResolvedJob,
    first: u32,
    settings: &ImportSettings,
    targets: &mut ImportTargets<'_>,
    said: &mut ImportNotes,
) -> Option<ImportedSection> {
    let ResolvedJob { name, at, group, reporting_group, copies, options, .. } = job;
    let JobOptions {
        name: name_options,
        target,
        pattern,
        queue: queue_options,
        durability,
        timing: timing_options,
        placement,
        data,
        output,
    } = options;
    let (mut workload, sizes) = accesses(pattern, at, said);
    let direction = match (workload.reads(), workload.writes()) {
        (true, true) => Direction::Mixed,
        (true, false) => Direction::Read,
        (false, _) => Direction::Write,
    };
    let queue = queue(queue_options, (direction, &sizes), at, said);
    let timing =
        timing(timing_options, (at, job_seed(settings.seed, DELAY_DRAW, first.into())), said);
    let writing = Writing {
        reads: workload.reads(),
        writes: workload.writes(),
        depth: queue.depth,
        // Until fio 3.41 a job of its libaio engine waits in each sync.
        blocks: queue.engine == EngineKind::Aio,
        is_mapped: queue.engine == EngineKind::Mmap,
        // With a sync at the end, fio syncs at the end of each loop.
        has_passes: timing.is_by_volume && timing.loops > 1,
    };
    let blocking_syncs = set_syncs(durability, writing, (&mut workload, at), said);
    // The others are in the job itself, or were taken by the sizes.
    let NameOptions { description, name: _, copies: _, kb_base: _ } = name_options;
    workload.name.clone_from(name);
    workload.summary = description.as_ref().map_or_else(String::new, |text| text.value.clone());
    workload.depth = queue.depth;
    // fio's default goes through the page cache.
    let is_direct = or(&target.direct, false);
    workload.cache = if is_direct { CacheMode::Direct } else { CacheMode::Buffered };
    set_data(data, &mut workload, said);
    workload.read_share = queue.read_share.unwrap_or(workload.read_share);
    // fio goes back to the region's begin where time alone ends the job, and only in a single file.
    let goes_on = workload.jumps.is_some() || workload.run_length > 1;
    workload.cursors_wrap =
        workload.pattern == Pattern::Random && goes_on && !timing.is_by_volume && is_one(target);
    let is_mapped = queue.engine == EngineKind::Mmap;
    let of_targets = TargetsOf { job, workload: &workload, sizes: &sizes, timing, is_mapped };
    if is_mapped {
        of_targets.check_mapped(said);
    }
    let places = of_targets.places(target, targets, said)?;
    // After its places, so that its files are laid out.
    if let Some(given) = target.create_only.as_ref().filter(|given| given.value) {
        let what =
            "its files are created with all others before the first job, and nothing is measured";
        said.note(given, what);
        return None;
    }
    let is_null =
        places.iter().flat_map(|place| &place.targets).all(|&target| targets.is_null(target));
    let drops_cache = of_targets.drops_cache(&target.invalidate, is_null);
    let advice = advice(or(&target.advice, AdviceHint::Pattern), of_targets.workload.pattern);
    let has_passes = of_targets.has_passes(&places);
    if is_mapped && drops_cache == Some(true) && has_passes && timing.is_by_volume {
        let reason = "mapped pages stay cached, and durio keeps the mapping where fio maps the file \
                      again for each loop; use invalidate=0 or loops=1";
        said.refuse_at(at, "invalidate", reason);
    }
    workload.drops_cache_each_pass = drops_cache == Some(true) && has_passes;
    Some(ImportedSection {
        at: at.clone(),
        group: *group,
        reporting_group: *reporting_group,
        workload,
        queue,
        blocking_syncs,
        binding: binding(placement, (first, *copies), said),
        timing,
        drops_cache,
        reporting: reporting(output, settings.copies_apart, timing.duration, said),
        copies: places,
        file_order: file_order(target),
        advice: advice.filter(|_| !is_null),
        first_copy: first,
    })
}

/// Whether each copy has one file.
fn is_one(target: &TargetOptions) -> bool {
    match &target.filenames {
        Some(names) => names.value.len() == 1,
        None => or(&target.files, 1) == 1,
    }
}

fn advice(hint: AdviceHint, pattern: Pattern) -> Option<AccessAdvice> {
    match (hint, pattern) {
        (AdviceHint::None, _) => None,
        (AdviceHint::Random, _) | (AdviceHint::Pattern, Pattern::Random) => {
            Some(AccessAdvice::Random)
        }
        (AdviceHint::Sequential, _) | (AdviceHint::Pattern, Pattern::Sequential) => {
            Some(AccessAdvice::Sequential)
        }
        (AdviceHint::NoReuse, _) => Some(AccessAdvice::NoReuse),
    }
}

impl TargetsOf<'_> {
    fn places(
        &self,
        options: &TargetOptions,
        targets: &mut ImportTargets<'_>,
        said: &mut ImportNotes,
    ) -> Option<Vec<CopyPlace>> {
        let TargetOptions {
            filenames,
            directories,
            name_format: _,
            files: _,
            open_files: _,
            file_service: _,
            file_bytes: _,
            size: _,
            io_size: size_of_io,
            accesses,
            offset: _,
            offset_increment: _,
            offset_align_bytes: _,
            fallocate,
            overwrite,
            create_on_open,
            create_only: _,
            allow_create,
            unlink,
            invalidate: _,
            advice: _,
            direct: _,
        } = options;
        let each = self.files_each(options, said)?;
        let claim = SpotClaim {
            at: place_or(filenames, place_or(directories, &self.job.at)),
            writes: self.workload.writes(),
            layout: match or(create_on_open, false) {
                // It is made when it is opened, and grows.
                true => FileLayout::Empty,
                false => self.layout(fallocate, or(overwrite, false), said),
            },
        };
        let smallest_block = self.sizes.smallest.max(1);
        let may_go_over = self.workload.pattern == Pattern::Sequential
            && self.workload.hole == Bytes::ZERO
            && self.sizes.is_single()
            && (each == 1 || self.is_one_pass_in_turn(options));
        let extents =
            Extents { target: options, smallest_block, files: each, may_go_over, at: &self.job.at };
        let mut places = Vec::new();
        for copy in 0..self.job.copies {
            let (indices, extent) = self.files_of(copy, (&extents, &claim), targets, said)?;
            self.check_block(&extent, said)?;
            let first = indices.first().copied()?;
            let existing = targets.existing(first).size.unwrap_or(0);
            let is_open = size_of_io.is_none() && existing > extent.end();
            self.check_order((&extent, is_open), said);
            let bytes = self.bytes((&extent, is_open, each), accesses, said);
            for &index in &indices {
                self.of_file(targets.is_made(index), allow_create, said);
                // fio unlinks files alone: a device stays.
                if targets.is_file(index) {
                    let reason = "durio never removes a file that it did not create";
                    said.refuse_unless(unlink, |on| !on, reason);
                }
                if targets.is_made(index) && self.workload.reads() {
                    let reason = "a file that is made when it is opened has nothing to read; run \
                                  the job that writes it first";
                    said.refuse_unless(create_on_open, |on| !on, reason);
                }
            }
            places.push(CopyPlace { targets: indices, extent, bytes });
        }
        Some(places)
    }

    /// Refuses options that fio's mmap engine rejects or is killed by.
    fn check_mapped(&self, said: &mut ImportNotes) {
        let JobOptions { target, durability, .. } = &self.job.options;
        let syncs = [&durability.fsync_every, &durability.fdatasync_every];
        let syncs = syncs.into_iter().any(|every| or(every, 0) > 0);
        let is_direct = or(&target.direct, false);
        if (syncs || is_direct) && !self.sizes.smallest.is_multiple_of(PAGE) {
            let reason =
                "fio's mmap engine needs whole pages of 4096 bytes with direct, fsync or fdatasync";
            said.refuse_at(&self.job.at, "bs", reason);
        }
        let reason = "mappings have no such advice, and fio fails";
        said.refuse_unless(&target.advice, |hint| *hint != AdviceHint::NoReuse, reason);
        let reason = "a mapping cannot extend its file, and fio is killed by SIGBUS";
        said.refuse_unless(&target.create_on_open, |on| !on, reason);
    }

    fn of_file(&self, is_made: bool, allow_create: &GivenOption<bool>, said: &mut ImportNotes) {
        if is_made {
            let reason = "the file does not exist";
            said.refuse_unless(allow_create, |on| *on, reason);
            let TargetOptions { filenames, directories, .. } = &self.job.options.target;
            let what = "durio uses temporary files; fio would reuse and keep its own";
            if let Some(given) = filenames.as_ref().or(directories.as_ref()) {
                said.note(given, what);
            }
        }
    }

    // As fio lays out a file: written where it is read or overwritten, else allocated.
    fn layout(
        &self,
        fallocate: &GivenOption<Fallocate>,
        overwrites: bool,
        said: &mut ImportNotes,
    ) -> FileLayout {
        // A mapping cannot extend its file.
        if self.workload.reads() || overwrites || self.is_mapped {
            return FileLayout::Incompressible;
        }
        match or(fallocate, Fallocate::Native) {
            Fallocate::None => FileLayout::Empty,
            Fallocate::Native | Fallocate::Posix => FileLayout::Preallocated,
            Fallocate::Keep | Fallocate::Truncate => {
                let reason = "durio allocates files (native), leaves them empty (none), or writes \
                              them (overwrite=1)";
                said.refuse_unless(fallocate, |_| false, reason);
                FileLayout::Preallocated
            }
        }
    }

    fn check_block(&self, extent: &CopyExtent, said: &mut ImportNotes) -> Option<()> {
        if extent.length >= self.sizes.block_size {
            return Some(());
        }
        let reason = format!(
            "a region of {} does not hold a block of {}",
            Bytes::new(extent.length),
            Bytes::new(self.sizes.block_size)
        );
        said.refuse_at(&self.job.at, "size", &reason);
        None
    }

    /// What of the order of accesses depends on the region.
    fn check_order(&self, (extent, is_open): (&CopyExtent, bool), said: &mut ImportNotes) {
        let at = &self.job.at;
        let skews = [Some(&self.workload.skew), self.workload.write_skew.as_ref()];
        for skew in skews.into_iter().flatten() {
            let Skew::ByteZones { zones } = skew else { continue };
            let end = zones.iter().fold(0_u64, |sum, zone| sum.saturating_add(zone.size.get()));
            if end > extent.length {
                let reason = format!(
                    "its zones end at {} and the region at {}; fio ends such a job",
                    Bytes::new(end),
                    Bytes::new(extent.length)
                );
                said.refuse_at(at, "random_distribution", &reason);
            }
        }
        if self.workload.coverage != Coverage::JumpsOnce || !self.timing.is_by_volume {
            return;
        }
        if self.timing.loops > 1 || extent.volume > extent.length {
            let what = "fio starts a new pass over its map of blocks after each size, durio when all \
                        blocks were jumped to";
            said.note_at(at, "rw", what);
        }
        if is_open {
            let what = "fio ends such a job early where accesses in a row meet the end of its size \
                        within the file; durio jumps";
            said.note_at(at, "rw", what);
        }
    }

    /// What a copy moves in all.
    // fio does whole blocks, one more where offsets are free. With holes it starts over until all
    // bytes are done, unless its pass ends before the file does (`is_open`).
    fn bytes(
        &self,
        (extent, is_open, files): (&CopyExtent, bool, u64),
        accesses: &GivenOption<u64>,
        said: &mut ImportNotes,
    ) -> Option<u64> {
        let accesses = accesses.as_ref().filter(|given| given.value > 0);
        if !self.timing.is_by_volume {
            if let Some(given) = accesses {
                said.refuse(given, "with time_based the time decides");
            }
            return None;
        }
        let block = self.sizes.block_size.max(1);
        let is_free = self.is_free();
        // With holes: the number of blocks that fit. A pass ends where the next block begins inside
        // the file and does not fit, or where the file continues behind the region.
        let step = block.saturating_add(self.workload.hole.get());
        let fits = (extent.length - block.min(extent.length)) / step + 1;
        let no_amount = SizeValue::Bytes(0);
        let has_amount = or(&self.job.options.target.io_size, no_amount) != no_amount;
        let ends_at_hole = self.workload.hole > Bytes::ZERO
            && !has_amount
            && (is_open || fits.saturating_mul(step) < extent.length);
        let of_all = |bytes: u64| bytes.saturating_mul(files);
        let loops = u64::from(self.timing.loops);
        let of_passes = |pass: u64| of_all(pass).saturating_mul(loops);
        let whole = |bytes: u64| bytes.checked_next_multiple_of(block).unwrap_or(u64::MAX);
        let all = match (self.sizes.is_single(), is_free) {
            (true, true) if files > 1 => {
                return Some(whole(of_all(extent.volume)).saturating_mul(loops));
            }
            (true, false) if ends_at_hole => of_passes(fits.saturating_mul(block)),
            // Where the file continues behind the size, the last block may exceed the size. With
            // one file only the last block of the last pass does, because fio counts the bytes of
            // all passes.
            (true, _) if files == 1 && extent.volume < extent.length => {
                whole(extent.volume.saturating_mul(loops))
            }
            (true, _) if extent.volume < extent.length => of_passes(whole(extent.volume)),
            (true, true) => of_passes(whole(extent.volume)),
            (true, false) => of_passes(extent.volume - extent.volume % block),
            // Accesses that each come once, or one after the other, end with the last that fits.
            (false, false) => of_passes(extent.volume - extent.volume % self.sizes.smallest.max(1)),
            (false, true) => of_passes(extent.volume),
        };
        // The last blocks of some files are beyond the size of all.
        let all = match or(&self.job.options.target.size, no_amount) {
            SizeValue::Bytes(size) if size > 0 && files > 1 && loops == 1 => all.min(whole(size)),
            _ => all,
        };
        let Some(given) = accesses else { return Some(all) };
        if !self.sizes.is_single() {
            said.refuse(given, "with several block sizes give io_size");
        }
        Some(all.min(given.value.saturating_mul(block)))
    }

    /// Whether a single pass takes a block of each file in turn, so that the size of all ends it.
    fn is_one_pass_in_turn(&self, options: &TargetOptions) -> bool {
        let is_one_pass = self.timing.is_by_volume && self.timing.loops == 1;
        is_one_pass && file_order(options) == FileOrder::EACH_IN_TURN
    }

    /// Whether any block may come at any time.
    fn is_free(&self) -> bool {
        self.workload.pattern == Pattern::Random && self.workload.coverage == Coverage::Independent
    }

    /// Whether fio drops the cache again where a pass over the region begins: where offsets come round,
    /// or where it reopens the file after `size`. Free draws that time alone bounds never do.
    fn has_passes(&self, places: &[CopyPlace]) -> bool {
        let is_free = self.is_free();
        let moves_more =
            |place: &CopyPlace| place.bytes.is_some_and(|bytes| bytes > place.length());
        match self.timing.is_by_volume {
            // fio writes freely drawn offsets in one go, whatever io_size is.
            true if is_free && !self.workload.reads() => self.timing.loops > 1,
            true => places.iter().any(moves_more),
            false => !is_free,
        }
    }

    // fio drops a file's cached pages before it starts, unless `invalidate` is off.
    fn drops_cache(&self, invalidate: &GivenOption<bool>, is_null: bool) -> Option<bool> {
        // Neither has cached pages; those of a mapping are, O_DIRECT or not.
        if (self.workload.cache == CacheMode::Direct && !self.is_mapped) || is_null {
            return None;
        }
        Some(or(invalidate, true))
    }
}
