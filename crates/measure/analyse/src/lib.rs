//! From a record to findings.
//!
//! Events, live or read back, with plan and environment, give [`Findings`], plain data. This crate
//! touches no devices, files, clocks or output.
//!
//! Start reading at [`Analyser`]: it makes the [`WorkloadFindings`] of each step, the rows of one
//! table (`measurement.rs`). Every question selects rows of it and has a module with its answer as
//! plain data: `durable`, `campaign`, `profile`, `prediction`, and `attribution` for the layers of a
//! stack. `ladder`, `cost_model`, `steady_state`, `raid_efficiency` and `mirror` are models that take
//! numbers alone.

// A sample that tests of durio-judge use too names this crate as they do.
#[cfg(test)]
extern crate self as durio_analyse;

mod analyser;
pub mod attribution;
pub mod calibration;
pub mod campaign;
pub mod capture;
pub mod cost_model;
mod declined;
mod distribution;
pub mod durable;
mod findings;
pub mod grouping;
pub mod history;
pub mod ladder;
mod latency_breakdown;
mod live;
mod measurement;
pub mod mirror;
pub mod prediction;
pub mod profile;
pub mod raid_efficiency;
mod rate_variation;
mod search;
pub mod steady_state;
mod steering;
mod step_state;

pub use analyser::{Analyser, Analysis, RunEvidence};
pub use declined::{DeclinedAnalysis, DeclinedStep};
pub use findings::{
    BatchFindings, CpuFindings, CurvePoint, DataFindings, DeviceTime, Distribution, Effective,
    EvidenceReading, Explanation, ExplanationFact, ExplanationKind, FINDINGS_SCHEMA, Findings,
    Headline, InFlightFindings, IntervalPoint, KeptInterval, KeptLatencies, OpenLoop,
    OperationFindings, RunState, SelfCost, Signal, SignalWord, ThresholdSource, Verdict,
    VerdictWord, WarningFinding, WorkloadFindings,
};
pub use latency_breakdown::{
    ComponentTime, DevicePerOperation, LatencyBreakdown, LatencyComponent,
};
pub use live::{LiveFigures, StepSoFar, live_figures};
pub use rate_variation::{Agreement, RateVariation, Steadiness};
pub use search::{RateTrial, SearchFindings};
pub use step_state::{headline, is_cut_short};

#[cfg(test)]
mod tests {
    pub(crate) mod sample;
}
