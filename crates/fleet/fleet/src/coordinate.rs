//! The coordinator: drives [`CoordinatorMachine`], whose inputs come from the bus, the clock, the
//! sessions of the hosts and the operator.

mod invite;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use durio_agree::bus_rights::coordinator_permissions;
use durio_agree::coordinator::{
    CampaignLimits, CoordinatorConfig, CoordinatorEffect, CoordinatorInput, CoordinatorMachine,
    OperatorOrder,
};
use durio_agree::live::{HostStanding, LIVE_KIND, LiveBoard};
use durio_agree::message::{Body, BusMessage, COORDINATOR, MessageError, Recipient};
use durio_agree::region::RegionReport;
use durio_agree::relay::subject_through;
use durio_agree::sign::{SigningKey, TrustedKeys};
use durio_base::{Bytes, Nanos};
use durio_command::{CommandError, CommandErrorKind};
use durio_record::fleet::{
    CampaignEvent, CampaignFolder, CampaignOutcome, CampaignPolicy, HostChange, HostState,
    TimedCampaignEvent,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::bus::{BusEvent, BusLink};
use crate::campaign_bus::{CampaignBus, raise_file_limit};
use crate::host_disk::now;
use crate::launch::{LaunchSettings, LaunchedRelay, Launcher};
use crate::live_view::LIVE_FILE;
use crate::passes::{Rehearsal, plan_groups};
use crate::programs::StopSignals;
use crate::regions::session_count;
use crate::session::LinkEvent;
use crate::terminal::{ProgressTerminal, RunQuestion, TypedOrder};
use crate::words::{change_text, plan_text, stop_text, urgent};

/// The time between two probes of a host's clock.
const TICK: Duration = Duration::from_millis(20);

/// In the campaign's folder, for its time.
const BUS_FOLDER: &str = "bus";
const REACH_MAX: Duration = Duration::from_secs(10);
/// Four orders to stop.
const STOP_REPEATED: Duration = Duration::from_secs(2);

/// One run on each host.
pub(crate) struct Pass<'c> {
    pub(crate) folder: &'c CampaignFolder,
    pub(crate) launch: &'c LaunchSettings,
    /// Its identifier, which hosts refuse to run twice.
    pub(crate) campaign: String,
    /// The hosts that are asked.
    pub(crate) hosts: Vec<String>,
    pub(crate) policy: CampaignPolicy,
    /// What an earlier process recorded of it.
    pub(crate) history: Option<(Vec<HostChange>, Vec<TimedCampaignEvent>)>,
    /// Of its begin, since that of the first pass.
    pub(crate) offset: Nanos,
    pub(crate) key: &'c SigningKey,
    /// Its plans are shown.
    pub(crate) is_first: bool,
    /// Takes the plans, of which none is run.
    pub(crate) rehearsal: Option<&'c Rehearsal>,
    pub(crate) is_agreed: bool,
}

/// How a pass ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassEnd {
    pub(crate) outcome: CampaignOutcome,
    /// By the user's wish.
    pub(crate) is_interrupted: bool,
}

enum CoordinatorEvent {
    Bus(BusEvent),
    Link(LinkEvent),
    Agreed(bool),
    /// All plans of a rehearsal are here.
    Rehearsed,
}

struct Coordinator<'c> {
    pass: Pass<'c>,
    regions: Vec<LaunchedRelay>,
    /// The relay of each host that has one.
    relay_of: BTreeMap<String, String>,
    machine: CoordinatorMachine,
    keys: TrustedKeys,
    bus: CampaignBus,
    link: BusLink,
    is_bus_up: bool,
    terminal: &'c mut ProgressTerminal,
    began: Instant,
    heard: BTreeMap<String, Instant>,
    board: LiveBoard,
    /// Those that were shown.
    hints: BTreeSet<&'static str>,
    is_stopping: bool,
    outcome: Option<CampaignOutcome>,
    events: UnboundedSender<CoordinatorEvent>,
}

