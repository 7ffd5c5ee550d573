//! The agent of a host: drives [`HostMachine`], whose inputs come from the bus, the clock, the child
//! and the sessions of the coordinator.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use durio_agree::bus_rights::permissions;
use durio_agree::host::{HostConfig, HostEffect, HostInput, HostMachine, HostMemory};
use durio_agree::host_file::{self, HOST_FILE, HostFile};
use durio_agree::live::LiveReport;
use durio_agree::message::{
    BusMessage, COORDINATOR, HostIdentity, PlanSummary, Recipient, RunSummary,
};
use durio_agree::permit::{PermitSource, WriteWatch, permitted};
use durio_agree::sign::{EndedCampaigns, SigningKey, TrustedKeys};
use durio_base::{Bytes, Nanos};
use durio_block::{Clock as _, Folder, MonotonicClock, read_bounded};
use durio_command::{CommandError, error_chain};
use durio_observe::read_host;
use durio_record::fleet::HostState;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::bus::{BusEvent, BusLink};
use crate::carrier::{MEMORY_FILE, SOCKET, fleet_folder};
use crate::child::{self, ChildOrder, ChildWord, RunningChild};
use crate::follow::RecordFollower;
use crate::invitation::{HostTarget, Invitation, JoinReply, LINE_BYTES_MAX, line_of};
use crate::words::remark;

/// Less than half of the time by which the machine hands starts over. Seldom: a run is measured here.
const TICK: Duration = Duration::from_millis(45);
/// Between two looks at the record of the run.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const FIRST_INVITATION_MAX: Duration = Duration::from_secs(30);
/// How long an agent stays without a session: after its last word; before a run, for a coordinator
/// that comes back; after one, until the folder was collected. ssh waits for the agent's connection to
/// the bus, so the first is short.
const COLLECTED_STAY: Duration = Duration::from_millis(100);
const DONE_STAY: Duration = Duration::from_secs(2);
const IDLE_STAY: Duration = Duration::from_secs(60);
const RUN_STAY: Duration = Duration::from_secs(24 * 3_600);
/// The lock of this user's campaigns, and the file that names its holder.
const LOCK_FOLDER: &str = "lock";
const HOLDER_FILE: &str = "holder";
const MEMORY_BYTES_MAX: Bytes = Bytes::from_kib(64);

enum AgentEvent {
    Invited(Box<Invitation>, UnixStream),
    SessionEnded(u64),
    /// Of the link of this number: an earlier one may still say that it has ended.
    Bus(u64, BusEvent),
    Planned(Result<(PlanSummary, Option<WriteWatch>), String>),
    Child(ChildWord),
    Inspected(Result<RunSummary, String>),
}

struct Agent {
    machine: HostMachine,
    key: SigningKey,
    keys: TrustedKeys,
    invitation: Invitation,
    durio: PathBuf,
    fleet: Folder,
    folder: Folder,
    lock: Option<Folder>,
    bus: Option<BusLink>,
    is_bus_up: bool,
    links: u64,
    child: Option<RunningChild>,
    watch: Option<WriteWatch>,
    /// Follows the record of the running child.
    follower: Option<RecordFollower>,
    looked: Instant,
    run: Option<String>,
    memory: HostMemory,
    /// The newest session, by its number: an older one may hang on a link that was cut.
    session: Option<u64>,
    /// When the last session ended, or the campaign on this host.
    quiet_since: Instant,
    events: UnboundedSender<AgentEvent>,
}

/// Serves the campaign whose folder is the current one.
///
/// # Errors
/// If another agent does, or the folder cannot be used.
pub(crate) fn agent() -> Result<(), CommandError> {
    let path = std::env::current_dir().map_err(CommandError::cannot)?;
    let folder = Folder::open(&path).map_err(|error| CommandError::io("open", &path, error))?;
    match folder.try_lock() {
        Ok(true) => {}
        Ok(false) => return Err(CommandError::cannot_measure("another agent serves the campaign")),
        Err(error) => return Err(CommandError::io("lock", &path, error)),
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CommandError::cannot)?;
    runtime.block_on(serve(folder))
}

