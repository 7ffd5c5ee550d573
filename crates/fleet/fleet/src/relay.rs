//! `durio-fleet relay`: serves the region of a campaign on a machine near its hosts.
//!
//! ```text
//!  coordinator ── ssh ── relay ── ssh ── join on each host of the region
//!       └─ nats-server ──┘ └─ nats-server ──┘
//! ```
//!
//! Drives [`RelayMachine`], whose inputs come from both buses. Nothing is kept: a relay ends with its
//! session, the runs of its hosts go on by their timetable, and the next relay invites them again.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use durio_agree::bus_rights::{coordinator_permissions, permissions};
use durio_agree::live::{LIVE_KIND, LiveReport};
use durio_agree::message::{BusMessage, COORDINATOR, MessageError, Recipient};
use durio_agree::relay::{
    RelayConfig, RelayEffect, RelayInput, RelayMachine, host_behind, subject_by,
};
use durio_agree::sign::{SigningKey, TrustedKeys};
use durio_block::Folder;
use durio_command::{CommandError, error_chain, random_token};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::bus::{BusEvent, BusLink};
use crate::campaign_bus::{CampaignBus, raise_file_limit};
use crate::carrier::write_out;
use crate::host_disk::now;
use crate::invitation::{
    Invitation, JoinReply, REGION_BYTES_MAX, RegionReply, RelayRegion, line_of,
};
use crate::launch::Launcher;
use crate::programs::StopSignals;
use crate::session::{LinkEvent, keep};
use crate::words::remark;

/// The time between two probes of a host's clock.
const TICK: Duration = Duration::from_millis(20);
/// For the server of the region's bus, in the folder of the relay.
const BUS_FOLDER: &str = "bus";

enum RelayEvent {
    /// From the region's bus.
    Region(BusEvent),
    /// From the coordinator's bus.
    Coordinator(BusEvent),
    Link(LinkEvent),
    /// The session with the coordinator has ended.
    Over,
}

struct Relay {
    campaign: String,
    name: String,
    machine: RelayMachine,
    key: SigningKey,
    keys: TrustedKeys,
    bus: CampaignBus,
    /// To the hosts, over the bus of the region.
    region: BusLink,
    is_region_up: bool,
    coordinator: BusLink,
    /// Hosts of another protocol, of which the coordinator knows.
    strangers: BTreeSet<String>,
}

/// Reads an invitation on stdin, and serves its region until stdin closes.
///
/// # Errors
/// If it is not an invitation to a relay, or the region can have no bus.
pub(crate) fn relay() -> Result<(), CommandError> {
    let mut line = Vec::new();
    let mut input = BufReader::new(io::stdin().lock().take(REGION_BYTES_MAX));
    input.read_until(b'\n', &mut line).map_err(CommandError::cannot)?;
    drop(input);
    let result = Invitation::parse(&line).and_then(serve_region);
    if let Err(error) = &result {
        // The coordinator shows it to its user, with the name of the relay.
        tell(&JoinReply::Refused(error_chain(error)));
    }
    result
}

fn serve_region(mut invitation: Invitation) -> Result<(), CommandError> {
    let Some(region) = invitation.region.take() else {
        return Err(CommandError::wrong_use("invalid invitation: it is not one to a relay"));
    };
    invitation.bus.check()?;
    raise_file_limit(region.launch.hosts.len())?;
    let path = std::env::temp_dir().join(format!("durio-relay-{}", random_token()));
    let made = DirBuilder::new().mode(0o700).create(&path);
    made.map_err(|error| CommandError::io("make", &path, error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.map_err(CommandError::cannot).and_then(|runtime| {
        let folder = Folder::open(&path).map_err(|error| CommandError::io("open", &path, error))?;
        runtime.block_on(serve(&invitation, &region, &folder))
    });
    let _ = std::fs::remove_dir_all(&path);
    served
}

async fn serve(
    invitation: &Invitation,
    region: &RelayRegion,
    folder: &Folder,
) -> Result<(), CommandError> {
    let mut signals = StopSignals::new().map_err(CommandError::cannot)?;
    let key = SigningKey::generate();
    let mut launcher = Launcher::new(&region.launch)?;
    let (campaign, bus_folder) = (invitation.campaign.as_str(), folder.path().join(BUS_FOLDER));
    let bus = CampaignBus::start(&region.launch, bus_folder, (campaign, &key))?;
    launcher.tunnel = bus.tunnel;
    let to_hosts = Invitation { bus: bus.for_hosts()?, ..invitation.clone() };
    let (events, mut inbox) = unbounded_channel();
    let mut relay = Relay::connect(invitation, region, (key, bus), folder, &events).await?;
    let (over, is_over) = watch::channel(false);
    let mut sessions = invite(region, launcher, &to_hosts, &events, &is_over)?;
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = events.send(RelayEvent::Over);
    });
    let result = relay.serve(&mut inbox, &mut signals).await;
    // Sessions end in order: hosts remove what was copied to them.
    let _ = over.send(true);
    while sessions.join_next().await.is_some() {}
    relay.bus.stop().await;
    result
}

