//! What campaigns record, for the tests of several crates.

use durio_base::Nanos;
use durio_record::fleet::{
    Barrier, CAMPAIGN_FOLDER_SCHEMA, CampaignManifest, CampaignPolicy, HostChange, HostState,
    LostPolicy,
};

/// One pass on shared storage, whose steps start together.
pub fn policy() -> CampaignPolicy {
    CampaignPolicy {
        barrier: Barrier::Step,
        lost: LostPolicy::GoOn,
        hosts_min: 1,
        repeats: 1,
        shared: true,
    }
}

/// The campaign 'nightly' on these hosts.
pub fn manifest(hosts: &[&str]) -> CampaignManifest {
    CampaignManifest {
        schema: CAMPAIGN_FOLDER_SCHEMA,
        campaign: "00112233445566778899aabbccddeeff".to_owned(),
        name: "nightly".to_owned(),
        version: "0.1.0".to_owned(),
        started: "2026-11-30T10:00:00.000Z".to_owned(),
        command: vec!["durio-fleet".to_owned()],
        spec: String::new(),
        spec_digest: String::new(),
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        policy: policy(),
        key: None,
    }
}

/// After one second; without plan, clock and run.
pub fn change(host: &str, state: HostState, reason: Option<&str>) -> HostChange {
    HostChange {
        at: Nanos::from_secs(1),
        host: host.to_owned(),
        state,
        reason: reason.map(str::to_owned),
        plan_digest: None,
        clock: None,
        run: None,
        folder_digest: None,
        unwritten: 0,
    }
}
