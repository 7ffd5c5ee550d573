//! What the tests of several modules have: an invitation, plans, passes, and how hosts are reached.

use durio_agree::message::{CampaignStep, HostFacts, PlanSummary, PlannedStep};

use crate::invitation::{HostBus, Invitation};
use crate::launch::{BusChoice, LaunchSettings, LaunchVia, LaunchedHost};
use crate::passes::RecordedPass;

/// To a host that ssh reaches, with a tunnel to the bus.
pub(crate) fn invitation() -> Invitation {
    let address = "nats://127.0.0.1:4222".to_owned();
    Invitation {
        campaign: "0123456789abcdef0123456789abcdef".to_owned(),
        host: "db-7".to_owned(),
        coordinator: "U".to_owned(),
        bus: HostBus { address, authority: None, is_site: false },
        run: None,
        targets: vec!["data=/srv/x".parse().unwrap()],
        is_joined: false,
        region: None,
    }
}

/// Steps of these lengths; one without a length does not end by time.
pub(crate) fn plan(digest: &str, lengths: &[Option<u64>]) -> PlanSummary {
    let step = |&length_ns: &Option<u64>| PlannedStep { step: CampaignStep::default(), length_ns };
    PlanSummary::new(digest, lengths.iter().map(step).collect())
}

/// Without steps, from a host that says this of itself.
pub(crate) fn plan_with(digest: &str, facts: HostFacts) -> PlanSummary {
    PlanSummary { facts: Some(Box::new(facts)), ..plan(digest, &[]) }
}

/// One of two with this label, of which nothing is recorded.
pub(crate) fn pass(label: &str, number: u32, hosts: &[&str]) -> RecordedPass {
    RecordedPass {
        label: label.to_owned(),
        number,
        passes: 2,
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        changes: Vec::new(),
        events: Vec::new(),
    }
}

pub(crate) fn launched(name: &str) -> LaunchedHost {
    LaunchedHost { name: name.to_owned(), address: format!("root@{name}") }
}

/// By ssh, without relays.
pub(crate) fn launch_settings(hosts: &[&str], bus: BusChoice) -> LaunchSettings {
    LaunchSettings {
        hosts: hosts.iter().map(|name| launched(name)).collect(),
        relays: Vec::new(),
        targets: Vec::new(),
        ssh_config: None,
        via: LaunchVia::Ssh,
        bus,
        push: false,
        fanout: 8,
        run: None,
        lost_wait_ns: 0,
        lost_after_ns: 1_500_000_000,
        goals: Vec::new(),
    }
}
