//! No I/O: scripted latencies and errors on a virtual clock.
//!
//! The engine owns time. An operation starts when it is handed over (or at its intended start, if
//! that is later) and is due after the script's next latency; waiting moves the clock to the
//! earliest due time. So percentiles, intervals and errors are known beforehand, to the nanosecond.

use durio_base::Nanos;

use super::{EngineDescriptor, EngineSetup, EngineUser, reaches_no_file};
use crate::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine, EngineFacts, Operation,
    OperationKind, Ticks, VirtualClock,
};

/// What the engine answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NullAnswers {
    latencies: Vec<Nanos>,
    fails_at: Option<u64>,
}

impl NullAnswers {
    /// Successive operations take `latencies`, again and again; operation `fails_at` (from 0) ends
    /// with EIO.
    ///
    /// # Panics
    /// If `latencies` is empty or holds a zero: time would stand still.
    #[must_use]
    pub fn new(latencies: Vec<Nanos>, fails_at: Option<u64>) -> Self {
        assert!(!latencies.is_empty(), "a script needs a latency");
        assert!(latencies.iter().all(|&latency| latency > Nanos::ZERO), "a latency of zero");
        Self { latencies, fails_at }
    }
}

#[derive(Debug, Clone, Copy)]
struct PendingOperation {
    due: Ticks,
    /// Its place in the order of submission, which decides among those due at the same time.
    number: u64,
    submitted_at: Ticks,
    slot: u32,
    result: i32,
}

pub(super) struct NullDescriptor;

impl EngineDescriptor for NullDescriptor {
    const NAME: &'static str = "null";
    const FIO_NAME: &'static str = "null";
    const IS_ASYNCHRONOUS: bool = true;
    const LINKS_SYNCS: bool = true;

    fn open<C: Clock + Copy, U: EngineUser<C>>(_: EngineSetup<C>, user: U) -> U::Output {
        user.refused(reaches_no_file("the null engine has no file, and uses a virtual clock"))
    }
}

/// The engine without I/O.
#[derive(Debug)]
pub struct NullEngine {
    clock: VirtualClock,
    script: NullAnswers,
    buffers: Buffers,
    pending: Vec<PendingOperation>,
    busy: Vec<bool>,
    submitted_count: u64,
    latency_index: usize,
}

impl NullEngine {
    /// An engine whose time begins at zero.
    #[must_use]
    pub fn new(script: NullAnswers, buffers: Buffers) -> Self {
        let slots = buffers.count();
        Self {
            clock: VirtualClock::default(),
            script,
            buffers,
            pending: Vec::with_capacity(slots),
            busy: vec![false; slots],
            submitted_count: 0,
            latency_index: 0,
        }
    }

    fn claim(&mut self, operations: &[Operation]) {
        for operation in operations {
            let slot = operation.slot as usize;
            assert!(!self.busy[slot], "slot {slot} is in flight");
            self.busy[slot] = true;
        }
    }

    fn submit(
        &mut self,
        operation: &Operation,
        after: Option<PendingOperation>,
    ) -> PendingOperation {
        // A linked operation starts when its predecessor is done, and not at all if that failed.
        let (start, cancelled) = match after {
            Some(before) if before.result < 0 => (before.due, true),
            Some(before) => (before.due.max(operation.intended_start), false),
            None => (self.clock.now().max(operation.intended_start), false),
        };
        let pending = PendingOperation {
            due: if cancelled { start } else { start.plus(self.next_latency().get()) },
            number: self.submitted_count,
            submitted_at: self.clock.now(),
            slot: operation.slot,
            result: if cancelled { -libc::ECANCELED } else { self.result_of(operation) },
        };
        self.submitted_count += 1;
        self.pending.push(pending);
        pending
    }

    fn next_latency(&mut self) -> Nanos {
        let latency = self.script.latencies[self.latency_index];
        self.latency_index = (self.latency_index + 1) % self.script.latencies.len();
        latency
    }

    fn result_of(&self, operation: &Operation) -> i32 {
        match operation.kind {
            _ if self.script.fails_at == Some(self.submitted_count) => -libc::EIO,
            OperationKind::Read | OperationKind::Write => {
                i32::try_from(operation.length).unwrap_or(-libc::EINVAL)
            }
            OperationKind::Fsync
            | OperationKind::Fdatasync
            | OperationKind::Reallocate
            | OperationKind::SyncFileRange => 0,
        }
    }

