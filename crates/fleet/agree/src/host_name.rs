//! Names and addresses of hosts, as they end up in arguments of ssh, in folders and in subjects of
//! the bus: only letters, digits, `.`, `-` and `_` are accepted.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use durio_command::CommandError;

/// Far above the hosts that were measured, far below the memory that a mistyped range would take.
pub const HOSTS_MAX: usize = 20_000;
/// Names the hosts where `--hosts` does not.
pub const HOSTS_VARIABLE: &str = "DURIO_HOSTS";

/// The limit of DNS.
const NAME_BYTES_MAX: usize = 253;
/// Every number of a range fits in 64 bits, and so does the product of two counts.
const RANGE_DIGITS_MAX: usize = 9;
/// Longer words are cut in messages.
pub(crate) const SHOWN_CHARACTERS: usize = 64;

/// One host: its name in reports and folders, and where ssh reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshHost {
    /// Letters, digits, `.`, `-` and `_`; unique in a list, whatever the case.
    pub name: String,
    /// The login; without it the configuration of ssh decides.
    pub user: Option<String>,
    /// A name or an address, IPv6 without brackets.
    pub address: String,
    /// Without it the configuration of ssh decides.
    pub port: Option<u16>,
}

impl SshHost {
    /// Port and destination as arguments of ssh; options end before the destination.
    #[must_use]
    pub fn ssh_arguments(&self) -> Vec<String> {
        let port = self.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]);
        let destination = match &self.user {
            Some(user) => format!("{user}@{}", self.address),
            None => self.address.clone(),
        };
        port.chain(["--".to_owned(), destination]).collect()
    }
}

/// As in a list of hosts.
impl fmt::Display for SshHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.address.contains(':') {
            true => write!(f, "[{}]", self.address)?,
            false => f.write_str(&self.address)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// The hosts of a campaign.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostList {
    /// In the operator's order.
    pub hosts: Vec<SshHost>,
    /// Connection variables of an inventory that durio does not use, such as
    /// `ansible_ssh_common_args`.
    pub unused_variables: Vec<String>,
}

/// The hosts of one item, with `separator` between the numbers of a range: `-`, or `:` in
/// inventories.
pub(crate) fn expand_host(item: &str, separator: char) -> Result<Vec<SshHost>, CommandError> {
    check_characters(item, "host name", "[],:@")?;
    let (user, place) = match item.split_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, item),
    };
    if let Some(user) = user {
        check_word(user, "user name")?;
    }
    let (pattern, port) = split_port(place);
    let port = port.map(|port| parse_port(port, item)).transpose()?;
    let host = |name: String, address: String| SshHost {
        name,
        user: user.map(ToOwned::to_owned),
        address,
        port,
    };
    if let Some(address) = ipv6(pattern) {
        // No name begins with '-', as "::1" would.
        let name = format!("ip6-{}", address.to_string().replace([':', '.'], "-"));
        return Ok(vec![host(name, address.to_string())]);
    }
    let names = expand(pattern, item, separator)?;
    names
        .into_iter()
        .map(|name| check_word(&name, "host name").map(|()| host(name.clone(), name)))
        .collect()
}

/// An address with or without brackets.
fn ipv6(pattern: &str) -> Option<Ipv6Addr> {
    let bare = pattern.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    bare.unwrap_or(pattern).parse().ok()
}

fn split_port(place: &str) -> (&str, Option<&str>) {
    if ipv6(place).is_some() {
        return (place, None);
    }
    // A colon within brackets belongs to an address or to a range.
    let tail = place.rfind(']').map_or(0, |at| at + 1);
    match place[tail..].find(':') {
        Some(colon) => (&place[..tail + colon], Some(&place[tail + colon + 1..])),
        None => (place, None),
    }
}

pub(crate) fn parse_port(port: &str, item: &str) -> Result<u16, CommandError> {
    match port.parse::<u16>() {
        Ok(number) if number > 0 && !port.starts_with('+') => Ok(number),
        _ => {
            let (item, port) = (shown(item), shown(port));
            Err(CommandError::wrong_use(format!("'{item}': invalid port '{port}'"))
                .hint("a port is a number from 1 to 65535; IPv6 with a port is [ADDRESS]:PORT"))
        }
    }
}

/// The numbers of a range, as wide as the first is written.
#[derive(Clone, Copy)]
struct NumberRange {
    first: u64,
    last: u64,
    width: usize,
}

