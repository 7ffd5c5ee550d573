//! Campaigns from the command line: a new one, one that is continued, its state.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::{Instant, SystemTime};

use durio_agree::host_list;
use durio_agree::message::{SPEC_BYTES_MAX, digest};
use durio_agree::sign::SigningKey;
use durio_base::{Bytes, Nanos, counted, shell_word};
use durio_block::{Folder, open_input, read_bounded};
use durio_command::{CommandError, CommandErrorKind, random_token};
use durio_hosts::{CONFIRMATION_NAME, choose_for_confirmation, read_hosts};
use durio_record::FolderName;
use durio_record::fleet::{
    Barrier, CAMPAIGN_FOLDER_SCHEMA, CampaignEvent, CampaignFolder, CampaignManifest,
    CampaignOutcome, CampaignPolicy, HostChange, HostState, LostPolicy, TimedCampaignEvent,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::FleetExit;
use crate::coordinate::{Pass, PassEnd, coordinate};
use crate::launch::{LAUNCH_FILE, LaunchSettings, LaunchedHost};
use crate::options::{AgainArguments, CommonArguments, ConfirmArguments, RunArguments};
use crate::programs;
use crate::terminal::{ProgressTerminal, can_ask, remark, word};

/// The process that has the campaign.
const PROCESS_FILE: &str = "coordinator.pid";

/// A campaign whose folder this process has.
struct Held {
    folder: CampaignFolder,
    launch: LaunchSettings,
    key: SigningKey,
    is_agreed: bool,
    terminal: ProgressTerminal,
    /// When this process took it, and what had passed before.
    began: Instant,
    passed: Nanos,
}

/// Passes of one campaign.
struct Passes<'p> {
    hosts: Vec<String>,
    policy: CampaignPolicy,
    /// Distinguishes them from other passes of the campaign.
    label: &'p str,
    numbers: std::ops::Range<u32>,
    history: Option<(Vec<HostChange>, Vec<TimedCampaignEvent>)>,
}

impl Held {
    fn new(
        folder: CampaignFolder,
        launch: LaunchSettings,
        (key, common): (SigningKey, &CommonArguments),
    ) -> Result<Self, CommandError> {
        let lines = (folder.changes()?.lines, folder.events()?.lines);
        let times = lines.0.iter().map(|change| change.at);
        let passed = times.chain(lines.1.iter().map(|line| line.at)).max().unwrap_or_default();
        folder.save(PROCESS_FILE, format!("{}\n", std::process::id()).as_bytes())?;
        let (is_agreed, terminal) = (common.yes, ProgressTerminal::new(common.quiet));
        let began = Instant::now();
        Ok(Self { folder, launch, key, is_agreed, terminal, began, passed })
    }

    /// Makes the passes one after the other, and reports.
    fn run(mut self, mut passes: Passes<'_>) -> Result<FleetExit, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(CommandError::cannot)?;
        let mut end = PassEnd { outcome: CampaignOutcome::Complete, is_interrupted: false };
        for number in passes.numbers.clone() {
            let history = passes.history.take();
            let offset = match history {
                // Its record has the times of the whole campaign.
                Some(_) => Nanos::ZERO,
                None => later(self.passed, self.began.elapsed().into()),
            };
            if passes.numbers.end > 1 {
                let of = passes.numbers.end;
                self.terminal.remark(&format!("durio: run {} of {of}", number + 1));
            }
            let pass = Pass {
                folder: &self.folder,
                launch: &self.launch,
                campaign: pass_id(&self.folder.manifest.campaign, passes.label, number),
                hosts: passes.hosts.clone(),
                policy: passes.policy.clone(),
                history,
                offset,
                key: &self.key,
                is_first: number == passes.numbers.start,
                is_agreed: self.is_agreed,
            };
            end = runtime.block_on(coordinate(pass, &mut self.terminal)).map_err(|error| {
                let folder = shell_word(&self.folder.path().to_string_lossy());
                error.hint(format!("durio fleet resume {folder} continues the campaign"))
            })?;
            // Asked once.
            self.is_agreed = true;
            if end.outcome != CampaignOutcome::Complete {
                break;
            }
        }
        let path = self.folder.path().to_owned();
        let _ = std::fs::remove_file(path.join(PROCESS_FILE));
        let states = last_states(&self.folder)?;
        drop(self);
        conclude(&path, &passes.hosts, &states, end)
    }
}

