//! An array of simulated disks as an engine of durio-block, on a virtual clock.
//!
//! Takes operations as a target's user submits them, and completes them when the disks' pace and a
//! seed say so. The caller cuts the power.
//!
//! It takes the server's part (`server.rs`): it carries out the engine's operations and gives it
//! completions and the time. A user's write is durable when it ends, whatever its flags, and a sync
//! does nothing.

use durio_base::{Nanos, RaidLevel};
use durio_block::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine as BlockEngine, EngineFacts,
    Operation, OperationKind, Ticks, VirtualClock,
};
use durio_simdisk::{Chance, SharedDisk};

use super::{SimulatedMemory, SimulatedOp, find, make_blank, write_blocks};
use crate::geometry::{BLOCK, Geometry, SECTOR};
use crate::{
    ArrayRequest, AssembleError, AssembleOptions, Config, CreateError, Engine, EngineOutput, Fault,
    FoundDevice, Id, JoinAs, Member, MemberOpKind, MemberState, Newcomer, OpOutcome, RequestError,
    RequestKind, RoleStatus, Status, assemble, create, layout,
};

/// Small, so that an array of 1 MiB has regions of every kind at each moment.
const CHUNK: u32 = 16 << 10;
const REGION: u64 = 16 << 10;
/// Two or three writes of a disk: some regions become clean again before the power goes.
const CLEAR_AFTER: Nanos = Nanos::new(1_000_000);
const TICK: u64 = CLEAR_AFTER.get() / 2;
/// More than a resync and a rebuild of the largest array take.
const EVENTS_MAX: u64 = 100_000_000;

/// Writes a new array to disks with power, one for each member. Returns the bytes of the array.
pub fn create_array(disks: &[SharedDisk], level: RaidLevel) -> Result<u64, CreateError> {
    let sizes: Vec<u64> = disks.iter().map(|disk| disk.lock().size()).collect();
    let geometry = geometry_of(level, &sizes);
    let id = |number: usize| Id([1 + u8::try_from(number).unwrap_or(u8::MAX); 16]);
    let members: Vec<Member> = (0..)
        .zip(&sizes)
        .map(|(number, &device_bytes)| Member { id: id(number), device_bytes })
        .collect();
    let blocks = create(Id([0xda; 16]), "simulated", geometry, BLOCK, &members)?;
    for (disk, blocks) in disks.iter().zip(blocks) {
        write_blocks(&mut disk.lock(), blocks);
    }
    Ok(geometry.size())
}

/// The whole chunks that fit on the smallest disk next to the metadata.
fn geometry_of(level: RaidLevel, sizes: &[u64]) -> Geometry {
    let least = sizes.iter().copied().min().unwrap_or(0);
    let members = u8::try_from(sizes.len()).unwrap_or(u8::MAX);
    let chunk = u64::from(CHUNK);
    // Upper bound: the map for the whole disk is at least as large as that for the data.
    let of_disk = Geometry { level, members, chunk: CHUNK, region: REGION, member_bytes: least };
    let data_at = layout::data_at(&of_disk, BLOCK);
    let around = layout::device_bytes(&of_disk, data_at) - least;
    Geometry { member_bytes: least.saturating_sub(around) / chunk * chunk, ..of_disk }
}

/// How an array starts.
#[derive(Debug, Clone, Copy)]
pub struct ArrayStart {
    pub at: Ticks,
    /// Seed for the pace of its disks.
    pub seed: u64,
    /// The planted fault of the engine; ignored without the feature `simulate`.
    pub fault: Option<Fault>,
}

#[derive(Debug, Clone, Copy)]
struct PendingOp {
    due: Ticks,
    /// Its place in the starting order, which decides among those due at the same time.
    number: u64,
    flight: SimulatedOp,
}

/// An array that runs.
#[derive(Debug)]
pub struct ArrayEngine {
    disks: Vec<SharedDisk>,
    engine: Engine,
    out: EngineOutput,
    memory: SimulatedMemory,
    clock: VirtualClock,
    begin: Ticks,
    next_tick: Ticks,
    pending: Vec<PendingOp>,
    begun: u64,
    /// Operations in flight by slot, and when they were submitted.
    asked: Vec<Option<(Operation, Ticks)>>,
    done: Vec<Completion>,
    chance: Chance,
}

