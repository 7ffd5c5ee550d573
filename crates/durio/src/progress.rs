//! Progress on stderr: remarks, and a live bar on a terminal, a line per step elsewhere.

use std::io;
use std::time::{Duration, Instant};

use durio_analyse::{LiveFigures, StepSoFar, live_figures};
use durio_base::{Nanos, Rate};
use durio_bench::{Observer, RunObserver};
use durio_command::ProgressObserver;
use durio_plan::{Limit, ParameterValue, Plan, Role, Step};
use durio_record::{Event, StepDeclined};
use durio_report::{clock, visible};
use durio_run::LayoutProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

// How often the bar is drawn without news, so that a stall is seen as a stall.
const TICK: Duration = Duration::from_millis(200);

/// Stderr, for progress and remarks.
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

impl ProgressObserver for Terminal {
    fn remark(&self, line: &str) {
        output::remark(line);
    }

    fn progress(&self, line: &str) {
        if !self.quiet {
            output::remark(line);
        }
    }
}

impl Observer for Terminal {
    fn run(&self) -> Box<dyn RunObserver> {
        Box::new(RunProgress::new(self.quiet))
    }

    fn messages(&self) -> Box<dyn io::Write + Send> {
        match self.quiet {
            true => Box::new(io::sink()),
            false => Box::new(output::StandardStream(io::stderr())),
        }
    }
}

/// Shows where a run is.
struct RunProgress {
    bar: ProgressBar,
    kind: ProgressDisplay,
    step: Option<Current>,
    latest_layout: Option<usize>,
    pace: RunPace,
}

/// The step that runs.
struct Current {
    index: u32,
    round: u32,
    name: String,
    so_far: StepSoFar,
}

#[derive(PartialEq, Eq)]
enum ProgressDisplay {
    Bar,
    Lines,
    Nothing,
}

impl RunProgress {
    fn new(quiet: bool) -> Self {
        let kind = match (quiet, output::stderr_can_be_redrawn()) {
            (true, _) => ProgressDisplay::Nothing,
            (false, true) => ProgressDisplay::Bar,
            (false, false) => ProgressDisplay::Lines,
        };
        let target = match kind {
            ProgressDisplay::Bar => ProgressDrawTarget::stderr(),
            ProgressDisplay::Lines | ProgressDisplay::Nothing => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        Self { bar, kind, step: None, latest_layout: None, pace: RunPace::default() }
    }

    fn step_started(&mut self, plan: &Plan, index: u32, round: u32) {
        let Some(step) = plan.steps.get(index as usize) else { return };
        if step.role == Role::SelfCost {
            return;
        }
        self.pace.begin();
        let name = name_of(plan, step);
        // The end of other steps is unknown: the bar stays where it is, and the numbers continue.
        let length = match step.limit {
            Limit::Duration(_) => step.span().saturating_sub(step.pause_before),
            Limit::Operations(_) | Limit::Volume(_) | Limit::VolumeWithin { .. } => Nanos::ZERO,
        };
        self.begin(&name, length.get());
        self.step = Some(Current { index, round, name, so_far: StepSoFar::new(index) });
    }

    fn figures(&self, plan: &Plan, figures: &LiveFigures) {
        let Some(step) = self.step.as_ref().filter(|running| running.index == figures.step) else {
            return;
        };
        self.bar.set_position(figures.to.get());
        let left = self.pace.left(plan, step.index, step.round, figures.to);
        let left = left.map_or_else(String::new, |left| format!("   {left}"));
        self.bar.set_message(format!("{}{left}", words(figures)));
    }

    fn step_ended(&mut self, plan: &Plan, index: u32) {
        let Some(step) = self.step.take_if(|step| step.index == index) else { return };
        let Some(planned) = plan.steps.get(index as usize) else { return };
        self.pace.done(planned);
        let figures = step.so_far.figures();
        let figures =
            figures.map_or_else(|| "done".to_owned(), |ended| words(&ended).trim().to_owned());
        let left = self.pace.left(plan, index, step.round, planned.span());
        let left = left.map_or_else(String::new, |left| format!("   [{left}]"));
        self.line(&format!("{}: {figures}{left}", step.name));
    }

    fn step_declined(&mut self, plan: &Plan, declined: &StepDeclined) {
        self.step = None;
        let Some(step) = plan.steps.get(declined.step as usize) else { return };
        self.line(&format!("{}: not supported here: {}", name_of(plan, step), declined.message));
    }

    /// A line that stays, above the bar where there is one.
    fn line(&self, line: &str) {
        match self.kind {
            ProgressDisplay::Nothing => {}
            ProgressDisplay::Bar => self.bar.suspend(|| output::remark(line)),
            ProgressDisplay::Lines => output::remark(line),
        }
    }

    fn begin(&self, name: &str, length: u64) {
        // The terminal's width may have changed.
        self.bar.set_style(style(output::columns(&io::stderr())));
        self.bar.reset();
        // A bar of no length would be drawn as done.
        self.bar.set_length(length.max(1));
        // The bar bypasses `output`, and the name is the user's.
        self.bar.set_prefix(visible(name));
        self.bar.set_message("");
        if self.kind == ProgressDisplay::Bar {
            self.bar.enable_steady_tick(TICK);
        }
    }
}

impl RunObserver for RunProgress {
    fn event(&mut self, plan: &Plan, event: &Event) {
        match event {
            Event::StepStarted(started) => self.step_started(plan, started.step, started.round),
            Event::StepDeclined(declined) => self.step_declined(plan, declined),
            Event::StepEnded(ended) => self.step_ended(plan, ended.step),
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
        if self.latest_layout != Some(progress.target) {
            self.latest_layout = Some(progress.target);
            let name = plan.targets.get(progress.target).map_or("", |target| &target.name);
            self.begin(&format!("laying out {name}"), progress.total.get());
            self.bar.set_message(format!("{}", progress.total));
        }
        self.bar.set_position(progress.done.get());
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        // Also after an error or a panic: later output on stderr starts on a new line.
        self.bar.finish_and_clear();
    }
}

/// How much longer a run takes than its plan says: the time between steps counts too.
#[derive(Default)]
struct RunPace {
    begun: Option<Instant>,
    planned: Nanos,
}

impl RunPace {
    fn begin(&mut self) {
        self.begun.get_or_insert_with(Instant::now);
    }