/// Starts a session for each host of the region.
fn invite(
    region: &RelayRegion,
    launcher: Launcher,
    to_hosts: &Invitation,
    events: &UnboundedSender<RelayEvent>,
    is_over: &watch::Receiver<bool>,
) -> Result<JoinSet<()>, CommandError> {
    let (launcher, mut sessions) = (Arc::new(launcher), JoinSet::new());
    let (links, mut heard) = unbounded_channel();
    for host in region.launch.own_hosts()? {
        let invitation = Invitation { host: host.name.clone(), ..to_hosts.clone() };
        let (host, is_over) = ((host, region.is_known), is_over.clone());
        sessions.spawn(keep(launcher.clone(), host, invitation, links.clone(), is_over));
    }
    let events = events.clone();
    tokio::spawn(async move {
        while let Some(event) = heard.recv().await {
            let _ = events.send(RelayEvent::Link(event));
        }
    });
    Ok(sessions)
}

impl Relay {
    async fn connect(
        invitation: &Invitation,
        region: &RelayRegion,
        (key, bus): (SigningKey, CampaignBus),
        folder: &Folder,
        events: &UnboundedSender<RelayEvent>,
    ) -> Result<Self, CommandError> {
        let Invitation { campaign, host: name, .. } = invitation;
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let config = RelayConfig {
            name: name.clone(),
            campaign: campaign.clone(),
            boot_id: boot_id.unwrap_or_default().trim().to_owned(),
            hosts: region.launch.hosts.iter().map(|host| host.name.clone()).collect(),
            fault: None,
        };
        let mut keys = TrustedKeys::default();
        keys.trust(COORDINATOR, &invitation.coordinator)?;
        let hear = |of: fn(BusEvent) -> RelayEvent| {
            let events = events.clone();
            move |event| {
                let _ = events.send(of(event));
            }
        };
        // Without the inboxes: no question is asked.
        let of_region = coordinator_permissions(campaign).subscribe;
        let hear_hosts = hear(RelayEvent::Region);
        let below =
            BusLink::connect(&bus.access(&key), COORDINATOR, &of_region[..1], hear_hosts).await?;
        let own = permissions(campaign, name).subscribe;
        let hear_coordinator = hear(RelayEvent::Coordinator);
        let above = {
            let access = invitation.bus.access(&key, folder)?;
            BusLink::connect(&access, name, &own[1..2], hear_coordinator).await?
        };
        // The coordinator admits this key to its bus.
        tell(&JoinReply::Key(key.public()));
        Ok(Self {
            campaign: campaign.clone(),
            name: name.clone(),
            machine: RelayMachine::new(config, now()),
            key,
            keys,
            bus,
            region: below,
            is_region_up: false,
            coordinator: above,
            strangers: BTreeSet::new(),
        })
    }

