//! A coordinator that goes on with a campaign from its folder.

use durio_base::Nanos;
use durio_record::fleet::{
    CampaignEvent, CampaignOutcome, HostChange, HostState, TimedCampaignEvent,
};

use super::{CampaignPhase, CoordinatorConfig, CoordinatorEffect, CoordinatorMachine};
use crate::fault::FleetFault;

impl CoordinatorMachine {
    /// Goes on from what the record has. What the hosts do now, their statuses will say; what they did
    /// while they were lost to the earlier process stays unknown.
    pub fn resume(
        config: CoordinatorConfig,
        changes: &[HostChange],
        events: &[TimedCampaignEvent],
        now: Nanos,
    ) -> (Self, Vec<CoordinatorEffect>) {
        let mut machine = Self::new(config, now);
        let times = changes.iter().map(|change| change.at).chain(events.iter().map(|line| line.at));
        machine.passed = times.max().unwrap_or_default();
        for change in changes {
            machine.replay_change(change, now);
        }
        for line in events {
            machine.replay_event(&line.event, now);
        }
        if FleetFault::ResumeForgetsFinal.is_in(machine.config.fault) {
            let done = machine.hosts.iter_mut().filter(|view| view.recorded.is_final());
            done.for_each(|view| view.recorded = HostState::Ended);
        }
        // Each process counts from above all earlier ones.
        machine.incarnation += 1;
        // Answers to an earlier process are not taken for answers to this one.
        machine.nonce = machine.incarnation << 32;
        let hosts = u32::try_from(machine.hosts.len()).unwrap_or(u32::MAX);
        machine.event(CampaignEvent::Resumed { hosts });
        if let Some((reason, _)) = machine.stopped.clone() {
            for at in 0..machine.hosts.len() {
                machine.leave_out(at, &reason);
            }
        }
        let effects = std::mem::take(&mut machine.effects);
        (machine, effects)
    }

    fn replay_change(&mut self, change: &HostChange, now: Nanos) {
        let Some(at) = self.position(&change.host) else { return };
        let view = &mut self.hosts[at];
        view.recorded = change.state;
        view.lines.note(change.state);
        view.has_joined |= change.state == HostState::Joined;
        view.lost_since = (change.state == HostState::Lost).then_some(now);
        if matches!(change.state, HostState::Refused | HostState::Stopped) {
            view.refusal.clone_from(&change.reason);
        }
    }

    fn replay_event(&mut self, event: &CampaignEvent, now: Nanos) {
        match event {
            CampaignEvent::Resumed { .. } => self.incarnation += 1,
            CampaignEvent::LateJoiner { host } => match self.position(host) {
                Some(at) => self.hosts[at].is_late = true,
                None => self.strangers.push(host.clone()),
            },
            CampaignEvent::HostLost { host, .. } => {
                if let Some(at) = self.position(host) {
                    self.hosts[at].forget_all();
                }
            }
            CampaignEvent::Decision { decision, .. } if decision == "go" => {
                (self.phase, self.phase_began) = (CampaignPhase::Running, now);
            }
            CampaignEvent::Decision { decision, reason } if decision == "stop" => {
                self.stopped = Some((reason.clone(), CampaignOutcome::Stopped));
                (self.phase, self.phase_began) = (CampaignPhase::Running, now);
            }
            _ => {}
        }
    }
}
