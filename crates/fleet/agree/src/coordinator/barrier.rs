//! Starts at one time on all hosts.
//!
//! ```text
//!  all armed ─► probes ─► start ordered at T ─► half of the lead: all acknowledged? ─► T ─► started
//!      ▲                                                  │ no
//!      └──────────────── cancelled, at most 3 times ◄─────┘   then without the silent ones, or not
//! ```

use std::collections::BTreeMap;

use durio_base::Nanos;
use durio_record::fleet::{Barrier, CampaignEvent, CampaignOutcome, HostState, LostPolicy};

use super::CoordinatorMachine;
use super::views::{BarrierAttempt, BarrierStage, HostView, OrderedBarrier};
use crate::clock::{PROBES, QUESTION_EVERY, later, on_coordinator};
use crate::message::{
    Body, CampaignStep, HostStatus, OrderedStart, PlannedStep, StartOrder, TimetableEntry,
};

/// Orders of one step, before hosts that do not acknowledge are left behind.
const ATTEMPTS_MAX: u32 = 3;
/// The shortest time between an order and its start, and the longest.
const LEAD_MIN: Nanos = Nanos::from_millis(500);
const LEAD_MAX: Nanos = Nanos::from_secs(60);
/// The first order has no measured fan-out. To 10,000 connections it took 0.45 s, which has the same
/// margin here.
const LEAD_PER_HOST: Nanos = Nanos::from_micros(225);
/// How much later than ordered a step may start.
const START_SLACK: Nanos = Nanos::from_millis(100);
/// The least time between the end of a step in the timetable and the start of the next.
const TIMETABLE_SLACK: Nanos = Nanos::from_secs(1);
/// How long probes may take, at least.
const PROBING_MAX: Nanos = Nanos::from_secs(2);
/// How long after a start the hosts are waited for that do not report it.
const PASS_WAIT: Nanos = Nanos::from_secs(2);

/// How far ahead of its time a start is ordered.
fn lead(round_trip: Nanos, fan_out: Nanos, hosts: u64) -> Nanos {
    let times = |span: Nanos, count: u64| Nanos::new(span.get().saturating_mul(count));
    let measured = times(round_trip, 10).max(times(fan_out, 5));
    LEAD_MIN.max(measured).max(times(LEAD_PER_HOST, hosts)).min(LEAD_MAX)
}

/// Twice the time of all questions, if these are so many.
fn probing_max(hosts: usize) -> Nanos {
    let questions = (hosts as u64).saturating_mul(u64::from(PROBES));
    PROBING_MAX.max(Nanos::new(questions.saturating_mul(2 * QUESTION_EVERY.get())))
}

fn waiting(view: &HostView) -> Option<CampaignStep> {
    let status = view.status.as_ref()?;
    status.waiting.filter(|_| status.state == HostState::Armed)
}

impl CoordinatorMachine {
    pub(super) fn advance_barrier(&mut self) {
        let Some(mut barrier) = self.barrier.take() else {
            self.barrier = self.reach_barrier();
            return;
        };
        barrier.hosts.retain(|&at| self.hosts[at].is_active());
        if barrier.hosts.is_empty() {
            return;
        }
        self.barrier = match &barrier.stage {
            BarrierStage::Ordered(_) => self.watch_start(barrier),
            BarrierStage::Probing { since } => {
                let is_done = |&at: &usize| self.hosts[at].series.is_done(self.now);
                let is_over = self.now.saturating_sub(*since) > probing_max(barrier.hosts.len());
                if self.relays_are_probed() && barrier.hosts.iter().all(is_done) || is_over {
                    self.order_start(barrier)
                } else {
                    Some(barrier)
                }
            }
        };
    }

