//! Progress on stderr: remarks, and a line that replaces itself on a terminal, a line per step elsewhere.

mod estimate;

use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant};

use durio_analyse::{LiveFigures, StepSoFar, live_figures};
use durio_base::{Nanos, Rate};
use durio_bench::{Observer, RunObserver};
use durio_command::ProgressObserver;
use durio_plan::{Limit, ParameterValue, Plan, Role, Step};
use durio_record::{Event, StepDeclined};
use durio_run::LayoutProgress;

use crate::output::{self, fitted};
use estimate::RunEstimate;

/// Intervals come more often than a person reads.
const REDRAW: Duration = Duration::from_millis(100);

/// Stderr, for progress and remarks.
#[derive(Debug)]
pub(crate) struct Terminal {
    quiet: bool,
    /// Which part of the work runs, such as `stack 2 of 3`.
    part: RefCell<String>,
}

impl Terminal {
    /// It shows no progress if it is `quiet`.
    pub(crate) const fn new(quiet: bool) -> Self {
        Self { quiet, part: RefCell::new(String::new()) }
    }

    fn display(&self) -> ProgressDisplay {
        match (self.quiet, output::stderr_can_be_redrawn()) {
            (true, _) => ProgressDisplay::Nothing,
            (false, true) => ProgressDisplay::OneLine,
            (false, false) => ProgressDisplay::Lines,
        }
    }
}

impl ProgressObserver for Terminal {
    fn remark(&self, line: &str) {
        output::remark(line);
    }

    fn progress(&self, line: &str) {
        match self.display() {
            ProgressDisplay::Nothing => {}
            ProgressDisplay::Lines => output::remark(line),
            ProgressDisplay::OneLine => {
                let line = line.trim().trim_start_matches("durio: ");
                let part = line.split_once(": ").map_or("", |(part, _)| part);
                *self.part.borrow_mut() = part.to_owned();
                output::status(line);
            }
        }
    }

    fn status(&self, line: &dyn Fn() -> String) {
        if self.display() == ProgressDisplay::OneLine {
            output::status(&line());
        }
    }
}

impl Observer for Terminal {
    fn run(&self) -> Box<dyn RunObserver> {
        Box::new(RunProgress::new(self.display(), self.part.borrow().clone()))
    }

    fn messages(&self) -> Box<dyn io::Write + Send> {
        match self.display() {
            ProgressDisplay::Nothing => Box::new(io::sink()),
            ProgressDisplay::Lines => Box::new(output::StandardStream(io::stderr())),
            ProgressDisplay::OneLine => Box::new(MessageLines::default()),
        }
    }
}

/// Output of durio in a guest: its progress takes the place of this one's, its remarks stay.
#[derive(Debug, Default)]
struct MessageLines {
    line: Vec<u8>,
}

impl io::Write for MessageLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            match byte {
                b'\n' => self.end(),
                other => self.line.push(*other),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MessageLines {
    fn end(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        match is_progress(&line) {
            true => output::status(&line),
            false => output::remark(&line),
        }
    }
}

impl Drop for MessageLines {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.end();
        }
    }
}

