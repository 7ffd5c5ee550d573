//! Relays: what they report of the hosts in their regions, and what they are asked.

use durio_base::Nanos;
use durio_record::fleet::{CampaignEvent, ClockOffset, HostState};

use super::CoordinatorMachine;
use super::views::{HostView, RelayView};
use crate::clock::{ClockEstimate, PROBE_EVERY, PROBES, later, on_coordinator};
use crate::fault::FleetFault;
use crate::message::{Body, BusMessage, Recipient, Verify};
use crate::region::RegionReport;
use crate::relay::{GATHER, REPORT_EVERY};

/// Hosts whose clocks are in one message, which each of them receives.
const CLOCKS_MAX: usize = 100;
/// With a host that is lost, a relay without a report for this long is the cause.
const SILENT_AFTER: Nanos = Nanos::new(REPORT_EVERY.get() * 3 / 2);

impl CoordinatorMachine {
    /// Makes the views of the relays, and connects those of their hosts with them.
    pub(super) fn place_relays(&mut self) {
        for (name, hosts) in &self.config.relays {
            let places = hosts.iter().filter_map(|host| self.places.get(host).copied());
            let hosts: Vec<usize> = places.collect();
            hosts.iter().for_each(|&at| self.hosts[at].relay = Some(self.relays.len()));
            self.relays.push(RelayView { name: name.clone(), hosts, ..RelayView::default() });
        }
    }

    /// The relay that is the sender, and not one of its hosts.
    pub(super) fn relay_of(&self, sender: &str, subject: &str) -> Option<usize> {
        self.relays.iter().position(|relay| sender == subject && relay.name == subject)
    }

    /// The relay that serves a host, if one does.
    pub fn relay(&self, host: &str) -> Option<&str> {
        let relay = self.hosts[self.position(host)?].relay?;
        Some(&self.relays[relay].name)
    }

    /// Whether the host is in the region of this relay.
    pub fn is_behind(&self, host: &str, relay: &str) -> bool {
        self.relay(host) == Some(relay)
    }

    pub(super) fn hear_relay(&mut self, at: usize, message: BusMessage, verify: &dyn Verify) {
        let is_report = matches!(message.body, Body::Region { .. });
        let is_foreign = message.campaign != self.config.campaign;
        if is_foreign || is_report && !message.is_signed(verify) {
            self.ignored += 1;
            return;
        }
        let number = (message.incarnation, message.sequence);
        match message.body {
            Body::Answer { nonce, at_ns } => {
                let (now, fault) = (self.now, self.config.fault);
                let relay = &mut self.relays[at];
                match relay.series.answer((nonce, Nanos::new(at_ns)), now, fault) {
                    Some(estimate) => {
                        relay.clock = Some(ClockEstimate::renewed(relay.clock, estimate, now).0);
                    }
                    None => self.ignored += 1,
                }
            }
            Body::Region { report, statuses } => {
                self.take_report(at, number, (&report, statuses), verify);
            }
            _ => self.ignored += 1,
        }
    }

    fn take_report(
        &mut self,
        at: usize,
        number: (u64, u64),
        (report, statuses): (&RegionReport, Vec<BusMessage>),
        verify: &dyn Verify,
    ) {
        let now = self.now;
        let relay = &mut self.relays[at];
        let name = relay.name.clone();
        let is_new_boot = relay.newest.take(&report.boot_id, number);
        // It may have been cut off while it was asked.
        let is_unknown = relay.clock.is_none() && relay.series.is_done(now);
        if is_new_boot == Some(true) || is_unknown {
            relay.clock = None;
            relay.begin_series(PROBES, now);
        }
        for status in statuses {
            // Relays repeat them.
            if !self.knows(&status) {
                self.receive(&name, status, verify);
            }
        }
        if is_new_boot.is_some() {
            let relay = &mut self.relays[at];
            relay.heard = now;
            if std::mem::take(&mut relay.is_silent) {
                self.event(CampaignEvent::RelayBack { relay: name });
            }
            self.take_words(at, report);
            self.ask_again(at);
        }
    }

    /// A status may be lost on its way, and the relay sends it seldom.
    fn ask_again(&mut self, at: usize) {
        let relay = &self.relays[at];
        let is_missing = |view: &&HostView| view.said.is_some_and(|said| !view.newest.has(said));
        let views = relay.hosts.iter().map(|&host| &self.hosts[host]);
        let hosts: Vec<String> = views.filter(is_missing).map(|view| view.name.clone()).collect();
        if !hosts.is_empty() {
            let to = Recipient::Host(relay.name.clone());
            self.send_to(to, Body::Repeat { hosts });
        }
    }

