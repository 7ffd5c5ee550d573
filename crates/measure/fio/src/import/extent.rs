//! The files of a copy, which part of them it touches, and how much it moves.
//!
//! Computes a [`CopyExtent`] per copy from [`TargetOptions`] and the size of existing files, as fio's
//! `get_start_offset` and `setup_files` do. With several files, only fio's
//! `file_service_type=roundrobin` is accepted: files take turns, and each has its own position or
//! map. fio's other orders are refused.

use durio_workload::{FileChoice, FileOrder};

use super::targets::{Existing, FILES_MAX, ImportTargets, SpotClaim, TargetsOf, target_paths};
use super::{ImportNotes, or, place_or};
use crate::job_file::{
    FileService, FileServiceOrder, FioEngine, SizeValue, SourcePosition, TargetOptions,
};

/// The order in which a job uses its files.
// fio opens the first `openfiles` files, and another when one of them is done.
pub(super) fn file_order(options: &TargetOptions) -> FileOrder {
    let open_max = or(&options.open_files, 0);
    let Some(service) = options.file_service.as_ref().map(|given| &given.value) else {
        return FileOrder { open_max, ..FileOrder::EACH_IN_TURN };
    };
    match service.order {
        FileServiceOrder::Random => {
            FileOrder { choice: FileChoice::Random, run: service.accesses, open_max }
        }
        FileServiceOrder::RoundRobin | FileServiceOrder::Skewed(_) => {
            FileOrder { choice: FileChoice::InTurn, run: service.accesses, open_max }
        }
        FileServiceOrder::Sequential => {
            FileOrder { choice: FileChoice::InTurn, run: u32::MAX, open_max }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyExtent {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Bytes that one pass moves.
    pub(super) volume: u64,
}

impl CopyExtent {
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Extents<'o> {
    pub(super) target: &'o TargetOptions,
    /// At least one byte.
    pub(super) smallest_block: u64,
    /// How many files share a `size`.
    pub(super) files: u64,
    /// Accesses follow each other, all of one size: the last may go over the end of the region.
    pub(super) may_go_over: bool,
    pub(super) at: &'o SourcePosition,
}

/// Why a copy has no extent: the option, and a sentence about it.
type ExtentFault = (&'static str, String);

fn wrong<T>(option: &'static str, reason: &str) -> Result<T, ExtentFault> {
    Err((option, reason.to_owned()))
}

impl Extents<'_> {
    /// The extent of copy `copy`, in each of its files.
    pub(super) fn of(
        &self,
        copy: u32,
        existing: Existing,
        said: &mut ImportNotes,
    ) -> Option<CopyExtent> {
        let found = self.find(copy, existing);
        found.map_err(|(option, reason)| said.refuse_at(self.place(option), option, &reason)).ok()
    }

    fn place(&self, option: &str) -> &SourcePosition {
        let target = self.target;
        match option {
            "offset" => place_or(&target.offset, self.at),
            "offset_increment" => place_or(&target.offset_increment, self.at),
            "io_size" => place_or(&target.io_size, self.at),
            "filesize" => place_or(&target.file_bytes, self.at),
            _ => place_or(&target.size, self.at),
        }
    }

    fn find(&self, copy: u32, there: Existing) -> Result<CopyExtent, ExtentFault> {
        let existing = there.size;
        let offset = self.offset(copy, existing)?;
        let length = self.length(offset, existing)?;
        let Some(end) = offset.checked_add(length) else {
            return wrong("size", "the region ends beyond the largest possible file");
        };
        if !there.grows && existing.is_some_and(|existing| end > existing) {
            let existing = existing.unwrap_or(0);
            let reason = format!(
                "the region ends at {end} bytes, but the file has {existing}; fio would extend \
                 it, durio does not: give a smaller size, or name a file that does not exist"
            );
            return wrong("size", &reason);
        }
        if length == 0 {
            return wrong("size", "the region is empty");
        }
        Ok(CopyExtent { offset, length, volume: self.volume(length)? })
    }

    /// Bytes of a value; percents are of the existing size.
    fn bytes(
        &self,
        option: &'static str,
        value: SizeValue,
        existing: Option<u64>,
    ) -> Result<u64, ExtentFault> {
        match value {
            SizeValue::Bytes(bytes) => Ok(bytes),
            SizeValue::Percent(percent) => match existing {
                Some(whole) => Ok(percent_of(whole, percent)),
                None => wrong(option, "percent of a file that does not exist yet; give bytes"),
            },
            SizeValue::Zones(_) => wrong(option, "durio does not count zones; give bytes"),
        }
    }

    fn offset(&self, copy: u32, existing: Option<u64>) -> Result<u64, ExtentFault> {
        let TargetOptions { offset, offset_increment, offset_align_bytes, .. } = self.target;
        let none = SizeValue::Bytes(0);
        let (start, step) = (or(offset, none), or(offset_increment, none));
        let is_percent = [start, step].iter().any(|size| matches!(size, SizeValue::Percent(1..)));
        let start = self.bytes("offset", start, existing)?;
        let step = self.bytes("offset_increment", step, existing)?;
        // fio aligns an offset in percent alone (get_start_offset in its filesetup.c).
        let align = if is_percent { or(offset_align_bytes, self.smallest_block).max(1) } else { 1 };
        let offset = step.checked_mul(u64::from(copy)).and_then(|sum| sum.checked_add(start));
        match offset.and_then(|offset| offset.checked_next_multiple_of(align)) {
            Some(offset) => Ok(offset),
            None => wrong("offset", "beyond the end of any file"),
        }
    }

    fn length(&self, offset: u64, existing: Option<u64>) -> Result<u64, ExtentFault> {
        if let Some(file) = &self.target.file_bytes {
            return self.file_length(file.value, offset);
        }
        let rest = |existing: u64| match existing.checked_sub(offset) {
            Some(rest) => Ok(rest),
            None => wrong("offset", "it is beyond the end of what exists"),
        };
        match or(&self.target.size, SizeValue::Bytes(0)) {
            // fio takes both ends of the scale for all that there is.
            SizeValue::Bytes(0) | SizeValue::Percent(0 | 100) => match existing {
                Some(existing) => rest(existing),
                None => wrong("size", "a file that does not exist needs its size in bytes"),
            },
            SizeValue::Percent(percent) => {
                let part = self.bytes("size", SizeValue::Percent(percent), existing)?;
                let part = part.min(rest(existing.unwrap_or(0))?);
                Ok(part - part % self.smallest_block)
            }
            value => self.share(self.bytes("size", value, existing)?, offset, existing),
        }
    }

    /// The share of each file, rounded down to whole blocks; plus the rest of the last block where
    /// the file continues and blocks follow each other.
    fn share(&self, bytes: u64, offset: u64, existing: Option<u64>) -> Result<u64, ExtentFault> {
        if self.files == 1 {
            let over = bytes.checked_next_multiple_of(self.smallest_block).unwrap_or(bytes);
            let has_room = existing.is_some_and(|existing| existing >= offset.saturating_add(over));
            return Ok(if self.may_go_over && has_room { over } else { bytes });
        }
        let share = bytes / self.files;
        let (rest, block) = (bytes - share * self.files, self.smallest_block);
        if rest >= block {
            return wrong(
                "size",
                "fio makes the first files longer; give a multiple of the number of files",
            );
        }
        let whole = share - share % block;
        // fio lets the last block exceed the share where the file continues.
        if whole < share && existing.is_some_and(|existing| existing > offset.saturating_add(whole))
        {
            let over = whole.saturating_add(block);
            let has_room = existing.is_some_and(|existing| existing >= offset.saturating_add(over));
            return match self.may_go_over && has_room {
                true => Ok(over),
                false => wrong(
                    "size",
                    "it is not a whole number of blocks per file, and the files are longer",
                ),
            };
        }
        Ok(whole)
    }

    fn file_length(&self, (least, most): (u64, u64), offset: u64) -> Result<u64, ExtentFault> {
        if least != most {
            return wrong("filesize", "durio makes files of one size; give one size");
        }
        match most.checked_sub(offset) {
            Some(length) => Ok(length),
            None => {
                wrong("filesize", "the file ends before the offset of a copy; give a larger one")
            }
        }
    }

    /// What one pass moves: `io_size`, or else `size`, or else all of the region.
    fn volume(&self, length: u64) -> Result<u64, ExtentFault> {
        if let Some(io_size) = &self.target.io_size {
            return match io_size.value {
                SizeValue::Bytes(0) => Ok(length),
                SizeValue::Bytes(bytes) if !bytes.is_multiple_of(self.smallest_block) => {
                    wrong("io_size", "give a multiple of the block size")
                }
                SizeValue::Bytes(bytes) => Ok(bytes),
                SizeValue::Percent(percent) => Ok(percent_of(length, percent)),
                SizeValue::Zones(_) => wrong("io_size", "durio does not count zones"),
            };
        }
        match (self.target.size.as_ref().map(|given| given.value), &self.target.file_bytes) {
            // Where filesize says how large a file is, size says how much of it is moved.
            (Some(SizeValue::Bytes(bytes)), Some(_)) if bytes > 0 => Ok(bytes.min(length)),
            (Some(SizeValue::Percent(_)), Some(_)) => wrong("size", "with filesize give bytes"),
            // A sum over several files, which fio does not round.
            (Some(SizeValue::Bytes(bytes)), None) if self.files > 1 => {
                Ok(length.max(bytes / self.files))
            }
            // With its rest of the last block the region is longer.
            (Some(SizeValue::Bytes(bytes)), None) if bytes > 0 => Ok(bytes.min(length)),
            _ => Ok(length),
        }
    }
}

fn percent_of(whole: u64, percent: u8) -> u64 {
    let part = u128::from(whole) * u128::from(percent.min(100)) / 100;
    u64::try_from(part).unwrap_or(whole)
}

impl TargetsOf<'_> {
    pub(super) fn files_each(
        &self,
        options: &TargetOptions,
        said: &mut ImportNotes,
    ) -> Option<u64> {
        let files = &options.files;
        let each = match &options.filenames {
            // fio takes no more files than there are names.
            Some(names) => {
                let count = names.value.len();
                let is_all = |files: &u32| *files as usize >= count;
                let reason = "fio uses the first names or all, by the order of options; name only \
                              the files to use";
                said.refuse_unless(files, is_all, reason);
                u32::try_from(count).unwrap_or(u32::MAX)
            }
            None => or(files, 1),
        };
        if each.saturating_mul(self.job.copies) > FILES_MAX {
            let reason = format!("durio uses at most {FILES_MAX} files in a job");
            said.refuse_at(place_or(files, &self.job.at), "nrfiles", &reason);
            return None;
        }
        if each > 1 {
            self.check_turns(each, options, said);
        }
        Some(each.into())
    }

    /// The targets of a copy, and the region in each of them.
    pub(super) fn files_of(
        &self,
        copy: u32,
        (extents, claim): (&Extents<'_>, &SpotClaim<'_>),
        targets: &mut ImportTargets<'_>,
        said: &mut ImportNotes,
    ) -> Option<(Vec<usize>, CopyExtent)> {
        let (mut indices, mut common) = (Vec::new(), None);
        for spot in target_paths(self.job, copy, &|path| targets.is_device(path)) {
            let index = targets.claim(spot, claim, said)?;
            let extent = extents.of(copy, targets.existing(index), said)?;
            // At once, as a later file of this job may be the same one.
            targets.reach(index, extent.end(), claim, said);
            if indices.contains(&index) || common.is_some_and(|common| common != extent) {
                let reason = "the files of a job are different files of one size; give size, or \
                              write a section for each file";
                said.refuse_at(claim.at, "filename", reason);
                return None;
            }
            common = Some(extent);
            indices.push(index);
        }
        Some((indices, common?))
    }

    /// Refuses options with which fio does not access each file in turn.
    fn check_turns(&self, each: u32, options: &TargetOptions, said: &mut ImportNotes) {
        let is_even = |service: &FileService| !matches!(service.order, FileServiceOrder::Skewed(_));
        let reason = "durio uses all files equally; give random, roundrobin or sequential";
        said.refuse_unless(&options.file_service, is_even, reason);
        let order = file_order(options);
        let ends_files = order.run > 1 || (1..each).contains(&order.open_max);
        if ends_files && (options.io_size.is_some() || options.accesses.is_some()) {
            let reason = "when a file is done depends on the order of files; leave out io_size and \
                          number_ios, or use files in turn (file_service_type=roundrobin:1)";
            said.refuse_at(&self.job.at, "file_service_type", reason);
        }
        self.check_amounts(options, said);
        let at = &self.job.at;
        if self.workload.run_length > 1 || self.workload.hole.get() > 0 {
            let reason = "durio has no runs or holes with several files";
            said.refuse_at(at, "rw", reason);
        }
        if !self.sizes.is_single() {
            let reason = "durio needs one block size with several files";
            said.refuse_at(at, "bs", reason);
        }
        if self.workload.writes() && self.workload.sync.method.is_separate_call() {
            let reason = "fio syncs the file whose turn is next, not the one that it wrote to; \
                          write a section for each file, or use sync=dsync";
            said.refuse_at(at, self.workload.sync.method.name(), reason);
        }
        let reason = "the C library does accesses of several files at the same time; use libaio or \
                      io_uring";
        let engine = &self.job.options.queue.engine;
        said.refuse_unless(engine, |engine| *engine != FioEngine::Posixaio, reason);
    }

    fn check_amounts(&self, options: &TargetOptions, said: &mut ImportNotes) {
        let is_whole = |value: &SizeValue| !matches!(value, SizeValue::Percent(1..=99));
        let reason = "with several files give bytes";
        said.refuse_unless(&options.size, is_whole, reason);
        said.refuse_unless(&options.offset, is_whole, reason);
        let reason = "with several files size says what is read and written";
        let none = SizeValue::Bytes(0);
        said.refuse_unless(&options.io_size, |value| *value == none, reason);
        said.refuse_unless(&options.accesses, |accesses| *accesses == 0, reason);
        let has_size = or(&options.size, none) != none;
        let reason = "with several files give one of size and filesize";
        said.refuse_unless(&options.file_bytes, |_| !has_size, reason);
    }
}
