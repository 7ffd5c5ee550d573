//! `durio-fleet join` without an invitation on stdin: a host that stays on a bus, and takes part in the
//! campaigns of the coordinators that its host file names.
//!
//! ```text
//!  coordinator ── bus ── this ── join ── socket ── agent ── gate ── durio run
//! ```
//!
//! A coordinator repeats its call until the campaign is over, and the host repeats its reply, so nothing
//! depends on one message. For each campaign this starts `durio-fleet join` with the invitation, as ssh
//! does; its agent dials the same bus, and only then is anything ordered.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use durio_agree::bus_rights::{CALL_ALL, call_subject, reply_subject};
use durio_agree::host_file::{self, HOST_FILE};
use durio_agree::host_list;
use durio_agree::host_name::SshHost;
use durio_agree::message::signable;
use durio_agree::sign::{SigningKey, verify};
use durio_command::{CommandError, error_chain};
use durio_observe::read_host;
use rustix::fs::{FileType, fstat};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{interval, sleep};

use crate::bus::{BusAccess, BusEvent, BusLink, SignIn, reconnect_delay};
use crate::campaign_bus::HOST_CREDENTIALS;
use crate::carrier;
use crate::invitation::{HostBus, Invitation, JoinReply, LINE_BYTES_MAX};
use crate::launch::Launcher;
use crate::programs::{StopSignals, runtime};
use crate::secrets::{key_in, read_secret};
use crate::session::Sessions;
use crate::words::remark;

/// The authority of the host's bus. Places that no message can change.
const HOST_AUTHORITY: &str = "/etc/durio/bus-ca.pem";
/// A coordinator that has not called for this long is gone, and its agent decides when to end.
const SILENCE_MAX: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// One campaign runs; others are told so.
const SESSIONS_MAX: usize = 8;

/// Take part in campaigns as a host
///
/// With an invitation on stdin, a pipe, it takes part in that campaign: durio fleet run starts it so, by
/// ssh or srun. With /dev/null or a terminal as stdin it stays, as the service durio-fleet does: it joins
/// the bus of /etc/durio/fleet.toml, and takes part in one campaign after another of the coordinators
/// that this file names, within its permits. SIGTERM ends it; a run that it serves then ends as well if
/// systemd stops the service, and otherwise continues.
///
///   durio fleet join </dev/null
///
/// It needs /etc/durio/fleet.toml with a bus, and /etc/durio/bus.creds, mode 0600; if there is
/// /etc/durio/bus-ca.pem, it trusts that authority alone. durio fleet invite makes all three.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct JoinArguments {
    /// Name of this host on the bus [default: that of its host file, or of the machine]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// To a host that joined.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HostCall {
    Join(Box<Invitation>),
    Over { campaign: String, host: String },
}

/// What a host that joined replies to a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HostReply {
    /// It waits for campaigns.
    Here {
        host: String,
    },
    Campaign {
        campaign: String,
        host: String,
        reply: JoinReply,
    },
}

/// A message with the key that signed it, and whose owner the receiver has to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SignedText {
    text: String,
    key: String,
    signature: String,
}

impl SignedText {
    pub(crate) fn encode(
        value: &impl Serialize,
        key: &SigningKey,
    ) -> Result<Vec<u8>, CommandError> {
        let text = serde_json::to_string(value).map_err(CommandError::cannot)?;
        let signature = key.sign(&signable(text.as_bytes()))?;
        let signed = Self { text, key: key.public(), signature };
        serde_json::to_vec(&signed).map_err(CommandError::cannot)
    }

    /// The message and the key; `None` if it is not one, or was changed.
    pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, String)> {
        if bytes.len() as u64 > LINE_BYTES_MAX {
            return None;
        }
        let Self { text, key, signature } = serde_json::from_slice(bytes).ok()?;
        verify(&key, &signable(text.as_bytes()), &signature).ok()?;
        Some((serde_json::from_str(&text).ok()?, key))
    }
}

pub(crate) fn join(arguments: &JoinArguments) -> Result<(), CommandError> {
    // A session of ssh or srun is a pipe or a socket, also when it ends without an invitation.
    let stays = fstat(io::stdin())
        .is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::CharacterDevice);
    if stays {
        let host = JoiningHost::read(arguments.name.clone())?;
        return runtime()?.block_on(stay(host, &arguments.name));
    }
    match &arguments.name {
        None => carrier::join(),
        Some(_) => Err(CommandError::wrong_use("--name is for a host that stays on a bus")
            .hint("the invitation on stdin has the host's name")),
    }
}

/// Who this host is on its bus.
struct JoiningHost {
    host: SshHost,
    key: SigningKey,
    bus: HostBus,
}