    /// Names the relay of a host that is about to be lost, if the relay is silent as well.
    pub(super) fn blame_relay(&mut self, host: usize) {
        let Some(at) = self.hosts[host].relay else { return };
        let relay = &mut self.relays[at];
        let silent = self.now.saturating_sub(relay.heard.max(self.bus_back));
        if relay.is_silent || silent <= SILENT_AFTER {
            return;
        }
        relay.is_silent = true;
        let hosts = u32::try_from(relay.hosts.len()).unwrap_or(u32::MAX);
        let (relay, silent_ns) = (relay.name.clone(), silent.get());
        self.event(CampaignEvent::RelayLost { relay, hosts, silent_ns });
    }

    /// True while the relay of this host is silent, which has been recorded.
    pub fn is_region_silent(&self, host: &str) -> bool {
        let relay = self.position(host).and_then(|at| self.hosts[at].relay);
        relay.is_some_and(|relay| self.relays[relay].is_silent)
    }

    fn knows(&self, message: &BusMessage) -> bool {
        let Body::Status(status) = &message.body else { return false };
        let number = (message.incarnation, message.sequence);
        let view = self.position(&message.sender).map(|at| &self.hosts[at]);
        view.is_some_and(|view| view.newest.knows(&status.machine.boot_id, number))
    }

    /// A report may have waited on its way: it is as old as the relay's clock says. A relay whose clock is
    /// not known proves of no host that it lives.
    fn take_words(&mut self, at: usize, report: &RegionReport) {
        let now = self.now;
        for &host in report.words.keys().filter_map(|host| self.places.get(host)) {
            let view = &mut self.hosts[host];
            view.is_heard |= view.relay == Some(at);
        }
        let Some(relay_clock) = self.relays[at].clock else { return };
        let offset = relay_clock.at(now);
        let made = on_coordinator(Nanos::new(report.at_ns), offset);
        let latest = later(made, Nanos::new(offset.bound_ns)).min(now);
        let trusts = FleetFault::ForeignRegion.is_in(self.config.fault);
        for (host, &(age_ns, offset_ns, bound_ns, said)) in &report.words {
            let place = self.position(host);
            let Some(host) = place.filter(|&host| trusts || self.hosts[host].relay == Some(at))
            else {
                self.ignored += 1;
                continue;
            };
            self.hosts[host].alive = latest.saturating_sub(Nanos::new(age_ns));
            self.hosts[host].said = Some(said);
            let clock = ClockOffset { offset_ns, bound_ns };
            self.learn_clock(host, relay_clock.through(clock, made));
            let view = &self.hosts[host];
            if view.recorded == HostState::Lost && !view.is_late {
                self.find_if_alive(host);
            }
        }
    }

    pub(super) fn tend_relays(&mut self) {
        let now = self.now;
        for at in 0..self.relays.len() {
            self.nonce += 1;
            let nonce = self.nonce;
            let relay = &mut self.relays[at];
            let to = Recipient::Host(relay.name.clone());
            if relay.series.is_done(now) && now >= relay.next_probe {
                relay.begin_series(if relay.clock.is_some() { 1 } else { PROBES }, now);
            }
            let is_due = now >= relay.next_clocks;
            if is_due {
                relay.next_clocks = later(now, PROBE_EVERY);
            }
            if relay.series.ask(nonce, now) {
                self.send_to(to.clone(), Body::Probe { nonce, at_ns: now.get(), clock: None });
            }
            if is_due {
                self.send_clocks(at, &to);
            }
        }
    }

    /// Proves to the hosts of a region that the coordinator lives; a lost one must not take it for a
    /// word.
    fn send_clocks(&mut self, at: usize, to: &Recipient) {
        let now = self.now;
        let known = self.relays[at].hosts.iter().filter_map(|&host| {
            let view = &self.hosts[host];
            let is_watched = view.has_joined && !view.recorded.is_final();
            let clock = view.clock.filter(|_| is_watched && view.lost_since.is_none())?;
            Some((view.name.clone(), clock.at(now)))
        });
        let known: Vec<(String, ClockOffset)> = known.collect();
        for clocks in known.chunks(CLOCKS_MAX) {
            let clocks = clocks.iter().cloned().collect();
            self.send_to(to.clone(), Body::Clocks { at_ns: now.get(), clocks });
        }
    }

    pub(super) fn relays_are_probed(&self) -> bool {
        self.relays.iter().all(|relay| relay.series.is_done(self.now))
    }

    /// The longest that a message to the host and its answer took.
    pub(super) fn round_trip(&self, at: usize) -> Nanos {
        let view = &self.hosts[at];
        let Some(relay) = view.relay else { return view.series.largest_round_trip() };
        // Half of both round trips is in the bound.
        let bound_ns = view.clock.map_or(0, |clock| clock.at(self.now).bound_ns);
        let both = later(GATHER, Nanos::new(bound_ns.saturating_mul(2)));
        later(self.relays[relay].series.largest_round_trip(), both)
    }
}

#[cfg(test)]
mod tests;
