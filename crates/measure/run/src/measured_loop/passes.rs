//! A job's work between its accesses: it drops the page cache where a pass over its region begins,
//! and syncs when it is done.
//!
//! The stream says where a pass begins; the last sync is recorded. `layout` drops the pages before
//! a step.

use std::os::fd::AsFd;

use durio_block::{Clock, Completion, Engine, drop_cached};
use durio_record::OperationName;
use durio_workload::{Access, AccessKind};

use super::{MeasuredLoop, Origin};

impl<E: Engine> MeasuredLoop<'_, E> {
    /// Drops the cached pages of the pass that is to begin, if one is and nothing is in flight; the
    /// time is in the rate and in no latency. Gives false while operations of the pass before are
    /// in flight: they would wait for the drop, and their data would be cached again.
    #[cold]
    pub(super) fn begin_pass(&mut self) -> bool {
        if self.in_flight.now > 0 {
            return false;
        }
        let Some(pass) = self.next_pass.take() else { return true };
        if let Some(file) = self.input.pass_files.get(pass.file as usize)
            && let Err(error) = drop_cached(file.as_fd(), pass.offset, pass.length)
        {
            self.break_off(error);
        }
        true
    }

    /// Syncs a file when nothing else is in flight. What it takes is part of the job's time.
    #[cold]
    pub(super) fn sync_at_end(&mut self, file: u32) {
        let fsync = Access { kind: AccessKind::Fsync, file, offset: 0, length: 0 };
        let begin = self.engine.clock().now();
        let nanos = self.engine.clock().reference_nanos();
        self.in_flight.change(1, nanos);
        self.origins[0] = Origin { commit_start: begin, intended: begin };
        self.start(0, fsync, begin);
        let mut completions = [Completion::default()];
        let mut queued = std::mem::take(&mut self.queued);
        let completion = loop {
            // An asynchronous engine may return nothing; submitted operations must not be submitted
            // again.
            match self.engine.exchange(&self.queue[..queued], &mut completions) {
                Ok(0) => queued = 0,
                Ok(_) => break completions[0],
                Err(error) => {
                    self.break_off(error);
                    return;
                }
            }
        };
        let now = completion.completed_at;
        self.see(now);
        let nanos = self.engine.clock().reference_nanos();
        self.in_flight.change(-1, nanos);
        if self.slots[0].is_done_by(completion.result) {
            let nanos = self.engine.clock().nanos(now.since(begin));
            self.input.recorder.record(OperationName::Sync, nanos);
        } else {
            self.fail(0, completion.result);
        }
    }
}
