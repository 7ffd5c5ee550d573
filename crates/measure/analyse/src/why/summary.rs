//! The slow calls of a watch together: the time that each cause took.

use std::collections::BTreeMap;

use durio_observe::SlowWatchFacts;
use durio_record::Latency;

use super::pieces::{CauseFigures, time_by_cause};
use super::{CauseFindings, ExplainedCall, WHY_SCHEMA, WhyFindings, rules};
use crate::distribution::quantile_or_max;

/// Threads that are kept for each cause; those that were in the way least go first.
const OTHERS_KEPT: usize = 64;
/// Threads that are named.
const WHO_MAX: usize = 3;

/// Slow calls as they come. Only the slowest are kept whole, so a watch of a day does not grow.
#[derive(Debug)]
pub struct SlowCalls {
    worst: usize,
    /// The worst so far, the slowest first.
    calls: Vec<ExplainedCall>,
    causes: BTreeMap<&'static str, CauseSum>,
}

/// The sums of one cause.
#[derive(Debug, Default)]
struct CauseSum {
    calls: usize,
    latencies: Latency,
    /// The time that it took of each of its calls.
    lost: Latency,
    figures: CauseFigures,
}

impl SlowCalls {
    /// Keeps the `worst` calls whole.
    pub fn new(worst: usize) -> Self {
        Self { worst, calls: Vec::new(), causes: BTreeMap::new() }
    }

    pub fn take(&mut self, call: ExplainedCall) {
        for (cause, ns) in time_by_cause(&call.pieces) {
            let sum = self.causes.entry(cause).or_default();
            sum.figures.add(&call.pieces, cause);
            sum.figures.others.truncate(OTHERS_KEPT);
            if cause == call.cause {
                sum.calls += 1;
                sum.latencies.record(call.latency_ns);
                sum.lost.record(ns);
            }
        }
        let slower = self.calls.partition_point(|kept| kept.latency_ns >= call.latency_ns);
        if slower < self.worst {
            self.calls.insert(slower, call);
            self.calls.truncate(self.worst);
        }
    }

    /// The calls that are kept so far, the slowest first.
    pub fn worst(&self) -> &[ExplainedCall] {
        &self.calls
    }

    pub fn findings(self, watch: SlowWatchFacts) -> WhyFindings {
        let sums = self.causes.into_iter();
        let mut causes: Vec<CauseFindings> =
            sums.filter_map(|(cause, sum)| sum.findings(cause)).collect();
        causes.sort_by_key(|found| (std::cmp::Reverse(found.lost_ns), found.cause));
        WhyFindings { schema: WHY_SCHEMA, watch, causes, calls: self.calls }
    }
}

impl CauseSum {
    /// `None` for a cause that took most of the time of no call.
    fn findings(self, id: &'static str) -> Option<CauseFindings> {
        let cause = rules::cause(id).filter(|_| self.calls > 0)?;
        let median = |latency: &Latency| quantile_or_max(latency, 0.5).unwrap_or_default();
        let mut who = self.figures.others.clone();
        who.truncate(WHO_MAX);
        Some(CauseFindings {
            cause: id,
            title: &cause.title,
            calls: self.calls,
            lost_ns: self.figures.ns,
            p50_ns: median(&self.latencies),
            sentence: self.figures.fill(id, median(&self.lost)),
            who,
            advice: &cause.advice,
            source: &cause.source,
        })
    }
}
