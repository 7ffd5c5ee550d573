//! The agent of a host: drives [`HostMachine`], whose inputs come from the bus, the clock, the child
//! and the sessions of the coordinator.
//!
//! Its only thread answers the clock, sends heartbeats and hands starts over; it sleeps until one of them
//! is due or something is heard. What may wait for a disk is done on others, and is heard of as an event.

mod deadlines;

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use durio_agree::bus_rights::permissions;
use durio_agree::host::{HostConfig, HostEffect, HostInput, HostMachine, HostMemory};
use durio_agree::live::LiveReport;
use durio_agree::message::{BusMessage, COORDINATOR, HostIdentity, Recipient, RunSummary};
use durio_agree::permit::WriteWatch;
use durio_agree::sign::{SigningKey, TrustedKeys};
use durio_base::{Bytes, Nanos};
use durio_block::Folder;
use durio_command::{CommandError, error_chain};
use durio_observe::read_host;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::bus::{BusEvent, BusLink};
use crate::carrier::{MEMORY_FILE, SOCKET, fleet_folder};
use crate::child::{self, ChildOrder, PermittedDevice, RunningChild, StartedChild};
use crate::follow::RecordFollower;
use crate::host_disk::{
    HostLock, PermittedPlan, check_plan, now, other_key, read_memory, store_memory, take_lock,
};
use crate::invitation::{Invitation, JoinReply, LINE_BYTES_MAX, line_of};
use crate::leftovers::{
    end_campaign, is_over, keep_programs, remove_old_campaigns, remove_programs,
};
use crate::programs::runtime;
use crate::words::remark;
use deadlines::DONE_STAY;

const FIRST_INVITATION_MAX: Duration = Duration::from_secs(30);

enum AgentEvent {
    Invited(Box<Invitation>, UnixStream),
    SessionEnded(u64),
    /// The link of this number: an earlier one may still say that it has ended.
    Bus(u64, BusEvent),
    Linked(u64, Result<BusLink, CommandError>),
    Locked(io::Result<Result<HostLock, String>>),
    Stored(HostMemory, io::Result<()>),
    Planned(Result<PermittedPlan, String>),
    Started(io::Result<StartedChild>),
    Child(HostInput),
    /// With a report to send.
    Looked(RecordFollower, Option<Vec<u8>>),
    Inspected(Result<RunSummary, String>),
    /// A piece of a file, from an offset.
    Read(String, u64, io::Result<Vec<u8>>),
}

struct Agent {
    machine: HostMachine,
    key: SigningKey,
    keys: TrustedKeys,
    invitation: Invitation,
    durio: PathBuf,
    fleet: Arc<Folder>,
    folder: Arc<Folder>,
    lock: Option<HostLock>,
    bus: Option<BusLink>,
    is_bus_up: bool,
    links: u64,
    child: Option<RunningChild>,
    /// It was stopped before it had started.
    is_stopped: bool,
    watch: Option<WriteWatch>,
    devices: Vec<PermittedDevice>,
    /// Follows the record of the running child; not here while it looks.
    follower: Option<RecordFollower>,
    looked: Nanos,
    /// How far the record was read, and the bytes that the run had written and read.
    progress: (u64, Option<[Bytes; 2]>),
    run: Option<String>,
    memory: HostMemory,
    /// The newest session, by its number: an older one may hang on a link that was cut.
    session: Option<u64>,
    /// When the last session ended, or the campaign on this host.
    quiet_since: Nanos,
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
    let programs = keep_programs(&folder).unwrap_or_else(|error| {
        remark(&format!("cannot keep the copied programs: {error}"));
        None
    });
    let programs = programs.as_deref();
    let result = runtime().and_then(|runtime| runtime.block_on(serve(folder, programs)));
    remove_copied(programs);
    result
}

fn remove_copied(programs: Option<&Path>) {
    if let Some(Err(error)) = programs.map(remove_programs) {
        remark(&format!("cannot remove the copied programs: {error}"));
    }
}

