//! Writes stamped data by a durable path, and announces and acknowledges the writes to the witness.
//!
//! Takes an engine, a schedule and a witness; runs until a time or an error.
//!
//! A write is acknowledged when the call that makes it durable has returned, and no earlier: the
//! write itself where that is durable, else a sync that began after the write had returned. The verifier
//! reads stamps with separate code.

use std::collections::VecDeque;
use std::ops::Range;

use durio_base::Nanos;
use durio_block::{Clock, Completion, Engine, Operation, OperationKind, Ticks, WriteFlags};
use durio_plan::proof::DurablePath;
use durio_simdisk::SECTOR;

use crate::error::ProveError;
use crate::layout::{CELL, CELL_SECTORS, Schedule};
use crate::ledger::{Intent, Witness};
use crate::stamp::{LABEL_SEQ, MAGIC, Stamp, StampOwner, VERSION, checksum, fill_words, place};

/// Writes between two waits for the witness.
const STEP: usize = 32;

#[derive(Debug, Clone, Copy)]
enum WriterSlot {
    Idle,
    Writing(Intent),
    Syncing(Intent),
}

/// A writer over an engine, which has a buffer of one write for each operation in flight, and one more
/// for controls.
#[derive(Debug)]
pub struct Writer<'a, E: Engine + ?Sized, W: Witness> {
    engine: &'a mut E,
    witness: &'a mut W,
    owner: StampOwner,
    path: DurablePath,
    depth: u32,
    schedule: Schedule,
    acknowledgements_left: u64,
    announced: VecDeque<Intent>,
    slots: Vec<WriterSlot>,
    operations: Vec<Operation>,
    completions: Vec<Completion>,
}

impl<'a, E: Engine + ?Sized, W: Witness> Writer<'a, E, W> {
    /// A writer that keeps `depth` operations in flight.
    pub fn new(
        (engine, witness): (&'a mut E, &'a mut W),
        owner: StampOwner,
        path: DurablePath,
        depth: u32,
        schedule: Schedule,
    ) -> Self {
        let slots = depth as usize + 1;
        Self {
            engine,
            witness,
            owner,
            path,
            depth,
            schedule,
            acknowledgements_left: 0,
            announced: VecDeque::with_capacity(W::AHEAD),
            slots: vec![WriterSlot::Idle; slots],
            operations: Vec::with_capacity(slots),
            completions: vec![Completion::default(); slots],
        }
    }

    #[must_use]
    pub fn engine(&self) -> &E {
        self.engine
    }

    /// Writes until this time or number of acknowledgements. Some unacknowledged operations may be
    /// in flight then.
    ///
    /// # Errors
    /// The first failure. No operation is retried: after a failed sync the durable state is
    /// unknown.
    pub fn run(&mut self, until: Ticks, acknowledgements_max: u64) -> Result<(), ProveError> {
        self.acknowledgements_left = acknowledgements_max;
        loop {
            self.announce()?;
            self.fill_slots();
            let count =
                self.engine.exchange_until(&self.operations, &mut self.completions, until)?;
            self.operations.clear();
            if count == 0 && self.engine.clock().now() >= until {
                return Ok(());
            }
            for at in 0..count {
                self.completed(self.completions[at])?;
            }
            if self.acknowledgements_left == 0 {
                return Ok(());
            }
        }
    }

