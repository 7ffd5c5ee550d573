//! Each rule with both sides of its limits; the simulation of `cargo xtask bench fleet-hosts` has how
//! often they are wrong together.

mod controls;
mod groups;

use std::collections::BTreeMap;

use durio_analyse::RunState;
use durio_base::stats::least_squares::count;
use durio_record::OperationName;

use super::{choose_for_confirmation, judge_hosts};
use crate::findings::{
    FLEET_SCHEMA, FigureKey, FleetDoubtKind, FleetFindings, HostFigure, HostFindings, HostOutcome,
    HostRun, HostStatistic, HostVerdict, ScreeningMethod, ScreeningPower,
};

const MEDIAN_NS: f64 = 80_000.0;

fn figure(statistic: HostStatistic, value: f64) -> HostFigure {
    let key = FigureKey {
        workload: "commit".to_owned(),
        target: "data".to_owned(),
        operation: OperationName::Commit,
        statistic,
    };
    HostFigure { key, value }
}

/// A run of the p99 alone, as a factor of the median.
fn run(at: usize, factor: f64) -> HostRun {
    HostRun {
        folder: format!("run-{at}"),
        state: RunState::Complete,
        started: format!("2026-11-30T10:{at:02}:00Z"),
        is_confirmation: false,
        figures: vec![figure(HostStatistic::P99, MEDIAN_NS * factor)],
    }
}

fn fresh(at: usize, factor: f64) -> HostRun {
    HostRun { is_confirmation: true, ..run(at, factor) }
}

/// A factor near 1, and another one for each host and run: at most 0.04 % away.
fn near_one(host: usize, run: usize) -> f64 {
    1.0 + 0.000_08 * (count((host * 7 + run * 3) % 11) - 5.0)
}

fn host(at: usize, runs: Vec<HostRun>) -> HostFindings {
    HostFindings {
        name: format!("db-{at:02}"),
        outcome: HostOutcome::Measured,
        reason: None,
        group: None,
        facts: BTreeMap::from([("drive".to_owned(), "PM9A3".to_owned())]),
        runs,
        verdict: HostVerdict::NotJudged,
        evidence: Vec::new(),
        unsteady: Vec::new(),
        shrunk_factor: 0.0,
        rate_over_time: Vec::new(),
    }
}

fn judged(hosts: Vec<HostFindings>) -> FleetFindings {
    let mut findings = FleetFindings {
        schema: FLEET_SCHEMA.to_owned(),
        campaign: None,
        asked: hosts.len(),
        hosts,
        groups: Vec::new(),
        shared_facts: Vec::new(),
        pooled: Vec::new(),
        power: ScreeningPower {
            hosts_tested: 0,
            figures_tested: 0,
            false_suspects: 0.0,
            runs_for_ten_percent: None,
        },
        doubts: Vec::new(),
    };
    judge_hosts(&mut findings);
    findings
}

/// Three runs of each host; the factor of a host is on top of [`near_one`].
fn fleet(hosts: usize, factor: impl Fn(usize) -> f64) -> Vec<HostFindings> {
    let runs =
        |at: usize| (0..3).map(|run_at| run(run_at, factor(at) * near_one(at, run_at))).collect();
    (0..hosts).map(|at| host(at, runs(at))).collect()
}

fn with_fact(hosts: &mut [HostFindings], fact: &str, value: impl Fn(usize) -> &'static str) {
    for (at, host) in hosts.iter_mut().enumerate() {
        host.facts.insert(fact.to_owned(), value(at).to_owned());
    }
}

fn find<'a>(findings: &'a FleetFindings, name: &str) -> &'a HostFindings {
    findings.hosts.iter().find(|host| host.name == name).unwrap()
}

fn verdict(findings: &FleetFindings, at: usize) -> HostVerdict {
    find(findings, &format!("db-{at:02}")).verdict
}

fn count_of(findings: &FleetFindings, verdict: HostVerdict) -> usize {
    findings.hosts.iter().filter(|host| host.verdict == verdict).count()
}

fn sentences(findings: &FleetFindings) -> Vec<&str> {
    findings.doubts.iter().map(|doubt| doubt.sentence.as_str()).collect()
}

fn is_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-6, "{found} for {expected}");
}

/// One host that is twice as slow as the others.
fn last_is_slow(hosts: usize) -> FleetFindings {
    judged(fleet(hosts, |at| if at + 1 == hosts { 2.0 } else { 1.0 }))
}