fn now() -> Nanos {
    Nanos::new(MonotonicClock.now().0)
}

async fn serve(folder: Folder) -> Result<(), CommandError> {
    // The lock is ours, so a socket that is there is that of an agent that was killed.
    let bound = folder.remove_file(SOCKET).and_then(|()| UnixListener::bind(SOCKET));
    let listener = bound.map_err(|error| CommandError::io("listen in", folder.path(), error))?;
    let (events, mut inbox) = unbounded_channel();
    let accepting = tokio::spawn(accept(listener, events.clone()));
    let first = timeout(FIRST_INVITATION_MAX, inbox.recv()).await;
    let Ok(Some(AgentEvent::Invited(invitation, session))) = first else {
        return Err(CommandError::cannot_measure("no invitation came"));
    };
    let mut agent = Agent::new(folder, *invitation, events)?;
    agent.begin(session).await?;
    let result = agent.serve(&mut inbox).await;
    accepting.abort();
    agent.leave();
    result
}

async fn accept(listener: UnixListener, events: UnboundedSender<AgentEvent>) {
    while let Ok((session, _)) = listener.accept().await {
        let events = events.clone();
        tokio::spawn(async move {
            let mut session = session;
            let mut line = Vec::new();
            let mut reader = BufReader::new((&mut session).take(LINE_BYTES_MAX));
            if reader.read_until(b'\n', &mut line).await.is_err() {
                return;
            }
            match Invitation::parse(&line) {
                Ok(invitation) => {
                    let _ = events.send(AgentEvent::Invited(Box::new(invitation), session));
                }
                Err(error) => remark(&error_chain(&error)),
            }
        });
    }
}

