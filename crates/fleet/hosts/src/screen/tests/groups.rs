//! Levels, figures and facts of several groups, which do not affect each other.

use super::*;
use crate::findings::GroupFigure;

/// A run of each host: ten of one drive, then ten of another that is twice as slow, of which those for
/// which `is_worse` are slower by a fifth. No two hosts are equal.
fn two_groups(is_worse: impl Fn(usize) -> bool) -> Vec<HostFindings> {
    let factor = |at: usize| {
        let level = if at < 10 { 1.0 } else { 2.0 };
        let own = if is_worse(at) { 1.2 } else { 1.0 };
        level * own * (1.0 + 0.0005 * count(at % 10))
    };
    let mut hosts: Vec<HostFindings> =
        (0..20).map(|at| host(at, vec![run(0, factor(at))])).collect();
    with_fact(&mut hosts, "drive", |at| if at < 10 { "PM9A3" } else { "P5510" });
    hosts
}

#[test]
fn a_host_is_compared_with_the_level_of_its_own_group() {
    let found = judged(two_groups(|at| at == 19));
    assert_eq!(count_of(&found, HostVerdict::Suspect), 1);
    let slow = find(&found, "db-19");
    assert_eq!((slow.verdict, slow.group), (HostVerdict::Suspect, Some(0)));
    let [evidence] = slow.evidence.as_slice() else { panic!("{slow:?}") };
    // The middle of 1.0, 1.0005, … 1.004 and 1.2 × 1.0045, on a logarithmic scale.
    let middle = (1.002_f64 * 1.0025).sqrt();
    is_near(evidence.group_median, 2.0 * MEDIAN_NS * middle);
    is_near(evidence.value, 2.0 * MEDIAN_NS * 1.2 * 1.0045);
    is_near(evidence.factor, 1.2 * 1.0045 / middle);
    let drives: Vec<&str> =
        found.groups.iter().map(|group| group.facts["drive"].as_str()).collect();
    assert_eq!(drives, ["P5510", "PM9A3"]);
    let [slower, faster] = [0, 1].map(|at| found.groups[at].figures[0].clone());
    assert_eq!((slower.hosts, faster.hosts), (10, 10));
    is_near(slower.median, 2.0 * MEDIAN_NS * middle);
    is_near(slower.min, 2.0 * MEDIAN_NS);
    is_near(slower.max, 2.0 * MEDIAN_NS * 1.2 * 1.0045);
    is_near(faster.median, MEDIAN_NS * middle);
    is_near(faster.max, MEDIAN_NS * 1.0045);
    // One figure in both, and one false suspect in twenty campaigns for each.
    let power = found.power;
    assert_eq!((power.hosts_tested, power.figures_tested, power.false_suspects), (20, 1, 0.1));
}

#[test]
fn a_fact_explains_hosts_of_the_group_that_has_it() {
    let with_firmware = |unknown: &[usize]| {
        let mut hosts = two_groups(|at| (10..14).contains(&at));
        with_fact(&mut hosts, "firmware", |at| if (10..14).contains(&at) { "B" } else { "A" });
        for &at in unknown {
            hosts[at].facts.remove("firmware");
        }
        judged(hosts)
    };
    let found = with_firmware(&[]);
    let [shared] = found.shared_facts.as_slice() else { panic!("{:?}", found.shared_facts) };
    assert_eq!((shared.group, shared.fact.as_str(), shared.value.as_str()), (0, "firmware", "B"));
    assert_eq!((shared.hosts_with, shared.hosts_without), (4, 6));
    // The highest four of ten, of 210 ways, and two tests: firmware A is not worse.
    is_near(shared.p, 2.0 / 210.0);
    let [with, without] = [(1.0005_f64, 1.001), (1.003, 1.0035)].map(|(a, b)| (a * b).sqrt());
    is_near(shared.factor, 1.2 * with / without);
    assert_eq!(count_of(&found, HostVerdict::Alike), 20);
    let [differing] = found.groups[0].differing.as_slice() else { panic!("{:?}", found.groups) };
    let values: Vec<(&str, usize)> =
        differing.values.iter().map(|(value, hosts)| (value.as_str(), hosts.len())).collect();
    assert_eq!((differing.fact.as_str(), values), ("firmware", vec![("A", 6), ("B", 4)]));
    assert_eq!(found.groups[1].differing, []);
    // Hosts whose firmware is unknown are neither with it nor without: four of eight, of 70 ways.
    let found = with_firmware(&[18, 19]);
    assert_eq!((found.shared_facts[0].hosts_with, found.shared_facts[0].hosts_without), (4, 4));
    is_near(found.shared_facts[0].p, 2.0 / 70.0);
}

#[test]
fn a_figure_is_judged_where_five_hosts_have_it() {
    let with = |hosts: usize| {
        let mut all = fleet(8, |_| 1.0);
        for (at, host) in all.iter_mut().enumerate().take(hosts) {
            let factor = if at == 0 { 3.0 } else { near_one(at, 0) };
            host.runs[0].figures.push(figure(HostStatistic::P50, 1000.0 * factor));
        }
        judged(all)
    };
    let found = with(4);
    assert_eq!((verdict(&found, 0), found.power.figures_tested), (HostVerdict::Alike, 1));
    let is_p50 = |figure: &&GroupFigure| figure.key.statistic == HostStatistic::P50;
    let p50 = found.groups[0].figures.iter().find(is_p50).unwrap();
    assert_eq!(p50.hosts, 4);
    is_near(p50.max, 3000.0);
    let found = with(5);
    assert_eq!((verdict(&found, 0), found.power.figures_tested), (HostVerdict::Suspect, 2));
    assert_eq!(find(&found, "db-00").evidence[0].key.statistic, HostStatistic::P50);
}