/// Makes one run on each host, and collects the run folders.
///
/// # Errors
/// If the bus cannot be started, the campaign folder cannot be written, or the user does not wait for
/// the hosts to stop.
pub(crate) async fn coordinate(
    pass: Pass<'_>,
    terminal: &mut ProgressTerminal,
) -> Result<PassEnd, CommandError> {
    let mut signals = StopSignals::new().map_err(CommandError::cannot)?;
    let regions = pass.launch.asked_relays(&pass.hosts);
    raise_file_limit(session_count(pass.hosts.len(), &regions))?;
    let mut launcher = Launcher::new(pass.launch)?;
    let folder = pass.folder.path().join(BUS_FOLDER);
    let bus = CampaignBus::start(pass.launch, folder, (&pass.campaign, pass.key))?;
    launcher.tunnel = bus.tunnel;
    let (events, mut inbox) = unbounded_channel();
    let mut coordinator = Coordinator::new((pass, regions), bus, events, terminal).await?;
    let (over, is_over) = watch::channel(false);
    let mut sessions = coordinator.invite(&Arc::new(launcher), &is_over)?;
    let result = coordinator.serve(&mut inbox, &mut signals).await;
    if result.as_ref().is_err_and(|error| error.kind != CommandErrorKind::Interrupted) {
        coordinator.stop_unrecorded().await;
    }
    coordinator.link.flush().await;
    // Sessions end in order: hosts remove what was copied to them.
    let _ = over.send(true);
    while sessions.join_next().await.is_some() {}
    coordinator.bus.stop().await;
    coordinator.terminal.clear();
    let _ = std::fs::remove_file(coordinator.pass.folder.path().join(LIVE_FILE));
    result
}

