//! The observer of progress: it gets lines and the events of runs. Results are values, not events.

use std::io;
use std::time::{Duration, Instant};

use durio_plan::Plan;
use durio_record::Event;
use durio_run::LayoutProgress;

/// A terminal, or another place that shows progress.
pub trait Observer {
    /// A line that every user must see.
    fn remark(&self, line: &str);

    /// A line of progress.
    fn progress(&self, line: &str);

    /// A run starts; the returned observer gets its events.
    fn run(&self) -> Box<dyn RunObserver>;

    /// A sink for the output of another program.
    fn messages(&self) -> Box<dyn io::Write + Send>;
}

/// The same of one run. It ends when this is dropped.
pub trait RunObserver {
    /// Something has happened.
    fn event(&mut self, plan: &Plan, event: &Event);

    /// A file is being laid out.
    fn layout(&mut self, plan: &Plan, progress: LayoutProgress);
}

/// When a line of progress is due: soon at first, once a minute in work of hours.
#[derive(Debug)]
pub(crate) struct ProgressTimer {
    begin: Instant,
    told: Instant,
}

impl ProgressTimer {
    const SOONEST: Duration = Duration::from_secs(5);
    const LATEST: Duration = Duration::from_secs(60);

    pub(crate) fn new() -> Self {
        let begin = Instant::now();
        Self { begin, told: begin }
    }

    /// The seconds since the beginning, if a line is due.
    pub(crate) fn now(&mut self) -> Option<u64> {
        let elapsed = self.begin.elapsed();
        let wait = (elapsed / 10).clamp(Self::SOONEST, Self::LATEST);
        (self.told.elapsed() >= wait).then(|| {
            self.told = Instant::now();
            elapsed.as_secs()
        })
    }
}

/// Keeps the lines, for tests.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct ToldLines(pub(crate) std::cell::RefCell<Vec<String>>);

#[cfg(test)]
impl Observer for ToldLines {
    fn remark(&self, line: &str) {
        self.0.borrow_mut().push(line.to_owned());
    }

    fn progress(&self, _: &str) {}

    fn run(&self) -> Box<dyn RunObserver> {
        unreachable!("no test of this crate measures")
    }

    fn messages(&self) -> Box<dyn io::Write + Send> {
        Box::new(io::sink())
    }
}
