//! How writes are made durable.
//!
//! In: [`DurabilityOptions`]. Out: [`SyncPolicy`]. Not here: where syncs are measured.

use durio_workload::{SyncMethod, SyncPolicy};

use super::said::Said;
use crate::job_file::{DurabilityOptions, Given, Place, SyncOpen};

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
