//! Hosts of an Ansible inventory: INI, YAML, or the JSON of `ansible-inventory --list`.
//!
//! Only `ansible_host`, `ansible_user` and `ansible_port` have a meaning here. Other variables of a
//! connection are named to the user, who may have relied on them; all others are for Ansible alone.

mod ini;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use durio_base::did_you_mean;
use durio_command::CommandError;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::host_name::{
    HostList, SshHost, check_all, check_count, check_word, expand_host, parse_port, shown,
};

/// Far above any inventory, and few enough for their depths to be found at once.
const GROUPS_MAX: usize = 2_000;
/// The group that every host is in.
const ALL: &str = "all";
/// The group of hosts that are in no other.
const UNGROUPED: &str = "ungrouped";

/// How a host is reached, as variables say it.
#[derive(Debug, Clone, Default)]
struct ConnectionVariables {
    host: Option<String>,
    user: Option<String>,
    port: Option<String>,
}

impl ConnectionVariables {
    fn overlay(&mut self, over: &Self) {
        let fields = [
            (&mut self.host, &over.host),
            (&mut self.user, &over.user),
            (&mut self.port, &over.port),
        ];
        for (field, value) in fields {
            if value.is_some() {
                field.clone_from(value);
            }
        }
    }
}

#[derive(Debug, Default)]
struct InventoryGroup {
    /// Positions among the hosts of the inventory.
    hosts: Vec<usize>,
    children: Vec<String>,
    variables: ConnectionVariables,
}

/// An inventory as it was read.
#[derive(Debug, Default)]
pub(crate) struct AnsibleInventory {
    /// In the order of the file.
    hosts: Vec<(SshHost, ConnectionVariables)>,
    positions: BTreeMap<String, usize>,
    groups: BTreeMap<String, InventoryGroup>,
    unused: BTreeSet<String>,
}

/// The inventory in `text`; none if it is a plain list of hosts.
pub(crate) fn parse(text: &str, file: &str) -> Result<Option<AnsibleInventory>, CommandError> {
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with(['#', ';']))
        .unwrap_or_default();
    let is_yaml = [".yml", ".yaml"].iter().any(|ending| file.ends_with(ending))
        || first == "---"
        || first.ends_with(':');
    let inventory = if first.starts_with('{') {
        parse_json(text)
    } else if is_yaml {
        yaml::parse(text)
    } else if text.lines().any(ini::is_section_or_variable) {
        ini::parse(text)
    } else {
        return Ok(None);
    };
    inventory.map(Some).map_err(|error| error.context(format!("inventory '{file}'")))
}

impl AnsibleInventory {
    /// Adds the hosts of a pattern such as `db[01:50]` to a group; their positions.
    fn add_hosts(&mut self, pattern: &str, group: &str) -> Result<Vec<usize>, CommandError> {
        let mut positions = Vec::new();
        for host in expand_host(pattern, ':')? {
            let next = self.hosts.len();
            let position = *self.positions.entry(host.name.clone()).or_insert(next);
            if position == next {
                self.hosts.push((host, ConnectionVariables::default()));
                check_count(self.hosts.len())?;
            }
            positions.push(position);
        }
        self.group(group)?.hosts.extend(&positions);
        Ok(positions)
    }

    fn add_child(&mut self, parent: &str, child: &str) -> Result<(), CommandError> {
        self.group(parent)?.children.push(child.to_owned());
        Ok(())
    }

    fn group(&mut self, name: &str) -> Result<&mut InventoryGroup, CommandError> {
        if !self.groups.contains_key(name) && self.groups.len() >= GROUPS_MAX {
            return Err(CommandError::wrong_use(format!(
                "too many groups: the limit is {GROUPS_MAX}"
            )));
        }
        Ok(self.groups.entry(name.to_owned()).or_default())
    }

    fn set_group_variable(
        &mut self,
        group: &str,
        variable: &str,
        value: &str,
    ) -> Result<(), CommandError> {
        // The group exists from here on, whatever the variable.
        self.group(group)?;
        if let Some(group) = self.groups.get_mut(group) {
            set(&mut group.variables, &mut self.unused, variable, value);
        }
        Ok(())
    }

    fn set_host_variable(&mut self, positions: &[usize], variable: &str, value: &str) {
        for &position in positions {
            set(&mut self.hosts[position].1, &mut self.unused, variable, value);
        }
    }

    /// The hosts of `group`, or all, with what their groups and they themselves say.
    pub(crate) fn into_hosts(self, group: Option<&str>) -> Result<HostList, CommandError> {
        let mut settled = self.group_variables()?;
        let mut hosts = Vec::new();
        for position in self.members(self.chosen(group)?) {
            let (host, own) = &self.hosts[position];
            settled[position].overlay(own);
            hosts.push(connected(host, &settled[position])?);
        }
        check_all(&hosts)?;
        Ok(HostList { hosts, unused_variables: self.unused.into_iter().collect() })
    }

    /// What the groups say of each host.
    fn group_variables(&self) -> Result<Vec<ConnectionVariables>, CommandError> {
        let mut order: Vec<(usize, &String)> =
            self.depths()?.into_iter().map(|(name, depth)| (depth, name)).collect();
        // As Ansible: deeper groups override, and of the same depth the later in the alphabet.
        order.sort_unstable();
        let mut settled = vec![ConnectionVariables::default(); self.hosts.len()];
        for (_, name) in order {
            let variables = &self.groups[name].variables;
            if variables.host.is_none() && variables.user.is_none() && variables.port.is_none() {
                continue;
            }
            for position in self.members(name) {
                settled[position].overlay(variables);
            }
        }
        Ok(settled)
    }