#[test]
fn the_method_follows_from_the_size_of_the_group() {
    for (hosts, method) in [
        (4, ScreeningMethod::TooFew),
        (5, ScreeningMethod::LeaveOneOut),
        (19, ScreeningMethod::LeaveOneOut),
        (20, ScreeningMethod::Robust),
    ] {
        let found = last_is_slow(hosts);
        assert_eq!((found.groups[0].method, found.groups[0].hosts), (method, hosts));
        let expected = match method {
            ScreeningMethod::TooFew => HostVerdict::NotJudged,
            _ => HostVerdict::Suspect,
        };
        assert_eq!(verdict(&found, hosts - 1), expected, "{hosts} hosts");
        assert_eq!(count_of(&found, HostVerdict::Suspect), usize::from(hosts >= 5));
    }
}

#[test]
fn a_group_of_four_is_shown_and_not_judged() {
    let mut hosts = fleet(9, |at| if at == 8 { 3.0 } else { 1.0 });
    with_fact(&mut hosts, "drive", |at| if at < 5 { "PM9A3" } else { "P5510" });
    with_fact(&mut hosts, "cpu", |_| "EPYC 9354");
    let found = judged(hosts);
    let sizes: Vec<_> =
        found.groups.iter().map(|group| (group.hosts, group.facts["drive"].as_str())).collect();
    assert_eq!(sizes, [(5, "PM9A3"), (4, "P5510")]);
    assert_eq!(
        (verdict(&found, 8), verdict(&found, 0)),
        (HostVerdict::NotJudged, HostVerdict::Alike)
    );
    // It leads the list by its effect, and its place of the group is still right.
    assert_eq!((found.hosts[0].name.as_str(), found.hosts[0].group), ("db-08", Some(1)));
    assert!(found.hosts[0].shrunk_factor > 2.9, "{}", found.hosts[0].shrunk_factor);
    let expected = "4 hosts not judged: a group of like hosts needs 5; groups differ in drive";
    assert_eq!(sentences(&found), [expected]);
    assert_eq!(found.doubts[0].kind, FleetDoubtKind::FewHosts);
    assert_eq!(found.doubts[0].hosts, ["db-05", "db-06", "db-07", "db-08"]);
    assert_eq!((found.power.hosts_tested, found.power.figures_tested), (5, 1));
    assert_eq!(found.groups[1].figures[0].hosts, 4);
    is_near(found.groups[1].figures[0].max, MEDIAN_NS * 3.0 * near_one(8, 1));
}

#[test]
fn a_host_without_runs_has_no_group_and_comes_last() {
    let mut hosts = fleet(6, |at| 1.0 - count(at) / 1000.0);
    hosts[3].runs.clear();
    hosts[3].outcome = HostOutcome::Lost;
    let found = judged(hosts);
    let last = &found.hosts[5];
    assert_eq!((last.name.as_str(), last.group), ("db-03", None));
    assert_eq!((last.verdict, last.shrunk_factor), (HostVerdict::NotJudged, 1.0));
    assert_eq!(found.groups[0].hosts, 5);
    assert_eq!(sentences(&found), [""; 0]);
}

#[test]
fn firmware_and_kernel_do_not_separate_hosts_and_are_listed_where_they_differ() {
    let mut hosts = fleet(6, |_| 1.0);
    with_fact(&mut hosts, "firmware", |at| if at == 2 { "GDC5" } else { "GDC6" });
    with_fact(&mut hosts, "kernel", |_| "6.12.9");
    let found = judged(hosts);
    assert_eq!(found.groups.len(), 1);
    assert_eq!(found.groups[0].facts.keys().collect::<Vec<_>>(), ["drive"]);
    let [differing] = found.groups[0].differing.as_slice() else { panic!() };
    assert_eq!(differing.fact, "firmware");
    assert_eq!(differing.values[0].0, "GDC6");
    assert_eq!(differing.values[1], ("GDC5".to_owned(), vec!["db-02".to_owned()]));
}

