//! Goals of a user.

use durio_base::{Bytes, Nanos};
use durio_hosts::{FleetFindings, FleetReport, HostOutcome, judge_goal};
use durio_plan::{LatencyFigure, OperationName, Threshold, ThresholdBound};
use durio_report::{Format, Report as _};

use crate::sample::{fleet, lose};
use crate::written;

fn goal(text: &str, workload: &str, bound: ThresholdBound) -> Threshold {
    Threshold::goal(text.to_owned(), workload.to_owned(), bound)
}

fn p99_below(limit: u64) -> Threshold {
    let (operation, figure) = (OperationName::Commit, LatencyFigure::P99);
    let limit = Nanos::new(limit);
    let bound = ThresholdBound::LatencyBelow { operation, figure, limit };
    goal("commit p99 < 200us", "commit", bound)
}

fn rate_above(workload: &str, at_least_per_second: f64) -> Threshold {
    goal("rate > N", workload, ThresholdBound::RateAtLeast { at_least_per_second })
}

#[test]
fn a_goal_is_missed_at_its_limit_and_each_host_that_misses_it_is_named() {
    let findings = fleet(8);
    let judged = judge_goal(&p99_below(200_000), &findings).unwrap();
    let missed: Vec<&str> = judged.missed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(missed, ["rack1-db01", "rack1-db03", "rack1-db06", "rack1-db08"]);
    assert_eq!(judged.missed[3].1, 200_000.0);
    let text = "commit p99 < 200us on 4 hosts (rack1-db01 210 µs, rack1-db03 204 µs, \
                rack1-db06 206 µs, + 1 more)";
    assert_eq!(judged.missed_text().as_deref(), Some(text));
    assert_eq!(judge_goal(&p99_below(210_001), &findings).unwrap().missed_text(), None);
    let report = FleetReport { findings: &findings, goals: vec![judged] };
    let cases = written(Format::JUnit, &report);
    let case = "<testcase classname=\"commit p99 &#60; 200us\" name=\"rack1-db01\"><failure \
                message=\"measured 210 µs, limit 200 µs\"/></testcase>";
    assert!(cases.contains(case), "{cases}");
    assert!(cases.contains("tests=\"8\" failures=\"4\" errors=\"0\" skipped=\"0\""), "{cases}");
    let sentence = report.summary().unwrap().sentence;
    assert!(sentence.starts_with(&format!("Bad: goal missed: {text}; median ")), "{sentence}");
}

