//! Runs of `durio durable` with planted costs: what is planted must be found.

use std::error::Error;

use durio_analyse::cost_model::{SizeCost, fit};
use durio_analyse::durable::{DurableFindings, LimitedBy, SlopeShape};
use durio_analyse::{Analyser, DeclinedAnalysis};
use durio_base::{Bytes, Nanos};
use durio_observe::{BlockFacts, DeviceCounters, Host, Layer, LayerKind, Stack};
use durio_plan::{
    Campaign, ClockChoice, EngineKind, Experiment, Limit, Load, NullScript, PLAN_SCHEMA, Plan,
    PlanSection, Purpose, Role, SectionKind, Step, Target, TargetKind,
};
use durio_record::{
    CommitsTraced, Environment, Event, Journal, Manifest, StoppedBy, TracedRequest, TracedSequence,
};
use durio_run::{EventSink, RunContext, StopFlag, run};
use durio_workload::{CacheMode, PerMille, SyncMethod, SyncPolicy, Workload};

/// Takes events into an analyser; each step's devices flush once per `flush_every` commits.
struct Sink {
    analyser: Analyser,
}

impl EventSink for Sink {
    fn event(&mut self, _: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        let event = match event {
            Event::StepEnded(mut ended) => {
                ended.devices = vec![DeviceCounters {
                    name: "vda".into(),
                    writes_completed: 2 * OPERATIONS,
                    flushes_completed: Some(OPERATIONS),
                    sectors_written: 16 * OPERATIONS,
                    ..DeviceCounters::default()
                }];
                Event::StepEnded(ended)
            }
            other => other,
        };
        self.analyser.observe(&event);
        Ok(())
    }
}

const OPERATIONS: u64 = 40;

#[derive(Default)]
struct Maker {
    sections: Vec<PlanSection>,
    steps: Vec<Step>,
}

impl Maker {
    fn experiment(&mut self, experiment: Experiment) -> &mut Self {
        self.sections.push(PlanSection {
            name: format!("{experiment:?}"),
            summary: String::new(),
            kind: SectionKind::Experiment { experiment },
            first_step: u32::try_from(self.steps.len()).unwrap(),
            steps: 0,
            rounds: None,
            baseline: None,
        });
        self
    }

    fn step(&mut self, workload: Workload, latencies: Vec<Nanos>) -> &mut Self {
        let load = Load {
            script: Some(NullScript { latencies, fails_at: None }),
            ..Load::new(0, workload, EngineKind::Null)
        };
        let limit = Limit::Operations(OPERATIONS);
        let step = Step::new(Role::Measure, load, limit, Nanos::from_secs(3600));
        let index = u32::try_from(self.steps.len()).unwrap();
        let section = Some(u32::try_from(self.sections.len()).unwrap() - 1);
        self.steps.push(Step { index, section, ..step });
        self.sections.last_mut().unwrap().steps += 1;
        self
    }

    fn findings(&mut self) -> DurableFindings {
        self.findings_with(&[])
    }

    fn findings_with(&mut self, further: &[Event]) -> DurableFindings {
        let plan = Plan {
            thresholds: Vec::new(),
            schema: PLAN_SCHEMA,
            purpose: Purpose::Durable,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: vec![Target {
                name: "log".into(),
                location: Some("/srv".into()),
                kind: TargetKind::Scripted,
                size: Bytes::from_gib(4),
                destroy: false,
            }],
            steps: std::mem::take(&mut self.steps),
            campaign: Some(Campaign {
                sections: std::mem::take(&mut self.sections),
                left_out: vec!["raw devices".into()],
                ..Campaign::default()
            }),
        };
        plan.validate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(folder.path(), None).unwrap();
        let context = RunContext::new(&mut journal, StopFlag::default());
        let mut sink = Sink { analyser: analyser(&plan) };
        run(&plan, context, &mut sink).unwrap();
        further.iter().for_each(|event| sink.analyser.observe(event));
        sink.analyser.finish(String::new()).findings.durable.unwrap()
    }
}

