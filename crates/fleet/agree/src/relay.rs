//! A relay of one region of hosts, so that the coordinator of thousands has the traffic of a few.
//!
//! ```text
//!           statuses ──► all hosts twice a second, changed ones at once ──┐
//!  hosts ── answers ───► clocks of hosts, against the relay's             ├──► coordinator
//!           pieces ────► unchanged ───────────────────────────────────────┤
//!           figures ───► merged, once a second ───────────────────────────┘
//!  hosts ◄────────────── orders, unchanged ◄───────────────────────────────── coordinator
//! ```
//!
//! A relay cannot sign an order and no host obeys it; statuses keep the signature of their host. What
//! the coordinator has from the relay alone is how old a host's last sign of life is, and its clock:
//! both against the clock of the relay, whose offset and bound the coordinator adds; and which status
//! it must have to know what the host does, for which it asks if it does not. A host whose clock the
//! relay does not know yet is not vouched for.

use std::collections::BTreeMap;

use durio_base::Nanos;
use durio_record::fleet::HostState;

use crate::clock::{ClockEstimate, PROBE_EVERY, PROBES, ProbeSeries, later, on_coordinator};
use crate::fault::FleetFault;
use crate::live::LiveBoard;
use crate::message::{Body, BusMessage, COORDINATOR, HostStatus, RELAY, Verify, subject_token};
use crate::region::{HostWord, RegionReport};
use crate::sign::Newest;

pub const REPORT_EVERY: Nanos = Nanos::from_millis(500);
/// How long a changed status waits for those of other hosts.
pub const GATHER: Nanos = Nanos::from_millis(50);
/// Sendings of a changed status half a second apart, because none is acknowledged.
const SENDINGS: u32 = 2;
/// Time between later sendings.
const STATUS_EVERY: Nanos = Nanos::from_secs(10);
const LIVE_EVERY: Nanos = Nanos::from_secs(1);
const MINUTE: Nanos = Nanos::from_secs(60);
/// Bytes of statuses in one report, next to the words of all hosts. A longer one is a message.
pub const STATUSES_BYTES: usize = 256 << 10;
/// Hosts that are asked for their clocks at a time: more answers would wait for each other.
const SERIES_MAX: usize = 100;

