//! A host whose run does nothing: the state machine of the agent, with a clock and a socket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use durio_agree::bus_rights::permissions;
use durio_agree::clock::later;
use durio_agree::host::{
    ChildEvent, GateAnswer, HostConfig, HostEffect, HostInput, HostMachine, HostMemory,
};
use durio_agree::live::{LiveOperation, LiveReport, LiveStream};
use durio_agree::message::{
    BusMessage, COORDINATOR, CampaignStep, FolderDigest, HostIdentity, PlanSummary, PlannedStep,
    Recipient, RunFile, RunSummary, digest,
};
use durio_agree::sign::{SigningKey, TrustedKeys};
use durio_base::{Bytes, Nanos};
use durio_record::fleet::HostState;
use durio_record::{Exact, OperationName, Phase};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

use super::wire::Wire;

/// The shortest, for a socket cannot wait for no time, and the longest, after which the end of the bench
/// is noticed.
const WAITS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(1)];
const LIVE_EVERY: Nanos = Nanos::from_secs(1);
/// The bus learns of new keys a little later.
const SIGN_IN_MAX: Duration = Duration::from_secs(60);
const SIGN_IN_EVERY: Duration = Duration::from_millis(500);
const STREAMS: u32 = 2;
const FILE: &str = "run.json";
const FILE_BYTES: usize = 64 << 10;

/// Who an agent is, and where its bus is.
pub(super) struct ScriptedAgent {
    pub(super) name: String,
    pub(super) key: SigningKey,
    pub(super) port: u16,
    pub(super) campaign: String,
    pub(super) coordinator: String,
}

/// What all scripted hosts have in common.
#[derive(Clone)]
pub(super) struct ScriptedRun {
    pub(super) length: Duration,
    /// Sent once a second while it runs.
    pub(super) live: Arc<Vec<u8>>,
    /// All that hosts sent and received.
    pub(super) bytes: Arc<AtomicU64>,
    pub(super) is_over: Arc<AtomicBool>,
    /// The zero of the clock of all hosts.
    pub(super) epoch: Instant,
}

/// An agent at work.
struct ScriptedHost<'r> {
    agent: ScriptedAgent,
    run: &'r ScriptedRun,
    machine: HostMachine,
    keys: TrustedKeys,
    wire: Wire,
    counted: u64,
    /// When the step ends, on the host's clock.
    end: Option<Nanos>,
    next_live: Nanos,
}

/// Takes part in the campaign until it is over.
pub(super) fn serve(agent: ScriptedAgent, run: &ScriptedRun) -> Result<()> {
    let wire = sign_in(&agent, run)?;
    let mut keys = TrustedKeys::default();
    keys.trust(COORDINATOR, &agent.coordinator)?;
    let config = HostConfig {
        name: agent.name.clone(),
        campaign: agent.campaign.clone(),
        machine: HostIdentity {
            // As long as real ones are.
            machine_id: digest(&agent.name)[..16].to_owned(),
            boot_id: digest(&agent.name)[..36].to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        fault: None,
    };
    let (machine, effects) = HostMachine::start(config, HostMemory::default(), now(run));
    let (counted, end, next_live) = (0, None, now(run));
    let mut serving = ScriptedHost { agent, run, machine, keys, wire, counted, end, next_live };
    serving.subscribe()?;
    serving.carry_out(effects)?;
    serving.feed(HostInput::Connected(true))?;
    while !run.is_over.load(Ordering::Relaxed) {
        if let Err(error) = serving.turn() {
            // The end of the campaign closes the connection.
            if serving.machine.state().is_final() {
                return Ok(());
            }
            let name = serving.agent.name.clone();
            serving.reconnect().with_context(|| format!("{name}: {error:#}"))?;
        }
    }
    Ok(())
}

fn sign_in(agent: &ScriptedAgent, run: &ScriptedRun) -> Result<Wire> {
    let began = Instant::now();
    loop {
        match Wire::connect(agent.port, &agent.key) {
            Ok(wire) => return Ok(wire),
            Err(error) if began.elapsed() > SIGN_IN_MAX || run.is_over.load(Ordering::Relaxed) => {
                return Err(error.context(format!("{} cannot sign in", agent.name)));
            }
            Err(_) => thread::sleep(SIGN_IN_EVERY),
        }
    }
}

fn now(run: &ScriptedRun) -> Nanos {
    // Never 0, which no clock of a host is.
    let passed = run.epoch.elapsed() + Duration::from_secs(1);
    Nanos::new(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX))
}

