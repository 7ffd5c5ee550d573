//! A plan before it is run, as text and as JSON: every step, its time, every write to come.
//!
//! In: a [`Plan`] and what stands in its way. Out: bytes, into a writer. Not here: which plan.

use std::io;

use durio_plan::Plan;

use crate::{AuditFormat, Options, text};

/// How a plan is written down: as findings of an audit are.
pub type PlanFormat = AuditFormat;

/// Writes the plan; `obstacles` are sentences. The JSON document is the plan alone, as it is saved
/// in a run folder.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk.
pub fn write_plan(
    format: PlanFormat,
    plan: &Plan,
    obstacles: &[String],
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        PlanFormat::Text => text::write_plan(plan, obstacles, options, out),
        PlanFormat::Json => crate::json::write_document(plan, out),
    }
}
