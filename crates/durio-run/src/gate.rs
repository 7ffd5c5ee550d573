//! The common start of all jobs of a step: each tells whether it is ready, and waits for the word.
//!
//! Nobody may wait for ever: a job that ends without an answer has refused, and a coordinator that
//! ends without a word has called the step off.

use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use durio_block::EngineFacts;

use crate::error::RunError;

/// The word at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// All are ready.
    Go,
    /// The step does not begin.
    Aborted,
}

/// Where all jobs wait for the word.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    word: Mutex<Option<Word>>,
    opened: Condvar,
}

impl Gate {
    /// Lets everybody through; the first word counts.
    pub(crate) fn open(&self, word: Word) {
        self.lock().get_or_insert(word);
        self.opened.notify_all();
    }

    /// Waits for the word.
    pub(crate) fn pass(&self) -> Word {
        let mut guard = self.lock();
        loop {
            if let Some(word) = *guard {
                return word;
            }
            guard = self.opened.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Word>> {
        self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a job tells before it waits at the gate.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Which job.
    pub(crate) job: u32,
    /// How its engine was set up, or why it cannot run.
    pub(crate) facts: Result<EngineFacts, RunError>,
}

/// A job's one answer; given also when the job ends early, by a panic or because its thread could
/// not be started.
#[derive(Debug)]
pub(crate) struct Readiness {
    job: u32,
    sender: Option<Sender<Answer>>,
}

impl Readiness {
    pub(crate) fn new(job: u32, sender: Sender<Answer>) -> Self {
        Self { job, sender: Some(sender) }
    }

    /// The answer in the hands of another; this one says nothing any more.
    pub(crate) fn take_over(&mut self) -> Self {
        Self { job: self.job, sender: self.sender.take() }
    }

    pub(crate) fn tell(&mut self, facts: Result<EngineFacts, RunError>) {
        if let Some(sender) = self.sender.take() {
            // Fails only if the coordinator is gone, and with it the step.
            let _ = sender.send(Answer { job: self.job, facts });
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
    fn a_word_reaches_those_who_wait() {
        let gate = Gate::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.pass());
            gate.open(Word::Aborted);
            assert_eq!(waiting.join().unwrap(), Word::Aborted);
        });
    }

    #[test]
    fn the_first_word_counts() {
        let gate = Gate::default();
        gate.open(Word::Go);
        gate.open(Word::Aborted);
        assert_eq!(gate.pass(), Word::Go);
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
