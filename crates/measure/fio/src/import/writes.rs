//! The contents of writes, and how they are made durable.
//!
//! [`DataOptions`] give contents, how they change from write to write, and how many repeat, as fio
//! means it; [`DurabilityOptions`] give the [`SyncPolicy`]. The contents of laid-out files are set
//! elsewhere.

use durio_workload::{Contents, PerMille, Renewal, SyncMethod, SyncPolicy, Workload};

use super::{ImportNotes, or};
use crate::job_file::{
    DataOptions, DurabilityOptions, GivenOption, GivenValue, SourcePosition, SyncOpen,
};

// durio spreads zeros over units of this size.
const UNIT: u64 = 4096;

/// Sets the data that `workload` writes; a read-only workload writes none.
pub(super) fn set_data(options: &DataOptions, workload: &mut Workload, said: &mut ImportNotes) {
    let DataOptions {
        compressible_percent,
        compress_chunk_bytes,
        refill,
        zeros,
        scramble,
        duplicate_percent,
        pattern,
    } = options;
    if !workload.writes() {
        return;
    }
    let percent = compressible_percent.as_ref().filter(|given| given.value > 0);
    let duplicates = duplicate_percent.as_ref().filter(|given| given.value > 0);
    if let (Some(given), Some(_)) = (percent, pattern) {
        let reason = "durio's compressible blocks end in zeros, not in a buffer_pattern";
        return said.refuse(given, reason);
    }
    if let Some(given) = percent
        && compress_chunk_bytes.as_ref().is_none_or(|it| it.value != UNIT)
    {
        let what = format!("durio keeps the share of zeros in each {UNIT} bytes");
        said.note(given, &what);
    }
    workload.contents = match (pattern, percent) {
        (Some(pattern), _) => Contents::Pattern { bytes: pattern.value.clone() },
        _ if or(zeros, false) => Contents::Compressible { zeros: PerMille::ALL },
        (_, Some(given)) => Contents::Compressible { zeros: per_mille(given) },
        (_, None) => Contents::Incompressible,
    };
    // A pattern and zeros are never changed; a share of duplicates sets refill_buffers, a share of
    // zeros does so where it is not given (fixup_options in fio's init.c).
    let is_refilled = duplicates.is_some() || or(refill, percent.is_some());
    workload.renewal = match workload.contents.is_random() {
        false => Renewal::Never,
        true if is_refilled => Renewal::EachWrite,
        true if or(scramble, true) => Renewal::Scrambled,
        true => Renewal::Never,
    };
    if let (Some(given), true) = (duplicates, workload.has_new_blocks()) {
        workload.duplicates = per_mille(given);
    }
}

fn per_mille(percent: &GivenValue<u8>) -> PerMille {
    PerMille(u16::from(percent.value.min(100)) * 10)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) depth: u32,
    /// The engine's syncs hold up the job.
    pub(super) blocks: bool,
    /// Its writes are memory accesses, not calls.
    pub(super) is_mapped: bool,
    /// Passes over the region may be several, each of which fio ends.
    pub(super) has_passes: bool,
}

/// Sets how `workload` makes its writes durable; refuses two methods at once. True if a sync holds up
/// its job.
pub(super) fn set_syncs(
    options: &DurabilityOptions,
    writing: Writing,
    (workload, at): (&mut Workload, &SourcePosition),
    said: &mut ImportNotes,
) -> bool {
    let DurabilityOptions { open, fsync_every, fdatasync_every, fsync_at_end, fsync_on_close } =
        options;
    if !writing.writes {
        let given = fsync_every.as_ref().or(fdatasync_every.as_ref());
        if let Some(given) = given.filter(|given| given.value > 0) {
            said.note(given, "a job that only reads syncs nothing");
        }
        return false;
    }
    if writing.is_mapped {
        let reason = "it has no effect on mapped files, in fio as well; use fsync=1 or fdatasync=1";
        said.refuse_unless(open, |open| *open == SyncOpen::None, reason);
    }
    let every = |given: &GivenOption<u32>, method| SyncPolicy { method, every: or(given, 0) };
    let policies = [
        match or(open, SyncOpen::None) {
            SyncOpen::None => SyncPolicy::NONE,
            SyncOpen::Sync => SyncPolicy::each(SyncMethod::OSync),
            SyncOpen::Dsync => SyncPolicy::each(SyncMethod::ODsync),
        },
        every(fsync_every, SyncMethod::Fsync),
        every(fdatasync_every, SyncMethod::Fdatasync),
    ];
    let mut policies = policies.into_iter().filter(|it| *it != SyncPolicy::NONE && it.every > 0);
    let policy = policies.next().unwrap_or(SyncPolicy::NONE);
    let last = fdatasync_every.as_ref().or(fsync_every.as_ref());
    let at = last.map_or(at, |given| &given.at);
    if policies.next().is_some() {
        let reason = "durio uses one way to make writes durable: one of fsync, fdatasync, sync";
        said.refuse_at(at, "fsync", reason);
    }
    separate_calls(policy, writing, at, said);
    let at_end = [fsync_at_end, fsync_on_close].map(|given| at_end(given, writing, said));
    let is_call = policy.method.is_separate_call();
    // With a sync after each write, the last write has its own.
    workload.syncs_at_end = at_end.contains(&true) && !(is_call && policy.every == 1);
    workload.sync = policy;
    writing.blocks && is_call && writing.depth > 1
}

fn at_end(given: &GivenOption<bool>, writing: Writing, said: &mut ImportNotes) -> bool {
    if writing.has_passes {
        let reason = "fio syncs at the end of each of several passes over the file, durio once at \
                      the end of all; write one pass";
        said.refuse_unless(given, |on| !on, reason);
    }
    or(given, false)
}

fn separate_calls(
    policy: SyncPolicy,
    writing: Writing,
    at: &SourcePosition,
    said: &mut ImportNotes,
) {
    if !policy.method.is_separate_call() {
        return;
    }
    let option = policy.method.name();
    said.note_at(at, option, "durio also syncs after the last write, which fio leaves out");
    if writing.depth > 1 && writing.blocks {
        let what = "the job waits in each sync and submits nothing meanwhile, as in fio before 3.41; \
                    later ones keep syncs in flight";
        said.note_at(at, option, what);
    }
    if writing.depth > 1 {
        let what = "durio syncs when the write that the sync covers is complete; fio does not wait \
                    for writes in flight";
        said.note_at(at, option, what);
    }
    if writing.reads {
        let what = "durio syncs after writes alone; older fio (3.33, for one) syncs again after \
                    reads";
        said.note_at(at, option, what);
    }
}
