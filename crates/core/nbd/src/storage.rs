//! What a server needs from a storage.
//!
//! A storage gets the requests of a connection that arrived together in one batch; they are within
//! the export and allowed. It returns outcomes and data.

/// The exported device. The server asks once for each connection, at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags of the protocol")]
pub struct Export {
    /// The name that clients request; at most 4096 bytes. An empty name selects it too.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Offsets and lengths are multiples of this: a power of two up to 65536.
    pub block_size_min: u32,
    /// The efficient unit of reads and writes: a power of two, at least 512.
    pub block_size_preferred: u32,
    /// Bytes of data of a request; the server accepts at most [`PAYLOAD_MAX`] in any case.
    pub block_size_max: u32,
    /// There is a volatile cache, and flushes are carried out. Without this, clients send none:
    /// every answered write must be durable.
    pub flush: bool,
    /// FUA is supported: such a write is durable before its answer.
    pub fua: bool,
    /// [`Command::Trim`] is carried out.
    pub trim: bool,
    /// [`Command::WriteZeroes`] is supported.
    pub write_zeroes: bool,
    /// A flush or a durable write on one connection covers writes answered on all connections.
    pub multi_conn: bool,
    /// Seeking takes time.
    pub rotational: bool,
    /// Writes are refused.
    pub read_only: bool,
}

/// The most bytes of data in a request: the size that, by the protocol, every server should accept.
pub const PAYLOAD_MAX: u32 = 32 << 20;

/// The longest name of an export, by the protocol.
pub(crate) const NAME_MAX: usize = 4096;

impl Export {
    /// An export that can do everything, in blocks of any size, on which flushes are sent.
    #[must_use]
    pub fn new(name: impl Into<String>, size: u64) -> Self {
        Self {
            name: name.into(),
            size,
            block_size_min: 1,
            block_size_preferred: 4096,
            block_size_max: PAYLOAD_MAX,
            flush: true,
            fua: true,
            trim: true,
            write_zeroes: true,
            multi_conn: true,
            rotational: false,
            read_only: false,
        }
    }

    /// Bytes of data that a request may have.
    pub(crate) fn payload_max(&self) -> u32 {
        self.block_size_max.min(PAYLOAD_MAX)
    }

    /// # Panics
    /// If the protocol does not permit the sizes: a programmer's error.
    pub(crate) fn assert_valid(&self) {
        let (min, preferred) = (self.block_size_min, self.block_size_preferred);
        assert!(min.is_power_of_two() && min <= 1 << 16, "minimum block size {min}");
        let fits = preferred >= min.max(512) && preferred <= self.payload_max();
        assert!(preferred.is_power_of_two() && fits, "preferred block size {preferred}");
        assert!(self.name.len() <= NAME_MAX, "a name of {} bytes", self.name.len());
    }
}

/// The served storage; all connections share it.
pub trait Storage: Send + Sync {
    /// The exported device, as a client sees it.
    fn export(&self) -> Export;

    /// Begins a client's requests.
    fn connect(&self) -> Box<dyn Connection + '_>;
}

/// One client's connection. Dropped when the client is gone.
pub trait Connection: Send {
    /// Carries out all requests of a batch and sets each one's outcome.
    ///
    /// The requests arrived together and are unanswered: any order will do, and a flush covers all
    /// requests answered before the batch. All are within the export, aligned to its minimum, not
    /// empty, and of kinds that it has.
    fn carry_out(&mut self, batch: &mut [Request<'_>]);

    /// The extents of the range, from its offset on; they may be shorter or longer than it.
    fn extents(&mut self, offset: u64, length: u64) -> Vec<Extent> {
        let _ = offset;
        vec![Extent { length, hole: false, zero: false }]
    }
}

/// One request and its outcome.
#[derive(Debug)]
pub struct Request<'a> {
    /// The requested operation.
    pub command: Command<'a>,
    /// The answer. An input/output error until it is set.
    pub outcome: Result<(), Refusal>,
}

/// The requested operation.
#[derive(Debug)]
pub enum Command<'a> {
    /// Fill all of `into`, whose contents are undefined.
    Read {
        /// The first byte.
        offset: u64,
        /// The place for the data.
        into: &'a mut [u8],
    },
    /// Store the data.
    Write {
        /// The first byte.
        offset: u64,
        /// The data to store.
        data: &'a [u8],
        /// It is durable before the answer.
        fua: bool,
    },
    /// Everything answered before becomes durable before this is answered.
    Flush,
    /// The range is not needed any more.
    Trim {
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// It is durable before the answer.
        fua: bool,
    },
    /// The range reads as zeros.
    WriteZeroes {
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// It is durable before the answer.
        fua: bool,
        /// The range keeps its place: later writes to it cannot run out of space.
        no_hole: bool,
    },
}

/// Why a request was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// EPERM: not permitted.
    Permission,
    /// EIO: the storage failed.
    Io,
    /// ENOMEM: no memory.
    Memory,
    /// EINVAL: not a request that makes sense.
    Invalid,
    /// ENOSPC: no space.
    NoSpace,
    /// EOVERFLOW: too long.
    TooLong,
    /// ENOTSUP: not supported.
    Unsupported,
    /// ESHUTDOWN: the server is ending.
    Shutdown,
    /// The power is cut: the connection is closed, and the batch gets no answers.
    Gone,
}

/// A part of the export of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: u64,
    /// No place is allocated.
    pub hole: bool,
    /// It reads as zeros.
    pub zero: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_has_the_sizes_that_the_protocol_permits() {
        let is_valid = |min, preferred, max, name: usize| {
            let sizes = Export {
                block_size_min: min,
                block_size_preferred: preferred,
                block_size_max: max,
                ..Export::new("x".repeat(name), 1 << 20)
            };
            std::panic::catch_unwind(|| sizes.assert_valid()).is_ok()
        };
        let most = u32::MAX;
        assert_eq!([is_valid(1, 512, 512, 4096), is_valid(1, 512, 512, 4097)], [true, false]);
        assert_eq!(
            [is_valid(65_536, 65_536, most, 0), is_valid(131_072, 131_072, most, 0)],
            [true, false]
        );
        assert_eq!([is_valid(1, 256, 4096, 0), is_valid(1, 1024, 512, 0)], [false; 2]);
        assert_eq!([is_valid(4096, 512, 4096, 0), is_valid(1, 768, 4096, 0)], [false; 2]);
        assert_eq!([is_valid(1, 32 << 20, most, 0), is_valid(1, 64 << 20, most, 0)], [true, false]);
    }
}
