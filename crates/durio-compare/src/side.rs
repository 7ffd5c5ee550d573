//! One side of a comparison: its runs, read from events.
//!
//! In: events. Out: [`Run`]s with findings and, beside them, each step over time in compact form.
//! Not here: folders.

use std::collections::BTreeMap;

use durio_plan::{Plan, Role};
use durio_record::{Environment, Event, Manifest};

use super::series::Series;
use durio_analyse::{Analyser, Findings};

/// Step, round and stream.
pub(super) type Place = (u32, u32, u32);

/// Gathers one run from its events.
#[derive(Debug)]
pub struct RunReader {
    analyser: Analyser,
    plan: Plan,
    series: BTreeMap<Place, Series>,
}

impl RunReader {
    /// A reader of the run that the manifest names.
    #[must_use]
    pub fn new(manifest: Manifest, plan: Plan, environment: Environment) -> Self {
        let analyser = Analyser::new(manifest, plan.clone(), environment);
        Self { analyser, plan, series: BTreeMap::new() }
    }

    /// Takes the next event.
    pub fn observe(&mut self, event: &Event) {
        self.analyser.observe(event);
        let Event::Interval(interval) = event else { return };
        let step = self.plan.steps.get(interval.step as usize);
        let step = step.filter(|step| step.role == Role::Measure);
        if let Some((step, load)) =
            step.and_then(|step| Some((step, step.stream(interval.stream)?)))
        {
            let place = (interval.step, interval.round, interval.stream);
            self.series.entry(place).or_default().take(interval, step, load);
        }
    }

    /// Takes note that the record cannot be read any further, and why.
    pub fn damaged(&mut self, reason: String) {
        self.analyser.damaged(reason);
    }

    /// The run as far as it was seen.
    #[must_use]
    pub fn finish(self, run_folder: String) -> Run {
        Run { findings: self.analyser.finish(run_folder).findings, series: self.series }
    }
}

/// One run.
#[derive(Debug, Clone)]
pub struct Run {
    pub(super) findings: Findings,
    pub(super) series: BTreeMap<Place, Series>,
}

impl Run {
    /// What was found in it.
    #[must_use]
    pub fn findings(&self) -> &Findings {
        &self.findings
    }
}

/// One side: a run, or several of the same thing.
#[derive(Debug)]
pub struct Side {
    /// As the user named it.
    pub source: String,
    /// Its runs.
    pub runs: Vec<Run>,
}
