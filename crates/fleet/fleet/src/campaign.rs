//! Campaigns from the command line: a new one, one that is continued, its state.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Instant, SystemTime};

use durio_agree::coordinator::LOST_AFTER;
use durio_agree::host_list;
use durio_agree::host_name::SshHost;
use durio_agree::message::{SPEC_BYTES_MAX, digest};
use durio_agree::sign::SigningKey;
use durio_base::{Bytes, Nanos, counted, shell_word};
use durio_block::{open_input, read_bounded};
use durio_command::{CommandError, CommandErrorKind, random_token};
use durio_hosts::{CONFIRMATION_NAME, choose_for_confirmation, read_hosts};
use durio_record::FolderName;
use durio_record::fleet::{
    Barrier, CAMPAIGN_FOLDER_SCHEMA, CampaignEvent, CampaignFolder, CampaignManifest,
    CampaignOutcome, CampaignPolicy, HostChange, HostState, LostPolicy, TimedCampaignEvent,
};

use crate::FleetExit;
use crate::coordinate::{Pass, PassEnd, coordinate};
use crate::invitation::HostTarget;
use crate::launch::{LAUNCH_FILE, LaunchSettings, LaunchVia, LaunchedHost, slurm_hosts};
use crate::options::{
    AgainArguments, CampaignOptions, CommonArguments, ConfirmArguments, HostOptions,
};
use crate::programs;
use crate::terminal::{ProgressTerminal, can_ask};
use crate::words::remark;

/// The process that has the campaign.
pub(crate) const PROCESS_FILE: &str = "coordinator.pid";

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
        let (is_agreed, terminal) = (common.yes, ProgressTerminal::of_campaign(common)?);
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
                rehearsal: None,
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
        let goals = self.launch.goals.iter();
        let mut options: Vec<String> = goals.map(|goal| format!("--goal={goal}")).collect();
        if self.terminal.end_json() {
            options.push("--format=json".to_owned());
        }
        drop(self);
        conclude(&path, (&passes.hosts, &states), &options, end)
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

/// The built-in spec of `durio fleet check`.
pub(crate) const CHECK_SPEC: &str = "check";
/// Its files, which are in one folder unless targets name others.
const CHECK_FILES: [&str; 3] = ["data", "log", "segment"];

pub(crate) fn run(spec: &Path, arguments: &CampaignOptions) -> Result<FleetExit, CommandError> {
    let text = spec_text(spec)?;
    let hosts = named_hosts(&arguments.hosts)?;
    may_ask(&arguments.common, hosts.len())?;
    let key = signing_key(arguments.common.key.as_deref())?;
    let stem = spec.file_stem().unwrap_or_default().to_string_lossy();
    let name = arguments.name.clone().unwrap_or_else(|| stem.into_owned());
    let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
    let policy = policy(arguments, names.len())?;
    let manifest = manifest((name, text), &names, policy.clone(), &key);
    let launch = LaunchSettings {
        run: arguments.name.clone(),
        lost_wait_ns: arguments.lost_wait.get(),
        lost_after_ns: arguments.lost_after.get(),
        goals: arguments.goals.clone(),
        ..launch_settings(spec, &arguments.hosts, &hosts)?
    };
    let path = match &arguments.folder {
        Some(path) => path.clone(),
        None => FolderName::new("fleet", SystemTime::now(), std::process::id()).as_str().into(),
    };
    let folder = CampaignFolder::create(&path, manifest)?;
    let text = serde_json::to_vec_pretty(&launch).map_err(CommandError::cannot)?;
    folder.save(LAUNCH_FILE, &text)?;
    let numbers = 0..policy.repeats;
    Held::new(folder, launch, (key, &arguments.common))?.run(Passes {
        hosts: names,
        policy,
        label: "",
        numbers,
        history: None,
    })
}

/// The hosts that the options or the environment name.
pub(crate) fn named_hosts(options: &HostOptions) -> Result<Vec<SshHost>, CommandError> {
    let named = (options.hosts.as_deref(), options.group.as_deref());
    let listed = match (options.bus.via, named) {
        (LaunchVia::Slurm, (None, None)) => slurm_hosts()?,
        (LaunchVia::Slurm, _) => {
            let text = "with --via slurm the hosts are the nodes of the allocation";
            return Err(CommandError::wrong_use(text).hint("leave out --hosts and --group"));
        }
        (LaunchVia::Ssh, (hosts, group)) => host_list::named(hosts, group)?,
    };
    if !listed.unused_variables.is_empty() {
        let unused = listed.unused_variables.join(", ");
        remark(&format!("durio: variables of the inventory that have no effect: {unused}"));
    }
    Ok(listed.hosts)
}

/// How hosts are reached, with the defaults of a pass that only plans.
///
/// # Errors
/// If there can be no bus.
pub(crate) fn launch_settings(
    spec: &Path,
    options: &HostOptions,
    hosts: &[SshHost],
) -> Result<LaunchSettings, CommandError> {
    let bus = options.bus.choice()?;
    bus.check(hosts)?;
    let launched =
        |host: &SshHost| LaunchedHost { name: host.name.clone(), address: host.to_string() };
    let mut targets = options.targets.clone();
    if spec == Path::new(CHECK_SPEC) && !spec.is_file() {
        targets = check_targets(targets);
    }
    Ok(LaunchSettings {
        hosts: hosts.iter().map(launched).collect(),
        targets,
        ssh_config: options.ssh_config.clone(),
        via: options.bus.via,
        bus,
        push: options.push,
        fanout: usize::from(options.fanout),
        run: None,
        lost_wait_ns: 0,
        lost_after_ns: LOST_AFTER.get(),
        goals: Vec::new(),
    })
}