fn analyser(plan: &Plan) -> Analyser {
    let manifest = Manifest {
        label: None,
        schema: 1,
        run: String::new(),
        durio_version: "0".into(),
        started: String::new(),
        command: Vec::new(),
    };
    let block = BlockFacts { max_sectors_kib: Some(256), ..BlockFacts::default() };
    let disk = Layer {
        kind: LayerKind::Disk,
        name: "vda".into(),
        device: None,
        filesystem: None,
        block: Some(block),
        facts: Vec::new(),
        below: Vec::new(),
    };
    let stacks = vec![Stack { target: "/srv".into(), root: disk }];
    Analyser::new(manifest, plan.clone(), Environment { host: Host::default(), stacks })
}

fn write(method: SyncMethod, size: u64, jobs: u32) -> Workload {
    Workload {
        name: method.name().into(),
        read_share: PerMille::NONE,
        block_size: Bytes::new(size),
        sync: SyncPolicy::each(method),
        jobs,
        ..Workload::default()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "planted times")]
fn nanos(value: f64) -> Nanos {
    Nanos::new(value.round().max(1.0) as u64)
}

/// Seeded noise: the sum of twelve uniform numbers less six is normal to within a hundredth.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        // Knuth's multiplier for 64 bits; the high bits are used.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX)
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

const FIXED_NS: f64 = 150_000.0;
const NS_PER_BYTE: f64 = 0.8;

/// The script of each size, of one run.
fn scripts(noise: &mut Noise) -> Vec<(u32, Vec<Nanos>)> {
    let script = |power: u32| {
        let size = 4096_u32 << power;
        let planted = FIXED_NS + NS_PER_BYTE * f64::from(size);
        let script = (0..OPERATIONS).map(|_| nanos(planted * (1.0 + 0.1 * noise.normal())));
        (size, script.collect())
    };
    (0..9).map(script).collect()
}

fn mean(script: &[Nanos]) -> f64 {
    let sum: f64 = script.iter().map(|time| time.as_secs_f64() * 1e9).sum();
    sum / f64::from(u32::try_from(script.len()).unwrap())
}

#[test]
fn the_planted_cost_is_inside_its_interval_in_at_least_93_of_100_runs() {
    // What the null engine gives are the means of its scripts (the test below), so that 200 runs
    // need no threads.
    let (mut fixed, mut bandwidth) = (0, 0);
    let mut noise = Noise(11);
    for _ in 0..200 {
        let costs: Vec<SizeCost> = scripts(&mut noise)
            .iter()
            .map(|(size, script)| SizeCost {
                size_bytes: f64::from(*size),
                latency_ns: mean(script),
            })
            .collect();
        let model = fit(&costs).unwrap();
        let (low, high) = model.fixed_ns.interval().unwrap();
        fixed += u32::from((low..=high).contains(&FIXED_NS));
        let interval =
            model.bend.map_or(model.ns_per_byte, |bend| bend.ns_per_byte_above).inverse();
        let planted = 1.0 / NS_PER_BYTE;
        let above = interval.high.is_none_or(|high| planted <= high);
        bandwidth += u32::from(above && interval.low.unwrap() <= planted);
    }
    assert!(fixed >= 186 && bandwidth >= 186, "{fixed} and {bandwidth} of 200");
}