    fn done(&mut self, step: &Step) {
        self.planned = Nanos::new(self.planned.get().saturating_add(step.span().get()));
    }

    /// The elapsed time, and the expected end with `into` of a step done; `None` if no step's time
    /// is known.
    fn left(&self, plan: &Plan, index: u32, round: u32, into: Nanos) -> Option<String> {
        let elapsed = self.begun?.elapsed();
        let planned = planned_left(plan, index, round, into)?;
        let pace = match self.planned.as_secs_f64() {
            // Too short to derive a pace.
            planned if planned < 1.0 => 1.0,
            planned => (elapsed.as_secs_f64() / planned).clamp(1.0, 3.0),
        };
        let expected = elapsed.as_secs_f64() + planned.as_secs_f64() * pace;
        let rounds =
            plan.steps.iter().skip(index as usize).any(|step| plan.rounds_of(step).is_some());
        // A steady state ends its rounds earlier.
        let about = if rounds { "at most" } else { "about" };
        Some(format!(
            "{} of {about} {}",
            whole_seconds(elapsed.as_secs_f64()),
            whole_seconds(expected)
        ))
    }
}

/// The plan's remaining time with `into` of a step done; `None` if no step's time is known.
fn planned_left(plan: &Plan, index: u32, round: u32, into: Nanos) -> Option<Nanos> {
    let current = plan.steps.get(index as usize)?;
    let rounds = |step: &Step| u64::from(plan.rounds_of(step).map_or(1, |rounds| rounds.max));
    let left = plan.steps.iter().map(|step| {
        let is_of_round = step.section == current.section && plan.rounds_of(step).is_some();
        let times = match (step.index > index, is_of_round) {
            (true, true) => rounds(step).saturating_sub(u64::from(round)),
            (true, false) => rounds(step),
            (false, true) => rounds(step).saturating_sub(u64::from(round) + 1),
            (false, false) => 0,
        };
        step.span().get().saturating_mul(times)
    });
    let rest = current.span().saturating_sub(into).get();
    let is_known = plan.steps.iter().any(|step| step.span() > Nanos::ZERO);
    is_known.then(|| Nanos::new(left.fold(rest, u64::saturating_add)))
}

fn whole_seconds(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "printed only")]
    let seconds = seconds.round() as u64;
    if seconds == 0 { "0 s".to_owned() } else { clock(Nanos::from_secs(seconds)) }
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

/// A line of this many columns: the numbers come before the bar, and both before a long name.
fn style(columns: usize) -> ProgressStyle {
    let template = match columns {
        0..60 => {
            let name = (columns / 2).saturating_sub(4).max(6);
            format!("{{prefix:{name}!}} {{wide_msg}}")
        }
        60..110 => "{prefix:24!} {bar:8} {wide_msg}".to_owned(),
        _ => "{prefix:40!} {bar:16} {wide_msg}".to_owned(),
    };
    ProgressStyle::with_template(&template)
        .map_or_else(|_| ProgressStyle::default_bar(), |style| style.progress_chars("━╸─"))
}

#[cfg(test)]
mod tests {
    use durio_plan::{
        Campaign, ClockChoice, EngineKind, Load, PLAN_SCHEMA, PlanSection, Purpose, Rounds,
        SectionKind, Tracking, Until,
    };
    use durio_workload::Workload;

