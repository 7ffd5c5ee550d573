//! What ends a run, and the campaign on its host; and what is stored before it is acknowledged.

use durio_base::Nanos;
use durio_record::fleet::HostState;

use super::{GateAnswer, HostEffect, HostMachine};
use crate::clock::later;
use crate::fault::FleetFault;
use crate::message::{CampaignStep, HostStatus};

impl HostMachine {
    /// The limits of the host's file, and the dead-man switch: a load without a coordinator ends.
    pub(super) fn watch_run(&mut self, now: Nanos) {
        let Some(order) = self.order.as_ref().filter(|_| self.has_child) else { return };
        if let Some(limit) = self.permitted.passed(self.run_began, now) {
            return self.stop(now, format!("the run was not over within {limit}"));
        }
        if self.stopping.is_some() || FleetFault::DeadManOff.is_in(self.config.fault) {
            return;
        }
        // The order to run was a word, too, and no old one.
        let silence = now.saturating_sub(self.heard.max(self.run_began));
        let length = now.saturating_sub(self.run_began);
        if silence > order.silence_max {
            self.stop(now, format!("no word from the coordinator for {silence}"));
        } else if length > order.run_max {
            self.stop(now, format!("the run took {length}, longer than ordered"));
        }
    }

    /// When [`Self::watch_run`] ends the run.
    pub(super) fn run_ends_at(&self) -> Option<Nanos> {
        let is_watched = self.has_child && self.stopping.is_none();
        let order = self.order.as_ref().filter(|_| is_watched)?;
        let is_off = FleetFault::DeadManOff.is_in(self.config.fault);
        let heard = self.heard.max(self.run_began);
        let ends = [later(heard, order.silence_max), later(self.run_began, order.run_max)];
        let ends = ends.into_iter().filter(|_| !is_off);
        // The last moments that are permitted.
        let last = ends.chain(self.permitted.last_moment(self.run_began)).min()?;
        Some(later(last, Nanos::new(1)))
    }

    /// Whether a step that starts `at` this time ends in the times that the host's file permits; else
    /// the run ends.
    pub(super) fn has_time(&mut self, now: Nanos, at: Nanos, step: CampaignStep) -> bool {
        let mut planned = self.plan.iter().flat_map(|plan| &plan.steps);
        let planned = planned.find(|planned| planned.step.step == step.step);
        let length = planned.and_then(|planned| planned.length_ns).unwrap_or_default();
        let end = later(at, Nanos::new(length));
        let Some(limit) = self.permitted.passed(self.run_began, end) else { return true };
        self.stop(now, format!("the next step would not end within {limit}"));
        false
    }

    pub(super) fn stop(&mut self, now: Nanos, reason: String) {
        if self.stopping.is_some() || self.memory.done.is_some() {
            return;
        }
        if !self.memory.has_run {
            return self.finish(now, HostState::Stopped, reason);
        }
        if !self.has_child {
            return;
        }
        if self.waiting.take().is_some() {
            let answer = GateAnswer::Abort(reason.clone());
            self.effects.push(HostEffect::Answer { answer, attempt: 0 });
        }
        (self.stopping, self.pending, self.timetable) = (Some(reason), None, None);
        // Until the memory is stored there is no child.
        if self.storing.is_none() {
            self.effects.push(HostEffect::StopChild);
        }
        self.report(now);
    }

    pub(super) fn child_exited(&mut self, failure: Option<String>) {
        if !std::mem::take(&mut self.has_child) {
            return;
        }
        (self.waiting, self.pending) = (None, None);
        // A child that is stopped may exit with a failure, which is not the cause.
        self.stopping = self.stopping.take().or(failure);
        self.effects.push(HostEffect::Inspect);
    }

    pub(super) fn release(&mut self, now: Nanos, run: &str) {
        if self.run.as_ref().is_none_or(|known| known.name != run) {
            self.ignored += 1;
        } else if self.memory.done.is_none() {
            let reason = self.reason.clone().unwrap_or_default();
            self.finish(now, HostState::Collected, reason);
        }
    }

    /// The campaign is over on this host.
    pub(super) fn finish(&mut self, now: Nanos, state: HostState, reason: String) {
        if self.memory.done.is_some() {
            return;
        }
        let before = self.status(now);
        (self.state, self.memory.done) = (state, Some(state));
        self.reason = (!reason.is_empty()).then_some(reason);
        (self.waiting, self.pending, self.timetable) = (None, None, None);
        if std::mem::take(&mut self.has_child) {
            self.effects.push(HostEffect::StopChild);
        }
        let unlock = std::mem::take(&mut self.is_locked).then_some(HostEffect::Unlock);
        self.store(before, unlock);
    }

    /// Has the memory stored. Until that is done `before` is reported, and `then` waits: a run that
    /// was acknowledged, or started, is known after any crash.
    pub(super) fn store(&mut self, before: HostStatus, then: Option<HostEffect>) {
        self.effects.push(HostEffect::Remember(self.memory.clone()));
        if FleetFault::RunNotStored.is_in(self.config.fault) {
            return self.effects.extend(then);
        }
        let (_, waiting) = self.storing.get_or_insert_with(|| (Box::new(before), Vec::new()));
        waiting.extend(then);
    }

    pub(super) fn remembered(&mut self, now: Nanos, result: Result<(), String>) {
        let Some((_, mut waiting)) = self.storing.take() else { return };
        let is_start = waiting.contains(&HostEffect::StartChild);
        let end = match (result, self.stopping.take()) {
            (Err(reason), _) => Some((HostState::Failed, reason)),
            (Ok(()), Some(reason)) => Some((HostState::Stopped, reason)),
            (Ok(()), None) => None,
        };
        if let Some((state, reason)) = end.filter(|_| is_start) {
            // Nothing was started; nor was it reported.
            (self.memory.has_run, self.has_child) = (false, false);
            self.state = HostState::Planned;
            return self.finish(now, state, reason);
        }
        self.effects.append(&mut waiting);
        self.report(now);
    }
}
