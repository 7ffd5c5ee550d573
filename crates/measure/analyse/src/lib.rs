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
//! `why` explains slow calls by events of the kernel.

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
mod foreign_load;
mod gated_start;
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
pub mod why;

pub use analyser::{Analyser, Analysis, RunEvidence};
pub use declined::{DeclinedAnalysis, DeclinedStep};
pub use distribution::distribution;
pub use findings::{
    BandPosition, BatchFindings, CpuFindings, CurvePoint, DataFindings, DeviceTime, Distribution,
    Effective, EvidenceReading, Explanation, ExplanationFact, ExplanationKind, FINDINGS_SCHEMA,
    Findings, Headline, InFlightFindings, IntervalPoint, KeptInterval, KeptLatencies, MetLimit,
    OpenLoop, OperationFindings, PlacedClass, Placement, RunState, SelfCost, Signal, SignalWord,
    ThresholdSource, TimeShares, Verdict, VerdictWord, WarningFinding, WorkloadFindings,
};
pub use foreign_load::{FOREIGN_CPUS_MAX, ForeignIo};
pub use gated_start::GatedStart;
pub use latency_breakdown::{
    ComponentTime, DevicePerOperation, LatencyBreakdown, LatencyComponent,
};
pub use live::{LiveFigures, StepSoFar, live_figures};
pub use rate_variation::{Agreement, RateVariation, Steadiness};
pub use search::{RateTrial, SearchFindings};
pub use step_state::{headline, is_cut_short};

/// Items in groups, in the order in which they first come, as reports keep the order of the plan; an
/// item belongs to the first group whose first member it is like.
pub fn grouped<T>(
    items: impl IntoIterator<Item = T>,
    is_alike: impl Fn(&T, &T) -> bool,
) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in items {
        let is_its =
            |group: &&mut Vec<T>| group.first().is_some_and(|first| is_alike(first, &item));
        // A search, not a map: what makes things alike has floats in it, and the lists are short.
        match groups.iter_mut().find(is_its) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// The items without repetitions, in the order in which they first come.
pub fn each_once<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    pub(crate) mod sample;
}
