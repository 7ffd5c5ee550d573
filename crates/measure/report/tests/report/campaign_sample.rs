//! A campaign as a run would give it: scripted latencies of the null engine, whose events are told
//! to be those of a device where the processors' and the device's part matters.

use std::error::Error;

use durio_analyse::{Analyser, Findings};
use durio_base::{Bytes, Nanos, RaidLevel};
use durio_observe::{CpuCounters, DeviceCounters, Host};
use durio_plan::{
    Campaign, ClockChoice, DeclaredLayout, DeclaredTarget, EngineKind, Goal, Limit, Load,
    NullScript, PLAN_SCHEMA, ParameterValue, Plan, PlanSection, Purpose, Role, Rounds, SectionKind,
    Sheet, Step, Target, TargetKind, Tracking, Until,
};
use durio_record::{Environment, Event, Journal, Manifest, RoundDecision};
use durio_run::{EventSink, RunContext, StopFlag, run};
use durio_workload::{Arrivals, Pattern, PerMille, SyncPolicy, Workload};

/// Takes events into an analyser, as those of a device.
struct Told {
    analyser: Analyser,
    /// What the rates of the rounds of section 0 are multiplied by.
    rounds: &'static [f64],
}

impl EventSink for Told {
    fn event(&mut self, _: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        let event = self.told(event);
        self.analyser.observe(&event);
        Ok(())
    }

    fn round_ended(&mut self, section: u32, round: u32) -> RoundDecision {
        self.analyser.decide(section, round)
    }
}

impl Told {
    fn told(&self, event: Event) -> Event {
        match event {
            Event::StepStarted(mut started) => {
                started.stream.engine = EngineKind::Uring;
                Event::StepStarted(started)
            }
            Event::StepEnded(mut ended) => {
                if ended.step == 0 {
                    let factor = self.rounds.get(ended.round as usize).unwrap_or(&1.0);
                    ended.measured = seconds(ended.measured.as_secs_f64() / factor);
                }
                let millis = ended.measured.get() / 1_000_000;
                ended.devices = vec![DeviceCounters {
                    name: "vdb".into(),
                    io_ms: millis,
                    ..Default::default()
                }];
                ended.cpu = Some(CpuCounters { system: 4, idle: 96, ..CpuCounters::default() });
                Event::StepEnded(ended)
            }
            other => other,
        }
    }
}

/// A plan that grows.
pub(crate) struct Maker {
    plan: Plan,
    campaign: Campaign,
}

impl Maker {
    pub(crate) fn new() -> Self {
        let target = |name: &str| Target {
            name: name.into(),
            location: Some("/srv/db".into()),
            kind: TargetKind::Scripted,
            size: Bytes::from_gib(1),
            destroy: false,
        };
        Self {
            plan: Plan {
                schema: PLAN_SCHEMA,
                purpose: Purpose::Campaign,
                seed: 1,
                clock: ClockChoice::Auto,
                targets: vec![target("drive"), target("md")],
                steps: Vec::new(),
                campaign: None,
                thresholds: Vec::new(),
            },
            campaign: Campaign {
                name: "made-up".into(),
                summary: "Every kind of section, with scripted latencies.".into(),
                time_scale_per_mille: 1000,
                ..Campaign::default()
            },
        }
    }

    /// A plan that asks what durable writes cost.
    pub(crate) fn durable() -> Self {
        let mut maker = Self::new();
        maker.plan.purpose = Purpose::Durable;
        maker.campaign.name = "durable".into();
        maker.campaign.summary = "What a durable write costs here.".into();
        maker.campaign.left_out = vec!["writers on devices: no device was named".into()];
        maker
    }

    pub(crate) fn section(
        &mut self,
        name: &str,
        summary: &str,
        kind: SectionKind,
    ) -> &mut PlanSection {
        self.campaign.sections.push(PlanSection {
            name: name.into(),
            summary: summary.into(),
            kind,
            first_step: u32::try_from(self.plan.steps.len()).unwrap(),
            steps: 0,
            rounds: None,
            baseline: None,
        });
        self.campaign.sections.last_mut().unwrap()
    }

    pub(crate) fn step(
        &mut self,
        load: Load,
        limit: Limit,
        levels: Vec<ParameterValue>,
    ) -> &mut Step {
        let index = u32::try_from(self.plan.steps.len()).unwrap();
        let section = u32::try_from(self.campaign.sections.len()).unwrap() - 1;
        self.campaign.sections.last_mut().unwrap().steps += 1;
        let step = Step::new(Role::Measure, load, limit, Nanos::from_millis(100));
        self.plan.steps.push(Step { index, levels, section: Some(section), ..step });
        self.plan.steps.last_mut().unwrap()
    }