    use super::*;

    fn section(first_step: u32, steps: u32, rounds: Option<Rounds>) -> PlanSection {
        PlanSection {
            name: String::new(),
            summary: String::new(),
            kind: SectionKind::Single,
            first_step,
            steps,
            rounds,
            baseline: None,
        }
    }

    /// A step of 1 s, two of 2 s and 4 s that are repeated up to three times, and one of 8 s.
    fn plan(limit: fn(Nanos) -> Limit) -> Plan {
        let steps =
            (0..).zip([(1, 0), (2, 1), (4, 1), (8, 2)]).map(|(index, (seconds, section))| {
                let load = Load::new(0, Workload::default(), EngineKind::Null);
                let limit = limit(Nanos::from_secs(seconds));
                let step = Step::new(Role::Measure, load, limit, Nanos::from_secs(1));
                Step {
                    index,
                    section: Some(section),
                    ramp: Nanos::ZERO,
                    pause_before: Nanos::ZERO,
                    ..step
                }
            });
        let until = Until::SteadyState {
            tracked: 0,
            tracking: Tracking::Iops,
            window: 5,
            excursion_per_mille: 200,
            slope_per_mille: 100,
        };
        let rounds = Some(Rounds { max: 3, until });
        let sections = vec![section(0, 1, None), section(1, 2, rounds), section(3, 1, None)];
        Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Campaign,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: Vec::new(),
            steps: steps.collect(),
            campaign: Some(Campaign { sections, ..Campaign::default() }),
            thresholds: Vec::new(),
        }
    }

    #[test]
    fn what_is_left_is_the_rest_of_the_step_and_of_the_rounds_and_what_follows() {
        let plan = plan(Limit::Duration);
        // The step, its round, the seconds into it, and those that are left.
        let rows = [
            (0, 0, 0, Some(1 + 3 * 6 + 8)),
            (1, 0, 1, Some(1 + 4 + 2 * 6 + 8)),
            (1, 2, 0, Some(2 + 4 + 8)),
            (2, 1, 4, Some(6 + 8)),
            (2, 2, 0, Some(4 + 8)),
            (3, 0, 10, Some(0)),
            (4, 0, 0, None),
        ];
        for (index, round, into, left) in rows {
            let found = planned_left(&plan, index, round, Nanos::from_secs(into));
            assert_eq!(found, left.map(Nanos::from_secs), "{index} {round} {into}");
        }
    }

    #[test]
    fn steps_that_do_not_end_by_time_say_nothing_of_it() {
        let plan = plan(|_| Limit::Operations(1));
        assert_eq!(planned_left(&plan, 0, 0, Nanos::ZERO), None);
    }
}