impl ScriptedHost<'_> {
    fn subscribe(&mut self) -> Result<()> {
        let subjects = permissions(&self.agent.campaign, &self.agent.name).subscribe;
        subjects.iter().enumerate().try_for_each(|(at, subject)| self.wire.subscribe(subject, at))
    }

    /// As an agent does when its connection breaks.
    fn reconnect(&mut self) -> Result<()> {
        self.wire = sign_in(&self.agent, self.run)?;
        self.counted = 0;
        self.subscribe()?;
        self.feed(HostInput::Connected(false))?;
        self.feed(HostInput::Connected(true))
    }

    /// Until the machine, the figures or the end of the run are due.
    fn due_in(&self) -> Duration {
        let next_live = (self.machine.state() == HostState::Running).then_some(self.next_live);
        let times = [self.machine.next_deadline(), self.end, next_live];
        wait_for(times, now(self.run)).min(self.wire.silent_in())
    }

    fn turn(&mut self) -> Result<()> {
        let limit = self.due_in();
        for payload in self.wire.receive(limit)? {
            if let Ok(message) = BusMessage::decode(&payload) {
                self.feed(HostInput::Message(message))?;
            }
        }
        self.feed(HostInput::Tick)?;
        self.wire.keep_alive()?;
        let (is_running, now_ns) = (self.machine.state() == HostState::Running, now(self.run));
        if is_running && self.next_live <= now_ns {
            self.next_live = later(now_ns, LIVE_EVERY);
            let subject = LiveReport::subject(&self.agent.campaign, &self.agent.name);
            self.wire.publish(&subject, &self.run.live)?;
            self.feed(HostInput::Progress)?;
        }
        if self.end.is_some_and(|end| end <= now(self.run)) {
            self.end = None;
            self.feed(HostInput::Child(ChildEvent::Ended { step: 0 }))?;
            self.feed(HostInput::ChildExited(None))?;
        }
        let bytes = self.wire.bytes;
        self.run.bytes.fetch_add(bytes - self.counted, Ordering::Relaxed);
        self.counted = bytes;
        Ok(())
    }

    fn feed(&mut self, input: HostInput) -> Result<()> {
        let effects = self.machine.handle(now(self.run), input, &self.keys);
        self.carry_out(effects)
    }

    fn carry_out(&mut self, effects: Vec<HostEffect>) -> Result<()> {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            if let Some(input) = self.effect(effect)? {
                effects.extend(self.machine.handle(now(self.run), input, &self.keys));
            }
        }
        Ok(())
    }

    /// Does what the machine orders; the answer is its next input.
    fn effect(&mut self, effect: HostEffect) -> Result<Option<HostInput>> {
        Ok(match effect {
            HostEffect::Send(mut message) => {
                message.signature = Some(self.agent.key.sign(&message.signed_bytes()?)?);
                let subject = message.subject(&Recipient::Coordinator);
                self.wire.publish(&subject, &message.encode()?)?;
                None
            }
            HostEffect::Lock => Some(HostInput::Locked(Ok(()))),
            HostEffect::Plan { .. } => Some(HostInput::Planned(Ok(self.plan()))),
            HostEffect::StartChild => {
                Some(HostInput::Child(ChildEvent::Ready(CampaignStep::default())))
            }
            HostEffect::Answer { answer: GateAnswer::Start { at_ns, .. }, .. } => {
                let length = u64::try_from(self.run.length.as_nanos()).unwrap_or(u64::MAX);
                self.end = Some(Nanos::new(at_ns.saturating_add(length)));
                None
            }
            HostEffect::Answer { answer: GateAnswer::Abort(reason), .. } => {
                Some(HostInput::ChildExited(Some(reason)))
            }
            HostEffect::StopChild => Some(HostInput::ChildExited(None)),
            HostEffect::Inspect => Some(HostInput::Inspected(Ok(run_summary()))),
            HostEffect::Read { file, offset, length } => {
                let rest = FILE_BYTES as u64 - offset.min(FILE_BYTES as u64);
                let length = usize::try_from(length.min(rest)).context("a piece is too long")?;
                Some(HostInput::Read { file, offset, bytes: vec![b' '; length] })
            }
            HostEffect::Remember(_) => Some(HostInput::Remembered(Ok(()))),
            HostEffect::Unlock => None,
        })
    }

    fn plan(&self) -> PlanSummary {
        let length_ns = u64::try_from(self.run.length.as_nanos()).ok();
        let step = PlannedStep { step: CampaignStep::default(), length_ns };
        PlanSummary::new(digest("a run that does nothing"), vec![step])
    }
}

