//! The coordinator's calls to hosts that stay on a bus (`--via joined`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use durio_agree::bus_rights::{CALL_ALL, REPLIES, call_subject, reply_subject};
use durio_agree::host_list;
use durio_agree::host_name::SshHost;
use durio_agree::message::COORDINATOR;
use durio_agree::sign::SigningKey;
use durio_command::{CommandError, error_chain};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{interval, timeout, timeout_at};

use crate::bus::{BusAccess, BusEvent, BusLink, SignIn};
use crate::invitation::{HostAnswer, Invitation, JoinReply};
use crate::joined::{HostCall, HostReply, SignedText};
use crate::launch::BusChoice;
use crate::programs::runtime;
use crate::session::{HearAnswer, told_over};
use crate::standing_bus::invited_keys;

const CALL_EVERY: Duration = Duration::from_secs(2);
/// An agent that is there answers within a second; one that dials its bus again, within two more.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// A bus that is gone at the end is not waited for.
const END_MAX: Duration = Duration::from_secs(2);
/// How long hosts have to say that they are there.
const HERE_MAX: Duration = Duration::from_secs(4);

/// Calls hosts as long as their campaign lasts.
#[derive(Debug)]
pub(crate) struct HostCaller {
    pub(crate) bus: BusChoice,
    pub(crate) key: SigningKey,
}

/// A host that is called.
struct CalledHost {
    call: Vec<u8>,
    /// The key of its agent.
    key: Option<String>,
    /// Its refusal is known to the campaign.
    is_told: bool,
}

/// A link to the bus, and the replies of its hosts.
struct CallLink {
    link: BusLink,
    is_up: bool,
    inbox: UnboundedReceiver<BusEvent>,
    /// The keys of hosts, where this machine has them.
    invited: Option<BTreeMap<String, String>>,
}

impl CallLink {
    async fn connect(bus: &BusChoice) -> Result<Self, CommandError> {
        let BusChoice::Site { address, credentials, authority, invited } = bus else {
            return Err(CommandError::wrong_use("hosts can join a bus that stays, and no other"));
        };
        let invited = invited.as_deref().map(invited_keys).transpose()?;
        let (address, authority) = (address.clone(), authority.clone());
        let access = BusAccess { address, authority, sign_in: SignIn::File(credentials) };
        let subjects = [REPLIES.to_owned()];
        let (link, inbox) = BusLink::connect_with_inbox(&access, COORDINATOR, &subjects).await?;
        Ok(Self { link, is_up: true, inbox, invited })
    }

    async fn send(&self, host: &str, call: Vec<u8>) {
        // What the client would keep until the bus is back is repeated anyway.
        if self.is_up {
            self.link.publish(call_subject(host), call).await;
        }
    }

    /// A host that is not invited cannot sign a reply that counts.
    fn is_invited(&self, host: &str) -> bool {
        self.invited.as_ref().is_none_or(|keys| keys.contains_key(host))
    }

    /// The next reply that a host has signed.
    async fn next(&mut self) -> HostReply {
        loop {
            match self.inbox.recv().await {
                Some(BusEvent::Message(message)) => {
                    let (subject, bytes) = message.open();
                    if let Some(reply) = accept_reply(&subject, &bytes, self.invited.as_ref()) {
                        return reply;
                    }
                }
                Some(BusEvent::Up(is_up)) => self.is_up = is_up,
                // The link has ended; what waits for a reply has its own limit.
                None => std::future::pending().await,
            }
        }
    }
}

/// A reply of the host that may use this subject. Where the keys of hosts are known here, the reply must
/// be signed by that host's; otherwise the permissions of the bus say who it is.
fn accept_reply(
    subject: &str,
    bytes: &[u8],
    invited: Option<&BTreeMap<String, String>>,
) -> Option<HostReply> {
    let (reply, key): (HostReply, String) = SignedText::decode(bytes)?;
    let (HostReply::Here { host } | HostReply::Campaign { host, .. }) = &reply;
    let is_own = subject == reply_subject(host);
    let is_known = invited.is_none_or(|keys| keys.get(host) == Some(&key));
    (is_own && is_known).then_some(reply)
}