#[test]
fn a_run_of_the_null_engine_gives_the_model_of_the_means_of_its_scripts() {
    let scripts = scripts(&mut Noise(11));
    let mut maker = Maker::default();
    maker.experiment(Experiment::Sizes);
    let mut costs = Vec::new();
    for (size, script) in scripts {
        let (size_bytes, latency_ns) = (f64::from(size), mean(&script));
        costs.push(SizeCost { size_bytes, latency_ns });
        maker.step(write(SyncMethod::ODsync, size.into(), 1), script);
    }
    let curve = maker.findings().sizes.unwrap().curves.remove(0);
    let (found, direct) = (curve.model.unwrap(), fit(&costs).unwrap());
    assert!((found.fixed_ns.value / direct.fixed_ns.value - 1.0).abs() < 1e-6, "{found:?}");
    assert!((found.ns_per_byte.value / direct.ns_per_byte.value - 1.0).abs() < 1e-6);
    let interval = curve.bandwidth_bytes_per_second.unwrap();
    assert!((interval.value.unwrap() * NS_PER_BYTE / 1e9 - 1.0).abs() < 0.1, "{interval:?}");
    assert!(interval.low.unwrap() < interval.value.unwrap());
}

#[test]
fn methods_are_held_against_the_unsynced_write_and_the_best() {
    let mut maker = Maker::default();
    maker.experiment(Experiment::Methods);
    for (method, micros) in
        [(SyncMethod::None, 10.0), (SyncMethod::ODsync, 100.0), (SyncMethod::RwfDsync, 200.0)]
    {
        maker.step(write(method, 4096, 1), vec![nanos(micros * 1e3)]);
    }
    let failed =
        StoppedBy { step: Some(2), message: "no RWF_DSYNC".into(), errno: None, offset: None };
    let found = maker.findings_with(&[Event::Error(failed)]).methods.unwrap();
    assert_eq!(found.fastest, Some(1));
    let share = |at: usize| found.rows[at].share_of_unsynced.unwrap();
    assert!((share(1) - 0.1).abs() < 1e-3 && (share(2) - 0.05).abs() < 1e-3, "{found:?}");
    assert_eq!(found.rows[0].share_of_best, None, "an unsynced write is no method");
    assert!((found.rows[2].share_of_best.unwrap() - 0.5).abs() < 1e-3);
    assert_eq!(found.rows[2].arm.problems, ["no RWF_DSYNC"]);
    let device = found.rows[1].arm.figures.as_ref().unwrap().device.unwrap();
    assert!((device.flushes_per_commit.unwrap() - 1.0).abs() < 0.05, "{device:?}");
    assert!(
        (device.writes_per_commit - 2.0).abs() < 0.1 && (device.bytes_per_byte - 2.0).abs() < 0.1
    );
}

#[test]
fn a_write_beyond_the_largest_request_bends_the_model_there() {
    let mut maker = Maker::default();
    maker.experiment(Experiment::Sizes);
    for power in 0..11 {
        let bytes = f64::from(4096 << power);
        let planted = FIXED_NS + NS_PER_BYTE * bytes + 4.0 * (bytes - 262_144.0).max(0.0);
        maker.step(write(SyncMethod::Fdatasync, 4096 << power, 1), vec![nanos(planted / 2.0)]);
        let unsynced =
            Workload { cache: CacheMode::Buffered, ..write(SyncMethod::None, 4096 << power, 1) };
        maker.step(unsynced, vec![nanos(bytes * 0.2 + 2000.0)]);
    }
    let found = maker.findings().sizes.unwrap();
    let durable = found.curves.iter().find(|curve| curve.setting.is_durable()).unwrap();
    assert_eq!(durable.deviations.len(), 1, "{:?}", durable.deviations);
    assert_eq!(durable.deviations[0].near[0].layer, "vda");
    let batching = durable.batching.as_ref().unwrap();
    assert!(batching.unbatched[0].factor > 100.0, "{batching:?}");
    assert_eq!(found.free_at_small_sizes, Some(false));
    assert_eq!(found.shares.len(), 11);
}

