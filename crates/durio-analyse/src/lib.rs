//! From a record to findings.
//!
//! In: events, live or read back, with plan and environment. Out: [`Findings`], plain data.
//! Not here: devices, files, clocks, output.

mod findings;

pub use findings::{
    CpuFindings, CurvePoint, Distribution, Effective, Evenness, FINDINGS_SCHEMA, Findings,
    InFlight, IntervalPoint, Leading, OperationFindings, RunState, SelfCost, Source, Verdict,
    VerdictWord, WarningFinding, WorkloadFindings,
};
