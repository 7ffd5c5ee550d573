//! The sink of a run: each event goes to the analyser, the terminal and the record.

use durio_analyse::{Analyser, live_figures};
use durio_plan::{Plan, Role};
use durio_record::{Event, RecordWriter, RoundDecision};
use durio_run::{EventSink, LayoutProgress};
use durio_units::Nanos;

use crate::progress::Progress;

/// Hands events on.
pub(crate) struct Recording<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) analyser: Analyser,
    pub(crate) writer: RecordWriter,
    pub(crate) progress: Progress,
}

impl Recording<'_> {
    /// What ends a step is synced, with the step. The state that preconditioning leaves must not settle
    /// while the record waits for its disk, and preconditioning has no figures to lose: the step after it
    /// syncs for both.
    fn is_to_last(&self, event: &Event) -> bool {
        let is_preconditioning = |step: u32| {
            let step = self.plan.steps.get(step as usize);
            step.is_some_and(|step| step.role == Role::Precondition)
        };
        match event {
            Event::StepEnded(ended) => !is_preconditioning(ended.step),
            event => event.ends_a_step(),
        }
    }
}

impl EventSink for Recording<'_> {
    fn event(
        &mut self,
        at: Nanos,
        event: Event,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.analyser.observe(&event);
        match &event {
            Event::StepStarted(started) => self.progress.step_started(self.plan, started.step),
            Event::StepDeclined(declined) => self.progress.step_declined(self.plan, declined),
            Event::StepEnded(ended) => self.progress.step_ended(ended.step),
            _ => {
                if let Some(figures) = live_figures(self.plan, &event) {
                    self.progress.figures(&figures);
                }
            }
        }
        match self.is_to_last(&event) {
            true => self.writer.write_synced(at, event)?,
            false => self.writer.write(at, event)?,
        }
        Ok(())
    }

    fn round_ended(&mut self, section: u32, round: u32) -> RoundDecision {
        self.analyser.decide(section, round)
    }

    fn first_rate(&mut self, section: u32) -> Option<f64> {
        self.analyser.first_rate(section)
    }

    fn layout_progress(&mut self, progress: LayoutProgress) {
        self.progress.layout(self.plan, progress);
    }
}