#[test]
fn a_host_is_suspect_from_five_per_cent_on_and_only_if_it_is_worse() {
    for hosts in [8, 24] {
        let with = |factor: f64| {
            let found = judged(fleet(hosts, |at| if at == 3 { factor } else { 1.0 }));
            verdict(&found, 3)
        };
        assert_eq!(with(1.049), HostVerdict::Alike, "{hosts} hosts");
        assert_eq!(with(1.051), HostVerdict::Suspect, "{hosts} hosts");
        assert_eq!(with(0.5), HostVerdict::Alike, "{hosts} hosts");
    }
}

#[test]
fn a_lower_rate_is_worse_and_a_higher_one_is_not() {
    let with = |factor: f64| {
        let mut hosts = fleet(8, |_| 1.0);
        for (at, host) in hosts.iter_mut().enumerate() {
            for (run_at, run) in host.runs.iter_mut().enumerate() {
                let own = if at == 5 { factor } else { 1.0 };
                let rate = 5000.0 * own * near_one(at, run_at);
                run.figures = vec![figure(HostStatistic::Rate, rate)];
            }
        }
        judged(hosts)
    };
    assert_eq!(verdict(&with(2.0), 5), HostVerdict::Alike);
    let found = with(0.8);
    assert_eq!((found.hosts[0].name.as_str(), verdict(&found, 5)), ("db-05", HostVerdict::Suspect));
    let evidence = &found.hosts[0].evidence[0];
    assert!((evidence.factor - 1.25).abs() < 0.001, "{evidence:?}");
    assert!((evidence.value - 4000.0).abs() < 4.0, "{evidence:?}");
    assert!((evidence.group_median - 5000.0).abs() < 4.0, "{evidence:?}");
    let [low, high] = evidence.interval.unwrap();
    assert!(1.24 < low && low < evidence.factor && evidence.factor < high && high < 1.26);
}

/// One run per host with these factors.
fn single_runs(factors: &[f64]) -> FleetFindings {
    let host_of = |(at, factor): (usize, &f64)| host(at, vec![run(0, *factor)]);
    judged(factors.iter().enumerate().map(host_of).collect())
}

#[test]
fn an_interval_needs_three_runs_of_the_host() {
    let slow_by = |runs: usize| {
        let of_host = |at: usize| {
            let factor = if at == 5 { 1.2 } else { 1.0 + 0.001 * at as f64 };
            host(at, (0..runs).map(|n| run(n, factor * (1.0 + 0.001 * n as f64))).collect())
        };
        judged((0..6).map(of_host).collect())
    };
    assert_eq!(find(&slow_by(2), "db-05").evidence[0].interval, None);
    assert!(find(&slow_by(3), "db-05").evidence[0].interval.is_some());
}

#[test]
fn the_test_against_the_other_hosts_has_student_s_p_times_the_number_of_tests() {
    // By Python: ln 1.2 less the mean of the other five logarithms, ÷ (their deviation × √(1 + 1/5)),
    // Student's tail for 4 degrees of freedom, × 6 hosts.
    let found = single_runs(&[1.0, 1.01, 0.99, 1.02, 0.98, 1.2]);
    let host = find(&found, "db-05");
    let [evidence] = host.evidence.as_slice() else { panic!("{host:?}") };
    is_near(evidence.p, 0.001_379_654_346_620_8);
    is_near(evidence.factor, 1.194_044_628_251_987);
    assert_eq!(evidence.interval, None);
    // It has one run, and is no more than suspect.
    assert_eq!(host.verdict, HostVerdict::Suspect);
    let expected = "6 hosts with a single run: its scatter is unknown, and a disturbed run looks like a slow host";
    assert_eq!(sentences(&found), [expected]);
    assert_eq!(found.power.runs_for_ten_percent, None);
    is_near(found.power.false_suspects, 0.05);
}

#[test]
fn chance_names_a_host_in_at_most_five_of_a_hundred_campaigns() {
    // By Python, as above: 0.0505 and 0.0498 for 6 hosts.
    let with = |factor| single_runs(&[1.0, 1.03, 0.97, 1.06, 0.94, factor]);
    assert_eq!(verdict(&with(1.227), 5), HostVerdict::Alike);
    let found = with(1.228);
    assert_eq!(verdict(&found, 5), HostVerdict::Suspect);
    is_near(find(&found, "db-05").evidence[0].p, 0.049_809_857_554_433);
}

