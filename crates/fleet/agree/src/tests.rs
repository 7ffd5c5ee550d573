//! What the tests of several modules send, hear and verify.

use durio_base::Bytes;
use durio_record::fleet::HostState;

use crate::coordinator::{CampaignLimits, CoordinatorConfig};
use crate::message::{
    Body, BusMessage, HostIdentity, HostStatus, PlannedWrite, Verify, WritePlace,
};

pub(crate) const CAMPAIGN: &str = "00112233445566778899aabbccddeeff";
const VERSION: &str = "0.4.2";

/// Takes the word "signed" for a signature.
pub(crate) struct OneWord;

impl Verify for OneWord {
    fn is_signed(&self, _sender: &str, _bytes: &[u8], signature: &str) -> bool {
        signature == "signed"
    }
}

/// `number` is incarnation and sequence.
pub(crate) fn signed(sender: &str, number: (u64, u64), body: Body) -> BusMessage {
    let signature = Some("signed".to_owned());
    BusMessage { signature, ..BusMessage::new(CAMPAIGN, sender, number, body) }
}

pub(crate) fn identity(host: &str) -> HostIdentity {
    HostIdentity {
        machine_id: format!("machine of {host}"),
        boot_id: format!("boot of {host}"),
        version: VERSION.to_owned(),
    }
}

/// Without plan, steps and run.
pub(crate) fn status(host: &str, state: HostState) -> HostStatus {
    HostStatus {
        state,
        at_ns: 0,
        machine: identity(host),
        plan: None,
        waiting: None,
        ordered: None,
        started: None,
        quiet: None,
        run: None,
        reason: None,
    }
}

/// The settings of a coordinator without relays.
pub(crate) fn config(hosts: &[&str]) -> CoordinatorConfig {
    CoordinatorConfig {
        campaign: CAMPAIGN.to_owned(),
        version: VERSION.to_owned(),
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        relays: Vec::new(),
        policy: testkit::fleet::policy(),
        spec: "spec".to_owned(),
        limits: CampaignLimits::default(),
        fault: None,
    }
}

/// No bytes, to new files of the target `data`.
pub(crate) fn planned_write() -> PlannedWrite {
    PlannedWrite {
        target: "data".to_owned(),
        place: WritePlace::Folder("/srv/x".into()),
        size: Bytes::ZERO,
        written: None,
        rate: None,
        destroys: false,
    }
}