    async fn serve(
        &mut self,
        inbox: &mut UnboundedReceiver<RelayEvent>,
        signals: &mut StopSignals,
    ) -> Result<(), CommandError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = inbox.recv() => match event {
                    None | Some(RelayEvent::Over) => return Ok(()),
                    Some(event) => if let Some(input) = self.input(event) {
                        self.feed(input).await;
                    }
                },
                _ = ticks.tick() => {
                    self.bus.maintain()?;
                    self.feed(RelayInput::Tick).await;
                }
                () = signals.next() => return Ok(()),
            }
        }
    }

    fn input(&mut self, event: RelayEvent) -> Option<RelayInput> {
        match event {
            RelayEvent::Region(BusEvent::Up(is_up)) => {
                self.is_region_up = is_up;
                None
            }
            RelayEvent::Region(BusEvent::Message { subject, bytes }) => {
                self.hear_host(&subject, bytes)
            }
            RelayEvent::Coordinator(BusEvent::Up(is_up)) => Some(RelayInput::Connected(is_up)),
            RelayEvent::Coordinator(BusEvent::Message { subject, bytes }) => {
                let to = host_behind(&subject).unwrap_or_else(|| self.name.clone());
                let message = BusMessage::decode(&bytes).ok()?;
                Some(RelayInput::Coordinator { to, message })
            }
            RelayEvent::Link(LinkEvent::Key { host, key }) => {
                // The coordinator gets it as well, and names the host if it is not a key.
                if self.keys.trust(&host, &key).is_ok() {
                    self.bus.admit(&host, &key);
                }
                tell(&RegionReply { host, reply: JoinReply::Key(key) });
                None
            }
            RelayEvent::Link(LinkEvent::Unreachable { host, reason, hint }) => {
                let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                let reply = JoinReply::Refused(reason + &hint);
                tell(&RegionReply { host, reply });
                None
            }
            RelayEvent::Over => None,
        }
    }

    fn hear_host(&mut self, subject: &str, bytes: Vec<u8>) -> Option<RelayInput> {
        // c.CAMPAIGN.h.HOST.KIND, where ',' separates what '.' does in names.
        let mut parts = subject.split('.').skip(3);
        let host = parts.next()?.replace(',', ".");
        if parts.next() == Some(LIVE_KIND) {
            return Some(RelayInput::Live { host, encoded: bytes });
        }
        match BusMessage::decode(&bytes) {
            Ok(message) => Some(RelayInput::Host { host, message }),
            Err(error @ MessageError::Protocol { .. }) => {
                if self.strangers.insert(host.clone()) {
                    let reply = JoinReply::Refused(error.to_string());
                    tell(&RegionReply { host, reply });
                }
                None
            }
            // The host does not keep to the rules: for the machine it is silent.
            Err(_) => None,
        }
    }

    async fn feed(&mut self, input: RelayInput) {
        for effect in self.machine.handle(now(), input, &self.keys) {
            let sent = match effect {
                // What the client would keep until the bus is back is stale then.
                RelayEffect::ToHost { .. } if !self.is_region_up => Ok(()),
                RelayEffect::ToHost { host, message } => {
                    let subject = message.subject(&Recipient::Host(host));
                    send(&self.region, subject, &message).await
                }
                RelayEffect::ToCoordinator(message) => self.send_up(message).await,
                RelayEffect::Live(figures) => {
                    let subject = LiveReport::subject(&self.campaign, &self.name);
                    self.coordinator.publish(subject, figures).await;
                    Ok(())
                }
            };
            if let Err(error) = sent {
                remark(&error_chain(&error));
            }
        }
    }

    async fn send_up(&self, mut message: BusMessage) -> Result<(), CommandError> {
        // Messages of hosts have their signatures.
        if message.sender == self.name {
            let bytes = message.signed_bytes().map_err(CommandError::cannot)?;
            message.signature = Some(self.key.sign(&bytes)?);
        }
        send(&self.coordinator, subject_by(&self.name, &message), &message).await
    }
}

async fn send(link: &BusLink, subject: String, message: &BusMessage) -> Result<(), CommandError> {
    let encoded = message.encode().map_err(CommandError::cannot)?;
    link.publish(subject, encoded).await;
    Ok(())
}

/// A line for the coordinator's session. While that takes none, its bus is cut as well.
fn tell(line: &impl serde::Serialize) {
    if let Ok(line) = line_of(line) {
        write_out(&line);
    }
}
