//! The observer of progress: it gets lines. Results are values, not lines.

use std::time::{Duration, Instant};

/// A terminal, or another place that shows progress.
pub trait ProgressObserver {
    /// A line that every user must see.
    fn remark(&self, line: &str);

    /// A line of progress.
    fn progress(&self, line: &str);
}

/// When a line of progress is due: soon at first, once a minute in work of hours.
#[derive(Debug)]
pub struct ProgressTimer {
    begin: Instant,
    latest: Instant,
}

impl ProgressTimer {
    const SOONEST: Duration = Duration::from_secs(5);
    const LATEST: Duration = Duration::from_secs(60);

    /// A timer of work that begins now.
    #[expect(clippy::new_without_default, reason = "it starts a clock")]
    pub fn new() -> Self {
        let begin = Instant::now();
        Self { begin, latest: begin }
    }

    /// The seconds since the beginning, if a line is due.
    pub fn now(&mut self) -> Option<u64> {
        let elapsed = self.begin.elapsed();
        let wait = (elapsed / 10).clamp(Self::SOONEST, Self::LATEST);
        (self.latest.elapsed() >= wait).then(|| {
            self.latest = Instant::now();
            elapsed.as_secs()
        })
    }
}