impl Agent {
    fn new(
        folder: Folder,
        invitation: Invitation,
        events: UnboundedSender<AgentEvent>,
    ) -> Result<Self, CommandError> {
        let memory = read_memory(&folder)?;
        let host = read_host();
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let machine = HostIdentity {
            // Without one, a machine under two names is not noticed.
            machine_id: host.machine_id.unwrap_or_else(|| invitation.host.clone()),
            boot_id: boot_id.unwrap_or_default().trim().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let config = HostConfig {
            name: invitation.host.clone(),
            campaign: invitation.campaign.clone(),
            machine,
            fault: None,
        };
        let (machine, effects) = HostMachine::start(config, memory.clone(), now());
        let mut agent = Self {
            machine,
            key: SigningKey::generate(),
            keys: TrustedKeys::default(),
            invitation,
            durio: crate::programs::durio()?,
            fleet: fleet_folder()?,
            folder,
            lock: None,
            bus: None,
            is_bus_up: false,
            links: 0,
            child: None,
            watch: None,
            follower: None,
            looked: Instant::now(),
            run: None,
            memory,
            session: None,
            quiet_since: Instant::now(),
            events,
        };
        // None of these needs the bus.
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                HostEffect::Lock => effects.extend(agent.lock()),
                HostEffect::Inspect => agent.inspect(),
                _ => {}
            }
        }
        Ok(agent)
    }

    fn lock(&mut self) -> Vec<HostEffect> {
        let result = self.take_lock().unwrap_or_else(|error| Err(error.to_string()));
        self.machine.handle(now(), HostInput::Locked(result), &self.keys)
    }

    /// The session that an invitation came by; the bus that it names.
    async fn begin(&mut self, mut session: UnixStream) -> Result<(), CommandError> {
        self.links += 1;
        let reply = line_of(&JoinReply::Key(self.key.public()))?;
        if session.write_all(&reply).await.is_ok() {
            self.session = Some(self.links);
            let (events, number) = (self.events.clone(), self.links);
            tokio::spawn(async move {
                let mut byte = [0];
                // The other end writes nothing more: anything read is its end.
                let _ = session.read(&mut byte).await;
                let _ = events.send(AgentEvent::SessionEnded(number));
            });
        }
        self.keys.trust(COORDINATOR, &self.invitation.coordinator)?;
        let rights = permissions(&self.invitation.campaign, &self.invitation.host);
        let (events, link) = (self.events.clone(), self.links);
        let hear = move |event| {
            let _ = events.send(AgentEvent::Bus(link, event));
        };
        let access = self.invitation.bus.access(&self.key, &self.folder)?;
        // Without the inbox: the machine asks no questions.
        let subjects = &rights.subscribe[..2];
        (self.bus, self.is_bus_up) = (None, false);
        self.bus = Some(BusLink::connect(&access, &self.invitation.host, subjects, hear).await?);
        Ok(())
    }

    async fn serve(
        &mut self,
        inbox: &mut UnboundedReceiver<AgentEvent>,
    ) -> Result<(), CommandError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.is_over() {
            let event = tokio::select! {
                event = inbox.recv() => event,
                _ = ticks.tick() => None,
            };
            let input = match event {
                None => {
                    self.report_figures().await;
                    if let Some(reason) = self.watch_writes() {
                        self.feed(HostInput::Stop(reason)).await;
                    }
                    HostInput::Tick
                }
                Some(event) => match self.input(event).await? {
                    Some(input) => input,
                    None => continue,
                },
            };
            self.feed(input).await;
        }
        if let Some(bus) = &self.bus {
            let _ = timeout(DONE_STAY, bus.flush()).await;
        }
        Ok(())
    }

    async fn input(&mut self, event: AgentEvent) -> Result<Option<HostInput>, CommandError> {
        Ok(match event {
            AgentEvent::Invited(invitation, session) => {
                let is_same = invitation.host == self.invitation.host
                    && invitation.campaign == self.invitation.campaign;
                if !is_same {
                    return Ok(None);
                }
                // A coordinator that was started again has another key, and another way to its bus.
                self.invitation.coordinator.clone_from(&invitation.coordinator);
                self.invitation.bus.clone_from(&invitation.bus);
                self.begin(session).await?;
                Some(HostInput::Connected(false))
            }
            AgentEvent::SessionEnded(number) => {
                if self.session.take_if(|newest| *newest == number).is_some() {
                    self.quiet_since = Instant::now();
                }
                None
            }
            AgentEvent::Bus(link, _) if link != self.links => None,
            AgentEvent::Bus(_, BusEvent::Up(is_up)) => {
                self.is_bus_up = is_up;
                Some(HostInput::Connected(is_up))
            }
            AgentEvent::Bus(_, BusEvent::Message { bytes, .. }) => {
                BusMessage::decode(&bytes).ok().map(HostInput::Message)
            }
            AgentEvent::Planned(plan) => Some(HostInput::Planned(plan.map(|(plan, watch)| {
                self.watch = watch;
                plan
            }))),
            AgentEvent::Child(ChildWord::Event(event)) => Some(HostInput::Child(event)),
            AgentEvent::Child(ChildWord::Exited(failure)) => {
                (self.child, self.follower) = (None, None);
                Some(HostInput::ChildExited(failure))
            }
            AgentEvent::Inspected(run) => {
                self.run = run.as_ref().ok().map(|run| run.name.clone());
                Some(HostInput::Inspected(run))
            }
        })
    }

    /// True when this process is of no more use: a later session starts another one.
    fn is_over(&self) -> bool {
        let stay = match (self.memory.done, self.memory.has_run) {
            (Some(HostState::Collected), _) => COLLECTED_STAY,
            (Some(_), _) => DONE_STAY,
            (None, false) => IDLE_STAY,
            (None, true) => RUN_STAY,
        };
        self.session.is_none() && self.child.is_none() && self.quiet_since.elapsed() > stay
    }

    /// Removes what the host keeps of a campaign that was collected or never ran.
    fn leave(&mut self) {
        self.bus = None;
        let Some(done) = self.memory.done else { return };
        let campaign = &self.invitation.campaign;
        let ended = EndedCampaigns::open(&self.fleet);
        if let Err(error) = ended.and_then(|mut ended| ended.end(&self.fleet, campaign)) {
            remark(&format!("cannot note the end of the campaign: {error}"));
            return;
        }
        if done == HostState::Collected || !self.memory.has_run {
            // The coordinator has compared its copy with the digest.
            if let Err(error) = std::fs::remove_dir_all(self.folder.path()) {
                remark(&format!("cannot remove '{}': {error}", self.folder.path().display()));
            }
        }
    }

    async fn feed(&mut self, input: HostInput) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for effect in self.machine.handle(now(), input, &self.keys) {
                inputs.extend(self.carry_out(effect).await);
            }
        }
    }

    async fn carry_out(&mut self, effect: HostEffect) -> Option<HostInput> {
        match effect {
            HostEffect::Send(message) => self.send(message).await,
            HostEffect::Lock => {
                let result = self.take_lock().unwrap_or_else(|error| Err(error.to_string()));
                return Some(HostInput::Locked(result));
            }
            HostEffect::Unlock => self.lock = None,
            HostEffect::Remember(memory) => {
                if memory.done.is_some() && self.memory.done.is_none() {
                    self.quiet_since = Instant::now();
                }
                self.remember(&memory);
                self.memory = memory;
            }
            HostEffect::Plan { spec } => self.plan(&spec),
            HostEffect::StartChild => return self.start_child(),
            HostEffect::Answer { answer, .. } => {
                if let Some(child) = &mut self.child {
                    child.answer(&answer).await;
                }
            }
            HostEffect::StopChild => {
                if let Some(child) = &self.child {
                    child.stop();
                }
            }
            HostEffect::Inspect => self.inspect(),
            HostEffect::Read { file, offset, length } => {
                let run = self.run.as_ref()?;
                let piece = child::read_piece(&self.runs(), run, (&file, offset, length));
                return match piece {
                    Ok(bytes) => Some(HostInput::Read { file, offset, bytes }),
                    Err(error) => {
                        // It is asked for again.
                        remark(&format!("cannot read '{file}': {error}"));
                        None
                    }
                };
            }
        }
        None
    }

    fn runs(&self) -> PathBuf {
        self.folder.path().join(child::RUNS_FOLDER)
    }

    async fn send(&self, mut message: BusMessage) {
        let Some(bus) = &self.bus else { return };
        let signed = message.signed_bytes().map_err(CommandError::cannot);
        let signed =
            signed.and_then(|bytes: Vec<u8>| Ok::<_, CommandError>(self.key.sign(&bytes)?));
        let encoded = signed.and_then(|signature| {
            message.signature = Some(signature);
            message.encode().map_err(CommandError::cannot)
        });
        match encoded {
            Ok(bytes) => bus.publish(message.subject(&Recipient::Coordinator), bytes).await,
            Err(error) => remark(&error_chain(&error)),
        }
    }

    /// Why the run has to end, if it is about to write more than a permit allows.
    fn watch_writes(&mut self) -> Option<String> {
        let (Some(watch), Some(child)) = (&mut self.watch, &self.child) else { return None };
        let now = now();
        if !watch.is_due(now) {
            return None;
        }
        let written = child.written();
        // Its exit, which is heard next, says how the run ended.
        if written.is_none() && child.has_exited() {
            return None;
        }
        watch.note(now, written)
    }

    /// Tells the coordinator what the run has done, for its view; nothing depends on that.
    async fn report_figures(&mut self) {
        let Some(follower) = &mut self.follower else { return };
        if self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        let encoded = follower.look().and_then(LiveReport::encode);
        // What the client would keep until the bus is back is stale then.
        if let (Some(encoded), Some(bus), true) = (encoded, &self.bus, self.is_bus_up) {
            let Invitation { campaign, host, .. } = &self.invitation;
            bus.publish(LiveReport::subject(campaign, host), encoded).await;
        }
    }

    /// One campaign at a time; an error names the one that has the lock.
    fn take_lock(&mut self) -> io::Result<Result<(), String>> {
        let lock = self.fleet.own_folder_or_make(LOCK_FOLDER)?;
        if lock.try_lock()? {
            lock.replace(HOLDER_FILE, self.invitation.campaign.as_bytes())?;
            self.lock = Some(lock);
            return Ok(Ok(()));
        }
        let holder = lock.open_own(HOLDER_FILE);
        let holder = holder.and_then(|file| read_bounded(file, MEMORY_BYTES_MAX));
        let holder = holder.map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok(Err(holder.unwrap_or_else(|_| "of an unknown name".to_owned())))
    }

    fn remember(&self, memory: &HostMemory) {
        let stored = serde_json::to_vec(memory)
            .map_err(io::Error::from)
            .and_then(|text| self.folder.replace(MEMORY_FILE, &text));
        if let Err(error) = stored {
            remark(&format!("cannot write '{MEMORY_FILE}': {error}"));
        }
    }

    /// Plans on another thread: heartbeats continue.
    fn plan(&self, spec: &str) {
        if let Err(error) = self.folder.replace(child::SPEC_FILE, spec.as_bytes()) {
            let refused = Err(format!("cannot write the spec: {error}"));
            let _ = self.events.send(AgentEvent::Planned(refused));
            return;
        }
        let (durio, events) = (self.durio.clone(), self.events.clone());
        let spec = self.folder.path().join(child::SPEC_FILE);
        let (targets, key) = (self.invitation.targets.clone(), self.invitation.coordinator.clone());
        tokio::task::spawn_blocking(move || {
            let plan = check_plan(&durio, &spec, &targets, &key);
            let _ = events.send(AgentEvent::Planned(plan.map_err(|error| error_chain(&error))));
        });
    }

    fn start_child(&mut self) -> Option<HostInput> {
        let events = self.events.clone();
        let hear = move |word| {
            let _ = events.send(AgentEvent::Child(word));
        };
        let order = ChildOrder {
            durio: &self.durio,
            folder: &self.folder,
            targets: &self.invitation.targets,
            name: self.invitation.run.as_deref(),
        };
        let runs = self.folder.own_folder_or_make(child::RUNS_FOLDER);
        match runs.and_then(|_| RunningChild::start(&order, hear)) {
            Ok(child) => {
                self.child = Some(child);
                self.follower = Some(RecordFollower::new(self.runs()));
            }
            Err(error) => {
                return Some(HostInput::ChildExited(Some(format!("cannot start durio: {error}"))));
            }
        }
        None
    }

    fn inspect(&self) {
        let (runs, events) = (self.runs(), self.events.clone());
        tokio::task::spawn_blocking(move || {
            let _ = events.send(AgentEvent::Inspected(child::inspect(&runs)));
        });
    }
}

