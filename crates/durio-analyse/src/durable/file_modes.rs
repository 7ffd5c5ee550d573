//! A log that extends its file, against one whose blocks are there already.

use durio_plan::{FileLayout, Slice};
use serde::{Deserialize, Serialize};

use super::arm::{Arm, Measured, arms, grouped};

/// A layout among the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileModeRow {
    /// As set and measured.
    #[serde(flatten)]
    pub arm: Arm,
    /// Its rate as a share of the recycled file's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_recycled: Option<f64>,
    /// Device writes per commit beyond those of the recycled file: the filesystem's journal and
    /// metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub further_writes_per_commit: Option<f64>,
}

/// The layouts with one method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileModesFindings {
    /// One for each layout.
    pub rows: Vec<FileModeRow>,
}

pub(super) fn file_modes(measured: &Measured<'_>) -> Vec<FileModesFindings> {
    let key = |it: &super::Setting| (it.method, it.cache, it.block_size, it.location.clone());
    let groups = grouped(arms(measured, Slice::FileModes), key);
    groups.into_iter().map(of_group).collect()
}

fn of_group(arms: Vec<Arm>) -> FileModesFindings {
    let is_recycled = |it: &&Arm| it.setting.layout == Some(FileLayout::Incompressible);
    let recycled = arms.iter().find(is_recycled).cloned();
    let rate = recycled.as_ref().and_then(Arm::rate);
    let writes = recycled.as_ref().and_then(writes_per_commit);
    let row = |arm: Arm| FileModeRow {
        share_of_recycled: arm.rate().zip(rate).map(|(own, other)| own / other),
        further_writes_per_commit: writes_per_commit(&arm).zip(writes).map(|(a, b)| a - b),
        arm,
    };
    FileModesFindings { rows: arms.into_iter().map(row).collect() }
}

fn writes_per_commit(arm: &Arm) -> Option<f64> {
    Some(arm.figures.as_ref()?.device?.writes_per_commit)
}
