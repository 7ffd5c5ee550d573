//! How writes are made durable, and after how many of them.
//!
//! [`SyncMethod`] and [`SyncPolicy`] are plain data that is saved with every result. The calls are
//! in `durio-block`, their order in `durio-run`.

use durio_base::OperationKind;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::DefinitionError;

/// How a write is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncMethod {
    /// Not at all: the writes are not durable.
    None,
    /// fsync(2) after the write.
    Fsync,
    /// fdatasync(2) after the write.
    Fdatasync,
    /// File opened with O_DSYNC.
    ODsync,
    /// File opened with O_SYNC.
    OSync,
    /// RWF_DSYNC on each write.
    RwfDsync,
    /// RWF_SYNC on each write.
    RwfSync,
    /// sync_file_range(2) of the written range, waited for, and then fdatasync(2). The first call
    /// alone writes no metadata and flushes no cache (its manual says so), hence the second.
    #[serde(rename = "sync_file_range")]
    FileRange,
    /// io_uring: the write and an fsync are submitted together; the fsync is linked to the write
    /// and starts in the kernel when that has succeeded.
    LinkedFsync,
    /// As `LinkedFsync`, with fdatasync.
    LinkedFdatasync,
}

impl SyncMethod {
    /// Every method, in the order in which help texts list them.
    pub const ALL: [Self; 10] = [
        Self::None,
        Self::Fsync,
        Self::Fdatasync,
        Self::ODsync,
        Self::OSync,
        Self::RwfDsync,
        Self::RwfSync,
        Self::FileRange,
        Self::LinkedFsync,
        Self::LinkedFdatasync,
    ];

    /// The name that users write and read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::ODsync => "o_dsync",
            Self::OSync => "o_sync",
            Self::RwfDsync => "rwf_dsync",
            Self::RwfSync => "rwf_sync",
            Self::FileRange => "sync_file_range",
            Self::LinkedFsync => "linked_fsync",
            Self::LinkedFdatasync => "linked_fdatasync",
        }
    }

    /// True if the method is one or two separate calls after the write is complete: then their time
    /// is a separate latency.
    pub const fn is_separate_call(self) -> bool {
        matches!(self, Self::Fsync | Self::Fdatasync | Self::FileRange)
    }

    /// True if the sync is submitted together with its write, and starts in the kernel: that moment
    /// is not visible, so it has no separate latency, and there is one for each commit.
    pub const fn is_linked(self) -> bool {
        self.linked_sync().is_some()
    }

    /// The sync that is linked to each write, if one is.
    pub const fn linked_sync(self) -> Option<OperationKind> {
        match self {
            Self::LinkedFsync => Some(OperationKind::Fsync),
            Self::LinkedFdatasync => Some(OperationKind::Fdatasync),
            _ => None,
        }
    }

    /// True if durability comes of a sync, separate or linked, that asks the storage to flush; the
    /// others ask for it in the write, which can reach the storage as a write past its cache (FUA).
    pub const fn is_sync_call(self) -> bool {
        self.is_separate_call() || self.is_linked()
    }

    /// The call after the write if nothing is linked: methods that do not link stay the same.
    #[must_use]
    pub const fn unlinked(self) -> Self {
        match self {
            Self::LinkedFsync => Self::Fsync,
            Self::LinkedFdatasync => Self::Fdatasync,
            other => other,
        }
    }

    /// The name of what a sync's latency is the latency of.
    pub const fn call_name(self) -> &'static str {
        match self {
            Self::FileRange => "sync_file_range + fdatasync",
            other => other.unlinked().name(),
        }
    }
}

impl fmt::Display for SyncMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The sync method and after how many writes of a job it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncPolicy {
    pub method: SyncMethod,
    /// After every this many writes; at least 1. Only fsync and fdatasync know more than 1.
    pub every: u32,
}

// A linked sync has a place in the ring in addition to its write's, and a ring has 32 768 of them
// (IORING_MAX_ENTRIES in the kernel's io_uring.c).
const LINKED_DEPTH_MAX: u32 = 16_384;

