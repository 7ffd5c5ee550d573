//! The common start of all jobs of a step: each reports whether it is ready, and waits for the
//! others.
//!
//! No thread may wait for ever: a job that ends without an answer has refused, and a coordinator
//! that ends before the start has aborted the step.

use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use durio_block::EngineFacts;

use crate::error::RunError;

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
