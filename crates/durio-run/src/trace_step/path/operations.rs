//! Operations, one after the other, each with a stamp before and after it.
//!
//! An operation is an access, and the sync calls that follow it. Nothing is written to the trace
//! between them: the stamps are of the trace's own clock.

use durio_block::{Clock, Engine};
use durio_workload::{AccessKind, BlockFiller, Region, Stream, Workload};

use crate::one_by_one::{self, Ended, Ending};
use crate::sink::StopFlag;

/// When an operation began and when it had ended, on the engine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamps {
    pub(super) begin: u64,
    pub(super) end: u64,
}

impl Stamps {
    pub(super) fn span(self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// Operations on their way.
pub(super) struct Making<'a> {
    stream: Stream,
    filler: BlockFiller,
    workload: &'a Workload,
    stop: &'a StopFlag,
    pub(super) ending: Ending,
}

impl<'a> Making<'a> {
    pub(super) fn new(
        workload: &'a Workload,
        region: Region,
        seed: u64,
        stop: &'a StopFlag,
    ) -> Self {
        let stream = Stream::new(workload, region, seed);
        let filler = BlockFiller::new(workload, seed);
        Self { stream, filler, workload, stop, ending: Ending::default() }
    }

    /// Makes `count` operations, or as many as come to their end.
    pub(super) fn make<C: Clock>(
        &mut self,
        engine: &mut dyn Engine<Clock = C>,
        count: u64,
    ) -> Vec<Stamps> {
        let mut made = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let has_failed = self.ending.failure.is_some() || self.ending.engine_error.is_some();
        while (made.len() as u64) < count && !self.stop.is_set() && !has_failed {
            match self.operation(engine) {
                Ok(stamps) => made.extend(stamps),
                Err(Ended) => break,
            }
        }
        made
    }

    /// None for the return of a segment to its first state, which is no part of an operation.
    fn operation<C: Clock>(
        &mut self,
        engine: &mut dyn Engine<Clock = C>,
    ) -> Result<Option<Stamps>, Ended> {
        let access = self.stream.next_access();
        one_by_one::fill(engine, &mut self.filler, access);
        let begin = engine.clock().now().0;
        one_by_one::access(engine, self.workload, access, &mut self.ending)?;
        one_by_one::follow_ups(engine, &mut self.stream, access, &mut self.ending)?;
        let end = engine.clock().now().0;
        let is_access = matches!(access.kind, AccessKind::Read | AccessKind::Write);
        Ok(is_access.then_some(Stamps { begin, end }))
    }
}