impl JoiningHost {
    /// # Errors
    /// If a file is missing, with what makes it.
    fn read(name: Option<String>) -> Result<Self, CommandError> {
        let missing = |text: String| {
            CommandError::cannot_measure(text).hint(
                "durio fleet invite NAME, on the machine of the bus, makes the files of a host",
            )
        };
        let file = host_file::read(HOST_FILE.as_ref())?
            .ok_or_else(|| missing(format!("this host has no host file {HOST_FILE}")))?;
        let address = file.bus.ok_or_else(|| {
            missing(format!("{HOST_FILE} names no bus")).hint("bus = \"tls://HOST:PORT\"")
        })?;
        let name = name.or(file.name).or_else(|| read_host().hostname).unwrap_or_default();
        let host = host_list::parse_name(&name).ok_or_else(|| {
            CommandError::cannot_measure(format!("'{name}' is not a name of one host"))
                .hint(format!("name = \"NAME\" in {HOST_FILE}, or --name"))
        })?;
        let credentials = Path::new(HOST_CREDENTIALS);
        if !credentials.exists() {
            return Err(missing(format!("this host has no credentials {HOST_CREDENTIALS}")));
        }
        let text = read_secret("read the credentials in", credentials)?;
        let key = key_in(&text).ok_or_else(|| {
            missing(format!("{HOST_CREDENTIALS} has neither credentials of NATS nor a seed"))
        })?;
        let path = Path::new(HOST_AUTHORITY);
        let authority = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            text => Some(text.map_err(|error| CommandError::io("read", path, error))?),
        };
        Ok(Self { host, key, bus: HostBus { address, authority, is_site: true } })
    }

    async fn connect(&self) -> Result<(BusLink, UnboundedReceiver<BusEvent>), CommandError> {
        let access = BusAccess {
            address: self.bus.address.clone(),
            authority: self.bus.authority.as_ref().map(|_| HOST_AUTHORITY.into()),
            sign_in: SignIn::File(Path::new(HOST_CREDENTIALS)),
        };
        let subjects = [CALL_ALL.to_owned(), call_subject(&self.host.name)];
        BusLink::connect_with_inbox(&access, &self.host.name, &subjects).await
    }
}

/// A campaign to which this host is called.
struct HostSession {
    /// The key that called first; calls by others do not count.
    coordinator: String,
    /// When it called last.
    heard: Instant,
    reply: Option<JoinReply>,
    /// Without it the agent stays as long as its run needs it.
    _session: Sessions,
}

type SessionReply = (String, JoinReply);

struct Standing {
    host: JoiningHost,
    sessions: BTreeMap<String, HostSession>,
    events: UnboundedSender<SessionReply>,
}

async fn stay(host: JoiningHost, name: &Option<String>) -> Result<(), CommandError> {
    let mut signals = StopSignals::new().map_err(CommandError::cannot)?;
    let (events, mut replies) = unbounded_channel();
    let mut standing = Standing { host, sessions: BTreeMap::new(), events };
    let (mut attempts, mut told) = (0, String::new());
    loop {
        let connected = tokio::select! {
            connected = standing.host.connect() => connected,
            () = signals.next() => return Ok(()),
        };
        let text = match connected {
            Ok((link, mut inbox)) => {
                let (name, address) = (standing.name(), &standing.host.bus.address);
                remark(&format!("durio: {name} has joined {address}"));
                attempts = 0;
                told.clear();
                tokio::select! {
                    () = standing.serve(&link, &mut inbox, &mut replies) => {}
                    () = signals.next() => return Ok(()),
                }
                "the bus is gone; it is dialled until it is back".to_owned()
            }
            Err(error) => error_chain(&error),
        };
        if text != told {
            remark(&format!("durio: {text}"));
            told = text;
        }
        attempts += 1;
        tokio::select! {
            () = sleep(reconnect_delay(attempts)) => {}
            () = signals.next() => return Ok(()),
        }
        // Another invitation brings other files. The link signs in with what they have now, and replies
        // are signed with the same key.
        if let Ok(host) = JoiningHost::read(name.clone()) {
            standing.host = host;
        }
    }
}

impl Standing {
    fn name(&self) -> &str {
        &self.host.host.name
    }

