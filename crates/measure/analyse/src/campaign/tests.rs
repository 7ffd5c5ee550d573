//! Plans in, findings out: what a campaign shows of scripted latencies and planted figures.

mod places;

use durio_base::{Bytes, Nanos, RaidLevel};
use durio_plan::{
    DeclaredLayout, DeclaredTarget, EngineKind, Limit as StepLimit, Load, ParameterValue, Rounds,
    Sheet, Step, Tracking, Until,
};
use durio_record::{OperationName, Phase as IntervalPhase};
use durio_workload::{CacheMode, Pattern, PerMille, SyncPolicy, Workload};

use super::*;
use crate::ladder::limits::LimitKind;
use crate::ladder::{Knee, LadderPhase};
use crate::raid_efficiency::ParityWrite;
use crate::tests::sample::{Sample, sample};
use crate::{DeclinedAnalysis, IntervalPoint, OpenLoop, WorkloadFindings};

fn level(axis: &str, value: f64) -> ParameterValue {
    ParameterValue { axis: axis.into(), value, label: format!("{value}") }
}

fn random(read_share: PerMille, depth: u32) -> Workload {
    let name = if read_share == PerMille::ALL { "randread" } else { "randwrite" };
    Workload {
        name: name.into(),
        pattern: Pattern::Random,
        read_share,
        depth,
        sync: SyncPolicy::NONE,
        ..Workload::default()
    }
}

/// A campaign to be filled: every step that is added is in the last section.
struct Made {
    sample: Sample,
    campaign: Campaign,
    /// Bytes per second that the memory copies.
    copied: Option<u64>,
}

impl Made {
    fn new() -> Self {
        let mut sample = sample();
        sample.plan.steps.clear();
        let campaign = Campaign { name: "made".into(), ..Campaign::default() };
        Self { sample, campaign, copied: None }
    }

    fn section(&mut self, name: &str, kind: SectionKind) -> &mut PlanSection {
        self.campaign.sections.push(PlanSection {
            name: name.into(),
            summary: String::new(),
            kind,
            first_step: u32::try_from(self.sample.plan.steps.len()).unwrap(),
            steps: 0,
            rounds: None,
            baseline: None,
        });
        self.campaign.sections.last_mut().unwrap()
    }

    /// Adds a step and gives its index.
    fn step(&mut self, workload: &Workload, levels: Vec<ParameterValue>, repeat: u32) -> u32 {
        let index = u32::try_from(self.sample.plan.steps.len()).unwrap();
        let load = Load::new(0, workload.clone(), EngineKind::Uring);
        let limit = StepLimit::Duration(Nanos::from_secs(300));
        let step = Step::new(Role::Measure, load, limit, Nanos::from_secs(1));
        let section = u32::try_from(self.campaign.sections.len()).unwrap().checked_sub(1);
        self.sample.plan.steps.push(Step { index, levels, repeat, section, ..step });
        if let Some(section) = self.campaign.sections.last_mut() {
            section.steps += 1;
        }
        index
    }

    /// Findings of a step: rate, and mean latency in microseconds.
    fn measured(&mut self, step: u32, rate: f64, latency_us: f64) -> &mut WorkloadFindings {
        let planned = &self.sample.plan.steps[step as usize];
        let definition = planned.load.workload.clone();
        let mut found = sample().workloads.remove(0);
        found.headline =
            if definition.reads() { OperationName::Read } else { OperationName::Write };
        let mut operation = found.operations.remove(0);
        (operation.operation, operation.rate) = (found.headline, rate);
        operation.service.mean_ns = latency_us * 1e3;
        found.operations = vec![operation];
        (found.step, found.repeat, found.section) = (step, planned.repeat, planned.section);
        (found.iops, found.bandwidth) = (rate, rate * 4096.0);
        found.levels.clone_from(&planned.levels);
        found.name.clone_from(&definition.name);
        (found.effective.engine, found.effective.jobs) = (EngineKind::Uring, definition.jobs);
        found.effective.depth = definition.depth;
        found.in_flight.offered = f64::from(definition.in_flight_max());
        found.in_flight.counted = rate * latency_us / 1e6;
        (found.durable, found.definition) = (false, definition);
        self.sample.workloads.push(found);
        self.sample.workloads.last_mut().unwrap()
    }

