//! Which part of its file a copy touches, and how much it moves.
//!
//! In: [`TargetOptions`], the size of what exists. Out: an [`Extent`] per copy, as fio's
//! `get_start_offset` and `setup_files` reckon it. Not here: where files are.

use super::said::{Said, or};
use crate::job_file::{Given, Place, SizeValue, TargetOptions};

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Bytes that one pass moves.
    pub(super) volume: u64,
}

impl Extent {
    /// The end.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// What is at the spot before the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Existing {
    /// Its bytes; none for what is still to be made, and for the null devices.
    pub(super) size: Option<u64>,
    /// True if it may become larger, for durio makes it.
    pub(super) grows: bool,
}

/// The options of extents, and the smallest block.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExtentOptions<'o> {
    target: &'o TargetOptions,
    smallest_block: u64,
    /// How many files share a `size`.
    files: u64,
    at: &'o Place,
}

/// Why a copy has no extent.
struct Wrong<'o> {
    option: &'static str,
    at: &'o Place,
    reason: String,
}

impl<'o> ExtentOptions<'o> {
    pub(super) fn new(target: &'o TargetOptions, smallest_block: u64, at: &'o Place) -> Self {
        Self { target, smallest_block: smallest_block.max(1), files: 1, at }
    }

    /// The same with a `size` that is that of so many files together.
    pub(super) fn over(self, files: u64) -> Self {
        Self { files, ..self }
    }

    /// The extent of copy `copy`, in each of its files.
    pub(super) fn of(&self, copy: u32, existing: Existing, said: &mut Said) -> Option<Extent> {
        match self.find(copy, existing) {
            Ok(extent) => Some(extent),
            Err(Wrong { option, at, reason }) => {
                said.refuse_at(at, option, &reason);
                None
            }
        }
    }

