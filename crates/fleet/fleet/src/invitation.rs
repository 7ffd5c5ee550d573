//! The invitation that a coordinator sends to a host by stdin, and the reply: a line of JSON each. Secrets stay where they are made: only public keys travel.

use std::path::PathBuf;

use durio_agree::bus_rights::check_bus_address;
use durio_command::CommandError;
use durio_record::fleet::check_name;
use serde::{Deserialize, Serialize};

/// Far above a hundred targets with long paths.
pub(crate) const LINE_BYTES_MAX: u64 = 256 << 10;

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

/// A target of the spec, and its folder on the hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostTarget {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// The first line that a host writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JoinReply {
    /// The host's public key.
    Key(String),
    Refused(String),
}

impl Invitation {
    /// Reads the line of a coordinator; names in it become parts of paths.
    ///
    /// # Errors
    /// If it is not an invitation.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, CommandError> {
        let invalid = |reason: String| {
            CommandError::wrong_use(format!("invalid invitation: {reason}"))
                .hint("durio-fleet run sends it; a person has no use for durio-fleet join")
        };
        let invitation: Self =
            serde_json::from_slice(line).map_err(|error| invalid(error.to_string()))?;
        let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        if invitation.campaign.len() != 32 || !invitation.campaign.bytes().all(is_digit) {
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

impl std::str::FromStr for HostTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, path) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty() && !name.contains('/'))
            .ok_or(
                "expected NAME=PATH with the target's name in the spec, such as data=/srv/data",
            )?;
        match path.starts_with('/') {
            true => Ok(Self { name: name.to_owned(), path: path.into() }),
            false => Err(format!("'{path}' is not an absolute path on the hosts")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bus(address: &str) -> HostBus {
        HostBus { address: address.to_owned(), authority: None, is_site: false }
    }

    fn invitation() -> Invitation {
        Invitation {
            campaign: "0123456789abcdef0123456789abcdef".to_owned(),
            host: "db-7".to_owned(),
            coordinator: "U".to_owned(),
            bus: bus("nats://127.0.0.1:4222"),
            run: None,
            targets: vec!["data=/srv/x".parse().unwrap()],
        }
    }

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
    fn a_host_sends_nothing_to_another_machine_without_tls() {
        for (address, is_accepted) in [
            ("tls://10.0.0.1:4222", true),
            ("nats://127.0.0.1:4222", true),
            ("nats://10.0.0.1:4222", false),
            ("tls://user:secret@10.0.0.1:4222", false),
        ] {
            let changed = Invitation { bus: bus(address), ..invitation() };
            let parsed = Invitation::parse(&changed.line().unwrap());
            assert_eq!(parsed.is_ok(), is_accepted, "{address}");
        }
    }

    #[test]
    fn a_target_has_a_name_and_an_absolute_path() {
        let target: HostTarget = "log=/srv/a=b".parse().unwrap();
        assert_eq!((target.name.as_str(), target.path), ("log", PathBuf::from("/srv/a=b")));
        for text in ["/srv/x", "=/srv/x", "data=srv", "data", "a/b=/srv"] {
            text.parse::<HostTarget>().unwrap_err();
        }
    }
}
