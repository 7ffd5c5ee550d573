//! Whether the figures of a ladder can be analysed, and what is odd about them if they can.
//!
//! In: the points. Out: an error, or notes. Not here: any conclusion about the storage.

use super::{LEVELS_MAX, LEVELS_MIN, LadderKind, Point};
use crate::Declined;

/// A level this far below both an earlier and a later one is noise that no model should smooth
/// over; repeated steps of an undisturbed device differ by a few per cent.
const DIP_MAX: f64 = 0.20;

/// Little's law cannot be exceeded; two per cent are left for rounded figures.
const LITTLE_MAX: f64 = 1.02;

/// Below it the shortfall is worth a sentence.
const LITTLE_MIN: f64 = 0.90;

/// The first levels' rate per operation may lie this far below the best before it is called odd.
const SUPERLINEAR_FROM: f64 = 0.90;

/// An error if the points are too few or too many, do not rise, are no figures, or contradict each
/// other.
pub(super) fn check(points: &[Point]) -> Result<(), Declined> {
    Declined::unless_enough("levels", points.len(), LEVELS_MIN)?;
    Declined::if_too_many("levels", points.len(), LEVELS_MAX)?;
    Declined::unless_positive("level", points.iter().map(|point| point.level))?;
    Declined::unless_positive("number in flight", points.iter().map(|point| point.in_flight))?;
    Declined::unless_positive("rate", points.iter().map(|point| point.rate_per_second))?;
    Declined::unless_positive("mean latency", points.iter().map(|point| point.latency_ns_mean))?;
    rising(points)?;
    quiet(points)
}

fn rising(points: &[Point]) -> Result<(), Declined> {
    let falls = |pair: (&Point, &Point)| pair.1.level <= pair.0.level;
    match points.iter().zip(points.iter().skip(1)).position(falls) {
        None => Ok(()),
        Some(index) => Err(Declined::NotRising { position: index + 2 }),
    }
}

fn quiet(points: &[Point]) -> Result<(), Declined> {
    let rates: Vec<f64> = points.iter().map(|point| point.rate_per_second).collect();
    for (index, point) in points.iter().enumerate() {
        let (before, after) = rates.split_at(index);
        let highest = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
        let beside = highest(before).min(highest(after.get(1..).unwrap_or_default()));
        let dip_share = 1.0 - point.rate_per_second / beside;
        if beside > 0.0 && dip_share > DIP_MAX {
            return Err(Declined::Noisy { level: point.level, dip_share });
        }
    }
    Ok(())
}

/// Rate × latency ÷ in flight.
pub(super) fn little_share(point: &Point) -> f64 {
    point.rate_per_second * point.latency_ns_mean / 1e9 / point.in_flight
}

/// What is odd, as sentences.
pub(super) fn notes(points: &[Point], kind: LadderKind, efficiencies: &[f64]) -> Vec<String> {
    if kind == LadderKind::OfferedRate {
        return Vec::new();
    }
    let mut notes: Vec<String> = points.iter().filter_map(little_note).collect();
    notes.extend(superlinear_note(points, efficiencies));
    notes
}

fn little_note(point: &Point) -> Option<String> {
    let share = little_share(point);
    let says = if share > LITTLE_MAX {
        "impossible: one of the figures is wrong"
    } else if share < LITTLE_MIN {
        "a shortfall: jobs spent time elsewhere, or latency is understated"
    } else {
        return None;
    };
    let (level, percent) = (point.level, share * 100.0);
    Some(format!(
        "level {level}: rate × mean latency is {percent:.0} % of the operations in flight; {says}"
    ))
}

fn superlinear_note(points: &[Point], efficiencies: &[f64]) -> Option<String> {
    let (first, share) = points.iter().zip(efficiencies).next()?;
    if *share >= SUPERLINEAR_FROM {
        return None;
    }
    let best = points.iter().zip(efficiencies).max_by(|a, b| a.1.total_cmp(b.1))?;
    Some(format!(
        "the rate per operation in flight is highest at level {}, {:.0} % above that of level {}: \
         storage does not get faster by load; a sleeping processor or device does, and so does a \
         wrong figure",
        best.0.level,
        (best.1 / share - 1.0) * 100.0,
        first.level
    ))
}
