//! From a record to findings.
//!
//! In: events, live or read back, with plan and environment. Out: [`Findings`], plain data.
//! Not here: devices, files, clocks, output.

// A sample that tests of durio-signals use too names this crate as they do.
#[cfg(test)]
extern crate self as durio_analyse;

mod analyser;
pub mod attribution;
mod batches;
pub mod campaign;
pub mod cost_model;
mod declined;
mod declined_step;
mod distribution;
pub mod durable;
mod findings;
pub mod ladder;
pub mod layer_shares;
mod live;
pub mod mirror;
pub mod profile;
pub mod raid_efficiency;
#[cfg(test)]
mod sample;
mod search;
mod steadiness;
pub mod steady_state;
mod steering;
mod step_state;
mod time_slices;

pub use analyser::{Analyser, Analysis, Evidence};
pub use declined::Declined;
pub use declined_step::DeclinedStep;
pub use findings::{
    BatchFindings, CpuFindings, CurvePoint, DataFindings, DeviceTime, Distribution, Effective,
    Evenness, FINDINGS_SCHEMA, Findings, InFlight, IntervalPoint, KeptInterval, KeptLatencies,
    Leading, OpenLoop, OperationFindings, Reading, RunState, SelfCost, Signal, SignalWord, Source,
    Verdict, VerdictWord, WarningFinding, WorkloadFindings,
};
pub use live::{LiveFigures, live_figures};
pub use search::{SearchFindings, Trial};
pub use steadiness::{Agreement, Steadiness};
pub use step_state::{headline, is_cut_short};
pub use time_slices::{DevicePerOperation, Stretch, TimeSlice, TimeSlices};