    fn findings(mut self) -> CampaignFindings {
        self.sample.workloads.remove(0);
        self.sample.plan.campaign = Some(self.campaign);
        findings(&CampaignInput {
            plan: &self.sample.plan,
            table: &Measurements::of_run(&self.sample.plan, &self.sample.workloads),
            self_cost: &[],
            memory_copied: self
                .copied
                .map(|copied| MemoryMeasured { threads: 1, copied_per_second: Bytes::new(copied) }),
        })
        .unwrap()
    }
}

fn ladder(axis: &str) -> SectionKind {
    SectionKind::Ladder { axis: axis.into() }
}

/// Samsung 970 EVO Plus, 4 KiB random reads, one job: depth, rate, mean latency in microseconds
/// ("Fast by Design", section on measuring storage, table of queue depths).
const DEPTHS: [(u32, f64, f64); 9] = [
    (1, 12_800.0, 78.0),
    (2, 25_600.0, 78.0),
    (4, 51_200.0, 78.0),
    (8, 102_400.0, 78.0),
    (16, 204_800.0, 78.0),
    (32, 340_000.0, 94.0),
    (64, 370_000.0, 173.0),
    (128, 380_000.0, 337.0),
    (256, 382_000.0, 670.0),
];

fn depths() -> Made {
    let mut made = Made::new();
    made.section("depths", ladder("depth"));
    for (depth, rate, latency) in DEPTHS {
        let levels = vec![level("depth", f64::from(depth))];
        let step = made.step(&random(PerMille::ALL, depth), levels, 0);
        made.measured(step, rate, latency);
    }
    made
}

#[test]
fn a_published_ladder_has_its_phases_knee_and_limits_through_the_whole_chain() {
    let found = depths().findings();
    let section = &found.sections[0];
    let ladder = section.curves[0].ladder.as_ref().unwrap();
    assert_eq!(ladder.phases.linear_to_level, 16.0);
    assert_eq!(ladder.phases.saturated_from_level, Some(64.0));
    // 382 thousand per second × 78 µs.
    let Knee::Measured { units, .. } = ladder.knee else { panic!("{:?}", ladder.knee) };
    assert!((units - 29.8).abs() < 0.1, "{units}");
    let phases: Vec<_> = section.rows.iter().map(|row| row.phase.unwrap()).collect();
    assert_eq!(phases[..5], [LadderPhase::Linear; 5]);
    assert_eq!(phases[6..], [LadderPhase::Saturated; 3]);
    let limits: Vec<_> = section.rows.iter().map(|row| row.limit.as_ref().unwrap().kind).collect();
    assert_eq!(limits[..5], [LimitKind::DepthOffered; 5]);
    assert_eq!(limits[7..], [LimitKind::Device; 2]);
    assert_eq!(found.provisional, None);
}

#[test]
fn a_curve_per_name_and_a_reason_where_there_are_too_few_levels() {
    let mut made = depths();
    let step = made.step(&random(PerMille::NONE, 1), vec![level("depth", 1.0)], 0);
    made.measured(step, 1000.0, 900.0);
    let section = &made.findings().sections[0];
    let names: Vec<_> = section.curves.iter().map(|curve| curve.name.as_str()).collect();
    assert_eq!(names, ["randread", "randwrite"]);
    let declined = section.curves[1].declined.as_ref();
    assert!(matches!(declined, Some(DeclinedAnalysis::TooFew { given: 1, .. })), "{declined:?}");
}

