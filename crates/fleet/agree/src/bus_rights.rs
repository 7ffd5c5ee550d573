//! What each party may publish and hear on the bus, the configuration of a private nats-server that
//! holds them to it, and which servers can be trusted with it.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;

use durio_command::CommandError;

use crate::host_name::{expand_host, parse_port, shown};
use crate::message::{MESSAGE_BYTES_MAX, subject_token};

/// The last part of an address in subjects of a coordinator.
const COORDINATOR_INBOX: &str = "_INBOX.coordinator.>";
/// In the place of a campaign in subjects: every one.
pub const ANY_CAMPAIGN: &str = "*";
/// Where all hosts that joined are asked for their names.
pub const CALL_ALL: &str = "j.all";
/// Where all of them reply.
pub const REPLIES: &str = "j.h.*";
/// A host that joined has one connection for its agent and one between campaigns, and one that broke
/// is known to be dead after 2 s.
const CONNECTIONS_PER_HOST: usize = 3;
/// For coordinators, and for connections without a key, which the server closes after a few seconds:
/// other users who open some must not keep hosts out.
const SPARE_CONNECTIONS: usize = 128;

/// The subjects of one party.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusRights {
    pub publish: Vec<String>,
    pub subscribe: Vec<String>,
}

/// What a host may do: speak for itself, hear the coordinator. It cannot give orders, hear other
/// hosts, or speak for them. A relay has the same rights under its own name: messages for its region
/// come below its subject, and it sends on it for its hosts, which have none on the coordinator's bus.
#[must_use]
pub fn permissions(campaign: &str, host: &str) -> BusRights {
    let token = subject_token(host);
    BusRights {
        publish: vec![format!("c.{campaign}.h.{token}.>")],
        subscribe: vec![
            format!("c.{campaign}.all.>"),
            format!("c.{campaign}.to.{token}.>"),
            format!("_INBOX.{token}.>"),
        ],
    }
}

/// The reverse, for the coordinator.
#[must_use]
pub fn coordinator_permissions(campaign: &str) -> BusRights {
    BusRights {
        publish: vec![
            format!("c.{campaign}.all.>"),
            format!("c.{campaign}.to.>"),
            // Answers to hosts' questions go to inboxes below one prefix; without this they would
            // be dropped without an error.
            "_INBOX.>".to_owned(),
        ],
        subscribe: vec![format!("c.{campaign}.h.>"), COORDINATOR_INBOX.to_owned()],
    }
}

/// Where a host that joined is called to a campaign.
#[must_use]
pub fn call_subject(host: &str) -> String {
    format!("j.to.{}", subject_token(host))
}

/// Where such a host replies.
#[must_use]
pub fn reply_subject(host: &str) -> String {
    format!("j.h.{}", subject_token(host))
}

/// What a host may do that stays on a bus: take part in all campaigns, and be called to them.
#[must_use]
pub fn standing_permissions(host: &str) -> BusRights {
    let mut rights = permissions(ANY_CAMPAIGN, host);
    rights.publish.push(reply_subject(host));
    rights.subscribe.extend([CALL_ALL.to_owned(), call_subject(host)]);
    rights
}

/// The reverse, for the coordinators of such a bus.
#[must_use]
pub fn standing_coordinator_permissions() -> BusRights {
    let mut rights = coordinator_permissions(ANY_CAMPAIGN);
    rights.publish.extend([CALL_ALL.to_owned(), "j.to.*".to_owned()]);
    rights.subscribe.push(REPLIES.to_owned());
    rights
}

/// A user of the private server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusUser {
    /// Its public key, `U…`.
    pub key: String,
    pub rights: BusRights,
}

/// Certificate and key of a server that listens beyond loopback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A server that durio-fleet starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusServer {
    pub address: IpAddr,
    pub port: u16,
    /// Without one the server listens on loopback only.
    pub tls: Option<BusCertificate>,
    pub coordinator: BusUser,
    pub hosts: Vec<BusUser>,
}

/// The text of the server's configuration file, without `no_auth_user`: a connection without a key
/// is refused.
///
/// # Errors
/// If it would listen beyond loopback without TLS.
pub fn server_configuration(settings: &BusServer) -> Result<String, CommandError> {
    let BusServer { address, port, tls, coordinator, hosts } = settings;
    if tls.is_none() && !address.is_loopback() {
        let reason = format!("a bus on {address} needs TLS: it listens beyond this machine");
        return Err(CommandError::wrong_use(reason));
    }
    let mut text = String::from("# Written by durio-fleet.\n");
    let listen = match address {
        IpAddr::V4(_) => format!("{address}:{port}"),
        IpAddr::V6(_) => format!("[{address}]:{port}"),
    };
    let connections = hosts.len() * CONNECTIONS_PER_HOST + SPARE_CONNECTIONS;
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "listen: {}\nping_interval: \"1s\"\nping_max: 2\nmax_payload: {MESSAGE_BYTES_MAX}\n\
         max_connections: {connections}\n",
        quoted(&listen)
    );
    if let Some(BusCertificate { certificate, key }) = tls {
        let [certificate, key] = [certificate, key].map(|path| quoted(&path.display().to_string()));
        let _ = write!(text, "tls {{\n  cert_file: {certificate}\n  key_file: {key}\n}}\n");
    }
    text.push_str("accounts {\n  DURIO {\n    users: [\n");
    push_user(&mut text, coordinator, false);
    for host in hosts {
        push_user(&mut text, host, true);
    }
    text.push_str("    ]\n  }\n}\n");
    Ok(text)
}