impl SyncPolicy {
    /// No write is made durable.
    pub const NONE: Self = Self { method: SyncMethod::None, every: 1 };

    /// Every write is made durable by `method`.
    pub const fn each(method: SyncMethod) -> Self {
        Self { method, every: 1 }
    }

    /// Checks the bounds, for writes of which `depth` are in flight.
    ///
    /// # Errors
    /// The first violated bound, as a sentence.
    pub fn validate(&self, depth: u32) -> Result<(), DefinitionError> {
        let fail = |text: String| Err(DefinitionError(text));
        if self.every == 0 {
            return fail("sync every 0 writes is meaningless; use --sync none".to_owned());
        }
        // A sync of the file covers all writes before; a flag of a write, a range or a link covers
        // that write.
        let covers_many = matches!(self.method, SyncMethod::Fsync | SyncMethod::Fdatasync);
        if self.every > 1 && !covers_many {
            return fail(format!("{} applies to every write, not every N", self.method));
        }
        if self.method.is_linked() && depth > LINKED_DEPTH_MAX {
            return fail(format!(
                "with {} the depth must be 1 to {LINKED_DEPTH_MAX}, not {depth}",
                self.method
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_written_as_it_is_named() {
        for method in SyncMethod::ALL {
            let text = serde_json::to_string(&method).unwrap();
            assert_eq!(text.trim_matches('"'), method.name());
            assert_eq!(serde_json::from_str::<SyncMethod>(&text).unwrap(), method);
        }
    }

    #[test]
    fn only_a_call_that_covers_many_writes_comes_after_many() {
        for method in SyncMethod::ALL {
            SyncPolicy::each(method).validate(1).unwrap();
            let covers = matches!(method, SyncMethod::Fsync | SyncMethod::Fdatasync);
            assert_eq!(SyncPolicy { method, every: 2 }.validate(1).is_ok(), covers, "{method}");
        }
    }

    #[test]
    fn a_linked_sync_takes_a_second_place_of_the_ring() {
        let linked = SyncPolicy::each(SyncMethod::LinkedFsync);
        linked.validate(16_384).unwrap();
        linked.validate(16_385).unwrap_err();
        SyncPolicy::each(SyncMethod::Fsync).validate(32_768).unwrap();
    }

    #[test]
    fn each_way_to_sync_is_one_of_three() {
        for method in SyncMethod::ALL {
            let ways = [method.is_separate_call(), method.is_linked(), !method.is_sync_call()];
            assert_eq!(ways.iter().filter(|&&way| way).count(), 1, "{method}");
            assert!(!method.unlinked().is_linked());
        }
    }

    #[test]
    fn a_linked_method_is_the_call_that_it_links() {
        assert_eq!(SyncMethod::LinkedFsync.unlinked(), SyncMethod::Fsync);
        assert_eq!(SyncMethod::LinkedFdatasync.unlinked(), SyncMethod::Fdatasync);
        assert_eq!(SyncMethod::ODsync.unlinked(), SyncMethod::ODsync);
        assert_eq!(SyncMethod::LinkedFsync.linked_sync(), Some(OperationKind::Fsync));
        assert_eq!(SyncMethod::LinkedFdatasync.linked_sync(), Some(OperationKind::Fdatasync));
        assert_eq!(SyncMethod::Fsync.linked_sync(), None);
        let names = SyncMethod::ALL.map(SyncMethod::call_name);
        let calls = ["none", "fsync", "fdatasync", "o_dsync", "o_sync", "rwf_dsync", "rwf_sync"];
        assert_eq!(names[..7], calls);
        assert_eq!(names[7..], ["sync_file_range + fdatasync", "fsync", "fdatasync"]);
        assert_eq!(format!("{:>8}|", SyncMethod::Fsync), "   fsync|");
        let error = SyncPolicy { method: SyncMethod::Fsync, every: 0 }.validate(1).unwrap_err();
        assert!(error.0.contains("every 0 writes"), "{error}");
    }
}