fn read_memory(folder: &Folder) -> Result<HostMemory, CommandError> {
    let path = folder.path().join(MEMORY_FILE);
    let failed = |error| CommandError::io("read", &path, error);
    match folder.open_own(MEMORY_FILE).and_then(|file| read_bounded(file, MEMORY_BYTES_MAX)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HostMemory::default()),
        // Not as if nothing had run: the run would be made twice.
        Err(error) => Err(failed(error)),
        Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(error.into())),
    }
}

/// The plan of this host, if the host file or, without one, the login permits all that it writes.
fn check_plan(
    durio: &std::path::Path,
    spec: &std::path::Path,
    targets: &[HostTarget],
    key: &str,
) -> Result<(PlanSummary, Option<WriteWatch>), CommandError> {
    let file: Option<HostFile> = host_file::read(HOST_FILE.as_ref())?;
    let mut plan = child::plan(durio, spec, targets)?;
    plan.summary.facts = Some(Box::new(crate::doctor::facts(durio, targets, file.is_some())));
    let by_login: Vec<(String, PathBuf)> =
        targets.iter().map(|target| (target.name.clone(), target.path.clone())).collect();
    let source = match &file {
        Some(file) => PermitSource::File(file),
        None => PermitSource::Targets(&by_login),
    };
    let watch = permitted(&plan.writes, source, SystemTime::now(), key)?;
    Ok((plan.summary, watch))
}