    /// A barrier is reached when every host waits for a step, or has started the first of these.
    fn reach_barrier(&mut self) -> Option<BarrierAttempt> {
        let active: Vec<usize> =
            (0..self.hosts.len()).filter(|&at| self.hosts[at].is_active()).collect();
        let step = active.iter().filter_map(|&at| waiting(&self.hosts[at])).min()?;
        let has_started = |status: &HostStatus| {
            let started = status.started.map(|started| started.step);
            status.state == HostState::Running && started == Some(step)
        };
        let is_behind = |&at: &usize| {
            let view = &self.hosts[at];
            waiting(view).is_none() && !view.status.as_ref().is_some_and(has_started)
        };
        let behind: Vec<usize> = active.iter().copied().filter(is_behind).collect();
        if !behind.is_empty() {
            self.await_arming(&behind, active.len());
            return None;
        }
        self.half_armed = None;
        let is_of_step = |&at: &usize| waiting(&self.hosts[at]) == Some(step);
        let hosts: Vec<usize> = active.into_iter().filter(is_of_step).collect();
        let tried = self.attempts.filter(|tried| tried.0 == step).map_or(0, |tried| tried.1);
        if tried == 0 {
            let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
            self.event(CampaignEvent::BarrierReached { step: step.step, hosts: count });
        }
        let now = self.now;
        hosts.iter().for_each(|&at| self.hosts[at].begin_series(PROBES, now));
        self.relays.iter_mut().for_each(|relay| relay.begin_series(PROBES, now));
        let attempt = tried.saturating_add(1);
        Some(BarrierAttempt { step, attempt, hosts, stage: BarrierStage::Probing { since: now } })
    }

    /// Hosts that still lay out long after half of the others are named, and left behind or waited
    /// for no longer.
    fn await_arming(&mut self, behind: &[usize], active: usize) {
        if behind.len() * 2 > active {
            self.half_armed = None;
            return;
        }
        let half = *self.half_armed.get_or_insert(self.now);
        if self.now.saturating_sub(half) <= self.config.limits.arm_wait {
            return;
        }
        let is_laying_out = |&at: &usize| self.hosts[at].recorded < HostState::Armed;
        let slow: Vec<usize> = behind.iter().copied().filter(is_laying_out).collect();
        self.give_up_on(&slow, "not armed in time");
        self.give_up_on_hung(behind, half);
    }

    /// The same for hosts that still run long after the runs of as many others have ended.
    pub(super) fn await_ends(&mut self) {
        let has_ended =
            |view: &&HostView| matches!(view.recorded, HostState::Ended | HostState::Collected);
        let ended = self.hosts.iter().filter(has_ended).count();
        let behind: Vec<usize> =
            (0..self.hosts.len()).filter(|&at| self.hosts[at].is_active()).collect();
        if behind.is_empty() || behind.len() > ended {
            self.half_ended = None;
            return;
        }
        let half = *self.half_ended.get_or_insert(self.now);
        self.give_up_on_hung(&behind, half);
    }

    /// A run hangs that does nothing, long after its plan's time since half of the hosts were done.
    fn give_up_on_hung(&mut self, behind: &[usize], half: Nanos) {
        let (limit, waited) = (self.config.limits.arm_wait, self.now.saturating_sub(half));
        let is_hung = |&at: &usize| {
            let HostView { plan, status: Some(status), .. } = &self.hosts[at] else { return false };
            let steps = plan.iter().flat_map(|plan| &plan.steps);
            let lengths = steps.filter_map(|planned| planned.length_ns);
            let stated = lengths.fold(0, u64::saturating_add);
            // An agent of an earlier version does not say how long it has been quiet.
            let is_quiet = status.quiet.is_none_or(|quiet| quiet > limit);
            let is_late = waited > later(limit, Nanos::new(stated));
            status.state == HostState::Running && is_quiet && is_late
        };
        let hung: Vec<usize> = behind.iter().copied().filter(is_hung).collect();
        self.give_up_on(&hung, &format!("its run hangs: half of the hosts were done {waited} ago"));
    }

    fn give_up_on(&mut self, hosts: &[usize], reason: &str) {
        if hosts.is_empty() {
            return;
        }
        if self.config.policy.lost == LostPolicy::Stop {
            let names: Vec<&str> = hosts.iter().map(|&at| self.hosts[at].name.as_str()).collect();
            let reason = format!("{}: {reason}", names.join(", "));
            return self.stop(&reason, CampaignOutcome::Stopped);
        }
        hosts.iter().for_each(|&at| self.go_on_without(at, reason));
    }

    pub(super) fn skip(&mut self, name: &str) {
        let is_here = |view: &HostView| {
            let is_over = view.recorded.is_final() || view.recorded == HostState::Ended;
            view.stop.is_none() && (!is_over || view.recorded == HostState::Lost)
        };
        if let Some(at) = self.position(name).filter(|&at| is_here(&self.hosts[at])) {
            self.go_on_without(at, "left out by the operator");
        }
    }

