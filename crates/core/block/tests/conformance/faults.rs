//! The tester tested: engines with one planted fault each, which the suite must find by name.

use durio_block::testkit::note_skip;
use durio_block::{
    BlockError, Capabilities, Completion, Engine, EngineFacts, MonotonicClock, Operation,
    OperationKind, SyncEngine, Ticks, WriteFlags,
};
use testkit::conformance::{EngineBody, Files, Report, Setup, Suite};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    DropsACompletion,
    CompletesTwice,
    NamesTheNextSlot,
    HidesErrors,
    IgnoresLinks,
    IgnoresLinksItRefuses,
    StampsTheCompletionFirst,
    StampsTheStart,
    SwapsBlocks,
    DropsWriteFlags,
    SkipsSyncs,
    SyncsAnotherRange,
    IgnoresRangeSyncsItRefuses,
    LosesAWrite,
    ReadsNothing,
    RunsOneOperationAtATime,
    WritesZerosInsteadOfReallocating,
    GivesShortTransfersAsWhole,
    EndsWaitsEarly,
    HoldsSyncsBack,
    ReadsNothingAfterARefusal,
}

/// The blocking engine, with a fault.
struct Faulty {
    inner: SyncEngine<MonotonicClock>,
    fault: Fault,
    started: Ticks,
    /// Operations and completions so far.
    submitted: u64,
    completed: u64,
    /// A completion to be given once more.
    again: Option<Completion>,
    /// A completion that is given when no other comes.
    held: Option<Completion>,
    /// The operations in flight, as they were handed over.
    operations: Vec<Operation>,
    /// The operation before was beyond every file.
    is_beyond: bool,
}

impl Faulty {
    fn new(setup: Setup, fault: Fault) -> Self {
        let inner = SyncEngine::new(MonotonicClock, setup.target.into_file(), setup.buffers);
        let started = durio_block::Clock::now(inner.clock());
        let (submitted, completed) = (0, 0);
        let (again, held) = (None, None);
        let (operations, is_beyond) = (Vec::new(), false);
        Self { inner, fault, started, submitted, completed, again, held, operations, is_beyond }
    }

    fn before(&mut self, mut operation: Operation) -> Option<Operation> {
        self.submitted += 1;
        let every_fifth = self.submitted.is_multiple_of(5);
        let write = operation.kind == OperationKind::Write;
        let follows = std::mem::replace(&mut self.is_beyond, operation.offset >= 1 << 63);
        match self.fault {
            Fault::ReadsNothingAfterARefusal
                if follows && operation.kind == OperationKind::Read =>
            {
                operation.kind = OperationKind::Fdatasync;
            }
            Fault::IgnoresLinks | Fault::IgnoresLinksItRefuses => operation.link = false,
            Fault::DropsWriteFlags => operation.flags = WriteFlags::None,
            Fault::SwapsBlocks if write && every_fifth => operation.offset ^= 4096,
            Fault::LosesAWrite if write && every_fifth => operation.kind = OperationKind::Fdatasync,
            Fault::ReadsNothing if operation.kind == OperationKind::Read && every_fifth => {
                operation.kind = OperationKind::Fdatasync;
            }
            Fault::RunsOneOperationAtATime if self.operations.len() > 1 => return None,
            Fault::WritesZerosInsteadOfReallocating
                if operation.kind == OperationKind::Reallocate =>
            {
                operation.kind = OperationKind::Write;
                operation.length = operation.length.min(4096);
            }
            Fault::SyncsAnotherRange if operation.kind == OperationKind::SyncFileRange => {
                operation.offset = 0;
            }
            // A read of nothing leaves the file as it is.
            Fault::SkipsSyncs
                if matches!(
                    operation.kind,
                    OperationKind::Fsync | OperationKind::Fdatasync | OperationKind::SyncFileRange
                ) =>
            {
                operation.kind = OperationKind::Read;
                operation.length = 0;
            }
            _ => {}
        }
        Some(operation)
    }

