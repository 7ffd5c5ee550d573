//! Data that takes time to make, on virtual time: it is in no latency, and Little's law holds.

use super::*;

/// Nanoseconds for a block of data.
const MAKING: u64 = 700;

/// The null engine, whose clock goes on while a buffer is filled.
struct SlowToFill(NullEngine);

impl Engine for SlowToFill {
    type Clock = VirtualClock;

    fn clock(&self) -> &VirtualClock {
        self.0.clock()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn facts(&self) -> EngineFacts {
        self.0.facts()
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        let clock = self.0.clock();
        clock.advance_to(clock.now().plus(MAKING));
        self.0.slot_mut(slot)
    }

    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        self.0.exchange(operations, completions)
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        self.0.exchange_until(operations, completions, deadline)
    }
}

fn writes(depth: u32) -> Workload {
    Workload { read_share: PerMille::NONE, ..self_cost_workload(depth) }
}

#[test]
fn the_time_in_which_data_is_made_is_in_no_latency_and_counted_apart() {
    let mut engine = SlowToFill(null_engine(&[100_000], 1));
    let (result, intervals) = run(&mut engine, &writes(1), 1000, u64::MAX);
    let exact = total(&intervals, OperationName::Write).exact;
    assert_eq!((exact.count, exact.min_ns, exact.max_ns), (1000, 100_000, 100_000));
    let accounting = result.accounting;
    assert_eq!(accounting.filling_ns, 1000 * MAKING);
    assert_eq!(accounting.in_flight_ns, exact.sum_ns);
    // The rate has it: the job could do nothing else meanwhile.
    assert_eq!(result.end_ns, 1000 * (100_000 + MAKING));
}

#[test]
fn a_commit_begins_when_its_record_is_made() {
    let (_, commit) = check_workloads().remove(0);
    let mut engine = SlowToFill(null_engine(&[30_000, 70_000], 1));
    let (result, intervals) = run(&mut engine, &commit, 100, u64::MAX);
    let closed: Vec<_> = intervals.try_iter().collect();
    let commit = super::exact(&closed[0], OperationName::Commit);
    assert_eq!((commit.count, commit.max_ns), (100, 100_000));
    assert_eq!(result.accounting.filling_ns, 100 * MAKING);
}

#[test]
fn an_open_loop_counts_it_as_its_own_lag() {
    let schedule = ArrivalSchedule::new(&Arrivals::Constant { rate_per_second: 1000.0 }, 0, 1, 1);
    let bounds = JobBounds {
        ramp: 0,
        end: Some(1_000_000_000),
        interval: u64::MAX,
        operations: u64::MAX,
        bytes: u64::MAX,
    };
    let mut engine = SlowToFill(null_engine(&[100_000], 1));
    let (result, intervals) = run_bounded(&mut engine, &writes(1), bounds, schedule);
    let closed: Vec<_> = intervals.try_iter().collect();
    let service = super::exact(&closed[0], OperationName::Write);
    let response = responses(&closed[0], OperationName::Write);
    assert_eq!((service.max_ns, response.max_ns), (100_000, 100_000 + MAKING));
    let pacing = result.pacing.unwrap();
    assert_eq!((pacing.lag_ns_sum, pacing.lag_ns_max), (service.count * MAKING, MAKING));
    assert_eq!(result.accounting.in_flight_ns, service.sum_ns);
}

#[test]
fn reads_and_buffers_that_are_not_refilled_cost_nothing() {
    let never = Workload { renewal: durio_workload::Renewal::Never, ..writes(4) };
    for workload in [self_cost_workload(4), never] {
        let mut engine = SlowToFill(null_engine(&[100_000], 4));
        let (result, _) = run(&mut engine, &workload, 1000, u64::MAX);
        assert_eq!(result.accounting.filling_ns, 0);
    }
}