    fn go_on_without(&mut self, at: usize, reason: &str) {
        let text = format!("{}: {reason}", self.hosts[at].name);
        self.event(CampaignEvent::Decision { decision: "leave_out".to_owned(), reason: text });
        self.leave_out(at, reason);
    }

    /// The host is told to stop until its status shows it.
    pub(super) fn leave_out(&mut self, at: usize, reason: &str) {
        let view = &mut self.hosts[at];
        if view.recorded == HostState::Asked {
            return self.record(at, HostState::Stopped, Some(reason.to_owned()));
        }
        let is_over = view.recorded.is_final() && view.recorded != HostState::Lost;
        if !is_over && view.stop.is_none() {
            (view.stop, view.next_order) = (Some((reason.to_owned(), self.now)), self.now);
        }
    }

    fn order_start(&mut self, mut barrier: BarrierAttempt) -> Option<BarrierAttempt> {
        let is_unknown = |&at: &usize| self.hosts[at].clock.is_none();
        let silent: Vec<usize> = barrier.hosts.iter().copied().filter(is_unknown).collect();
        if !silent.is_empty() {
            self.cancel_start(&barrier, &silent);
            return None;
        }
        let (step, attempt, now) = (barrier.step, barrier.attempt, self.now);
        let round_trip = barrier.hosts.iter().map(|&at| self.round_trip(at)).max();
        let hosts = barrier.hosts.len() as u64;
        let lead = lead(round_trip.unwrap_or_default(), self.fan_out, hosts);
        let at = later(now, lead);
        let timetable = self.timetable(&barrier, at);
        for &host in &barrier.hosts {
            let view = &self.hosts[host];
            let (Some(clock), Some(status)) = (view.clock, &view.status) else { continue };
            let order = StartOrder {
                step,
                attempt,
                boot_id: status.machine.boot_id.clone(),
                at,
                not_after: later(at, START_SLACK),
                clock: clock.at(at),
                timetable: timetable.clone(),
            };
            self.send(host, Body::Start(Box::new(order)));
        }
        let (start_ns, lead_ns) = (self.since_begin(at).get(), lead.get());
        let event = CampaignEvent::BarrierOrdered { step: step.step, attempt, start_ns, lead_ns };
        self.event(event);
        let (acknowledged, started) = (BTreeMap::new(), BTreeMap::new());
        barrier.stage =
            BarrierStage::Ordered(OrderedBarrier { since: now, at, lead, acknowledged, started });
        Some(barrier)
    }

    /// The starts of the steps that follow, as far as all hosts have the same ones and know how long
    /// they take.
    fn timetable(&self, barrier: &BarrierAttempt, at: Nanos) -> Vec<TimetableEntry> {
        let following = |&host: &usize| -> Option<&[PlannedStep]> {
            let steps = &self.hosts[host].plan.as_ref()?.steps;
            let first = steps.iter().position(|planned| planned.step == barrier.step)?;
            steps.get(first..)
        };
        let plans: Option<Vec<&[PlannedStep]>> = barrier.hosts.iter().map(following).collect();
        let plans = plans.unwrap_or_default();
        let mut entries = Vec::new();
        let Some(&reference) = plans.first() else { return entries };
        if self.config.policy.barrier == Barrier::Start {
            return entries;
        }
        let mut time = at;
        for (index, pair) in reference.windows(2).enumerate() {
            let lengths: Option<Vec<u64>> =
                plans.iter().map(|plan| plan.get(index)?.length_ns).collect();
            let step = pair[1].step;
            let is_common = |plan: &&[PlannedStep]| {
                plan.get(index + 1).is_some_and(|planned| planned.step == step)
            };
            let Some(length) = lengths.and_then(|lengths| lengths.into_iter().max()) else { break };
            if !plans.iter().all(is_common) {
                break;
            }
            let slack = TIMETABLE_SLACK.max(Nanos::new(length / 20));
            time = later(later(time, Nanos::new(length)), slack);
            let is_ordered =
                self.config.policy.barrier == Barrier::Step || pair[0].step.section != step.section;
            if is_ordered {
                entries.push(TimetableEntry { step, at: time, not_after: later(time, slack) });
            }
        }
        entries
    }