impl ArrayEngine {
    /// Assembles an array of all its disks, in order, and starts it. A disk without power is away;
    /// it is known to be lost forever, so the start is forced.
    pub fn start(
        disks: &[SharedDisk],
        start: ArrayStart,
        buffers: Buffers,
    ) -> Result<Self, AssembleError> {
        let ArrayStart { at, seed, fault } = start;
        let found = |(device, disk): (u8, &SharedDisk)| {
            let mut disk = disk.lock();
            let bytes = disk.size();
            find(&mut disk, device, bytes)
        };
        let found: Vec<FoundDevice> = (0..).zip(disks).filter_map(found).collect();
        let force = found.len() < disks.len();
        let plan = assemble(&found, AssembleOptions { force, rejoin: true, fault })?;
        let chunk = plan.table.geometry.chunk;
        let slots = buffers.count();
        // Twice as many as needed: with a planted fault a request is answered before it is done.
        let parts = 2 * slots * (buffers.slot_length() / chunk as usize + 2);
        let config = Config {
            requests_max: 2 * slots as u16,
            parts_max: parts as u16,
            clear_after: CLEAR_AFTER,
            alignment: SECTOR as u32,
            fault,
            ..Config::default()
        };
        let clock = VirtualClock::default();
        clock.advance_to(at);
        let mut out = EngineOutput::default();
        let engine = Engine::start(plan, &config, &mut out);
        let mut array = Self {
            disks: disks.to_vec(),
            engine,
            out,
            memory: SimulatedMemory::new(buffers, chunk),
            clock,
            begin: at,
            next_tick: at.plus(TICK),
            pending: Vec::new(),
            begun: 0,
            asked: vec![None; slots],
            done: Vec::new(),
            chance: Chance::new(seed),
        };
        array.take_output();
        Ok(array)
    }