    /// Returns when the link breaks.
    async fn serve(
        &mut self,
        link: &BusLink,
        inbox: &mut UnboundedReceiver<BusEvent>,
        replies: &mut UnboundedReceiver<SessionReply>,
    ) {
        let mut ticks = interval(LOOK_EVERY);
        loop {
            tokio::select! {
                event = inbox.recv() => match event {
                    Some(BusEvent::Message(message)) => {
                        let (subject, bytes) = message.open();
                        if let Some(reply) = self.hear(&subject, &bytes) {
                            self.send(link, &reply).await;
                        }
                    }
                    Some(BusEvent::Up(true)) => {}
                    Some(BusEvent::Up(false)) | None => return,
                },
                Some((campaign, reply)) = replies.recv() => {
                    if let JoinReply::Refused(reason) = &reply {
                        remark(&format!("durio: {reason}"));
                    }
                    if let Some(session) = self.sessions.get_mut(&campaign) {
                        session.reply = Some(reply.clone());
                        self.send(link, &self.reply(campaign, reply)).await;
                    }
                }
                _ = ticks.tick() => {
                    self.sessions.retain(|_, session| session.heard.elapsed() < SILENCE_MAX);
                }
            }
        }
    }

    async fn send(&self, link: &BusLink, reply: &HostReply) {
        match SignedText::encode(reply, &self.host.key) {
            Ok(bytes) => link.publish(reply_subject(self.name()), bytes).await,
            Err(error) => remark(&format!("durio: {}", error_chain(&error))),
        }
    }

    fn reply(&self, campaign: String, reply: JoinReply) -> HostReply {
        HostReply::Campaign { campaign, host: self.name().to_owned(), reply }
    }

    /// What to say to a message of the bus.
    fn hear(&mut self, subject: &str, bytes: &[u8]) -> Option<HostReply> {
        if subject == CALL_ALL {
            return Some(HostReply::Here { host: self.name().to_owned() });
        }
        let (call, key): (HostCall, String) = SignedText::decode(bytes)?;
        let (campaign, host) = match &call {
            HostCall::Join(invitation) => (&invitation.campaign, &invitation.host),
            HostCall::Over { campaign, host } => (campaign, host),
        };
        // One for another host, which a server that was broken into sends here.
        if host != self.name() || is_by_other(&self.sessions, campaign, &key) {
            return None;
        }
        let campaign = campaign.clone();
        let reply = match self.answer(call, &key) {
            Ok(reply) => reply?,
            Err(error) => JoinReply::Refused(error_chain(&error)),
        };
        Some(self.reply(campaign, reply))
    }

    /// An error is a refusal.
    fn answer(&mut self, call: HostCall, key: &str) -> Result<Option<JoinReply>, CommandError> {
        check_coordinator(HOST_FILE.as_ref(), key)?;
        match call {
            HostCall::Join(invitation) if invitation.coordinator == key => {
                return self.join(*invitation);
            }
            HostCall::Join(_) => {}
            HostCall::Over { campaign, .. } => {
                self.sessions.remove(&campaign);
            }
        }
        Ok(None)
    }

    /// Starts a session, which is made again when it breaks, or repeats its reply.
    fn join(&mut self, invitation: Invitation) -> Result<Option<JoinReply>, CommandError> {
        let (campaign, now) = (invitation.campaign.clone(), Instant::now());
        let coordinator = invitation.coordinator.clone();
        if let Some(session) = self.sessions.get_mut(&campaign) {
            session.heard = now;
            return Ok(session.reply.clone());
        }
        if self.sessions.len() >= SESSIONS_MAX {
            let text = format!("this host is called to {SESSIONS_MAX} campaigns already");
            return Err(CommandError::cannot_measure(text));
        }
        // Its own bus, whatever the coordinator calls it.
        let bus = self.host.bus.clone();
        let invitation = Invitation { bus, is_joined: true, region: None, ..invitation };
        Invitation::parse(&invitation.line()?)?;
        let (events, of) = (self.events.clone(), campaign.clone());
        let mut session = Sessions::new(Launcher::here(), move |answer| {
            let _ = events.send((of.clone(), answer.reply));
        });
        session.invite((self.host.host.clone(), true), invitation);
        let session = HostSession { coordinator, heard: now, reply: None, _session: session };
        self.sessions.insert(campaign, session);
        Ok(None)
    }
}

/// True if another coordinator has the campaign, which the host knows as well.
fn is_by_other(sessions: &BTreeMap<String, HostSession>, campaign: &str, key: &str) -> bool {
    sessions.get(campaign).is_some_and(|session| session.coordinator != key)
}