    fn earliest(&self) -> Option<usize> {
        let due = |pending: &PendingOperation| (pending.due, pending.number);
        let earliest = self.pending.iter().enumerate().min_by_key(|(_, pending)| due(pending));
        earliest.map(|(index, _)| index)
    }
}

impl Engine for NullEngine {
    type Clock = VirtualClock;

    fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { asynchronous: true, write_flags: true, range_syncs: true, links: true }
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts { features: vec!["virtual clock".to_owned()], fallbacks: Vec::new() }
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        self.buffers.slot_mut(slot as usize)
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        let count = self.take(operations, completions, deadline)?;
        if count == 0 && deadline != Ticks::NEVER {
            self.clock.advance_to(deadline);
        }
        Ok(count)
    }
}

impl NullEngine {
    /// Takes the operations, and gives the completion that is due next, unless it is after
    /// `latest`.
    fn take(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        latest: Ticks,
    ) -> Result<usize, BlockError> {
        assert!(!completions.is_empty(), "no room for completions");
        self.claim(operations);
        let mut before = None;
        for operation in operations {
            let submitted = self.submit(operation, before);
            before = operation.link.then_some(submitted);
        }
        let mut count = 0;
        while count < completions.len() {
            let Some(index) = self.earliest() else { break };
            // Time moves on for the first only: further completions are those of the same moment.
            let bound = if count > 0 { self.clock.now() } else { latest };
            if self.pending[index].due > bound {
                break;
            }
            // The order in the list is of no use: time and number decide which is next.
            let pending = self.pending.swap_remove(index);
            self.clock.advance_to(pending.due);
            self.busy[pending.slot as usize] = false;
            completions[count] = Completion {
                slot: pending.slot,
                result: pending.result,
                submitted_at: pending.submitted_at,
                completed_at: pending.due.max(pending.submitted_at),
            };
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WriteFlags;

    const NONE: Completion =
        Completion { slot: 0, result: 0, submitted_at: Ticks(0), completed_at: Ticks(0) };

    fn engine(latencies: &[u64], fails_at: Option<u64>) -> NullEngine {
        let latencies = latencies.iter().copied().map(Nanos::new).collect();
        NullEngine::new(NullAnswers::new(latencies, fails_at), Buffers::new(4, 4096))
    }

    fn write(slot: u32) -> Operation {
        Operation {
            kind: OperationKind::Write,
            flags: WriteFlags::None,
            link: false,
            file: 0,
            slot,
            length: 4096,
            offset: 0,
            intended_start: Ticks(0),
        }
    }

    fn linked(slot: u32) -> Operation {
        Operation { link: true, ..write(slot) }
    }

    fn starting_at(time: u64, slot: u32) -> Operation {
        Operation { intended_start: Ticks(time), ..write(slot) }
    }

    /// (slot, result, submitted, completed) of every completion, one exchange after another.
    fn drain(engine: &mut NullEngine, operations: &[Operation]) -> Vec<(u32, i32, u64, u64)> {
        let mut all = Vec::new();
        let mut completions = [NONE; 4];
        let mut count = engine.exchange(operations, &mut completions).unwrap();
        while count > 0 {
            let plain = |c: &Completion| (c.slot, c.result, c.submitted_at.0, c.completed_at.0);
            all.extend(completions[..count].iter().map(plain));
            count = engine.exchange(&[], &mut completions).unwrap();
        }
        all
    }

    #[test]
    fn at_depth_one_the_scripted_latencies_come_out_in_order_again_and_again() {
        let mut engine = engine(&[100, 7, 30], None);
        let mut time = 0;
        for latency in [100, 7, 30, 100, 7, 30, 100] {
            let completed = drain(&mut engine, &[write(2)]);
            assert_eq!(completed, [(2, 4096, time, time + latency)]);
            time += latency;
            assert_eq!(engine.clock().now(), Ticks(time));
        }
    }

    #[test]
    fn at_depth_four_operations_run_side_by_side_and_complete_by_their_due_time() {
        let mut engine = engine(&[40, 10, 30, 20], None);
        let completed = drain(&mut engine, &[write(0), write(1), write(2), write(3)]);
        let expected = [(1, 4096, 0, 10), (3, 4096, 0, 20), (2, 4096, 0, 30), (0, 4096, 0, 40)];
        assert_eq!(completed, expected);
    }

    #[test]
    fn a_slot_filled_again_at_depth_four_starts_when_its_last_operation_completed() {
        let mut engine = engine(&[10, 20, 30, 40, 5], None);
        let mut one = [NONE];
        engine.exchange(&[write(0), write(1), write(2), write(3)], &mut one).unwrap();
        assert_eq!((one[0].slot, one[0].completed_at), (0, Ticks(10)));
        engine.exchange(&[write(0)], &mut one).unwrap();
        assert_eq!((one[0].slot, one[0].submitted_at.0, one[0].completed_at.0), (0, 10, 15));
        engine.exchange(&[write(0)], &mut one).unwrap();
        assert_eq!((one[0].slot, one[0].completed_at), (1, Ticks(20)));
    }

    #[test]
    fn what_is_due_together_is_given_together_in_the_order_of_submission() {
        let mut engine = engine(&[5, 10, 10, 10], None);
        let operations = [write(3), write(2), write(1), write(0)];
        let mut completions = [NONE; 4];
        assert_eq!(engine.exchange(&operations, &mut completions).unwrap(), 1);
        assert_eq!(engine.exchange(&[], &mut completions).unwrap(), 3);
        assert_eq!(completions[..3].iter().map(|c| c.slot).collect::<Vec<_>>(), [2, 1, 0]);
    }

    #[test]
    fn the_scripted_operation_and_no_other_ends_with_eio() {
        let mut engine = engine(&[10], Some(2));
        let completed = drain(&mut engine, &[write(0), write(1), write(2), write(3)]);
        let results: Vec<i32> = completed.iter().map(|c| c.1).collect();
        assert_eq!(results, [4096, 4096, -libc::EIO, 4096]);
        assert_eq!(drain(&mut engine, &[write(2)])[0].1, 4096);
    }

    #[test]
    fn an_operation_starts_at_its_intended_time_and_never_before_it_was_handed_over() {
        let mut engine = engine(&[10], None);
        let completed = drain(&mut engine, &[starting_at(100, 0), starting_at(50, 1), write(2)]);
        assert_eq!(completed, [(2, 4096, 0, 10), (1, 4096, 0, 60), (0, 4096, 0, 110)]);
        // The intended time has passed: it starts now.
        assert_eq!(drain(&mut engine, &[starting_at(50, 0)]), [(0, 4096, 110, 120)]);
    }

    #[test]
    fn a_linked_operation_starts_when_the_one_before_it_is_done() {
        let mut engine = engine(&[10, 20, 5], None);
        let completed = drain(&mut engine, &[linked(3), write(2), write(1)]);
        assert_eq!(completed, [(1, 4096, 0, 5), (3, 4096, 0, 10), (2, 4096, 0, 30)]);
    }

    #[test]
    fn a_linked_operation_still_waits_for_its_intended_time() {
        let mut engine = engine(&[10], None);
        let completed = drain(&mut engine, &[linked(0), starting_at(100, 1)]);
        assert_eq!(completed, [(0, 4096, 0, 10), (1, 4096, 0, 110)]);
    }

    #[test]
    fn a_failed_link_cancels_all_that_follow_in_its_chain_when_it_fails() {
        let mut engine = engine(&[5, 10], Some(1));
        // The first completes alone, and leaves its place in the queue to the last.
        let completed = drain(&mut engine, &[write(3), linked(2), linked(1), write(0)]);
        let cancelled = -libc::ECANCELED;
        let failed = [(2, -libc::EIO, 0, 10), (1, cancelled, 0, 10), (0, cancelled, 0, 10)];
        assert_eq!(completed[0], (3, 4096, 0, 5));
        assert_eq!(completed[1..], failed);
        // A cancelled operation has taken no latency from the script.
        assert_eq!(drain(&mut engine, &[linked(0)]), [(0, 4096, 10, 15)]);
        assert_eq!(drain(&mut engine, &[write(0)]), [(0, 4096, 15, 25)]);
    }
}