#[test]
fn repetitions_are_one_row_of_medians_with_their_spread() {
    let mut made = Made::new();
    made.section("single", SectionKind::Single);
    for (repeat, rate) in [(0, 900.0), (1, 1000.0), (2, 1400.0)] {
        let step = made.step(&random(PerMille::ALL, 1), vec![], repeat);
        made.measured(step, rate, 1e6 / rate);
    }
    let rows = &made.findings().sections[0].rows;
    let basis =
        RowBasis::Repeats { count: 3, rate_min_per_second: 900.0, rate_max_per_second: 1400.0 };
    assert_eq!((rows.len(), rows[0].rate, rows[0].basis), (1, 1000.0, basis));
    assert_eq!(rows[0].service.unwrap().mean_ns, 1e6);
}

#[test]
fn rounds_count_only_within_the_window_that_was_steady() {
    let mut made = Made::new();
    let until = Until::SteadyState {
        tracked: 0,
        tracking: Tracking::Iops,
        window: 3,
        excursion_per_mille: 200,
        slope_per_mille: 100,
    };
    made.section("rounds", SectionKind::Single).rounds = Some(Rounds { max: 25, until });
    let step = made.step(&random(PerMille::NONE, 1), vec![], 0);
    for (round, rate) in (0..).zip([9000.0, 3000.0, 1010.0, 990.0, 1003.0]) {
        made.measured(step, rate, 1e6 / rate).round = round;
    }
    let section = &made.findings().sections[0];
    let found = section.convergence.as_ref().unwrap();
    assert_eq!(found.series.len(), 5);
    assert_eq!(found.state.as_ref().unwrap().attained_at, Some(5));
    assert_eq!(section.rows.len(), 1);
    assert!((section.rows[0].rate - 1001.0).abs() < 1e-9, "{}", section.rows[0].rate);
    let window = RowBasis::Window { first_round: 3, last_round: 5, steady: true };
    assert_eq!(section.rows[0].basis, window);
}

fn open(offered: f64, achieved: f64) -> OpenLoop {
    OpenLoop {
        arrivals: durio_workload::Arrivals::Poisson { rate_per_second: offered },
        offered_per_second: offered,
        achieved_per_second: achieved,
        due: 1000,
        never_started: 0,
        started_share: achieved / offered,
        lag_ns_mean: 0.0,
        lag_ns_max: 0,
        behind_ns_max: 0,
    }
}

#[test]
fn the_level_from_which_the_offered_rate_was_not_reached_is_marked() {
    let mut made = Made::new();
    made.section("rates", ladder("rate"));
    for (offered, achieved, latency) in
        [(1e3, 1e3, 100.0), (2e3, 2e3, 101.0), (4e3, 4e3, 110.0), (8e3, 5e3, 900.0)]
    {
        let step = made.step(&random(PerMille::ALL, 8), vec![level("rate", offered)], 0);
        made.measured(step, achieved, latency).open_loop = Some(open(offered, achieved));
    }
    let section = &made.findings().sections[0];
    let curve = &section.curves[0];
    assert_eq!(curve.not_reached_from.as_ref().unwrap().value, 8e3);
    let kept: Vec<_> = section.rows.iter().map(|row| row.open_loop.unwrap().keeps_up).collect();
    assert_eq!(kept, [true, true, true, false]);
    let limits: Vec<_> = section.rows.iter().map(|row| row.limit.as_ref().unwrap().kind).collect();
    assert_eq!(limits[..3], [LimitKind::OfferedRate; 3]);
    assert_ne!(limits[3], LimitKind::OfferedRate);
}

