//! A target of the prover that is a folder: each cell is a file, and a write replaces it.
//!
//! The folder belongs to the prover alone; this is the engine over it.
//!
//! ```text
//!  write of a cell:   new ◄── data ──► sync, by the arm's path ──► rename to the cell ──► sync the folder
//!  write of a control: the cell's file, in place, past the page cache, and no sync
//! ```
//!
//! New files are written through the page cache, as programs write them; reads bypass it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::layout::CELL;
use durio_block::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine, EngineFacts, MonotonicClock,
    Operation, OperationKind, Ticks, wait_until,
};
use durio_plan::proof::DurablePath;
use rustix::fs::{Mode, OFlags, fdatasync, fsync, openat, renameat, syncfs};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};

/// The file that replaces another, until it does.
const NEW: &str = "new";

/// The effect of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FolderWrites {
    /// It makes the cell's file, which a later fsync makes durable with all others.
    Make,
    /// It replaces the cell's file, and is durable when it returns.
    Replace {
        /// What makes the new file durable.
        path: DurablePath,
        /// Whether the folder is synced, without which the new name may be lost.
        syncs_folder: bool,
        controls: Range<u64>,
    },
}

/// An engine that does one operation at a time, of one cell each.
#[derive(Debug)]
pub(crate) struct FolderEngine {
    clock: MonotonicClock,
    folder: OwnedFd,
    writes: FolderWrites,
    buffers: Buffers,
    done: VecDeque<Completion>,
}

impl FolderEngine {
    /// An engine over a folder that exists; buffers have one cell.
    pub(crate) fn open(
        folder: &Path,
        writes: FolderWrites,
        buffers: Buffers,
    ) -> Result<Self, BlockError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            rustix::fs::open(folder, flags, Mode::empty()).map_err(|errno| BlockError {
                kind: durio_block::ErrorKind::Io,
                operation: "open",
                path: Some(folder.to_owned()),
                source: errno.into(),
            })?;
        Ok(Self { clock: MonotonicClock, folder, writes, buffers, done: VecDeque::new() })
    }

    fn perform(&mut self, operation: &Operation) -> Result<usize, Errno> {
        let cell = operation.offset / CELL as u64;
        match (operation.kind, &self.writes) {
            (OperationKind::Read, _) => self.read(operation.slot, cell),
            (OperationKind::Write, FolderWrites::Make) => self.make(operation.slot, cell),
            (OperationKind::Write, FolderWrites::Replace { controls, .. })
                if controls.contains(&cell) =>
            {
                self.overwrite(operation.slot, cell)
            }
            (OperationKind::Write, &FolderWrites::Replace { path, syncs_folder, .. }) => {
                self.replace(operation.slot, cell, path)?;
                if syncs_folder {
                    fsync(&self.folder)?;
                }
                Ok(CELL)
            }
            (OperationKind::Fsync, FolderWrites::Make) => syncfs(&self.folder).map(|()| 0),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// No byte without a file; the missing end of a cell is zeros, as in a hole.
    fn read(&mut self, slot: u32, cell: u64) -> Result<usize, Errno> {
        let file = match self.file(&name(cell), OFlags::RDONLY | OFlags::DIRECT) {
            Err(Errno::NOENT) => return Ok(0),
            file => file?,
        };
        let data = self.buffers.slot_mut(slot as usize);
        let count = pread(file, &mut *data, 0)?;
        data[count..].fill(0);
        Ok(if count == 0 { 0 } else { CELL })
    }

    fn make(&mut self, slot: u32, cell: u64) -> Result<usize, Errno> {
        let file = self.file(&name(cell), OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        pwrite(file, self.buffers.slot_mut(slot as usize), 0)
    }

    fn overwrite(&mut self, slot: u32, cell: u64) -> Result<usize, Errno> {
        let file = self.file(&name(cell), OFlags::WRONLY | OFlags::DIRECT)?;
        pwrite(file, self.buffers.slot_mut(slot as usize), 0)
    }

    fn replace(&mut self, slot: u32, cell: u64, path: DurablePath) -> Result<(), Errno> {
        let sync = if path == DurablePath::ODsync { OFlags::DSYNC } else { OFlags::empty() };
        // A cut may have left one.
        let file = self.file(NEW, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | sync)?;
        let data = &*self.buffers.slot_mut(slot as usize);
        let flags = match path {
            DurablePath::RwfDsync => ReadWriteFlags::DSYNC,
            _ => ReadWriteFlags::empty(),
        };
        if pwritev2(&file, &[IoSlice::new(data)], 0, flags)? < CELL {
            return Err(Errno::NOSPC);
        }
        match path {
            DurablePath::Fsync => fsync(&file)?,
            DurablePath::Fdatasync => fdatasync(&file)?,
            DurablePath::RwfDsync | DurablePath::ODsync => {}
        }
        renameat(&self.folder, NEW, &self.folder, name(cell))
    }

    fn file(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(self.folder.as_fd(), name, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
    }
}

fn name(cell: u64) -> String {
    format!("cell-{cell}")
}

impl Engine for FolderEngine {
    type Clock = MonotonicClock;

    fn clock(&self) -> &MonotonicClock {
        &self.clock
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { asynchronous: false, write_flags: false, range_syncs: false, links: false }
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts::default()
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        self.buffers.slot_mut(slot as usize)
    }

    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        for operation in operations {
            let result = match self.perform(operation) {
                Ok(count) => i32::try_from(count).unwrap_or(i32::MAX),
                Err(errno) => -errno.raw_os_error(),
            };
            let now = self.clock.now();
            let slot = operation.slot;
            self.done.push_back(Completion { slot, result, submitted_at: now, completed_at: now });
        }
        let count = self.done.len().min(completions.len());
        for (completion, done) in completions.iter_mut().zip(self.done.drain(..count)) {
            *completion = done;
        }
        Ok(count)
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        let count = self.exchange(operations, completions)?;
        if count == 0 {
            wait_until(&self.clock, deadline);
        }
        Ok(count)
    }
}
