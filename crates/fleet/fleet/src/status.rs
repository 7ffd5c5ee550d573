//! A campaign that this or another process has: its state, and its end.

use std::collections::BTreeMap;
use std::path::Path;

use durio_base::{Bytes, shell_word, visible};
use durio_block::{Folder, open_input, read_bounded};
use durio_command::CommandError;
use durio_record::fleet::{CampaignEvent, CampaignFolder, CampaignOutcome};
use rustix::process::{Pid, Signal, kill_process};

use crate::campaign::{PROCESS_FILE, ends, last_states};
use crate::passes::{RecordedPass, recorded_passes};
use crate::words::{answer, remark, word};
use crate::{FleetExit, live_view};

pub(crate) fn status(path: &Path) -> Result<FleetExit, CommandError> {
    let folder = CampaignFolder::open(path)?;
    let states = last_states(&folder)?;
    let lines = folder.events()?.lines;
    let state = match (is_running(path)?, ends(&lines).last().map(|line| &line.event)) {
        (true, _) => "running",
        (false, Some(CampaignEvent::Ended { outcome: CampaignOutcome::Complete })) => "complete",
        (false, Some(CampaignEvent::Ended { outcome: CampaignOutcome::Stopped })) => "stopped",
        (false, Some(_)) => "stopped: too few hosts were left",
        (false, None) => "cut: its coordinator ended before it (durio fleet resume continues it)",
    };
    let mut text = format!("{}: {state}\n", visible(&folder.manifest.name));
    if state == "running" {
        text.push_str(&live_view::newest(path));
    }
    let width = folder.manifest.hosts.iter().map(String::len).max().unwrap_or_default();
    let missing = missing_runs(&recorded_passes(&folder)?);
    for host in &folder.manifest.hosts {
        let (state, reason) = match states.get(host) {
            Some((state, reason)) => (word(*state), reason.as_deref()),
            None => ("asked", None),
        };
        let reason = reason.map_or_else(String::new, |reason| format!("  {reason}"));
        let missing = missing.get(host).map_or("", String::as_str);
        text.push_str(&format!("  {host:width$}  {state}{}{missing}\n", visible(&reason)));
    }
    answer(&text).map(|()| FleetExit::Fine)
}

/// Which runs of each host are not here though a later one is: the state is that of the last.
fn missing_runs(passes: &[RecordedPass]) -> BTreeMap<String, String> {
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    let earlier = passes.split_last().map_or(&[][..], |(_, earlier)| earlier);
    for pass in earlier {
        for host in pass.collectable() {
            let text = missing.entry(host).or_default();
            let (label, number) = (&pass.label, u64::from(pass.number) + 1);
            let kind = if label.is_empty() { "run" } else { "confirmation" };
            text.push_str(&format!("  {kind} {number} not collected"));
        }
    }
    missing
}

/// True if a process has the folder.
fn is_running(path: &Path) -> Result<bool, CommandError> {
    let failed = |error| CommandError::io("look at", path, error);
    Ok(!Folder::open(path).map_err(failed)?.try_lock().map_err(failed)?)
}

pub(crate) fn stop(path: &Path) -> Result<FleetExit, CommandError> {
    let folder = CampaignFolder::open(path)?;
    if !is_running(path)? {
        let shown = shell_word(&path.to_string_lossy());
        return Err(CommandError::wrong_use("the campaign does not run")
            .hint(format!("durio fleet status {shown} shows how it ended")));
    }
    let file = folder.path().join(PROCESS_FILE);
    let text = open_input(&file).and_then(|file| read_bounded(file, Bytes::from_kib(1)));
    let text = text.map_err(|error| CommandError::io("read", &file, error))?;
    let pid = String::from_utf8_lossy(&text).trim().parse().ok();
    // -1 and 0 are all processes and this group.
    let pid = pid.filter(|pid| *pid > 1).and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| {
        CommandError::cannot_measure(format!("'{}' does not name a process", file.display()))
    })?;
    kill_process(pid, Signal::INT)
        .map_err(|error| CommandError::cannot(error).context("cannot stop the coordinator"))?;
    remark("durio: the hosts are stopping; their runs are being collected");
    Ok(FleetExit::Fine)
}

#[cfg(test)]
mod tests {
    use durio_record::fleet::HostState;
    use testkit::fleet::change;

    use super::*;
    use crate::tests::pass;

    #[test]
    fn runs_of_earlier_passes_that_are_not_here_are_named() {
        use HostState::{Collected, Ended, Lost};
        let pass = |label: &str, number, states: &[(&str, HostState)]| {
            let changes = states.iter().map(|&(host, state)| change(host, state, None)).collect();
            RecordedPass { changes, ..pass(label, number, &["db1", "db2"]) }
        };
        let passes = [
            pass("", 0, &[("db1", Lost), ("db2", Collected)]),
            pass("", 1, &[("db1", Ended), ("db2", Collected)]),
            pass("confirm 2", 0, &[("db2", Lost)]),
            // Its states are those that are shown.
            pass("confirm 2", 1, &[("db1", Lost), ("db2", Lost)]),
        ];
        let expected = [
            ("db1", "  run 1 not collected  run 2 not collected"),
            ("db2", "  confirmation 1 not collected"),
        ];
        let expected = expected.map(|(host, text)| (host.to_owned(), text.to_owned()));
        assert_eq!(missing_runs(&passes), BTreeMap::from(expected));
        assert!(missing_runs(&passes[..1]).is_empty() && missing_runs(&[]).is_empty());
    }
}
