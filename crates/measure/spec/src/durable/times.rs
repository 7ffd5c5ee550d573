//! How long each step lasts: the run's time is divided among the points.

use durio_base::{Bytes, Nanos};
use durio_plan::Limit;

use super::DurableLength;
use super::parts::{ExperimentDraft, PointSpan};
use crate::interval_for;

/// The time of one share.
#[derive(Debug)]
pub(super) struct Times {
    share: Nanos,
}

/// When a step ends, and how it is recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StepTiming {
    pub(super) limit: Limit,
    pub(super) ramp: Nanos,
    pub(super) interval: Nanos,
}

/// The promised time less laying out files, tracing commits and starting jobs: what remains for
/// steps that last by the clock.
fn budget(length: DurableLength) -> Nanos {
    match length {
        DurableLength::Quick => Nanos::from_secs(22),
        DurableLength::Usual => Nanos::from_secs(160),
        DurableLength::Full => Nanos::from_secs(320),
    }
}

/// The shortest share.
// Ten commits of a disk that turns 7200 times a minute and takes two turns for each (the write, and
// the flush), so that a mean is one of several.
const SHARE_MIN: Nanos = Nanos::from_millis(170);

/// From this number of jobs on, a step is one interval. Their histograms are merged at the end of
/// each interval, on processors that measure.
const MANY_JOBS: u32 = 16;

impl Times {
    pub(super) fn of(length: DurableLength, drafts: &[ExperimentDraft]) -> Self {
        let shares = |span: &PointSpan| match span {
            PointSpan::Shares(count) => u64::from(*count),
            PointSpan::Within(_) => 1,
            // The cross would leave the other experiments no time, and twenty commits take none
            // worth dividing.
            PointSpan::Fixed(..) | PointSpan::Operations(_) => 0,
        };
        let points = drafts.iter().flat_map(|draft| &draft.points);
        let sum: u64 = points.map(|point| shares(&point.span)).sum();
        let share = Nanos::new(budget(length).get() / sum.max(1));
        // With few points, none lasts longer than with many.
        let most = Nanos::new(budget(length).get() / 60);
        Self { share: share.min(most).max(SHARE_MIN) }
    }

    pub(super) fn timing(&self, span: PointSpan, jobs: u32) -> StepTiming {
        match span {
            PointSpan::Shares(count) => {
                let whole = self.share.get().saturating_mul(count.into());
                // A tenth is for one-time work: threads start, pages are touched.
                let ramp = Nanos::new(whole / 10);
                let duration = Nanos::new(whole - ramp.get());
                let interval = interval(duration, ramp, jobs);
                StepTiming { limit: Limit::Duration(duration), ramp, interval }
            }
            PointSpan::Within(volume) => within(volume, self.share, jobs),
            PointSpan::Fixed(duration, volume) => within(volume, duration, jobs),
            PointSpan::Operations(count) => StepTiming {
                limit: Limit::Operations(count),
                ramp: Nanos::ZERO,
                interval: Nanos::from_secs(1),
            },
        }
    }
}

fn within(volume: Bytes, duration: Nanos, jobs: u32) -> StepTiming {
    let interval = interval(duration, Nanos::ZERO, jobs);
    StepTiming { limit: Limit::VolumeWithin { volume, duration }, ramp: Nanos::ZERO, interval }
}

fn interval(duration: Nanos, ramp: Nanos, jobs: u32) -> Nanos {
    let usual = interval_for(duration, ramp);
    if jobs >= MANY_JOBS { usual.max(duration) } else { usual }
}