    fn after(&mut self, completion: &mut Completion, asked: &Operation) -> bool {
        self.completed += 1;
        let every_fifth = self.completed.is_multiple_of(5);
        let length = i32::try_from(asked.length).unwrap_or(0);
        match self.fault {
            Fault::DropsACompletion => return !every_fifth,
            Fault::CompletesTwice if every_fifth => self.again = Some(*completion),
            Fault::NamesTheNextSlot if every_fifth => completion.slot ^= 1,
            Fault::HidesErrors => completion.result = completion.result.max(length),
            Fault::GivesShortTransfersAsWhole if completion.result >= 0 => {
                completion.result = length;
            }
            Fault::StampsTheCompletionFirst if every_fifth => {
                completion.submitted_at = completion.completed_at.plus(1);
            }
            Fault::StampsTheStart => completion.submitted_at = self.started,
            Fault::LosesAWrite | Fault::ReadsNothing | Fault::ReadsNothingAfterARefusal
                if completion.result == 0
                    && matches!(asked.kind, OperationKind::Read | OperationKind::Write) =>
            {
                completion.result = length;
            }
            Fault::WritesZerosInsteadOfReallocating
                if asked.kind == OperationKind::Reallocate && completion.result > 0 =>
            {
                completion.result = 0;
            }
            _ => {}
        }
        true
    }
}

impl Engine for Faulty {
    type Clock = MonotonicClock;

    fn clock(&self) -> &MonotonicClock {
        self.inner.clock()
    }

    fn capabilities(&self) -> Capabilities {
        let links = self.fault != Fault::IgnoresLinksItRefuses;
        let range_syncs = self.fault != Fault::IgnoresRangeSyncsItRefuses;
        Capabilities { links, range_syncs, ..self.inner.capabilities() }
    }

    fn facts(&self) -> EngineFacts {
        self.inner.facts()
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        self.inner.slot_mut(slot)
    }

    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        if let (Some(again), false) = (self.again, completions.is_empty()) {
            completions[0] = again;
            self.again = None;
            return Ok(1);
        }
        let mut changed = Vec::new();
        for &operation in operations {
            self.operations.push(operation);
            changed.extend(self.before(operation));
        }
        let count = self.inner.exchange(&changed, completions)?;
        if count == 0 {
            let held = self.held.take();
            return Ok(held.map_or(0, |held| {
                completions[0] = held;
                1
            }));
        }
        let slot = completions[0].slot;
        let place = self.operations.iter().position(|operation| operation.slot == slot);
        let asked = self.operations.remove(place.expect("what completes was submitted"));
        let mut completion = completions[0];
        let given = self.after(&mut completion, &asked);
        completions[0] = completion;
        let is_sync = matches!(asked.kind, OperationKind::Fsync | OperationKind::Fdatasync);
        if self.fault == Fault::HoldsSyncsBack && is_sync {
            self.held = Some(completion);
            return self.exchange(&[], completions);
        }
        Ok(usize::from(given))
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        if self.fault == Fault::EndsWaitsEarly && operations.is_empty() {
            return Ok(0);
        }
        if operations.is_empty() && self.operations.is_empty() {
            return self.inner.exchange_until(operations, completions, deadline);
        }
        self.exchange(operations, completions)
    }
}

fn run(fault: Fault) -> Report {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let lend = |setup: Setup, body: &mut EngineBody<'_, MonotonicClock>| {
        body(&mut Faulty::new(setup, fault));
    };
    Suite::new(&lend, &Files::new(directory.path(), false)).run()
}

/// Asserts that the bodies named are among those that find the fault.
fn assert_found(fault: Fault, by: &[&str]) {
    let report = run(fault);
    let found: Vec<&str> = report.failed.iter().map(|failure| failure.body).collect();
    for body in by {
        if let Some(skip) = report.skipped.iter().find(|skip| skip.body == *body) {
            note_skip(&format!("{fault:?} is to be found by {body}"), &skip.reason);
            continue;
        }
        assert!(found.contains(body), "{fault:?} was found by {found:?} only");
    }
    assert!(!report.passed.is_empty(), "{fault:?}: a suite that fails everything shows nothing");
}

#[test]
fn the_wrapper_itself_has_no_fault() {
    run(Fault::None).assert_passed();
}

#[test]
#[should_panic(expected = "the engine fails")]
fn a_report_with_failures_does_not_pass() {
    run(Fault::HidesErrors).assert_passed();
}

