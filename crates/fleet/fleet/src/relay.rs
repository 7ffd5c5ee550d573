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
use std::io;
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
use tokio::time::{MissedTickBehavior, interval};

use crate::bus::{BusEvent, BusLink};
use crate::campaign_bus::{CampaignBus, raise_file_limit};
use crate::carrier::{read_invitation, tell};
use crate::host_disk::now;
use crate::invitation::{
    HostAnswer, Invitation, JoinReply, REGION_BYTES_MAX, RelayRegion, SessionGreeting,
};
use crate::launch::Launcher;
use crate::leftovers::{RELAY_FOLDER, remove_dead_relays};
use crate::programs::{StopSignals, runtime};
use crate::session::Sessions;
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
    Answer(HostAnswer),
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
    let result = read_invitation(REGION_BYTES_MAX).and_then(serve_region);
    if let Err(error) = &result {
        // The coordinator shows it to its user, with the name of the relay.
        tell(&SessionGreeting::of_relay(JoinReply::Refused(error_chain(error))));
    }
    result
}

fn serve_region(mut invitation: Invitation) -> Result<(), CommandError> {
    let Some(region) = invitation.region.take() else {
        return Err(CommandError::wrong_use("invalid invitation: it is not one to a relay"));
    };
    invitation.bus.check()?;
    raise_file_limit(region.launch.hosts.len())?;
    let parent = std::path::absolute(std::env::temp_dir()).map_err(CommandError::cannot)?;
    if let Err(error) = remove_dead_relays(&parent) {
        remark(&format!("durio: cannot remove the folder of a relay that was killed: {error}"));
    }
    let path = parent.join(format!("{RELAY_FOLDER}{}", random_token()));
    let made = Folder::make_own_path(&path).and_then(|folder| {
        // The next relay does not take it for one that was left.
        folder.try_lock()?;
        Ok(folder)
    });
    let folder = made.map_err(|error| CommandError::io("make", &path, error))?;
    let served =
        runtime().and_then(|runtime| runtime.block_on(serve(&invitation, &region, &folder)));
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
    let answers = events.clone();
    let mut sessions = Sessions::new(launcher, move |answer| {
        let _ = answers.send(RelayEvent::Answer(answer));
    });
    for host in region.launch.own_hosts()? {
        let invitation = Invitation { host: host.name.clone(), ..to_hosts.clone() };
        sessions.invite((host, region.is_known), invitation);
    }
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = events.send(RelayEvent::Over);
    });
    let result = relay.serve(&mut inbox, &mut signals).await;
    sessions.end().await;
    relay.bus.stop().await;
    result
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
        tell(&SessionGreeting::of_relay(JoinReply::Key(key.public())));
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
            RelayEvent::Region(BusEvent::Message(message)) => {
                let (subject, bytes) = message.open();
                self.hear_host(&subject, bytes)
            }
            RelayEvent::Coordinator(BusEvent::Up(is_up)) => Some(RelayInput::Connected(is_up)),
            RelayEvent::Coordinator(BusEvent::Message(message)) => {
                let (subject, bytes) = message.open();
                let to = host_behind(&subject).unwrap_or_else(|| self.name.clone());
                let message = BusMessage::decode(&bytes).ok()?;
                Some(RelayInput::Coordinator { to, message })
            }
            RelayEvent::Answer(mut answer) => {
                match &mut answer.reply {
                    // The coordinator gets it as well, and names the host if it is not a key.
                    JoinReply::Key(key) => {
                        if self.keys.trust(&answer.host, key).is_ok() {
                            self.bus.admit(&answer.host, key);
                        }
                    }
                    JoinReply::Refused(reason) => {
                        if let Some(hint) = answer.hint {
                            reason.push_str(&format!("; {hint}"));
                        }
                    }
                }
                tell(&answer);
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
                    tell(&HostAnswer::refused(host, error.to_string(), None));
                }
                None
            }
            // The host does not keep to the rules: for the machine it is silent.
            Err(_) => None,
        }
    }

    async fn feed(&mut self, input: RelayInput) {
        for effect in self.machine.handle(now(), input, &self.keys) {
            if let Err(error) = self.carry_out(effect).await {
                remark(&error_chain(&error));
            }
        }
    }

    async fn carry_out(&self, effect: RelayEffect) -> Result<(), CommandError> {
        let (link, subject, encoded) = match effect {
            // What the client would keep until the bus is back is stale then.
            RelayEffect::ToHost { .. } if !self.is_region_up => return Ok(()),
            RelayEffect::ToHost { host, message } => {
                let subject = message.subject(&Recipient::Host(host));
                (&self.region, subject, message.encode().map_err(CommandError::cannot)?)
            }
            RelayEffect::ToCoordinator(message) => {
                let subject = subject_by(&self.name, &message);
                // Messages of hosts have their signatures.
                let encoded = match message.sender == self.name {
                    true => self.key.encode(message)?,
                    false => message.encode().map_err(CommandError::cannot)?,
                };
                (&self.coordinator, subject, encoded)
            }
            RelayEffect::Live(figures) => {
                (&self.coordinator, LiveReport::subject(&self.campaign, &self.name), figures)
            }
        };
        link.publish(subject, encoded).await;
        Ok(())
    }
}
