//! The coordinator: drives [`CoordinatorMachine`], whose inputs come from the bus, the clock, the
//! sessions of the hosts and the operator.

mod invite;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use durio_agree::bus_rights::coordinator_permissions;
use durio_agree::coordinator::{
    CampaignLimits, CoordinatorConfig, CoordinatorEffect, CoordinatorInput, CoordinatorMachine,
    OperatorOrder,
};
use durio_agree::live::{HostStanding, LIVE_KIND, LiveBoard};
use durio_agree::message::{BusMessage, COORDINATOR, MessageError, Recipient};
use durio_agree::relay::subject_through;
use durio_agree::sign::{SigningKey, TrustedKeys};
use durio_base::{Bytes, Nanos};
use durio_command::{CommandError, CommandErrorKind};
use durio_record::fleet::{
    CampaignEvent, CampaignFolder, CampaignOutcome, CampaignPolicy, HostChange, HostState,
    TimedCampaignEvent,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

use crate::bus::{BusEvent, BusLink};
use crate::campaign_bus::{CampaignBus, raise_file_limit};
use crate::host_disk::now;
use crate::invitation::{HostAnswer, JoinReply};
use crate::launch::{LaunchSettings, LaunchedRelay, Launcher};
use crate::live_view::LIVE_FILE;
use crate::passes::{RehearsedHost, plan_groups};
use crate::programs::StopSignals;
use crate::regions::session_count;
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
    /// Ends with the plans, of which none is run.
    pub(crate) is_rehearsal: bool,
    pub(crate) is_agreed: bool,
}

/// How a pass ended.
#[derive(Debug)]
pub(crate) struct PassEnd {
    pub(crate) outcome: CampaignOutcome,
    pub(crate) rehearsed: Vec<RehearsedHost>,
    /// By the user's wish.
    pub(crate) is_interrupted: bool,
}

enum CoordinatorEvent {
    Bus(BusEvent),
    Answer(HostAnswer),
    /// The answer to the plans, or the end of a rehearsal, which has all plans.
    Decided(OperatorOrder),
}

