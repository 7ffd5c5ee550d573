//! Committers that share a log's syncs, against as many who write and sync for themselves.

use durio_plan::Slice;
use serde::{Deserialize, Serialize};

use super::arm::{Arm, Measured, Setting, arms};
use super::sizes::SizesFindings;
use super::writers::batched_rate;

/// A log with group commit beside its independent writers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupCommitRow {
    /// As set and measured: rate and latency are of commits as a committer sees them.
    #[serde(flatten)]
    pub arm: Arm,
    /// As many independent writers with the same method and record size, if they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub independent: Option<Arm>,
    /// Its rate over theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// Commits per second by the cost model of one writer, if every batch held a record of each
    /// committer: what the log cannot exceed while the model holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_per_second: Option<f64>,
}

/// Group commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupCommitFindings {
    /// The logs, in the order of the plan.
    pub rows: Vec<GroupCommitRow>,
    /// Independent writers that stand beside no log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Arm>,
}

pub(super) fn group_commit(
    measured: &Measured<'_>,
    sizes: Option<&SizesFindings>,
) -> Option<GroupCommitFindings> {
    let all = arms(measured, Slice::GroupCommit);
    let (logs, writers): (Vec<Arm>, Vec<Arm>) =
        all.into_iter().partition(|arm| arm.setting.group_commit.is_some());
    let rows: Vec<GroupCommitRow> = logs.into_iter().map(|arm| row(arm, &writers, sizes)).collect();
    let is_beside = |arm: &Arm| rows.iter().any(|row| row.independent.as_ref() == Some(arm));
    let others: Vec<Arm> = writers.iter().filter(|arm| !is_beside(arm)).cloned().collect();
    (!rows.is_empty() || !others.is_empty()).then_some(GroupCommitFindings { rows, others })
}

fn row(arm: Arm, writers: &[Arm], sizes: Option<&SizesFindings>) -> GroupCommitRow {
    let is_like = |other: &Setting| {
        let log = &arm.setting;
        other.committers() == log.committers()
            && (other.method, other.block_size) == (log.method, log.block_size)
            && other.location == log.location
    };
    let independent = writers.iter().find(|it| is_like(&it.setting)).cloned();
    let other = independent.as_ref().and_then(Arm::rate);
    GroupCommitRow {
        gain: arm.rate().zip(other).map(|(own, other)| own / other),
        predicted_per_second: batched_rate(sizes, &arm.setting),
        independent,
        arm,
    }
}
