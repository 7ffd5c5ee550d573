//! Shapes: how a rate grows with the load, whatever the storage's speed.
//!
//! A [`ShapeComparison`] compares ratios within each table, measured and published; absolute rates of another
//! machine's publication cannot be compared.

use serde::{Deserialize, Serialize};

/// A rate at a level of load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatePoint {
    /// Operations in flight in total: jobs × depth.
    pub level: u32,
    /// Operations per second.
    #[serde(rename = "rate_per_second")]
    pub rate: f64,
}

/// How a level compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShapeWord {
    /// The level that both are divided by.
    Reference,
    /// The same ratio, within the tolerance.
    Alike,
    /// A higher ratio than the published one.
    ScalesBetter,
    /// A lower ratio than the published one.
    ScalesWorse,
    /// No rate is published for it.
    OnlyMeasured,
    /// It was not measured.
    OnlyPublished,
}

impl ShapeWord {
    /// As users read it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Alike => "alike",
            Self::ScalesBetter => "scales better",
            Self::ScalesWorse => "scales worse",
            Self::OnlyMeasured => "not published",
            Self::OnlyPublished => "not measured",
        }
    }
}

/// One level of both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShapeLevel {
    /// Operations in flight in total.
    pub level: u32,
    /// Measured rate / that at the reference level.
    pub measured_ratio: Option<f64>,
    /// The same of the published rates.
    pub published_ratio: Option<f64>,
    /// measured / published ratio − 1.
    pub deviation: Option<f64>,
    pub word: ShapeWord,
}

/// Both tables, level by level, in rising order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShapeComparison {
    /// The lowest level that both have; `None` if they share no level, and then there are no
    /// ratios.
    pub reference_level: Option<u32>,
    pub levels: Vec<ShapeLevel>,
}

impl ShapeComparison {
    /// True if both tables share at least one level other than the reference.
    #[must_use]
    pub fn is_any_compared(&self) -> bool {
        self.levels.iter().any(|it| it.deviation.is_some() && it.word != ShapeWord::Reference)
    }
}

/// Ratios that deviate by less are alike: publications round to two or three digits.
pub const TOLERANCE: f64 = 0.10;