#[test]
fn hosts_that_miss_a_goal_are_in_every_format_with_their_value_and_the_limit() {
    let findings = fleet(8);
    let judged = judge_goal(&p99_below(200_001), &findings).unwrap();
    assert_eq!((judged.limit, judged.missed.len()), (200_001.0, 3));
    let report = FleetReport { findings: &findings, goals: vec![judged] };
    for format in [Format::Text, Format::Markdown, Format::Html] {
        let text = written(format, &report).split_whitespace().collect::<Vec<_>>().join(" ");
        let named = "(rack1-db01 210 µs, rack1-db03 204 µs, rack1-db06 206 µs)";
        assert!(text.contains(named) && text.contains(" 200us on 3 hosts "), "{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&written(Format::Json, &report)).unwrap();
    let goal = &json["goals"][0];
    assert_eq!(
        (goal["limit"].as_f64(), &goal["goal"]),
        (Some(200_001.0), &"commit p99 < 200us".into())
    );
    assert_eq!(goal["missed"][2], serde_json::json!(["rack1-db06", 206_000.0]));
    let metrics = written(Format::OpenMetrics, &report);
    let series = |family: &str| {
        let lines = metrics.lines().filter(|line| line.starts_with(family));
        let of_goal = lines.filter(|line| {
            line.contains("host=\"rack1-db06\"") && line.contains("goal_outcome=\"missed\"")
        });
        of_goal.map(|line| line.rsplit(' ').next().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(series("durio_latency_goal_limit_seconds{"), ["0.000200001"]);
    assert_eq!(series("durio_latency_service_seconds{"), ["0.000206"]);
}

fn missed(findings: &FleetFindings, workload: &str, rate: f64) -> usize {
    judge_goal(&rate_above(workload, rate), findings).unwrap().missed.len()
}

#[test]
fn a_rate_is_that_of_commits_or_of_all_accesses() {
    let mut findings = fleet(8);
    assert_eq!(missed(&findings, "commit", 12_000.0), 3);
    assert_eq!(missed(&findings, "commit", 11_400.0), 0);
    assert_eq!(missed(&findings, "lookup", 43_700.0), 0);
    assert_eq!(missed(&findings, "lookup", 43_701.0), 1);
    // Reads and writes of one workload are counted together.
    for host in &mut findings.hosts {
        let mut writes = host.runs[0].figures[4].clone();
        writes.key.operation = OperationName::Write;
        host.runs[0].figures.push(writes);
    }
    assert_eq!(missed(&findings, "lookup", 87_400.0), 0);
    assert_eq!(missed(&findings, "lookup", 87_401.0), 1);
}

#[test]
fn hosts_without_the_figure_leave_a_goal_open_and_other_figures_are_refused() {
    let mut findings = fleet(8);
    lose(&mut findings.hosts[1], HostOutcome::Lost, "silent");
    let judged = judge_goal(&p99_below(300_000), &findings).unwrap();
    assert_eq!((judged.missed.len(), judged.open.clone()), (0, vec!["rack1-db02".to_owned()]));
    let report = FleetReport { findings: &findings, goals: vec![judged] };
    let sentence = report.summary().unwrap().sentence;
    let begin = "Unknown: goal not compared: commit p99 < 200us on 1 host (rack1-db02); median ";
    assert!(sentence.starts_with(begin), "{sentence}");
    let bandwidth = ThresholdBound::BandwidthAtLeast { at_least: Bytes::new(1) };
    let refused = judge_goal(&goal("scan bandwidth > 1", "scan", bandwidth), &findings);
    let why = "'scan bandwidth > 1': hosts are compared by rate, p50, p99 and p99.9";
    assert_eq!(refused.unwrap_err(), why);
}

fn latency_below(figure: LatencyFigure, limit: u64) -> Threshold {
    let (operation, limit) = (OperationName::Commit, Nanos::new(limit));
    let bound = ThresholdBound::LatencyBelow { operation, figure, limit };
    goal("commit latency < N", "commit", bound)
}

#[test]
fn each_percentile_is_bounded_by_its_own_figure() {
    let findings = fleet(8);
    for (figure, highest) in [
        (LatencyFigure::P50, 73_500),
        (LatencyFigure::P99, 210_000),
        (LatencyFigure::P99_9, 945_000),
    ] {
        let missed = |limit| judge_goal(&latency_below(figure, limit), &findings).unwrap().missed;
        let worst = f64::from(u32::try_from(highest).unwrap());
        assert_eq!(missed(highest), [("rack1-db01".to_owned(), worst)], "{figure:?}");
        assert_eq!(missed(highest + 1), [], "{figure:?}");
    }
    for figure in [LatencyFigure::Mean, LatencyFigure::Max] {
        let refused = judge_goal(&latency_below(figure, 1), &findings).unwrap_err();
        let why = "'commit latency < N': hosts are compared by rate, p50, p99 and p99.9";
        assert_eq!(refused, why);
    }
    // The latency of another operation of the workload is not the one that is bounded.
    let (operation, limit) = (OperationName::Write, Nanos::new(1));
    let bound = ThresholdBound::LatencyBelow { operation, figure: LatencyFigure::P50, limit };
    let judged = judge_goal(&goal("commit write p50 < 1ns", "commit", bound), &findings).unwrap();
    assert_eq!((judged.missed.len(), judged.open.len()), (0, 8));
}

#[test]
fn a_host_that_was_cut_may_miss_a_goal_and_cannot_meet_it() {
    let mut findings = fleet(8);
    for host in &mut findings.hosts[..2] {
        (host.outcome, host.reason) = (HostOutcome::Partial, Some("cut short".to_owned()));
    }
    let judged = judge_goal(&p99_below(200_000), &findings).unwrap();
    let missed: Vec<&str> = judged.missed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(missed, ["rack1-db01", "rack1-db03", "rack1-db06", "rack1-db08"]);
    assert_eq!(judged.open, ["rack1-db02"]);
    let open = "commit p99 < 200us on 1 host (rack1-db02)";
    assert_eq!(judged.open_text().as_deref(), Some(open));
    let report = FleetReport { findings: &findings, goals: vec![judged] };
    let cases = written(Format::JUnit, &report);
    assert!(cases.contains("tests=\"8\" failures=\"4\" errors=\"0\" skipped=\"1\""), "{cases}");
    let sentence = report.summary().unwrap().sentence;
    assert!(
        sentence.starts_with("Bad: goal missed: commit p99 < 200us on 4 hosts ("),
        "{sentence}"
    );
}

#[test]
fn the_worst_run_and_the_worst_target_of_a_host_decide() {
    let mut findings = fleet(8);
    let mut again = findings.hosts[4].runs[0].clone();
    again.is_confirmation = true;
    again.figures[0].value = 9_000.0;
    findings.hosts[4].runs.push(again);
    let mut other = findings.hosts[6].runs[0].figures[0].clone();
    (other.key.target, other.value) = ("log".to_owned(), 8_000.0);
    findings.hosts[6].runs[0].figures.push(other);
    let missed = |rate| judge_goal(&rate_above("commit", rate), &findings).unwrap().missed;
    let [run, target] = [("rack1-db05", 9_000.0), ("rack1-db07", 8_000.0)]
        .map(|(name, worst)| (name.to_owned(), worst));
    assert_eq!(missed(8_000.0), []);
    assert_eq!(missed(8_000.5), std::slice::from_ref(&target));
    assert_eq!(missed(9_000.0), std::slice::from_ref(&target));
    assert_eq!(missed(9_000.5), [run, target]);
}
