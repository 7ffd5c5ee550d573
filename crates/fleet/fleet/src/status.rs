//! A campaign that this or another process has: its state, and its end.

use std::io::{self, Write as _};
use std::path::Path;

use durio_base::{Bytes, shell_word, visible};
use durio_block::{Folder, open_input, read_bounded};
use durio_command::CommandError;
use durio_record::fleet::{CampaignEvent, CampaignFolder, CampaignOutcome};
use rustix::process::{Pid, Signal, kill_process};

use crate::campaign::{PROCESS_FILE, ends, last_states};
use crate::words::{remark, word};
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
    for host in &folder.manifest.hosts {
        let (state, reason) = match states.get(host) {
            Some((state, reason)) => (word(*state), reason.as_deref()),
            None => ("asked", None),
        };
        let reason = reason.map_or_else(String::new, |reason| format!("  {reason}"));
        text.push_str(&format!("  {host:width$}  {state}{}\n", visible(&reason)));
    }
    answer(&text).map(|()| FleetExit::Fine)
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