struct Coordinator<'c> {
    pass: Pass<'c>,
    regions: Vec<LaunchedRelay>,
    machine: CoordinatorMachine,
    keys: TrustedKeys,
    bus: CampaignBus,
    link: BusLink,
    is_bus_up: bool,
    terminal: &'c mut ProgressTerminal,
    began: Instant,
    board: LiveBoard,
    /// Those that were shown.
    hints: BTreeSet<&'static str>,
    is_stopping: bool,
    rehearsed: Vec<RehearsedHost>,
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
    let sessions = coordinator.invite(launcher)?;
    let result = coordinator.serve(&mut inbox, &mut signals).await;
    if result.as_ref().is_err_and(|error| error.kind != CommandErrorKind::Interrupted) {
        coordinator.stop_unrecorded().await;
    }
    coordinator.link.flush().await;
    sessions.end().await;
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
            regions,
            machine,
            keys: TrustedKeys::default(),
            bus,
            link,
            // The machine begins with a bus that can be reached.
            is_bus_up: true,
            terminal,
            began: Instant::now(),
            board: LiveBoard::default(),
            hints: BTreeSet::new(),
            is_stopping: false,
            rehearsed: Vec::new(),
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
                let rehearsed = std::mem::take(&mut self.rehearsed);
                return Ok(PassEnd { outcome, rehearsed, is_interrupted: self.is_stopping });
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
            !is_over && self.machine.silence(host).is_none()
        };
        self.pass.history.is_some()
            && self.began.elapsed() < REACH_MAX
            && self.pass.hosts.iter().any(is_awaited)
    }

    async fn stop(&mut self) -> Result<(), CommandError> {
        if std::mem::replace(&mut self.is_stopping, true) {
            let text = "left while hosts were stopping";
            return Err(CommandError::new(CommandErrorKind::Interrupted, text));
        }
        self.terminal.remark(stop_text(self.pass.is_rehearsal));
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
            CoordinatorEvent::Bus(BusEvent::Message(message)) => {
                let (subject, bytes) = message.open();
                // c.CAMPAIGN.h.HOST.KIND, where ',' separates what '.' does in names.
                let mut parts = subject.split('.').skip(3);
                let host = parts.next()?.replace(',', ".");
                if parts.next() == Some(LIVE_KIND) {
                    self.take_figures(&host, &bytes);
                    return None;
                }
                Self::message(host, &bytes)
            }
            CoordinatorEvent::Answer(HostAnswer { host, reply, hint }) => match reply {
                JoinReply::Key(key) => {
                    match self.keys.trust(&host, &key) {
                        // On the bus of its region alone.
                        Ok(()) if self.machine.relay(&host).is_some() => {}
                        Ok(()) => self.bus.admit(&host, &key),
                        Err(error) => self.terminal.remark(&format!("durio: {host}: {error}")),
                    }
                    None
                }
                JoinReply::Refused(reason) => {
                    if self.machine.state(&host) != Some(HostState::Asked) {
                        self.terminal.remark(&format!("durio: {host}: {reason}"));
                    }
                    // Hundreds of hosts may have the same reason.
                    if let Some(hint) = hint.filter(|hint| self.hints.insert(hint)) {
                        self.terminal.remark(&format!("hint: {hint}"));
                    }
                    Some(CoordinatorInput::Unreachable { host, reason })
                }
            },
            CoordinatorEvent::Decided(order) => {
                self.terminal.is_asking = false;
                match order {
                    OperatorOrder::Go => self.terminal.show_help(),
                    _ => self.is_stopping |= !self.pass.is_rehearsal,
                }
                Some(CoordinatorInput::Operator(order))
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

    fn message(host: String, bytes: &[u8]) -> Option<CoordinatorInput> {
        match BusMessage::decode(bytes) {
            Ok(message) => Some(CoordinatorInput::Message { host, message }),
            Err(MessageError::Protocol { protocol, .. }) => {
                Some(CoordinatorInput::OtherProtocol { host, protocol })
            }
            // Of a host that does not keep to the rules: silence is what the machine sees.
            Err(_) => None,
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

    async fn send(&self, to: &Recipient, message: BusMessage) -> Result<(), CommandError> {
        // What the client would keep until the bus is back is stale then; orders are repeated.
        if !self.is_bus_up {
            return Ok(());
        }
        let subject = match to {
            Recipient::Host(host) => match self.machine.relay(host) {
                Some(relay) => subject_through(relay, host, &message),
                None => message.subject(to),
            },
            Recipient::Coordinator | Recipient::All => message.subject(to),
        };
        self.link.publish(subject, self.pass.key.encode(message)?).await;
        Ok(())
    }

    fn record_change(&mut self, mut change: HostChange) -> Result<(), CommandError> {
        change.at = self.since_first_pass(change.at);
        if let (HostState::Collected, Some(run)) = (change.state, &change.run) {
            // The record must not say that a folder is here which a power cut can take.
            sync_run(self.pass.folder, &change.host, run)?;
        }
        // The answer of a rehearsal has every host, and a silent relay stands for all of its hosts.
        let is_elsewhere = self.pass.is_rehearsal
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
        if let Some(text) = urgent(&line.event).filter(|_| !self.pass.is_rehearsal) {
            self.terminal.remark(&format!("durio: {text}"));
        }
        Ok(self.pass.folder.append_event(&line)?)
    }

    fn since_first_pass(&self, at: Nanos) -> Nanos {
        Nanos::new(at.get().saturating_add(self.pass.offset.get()))
    }

    /// Shows what would run, and asks.
    fn ask(&mut self, plans: &BTreeMap<String, Vec<String>>) {
        if self.pass.is_rehearsal {
            let rehearsed = plans.values().flatten().filter_map(|host| {
                let (plan, clock) = (self.machine.plan(host)?.clone(), self.machine.clock(host));
                Some(RehearsedHost { name: host.clone(), plan, clock })
            });
            self.rehearsed = rehearsed.collect();
            let _ = self.events.send(CoordinatorEvent::Decided(OperatorOrder::Stop));
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
            let _ = self.events.send(CoordinatorEvent::Decided(OperatorOrder::Go));
            return;
        }
        let question = self.question(plans);
        let events = self.events.clone();
        self.terminal.clear();
        self.terminal.is_asking = true;
        // On another thread: a terminal cannot be waited for otherwise, and heartbeats continue.
        std::thread::spawn(move || {
            let order = if question.ask() { OperatorOrder::Go } else { OperatorOrder::Stop };
            let _ = events.send(CoordinatorEvent::Decided(order));
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
        let Self { machine, began, pass, terminal, board, .. } = self;
        terminal.progress(pass.folder.path(), || {
            let standings = pass.hosts.iter().filter_map(|host| {
                let state = machine.state(host)?;
                // A host that has ended in order or takes no part may be silent.
                let is_awaited = !state.is_final() && !machine.is_alive(host);
                let is_silent = state == HostState::Lost || is_awaited;
                let silent = machine.silence(host).filter(|_| is_silent);
                Some(HostStanding { host, state, silent })
            });
            let name = pass.folder.manifest.name.as_str();
            board.document((&pass.campaign, name, began.elapsed().into()), standings, now())
        });
    }
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
