//! A host's part in a campaign: it decides by itself what it obeys, and when.
//!
//! ```text
//!  lock ─► Joined ─► Planned ─► Permitted ─► Armed ─► Ordered ─► Running ─► Ended ─► Collected
//!            │ plan refused   │ run order     ▲  gate of a step  │
//!            ▼                ▼               └──────────────────┘
//!          Refused       the child runs
//! ```
//!
//! Takes messages, the child's words and ticks with the host's monotonic time; returns effects, which
//! the caller carries out in their order. [`HostMachine::next_deadline`] is the time of the next tick, so
//! that the caller sleeps until then. An order has an effect only if the coordinator signed it, it is
//! newer than the last, its time has not passed, and the state fits. The child asks for the start of each
//! step and is answered shortly before it: until then a cancellation reaches it.

mod ends;
mod starts;

use durio_base::Nanos;
use durio_record::fleet::{Barrier, ClockOffset, HostState};
use serde::{Deserialize, Serialize};

use crate::clock::{later, on_host};
use crate::fault::FleetFault;
use crate::message::{
    Body, BusMessage, COORDINATOR, CampaignStep, HostIdentity, HostStatus, OrderedStart,
    PIECE_BYTES, PlanSummary, RELAY, RunOrder, RunSummary, StartOrder, StartedStep, Verify, digest,
};
use crate::permit::PermittedTime;
use starts::{PendingStart, Timetable};

pub const HEARTBEAT_EVERY: Nanos = Nanos::from_millis(500);
/// How long before the start of a step the child is told: its waking and counters take some of it.
pub const GATE_MARGIN: Nanos = Nanos::from_millis(100);

#[derive(Debug, Clone, Default)]
pub struct HostConfig {
    pub name: String,
    pub campaign: String,
    pub machine: HostIdentity,
    /// A rule that is broken on purpose, by the simulator.
    pub fault: Option<FleetFault>,
}

/// What a host knows of a campaign after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostMemory {
    /// A run was started; it is never started again.
    pub has_run: bool,
    /// The state in which the campaign ended here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<HostState>,
    /// Incarnation and sequence of the last order with an effect.
    pub newest: (u64, u64),
    /// The key that signs the campaign's orders; no other is obeyed until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum HostInput {
    /// The time that [`HostMachine::next_deadline`] names has come. Earlier it has no effect.
    Tick,
    /// The bus can be reached, or not any more.
    Connected(bool),
    Message(BusMessage),
    /// The answer to [`HostEffect::Lock`]; an error names the campaign that has the lock.
    Locked(Result<(), String>),
    /// The times that the host's file permits. It comes before the plan.
    Permitted(PermittedTime),
    /// The answer to [`HostEffect::Plan`]; an error says what the plan or the permits refuse.
    Planned(Result<PlanSummary, String>),
    /// The answer to [`HostEffect::Remember`].
    Remembered(Result<(), String>),
    Child(ChildEvent),
    /// The child has written, read or recorded something.
    Progress,
    /// The child is gone; a failure is in words.
    ChildExited(Option<String>),
    /// The run has to end for a reason of this host, such as a limit of its permit.
    Stop(String),
    /// The answer to [`HostEffect::Inspect`].
    Inspected(Result<RunSummary, String>),
    /// The answer to [`HostEffect::Read`].
    Read {
        file: String,
        offset: u64,
        bytes: Vec<u8>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum HostEffect {
    /// To the coordinator, to be signed.
    Send(BusMessage),
    /// Take the lock of this host for the campaign.
    Lock,
    Unlock,
    /// Store this durably. What depends on it is ordered, and reported, after the answer.
    Remember(HostMemory),
    /// Plan the spec and compare the plan with the permits; nothing is written.
    Plan {
        spec: String,
    },
    StartChild,
    /// Tell the child when its step starts. The attempt is that of the order, 0 without one.
    Answer {
        answer: GateAnswer,
        attempt: u32,
    },
    StopChild,
    /// Find the run folder of the campaign, and its digest.
    Inspect,
    /// Read a piece of the run folder.
    Read {
        file: String,
        offset: u64,
        length: u64,
    },
}

/// A line of the child at its gate (docs/formats/gate.md); the machine needs no other field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildEvent {
    /// A step is ready to start.
    Ready(CampaignStep),
    Ended {
        step: u32,
    },
}