impl<'c> Coordinator<'c> {
    async fn new(
        (pass, regions): (Pass<'c>, Vec<LaunchedRelay>),
        bus: CampaignBus,
        events: UnboundedSender<CoordinatorEvent>,
        terminal: &'c mut ProgressTerminal,
    ) -> Result<Self, CommandError> {
        let manifest = &pass.folder.manifest;
        let config = CoordinatorConfig {
            campaign: pass.campaign.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hosts: pass.hosts.clone(),
            relays: regions.iter().map(|one| (one.relay.name.clone(), one.hosts.clone())).collect(),
            policy: pass.policy.clone(),
            spec: manifest.spec.clone(),
            limits: CampaignLimits {
                lost_wait: Nanos::new(pass.launch.lost_wait_ns),
                lost_after: Nanos::new(pass.launch.lost_after_ns),
                ..CampaignLimits::default()
            },
            fault: None,
        };
        let (machine, effects) = match &pass.history {
            Some((changes, lines)) => CoordinatorMachine::resume(config, changes, lines, now()),
            None => (CoordinatorMachine::new(config, now()), Vec::new()),
        };
        let rights = coordinator_permissions(&pass.campaign);
        let hear = {
            let events = events.clone();
            move |event| {
                let _ = events.send(CoordinatorEvent::Bus(event));
            }
        };
        // Without the inbox: the machine's questions are messages like others.
        let subjects = &rights.subscribe[..1];
        let link = BusLink::connect(&bus.access(pass.key), COORDINATOR, subjects, hear).await?;
        let mut coordinator = Self {
            pass,
            relay_of: relays_by_host(&regions),
            regions,
            machine,
            keys: TrustedKeys::default(),
            bus,
            link,
            // The machine begins with a bus that can be reached.
            is_bus_up: true,
            terminal,
            began: Instant::now(),
            heard: BTreeMap::new(),
            board: LiveBoard::default(),
            hints: BTreeSet::new(),
            is_stopping: false,
            outcome: None,
            events,
        };
        coordinator.carry_out(effects).await?;
        Ok(coordinator)
    }

    async fn serve(
        &mut self,
        inbox: &mut UnboundedReceiver<CoordinatorEvent>,
        signals: &mut StopSignals,
    ) -> Result<PassEnd, CommandError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = inbox.recv() => {
                    if let Some(input) = event.and_then(|event| self.input(event)) {
                        self.feed(input).await?;
                    }
                }
                _ = ticks.tick() => {
                    self.bus.maintain()?;
                    if !self.is_reaching() {
                        self.feed(CoordinatorInput::Tick).await?;
                    }
                    self.show_progress();
                    for order in self.terminal.typed() {
                        self.obey(order).await?;
                    }
                }
                () = signals.next() => self.stop().await?,
            }
            if let Some(outcome) = self.outcome {
                return Ok(PassEnd { outcome, is_interrupted: self.is_stopping });
            }
        }
    }

    async fn obey(&mut self, order: TypedOrder) -> Result<(), CommandError> {
        match order {
            TypedOrder::Stop => self.stop().await,
            TypedOrder::Skip(host) if self.machine.state(&host).is_some() => {
                self.feed(CoordinatorInput::Operator(OperatorOrder::Skip(host))).await
            }
            TypedOrder::Skip(_) | TypedOrder::Unknown => {
                self.terminal.show_help();
                Ok(())
            }
        }
    }

    /// True while sessions to the hosts of an earlier process are made: their silence means nothing.
    fn is_reaching(&self) -> bool {
        let is_awaited = |host: &String| {
            let is_over = self.machine.state(host).is_none_or(HostState::is_final);
            !is_over && !self.heard.contains_key(host)
        };
        self.pass.history.is_some()
            && self.began.elapsed() < REACH_MAX
            && self.pass.hosts.iter().any(is_awaited)
    }

    async fn stop(&mut self) -> Result<(), CommandError> {
        let is_rehearsal = self.pass.rehearsal.is_some();
        if std::mem::replace(&mut self.is_stopping, true) {
            let text = "left while hosts were stopping";
            let error = CommandError::new(CommandErrorKind::Interrupted, text);
            if is_rehearsal {
                return Err(error);
            }
            return Err(error.hint(format!(
                "durio fleet resume {} continues, and collects what the hosts have",
                durio_base::shell_word(&self.pass.folder.path().to_string_lossy())
            )));
        }
        self.terminal.remark(stop_text(is_rehearsal));
        self.feed(CoordinatorInput::Operator(OperatorOrder::Stop)).await
    }

    /// Stops the hosts when nothing can be recorded any more, because the disk is full for example: they
    /// keep their runs, and `collect` fetches them.
    async fn stop_unrecorded(&mut self) {
        let mut input = CoordinatorInput::Operator(OperatorOrder::Stop);
        let until = Instant::now() + STOP_REPEATED;
        while Instant::now() < until {
            for effect in self.machine.handle(now(), input, &self.keys) {
                if let CoordinatorEffect::Send { to, message } = effect {
                    // The first error is the one to show.
                    let _ = self.send(&to, message).await;
                }
            }
            input = CoordinatorInput::Tick;
            tokio::time::sleep(TICK).await;
        }
    }

    fn input(&mut self, event: CoordinatorEvent) -> Option<CoordinatorInput> {
        match event {
            CoordinatorEvent::Bus(BusEvent::Up(is_up)) => {
                let has_changed = std::mem::replace(&mut self.is_bus_up, is_up) != is_up;
                has_changed.then_some(CoordinatorInput::Bus(is_up))
            }
            CoordinatorEvent::Bus(BusEvent::Message { subject, bytes }) => {
                // c.CAMPAIGN.h.HOST.KIND, where ',' separates what '.' does in names.
                let mut parts = subject.split('.').skip(3);
                let host = parts.next()?.replace(',', ".");
                if parts.next() == Some(LIVE_KIND) {
                    self.take_figures(&host, &bytes);
                    return None;
                }
                self.message(host, &bytes)
            }
            CoordinatorEvent::Link(LinkEvent::Key { host, key }) => {
                match self.keys.trust(&host, &key) {
                    // On the bus of its region alone.
                    Ok(()) if self.relay_of.contains_key(&host) => {}
                    Ok(()) => self.bus.admit(&host, &key),
                    Err(error) => self.terminal.remark(&format!("durio: {host}: {error}")),
                }
                None
            }
            CoordinatorEvent::Link(LinkEvent::Unreachable { host, reason, hint }) => {
                if self.machine.state(&host) != Some(HostState::Asked) {
                    self.terminal.remark(&format!("durio: {host}: {reason}"));
                }
                // Hundreds of hosts may have the same reason.
                if let Some(hint) = hint.filter(|hint| self.hints.insert(hint)) {
                    self.terminal.remark(&format!("hint: {hint}"));
                }
                Some(CoordinatorInput::Unreachable { host, reason })
            }
            CoordinatorEvent::Agreed(true) => {
                self.terminal.is_asking = false;
                self.terminal.show_help();
                Some(CoordinatorInput::Operator(OperatorOrder::Go))
            }
            CoordinatorEvent::Rehearsed => Some(CoordinatorInput::Operator(OperatorOrder::Stop)),
            CoordinatorEvent::Agreed(false) => {
                self.terminal.is_asking = false;
                self.is_stopping = true;
                Some(CoordinatorInput::Operator(OperatorOrder::Stop))
            }
        }
    }

    /// Takes figures from hosts and relays of the campaign alone: subjects can have any name on the bus
    /// of a site.
    fn take_figures(&mut self, host: &str, bytes: &[u8]) {
        let Self { machine, board, regions, .. } = self;
        // What is refused is missing in the view, as what was lost is.
        if machine.state(host).is_some() {
            let _ = board.take((host, bytes), now(), |step| machine.has_step(host, step));
        } else if regions.iter().any(|region| region.relay.name == host) {
            let is_planned =
                |name: &str, step| machine.is_behind(name, host) && machine.has_step(name, step);
            let _ = board.take_region((host, bytes), now(), is_planned);
        }
    }

    fn message(&mut self, host: String, bytes: &[u8]) -> Option<CoordinatorInput> {
        let message = match BusMessage::decode(bytes) {
            Ok(message) => message,
            Err(MessageError::Protocol { protocol, .. }) => {
                return Some(CoordinatorInput::OtherProtocol { host, protocol });
            }
            // Of a host that does not keep to the rules: silence is what the machine sees.
            Err(_) => return None,
        };
        match &message.body {
            // Subjects can have any name on the bus of a site.
            Body::Status(_) if self.machine.state(&host).is_some() => {
                self.heard.insert(host.clone(), Instant::now());
            }
            Body::Region { report, .. } => self.hear_words(&host, report),
            _ => {}
        }
        Some(CoordinatorInput::Message { host, message })
    }

    /// How old a relay says that the last words of its hosts are.
    fn hear_words(&mut self, relay: &str, report: &RegionReport) {
        let Self { machine, heard, .. } = self;
        for (host, (age_ns, ..)) in &report.words {
            let at = Instant::now().checked_sub(Duration::from_nanos(*age_ns));
            if let Some(at) = at.filter(|_| machine.is_behind(host, relay)) {
                heard.insert(host.clone(), at);
            }
        }
    }

    async fn feed(&mut self, input: CoordinatorInput) -> Result<(), CommandError> {
        let effects = self.machine.handle(now(), input, &self.keys);
        self.carry_out(effects).await
    }

    async fn carry_out(&mut self, effects: Vec<CoordinatorEffect>) -> Result<(), CommandError> {
        for effect in effects {
            match effect {
                CoordinatorEffect::Send { to, message } => self.send(&to, message).await?,
                CoordinatorEffect::Change(change) => self.record_change(change)?,
                CoordinatorEffect::Event(event) => self.record_event(event)?,
                CoordinatorEffect::AskOperator { plans } => self.ask(&plans),
                CoordinatorEffect::Store { host, run, file, offset, bytes } => {
                    self.store((&host, &run), &file, offset, &bytes)?;
                }
                CoordinatorEffect::Finish(outcome) => self.outcome = Some(outcome),
            }
        }
        Ok(())
    }

    async fn send(&self, to: &Recipient, mut message: BusMessage) -> Result<(), CommandError> {
        // What the client would keep until the bus is back is stale then; orders are repeated.
        if !self.is_bus_up {
            return Ok(());
        }
        let bytes = message.signed_bytes().map_err(CommandError::cannot)?;
        message.signature = Some(self.pass.key.sign(&bytes)?);
        let encoded = message.encode().map_err(CommandError::cannot)?;
        let subject = match to {
            Recipient::Host(host) => match self.relay_of.get(host) {
                Some(relay) => subject_through(relay, host, &message),
                None => message.subject(to),
            },
            Recipient::Coordinator | Recipient::All => message.subject(to),
        };
        self.link.publish(subject, encoded).await;
        Ok(())
    }

    fn record_change(&mut self, mut change: HostChange) -> Result<(), CommandError> {
        change.at = self.since_first_pass(change.at);
        if let (HostState::Collected, Some(run)) = (change.state, &change.run) {
            // The record must not say that a folder is here which a power cut can take.
            sync_run(self.pass.folder, &change.host, run)?;
        }
        // The answer of a rehearsal has every host, and a silent relay stands for all of its hosts.
        let is_elsewhere = self.pass.rehearsal.is_some()
            || change.state == HostState::Lost && self.machine.is_region_silent(&change.host);
        let text = change_text(&change, self.is_stopping);
        if let Some(text) = text.filter(|_| !is_elsewhere) {
            self.terminal.remark(&format!("durio: {text}"));
        }
        Ok(self.pass.folder.append_change(&change)?)
    }

    fn record_event(&mut self, mut line: TimedCampaignEvent) -> Result<(), CommandError> {
        line.at = self.since_first_pass(line.at);
        if let CampaignEvent::BarrierOrdered { start_ns, .. } = &mut line.event {
            *start_ns = start_ns.saturating_add(self.pass.offset.get());
        }
        if let Some(text) = urgent(&line.event).filter(|_| self.pass.rehearsal.is_none()) {
            self.terminal.remark(&format!("durio: {text}"));
        }
        Ok(self.pass.folder.append_event(&line)?)
    }

    fn since_first_pass(&self, at: Nanos) -> Nanos {
        Nanos::new(at.get().saturating_add(self.pass.offset.get()))
    }

    /// Shows what would run, and asks.
    fn ask(&mut self, plans: &BTreeMap<String, Vec<String>>) {
        if let Some(rehearsal) = self.pass.rehearsal {
            for host in plans.values().flatten() {
                if let Some(plan) = self.machine.plan(host) {
                    rehearsal.add(host, plan, self.machine.clock(host));
                }
            }
            let _ = self.events.send(CoordinatorEvent::Rehearsed);
            return;
        }
        if self.pass.is_first {
            let hosts = plans.values().flatten();
            let known =
                hosts.filter_map(|host| Some((host.clone(), self.machine.plan(host)?.clone())));
            for (plan, hosts) in plan_groups(known) {
                self.terminal.remark(&format!("durio: {}", plan_text(Some(&plan), &hosts)));
            }
        }
        let targets = self.pass.launch.targets.iter().filter(|_| self.pass.is_first);
        for target in targets {
            let (name, path) = (&target.name, target.path.display());
            self.terminal.remark(&format!("durio:   target {name} is {path} on each host"));
        }
        if self.pass.is_agreed {
            let _ = self.events.send(CoordinatorEvent::Agreed(true));
            return;
        }
        let question = self.question(plans);
        let events = self.events.clone();
        self.terminal.clear();
        self.terminal.is_asking = true;
        // On another thread: a terminal cannot be waited for otherwise, and heartbeats continue.
        std::thread::spawn(move || {
            let _ = events.send(CoordinatorEvent::Agreed(question.ask()));
        });
    }

    fn question(&self, plans: &BTreeMap<String, Vec<String>>) -> RunQuestion {
        let hosts = plans.values().map(|hosts| hosts.len() as u64).sum();
        let known = plans.values().flatten().filter_map(|host| self.machine.plan(host));
        let sizes = known
            .flat_map(|plan| &plan.writes)
            .filter(|write| write.destroys)
            .map(|write| write.size.get());
        RunQuestion::new(hosts, sizes.reduce(u64::saturating_add).map(Bytes::new))
    }

    fn store(
        &self,
        (host, run): (&str, &str),
        file: &str,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), CommandError> {
        let folder = self.pass.folder.make_run(host, run)?;
        let write = || -> io::Result<()> {
            if offset == 0 {
                // A first attempt may have left it.
                folder.remove_file(file)?;
                folder.make_file(file)?.write_all_at(bytes, 0)
            } else {
                folder.open_own(file)?.write_all_at(bytes, offset)
            }
        };
        write().map_err(|error| CommandError::io("write", &folder.path().join(file), error))
    }

    fn show_progress(&mut self) {
        let Self { machine, heard, began, pass, terminal, board, .. } = self;
        terminal.progress(pass.folder.path(), || {
            let standings = pass.hosts.iter().filter_map(|host| {
                let state = machine.state(host)?;
                let is_silent = state == HostState::Lost || !machine.is_alive(host);
                let silent = heard.get(host).filter(|_| is_silent && !is_out(state));
                let silent = silent.map(|heard| Nanos::from(heard.elapsed()));
                Some(HostStanding { host, state, silent })
            });
            let name = pass.folder.manifest.name.as_str();
            board.document((&pass.campaign, name, began.elapsed().into()), standings, now())
        });
    }
}

/// True for a host that has ended in order, or takes no part: nothing is awaited from it.
fn is_out(state: HostState) -> bool {
    state.is_final() && state != HostState::Lost
}

fn relays_by_host(regions: &[LaunchedRelay]) -> BTreeMap<String, String> {
    let pairs = regions.iter().flat_map(|region| {
        region.hosts.iter().map(|host| (host.clone(), region.relay.name.clone()))
    });
    pairs.collect()
}

fn sync_run(folder: &CampaignFolder, host: &str, run: &str) -> Result<(), CommandError> {
    let folder = folder.make_run(host, run)?;
    let sync = || -> io::Result<()> {
        for name in folder.names()? {
            folder.open_file(&name)?.sync_all()?;
        }
        folder.sync()
    };
    sync().map_err(|error| CommandError::io("sync", folder.path(), error))
}
