//! The state behind the log's lock: the queue, the next batch's bytes, the outcome of each
//! committer's record, the recorder, and the leader's tools while no thread leads.

use durio_block::{Clock, SyncEngine, Ticks};
use durio_record::OperationName;
use durio_workload::{AccessKind, BlockFiller, Stream, Workload};

use super::Leader;
use crate::grid::{IntervalClock, JobBounds};
use crate::job::JobInput;
use crate::log::{Log, Record, put_record};
use crate::measured_loop::{ClockPair, EarlyEnding};
use crate::recorder::JobRecorder;

/// What became of a committer's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitOutcome {
    Waiting,
    /// Its batch is flushed, and it has not done its part.
    Flushed,
    Acknowledged,
    /// It will never be acknowledged.
    Failed,
}

pub(super) struct CommitterState<C> {
    pub(super) log: Log,
    stream: Stream,
    varied: bool,
    pub(super) recorder: JobRecorder,
    /// None while a thread leads, or a flushed batch has not ended.
    pub(super) leader: Option<Leader<C>>,
    /// The tools and how many committers have not done their part in the batch that is flushed.
    pub(super) applying: Option<(Leader<C>, usize)>,
    pub(super) next_batch: Vec<u8>,
    pub(super) outcomes: Box<[CommitOutcome]>,
    /// Memory for the list of threads that the next leader wakes, while the last one still wakes
    /// its own.
    pub(super) spare: Vec<Vec<u32>>,
    /// Committers that have not ended.
    pub(super) active: u32,
    series: IntervalClock,
    remaining: u64,
    remaining_bytes: u64,
    filler: BlockFiller,
    pub(super) last_completion: Ticks,
    pub(super) ending: EarlyEnding,
}

impl<C: Clock> CommitterState<C> {
    /// None if the workload has no committers.
    pub(super) fn new(
        engine: SyncEngine<C>,
        bounds: JobBounds,
        (input, filler): (JobInput, BlockFiller),
        is_open: bool,
    ) -> Option<Self> {
        let workload: &Workload = &input.workload;
        let log = Log::of(workload, input.region)?;
        let committers = log.policy.committers;
        let bytes = usize::try_from(workload.transfer_max().get()).unwrap_or(usize::MAX);
        let stream = Stream::new(workload, input.region, input.seed);
        let job = input.index as usize;
        let recorder = JobRecorder::new(job, workload, (false, is_open), input.closed, input.empty);
        Some(Self {
            log,
            stream,
            varied: workload.has_mix(),
            recorder,
            leader: Some(Leader::new(engine, bytes, committers)),
            applying: None,
            next_batch: vec![0; bytes],
            outcomes: vec![CommitOutcome::Waiting; committers as usize].into_boxed_slice(),
            // A third one is never needed long: waking takes less than a flush.
            spare: vec![Vec::with_capacity(committers as usize + 1)],
            active: committers,
            series: IntervalClock::new(bounds.grid()),
            remaining: bounds.operations,
            remaining_bytes: bounds.bytes,
            filler,
            last_completion: Ticks::default(),
            ending: EarlyEnding::default(),
        })
    }

    pub(super) fn begin(&mut self, started: Ticks, began: ClockPair, clock: &C) {
        self.series.begin(started, clock);
        self.last_completion = began.ticks;
        if let Some(leader) = &mut self.leader {
            leader.in_flight.begin(began.reference_nanos);
        }
    }

    /// Takes a record of `committer` into the queue; false if no more is wanted.
    pub(super) fn hand_over(&mut self, committer: u32, (handed, intended): (Ticks, Ticks)) -> bool {
        if self.remaining == 0 {
            return false;
        }
        self.remaining -= 1;
        let length = self.stream.next_access().length;
        if self.varied {
            self.remaining_bytes = self.remaining_bytes.saturating_sub(length);
            if self.remaining_bytes == 0 {
                self.remaining = 0;
            }
        }
        self.outcomes[committer as usize] = CommitOutcome::Waiting;
        self.log.queue.push(Record { handed, intended, length, committer });
        // Copied now, while a batch is flushed: the purpose of a second buffer.
        if self.log.policy.double_buffered {
            self.join();
        }
        true
    }

    /// True if the limit is a time that is not over yet, as far as records tell.
    pub(super) fn expects_records(&self) -> bool {
        self.remaining > 0
    }

    /// The separate call that makes a batch durable after its write, if any.
    pub(super) fn sync_after_write(&mut self) -> Option<AccessKind> {
        self.stream.follow_up(AccessKind::Write).map(|access| access.kind)
    }

    /// Ends the handing over.
    pub(super) fn end(&mut self) {
        self.remaining = 0;
    }

    /// Copies the waiting records into the next batch, as far as there is room.
    pub(super) fn join(&mut self) {
        while let Some((record, at)) = self.log.queue.join_next() {
            put_record(&mut self.next_batch, (at, record.length), &mut self.filler);
        }
    }

    /// Something completed at `now`: closes the intervals that are over before.
    pub(super) fn pass_to(&mut self, now: Ticks, clock: &C) {
        self.last_completion = self.last_completion.max(now);
        if !self.series.is_over(now) {
            return;
        }
        let ramp_ended = self.series.advance(now, clock);
        // A blocking engine waits in the kernel for its one operation, and waiting is looking
        // (docs/design/0001).
        self.recorder.rotate(self.series.index(), 0);
        if ramp_ended {
            self.recorder.forget_parts();
            self.log.counts.clear();
        }
    }

    /// Records a committer's latency, from its record's hand-over to `now`.
    pub(super) fn record_commit(
        &mut self,
        service_ns: u64,
        response_ns: Option<u64>,
        (now, clock): (Ticks, &C),
    ) {
        self.pass_to(now, clock);
        self.recorder.record(OperationName::Commit, service_ns);
        if let Some(nanos) = response_ns {
            self.recorder.record_response(OperationName::Commit, nanos);
        }
    }

    /// No record that waits or is in flight will be acknowledged; `woken` gets their committers.
    pub(super) fn fail_all(&mut self, woken: &mut Vec<u32>) {
        self.end();
        while let Some(record) = self.log.queue.abandon_next() {
            self.outcomes[record.committer as usize] = CommitOutcome::Failed;
            woken.push(record.committer);
        }
    }
}
