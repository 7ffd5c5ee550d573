//! The plan: everything that a run will do, as plain data.
//!
//! Other crates fill the plan; it is read before anything is written, saved with every result, and
//! run.

mod campaign;
mod foreseen;
pub mod proof;
mod queue;
mod step;
mod target;
mod threshold;
mod writes;

pub use campaign::{
    Campaign, DeclaredLayout, DeclaredTarget, Experiment, Goal, PlanSection, PublishedShare,
    Rounds, SectionKind, SeveralDevices, Sheet, Tracking, Until,
};
pub use durio_block::EngineKind;
pub use foreseen::{Cost, SharedWalk};
pub use queue::{AccessAdvice, BatchPolicy, CompletionTime, DrainPolicy, ThinkTime};
pub use step::{
    ClockChoice, JobPlace, Limit, Load, NullScript, ParameterValue, Placement, Role, Step,
};
pub use target::{FileLayout, Location, LocationFacts, RawPath, Target, TargetKind};
pub use threshold::{LatencyFigure, OperationName, Provenance, Threshold, ThresholdBound};
pub use writes::TargetWrites;

use durio_base::Nanos;
use serde::{Deserialize, Serialize};

/// Version of the plan's saved form.
pub const PLAN_SCHEMA: u32 = 1;

/// Which question the plan answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// `durio check`: is this storage fit for a database?
    Check,
    /// `durio run`: one job as described.
    Run,
    /// `durio run SPEC`: the steps of a campaign.
    Campaign,
    /// `durio sweep`: the highest rate that keeps a goal.
    Sweep,
    /// `durio durable`: what a durable write costs.
    Durable,
    /// `durio run profile:NAME`: what a database does.
    Profile,
    /// `durio predict`: what a database commits.
    Predict,
}

/// Targets, and steps over them in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_SCHEMA`] when it was saved.
    pub schema: u32,
    pub purpose: Purpose,
    /// Seed of every random choice.
    pub seed: u64,
    /// The clock of all latencies.
    pub clock: ClockChoice,
    /// The files and devices to read and write.
    pub targets: Vec<Target>,
    /// The steps, in order, one after the other.
    pub steps: Vec<Step>,
    /// What joins the steps, if they are a campaign's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<Campaign>,
    /// The thresholds for the results, saved with the record. A record of `durio check` whose plan
    /// has none is judged by this durio's thresholds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Threshold>,
}

impl Plan {
    /// The first target of `load`.
    ///
    /// # Panics
    /// If the load names a target that the plan does not have: a bug in the plan's builder.
    pub fn target_of(&self, load: &Load) -> &Target {
        &self.targets[load.target]
    }

    /// The section of `step`.
    pub fn section_of(&self, step: &Step) -> Option<&PlanSection> {
        self.campaign.as_ref()?.sections.get(step.section? as usize)
    }

    /// Checks what every user of a plan relies on; a plan that was read from a file may be damaged.
    ///
    /// # Errors
    /// The first contradiction, as a sentence.
    pub fn validate(&self) -> Result<(), String> {
        for (position, step) in self.steps.iter().enumerate() {
            // Events of a record name their step by its index.
            if step.index as usize != position {
                return Err(format!("step {position} says that it is step {}", step.index));
            }
            step.validate(self.targets.len())
                .map_err(|reason| format!("step {position}: {reason}"))?;
        }
        self.campaign.as_ref().map_or(Ok(()), |campaign| campaign.validate(self.steps.len()))
    }

    /// The locations that the user named, each once, in order.
    pub fn locations(&self) -> Vec<&RawPath> {
        let mut locations: Vec<&RawPath> = Vec::new();
        for location in self.targets.iter().filter_map(|target| target.location.as_ref()) {
            if !locations.contains(&location) {
                locations.push(location);
            }
        }
        locations
    }

    /// The measured steps, without durio's measurements of itself.
    pub fn measured_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.role == Role::Measure)
    }

    /// The time at most of all steps that are bounded by time, without layout and further rounds.
    pub fn duration(&self) -> Nanos {
        // Layout and further rounds depend on measurements.
        let nanos = self.steps.iter().filter_map(|step| match step.limit {
            Limit::Duration(span) | Limit::VolumeWithin { duration: span, .. } => {
                Some(span.get() + step.ramp.get())
            }
            Limit::Operations(_) | Limit::Volume(_) => None,
        });
        Nanos::new(nanos.sum())
    }
}
