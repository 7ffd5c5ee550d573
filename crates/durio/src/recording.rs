//! The sink of a run: each event goes to the analyser, the terminal and the record.

use durio_analyse::{Analyser, live_figures};
use durio_plan::Plan;
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
        match event.must_last(self.plan) {
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
