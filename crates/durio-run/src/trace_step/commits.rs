//! Commits, one after the other, with a mark before and after each.
//!
//! A commit is as many writes as the workload's sync policy makes durable together, and the sync; for
//! methods that sync each write by itself, one write.

use durio_block::{Engine, MonotonicClock};
use durio_workload::{Access, AccessKind, BlockFiller, Stream, Workload, job_seed};

use super::instance::TraceInstance;
use crate::error::RunError;
use crate::one_by_one::{self, Ended, Ending};
use crate::sink::StopFlag;
use crate::step::Arming;
use crate::unmeasured::SingleLoad;

/// What became of the commits.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Commits that were acknowledged.
    pub(super) commits: u64,
    /// What ended them early.
    pub(super) ending: Ending,
    /// Why a mark could not be written.
    pub(super) mark_error: Option<String>,
}

/// Makes the commits of a step; with the null engine, none.
pub(super) fn make_commits(
    arming: Arming<'_>,
    single: &mut SingleLoad,
    marks: Option<&mut TraceInstance>,
) -> Result<Made, RunError> {
    let workload = &single.effective.workload;
    let Some(file) = single.file.take() else { return Ok(Made::default()) };
    let seed = job_seed(arming.plan.seed, arming.step.index.into(), 0);
    let mut committing = Committing {
        stream: Stream::new(workload, single.region, seed),
        filler: BlockFiller::new(workload, seed),
        workload,
        count: single.count,
        stop: arming.stop,
        marks,
        made: Made::default(),
    };
    let engine = (single.effective.engine, MonotonicClock);
    one_by_one::with_engine(engine, workload, file, seed, &mut |engine| committing.run(engine))?;
    Ok(committing.made)
}

/// Commits on their way.
struct Committing<'a> {
    stream: Stream,
    filler: BlockFiller,
    workload: &'a Workload,
    count: u64,
    stop: &'a StopFlag,
    marks: Option<&'a mut TraceInstance>,
    made: Made,
}

impl Committing<'_> {
    fn run(&mut self, engine: &mut dyn Engine<Clock = MonotonicClock>) {
        while self.made.commits < self.count && !self.stop.is_set() {
            if self.commit(engine).is_err() {
                return;
            }
            self.made.commits += 1;
        }
    }

    fn commit(&mut self, engine: &mut dyn Engine<Clock = MonotonicClock>) -> Result<(), Ended> {
        // A segment that is returned to its first state at its end is no part of a commit.
        let mut access = self.next_write(engine)?;
        self.mark("begin");
        for left in (0..self.workload.sync.every).rev() {
            one_by_one::access(engine, self.workload, access, &mut self.made.ending)?;
            one_by_one::follow_ups(engine, &mut self.stream, access, &mut self.made.ending)?;
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
    ) -> Result<Access, Ended> {
        loop {
            let access = self.stream.next_access();
            one_by_one::fill(engine, &mut self.filler, access);
            if access.kind == AccessKind::Write {
                return Ok(access);
            }
            one_by_one::access(engine, self.workload, access, &mut self.made.ending)?;
        }
    }

    fn mark(&mut self, word: &str) {
        let Some(marks) = &mut self.marks else { return };
        if let Err(reason) = marks.mark(word, self.made.commits) {
            self.made.mark_error = Some(reason);
            self.marks = None;
        }
    }
}
