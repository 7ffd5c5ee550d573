//! Whether the rounds of a section came to a steady state.

use durio_plan::{Section, Tracking, Until};
use serde::{Deserialize, Serialize};

use super::gather::Index;
use crate::Declined;
use crate::steady_state::SteadyState;
use crate::steering::{judge, tracked_series};

/// The rounds of a section as a series, and the judgement on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// Name of the workload that is tracked.
    pub tracked: String,
    /// Which figure of it.
    pub tracking: Tracking,
    /// That figure in each round: per second, bytes per second, or nanoseconds.
    pub series: Vec<f64>,
    /// The judgement, with the lines of its picture.
    pub state: Option<SteadyState>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<Declined>,
}

/// Of a section whose rounds end with a steady state.
pub(super) fn convergence(index: &Index<'_>, section: &Section) -> Option<Convergence> {
    let rounds = section.rounds?;
    let Until::SteadyState { tracked, tracking, .. } = rounds.until else { return None };
    let series = tracked_series(section, rounds, rounds.max, |step, round| index.at(step, round));
    let step = section.first_step.saturating_add(tracked);
    let judged = judge(&series, rounds);
    Some(Convergence {
        tracked: index.at(step, 0).map_or_else(String::new, |it| it.name.clone()),
        tracking,
        series,
        declined: judged.as_ref().err().cloned(),
        state: judged.ok(),
    })
}
