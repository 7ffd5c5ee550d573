//! What a job gets and gives, and the common start of all jobs of a step: each reports whether it is
//! ready, and waits for the others.
//!
//! No thread may wait for ever: a job that ends without an answer has refused, and a coordinator
//! that ends before the start has aborted the step.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use durio_base::Nanos;
use durio_block::{EngineFacts, MonotonicClock, Ticks, TscClock, WriteFlags};
use durio_plan::{CompletionTime, DrainPolicy, EngineKind, NullScript};
use durio_workload::{ArrivalSchedule, CommitterThreads, FileOrder, Region, SyncMethod, Workload};
use rustix::fs::Advice;

use crate::StopFlag;
use crate::counters::ThreadUsage;
use crate::error::RunError;
use crate::grid::JobBounds;
use crate::measured_loop::LoopResult;
use crate::recorder::{ClosedInterval, IntervalBuffer, Parts, PerOperation};

/// The clock of a run's engines; the null engine has its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunClock {
    Tsc(TscClock),
    Monotonic(MonotonicClock),
}

/// What all jobs of a step share.
#[derive(Default)]
pub(crate) struct JobShared {
    /// The user's wish to end.
    pub(crate) stop: StopFlag,
    /// A job has failed, or was the first to be done where that ends all: the others end too.
    pub(crate) failed: StopFlag,
    pub(crate) first_ends_all: bool,
    /// Where all jobs wait for the common start.
    pub(crate) barrier: StartBarrier,
    /// The common begin, set by the first to pass the barrier.
    pub(crate) started: OnceLock<Ticks>,
}

pub(crate) struct JobInput {
    pub(crate) index: u32,
    pub(crate) engine: EngineKind,
    pub(crate) workload: Workload,
    /// Buffers for each operation in flight.
    pub(crate) slots_each: u32,
    pub(crate) batch: u32,
    pub(crate) script: Option<NullScript>,
    pub(crate) region: Region,
    pub(crate) seed: u64,
    pub(crate) bounds: JobBounds,
    /// When operations start, in an open loop.
    pub(crate) schedule: Option<ArrivalSchedule>,
    /// The same for each committer with a separate thread, instead.
    pub(crate) committer_schedules: Vec<ArrivalSchedule>,
    /// The processors that it may run on; none for any.
    pub(crate) processors: Vec<u32>,
    /// The files that it works on in turn; one, but for a few loads, and none with the null engine.
    pub(crate) files: Vec<OwnedFd>,
    pub(crate) files_each: u32,
    pub(crate) file_order: FileOrder,
    pub(crate) drain: Option<DrainPolicy>,
    pub(crate) completion_time: CompletionTime,
    /// A second descriptor of each file, if each pass over one drops its cached pages.
    pub(crate) pass_files: Vec<OwnedFd>,
    /// A sync holds up the job.
    pub(crate) blocking_syncs: bool,
    /// The advice given to the kernel on the order of accesses.
    pub(crate) advice: Option<Advice>,
    pub(crate) clock: RunClock,
    pub(crate) closed: SyncSender<ClosedInterval>,
    pub(crate) empty: Receiver<IntervalBuffer>,
    pub(crate) ready: Readiness,
}

pub(crate) struct JobOutcome {
    pub(crate) index: u32,
    pub(crate) result: LoopResult,
    pub(crate) parts: PerOperation<Parts>,
    /// What its thread used, from the common start to its end.
    pub(crate) usage: ThreadUsage,
    pub(crate) recorder_waits: u64,
    /// The end of the job, since the step's begin.
    pub(crate) end: Nanos,
}

/// True if each committer of the log has a separate thread.
pub(crate) fn has_committer_threads(workload: &Workload) -> bool {
    workload.group_commit.is_some_and(|policy| policy.threads == CommitterThreads::OneEach)
}

pub(crate) fn write_flags(method: SyncMethod) -> WriteFlags {
    match method {
        SyncMethod::RwfDsync => WriteFlags::Dsync,
        SyncMethod::RwfSync => WriteFlags::Sync,
        _ => WriteFlags::None,
    }
}

/// Whether a step begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartSignal {
    Go,
    Aborted,
}

/// Where all jobs wait. A [`std::sync::Barrier`] would not do: it cannot be given up when a job turns
/// out to be missing.
#[derive(Debug, Default)]
pub(crate) struct StartBarrier {
    start: Mutex<Option<StartSignal>>,
    released: Condvar,
}

impl StartBarrier {
    /// Lets everybody through; the first decision counts.
    pub(crate) fn release(&self, start: StartSignal) {
        self.lock().get_or_insert(start);
        self.released.notify_all();
    }

    /// Waits until it is decided.
    pub(crate) fn wait(&self) -> StartSignal {
        let mut guard = self.lock();
        loop {
            if let Some(start) = *guard {
                return start;
            }
            guard = self.released.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<StartSignal>> {
        // A panic elsewhere must not keep the others waiting, and the locked data is always whole.
        self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job's report before it waits at the barrier.
#[derive(Debug)]
pub(crate) struct JobAnswer {
    pub(crate) job: u32,
    /// How its engine was set up, or why it cannot run.
    pub(crate) facts: Result<EngineFacts, RunError>,
}

/// A job's one answer; given also when the job ends early, by a panic or because its thread could
/// not be started.
#[derive(Debug)]
pub(crate) struct Readiness {
    job: u32,
    sender: Option<Sender<JobAnswer>>,
}

impl Readiness {
    pub(crate) fn new(job: u32, sender: Sender<JobAnswer>) -> Self {
        Self { job, sender: Some(sender) }
    }

    /// The answer in the hands of another; this one says nothing any more.
    pub(crate) fn take_over(&mut self) -> Self {
        Self { job: self.job, sender: self.sender.take() }
    }

    pub(crate) fn tell(&mut self, facts: Result<EngineFacts, RunError>) {
        if let Some(sender) = self.sender.take() {
            // Fails only if the coordinator is gone, and with it the step.
            let _ = sender.send(JobAnswer { job: self.job, facts });
        }
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        self.tell(Err(RunError::unsupported(format!("job {} ended before it began", self.job))));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_decision_reaches_those_who_wait() {
        let barrier = StartBarrier::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| barrier.wait());
            barrier.release(StartSignal::Aborted);
            assert_eq!(waiting.join().unwrap(), StartSignal::Aborted);
        });
    }

    #[test]
    fn the_first_decision_counts() {
        let barrier = StartBarrier::default();
        barrier.release(StartSignal::Go);
        barrier.release(StartSignal::Aborted);
        assert_eq!(barrier.wait(), StartSignal::Go);
    }

    #[test]
    fn a_job_that_goes_without_an_answer_has_refused() {
        let (sender, answers) = channel();
        drop(Readiness::new(7, sender));
        let answer = answers.recv().unwrap();
        assert_eq!(answer.job, 7);
        assert_eq!(answer.facts.unwrap_err().to_string(), "job 7 ended before it began");
        assert!(answers.recv().is_err(), "one answer only");
    }
}
