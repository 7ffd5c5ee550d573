//! Lines on stderr: what a campaign reports, remarks that stay, and one line of progress that the next
//! one replaces.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use durio_agree::message::PlanSummary;
use durio_base::{Nanos, counted};
use durio_record::fleet::{CampaignEvent, HostState};
use rustix::termios::tcgetwinsize;

/// Between two lines of progress on a terminal, and elsewhere.
const EVERY: Duration = Duration::from_secs(1);
const EVERY_IN_FILES: Duration = Duration::from_secs(10);

/// Back to the first column, and the rest of the line removed (ECMA-48, EL).
const CLEAR: &str = "\r\x1b[K";

#[derive(Debug)]
pub(crate) struct ProgressTerminal {
    is_terminal: bool,
    is_quiet: bool,
    last: Instant,
    /// A line of progress is on the terminal.
    has_line: bool,
}

impl ProgressTerminal {
    pub(crate) fn new(is_quiet: bool) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { is_terminal, is_quiet, last: Instant::now(), has_line: false }
    }

    /// A line that stays.
    pub(crate) fn remark(&mut self, line: &str) {
        self.clear();
        remark(line);
    }

    /// Shows progress if it is due.
    pub(crate) fn progress(&mut self, line: impl FnOnce() -> String) {
        let every = if self.is_terminal { EVERY } else { EVERY_IN_FILES };
        if self.is_quiet || self.last.elapsed() < every {
            return;
        }
        self.last = Instant::now();
        let line = line();
        if self.is_terminal {
            // A line that wraps could not be replaced.
            let width = tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
            // Some terminals do not know theirs.
            let width = if width == 0 { 80 } else { width };
            let line: String = line.chars().take(width.saturating_sub(1)).collect();
            // A closed terminal must not end a campaign.
            let _ = write!(io::stderr().lock(), "{CLEAR}{line}");
            self.has_line = true;
        } else {
            remark(&line);
        }
    }

    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.has_line) {
            let _ = write!(io::stderr().lock(), "{CLEAR}");
        }
    }
}

/// A line to stderr; without control characters, for it may quote a host.
pub(crate) fn remark(line: &str) {
    let visible: String = line.chars().filter(|character| !character.is_control()).collect();
    let _ = writeln!(io::stderr().lock(), "{visible}");
}

/// True if a question can be asked and answered.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Reads the answer to a question of yes or no.
pub(crate) fn agreed(question: &str) -> bool {
    let _ = write!(io::stderr().lock(), "{question} [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
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

/// `12 s: 3 hosts: 2 running, 1 lost; silent: db3 (4 s)`
pub(crate) fn progress_text<'h>(
    seconds: u64,
    states: impl Iterator<Item = HostState>,
    silent: impl Iterator<Item = (&'h str, u64)>,
) -> String {
    const SILENT_SHOWN: usize = 5;
    let mut counts: BTreeMap<HostState, u64> = BTreeMap::new();
    states.for_each(|state| *counts.entry(state).or_default() += 1);
    let hosts = counted(counts.values().sum(), "host");
    let counts: Vec<String> =
        counts.iter().map(|(state, count)| format!("{count} {}", word(*state))).collect();
    let mut silent: Vec<(&str, u64)> = silent.collect();
    silent.sort_by_key(|&(_, age)| std::cmp::Reverse(age));
    let more = silent.len().saturating_sub(SILENT_SHOWN);
    let names: Vec<String> =
        silent.iter().take(SILENT_SHOWN).map(|(host, age)| format!("{host} ({age} s)")).collect();
    let mut text = format!("{seconds} s: {hosts}: {}", counts.join(", "));
    if !names.is_empty() {
        text.push_str(&format!("; silent: {}", names.join(", ")));
    }
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
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
    fn progress_counts_hosts_by_state_and_names_the_silent_ones_longest_first() {
        let states = [HostState::Running, HostState::Lost, HostState::Running];
        let silent = [("db2", 4), ("db3", 11)];
        let text = progress_text(12, states.into_iter(), silent.into_iter());
        assert_eq!(text, "12 s: 3 hosts: 2 running, 1 lost; silent: db3 (11 s), db2 (4 s)");
        let one = progress_text(0, [HostState::Asked].into_iter(), std::iter::empty());
        assert_eq!(one, "0 s: 1 host: 1 asked");
        let many = ["a", "b", "c", "d", "e", "f"].map(|host| (host, 1));
        let text = progress_text(1, std::iter::empty(), many.into_iter());
        assert!(text.ends_with("e (1 s) and 1 more"), "{text}");
    }

    #[test]
    fn a_plan_is_told_by_its_hosts_steps_and_time() {
        let step = |length_ns| durio_agree::message::PlannedStep {
            step: durio_agree::message::CampaignStep::default(),
            length_ns,
        };
        let plan = |steps| PlanSummary { plan_digest: String::new(), steps };
        let names = |count: usize| (0..count).map(|at| format!("h{at}")).collect::<Vec<_>>();
        let timed = plan(vec![step(Some(2_000_000_000)), step(Some(1_000_000_000))]);
        assert_eq!(plan_text(Some(&timed), &names(2)), "h0, h1: 2 measured steps, 3 s");
        let open = plan(vec![step(None)]);
        let text = plan_text(Some(&open), &names(6));
        assert_eq!(text, "h0, h1, h2, h3, h4 and 1 more: 1 measured step");
    }
}