/// Refuses a coordinator whose key is not in the host file as it is now.
fn check_coordinator(file: &Path, key: &str) -> Result<(), CommandError> {
    let known = host_file::read(file)?.map(|file| file.coordinators).unwrap_or_default();
    match known.iter().any(|coordinator| coordinator.key == key) {
        true => Ok(()),
        false => Err(CommandError::cannot_measure(format!(
            "the coordinator's key '{key}' is not in the host file"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::invitation;

    fn standing() -> Standing {
        let address = "tls://127.0.0.1:4222".to_owned();
        let bus = HostBus { address, authority: None, is_site: true };
        let host = host_list::parse_name("db1").unwrap();
        let host = JoiningHost { host, key: SigningKey::generate(), bus };
        Standing { host, sessions: BTreeMap::new(), events: unbounded_channel().0 }
    }

    fn session(coordinator: &str) -> HostSession {
        HostSession {
            coordinator: coordinator.to_owned(),
            heard: Instant::now(),
            reply: None,
            _session: Sessions::new(Launcher::here(), |_| {}),
        }
    }

    fn over() -> HostCall {
        HostCall::Over { campaign: "7f".to_owned(), host: "db1".to_owned() }
    }

    #[test]
    fn a_signed_message_is_read_with_its_key_and_a_changed_one_is_not() {
        let key = SigningKey::generate();
        let bytes = SignedText::encode(&over(), &key).unwrap();
        let (call, signer): (HostCall, String) = SignedText::decode(&bytes).unwrap();
        assert!(
            matches!(call, HostCall::Over { campaign, host } if campaign == "7f" && host == "db1")
        );
        assert_eq!(signer, key.public());
        let text = String::from_utf8(bytes.clone()).unwrap();
        let other = SigningKey::generate().public();
        for changed in [text.replace("db1", "db2"), text.replace(&key.public(), &other)] {
            assert_ne!(changed, text);
            assert!(SignedText::decode::<HostCall>(changed.as_bytes()).is_none());
        }
        // A server has its users sign texts of its choice when they sign in.
        let text = serde_json::to_string(&over()).unwrap();
        let signature = key.sign(text.as_bytes()).unwrap();
        let of_server = SignedText { text, key: key.public(), signature };
        let of_server = serde_json::to_vec(&of_server).unwrap();
        assert!(SignedText::decode::<HostCall>(&of_server).is_none());
        // A reply is not a call.
        assert!(SignedText::decode::<HostReply>(&bytes).is_none());
        let mut long = bytes;
        long.resize(usize::try_from(LINE_BYTES_MAX).unwrap(), b' ');
        assert!(SignedText::decode::<HostCall>(&long).is_some());
        long.push(b' ');
        assert!(SignedText::decode::<HostCall>(&long).is_none());
    }

    #[test]
    fn a_coordinator_cannot_use_or_end_the_session_of_another() {
        let sessions = BTreeMap::from([("7f".to_owned(), session("UA"))]);
        assert!(is_by_other(&sessions, "7f", "UB"));
        assert!(!is_by_other(&sessions, "7f", "UA") && !is_by_other(&sessions, "8f", "UB"));
    }

    #[test]
    fn a_call_that_is_meant_for_another_host_has_no_reply() {
        let (mut standing, key) = (standing(), SigningKey::generate());
        let mut reply = |host: &str| {
            let call = HostCall::Over { campaign: "7f".to_owned(), host: host.to_owned() };
            standing.hear("j.to.db1", &SignedText::encode(&call, &key).unwrap())
        };
        assert!(reply("db2").is_none());
        // By a coordinator that no host file names.
        let refused = reply("db1").unwrap();
        let is_refused =
            matches!(refused, HostReply::Campaign { reply: JoinReply::Refused(_), .. });
        assert!(is_refused, "{refused:?}");
    }

    #[test]
    fn a_host_is_called_to_eight_campaigns_at_most() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _context = runtime.enter();
        let mut standing = standing();
        standing.sessions.extend((0..8).map(|number| (number.to_string(), session("UA"))));
        let sentence = error_chain(&standing.join(invitation()).unwrap_err());
        assert_eq!(sentence, "this host is called to 8 campaigns already");
        standing.sessions.pop_first();
        assert_eq!(standing.join(invitation()).unwrap(), None);
        assert_eq!(standing.sessions.len(), 8);
    }

    #[test]
    fn a_coordinator_counts_if_the_host_file_has_its_key_at_that_moment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.toml");
        let (known, other) = (SigningKey::generate().public(), SigningKey::generate().public());
        let sentence =
            |key: &str| check_coordinator(&path, key).map_err(|error| error_chain(&error));
        let refused = |key: &str| -> Result<(), String> {
            Err(format!("the coordinator's key '{key}' is not in the host file"))
        };
        assert_eq!(sentence(&known), refused(&known));
        let coordinator = format!("[[coordinator]]\nname = \"fleet\"\nkey = \"{known}\"\n");
        fs::write(&path, format!("schema = 1\n{coordinator}")).unwrap();
        assert_eq!(sentence(&known), Ok(()));
        assert_eq!(sentence(&other), refused(&other));
        fs::write(&path, "schema = 1\n").unwrap();
        assert_eq!(sentence(&known), refused(&known));
    }
}
