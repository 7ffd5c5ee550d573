//! What a server needs from a storage, and the smallest example: one in memory.
//!
//! A storage gets the requests of a connection that arrived together in one batch; they are within
//! the export and allowed. It returns outcomes and data.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The exported device. The server asks once for each connection, at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags of the protocol")]
pub struct Export {
    /// The name that clients request; at most 4096 bytes. An empty name selects it too.
    pub name: String,
    /// Bytes of the device.
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
    pub write_zeroes: bool,
    /// A flush or a durable write on one connection covers writes answered on all connections.
    pub multi_conn: bool,
    /// Seeking takes time, as on a disk that turns.
    pub rotational: bool,
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
    pub command: Command<'a>,
    /// The answer. An input/output error until it is set.
    pub outcome: Result<(), Refusal>,
}

#[derive(Debug)]
pub enum Command<'a> {
    /// Fill all of `into`, whose contents are undefined.
    Read {
        offset: u64,
        /// The place for the data.
        into: &'a mut [u8],
    },
    Write {
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
        offset: u64,
        length: u64,
        /// It is durable before the answer.
        fua: bool,
    },
    /// The range reads as zeros.
    WriteZeroes {
        offset: u64,
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
    /// EPERM: the client may not do this.
    Permission,
    /// EIO: the storage failed.
    Io,
    Memory,
    /// EINVAL: not a request that makes sense.
    Invalid,
    NoSpace,
    /// EOVERFLOW: longer than the storage takes.
    TooLong,
    /// ENOTSUP: the storage does not do this.
    Unsupported,
    /// ESHUTDOWN: the server is ending.
    Shutdown,
    /// The power is cut: the connection is closed, and the batch gets no answers.
    Gone,
}

/// A part of the export of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub length: u64,
    /// No place is allocated.
    pub hole: bool,
    /// It reads as zeros.
    pub zero: bool,
}

/// The granularity of extents in bytes.
const BLOCK: usize = 4096;

/// A storage in memory, for tests and benches: all zeros at first, lost with the process.
///
/// It has no volatile cache, so a flush does nothing; trimmed ranges read as zero.
#[derive(Debug)]
pub struct MemoryStorage {
    export: Export,
    bytes: RwLock<Vec<u8>>,
}

impl MemoryStorage {
    /// Zeros, as many as the export has.
    ///
    /// # Panics
    /// If the export is larger than the address space.
    #[must_use]
    pub fn new(export: Export) -> Self {
        let size = usize::try_from(export.size).expect("an export that fits into memory");
        Self { export, bytes: RwLock::new(vec![0; size]) }
    }

    /// Other contents; their length is the size of the export.
    #[must_use]
    pub fn with_contents(mut self, contents: Vec<u8>) -> Self {
        self.export.size = contents.len() as u64;
        self.bytes = RwLock::new(contents);
        self
    }

    /// A copy of the contents.
    #[must_use]
    pub fn contents(&self) -> Vec<u8> {
        self.read().clone()
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<u8>> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<u8>> {
        self.bytes.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&self, command: &mut Command<'_>) -> Result<(), Refusal> {
        match command {
            Command::Flush => {}
            Command::Read { offset, into } => {
                let bytes = self.read();
                into.copy_from_slice(part(&bytes, *offset, into.len())?);
            }
            Command::Write { offset, data, .. } => {
                part_mut(&mut self.write(), *offset, data.len())?.copy_from_slice(data);
            }
            Command::Trim { offset, length, .. } | Command::WriteZeroes { offset, length, .. } => {
                let length = usize::try_from(*length).map_err(|_| Refusal::Invalid)?;
                part_mut(&mut self.write(), *offset, length)?.fill(0);
            }
        }
        Ok(())
    }
}

fn part(bytes: &[u8], offset: u64, length: usize) -> Result<&[u8], Refusal> {
    let begin = usize::try_from(offset).map_err(|_| Refusal::Invalid)?;
    bytes.get(begin..).and_then(|rest| rest.get(..length)).ok_or(Refusal::Invalid)
}

fn part_mut(bytes: &mut [u8], offset: u64, length: usize) -> Result<&mut [u8], Refusal> {
    let begin = usize::try_from(offset).map_err(|_| Refusal::Invalid)?;
    bytes.get_mut(begin..).and_then(|rest| rest.get_mut(..length)).ok_or(Refusal::Invalid)
}

impl Storage for MemoryStorage {
    fn export(&self) -> Export {
        self.export.clone()
    }

    fn connect(&self) -> Box<dyn Connection + '_> {
        Box::new(MemoryConnection(self))
    }
}

struct MemoryConnection<'s>(&'s MemoryStorage);

impl Connection for MemoryConnection<'_> {
    fn carry_out(&mut self, batch: &mut [Request<'_>]) {
        for request in batch {
            request.outcome = self.0.carry_out(&mut request.command);
        }
    }

    /// Reports blocks of zeros in a piece of the range.
    fn extents(&mut self, offset: u64, length: u64) -> Vec<Extent> {
        /// Bytes inspected for one answer.
        const LOOKED_AT: u64 = 1 << 20;
        let bytes = self.0.read();
        let length = usize::try_from(length.min(LOOKED_AT)).unwrap_or(0);
        let Ok(range) = part(&bytes, offset, length) else { return Vec::new() };
        let extent = |block: &[u8]| {
            let zero = block.iter().all(|&byte| byte == 0);
            Extent { length: block.len() as u64, hole: zero, zero }
        };
        range.chunks(BLOCK).map(extent).collect()
    }
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

    #[test]
    fn an_answer_about_extents_is_of_1_mib_at_most_in_blocks_of_4_kib() {
        let storage = MemoryStorage::new(Export::new("", 3 << 20));
        let told = |length| {
            let extents = storage.connect().extents(4096, length);
            (extents.len(), extents.iter().map(|extent| extent.length).sum::<u64>())
        };
        assert_eq!(told(1 << 20), (256, 1_048_576));
        assert_eq!(told((1 << 20) + 1), (256, 1_048_576));
        assert_eq!(told(6000), (2, 6000));
    }
}
