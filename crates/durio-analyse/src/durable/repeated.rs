//! The same way of writing, measured in more than one slice: how far its rates are apart is what a
//! difference between rows must exceed.
//!
//! In: the arms of the slices that write sequentially for a time. Out: [`RepeatedSetting`]s. Not here:
//! the flush slope, whose writes are random.

use durio_plan::Slice;
use serde::{Deserialize, Serialize};

use super::arm::{Measured, Setting, arms};
use crate::steadiness::{Agreement, agreement};

/// A setting and what it gave each time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RepeatedSetting {
    /// How it was set, each time.
    pub setting: Setting,
    /// Its rates.
    pub rates: Agreement,
}

const SLICES: [Slice; 8] = [
    Slice::Methods,
    Slice::SyncEvery,
    Slice::FileModes,
    Slice::Sizes,
    Slice::Writers,
    Slice::SizesAndWriters,
    Slice::GroupCommit,
    Slice::CommitDelay,
];

/// What was measured more than once, the farthest apart first.
pub(super) fn repeated(measured: &Measured<'_>) -> Vec<RepeatedSetting> {
    let mut known: Vec<(Setting, Vec<f64>)> = Vec::new();
    for arm in SLICES.iter().flat_map(|slice| arms(measured, *slice)) {
        let rates = arm.figures.iter().flat_map(|it| &it.samples).map(|it| it.rate_per_second);
        match known.iter_mut().find(|(setting, _)| *setting == arm.setting) {
            Some((_, of)) => of.extend(rates),
            None => known.push((arm.setting.clone(), rates.collect())),
        }
    }
    let found = known.into_iter().filter_map(|(setting, rates)| {
        Some(RepeatedSetting { setting, rates: agreement(&rates)? })
    });
    let mut found: Vec<RepeatedSetting> = found.collect();
    found.sort_by(|a, b| factor(&b.rates).total_cmp(&factor(&a.rates)));
    found
}

fn factor(rates: &Agreement) -> f64 {
    rates.rate_max_per_second / rates.rate_min_per_second.max(1e-9)
}
