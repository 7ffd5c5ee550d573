//! Lets tests see the operations that threads hand to the kernel, and make some of them fail.

use std::sync::Mutex;

use durio_block::{MemberAction, MemberOperation};

use crate::{MemberOp, MemberOpKind};

/// A place beyond the end of any file: the kernel refuses operations there.
const NOWHERE: u64 = 1 << 63;

type FailureRule = Box<dyn Fn(&MemberOp) -> bool + Send>;

/// Sits between the threads of a server and their rings.
#[derive(Default)]
pub(super) struct RingProbe {
    seen: Mutex<Vec<(MemberOp, MemberAction)>>,
    fails: Mutex<Option<FailureRule>>,
}

impl RingProbe {
    /// Makes these operations fail from now on, and no others.
    pub(super) fn fail(&self, rule: impl Fn(&MemberOp) -> bool + Send + 'static) {
        *self.fails.lock().unwrap() = Some(Box::new(rule));
    }

    /// The operations handed over since the last call.
    pub(super) fn take(&self) -> Vec<(MemberOp, MemberAction)> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Records the engine's operation and the kernel's.
    pub(super) fn see(&self, op: &MemberOp, operation: MemberOperation) -> MemberOperation {
        self.seen.lock().unwrap().push((*op, operation.action));
        // A write of the log is longer than the engine's operation.
        let header = if op.kind == MemberOpKind::Log { crate::BLOCK as u32 } else { 0 };
        assert_eq!((operation.member, operation.offset), (op.device.into(), op.offset));
        assert_eq!(operation.length, op.length + header);
        match &*self.fails.lock().unwrap() {
            Some(fails) if fails(op) => MemberOperation { offset: NOWHERE, ..operation },
            _ => operation,
        }
    }
}