impl HostCaller {
    /// Calls the hosts until `over` is set. Hosts that were never `is_known` to take part have to answer
    /// in time.
    pub(crate) async fn call(
        self,
        invitations: Vec<Invitation>,
        is_known: bool,
        hear: HearAnswer,
        mut over: watch::Receiver<bool>,
    ) {
        let campaign = invitations.first().map(|first| first.campaign.clone()).unwrap_or_default();
        let names: Vec<String> = invitations.iter().map(|one| one.host.clone()).collect();
        let prepared = self.prepare(invitations);
        let connected = CallLink::connect(&self.bus).await;
        let (mut hosts, mut link) = match (prepared, connected) {
            (Ok(hosts), Ok(link)) => (hosts, link),
            (Err(error), _) | (_, Err(error)) => {
                let reason = error_chain(&error);
                for host in names {
                    hear(HostAnswer::refused(host, reason.clone(), None));
                }
                return;
            }
        };
        let (mut ticks, began) = (interval(CALL_EVERY), Instant::now());
        let strangers = part_with(&mut hosts, |host, _| link.is_invited(host));
        for host in strangers {
            hear(HostAnswer::refused(host, "it is not invited to the bus".to_owned(), None));
        }
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    for host in without_answer(&mut hosts, is_known, began.elapsed()) {
                        let reason = "it has not joined the bus, or does not answer".to_owned();
                        hear(HostAnswer::refused(host, reason, None));
                    }
                    for (host, called) in &hosts {
                        link.send(host, called.call.clone()).await;
                    }
                }
                reply = link.next() => {
                    if let Some(answer) = note_reply(&mut hosts, &campaign, reply) {
                        if let (JoinReply::Refused(_), false) = (&answer.reply, is_known) {
                            hosts.remove(&answer.host);
                        }
                        hear(answer);
                    }
                }
                () = told_over(&mut over) => break,
            }
        }
        for host in hosts.into_keys() {
            let call = HostCall::Over { campaign: campaign.clone(), host: host.clone() };
            if let Ok(bytes) = SignedText::encode(&call, &self.key) {
                link.send(&host, bytes).await;
            }
        }
        let _ = timeout(END_MAX, link.link.flush()).await;
    }

    fn prepare(
        &self,
        invitations: Vec<Invitation>,
    ) -> Result<BTreeMap<String, CalledHost>, CommandError> {
        let prepared = invitations.into_iter().map(|invitation| {
            let host = invitation.host.clone();
            let call = HostCall::Join(Box::new(invitation));
            let call = SignedText::encode(&call, &self.key)?;
            Ok((host, CalledHost { call, key: None, is_told: false }))
        });
        prepared.collect()
    }
}

/// Stops calling hosts that have not answered in time, and names them.
fn without_answer(
    hosts: &mut BTreeMap<String, CalledHost>,
    is_known: bool,
    waited: Duration,
) -> Vec<String> {
    part_with(hosts, |_, host| is_known || waited <= ANSWER_MAX || host.key.is_some())
}

/// Keeps some hosts, and names the others.
fn part_with(
    hosts: &mut BTreeMap<String, CalledHost>,
    is_kept: impl Fn(&str, &CalledHost) -> bool,
) -> Vec<String> {
    let mut others = Vec::new();
    hosts.retain(|name, host| {
        let is_kept = is_kept(name, host);
        if !is_kept {
            others.push(name.clone());
        }
        is_kept
    });
    others
}

/// What a reply is to the campaign: a host that joins, or refuses; nothing if that is known.
fn note_reply(
    hosts: &mut BTreeMap<String, CalledHost>,
    campaign: &str,
    reply: HostReply,
) -> Option<HostAnswer> {
    let HostReply::Campaign { campaign: meant, host, reply } = reply else { return None };
    let called = hosts.get_mut(&host).filter(|_| meant == campaign)?;
    match &reply {
        JoinReply::Key(key) if called.key.as_ref() == Some(key) => return None,
        JoinReply::Key(key) => (called.key, called.is_told) = (Some(key.clone()), false),
        // A host that had joined is lost, which the machine notices; it may come back.
        JoinReply::Refused(_) if called.key.is_some() || called.is_told => return None,
        JoinReply::Refused(_) => called.is_told = true,
    }
    Some(HostAnswer { host, reply: reply.bounded(), hint: None })
}

/// The hosts that have joined a bus.
///
/// # Errors
/// If the bus cannot be used, or none has.
pub(crate) fn joined_hosts(bus: &BusChoice) -> Result<Vec<SshHost>, CommandError> {
    let names = runtime()?.block_on(names_on(bus))?;
    // A text that is not a name is from some other program.
    let hosts: Vec<SshHost> = names.iter().filter_map(|name| host_list::parse_name(name)).collect();
    if hosts.is_empty() {
        return Err(CommandError::cannot_measure("no host has joined the bus")
            .hint("on each host: durio fleet join </dev/null, or the service durio-fleet"));
    }
    Ok(hosts)
}

