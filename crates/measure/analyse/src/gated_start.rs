//! How far the start of a step was from the time that another process had ordered.

use durio_base::Nanos;
use durio_record::StepGated;
use serde::{Deserialize, Serialize};

/// A start that another process ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatedStart {
    /// The actual start minus the ordered one.
    pub lateness_ns: i64,
    /// The sender's estimate of its clock minus this host's.
    pub offset_ns: i64,
    /// The largest error of that estimate.
    pub bound_ns: u64,
    /// The ordered start, on this host's CLOCK_MONOTONIC.
    pub ordered_at_ns: u64,
}

impl From<&StepGated> for GatedStart {
    fn from(gated: &StepGated) -> Self {
        Self {
            lateness_ns: gated.lateness_ns(),
            offset_ns: gated.offset_ns,
            bound_ns: gated.bound_ns,
            ordered_at_ns: gated.ordered_at.get(),
        }
    }
}

impl GatedStart {
    /// How far apart this start and those of other processes may have been, as far as it is due to
    /// this host.
    pub fn skew_max(&self) -> Nanos {
        Nanos::new(self.lateness_ns.unsigned_abs().saturating_add(self.bound_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordered_start_may_be_off_by_its_lateness_and_the_error_of_the_clocks() {
        let nanos = Nanos::new;
        let (armed, ordered_at, started) = (nanos(100), nanos(5_000), nanos(5_140));
        let gated = StepGated {
            step: 2,
            round: 1,
            armed,
            ordered_at,
            started,
            offset_ns: -90_000,
            bound_ns: 700,
        };
        let start = GatedStart::from(&gated);
        assert_eq!((start.lateness_ns, start.ordered_at_ns), (140, 5_000));
        assert_eq!((start.offset_ns, start.bound_ns, start.skew_max()), (-90_000, 700, nanos(840)));
        let early = GatedStart { lateness_ns: -300, ..start };
        assert_eq!(early.skew_max(), nanos(1_000));
        let damaged = GatedStart { lateness_ns: i64::MIN, bound_ns: u64::MAX, ..start };
        assert_eq!(damaged.skew_max(), nanos(u64::MAX));
    }
}