/// One folder holds all files of `check`; with several, each file has to be named.
fn check_targets(mut targets: Vec<HostTarget>) -> Vec<HostTarget> {
    if let [HostTarget { name, path }] = &targets[..]
        && CHECK_FILES.contains(&name.as_str())
    {
        let path = path.clone();
        targets =
            CHECK_FILES.map(|name| HostTarget { name: name.to_owned(), path: path.clone() }).into();
    }
    targets
}

fn policy(arguments: &CampaignOptions, hosts: usize) -> Result<CampaignPolicy, CommandError> {
    let count = u32::try_from(hosts).unwrap_or(u32::MAX);
    let hosts_min = arguments.min_hosts.of(count);
    if hosts_min > count {
        let text = format!(
            "--min-hosts {hosts_min} is more than the {} of the list",
            counted(u64::from(count), "host")
        );
        return Err(CommandError::wrong_use(text));
    }
    if arguments.lost_after < LOST_AFTER {
        let text = "--lost-after must be at least 1.5s, in which a host reports three times";
        return Err(CommandError::wrong_use(text));
    }
    let usual = if arguments.shared { Barrier::Step } else { Barrier::Start };
    Ok(CampaignPolicy {
        barrier: arguments.barrier.map_or(usual, Barrier::from),
        lost: LostPolicy::from(arguments.lost),
        hosts_min,
        repeats: arguments.repeat,
        shared: arguments.shared,
    })
}

pub(crate) fn manifest(
    (name, spec): (String, String),
    hosts: &[String],
    policy: CampaignPolicy,
    key: &SigningKey,
) -> CampaignManifest {
    CampaignManifest {
        schema: CAMPAIGN_FOLDER_SCHEMA,
        campaign: random_token(),
        name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: FolderName::rfc3339(SystemTime::now()),
        command: durio_command::command_line(),
        spec_digest: digest(&spec),
        spec,
        hosts: hosts.to_vec(),
        policy,
        key: Some(key.public()),
    }
}

/// The text of a file, or of a built-in spec.
pub(crate) fn spec_text(spec: &Path) -> Result<String, CommandError> {
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

pub(crate) fn signing_key(path: Option<&Path>) -> Result<SigningKey, CommandError> {
    let Some(path) = path else { return Ok(SigningKey::generate()) };
    let text = open_input(path).and_then(|file| read_bounded(file, Bytes::from_kib(4)));
    let text = text.map_err(|error| CommandError::io("read the key in", path, error))?;
    Ok(SigningKey::from_seed(&String::from_utf8_lossy(&text))?)
}

pub(crate) fn resume(arguments: &AgainArguments) -> Result<FleetExit, CommandError> {
    let folder = CampaignFolder::resume(&arguments.folder)?;
    let launch = LaunchSettings::read(&arguments.folder)?;
    let key = signing_key(arguments.common.key.as_deref())?;
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
    if !history.1.iter().any(is_go) {
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
    let key = signing_key(arguments.common.key.as_deref())?;
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
    let key = signing_key(arguments.common.key.as_deref())?;
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

pub(crate) fn ends(lines: &[TimedCampaignEvent]) -> impl Iterator<Item = &TimedCampaignEvent> {
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

/// The record of the pass that measured last, with the collections after it.
fn of_last_pass(
    mut changes: Vec<HostChange>,
    mut lines: Vec<TimedCampaignEvent>,
) -> (Vec<HostChange>, Vec<TimedCampaignEvent>) {
    let within = lines.iter().rposition(is_go).unwrap_or(lines.len().saturating_sub(1));
    if let Some(end) = ends(&lines[..within]).last().map(|line| line.at) {
        changes.retain(|change| change.at > end);
        lines.retain(|line| line.at > end);
    }
    (changes, lines)
}

fn is_go(line: &TimedCampaignEvent) -> bool {
    matches!(&line.event, CampaignEvent::Decision { decision, .. } if decision == "go")
}

/// The last state of each host, with its reason.
pub(crate) type HostStates = BTreeMap<String, (HostState, Option<String>)>;

pub(crate) fn last_states(folder: &CampaignFolder) -> Result<HostStates, CommandError> {
    let lines = folder.changes()?.lines.into_iter();
    Ok(lines.map(|change| (change.host, (change.state, change.reason))).collect())
}

/// Reports, and says which hosts are missing.
fn conclude(
    path: &Path,
    (hosts, states): (&[String], &HostStates),
    options: &[String],
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
        .args(options)
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
        assert_eq!((last.len(), events.len()), (2, 2));

        let go = CampaignEvent::Decision { decision: "go".to_owned(), reason: String::new() };
        let resumed = CampaignEvent::Resumed { hosts: 1 };
        let events = [(1, ended.clone()), (3, go), (5, ended.clone()), (6, resumed), (8, ended)];
        let changes = vec![change(1, HostState::Joined), change(2, HostState::Joined)];
        let (last, events) =
            of_last_pass(changes, events.map(|(at, event)| line(at, event)).into());
        // A second collection knows that the first run was agreed to.
        assert_eq!((last[0].at, last.len()), (Nanos::new(2), 1));
        assert!(is_go(&events[0]) && events.len() == 4, "{events:?}");
    }

    #[test]
    fn each_pass_has_an_identifier_of_32_digits_and_the_first_that_of_the_campaign() {
        let campaign = "0123456789abcdef0123456789abcdef";
        assert_eq!(pass_id(campaign, "", 0), campaign);
        let others = [pass_id(campaign, "", 1), pass_id(campaign, "confirm 1", 0)];
        assert!(others[0] != others[1] && others.iter().all(|id| id.len() == 32));
    }
}