async fn serve(folder: Folder, programs: Option<&Path>) -> Result<(), CommandError> {
    // The lock is ours, so a socket that is there is that of an agent that was killed.
    let bound = folder.remove_file(SOCKET).and_then(|()| UnixListener::bind(SOCKET));
    let listener = bound.map_err(|error| CommandError::io("listen in", folder.path(), error))?;
    let (events, mut inbox) = unbounded_channel();
    let accepting = tokio::spawn(accept(listener, events.clone()));
    let first = timeout(FIRST_INVITATION_MAX, inbox.recv()).await;
    let Ok(Some(AgentEvent::Invited(invitation, session))) = first else {
        return Err(CommandError::cannot_measure("no invitation came"));
    };
    let memory = read_memory(&folder)?;
    let made = match other_key(&memory, &invitation) {
        Some(reason) => Err(CommandError::cannot_measure(reason)),
        None => Agent::new(folder, memory, *invitation, events),
    };
    let (mut agent, effects) = match made {
        Ok(made) => made,
        Err(error) => {
            refuse(session, &error_chain(&error)).await;
            return Err(error);
        }
    };
    for effect in effects {
        agent.carry_out(effect).await;
    }
    agent.begin(session).await?;
    let fleet = Arc::clone(&agent.fleet);
    spawn_blocking(move || {
        if let Err(error) = remove_old_campaigns(&fleet) {
            remark(&format!("cannot remove campaigns that are over: {error}"));
        }
    });
    let result = agent.serve(&mut inbox).await;
    accepting.abort();
    // While the agent has a bus, which ssh waits for: a host is clean when its session has ended.
    agent.leave();
    remove_copied(programs);
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

async fn refuse(mut session: UnixStream, reason: &str) {
    if let Ok(line) = line_of(&JoinReply::Refused(reason.to_owned())) {
        // A coordinator that is gone asks again.
        let _ = session.write_all(&line).await;
    }
}

impl Agent {
    fn new(
        folder: Folder,
        mut memory: HostMemory,
        invitation: Invitation,
        events: UnboundedSender<AgentEvent>,
    ) -> Result<(Self, Vec<HostEffect>), CommandError> {
        if memory.coordinator.is_none() {
            memory.coordinator = Some(invitation.coordinator.clone());
            let path = folder.path().join(MEMORY_FILE);
            let stored = store_memory(&folder, &memory);
            stored.map_err(|error| CommandError::io("write", &path, error))?;
        }
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
        let agent = Self {
            machine,
            key: SigningKey::generate(),
            keys: TrustedKeys::default(),
            invitation,
            durio: crate::programs::durio()?,
            fleet: Arc::new(fleet_folder()?),
            folder: Arc::new(folder),
            lock: None,
            bus: None,
            is_bus_up: false,
            links: 0,
            child: None,
            is_stopped: false,
            watch: None,
            devices: Vec::new(),
            follower: None,
            looked: now(),
            progress: (0, None),
            run: None,
            memory,
            session: None,
            quiet_since: now(),
            events,
        };
        Ok((agent, effects))
    }

    /// Does what may wait for a disk.
    fn aside(&self, work: impl FnOnce() -> AgentEvent + Send + 'static) {
        let events = self.events.clone();
        spawn_blocking(move || {
            let _ = events.send(work());
        });
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
        let Invitation { host, bus, .. } = self.invitation.clone();
        let (key, folder, runtime) =
            (self.key.clone(), Arc::clone(&self.folder), Handle::current());
        (self.bus, self.is_bus_up) = (None, false);
        self.aside(move || {
            let linked = runtime.block_on(async {
                let access = bus.access(&key, &folder)?;
                // Without the inbox: the machine asks no questions.
                BusLink::connect(&access, &host, &rights.subscribe[..2], hear).await
            });
            AgentEvent::Linked(link, linked)
        });
        Ok(())
    }

    async fn serve(
        &mut self,
        inbox: &mut UnboundedReceiver<AgentEvent>,
    ) -> Result<(), CommandError> {
        let mut alarm = pin!(sleep(Duration::ZERO));
        loop {
            let time = now();
            self.act_by_clock(time).await;
            if self.over_at().is_some_and(|over| time >= over) {
                break;
            }
            let next = self.next_deadline();
            if let Some(next) = next {
                let left = Duration::from(next.saturating_sub(time));
                alarm.as_mut().reset(Instant::now() + left);
            }
            let event = tokio::select! {
                event = inbox.recv() => event,
                () = &mut alarm, if next.is_some() => None,
            };
            let Some(event) = event else { continue };
            // Work that is due comes before events that waited while this process stood still.
            self.act_by_clock(now()).await;
            if let Some(input) = self.input(event).await? {
                self.feed(now(), input).await;
            }
        }
        if let Some(bus) = &self.bus {
            let _ = timeout(DONE_STAY.into(), bus.flush()).await;
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
                if let Some(reason) = other_key(&self.memory, &invitation) {
                    refuse(session, reason).await;
                    return Ok(None);
                }
                // A coordinator that was started again has another way to its bus.
                self.invitation.bus.clone_from(&invitation.bus);
                self.begin(session).await?;
                Some(HostInput::Connected(false))
            }
            AgentEvent::SessionEnded(number) => {
                if self.session.take_if(|newest| *newest == number).is_some() {
                    self.quiet_since = now();
                }
                None
            }
            AgentEvent::Bus(link, _) if link != self.links => None,
            AgentEvent::Bus(_, BusEvent::Up(is_up)) => {
                self.is_bus_up = is_up;
                Some(HostInput::Connected(is_up))
            }
            AgentEvent::Bus(_, BusEvent::Message(message)) => {
                BusMessage::decode(&message.open().1).ok().map(HostInput::Message)
            }
            AgentEvent::Linked(link, _) if link != self.links => None,
            AgentEvent::Linked(_, Ok(bus)) => {
                self.bus = Some(bus);
                Some(HostInput::Connected(self.is_bus_up))
            }
            AgentEvent::Linked(_, Err(error)) if self.child.is_none() => return Err(error),
            // A run does not end with its bus.
            AgentEvent::Linked(_, Err(error)) => {
                remark(&error_chain(&error));
                None
            }
            AgentEvent::Locked(result) => {
                let result = result.unwrap_or_else(|error| Err(error.to_string()));
                Some(HostInput::Locked(result.map(|lock| self.lock = Some(lock))))
            }
            AgentEvent::Stored(memory, result) => {
                if memory.done.is_some() && self.memory.done.is_none() {
                    self.quiet_since = now();
                }
                self.memory = memory;
                let result =
                    result.map_err(|error| format!("cannot write '{MEMORY_FILE}': {error}"));
                if let Err(reason) = &result {
                    remark(reason);
                }
                Some(HostInput::Remembered(result))
            }
            AgentEvent::Planned(Err(reason)) => Some(HostInput::Planned(Err(reason))),
            AgentEvent::Planned(Ok(plan)) => {
                (self.watch, self.devices) = (plan.watch, plan.devices);
                self.feed(now(), HostInput::Permitted(plan.time)).await;
                Some(HostInput::Planned(Ok(plan.summary)))
            }
            AgentEvent::Started(started) => self.started(started),
            AgentEvent::Looked(follower, report) => self.looked(follower, report).await,
            AgentEvent::Read(file, offset, Ok(bytes)) => {
                Some(HostInput::Read { file, offset, bytes })
            }
            AgentEvent::Read(file, _, Err(error)) => {
                // It is asked for again.
                remark(&format!("cannot read '{file}': {error}"));
                None
            }
            AgentEvent::Child(input) => {
                if matches!(input, HostInput::ChildExited(_)) {
                    (self.child, self.follower) = (None, None);
                }
                Some(input)
            }
            AgentEvent::Inspected(run) => {
                self.run = run.as_ref().ok().map(|run| run.name.clone());
                Some(HostInput::Inspected(run))
            }
        })
    }

    /// Removes what the host keeps of a campaign that was collected or never ran.
    fn leave(&self) {
        if self.memory.done.is_none() {
            return;
        }
        let campaign = &self.invitation.campaign;
        let left = end_campaign(&self.fleet, campaign).and_then(|()| {
            // The coordinator has compared its copy with the digest.
            match is_over(&self.memory, Duration::ZERO) {
                true => self.fleet.remove_own_folder(campaign),
                false => Ok(()),
            }
        });
        if let Err(error) = left {
            remark(&format!("cannot clean up after the campaign: {error}"));
        }
    }

    async fn feed(&mut self, time: Nanos, input: HostInput) {
        for effect in self.machine.handle(time, input, &self.keys) {
            self.carry_out(effect).await;
        }
    }

    async fn carry_out(&mut self, effect: HostEffect) {
        match effect {
            HostEffect::Send(message) => self.send(message).await,
            HostEffect::Lock => {
                let (fleet, campaign) = (Arc::clone(&self.fleet), self.invitation.campaign.clone());
                self.aside(move || AgentEvent::Locked(take_lock(&fleet, &campaign)));
            }
            HostEffect::Unlock => self.lock = None,
            HostEffect::Remember(memory) => {
                let folder = Arc::clone(&self.folder);
                self.aside(move || {
                    let stored = store_memory(&folder, &memory);
                    AgentEvent::Stored(memory, stored)
                });
            }
            HostEffect::Plan { spec } => {
                let (durio, folder) = (self.durio.clone(), Arc::clone(&self.folder));
                let invitation = self.invitation.clone();
                self.aside(move || {
                    let plan = check_plan(&durio, &folder, &spec, &invitation);
                    AgentEvent::Planned(plan.map_err(|error| error_chain(&error)))
                });
            }
            HostEffect::StartChild => self.start_child(),
            HostEffect::Answer { answer, .. } => {
                if let Some(child) = &mut self.child {
                    child.answer(&answer).await;
                }
            }
            HostEffect::StopChild => match &self.child {
                Some(child) => child.stop(),
                None => self.is_stopped = true,
            },
            HostEffect::Inspect => {
                let runs = self.runs();
                self.aside(move || AgentEvent::Inspected(child::inspect(&runs)));
            }
            HostEffect::Read { file, offset, length } => {
                let (runs, run) = (self.runs(), self.run.clone().unwrap_or_default());
                self.aside(move || {
                    let piece = child::read_piece(&runs, &run, (&file, offset, length));
                    AgentEvent::Read(file, offset, piece)
                });
            }
        }
    }

    fn runs(&self) -> PathBuf {
        self.folder.path().join(child::RUNS_FOLDER)
    }

    async fn send(&self, message: BusMessage) {
        let Some(bus) = &self.bus else { return };
        let subject = message.subject(&Recipient::Coordinator);
        match self.key.encode(message) {
            Ok(bytes) => bus.publish(subject, bytes).await,
            Err(error) => remark(&error_chain(&error)),
        }
    }

    /// Tells the coordinator what the run has done, for its view; nothing depends on that.
    async fn looked(
        &mut self,
        follower: RecordFollower,
        report: Option<Vec<u8>>,
    ) -> Option<HostInput> {
        let child = self.child.as_ref()?;
        let progress = (follower.position(), child.moved());
        self.follower = Some(follower);
        // What the client would keep until the bus is back is stale then.
        if let (Some(report), Some(bus), true) = (report, &self.bus, self.is_bus_up) {
            let Invitation { campaign, host, .. } = &self.invitation;
            bus.publish(LiveReport::subject(campaign, host), report).await;
        }
        let before = std::mem::replace(&mut self.progress, progress);
        (before != progress).then_some(HostInput::Progress)
    }

    fn start_child(&self) {
        let (durio, folder) = (self.durio.clone(), Arc::clone(&self.folder));
        let (devices, invitation) = (self.devices.clone(), self.invitation.clone());
        self.aside(move || {
            let Invitation { targets, run, .. } = &invitation;
            let (durio, folder, devices) = (&durio, &folder, &devices);
            let order = ChildOrder { durio, folder, targets, devices, name: run.as_deref() };
            AgentEvent::Started(order.start())
        });
    }

    fn started(&mut self, started: io::Result<StartedChild>) -> Option<HostInput> {
        let events = self.events.clone();
        let hear = move |input| {
            let _ = events.send(AgentEvent::Child(input));
        };
        match started.and_then(|started| started.follow(hear)) {
            Ok(child) => {
                if self.is_stopped {
                    child.stop();
                }
                self.child = Some(child);
                self.follower = Some(RecordFollower::new(self.runs()));
                None
            }
            Err(error) => {
                Some(HostInput::ChildExited(Some(format!("cannot start durio: {error}"))))
            }
        }
    }
}
