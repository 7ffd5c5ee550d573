//! Hosts as an operator names them: `db[001-250]`, `root@db1:2222`, `[2001:db8::1]`, or a file.

use std::ffi::OsStr;
use std::path::Path;

use durio_base::Bytes;
use durio_block::{open_input, read_bounded};
use durio_command::CommandError;

use crate::host_name::{
    HOSTS_VARIABLE, HostList, SshHost, check_all, check_count, expand_host, no_hosts, shown,
};
use crate::inventory;

/// An inventory of 20,000 hosts with 800 bytes of variables each.
const FILE_BYTES_MAX: Bytes = Bytes::from_mib(16);

/// The hosts of `--hosts`, or of `$DURIO_HOSTS` where the option is absent. Of an inventory, `group`
/// selects a part.
///
/// # Errors
/// If none are named, and as [`read`].
pub fn named(option: Option<&OsStr>, group: Option<&str>) -> Result<HostList, CommandError> {
    named_or(option, std::env::var_os(HOSTS_VARIABLE).as_deref(), group)
}

fn named_or(
    option: Option<&OsStr>,
    variable: Option<&OsStr>,
    group: Option<&str>,
) -> Result<HostList, CommandError> {
    match (option, variable.filter(|value| !value.is_empty())) {
        (Some(value), _) => read(value, group),
        (None, Some(value)) => {
            read(value, group).map_err(|error| error.context(format!("${HOSTS_VARIABLE}")))
        }
        (None, None) => Err(no_hosts()),
    }
}

/// The hosts of a list such as `db[001-250],root@db1`, or of a file: one host per line, an Ansible
/// inventory (INI, YAML or the JSON of `ansible-inventory --list`), or the output of
/// `scontrol show hostnames`. A value with a slash is a file.
///
/// # Errors
/// If a name is refused, a host is there twice, or the file cannot be read.
pub fn read(value: &OsStr, group: Option<&str>) -> Result<HostList, CommandError> {
    let path = Path::new(value);
    let has_slash = value.as_encoded_bytes().contains(&b'/');
    if has_slash || path.metadata().is_ok_and(|facts| !facts.is_dir()) {
        return parse_file(&text_of(path)?, &path.display().to_string(), group);
    }
    if group.is_some() {
        return Err(CommandError::wrong_use("a list of host names has no groups")
            .hint("name an inventory file to select one of its groups"));
    }
    let list = value
        .to_str()
        .ok_or_else(|| CommandError::wrong_use("the list of hosts is not UTF-8 text"))?;
    Ok(HostList { hosts: parse_list(list)?, unused_variables: Vec::new() })
}

fn text_of(path: &Path) -> Result<String, CommandError> {
    let bytes = open_input(path)
        .and_then(|file| read_bounded(file, FILE_BYTES_MAX))
        .map_err(|error| CommandError::io("read the hosts in", path, error))?;
    String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to() + 1;
        CommandError::wrong_use(format!("'{}' is not UTF-8 text: byte {byte}", path.display()))
    })
}

/// The hosts of a file's text. `file` is its name, for messages and for the format by its ending.
///
/// # Errors
/// As [`read`].
pub fn parse_file(text: &str, file: &str, group: Option<&str>) -> Result<HostList, CommandError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(inventory) = inventory::parse(text, file)? {
        return inventory.into_hosts(group);
    }
    if group.is_some() {
        return Err(CommandError::wrong_use(format!("'{file}' is a list and has no groups")));
    }
    let mut hosts = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // A name cannot contain '#'.
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            add_items(&mut hosts, line)
                .map_err(|error| error.context(format!("line {} of '{file}'", index + 1)))?;
        }
    }
    check_all(&hosts)?;
    Ok(HostList { hosts, unused_variables: Vec::new() })
}

/// The hosts of a list on the command line.
///
/// # Errors
/// If it is empty, a name is refused, or a host is there twice.
pub fn parse_list(list: &str) -> Result<Vec<SshHost>, CommandError> {
    let mut hosts = Vec::new();
    if !list.trim().is_empty() {
        add_items(&mut hosts, list)?;
    }
    check_all(&hosts)?;
    Ok(hosts)
}

/// The host of this name; `None` for a text that is another list.
pub fn parse_name(name: &str) -> Option<SshHost> {
    let hosts = parse_list(name).ok()?;
    hosts.into_iter().find(|host| host.name == name)
}

fn add_items(hosts: &mut Vec<SshHost>, list: &str) -> Result<(), CommandError> {
    let mut depth = 0_u32;
    let is_separator = |c: char| {
        match c {
            '[' => depth = depth.saturating_add(1),
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    for item in list.split(is_separator) {
        let item = item.trim();
        if item.is_empty() {
            let reason = format!("empty host name in '{}'", shown(list));
            return Err(CommandError::wrong_use(reason).hint("separate hosts by one comma"));
        }
        hosts.extend(expand_host(item, '-')?);
        check_count(hosts.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