#[test]
fn of_several_late_levels_the_lowest_is_the_one_from_which_the_rate_was_not_reached() {
    // Offered and achieved rates per second, in the order of the plan.
    let rows = [
        (vec![(1e3, 1e3), (2e3, 2e3), (4e3, 3e3), (8e3, 3e3), (16e3, 3e3)], Some(4e3)),
        (vec![(16e3, 7e3), (8e3, 7e3), (4e3, 4e3), (2e3, 2e3)], Some(8e3)),
        // One that was reached between two others.
        (vec![(2e3, 1e3), (8e3, 4e3), (4e3, 4e3)], Some(2e3)),
        // 99 of 100 are reached.
        (vec![(1e3, 990.0), (2e3, 1979.0), (3e3, 2e3)], Some(2e3)),
        (vec![(1e3, 1e3), (2e3, 2e3), (4e3, 4e3)], None),
    ];
    for (rates, expected) in rows {
        let mut made = Made::new();
        made.section("rates", ladder("rate"));
        for (offered, achieved) in rates {
            let step = made.step(&random(PerMille::ALL, 8), vec![level("rate", offered)], 0);
            made.measured(step, achieved, 100.0).open_loop = Some(open(offered, achieved));
        }
        let found = made.findings();
        let curve = &found.sections[0].curves[0];
        assert_eq!(curve.not_reached_from, expected.map(|offered| level("rate", offered)));
        let json = serde_json::to_value(curve).unwrap();
        assert_eq!(json["not_reached_from"]["value"].as_f64(), expected, "per second");
    }
}

/// A three-drive RAID5 of which a small random write is one read and two writes.
fn raid5() -> Made {
    let mut made = Made::new();
    let levels = || vec![level("jobs", 1.0)];
    made.section("writes", ladder("jobs"));
    // Reads of the same size, with which no write is compared.
    let step = made.step(&random(PerMille::ALL, 1), levels(), 0);
    made.measured(step, 50_000.0, 20.0).target = "drive".into();
    let step = made.step(&random(PerMille::NONE, 1), levels(), 0);
    made.measured(step, 10_000.0, 100.0).target = "drive".into();
    let workload = Workload { jobs: 3, ..random(PerMille::NONE, 1) };
    made.section("writes", ladder("jobs")).baseline = Some("drive".into());
    let step = made.step(&workload, vec![level("jobs", 3.0)], 0);
    made.measured(step, 9_000.0, 333.0).target = "md".into();
    let sheet = Sheet { price: Some(300.0), random_write_iops: Some(18_000.0), ..Sheet::default() };
    let declared = DeclaredLayout {
        raid: Some(RaidLevel::Raid5),
        members: Some(3),
        replicas: Some(3),
        sheet: Some(sheet),
        ..DeclaredLayout::default()
    };
    made.campaign.declared = vec![DeclaredTarget { target: "md".into(), location: None, declared }];
    made
}

#[test]
fn an_array_stands_beside_its_drives_with_its_model() {
    let found = raid5().findings();
    let beside = &found.sections[1].baselines[0];
    assert_eq!((beside.baseline_section, beside.baseline_row), (0, 1));
    assert_eq!((beside.drives, beside.baseline_drives), (3, 1));
    assert_eq!(beside.raw_rate_per_second, 30_000.0);
    let raid = beside.raid.as_ref().unwrap();
    assert_eq!(
        raid.model.array.layout,
        crate::raid_efficiency::MemberLayout::Raid5 { parity_write: ParityWrite::ReconstructWrite }
    );
    // Two device writes of each host write: 15 thousand; with the read counted: 10 thousand.
    assert!(
        (raid.efficiency - 0.6).abs() < 1e-9 && (raid.efficiency_reads_counted - 0.9).abs() < 1e-9
    );
    assert_eq!(
        beside.note.as_deref(),
        Some("the baseline was measured on one drive, and its rate multiplied by 3")
    );
}

#[test]
fn sheet_price_failures_and_replicas_follow_from_what_was_said() {
    let found = raid5().findings();
    let target = &found.targets[0];
    assert_eq!(target.raid.as_ref().unwrap().failures_survived_min, 1);
    assert_eq!(target.device_writes_per_write, Some(6.0));
    assert_eq!((target.sheet.len(), target.sheet[0].delta_share), (1, -0.5));
    assert_eq!(target.per_price[0].rate_per_price, 30.0);
    assert_eq!(target.currency.as_deref(), Some("USD"));
}

