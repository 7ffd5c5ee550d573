//! Writers on one file and on a file each, and whether one log with batches beats them.
//!
//! In: the arms of the writers' slice, and the cost model of one writer. Out: [`WritersFindings`].

use durio_plan::Slice;
use serde::{Deserialize, Serialize};

use super::arm::{Arm, Measured, Setting, arms, grouped};
use super::contention::{Contention, WritersRate, contention};
use super::sizes::SizesFindings;
use crate::Declined;
use crate::cost_model::CostModel;

/// So many writers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WritersRow {
    /// As set and measured; rate and bandwidth are of all writers together.
    #[serde(flatten)]
    pub arm: Arm,
    /// Bytes per second of each writer, in the mean.
    pub per_writer_bytes_per_second: f64,
    /// Rate ÷ (writers × the rate of one).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency_share: Option<f64>,
    /// Rate of one writer with as many records in each of its writes ÷ this rate, by the cost model
    /// of one writer: above 1 a log with batches beats independent writers. `None` without a model
    /// of this method, or where the batch is larger than what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batched_gain: Option<f64>,
}

/// Writers with one method and size, on files of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WritersFindings {
    /// A file each; else all on one.
    pub file_each: bool,
    /// Rising writers.
    pub rows: Vec<WritersRow>,
    /// The law.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<Contention>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<Declined>,
}

pub(super) fn writers(
    measured: &Measured<'_>,
    sizes: Option<&SizesFindings>,
) -> Vec<WritersFindings> {
    let key = |it: &Setting| (it.method, it.cache, it.layout, it.block_size, it.location.clone());
    let by_method = grouped(arms(measured, Slice::Writers), key);
    by_method.into_iter().flat_map(|arms| by_files(arms, sizes)).collect()
}

/// One writer is on a file of its own and belongs to both kinds.
fn by_files(arms: Vec<Arm>, sizes: Option<&SizesFindings>) -> Vec<WritersFindings> {
    let (one, several): (Vec<Arm>, Vec<Arm>) =
        arms.into_iter().partition(|it| it.setting.jobs == 1);
    let one = one.into_iter().take(1);
    let (each, shared): (Vec<Arm>, Vec<Arm>) =
        several.into_iter().partition(|it| it.setting.files == it.setting.jobs);
    let kinds = [(false, shared), (true, each)].into_iter().filter(|(_, arms)| !arms.is_empty());
    let mut kinds: Vec<(bool, Vec<Arm>)> = kinds.collect();
    if kinds.is_empty() {
        kinds.push((false, Vec::new()));
    }
    let with_one = |(file_each, arms): (bool, Vec<Arm>)| {
        findings(file_each, one.clone().chain(arms).collect(), sizes)
    };
    kinds.into_iter().map(with_one).filter(|it| !it.rows.is_empty()).collect()
}

fn findings(file_each: bool, mut arms: Vec<Arm>, sizes: Option<&SizesFindings>) -> WritersFindings {
    arms.sort_by_key(|arm| arm.setting.jobs);
    let alone = arms.iter().find(|arm| arm.setting.jobs == 1).and_then(Arm::rate);
    let row = |arm: &Arm| {
        let jobs = f64::from(arm.setting.jobs.max(1));
        Some(WritersRow {
            per_writer_bytes_per_second: arm.bandwidth()? / jobs,
            efficiency_share: arm.rate().zip(alone).map(|(rate, alone)| rate / (jobs * alone)),
            batched_gain: arm.rate().zip(batched_rate(sizes, &arm.setting)).map(|(a, b)| b / a),
            arm: arm.clone(),
        })
    };
    let points: Vec<WritersRate> = arms.iter().flat_map(points).collect();
    let (law, declined) = match contention(&points).and_then(Contention::describing) {
        Ok(found) => (Some(found), None),
        Err(reason) => (None, Some(reason)),
    };
    let rows = arms.iter().filter_map(row).collect();
    WritersFindings { file_each, rows, contention: law, declined }
}

/// Every repetition.
fn points(arm: &Arm) -> Vec<WritersRate> {
    let writers = f64::from(arm.setting.jobs);
    let samples = arm.figures.iter().flat_map(|it| &it.samples);
    samples.map(|it| WritersRate { writers, total_per_second: it.rate_per_second }).collect()
}

/// Records per second of one writer whose writes hold a record of each of so many committers.
pub(super) fn batched_rate(sizes: Option<&SizesFindings>, setting: &Setting) -> Option<f64> {
    let (model, largest) = model_of(sizes?, setting)?;
    let committers = f64::from(setting.committers());
    let batch = committers * setting.size();
    (batch <= largest).then(|| committers / model.latency_ns(batch) * 1e9)
}

/// The cost model of one writer with the same method and cache mode, and the largest size that it
/// was fitted to.
fn model_of<'a>(sizes: &'a SizesFindings, setting: &Setting) -> Option<(&'a CostModel, f64)> {
    let key = |it: &Setting| (it.method, it.cache, it.location.clone());
    let curve = sizes.curves.iter().find(|it| key(&it.setting) == key(setting))?;
    let largest = curve.arms.iter().map(|arm| arm.setting.size()).fold(0.0, f64::max);
    Some((curve.model.as_ref()?, largest))
}