#[test]
#[should_panic(expected = "nothing was run")]
fn a_report_of_nothing_does_not_pass() {
    Report::default().assert_passed();
}

#[test]
fn a_dropped_completion_is_found() {
    let by = ["every_operation_completes_once_as_itself", "what_is_written_is_read_back"];
    assert_found(Fault::DropsACompletion, &by);
}

#[test]
fn a_doubled_completion_is_found() {
    assert_found(Fault::CompletesTwice, &["every_operation_completes_once_as_itself"]);
}

#[test]
fn a_completion_in_anothers_name_is_found() {
    assert_found(Fault::NamesTheNextSlot, &["every_operation_completes_once_as_itself"]);
}

#[test]
fn a_hidden_error_is_found() {
    let by = [
        "a_write_to_a_read_only_descriptor_fails",
        "a_full_device_is_reported",
        "a_reallocation_that_fails_says_so",
    ];
    assert_found(Fault::HidesErrors, &by);
}

#[test]
fn ignored_links_are_found() {
    assert_found(Fault::IgnoresLinks, &["a_failed_link_cancels_its_successors"]);
}

#[test]
fn links_that_are_ignored_instead_of_refused_are_found() {
    let by = ["links_complete_in_order_or_are_refused", "a_refused_link_writes_nothing"];
    assert_found(Fault::IgnoresLinksItRefuses, &by);
}

#[test]
fn stamps_in_the_wrong_order_are_found() {
    let by = ["stamps_lie_in_order_between_submission_and_now"];
    assert_found(Fault::StampsTheCompletionFirst, &by);
    assert_found(Fault::StampsTheStart, &by);
}

#[test]
fn swapped_blocks_are_found() {
    assert_found(Fault::SwapsBlocks, &["what_is_written_is_read_back"]);
}

#[test]
fn a_lost_write_is_found() {
    assert_found(Fault::LosesAWrite, &["what_is_written_is_read_back"]);
}

#[test]
fn a_read_that_moves_nothing_is_found() {
    assert_found(Fault::ReadsNothing, &["what_others_wrote_is_read"]);
}

#[test]
fn a_read_that_moves_nothing_because_another_was_refused_is_found() {
    let by = ["a_refused_read_takes_nothing_from_the_others"];
    assert_found(Fault::ReadsNothingAfterARefusal, &by);
}

#[test]
fn a_dropped_write_flag_is_found() {
    assert_found(Fault::DropsWriteFlags, &["write_flags_leave_nothing_unwritten"]);
}

#[test]
fn a_sync_that_does_nothing_is_found() {
    assert_found(Fault::SkipsSyncs, &["syncs_leave_nothing_unwritten"]);
}

#[test]
fn a_sync_of_another_range_is_found() {
    let by = ["a_range_sync_writes_its_range_and_no_other"];
    assert_found(Fault::SyncsAnotherRange, &by);
    assert_found(Fault::SkipsSyncs, &by);
}

#[test]
fn range_syncs_that_are_done_though_refused_are_found() {
    let by = ["range_syncs_work_or_are_refused"];
    assert_found(Fault::IgnoresRangeSyncsItRefuses, &by);
}

#[test]
fn an_engine_that_loses_what_it_cannot_run_at_once_is_found() {
    assert_found(Fault::RunsOneOperationAtATime, &["depth_operations_give_depth_completions"]);
}

#[test]
fn a_reallocation_that_writes_instead_is_found() {
    let by = ["reallocation_zeroes_the_range_and_keeps_the_size"];
    assert_found(Fault::WritesZerosInsteadOfReallocating, &by);
}

#[test]
fn a_short_transfer_given_as_whole_is_found() {
    let by = ["a_read_past_the_end_gives_what_is_there"];
    assert_found(Fault::GivesShortTransfersAsWhole, &by);
}

#[test]
fn waits_that_end_early_are_found() {
    assert_found(Fault::EndsWaitsEarly, &["a_wait_with_nothing_in_flight_ends_at_its_deadline"]);
}

#[test]
fn a_completion_that_is_held_back_is_found() {
    let by = ["a_delayed_completion_is_given_though_others_come_without_a_pause"];
    assert_found(Fault::HoldsSyncsBack, &by);
}
