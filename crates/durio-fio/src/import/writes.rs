//! What is written, and how it is made durable.
//!
//! In: [`DataOptions`], [`DurabilityOptions`]. Out: contents, how they change from write to write, and
//! how many repeat, as fio means it; [`SyncPolicy`]. Not here: the contents of files that are laid out,
//! and where syncs are measured.

use durio_workload::{Contents, PerMille, Renewal, SyncMethod, SyncPolicy, Workload};

use super::said::Said;
use crate::job_file::{DataOptions, DurabilityOptions, Given, Place, SyncOpen};

/// durio spreads zeros over units of this size.
const UNIT: u64 = 4096;

/// Sets what `workload` writes; one that only reads writes nothing.
pub(super) fn set_data(options: &DataOptions, workload: &mut Workload, said: &mut Said) {
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
    let is_on = |given: &Option<Given<bool>>| given.as_ref().map(|given| given.value);
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
        _ if is_on(zeros) == Some(true) => Contents::Compressible { zeros: PerMille::ALL },
        (_, Some(given)) => Contents::Compressible { zeros: per_mille(given) },
        (_, None) => Contents::Incompressible,
    };
    // A pattern and zeros are never changed; a share of zeros or of duplicates implies
    // refill_buffers (fio's HOWTO, buffer_compress_percentage and dedupe_percentage).
    workload.renewal = match is_on(refill) {
        _ if !workload.contents.is_random() => Renewal::Never,
        _ if percent.is_some() || duplicates.is_some() => Renewal::EachWrite,
        Some(true) => Renewal::EachWrite,
        _ if is_on(scramble) == Some(false) => Renewal::Never,
        _ => Renewal::Scrambled,
    };
    if let (Some(given), true) = (duplicates, workload.has_new_blocks()) {
        workload.duplicates = per_mille(given);
    }
}

fn per_mille(percent: &Given<u8>) -> PerMille {
    PerMille(u16::from(percent.value.min(100)) * 10)
}

/// What the policy depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) depth: u32,
    /// The engine's syncs hold up the job.
    pub(super) blocks: bool,
    /// Passes over the region may be several, each of which fio ends.
    pub(super) has_passes: bool,
}

/// How writes are made durable, and whether once more at the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Syncs {
    pub(super) policy: SyncPolicy,
    pub(super) at_end: bool,
    pub(super) block: bool,
}

/// Reads the policy; refuses two methods at once.
pub(super) fn sync_policy(
    options: &DurabilityOptions,
    writing: Writing,
    at: &Place,
    said: &mut Said,
) -> Syncs {
    let DurabilityOptions { open, fsync_every, fdatasync_every, fsync_at_end, fsync_on_close } =
        options;
    if !writing.writes {
        let policy = read_only(fsync_every.as_ref().or(fdatasync_every.as_ref()), said);
        return Syncs { policy, at_end: false, block: false };
    }
    let method = |open: &Given<SyncOpen>| match open.value {
        SyncOpen::None => None,
        SyncOpen::Sync => Some(SyncPolicy::each(SyncMethod::OSync)),
        SyncOpen::Dsync => Some(SyncPolicy::each(SyncMethod::ODsync)),
    };
    let every = |given: &Option<Given<u32>>, method| {
        let every = given.as_ref()?.value;
        (every > 0).then_some(SyncPolicy { method, every })
    };
    let policies = [
        open.as_ref().and_then(method),
        every(fsync_every, SyncMethod::Fsync),
        every(fdatasync_every, SyncMethod::Fdatasync),
    ];
    let mut policies = policies.into_iter().flatten();
    let policy = policies.next().unwrap_or(SyncPolicy::NONE);
    let last = fdatasync_every.as_ref().or(fsync_every.as_ref());
    let at = last.map_or(at, |given| &given.at);
    if policies.next().is_some() {
        let reason = "durio uses one way to make writes durable: one of fsync, fdatasync, sync";
        said.refuse_at(at, "fsync", reason);
    }
    separate_calls(policy, writing, at, said);
    let wants_last = [fsync_at_end, fsync_on_close]
        .into_iter()
        .filter(|given| at_end(given.as_ref(), writing, said))
        .count();
    // With a sync after each write, the last write has its own.
    let is_covered = policy.method.is_separate_call() && policy.every == 1;
    let block = writing.blocks && policy.method.is_separate_call() && writing.depth > 1;
    Syncs { policy, at_end: wants_last > 0 && !is_covered, block }
}

fn read_only(given: Option<&Given<u32>>, said: &mut Said) -> SyncPolicy {
    if let Some(given) = given.filter(|given| given.value > 0) {
        said.note(given, "a job that only reads syncs nothing");
    }
    SyncPolicy::NONE
}

fn at_end(given: Option<&Given<bool>>, writing: Writing, said: &mut Said) -> bool {
    let Some(given) = given.filter(|given| given.value) else { return false };
    if writing.has_passes {
        let reason = "fio syncs at the end of each of several passes over the file, durio once at \
                      the end of all; write one pass";
        said.refuse(given, reason);
    }
    true
}

fn separate_calls(policy: SyncPolicy, writing: Writing, at: &Place, said: &mut Said) {
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
