//! The sync method of a load as its engine, the kernel and the targets allow it.
//!
//! If the planned method of a load in effect is not possible on its targets, another one replaces
//! it, with a sentence that says so. Engines and caches are in `effective`.

use durio_block::{BlockError, OpenMode, WriteFlags, probe_range_sync, probe_write_flags};
use durio_plan::EngineKind;
use durio_workload::SyncMethod;

use super::effective_load::EffectiveLoad;
use crate::error::RunError;
use crate::layout::PreparedTarget;

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

#[cfg(test)]
mod tests {
    use std::io::{Error, pipe};

    use durio_block::ErrorKind;
    use durio_plan::Load;
    use durio_workload::{PerMille, SyncPolicy, Workload};
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
                let (kind, operation, path) = (ErrorKind::Unsupported, "planted", None);
                adapt_to_answer(&mut effective, Err(BlockError { kind, operation, path, source }));
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
}