fn later(time: Nanos, span: Nanos) -> Nanos {
    Nanos::new(time.get().saturating_add(span.get()))
}

/// The first pass has the campaign's own identifier.
fn pass_id(campaign: &str, label: &str, number: u32) -> String {
    match (label, number) {
        ("", 0) => campaign.to_owned(),
        _ => digest(&format!("{campaign} {label} {number}")).chars().take(32).collect(),
    }
}

pub(crate) fn run(arguments: &RunArguments) -> Result<FleetExit, CommandError> {
    let spec = spec_text(&arguments.spec)?;
    let listed = host_list::named(arguments.hosts.as_deref(), arguments.group.as_deref())?;
    if !listed.unused_variables.is_empty() {
        let unused = listed.unused_variables.join(", ");
        remark(&format!("durio: variables of the inventory that have no effect: {unused}"));
    }
    may_ask(&arguments.common, listed.hosts.len())?;
    let key = signing_key(&arguments.common)?;
    programs::nats_server()?;
    let hosts: Vec<String> = listed.hosts.iter().map(|host| host.name.clone()).collect();
    let manifest = manifest(arguments, spec, &hosts, &key)?;
    let launch = LaunchSettings {
        hosts: listed
            .hosts
            .iter()
            .map(|host| LaunchedHost { name: host.name.clone(), address: host.to_string() })
            .collect(),
        targets: arguments.targets.clone(),
        ssh_config: arguments.ssh_config.clone(),
        push: arguments.push,
        fanout: usize::from(arguments.fanout),
        run: arguments.name.clone(),
        lost_wait_ns: arguments.lost_wait.get(),
    };
    let path = match &arguments.folder {
        Some(path) => path.clone(),
        None => FolderName::new("fleet", SystemTime::now(), std::process::id()).as_str().into(),
    };
    let policy = manifest.policy.clone();
    let folder = CampaignFolder::create(&path, manifest)?;
    let text = serde_json::to_vec_pretty(&launch).map_err(CommandError::cannot)?;
    folder.save(LAUNCH_FILE, &text)?;
    let numbers = 0..policy.repeats;
    Held::new(folder, launch, (key, &arguments.common))?.run(Passes {
        hosts,
        policy,
        label: "",
        numbers,
        history: None,
    })
}

