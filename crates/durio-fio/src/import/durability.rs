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
    pub(super) direct: bool,
}

/// Reads the policy; refuses two methods at once.
pub(super) fn sync_policy(
    options: &DurabilityOptions,
    writing: Writing,
    at: &Place,
    said: &mut Said,
) -> SyncPolicy {
    let DurabilityOptions {
        open,
        fsync_every,
        fdatasync_every,
        fsync_at_end,
        fsync_on_close,
        fsync_after_layout,
    } = options;
    if let Some(given) = fsync_after_layout.as_ref().filter(|given| !given.value) {
        said.note("create_fsync", given, "durio syncs every file that it lays out");
    }
    if !writing.writes {
        return read_only(fsync_every.as_ref().or(fdatasync_every.as_ref()), said);
    }
    for (option, given) in [("end_fsync", fsync_at_end), ("fsync_on_close", fsync_on_close)] {
        at_end(option, given.as_ref(), writing, said);
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
    policy
}

fn read_only(given: Option<&Given<u32>>, said: &mut Said) -> SyncPolicy {
    if let Some(given) = given.filter(|given| given.value > 0) {
        said.note("fsync", given, "a job that only reads syncs nothing");
    }
    SyncPolicy::NONE
}

fn at_end(option: &str, given: Option<&Given<bool>>, writing: Writing, said: &mut Said) {
    let Some(given) = given.filter(|given| given.value) else { return };
    if writing.direct {
        let what = "fio's runtime holds one more sync at its end, which durio does not do";
        said.note(option, given, what);
    } else {
        let reason = "fio's rate of a buffered writer holds the time of this sync, durio's would \
                      not; give fsync=N or fdatasync=N, or direct=1";
        said.refuse(option, given, reason);
    }
}

fn separate_calls(policy: SyncPolicy, writing: Writing, at: &Place, said: &mut Said) {
    if !policy.method.is_separate_call() {
        return;
    }
    let option = policy.method.name();
    said.note_at(at, option, "durio also syncs after the last write, which fio leaves out");
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