#[test]
fn the_robust_test_has_the_p_of_its_median_absolute_deviation() {
    let mut factors: Vec<f64> = (0..19).map(|at| 1.0 + 0.002 * (f64::from(at) - 9.0)).collect();
    factors.push(1.3);
    // By Python: distance from the median ÷ (1.4826 × MAD), Student's tail for 0.45 × 19 degrees of
    // freedom, × 20 hosts ÷ 1 suspect.
    let found = single_runs(&factors);
    let host = find(&found, "db-19");
    is_near(host.evidence[0].p, 5.005_954_688_778e-7);
    is_near(host.evidence[0].factor, 1.298_701_946_755_677_3);
    assert_eq!(count_of(&found, HostVerdict::Suspect), 1);
    is_near(found.power.false_suspects, 0.05);
}

#[test]
fn hosts_in_the_same_bin_do_not_make_every_other_one_suspect() {
    // More than half are equal, so that the median distance is zero.
    let mut factors = vec![1.0; 11];
    factors.extend([1.04; 8]);
    factors.push(1.06);
    assert_eq!(count_of(&single_runs(&factors), HostVerdict::Suspect), 0);
    *factors.last_mut().unwrap() = 1.5;
    assert_eq!(count_of(&single_runs(&factors), HostVerdict::Suspect), 1);
    // Without any scatter a difference is one.
    assert_eq!(count_of(&single_runs(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.06]), HostVerdict::Suspect), 1);
    assert_eq!(count_of(&single_runs(&[1.0; 6]), HostVerdict::Suspect), 0);
}

#[test]
fn two_slow_hosts_of_a_small_group_do_not_hide_each_other() {
    let factors = [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995, 1.015, 1.3, 1.31];
    let found = single_runs(&factors);
    assert_eq!(
        (verdict(&found, 8), verdict(&found, 9), count_of(&found, HostVerdict::Suspect)),
        (HostVerdict::Suspect, HostVerdict::Suspect, 2)
    );
    let doubt = found.doubts.last().unwrap();
    assert!(doubt.sentence.starts_with("2 hosts of a small group are far from"), "{doubt:?}");
    assert_eq!(doubt.hosts, ["db-08", "db-09"]);
    // One alone is named by the others, and hides nothing.
    let found = single_runs(&factors[..9]);
    assert_eq!((verdict(&found, 8), found.doubts.len()), (HostVerdict::Suspect, 1));
}

#[test]
fn one_disturbed_run_of_three_does_not_move_a_host() {
    let mut hosts = fleet(12, |_| 1.0);
    hosts[4].runs[1] = run(1, 1.8);
    let found = judged(hosts);
    assert_eq!(count_of(&found, HostVerdict::Alike), 12);
    // Two of three do.
    let mut hosts = fleet(12, |_| 1.0);
    hosts[4].runs[1] = run(1, 1.8);
    hosts[4].runs[2] = run(2, 1.7);
    assert_eq!(verdict(&judged(hosts), 4), HostVerdict::Suspect);
}

/// A fleet whose host 3 is suspect; number and factor of its fresh runs, then those of hosts 5 and 6.
fn confirmed(runs: [usize; 2], factors: [f64; 2]) -> FleetFindings {
    let mut hosts = fleet(8, |at| if at == 3 { 1.2 } else { 1.0 });
    for (at, runs, factor) in
        [(3, runs[0], factors[0]), (5, runs[1], factors[1]), (6, runs[1], factors[1])]
    {
        let new = (0..runs).map(|run_at| fresh(10 + run_at, factor * near_one(at, run_at)));
        hosts[at].runs.extend(new);
    }
    judged(hosts)
}

#[test]
fn five_fresh_runs_of_a_suspect_and_of_others_decide() {
    let found = confirmed([5, 5], [1.2, 1.0]);
    assert_eq!(verdict(&found, 3), HostVerdict::Slow);
    let [evidence] = found.hosts[0].evidence.as_slice() else { panic!() };
    assert!(evidence.is_confirmed);
    assert!((evidence.factor - 1.2).abs() < 0.001, "{evidence:?}");
    assert!((evidence.group_median - MEDIAN_NS).abs() < 100.0, "{evidence:?}");
    assert!((evidence.value - 1.2 * MEDIAN_NS).abs() < 100.0, "{evidence:?}");
    // Four of either do not.
    assert_eq!(verdict(&confirmed([4, 5], [1.2, 1.0]), 3), HostVerdict::Suspect);
    assert_eq!(verdict(&confirmed([5, 4], [1.2, 1.0]), 3), HostVerdict::Suspect);
    let screened = find(&confirmed([4, 5], [1.2, 1.0]), "db-03").evidence[0].clone();
    assert!(!screened.is_confirmed);
}

