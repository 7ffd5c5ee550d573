//! Campaigns from the command line: a new one, one that is continued, its state.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::{Instant, SystemTime};

use durio_agree::clock::later;
use durio_agree::coordinator::LOST_AFTER;
use durio_agree::host_list;
use durio_agree::host_name::{HostList, SshHost};
use durio_agree::message::{SPEC_BYTES_MAX, digest};
use durio_agree::sign::SigningKey;
use durio_base::{Bytes, Nanos, counted, shell_word};
use durio_block::{open_input, read_bounded};
use durio_command::{CommandError, CommandErrorKind, random_token};
use durio_hosts::{CONFIRMATION_NAME, choose_for_confirmation, read_hosts};
use durio_record::FolderName;
use durio_record::fleet::{
    Barrier, CAMPAIGN_FOLDER_SCHEMA, CampaignEvent, CampaignFolder, CampaignManifest,
    CampaignOutcome, CampaignPolicy, HostState, LostPolicy, TimedCampaignEvent,
};

use crate::FleetExit;
use crate::call::joined_hosts;
use crate::coordinate::{Pass, PassEnd, coordinate};
use crate::launch::{
    HostTarget, LAUNCH_FILE, LaunchSettings, LaunchVia, LaunchedHost, slurm_hosts,
};
use crate::options::{
    AgainArguments, CampaignOptions, CommonArguments, ConfirmArguments, HostOptions,
};
use crate::passes::{RecordedPass, recorded_passes};
use crate::programs;
use crate::regions::{add_regions, check_launch, launched_relays};
use crate::secrets::{keep_key, known_key, known_or_new_key, signing_key};
use crate::terminal::{ProgressTerminal, can_ask};
use crate::words::{plan_text, remark, word};

/// The process that has the campaign.
pub(crate) const PROCESS_FILE: &str = "coordinator.pid";

/// A campaign whose folder this process has.
struct Held {
    folder: CampaignFolder,
    launch: LaunchSettings,
    key: SigningKey,
    is_agreed: bool,
    /// The plans of a pass were shown.
    is_shown: bool,
    terminal: ProgressTerminal,
    /// When this process took it, and what had passed before.
    began: Instant,
    passed: Nanos,
}

impl Held {
    fn new(
        folder: CampaignFolder,
        launch: LaunchSettings,
        (key, common): (SigningKey, &CommonArguments),
    ) -> Result<Self, CommandError> {
        let passed = recorded_passes(&folder)?.iter().map(RecordedPass::newest).max();
        // A pass begins after all lines of the passes before it.
        let passed = passed.map_or(Nanos::ZERO, |passed| later(passed, Nanos::new(1)));
        folder.save(PROCESS_FILE, format!("{}\n", std::process::id()).as_bytes())?;
        let (is_agreed, terminal) = (common.yes, ProgressTerminal::of_campaign(common)?);
        let began = Instant::now();
        Ok(Self { folder, launch, key, is_agreed, is_shown: false, terminal, began, passed })
    }

    /// Makes the passes one after the other, new ones while all is complete, and reports.
    fn run(
        mut self,
        policy: &CampaignPolicy,
        passes: Vec<RecordedPass>,
    ) -> Result<FleetExit, CommandError> {
        let runtime = programs::runtime()?;
        let (mut outcome, mut is_interrupted) = (CampaignOutcome::Complete, false);
        let asked: BTreeSet<String> =
            passes.iter().flat_map(|pass| pass.hosts.iter().cloned()).collect();
        let new = passes.iter().find(|pass| pass.is_new());
        let counted_label = new.map(|pass| pass.label.clone());
        for pass in passes {
            if is_interrupted || pass.is_new() && outcome != CampaignOutcome::Complete {
                break;
            }
            PassEnd { outcome, is_interrupted, .. } = self.make(&runtime, pass, policy)?;
        }
        let path = self.folder.path().to_owned();
        let _ = std::fs::remove_file(path.join(PROCESS_FILE));
        let mut recorded = recorded_passes(&self.folder)?;
        recorded.retain(|pass| counted_label.as_ref().is_none_or(|label| *label == pass.label));
        let goals = self.launch.goals.iter();
        let mut options: Vec<String> = goals.map(|goal| format!("--goal={goal}")).collect();
        if self.terminal.end_json() {
            options.push("--format=json".to_owned());
        }
        drop(self);
        conclude(&path, (&asked, &recorded), &options, is_interrupted)
    }