/// Sets the shapes of two tables against each other. Rates that are not positive are passed over;
/// of several rates at one level the first counts.
#[must_use]
pub fn shape(measured: &[RatePoint], published: &[RatePoint], tolerance: f64) -> ShapeComparison {
    let all = measured.iter().chain(published).filter(|it| it.rate > 0.0);
    let mut levels: Vec<u32> = all.map(|it| it.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let rate = |points: &[RatePoint], level| {
        points.iter().find(|it| it.level == level && it.rate > 0.0).map(|it| it.rate)
    };
    let of = |level| (rate(measured, level), rate(published, level));
    // The lowest: with the least load a rate is little more than one over the latency, so that
    // ratios to it show how the storage scales.
    let reference = levels.iter().copied().find(|&it| matches!(of(it), (Some(_), Some(_))));
    let base = reference.map(of);
    let ratio = |rate: Option<f64>, base: Option<f64>| Some(rate? / base?);
    let one = |&level: &u32| {
        let (own, theirs) = of(level);
        let measured_ratio = ratio(own, base.and_then(|it| it.0));
        let published_ratio = ratio(theirs, base.and_then(|it| it.1));
        let deviation = ratio(measured_ratio, published_ratio).map(|it| it - 1.0);
        let word = match (own.is_some(), theirs.is_some(), deviation) {
            _ if Some(level) == reference => ShapeWord::Reference,
            (true, true, Some(deviation)) if deviation > tolerance => ShapeWord::ScalesBetter,
            (true, true, Some(deviation)) if deviation < -tolerance => ShapeWord::ScalesWorse,
            (true, true, _) => ShapeWord::Alike,
            (true, false, _) => ShapeWord::OnlyMeasured,
            (false, ..) => ShapeWord::OnlyPublished,
        };
        ShapeLevel { level, measured_ratio, published_ratio, deviation, word }
    };
    ShapeComparison { reference_level: reference, levels: levels.iter().map(one).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(table: &[(u32, f64)]) -> Vec<RatePoint> {
        table.iter().map(|&(level, rate)| RatePoint { level, rate }).collect()
    }

    #[test]
    fn a_slower_storage_of_the_same_shape_is_alike() {
        let published = points(&[(1, 14_000.0), (4, 56_800.0), (16, 216_000.0)]);
        let own: Vec<_> =
            published.iter().map(|it| RatePoint { rate: it.rate / 7.0, ..*it }).collect();
        let found = shape(&own, &published, TOLERANCE);
        let words: Vec<_> = found.levels.iter().map(|it| it.word).collect();
        assert_eq!(words, [ShapeWord::Reference, ShapeWord::Alike, ShapeWord::Alike]);
        assert!((found.levels[1].published_ratio.unwrap() - 56.8 / 14.0).abs() < 1e-9);
        assert!(found.is_any_compared());
    }

    #[test]
    fn a_knee_is_seen_where_it_is() {
        let published = points(&[(1, 10.0), (2, 20.0), (4, 40.0), (8, 80.0)]);
        let own = points(&[(2, 200.0), (4, 300.0), (8, 900.0), (16, 900.0)]);
        let found = shape(&own, &published, TOLERANCE);
        assert_eq!(found.reference_level, Some(2));
        let words: Vec<_> = found.levels.iter().map(|it| (it.level, it.word)).collect();
        use ShapeWord::*;
        let expected = [
            (1, OnlyPublished),
            (2, Reference),
            (4, ScalesWorse),
            (8, ScalesBetter),
            (16, OnlyMeasured),
        ];
        assert_eq!(words, expected);
        assert!((found.levels[2].deviation.unwrap() + 0.25).abs() < 1e-9);
    }

    #[test]
    fn nothing_in_common_gives_no_ratio() {
        for (own, theirs) in [(vec![], vec![]), (points(&[(1, 5.0)]), points(&[(2, 5.0)]))] {
            let found = shape(&own, &theirs, TOLERANCE);
            assert_eq!(found.reference_level, None);
            assert!(!found.is_any_compared());
        }
        let found = shape(&points(&[(1, 0.0)]), &points(&[(1, f64::NAN)]), TOLERANCE);
        assert!(found.levels.is_empty());
    }

    #[test]
    fn a_ratio_is_alike_up_to_the_tolerance_on_both_sides() {
        let word = |rate: f64| {
            let published = points(&[(1, 10.0), (2, 20.0)]);
            shape(&points(&[(1, 10.0), (2, rate)]), &published, 0.25).levels[1].word
        };
        assert_eq!((word(25.0), word(15.0)), (ShapeWord::Alike, ShapeWord::Alike));
        assert_eq!((word(25.1), word(14.9)), (ShapeWord::ScalesBetter, ShapeWord::ScalesWorse));
        assert!((TOLERANCE - 0.10).abs() < 1e-12);
        use ShapeWord::{Alike, OnlyMeasured, OnlyPublished, Reference, ScalesBetter, ScalesWorse};
        let words = [Reference, Alike, ScalesBetter, ScalesWorse, OnlyMeasured, OnlyPublished];
        let said = words.map(ShapeWord::words);
        let expected = [
            "reference",
            "alike",
            "scales better",
            "scales worse",
            "not published",
            "not measured",
        ];
        assert_eq!(said, expected);
        // A rate of zero is none.
        let found = shape(&points(&[(1, 10.0), (2, 0.0)]), &points(&[(1, 5.0), (2, 9.0)]), 0.25);
        assert_eq!((found.levels[1].word, found.levels[1].measured_ratio), (OnlyPublished, None));
        // The reference alone compares nothing.
        let one = points(&[(1, 10.0)]);
        assert!(!shape(&one, &one, 0.25).is_any_compared());
    }
}