fn push_user(text: &mut String, user: &BusUser, answers: bool) {
    let permissions = permission_text(&user.rights, answers);
    let _ = writeln!(text, "      {{ nkey: {}, {permissions} }}", quoted(&user.key));
}

/// A host answers each question once, and within a minute, on the subject that the question names.
fn permission_text(rights: &BusRights, answers: bool) -> String {
    let list = |subjects: &[String]| {
        subjects.iter().map(|subject| quoted(subject)).collect::<Vec<_>>().join(", ")
    };
    let (publish, subscribe) = (list(&rights.publish), list(&rights.subscribe));
    let responses = match answers {
        true => ", allow_responses: { max: 1, expires: \"1m\" }",
        false => "",
    };
    format!(
        "permissions: {{ publish: {{ allow: [{publish}] }}, subscribe: {{ allow: [{subscribe}] \
         }}{responses} }}"
    )
}

/// What the users of a site's server need, in the language of its configuration: the coordinator, and
/// each host, in all campaigns.
#[must_use]
pub fn site_permissions(hosts: &[String]) -> String {
    let coordinator = permission_text(&standing_coordinator_permissions(), false);
    let mut text = format!("# coordinator\n{coordinator}\n");
    for host in hosts {
        let permissions = permission_text(&standing_permissions(host), true);
        let _ = writeln!(text, "# {host}\n{permissions}");
    }
    text
}

/// A string of the server's configuration language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Refuses servers with known holes: all before 2.9.10, and beyond loopback those whose
/// authorization can be passed by (CVE-2023-47090, NATS advisory 2026-16).
///
/// # Errors
/// The sentence for the user.
pub fn accept_server(version: &str, listens_beyond_loopback: bool) -> Result<(), String> {
    let Some((numbers, is_final)) = parse_version(version) else {
        return Err(format!("'{version}' is not a version of nats-server"));
    };
    // A candidate of a release comes before it.
    let at_least = |bound: [u32; 3]| numbers > bound || (numbers == bound && is_final);
    if !at_least([2, 9, 10]) {
        return Err(format!("nats-server {version} is too old: 2.9.10 or later is needed"));
    }
    let of_series = |series: [u32; 3]| numbers[..2] == series[..2] && at_least(series);
    let is_mended = of_series([2, 11, 16]) || of_series([2, 12, 7]) || at_least([2, 14, 0]);
    if listens_beyond_loopback && !is_mended {
        return Err(format!(
            "nats-server {version} must not listen beyond loopback: its authorization has known \
             holes; 2.11.16, 2.12.7, 2.14.0 or later is needed"
        ));
    }
    Ok(())
}

/// Major, minor and patch, and whether it is a release.
fn parse_version(version: &str) -> Option<([u32; 3], bool)> {
    let version = version.trim();
    let version = version.strip_prefix('v').unwrap_or(version);
    // Build numbers of distributions follow a plus or a tilde.
    let end = version.find(['-', '+', '~']).unwrap_or(version.len());
    let is_final = !version[end..].starts_with('-');
    let mut numbers = [0_u32; 3];
    let mut parts = version[..end].split('.');
    for number in &mut numbers {
        let part = parts.next()?;
        *number = part.parse().ok().filter(|_| part.bytes().all(|b| b.is_ascii_digit()))?;
    }
    parts.next().is_none().then_some((numbers, is_final))
}

/// Refuses an address of a bus that carries a secret, or would send without TLS to another machine.
pub fn check_bus_address(address: &str) -> Result<(), CommandError> {
    let invalid = |reason: &str| CommandError::wrong_use(format!("invalid bus address: {reason}"));
    let (scheme, place) = address
        .split_once("://")
        .ok_or_else(|| invalid("expected tls://HOST:PORT").hint("for example tls://fleet:4222"))?;
    // The address is not printed: it may hold a password.
    if place.contains('@') {
        return Err(invalid("it contains a user or a password").hint(
            "credentials are in files: --bus-credentials FILE, /etc/durio/bus.creds on hosts",
        ));
    }
    let (host, port) = place.rsplit_once(':').unwrap_or((place, ""));
    if port.is_empty() {
        return Err(invalid(&format!("'{}' has no port", shown(place))));
    }
    parse_port(port, place)?;
    let hosts = expand_host(host, '-')?;
    if hosts.len() != 1 || hosts.iter().any(|host| host.port.is_some()) {
        return Err(invalid(&format!("'{}' is not one host and port", shown(place))));
    }
    let is_loopback = is_on_loopback(address);
    match scheme {
        "tls" => Ok(()),
        "nats" if is_loopback => Ok(()),
        "nats" => Err(invalid("nats:// is not encrypted").hint("use tls:// beyond loopback")),
        _ => Err(invalid("expected tls:// or, on this machine, nats://")),
    }
}

/// True for an address of a bus on this machine.
#[must_use]
pub fn is_on_loopback(address: &str) -> bool {
    let place = address.split_once("://").map_or(address, |(_, place)| place);
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