#[derive(Debug, Clone, Default)]
pub struct RelayConfig {
    pub name: String,
    pub campaign: String,
    /// The boot whose clock is meant.
    pub boot_id: String,
    pub hosts: Vec<String>,
    /// A rule that is broken on purpose, by the simulator.
    pub fault: Option<FleetFault>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RelayInput {
    Tick,
    /// The coordinator's bus can be reached, or not any more.
    Connected(bool),
    /// From the subject of this host.
    Host {
        host: String,
        message: BusMessage,
    },
    /// From the coordinator, to the relay or to a host of its region.
    Coordinator {
        to: String,
        message: BusMessage,
    },
    /// The figures of one host.
    Live {
        host: String,
        encoded: Vec<u8>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum RelayEffect {
    /// Unchanged, or a question of the relay itself, which needs no signature.
    ToHost { host: String, message: BusMessage },
    /// Unchanged, or to be signed if the relay is its sender.
    ToCoordinator(BusMessage),
    /// The figures of the region.
    Live(Vec<u8>),
}

#[derive(Debug, Default)]
struct RegionHost {
    name: String,
    newest: Newest,
    /// The newest, as the host signed it.
    status: Option<BusMessage>,
    /// The first that says the same, and its incarnation and sequence.
    news: Option<(Box<HostStatus>, (u64, u64))>,
    /// When the last status was true, on the host's clock.
    said: Nanos,
    /// Sendings that are left before the status is sent at times only.
    sendings: u32,
    next_sending: Nanos,
    clock: Option<ClockEstimate>,
    series: ProbeSeries,
    /// Questions of the next series.
    probes: u32,
    next_probe: Nanos,
}

impl RegionHost {
    /// Asks for the clock as soon as others permit it.
    fn want_series(&mut self, now: Nanos) {
        (self.probes, self.next_probe) = (PROBES, now);
    }

    fn send_again(&mut self, now: Nanos) {
        (self.sendings, self.next_sending) = (SENDINGS, now);
    }

    /// The status, if it is to be sent now.
    fn due_status(&mut self, now: Nanos) -> Option<BusMessage> {
        let status = self.status.as_ref().filter(|_| now >= self.next_sending)?;
        // Without a clock its age is unknown, and the coordinator would lose it at once.
        self.clock?;
        self.sendings = self.sendings.saturating_sub(1);
        let span = if self.sendings > 0 { REPORT_EVERY } else { STATUS_EVERY };
        self.next_sending = later(now, span);
        Some(status.clone())
    }

    /// A status may have waited on its way: the time inside counts, in the host's favour as far as its
    /// clock is not known.
    fn word(&self, now: Nanos, fault: Option<FleetFault>) -> Option<HostWord> {
        let clock = self.clock?.at(now);
        let (_, number) = self.news.as_ref()?;
        let sent = on_coordinator(self.said, clock);
        let alive = later(sent, Nanos::new(clock.bound_ns)).min(now);
        let is_hidden = FleetFault::RelayHidesLoss.is_in(fault);
        let age_ns = if is_hidden { 0 } else { now.saturating_sub(alive).get() };
        let is_omitted = FleetFault::RelayBoundOmitted.is_in(fault);
        let bound_ns = if is_omitted { 0 } else { clock.bound_ns };
        Some((age_ns, clock.offset_ns, bound_ns, *number))
    }
}

#[derive(Debug)]
pub struct RelayMachine {
    config: RelayConfig,
    hosts: Vec<RegionHost>,
    /// Where each is in `hosts`.
    places: BTreeMap<String, usize>,
    incarnation: u64,
    sequence: u64,
    nonce: u64,
    is_connected: bool,
    /// The process of the coordinator whose questions come.
    coordinator: u64,
    next_gathering: Nanos,
    next_report: Nanos,
    /// Figures that came since the last were sent.
    live: LiveBoard,
    next_live: Nanos,
    ignored: u64,
    effects: Vec<RelayEffect>,
}

impl RelayMachine {
    pub fn new(config: RelayConfig, now: Nanos) -> Self {
        let host = |name: &String| RegionHost { name: name.clone(), ..RegionHost::default() };
        let places = config.hosts.iter().enumerate().map(|(at, name)| (name.clone(), at));
        Self {
            hosts: config.hosts.iter().map(host).collect(),
            places: places.collect(),
            config,
            // The clock grows over all processes of a boot.
            incarnation: now.get(),
            sequence: 0,
            // Answers to an earlier process are not taken for answers to this one.
            nonce: now.get(),
            is_connected: false,
            coordinator: 0,
            next_gathering: now,
            next_report: now,
            live: LiveBoard::default(),
            next_live: now,
            ignored: 0,
            effects: Vec::new(),
        }
    }

    pub fn handle(
        &mut self,
        now: Nanos,
        input: RelayInput,
        verify: &dyn Verify,
    ) -> Vec<RelayEffect> {
        match input {
            RelayInput::Tick => self.tick(now),
            RelayInput::Connected(is_connected) => {
                self.is_connected = is_connected;
                self.hosts.iter_mut().for_each(|host| host.send_again(now));
            }
            RelayInput::Host { host, message } => self.hear_host(now, &host, message, verify),
            RelayInput::Coordinator { to, message } => self.pass_on(now, to, message, verify),
            RelayInput::Live { host, encoded } => {
                let is_here = self.places.contains_key(&host);
                // The coordinator knows the plans, and judges the step.
                let mut take = || self.live.take((&host, &encoded), now, |_| true).is_ok();
                self.ignored += u64::from(!(is_here && take()));
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// Messages without effect: duplicates, stale, foreign and unsigned ones.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    fn hear_host(&mut self, now: Nanos, host: &str, message: BusMessage, verify: &dyn Verify) {
        let is_status = matches!(message.body, Body::Status(_));
        let is_genuine = message.campaign == self.config.campaign
            && message.sender == host
            && (!is_status || message.is_signed(verify));
        let Some(&at) = self.places.get(host).filter(|_| is_genuine) else {
            self.ignored += 1;
            return;
        };
        let known = &mut self.hosts[at];
        match &message.body {
            Body::Status(status) => {
                let number = (message.incarnation, message.sequence);
                let Some(is_new_boot) = known.newest.take(&status.machine.boot_id, number) else {
                    self.ignored += 1;
                    return;
                };
                if is_new_boot {
                    known.clock = None;
                }
                if known.clock.is_none() {
                    // Also when the answers to a whole series were lost.
                    known.want_series(now);
                }
                known.said = Nanos::new(status.at_ns);
                let is_known = known.news.as_ref().is_some_and(|(before, before_number)| {
                    before_number.0 == number.0 && is_same(before, status)
                });
                if !is_known {
                    if status.state == HostState::Armed {
                        // A start needs the best estimate.
                        known.want_series(now);
                    }
                    known.news = Some((status.clone(), number));
                    known.send_again(now);
                }
                known.status = Some(message);
            }
            Body::Answer { nonce, at_ns } => {
                let answer = (*nonce, Nanos::new(*at_ns));
                let Some(estimate) = known.series.answer(answer, now, None) else {
                    self.ignored += 1;
                    return;
                };
                known.clock = Some(ClockEstimate::renewed(known.clock, estimate, now).0);
            }
            Body::Piece { .. } if self.is_connected => {
                self.effects.push(RelayEffect::ToCoordinator(message));
            }
            _ => self.ignored += 1,
        }
    }

    fn pass_on(&mut self, now: Nanos, to: String, message: BusMessage, verify: &dyn Verify) {
        if message.campaign != self.config.campaign || message.sender != COORDINATOR {
            self.ignored += 1;
            return;
        }
        if to != self.config.name {
            if self.places.contains_key(&to) {
                self.effects.push(RelayEffect::ToHost { host: to, message });
            } else {
                self.ignored += 1;
            }
            return;
        }
        match &message.body {
            Body::Probe { nonce, .. } if message.is_signed(verify) => {
                let nonce = *nonce;
                if message.incarnation > self.coordinator {
                    // It has nothing of what its predecessor received.
                    self.coordinator = message.incarnation;
                    self.hosts.iter_mut().for_each(|host| host.send_again(now));
                }
                self.send(Body::Answer { nonce, at_ns: now.get() });
            }
            Body::Clocks { clocks, .. } => {
                let here = clocks.keys().filter(|host| self.places.contains_key(*host));
                let copies = here.map(|host| {
                    let (host, message) = (host.clone(), message.clone());
                    RelayEffect::ToHost { host, message }
                });
                self.effects.extend(copies);
            }
            Body::Repeat { hosts } if message.is_signed(verify) => {
                for at in hosts.iter().filter_map(|host| self.places.get(host)) {
                    self.hosts[*at].next_sending = now;
                }
            }
            _ => self.ignored += 1,
        }
    }

    fn tick(&mut self, now: Nanos) {
        self.probe(now);
        if !self.is_connected {
            return;
        }
        self.report(now);
        if now >= self.next_live {
            self.next_live = later(now, LIVE_EVERY);
            self.effects.extend(self.live.drain().map(RelayEffect::Live));
        }
    }

    fn probe(&mut self, now: Nanos) {
        let mut open = self.hosts.iter().filter(|host| !host.series.is_done(now)).count();
        for host in self.hosts.iter_mut().filter(|host| host.status.is_some()) {
            if open < SERIES_MAX && now >= host.next_probe && host.series.is_done(now) {
                let probes = if host.clock.is_some() { host.probes } else { PROBES };
                host.series = ProbeSeries::new(probes, now);
                (host.probes, host.next_probe) = (1, later(now, PROBE_EVERY));
                open += 1;
            }
            self.nonce += 1;
            if host.series.ask(self.nonce, now) {
                self.sequence += 1;
                let body = Body::Probe { nonce: self.nonce, at_ns: now.get(), clock: None };
                let number = (self.incarnation, self.sequence);
                let message = BusMessage::new(&self.config.campaign, RELAY, number, body);
                self.effects.push(RelayEffect::ToHost { host: host.name.clone(), message });
            }
        }
    }

    /// Words of all hosts when they are due, and the statuses that are.
    fn report(&mut self, now: Nanos) {
        let is_due = now >= self.next_report;
        if !is_due && now < self.next_gathering {
            return;
        }
        let due: Vec<BusMessage> =
            self.hosts.iter_mut().filter_map(|host| host.due_status(now)).collect();
        let (mut statuses, mut size) = (Vec::new(), 0);
        for status in due {
            let length = status.encode().map_or(usize::MAX, |encoded| encoded.len());
            if length > STATUSES_BYTES {
                // Too long for a part of a message; it may be a message.
                self.effects.push(RelayEffect::ToCoordinator(status));
                continue;
            }
            if size + length > STATUSES_BYTES {
                self.send_report(now, BTreeMap::new(), std::mem::take(&mut statuses));
                size = 0;
            }
            size += length;
            statuses.push(status);
        }
        if is_due {
            self.next_report = later(now, REPORT_EVERY);
            let words = self.words(now);
            self.send_report(now, words, statuses);
        } else if !statuses.is_empty() {
            self.send_report(now, BTreeMap::new(), statuses);
        }
    }

    fn words(&self, now: Nanos) -> BTreeMap<String, HostWord> {
        let fault = self.config.fault;
        let forgotten = usize::from(FleetFault::RelayForgetsHost.is_in(fault));
        let hosts = self.hosts.iter().skip(forgotten);
        hosts.filter_map(|host| Some((host.name.clone(), host.word(now, fault)?))).collect()
    }

    fn send_report(
        &mut self,
        now: Nanos,
        words: BTreeMap<String, HostWord>,
        statuses: Vec<BusMessage>,
    ) {
        self.next_gathering = later(now, GATHER);
        let boot_id = self.config.boot_id.clone();
        let report = Box::new(RegionReport { at_ns: now.get(), boot_id, words });
        self.send(Body::Region { report, statuses });
    }

    fn send(&mut self, body: Body) {
        // What a client would keep while it is cut off is stale when it arrives.
        if !self.is_connected {
            return;
        }
        self.sequence += 1;
        let RelayConfig { campaign, name, .. } = &self.config;
        let message = BusMessage::new(campaign, name, (self.incarnation, self.sequence), body);
        self.effects.push(RelayEffect::ToCoordinator(message));
    }
}

/// Where the coordinator sends a message for a host behind a relay: below the relay's own subject, so
/// that a relay needs the rights of one host.
#[must_use]
pub fn subject_through(relay: &str, host: &str, message: &BusMessage) -> String {
    let [relay, host] = [relay, host].map(subject_token);
    format!("c.{}.to.{relay}.{host}.{}", message.campaign, message.body.kind())
}

/// The host that a message on such a subject is for; `None` for one to the relay itself.
#[must_use]
pub fn host_behind(subject: &str) -> Option<String> {
    let mut parts = subject.split('.').skip(4);
    // Without a host the part is the kind, which is the last one.
    let (host, _kind) = (parts.next()?, parts.next()?);
    Some(host.replace(',', "."))
}

/// Where a relay sends its own messages, and passes on its hosts'.
#[must_use]
pub fn subject_by(relay: &str, message: &BusMessage) -> String {
    format!("c.{}.h.{}.{}", message.campaign, subject_token(relay), message.body.kind())
}

/// Whether both say the same, whenever they were said. How long a run has been quiet is news once a
/// minute.
fn is_same(before: &HostStatus, status: &HostStatus) -> bool {
    let minutes = |quiet: Option<Nanos>| quiet.map(|quiet| quiet.get() / MINUTE.get());
    let HostStatus { at_ns, quiet, .. } = *before;
    minutes(quiet) == minutes(status.quiet)
        && HostStatus { at_ns, quiet, ..status.clone() } == *before
}

#[cfg(test)]
mod tests;