/// True for the progress of a bench and of a run's steps.
fn is_progress(line: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let is_step = line.split_once('/').is_some_and(|(number, _)| is_number(number));
    is_step || line.starts_with("stack ")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgressDisplay {
    OneLine,
    Lines,
    Nothing,
}

/// Shows where a run is.
struct RunProgress {
    display: ProgressDisplay,
    part: String,
    step: Option<Current>,
    begun: Instant,
    drawn: Option<Instant>,
    estimate: RunEstimate,
}

/// The step that runs.
struct Current {
    index: u32,
    round: u32,
    name: String,
    /// Zero for a step whose end is unknown.
    length: Nanos,
    pause_before: Nanos,
    so_far: StepSoFar,
}

impl RunProgress {
    fn new(display: ProgressDisplay, part: String) -> Self {
        let (begun, estimate) = (Instant::now(), RunEstimate::default());
        Self { display, part, step: None, begun, drawn: None, estimate }
    }

    fn step_started(&mut self, plan: &Plan, index: u32, round: u32) {
        let Some(step) = plan.steps.get(index as usize) else { return };
        if step.role == Role::SelfCost {
            return;
        }
        let length = match step.limit {
            Limit::Duration(_) => step.span().saturating_sub(step.pause_before),
            Limit::Operations(_) | Limit::Volume(_) | Limit::VolumeWithin { .. } => Nanos::ZERO,
        };
        let (name, so_far) = (name_of(plan, step), StepSoFar::new(index));
        self.draw(&name, Some(0.0).filter(|_| length > Nanos::ZERO), "");
        let pause_before = step.pause_before;
        self.step = Some(Current { index, round, name, length, pause_before, so_far });
    }

    fn figures(&mut self, plan: &Plan, figures: &LiveFigures) {
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        let Some(step) = self.step.as_ref().filter(|running| running.index == figures.step) else {
            return;
        };
        let length = step.length.as_secs_f64();
        let share = (length > 0.0).then(|| figures.to.as_secs_f64() / length);
        let into = Nanos::new(figures.to.get().saturating_add(step.pause_before.get()));
        let left = self.end(plan, (step.index, step.round), into);
        let left = left.map_or_else(String::new, |left| format!("   {left}"));
        let name = step.name.clone();
        self.draw(&name, share, &format!("{}{left}", words(figures)));
    }

    fn step_ended(&mut self, plan: &Plan, index: u32) {
        let Some(planned) = plan.steps.get(index as usize) else { return };
        self.estimate.step_ended(planned, self.begun.elapsed());
        let Some(step) = self.step.take_if(|step| step.index == index) else { return };
        let figures = step.so_far.figures();
        let figures =
            figures.map_or_else(|| "done".to_owned(), |ended| words(&ended).trim().to_owned());
        let left = self.end(plan, (index, step.round), planned.span());
        let left = left.map_or_else(String::new, |left| format!("   [{left}]"));
        self.line(&format!("{}: {figures}{left}", step.name));
    }

    fn step_declined(&mut self, plan: &Plan, declined: &StepDeclined) {
        self.step = None;
        self.estimate.passed(self.begun.elapsed());
        let Some(step) = plan.steps.get(declined.step as usize) else { return };
        self.line(&format!("{}: not supported here: {}", name_of(plan, step), declined.message));
    }

    /// The time since the run's start, and the expected whole.
    fn end(&self, plan: &Plan, place: (u32, u32), into: Nanos) -> Option<String> {
        self.estimate.words(plan, place, into, self.begun.elapsed())
    }

    /// A line for each step, where the lines stay.
    fn line(&self, line: &str) {
        if self.display == ProgressDisplay::Lines {
            output::remark(line);
        }
    }

    fn draw(&mut self, name: &str, share: Option<f64>, message: &str) {
        if self.display == ProgressDisplay::OneLine {
            self.drawn = Some(Instant::now());
            output::status(&laid_out([&self.part, name], share, message, columns()));
        }
    }
}

impl RunObserver for RunProgress {
    fn event(&mut self, plan: &Plan, event: &Event) {
        match event {
            Event::StepStarted(started) => self.step_started(plan, started.step, started.round),
            Event::StepDeclined(declined) => self.step_declined(plan, declined),
            Event::StepEnded(ended) => self.step_ended(plan, ended.step),
            // Its final sync is a part of the layout.
            Event::TargetPrepared(prepared) => {
                self.estimate.laid_out(prepared.target, prepared.written, self.begun.elapsed());
            }
            _ => {
                if let Some(step) = &mut self.step {
                    step.so_far.add(plan, event);
                }
                if let Some(figures) = live_figures(plan, event) {
                    self.figures(plan, &figures);
                }
            }
        }
    }

    fn layout(&mut self, plan: &Plan, progress: LayoutProgress) {
        let LayoutProgress { target, done, total } = progress;
        self.estimate.laid_out(target, done, self.begun.elapsed());
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        let name = plan.targets.get(target).map_or("", |target| &target.name);
        let share = share(done.get(), total.get());
        self.draw(&format!("laying out {name}"), Some(share), &format!("{done} of {total}"));
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        // Also after an error or a panic: later output starts on an empty line.
        output::clear_status();
    }
}

/// The step's number, the number of steps, and its name.
fn name_of(plan: &Plan, step: &Step) -> String {
    let several = plan.locations().len() > 1;
    let location = plan.target_of(&step.load).location.as_ref();
    let levels = step.levels.iter().map(ParameterValue::words);
    let name = std::iter::once(step.load.workload.name.clone()).chain(levels);
    let name = name.collect::<Vec<_>>().join(", ");
    let name = match location.filter(|_| several) {
        Some(location) => format!("{name} on {location}"),
        None => name,
    };
    let shown: Vec<&Step> =
        plan.steps.iter().filter(|shown| shown.role != Role::SelfCost).collect();
    let number = shown.iter().filter(|before| before.index <= step.index).count();
    format!("{number}/{} {name}", shown.len())
}

fn words(figures: &LiveFigures) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "printed only")]
    let rate = Rate::of(figures.rate.round() as u64, Nanos::from_secs(1));
    match figures.p99_ns {
        Some(p99) => format!("{rate:>8}  p99 {}", Nanos::new(p99)),
        None => format!("{rate:>8}  no completion"),
    }
}