async fn names_on(bus: &BusChoice) -> Result<BTreeSet<String>, CommandError> {
    let (mut link, mut names) = (CallLink::connect(bus).await?, BTreeSet::new());
    // Where the keys of hosts are known here, no other host can reply.
    let most = link.invited.as_ref().map_or(usize::MAX, BTreeMap::len);
    // Twice: a host may just dial the bus again.
    for _ in 0..2 {
        link.link.publish(CALL_ALL.to_owned(), Vec::new()).await;
        let until = Instant::now() + HERE_MAX / 2;
        while names.len() < most
            && let Ok(reply) = timeout_at(until.into(), link.next()).await
        {
            if let HostReply::Here { host } = reply {
                names.insert(host);
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(names: &[&str]) -> BTreeMap<String, CalledHost> {
        let host = || CalledHost { call: Vec::new(), key: None, is_told: false };
        names.iter().map(|name| ((*name).to_owned(), host())).collect()
    }

    fn reply(campaign: &str, host: &str, reply: JoinReply) -> HostReply {
        HostReply::Campaign { campaign: campaign.to_owned(), host: host.to_owned(), reply }
    }

    #[test]
    fn each_key_and_the_first_refusal_of_a_host_are_news() {
        let mut hosts = called(&["db1", "db2", "db4"]);
        let mut news = |campaign: &str, host: &str, said: JoinReply| match note_reply(
            &mut hosts,
            campaign,
            reply("7f", host, said),
        ) {
            Some(HostAnswer { host, reply: JoinReply::Key(key), .. }) => format!("{host} {key}"),
            Some(HostAnswer { host, reply: JoinReply::Refused(reason), .. }) => {
                format!("{host}: {reason}")
            }
            None => String::new(),
        };
        let key = |key: &str| JoinReply::Key(key.to_owned());
        let refused = || JoinReply::Refused("no".to_owned());
        assert_eq!(news("7f", "db1", key("U1")), "db1 U1");
        assert_eq!(news("7f", "db1", key("U1")), "");
        // Its agent was started again.
        assert_eq!(news("7f", "db1", key("U2")), "db1 U2");
        assert_eq!(news("7f", "db1", refused()), "");
        assert_eq!(news("7f", "db2", refused()), "db2: no");
        assert_eq!(news("7f", "db2", refused()), "");
        // It is cut, as the words of ssh are.
        let long = JoinReply::Refused("x".repeat(501));
        assert_eq!(news("7f", "db4", long), format!("db4: {}", "x".repeat(500)));
        assert_eq!(news("8f", "db2", key("U3")), "", "of another campaign");
        assert_eq!(news("7f", "db3", key("U3")), "", "not called");
    }

    #[test]
    fn a_host_has_20_s_to_answer_for_the_first_time_and_one_that_took_part_has_more() {
        let left = |is_known, waited: u64| {
            let mut hosts = called(&["db1", "db2"]);
            note_reply(&mut hosts, "7f", reply("7f", "db1", JoinReply::Key("U1".to_owned())));
            let silent = without_answer(&mut hosts, is_known, Duration::from_millis(waited));
            (hosts.into_keys().collect::<Vec<_>>(), silent)
        };
        let both = (vec!["db1".to_owned(), "db2".to_owned()], Vec::new());
        assert_eq!(left(false, 20_000), both);
        assert_eq!(left(false, 20_001), (vec!["db1".to_owned()], vec!["db2".to_owned()]));
        assert_eq!(left(true, 20_001), both);
    }

    #[test]
    fn a_reply_counts_if_its_host_may_use_the_subject_and_the_invited_key_signed_it() {
        let [key, other] = [SigningKey::generate(), SigningKey::generate()];
        let here = HostReply::Here { host: "db1.example".to_owned() };
        let signed = |key: &SigningKey| SignedText::encode(&here, key).unwrap();
        let invited: BTreeMap<String, String> = [("db1.example".to_owned(), key.public())].into();
        type Keys = BTreeMap<String, String>;
        let is_accepted = |subject: &str, key: &SigningKey, invited: Option<&Keys>| {
            accept_reply(subject, &signed(key), invited).is_some()
        };
        let own = "j.h.db1,example";
        assert!(is_accepted(own, &key, Some(&invited)));
        assert!(!is_accepted("j.h.db2,example", &key, Some(&invited)));
        assert!(!is_accepted(own, &other, Some(&invited)));
        assert!(!is_accepted(own, &key, Some(&BTreeMap::new())), "revoked");
        // The keys are not here: the permissions of the bus decide.
        assert!(is_accepted(own, &other, None));
        assert!(!is_accepted("j.h.db2,example", &other, None));
    }
}
