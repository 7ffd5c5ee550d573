//! An engine that sees what goes through it: which records each write has, where it goes, and when
//! it was durable.

use durio_base::Bytes;
use durio_block::{
    BlockError, Capabilities, Clock, Completion, Engine, EngineFacts, NullEngine, Operation,
    OperationKind, Ticks, VirtualClock,
};
use durio_record::Exact;
use durio_workload::{BlockFiller, Workload};

use crate::StopFlag;

/// A write of the log.
pub(super) struct Write {
    pub(super) slot: u32,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Numbers of its records, from 1, in the order of their hand-over.
    pub(super) records: Vec<u64>,
    pub(super) padding_is_zero: bool,
    pub(super) written_at: Option<Ticks>,
    pub(super) durable_at: Option<Ticks>,
}

/// The null engine, watched.
pub(super) struct Witness {
    engine: NullEngine,
    stop: StopFlag,
    stop_at: Option<u64>,
    exchanges: u64,
    /// The highest number of a record so far.
    highest: u64,
    /// Makes the same bytes as the log's.
    twin: BlockFiller,
    /// How the next record begins.
    next_head: [u8; 8],
    pub(super) writes: Vec<Write>,
}

impl Witness {
    /// For a log whose data has `seed`.
    pub(super) fn new(engine: NullEngine, seed: u64, stop: StopFlag, stop_at: Option<u64>) -> Self {
        let (twin, writes) = (BlockFiller::unique(seed), Vec::new());
        let (exchanges, highest, next_head) = (0, 0, [0; 8]);
        let mut witness =
            Self { engine, stop, stop_at, exchanges, highest, twin, next_head, writes };
        witness.twin.fill(&mut witness.next_head);
        witness
    }

    /// Looks for the heads of the records that follow: each begins as no other does, and they are
    /// made in order.
    fn see(&mut self, operation: &Operation) {
        if operation.kind != OperationKind::Write {
            return;
        }
        let length = usize::try_from(operation.length).unwrap();
        let data = &self.engine.slot_mut(operation.slot)[..length];
        let mut records = Vec::new();
        let mut next = self.highest + 1;
        // Sizes of records are multiples of 4, of 4 KiB at most; other bytes are random, so that they equal the next
        // head by chance once in 2⁶⁴.
        let heads = (0..length.saturating_sub(7)).step_by(4);
        for at in heads {
            if data[at..at + 8] == self.next_head {
                records.push(next);
                next += 1;
                self.twin.fill(&mut self.next_head);
            }
        }
        self.highest = next - 1;
        let tail = length.min(24);
        let padding_is_zero = data[length - tail..].iter().all(|&byte| byte == 0);
        let Operation { slot, offset, length, .. } = *operation;
        let (written_at, durable_at) = (None, None);
        self.writes.push(Write {
            slot,
            offset,
            length,
            records,
            padding_is_zero,
            written_at,
            durable_at,
        });
    }

    fn note(&mut self, completion: &Completion) {
        let Some(write) = self.writes.last_mut() else { return };
        if completion.result < 0 {
            return;
        }
        write.written_at = write.written_at.or(Some(completion.completed_at));
        write.durable_at = Some(completion.completed_at);
    }

    /// Records 1 to `count` were each in exactly one write.
    pub(super) fn assert_each_once(&self, count: u64) {
        let records: Vec<u64> =
            self.writes.iter().flat_map(|write| &write.records).copied().collect();
        assert_eq!(records, (1..=count).collect::<Vec<_>>());
    }

    /// No write reaches out of the region or beyond the bound, and none overlaps the one before.
    pub(super) fn assert_within(&self, workload: &Workload, size: Bytes) {
        let region = workload.region_of(0, size).unwrap();
        let policy = workload.group_commit.unwrap();
        let mut last_end = 0;
        for write in &self.writes {
            assert!(write.offset + write.length <= region.length.get(), "past the end");
            assert!(write.length <= policy.write_max(workload.block_size).get());
            // It starts over where the next does not fit, and not before.
            let fits = last_end + write.length <= region.length.get();
            assert_eq!(write.offset, if fits { last_end } else { 0 }, "{last_end}");
            last_end = write.offset + write.length;
            if policy.pad_to > Bytes::ZERO {
                assert!(Bytes::new(write.length).is_multiple_of(policy.pad_to));
            }
        }
    }

    /// The commits of a closed loop, from what was seen alone: record i was handed over when the
    /// one `committers` before it was durable, and is acknowledged when it is durable itself.
    pub(super) fn expected_commits(&self, committers: u32) -> Exact {
        let durable: Vec<u64> = self
            .writes
            .iter()
            .flat_map(|write| write.records.iter().map(|_| write.durable_at.unwrap().0))
            .collect();
        let committers = committers as usize;
        let latencies = durable.iter().enumerate().map(|(index, &at)| {
            at - index.checked_sub(committers).map_or(0, |before| durable[before])
        });
        let mut expected = Exact { min_ns: u64::MAX, ..Exact::default() };
        for latency in latencies {
            expected.count += 1;
            expected.sum_ns += latency;
            expected.min_ns = expected.min_ns.min(latency);
            expected.max_ns = expected.max_ns.max(latency);
        }
        expected
    }
}

impl Engine for Witness {
    type Clock = VirtualClock;

    fn clock(&self) -> &VirtualClock {
        self.engine.clock()
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn facts(&self) -> EngineFacts {
        self.engine.facts()
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        self.engine.slot_mut(slot)
    }

    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        self.exchange_until(operations, completions, Ticks(u64::MAX))
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        if self.stop_at == Some(self.exchanges) {
            self.stop.set();
        }
        self.exchanges += 1;
        operations.iter().for_each(|operation| self.see(operation));
        let count = self.engine.exchange_until(operations, completions, deadline)?;
        completions[..count].iter().for_each(|completion| self.note(completion));
        assert!(self.engine.clock().now() < Ticks(u64::MAX), "waited for nothing");
        Ok(count)
    }
}
