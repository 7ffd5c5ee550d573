//! The observer of measuring: it gets lines and the events of runs. Results are values, not events.

use std::io;

use durio_analyse::Findings;
use durio_command::ProgressObserver;
use durio_plan::Plan;
use durio_record::Event;
use durio_run::LayoutProgress;

/// A terminal, or another place that shows how a run goes.
pub trait Observer: ProgressObserver {
    /// A run starts; the returned observer gets its events.
    fn run(&self) -> Box<dyn RunObserver>;

    /// A sink for the output of another program.
    fn messages(&self) -> Box<dyn io::Write + Send>;
}

/// The same of one run. It ends when this is dropped.
pub trait RunObserver {
    fn event(&mut self, plan: &Plan, event: &Event);

    /// A file is being laid out.
    fn layout(&mut self, plan: &Plan, progress: LayoutProgress);

    /// Whether it wants the results so far, now that an event has come.
    fn wants_results(&mut self) -> bool {
        false
    }

    /// Takes the results so far, which are not judged.
    fn results_so_far(&mut self, _findings: &Findings) {}
}

/// Keeps the lines, for tests.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct ToldLines(pub(crate) std::cell::RefCell<Vec<String>>);

#[cfg(test)]
impl ProgressObserver for ToldLines {
    fn remark(&self, line: &str) {
        self.0.borrow_mut().push(line.to_owned());
    }

    fn progress(&self, _: &str) {}
}

#[cfg(test)]
impl Observer for ToldLines {
    fn run(&self) -> Box<dyn RunObserver> {
        unreachable!("no test of this crate measures")
    }

    fn messages(&self) -> Box<dyn io::Write + Send> {
        Box::new(io::sink())
    }
}
