//! A log whose committers are a thread each: they hand their records over and sleep until they are
//! acknowledged. A committer that finds no leader leads: it writes and syncs for all that wait, and
//! wakes them.
//!
//! Needs a blocking engine. The results are those of the measured loop, but a commit ends when its
//! committer runs again: waking it is part of its latency. Write and sync are the leader's.
//!
//! Records are copied into the next batch under the log's lock: with double buffering by the
//! committer itself when it hands over, also while a batch is flushed; without it by the next leader
//! when the flush has returned. The leader then copies the batch as a whole into the engine's buffer.

mod committer;
mod state;
mod transactions;

use std::num::NonZero;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle, Thread, available_parallelism, current};

use durio_base::Nanos;
use durio_block::{Clock, Engine, SyncEngine, Ticks, WriteFlags};
use durio_record::{Accounting, Pacing};
use durio_workload::{
    ArrivalSchedule, BlockFiller, ClientThreads, GroupCommit, LogWriter, Software,
};

use crate::counters::ThreadUsage;
use crate::error::RunError;
use crate::grid::JobBounds;
use crate::job_input::{JobInput, JobOutcome, JobShared, StartBarrier, StartSignal, write_flags};
use crate::measured_loop::{ClockPair, LoopResult};
use committer::{Leader, TellOfPanic};
use state::{CommitterState, Turns, Yields};
use transactions::SocketPair;

// A committer needs little: a record is on the heap, and nothing recurses.
const STACK_BYTES: usize = 128 << 10;

struct CommitterTeam<'a, C> {
    state: Mutex<CommitterState<C>>,
    clock: C,
    policy: GroupCommit,
    bounds: JobBounds,
    write_flags: WriteFlags,
    is_open: bool,
    stop: &'a crate::StopFlag,
    failed: &'a crate::StopFlag,
    /// A committer panicked: the others no longer wait for it.
    panicked: AtomicBool,
    /// Where the committers wait for the begin, and when that was.
    barrier: StartBarrier,
    started: OnceLock<Ticks>,
    threads: OnceLock<Vec<Thread>>,
    /// Where the database gives turns on the processors itself.
    turns: Option<Turns>,
    /// Whether yielding before sleep pays off, in waits for a batch's flush and for its end.
    yields: [Yields; 2],
}

/// What a committer gives back.
#[derive(Default)]
struct CommitterResult {
    usage: ThreadUsage,
    pacing: Option<Pacing>,
}

type Handle<'scope> = ScopedJoinHandle<'scope, CommitterResult>;

/// What a thread does from the barrier on.
type ThreadBody<'scope> = Box<dyn FnOnce() -> CommitterResult + Send + 'scope>;

/// Runs a job with a thread for each of its committers; `None` if the step never began.
pub(crate) fn run<C: Clock + Copy + Send + Sync>(
    engine: SyncEngine<C>,
    clock: C,
    (mut input, filler): (JobInput, BlockFiller),
    shared: &JobShared,
) -> Option<JobOutcome> {
    let schedules = std::mem::take(&mut input.committer_schedules);
    let mut ready = input.ready.take_over();
    let (index, facts) = (input.index, engine.facts());
    let log =
        match CommitterTeam::new(engine, clock, (input, filler), shared, !schedules.is_empty()) {
            Some(log) => log,
            None => {
                ready.tell(Err(RunError::unsupported("a workload without committers has no log")));
                return None;
            }
        };
    let began = std::thread::scope(|scope| {
        let handles = match log.spawn(scope, schedules) {
            Ok(handles) => handles,
            Err(error) => {
                log.barrier.release(StartSignal::Aborted);
                ready.tell(Err(error));
                return None;
            }
        };
        ready.tell(Ok(facts));
        let start = shared.barrier.wait();
        // Under the same barrier as all jobs, then its own: committers begin with the step, not when their
        // thread was made.
        let began = log.begin(start, shared);
        log.barrier.release(start);
        let ended = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let ended: Vec<CommitterResult> = ended.collect();
        (start == StartSignal::Go).then_some((began, ended))
    });
    let (began, ended) = began?;
    if shared.first_ends_all {
        shared.failed.set();
    }
    Some(log.outcome(index, began, &ended))
}

