//! The same point of several benches of the same spec: what each repeat measured there.
//!
//! In: the findings of each repeat. Out: [`Gathered`] workloads, with the figures of each of their
//! points, repeat by repeat. Not here: what is made of them.

use super::findings::{PointFacts, RowFigures, StackFindings};
use super::steps::StepKey;

/// A workload with its points, in the order in which they first come.
#[derive(Debug)]
pub(super) struct Gathered<'a> {
    pub(super) key: &'a StepKey,
    pub(super) label: &'a str,
    pub(super) points: Vec<GatheredPoint<'a>>,
}

/// A point; the same if stack and layers are named alike.
#[derive(Debug)]
pub(super) struct GatheredPoint<'a> {
    pub(super) facts: &'a PointFacts,
    /// One for each repeat that has figures of it.
    pub(super) figures: Vec<&'a RowFigures>,
}

impl GatheredPoint<'_> {
    pub(super) fn is_same(&self, other: &PointFacts) -> bool {
        self.facts.stack == other.stack && self.facts.name == other.name
    }

    /// Mean over the repeats of a figure that all of them have.
    pub(super) fn mean(&self, of: impl Fn(&RowFigures) -> Option<f64>) -> Option<f64> {
        let figures: Option<Vec<f64>> = self.figures.iter().map(|it| of(it)).collect();
        durio_stats::least_squares::mean(&figures?)
    }
}

/// Everything that any repeat has figures of.
pub(super) fn gathered(repeats: &[StackFindings]) -> Vec<Gathered<'_>> {
    let mut all: Vec<Gathered<'_>> = Vec::new();
    for findings in repeats {
        for rows in &findings.workloads {
            let at = all.iter().position(|it| *it.key == rows.key).unwrap_or_else(|| {
                all.push(Gathered { key: &rows.key, label: &rows.label, points: Vec::new() });
                all.len() - 1
            });
            let Some(workload) = all.get_mut(at) else { continue };
            for row in &rows.rows {
                let facts = findings.points.get(row.point);
                if let Some((facts, figures)) = facts.zip(row.figures.as_ref()) {
                    workload.take(facts, figures);
                }
            }
        }
    }
    all
}

impl<'a> Gathered<'a> {
    fn take(&mut self, facts: &'a PointFacts, figures: &'a RowFigures) {
        match self.points.iter_mut().find(|it| it.is_same(facts)) {
            Some(point) => point.figures.push(figures),
            None => self.points.push(GatheredPoint { facts, figures: vec![figures] }),
        }
    }

    /// This workload's like among others.
    pub(super) fn like<'b, 'c>(&self, others: &'b [Gathered<'c>]) -> Option<&'b Gathered<'c>> {
        others.iter().find(|it| it.key == self.key)
    }
}
