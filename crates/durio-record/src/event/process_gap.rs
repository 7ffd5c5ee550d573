//! Times in which durio itself did not run.

use durio_units::Nanos;
use serde::{Deserialize, Serialize};

/// A time in which durio itself did not run: it was stopped, the machine was suspended, or others had
/// its processors. Operations in flight seem to last as long, and none begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessGap {
    /// Index of the step in the plan.
    pub step: u32,
    /// Round of its section, from 0.
    #[serde(default)]
    pub round: u32,
    /// The last sign of life before it, from the begin of the step.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// From there to the next one: at most a tenth of a second more than the gap.
    #[serde(rename = "span_ns")]
    pub span: Nanos,
}
