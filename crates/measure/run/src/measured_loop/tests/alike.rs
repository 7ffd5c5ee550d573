//! The loop of a plain job, which takes what completions have in common once for all of them.

use durio_block::OperationKind;
use durio_workload::Stream;

use super::*;
use crate::recorder::finish_records;

/// The null engine, which notes what it is asked for and gives completions some time after it saw them.
struct Noting {
    honest: NullEngine,
    late: u64,
    /// Operations are complete when the call that submits them returns.
    is_at_once: bool,
    looked_at: Ticks,
    asked: Vec<(OperationKind, u64, u64)>,
}

impl Noting {
    fn new(honest: NullEngine) -> Self {
        let asked = Vec::with_capacity(1000);
        Self { honest, late: 0, is_at_once: false, looked_at: Ticks(0), asked }
    }
}

impl Engine for Noting {
    type Clock = VirtualClock;

    fn clock(&self) -> &VirtualClock {
        self.honest.clock()
    }

    fn capabilities(&self) -> Capabilities {
        self.honest.capabilities()
    }

    fn facts(&self) -> EngineFacts {
        self.honest.facts()
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        self.honest.slot_mut(slot)
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
        self.asked.extend(
            operations.iter().map(|operation| (operation.kind, operation.offset, operation.length)),
        );
        let count = self.honest.exchange_until(operations, completions, deadline)?;
        if self.is_at_once {
            completions[..count]
                .iter_mut()
                .for_each(|completion| completion.submitted_at = completion.completed_at);
        }
        self.looked_at = self.clock().now().plus(self.late);
        self.clock().advance_to(self.looked_at);
        Ok(count)
    }

    fn looked_at(&self) -> Ticks {
        self.looked_at
    }
}

/// The accesses that the harness has the loop make.
fn accesses(workload: &Workload, count: usize) -> Vec<(OperationKind, u64, u64)> {
    let region = workload.region_of(0, Bytes::from_mib(1)).unwrap();
    let mut stream = Stream::new(workload, region, 1);
    let accesses = std::iter::repeat_with(|| stream.next_access());
    let made = accesses.map(|access| (access.kind, access.offset, access.length));
    made.take(count).collect()
}

/// Reads and writes at random places.
fn mixed(depth: u32) -> Workload {
    let block_size = Bytes::from_kib(8);
    Workload { read_share: PerMille(500), block_size, ..self_cost_workload(depth) }
}

#[test]
fn each_access_of_the_stream_is_asked_for_once_in_its_order() {
    for depth in [1, 3, 8] {
        let workload = mixed(depth);
        let mut engine = Noting::new(null_engine(&[100, 700, 300], depth));
        let (result, _) = run(&mut engine, &workload, 200, u64::MAX);
        assert!(result.ending.failure.is_none());
        let accesses = accesses(&workload, 200);
        assert!(accesses.iter().any(|access| access.0 == OperationKind::Read && access.1 > 0));
        assert!(accesses.iter().any(|access| access.0 == OperationKind::Write && access.2 == 8192));
        assert_eq!(engine.asked, accesses, "depth {depth}");
    }
}

#[test]
fn a_failed_operation_is_told_with_its_own_place() {
    // The first is started by the begin of the loop, the others by the completion before them.
    for fails_at in [0, 5, 17] {
        let script = NullAnswers::new(vec![Nanos::new(100_000)], Some(fails_at));
        let buffers = Buffers::new(1, 8192);
        let mut engine = Noting::new(NullEngine::new(script, buffers));
        let workload = mixed(1);
        let (result, _) = run(&mut engine, &workload, 100, u64::MAX);
        let failure = result.ending.failure.unwrap();
        let expected = accesses(&workload, 18)[usize::try_from(fails_at).unwrap()];
        assert_eq!((failure.kind, failure.offset, failure.length), expected);
        assert_eq!((failure.result, engine.asked.len() as u64), (-5, fails_at + 1));
    }
}

#[test]
fn a_place_whose_completion_waits_to_be_given_is_idle_and_not_in_flight() {
    let mut engine = Noting { late: 7_000, ..Noting::new(null_engine(&[100_000], 4)) };
    let (result, intervals) = run(&mut engine, &self_cost_workload(4), 40, u64::MAX);
    let exact = total(&intervals, OperationName::Read).exact;
    assert_eq!((exact.count, exact.min_ns, exact.max_ns), (40, 100_000, 100_000));
    // Ten rounds; nothing starts after the last, so its wait is not known to be one.
    assert_eq!(result.accounting.span_ns, 10 * 107_000);
    assert_eq!(result.accounting.in_flight_ns, 4 * (10 * 100_000 + 7_000));
}

#[test]
fn what_is_complete_when_it_is_submitted_is_counted_in_both_histograms() {
    let mut engine = Noting { is_at_once: true, ..Noting::new(null_engine(&[300, 300, 5000], 4)) };
    let workload = self_cost_workload(4);
    let bounds =
        JobBounds { ramp: 0, end: None, interval: u64::MAX, operations: 90, bytes: u64::MAX };
    let (_, intervals, parts) = run_with_parts(&mut engine, &workload, bounds, (None, None));
    let service = total(&intervals, OperationName::Read).exact;
    assert_eq!((service.count, service.sum_ns), (90, 60 * 300 + 30 * 5000));
    let mut read = durio_record::OperationRecord::new(OperationName::Read);
    read.service.exact = service;
    let records = finish_records(vec![read], parts);
    let of = |part: &Option<durio_record::Latency>| part.as_ref().unwrap().exact;
    assert_eq!(of(&records[0].submit), service);
    let completion = of(&records[0].completion);
    assert_eq!((completion.count, completion.sum_ns, completion.max_ns), (90, 0, 0));
}