    /// Runs it.
    pub(crate) fn findings(self) -> Findings {
        let Self { mut plan, campaign } = self;
        plan.campaign = Some(campaign);
        plan.validate().unwrap();
        let manifest = Manifest {
            label: None,
            schema: 1,
            run: "2026-11-21T100900-000Z-run-4711".into(),
            durio_version: "0.1.0".into(),
            started: "2026-11-21T10:09:00Z".into(),
            command: vec!["durio".into(), "run".into(), "made-up.toml".into()],
        };
        let environment = Environment { host: Host::default(), stacks: Vec::new() };
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(folder.path(), None).unwrap();
        let context = RunContext::new(&mut journal, StopFlag::default());
        let analyser = Analyser::new(manifest, plan.clone(), environment);
        let rounds = &[2.6, 1.9, 1.35, 1.12, 1.04, 0.99, 1.02, 0.98, 1.0];
        let mut told = Told { analyser, rounds };
        run(&plan, context, &mut told).unwrap();
        durio_judge::judge(told.analyser.finish("/srv/runs/made-up".into()))
    }
}

pub(crate) fn level(axis: &str, value: f64, label: &str) -> ParameterValue {
    ParameterValue { axis: axis.into(), value, label: label.into() }
}

pub(crate) fn workload(name: &str, read_share: PerMille, jobs: u32, depth: u32) -> Workload {
    Workload {
        name: name.into(),
        pattern: Pattern::Random,
        read_share,
        jobs,
        depth,
        sync: SyncPolicy::NONE,
        ..Workload::default()
    }
}

/// A load whose operations take these times, in microseconds.
pub(crate) fn load(target: usize, workload: Workload, micros: &[f64]) -> Load {
    let latencies = micros.iter().map(|micros| seconds(micros / 1e6)).collect();
    Load {
        script: Some(NullScript { latencies, fails_at: None }),
        ..Load::new(target, workload, EngineKind::Null)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "made up")]
pub(crate) fn seconds(seconds: f64) -> Nanos {
    Nanos::new((seconds * 1e9).round() as u64)
}

/// 98 of 100 take this long, one three times, one eight times.
fn with_tail(micros: f64) -> Vec<f64> {
    let mut script = vec![micros; 98];
    script.insert(30, micros * 3.0);
    script.insert(70, micros * 8.0);
    script
}

const OPERATIONS: Limit = Limit::Operations(4000);

fn ladder(axis: &str) -> SectionKind {
    SectionKind::Ladder { axis: axis.into() }
}

/// Depth and the mean latency in microseconds that the published rates of a drive give ("Fast by
/// Design", table of queue depths).
pub(crate) const DEPTHS: [(u32, f64); 9] = [
    (1, 78.0),
    (2, 78.0),
    (4, 78.0),
    (8, 78.0),
    (16, 78.0),
    (32, 94.0),
    (64, 173.0),
    (128, 337.0),
    (256, 670.0),
];

/// One of each kind of section.
pub(crate) fn campaign() -> Findings {
    let mut maker = Maker::new();
    preconditioning(&mut maker);
    depths(&mut maker);
    rates(&mut maker, &[1e3, 4e3, 16e3, 32e3, 64e3]);
    map(&mut maker);
    beside(&mut maker);
    long(&mut maker);
    search(&mut maker);
    array(&mut maker);
    maker.findings()
}

fn preconditioning(maker: &mut Maker) {
    let until = Until::SteadyState {
        tracked: 0,
        tracking: Tracking::Iops,
        window: 5,
        excursion_per_mille: 200,
        slope_per_mille: 100,
    };
    let summary = "Random writes until the drive is in its steady state.";
    maker.section("steady", summary, SectionKind::Precondition).rounds =
        Some(Rounds { max: 25, until });
    let load = load(0, workload("randwrite", PerMille::NONE, 1, 4), &with_tail(400.0));
    maker.step(load, OPERATIONS, Vec::new()).role = Role::Precondition;
}

fn depths(maker: &mut Maker) {
    maker.section("depths", "What each further operation in flight gives.", ladder("depth"));
    for (name, share, factor) in
        [("randread", PerMille::ALL, 1.0), ("randwrite", PerMille::NONE, 1.7)]
    {
        for (depth, micros) in DEPTHS {
            let levels = vec![level("depth", depth.into(), &depth.to_string())];
            let load = load(0, workload(name, share, 1, depth), &[micros * factor]);
            // As many as every depth divides: the last of them end together.
            maker.step(load, Limit::Operations(5120), levels);
        }
    }
}

