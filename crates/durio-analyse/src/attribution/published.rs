//! What was published beside what was measured: the order of the layers.
//!
//! In: rows with published shares. Out: [`PublishedOrder`]. Not here: absolute rates, which other
//! machines do not share.
//!
//! Agreement is Kendall's: of all pairs of layers, how many are in the same order on both sides (M.
//! Kendall, A New Measure of Rank Correlation, Biometrika 30, 1938). Pairs that either side cannot
//! tell apart decide nothing.

use serde::{Deserialize, Serialize};

use super::findings::LayerRow;
use super::point::{Point, PointKind, full_name};
use super::steps::StepKey;
use durio_stats::least_squares::median;

/// Shares that differ by less, as a share of the larger, are taken to be the same: rates repeat to
/// two per cent at best.
const SAME_SHARE: f64 = 0.02;

/// Pairs that are named in the sentence.
const NAMED_MAX: usize = 3;

/// Published shares beside measured ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedOrder {
    /// The publications.
    pub sources: Vec<String>,
    /// Layer by layer, the largest published share first; raw storage is left out.
    pub rows: Vec<PublishedRow>,
    /// Pairs in the same order on both sides.
    pub pairs_same: usize,
    /// Pairs in the opposite order.
    pub pairs_other: usize,
    /// Pairs that one side cannot tell apart.
    pub pairs_undecided: usize,
    /// The conclusion.
    pub sentence: String,
}

/// One layer, wherever it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedRow {
    /// The layers from the top down.
    pub name: String,
    /// Its share of raw as published.
    pub published: f64,
    /// As measured; the median if several stacks have it; `None` without figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// How far apart the shares are that were measured for it, as a share: half of the range ÷ the
    /// median.
    pub spread: f64,
}

/// Both sides; `None` without a published share of this workload.
pub(super) fn order(
    points: &[Point<'_>],
    key: &StepKey,
    rows: &[LayerRow],
) -> Option<PublishedOrder> {
    let mut rows = layers(points, key, rows)?;
    rows.sort_by(|a, b| b.published.total_cmp(&a.published));
    let mut found = PublishedOrder {
        sources: sources(points, key),
        rows,
        pairs_same: 0,
        pairs_other: 0,
        pairs_undecided: 0,
        sentence: String::new(),
    };
    let mut turned = Vec::new();
    for (at, upper) in found.rows.iter().enumerate() {
        for lower in found.rows.iter().skip(at + 1) {
            match pair(upper, lower) {
                None => {}
                Some(Pair::Same) => found.pairs_same += 1,
                Some(Pair::Undecided) => found.pairs_undecided += 1,
                Some(Pair::Other) => turned.push((upper, lower)),
            }
        }
    }
    let sentence = sentence(&found, &turned);
    found.pairs_other = turned.len();
    found.sentence = sentence;
    Some(found)
}

fn sources(points: &[Point<'_>], key: &StepKey) -> Vec<String> {
    let mut sources: Vec<String> = Vec::new();
    for share in points.iter().filter_map(|point| key.published(point)) {
        if !sources.contains(&share.source) {
            sources.push(share.source.clone());
        }
    }
    sources
}

/// The layers with a published share for this workload, each once.
fn layers(points: &[Point<'_>], key: &StepKey, rows: &[LayerRow]) -> Option<Vec<PublishedRow>> {
    let mut found: Vec<(String, f64, Vec<f64>)> = Vec::new();
    let layered = points.iter().zip(rows).filter(|(point, _)| point.kind != PointKind::Raw);
    for (point, row) in layered {
        let Some(published) = key.published(point).map(|it| it.share_of_raw) else { continue };
        let name = full_name(points, row.point);
        let share = row.figures.as_ref().and_then(|figures| figures.share_of_raw);
        match found.iter_mut().find(|it| it.0 == name) {
            Some(known) => known.2.extend(share),
            None => found.push((name, published, share.into_iter().collect())),
        }
    }
    let row = |(name, published, shares): (String, f64, Vec<f64>)| PublishedRow {
        measured: median(&shares),
        spread: spread(&shares),
        name,
        published,
    };
    (!found.is_empty()).then(|| found.into_iter().map(row).collect())
}

fn spread(shares: &[f64]) -> f64 {
    let low = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let high = shares.iter().copied().fold(0.0, f64::max);
    let half = (high - low) / 2.0 / median(shares).unwrap_or(1.0);
    if half.is_finite() { half } else { 0.0 }
}

enum Pair {
    Same,
    Other,
    Undecided,
}

/// `upper` has the larger published share, or an equal one.
fn pair(upper: &PublishedRow, lower: &PublishedRow) -> Option<Pair> {
    let (high, low) = (upper.measured?, lower.measured?);
    let apart = |a: f64, b: f64, least: f64| (a - b).abs() > least * a.max(b);
    let noise = SAME_SHARE.max(upper.spread.max(lower.spread));
    let decided = apart(upper.published, lower.published, SAME_SHARE) && apart(high, low, noise);
    Some(match (decided, high > low) {
        (false, _) => Pair::Undecided,
        (true, true) => Pair::Same,
        (true, false) => Pair::Other,
    })
}

fn sentence(found: &PublishedOrder, turned: &[(&PublishedRow, &PublishedRow)]) -> String {
    let told = found.pairs_same + turned.len();
    let undecided = match found.pairs_undecided {
        0 => String::new(),
        count => format!("; {count} more are too close to tell apart"),
    };
    if told == 0 {
        return format!("cannot tell: no two layers that both sides tell apart{undecided}");
    }
    let Some(_) = turned.first() else {
        return format!("same order of layers as published, in {told} of {told} pairs{undecided}");
    };
    let named = turned.iter().take(NAMED_MAX);
    let named: Vec<String> = named
        .map(|(upper, lower)| {
            format!("{} was published above {} and measured below it", upper.name, lower.name)
        })
        .collect();
    let more = match turned.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        count => format!("; and {count} more"),
    };
    format!(
        "other order of layers than published, in {} of {told} pairs{undecided}: {}{more}",
        turned.len(),
        named.join("; ")
    )
}