#[test]
fn writers_are_held_against_one_and_against_a_log_with_batches() {
    let mut maker = Maker::default();
    maker.experiment(Experiment::Sizes);
    for power in 0..6 {
        let planted = 1e6 + f64::from(4096 << power);
        maker.step(write(SyncMethod::ODsync, 4096 << power, 1), vec![nanos(planted)]);
    }
    maker.experiment(Experiment::Writers);
    for jobs in [1_u32, 2, 4, 8] {
        // A quarter of the work is done by one at a time.
        let n = f64::from(jobs);
        let latency = 1e6 * (1.0 + 0.25 * (n - 1.0));
        maker.step(write(SyncMethod::ODsync, 4096, jobs), vec![nanos(latency)]);
    }
    let found = maker.findings().writers;
    assert_eq!(found.len(), 1);
    let law = found[0].contention.as_ref().unwrap().law;
    assert!((law.contention.value - 0.25).abs() < 0.01, "{law:?}");
    let last = &found[0].rows[3];
    assert!((last.efficiency_share.unwrap() - 1.0 / 2.75).abs() < 0.01, "{last:?}");
    // Eight records in one write take 1.03 ms; eight writers make 8 in 2.75 ms.
    let gain = last.batched_gain.unwrap();
    assert!((gain - 2.75 / 1.033).abs() < 0.03, "{gain}");
}

#[test]
fn a_sync_every_n_writes_shares_its_cost_and_its_slope_is_seen() {
    let mut maker = Maker::default();
    for experiment in [Experiment::SyncEvery, Experiment::FlushSlope] {
        maker.experiment(experiment);
        for every in [1, 2, 4, 8] {
            let sync = SyncPolicy { method: SyncMethod::Fdatasync, every };
            let workload = Workload { sync, ..write(SyncMethod::Fdatasync, 4096, 1) };
            maker.step(workload, vec![nanos(50_000.0)]);
        }
    }
    let found = maker.findings();
    let line = found.sync_every[0].line.unwrap();
    assert!((line.write_ns.value / 50e3 - 1.0).abs() < 0.02, "{line:?}");
    assert!((line.sync_ns.value / 50e3 - 1.0).abs() < 0.02, "{line:?}");
    let slope = found.flush_slopes[0].slope.as_ref().unwrap();
    assert_eq!(slope.shape, SlopeShape::Flat);
}

#[test]
fn too_few_points_are_declined_and_what_was_left_out_is_said() {
    let mut maker = Maker::default();
    maker.experiment(Experiment::Sizes).step(write(SyncMethod::ODsync, 4096, 1), vec![nanos(1e5)]);
    maker
        .experiment(Experiment::Writers)
        .step(write(SyncMethod::ODsync, 4096, 2), vec![nanos(1e5)]);
    maker.experiment(Experiment::SizesAndWriters);
    for size in [4096, 8192] {
        maker.step(write(SyncMethod::ODsync, size, 2), vec![nanos(1e5)]);
    }
    let traced = CommitsTraced {
        step: 0,
        commits: 2,
        sequences: vec![TracedSequence {
            commits: 2,
            requests: vec![TracedRequest {
                device: "vda".into(),
                flags: "WFS".into(),
                bytes: Bytes::from_kib(4),
                issued: Nanos::from_micros(3),
                service: None,
            }],
            commit: Nanos::from_micros(90),
        }],
        lost: 0,
        unavailable: None,
    };
    let found = maker.findings_with(&[Event::CommitsTraced(traced)]);
    assert!(matches!(
        found.sizes.unwrap().curves[0].declined,
        Some(DeclinedAnalysis::TooFew { .. })
    ));
    assert!(matches!(found.writers[0].declined, Some(DeclinedAnalysis::TooFew { .. })));
    assert_eq!(found.crosses[0].limited_by, Some(LimitedBy::Number));
    assert_eq!(found.commands[0].short, ["WFS 4 KiB"]);
    assert_eq!(found.commands[0].reaches_media, Some(true));
    assert_eq!(found.skipped.said, ["raw devices"]);
    assert!(found.skipped.experiments.contains(&Experiment::GroupCommit));
    // Two sizes by two numbers of writers, of which (8 KiB, 1) is missing.
    assert_eq!((found.skipped.combinations, found.skipped.measured), (4, 3));
}
