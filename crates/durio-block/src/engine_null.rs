//! No I/O: scripted latencies and errors on a virtual clock.
//!
//! The engine owns time. An operation starts when it is handed over (or at its intended start, if
//! that is later) and is due after the script's next latency; waiting moves the clock to the
//! earliest due time. So percentiles, intervals and errors are known beforehand, to the nanosecond.

use durio_units::Nanos;

use crate::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine, EngineFacts, Operation,
    OperationKind, Ticks, VirtualClock,
};

/// What the engine answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    latencies: Vec<Nanos>,
    fails_at: Option<u64>,
}

impl Script {
    /// Successive operations take `latencies`, again and again; operation `fails_at` (from 0) ends
    /// with EIO.
    ///
    /// # Panics
    /// If there is no latency, or one of zero: time would stand still.
    #[must_use]
    pub fn new(latencies: Vec<Nanos>, fails_at: Option<u64>) -> Self {
        assert!(!latencies.is_empty(), "a script needs a latency");
        assert!(latencies.iter().all(|&latency| latency > Nanos::ZERO), "a latency of zero");
        Self { latencies, fails_at }
    }
}

/// An operation on its way.
#[derive(Debug, Clone, Copy)]
struct Pending {
    due: Ticks,
    submitted_at: Ticks,
    slot: u32,
    result: i32,
}

/// The engine without I/O.
#[derive(Debug)]
pub struct NullEngine {
    clock: VirtualClock,
    script: Script,
    buffers: Buffers,
    pending: Vec<Pending>,
    busy: Vec<bool>,
    submitted_count: u64,
    latency_index: usize,
}

impl NullEngine {
    /// An engine whose time begins at zero.
    #[must_use]
    pub fn new(script: Script, buffers: Buffers) -> Self {
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

    fn submit(&mut self, operation: &Operation, after: Option<Pending>) -> Pending {
        let slot = operation.slot as usize;
        assert!(!self.busy[slot], "slot {slot} is in flight");
        self.busy[slot] = true;
        // A linked operation starts when its predecessor is done, and not at all if that failed.
        let (start, cancelled) = match after {
            Some(before) => (before.due, before.result < 0),
            None => (self.clock.now().max(operation.intended_start), false),
        };
        let pending = Pending {
            due: if cancelled { start } else { start.plus(self.next_latency().get()) },
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
            OperationKind::Fsync | OperationKind::Fdatasync | OperationKind::Reallocate => 0,
        }
    }

    fn earliest(&self) -> Option<usize> {
        let due = self.pending.iter().enumerate().min_by_key(|(_, pending)| pending.due);
        due.map(|(index, _)| index)
    }
}

impl Engine for NullEngine {
    type Clock = VirtualClock;

    fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { asynchronous: true, write_flags: true, links: true }
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts { features: vec!["virtual clock".to_owned()], fallbacks: Vec::new() }
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        self.buffers.slot_mut(slot as usize)
    }

    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        assert!(!completions.is_empty(), "no room for completions");
        let mut before = None;
        for operation in operations {
            let submitted = self.submit(operation, before);
            before = operation.link.then_some(submitted);
        }
        let mut count = 0;
        while count < completions.len() {
            let Some(index) = self.earliest() else { break };
            if count > 0 && self.pending[index].due > self.clock.now() {
                break;
            }
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