/// The answer to a step that is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateAnswer {
    Start {
        /// On this host's clock.
        at_ns: u64,
        /// The coordinator's clock − this host's.
        offset_ns: i64,
        bound_ns: u64,
    },
    Abort(String),
}

#[derive(Debug, Default)]
pub struct HostMachine {
    config: HostConfig,
    memory: HostMemory,
    incarnation: u64,
    sequence: u64,
    state: HostState,
    reason: Option<String>,
    is_connected: bool,
    is_locked: bool,
    is_planning: bool,
    has_child: bool,
    /// Why the run is cut: it is stopped, or has failed.
    stopping: Option<String>,
    plan: Option<PlanSummary>,
    order: Option<RunOrder>,
    run_began: Nanos,
    waiting: Option<CampaignStep>,
    pending: Option<PendingStart>,
    acknowledged: Option<OrderedStart>,
    timetable: Option<Timetable>,
    started: Option<StartedStep>,
    run: Option<RunSummary>,
    /// The status that is reported until the memory is stored, and the effects that wait for that.
    storing: Option<(Box<HostStatus>, Vec<HostEffect>)>,
    permitted: PermittedTime,
    /// When the child was last seen to do something.
    progress: Nanos,
    /// When the coordinator is known to have lived.
    heard: Nanos,
    next_heartbeat: Nanos,
    ignored: u64,
    effects: Vec<HostEffect>,
}

impl HostMachine {
    /// Begins, or goes on after a restart.
    pub fn start(config: HostConfig, memory: HostMemory, now: Nanos) -> (Self, Vec<HostEffect>) {
        let mut machine = Self {
            config,
            memory,
            // The clock grows over all processes of a boot.
            incarnation: now.get(),
            state: HostState::Joined,
            run_began: now,
            heard: now,
            next_heartbeat: now,
            ..Self::default()
        };
        if FleetFault::RestartRepeatsRun.is_in(machine.config.fault) {
            machine.memory = HostMemory::default();
        }
        if let Some(done) = machine.memory.done {
            machine.state = done;
        } else if machine.memory.has_run {
            // The child ended with the process that had started it.
            machine.stopping = Some("the agent or the host was restarted".to_owned());
            machine.state = HostState::Ended;
            machine.effects.extend([HostEffect::Lock, HostEffect::Inspect]);
        } else {
            machine.effects.push(HostEffect::Lock);
        }
        let effects = std::mem::take(&mut machine.effects);
        (machine, effects)
    }

    pub fn handle(&mut self, now: Nanos, input: HostInput, verify: &dyn Verify) -> Vec<HostEffect> {
        match input {
            HostInput::Tick => self.tick(now),
            HostInput::Connected(is_connected) => {
                self.is_connected = is_connected;
                self.report(now);
            }
            HostInput::Message(message) => self.receive(now, message, verify),
            HostInput::Locked(result) => self.locked(now, result),
            HostInput::Permitted(permitted) => self.permitted = permitted,
            HostInput::Planned(plan) => self.planned(now, plan),
            HostInput::Remembered(result) => self.remembered(now, result),
            HostInput::Child(event) => self.child_event(now, event),
            HostInput::Progress => self.progress = now,
            HostInput::ChildExited(failure) => self.child_exited(failure),
            HostInput::Stop(reason) => self.stop(now, reason),
            HostInput::Inspected(Ok(mut run)) => {
                run.partial |= self.stopping.is_some();
                self.reason.clone_from(&self.stopping);
                (self.run, self.state) = (Some(run), HostState::Ended);
                self.report(now);
            }
            HostInput::Inspected(Err(reason)) => {
                let cause = self.stopping.take().map(|cause| format!("{cause}; "));
                let reason = cause.unwrap_or_default() + &reason;
                self.finish(now, HostState::Failed, reason);
            }
            HostInput::Read { file, offset, bytes } => self.send_piece(file, offset, bytes),
        }
        std::mem::take(&mut self.effects)
    }

