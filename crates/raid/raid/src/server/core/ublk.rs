//! The ublk front end: requests of a queue of a block device, in a thread of the array's.
//!
//! Turns the kernel's requests, each within a chunk except for zeroes, into jobs. Answers go the
//! way of all others; durio-raid-commands makes the device.
//!
//! A request stays in its queue's thread, so a write wakes that one twice at most: when it comes, and when
//! its last copy is durable.

use std::sync::Arc;

use durio_block::{UblkKind, UblkQueue, UblkRequest};

use super::{ArrayJob, Asker, Core, JobError, LockedArray, ServerError, WritePayload};
use crate::RequestKind;

impl Core {
    pub(in super::super) fn serve(&mut self, queue: UblkQueue) -> Result<(), ServerError> {
        self.is_alone = true;
        let desk = Arc::clone(&self.desk);
        Ok(self.ring()?.serve(queue, || desk.buffer())?)
    }

    /// Turns pending requests into jobs.
    pub(super) fn take_requests(&mut self, array: &mut LockedArray) -> Result<(), ServerError> {
        while let Some(request) = self.ring()?.next_request() {
            let UblkRequest { tag, kind, offset, length, buffer } = request;
            let from = Asker::Ublk(tag);
            let kind = match kind {
                UblkKind::Read => RequestKind::Read,
                UblkKind::Write => RequestKind::Write,
                UblkKind::Flush => RequestKind::Flush,
                UblkKind::Zero => RequestKind::Zero,
                UblkKind::Other => {
                    self.settle(from, Err(JobError::Failed), 0, Some(buffer))?;
                    continue;
                }
            };
            let length = if kind == RequestKind::Flush { 0 } else { length };
            let data = if kind == RequestKind::Write {
                WritePayload::Lent(buffer)
            } else {
                if let Some(unused) = self.ring()?.take_back(buffer) {
                    self.desk.give_back(unused);
                }
                WritePayload::None
            };
            let job = ArrayJob { kind, offset, length, data, from };
            // In the order in which they came.
            let waits = if self.backlog.is_empty() { self.submit(array, job)? } else { Some(job) };
            if let Some(job) = waits {
                self.backlog.push_back(job);
            }
        }
        Ok(())
    }
}