    /// One run on each host, begun or continued.
    fn make(
        &mut self,
        runtime: &tokio::runtime::Runtime,
        recorded: RecordedPass,
        policy: &CampaignPolicy,
    ) -> Result<PassEnd, CommandError> {
        if recorded.passes > 1 {
            let RecordedPass { number, passes, .. } = recorded;
            self.terminal.remark(&format!("durio: run {} of {passes}", number + 1));
        }
        let (newest, is_begun) = (recorded.newest(), recorded.is_begun());
        let RecordedPass { label, number, passes, hosts, changes, events } = recorded;
        let campaign = pass_id(&self.folder.manifest.campaign, &label, number);
        let start = later(self.passed, self.began.elapsed().into());
        let is_all = hosts == self.folder.manifest.hosts;
        let named = if is_all { Vec::new() } else { hosts.clone() };
        let event = CampaignEvent::PassStarted { label, number, passes, hosts: named };
        self.folder.append_event(&TimedCampaignEvent { at: start, event })?;
        let pass = Pass {
            folder: &self.folder,
            launch: &self.launch,
            campaign,
            hosts,
            policy: policy.clone(),
            history: is_begun.then_some((changes, events)),
            // A pass that is continued goes on from its newest time.
            offset: if is_begun { start.saturating_sub(newest) } else { start },
            key: &self.key,
            is_first: !std::mem::replace(&mut self.is_shown, true),
            is_rehearsal: false,
            is_agreed: self.is_agreed,
        };
        let end = runtime.block_on(coordinate(pass, &mut self.terminal)).map_err(|error| {
            let folder = shell_word(&self.folder.path().to_string_lossy());
            error.hint(format!("durio fleet resume {folder} continues the campaign"))
        })?;
        // Asked once.
        self.is_agreed = true;
        Ok(end)
    }
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
    let stem = spec.file_stem().unwrap_or_default().to_string_lossy();
    let name = arguments.name.clone().unwrap_or_else(|| stem.into_owned());
    let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
    let policy = policy(arguments, names.len())?;
    let launch = LaunchSettings {
        run: arguments.name.clone(),
        lost_wait_ns: arguments.lost_wait.get(),
        lost_after_ns: arguments.lost_after.get(),
        goals: arguments.goals.clone(),
        ..launch_settings(spec, &arguments.hosts, &hosts)?
    };
    let key = signing_key(arguments.common.key.as_deref(), &launch)?;
    let manifest = manifest((name, text), &names, policy.clone(), &key);
    let path = match &arguments.folder {
        Some(path) => path.clone(),
        None => FolderName::new("fleet", SystemTime::now(), std::process::id()).as_str().into(),
    };
    let folder = CampaignFolder::create(&path, manifest)?;
    let made = (folder.manifest.campaign.as_str(), &key);
    keep_key(arguments.common.key.as_deref(), &launch, made);
    let text = serde_json::to_vec_pretty(&launch).map_err(CommandError::cannot)?;
    folder.save(LAUNCH_FILE, &text)?;
    let passes = RecordedPass::new_ones("", &names, 0..policy.repeats).collect();
    Held::new(folder, launch, (key, &arguments.common))?.run(&policy, passes)
}