#[test]
fn fresh_runs_clear_a_suspect_that_is_not_five_per_cent_worse_again() {
    let found = confirmed([5, 5], [1.049, 1.0]);
    assert_eq!(verdict(&found, 3), HostVerdict::Cleared);
    let evidence = &find(&found, "db-03").evidence[0];
    assert!(evidence.is_confirmed && evidence.p > 0.99, "{evidence:?}");
    assert_eq!(verdict(&confirmed([5, 5], [1.051, 1.0]), 3), HostVerdict::Slow);
    // Something slowed all hosts at that time.
    assert_eq!(verdict(&confirmed([5, 5], [1.25, 1.22]), 3), HostVerdict::Cleared);
}

#[test]
fn fresh_runs_must_be_worse_than_innocent_hosts_differ() {
    let with = |fresh_factor: f64| {
        let factors = [1.0, 1.03, 0.97, 1.02, 0.98, 1.5];
        let mut hosts: Vec<HostFindings> =
            (0..6).map(|at| host(at, vec![run(0, factors[at])])).collect();
        hosts[0].runs.extend((1..6).map(|at| fresh(at, 1.0)));
        hosts[5].runs.extend((1..6).map(|at| fresh(at, fresh_factor)));
        judged(hosts)
    };
    // By Python: ln 1.2 and ln 1.1 ÷ (deviation of the five innocent levels × √(1 + 1 control)),
    // Student's tail for 4 degrees of freedom.
    let found = with(1.2);
    let host = find(&found, "db-05");
    assert_eq!(host.verdict, HostVerdict::Slow);
    is_near(host.evidence[0].p, 0.003_602_148_175_788);
    assert_eq!(
        host.evidence[0].interval.map(|ends| ends.map(|end| end > 1.199 && end < 1.201)),
        Some([true; 2])
    );
    let found = with(1.1);
    is_near(find(&found, "db-05").evidence[0].p, 0.028_709_131_535_977);
    // Two figures are two tests.
    let mut hosts = with(1.1).hosts;
    for host in &mut hosts {
        for run in &mut host.runs {
            let latency = run.figures[0].value;
            run.figures.push(figure(HostStatistic::P50, latency / 2.0));
        }
    }
    let found = judged(hosts);
    let host = find(&found, "db-05");
    assert_eq!((host.verdict, host.evidence.len()), (HostVerdict::Cleared, 2));
    is_near(host.evidence[1].p, 2.0 * 0.028_709_131_535_977);
}

#[test]
fn fresh_runs_alone_screen_nothing() {
    let mut hosts = fleet(8, |_| 1.0);
    hosts[2].runs = (0..5).map(|at| fresh(at, 3.0)).collect();
    let found = judged(hosts);
    assert_eq!((verdict(&found, 2), found.groups[0].hosts), (HostVerdict::NotJudged, 8));
    assert_eq!((found.groups[0].figures[0].hosts, found.power.hosts_tested), (7, 7));
}

#[test]
fn a_confirmation_needs_the_suspects_and_as_many_others_of_their_group() {
    let mut hosts = fleet(30, |at| if [4, 11, 29].contains(&at) { 1.5 } else { 1.0 });
    with_fact(&mut hosts, "drive", |at| if at < 20 { "PM9A3" } else { "P5510" });
    hosts[0].outcome = HostOutcome::Lost;
    let found = judged(hosts);
    let chosen = |seed| choose_for_confirmation(&found, seed);
    let names = chosen(7);
    assert_eq!(names.len(), 6, "{names:?}");
    let numbers: Vec<usize> = names.iter().map(|name| name[3..].parse().unwrap()).collect();
    assert_eq!((numbers[0].min(numbers[1]), numbers[0].max(numbers[1])), (4, 11));
    let is_control = |at: &usize| (1..20).contains(at) && ![4, 11].contains(at);
    assert!(numbers[2..4].iter().all(is_control) && numbers[2] != numbers[3], "{names:?}");
    assert_eq!(numbers[4], 29);
    assert!((20..29).contains(&numbers[5]), "{names:?}");
    assert_eq!(chosen(7), names);
    assert!((8..12).any(|seed| chosen(seed) != names));
    assert_eq!(choose_for_confirmation(&judged(fleet(30, |_| 1.0)), 7), [""; 0]);
}