    /// Bytes of the array.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.engine.size()
    }

    #[must_use]
    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// Runs this many events, whether or not a caller waits for them.
    pub fn pass(&mut self, events: u64) {
        for _ in 0..events {
            self.advance(Ticks::NEVER);
        }
    }

    /// Runs until copies are equal and nothing is left to do. False if that does not happen.
    pub fn settle(&mut self) -> bool {
        (0..EVENTS_MAX).any(|_| {
            let is_over = self.engine.is_idle();
            if !is_over {
                self.advance(Ticks::NEVER);
            }
            is_over
        })
    }

    /// Disks with power that stopped being members, because nothing identifies them, become new
    /// members in free places, as an operator would do.
    pub fn replace_lost(&mut self) {
        for device in 0..self.disks.len() as u8 {
            let roles = self.engine.status().roles;
            let is_free =
                |role: &RoleStatus| role.state == MemberState::Faulty && role.device.is_none();
            let Some(role) = roles.iter().position(is_free) else { return };
            let mut disk = self.disks[usize::from(device)].lock();
            let (bytes, is_used) =
                (disk.size(), roles.iter().any(|role| role.device == Some(device)));
            if is_used || find(&mut disk, device, bytes).is_some() || !make_blank(&mut disk) {
                continue;
            }
            let id = Id(std::array::from_fn(|_| self.chance.bits() as u8));
            let newcomer = Newcomer { device, device_bytes: disk.size(), id, found: None };
            drop(disk);
            // If it is refused, the array continues without it.
            let _ = self.engine.add(JoinAs::Member(role as u8), &newcomer, &mut self.out);
            self.take_output();
        }
    }

    /// Runs the next event, if it is due by `latest`: an operation ends, or the engine's time
    /// advances.
    fn advance(&mut self, latest: Ticks) -> bool {
        let order = |at: usize| (self.pending[at].due, self.pending[at].number);
        let next = (0..self.pending.len()).min_by_key(|&at| order(at));
        let next = next.filter(|&at| self.pending[at].due <= self.next_tick);
        let due = next.map_or(self.next_tick, |at| self.pending[at].due);
        if due > latest {
            return false;
        }
        self.clock.advance_to(due);
        match next {
            Some(at) => self.end(at),
            None => {
                self.next_tick = due.plus(TICK);
                self.engine.tick(Nanos::new(due.0 - self.begin.0), &mut self.out);
            }
        }
        self.take_output();
        true
    }

    fn end(&mut self, at: usize) {
        let PendingOp { flight, due, .. } = self.pending.swap_remove(at);
        let disk = &mut *self.disks[usize::from(flight.op.device)].lock();
        let outcome = flight.end(disk, Nanos::new(due.0), &mut self.memory);
        self.engine.completed(flight.op.tag, outcome, &mut self.out);
        if outcome == OpOutcome::Error {
            // Operations in flight to a given-up member must not write to reused memory.
            let roles = self.engine.status().roles;
            let is_used = |pending: &PendingOp| {
                roles.iter().any(|r| r.device == Some(pending.flight.op.device))
            };
            self.pending.retain(is_used);
        }
    }

    fn take_output(&mut self) {
        for sum in self.out.sums.drain(..) {
            self.memory.add(&sum);
        }
        for at in 0..self.out.ops.len() {
            let op = self.out.ops[at];
            let now = self.clock.now();
            let disk = &mut *self.disks[usize::from(op.device)].lock();
            let pace = disk.profile().pace;
            let pace = match op.kind {
                MemberOpKind::Read | MemberOpKind::Compare => pace.read,
                MemberOpKind::Write if disk.profile().declares_cache() => pace.durable,
                _ => pace.write,
            };
            let issued = Nanos::new(now.0);
            let mut flight = SimulatedOp {
                op,
                ticket: None,
                flushes: false,
                #[cfg(any(test, feature = "simulate"))]
                issued,
            };
            flight.begin(disk, issued, &self.engine, &self.memory);
            let jitter = self.chance.below(pace.get() / 2 + 1);
            let due = now.plus(pace.get() + jitter);
            self.pending.push(PendingOp { due, number: self.begun, flight });
            self.begun += 1;
        }
        self.out.ops.clear();
        for at in 0..self.out.answers.len() {
            let answer = self.out.answers[at];
            let result = answer.result.map_err(|_| libc::EIO);
            self.complete(answer.tag as usize, result);
        }
        self.out.answers.clear();
    }

    fn complete(&mut self, slot: usize, result: Result<(), i32>) {
        let Some((operation, submitted_at)) = self.asked[slot].take() else { return };
        let moved = if operation.kind.is_transfer() { operation.length } else { 0 };
        let result = match result {
            Ok(()) => i32::try_from(moved).unwrap_or(i32::MAX),
            Err(errno) => -errno,
        };
        let completed_at = self.clock.now();
        let slot = operation.slot;
        self.done.push(Completion { slot, result, submitted_at, completed_at });
    }

    fn submit(&mut self, operation: &Operation, is_cancelled: bool) {
        let slot = operation.slot as usize;
        assert!(self.asked[slot].is_none(), "slot {slot} is in flight");
        self.asked[slot] = Some((*operation, self.clock.now()));
        let kind = match operation.kind {
            _ if is_cancelled => return self.complete(slot, Err(libc::ECANCELED)),
            _ if operation.link => return self.complete(slot, Err(libc::EOPNOTSUPP)),
            OperationKind::Read => RequestKind::Read,
            OperationKind::Write => RequestKind::Write,
            OperationKind::Fsync | OperationKind::Fdatasync => RequestKind::Flush,
            OperationKind::Reallocate | OperationKind::SyncFileRange => {
                return self.complete(slot, Err(libc::EOPNOTSUPP));
            }
        };
        let request = ArrayRequest {
            tag: slot as u64,
            kind,
            offset: operation.offset,
            length: operation.length as u32,
            buffer: operation.slot,
        };
        match self.engine.submit(request, &mut self.out) {
            Ok(()) => self.take_output(),
            Err(error) => self.complete(slot, Err(errno(error, kind))),
        }
    }

    /// Takes the operations, and returns the next completion, if it is due by `latest`.
    fn take(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        latest: Ticks,
    ) -> usize {
        assert!(!completions.is_empty(), "no room for completions");
        let mut is_cancelled = false;
        for operation in operations {
            self.submit(operation, is_cancelled);
            // Links are not supported: the first of a chain fails, and all that follow it.
            is_cancelled = operation.link;
        }
        let is_asked = self.asked.iter().any(Option::is_some);
        // Background work alone is awaited only with a time limit.
        let may_pass = is_asked || latest != Ticks::NEVER;
        while self.done.is_empty() && may_pass && self.advance(latest) {}
        let count = self.done.len().min(completions.len());
        completions[..count].copy_from_slice(&self.done[..count]);
        self.done.drain(..count);
        count
    }
}

/// The kernel's error number.
fn errno(error: RequestError, kind: RequestKind) -> i32 {
    match error {
        RequestError::Unaligned => libc::EINVAL,
        RequestError::Busy => libc::EAGAIN,
        RequestError::Beyond if kind == RequestKind::Write => libc::ENOSPC,
        RequestError::Beyond | RequestError::Unreadable | RequestError::Stopped => libc::EIO,
    }
}

impl BlockEngine for ArrayEngine {
    type Clock = VirtualClock;

    fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { asynchronous: true, write_flags: true, range_syncs: false, links: false }
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts { features: vec!["virtual clock".to_owned()], fallbacks: Vec::new() }
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(self.asked[slot as usize].is_none(), "slot {slot} is in flight");
        self.memory.requests.slot_mut(slot as usize)
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        let count = self.take(operations, completions, deadline);
        if count == 0 && deadline != Ticks::NEVER {
            self.clock.advance_to(deadline);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use durio_block::WriteFlags;
    use durio_simdisk::{Disk, Image, Leg, Profile};

    use super::*;
    use crate::SECTOR;

    const BLOCK_BYTES: usize = BLOCK as usize;

    fn two_disks() -> Vec<SharedDisk> {
        let disks = [1, 2].map(|seed| SharedDisk::new(Disk::new(Profile::honest(1 << 20), seed)));
        create_array(&disks, RaidLevel::Raid1).unwrap();
        disks.into()
    }

    fn start(disks: &[SharedDisk]) -> ArrayEngine {
        let start = ArrayStart { at: Ticks(0), seed: 7, fault: None };
        ArrayEngine::start(disks, start, Buffers::new(2, BLOCK_BYTES)).unwrap()
    }

    /// One operation by itself, on a block of the array.
    fn carry_out(array: &mut ArrayEngine, kind: OperationKind, block: u64) -> Completion {
        let (flags, link, file, slot) = (WriteFlags::None, false, 0, 1);
        let (length, offset, intended_start) = (BLOCK, block * BLOCK, Ticks(0));
        let operation = Operation { kind, flags, link, file, slot, length, offset, intended_start };
        let mut completions = [Completion::default()];
        assert_eq!(array.exchange(&[operation], &mut completions).unwrap(), 1);
        completions[0]
    }

    fn write(array: &mut ArrayEngine, block: u64, byte: u8) {
        array.slot_mut(1).fill(byte);
        assert_eq!(carry_out(array, OperationKind::Write, block).result, BLOCK as i32);
    }

    /// The first block of data on the medium of each.
    fn on_media(disks: &[SharedDisk]) -> Vec<u8> {
        let read = |disk: &SharedDisk| {
            let mut block = [0; BLOCK_BYTES];
            let data_at = layout::data_at(&geometry_of(RaidLevel::Raid1, &[1 << 20; 2]), BLOCK);
            disk.lock().read(data_at / SECTOR, &mut block, Leg::Any).unwrap();
            block[0]
        };
        disks.iter().map(read).collect()
    }

    fn cut(disks: &[SharedDisk]) {
        for disk in disks {
            disk.lock().cut();
            disk.lock().restore().unwrap();
        }
    }

    #[test]
    fn a_write_that_has_ended_is_on_both_media_and_beyond_the_end_is_no_place() {
        let disks = two_disks();
        let mut array = start(&disks);
        write(&mut array, 0, 1);
        let end = array.size() / BLOCK;
        assert_eq!(carry_out(&mut array, OperationKind::Write, end).result, -libc::ENOSPC);
        assert_eq!(carry_out(&mut array, OperationKind::Fdatasync, 0).result, 0);
        cut(&disks);
        assert_eq!(on_media(&disks), [1, 1]);
        let mut again = start(&disks);
        assert!(again.settle());
        carry_out(&mut again, OperationKind::Read, 0);
        assert_eq!(again.slot_mut(1), [1; BLOCK_BYTES]);
    }

    #[test]
    fn a_member_from_an_older_image_of_itself_is_rebuilt_whole_though_nothing_is_marked() {
        let disks = two_disks();
        let mut array = start(&disks);
        write(&mut array, 0, 1);
        // Long enough for the map to be clean, in the image too.
        array.pass(100);
        assert_eq!(array.status().regions_dirty, 0);
        let older: Image = disks[1].lock().durable().clone();
        cut(&disks);
        let mut array = start(&disks);
        write(&mut array, 0, 2);
        array.pass(100);
        assert_eq!(array.status().regions_dirty, 0);
        cut(&disks);
        assert!(disks[1].lock().replace_medium(older));
        assert_eq!(on_media(&disks), [2, 1]);
        let mut array = start(&disks);
        assert!(array.settle());
        assert_eq!(on_media(&disks), [2, 2]);
    }

    #[test]
    fn a_member_that_nothing_tells_of_becomes_a_new_one() {
        let disks = two_disks();
        let mut array = start(&disks);
        write(&mut array, 0, 1);
        cut(&disks);
        assert!(disks[0].lock().replace_medium(Image::default()));
        let mut array = start(&disks);
        assert!(array.settle());
        assert_eq!(on_media(&disks), [0, 1]);
        array.replace_lost();
        assert!(array.settle());
        assert_eq!(on_media(&disks), [1, 1]);
        assert!(array.status().roles.iter().all(|role| role.is_read));
    }
}