#[test]
fn the_sheet_is_of_random_accesses_of_4_kib_at_most() {
    let of = |bytes| {
        let mut made = raid5();
        for step in &mut made.sample.plan.steps {
            step.load.workload.block_size = durio_base::Bytes::new(bytes);
        }
        made.findings().targets[0].sheet.len()
    };
    assert_eq!([of(512), of(4096), of(4097)], [1, 1, 0]);
}

#[test]
fn a_raid_without_its_members_has_a_reason_instead_of_a_model() {
    let mut made = raid5();
    made.campaign.declared[0].declared.members = None;
    let found = made.findings();
    assert!(matches!(found.targets[0].declined, Some(DeclinedAnalysis::NoSuchLayout { .. })));
    let beside = &found.sections[1].baselines[0];
    assert!(beside.raid.is_none() && beside.declined.is_some());
}

#[test]
fn a_map_has_each_cell_where_its_levels_say() {
    let mut made = Made::new();
    made.section("map", SectionKind::Map { x: "depth".into(), y: "block_size".into() });
    for (depth, size) in [(4, 8192.0), (1, 4096.0), (4, 4096.0)] {
        let levels = vec![level("depth", f64::from(depth)), level("block_size", size)];
        let step = made.step(&random(PerMille::ALL, depth), levels, 0);
        made.measured(step, 1000.0, 100.0);
    }
    let map = &made.findings().sections[0].maps[0];
    let cells: Vec<_> = map.cells.iter().map(|cell| (cell.x, cell.y, cell.row)).collect();
    assert_eq!(cells, [(1, 1, 0), (0, 0, 1), (1, 0, 2)]);
}

#[test]
fn a_long_step_that_falls_is_found_with_the_time_of_its_fall() {
    let mut made = Made::new();
    made.section("long", SectionKind::Single);
    let step = made.step(&random(PerMille::NONE, 1), vec![], 0);
    let interval = |second: u64| IntervalPoint {
        phase: IntervalPhase::Measure,
        from: Nanos::from_secs(second),
        to: Nanos::from_secs(second + 1),
        rate: if second < 60 { 1000.0 } else { 400.0 },
        p50_ns: None,
        p99_ns: None,
        max_ns: None,
        unwatched_max: None,
        cut_short: false,
        kept: Vec::new(),
    };
    made.measured(step, 700.0, 1e3).intervals = (0..120).map(interval).collect();
    let run = &made.findings().sections[0].long_runs[0];
    assert!(run.leaving.is_worse);
    assert_eq!(run.changes_at, [Nanos::from_secs(60)]);
}

#[test]
fn a_step_outside_of_every_section_is_shown_too() {
    let mut made = Made::new();
    let step = made.step(&random(PerMille::ALL, 1), vec![], 0);
    made.measured(step, 1000.0, 1000.0);
    let found = made.findings();
    assert_eq!(found.sections[0].name, "other steps");
    assert_eq!(found.sections[0].rows.len(), 1);
}

#[test]
fn short_steps_and_a_time_scale_are_provisional_and_counted_ones_are_not() {
    let mut made = depths();
    made.campaign.time_scale_per_mille = 50;
    made.sample.workloads[1].measured = Nanos::from_secs(15);
    let words = made.findings().provisional.unwrap();
    assert!(words.contains("5 % of") && words.contains("15 s"), "{words}");
    let mut made = depths();
    made.sample.workloads[1].measured = Nanos::from_secs(15);
    made.sample.plan.steps[0].limit = StepLimit::Operations(100);
    assert_eq!(made.findings().provisional, None);
}

#[test]
fn figures_are_final_from_300_s_on() {
    let provisional = |nanos| {
        let mut made = depths();
        made.sample.workloads[1].measured = Nanos::new(nanos);
        made.findings().provisional.is_some()
    };
    assert_eq!([provisional(299_999_999_999), provisional(300_000_000_000)], [true, false]);
}