/// The first hosts have another firmware and are slower by 18 %.
fn with_bad_firmware(hosts: usize, bad: usize) -> FleetFindings {
    let mut all = fleet(hosts, |at| if at < bad { 1.18 } else { 1.0 });
    with_fact(&mut all, "kernel", |at| if at % 2 == 0 { "6.1" } else { "6.12" });
    for (at, host) in all.iter_mut().enumerate() {
        let firmware = if at < bad { "GDC5" } else { "GDC6" };
        host.facts.insert("firmware".to_owned(), firmware.to_owned());
    }
    judged(all)
}

#[test]
fn a_fact_of_all_slower_hosts_is_one_finding_and_not_twelve_outliers() {
    let found = with_bad_firmware(40, 12);
    let [shared] = found.shared_facts.as_slice() else { panic!("{:?}", found.shared_facts) };
    assert_eq!((shared.fact.as_str(), shared.value.as_str()), ("firmware", "GDC5"));
    assert_eq!((shared.group, shared.hosts_with, shared.hosts_without), (0, 12, 28));
    assert!((shared.factor - 1.18).abs() < 0.001, "{shared:?}");
    assert!(shared.p < 1e-5, "{shared:?}");
    assert_eq!(count_of(&found, HostVerdict::Alike), 40);
    assert!(found.hosts[..12].iter().all(|host| host.facts["firmware"] == "GDC5"));
}

#[test]
fn a_host_that_is_slower_than_others_with_its_fact_is_still_suspect() {
    let mut all = fleet(40, |at| {
        if at == 0 {
            1.5
        } else if at < 12 {
            1.18
        } else {
            1.0
        }
    });
    with_fact(&mut all, "firmware", |at| if at < 12 { "GDC5" } else { "GDC6" });
    let found = judged(all);
    assert_eq!(
        (verdict(&found, 0), count_of(&found, HostVerdict::Suspect)),
        (HostVerdict::Suspect, 1)
    );
    let evidence = &find(&found, "db-00").evidence[0];
    assert!((evidence.factor - 1.5 / 1.18).abs() < 0.002, "{evidence:?}");
    assert!((evidence.value - 1.5 * MEDIAN_NS).abs() < 100.0, "{evidence:?}");
    assert!((evidence.group_median - 1.18 * MEDIAN_NS).abs() < 100.0, "{evidence:?}");
}

#[test]
fn a_fact_needs_three_hosts_with_it_and_three_without() {
    assert_eq!(with_bad_firmware(40, 3).shared_facts.len(), 1);
    let found = with_bad_firmware(40, 2);
    assert_eq!((found.shared_facts.len(), count_of(&found, HostVerdict::Suspect)), (0, 2));
    // Three without: the slower hosts are the rule.
    assert_eq!(with_bad_firmware(40, 37).shared_facts.len(), 1);
    assert_eq!(with_bad_firmware(40, 38).shared_facts.len(), 0);
}

#[test]
fn a_fact_whose_hosts_are_less_than_five_per_cent_slower_explains_nothing() {
    let with = |factor: f64| {
        let mut all = fleet(40, |at| if at < 12 { factor } else { 1.0 });
        with_fact(&mut all, "firmware", |at| if at < 12 { "GDC5" } else { "GDC6" });
        judged(all).shared_facts.len()
    };
    assert_eq!((with(1.049), with(1.051)), (0, 1));
}

/// Ten hosts with a run for each factor, which applies to host 6 alone.
fn with_repeats(factors: &[f64]) -> FleetFindings {
    let runs = |at: usize| {
        let one = |(run_at, factor): (usize, &f64)| {
            let own = if at == 6 { *factor } else { 1.0 };
            run(run_at, own * near_one(at, run_at))
        };
        factors.iter().enumerate().map(one).collect()
    };
    judged((0..10).map(|at| host(at, runs(at))).collect())
}