    fn watch_start(&mut self, mut barrier: BarrierAttempt) -> Option<BarrierAttempt> {
        let (step, attempt, now) = (barrier.step, barrier.attempt, self.now);
        let BarrierStage::Ordered(ordered) = &mut barrier.stage else { return Some(barrier) };
        for &at in &barrier.hosts {
            let view = &self.hosts[at];
            let Some(status) = &view.status else { continue };
            let started = status.started.filter(|started| started.step == step);
            if started.is_some() || status.ordered == Some(OrderedStart { step, attempt }) {
                ordered.acknowledged.entry(at).or_insert(now);
            }
            if let (Some(started), Some(clock)) = (started, view.clock) {
                let time = on_coordinator(Nanos::new(started.at_ns), clock.at(now));
                ordered.started.entry(at).or_insert(time);
            }
        }
        let is_missing = |at: &usize| !ordered.acknowledged.contains_key(at);
        let silent: Vec<usize> = barrier.hosts.iter().copied().filter(is_missing).collect();
        if !silent.is_empty() && now.saturating_sub(ordered.since).get() >= ordered.lead.get() / 2 {
            self.cancel_start(&barrier, &silent);
            return None;
        }
        let has_started = |at: &usize| ordered.started.contains_key(at);
        if now >= ordered.at && barrier.hosts.iter().all(has_started) {
            self.pass(&barrier, step);
            return None;
        }
        if now > later(ordered.at, PASS_WAIT) {
            // Those that still wait make another barrier.
            self.attempts = Some((step, attempt));
            return None;
        }
        Some(barrier)
    }

    fn pass(&mut self, barrier: &BarrierAttempt, step: CampaignStep) {
        let BarrierStage::Ordered(ordered) = &barrier.stage else { return };
        let started = |at: &usize| ordered.started.get(at).copied();
        let starts: Vec<Nanos> = barrier.hosts.iter().filter_map(started).collect();
        let first = starts.iter().min().copied().unwrap_or_default();
        let last = starts.iter().max().copied().unwrap_or_default();
        let clocks = barrier.hosts.iter().filter_map(|&at| self.hosts[at].clock);
        let bound_ns = clocks.map(|clock| clock.at(ordered.at).bound_ns).max().unwrap_or_default();
        let mut delays: Vec<Nanos> =
            ordered.acknowledged.values().map(|time| time.saturating_sub(ordered.since)).collect();
        delays.sort_unstable();
        let rank = (delays.len() * 99).div_ceil(100).saturating_sub(1);
        let fan_out = delays.get(rank).copied().unwrap_or_default();
        let skew_ns = last.saturating_sub(first).get();
        self.fan_out = fan_out;
        self.event(CampaignEvent::BarrierPassed { step: step.step, skew_ns, bound_ns });
    }

    fn cancel_start(&mut self, barrier: &BarrierAttempt, silent: &[usize]) {
        let (step, attempt) = (barrier.step, barrier.attempt);
        self.attempts = Some((step, attempt));
        if matches!(barrier.stage, BarrierStage::Ordered(_)) {
            for &at in &barrier.hosts {
                self.send(at, Body::Cancel { step, attempt });
            }
        }
        let names = silent.iter().map(|&at| self.hosts[at].name.clone()).collect();
        let event = CampaignEvent::BarrierCancelled { step: step.step, attempt, silent: names };
        self.event(event);
        if attempt >= ATTEMPTS_MAX {
            self.give_up_on(
                silent,
                &format!("did not acknowledge the start in {attempt} attempts"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_is_half_a_second_or_what_round_trips_fan_out_and_hosts_need() {
        let lead = |[round_trip, fan_out]: [u64; 2], hosts| {
            lead(Nanos::from_micros(round_trip), Nanos::from_micros(fan_out), hosts)
        };
        let in_micros = |round_trip, fan_out| lead([round_trip, fan_out], 1);
        assert_eq!(in_micros(200, 700), Nanos::from_millis(500));
        assert_eq!(in_micros(50_000, 100_000), Nanos::from_millis(500));
        assert_eq!(in_micros(50_001, 0), Nanos::from_micros(500_010));
        assert_eq!(in_micros(0, 100_001), Nanos::from_micros(500_005));
        assert_eq!(in_micros(40_000, 700_000), Nanos::from_millis(3_500));
        assert_eq!(in_micros(60_000_000, 0), Nanos::from_secs(60));
        assert_eq!(lead([200, 700], 2_222), Nanos::from_millis(500));
        assert_eq!(lead([200, 700], 10_000), Nanos::from_millis(2_250));
    }
}
