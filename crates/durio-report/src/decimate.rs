//! Fewer points than were recorded, without losing an extreme.
//!
//! In: a count and the values of some series. Out: which points to draw.

/// The indices to draw, in order: at most `points_max`, with the lowest and the highest value of
/// every series in each of equally many stretches.
///
/// A point without a value counts as lowest, for a gap must be seen.
pub(crate) fn kept(
    count: usize,
    points_max: usize,
    series: &[&dyn Fn(usize) -> Option<f64>],
) -> Vec<usize> {
    if count <= points_max {
        return (0..count).collect();
    }
    let stretches = (points_max / (2 * series.len().max(1))).max(1);
    let mut kept = Vec::with_capacity(points_max);
    for stretch in 0..stretches {
        let indices = count * stretch / stretches..count * (stretch + 1) / stretches;
        for value in series {
            let value = |index: &usize| value(*index).unwrap_or(f64::NEG_INFINITY);
            kept.extend(indices.clone().min_by(|a, b| value(a).total_cmp(&value(b))));
            kept.extend(indices.clone().max_by(|a, b| value(a).total_cmp(&value(b))));
        }
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_are_all_kept() {
        assert_eq!(kept(3, 600, &[&|_| Some(1.0)]), [0, 1, 2]);
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn of_many_points_the_extremes_are_kept() {
        let saw = |index: usize| Some(if index == 777 { 1e9 } else { (index % 7) as f64 });
        let gap = |index: usize| (index != 1234).then_some(5.0);
        let kept = kept(3000, 600, &[&saw, &gap]);
        assert!(kept.len() <= 600 && kept.len() > 200, "{}", kept.len());
        assert!(kept.contains(&777) && kept.contains(&1234));
        assert!(kept.is_sorted());
    }
}
