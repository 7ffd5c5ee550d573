//! Recorded runs, made by hand.

use std::path::Path;

use durio_base::{Bytes, Nanos};
use durio_observe::{BlockFacts, FilesystemFacts, Host, Layer, LayerKind, Stack};
use durio_plan::{
    ClockChoice, EngineKind, Limit, Load, PLAN_SCHEMA, Plan, Purpose, RawPath, Role, Step, Target,
    TargetKind,
};
use durio_record::{
    Environment, Event, Exact, Interval, Latency, Manifest, OperationName, OperationRecord,
    Outcome, Phase, RUN_FOLDER_SCHEMA, RecordWriter, RunEnded, StepEnded, StepGated, StepStarted,
    StreamStarted,
};
use durio_workload::{Arrivals, CacheMode, RegionRule, Workload};

/// Latencies in nanoseconds, each with how often it occurred.
pub type Counts = Vec<(u64, u64)>;

/// Latencies with these counts.
pub fn latency(counts: &[(u64, u64)]) -> Latency {
    let mut exact = Exact::default();
    for &(nanos, count) in counts {
        let sum_ns = nanos * count;
        exact.add(&Exact { count, sum_ns, min_ns: nanos, max_ns: nanos });
    }
    Latency::about(exact, counts.iter().copied())
}

/// A run of one step of reads, or of several such steps; to be changed by each test.
#[derive(Debug, Clone)]
pub struct MadeRun {
    pub hostname: Option<String>,
    pub machine_id: Option<String>,
    pub label: Option<String>,
    pub version: String,
    pub started: String,
    /// The step's start, since the run's.
    pub step_at: Nanos,
    /// Start on this host's clock, offset of the sender's clock, bound; nanoseconds.
    pub gate: Option<(u64, i64, u64)>,
    pub stack: Stack,
    /// Reads of each second.
    pub seconds: Vec<Counts>,
    /// Writes of every second, in addition.
    pub writes: Counts,
    /// Steps like the first that follow without a gate.
    pub free_steps: u32,
    /// Outcome of the step and the run; none if it was killed before their ends.
    pub outcome: Option<Outcome>,
}

impl MadeRun {
    /// A complete run with `reads` of 100 µs in each second.
    pub fn new(hostname: &str, reads: &[u64]) -> Self {
        Self {
            hostname: Some(hostname.to_owned()),
            machine_id: None,
            label: None,
            version: "0.1.0".to_owned(),
            started: "2026-11-30T10:00:00.000Z".to_owned(),
            step_at: Nanos::from_secs(5),
            gate: None,
            stack: disk("SAMSUNG", ""),
            seconds: reads.iter().map(|&count| vec![(100_000, count)]).collect(),
            writes: Vec::new(),
            free_steps: 0,
            outcome: Some(Outcome::Complete),
        }
    }

    /// Writes the run folder.
    pub fn write(&self, folder: &Path) {
        let manifest = Manifest {
            schema: RUN_FOLDER_SCHEMA,
            run: "made".to_owned(),
            durio_version: self.version.clone(),
            started: self.started.clone(),
            command: vec!["durio".to_owned()],
            label: self.label.clone(),
        };
        let host = Host {
            hostname: self.hostname.clone(),
            machine_id: self.machine_id.clone(),
            kernel: "6.12.9".to_owned(),
            ..Host::default()
        };
        let environment = Environment { host, stacks: vec![self.stack.clone()] };
        let mut writer =
            RecordWriter::create(folder, &manifest, &self.plan(), &environment).unwrap();
        for event in self.events() {
            writer.write(self.step_at, event).unwrap();
        }
    }

