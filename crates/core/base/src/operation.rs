//! The kinds of operations on a file or device.

/// What an operation does, as workloads ask for it and engines do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    Read,
    Write,
    Fsync,
    Fdatasync,
    /// Return the range to the preallocated state (fallocate, FALLOC_FL_ZERO_RANGE).
    Reallocate,
    /// sync_file_range of the range, waited for (WAIT_BEFORE, WRITE and WAIT_AFTER): its pages are
    /// handed to the device and taken by it. No metadata, no flush.
    SyncFileRange,
}

impl OperationKind {
    /// True if data moves between a buffer and the target.
    #[inline]
    pub const fn is_transfer(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}