/// The hosts that the options or the environment name.
pub(crate) fn named_hosts(options: &HostOptions) -> Result<Vec<SshHost>, CommandError> {
    let named = (options.hosts.as_deref(), options.group.as_deref());
    let mut listed = match (options.bus.via, named) {
        (LaunchVia::Slurm, (None, None)) => slurm_hosts()?,
        (LaunchVia::Slurm, _) => {
            let text = "with --via slurm the hosts are the nodes of the allocation";
            return Err(CommandError::wrong_use(text).hint("leave out --hosts and --group"));
        }
        (LaunchVia::Joined, (None, None)) => return joined_hosts(&options.bus.choice()?),
        (LaunchVia::Ssh, (None, None)) if !options.relays.is_empty() => HostList::default(),
        (LaunchVia::Ssh | LaunchVia::Joined, (hosts, group)) => host_list::named(hosts, group)?,
    };
    add_regions(&mut listed, &options.relays)?;
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
    if options.bus.via == LaunchVia::Joined && (options.push || options.ssh_config.is_some()) {
        let text = "--push and --ssh-config are for ssh, which hosts that joined do not need";
        return Err(CommandError::wrong_use(text));
    }
    let bus = options.bus.choice()?;
    check_launch(&options.relays, (options.bus.via, &bus))?;
    let mut targets = options.targets.clone();
    if spec == Path::new(CHECK_SPEC) && !spec.is_file() {
        targets = check_targets(targets);
    }
    // A later process may start elsewhere.
    let ssh_config = options.ssh_config.as_deref().map(std::path::absolute).transpose();
    let ssh_config = ssh_config.map_err(CommandError::cannot)?;
    let launch = LaunchSettings {
        hosts: hosts.iter().map(LaunchedHost::new).collect(),
        relays: launched_relays(&options.relays)?,
        targets,
        ssh_config,
        via: options.bus.via,
        bus,
        push: options.push,
        fanout: usize::from(options.fanout),
        run: None,
        lost_wait_ns: 0,
        lost_after_ns: LOST_AFTER.get(),
        goals: Vec::new(),
    };
    launch.bus.check(&launch.diallers()?)?;
    Ok(launch)
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
        let arguments: [&OsStr; 3] = ["spec".as_ref(), "show".as_ref(), spec.as_os_str()];
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

pub(crate) fn resume(arguments: &AgainArguments) -> Result<FleetExit, CommandError> {
    let folder = CampaignFolder::resume(&arguments.folder)?;
    let mut launch = LaunchSettings::read(&arguments.folder)?;
    let campaign = &folder.manifest.campaign;
    let key = known_key(arguments.common.key.as_deref(), &launch, campaign)?;
    let CampaignManifest { mut policy, hosts, .. } = folder.manifest.clone();
    let mut passes = next_passes(recorded_passes(&folder)?, hosts, policy.repeats);
    let Some(first) = passes.first_mut() else {
        let shown = shell_word(&arguments.folder.to_string_lossy());
        return Err(CommandError::wrong_use("the campaign has ended")
            .hint(format!("durio fleet collect {shown} fetches the runs of hosts that are back"))
            .hint(format!("durio fleet report {shown} shows the results")));
    };
    if !first.is_agreed() {
        may_ask(&arguments.common, first.hosts.len())?;
    }
    if !first.label.is_empty() {
        (launch.run, policy.hosts_min) = (Some(CONFIRMATION_NAME.to_owned()), 1);
    }
    if ends(&first.events).next().is_some() {
        (first.hosts, policy.hosts_min) = (first.collectable(), 0);
    }
    Held::new(folder, launch, (key, &arguments.common))?.run(&policy, passes)
}

/// What a later process continues: the pass that was cut, and new ones of its kind.
fn next_passes(
    mut passes: Vec<RecordedPass>,
    hosts: Vec<String>,
    repeats: u32,
) -> Vec<RecordedPass> {
    let cut = passes.iter().position(|pass| !pass.has_ended());
    let Some(last) = cut.or(passes.len().checked_sub(1)) else {
        return RecordedPass::new_ones("", &hosts, 0..repeats).collect();
    };
    let (label, count) = (passes[last].label.clone(), passes[last].passes);
    let same = passes.iter().filter(|pass| pass.label == label);
    let is_over = same.clone().any(|pass| pass.has_ended() && !pass.is_complete());
    let made = same.map(|pass| pass.number.saturating_add(1)).max().unwrap_or_default();
    let numbers = if is_over { count..count } else { made..count };
    let hosts = if label.is_empty() { hosts } else { passes[last].hosts.clone() };
    let cut = cut.map(|at| passes.swap_remove(at));
    cut.into_iter().chain(RecordedPass::new_ones(&label, &hosts, numbers)).collect()
}

pub(crate) fn collect(arguments: &AgainArguments) -> Result<FleetExit, CommandError> {
    let folder = CampaignFolder::resume(&arguments.folder)?;
    let launch = LaunchSettings::read(&arguments.folder)?;
    let campaign = &folder.manifest.campaign;
    let key = known_key(arguments.common.key.as_deref(), &launch, campaign)?;
    let mut begun = recorded_passes(&folder)?;
    if begun.is_empty() || begun.iter().any(|pass| !pass.has_ended()) {
        let shown = shell_word(&arguments.folder.to_string_lossy());
        return Err(CommandError::wrong_use("the campaign has not ended")
            .hint(format!("durio fleet resume {shown} continues it")));
    }
    begun.iter_mut().for_each(|pass| pass.hosts = pass.collectable());
    begun.retain(|pass| !pass.hosts.is_empty());
    if begun.is_empty() {
        remark("durio: no host of the campaign is lost: there is nothing to collect");
        return Ok(FleetExit::Fine);
    }
    // The campaign does not stop for hosts that do not come back.
    let policy = CampaignPolicy { hosts_min: 0, ..folder.manifest.policy.clone() };
    Held::new(folder, launch, (key, &arguments.common))?.run(&policy, begun)
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
    let campaign = &folder.manifest.campaign;
    let key = known_or_new_key(arguments.common.key.as_deref(), &launch, campaign)?;
    launch.run = Some(CONFIRMATION_NAME.to_owned());
    let policy = CampaignPolicy { hosts_min: 1, ..folder.manifest.policy.clone() };
    // Further confirmations are further passes.
    let label = format!("{CONFIRMATION_NAME} {}", recorded_passes(&folder)?.len());
    let passes = RecordedPass::new_ones(&label, &hosts, 0..arguments.repeat).collect();
    Held::new(folder, launch, (key, &arguments.common))?.run(&policy, passes)
}

pub(crate) fn ends(lines: &[TimedCampaignEvent]) -> impl Iterator<Item = &TimedCampaignEvent> {
    lines.iter().filter(|line| matches!(line.event, CampaignEvent::Ended { .. }))
}

/// The last state of each host, with its reason.
pub(crate) type HostStates = BTreeMap<String, (HostState, Option<String>)>;

pub(crate) fn last_states(folder: &CampaignFolder) -> Result<HostStates, CommandError> {
    let lines = folder.changes()?.lines.into_iter();
    Ok(lines.map(|change| (change.host, (change.state, change.reason))).collect())
}

/// Reports, and names the hosts without a whole run in each pass.
fn conclude(
    path: &Path,
    (asked, passes): (&BTreeSet<String>, &[RecordedPass]),
    options: &[String],
    is_interrupted: bool,
) -> Result<FleetExit, CommandError> {
    let folder = shell_word(&path.to_string_lossy());
    let shown = path.display();
    let found: Vec<_> = passes.iter().map(RecordedPass::lacking).collect();
    if found.iter().all(|(_, here)| *here == 0) {
        return match is_interrupted {
            true => {
                remark(&format!("durio: stopped before there was a run; the record is in {shown}"));
                Ok(FleetExit::Failed(CommandErrorKind::Interrupted))
            }
            false => Err(CommandError::cannot_measure("no host has given a run")
                .hint(format!("durio fleet status {folder} has each host's reason"))),
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
    let lacking = found.into_iter().flat_map(|(lacking, _)| lacking);
    let lacking: BTreeMap<&str, String> = lacking
        .filter(|(host, ..)| asked.contains(*host))
        .map(|(host, state, reason)| (host, format!("{host} ({}: {reason})", word(state))))
        .collect();
    let is_whole = lacking.is_empty();
    if !is_whole {
        let (missing, hosts) = (lacking.len(), counted(asked.len() as u64, "host"));
        let names: Vec<String> = lacking.into_values().collect();
        let names = plan_text(None, &names);
        remark(&format!("durio: {missing} of {hosts} without a whole run: {names}"));
        if passes.iter().any(|pass| !pass.collectable().is_empty()) {
            let hint = "fetches the runs of hosts that are back";
            remark(&format!("hint: durio fleet collect {folder} {hint}"));
        }
    }
    Ok(match (is_interrupted, status.code()) {
        (true, _) => FleetExit::Failed(CommandErrorKind::Interrupted),
        (false, Some(0)) if is_whole => FleetExit::Fine,
        (false, Some(0)) => FleetExit::Negative,
        (false, code) => {
            FleetExit::Report(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(4))
        }
    })
}

#[cfg(test)]
mod policy_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(label: &str, number: u32, outcome: Option<CampaignOutcome>) -> RecordedPass {
        let ended = |outcome| {
            let event = CampaignEvent::Ended { outcome };
            TimedCampaignEvent { at: Nanos::new(1), event }
        };
        let events = outcome.map(ended).into_iter().collect();
        RecordedPass { passes: 3, events, ..crate::tests::pass(label, number, &["db1"]) }
    }

    #[test]
    fn a_later_process_continues_the_pass_that_was_cut_and_then_those_of_its_kind() {
        use CampaignOutcome::{Complete, Stopped};
        let hosts = vec!["db1".to_owned(), "db2".to_owned()];
        // Label, number and hosts of each, and how many are ordered with its label.
        let next = |passes: Vec<RecordedPass>| -> Vec<(String, u32, usize, u32)> {
            let next = next_passes(passes, hosts.clone(), 3).into_iter();
            next.map(|pass| (pass.label, pass.number, pass.hosts.len(), pass.passes)).collect()
        };
        let one = |label: &str, number, hosts| (label.to_owned(), number, hosts, 3);
        assert_eq!(next(Vec::new()), [one("", 0, 2), one("", 1, 2), one("", 2, 2)]);
        let first = || pass("", 0, Some(Complete));
        assert_eq!(next(vec![first()]), [one("", 1, 2), one("", 2, 2)]);
        // The one that was cut had one host.
        let row = vec![first(), pass("", 1, None)];
        assert_eq!(next(row), [one("", 1, 1), one("", 2, 2)]);
        let all = || vec![first(), pass("", 1, Some(Complete)), pass("", 2, Some(Complete))];
        assert!(next(all()).is_empty());
        assert!(next(vec![first(), pass("", 1, Some(Stopped))]).is_empty());
        // A confirmation has its own hosts.
        let mut row = all();
        row.extend([pass("confirm 3", 0, Some(Complete)), pass("confirm 3", 1, None)]);
        assert_eq!(next(row), [one("confirm 3", 1, 1), one("confirm 3", 2, 1)]);
        // A collection of the first pass was cut: none is made again.
        let mut row = all();
        row[0] = pass("", 0, None);
        assert_eq!(next(row), [one("", 0, 1)]);
    }

    #[test]
    fn each_pass_has_an_identifier_of_32_digits_and_the_first_that_of_the_campaign() {
        let campaign = "0123456789abcdef0123456789abcdef";
        assert_eq!(pass_id(campaign, "", 0), campaign);
        let others = [pass_id(campaign, "", 1), pass_id(campaign, "confirm 1", 0)];
        assert!(others[0] != others[1] && others.iter().all(|id| id.len() == 32));
    }
}
