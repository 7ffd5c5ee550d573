//! Work that is due by the clock, and the time of the agent's next wake-up.

use durio_agree::clock::later;
use durio_agree::host::{HEARTBEAT_EVERY, HostInput};
use durio_agree::live::LiveReport;
use durio_agree::permit::WriteWatch;
use durio_base::Nanos;
use durio_record::fleet::HostState;

use super::{Agent, AgentEvent};

/// Between two looks at the record of the run, which come with heartbeats: a run is measured here, and
/// each wake-up of the agent takes time from it.
const LOOK_EVERY: Nanos = Nanos::from_secs(1);
const LOOK_MAX: Nanos = Nanos::new(LOOK_EVERY.get() + HEARTBEAT_EVERY.get());
/// How long an agent stays without a session: after its last word; before a run, for a coordinator
/// that comes back; after one, until the folder was collected. ssh waits for the agent's connection to
/// the bus, so the first is short.
const COLLECTED_STAY: Nanos = Nanos::from_millis(100);
pub(super) const DONE_STAY: Nanos = Nanos::from_secs(2);
const IDLE_STAY: Nanos = Nanos::from_secs(60);
const RUN_STAY: Nanos = Nanos::from_secs(24 * 3_600);

impl Agent {
    /// When the agent has to wake, if nothing is heard before.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let look = self.follower.as_ref().map(|_| later(self.looked, LOOK_MAX));
        let watch = self.watch.as_ref().filter(|_| self.child.is_some()).map(WriteWatch::due);
        let deadlines = [self.machine.next_deadline(), look, watch, self.over_at()];
        deadlines.into_iter().flatten().min()
    }

    pub(super) async fn act_by_clock(&mut self, time: Nanos) {
        self.look(time);
        if let Some(reason) = self.watch_writes(time) {
            self.feed(time, HostInput::Stop(reason)).await;
        }
        if self.machine.next_deadline().is_some_and(|due| time >= due) {
            self.feed(time, HostInput::Tick).await;
        }
    }

    /// When this process ends, unless a session comes before: a later one starts another process.
    pub(super) fn over_at(&self) -> Option<Nanos> {
        let stay = match (self.memory.done, self.memory.has_run) {
            (Some(HostState::Collected), _) => COLLECTED_STAY,
            (Some(_), _) => DONE_STAY,
            (None, false) => IDLE_STAY,
            (None, true) => RUN_STAY,
        };
        let is_alone = self.session.is_none() && self.child.is_none();
        is_alone.then(|| later(self.quiet_since, stay))
    }

    /// Why the run has to end, if it is about to write more than a permit allows.
    fn watch_writes(&mut self, time: Nanos) -> Option<String> {
        let (Some(watch), Some(child)) = (&mut self.watch, &self.child) else { return None };
        if time < watch.due() {
            return None;
        }
        let written = child.moved().map(|[written, _]| written);
        // Its exit, which is heard next, says how the run ended.
        if written.is_none() && child.has_exited() {
            self.watch = None;
            return None;
        }
        watch.note(time, written)
    }

    /// Looks at what the run has done.
    fn look(&mut self, time: Nanos) {
        if time < later(self.looked, LOOK_EVERY) {
            return;
        }
        let Some(mut follower) = self.follower.take() else { return };
        self.looked = time;
        self.aside(move || {
            let report = follower.look().and_then(LiveReport::encode);
            AgentEvent::Looked(follower, report)
        });
    }
}