fn expand(pattern: &str, item: &str, separator: char) -> Result<Vec<String>, CommandError> {
    let unbalanced = || {
        CommandError::wrong_use(format!("'{}': '[' and ']' do not match", shown(item)))
            .hint("a range is written as in db[001-250] or db[1-3,7]")
    };
    let mut names = vec![String::new()];
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('[') {
        let (inside, next) = after.split_once(']').ok_or_else(unbalanced)?;
        if before.contains(']') || inside.contains('[') {
            return Err(unbalanced());
        }
        let longest = names.last().map_or(0, String::len) + before.len();
        if longest > NAME_BYTES_MAX {
            return Err(too_long(item, "host name", longest));
        }
        let ranges = inside
            .split(',')
            .map(|range| number_range(range, item, separator))
            .collect::<Result<Vec<_>, _>>()?;
        let total: u64 = ranges.iter().map(|range| range.last - range.first + 1).sum();
        let total = total.saturating_mul(names.len() as u64);
        if total > HOSTS_MAX as u64 {
            let reason =
                format!("'{}' expands to {total} hosts; the limit is {HOSTS_MAX}", shown(item));
            return Err(
                CommandError::wrong_use(reason).hint("check the range for a digit too many")
            );
        }
        let numbers: Vec<String> = ranges
            .iter()
            .flat_map(|range| {
                let width = range.width;
                (range.first..=range.last).map(move |number| format!("{number:0width$}"))
            })
            .collect();
        names = names
            .iter()
            .flat_map(|name| numbers.iter().map(move |number| format!("{name}{before}{number}")))
            .collect();
        rest = next;
    }
    if rest.contains(']') {
        return Err(unbalanced());
    }
    // Before the rest is added to each of many names.
    let longest = names.last().map_or(0, String::len) + rest.len();
    if longest > NAME_BYTES_MAX {
        return Err(too_long(item, "host name", longest));
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok(names)
}

fn number_range(range: &str, item: &str, separator: char) -> Result<NumberRange, CommandError> {
    let (first, last) = range.split_once(separator).unwrap_or((range, range));
    let is_number = |text: &str| {
        (1..=RANGE_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    let invalid = || {
        let reason = format!("'{}': invalid range '{}'", shown(item), shown(range));
        CommandError::wrong_use(reason).hint(format!(
            "a range has two numbers of at most {RANGE_DIGITS_MAX} digits, as in [001{separator}250]"
        ))
    };
    if !is_number(first) || !is_number(last) {
        return Err(invalid());
    }
    let width = if first.starts_with('0') { first.len() } else { 0 };
    let (first, last): (u64, u64) =
        (first.parse().map_err(|_| invalid())?, last.parse().map_err(|_| invalid())?);
    if first > last {
        let reason = format!("'{}': range '{range}' runs backwards", shown(item));
        return Err(CommandError::wrong_use(reason).hint("write the smaller number first"));
    }
    Ok(NumberRange { first, last, width })
}

/// Refuses a name that could be an option, a path, or more than one word.
pub(crate) fn check_word(word: &str, what: &str) -> Result<(), CommandError> {
    if word.is_empty() {
        return Err(CommandError::wrong_use(format!("empty {what}")));
    }
    check_characters(word, what, "")?;
    if word.starts_with('.') {
        return Err(CommandError::wrong_use(format!("{what} '{}' begins with '.'", shown(word))));
    }
    if word.len() > NAME_BYTES_MAX {
        return Err(too_long(word, what, word.len()));
    }
    Ok(())
}

/// Refuses a leading '-', and characters that are neither of names nor in `others`.
fn check_characters(word: &str, what: &str, others: &str) -> Result<(), CommandError> {
    if word.starts_with('-') {
        let reason = format!("{what} '{}' begins with '-'", shown(word));
        return Err(CommandError::wrong_use(reason).hint("ssh would read it as an option"));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c) || others.contains(c);
    let Some(found) = word.chars().find(|&c| !is_allowed(c)) else { return Ok(()) };
    let named = match found {
        ' ' => "a space".to_owned(),
        '\n' | '\r' => "a line break".to_owned(),
        '\'' | '"' | '`' => "a quote".to_owned(),
        other => format!("'{}'", other.escape_debug()),
    };
    let reason = format!("{what} '{}' contains {named}", shown(word));
    Err(CommandError::wrong_use(reason).hint("letters, digits, '.', '-' and '_' are allowed"))
}

fn too_long(word: &str, what: &str, bytes: usize) -> CommandError {
    let reason = format!(
        "{what} '{}' is too long: {bytes} bytes, the limit is {NAME_BYTES_MAX}",
        shown(word)
    );
    CommandError::wrong_use(reason)
}

/// A word of the user's in a message: control characters spelt out, the end cut.
pub(crate) fn shown(word: &str) -> String {
    let visible =
        |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    let begin: String = word.chars().take(SHOWN_CHARACTERS).map(visible).collect();
    match word.chars().nth(SHOWN_CHARACTERS) {
        Some(_) => begin + "…",
        None => begin,
    }
}

pub(crate) fn no_hosts() -> CommandError {
    CommandError::wrong_use("no hosts are named").hint(format!(
        "name them by --hosts db[001-250], --hosts FILE with one host per line, or ${HOSTS_VARIABLE}"
    ))
}

pub(crate) fn check_count(count: usize) -> Result<(), CommandError> {
    if count <= HOSTS_MAX {
        return Ok(());
    }
    Err(CommandError::wrong_use(format!("too many hosts: the limit is {HOSTS_MAX}"))
        .hint("split them into several campaigns"))
}

/// Refuses an empty list, and a host that is there twice.
///
/// # Errors
/// The sentence for the user.
pub fn check_all(hosts: &[SshHost]) -> Result<(), CommandError> {
    if hosts.is_empty() {
        return Err(no_hosts());
    }
    check_count(hosts.len())?;
    let (mut by_name, mut by_address) = (BTreeMap::new(), BTreeMap::new());
    for host in hosts {
        if let Some(earlier) = by_name.insert(same_name(&host.name), host) {
            return Err(named_twice(earlier, host));
        }
        // One address may forward several ports to several hosts.
        let address = same_address(&host.address);
        if let Some(earlier) = by_address.insert((address.clone(), host.port), host) {
            let reason = format!("'{earlier}' and '{host}' are the same host: {address}");
            return Err(CommandError::wrong_use(reason).hint("name each host once"));
        }
    }
    Ok(())
}

fn named_twice(earlier: &SshHost, host: &SshHost) -> CommandError {
    if earlier == host {
        return CommandError::wrong_use(format!("host '{host}' is listed twice"))
            .hint("name each host once");
    }
    let reason = format!("'{earlier}' and '{host}' have the same name, '{}'", host.name);
    CommandError::wrong_use(reason)
        .hint("give each its name in an inventory: NAME ansible_host=ADDRESS ansible_port=PORT")
}

/// DNS ignores case and the last dot.
fn same_name(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// IPv4 within IPv6 is the same address.
fn same_address(address: &str) -> String {
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => same_name(address),
    }
}