fn columns() -> usize {
    output::columns(&io::stderr())
}

/// The columns of results and times, as wide as they become.
const MESSAGE_COLUMNS: usize = 46;

/// The part's and the step's name, a bar, and results, for a line of `columns`. A long name is cut: the
/// numbers come first. A narrow terminal has no room for a bar.
fn laid_out([part, name]: [&str; 2], share: Option<f64>, message: &str, columns: usize) -> String {
    let bar_columns: u16 = match columns {
        0..60 => 0,
        60..110 => 8,
        _ => 16,
    };
    let room = match usize::from(bar_columns) {
        0 => (columns / 2).saturating_sub(4).max(6),
        bar => columns.saturating_sub(MESSAGE_COLUMNS + bar + 3),
    };
    let both = format!("{part}  {name}");
    let is_room_for_both = !part.is_empty() && both.chars().count() <= room;
    let name = fitted(if is_room_for_both { &both } else { name }, room);
    let padding = " ".repeat(room.saturating_sub(name.chars().count()));
    match share {
        Some(share) if bar_columns > 0 => {
            format!("{name}{padding} {} {message}", bar(share, bar_columns))
        }
        _ => format!("{name}{padding} {message}"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "drawn only")]
fn share(done: u64, total: u64) -> f64 {
    done as f64 / total.max(1) as f64
}

fn bar(share: f64, columns: u16) -> String {
    let done = (0..columns).filter(|at| f64::from(*at) < share * f64::from(columns)).count();
    "━".repeat(done) + &"─".repeat(usize::from(columns) - done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_progress_has_its_numbers_first_and_its_name_as_far_as_it_fits() {
        let message = "  1.2 k/s  p99 3 ms   5 s of about 20 s";
        let line = |part, columns| laid_out([part, "2/9 commit-etcd"], Some(0.5), message, columns);
        assert_eq!(line("", 80), format!("2/9 commit-etcd{} ━━━━──── {message}", " ".repeat(8)));
        let part = "stack 2 of 3 (xfs), layer 1 of 4";
        let both = format!("{part}  2/9 commit-etcd");
        let bar = "━━━━━━━━────────";
        assert_eq!(line(part, 120), format!("{both}{} {bar} {message}", " ".repeat(6)));
        // Both do not fit: the step goes before its part.
        assert!(line(part, 100).starts_with("2/9 commit-etcd  "), "{}", line(part, 100));
        // No bar below 60 columns, and of a narrow line a half for the name.
        assert_eq!(line("", 59), format!("2/9 commit-etcd{} {message}", " ".repeat(10)));
        assert_eq!(line("", 20), format!("2/9 c… {message}"));
        let shares = [-1.0, 0.0, 0.01, 0.5, 1.0, 7.0];
        let bars = ["────", "────", "━───", "━━──", "━━━━", "━━━━"];
        assert_eq!(shares.map(|share| super::bar(share, 4)), bars);
    }

    #[test]
    fn lines_of_a_guest_are_progress_where_they_are_of_a_step_or_a_layer() {
        for line in ["stack 1 of 3 (xfs), layer 2 of 4: xfs", "12/96 commit: 3 k/s  p99 2 ms"] {
            assert!(is_progress(line), "{line}");
        }
        for line in ["durio: no space", "hint: give --size", "stacks", "12 is odd", "a/b", "/x", ""]
        {
            assert!(!is_progress(line), "{line}");
        }
    }
}