    /// Messages without effect: duplicates, stale, foreign and unsigned ones.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    pub fn state(&self) -> HostState {
        self.state
    }

    /// When a [`HostInput::Tick`] has an effect, if nothing else comes before it; `None` if then only
    /// other inputs have one.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let start = self.pending.map(|start| start.at.saturating_sub(GATE_MARGIN));
        // Without a bus nothing can be reported; connecting reports at once.
        let heartbeat = self.is_connected.then_some(self.next_heartbeat);
        [start, heartbeat, self.run_ends_at()].into_iter().flatten().min()
    }

    fn receive(&mut self, now: Nanos, message: BusMessage, verify: &dyn Verify) {
        // A question alone has no effect, so it needs no signature.
        if let Body::Probe { nonce, clock: None, .. } = message.body
            && message.sender == RELAY
        {
            return self.send(Body::Answer { nonce, at_ns: now.get() });
        }
        let newest = (message.incarnation, message.sequence);
        let is_ours = message.campaign == self.config.campaign && message.sender == COORDINATOR;
        let is_signed =
            || message.is_signed(verify) || FleetFault::UnsignedObeyed.is_in(self.config.fault);
        if !is_ours || newest <= self.memory.newest || !is_signed() {
            self.ignored += 1;
            return;
        }
        self.memory.newest = newest;
        match message.body {
            Body::Probe { nonce, at_ns, clock } => {
                if let Some(clock) = clock {
                    self.hear(now, newest.0, (Nanos::new(at_ns), clock));
                }
                self.send(Body::Answer { nonce, at_ns: now.get() });
            }
            Body::Clocks { at_ns, clocks } => {
                if let Some(&clock) = clocks.get(&self.config.name) {
                    self.hear(now, newest.0, (Nanos::new(at_ns), clock));
                }
            }
            Body::Plan { spec, spec_digest } => self.plan(now, spec, &spec_digest),
            Body::Run(order) => self.run(now, *order),
            Body::Start(order) => self.start_step(now, newest.0, *order),
            Body::Cancel { step, attempt } => self.cancel(now, OrderedStart { step, attempt }),
            Body::Stop { reason } => self.stop(now, reason),
            Body::Fetch { run, file, offset, length } => {
                let known = self.run.as_ref().filter(|known| known.name == run);
                let has_file =
                    |run: &RunSummary| run.files.iter().any(|candidate| candidate.name == file);
                if known.is_some_and(has_file) && length <= PIECE_BYTES {
                    self.effects.push(HostEffect::Read { file, offset, length });
                }
            }
            Body::Release { run } => self.release(now, &run),
            Body::Refuse { reason } => {
                if !self.memory.has_run {
                    self.finish(now, HostState::Refused, reason);
                } else if self.run.is_some() {
                    self.finish(now, HostState::Failed, reason);
                }
            }
            Body::Status(_)
            | Body::Answer { .. }
            | Body::Piece { .. }
            | Body::Region { .. }
            | Body::Repeat { .. } => self.ignored += 1,
        }
    }

    /// The coordinator lived at `sent`. When the probe is read says nothing: it may have waited on the
    /// bus, or here while this process stood still.
    fn hear(&mut self, now: Nanos, incarnation: u64, (sent, clock): (Nanos, ClockOffset)) {
        let earliest = on_host(sent, clock).saturating_sub(Nanos::new(clock.bound_ns));
        self.heard = self.heard.max(earliest.min(now));
        // Times of an earlier coordinator may be on another clock.
        let timetable = self.timetable.as_mut();
        if let Some(table) = timetable.filter(|table| table.incarnation == incarnation) {
            (table.clock, table.known_at) = (clock, sent);
        }
    }

    fn locked(&mut self, now: Nanos, result: Result<(), String>) {
        match result {
            Err(holder) if !FleetFault::LockIgnored.is_in(self.config.fault) => {
                // The folder of an earlier run may be collected while another campaign runs.
                if !self.memory.has_run {
                    let reason = format!("campaign {holder} runs on this host");
                    self.finish(now, HostState::Refused, reason);
                }
            }
            Ok(()) if self.memory.done.is_some() => self.effects.push(HostEffect::Unlock),
            Ok(()) | Err(_) => self.is_locked = true,
        }
    }

    fn plan(&mut self, now: Nanos, spec: String, spec_digest: &str) {
        if self.state != HostState::Joined || self.is_planning {
            return;
        }
        if digest(&spec) != spec_digest {
            let reason = "the spec differs from its digest".to_owned();
            return self.finish(now, HostState::Refused, reason);
        }
        self.is_planning = true;
        self.effects.push(HostEffect::Plan { spec });
    }

    fn planned(&mut self, now: Nanos, plan: Result<PlanSummary, String>) {
        if !std::mem::take(&mut self.is_planning) || self.state != HostState::Joined {
            return;
        }
        let ignores = FleetFault::UnpermittedRun.is_in(self.config.fault);
        match plan {
            Err(reason) if !ignores => return self.finish(now, HostState::Refused, reason),
            plan => self.plan = Some(plan.unwrap_or_default()),
        }
        self.state = HostState::Planned;
        self.report(now);
    }

    fn run(&mut self, now: Nanos, order: RunOrder) {
        let is_twice = FleetFault::RunOrderedTwice.is_in(self.config.fault);
        let is_new = self.state == HostState::Planned && self.is_locked && !self.memory.has_run;
        let is_same = self.plan.as_ref().is_some_and(|plan| plan.plan_digest == order.plan_digest);
        let is_current =
            self.is_current(now, &order.boot_id, on_host(order.not_after, order.clock));
        if !(is_new || is_twice) || !is_same || !is_current {
            self.ignored += 1;
            return;
        }
        if let Some(reason) = self.permitted.too_late(now) {
            return self.finish(now, HostState::Refused, reason);
        }
        let before = self.status(now);
        self.memory.has_run = true;
        self.order = Some(order);
        (self.run_began, self.progress) = (now, now);
        (self.state, self.has_child) = (HostState::Permitted, true);
        self.store(before, Some(HostEffect::StartChild));
    }

    /// True for an order of this boot whose time has not passed.
    fn is_current(&self, now: Nanos, boot_id: &str, not_after: Nanos) -> bool {
        let is_late = now > not_after && !FleetFault::LateOrderObeyed.is_in(self.config.fault);
        boot_id == self.config.machine.boot_id && !is_late
    }

    fn child_event(&mut self, now: Nanos, event: ChildEvent) {
        // Its last words may be read after its exit was seen.
        if !self.has_child {
            return;
        }
        self.progress = now;
        let ChildEvent::Ready(step) = event else { return self.report(now) };
        if let Some(reason) = self.stopping.clone() {
            let answer = GateAnswer::Abort(reason);
            return self.effects.push(HostEffect::Answer { answer, attempt: 0 });
        }
        (self.waiting, self.pending) = (Some(step), None);
        if self.is_free(step) {
            let clock = ClockOffset { offset_ns: 0, bound_ns: 0 };
            let (at, not_after) = (now, now);
            let free = PendingStart { step, attempt: 0, at, not_after, clock, is_timetable: false };
            if self.has_time(now, now, step) {
                self.hand_over(now, free);
            }
            return;
        }
        self.pending = self.timetable.as_ref().and_then(|table| table.start_of(step));
        let at = self.pending.map_or(now, |start| start.at);
        if self.has_time(now, at, step) {
            self.state = match self.pending {
                Some(_) => HostState::Ordered,
                None => HostState::Armed,
            };
            self.report(now);
        }
    }

    /// Whether the order of an earlier step covers this one.
    fn is_free(&self, step: CampaignStep) -> bool {
        let Some(started) = self.started else { return false };
        match self.order.as_ref().map(|order| order.barrier) {
            Some(Barrier::Start) => true,
            Some(Barrier::Section) => {
                (started.step.section, started.step.round) == (step.section, step.round)
            }
            Some(Barrier::Step) | None => false,
        }
    }

    fn start_step(&mut self, now: Nanos, incarnation: u64, order: StartOrder) {
        let StartOrder { step, attempt, boot_id, at, not_after, clock, timetable: entries } = order;
        let (known_at, not_after) = (at, on_host(not_after, clock));
        let is_ready = matches!(self.state, HostState::Armed | HostState::Ordered)
            && self.waiting == Some(step)
            && self.stopping.is_none();
        if !is_ready || !self.is_current(now, &boot_id, not_after) {
            self.ignored += 1;
            return self.report(now);
        }
        let at = on_host(at, clock);
        if !self.has_time(now, at, step) {
            return;
        }
        let is_timetable = false;
        self.pending = Some(PendingStart { step, attempt, at, not_after, clock, is_timetable });
        self.acknowledged = Some(OrderedStart { step, attempt });
        self.timetable = Some(Timetable { incarnation, attempt, clock, known_at, entries });
        self.state = HostState::Ordered;
        self.report(now);
    }

    fn cancel(&mut self, now: Nanos, cancelled: OrderedStart) {
        let is_meant = self.pending.is_some() && self.acknowledged == Some(cancelled);
        if !is_meant || self.waiting != Some(cancelled.step) {
            self.ignored += 1;
            return;
        }
        (self.pending, self.timetable, self.acknowledged) = (None, None, None);
        self.state = HostState::Armed;
        self.report(now);
    }

    fn hand_over(&mut self, now: Nanos, start: PendingStart) {
        let PendingStart { step, attempt, at, clock, .. } = start;
        let at_ns = at.max(now).get();
        let (offset_ns, bound_ns) = (clock.offset_ns.saturating_neg(), clock.bound_ns);
        let answer = GateAnswer::Start { at_ns, offset_ns, bound_ns };
        self.effects.push(HostEffect::Answer { answer, attempt });
        self.started = Some(StartedStep { step, at_ns });
        (self.waiting, self.pending, self.state) = (None, None, HostState::Running);
        self.progress = now;
        self.report(now);
    }

    fn tick(&mut self, now: Nanos) {
        if let Some(start) = self.pending
            && later(now, GATE_MARGIN) >= start.at
        {
            let is_late = now > start.not_after;
            if !is_late || FleetFault::LateOrderObeyed.is_in(self.config.fault) {
                self.hand_over(now, start);
            } else if start.is_timetable {
                // The others are ahead; alone it would measure another load.
                let late = now.saturating_sub(start.at);
                self.stop(now, format!("{late} late for a step of the timetable"));
            } else {
                (self.pending, self.acknowledged) = (None, None);
                self.state = HostState::Armed;
                self.report(now);
            }
        }
        self.watch_run(now);
        if now >= self.next_heartbeat {
            self.report(now);
        }
    }

    fn report(&mut self, now: Nanos) {
        self.next_heartbeat = later(now, HEARTBEAT_EVERY);
        let status = match &self.storing {
            Some((before, _)) => HostStatus { at_ns: now.get(), ..(**before).clone() },
            None => self.status(now),
        };
        self.send(Body::Status(Box::new(status)));
    }

    fn status(&self, now: Nanos) -> HostStatus {
        let is_planned = self.state == HostState::Planned;
        let is_busy = self.has_child && self.waiting.is_none();
        HostStatus {
            state: self.state,
            at_ns: now.get(),
            machine: self.config.machine.clone(),
            plan: self.plan.clone().filter(|_| is_planned),
            waiting: self.waiting,
            ordered: self.acknowledged,
            started: self.started,
            quiet: is_busy.then(|| now.saturating_sub(self.progress)),
            run: self.run.clone(),
            reason: self.reason.clone(),
        }
    }

    fn send_piece(&mut self, file: String, offset: u64, bytes: Vec<u8>) {
        let Some(run) = self.run.as_ref().map(|run| run.name.clone()) else { return };
        self.send_with(Body::Piece { run, file, offset }, bytes);
    }

    fn send(&mut self, body: Body) {
        self.send_with(body, Vec::new());
    }

    fn send_with(&mut self, body: Body, bytes: Vec<u8>) {
        // What a client would keep while it is cut off is stale when it arrives.
        if !self.is_connected {
            return;
        }
        self.sequence += 1;
        let HostConfig { campaign, name, .. } = &self.config;
        let message = BusMessage::new(campaign, name, (self.incarnation, self.sequence), body);
        self.effects.push(HostEffect::Send(BusMessage { bytes, ..message }));
    }
}

#[cfg(test)]
mod tests;