    fn chosen<'g>(&self, group: Option<&'g str>) -> Result<&'g str, CommandError> {
        let Some(name) = group else { return Ok(ALL) };
        if name == ALL || self.groups.contains_key(name) {
            return Ok(name);
        }
        let known: Vec<&str> = self.groups.keys().map(String::as_str).collect();
        let reason = format!("the inventory has no group '{}'", shown(name));
        Err(CommandError::wrong_use(reason).hint(did_you_mean(name, &known, "there are")))
    }

    /// How far each group is below `all`.
    fn depths(&self) -> Result<BTreeMap<&String, usize>, CommandError> {
        let begin = |name: &String| usize::from(name != ALL);
        let mut depths: BTreeMap<&String, usize> =
            self.groups.keys().map(|name| (name, begin(name))).collect();
        // A chain has at most as many links as there are groups: more rounds are a circle.
        for _ in 0..=self.groups.len() {
            let mut is_settled = true;
            for (name, group) in &self.groups {
                let below = depths.get(name).copied().unwrap_or(0) + 1;
                for child in &group.children {
                    if let Some(depth) = depths.get_mut(child).filter(|depth| **depth < below) {
                        *depth = below;
                        is_settled = false;
                    }
                }
            }
            if is_settled {
                return Ok(depths);
            }
        }
        let circle = self.groups.keys().find(|name| self.is_below_itself(name));
        let name = shown(circle.map_or("", String::as_str));
        Err(CommandError::wrong_use(format!("group '{name}' is a child of itself")))
    }

    fn is_below_itself(&self, name: &str) -> bool {
        let children = |group: &str| self.groups.get(group).map(|group| group.children.as_slice());
        let mut open: Vec<&String> = children(name).unwrap_or_default().iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(group) = open.pop() {
            if group == name {
                return true;
            }
            if seen.insert(group) {
                open.extend(children(group).unwrap_or_default());
            }
        }
        false
    }

    /// The hosts of a group and of the groups below it, each once, in the order of the file.
    fn members(&self, group: &str) -> BTreeSet<usize> {
        if group == ALL {
            return (0..self.hosts.len()).collect();
        }
        let (mut members, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![group];
        while let Some(name) = open.pop() {
            let Some(group) = self.groups.get(name).filter(|_| seen.insert(name)) else { continue };
            members.extend(&group.hosts);
            open.extend(group.children.iter().map(String::as_str));
        }
        members
    }
}

fn set(
    variables: &mut ConnectionVariables,
    unused: &mut BTreeSet<String>,
    variable: &str,
    value: &str,
) {
    let field = match variable {
        "ansible_host" => &mut variables.host,
        "ansible_user" => &mut variables.user,
        "ansible_port" => &mut variables.port,
        other => {
            if other.starts_with("ansible_") {
                unused.insert(shown(other));
            }
            return;
        }
    };
    *field = Some(value.to_owned());
}

/// A host with the variables that say where it is; its name stays.
fn connected(host: &SshHost, variables: &ConnectionVariables) -> Result<SshHost, CommandError> {
    let mut connected = host.clone();
    let of_host = |error: CommandError| error.context(format!("host '{}'", host.name));
    if let Some(address) = &variables.host {
        let parsed = expand_host(address, ':').map_err(of_host)?;
        let [only] = parsed.as_slice() else {
            let reason = format!("ansible_host '{}' is more than one host", shown(address));
            return Err(of_host(CommandError::wrong_use(reason)));
        };
        connected.address.clone_from(&only.address);
        connected.port = only.port.or(host.port);
    }
    if let Some(user) = &variables.user {
        check_word(user, "user name").map_err(of_host)?;
        connected.user = Some(user.clone());
    }
    if let Some(port) = &variables.port {
        connected.port = Some(parse_port(port, &host.name)?);
    }
    Ok(connected)
}

/// Refuses a group name that could not be named on a command line.
fn check_group(name: &str) -> Result<(), CommandError> {
    check_word(name, "group name")
}

#[derive(Deserialize)]
struct ListedGroup {
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    children: Vec<String>,
}

#[derive(Default, Deserialize)]
struct ListedMeta {
    #[serde(default)]
    hostvars: BTreeMap<String, Map<String, Value>>,
}

/// Reads the output of `ansible-inventory --list`: groups, and the variables of each host, which
/// Ansible has already taken from its groups.
fn parse_json(text: &str) -> Result<AnsibleInventory, CommandError> {
    let mut listed: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| invalid_json(&error))?;
    let meta: ListedMeta = match listed.remove("_meta") {
        Some(meta) => serde_json::from_value(meta).map_err(|error| invalid_json(&error))?,
        None => ListedMeta::default(),
    };
    let mut inventory = AnsibleInventory::default();
    let mut known = BTreeSet::new();
    for (name, group) in listed {
        check_group(&name)?;
        let group: ListedGroup = serde_json::from_value(group)
            .map_err(|error| invalid_json(&error).context(format!("group '{}'", shown(&name))))?;
        inventory.group(&name)?;
        for child in &group.children {
            check_group(child)?;
            inventory.add_child(&name, child)?;
        }
        for host in &group.hosts {
            let positions = inventory.add_hosts(host, &name)?;
            let variables = meta.hostvars.get(host).filter(|_| known.insert(host.clone()));
            for (variable, value) in variables.into_iter().flatten() {
                if let Some(value) = json_scalar(value) {
                    inventory.set_host_variable(&positions, variable, &value);
                }
            }
        }
    }
    Ok(inventory)
}

/// Tables and lists cannot be variables of a connection.
fn json_scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn invalid_json(error: &serde_json::Error) -> CommandError {
    CommandError::wrong_use(format!("not the JSON of ansible-inventory: {error}"))
        .hint("write it by ansible-inventory -i INVENTORY --list")
}

#[cfg(test)]
mod tests;
