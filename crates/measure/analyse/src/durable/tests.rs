//! Steps in which no two figures are alike: two places, two sizes, several methods, layouts and numbers
//! of writers. Each row has the figures of its own step, held against the step that differs from it in
//! one thing alone.
//!
//! Step *n* has the rate that it is given, and latencies of 100 + *n* µs and more.

mod shared_syncs;

use durio_base::{Bytes, Nanos};
use durio_observe::DeviceCounters;
use durio_plan::{
    Campaign, EngineKind, Experiment, FileLayout, Limit, Load, Plan, PlanSection, Purpose, RawPath,
    Role, SectionKind, Step, Target, TargetKind,
};
use durio_record::OperationName;
use durio_workload::{CacheMode, GroupCommit, PerMille, SyncMethod, SyncPolicy, Workload};

use super::*;
use crate::measurement::Measurements;
use crate::tests::sample::sample;
use crate::{BatchFindings, RateVariation, WorkloadFindings};

/// Steps of a run with what was found in them.
struct Made {
    plan: Plan,
    workloads: Vec<WorkloadFindings>,
    errors: Vec<(u32, String)>,
}

/// Targets: the first two places have a file of each layout, in the order of [`LAYOUTS`].
const LAYOUTS: [FileLayout; 2] = [FileLayout::Incompressible, FileLayout::Empty];

impl Made {
    fn new() -> Self {
        let mut plan = Plan { purpose: Purpose::Durable, ..sample().plan };
        plan.steps.clear();
        plan.campaign = Some(Campaign::default());
        let target = |place: &str, layout| Target {
            name: "log".to_owned(),
            location: Some(RawPath::from(place)),
            kind: TargetKind::NewFile {
                directory: RawPath::from(place),
                file_name: RawPath::from("log"),
                named: false,
                layout,
            },
            size: Bytes::from_gib(1),
            destroy: false,
        };
        plan.targets = ["/a", "/b"]
            .iter()
            .flat_map(|place| LAYOUTS.map(|layout| target(place, layout)))
            .collect();
        Self { plan, workloads: Vec::new(), errors: Vec::new() }
    }

    fn experiment(&mut self, experiment: Experiment) -> &mut Self {
        let first_step = u32::try_from(self.plan.steps.len()).unwrap();
        self.plan.campaign.as_mut().unwrap().sections.push(PlanSection {
            name: format!("{experiment:?}"),
            summary: String::new(),
            kind: SectionKind::Experiment { experiment },
            first_step,
            steps: 0,
            rounds: None,
            baseline: None,
        });
        self
    }

    /// A step on this target with so many writes per second; its findings, to be changed.
    fn step(&mut self, target: usize, workload: Workload, rate: f64) -> &mut WorkloadFindings {
        let index = u32::try_from(self.plan.steps.len()).unwrap();
        let load = Load::new(target, workload.clone(), EngineKind::Sync);
        let limit = Limit::Duration(Nanos::from_secs(10));
        let step = Step::new(Role::Measure, load, limit, Nanos::from_secs(1));
        let sections = &mut self.plan.campaign.as_mut().unwrap().sections;
        let section = Some(u32::try_from(sections.len() - 1).unwrap());
        sections.last_mut().unwrap().steps += 1;
        self.plan.steps.push(Step { index, section, ..step });
        let mut found = sample().workloads.remove(0);
        let size = workload.block_size.get() as f64;
        (found.step, found.section) = (index, section);
        found.effective.cache = workload.cache;
        for (operation, hundreds) in found.operations.iter_mut().zip([1_u64, 11, 21]) {
            let nanos = |more: u64| (100 * (hundreds + more) + u64::from(index)) * 1000;
            // Fewer syncs than writes, more of nothing than of commits.
            let share = [1.0, 2.0, 0.5][usize::try_from(hundreds / 10).unwrap()];
            operation.rate = rate * share;
            operation.bandwidth = if operation.operation == OperationName::Sync {
                0.0
            } else {
                operation.rate * size
            };
            operation.service.mean_ns = nanos(5) as f64;
            operation.service.p50_ns = Some(nanos(0));
            operation.service.p99_ns = Some(nanos(1));
            operation.service.p99_9_ns = Some(nanos(2));
            operation.service.max_ns = nanos(3);
            operation.service.count = 1000 + u64::from(index);
        }
        found.measured = Nanos::from_secs(10);
        found.in_flight.span = Nanos::from_secs(10);
        found.definition = workload;
        self.workloads.push(found);
        self.workloads.last_mut().unwrap()
    }