#[test]
fn two_figures_of_a_host_are_two_tests() {
    let mut hosts: Vec<HostFindings> = (0..20)
        .map(|at| {
            let scatter = 1.0 + 0.002 * (count(at) - 9.0);
            let mut one = run(0, if at == 19 { 1.3 } else { scatter });
            one.figures.push(figure(HostStatistic::P50, 1000.0 * scatter));
            host(at, vec![one])
        })
        .collect();
    let found = judged(hosts.clone());
    let [evidence] = find(&found, "db-19").evidence.as_slice() else { panic!("{found:?}") };
    // Twice the p of a single figure.
    is_near(evidence.p, 2.0 * 5.005_954_688_778e-7);
    assert_eq!((found.power.figures_tested, count_of(&found, HostVerdict::Suspect)), (2, 1));
    // A value without a logarithm is left out.
    for host in &mut hosts {
        host.runs[0].figures[1].value = 0.0;
    }
    is_near(find(&judged(hosts), "db-19").evidence[0].p, 5.005_954_688_778e-7);
}

#[test]
fn hosts_of_a_small_group_are_far_off_from_three_and_a_half_deviations_on() {
    // The median is 0.5 steps, and the median distance from it 2.5: 3.5 × 1.4826 × 2.5 are 12.97.
    let doubts = |far: f64| {
        let steps = [-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, far, far];
        single_runs(&steps.map(|step| (0.01 * step).exp())).doubts.len()
    };
    // The first is that each host has a single run.
    assert_eq!((doubts(13.4), doubts(13.6)), (1, 2));
}

#[test]
fn a_host_that_scatters_among_hosts_that_do_not_at_all_is_unsteady() {
    let runs = |at: usize| {
        let one = |run_at: usize| {
            let nanos = if at == 6 { [0.9, 1.1][run_at % 2] } else { 1.0 };
            HostRun { figures: vec![figure(HostStatistic::P99, nanos)], ..run(run_at, 1.0) }
        };
        (0..6).map(one).collect()
    };
    let found = judged((0..10).map(|at| host(at, runs(at))).collect());
    assert_eq!(verdict(&found, 6), HostVerdict::Unsteady);
    let [unsteady] = find(&found, "db-06").unsteady.as_slice() else { panic!() };
    assert_eq!((unsteady.group_scatter, unsteady.drift), (0.0, None));
    assert_eq!(count_of(&found, HostVerdict::Alike), 9);
}

#[test]
fn hosts_without_figures_do_not_make_a_group_large_enough() {
    let with = |hosts: usize, cut: usize| {
        let mut all = fleet(hosts, |at| if at == 0 { 2.0 } else { 1.0 });
        for host in &mut all[hosts - cut..] {
            host.runs.iter_mut().for_each(|run| run.figures.clear());
        }
        let found = judged(all);
        (found.groups[0].method, verdict(&found, 0), found.power.hosts_tested, found)
    };
    let (method, slow, tested, found) = with(5, 1);
    assert_eq!((method, slow, tested), (ScreeningMethod::TooFew, HostVerdict::NotJudged, 0));
    assert_eq!((found.groups[0].hosts, found.groups[0].measured()), (5, 4));
    assert_eq!(sentences(&found), ["4 hosts not judged: a group of like hosts needs 5"]);
    let (method, slow, tested, found) = with(6, 1);
    assert_eq!((method, slow, tested), (ScreeningMethod::LeaveOneOut, HostVerdict::Suspect, 5));
    assert_eq!(verdict(&found, 5), HostVerdict::NotJudged);
    assert_eq!(with(20, 1).0, ScreeningMethod::LeaveOneOut);
    assert_eq!(with(21, 1).0, ScreeningMethod::Robust);
    assert_eq!(with(5, 5).3.groups[0].measured(), 0);
}

#[test]
fn fresh_runs_of_another_group_decide_nothing() {
    let with = |controls: &[usize]| {
        let mut hosts = two_groups(|at| at == 19);
        for &at in [19].iter().chain(controls) {
            let level = match at {
                19 => 2.4,
                10.. => 2.0,
                _ => 1.0,
            };
            hosts[at].runs.extend((1..6).map(|n| fresh(n, level * near_one(at, n))));
        }
        judged(hosts)
    };
    assert_eq!(verdict(&with(&[3]), 19), HostVerdict::Suspect);
    let found = with(&[3, 12]);
    assert_eq!(verdict(&found, 19), HostVerdict::Slow);
    let evidence = &find(&found, "db-19").evidence[0];
    assert!(evidence.is_confirmed && (evidence.factor - 1.2).abs() < 0.001, "{evidence:?}");
    assert!((evidence.group_median / MEDIAN_NS - 2.0).abs() < 0.001, "{evidence:?}");
    assert!((evidence.value / MEDIAN_NS - 2.4).abs() < 0.002, "{evidence:?}");
}

#[test]
fn a_host_drifts_among_few_hosts_and_among_many() {
    for hosts in [5, 19, 20, 40] {
        let runs = |at: usize| {
            let own = |run_at| if at == 3 { 0.96 + 0.02 * count(run_at) } else { 1.0 };
            (0..5).map(|run_at| run(run_at, own(run_at) * near_one(at, run_at))).collect()
        };
        let found = judged((0..hosts).map(|at| host(at, runs(at))).collect());
        let [unsteady] = find(&found, "db-03").unsteady.as_slice() else { panic!("{found:?}") };
        // From 0.96 to 1.04.
        assert!((unsteady.drift.unwrap() - 1.04 / 0.96).abs() < 0.003, "{hosts}: {unsteady:?}");
        assert_eq!(count_of(&found, HostVerdict::Unsteady), 1, "{hosts} hosts");
    }
}
