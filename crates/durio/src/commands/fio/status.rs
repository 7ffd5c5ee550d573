//! Results so far, printed at each `--status-interval` while the jobs run, as fio does.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use durio_analyse::Findings;
use durio_bench::{Observer, RunObserver};
use durio_command::ProgressObserver;
use durio_plan::Plan;
use durio_record::Event;
use durio_run::LayoutProgress;

use crate::progress::Terminal;

/// Where results so far go.
#[derive(Clone)]
pub(super) struct StatusOutput {
    pub(super) interval: Duration,
    pub(super) print: Rc<dyn Fn(&Findings)>,
}

/// The terminal, and the output of `--status-interval` if that is given.
pub(super) struct StatusObserver<'a> {
    pub(super) terminal: &'a Terminal,
    pub(super) output: Option<StatusOutput>,
}

impl ProgressObserver for StatusObserver<'_> {
    fn remark(&self, line: &str) {
        self.terminal.remark(line);
    }

    fn progress(&self, line: &str) {
        self.terminal.progress(line);
    }

    fn status(&self, line: &dyn Fn() -> String) {
        self.terminal.status(line);
    }
}

impl Observer for StatusObserver<'_> {
    fn run(&self) -> Box<dyn RunObserver> {
        let progress = self.terminal.run();
        match self.output.clone() {
            Some(output) => {
                let due = Instant::now().checked_add(output.interval);
                Box::new(StatusRun { progress, output, due })
            }
            None => progress,
        }
    }

    fn messages(&self) -> Box<dyn io::Write + Send> {
        self.terminal.messages()
    }
}

struct StatusRun {
    progress: Box<dyn RunObserver>,
    output: StatusOutput,
    /// `None` for a time beyond the clock's end.
    due: Option<Instant>,
}

impl RunObserver for StatusRun {
    fn event(&mut self, plan: &Plan, event: &Event) {
        self.progress.event(plan, event);
    }

    fn layout(&mut self, plan: &Plan, progress: LayoutProgress) {
        self.progress.layout(plan, progress);
    }

    fn wants_results(&mut self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    fn results_so_far(&mut self, findings: &Findings) {
        (self.output.print)(findings);
        self.due = Instant::now().checked_add(self.output.interval);
    }
}
