//! The invitation that a coordinator sends to a host by stdin, and the reply: a line of JSON each. Secrets stay where they are made: only public keys travel.

use durio_agree::bus_rights::check_bus_address;
use durio_agree::message::is_campaign;
use durio_command::CommandError;
use durio_record::fleet::check_name;
use serde::{Deserialize, Serialize};

use crate::launch::{HostTarget, LaunchSettings};
use crate::programs::last_line;

/// Far above a hundred targets with long paths.
pub(crate) const LINE_BYTES_MAX: u64 = 256 << 10;
/// The same with a region of 2,000 hosts, whose names and addresses have up to 600 bytes.
pub(crate) const REGION_BYTES_MAX: u64 = 2 << 20;

/// Asks a host to join a campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Invitation {
    pub(crate) campaign: String,
    /// The host's name in the campaign.
    pub(crate) host: String,
    /// The public key that signs orders.
    pub(crate) coordinator: String,
    pub(crate) bus: HostBus,
    /// The name of the run on the host.
    pub(crate) run: Option<String>,
    pub(crate) targets: Vec<HostTarget>,
    /// No login is the consent of a host that joined: without its host file it permits nothing.
    #[serde(default)]
    pub(crate) is_joined: bool,
    /// Only in the invitation of a relay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<Box<RelayRegion>>,
}

/// The hosts of a relay, and how it reaches them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RelayRegion {
    pub(crate) launch: LaunchSettings,
    /// The hosts may have joined before: one that cannot be reached is tried again.
    pub(crate) is_known: bool,
}

/// What a host has answered to its invitation; a relay writes a line for each answer in its region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostAnswer {
    pub(crate) host: String,
    pub(crate) reply: JoinReply,
    /// What helps, if the host cannot be reached.
    #[serde(skip)]
    pub(crate) hint: Option<&'static str>,
}

impl HostAnswer {
    pub(crate) fn key(host: String, key: String) -> Self {
        Self { host, reply: JoinReply::Key(key), hint: None }
    }

    pub(crate) fn refused(host: String, reason: String, hint: Option<&'static str>) -> Self {
        Self { host, reply: JoinReply::Refused(reason), hint }
    }
}

/// How a host reaches the bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostBus {
    pub(crate) address: String,
    /// The certificate of the only authority that the host trusts for it, in PEM; without one the
    /// authorities of its system.
    pub(crate) authority: Option<String>,
    /// The host signs in to it with its own credentials, instead of the key of the campaign.
    pub(crate) is_site: bool,
}

/// The first line of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionGreeting {
    #[serde(flatten)]
    pub(crate) reply: JoinReply,
    /// The version of a relay; hosts name theirs in each status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
}

/// What a host or a relay says to an invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JoinReply {
    /// The host's public key.
    Key(String),
    Refused(String),
}

impl SessionGreeting {
    pub(crate) fn of_relay(reply: JoinReply) -> Self {
        Self { reply, version: Some(env!("CARGO_PKG_VERSION").to_owned()) }
    }
}

impl JoinReply {
    /// As a user can read it: a reason is cut, as the words of ssh are.
    pub(crate) fn bounded(self) -> Self {
        match self {
            Self::Key(key) => Self::Key(key),
            Self::Refused(reason) => Self::Refused(last_line(reason.as_bytes())),
        }
    }
}

impl Invitation {
    /// Reads the line of a coordinator; names in it become parts of paths.
    ///
    /// # Errors
    /// If it is not an invitation.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, CommandError> {
        let invalid = |reason: String| {
            CommandError::wrong_use(format!("invalid invitation: {reason}"))
                .hint("durio-fleet run sends it; with </dev/null durio-fleet join stays on a bus")
        };
        let invitation: Self =
            serde_json::from_slice(line).map_err(|error| invalid(error.to_string()))?;
        if !is_campaign(&invitation.campaign) {
            return Err(invalid("the campaign has not 32 hexadecimal digits".to_owned()));
        }
        check_name(&invitation.host)
            .map_err(|reason| invalid(format!("the name of the host {reason}")))?;
        check_bus_address(&invitation.bus.address)?;
        Ok(invitation)
    }

    pub(crate) fn line(&self) -> Result<Vec<u8>, CommandError> {
        line_of(self)
    }
}

/// A line of JSON.
pub(crate) fn line_of(value: &impl Serialize) -> Result<Vec<u8>, CommandError> {
    let mut line = serde_json::to_vec(value).map_err(CommandError::cannot)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::invitation;

    #[test]
    fn an_invitation_is_read_as_it_was_sent() {
        let sent = invitation();
        assert_eq!(Invitation::parse(&sent.line().unwrap()).unwrap(), sent);
    }

    #[test]
    fn names_that_would_lead_elsewhere_are_refused() {
        for (host, campaign) in [
            ("../x", "0123456789abcdef0123456789abcdef"),
            ("-oProxyCommand", "0123456789abcdef0123456789abcdef"),
            ("db", "0123456789abcdef0123456789abcde"),
            ("db", "../3456789abcdef0123456789abcdef"),
        ] {
            let changed =
                Invitation { host: host.to_owned(), campaign: campaign.to_owned(), ..invitation() };
            Invitation::parse(&changed.line().unwrap()).unwrap_err();
        }
        Invitation::parse(b"{}").unwrap_err();
    }

    #[test]
    fn a_campaign_has_32_small_hexadecimal_digits_and_a_reply_is_a_key_or_a_refusal() {
        let digits = "0123456789abcdef0123456789abcdef";
        let is_accepted = |campaign: &str| {
            let changed = Invitation { campaign: campaign.to_owned(), ..invitation() };
            Invitation::parse(&changed.line().unwrap()).is_ok()
        };
        assert!(is_accepted(digits));
        for campaign in [&digits[1..], &format!("{digits}0"), &digits.to_uppercase()] {
            assert!(!is_accepted(campaign), "{campaign}");
        }
        let line = |reply: JoinReply| String::from_utf8(line_of(&reply).unwrap()).unwrap();
        assert_eq!(line(JoinReply::Key("UX".to_owned())), "{\"key\":\"UX\"}\n");
        assert_eq!(line(JoinReply::Refused("no".to_owned())), "{\"refused\":\"no\"}\n");
    }

    #[test]
    fn a_host_sends_nothing_to_another_machine_without_tls() {
        for (address, is_accepted) in [
            ("tls://10.0.0.1:4222", true),
            ("nats://127.0.0.1:4222", true),
            ("nats://10.0.0.1:4222", false),
            ("tls://user:secret@10.0.0.1:4222", false),
        ] {
            let bus = HostBus { address: address.to_owned(), authority: None, is_site: false };
            let changed = Invitation { bus, ..invitation() };
            let parsed = Invitation::parse(&changed.line().unwrap());
            assert_eq!(parsed.is_ok(), is_accepted, "{address}");
        }
    }
}
