//! Points in, findings out: published studies, models by hand, planted faults.

mod arrays;
mod compared;
mod faults;
pub(super) mod made;
mod properties;
mod study;

use super::*;
use made::*;

/// The figures of the workload's row at a point.
fn figures(found: &StackFindings, at: usize) -> &RowFigures {
    found.workloads[0].rows[at].figures.as_ref().unwrap()
}

fn codes(found: &StackFindings) -> Vec<&str> {
    found.warnings.iter().map(|warning| warning.code.as_str()).collect()
}