#[test]
fn buffered_reads_near_the_speed_of_copying_are_limited_by_the_memory() {
    let limits = |copied: Option<u64>, cache: CacheMode| {
        let mut made = Made { copied, ..Made::new() };
        made.section("one", SectionKind::Single);
        let step = made.step(&random(PerMille::ALL, 8), Vec::new(), 0);
        let found = made.measured(step, 1e6, 8.0);
        (found.effective.cache, found.cpu.job_shares) = (cache, vec![0.5]);
        let findings = made.findings();
        let limit = findings.sections[0].rows[0].limit.clone().unwrap();
        [limit.also, vec![limit.kind]].concat()
    };
    // 4.1 GB/s.
    let memory = LimitKind::MemoryBandwidth;
    assert!(limits(Some(5_000_000_000), CacheMode::Buffered).contains(&memory));
    assert!(!limits(Some(8_000_000_000), CacheMode::Buffered).contains(&memory));
    // Past the page cache a byte is not copied, and the memory moves twice what it copies.
    assert!(!limits(Some(5_000_000_000), CacheMode::Direct).contains(&memory));
    assert!(!limits(None, CacheMode::Buffered).contains(&memory));
}

#[test]
fn a_row_has_the_middle_of_each_figure_and_the_worst_of_what_spoils_it() {
    let mut made = Made::new();
    made.section("single", SectionKind::Single);
    let repeats =
        [(10_u32, Some(30), true, 1.0), (9, Some(80), true, 0.98), (14, None, false, 1.0)];
    for (repeat, (number, idle, complete, started_share)) in (0..).zip(repeats) {
        let step = made.step(&random(PerMille::ALL, 8), vec![], repeat);
        let rate = f64::from(number) * 100.0;
        let found = made.measured(step, rate, 500.0);
        (found.idle_before, found.complete) = (idle.map(Nanos::from_millis), complete);
        (found.in_flight.counted, found.bandwidth) = (rate / 50.0, rate * 8192.0);
        found.open_loop = Some(OpenLoop { started_share, ..open(2.0 * rate, rate) });
        let nanos = |part: u64| Some(part * u64::from(number));
        let operation = &mut found.operations[0];
        let service = &mut operation.service;
        (service.p50_ns, service.p99_ns, service.p99_9_ns) = (nanos(1), nanos(2), nanos(3));
        let mut response = service.clone();
        response.mean_ns = 7.0 * f64::from(number);
        (response.p50_ns, response.p99_ns, response.p99_9_ns) = (nanos(4), nanos(5), nanos(6));
        operation.response = Some(response);
    }
    let rows = &made.findings().sections[0].rows;
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.rate, row.iops, row.bandwidth), (1000.0, 1000.0, 8_192_000.0));
    assert_eq!((row.in_flight_offered, row.in_flight_mean), (8.0, 20.0));
    let service = row.service.unwrap();
    let percentiles = [service.p50_ns, service.p99_ns, service.p99_9_ns];
    assert_eq!(percentiles, [Some(10), Some(20), Some(30)]);
    let response = row.response.unwrap();
    let percentiles = [response.p50_ns, response.p99_ns, response.p99_9_ns];
    assert_eq!(percentiles, [Some(40), Some(50), Some(60)]);
    assert_eq!((service.mean_ns, response.mean_ns), (500_000.0, 70.0));
    let open = row.open_loop.unwrap();
    assert_eq!((open.offered_per_second, open.achieved_per_second), (2000.0, 1000.0));
    assert!(!open.keeps_up && !row.complete, "one is enough");
    assert_eq!(row.idle_before, Some(Nanos::from_millis(80)), "the longest");
}

