//! The state behind the log's lock: the queue, the next batch's bytes, the outcome of each
//! committer's record, the recorder, and the leader's tools while no thread leads.
//!
//! How committers wait for a processor and for each other is here too. A database may give turns on
//! the processors to its threads itself ([`Turns`]), in the order in which they became ready, instead
//! of leaving that to the kernel; threads are known by their place in the list of all. As many have a turn as there are processors. A thread that waits for a client or for storage has
//! none, and joins the end of the queue when it continues.
//!
//! RocksDB waits at first by yielding the processor, if waits are short and no other thread wants it,
//! else asleep ([`Yields`]). The rule is that of AwaitState in db/write_thread.cc: a yield that takes long has let another
//! thread run, and after three of those the thread sleeps. A balance of such waits says whether the
//! next one yields at all; one in 256 does it anyway, to find out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::yield_now;

use durio_base::Nanos;
use durio_block::{Clock, OperationKind, SyncEngine, Ticks};
use durio_record::OperationName;
use durio_workload::{BlockFiller, Stream, Workload};

use super::{CommitterTeam, Leader};
use crate::grid::{IntervalClock, JobBounds};
use crate::job_input::JobInput;
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
    pub(super) fn sync_after_write(&mut self) -> Option<OperationKind> {
        self.stream.follow_up(OperationKind::Write).map(|access| access.kind)
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

pub(super) struct Turns {
    /// After this time a thread gives its turn to the next one that is ready.
    pub(super) longest: Nanos,
    queue: Mutex<TurnQueue>,
    /// By thread: it was given a turn while it waited for one.
    given: Box<[AtomicBool]>,
}

struct TurnQueue {
    free: usize,
    waiting: VecDeque<u32>,
}

impl Turns {
    /// For this many threads, of which `at_once` run at the same time.
    pub(super) fn new(threads: usize, at_once: usize, longest: Nanos) -> Self {
        let waiting = VecDeque::with_capacity(threads);
        Self {
            longest,
            queue: Mutex::new(TurnQueue { free: at_once, waiting }),
            given: (0..threads).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Waits for a turn: `sleep` until another thread may have given it. If it `is_over` before,
    /// the thread continues without: it only has to end.
    pub(super) fn take(&self, me: u32, sleep: impl Fn(), is_over: impl Fn() -> bool) {
        {
            let mut queue = self.lock();
            // A free turn while others wait was given to one of them.
            if queue.free > 0 {
                queue.free -= 1;
                return;
            }
            queue.waiting.push_back(me);
        }
        let given = &self.given[me as usize];
        while !given.swap(false, Ordering::Acquire) {
            if is_over() {
                self.lock().waiting.retain(|waiting| *waiting != me);
                return;
            }
            sleep();
        }
    }

    /// Ends a turn; gives the thread that has it next, to be woken.
    pub(super) fn give(&self) -> Option<u32> {
        let mut queue = self.lock();
        let next = queue.waiting.pop_front();
        match next {
            Some(next) => self.given[next as usize].store(true, Ordering::Release),
            None => queue.free += 1,
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, TurnQueue> {
        // Nothing in it can be half done.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A yield that takes so long was a slow one (write_thread_slow_yield_usec).
const SLOW: Nanos = Nanos::from_micros(3);

/// After this many slow yields a thread sleeps.
const SLOW_MAX: u32 = 3;

/// One in this many waits is counted regardless of its outcome.
const SAMPLED: u32 = 256;

/// What a wait adds to the balance, which decays by a 1024th each time.
const STEP: i32 = 131_072;

/// The balance of waits of one kind.
#[derive(Debug, Default)]
pub(super) struct Yields {
    balance: AtomicI32,
    waits: AtomicU32,
}

impl Yields {
    /// Whether the next wait yields, and whether it is counted.
    fn begin(&self) -> (bool, bool) {
        let is_sampled = self.waits.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLED);
        (is_sampled || self.balance.load(Ordering::Relaxed) >= 0, is_sampled)
    }

    fn count(&self, was_worth_it: bool) {
        let before = self.balance.load(Ordering::Relaxed);
        let step = if was_worth_it { STEP } else { -STEP };
        // Two at the same time lose one of them, which does no harm.
        self.balance.store(before - before / 1024 + step, Ordering::Relaxed);
    }
}

/// Slow yields of a wait.
struct SlowYields(u32);

impl SlowYields {
    /// True if, after a yield of this many nanoseconds, the thread sleeps.
    fn are_enough(&mut self, nanos: u64) -> bool {
        self.0 += u32::from(nanos >= SLOW.get());
        self.0 == SLOW_MAX
    }
}

impl<C: Clock + Copy + Send + Sync> CommitterTeam<'_, C> {
    /// Yields until something is to do for this committer; false if it is to sleep.
    pub(super) fn yield_until_ready(&self, me: u32, has_applied: bool) -> bool {
        let Some(longest) = self.policy.software.and_then(|software| software.yields) else {
            return false;
        };
        let yields = &self.yields[usize::from(has_applied)];
        let (begins, mut is_counted) = yields.begin();
        if !begins {
            return false;
        }
        let nanos = |from, to: durio_block::Ticks| self.clock.nanos(to.since(from));
        let begin = self.clock.now();
        let (mut last, mut slow, mut came) = (begin, SlowYields(0), false);
        while nanos(begin, last) <= longest.get() {
            yield_now();
            if self.is_ready(me) {
                came = true;
                break;
            }
            let now = self.clock.now();
            if slow.are_enough(nanos(last, now)) {
                is_counted = true;
                break;
            }
            last = now;
        }
        if is_counted {
            yields.count(came);
        }
        came
    }

    /// True if its record has an outcome, or it may lead.
    fn is_ready(&self, me: u32) -> bool {
        match self.state.try_lock() {
            Ok(state) => {
                state.outcomes[me as usize] != CommitOutcome::Waiting || state.leader.is_some()
            }
            // The holder of the lock is about to change the outcome.
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Poisoned(_)) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::mpsc::{channel, sync_channel};

    use durio_base::Bytes;
    use durio_block::{Buffers, MonotonicClock};
    use durio_plan::{CompletionTime, EngineKind};
    use durio_workload::{
        ClientThreads, CommitterThreads, FileOrder, GroupCommit, LogWriter, PerMille, Software,
    };

    use super::*;
    use crate::job_input::{JobShared, Readiness, RunClock};

    /// A committer that yields while the log's thread, which is not there, writes its record.
    fn yielding(shared: &JobShared) -> CommitterTeam<'_, MonotonicClock> {
        let none = Nanos::ZERO;
        let software = Software {
            clients: ClientThreads::Embedded,
            writer: LogWriter::LogThread,
            wakes_all: false,
            flushes: 1,
            turn: None,
            client: none,
            before: none,
            after: none,
            batch: none,
            apply: Some(none),
            yields: Some(Nanos::from_micros(100)),
            wake: none,
        };
        let policy = GroupCommit {
            threads: CommitterThreads::OneEach,
            software: Some(software),
            ..GroupCommit::of(1)
        };
        let workload = Workload {
            read_share: PerMille::NONE,
            block_size: Bytes::new(256),
            group_commit: Some(policy),
            ..Workload::default()
        };
        let filler = BlockFiller::new(&workload, 1);
        let (closed, _) = sync_channel(1);
        let (_, empty) = sync_channel(1);
        let (answers, _) = channel();
        let (operations, bytes) = (u64::MAX, u64::MAX);
        let input = JobInput {
            index: 0,
            engine: EngineKind::Sync,
            region: workload.region_of(0, Bytes::from_mib(2)).unwrap(),
            workload,
            slots_each: 1,
            batch: 1,
            script: None,
            seed: 1,
            bounds: JobBounds { ramp: 0, end: None, interval: u64::MAX, operations, bytes },
            schedule: None,
            committer_schedules: Vec::new(),
            processors: Vec::new(),
            files: Vec::new(),
            files_each: 1,
            file_order: FileOrder::EACH_IN_TURN,
            drain: None,
            completion_time: CompletionTime::Seen,
            pass_files: Vec::new(),
            blocking_syncs: false,
            advice: None,
            clock: RunClock::Monotonic(MonotonicClock),
            closed,
            empty,
            ready: Readiness::new(0, answers),
        };
        let file = File::open("/dev/null").unwrap();
        let engine = SyncEngine::new(MonotonicClock, file.into(), Buffers::new(1, 4096));
        CommitterTeam::new(engine, MonotonicClock, (input, filler), shared, false).unwrap()
    }

    #[test]
    fn a_committer_whose_batch_is_not_flushed_waits_for_the_flush_and_not_for_the_end() {
        let shared = JobShared::default();
        let team = yielding(&shared);
        let waits = || team.yields.each_ref().map(|kind| kind.waits.load(Ordering::Relaxed));
        let is_committed = std::thread::scope(|scope| {
            let committer = scope.spawn(|| team.commit_record(0, Default::default()));
            while waits() == [0, 0] {
                yield_now();
            }
            team.lock().outcomes[0] = CommitOutcome::Acknowledged;
            committer.join().unwrap()
        });
        assert!(is_committed);
        let [of_flush, of_end] = waits();
        assert!(of_flush > 0 && of_end == 0, "{of_flush} and {of_end} waits");
    }

    #[test]
    fn a_leader_that_finds_all_over_wakes_those_who_wait_for_it() {
        let shared = JobShared::default();
        let team = yielding(&shared);
        let (tells, told) = channel();
        let waiting = std::thread::spawn(move || {
            // Without a time after which it would look by itself.
            std::thread::park();
            tells.send(())
        });
        assert!(team.threads.set(vec![waiting.thread().clone()]).is_ok());
        assert!(team.lock().hand_over(0, Default::default()));
        shared.stop.set();
        let leader = team.lock().leader.take().unwrap();
        team.lead(leader);
        assert_eq!(told.recv_timeout(std::time::Duration::from_secs(60)), Ok(()));
        let state = team.lock();
        assert_eq!(state.outcomes[0], CommitOutcome::Failed);
        assert!(state.leader.is_some() && !state.expects_records());
    }

    #[test]
    fn a_log_makes_its_records_within_their_commits_and_counts_nothing_apart() {
        let shared = JobShared::default();
        let outcome = yielding(&shared).outcome(3, ClockPair::read(&MonotonicClock), &[]);
        let accounting = outcome.result.accounting;
        assert_eq!((outcome.index, accounting.filling_ns, accounting.in_flight_ns), (3, 0, 0));
    }

    #[test]
    fn turns_are_given_in_the_order_of_those_who_wait() {
        let turns = Turns::new(4, 1, Nanos::ZERO);
        turns.take(0, || unreachable!(), || false);
        turns.lock().waiting.extend([2, 1]);
        assert_eq!((turns.give(), turns.give(), turns.give()), (Some(2), Some(1), None));
        turns.take(3, || unreachable!(), || false);
    }

    #[test]
    fn who_is_over_waits_for_none_and_is_given_none() {
        let turns = Turns::new(2, 1, Nanos::ZERO);
        turns.take(0, || unreachable!(), || false);
        turns.take(1, || unreachable!(), || true);
        assert_eq!(turns.give(), None);
    }

    #[test]
    fn waits_that_are_not_worth_it_end_yielding_but_for_one_in_256() {
        let yields = Yields::default();
        // The first one is sampled.
        assert_eq!(yields.begin(), (true, true));
        yields.count(false);
        let begun = (0..512).filter(|_| yields.begin().0).count();
        assert_eq!(begun, 2);
        for _ in 0..2 {
            yields.count(true);
        }
        assert_eq!(yields.begin(), (true, false));
    }

    /// The numbers are those of RocksDB's options and of db/write_thread.cc.
    #[test]
    fn a_thread_sleeps_after_three_yields_of_3_us_and_a_wait_weighs_131_072() {
        let mut slow = SlowYields(0);
        let enough = [2999, 3000, 2999, 9000, 0, 3000].map(|nanos| slow.are_enough(nanos));
        assert_eq!(enough, [false, false, false, false, false, true]);
        let yields = Yields::default();
        let after = |was_worth_it| {
            yields.count(was_worth_it);
            yields.balance.load(Ordering::Relaxed)
        };
        // A 1024th of the balance is lost each time.
        assert_eq!([after(true), after(true), after(false)], [131_072, 262_016, 130_689]);
    }

    #[test]
    fn the_balance_stays_within_bounds() {
        let yields = Yields::default();
        for _ in 0..10_000 {
            yields.count(true);
        }
        let most = yields.balance.load(Ordering::Relaxed);
        assert!(most > 0 && most <= STEP * 1024, "{most}");
        for _ in 0..20_000 {
            yields.count(false);
        }
        assert!(yields.balance.load(Ordering::Relaxed) >= -STEP * 1024);
    }
}
