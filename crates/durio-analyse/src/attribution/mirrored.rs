//! A mirror beside the slowest of as many single devices.
//!
//! In: measurements of the mirror and of the raw storage. Out: [`MirrorRow`]. Not here: the models
//! ([`mirror`](crate::mirror)).
//!
//! What a member of a mirror has in flight is what the hosts have, times the copies, divided by the
//! members. Only where the single device had as much do its latencies tell what to expect.

use serde::{Deserialize, Serialize};

use super::point::RaidPoint;
use super::rows::{Raw, Table};
use super::steps::Measured;
use crate::campaign::baseline::counts;
use crate::mirror::{BesidePrediction, Penalty, beside_prediction, penalty};
use crate::raid_efficiency::Layout;

/// What was expected of a mirror, and what it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MirrorRow {
    /// Time per write ÷ that of the single device, and what it says; with as much in flight per
    /// drive only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub penalty: Option<Penalty>,
    /// Its latencies beside the maximum of independent draws from the single device's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<BesidePrediction>,
    /// What the reader should know about the comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// The row of a whole mirror that is only written to; `None` of anything else.
pub(super) fn row(
    table: &Table<'_>,
    at: usize,
    raid: RaidPoint,
    raw: Option<Raw<'_>>,
) -> Option<MirrorRow> {
    let (Layout::Raid1 { copies } | Layout::Raid10 { copies }) = raid.array.layout else {
        return None;
    };
    let (measured, raw) = (table.at(at)?, raw?.measured);
    let found = measured.found;
    let compares = raid.degraded_members == 0 && !found.definition.reads();
    if !compares || found.open_loop.is_some() {
        return None;
    }
    let per_member = measured.offered() * f64::from(copies) / f64::from(raid.array.members.max(1));
    let per_drive = raw.offered() / f64::from(raw.drives().max(1));
    let alike = (per_member - per_drive).abs() < 1e-9;
    let row = MirrorRow {
        penalty: if alike { ratio(measured, raw, copies) } else { None },
        beside: beside_prediction(&counts(raw.found), &counts(found), copies).ok(),
        remark: (!alike).then(|| {
            format!(
                "each member has {per_member:.2} writes in flight, the single device had \
                 {per_drive:.2}: part of the difference is queueing"
            )
        }),
    };
    (row.penalty.is_some() || row.beside.is_some()).then_some(row)
}

/// Time per write is operations in flight ÷ rate.
fn ratio(mirror: &Measured<'_>, raw: &Measured<'_>, copies: u32) -> Option<Penalty> {
    let in_mirror = mirror.rate() / mirror.offered();
    penalty(raw.rate() / raw.offered(), in_mirror, copies).ok()
}
