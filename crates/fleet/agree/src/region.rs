//! What a relay reports of the hosts in its region.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Hosts of one relay.
pub const REGION_HOSTS_MAX: usize = 2_000;

/// The age of a host's last sign of life; the host's clock less the relay's, and the bound of this; all
/// in nanoseconds. Then incarnation and sequence of the first status that says the same as the host's
/// newest. Numbers, because a report has these for each host.
pub type HostWord = (u64, i64, u64, (u64, u64));

/// What a relay knows by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionReport {
    /// On the relay's clock.
    pub at_ns: u64,
    pub boot_id: String,
    /// By host, twice a second. A host whose clock is not known yet is not among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub words: BTreeMap<String, HostWord>,
}