#[test]
fn a_host_whose_repeats_scatter_by_more_than_five_per_cent_is_unsteady() {
    // Without one of six alternating values a and −a, the variance is 1.2 a².
    let alternating = |scatter: f64| {
        let a = scatter / 1.2_f64.sqrt();
        with_repeats(&[a, -a, a, -a, a, -a].map(f64::exp))
    };
    let found = alternating(1.052_f64.ln());
    assert_eq!(verdict(&found, 6), HostVerdict::Unsteady);
    let [unsteady] = find(&found, "db-06").unsteady.as_slice() else { panic!() };
    assert!((unsteady.scatter - 0.052).abs() < 0.001, "{unsteady:?}");
    assert!(unsteady.group_scatter < 0.001 && unsteady.drift.is_none(), "{unsteady:?}");
    assert!(unsteady.p < 1e-6, "{unsteady:?}");
    assert_eq!(count_of(&found, HostVerdict::Alike), 9);
    assert_eq!(count_of(&alternating(1.048_f64.ln()), HostVerdict::Alike), 10);
}

#[test]
fn one_disturbed_run_does_not_make_a_host_unsteady_and_two_do() {
    assert_eq!(count_of(&with_repeats(&[1.0, 1.0, 1.9, 1.0, 1.0]), HostVerdict::Alike), 10);
    let found = with_repeats(&[1.0, 1.0, 1.9, 1.0, 1.6]);
    assert_eq!(verdict(&found, 6), HostVerdict::Unsteady);
    // Without the farthest, three runs leave two, and two leave one.
    assert_eq!(verdict(&with_repeats(&[0.8, 1.0, 1.3]), 6), HostVerdict::Unsteady);
    assert_eq!(verdict(&with_repeats(&[0.8, 1.25]), 6), HostVerdict::Alike);
}

#[test]
fn a_host_that_gets_worse_from_run_to_run_drifts() {
    // Steps of 2 %: a scatter of 2.6 %, and 8 % from the first run to the last.
    let found = with_repeats(&[0.96, 0.98, 1.0, 1.02, 1.04]);
    assert_eq!(verdict(&found, 6), HostVerdict::Unsteady);
    let [unsteady] = find(&found, "db-06").unsteady.as_slice() else { panic!() };
    assert!((unsteady.drift.unwrap() - 1.04 / 0.96).abs() < 0.003, "{unsteady:?}");
    // Better from run to run, by less than 5 %, or in four runs only.
    for factors in [
        &[1.04, 1.02, 1.0, 0.98, 0.96][..],
        &[0.98, 0.99, 1.0, 1.01, 1.02],
        &[0.97, 0.99, 1.01, 1.03],
    ] {
        assert_eq!(count_of(&with_repeats(factors), HostVerdict::Alike), 10, "{factors:?}");
    }
}

#[test]
fn the_order_of_hosts_shrinks_what_their_runs_do_not_support() {
    let mut hosts = fleet(12, |at| 1.0 + 0.01 * (count(at % 5) - 2.0));
    // One noisy run against three that agree.
    hosts[1].runs = vec![run(0, 1.045)];
    hosts[2].runs = (0..3).map(|at| run(at, 1.042)).collect();
    for host in &mut hosts[3..] {
        host.runs[0] = run(0, 1.02);
        host.runs[1] = run(1, 0.98);
    }
    let found = judged(hosts);
    assert_eq!(found.hosts[0].name, "db-02");
    // By Python: the variance of the levels less that of runs × the mean of 1/runs is 3.647e-4, that
    // of runs 3.867e-4, so that one run counts by 0.49 and three by 0.74.
    let shrunk = |name| find(&found, name).shrunk_factor;
    assert!((shrunk("db-01") - 1.0192).abs() < 1e-4, "{}", shrunk("db-01"));
    assert!((shrunk("db-02") - 1.0272).abs() < 1e-4, "{}", shrunk("db-02"));
}

#[test]
fn more_scatter_needs_more_runs_to_find_ten_per_cent() {
    let needed = |scatter: f64| {
        let runs = |at: usize| {
            let one = |run_at| {
                let noise = count((at * 5 + run_at * 7) % 9) / 4.0 - 1.0;
                run(run_at, 1.0 + scatter * noise)
            };
            (0..3).map(one).collect()
        };
        judged((0..30).map(|at| host(at, runs(at))).collect()).power.runs_for_ten_percent
    };
    // By Python: (3.580 + 1.351) × √(variance of runs ÷ runs) ≤ ln 1.1; their variance is 5.126e-5,
    // 1.284e-3 and 3.297e-3, and hosts do not differ beyond it.
    assert_eq!([0.01, 0.05, 0.08].map(needed), [Some(1), Some(4), Some(9)]);
}
