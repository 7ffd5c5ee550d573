//! Requests to a disk, and counts of past requests.

/// A request. Places are sectors of 512 bytes, lengths are multiples of it.
#[derive(Debug, Clone, Copy)]
pub enum DiskRequest<'a> {
    /// Read as many bytes as the buffer at the end has.
    Read { sector: u64 },
    Write {
        sector: u64,
        data: &'a [u8],
        /// Durable before it ends.
        fua: bool,
    },
    /// Write zeros, or discard, after which the sectors read as zeros.
    Zero {
        sector: u64,
        sectors: u64,
        /// Durable before it ends.
        fua: bool,
    },
    /// Make completed writes durable.
    Flush,
}

/// Which leg of a mirror answers a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leg {
    /// Any, as the mirror likes.
    #[default]
    Any,
    First,
    Second,
}

/// Counters since the disk was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    pub reads: u64,
    /// All writes, including those with FUA and those of zeros.
    pub writes: u64,
    pub fua_writes: u64,
    pub flushes: u64,
    pub cuts: u64,
    /// Bytes in the volatile cache now.
    pub volatile_bytes: u64,
}
