//! What goes on, on stderr: remarks, and progress as a live bar on a terminal, a line per step elsewhere.

use std::io;
use std::time::Duration;

use durio_analyse::{LiveFigures, live_figures};
use durio_bench::{Observer, RunObserver};
use durio_plan::{Limit, ParameterValue, Plan, Role, Step};
use durio_record::{Event, StepDeclined};
use durio_report::visible;
use durio_run::LayoutProgress;
use durio_units::{Nanos, Rate};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

// How often the bar is drawn without news, so that a stall is seen as a stall.
const TICK: Duration = Duration::from_millis(200);

/// Stderr, which is told what goes on.
#[derive(Debug)]
pub(crate) struct Terminal {
    quiet: bool,
}

impl Terminal {
    /// It shows no progress if it is `quiet`.
    pub(crate) const fn new(quiet: bool) -> Self {
        Self { quiet }
    }
}

impl Observer for Terminal {
    fn remark(&self, line: &str) {
        output::remark(line);
    }

    fn progress(&self, line: &str) {
        if !self.quiet {
            output::remark(line);
        }
    }

    fn run(&self) -> Box<dyn RunObserver> {
        Box::new(Progress::new(self.quiet))
    }

    fn messages(&self) -> Box<dyn io::Write + Send> {
        match self.quiet {
            true => Box::new(io::sink()),
            false => Box::new(output::Stream(io::stderr())),
        }
    }
}

/// Shows where a run is.
struct Progress {
    bar: ProgressBar,
    kind: Kind,
    step: Option<(u32, String)>,
    latest: Option<LiveFigures>,
    layout_target: Option<usize>,
}

#[derive(PartialEq, Eq)]
enum Kind {
    Bar,
    Lines,
    Nothing,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        let kind = match (quiet, output::stderr_can_be_redrawn()) {
            (true, _) => Kind::Nothing,
            (false, true) => Kind::Bar,
            (false, false) => Kind::Lines,
        };
        let target = match kind {
            Kind::Bar => ProgressDrawTarget::stderr(),
            Kind::Lines | Kind::Nothing => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        bar.set_style(style(PLAIN));
        Self { bar, kind, step: None, latest: None, layout_target: None }
    }

    fn step_started(&mut self, plan: &Plan, index: u32) {
        let Some(step) = plan.steps.get(index as usize) else { return };
        if step.role == Role::SelfCost {
            return;
        }
        let name = name_of(plan, step);
        let length = match step.limit {
            Limit::Duration(duration) => duration.get() + step.ramp.get(),
            // Nobody knows when these end: the bar stays where it is, and the figures go on.
            Limit::Operations(_) | Limit::Volume(_) | Limit::VolumeWithin { .. } => 0,
        };
        if plan.campaign.is_some() {
            self.bar.set_style(style(OF_CAMPAIGN));
        }
        self.begin(&name, length);
        self.step = Some((index, name));
        self.latest = None;
    }

    fn figures(&mut self, figures: &LiveFigures) {
        let Some((step, _)) = &self.step else { return };
        if *step != figures.step {
            return;
        }
        self.bar.set_position(figures.to.get());
        self.bar.set_message(words(figures));
        self.latest = Some(*figures);
    }

    fn step_ended(&mut self, index: u32) {
        let Some((_, name)) = self.step.take_if(|(step, _)| *step == index) else { return };
        if self.kind == Kind::Lines {
            output::remark(&format!("{name}: measured"));
        }
    }

    fn step_declined(&mut self, plan: &Plan, declined: &StepDeclined) {
        self.step = None;
        let Some(step) = plan.steps.get(declined.step as usize) else { return };
        if self.kind == Kind::Lines {
            let name = name_of(plan, step);
            output::remark(&format!("{name}: not supported here: {}", declined.message));
        }
    }

    fn begin(&self, name: &str, length: u64) {
        self.bar.reset();
        // A bar of no length would be drawn as done.
        self.bar.set_length(length.max(1));
        // The bar goes past `output`, and the name is the user's.
        self.bar.set_prefix(visible(name));
        self.bar.set_message("");
        if self.kind == Kind::Bar {
            self.bar.enable_steady_tick(TICK);
        }
    }
}

impl RunObserver for Progress {
    fn event(&mut self, plan: &Plan, event: &Event) {
        match event {
            Event::StepStarted(started) => self.step_started(plan, started.step),
            Event::StepDeclined(declined) => self.step_declined(plan, declined),
            Event::StepEnded(ended) => self.step_ended(ended.step),
            _ => {
                if let Some(figures) = live_figures(plan, event) {
                    self.figures(&figures);
                }
            }
        }
    }

    fn layout(&mut self, plan: &Plan, progress: LayoutProgress) {
        if self.layout_target != Some(progress.target) {
            self.layout_target = Some(progress.target);
            let name = plan.targets.get(progress.target).map_or("", |target| &target.name);
            self.begin(&format!("laying out {name}"), progress.total.get());
            self.bar.set_message(format!("{}", progress.total));
        }
        self.bar.set_position(progress.done.get());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // Also after an error or a panic: what follows on stderr begins on a line of its own.
        self.bar.finish_and_clear();
    }
}

/// The step with its levels, in a campaign also which one it is.
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
    match plan.campaign {
        Some(_) => format!("{}/{} {name}", step.index + 1, plan.steps.len()),
        None => name,
    }
}

fn words(figures: &LiveFigures) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "printed only")]
    let rate = Rate::of(figures.rate.round() as u64, Nanos::from_secs(1));
    match figures.p99_ns {
        Some(p99) => format!("{rate:>10}   p99 {}", Nanos::new(p99)),
        None => format!("{rate:>10}   no completion"),
    }
}

// Columns for the name of a step and for the bar; the levels of a campaign's step need more.
const PLAIN: (usize, usize) = (24, 24);
const OF_CAMPAIGN: (usize, usize) = (52, 12);

fn style((name, bar): (usize, usize)) -> ProgressStyle {
    let template = format!("{{prefix:{name}!}} {{bar:{bar}}} {{elapsed:>4}}  {{msg}}");
    ProgressStyle::with_template(&template)
        .map_or_else(|_| ProgressStyle::default_bar(), |style| style.progress_chars("━╸─"))
}
