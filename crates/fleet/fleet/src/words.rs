//! What a campaign says on stderr.

use std::io::{self, Write as _};

use durio_agree::message::PlanSummary;
use durio_base::{Nanos, counted, visible};
use durio_record::fleet::{CampaignEvent, HostState};

/// A line to stderr; without control characters, for it may quote a host.
pub(crate) fn remark(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible(line));
}

/// What a user has to know at once.
pub(crate) fn urgent(event: &CampaignEvent) -> Option<String> {
    Some(match event {
        CampaignEvent::HostLost { host, silent_ns } => {
            format!("{host} is lost: silent for {}", Nanos::new(*silent_ns))
        }
        CampaignEvent::HostBack { host } => format!("{host} is back"),
        CampaignEvent::HostRefused { host, reason } => format!("{host} refused: {reason}"),
        CampaignEvent::LateJoiner { host } => format!("{host} joined too late, and is left out"),
        CampaignEvent::BarrierCancelled { silent, attempt, .. } => {
            let silent = silent.join(", ");
            format!("start {attempt} cancelled: no acknowledgement from {silent}")
        }
        CampaignEvent::BusLost => "the bus is gone; running steps go on".to_owned(),
        CampaignEvent::BusBack => "the bus is back".to_owned(),
        CampaignEvent::Decision { decision, reason } if decision == "stop" => {
            format!("the campaign stops: {reason}")
        }
        _ => return None,
    })
}

pub(crate) fn plan_text(plan: Option<&PlanSummary>, hosts: &[String]) -> String {
    const SHOWN: usize = 5;
    let (shown, more) = hosts.split_at(hosts.len().min(SHOWN));
    let mut text = shown.join(", ");
    if !more.is_empty() {
        text.push_str(&format!(" and {} more", more.len()));
    }
    let Some(plan) = plan else { return text };
    let steps = counted(plan.steps.len() as u64, "measured step");
    let known: u64 = plan.steps.iter().filter_map(|step| step.length_ns).sum();
    let open = plan.steps.iter().any(|step| step.length_ns.is_none());
    let length = match (known, open) {
        (0, _) => String::new(),
        (known, false) => format!(", {}", Nanos::new(known)),
        (known, true) => format!(", {} and steps that do not end by time", Nanos::new(known)),
    };
    format!("{text}: {steps}{length}")
}

/// A state as users read it.
pub(crate) fn word(state: HostState) -> &'static str {
    match state {
        HostState::Asked => "asked",
        HostState::Joined => "joined",
        HostState::Planned => "planned",
        HostState::Permitted => "preparing",
        HostState::Armed => "armed",
        HostState::Ordered => "ordered",
        HostState::Running => "running",
        HostState::Ended => "ended",
        HostState::Collected => "collected",
        HostState::Lost => "lost",
        HostState::Refused => "refused",
        HostState::Failed => "failed",
        HostState::Stopped => "stopped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_told_by_its_hosts_steps_and_time() {
        let step = |length_ns| durio_agree::message::PlannedStep {
            step: durio_agree::message::CampaignStep::default(),
            length_ns,
        };
        let plan = |steps| PlanSummary::new("", steps);
        let names = |count: usize| (0..count).map(|at| format!("h{at}")).collect::<Vec<_>>();
        let timed = plan(vec![step(Some(2_000_000_000)), step(Some(1_000_000_000))]);
        assert_eq!(plan_text(Some(&timed), &names(2)), "h0, h1: 2 measured steps, 3 s");
        let open = plan(vec![step(None)]);
        let text = plan_text(Some(&open), &names(6));
        assert_eq!(text, "h0, h1, h2, h3, h4 and 1 more: 1 measured step");
    }
}