    /// The first number for a later writer.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.schedule.next_seq()
    }

    fn announce(&mut self) -> Result<(), ProveError> {
        if self.announced.len() > W::AHEAD - STEP {
            return Ok(());
        }
        let known = self.announced.len();
        self.announced.extend(self.schedule.by_ref().take(W::AHEAD - known));
        let new = &self.announced.make_contiguous()[known..];
        self.witness.intend(new)
    }

    fn fill_slots(&mut self) {
        for slot in 0..self.depth {
            if matches!(self.slots[slot as usize], WriterSlot::Idle) {
                self.write_controls();
                // In order: a write that waits for another of its cell is waited for by all.
                let Some(&intent) = self.announced.front() else { return };
                if self.is_in_flight(&intent) {
                    return;
                }
                self.announced.pop_front();
                self.write(slot, intent);
                // Together with it, so that a cut at any moment before its sync finds one.
                self.write_controls();
            }
        }
    }

    /// Writes the controls that come next; if one is in flight, the others are skipped.
    fn write_controls(&mut self) {
        while let Some(intent) = self.announced.front().copied().filter(|intent| intent.is_control)
        {
            self.announced.pop_front();
            if matches!(self.slots[self.depth as usize], WriterSlot::Idle)
                && !self.is_in_flight(&intent)
            {
                self.write(self.depth, intent);
            }
        }
    }

    fn is_in_flight(&self, intent: &Intent) -> bool {
        let end = |intent: &Intent| intent.sector + u64::from(intent.sectors);
        self.slots.iter().any(|slot| match slot {
            WriterSlot::Writing(other) | WriterSlot::Syncing(other) => {
                other.sector < end(intent) && intent.sector < end(other)
            }
            WriterSlot::Idle => false,
        })
    }

    fn write(&mut self, slot: u32, intent: Intent) {
        let length = usize::from(intent.sectors) * SECTOR;
        let into = &mut self.engine.slot_mut(slot)[..length];
        seal_write(self.owner, intent.seq, intent.sector, into);
        let flags = if intent.is_control { WriteFlags::None } else { flags_of(self.path) };
        let offset = intent.sector * SECTOR as u64;
        let operation =
            Operation { flags, ..operation(OperationKind::Write, slot, offset, length) };
        self.operations.push(operation);
        self.slots[slot as usize] = WriterSlot::Writing(intent);
    }

    fn completed(&mut self, completion: Completion) -> Result<(), ProveError> {
        let slot = completion.slot as usize;
        let state = std::mem::replace(&mut self.slots[slot], WriterSlot::Idle);
        match state {
            WriterSlot::Writing(intent) => {
                let length = usize::from(intent.sectors) * SECTOR;
                check(intent.seq, completion.result, length)?;
                match sync_of(self.path) {
                    _ if intent.is_control => self.witness.control_done(intent.seq),
                    Some(kind) => {
                        self.operations.push(operation(kind, completion.slot, 0, 0));
                        self.slots[slot] = WriterSlot::Syncing(intent);
                        Ok(())
                    }
                    None => self.acknowledge(intent, &completion),
                }
            }
            WriterSlot::Syncing(intent) => {
                check(intent.seq, completion.result, 0)?;
                self.acknowledge(intent, &completion)
            }
            WriterSlot::Idle => unreachable!("a completion for slot {slot}, which is idle"),
        }
    }

    fn acknowledge(&mut self, intent: Intent, completion: &Completion) -> Result<(), ProveError> {
        self.acknowledgements_left = self.acknowledgements_left.saturating_sub(1);
        let at = Nanos::new(self.engine.clock().nanos(completion.completed_at.0));
        self.witness.acknowledge(intent.seq, at)
    }
}

/// Writes the label, stamps these cells with write 0, and makes them durable.
///
/// # Errors
/// The first failure.
pub fn prepare<E: Engine + ?Sized>(
    engine: &mut E,
    owner: StampOwner,
    path: DurablePath,
    cells: Range<u64>,
) -> Result<(), ProveError> {
    // First: stamps without a label cannot be attributed to a target.
    seal_write(owner, LABEL_SEQ, 0, &mut engine.slot_mut(0)[..CELL]);
    one(
        engine,
        Operation { flags: flags_of(path), ..operation(OperationKind::Write, 0, 0, CELL) },
    )?;
    let room = engine.slot_mut(0).len();
    let step = (room / CELL) as u64;
    let mut cell = cells.start;
    while cell < cells.end {
        let count = step.min(cells.end - cell);
        let length = usize::try_from(count).unwrap_or(usize::MAX) * CELL;
        let into = &mut engine.slot_mut(0)[..length];
        for (bytes, cell) in into.chunks_mut(CELL).zip(cell..) {
            seal_write(owner, 0, cell * CELL_SECTORS, bytes);
        }
        let write = operation(OperationKind::Write, 0, cell * CELL as u64, length);
        one(engine, Operation { flags: flags_of(path), ..write })?;
        cell += count;
    }
    match sync_of(path) {
        Some(kind) => one(engine, operation(kind, 0, 0, 0)),
        None => Ok(()),
    }
}

/// One operation by itself.
fn one<E: Engine + ?Sized>(engine: &mut E, operation: Operation) -> Result<(), ProveError> {
    let mut completions = [Completion::default()];
    let mut count = engine.exchange(&[operation], &mut completions)?;
    while count == 0 {
        count = engine.exchange(&[], &mut completions)?;
    }
    let length = usize::try_from(operation.length).unwrap_or(usize::MAX);
    check(0, completions[0].result, length)
}

