//! How often processes call to write, as the kernel counts it for each of them, traced or not.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use durio_observe::write_calls;

use crate::sink::StopFlag;

/// How long is looked after a capture, at most.
const LOOK_MAX: Duration = Duration::from_secs(4);
/// And which part of the capture's own time.
const LOOK_PART: u32 = 10;
/// Between two looks at the wish to stop.
const PAUSE: Duration = Duration::from_millis(20);

/// The calls of each process, at a time.
#[derive(Debug, Clone)]
pub(super) struct WriteCalls {
    at: Instant,
    calls: BTreeMap<u32, u64>,
}

impl WriteCalls {
    pub(super) fn now(root: &Path, processes: &[u32]) -> Self {
        let calls =
            processes.iter().filter_map(|process| Some((*process, write_calls(root, *process)?)));
        Self { calls: calls.collect(), at: Instant::now() }
    }

    /// Calls per second since then, of processes that existed then and still do; none without such
    /// processes.
    pub(super) fn rate(&self, root: &Path) -> Option<f64> {
        let since = |(process, before): (&u32, &u64)| {
            Some(write_calls(root, *process)?.saturating_sub(*before))
        };
        let calls: Vec<u64> = self.calls.iter().filter_map(since).collect();
        #[expect(clippy::cast_precision_loss, reason = "calls of minutes")]
        let sum = calls.iter().sum::<u64>() as f64;
        (!calls.is_empty()).then(|| sum / self.at.elapsed().as_secs_f64().max(f64::MIN_POSITIVE))
    }
}

/// The rate without a trace, for a part of `duration`; none if `stop` is set during it.
pub(super) fn untraced(
    root: &Path,
    processes: &[u32],
    duration: Duration,
    stop: &StopFlag,
) -> Option<f64> {
    let begin = WriteCalls::now(root, processes);
    let until = begin.at + LOOK_MAX.min(duration / LOOK_PART);
    while Instant::now() < until && !stop.is_set() {
        sleep(PAUSE.min(until.saturating_duration_since(Instant::now())));
    }
    if stop.is_set() { None } else { begin.rate(root) }
}
