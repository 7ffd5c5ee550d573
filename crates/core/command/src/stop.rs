//! How a command is stopped from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set from a signal handler or another thread: the command ends as soon as it can in order.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks the command to end.
    pub fn set(&self) {
        // The flag guards no data: a thread that sees it late only ends a moment later.
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if the command was asked to end.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for loops that look at it between operations.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// The flag itself, for signal handlers.
    pub fn as_atomic(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}
