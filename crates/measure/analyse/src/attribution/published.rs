//! Compares published with measured shares: the order of the layers. Absolute rates are left out,
//! because machines differ.
//!
//! Agreement is Kendall's: of all pairs of layers, how many are in the same order on both sides (M.
//! Kendall, A New Measure of Rank Correlation, Biometrika 30, 1938). Pairs that either side cannot
//! tell apart decide nothing.

use super::findings::{LayerRow, PublishedOrder, PublishedRow};
use super::points::{PointKind, StackPoint, StepKey, full_name};
use crate::grouping::{each_once, grouped};
use durio_base::stats::least_squares::{median, range};

/// Shares that differ by less count as the same.
// Rates repeat to two per cent at best.
const SAME_SHARE: f64 = 0.02;

/// Pairs that are named in the sentence.
const NAMED_MAX: usize = 3;

/// Both sides; `None` without a published share of this workload.
pub(super) fn order(
    points: &[StackPoint<'_>],
    key: &StepKey,
    rows: &[LayerRow],
) -> Option<PublishedOrder> {
    let mut rows = layers(points, key, rows)?;
    rows.sort_by(|a, b| b.published.total_cmp(&a.published));
    let (mut pairs_same, mut pairs_undecided, mut turned) = (0, 0, Vec::new());
    for (at, upper) in rows.iter().enumerate() {
        for lower in rows.iter().skip(at + 1) {
            let Some((high, low)) = upper.measured.zip(lower.measured) else { continue };
            match is_same_order(upper, lower, [high, low]) {
                Some(true) => pairs_same += 1,
                Some(false) => turned.push((upper, lower)),
                None => pairs_undecided += 1,
            }
        }
    }
    Some(PublishedOrder {
        sources: sources(points, key),
        pairs_same,
        pairs_other: turned.len(),
        pairs_undecided,
        sentence: sentence(pairs_same, pairs_undecided, &turned),
        rows,
    })
}

fn sources(points: &[StackPoint<'_>], key: &StepKey) -> Vec<String> {
    let shares = points.iter().filter_map(|point| key.published(point));
    each_once(shares.map(|share| share.source.clone().unwrap_or_default()))
}

/// The layers with a published share for this workload, each once.
fn layers(
    points: &[StackPoint<'_>],
    key: &StepKey,
    rows: &[LayerRow],
) -> Option<Vec<PublishedRow>> {
    let layered = points.iter().zip(rows).filter(|(point, _)| point.kind != PointKind::Raw);
    let known = layered.filter_map(|(point, row)| {
        let measured = row.figures.as_ref().and_then(|figures| figures.share_of_raw);
        Some((full_name(points, row.point), key.published(point)?.share_of_raw, measured))
    });
    let row = |layer: Vec<(String, f64, Option<f64>)>| {
        let shares: Vec<f64> = layer.iter().filter_map(|layer| layer.2).collect();
        let (name, published, _) = layer.into_iter().next()?;
        Some(PublishedRow { name, published, measured: median(&shares), spread: spread(&shares) })
    };
    let found: Vec<_> = grouped(known, |a, b| a.0 == b.0).into_iter().filter_map(row).collect();
    (!found.is_empty()).then_some(found)
}

fn spread(shares: &[f64]) -> f64 {
    let (low, high) = range(shares.iter().copied());
    let half = (high - low) / 2.0 / median(shares).unwrap_or(1.0);
    if half.is_finite() { half } else { 0.0 }
}

/// Whether both sides have two layers in the same order; `None` if one side cannot tell them apart.
/// `upper` has the larger published share, or an equal one.
fn is_same_order(upper: &PublishedRow, lower: &PublishedRow, measured: [f64; 2]) -> Option<bool> {
    let [high, low] = measured;
    let apart = |a: f64, b: f64, least: f64| (a - b).abs() > least * a.max(b);
    // Stacks with the same measured layer differ by their scatter.
    let noise = SAME_SHARE.max(upper.spread.max(lower.spread));
    let decided = apart(upper.published, lower.published, SAME_SHARE) && apart(high, low, noise);
    decided.then_some(high > low)
}

fn sentence(same: usize, open: usize, turned: &[(&PublishedRow, &PublishedRow)]) -> String {
    let told = same + turned.len();
    let undecided = match open {
        0 => String::new(),
        count => format!("; {count} more are too close to tell apart"),
    };
    if told == 0 {
        return format!("cannot tell: no two layers that both sides tell apart{undecided}");
    }
    if turned.is_empty() {
        return format!("same order of layers as published, in {told} of {told} pairs{undecided}");
    }
    let named = turned.iter().take(NAMED_MAX).map(|(upper, lower)| {
        format!("{} was published above {} and measured below it", upper.name, lower.name)
    });
    let named: Vec<String> = named.collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, published: f64, spread: f64) -> PublishedRow {
        PublishedRow { name: name.to_owned(), published, measured: None, spread }
    }

    #[test]
    fn shares_within_two_percent_or_their_own_scatter_are_not_told_apart() {
        let order = |published: f64, measured: f64, spread: f64| {
            let (upper, lower) = (row("a", 1.0, 0.0), row("b", 1.0 - published, spread));
            is_same_order(&upper, &lower, [0.5, 0.5 * (1.0 - measured)])
        };
        assert_eq!([order(0.0195, 0.5, 0.0), order(0.0205, 0.5, 0.0)], [None, Some(true)]);
        assert_eq!([order(0.5, 0.0195, 0.0), order(0.5, 0.0205, 0.0)], [None, Some(true)]);
        assert_eq!([order(0.5, 0.099, 0.1), order(0.5, 0.101, 0.1)], [None, Some(true)]);
        assert_eq!(order(0.5, -0.5, 0.0), Some(false));
    }

    #[test]
    fn three_pairs_in_another_order_are_named_and_more_are_counted() {
        let rows: Vec<PublishedRow> =
            ["a", "b", "c", "d", "e"].map(|name| row(name, 1.0, 0.0)).into();
        let said = |count: usize| {
            let turned: Vec<_> = rows[..count].iter().zip(&rows[1..]).collect();
            sentence(7, 2, &turned)
        };
        assert_eq!(
            said(3),
            "other order of layers than published, in 3 of 10 pairs; 2 more are too close to tell \
             apart: a was published above b and measured below it; b was published above c and \
             measured below it; c was published above d and measured below it"
        );
        assert!(said(4).ends_with("c was published above d and measured below it; and 1 more"));
        assert_eq!(sentence(5, 0, &[]), "same order of layers as published, in 5 of 5 pairs");
    }
}
