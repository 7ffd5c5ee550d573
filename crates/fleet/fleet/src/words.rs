//! What durio-fleet says: answers on stdout, and the sentences of a campaign on stderr.

use std::io::{self, Write as _};

use durio_agree::message::PlanSummary;
use durio_base::{Nanos, counted, visible};
use durio_command::CommandError;
use durio_record::fleet::{CampaignEvent, HostChange, HostState};

/// A line to stderr; without control characters, for it may quote a host.
pub(crate) fn remark(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible(line));
}

/// What a user asked for, to stdout.
pub(crate) fn answer(text: &str) -> Result<(), CommandError> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::cannot(error).context("cannot write to stdout"))
        }
        _ => Ok(()),
    }
}

/// What a user has to know at once.
pub(crate) fn urgent(event: &CampaignEvent) -> Option<String> {
    Some(match event {
        CampaignEvent::HostBack { host } => format!("{host} is back"),
        CampaignEvent::RelayLost { relay, hosts, silent_ns } => {
            let (silent, hosts) = (Nanos::new(*silent_ns), counted(u64::from(*hosts), "host"));
            format!(
                "relay {relay} has been silent for {silent}; its {hosts} follow their timetable"
            )
        }
        CampaignEvent::RelayBack { relay } => format!("relay {relay} is back"),
        CampaignEvent::HostRefused { host, reason } => format!("{host} refused: {reason}"),
        CampaignEvent::LateJoiner { host } => format!("{host} joined too late, and is left out"),
        CampaignEvent::BarrierCancelled { silent, attempt, .. } => {
            let silent = silent.join(", ");
            format!("start {attempt} cancelled: no acknowledgement from {silent}")
        }
        CampaignEvent::BusLost => "the bus is gone; running steps go on".to_owned(),
        CampaignEvent::BusBack => "the bus is back".to_owned(),
        CampaignEvent::Decision { decision, reason } => match decision.as_str() {
            "stop" => format!("the campaign stops: {reason}"),
            "leave_out" => format!("the others continue without {reason}"),
            _ => return None,
        },
        _ => return None,
    })
}

/// A change that the user should know of at once, if it has a reason.
pub(crate) fn change_text(change: &HostChange, is_stopping: bool) -> Option<String> {
    let word = match change.state {
        HostState::Failed => "failed",
        HostState::Stopped => "stopped",
        HostState::Lost => "is lost",
        // A reason says that the run was cut. Users who stop a campaign know that.
        HostState::Ended if !is_stopping => "has ended its run early",
        _ => return None,
    };
    Some(format!("{} {word}: {}", change.host, change.reason.as_deref()?))
}

/// What a signal to end does.
pub(crate) fn stop_text(is_rehearsal: bool) -> &'static str {
    match is_rehearsal {
        true => "durio: stopping; nothing was run on the hosts",
        false => "durio: stopping all hosts, and collecting what they have",
    }
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
    use testkit::fleet::change;

    use super::*;
    use crate::tests::plan;

    #[test]
    fn a_plan_is_told_by_its_hosts_steps_and_time() {
        let names = |count: usize| (0..count).map(|at| format!("h{at}")).collect::<Vec<_>>();
        let timed = plan("", &[Some(2_000_000_000), Some(1_000_000_000)]);
        assert_eq!(plan_text(Some(&timed), &names(2)), "h0, h1: 2 measured steps, 3 s");
        let open = plan("", &[None]);
        let text = plan_text(Some(&open), &names(6));
        assert_eq!(text, "h0, h1, h2, h3, h4 and 1 more: 1 measured step");
    }

    #[test]
    fn losses_and_failures_are_told_with_their_reason_and_other_changes_are_not() {
        let failed = |state| change("db2", state, Some("EIO"));
        let text = |state, is_stopping| change_text(&failed(state), is_stopping);
        for (state, is_stopping, expected) in [
            (HostState::Lost, false, Some("db2 is lost: EIO")),
            (HostState::Failed, true, Some("db2 failed: EIO")),
            (HostState::Ended, false, Some("db2 has ended its run early: EIO")),
            (HostState::Ended, true, None),
            (HostState::Collected, false, None),
        ] {
            assert_eq!(text(state, is_stopping).as_deref(), expected, "{state:?}");
        }
        assert_eq!(change_text(&change("db2", HostState::Lost, None), false), None);
    }

    #[test]
    fn a_host_that_is_left_out_is_told_and_a_plan_that_is_stopped_collects_nothing() {
        let decided = |decision: &str| {
            let (decision, reason) = (decision.to_owned(), "db3: its run hangs".to_owned());
            urgent(&CampaignEvent::Decision { decision, reason })
        };
        let text = "the others continue without db3: its run hangs";
        assert_eq!((decided("leave_out").as_deref(), decided("go")), (Some(text), None));
        assert!(!stop_text(true).contains("collecting") && stop_text(false).contains("collecting"));
    }

    #[test]
    fn each_urgent_event_has_its_sentence_and_each_state_its_word() {
        let name = || "db2".to_owned();
        let (step, attempt) = (1, 2);
        let silent = vec!["a".to_owned(), "b".to_owned()];
        let stop = CampaignEvent::Decision {
            decision: "stop".to_owned(),
            reason: "1 host left, 2 wanted".to_owned(),
        };
        let rows = [
            (CampaignEvent::HostBack { host: name() }, "db2 is back"),
            (
                CampaignEvent::HostRefused { host: name(), reason: "no permit".to_owned() },
                "db2 refused: no permit",
            ),
            (CampaignEvent::LateJoiner { host: name() }, "db2 joined too late, and is left out"),
            (
                CampaignEvent::BarrierCancelled { step, attempt, silent },
                "start 2 cancelled: no acknowledgement from a, b",
            ),
            (
                CampaignEvent::RelayLost { relay: name(), hosts: 40, silent_ns: 1_600_000_000 },
                "relay db2 has been silent for 1.6 s; its 40 hosts follow their timetable",
            ),
            (CampaignEvent::RelayBack { relay: name() }, "relay db2 is back"),
            (CampaignEvent::BusLost, "the bus is gone; running steps go on"),
            (CampaignEvent::BusBack, "the bus is back"),
            (stop, "the campaign stops: 1 host left, 2 wanted"),
        ];
        for (event, sentence) in rows {
            assert_eq!(urgent(&event).as_deref(), Some(sentence));
        }
        for event in [
            CampaignEvent::BarrierReached { step, hosts: 2 },
            CampaignEvent::MessagesIgnored { count: 7 },
            CampaignEvent::Resumed { hosts: 2 },
        ] {
            assert_eq!(urgent(&event), None, "{event:?}");
        }
        let words = [HostState::Permitted, HostState::Armed, HostState::Ordered].map(word);
        assert_eq!(words, ["preparing", "armed", "ordered"]);
    }

    #[test]
    fn a_plan_of_five_hosts_names_all_and_tells_of_steps_that_do_not_end_by_time() {
        let plan = plan("", &[Some(3_000_000_000), None]);
        let names = ["a", "b", "c", "d", "e"].map(str::to_owned);
        let text = "a, b, c, d, e: 2 measured steps, 3 s and steps that do not end by time";
        assert_eq!(plan_text(Some(&plan), &names), text);
        assert_eq!(plan_text(None, &names[..1]), "a");
    }
}
