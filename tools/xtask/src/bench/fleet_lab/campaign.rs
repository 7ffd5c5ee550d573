//! A campaign under way, and what its record has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use durio_record::StepGated;
use durio_record::fleet::{CampaignEvent, HostChange, HostState, TimedCampaignEvent};
use serde::de::DeserializeOwned;

use super::wait_until;
use crate::bench::session::Interrupt;

/// Lines of an output that an error shows.
const SHOWN: usize = 12;

/// durio-fleet at work; dropped, it is killed.
#[derive(Debug)]
pub(super) struct LabCampaign {
    pub(super) process: Child,
    folder: PathBuf,
    output: PathBuf,
    interrupt: Interrupt,
}

/// What durio-fleet printed, and its exit code.
#[derive(Debug)]
pub(super) struct LabEnd {
    /// `None` after a signal.
    pub(super) code: Option<i32>,
    pub(super) said: String,
}

impl LabCampaign {
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        words: &[String],
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let output = folder.join("output");
        let _ = fs::remove_file(&output);
        let open = || File::options().append(true).create(true).open(&output);
        let process = Command::new(program)
            .args(words)
            .current_dir(folder)
            .env("HOME", folder)
            .stdin(Stdio::null())
            .stdout(open()?)
            .stderr(open()?)
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let folder = folder.join("campaign");
        let interrupt = interrupt.clone();
        Ok(Self { process, folder, output, interrupt })
    }

    pub(super) fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// The end, which must come in this time.
    pub(super) fn wait(mut self, limit: Duration) -> Result<LabEnd> {
        let mut status = None;
        let process = &mut self.process;
        let has_ended = || {
            status = process.try_wait().ok().flatten();
            status.is_some()
        };
        let waited = wait_until("durio-fleet ends", limit, &self.interrupt, has_ended);
        waited.with_context(|| last_lines(&self.said()))?;
        Ok(LabEnd { code: status.and_then(|status| status.code()), said: self.said() })
    }

    /// Waits until these hosts are in a state, as the record has it.
    pub(super) fn await_state(
        &mut self,
        hosts: &[String],
        state: HostState,
        limit: Duration,
    ) -> Result<()> {
        let mut has_ended = false;
        let (process, folder) = (&mut self.process, &self.folder);
        let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let are = || {
            // The record of a thousand hosts takes a while to read, of a processor that they need.
            thread::sleep(Duration::from_micros(500) * count);
            let changes = changes(folder);
            let found: BTreeSet<&str> = changes
                .iter()
                .filter(|change| change.state == state)
                .map(|change| change.host.as_str())
                .collect();
            has_ended = process.try_wait().ok().flatten().is_some();
            has_ended || hosts.iter().all(|host| found.contains(host.as_str()))
        };
        let what = format!("hosts are {state:?}");
        let waited = wait_until(&what, limit, &self.interrupt, are);
        waited.with_context(|| last_lines(&self.said()))?;
        if has_ended {
            bail!("durio-fleet ended before hosts were {state:?}: {}", last_lines(&self.said()));
        }
        Ok(())
    }
}

impl Drop for LabCampaign {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl LabEnd {
    /// Itself if the exit code is one of these.
    pub(super) fn expect(self, codes: &[i32]) -> Result<Self> {
        match self.code {
            Some(code) if codes.contains(&code) => Ok(self),
            code => bail!("durio-fleet ended with {code:?}: {}", last_lines(&self.said)),
        }
    }
}

pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN)..].join("\n")
}

/// The lines of a file that are whole.
fn lines<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(super) fn changes(campaign: &Path) -> Vec<HostChange> {
    lines(&campaign.join("hosts.jsonl"))
}

pub(super) fn events(campaign: &Path) -> Vec<CampaignEvent> {
    let lines: Vec<TimedCampaignEvent> = lines(&campaign.join("events.jsonl"));
    lines.into_iter().map(|line| line.event).collect()
}

/// The states of each host, in their order.
pub(super) fn states(campaign: &Path) -> BTreeMap<String, Vec<HostState>> {
    let mut states: BTreeMap<String, Vec<HostState>> = BTreeMap::new();
    for change in changes(campaign) {
        states.entry(change.host).or_default().push(change.state);
    }
    states
}

/// The run folders of a host.
pub(super) fn runs(campaign: &Path, host: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(campaign.join("hosts").join(host)).into_iter().flatten().flatten();
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    runs.sort();
    runs
}

/// True if the record of a run has its end, and nothing cut it.
pub(super) fn is_whole(run: &Path) -> bool {
    let text = fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
    let last = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
    last.is_some_and(|last: serde_json::Value| {
        last["event"] == "run_ended" && last["outcome"] == "complete"
    })
}

/// The starts of a run that were ordered.
pub(super) fn gated(run: &Path) -> Vec<StepGated> {
    let events: Vec<serde_json::Value> = lines(&run.join("events.jsonl"));
    let gated = events.into_iter().filter(|event| event["event"] == "step_gated");
    gated.filter_map(|event| serde_json::from_value(event).ok()).collect()
}

/// `6 collected, 1 lost`: the last state of each host.
pub(super) fn summary(states: &BTreeMap<String, Vec<HostState>>) -> String {
    let mut counts: BTreeMap<HostState, usize> = BTreeMap::new();
    states.values().filter_map(|states| states.last()).for_each(|state| {
        *counts.entry(*state).or_default() += 1;
    });
    let words: Vec<String> =
        counts.iter().map(|(state, count)| format!("{count} {}", word(*state))).collect();
    words.join(", ")
}

pub(super) fn word(state: HostState) -> String {
    format!("{state:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_counted_by_their_last_state() {
        let states = [
            ("a", vec![HostState::Running, HostState::Lost]),
            ("b", vec![HostState::Lost, HostState::Collected]),
            ("c", vec![HostState::Collected]),
            ("d", vec![]),
        ]
        .map(|(host, states)| (host.to_owned(), states));
        assert_eq!(summary(&BTreeMap::from(states)), "2 collected, 1 lost");
    }

    #[test]
    fn a_run_is_whole_if_its_record_has_the_end_of_a_complete_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let end =
            |outcome: &str| format!("{{\"event\":\"run_ended\",\"outcome\":\"{outcome}\"}}\n");
        for (text, is) in [
            (end("complete"), true),
            (end("interrupted"), false),
            (format!("{}{{\"event\":\"interval\"}}\n", end("complete")), false),
            (end("complete").trim_end_matches("}\n").to_owned(), false),
            (String::new(), false),
        ] {
            fs::write(&path, &text).unwrap();
            assert_eq!(is_whole(folder.path()), is, "{text}");
        }
    }

    #[test]
    fn an_error_shows_the_end_of_an_output() {
        let text: String = (0..20).map(|line| format!("{line}\n")).collect();
        let shown = last_lines(&text);
        assert!(shown.starts_with("8\n") && shown.ends_with("\n19"), "{shown}");
        assert_eq!(last_lines(""), "");
    }
}
