//! Commits, one after the other, with a mark before and after each.
//!
//! A commit is as many writes as the workload's sync policy makes durable together, and the sync; for
//! methods that sync each write by itself, one write.

use durio_block::{Engine, MonotonicClock};
use durio_workload::{Access, AccessKind, job_seed};

use super::instance::TraceInstance;
use crate::error::RunError;
use crate::measured_loop::EarlyEnding;
use crate::one_by_one::{EndedEarly, OneByOne, with_engine};
use crate::sink::StopFlag;
use crate::step::StepSetup;
use crate::unmeasured::SingleLoad;

/// What became of the commits.
#[derive(Debug, Default)]
pub(super) struct CommitRun {
    /// Commits that were acknowledged.
    pub(super) commits: u64,
    pub(super) ending: EarlyEnding,
    pub(super) mark_error: Option<String>,
}

/// Makes the commits of a step; with the null engine, none.
pub(super) fn make_commits(
    setup: StepSetup<'_>,
    single: &mut SingleLoad,
    marks: Option<&mut TraceInstance>,
) -> Result<CommitRun, RunError> {
    let workload = &single.effective.workload;
    let Some(file) = single.file.take() else { return Ok(CommitRun::default()) };
    let seed = job_seed(setup.plan.seed, setup.step.index.into(), 0);
    let mut committing = TracedCommits {
        operations: OneByOne::new(workload, single.region, seed),
        writes_each: workload.sync.every,
        count: single.count,
        stop: setup.stop,
        marks,
        made: CommitRun::default(),
    };
    let engine = (single.effective.engine, MonotonicClock);
    with_engine(engine, workload, file, seed, &mut |engine| committing.run(engine))?;
    Ok(CommitRun { ending: committing.operations.ending, ..committing.made })
}

struct TracedCommits<'a> {
    operations: OneByOne<'a>,
    writes_each: u32,
    count: u64,
    stop: &'a StopFlag,
    marks: Option<&'a mut TraceInstance>,
    made: CommitRun,
}

impl TracedCommits<'_> {
    fn run(&mut self, engine: &mut dyn Engine<Clock = MonotonicClock>) {
        while self.made.commits < self.count && !self.stop.is_set() {
            if self.commit(engine).is_err() {
                return;
            }
            self.made.commits += 1;
        }
    }

    fn commit(
        &mut self,
        engine: &mut dyn Engine<Clock = MonotonicClock>,
    ) -> Result<(), EndedEarly> {
        // Resetting a segment to its first state at its end is not part of a commit.
        let mut access = self.next_write(engine)?;
        self.mark("begin");
        for left in (0..self.writes_each).rev() {
            self.operations.access_and_syncs(engine, access)?;
            if left > 0 {
                access = self.next_write(engine)?;
            }
        }
        self.mark("end");
        Ok(())
    }

    fn next_write(
        &mut self,
        engine: &mut dyn Engine<Clock = MonotonicClock>,
    ) -> Result<Access, EndedEarly> {
        loop {
            let access = self.operations.next(engine);
            if access.kind == AccessKind::Write {
                return Ok(access);
            }
            self.operations.access(engine, access)?;
        }
    }

    fn mark(&mut self, word: &str) {
        let Some(marks) = &mut self.marks else { return };
        if let Err(reason) = marks.mark(word, self.made.commits) {
            // Commits without marks cannot be separated: the others need none either.
            self.made.mark_error = Some(reason);
            self.marks = None;
        }
    }
}
