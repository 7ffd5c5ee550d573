//! Figures of the hosts behind a relay, in one message: the latencies of all together, and rates and
//! p99 of each.

use std::collections::BTreeMap;

use durio_base::Nanos;
use durio_record::{Exact, Latency, OperationName, payload_text};
use serde::{Deserialize, Serialize};

use super::{CURRENT, HostFigures, LiveBoard, SPAN_MAX};
use crate::message::{MESSAGE_BYTES_MAX, STEPS_MAX};
use crate::region::REGION_HOSTS_MAX;

/// An operation per nanosecond, and 1 TiB per second.
const RATES_MAX: [f64; 2] = [1e9, 1.1e12];

#[derive(Debug, Serialize, Deserialize)]
struct RegionFigures {
    /// Latencies of all hosts together, with an entry of the histogram log.
    merged: Vec<(OperationName, Exact, String)>,
    hosts: BTreeMap<String, HostFigures>,
}

impl LiveBoard {
    /// The figures that came since the last call, as a relay sends them, which are forgotten. `None`
    /// without any.
    pub(crate) fn drain(&mut self) -> Option<Vec<u8>> {
        let mut hosts = std::mem::take(&mut self.hosts);
        let mut merged: BTreeMap<OperationName, Latency> = BTreeMap::new();
        for (operation, figures) in hosts.values_mut().flat_map(|host| &mut host.operations) {
            merged.entry(*operation).or_default().add(&figures.latency);
            figures.p99_ns = figures.p99_ns();
            // More digits say nothing, and would be sent for every host.
            figures.rate = (figures.rate * 1_000.0).round() / 1_000.0;
            figures.bytes_per_second = figures.bytes_per_second.round();
        }
        let entry = |(operation, latency): (OperationName, Latency)| {
            Some((operation, latency.exact, payload_text(latency.histogram()?)?))
        };
        let merged = merged.into_iter().filter_map(entry).collect();
        let has_hosts = !hosts.is_empty();
        serde_json::to_vec(&RegionFigures { merged, hosts }).ok().filter(|_| has_hosts)
    }

    /// Takes a relay's figures. `is_planned` says whether a host is behind this relay and its plan has
    /// a step.
    ///
    /// # Errors
    /// Why they are not believed.
    pub fn take_region(
        &mut self,
        (relay, encoded): (&str, &[u8]),
        now: Nanos,
        is_planned: impl Fn(&str, u32) -> bool,
    ) -> Result<(), &'static str> {
        self.check_frequency(relay, now)?;
        if encoded.len() > MESSAGE_BYTES_MAX {
            return Err("size");
        }
        let region: RegionFigures = serde_json::from_slice(encoded).map_err(|_| "form")?;
        if region.hosts.len() > REGION_HOSTS_MAX {
            return Err("number of hosts");
        }
        for (host, figures) in &region.hosts {
            figures.check()?;
            if !is_planned(host, figures.step) {
                return Err("step");
            }
        }
        let mut latencies: BTreeMap<OperationName, Latency> = BTreeMap::new();
        for (operation, exact, entry) in &region.merged {
            let latency = self.latency(*exact, entry)?;
            latencies.entry(*operation).or_default().add(&latency);
        }
        self.regions.insert(relay.to_owned(), (now, latencies));
        for (host, figures) in region.hosts {
            self.put(&host, HostFigures { at: now, ..figures });
        }
        Ok(())
    }

    fn latency(&mut self, exact: Exact, entry: &str) -> Result<Latency, &'static str> {
        if exact.min_ns > exact.max_ns || exact.max_ns > SPAN_MAX.get() {
            return Err("latency");
        }
        let histogram = self.payloads.read(entry.as_bytes()).ok_or("histogram")?;
        if histogram.count() != exact.count {
            return Err("count of histograms");
        }
        let mut latency = Latency::default();
        latency.add_histogram(&histogram);
        latency.exact = exact;
        Ok(latency)
    }

    /// Latencies of all regions whose figures are current.
    pub(super) fn latencies_of_regions(&self, now: Nanos) -> BTreeMap<OperationName, Latency> {
        let mut sum: BTreeMap<OperationName, Latency> = BTreeMap::new();
        let current = self.regions.values().filter(|(at, _)| now.saturating_sub(*at) <= CURRENT);
        for (operation, latency) in current.flat_map(|(_, latencies)| latencies) {
            sum.entry(*operation).or_default().add(latency);
        }
        sum
    }
}

impl HostFigures {
    fn check(&self) -> Result<(), &'static str> {
        if self.step as usize >= STEPS_MAX {
            return Err("step");
        }
        // The board itself gives this to a host with the longest interval.
        if self.current_for.get() > CURRENT.get() + 2 * SPAN_MAX.get() {
            return Err("span");
        }
        let is_possible = |rates: [f64; 2]| {
            rates.into_iter().zip(RATES_MAX).all(|(rate, most)| (0.0..=most).contains(&rate))
        };
        let mut rates = self.operations.values().map(|made| [made.rate, made.bytes_per_second]);
        if rates.all(is_possible) { Ok(()) } else { Err("rate") }
    }
}