    fn plan(&self) -> Plan {
        let path = RawPath::from("/data");
        let target = Target {
            name: "data".to_owned(),
            location: Some(path.clone()),
            kind: TargetKind::ExistingFile { path },
            size: Bytes::from_gib(1),
            destroy: true,
        };
        let workload = Workload { name: "randread".to_owned(), ..Workload::default() };
        let limit = Limit::Duration(Nanos::from_secs(self.seconds.len().max(1) as u64));
        let load = Load::new(0, workload, EngineKind::Sync);
        let step = Step::new(Role::Measure, load, limit, Nanos::from_secs(1));
        Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Campaign,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: vec![target],
            steps: (0..=self.free_steps).map(|index| Step { index, ..step.clone() }).collect(),
            campaign: None,
            thresholds: Vec::new(),
        }
    }

    fn events(&self) -> Vec<Event> {
        let stream = StreamStarted {
            engine: EngineKind::Sync,
            jobs: 1,
            depth: 1,
            batch: 1,
            cache: CacheMode::Direct,
            region: RegionRule::Shared,
            clock: "tsc".to_owned(),
            features: Vec::new(),
            fallbacks: Vec::new(),
            arrivals: Arrivals::Closed,
        };
        let mut events = Vec::new();
        for step in 0..=self.free_steps {
            let stream = stream.clone();
            let started = StepStarted { step, round: 0, stream, beside: Vec::new() };
            events.push(Event::StepStarted(started));
            let seconds = (0..).zip(&self.seconds);
            events.extend(seconds.map(|(index, reads)| self.second(step, index, reads)));
            if let Some((started, offset_ns, bound_ns)) = self.gate.filter(|_| step == 0) {
                events.push(Event::StepGated(StepGated {
                    step,
                    round: 0,
                    armed: Nanos::ZERO,
                    ordered_at: Nanos::new(started),
                    started: Nanos::new(started),
                    offset_ns,
                    bound_ns,
                }));
            }
            let Some(outcome) = self.outcome else { return events };
            events.push(Event::StepEnded(StepEnded {
                step,
                round: 0,
                outcome,
                measured: Nanos::from_secs(self.seconds.len() as u64),
                cpu: None,
                devices: Vec::new(),
                cpu_process_user: None,
                idle_before: None,
                cpu_process_system: None,
                context_switches: None,
            }));
        }
        let Some(outcome) = self.outcome else { return events };
        events.push(Event::RunEnded(RunEnded { outcome, memory_max: Bytes::from_mib(8) }));
        events
    }

    fn second(&self, step: u32, index: u64, reads: &[(u64, u64)]) -> Event {
        let counts = [(OperationName::Read, reads), (OperationName::Write, self.writes.as_slice())];
        let counts = counts.into_iter().filter(|(_, counts)| !counts.is_empty());
        let operations = counts.map(|(name, counts)| operation(name, counts)).collect();
        Event::Interval(Interval { step, ..interval(index, operations) })
    }
}

/// Operations with these latencies, of 4 KiB each.
pub fn operation(operation: OperationName, counts: &[(u64, u64)]) -> OperationRecord {
    let service = latency(counts);
    OperationRecord {
        bytes: Bytes::new(4096 * service.exact.count),
        service,
        ..OperationRecord::new(operation)
    }
}

/// The second of the measured phase that begins after `index` seconds.
pub fn interval(index: u64, operations: Vec<OperationRecord>) -> Interval {
    Interval {
        step: 0,
        repeat: 0,
        round: 0,
        stream: 0,
        target: 0,
        phase: Phase::Measure,
        index,
        from: Nanos::from_secs(index),
        to: Nanos::from_secs(index + 1),
        unwatched_max: None,
        operations,
    }
}

/// A layer without facts.
pub fn layer(kind: LayerKind, name: &str, below: Vec<Layer>) -> Layer {
    Layer {
        kind,
        name: name.to_owned(),
        device: None,
        filesystem: None,
        block: None,
        facts: Vec::new(),
        below,
    }
}

/// A disk with this serial number.
pub fn disk(model: &str, serial: &str) -> Stack {
    let block = BlockFacts {
        model: Some(model.to_owned()),
        serial: Some(serial.to_owned()),
        ..BlockFacts::default()
    };
    let root = Layer { block: Some(block), ..layer(LayerKind::Disk, "sda", Vec::new()) };
    Stack { target: "/data".to_owned(), root }
}

/// A filesystem with this UUID on a disk with this serial number.
pub fn mounted(uuid: &str, serial: &str) -> Stack {
    let facts = FilesystemFacts {
        fs_type: "ext4".to_owned(),
        uuid: Some(uuid.to_owned()),
        ..FilesystemFacts::default()
    };
    let mounted = layer(LayerKind::Filesystem, "/data", vec![disk("LUN", serial).root]);
    let root = Layer { filesystem: Some(facts), ..mounted };
    Stack { target: "/data".to_owned(), root }
}

/// A folder of a file server.
pub fn nfs(source: &str) -> Stack {
    let facts = FilesystemFacts {
        fs_type: "nfs4".to_owned(),
        source: source.to_owned(),
        ..FilesystemFacts::default()
    };
    let mounted = layer(LayerKind::Network, "/data", Vec::new());
    let root = Layer { filesystem: Some(facts), ..mounted };
    Stack { target: "/data".to_owned(), root }
}