    /// Again, as another repetition of the latest step.
    fn again(&mut self, rate: f64) -> &mut WorkloadFindings {
        let step = self.plan.steps.last().unwrap();
        let (target, workload) = (step.load.target, step.load.workload.clone());
        self.step(target, workload, rate)
    }

    fn findings(&self) -> DurableFindings {
        let (plan, errors) = (&self.plan, &self.errors[..]);
        let table = &Measurements::of_run(plan, &self.workloads);
        findings(&ExperimentInput { plan, table, errors }, &[], &[], &[]).unwrap()
    }
}

fn write(method: SyncMethod, kib: u64, jobs: u32) -> Workload {
    Workload {
        name: method.name().to_owned(),
        read_share: PerMille::NONE,
        block_size: Bytes::from_kib(kib),
        sync: SyncPolicy::each(method),
        cache: CacheMode::Direct,
        jobs,
        group_commit: None,
        ..Workload::default()
    }
}

fn buffered(method: SyncMethod) -> Workload {
    Workload { cache: CacheMode::Buffered, ..write(method, 4, 1) }
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "{found}, expected {expected}");
}

/// Shares in thousandths, for comparison of whole tables.
fn thousandths(share: Option<f64>) -> Option<u32> {
    share.map(|share| (share * 1000.0).round() as u32)
}

fn rates<'a>(arms: impl IntoIterator<Item = &'a DurableArm>) -> Vec<f64> {
    arms.into_iter().map(|arm| arm.figures.as_ref().unwrap().rate_per_second).collect()
}