impl<'a, C: Clock + Copy + Send + Sync> CommitterTeam<'a, C> {
    fn new(
        engine: SyncEngine<C>,
        clock: C,
        (input, filler): (JobInput, BlockFiller),
        shared: &'a JobShared,
        is_open: bool,
    ) -> Option<Self> {
        let policy = input.workload.group_commit?;
        let bounds = input.bounds;
        let method = input.workload.sync.method;
        Some(Self {
            state: Mutex::new(CommitterState::new(engine, bounds, (input, filler), is_open)?),
            clock,
            policy,
            bounds,
            write_flags: write_flags(method),
            is_open,
            stop: &shared.stop,
            failed: &shared.failed,
            yields: [Yields::default(), Yields::default()],
            panicked: AtomicBool::new(false),
            barrier: StartBarrier::default(),
            started: OnceLock::new(),
            threads: OnceLock::new(),
            turns: policy.software.and_then(|software| software.turn).map(|longest| {
                let processors = available_parallelism().map_or(1, NonZero::get);
                // The log's thread comes after the committers.
                Turns::new(policy.committers as usize + 1, processors, longest)
            }),
        })
    }

    /// Starts all committers; they wait at the barrier.
    fn spawn<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        schedules: Vec<ArrivalSchedule>,
    ) -> Result<Vec<Handle<'scope>>, RunError> {
        let (software, committers) = (self.policy.software, self.policy.committers);
        let connections = transactions::connect(software, committers);
        let connections = connections.map_err(|error| too_many(0, committers, error))?;
        let (clients, servers): (Vec<_>, Vec<_>) =
            connections.into_iter().map(|SocketPair { client, server }| (client, server)).unzip();
        let mut handles: Vec<Handle<'_>> = Vec::with_capacity(committers as usize);
        let mut start = |name: String, body: ThreadBody<'scope>| {
            let guarded = move || {
                let _guard = TellOfPanic(self);
                body()
            };
            let builder = Builder::new().name(name).stack_size(STACK_BYTES);
            let thread = builder.spawn_scoped(scope, guarded);
            match thread {
                Ok(handle) => handles.push(handle),
                Err(error) => return Err(too_many(handles.len(), committers, error)),
            }
            Ok(())
        };
        match software {
            Some(software) if software.writer == LogWriter::EventLoop => {
                start("event loop".into(), Box::new(move || self.serve_all(&software, servers)))?;
            }
            _ => {
                // Where there are clients, it is they whose transactions are due.
                let own = if clients.is_empty() { schedules.clone() } else { Vec::new() };
                let (mut own, mut servers) = (own.into_iter(), servers.into_iter());
                for me in 0..committers {
                    let (schedule, client) = (own.next(), servers.next());
                    let body = move || self.commit(me, schedule, client.as_ref());
                    start(format!("committer {me}"), Box::new(body))?;
                }
                if self.has_log_thread() {
                    start("log".into(), Box::new(|| self.write_log()))?;
                }
            }
        }
        let mut schedules = schedules.into_iter();
        let clients = clients.into_iter().map(|client| (client, schedules.next())).collect();
        self.start_clients(software, clients, &mut start)?;
        // Set before any committer begins: a leader only unparks threads in this list.
        let threads = handles.iter().map(|handle| handle.thread().clone()).collect();
        let _ = self.threads.set(threads);
        Ok(handles)
    }

    /// Starts those that send transactions, where there are such.
    fn start_clients<'scope>(
        &'scope self,
        software: Option<Software>,
        mut clients: Vec<(UnixStream, Option<ArrivalSchedule>)>,
        start: &mut impl FnMut(String, ThreadBody<'scope>) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let Some(software) = software.filter(|_| !clients.is_empty()) else { return Ok(()) };
        let of_each = if software.clients == ClientThreads::Each { 1 } else { clients.len() };
        while !clients.is_empty() {
            let rest = clients.split_off(of_each.min(clients.len()));
            let own = std::mem::replace(&mut clients, rest);
            start("clients".into(), Box::new(move || self.send_transactions(&software, own)))?;
        }
        Ok(())
    }

    /// The common begin of all jobs, and both clocks there.
    fn begin(&self, start: StartSignal, shared: &JobShared) -> ClockPair {
        let began = ClockPair::read(&self.clock);
        if start == StartSignal::Go {
            let started = *shared.started.get_or_init(|| self.clock.now());
            let _ = self.started.set(started);
            self.lock().begin(started, began, &self.clock);
        }
        began
    }

    fn lock(&self) -> MutexGuard<'_, CommitterState<C>> {
        // A committer that panicked has said so; the others need the state to end.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.stop.is_set() || self.failed.is_set() || self.has_panicked()
    }

    fn wake(&self, committers: &[u32]) {
        let Some(threads) = self.threads.get() else { return };
        // Who wakes is awake: its next sleep would end at once.
        let me = current().id();
        for &committer in committers {
            if let Some(thread) = threads.get(committer as usize).filter(|thread| thread.id() != me)
            {
                thread.unpark();
            }
        }
    }

    /// The outcome of the job, when all have ended.
    fn outcome(self, index: u32, began: ClockPair, ended: &[CommitterResult]) -> JobOutcome {
        let finish = ClockPair::read(&self.clock);
        let started = self.started.get().copied().unwrap_or_default();
        // An open loop's window is as long as was asked for, whenever its last commit was.
        let lasts = self.is_open && self.bounds.end.is_some();
        let window = if lasts { finish.ticks.min(self.end()) } else { Ticks::default() };
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if lasts {
            state.pass_to(window, &self.clock);
        }
        let end_ns = self.clock.nanos(state.last_completion.max(window).since(started));
        // None only if the leader panicked, and then the counts are not used.
        let (in_flight_ns, exchanges) = state
            .leader
            .as_ref()
            .map_or((0, 0), |leader| (leader.in_flight.integral, leader.exchanges));
        let result = LoopResult {
            accounting: Accounting {
                in_flight_ns,
                span_ns: finish.reference_nanos.saturating_sub(began.reference_nanos),
                engine_span_ns: self.clock.nanos(finish.ticks.since(began.ticks)),
                // A log copies a record into its batch inside of the commit, so making it is part
                // of the latency (docs/design/0010).
                filling_ns: 0,
            },
            pacing: all_pacings(ended.iter().filter_map(|job| job.pacing)),
            batches: Some(state.log.counts.batches()),
            reference: (began.reference_nanos, finish.reference_nanos),
            measured: Nanos::new(end_ns.saturating_sub(self.bounds.ramp)),
            end_ns,
            exchanges,
            ending: state.ending,
        };
        let usage = ended.iter().map(|job| job.usage).reduce(ThreadUsage::plus).unwrap_or_default();
        JobOutcome {
            index,
            end: Nanos::new(result.end_ns),
            result,
            recorder_waits: state.recorder.waits,
            parts: state.recorder.finish(),
            usage,
        }
    }
}

fn too_many(started: usize, wanted: u32, error: std::io::Error) -> RunError {
    let message = format!("cannot start more than {started} of {wanted} committers");
    RunError::target(message).because(error).hint(
        "give fewer --committers, leave out --committer-threads, or raise the limit on processes \
         (ulimit -u)",
    )
}

/// What became of the arrivals of all together; none in a closed loop.
fn all_pacings(all: impl IntoIterator<Item = Pacing>) -> Option<Pacing> {
    all.into_iter().reduce(|sum, pacing| Pacing {
        due: sum.due + pacing.due,
        started: sum.started + pacing.started,
        punctual: sum.punctual + pacing.punctual,
        lag_ns_sum: sum.lag_ns_sum.saturating_add(pacing.lag_ns_sum),
        lag_ns_max: sum.lag_ns_max.max(pacing.lag_ns_max),
        behind_ns_max: sum.behind_ns_max.max(pacing.behind_ns_max),
    })
}