/// From now to the first of these times, within [`WAITS`].
fn wait_for<const N: usize>(times: [Option<Nanos>; N], now: Nanos) -> Duration {
    let [shortest, longest] = WAITS;
    let wait = |due: Nanos| Duration::from_nanos(due.saturating_sub(now).get());
    times.into_iter().flatten().min().map_or(longest, wait).clamp(shortest, longest)
}

/// A folder with one file of blanks.
fn run_summary() -> RunSummary {
    let file = RunFile { name: FILE.to_owned(), bytes: FILE_BYTES as u64 };
    let mut folder = FolderDigest::default();
    folder.begin_file(&file);
    folder.update(&vec![b' '; FILE_BYTES]);
    let (name, digest) = ("scripted".to_owned(), folder.finish());
    RunSummary { name, partial: false, digest, files: vec![file] }
}

/// The figures of a second of two streams, as they go over the bus.
pub(crate) fn live_report() -> Option<Vec<u8>> {
    // Of a fast drive: 91 µs ± 10 %, and one of a hundred up to 2.5 ms. Mixed by the golden ratio in 64
    // bits: a pattern would be compressed to less than the figures of a run.
    let latencies = (0..5_000_u64).map(|at| {
        let mixed = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let scatter: u64 = [24, 32, 40, 48].map(|shift| (mixed >> shift) & 0xff).iter().sum();
        let tail = if at % 100 == 0 { 40 * (mixed >> 56).pow(2) } else { 0 };
        60_000 + 60 * scatter + tail
    });
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).ok()?;
    let mut exact = Exact::default();
    for nanos in latencies {
        histogram.record(nanos).ok()?;
        exact.record(nanos);
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).ok()?;
    let operation = LiveOperation {
        operation: OperationName::Read,
        bytes: Bytes::from_kib(4 * exact.count),
        exact,
        histograms: vec![STANDARD.encode(bytes)],
    };
    let stream = |stream| LiveStream {
        stream,
        span: Nanos::from_secs(1),
        operations: vec![operation.clone()],
    };
    let streams = (0..STREAMS).map(stream).collect();
    LiveReport { step: 0, round: 0, phase: Phase::Measure, streams }.encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_two_streams_has_histograms_of_six_to_twelve_hundred_bytes() {
        let report = LiveReport::decode(&live_report().unwrap()).unwrap();
        let histograms = report.streams.iter().flat_map(|stream| &stream.operations[0].histograms);
        let lengths: Vec<usize> = histograms.map(String::len).collect();
        assert_eq!(lengths.len(), 2);
        assert!(lengths.iter().all(|length| (600..1_200).contains(length)), "{lengths:?}");
    }

    #[test]
    fn a_host_waits_for_the_first_of_its_times_a_millisecond_at_least_and_a_second_at_most() {
        let [now, soon, late] = [3_000, 3_250, 9_000].map(Nanos::from_millis);
        let wait = |times| wait_for(times, now).as_millis();
        assert_eq!(wait([Some(late), None, Some(soon)]), 250);
        assert_eq!((wait([Some(late), None, None]), wait([None; 3])), (1_000, 1_000));
        assert_eq!(wait([Some(soon), Some(Nanos::ZERO), None]), 1);
    }

    #[test]
    fn a_scripted_folder_has_the_digest_of_its_only_file() {
        let run = run_summary();
        assert_eq!((run.files[0].bytes, run.digest.len()), (65_536, 64));
    }
}
