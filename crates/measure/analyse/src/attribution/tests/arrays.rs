//! RAID rows against models reckoned by hand.

use durio_workload::PerMille;

use super::*;
use crate::raid_efficiency::{ArrayLayout, MemberLayout, ParityWrite};

const MODIFY: ParityWrite = ParityWrite::ReadModifyWrite;

fn raid(layout: MemberLayout, members: u32, degraded_members: u32) -> Option<RaidPoint> {
    Some(RaidPoint { array: ArrayLayout { layout, members }, degraded_members })
}

fn on_raw<'a>(raw: &'a crate::Findings, array: &'a crate::Findings) -> Vec<StackPoint<'a>> {
    vec![
        point("s", "raw", PointKind::Raw, None, Some(raw)),
        point("s", "md", PointKind::Raid, Some(0), Some(array)),
    ]
}

#[test]
fn theory_of_each_level_is_that_by_hand() {
    // Drives of 1000/s. Layout, members, rate that the model expects with writes counted, and with
    // reads counted too; failures survived at least and at most.
    let modify5 = MemberLayout::Raid5 { parity_write: MODIFY };
    let modify6 = MemberLayout::Raid6 { parity_write: MODIFY };
    let cases = [
        (MemberLayout::Raid0, 4, 4000.0, 4000.0, (0, 0)),
        (MemberLayout::Raid1 { copies: 2 }, 2, 1000.0, 1000.0, (1, 1)),
        (MemberLayout::Raid1 { copies: 3 }, 3, 1000.0, 1000.0, (2, 2)),
        (MemberLayout::Raid10 { copies: 2 }, 8, 4000.0, 4000.0, (1, 4)),
        (modify5, 8, 4000.0, 2000.0, (1, 1)),
        (modify6, 6, 2000.0, 1000.0, (2, 2)),
    ];
    let raw = run(&[writes(1000.0)]);
    for (layout, members, writes_counted, reads_counted, survived) in cases {
        let array = run(&[writes(writes_counted / 2.0)]);
        let mut points = on_raw(&raw, &array);
        points[1].raid = raid(layout, members, 0);
        let found = attribution(&bench(points)).unwrap();
        let row = figures(&found, 1).raid.as_ref().unwrap();
        let drives = row.raw_rate_per_second.unwrap();
        assert!(
            (drives * row.theoretical_share.unwrap() - writes_counted).abs() < 1e-6,
            "{layout:?}"
        );
        let both = row.theoretical_share_reads_counted.unwrap();
        assert!((drives * both - reads_counted).abs() < 1e-6, "{layout:?}");
        assert!((row.efficiency.unwrap() - 0.5).abs() < 1e-9, "{layout:?}");
        let share = row.theoretical_share.unwrap() / 2.0;
        assert!((row.share_of_drives.unwrap() - share).abs() < 1e-12, "{layout:?}");
        let facts = found.points[1].raid.as_ref().unwrap();
        assert_eq!((facts.failures_left_min, facts.failures_left_max), survived, "{layout:?}");
    }
}

#[test]
fn reads_have_all_drives_whatever_the_level() {
    let reads = |rate| Figures { name: "randread", read_share: PerMille::ALL, ..writes(rate) };
    let (raw, array) = (run(&[reads(1000.0)]), run(&[reads(3000.0)]));
    let mut points = on_raw(&raw, &array);
    points[1].raid = raid(MemberLayout::Raid5 { parity_write: MODIFY }, 4, 0);
    let found = attribution(&bench(points)).unwrap();
    let row = figures(&found, 1).raid.as_ref().unwrap();
    assert_eq!((row.theoretical_share, row.efficiency), (Some(1.0), Some(0.75)));
    assert_eq!(figures(&found, 1).devices, None);
}

#[test]
fn more_drives_give_no_more_where_the_processor_is_the_limit() {
    let mut raw = run(&[writes(1000.0)]);
    let cpu = &mut raw.workloads[0].cpu;
    (cpu.user_cores, cpu.system_cores) = (0.2, 0.78);
    let array = run(&[writes(400.0)]);
    let mut points = on_raw(&raw, &array);
    points[1].raid = raid(MemberLayout::Raid10 { copies: 2 }, 4, 0);
    let found = attribution(&bench(points)).unwrap();
    let row = figures(&found, 1).raid.as_ref().unwrap();
    assert_eq!((row.processor_bound, row.raw_rate_per_second), (true, Some(1000.0)));
    assert!((row.efficiency.unwrap() - 0.8).abs() < 1e-12);
    assert!(row.basis.as_ref().unwrap().contains("the processor limits it"));
}

#[test]
fn nine_tenths_of_the_processors_that_its_jobs_can_use_are_the_limit() {
    let array = run(&[writes(400.0)]);
    let is_bound = |jobs: u32, user: f64, system: f64, workers: f64| {
        let mut raw = run(&[writes(1000.0)]);
        raw.workloads[0].effective.jobs = jobs;
        let cpu = &mut raw.workloads[0].cpu;
        (cpu.user_cores, cpu.system_cores, cpu.workers_cores) = (user, system, Some(workers));
        (raw.host.cpus_online, raw.host.cpus_allowed) = (8, 3);
        let mut points = on_raw(&raw, &array);
        points[1].raid = raid(MemberLayout::Raid10 { copies: 2 }, 4, 0);
        let found = attribution(&bench(points)).unwrap();
        figures(&found, 1).raid.as_ref().unwrap().processor_bound
    };
    assert_eq!([is_bound(1, 0.2, 0.4, 0.299), is_bound(1, 0.2, 0.4, 0.301)], [false, true]);
    // Two jobs have two processors, and nine have the three that are allowed.
    assert_eq!([is_bound(2, 0.7, 0.8, 0.299), is_bound(2, 0.7, 0.8, 0.301)], [false, true]);
    assert_eq!([is_bound(9, 1.2, 1.2, 0.299), is_bound(9, 1.2, 1.2, 0.301)], [false, true]);
}