/// Four at once that take 109 µs each in the mean: 36.7 k/s.
pub(crate) fn rates(maker: &mut Maker, offered: &[f64]) {
    maker.section("rates", "Latency at rates that somebody else sets.", ladder("rate"));
    for &rate in offered {
        let mut load = load(0, workload("randread", PerMille::ALL, 1, 4), &with_tail(100.0));
        load.arrivals = Arrivals::Poisson { rate_per_second: rate };
        let levels = vec![level("rate", rate, &format!("{} k/s", rate / 1e3))];
        maker.step(load, Limit::Duration(Nanos::from_millis(400)), levels);
    }
}

fn map(maker: &mut Maker) {
    let kind = SectionKind::Map { x: "jobs".into(), y: "block_size".into() };
    maker.section("map", "Block sizes by jobs.", kind);
    for kib in [4_u32, 16, 64] {
        for jobs in [1_u32, 4, 16, 64] {
            let mut workload = workload("randread", PerMille::ALL, jobs, 1);
            workload.block_size = Bytes::from_kib(kib.into());
            let micros = 80.0 * (1.0 + f64::from(kib) / 16.0) * (1.0 + f64::from(jobs) / 16.0);
            let levels = vec![
                level("jobs", jobs.into(), &jobs.to_string()),
                level("block_size", f64::from(kib) * 1024.0, &format!("{kib} KiB")),
            ];
            maker.step(load(0, workload, &with_tail(micros)), OPERATIONS, levels);
        }
    }
}

fn beside(maker: &mut Maker) {
    maker.section("beside", "Lookups beside a checkpoint.", SectionKind::Single);
    for repeat in 0..3 {
        let micros = 100.0 + 4.0 * f64::from(repeat);
        let lookups = load(0, workload("lookup", PerMille::ALL, 1, 4), &with_tail(micros));
        let writes = load(0, workload("checkpoint", PerMille::NONE, 1, 8), &with_tail(900.0));
        let limit = Limit::Duration(Nanos::from_millis(300));
        let step = maker.step(lookups, limit, Vec::new());
        (step.beside, step.repeat) = (vec![writes], repeat);
    }
}

fn long(maker: &mut Maker) {
    maker.section("long", "Whether burst credits last.", SectionKind::Single);
    let mut micros = vec![1000.0; 6000];
    micros.extend(vec![2500.0; 6000]);
    let load = load(0, workload("randwrite", PerMille::NONE, 1, 1), &micros);
    let limit = Limit::Duration(Nanos::from_secs(12));
    maker.step(load, limit, Vec::new());
}

fn search(maker: &mut Maker) {
    let goal = Goal { percentile: 99.0, latency: Nanos::from_millis(2) };
    let until = Until::GoalFound { goal, precision_per_mille: 50, ceiling_step: None };
    maker.section("search", "The highest rate with p99 within 2 ms.", SectionKind::Single).rounds =
        Some(Rounds { max: 30, until });
    let mut load = load(0, workload("randread", PerMille::ALL, 1, 8), &with_tail(250.0));
    load.arrivals = Arrivals::Poisson { rate_per_second: 2000.0 };
    maker.step(load, Limit::Duration(Nanos::from_millis(500)), Vec::new());
}

fn array(maker: &mut Maker) {
    let summary = "Small random writes of four drives, and of the array over them.";
    for (target, jobs, micros) in [(0, 1, 70.0), (1, 4, 190.0)] {
        let section = maker.section("mirror", summary, ladder("jobs"));
        section.baseline = (target == 1).then(|| "drive".to_owned());
        let load = load(target, workload("randwrite", PerMille::NONE, jobs, 1), &with_tail(micros));
        maker.step(load, OPERATIONS, vec![level("jobs", jobs.into(), &jobs.to_string())]);
    }
    let sheet =
        Sheet { price: Some(1200.0), random_write_iops: Some(50_000.0), ..Sheet::default() };
    let declared = DeclaredLayout {
        raid: Some(RaidLevel::Raid10),
        members: Some(4),
        replicas: Some(3),
        sheet: Some(sheet),
        ..DeclaredLayout::default()
    };
    maker.campaign.declared =
        vec![DeclaredTarget { target: "md".into(), location: None, declared }];
}
