//! The measurements of a stack bench: one point for each stack and number of layers built.
//! [`BenchPoints`] is plain data with findings of ordinary runs, checked.

use durio_plan::PublishedShare;
use serde::{Deserialize, Serialize};

use crate::grouping::each_once;
use crate::raid_efficiency::ArrayLayout;
use crate::{DeclinedAnalysis, Findings};

/// Most points that a bench has.
pub const POINTS_MAX: usize = 1_000;

/// The points of a bench, in the order in which they were measured.
#[derive(Debug, Clone)]
pub struct BenchPoints<'a> {
    /// Its short name.
    pub name: String,
    /// The bench's purpose, in a sentence.
    pub summary: String,
    /// How time passed, if it was measured in the lab; `None` for the machine itself.
    pub timing: Option<Timing>,
    /// The points; each lies on one before it.
    pub points: Vec<StackPoint<'a>>,
}

pub use durio_observe::LabTiming as Timing;

/// The kind of a point's topmost layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PointKind {
    /// The devices at the bottom.
    Raw,
    /// A RAID array.
    Raid,
    /// A logical volume, or a target of the device mapper.
    Volume,
    Filesystem,
}

/// What makes the devices at the bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseKind {
    /// RAM disks of brd.
    Ram,
    /// Compressed RAM disks.
    Zram,
    /// null_blk.
    Null,
    /// Files as block devices.
    Loop,
    /// Real devices.
    Device,
}

/// The devices at the bottom of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// What makes them.
    pub kind: BaseKind,
    /// For the reader; raw points of equal kind and label are measurements of the same thing.
    pub label: String,
}

/// A RAID array as built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaidPoint {
    /// Its layout when whole.
    pub array: ArrayLayout,
    /// Members that are failed and removed.
    pub degraded_members: u32,
}

/// A stack with the layers that are built so far.
#[derive(Debug, Clone)]
pub struct StackPoint<'a> {
    /// Name of the stack.
    pub stack: String,
    /// Label of the topmost layer, for the reader.
    pub layer: String,
    /// What that layer is.
    pub kind: PointKind,
    /// The storage at the bottom.
    pub base: Base,
    /// The point just below: its position in [`BenchPoints::points`], of the same stack and before this
    /// one; `None` if this is the lowest that was to be measured.
    pub below: Option<usize>,
    /// The array, if the topmost layer is one.
    pub raid: Option<RaidPoint>,
    /// For an array without `raid`: why it has no model.
    pub no_model: Option<&'static str>,
    pub published: Vec<PublishedShare>,
    /// The findings of its runs: empty if it failed, several if it was repeated.
    pub runs: Vec<&'a Findings>,
    /// Why runs are missing, or what went wrong.
    pub failure: Option<String>,
}

impl StackPoint<'_> {
    /// Stack and layer, as they are named to the reader.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} in stack {}", self.layer, self.stack)
    }
}

/// An error unless every point lies on an earlier one of its stack and published shares are valid.
pub(super) fn check(bench: &BenchPoints<'_>) -> Result<(), DeclinedAnalysis> {
    let points = &bench.points;
    DeclinedAnalysis::unless_enough("points", points.len(), 1)?;
    DeclinedAnalysis::if_too_many("points", points.len(), POINTS_MAX)?;
    // An invalid share would win or lose every pair of the published order.
    let shares = points.iter().flat_map(|point| &point.published).map(|it| it.share_of_raw);
    DeclinedAnalysis::unless_positive("published share", shares)?;
    for (at, point) in points.iter().enumerate() {
        let Some(below) = point.below else { continue };
        let under = points.get(below).filter(|under| below < at && under.stack == point.stack);
        if under.is_none() {
            let why = format!("{} lies on none of the points of its stack before it", point.name());
            return Err(DeclinedAnalysis::NoSuchLayout { why });
        }
    }
    Ok(())
}

/// The kernels that the runs were made on, each once, in the order of the points.
pub(super) fn kernels(bench: &BenchPoints<'_>) -> Vec<String> {
    let runs = bench.points.iter().flat_map(|point| &point.runs);
    each_once(runs.map(|run| run.host.kernel.clone()))
}

/// Point `at` and those below it in its stack, from the top down.
pub(super) fn way_down(points: &[StackPoint<'_>], at: usize) -> impl Iterator<Item = usize> {
    // `check` has made sure that each lies on one before it, so that this ends.
    std::iter::successors(Some(at), |at| points.get(*at)?.below.filter(|below| below < at))
}

/// The layers of point `at` from the top down, without the raw storage.
pub(super) fn full_name(points: &[StackPoint<'_>], at: usize) -> String {
    let way = way_down(points, at).filter_map(|it| Some((it, points.get(it)?)));
    let named = way.filter(|(it, point)| *it == at || point.kind != PointKind::Raw);
    named.map(|(_, point)| point.layer.as_str()).collect::<Vec<_>>().join(" on ")
}
