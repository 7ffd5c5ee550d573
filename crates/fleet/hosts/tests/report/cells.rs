//! Exact cells of tables, facts, records and metrics.

use durio_hosts::{
    FleetFindings, FleetGoal, FleetReport, HostEvidence, HostOutcome, HostStatistic, HostVerdict,
    SharedStorage,
};
use durio_record::OperationName;
use durio_report::Format;

use crate::sample::{evidence, fleet, judge, key, lose, run, troubled};
use crate::{verbose, written};

/// The words of the first line that begins with this.
#[track_caller]
fn line<'t>(text: &'t str, begin: &str) -> &'t str {
    text.lines().find(|line| line.trim_start().starts_with(begin)).unwrap_or_else(|| {
        panic!("no line '{begin}' in {text}");
    })
}

fn words(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()
}

/// The text without the breaks of its lines.
fn joined(findings: &FleetFindings) -> String {
    let text = written(Format::Text, findings);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn one_suspect() -> FleetFindings {
    let mut findings = fleet(8);
    judge(&mut findings.hosts[0], HostVerdict::Suspect);
    findings
}

#[test]
fn a_suspect_has_its_figure_its_factor_and_its_interval() {
    let text = written(Format::Text, &one_suspect());
    assert_eq!(
        line(&text, "suspect"),
        "suspect  rack1-db01: commit rate 1.34 × lower than 7 like it (1.28 to 1.41), 9 k/s"
    );
}

#[test]
fn the_fleet_has_a_row_for_each_figure_with_its_unit() {
    let text = written(Format::Text, &fleet(8));
    let rate = words(line(&text, "commit rate"));
    assert_eq!(rate, ["commit rate", "8", "12.1 k/s", "11.4 k/s", "12.6 k/s", "2.50 %"]);
    let p99 = words(line(&text, "commit p99"));
    assert_eq!(p99, ["commit p99", "8", "199 µs", "190 µs", "210 µs", "2.50 %"]);
    let power = "8 hosts tested in 6 figures; 0.3 innocent suspects expected; 3 runs of each find";
    assert!(text.contains(power), "{text}");
}

#[test]
fn a_host_has_its_verdict_its_worst_figure_and_its_own_rate() {
    let text = written(Format::Text, &one_suspect());
    let row = words(line(&text, "rack1-db01"));
    assert_eq!(row[..6], ["rack1-db01", "suspect", "commit rate", "1.34 ×", "11.4 k", "210 µs"]);
    assert_eq!(row[6].chars().count(), 15);
    let row = words(line(&text, "rack1-db02"));
    assert_eq!(row[..4], ["rack1-db02", "alike", "12.2 k", "196 µs"]);
}

#[test]
fn several_runs_of_a_host_are_one_value_in_the_middle_of_their_logarithms() {
    let mut findings = fleet(8);
    let rate = key("commit", OperationName::Commit, HostStatistic::Rate);
    let with = |value: f64, is_confirmation: bool| {
        let mut figures = findings.hosts[0].runs[0].figures.clone();
        figures[0].value = value;
        durio_hosts::HostRun { is_confirmation, ..run(figures) }
    };
    let runs = [
        (vec![with(100.0, false), with(400.0, false)], "200"),
        (vec![with(100.0, false), with(400.0, false), with(300.0, false)], "300"),
        (vec![with(100.0, false), with(900.0, true)], "100"),
        (vec![with(900.0, true)], "900"),
    ];
    for (runs, expected) in runs {
        findings.hosts[0].runs = runs;
        assert_eq!(findings.hosts[0].runs[0].figures[0].key, rate);
        let csv = written(Format::Csv, &findings);
        let row = line(&csv, "rack1-db01,measured,alike,1,commit,data,commit,rate,");
        assert_eq!(row.split(',').nth(8), Some(expected), "{row}");
    }
}

#[test]
fn shared_storage_has_its_rate_and_what_a_sum_of_reports_would_say() {
    let mut findings = fleet(8);
    findings.pooled[0].shared = Some(SharedStorage::Detected("10.0.0.9:/export".to_owned()));
    let text = joined(&findings);
    for expected in [
        "commit at data 96 k/s of 8 hosts together, p50 70 µs, p99 800 µs, p99.9 50.4 ms, in the \
         58.2 s that all ran, from starts 400 µs apart",
        "the sum of the hosts' rates, 96.5 k/s, counts time in which not all ran; the mean of their \
         p99, 5.7 ms, is a latency that no request had",
        "fairness 0.98 (Jain's index, 1 is equal): rack1-db01 has 12.5 %, rack1-db08 12.5 % p99 of \
         each host: median 200 µs, worst 200 µs (rack1-db08) shared",
        "shared: the same identity on all of them, 10.0.0.9:/export",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // A slow host does few operations: the latencies of all requests hide it.
    let shares = &mut findings.pooled[0].shares;
    (shares[2].p99_ns, shares[3].p99_ns, shares[4].p99_ns) = (Some(9_900_000), None, Some(1_000));
    let text = joined(&findings);
    let worst = " p99 of each host: median 200 µs, worst 9.9 ms (rack1-db03) ";
    assert!(text.contains(worst), "{text}");
    findings.pooled[0].shares.iter_mut().for_each(|share| share.p99_ns = None);
    assert!(!joined(&findings).contains("p99 of each host"));
    let mut without = fleet(8);
    without.pooled[0].rate = None;
    without.pooled[0].no_rate = Some("the starts are 14 ms apart".to_owned());
    let text = verbose(Format::Text, &without).split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "no rate or latencies of 8 hosts together: the starts are 14 ms apart";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_pooled_rate_has_its_error_where_its_digits_show_it() {
    let mut findings = fleet(8);
    findings.pooled[0].shared = Some(SharedStorage::Stated);
    for (error, expected) in [
        (0.000_499, "commit at data 96 k/s of 8 hosts together, p50"),
        (0.000_501, "commit at data 96 k/s (± 0.05 %) of 8 hosts together, p50"),
        (0.003_2, "commit at data 96 k/s (± 0.32 %) of 8 hosts together, p50"),
        (0.01, "commit at data 96 k/s (± 1.00 %) of 8 hosts together, p50"),
    ] {
        findings.pooled[0].rate_error = Some(error);
        let text = joined(&findings);
        assert!(text.contains(expected), "{expected}: {text}");
        let json = written(Format::Json, &findings);
        assert_eq!(serde_json::from_str::<FleetFindings>(&json).unwrap(), findings);
    }
    // A document of before has no bound and no absent hosts.
    findings.pooled[0].rate_error = None;
    let json = written(Format::Json, &findings);
    assert!(!json.contains("rate_error") && !json.contains("absent"), "{json}");
    assert_eq!(serde_json::from_str::<FleetFindings>(&json).unwrap(), findings);
}

#[test]
fn a_host_that_did_not_run_with_the_others_is_named_and_counted() {
    let mut findings = fleet(8);
    let pooled = &mut findings.pooled[0];
    (pooled.hosts, pooled.shared) = (7, Some(SharedStorage::Stated));
    pooled.absent = vec!["rack1-db08".to_owned()];
    let text = joined(&findings);
    for expected in [
        "8 hosts share storage that gives 96 k commits/s to 7 of them together, p99 800 µs",
        "commit at data 96 k/s of 7 of 8 hosts together, p50 70 µs",
        "from starts 400 µs apart; without rack1-db08, whose newest run had ended before the sum",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let pooled = &mut findings.pooled[0];
    (pooled.rate, pooled.latency, pooled.window_seconds) = (None, None, 0.0);
    pooled.no_rate = Some("rack1-db02 did not complete it".to_owned());
    let text = joined(&findings);
    let expected = "no rate or latencies of 7 of 8 hosts together: rack1-db02 did not complete it; \
                    without rack1-db08, whose newest run had ended before the sum";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_record_is_a_figure_of_a_host_and_a_host_without_figures_has_its_reason() {
    let mut findings = one_suspect();
    lose(&mut findings.hosts[7], HostOutcome::Lost, "silent, then off");
    let csv = written(Format::Csv, &findings);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "host,outcome,verdict,group,workload,target,operation,statistic,rate_per_s,service_ns,\
         worse_share,worse_low_share,worse_high_share,chance_share,reason,goal,goal_outcome,\
         goal_limit_per_s,goal_limit_ns"
    );
    let first = "rack1-db01,measured,suspect,1,commit,data,commit,rate,11400,,0.3400000000000001,\
                 0.28,0.4099999999999999,0.0004,,,,,";
    let numbers = |line: &str| -> Vec<String> {
        let rounded = |field: &str| match field.parse::<f64>() {
            Ok(number) => format!("{number:.4}"),
            Err(_) => field.to_owned(),
        };
        line.split(',').map(rounded).collect()
    };
    assert_eq!(numbers(lines[1]), numbers(first));
    assert_eq!(lines[3], "rack1-db01,measured,suspect,1,commit,data,commit,p99,,210000,,,,,,,,,");
    assert_eq!(lines[43], "rack1-db08,lost,not_judged,,,,,,,,,,,,\"silent, then off\",,,,");
    assert_eq!(lines.len(), 1 + 7 * 6 + 1);
}

#[test]
fn each_column_of_a_record_has_its_value() {
    let mut findings = one_suspect();
    let host = &mut findings.hosts[0];
    (host.outcome, host.reason) = (HostOutcome::Partial, Some("cut short".to_owned()));
    host.evidence = vec![HostEvidence {
        key: key("lookup", OperationName::Read, HostStatistic::P99),
        factor: 1.5,
        interval: Some([1.25, 1.75]),
        p: 0.0625,
        ..evidence()
    }];
    let goals = vec![
        FleetGoal {
            goal: "lookup p99 < 300us".to_owned(),
            statistic: HostStatistic::P99,
            limit: 300_000.0,
            missed: vec![("rack1-db01".to_owned(), 420_001.0)],
            open: vec!["rack1-db08".to_owned()],
        },
        FleetGoal {
            goal: "commit rate > 11500".to_owned(),
            statistic: HostStatistic::Rate,
            limit: 11_500.0,
            missed: vec![("rack1-db01".to_owned(), 11_401.0)],
            open: Vec::new(),
        },
    ];
    let csv = written(Format::Csv, &FleetReport { findings: &findings, goals });
    let lines: Vec<&str> = csv.lines().collect();
    let cells = |line: &str| -> Vec<String> {
        let cells = lines[0].split(',').zip(line.split(','));
        let known = cells.filter(|(_, value)| !value.is_empty());
        known.map(|(column, value)| format!("{column}={value}")).collect()
    };
    let host = ["host=rack1-db01", "outcome=partial", "verdict=suspect", "group=1"];
    let figure = ["workload=lookup", "target=data", "operation=read", "statistic=p99"];
    let values = [
        "service_ns=420000",
        "worse_share=0.5",
        "worse_low_share=0.25",
        "worse_high_share=0.75",
        "chance_share=0.0625",
        "reason=cut short",
    ];
    assert_eq!(cells(lines[6]), [host.as_slice(), &figure, &values].concat());
    let missed = ["statistic=p99", "service_ns=420001", "reason=cut short"];
    let goal = ["goal=lookup p99 < 300us", "goal_outcome=missed", "goal_limit_ns=300000"];
    assert_eq!(cells(lines[49]), [host.as_slice(), &missed, &goal].concat());
    let open = ["host=rack1-db08", "outcome=measured", "verdict=alike", "group=1", "statistic=p99"];
    let goal = ["goal=lookup p99 < 300us", "goal_outcome=not compared", "goal_limit_ns=300000"];
    assert_eq!(cells(lines[50]), [open.as_slice(), &goal].concat());
    let missed = ["statistic=rate", "rate_per_s=11401", "reason=cut short"];
    let goal = ["goal=commit rate > 11500", "goal_outcome=missed", "goal_limit_per_s=11500"];
    assert_eq!(cells(lines[51]), [host.as_slice(), &missed, &goal].concat());
    assert_eq!(lines.len(), 52);
}

#[test]
fn facts_that_differ_are_listed_by_group() {
    let mut findings = fleet(30);
    let mut other = findings.groups[0].clone();
    other.facts.insert("model".to_owned(), "P5510".to_owned());
    other.facts.insert("cpus".to_owned(), "32".to_owned());
    other.differing = troubled(30).groups[0].differing[..1].to_vec();
    findings.groups.push(other);
    let text = written(Format::Text, &findings);
    for line in [
        "\ndiffers  cpus: group 1 unknown, group 2 32\n",
        "\n         model: group 1 PM9A3, group 2 P5510\n",
        "\n         in group 2, kernel: 6.12.1 on 2 hosts\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}

#[test]
fn the_rate_of_all_has_marks_of_starts_losses_and_stops() {
    let mut findings = troubled(30);
    let page = written(Format::Html, &findings);
    for label in ["start", "rack1-db19 lost", "stop"] {
        assert!(page.contains(&format!("{label}</span>")), "{label}");
    }
    let lost = findings.pooled[0].marks[2].clone();
    findings.pooled[0].marks.push(lost);
    let page = written(Format::Html, &findings);
    assert!(page.contains("2 hosts lost</span>"));
    let json = written(Format::Json, &findings);
    assert_eq!(serde_json::from_str::<FleetFindings>(&json).unwrap(), findings);
}

#[test]
fn metrics_have_a_series_for_each_host_and_figure() {
    let text = written(Format::OpenMetrics, &fleet(8));
    let labels = "host=\"rack1-db01\",outcome=\"measured\",verdict=\"alike\",group=\"1\",\
                  workload=\"commit\",target=\"data\",operation=\"commit\"";
    let rate = format!("durio_rate_per_second{{{labels},statistic=\"rate\"}} 11400\n");
    assert!(text.contains(&rate), "{text}");
    let p99 = format!("durio_latency_service_seconds{{{labels},statistic=\"p99\"}} 0.00021\n");
    assert!(text.contains(&p99), "{text}");
    assert!(text.contains("durio_verdict_info{verdict=\"good\"} 1\n"), "{text}");
    assert_eq!(text.matches("durio_rate_per_second{").count(), 16);
}

#[test]
fn json_has_the_answer_at_its_head_and_reads_back_as_it_was() {
    let findings = one_suspect();
    let text = written(Format::Json, &findings);
    assert!(text.starts_with("{\n  \"summary\": {\n    \"verdict\": \"caution\","), "{text}");
    assert_eq!(serde_json::from_str::<FleetFindings>(&text).unwrap(), findings);
}

#[test]
fn the_map_says_each_host_by_letter_and_words_in_rows_of_racks() {
    let mut findings = fleet(80);
    judge(&mut findings.hosts[79], HostVerdict::Slow);
    let page = written(Format::Html, &findings);
    let cell = "<g><title>rack2-db40: slow, commit rate 1.34 × lower than 79 like it</title>";
    assert!(page.contains(cell), "{page}");
    let cell = "<g><title>rack1-db01: alike, commit 11.4 k/s</title>";
    assert!(page.contains(cell));
    for label in [">rack1-db</text>", ">rack2-db</text>", ">S</text>", ">· alike</span>"] {
        assert!(page.contains(label), "{label}");
    }
    assert_eq!(page.matches(">·</text>").count(), 79);
}

#[test]
fn fresh_runs_are_compared_with_those_of_the_same_time_and_may_be_better() {
    let mut findings = fleet(8);
    judge(&mut findings.hosts[0], HostVerdict::Slow);
    judge(&mut findings.hosts[1], HostVerdict::Cleared);
    for host in &mut findings.hosts[..2] {
        host.evidence[0].is_confirmed = true;
    }
    let cleared = &mut findings.hosts[1].evidence[0];
    (cleared.factor, cleared.interval) = (0.8, Some([0.75, 0.85]));
    let text = joined(&findings);
    for expected in [
        " slow rack1-db01: commit rate 1.34 × lower than others like it at the same time (1.28 to \
         1.41), 9 k/s ",
        " cleared rack1-db02: commit rate 1.25 × higher than others like it at the same time (1.18 to \
         1.33), 9 k/s ",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    findings.hosts[1].evidence[0].key = key("commit", OperationName::Commit, HostStatistic::P99);
    let text = joined(&findings);
    assert!(text.contains(" cleared rack1-db02: commit p99 1.25 × lower than others "), "{text}");
}

#[test]
fn a_lost_host_whose_complete_steps_are_like_the_others_is_lost_and_not_alike() {
    let mut findings = fleet(8);
    let host = &mut findings.hosts[4];
    (host.outcome, host.reason) = (HostOutcome::Lost, Some("it fell silent".to_owned()));
    let text = written(Format::Text, &findings);
    let row = words(line(&text, "rack1-db05"));
    assert_eq!(row[..4], ["rack1-db05", "lost", "12.1 k", "198 µs"]);
    assert_eq!(words(line(&text, "rack1-db06"))[1], "alike");
    let page = written(Format::Html, &findings);
    assert!(page.contains("<g><title>rack1-db05: lost, commit 12.1 k/s</title>"), "{page}");
    assert_eq!((page.matches(">L</text>").count(), page.matches(">·</text>").count()), (1, 7));
    // A suspect that is lost later remains one.
    judge(&mut findings.hosts[4], HostVerdict::Suspect);
    let text = written(Format::Text, &findings);
    assert_eq!(words(line(&text, "rack1-db05"))[1], "suspect");
}

#[test]
fn a_pool_without_a_rate_says_why_and_only_what_is_known_of_its_window() {
    let mut findings = fleet(8);
    let pooled = &mut findings.pooled[0];
    (pooled.rate, pooled.shared) = (None, Some(SharedStorage::Stated));
    (pooled.latency, pooled.no_rate) = (None, Some("the starts are 14 ms apart".to_owned()));
    let text = joined(&findings);
    let expected = "no rate or latencies of 8 hosts together: the starts are 14 ms apart; in the 58.2 s \
                    that all ran, from starts 400 µs apart the sum of";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains(" shared, as the spec says "), "{text}");
    let pooled = &mut findings.pooled[0];
    (pooled.window_seconds, pooled.skew_seconds) = (0.0, 0.0);
    let text = joined(&findings);
    let expected = "no rate or latencies of 8 hosts together: the starts are 14 ms apart the sum of \
                    the hosts' rates";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn figures_have_the_number_of_their_group_and_their_target_where_there_are_several() {
    let mut findings = fleet(8);
    let mut other = findings.groups[0].clone();
    other.figures.iter_mut().for_each(|figure| figure.hosts = 3);
    findings.groups.push(other);
    let rows = |findings: &FleetFindings, begin: &str| -> Vec<Vec<String>> {
        let text = verbose(Format::Text, findings);
        let lines = text.lines().filter(|line| line.trim_start().starts_with(begin));
        lines.map(|line| words(line)[..4].iter().map(|word| (*word).to_owned()).collect()).collect()
    };
    let found = rows(&findings, "commit rate");
    assert_eq!(found[0], ["commit rate", "1", "8", "12.1 k/s"]);
    assert_eq!(found[1], ["commit rate", "2", "3", "12.1 k/s"]);
    assert_eq!(found.len(), 2);
    findings.groups[1].figures[4].key.target = "log".to_owned();
    let found = rows(&findings, "lookup read rate at");
    assert_eq!(found[0][..3], ["lookup read rate at data", "1", "8"]);
    assert_eq!(found[1][..3], ["lookup read rate at log", "2", "3"]);
    assert_eq!(rows(&findings, "commit rate at data").len(), 2);
}