fn check(seq: u64, result: i32, length: usize) -> Result<(), ProveError> {
    match usize::try_from(result) {
        Ok(moved) if moved == length => Ok(()),
        // A device accepts less only if it has no more room.
        Ok(_) => Err(ProveError::Write { seq, errno: libc::ENOSPC }),
        Err(_) => Err(ProveError::Write { seq, errno: -result }),
    }
}

fn operation(kind: OperationKind, slot: u32, offset: u64, length: usize) -> Operation {
    Operation {
        kind,
        flags: WriteFlags::None,
        link: false,
        file: 0,
        slot,
        length: length as u64,
        offset,
        intended_start: Ticks(0),
    }
}

fn sync_of(path: DurablePath) -> Option<OperationKind> {
    match path {
        DurablePath::Fsync => Some(OperationKind::Fsync),
        DurablePath::Fdatasync => Some(OperationKind::Fdatasync),
        DurablePath::RwfDsync | DurablePath::ODsync => None,
    }
}

fn flags_of(path: DurablePath) -> WriteFlags {
    if path == DurablePath::RwfDsync { WriteFlags::Dsync } else { WriteFlags::None }
}

/// Fills `into` with the stamps of the write `seq` that begins at `sector`.
///
/// # Panics
/// If `into` is not a whole number of sectors, or has more than 65535.
pub fn seal_write(owner: StampOwner, seq: u64, sector: u64, into: &mut [u8]) {
    let (sectors, rest) = into.as_chunks_mut::<SECTOR>();
    assert!(rest.is_empty(), "a write has whole sectors");
    let count = u16::try_from(sectors.len()).expect("a write has at most 65535 sectors");
    for (index, bytes) in (0..count).zip(sectors) {
        let sector = sector + u64::from(index);
        seal(&Stamp { owner, sector, seq, index, count }, bytes);
    }
}

pub fn seal(stamp: &Stamp, into: &mut [u8; SECTOR]) {
    let mut put = |place: std::ops::Range<usize>, bytes: &[u8]| into[place].copy_from_slice(bytes);
    put(place::MAGIC, &MAGIC);
    put(place::VERSION, &VERSION.to_le_bytes());
    put(place::SECTOR_BYTES, &512_u16.to_le_bytes());
    put(place::INDEX, &stamp.index.to_le_bytes());
    put(place::COUNT, &stamp.count.to_le_bytes());
    put(place::RUN, &stamp.owner.run);
    put(place::TARGET, &stamp.owner.target.to_le_bytes());
    put(place::SECTOR, &stamp.sector.to_le_bytes());
    put(place::SEQ, &stamp.seq.to_le_bytes());
    let (words, _) = into[place::FILL].as_chunks_mut::<8>();
    for (bytes, word) in words.iter_mut().zip(fill_words(stamp)) {
        *bytes = word;
    }
    let sum = checksum(into).to_le_bytes();
    into[place::CHECKSUM].copy_from_slice(&sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_that_is_not_whole_is_a_failed_write_with_its_number() {
        let failed = |result, length| match check(7, result, length) {
            Ok(()) => None,
            Err(ProveError::Write { seq, errno }) => Some((seq, errno)),
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!([failed(4096, 4096), failed(0, 0)], [None; 2]);
        for moved in [0, 512, 4095, 4097] {
            assert_eq!(failed(moved, 4096), Some((7, 28)), "{moved}: no room");
        }
        assert_eq!([failed(-5, 4096), failed(-5, 0)], [Some((7, 5)); 2]);
        assert_eq!(failed(-28, 4096), Some((7, 28)));
    }

    #[test]
    fn each_path_has_its_sync_or_its_flag() {
        let of = |path| (sync_of(path), flags_of(path));
        assert_eq!(of(DurablePath::Fsync), (Some(OperationKind::Fsync), WriteFlags::None));
        assert_eq!(of(DurablePath::Fdatasync), (Some(OperationKind::Fdatasync), WriteFlags::None));
        assert_eq!(of(DurablePath::RwfDsync), (None, WriteFlags::Dsync));
        // The file is open so.
        assert_eq!(of(DurablePath::ODsync), (None, WriteFlags::None));
    }
}