#[test]
fn each_figure_of_a_sheet_is_held_against_the_best_of_its_own_kind() {
    let mut made = Made::new();
    made.section("all", SectionKind::Single);
    let in_order = |name: &str, share| Workload {
        name: name.into(),
        pattern: Pattern::Sequential,
        ..random(share, 4)
    };
    let mix = Workload { name: "mix".into(), ..random(PerMille(700), 4) };
    for (workload, rate, bandwidth) in [
        (random(PerMille::ALL, 1), 10_000.0, 8e9),
        (random(PerMille::ALL, 8), 40_000.0, 8e9),
        (random(PerMille::ALL, 16), 30_000.0, 8e9),
        (random(PerMille::NONE, 1), 9_000.0, 7e9),
        (in_order("seqread", PerMille::ALL), 500.0, 3e9),
        (in_order("seqwrite", PerMille::NONE), 400.0, 1e9),
        (mix, 99_000.0, 9e9),
    ] {
        let step = made.step(&workload, vec![], 0);
        let found = made.measured(step, rate, 10.0);
        (found.target, found.bandwidth) = ("drive".into(), bandwidth);
    }
    let sheet = Sheet {
        price: Some(200.0),
        currency: Some("EUR".into()),
        random_read_iops: Some(50_000.0),
        random_write_iops: Some(6_000.0),
        read_bandwidth: Some(Bytes::new(4_000_000_000)),
        write_bandwidth: Some(Bytes::new(2_000_000_000)),
    };
    let declared = DeclaredLayout { sheet: Some(sheet), ..DeclaredLayout::default() };
    let target = "drive".to_owned();
    made.campaign.declared = vec![DeclaredTarget { target, location: None, declared }];
    let target = made.findings().targets.remove(0);
    let expected = [
        (SheetFigure::RandomReadIops, 50_000.0, 40_000.0, -0.2, 1),
        (SheetFigure::RandomWriteIops, 6_000.0, 9_000.0, 0.5, 3),
        (SheetFigure::ReadBandwidth, 4e9, 3e9, -0.25, 4),
        (SheetFigure::WriteBandwidth, 2e9, 1e9, -0.5, 5),
    ];
    assert_eq!(target.sheet.len(), expected.len());
    for (found, (figure, specified, measured, delta, row)) in target.sheet.iter().zip(expected) {
        assert_eq!((found.figure, found.section, found.row), (figure, 0, row));
        assert_eq!((found.specified, found.measured), (specified, measured), "{figure:?}");
        assert!((found.delta_share - delta).abs() < 1e-9, "{found:?}");
    }
    let prices: Vec<_> =
        target.per_price.iter().map(|it| (it.workload.as_str(), it.rate_per_price)).collect();
    let expected = [
        ("randread", 200.0),
        ("randwrite", 45.0),
        ("seqread", 2.5),
        ("seqwrite", 2.0),
        ("mix", 495.0),
    ];
    assert_eq!(prices, expected);
    assert_eq!(target.currency.as_deref(), Some("EUR"));
}

#[test]
fn rounds_are_judged_by_the_figure_and_the_step_that_are_tracked() {
    let series = |tracking| {
        let mut made = Made::new();
        let until = Until::SteadyState {
            tracked: 1,
            tracking,
            window: 3,
            excursion_per_mille: 200,
            slope_per_mille: 100,
        };
        made.section("rounds", SectionKind::Single).rounds = Some(Rounds { max: 25, until });
        let first = made.step(&random(PerMille::NONE, 1), vec![], 0);
        let second = made.step(&random(PerMille::ALL, 1), vec![], 0);
        for (round, more) in [(0, 0.0), (1, 1.0)] {
            made.measured(first, 7.0, 9.0).round = round;
            let found = made.measured(second, 1000.0 + more, 50.0 + more);
            (found.round, found.bandwidth) = (round, 5e6 + more);
        }
        let found = made.findings().sections.remove(0).convergence.unwrap();
        assert_eq!(found.tracked, "randread");
        found.series
    };
    assert_eq!(series(Tracking::Iops), [1000.0, 1001.0]);
    assert_eq!(series(Tracking::Bandwidth), [5e6, 5_000_001.0]);
    assert_eq!(series(Tracking::LatencyMean), [50_000.0, 51_000.0]);
}
