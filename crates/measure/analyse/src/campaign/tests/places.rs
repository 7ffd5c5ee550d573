//! Several targets, places, engines and levels in one campaign: each row is compared with its own.

use super::*;

#[test]
fn a_curve_has_whole_rows_of_one_target_place_and_engine_and_of_equal_other_levels() {
    let curves = |change: fn(&mut WorkloadFindings)| {
        let mut made = depths();
        for depth in [1, 2, 4, 8] {
            let levels = vec![level("depth", f64::from(depth))];
            let step = made.step(&random(PerMille::ALL, depth), levels, 0);
            change(made.measured(step, 100.0 * f64::from(depth), 50.0));
        }
        let curves = made.findings().sections.remove(0).curves;
        curves.into_iter().map(|curve| curve.rows).collect::<Vec<_>>()
    };
    let (first, second): (Vec<usize>, Vec<usize>) = ((0..9).collect(), (9..13).collect());
    let changes: [fn(&mut WorkloadFindings); 4] = [
        |found| found.location = "/other".into(),
        |found| found.target = "other".into(),
        |found| found.effective.engine = EngineKind::Sync,
        |found| found.levels.push(level("block_size", 512.0)),
    ];
    for (place, change) in changes.into_iter().enumerate() {
        assert_eq!(curves(change), [first.clone(), second.clone()], "change {place}");
    }
    assert_eq!(curves(|found| found.complete = false), std::slice::from_ref(&first));
    assert_eq!(curves(|found| found.levels.clear()), [first]);
}

#[test]
fn a_sheet_is_compared_with_whole_rows_of_its_own_target_and_place() {
    let best = |location: Option<&str>, change: fn(&mut WorkloadFindings)| {
        let mut made = Made::new();
        made.section("all", SectionKind::Single);
        for rate in [4000.0, 9000.0] {
            let step = made.step(&random(PerMille::ALL, 1), vec![], 0);
            let found = made.measured(step, rate, 10.0);
            (found.target, found.location) = ("drive".into(), "/a".into());
            if rate > 5000.0 {
                change(found);
            }
        }
        let sheet = Sheet { random_read_iops: Some(10_000.0), ..Sheet::default() };
        let declared = DeclaredLayout { sheet: Some(sheet), ..DeclaredLayout::default() };
        let (target, location) = ("drive".to_owned(), location.map(durio_plan::RawPath::from));
        made.campaign.declared = vec![DeclaredTarget { target, location, declared }];
        made.findings().targets[0].sheet[0].measured
    };
    assert_eq!([best(None, |_| {}), best(Some("/a"), |_| {})], [9000.0; 2]);
    assert_eq!(best(None, |found| found.location = "/b".into()), 9000.0);
    assert_eq!(best(Some("/a"), |found| found.location = "/b".into()), 4000.0);
    assert_eq!(best(None, |found| found.target = "md".into()), 4000.0);
    assert_eq!(best(None, |found| found.complete = false), 4000.0);
}

/// Writes to a drive by 1, 2 and 4 jobs, of which the second row is changed, and to an array of so many
/// members by so many jobs.
fn compared(
    members: Option<u32>,
    jobs: u32,
    change: fn(&mut WorkloadFindings),
) -> Option<BaselineFindings> {
    let mut made = Made::new();
    let writes = |jobs: u32| Workload { jobs, ..random(PerMille::NONE, 1) };
    made.section("writes", ladder("jobs"));
    for (jobs, rate, latency) in [(1, 10_000.0, 100.0), (2, 16_000.0, 125.0), (4, 20_000.0, 200.0)]
    {
        let step = made.step(&writes(jobs), vec![level("jobs", f64::from(jobs))], 0);
        let found = made.measured(step, rate, latency);
        found.target = "drive".into();
        if jobs == 2 {
            change(found);
        }
    }
    made.section("writes", ladder("jobs")).baseline = Some("drive".into());
    let step = made.step(&writes(jobs), vec![level("jobs", f64::from(jobs))], 0);
    made.measured(step, 8_000.0, 333.0).target = "md".into();
    let raid = members.map(|_| RaidLevel::Raid0);
    let declared = DeclaredLayout { raid, members, ..DeclaredLayout::default() };
    let target = "md".to_owned();
    made.campaign.declared = vec![DeclaredTarget { target, location: None, declared }];
    made.findings().sections.remove(1).baselines.into_iter().next()
}

#[test]
fn a_row_is_compared_with_the_baseline_of_as_much_in_flight_per_drive_or_of_its_level() {
    let of = |members, jobs, change: fn(&mut WorkloadFindings)| {
        let found = compared(members, jobs, change)?;
        Some((found.baseline_row, found.drives, found.raw_rate_per_second, found.note))
    };
    let multiplied = "the baseline was measured on one drive, and its rate multiplied by";
    let note = |load: &str, drives: u32| Some(format!("{load}{multiplied} {drives}"));
    // Two jobs a drive, and one drive with all four.
    assert_eq!(of(Some(2), 4, |_| {}), Some((1, 2, 32_000.0, note("", 2))));
    assert_eq!(of(None, 4, |_| {}), Some((2, 1, 20_000.0, None)));
    // No row has 4 jobs of 3 drives, nor 8 jobs.
    let uneven = note("1.33 operations in flight per drive; the baseline had 4.00; ", 3);
    assert_eq!(of(Some(3), 4, |_| {}), Some((2, 3, 60_000.0, uneven)));
    assert_eq!(of(None, 8, |_| {}), None);
    let found = compared(Some(2), 4, |_| {}).unwrap();
    assert_eq!((found.latency_ns_added, found.share_of_raw), (Some(208_000.0), 0.25));
    let changes: [fn(&mut WorkloadFindings); 5] = [
        |found| found.complete = false,
        |found| found.target = "other".into(),
        |found| found.name = "other".into(),
        |found| found.durable = true,
        |found| found.effective.engine = EngineKind::Sync,
    ];
    let unlike = note("2.00 operations in flight per drive; the baseline had 4.00; ", 2);
    for (place, change) in changes.into_iter().enumerate() {
        let expected = Some((2, 2, 40_000.0, unlike.clone()));
        assert_eq!(of(Some(2), 4, change), expected, "change {place}");
    }
}