fn manifest(
    arguments: &RunArguments,
    spec: String,
    hosts: &[String],
    key: &SigningKey,
) -> Result<CampaignManifest, CommandError> {
    let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    let hosts_min = arguments.min_hosts.of(count);
    if hosts_min > count {
        let text = format!(
            "--min-hosts {hosts_min} is more than the {} of the list",
            counted(u64::from(count), "host")
        );
        return Err(CommandError::wrong_use(text));
    }
    let usual = if arguments.shared { Barrier::Step } else { Barrier::Start };
    let stem = arguments.spec.file_stem().unwrap_or_default().to_string_lossy();
    Ok(CampaignManifest {
        schema: CAMPAIGN_FOLDER_SCHEMA,
        campaign: random_token(),
        name: arguments.name.clone().unwrap_or_else(|| stem.into_owned()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: FolderName::rfc3339(SystemTime::now()),
        command: durio_command::command_line(),
        spec_digest: digest(&spec),
        spec,
        hosts: hosts.to_vec(),
        policy: CampaignPolicy {
            barrier: arguments.barrier.map_or(usual, Barrier::from),
            lost: LostPolicy::from(arguments.lost),
            hosts_min,
            repeats: arguments.repeat,
            shared: arguments.shared,
        },
        key: Some(key.public()),
    })
}

/// The text of a file, or of a built-in spec.
fn spec_text(spec: &Path) -> Result<String, CommandError> {
    let text = if spec.is_file() {
        let limit = Bytes::new(SPEC_BYTES_MAX as u64);
        let text = open_input(spec).and_then(|file| read_bounded(file, limit));
        let text = text.map_err(|error| CommandError::io("read the spec", spec, error))?;
        String::from_utf8(text).map_err(|_| {
            CommandError::wrong_use(format!("'{}' is not UTF-8 text", spec.display()))
        })?
    } else {
        let words = ["spec", "show"].map(AsRef::as_ref);
        let arguments = [words[0], words[1], spec.as_os_str()];
        programs::output_of(&programs::durio()?, &arguments).map_err(|error| {
            CommandError::wrong_use(durio_command::error_chain(&error))
                .hint("durio plan lists the built-in specs; a file ends with .toml")
        })?
    };
    match text.len() > SPEC_BYTES_MAX {
        true => Err(CommandError::wrong_use("the spec is longer than 128 KiB")),
        false => Ok(text),
    }
}

/// Refuses a question that could not be answered, before anything starts.
fn may_ask(common: &CommonArguments, hosts: usize) -> Result<(), CommandError> {
    if common.yes || can_ask() {
        return Ok(());
    }
    let hosts = counted(hosts as u64, "host");
    let text = format!("runs on {hosts}: confirmation needed, but there is no terminal");
    Err(CommandError::wrong_use(text).hint("add --yes"))
}

fn signing_key(common: &CommonArguments) -> Result<SigningKey, CommandError> {
    let Some(path) = &common.key else { return Ok(SigningKey::generate()) };
    let text = open_input(path).and_then(|file| read_bounded(file, Bytes::from_kib(4)));
    let text = text.map_err(|error| CommandError::io("read the key in", path, error))?;
    Ok(SigningKey::from_seed(&String::from_utf8_lossy(&text))?)
}

pub(crate) fn resume(arguments: &AgainArguments) -> Result<FleetExit, CommandError> {
    let folder = CampaignFolder::resume(&arguments.folder)?;
    let launch = LaunchSettings::read(&arguments.folder)?;
    let key = signing_key(&arguments.common)?;
    let (changes, lines) = (folder.changes()?.lines, folder.events()?.lines);
    let ends: Vec<&TimedCampaignEvent> = ends(&lines).collect();
    let (manifest, done) = (folder.manifest.clone(), ends.len());
    let done = u32::try_from(done).unwrap_or(u32::MAX);
    let is_cut = ends.last().is_some_and(|line| {
        line.event != CampaignEvent::Ended { outcome: CampaignOutcome::Complete }
    });
    if is_cut || done >= manifest.policy.repeats {
        let shown = shell_word(&arguments.folder.to_string_lossy());
        return Err(CommandError::wrong_use("the campaign has ended")
            .hint(format!("durio fleet collect {shown} fetches the runs of hosts that are back"))
            .hint(format!("durio fleet report {shown} shows the results")));
    }
    let history = since_last_end(changes, lines);
    let is_agreed = history.1.iter().any(
        |line| matches!(&line.event, CampaignEvent::Decision { decision, .. } if decision == "go"),
    );
    if !is_agreed {
        may_ask(&arguments.common, manifest.hosts.len())?;
    }
    let is_begun = !history.0.is_empty() || !history.1.is_empty();
    Held::new(folder, launch, (key, &arguments.common))?.run(Passes {
        hosts: manifest.hosts,
        numbers: done..manifest.policy.repeats,
        policy: manifest.policy,
        label: "",
        history: is_begun.then_some(history),
    })
}

pub(crate) fn collect(arguments: &AgainArguments) -> Result<FleetExit, CommandError> {
    let folder = CampaignFolder::resume(&arguments.folder)?;
    let launch = LaunchSettings::read(&arguments.folder)?;
    let key = signing_key(&arguments.common)?;
    let states = last_states(&folder)?;
    let is_lost =
        |host: &&String| matches!(states.get(*host), Some((HostState::Lost | HostState::Ended, _)));
    let hosts: Vec<String> = folder.manifest.hosts.iter().filter(is_lost).cloned().collect();
    let lines = folder.events()?.lines;
    let count = u32::try_from(ends(&lines).count()).unwrap_or(u32::MAX);
    if count == 0 {
        let shown = shell_word(&arguments.folder.to_string_lossy());
        return Err(CommandError::wrong_use("the campaign has not ended")
            .hint(format!("durio fleet resume {shown} continues it")));
    }
    if hosts.is_empty() {
        remark("durio: no host of the campaign is lost: there is nothing to collect");
        return Ok(FleetExit::Fine);
    }
    let policy = CampaignPolicy { hosts_min: 1, ..folder.manifest.policy.clone() };
    let number = count.min(policy.repeats).saturating_sub(1);
    let mut history = of_last_pass(folder.changes()?.lines, lines);
    history.0.retain(|change| hosts.contains(&change.host));
    Held::new(folder, launch, (key, &arguments.common))?.run(Passes {
        hosts,
        policy,
        label: "",
        numbers: number..number + 1,
        history: Some(history),
    })
}

pub(crate) fn confirm(arguments: &ConfirmArguments) -> Result<FleetExit, CommandError> {
    let findings =
        read_hosts(std::slice::from_ref(&arguments.folder)).map_err(CommandError::cannot)?;
    let folder = CampaignFolder::resume(&arguments.folder)?;
    let mut launch = LaunchSettings::read(&arguments.folder)?;
    let seed = durio_command::random_seed();
    let hosts = choose_for_confirmation(&findings, seed);
    if hosts.is_empty() {
        remark("durio: no host of the campaign is suspect: there is nothing to confirm");
        return Ok(FleetExit::Fine);
    }
    may_ask(&arguments.common, hosts.len())?;
    let key = signing_key(&arguments.common)?;
    launch.run = Some(CONFIRMATION_NAME.to_owned());
    let policy = CampaignPolicy { hosts_min: 1, ..folder.manifest.policy.clone() };
    // Further confirmations are further passes.
    let label = format!("{CONFIRMATION_NAME} {}", ends(&folder.events()?.lines).count());
    Held::new(folder, launch, (key, &arguments.common))?.run(Passes {
        hosts,
        policy,
        label: &label,
        numbers: 0..arguments.repeat,
        history: None,
    })
}

fn ends(lines: &[TimedCampaignEvent]) -> impl Iterator<Item = &TimedCampaignEvent> {
    lines.iter().filter(|line| matches!(line.event, CampaignEvent::Ended { .. }))
}

/// The record of the pass that has not ended.
fn since_last_end(
    mut changes: Vec<HostChange>,
    mut lines: Vec<TimedCampaignEvent>,
) -> (Vec<HostChange>, Vec<TimedCampaignEvent>) {
    let end = ends(&lines).last().map(|line| line.at);
    if let Some(end) = end {
        changes.retain(|change| change.at > end);
        lines.retain(|line| line.at > end);
    }
    (changes, lines)
}

/// The record of the pass that ended last.
fn of_last_pass(
    changes: Vec<HostChange>,
    mut lines: Vec<TimedCampaignEvent>,
) -> (Vec<HostChange>, Vec<TimedCampaignEvent>) {
    lines.truncate(
        lines.len()
            - usize::from(matches!(lines.last(),
        Some(line) if matches!(line.event, CampaignEvent::Ended { .. }))),
    );
    since_last_end(changes, lines)
}

/// The last state of each host, with its reason.
fn last_states(
    folder: &CampaignFolder,
) -> Result<BTreeMap<String, (HostState, Option<String>)>, CommandError> {
    let lines = folder.changes()?.lines.into_iter();
    Ok(lines.map(|change| (change.host, (change.state, change.reason))).collect())
}

/// Reports, and says which hosts are missing.
fn conclude(
    path: &Path,
    hosts: &[String],
    states: &BTreeMap<String, (HostState, Option<String>)>,
    end: PassEnd,
) -> Result<FleetExit, CommandError> {
    let state = |host: &String| states.get(host).map(|(state, reason)| (*state, reason.is_some()));
    let is_here = |host: &&String| matches!(state(host), Some((HostState::Collected, _)));
    let here = hosts.iter().filter(is_here).count();
    // A reason says that the run was cut, or that its load is not known as a whole.
    let is_whole = |host: &&String| state(host) == Some((HostState::Collected, false));
    let missing = hosts.len() - hosts.iter().filter(is_whole).count();
    let shown = path.display();
    if here == 0 {
        return match end.is_interrupted {
            true => {
                remark(&format!("durio: stopped before there was a run; the record is in {shown}"));
                Ok(FleetExit::Failed(CommandErrorKind::Interrupted))
            }
            false => Err(CommandError::cannot_measure("no host has given a run").hint(format!(
                "durio fleet status {} has each host's reason",
                shell_word(&path.to_string_lossy())
            ))),
        };
    }
    let durio = programs::durio()?;
    let status = Command::new(&durio)
        .args(["fleet", "report"])
        .arg(path)
        .status()
        .map_err(|error| CommandError::io("start", &durio, error))?;
    remark(&format!("durio: the campaign's folder is {shown}"));
    if missing > 0 {
        let hosts = counted(hosts.len() as u64, "host");
        remark(&format!("durio: {missing} of {hosts} without a whole run"));
    }
    Ok(match (end.is_interrupted, status.code()) {
        (true, _) => FleetExit::Failed(CommandErrorKind::Interrupted),
        (false, Some(0)) if missing == 0 => FleetExit::Fine,
        (false, Some(0)) => FleetExit::Negative,
        (false, code) => {
            FleetExit::Report(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(4))
        }
    })
}

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
    let mut text = format!("{}: {state}\n", folder.manifest.name);
    let width = folder.manifest.hosts.iter().map(String::len).max().unwrap_or_default();
    for host in &folder.manifest.hosts {
        let (state, reason) = match states.get(host) {
            Some((state, reason)) => (word(*state), reason.as_deref()),
            None => ("asked", None),
        };
        let reason = reason.map_or_else(String::new, |reason| format!("  {reason}"));
        let reason: String = reason.chars().filter(|character| !character.is_control()).collect();
        text.push_str(&format!("  {host:width$}  {state}{reason}\n"));
    }
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::cannot(error).context("cannot write to stdout"))
        }
        _ => Ok(FleetExit::Fine),
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
    let pid = String::from_utf8_lossy(&text).trim().parse().ok().and_then(Pid::from_raw);
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
    use super::*;

    fn line(at: u64, event: CampaignEvent) -> TimedCampaignEvent {
        TimedCampaignEvent { at: Nanos::new(at), event }
    }

    fn change(at: u64, state: HostState) -> HostChange {
        HostChange {
            at: Nanos::new(at),
            host: "db".to_owned(),
            state,
            reason: None,
            plan_digest: None,
            clock: None,
            run: None,
            folder_digest: None,
        }
    }

    #[test]
    fn a_pass_goes_on_from_what_was_recorded_after_the_end_of_the_one_before() {
        let ended = CampaignEvent::Ended { outcome: CampaignOutcome::Complete };
        let lines = vec![line(1, CampaignEvent::BusLost), line(5, ended.clone())];
        let changes = vec![change(2, HostState::Joined), change(7, HostState::Joined)];
        let (left, events) = since_last_end(changes.clone(), lines.clone());
        assert_eq!((left.len(), left[0].at, events.len()), (1, Nanos::new(7), 0));
        let (last, events) = of_last_pass(changes, lines);
        assert_eq!((last.len(), events), (2, vec![line(1, CampaignEvent::BusLost)]));
    }

    #[test]
    fn each_pass_has_an_identifier_of_32_digits_and_the_first_that_of_the_campaign() {
        let campaign = "0123456789abcdef0123456789abcdef";
        assert_eq!(pass_id(campaign, "", 0), campaign);
        let others = [pass_id(campaign, "", 1), pass_id(campaign, "confirm 1", 0)];
        assert!(others[0] != others[1] && others.iter().all(|id| id.len() == 32));
    }
}
