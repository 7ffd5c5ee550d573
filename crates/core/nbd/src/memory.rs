//! A storage in memory: for tests and benches, and as the smallest example of a storage.
//!
//! It has no volatile cache, so a flush does nothing; trimmed ranges read as zero.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{Command, Connection, Export, Extent, Refusal, Request, Storage};

/// The granularity of extents in bytes.
const BLOCK: usize = 4096;

/// All zeros at first, lost with the process.
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
    fn an_answer_about_extents_is_of_1_mib_at_most_in_blocks_of_4_kib() {
        let storage = MemoryStorage::new(Export::new("", 3 << 20));
        let told = |length| {
            let extents = storage.connect().extents(4096, length);
            (extents.len(), extents.iter().map(|it| it.length).sum::<u64>())
        };
        assert_eq!(told(1 << 20), (256, 1_048_576));
        assert_eq!(told((1 << 20) + 1), (256, 1_048_576));
        assert_eq!(told(6000), (2, 6000));
    }
}
