//! The files of one job: one, or several that are accessed in turn.
//!
//! In: the options of files. Out: the targets of each copy and its region in them, as fio has them
//! with `file_service_type=roundrobin`: an access of each file, each with a place or a map of its own.
//! What fio does otherwise with several files is refused. Not here: where files are.

use super::extent::{Extent, ExtentOptions};
use super::place::{FILES_MAX, spots};
use super::said::Said;
use super::section::TargetsOf;
use super::targets::{Claim, Targets};
use crate::job_file::{Engine, FileServiceOrder, Given, SizeValue, TargetOptions};

impl TargetsOf<'_> {
    /// How many files each copy works on.
    pub(super) fn files_each(&self, options: &TargetOptions, said: &mut Said) -> Option<u64> {
        let files = options.files.as_ref();
        let each = match &options.filenames {
            // fio takes no more files than there are names.
            Some(names) => {
                let count = names.value.len();
                let is_all = |files: &u32| *files as usize >= count;
                let reason = "fio would use the first names or all, as the options follow each \
                              other; name those that are used";
                said.refuse_unless(files, is_all, reason);
                u32::try_from(count).unwrap_or(u32::MAX)
            }
            None => files.map_or(1, |given| given.value),
        };
        if each.saturating_mul(self.job.copies) > FILES_MAX {
            let reason = format!("durio uses at most {FILES_MAX} files in a job");
            said.refuse_at(files.map_or(&self.job.at, |it| &it.at), "nrfiles", &reason);
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
        (extents, claim): (&ExtentOptions<'_>, &Claim<'_>),
        targets: &mut Targets<'_>,
        said: &mut Said,
    ) -> Option<(Vec<usize>, Extent)> {
        let (mut indices, mut common) = (Vec::new(), None);
        for spot in spots(self.job, copy, targets.facts) {
            let index = targets.claim(spot, claim, said)?;
            let extent = extents.of(copy, targets.existing(index), said)?;
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

    /// Refuses what fio does otherwise than an access of each file in turn.
    fn check_turns(&self, each: u32, options: &TargetOptions, said: &mut Said) {
        let service = options.file_service.as_ref();
        let in_turn = "durio uses several files in turn, an access each";
        let is_turn = |order: &FileServiceOrder| *order == FileServiceOrder::RoundRobin;
        let is_plain = |it: &crate::job_file::FileService| is_turn(&it.order) && it.accesses == 1;
        said.refuse_unless(service, is_plain, in_turn);
        let open = options.open_files.as_ref();
        let all_open = "durio has all files of a job open at the same time";
        said.refuse_unless(open, |open| *open == 0 || *open >= each, all_open);
        self.check_amounts(options, said);
        let at = &self.job.at;
        if self.workload.run_length > 1 || self.workload.hole.get() > 0 {
            let reason = "with several files durio has neither runs nor holes";
            said.refuse_at(at, "rw", reason);
        }
        if !self.sizes.is_single() {
            let reason = "with several files durio has blocks of one size";
            said.refuse_at(at, "bs", reason);
        }
        if self.workload.writes() && self.workload.sync.method.is_separate_call() {
            let reason = "fio does not sync the file that it wrote to but the one whose turn is \
                          next; write a section for each file, or use sync=dsync";
            said.refuse_at(at, self.workload.sync.method.name(), reason);
        }
        let engine = self.job.options.queue.engine.as_ref();
        let reason = "the C library does accesses of several files at the same time; use libaio or \
                      io_uring";
        said.refuse_unless(engine, |engine| *engine != Engine::Posixaio, reason);
    }

    fn check_amounts(&self, options: &TargetOptions, said: &mut Said) {
        let is_whole = |value: &SizeValue| !matches!(value, SizeValue::Percent(1..=99));
        let reason = "with several files give bytes";
        said.refuse_unless(options.size.as_ref(), is_whole, reason);
        said.refuse_unless(options.offset.as_ref(), is_whole, reason);
        let reason = "with several files size says what is read and written";
        let is_none = |value: &SizeValue| *value == SizeValue::Bytes(0);
        said.refuse_unless(options.io_size.as_ref(), is_none, reason);
        said.refuse_unless(options.accesses.as_ref(), |it| *it == 0, reason);
        let both = options.file_bytes.as_ref().filter(|_| has_bytes(options.size.as_ref()));
        let reason = "with several files give one of size and filesize";
        said.refuse_unless(both, |_| false, reason);
    }
}

fn has_bytes(size: Option<&Given<SizeValue>>) -> bool {
    size.is_some_and(|given| given.value != SizeValue::Bytes(0))
}
