//! From a record to findings.
//!
//! In: events, live or read back, with plan and environment. Out: [`Findings`], plain data.
//! Not here: devices, files, clocks, output.

mod analyser;
pub mod compare;
mod distribution;
mod findings;
mod live;
mod step_state;
mod verdict;
mod warning;

pub use analyser::Analyser;
pub use findings::{
    CpuFindings, CurvePoint, Distribution, Effective, Evenness, FINDINGS_SCHEMA, Findings,
    InFlight, IntervalPoint, Leading, OperationFindings, RunState, SelfCost, Source, Verdict,
    VerdictWord, WarningFinding, WorkloadFindings,
};
pub use live::{LiveFigures, live_figures};
pub use verdict::known_databases;
