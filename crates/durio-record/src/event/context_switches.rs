//! How often threads gave their processor away.
//!
//! In: nothing; the runner fills it. Out: plain data. Not here: rates, which are the analyser's.

use serde::{Deserialize, Serialize};

/// Context switches of threads, as the kernel counts them (getrusage: ru_nvcsw, ru_nivcsw).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContextSwitches {
    /// The thread waited: for I/O, a lock, another thread.
    pub voluntary: u64,
    /// The processor was taken from it: its time was up, or something more urgent came.
    pub involuntary: u64,
}

impl ContextSwitches {
    /// What was counted after `earlier`; zero where a counter has gone back.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_add(other.voluntary),
            involuntary: self.involuntary.saturating_add(other.involuntary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Outcome, StepEnded};

    #[test]
    fn a_record_keeps_the_switches_and_an_older_one_has_none() {
        let line = r#"{"event":"step_ended","step":0,"outcome":"complete","measured_ns":5,"cpu":null,"devices":[],"context_switches":{"voluntary":7,"involuntary":3}}"#;
        let Event::StepEnded(ended) = serde_json::from_str(line).unwrap() else { panic!("an end") };
        let switches = ContextSwitches { voluntary: 7, involuntary: 3 };
        assert_eq!(ended.context_switches, Some(switches));
        let older = Event::StepEnded(StepEnded { context_switches: None, ..ended });
        let text = serde_json::to_string(&older).unwrap();
        assert!(!text.contains("context_switches"), "{text}");
        let Event::StepEnded(ended) = serde_json::from_str(&text).unwrap() else {
            panic!("an end")
        };
        assert_eq!((ended.context_switches, ended.outcome), (None, Outcome::Complete));
    }

    #[test]
    fn a_counter_that_went_back_counts_nothing() {
        let (a, b) = (ContextSwitches { voluntary: 5, involuntary: 1 }, ContextSwitches::default());
        assert_eq!(b.saturating_since(a), b);
        let full = ContextSwitches { voluntary: u64::MAX, involuntary: u64::MAX };
        assert_eq!(full.saturating_add(a), full);
    }
}