#[test]
fn a_method_is_held_against_the_unsynced_write_of_its_own_cache_and_place() {
    use SyncMethod::{Fdatasync, Fsync, None, ODsync};
    let mut made = Made::new();
    made.experiment(Experiment::Methods);
    for (target, workload, rate) in [
        (0, write(None, 4, 1), 1000.0),
        (0, write(ODsync, 4, 1), 500.0),
        (0, buffered(None), 4000.0),
        (0, buffered(Fsync), 600.0),
        (2, write(None, 4, 1), 2000.0),
        (2, write(ODsync, 4, 1), 300.0),
        (1, write(Fdatasync, 4, 1), 400.0),
        (0, write(None, 8, 1), 800.0),
        (0, write(Fdatasync, 8, 1), 200.0),
    ] {
        made.step(target, workload, rate);
    }
    let found = made.findings().methods.unwrap();
    let rows: Vec<_> = found
        .rows
        .iter()
        .map(|row| (thousandths(row.share_of_unsynced), thousandths(row.share_of_best)))
        .collect();
    let expected = [
        // An unsynced write is its own measure, and no method.
        (Some(1000), Option::None),
        (Some(500), Some(833)),
        (Some(1000), Option::None),
        (Some(150), Some(1000)),
        (Some(1000), Option::None),
        (Some(150), Some(500)),
        // Nothing unsynced on a file of its layout.
        (Option::None, Some(667)),
        (Some(1000), Option::None),
        (Some(250), Some(333)),
    ];
    assert_eq!(rows, expected);
    // The highest rate; the lowest p99, which rises with the step's number.
    assert_eq!((found.fastest, found.steadiest), (Some(3), Some(1)));
    let setting = |at: usize| &found.rows[at].arm.setting;
    assert_eq!([&setting(0).location, &setting(5).location], ["/a", "/b"]);
    assert_eq!(setting(6).layout, Some(FileLayout::Empty));
    assert_eq!([setting(3).cache, setting(8).cache], [CacheMode::Buffered, CacheMode::Direct]);
    let steps: Vec<u32> = found.rows.iter().map(|row| row.arm.step).collect();
    assert_eq!(steps, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn of_several_unsynced_writes_the_fastest_is_the_measure() {
    let mut made = Made::new();
    made.experiment(Experiment::Methods);
    made.step(0, write(SyncMethod::None, 4, 1), 700.0);
    // Another engine, so that it is a row of its own.
    made.step(0, write(SyncMethod::None, 4, 1), 1000.0).effective.engine = EngineKind::Uring;
    made.step(0, write(SyncMethod::None, 4, 1), 900.0).effective.engine = EngineKind::Null;
    made.step(0, write(SyncMethod::ODsync, 4, 1), 250.0);
    let found = made.findings().methods.unwrap();
    assert_eq!(found.rows.len(), 4);
    assert_eq!(thousandths(found.rows[3].share_of_unsynced), Some(250));
}

#[test]
fn an_arm_has_the_figures_of_the_repetition_with_the_middle_rate() {
    let mut made = Made::new();
    made.experiment(Experiment::Methods);
    made.step(0, write(SyncMethod::Fdatasync, 8, 1), 300.0);
    made.again(100.0);
    made.again(200.0);
    made.again(400.0);
    for (found, share) in made.workloads.iter_mut().zip([0.04, 0.01, 0.02, 0.03]) {
        let some = found.rate_variation.as_mut().unwrap();
        (some.coefficient_of_variation, some.intervals) = (share, 100);
    }
    let arm = made.findings().methods.unwrap().rows.remove(0).arm;
    let figures = arm.figures.unwrap();
    // Of four the lower of the two in the middle.
    assert_close(figures.rate_per_second, 200.0);
    assert_close(figures.bandwidth_bytes_per_second, 200.0 * 8192.0);
    let latency = |latency: ArmLatencies| {
        let percentiles = [latency.p50_ns, latency.p99_ns, latency.p99_9_ns];
        (latency.count, latency.mean_ns as u64, percentiles.map(Option::unwrap), latency.max_ns)
    };
    let expected = (1002, 602_000, [102_000, 202_000, 302_000], 402_000);
    assert_eq!(latency(figures.latency), expected);
    let expected = (1002, 2_602_000, [2_102_000, 2_202_000, 2_302_000], 2_402_000);
    assert_eq!(latency(figures.sync.unwrap()), expected);
    let samples: Vec<_> = figures
        .samples
        .iter()
        .map(|sample| (sample.rate_per_second, sample.latency_ns_mean))
        .collect();
    let expected = [(100.0, 601_000.0), (200.0, 602_000.0), (300.0, 600_000.0), (400.0, 603_000.0)];
    assert_eq!(samples, expected);
    // Standard error of the mean of the rates: 129.1 / √4 of 250; more than that of the intervals.
    assert!((figures.noise_share.unwrap() - 0.2582).abs() < 1e-4, "{:?}", figures.noise_share);
}

#[test]
fn the_noise_of_one_repetition_is_that_of_its_intervals() {
    let mut made = Made::new();
    made.experiment(Experiment::Methods);
    let found = made.step(0, write(SyncMethod::Fdatasync, 4, 1), 300.0);
    let variation = found.rate_variation.unwrap();
    found.rate_variation =
        Some(RateVariation { coefficient_of_variation: 0.3, intervals: 225, ..variation });
    let arm = made.findings().methods.unwrap().rows.remove(0).arm;
    assert_close(arm.figures.unwrap().noise_share.unwrap(), 0.02);
}

#[test]
fn an_arm_has_the_problems_of_its_own_steps_and_no_others() {
    let mut made = Made::new();
    made.experiment(Experiment::Methods);
    made.step(0, write(SyncMethod::Fsync, 4, 1), 100.0).complete = false;
    made.step(0, write(SyncMethod::ODsync, 4, 1), 200.0).effective.fallbacks =
        vec!["no O_DSYNC".to_owned()];
    made.step(0, write(SyncMethod::Fdatasync, 4, 1), 300.0);
    made.step(0, write(SyncMethod::OSync, 4, 1), 400.0);
    made.step(0, write(SyncMethod::RwfDsync, 4, 1), 500.0);
    made.workloads.truncate(3);
    made.errors = vec![(3, "it broke".to_owned())];
    let found = made.findings().methods.unwrap();
    let problems: Vec<_> = found.rows.iter().map(|row| row.arm.problems.join("; ")).collect();
    let expected = [
        "ended before its limit",
        "no O_DSYNC",
        "",
        "it broke",
        "not measured: the run ended before it",
    ];
    assert_eq!(problems, expected);
    let is_measured: Vec<bool> = found.rows.iter().map(|row| row.arm.figures.is_some()).collect();
    assert_eq!(is_measured, [true, true, true, false, false]);
}

#[test]
fn a_layout_is_held_against_the_recycled_file_of_its_own_method_and_place() {
    let mut made = Made::new();
    made.experiment(Experiment::FileModes);
    let device = |writes_completed| DeviceCounters {
        name: "vda".to_owned(),
        writes_completed,
        flushes_completed: Some(writes_completed / 2),
        sectors_written: writes_completed * 8,
        ..DeviceCounters::default()
    };
    for (target, method, rate, writes) in [
        (1, SyncMethod::Fdatasync, 100.0, 3500),
        (0, SyncMethod::Fdatasync, 400.0, 6000),
        (3, SyncMethod::Fdatasync, 150.0, 4500),
        (2, SyncMethod::Fdatasync, 500.0, 6000),
        (1, SyncMethod::ODsync, 120.0, 6000),
        (0, SyncMethod::ODsync, 200.0, 4000),
    ] {
        // Two devices below, of which each does a part.
        made.step(target, write(method, 4, 1), rate).devices =
            vec![device(writes - 100), device(100)];
    }
    let found = made.findings().file_modes;
    let rows: Vec<Vec<_>> = found
        .iter()
        .map(|group| {
            let row = |row: &FileModeRow| {
                let more =
                    row.further_writes_per_commit.map(|commit| (commit * 100.0).round() as i64);
                (thousandths(row.share_of_recycled), more)
            };
            group.rows.iter().map(row).collect()
        })
        .collect();
    // Writes per commit in 10 s: 3.5 and 1.5; 3 and 1.2; 5 and 2.
    let expected = [
        [(Some(250), Some(200)), (Some(1000), Some(0))],
        [(Some(300), Some(180)), (Some(1000), Some(0))],
        [(Some(600), Some(300)), (Some(1000), Some(0))],
    ];
    assert_eq!(rows, expected);
    let device = found[0].rows[0].arm.figures.as_ref().unwrap().device.unwrap();
    assert_close(device.flushes_per_commit.unwrap(), 1.75);
    // There are half as many syncs as commits.
    assert_close(device.flushes_per_sync_call.unwrap(), 3.5);
    // 3500 writes of 4 KiB, of 2000 that were asked for.
    assert_close(device.bytes_per_byte, 1.75);
}

#[test]
fn sizes_are_held_against_the_unsynced_write_of_their_size_where_it_was_buffered() {
    let mut made = Made::new();
    made.experiment(Experiment::Sizes);
    let unsynced = |kib| Workload { cache: CacheMode::Buffered, ..write(SyncMethod::None, kib, 1) };
    for (workload, rate) in [
        // Not in the order of sizes.
        (write(SyncMethod::ODsync, 16, 1), 300.0),
        (write(SyncMethod::ODsync, 4, 1), 500.0),
        (write(SyncMethod::None, 4, 1), 600.0),
        (unsynced(16), 1200.0),
        (unsynced(4), 2000.0),
        (write(SyncMethod::Fdatasync, 4, 1), 100.0),
        (write(SyncMethod::Fdatasync, 64, 1), 50.0),
    ] {
        made.step(0, workload, rate);
    }
    let found = made.findings().sizes.unwrap();
    let curves: Vec<Vec<f64>> = found.curves.iter().map(|curve| rates(&curve.arms)).collect();
    assert_eq!(curves, [vec![500.0, 300.0], vec![600.0], vec![2000.0, 1200.0], vec![100.0, 50.0]]);
    let shares: Vec<_> = found
        .shares
        .iter()
        .map(|found| {
            let thousandth = (found.share * 1000.0).round() as u32;
            (found.durable_curve, found.unsynced_curve, found.size_bytes as u64, thousandth)
        })
        .collect();
    // Of 64 KiB there is no unsynced write.
    assert_eq!(shares, [(0, 2, 4096, 250), (0, 2, 16_384, 250), (3, 2, 4096, 50)]);
}

/// One durable and one unsynced write of a size, with this share of the rate.
fn is_free(bytes: u64, share: f64) -> Option<bool> {
    let mut made = Made::new();
    made.experiment(Experiment::Sizes);
    let sized = |method| Workload { block_size: Bytes::new(bytes), ..write(method, 4, 1) };
    made.step(0, sized(SyncMethod::None), 1000.0);
    made.step(0, sized(SyncMethod::ODsync), 1000.0 * share);
    made.findings().sizes.unwrap().free_at_small_sizes
}

#[test]
fn durability_is_free_from_nine_tenths_on_of_writes_up_to_16_kib() {
    assert_eq!(is_free(16_384, 0.9), Some(true));
    assert_eq!(is_free(16_384, 0.899), Some(false));
    assert_eq!(is_free(16_385, 0.95), None);
}

#[test]
fn writers_are_told_apart_by_their_files_and_held_against_one() {
    let mut made = Made::new();
    made.experiment(Experiment::Writers);
    made.step(0, write(SyncMethod::ODsync, 8, 4), 900.0);
    made.step(0, write(SyncMethod::ODsync, 8, 1), 300.0);
    made.step(0, write(SyncMethod::ODsync, 8, 2), 500.0);
    made.step(0, write(SyncMethod::ODsync, 8, 2), 510.0);
    made.plan.steps[3].load.more_targets = vec![1];
    made.step(2, write(SyncMethod::ODsync, 8, 1), 70.0);
    made.step(2, write(SyncMethod::ODsync, 8, 5), 280.0);
    let found = made.findings().writers;
    let rows: Vec<(bool, Vec<_>)> = found
        .iter()
        .map(|found| {
            let row = |row: &WritersRow| {
                let each = row.per_writer_bytes_per_second / 8192.0;
                (row.arm.setting.jobs, each, thousandths(row.efficiency_share))
            };
            (found.file_each, found.rows.iter().map(row).collect())
        })
        .collect();
    let expected = [
        (false, vec![(1, 300.0, Some(1000)), (2, 250.0, Some(833)), (4, 225.0, Some(750))]),
        (true, vec![(1, 300.0, Some(1000)), (2, 255.0, Some(850))]),
        (false, vec![(1, 70.0, Some(1000)), (5, 56.0, Some(800))]),
    ];
    assert_eq!(rows, expected);
    let places: Vec<_> =
        found.iter().map(|found| found.rows[0].arm.setting.location.as_str()).collect();
    assert_eq!(places, ["/a", "/a", "/b"]);
}

#[test]
fn a_log_stands_beside_as_many_writers_of_its_own_method_size_and_place() {
    let mut made = Made::new();
    made.experiment(Experiment::GroupCommit);
    let log = |method, kib, committers| Workload {
        group_commit: Some(GroupCommit::of(committers)),
        ..write(method, kib, 1)
    };
    made.step(0, write(SyncMethod::Fdatasync, 8, 4), 100.0);
    made.step(0, write(SyncMethod::ODsync, 8, 16), 500.0);
    made.step(0, write(SyncMethod::Fdatasync, 16, 16), 125.0);
    made.step(2, write(SyncMethod::Fdatasync, 8, 16), 1000.0);
    made.step(0, write(SyncMethod::Fdatasync, 8, 16), 250.0);
    made.step(0, log(SyncMethod::Fdatasync, 8, 16), 1000.0).batches = Some(batches(7));
    made.step(0, log(SyncMethod::Fdatasync, 8, 3), 2000.0);
    let found = made.findings().group_commit.unwrap();
    let [sixteen, three] = &found.rows[..] else { panic!("two logs") };
    assert_close(sixteen.gain.unwrap(), 4.0);
    assert_eq!(rates(&sixteen.independent), [250.0]);
    assert_eq!(sixteen.arm.figures.as_ref().unwrap().batches, Some(batches(7)));
    assert_eq!((&three.independent, three.gain), (&None, None));
    assert_eq!(rates(&found.others), [100.0, 500.0, 125.0, 1000.0]);
}

fn batches(number: u32) -> BatchFindings {
    BatchFindings {
        count: 100,
        records_mean: f64::from(number),
        records_p50: number,
        records_p99: number,
        records_max: number,
        commits_per_sync: None,
        padding_share: 0.0,
        delayed_share: 0.0,
        full_share: 0.0,
        device_writes_per_commit: None,
        sizes: Vec::new(),
    }
}

#[test]
fn the_elasticity_is_from_one_size_to_the_next_with_as_many_writers() {
    let mut made = Made::new();
    made.experiment(Experiment::SizesAndWriters);
    for (kib, jobs, rate) in [
        // As many writes whatever their size; as many bytes.
        (64, 1, 100.0),
        (4, 1, 100.0),
        (16, 1, 100.0),
        (4, 8, 800.0),
        (16, 8, 200.0),
    ] {
        made.step(0, write(SyncMethod::ODsync, kib, jobs), rate);
    }
    let found = made.findings().crosses.remove(0);
    let cells: Vec<_> = found
        .cells
        .iter()
        .map(|cell| {
            let setting = &cell.arm.setting;
            (setting.jobs, setting.block_size.get() / 1024, cell.seconds_per_volume)
        })
        .collect();
    // 1 GiB has 262 144, 65 536 and 16 384 writes.
    let expected =
        [(1, 4, 2621.44), (1, 16, 655.36), (1, 64, 163.84), (8, 4, 327.68), (8, 16, 327.68)];
    assert_eq!(cells, expected);
    let steps: Vec<_> = found
        .elasticities
        .iter()
        .map(|found| {
            let kib = |bytes: f64| bytes as u64 / 1024;
            (found.writers, kib(found.from_bytes), kib(found.to_bytes), found.limited_by)
        })
        .collect();
    let expected = [
        (1, 4, 16, LimitedBy::Number),
        (1, 16, 64, LimitedBy::Number),
        (8, 4, 16, LimitedBy::Bytes),
    ];
    assert_eq!(steps, expected);
    assert_eq!(found.limited_by, Some(LimitedBy::Number));
}

#[test]
fn a_third_and_two_thirds_of_the_growth_are_the_bounds_of_what_limits() {
    let third = 1.0 / 3.0;
    for (elasticity, expected) in [
        (third - 1e-9, LimitedBy::Number),
        (third, LimitedBy::Both),
        (2.0 * third, LimitedBy::Both),
        (2.0 * third + 1e-9, LimitedBy::Bytes),
    ] {
        assert_eq!(limited_by(elasticity), expected, "{elasticity}");
    }
}

#[test]
fn what_was_measured_more_than_once_is_told_the_farthest_apart_first() {
    let mut made = Made::new();
    made.experiment(Experiment::Methods);
    made.step(0, write(SyncMethod::ODsync, 4, 1), 100.0);
    made.step(0, write(SyncMethod::Fsync, 4, 1), 100.0);
    made.step(0, write(SyncMethod::OSync, 4, 1), 100.0);
    made.experiment(Experiment::Sizes);
    made.step(0, write(SyncMethod::ODsync, 4, 1), 110.0);
    made.experiment(Experiment::Writers);
    made.step(0, write(SyncMethod::Fsync, 4, 1), 150.0);
    made.step(0, write(SyncMethod::OSync, 8, 1), 900.0);
    let found = made.findings().repeated;
    let rows: Vec<_> = found
        .iter()
        .map(|found| {
            let rates = found.rates;
            (
                found.setting.method,
                (rates.count, rates.rate_min_per_second, rates.rate_max_per_second),
                rates.agree,
            )
        })
        .collect();
    let expected = [
        (SyncMethod::Fsync, (2, 100.0, 150.0), false),
        (SyncMethod::ODsync, (2, 100.0, 110.0), true),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn sync_calls_are_those_of_steps_that_ask_for_them_or_stand_outside_of_sections() {
    let mut made = Made::new();
    for experiment in [Experiment::Methods, Experiment::SyncCalls, Experiment::Commands] {
        made.experiment(experiment).step(0, buffered(SyncMethod::Fsync), 100.0);
    }
    made.step(0, buffered(SyncMethod::Fsync), 100.0);
    made.plan.steps[3].section = None;
    // There is no fifth step.
    let probed = [0, 1, 2, 3, 4].map(|step| SyncCallsProbed { step, calls: Vec::new() });
    let plan = &made.plan;
    let table = &Measurements::of_run(plan, &made.workloads);
    let found = findings(&ExperimentInput { plan, table, errors: &[] }, &[], &[], &probed).unwrap();
    let steps: Vec<u32> = found.sync_calls.iter().map(|calls| calls.step).collect();
    assert_eq!(steps, [1, 3]);
}
