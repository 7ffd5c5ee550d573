//! Relays and the hosts of their regions, as `--relay` names them.

use durio_agree::host_list;
use durio_agree::host_name::{HostList, SshHost, check_all};
use durio_agree::message::COORDINATOR;
use durio_agree::region::REGION_HOSTS_MAX;
use durio_base::counted;
use durio_command::CommandError;

use crate::launch::{BusChoice, LaunchVia, LaunchedHost, LaunchedRelay};

/// The relay and its hosts in `HOST=LIST`.
fn parse(text: &str) -> Result<(SshHost, HostList), CommandError> {
    let example = "--relay gw1=db[001-500], or a file in the place of the list";
    let expected = || CommandError::wrong_use("invalid --relay: expected HOST=LIST").hint(example);
    let (relay, list) = text.split_once('=').ok_or_else(expected)?;
    let mut relays = host_list::parse_list(relay)?;
    let (Some(relay), true) = (relays.pop(), relays.is_empty()) else { return Err(expected()) };
    let listed = host_list::read(list.as_ref(), None)?;
    let count = listed.hosts.len();
    if count > REGION_HOSTS_MAX {
        let hosts = counted(count as u64, "host");
        let text = format!("relay {relay} has {hosts}; it serves {REGION_HOSTS_MAX} at most");
        return Err(CommandError::wrong_use(text).hint("give some of them to another relay"));
    }
    Ok((relay, listed))
}

/// Adds the hosts of all regions to those that this machine reaches.
///
/// # Errors
/// If a relay or a region is not valid, or a host or relay is there twice.
pub(crate) fn add_regions(listed: &mut HostList, relays: &[String]) -> Result<(), CommandError> {
    let mut all = listed.hosts.clone();
    for text in relays {
        let (relay, region) = parse(text)?;
        all.push(relay);
        all.extend(region.hosts.iter().cloned());
        listed.hosts.extend(region.hosts);
        listed.unused_variables.extend(region.unused_variables);
    }
    // Its messages are known by that name.
    if all.iter().any(|host| host.name == COORDINATOR) {
        let text = format!("no host or relay can have the name '{COORDINATOR}'");
        return Err(CommandError::wrong_use(text));
    }
    check_all(&all)
}

/// Refuses relays that could not start agents.
///
/// # Errors
/// The sentence for the user.
pub(crate) fn check_launch(
    relays: &[String],
    (via, bus): (LaunchVia, &BusChoice),
) -> Result<(), CommandError> {
    let is_site = matches!(bus, BusChoice::Site { .. });
    match relays.is_empty() || via == LaunchVia::Ssh && !is_site {
        true => Ok(()),
        false => {
            let text = "--relay is for hosts that ssh starts, with --bus tunnel or direct";
            Err(CommandError::wrong_use(text))
        }
    }
}

/// Relays, with the names of their hosts.
///
/// # Errors
/// As [`add_regions`].
pub(crate) fn launched_relays(relays: &[String]) -> Result<Vec<LaunchedRelay>, CommandError> {
    let launched = relays.iter().map(|text| {
        let (relay, region) = parse(text)?;
        let hosts = region.hosts.into_iter().map(|host| host.name).collect();
        Ok(LaunchedRelay { relay: LaunchedHost::new(&relay), hosts })
    });
    launched.collect()
}

/// The sessions of this machine to these hosts, some of which are behind relays.
pub(crate) fn session_count(hosts: usize, regions: &[LaunchedRelay]) -> usize {
    let behind: usize = regions.iter().map(|region| region.hosts.len()).sum();
    hosts.saturating_sub(behind) + regions.len()
}

#[cfg(test)]
mod tests {
    use durio_command::error_chain;

    use super::*;

    fn added(hosts: &str, relays: &[&str]) -> Result<Vec<String>, String> {
        let hosts = match hosts {
            "" => Vec::new(),
            hosts => host_list::parse_list(hosts).unwrap(),
        };
        let mut listed = HostList { hosts, ..HostList::default() };
        let relays: Vec<String> = relays.iter().map(|&relay| relay.to_owned()).collect();
        add_regions(&mut listed, &relays).map_err(|error| error_chain(&error))?;
        Ok(listed.hosts.into_iter().map(|host| host.name).collect())
    }

    #[test]
    fn hosts_of_relays_are_asked_as_well_and_relays_are_not() {
        assert_eq!(added("", &["gw1=db[1-2]"]).unwrap(), ["db1", "db2"]);
        let both = added("root@a,b", &["gw1=db[1-2]", "root@gw2:2222=db3"]).unwrap();
        assert_eq!(both, ["a", "b", "db1", "db2", "db3"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "db7\n# spare\nroot@db8\n").unwrap();
        let text = format!("gw1={}", file.path().display());
        assert_eq!(added("", &[&text]).unwrap(), ["db7", "db8"]);
    }

    #[test]
    fn a_region_that_cannot_be_has_its_sentence() {
        let refusal = |hosts: &str, relays: &[&str]| added(hosts, relays).unwrap_err();
        for text in ["gw1", "gw[1-2]=db1"] {
            assert_eq!(refusal("", &[text]), "invalid --relay: expected HOST=LIST", "{text}");
        }
        for text in ["=db1", "gw1="] {
            assert_eq!(refusal("", &[text]), "no hosts are named", "{text}");
        }
        assert_eq!(refusal("db1", &["gw1=db1"]), "host 'db1' is listed twice");
        assert_eq!(refusal("", &["gw1=db1", "gw2=db1"]), "host 'db1' is listed twice");
        // A relay measures nothing.
        assert_eq!(refusal("gw1", &["gw1=db1"]), "host 'gw1' is listed twice");
        let text = "no host or relay can have the name 'coordinator'";
        assert_eq!(refusal("", &["gw1=coordinator"]), text);
        assert_eq!(added("", &["gw1=db[1-2000]"]).unwrap().len(), 2_000);
        let text = "relay gw1 has 2001 hosts; it serves 2000 at most";
        assert_eq!(refusal("", &["gw1=db[1-2001]"]), text);
    }

    #[test]
    fn relays_are_for_hosts_that_ssh_starts_over_a_bus_of_the_campaign() {
        let relays = ["gw1=db[1-2]".to_owned()];
        let site = BusChoice::Site {
            address: "tls://fleet:4222".to_owned(),
            credentials: "user.nk".into(),
            authority: None,
            invited: None,
        };
        let direct = BusChoice::Direct { address: None, port: None };
        for (via, bus, is_accepted) in [
            (LaunchVia::Ssh, &BusChoice::Tunnel, true),
            (LaunchVia::Ssh, &direct, true),
            (LaunchVia::Ssh, &site, false),
            (LaunchVia::Slurm, &direct, false),
            (LaunchVia::Joined, &site, false),
        ] {
            let checked = check_launch(&relays, (via, bus));
            assert_eq!(checked.is_ok(), is_accepted, "{via:?} {bus:?}");
            check_launch(&[], (via, bus)).unwrap();
        }
        let launched = launched_relays(&relays).unwrap();
        assert_eq!((launched[0].relay.name.as_str(), launched[0].hosts.len()), ("gw1", 2));
        // Two hosts behind the relay, three without one.
        assert_eq!((session_count(5, &launched), session_count(5, &[])), (4, 5));
    }
}