    fn find(&self, copy: u32, there: Existing) -> Result<Extent, Wrong<'o>> {
        let existing = there.size;
        let offset = self.offset(copy, existing)?;
        let length = self.length(offset, existing)?;
        let end = offset.checked_add(length);
        let end = end.ok_or_else(|| self.wrong("size", "the region ends beyond any file"))?;
        if !there.grows && existing.is_some_and(|existing| end > existing) {
            let existing = existing.unwrap_or(0);
            let reason = format!(
                "the region ends at {end} bytes, and there are {existing}; fio would make the file \
                 longer, durio does not: give a smaller size, or name a file that is not there"
            );
            return Err(self.wrong("size", &reason));
        }
        if length == 0 {
            return Err(self.wrong("size", "the region is empty"));
        }
        Ok(Extent { offset, length, volume: self.volume(length)? })
    }

    fn wrong(&self, option: &'static str, reason: &str) -> Wrong<'o> {
        let target = self.target;
        let place = match option {
            "offset" => target.offset.as_ref().map(|given| &given.at),
            "offset_increment" => target.offset_increment.as_ref().map(|given| &given.at),
            "io_size" => target.io_size.as_ref().map(|given| &given.at),
            "filesize" => target.file_bytes.as_ref().map(|given| &given.at),
            _ => target.size.as_ref().map(|given| &given.at),
        };
        Wrong { option, at: place.unwrap_or(self.at), reason: reason.to_owned() }
    }

    /// Bytes of a value, percents of what exists.
    fn bytes(
        &self,
        option: &'static str,
        value: SizeValue,
        existing: Option<u64>,
    ) -> Result<u64, Wrong<'o>> {
        match value {
            SizeValue::Bytes(bytes) => Ok(bytes),
            SizeValue::Percent(percent) => {
                let whole = existing.ok_or_else(|| {
                    self.wrong(option, "percent of a file that is not there yet; give bytes")
                })?;
                Ok(percent_of(whole, percent))
            }
            SizeValue::Zones(_) => Err(self.wrong(option, "durio counts no zones; give bytes")),
        }
    }

    fn offset(&self, copy: u32, existing: Option<u64>) -> Result<u64, Wrong<'o>> {
        let TargetOptions { offset, offset_increment, offset_align_bytes, .. } = self.target;
        let value = |given: &Option<Given<SizeValue>>| or(given.as_ref(), SizeValue::Bytes(0));
        let (start, step) = (value(offset), value(offset_increment));
        let is_percent = [start, step].iter().any(|it| matches!(it, SizeValue::Percent(1..)));
        let start = self.bytes("offset", start, existing)?;
        let step = self.bytes("offset_increment", step, existing)?;
        let offset = step.checked_mul(u64::from(copy)).and_then(|sum| sum.checked_add(start));
        let offset = offset.ok_or_else(|| self.wrong("offset", "beyond the end of any file"))?;
        if !is_percent {
            return Ok(offset);
        }
        let align = or(offset_align_bytes.as_ref(), self.smallest_block).max(1);
        offset
            .checked_next_multiple_of(align)
            .ok_or_else(|| self.wrong("offset", "beyond the end of any file"))
    }

    fn length(&self, offset: u64, existing: Option<u64>) -> Result<u64, Wrong<'o>> {
        if let Some(file) = &self.target.file_bytes {
            return self.file_length(file.value, offset);
        }
        let rest = |existing: u64| existing.checked_sub(offset);
        let beyond = || self.wrong("offset", "it is beyond the end of what exists");
        match or(self.target.size.as_ref(), SizeValue::Bytes(0)) {
            SizeValue::Bytes(0) | SizeValue::Percent(0 | 100) => match existing {
                Some(existing) => rest(existing).ok_or_else(beyond),
                None => Err(self.wrong("size", "a file that is not there needs its size in bytes")),
            },
            SizeValue::Percent(percent) => {
                let part = self.bytes("size", SizeValue::Percent(percent), existing)?;
                let rest = rest(existing.unwrap_or(0)).ok_or_else(beyond)?;
                let part = part.min(rest);
                Ok(part - part % self.smallest_block)
            }
            value => self.share(self.bytes("size", value, existing)?),
        }
    }

    /// What of all files is in each.
    fn share(&self, bytes: u64) -> Result<u64, Wrong<'o>> {
        if self.files == 1 {
            return Ok(bytes);
        }
        let share = bytes / self.files;
        match share * self.files == bytes && share.is_multiple_of(self.smallest_block) {
            true => Ok(share),
            false => Err(self.wrong("size", "it is no whole number of blocks in each file")),
        }
    }

    fn file_length(&self, (least, most): (u64, u64), offset: u64) -> Result<u64, Wrong<'o>> {
        if least != most {
            return Err(self.wrong("filesize", "durio makes files of one size; give one size"));
        }
        most.checked_sub(offset).ok_or_else(|| {
            self.wrong("filesize", "the file ends before the offset of a copy; give a larger one")
        })
    }

    /// What one pass moves: `io_size`, or else `size`, or else all of the region.
    fn volume(&self, length: u64) -> Result<u64, Wrong<'o>> {
        if let Some(io_size) = &self.target.io_size {
            return match io_size.value {
                SizeValue::Bytes(0) => Ok(length),
                SizeValue::Bytes(bytes) if !bytes.is_multiple_of(self.smallest_block) => {
                    Err(self.wrong("io_size", "give a multiple of the block size"))
                }
                SizeValue::Bytes(bytes) => Ok(bytes),
                SizeValue::Percent(percent) => Ok(percent_of(length, percent)),
                SizeValue::Zones(_) => Err(self.wrong("io_size", "durio counts no zones")),
            };
        }
        match (self.target.size.as_ref().map(|given| given.value), &self.target.file_bytes) {
            (Some(SizeValue::Bytes(bytes)), Some(_)) if bytes > 0 => Ok(bytes.min(length)),
            (Some(SizeValue::Percent(_)), Some(_)) => {
                Err(self.wrong("size", "with filesize give bytes"))
            }
            _ => Ok(length),
        }
    }
}

fn percent_of(whole: u64, percent: u8) -> u64 {
    let part = u128::from(whole) * u128::from(percent.min(100)) / 100;
    u64::try_from(part).unwrap_or(whole)
}