#[test]
fn a_degraded_array_stands_beside_the_whole_one() {
    let (raw, whole, degraded) =
        (run(&[writes(1000.0)]), run(&[writes(900.0)]), run(&[writes(300.0)]));
    let mut points = on_raw(&raw, &whole);
    points[1].raid = raid(MemberLayout::Raid6 { parity_write: MODIFY }, 6, 0);
    points.push(point("d", "raw", PointKind::Raw, None, Some(&raw)));
    points.push(point("d", "md degraded", PointKind::Raid, Some(2), Some(&degraded)));
    points[3].raid = raid(MemberLayout::Raid6 { parity_write: MODIFY }, 6, 1);
    let found = attribution(&bench(points)).unwrap();
    let row = figures(&found, 3).raid.as_ref().unwrap();
    assert_eq!((row.healthy, row.efficiency), (Some(1), None));
    assert!((row.share_of_healthy.unwrap() - 1.0 / 3.0).abs() < 1e-12);
    assert!(row.declined.as_ref().unwrap().contains("1 of 6 members are removed"));
    let facts = found.points[3].raid.as_ref().unwrap();
    assert_eq!((facts.failures_left_min, facts.degraded_members), (1, 1));
}

#[test]
fn of_two_whole_arrays_with_one_layout_none_is_guessed() {
    let (raw, array) = (run(&[writes(1000.0)]), run(&[writes(500.0)]));
    let mut points = Vec::new();
    for (at, (stack, removed)) in
        [("bitmap", 0), ("none", 0), ("degraded", 1)].into_iter().enumerate()
    {
        points.push(point(stack, "raw", PointKind::Raw, None, Some(&raw)));
        points.push(point(stack, "md", PointKind::Raid, Some(2 * at), Some(&array)));
        points[2 * at + 1].raid = raid(MemberLayout::Raid1 { copies: 2 }, 2, removed);
    }
    let found = attribution(&bench(points)).unwrap();
    let row = figures(&found, 5).raid.as_ref().unwrap();
    assert_eq!(row.healthy, None);
    assert!(row.declined.as_ref().unwrap().contains("several whole arrays"));
}

#[test]
fn a_layout_that_cannot_be_says_so_in_its_row() {
    let (raw, array) = (run(&[writes(1000.0)]), run(&[writes(500.0)]));
    let mut points = on_raw(&raw, &array);
    points[1].raid = raid(MemberLayout::Raid5 { parity_write: MODIFY }, 2, 0);
    let found = attribution(&bench(points)).unwrap();
    let declined = figures(&found, 1).raid.as_ref().unwrap().declined.clone().unwrap();
    assert!(declined.contains("at least 3 members"), "{declined}");
    assert!(found.points[1].raid.as_ref().unwrap().declined.is_some());
}

/// A curve of latencies that are evenly distributed from 0 to 200 µs.
fn even_curve(found: &mut crate::WorkloadFindings, of: impl Fn(f64) -> f64) {
    let operation = &mut found.operations[0];
    operation.service.count = 100_000;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "made up")]
    let at = |step: u32| {
        let quantile = f64::from(step) / 1000.0;
        crate::CurvePoint { quantile, latency_ns: (of(quantile) * 200_000.0) as u64 }
    };
    operation.curve = (1..=1000).map(at).collect();
}

#[test]
fn a_mirror_is_set_beside_the_slower_of_two_draws() {
    let (mut raw, mut mirror) = (run(&[writes(10_000.0)]), run(&[writes(7_500.0)]));
    even_curve(&mut raw.workloads[0], |quantile| quantile);
    // The maximum of two even draws has the distribution x², and so the quantiles √q.
    even_curve(&mut mirror.workloads[0], f64::sqrt);
    let mut points = on_raw(&raw, &mirror);
    points[1].raid = raid(MemberLayout::Raid1 { copies: 2 }, 2, 0);
    let found = attribution(&bench(points)).unwrap();
    let row = figures(&found, 1).mirror.as_ref().unwrap();
    let beside = row.beside.unwrap();
    assert!((beside.predicted.penalty - 4.0 / 3.0).abs() < 0.01, "{}", beside.predicted.penalty);
    assert!((beside.mean_ratio - 1.0).abs() < 0.01 && (beside.p99_ratio - 1.0).abs() < 0.01);
    assert!((row.penalty.as_ref().unwrap().measured - 4.0 / 3.0).abs() < 1e-9);
    assert_eq!(row.remark, None);
}

#[test]
fn a_mirror_with_other_queues_than_the_single_device_says_so() {
    let mut raw = run(&[writes(10_000.0)]);
    raw.workloads[0].effective.depth = 4;
    let mut mirror = run(&[writes(7_500.0)]);
    even_curve(&mut raw.workloads[0], |quantile| quantile);
    even_curve(&mut mirror.workloads[0], |quantile| quantile);
    let mut points = on_raw(&raw, &mirror);
    points[1].raid = raid(MemberLayout::Raid10 { copies: 2 }, 4, 0);
    let found = attribution(&bench(points)).unwrap();
    let row = figures(&found, 1).mirror.as_ref().unwrap();
    assert_eq!(row.penalty, None);
    assert!(
        row.remark.as_ref().unwrap().contains("0.50 writes in flight, the single device had 4.00")
    );
}
