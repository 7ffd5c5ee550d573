//! Each figure of a run is in its row, below its title, with its unit: in every format.

use std::sync::LazyLock;

use durio_analyse::Findings;
use durio_base::{Bytes, Nanos};
use durio_record::Phase;
use durio_report::Format;

use crate::cells::{
    assert_csv, assert_facts, assert_table, chart_texts, in_full, plain, spans, without_tags,
};
use crate::sample;
use crate::unique_sample::{at_two_places, unique};

static RUN: LazyLock<Findings> = LazyLock::new(unique);

#[test]
fn each_figure_of_a_workload_and_of_its_parts_is_in_its_place() {
    let expected = [
        [
            "workload",
            "per second",
            "bandwidth",
            "p50",
            "p99",
            "p99.9",
            "p99.99",
            "max",
            "rate over time",
        ],
        ["commit", "1.5 k", "60 GiB/s", "101 µs", "201 µs", "301 µs", "401 µs", "501 µs", "█▄▁▆"],
        ["write", "2.5 k", "2 MiB/s", "102 µs", "202 µs", "302 µs", "402 µs", "502 µs", ""],
        [
            "sync (fdatasync)",
            "3.5 k",
            "3 MiB/s",
            "103 µs",
            "203 µs",
            "303 µs",
            "403 µs",
            "503 µs",
            "",
        ],
        [
            "commit-etcd",
            "11.5 k",
            "61 GiB/s",
            "111 µs",
            "211 µs",
            "311 µs",
            "411 µs",
            "511 µs",
            "█▄▁▆",
        ],
        ["write", "12.5 k", "12 MiB/s", "112 µs", "212 µs", "312 µs", "412 µs", "512 µs", ""],
        [
            "sync (fdatasync)",
            "13.5 k",
            "13 MiB/s",
            "113 µs",
            "213 µs",
            "313 µs",
            "413 µs",
            "513 µs",
            "",
        ],
        ["lookup", "72.5 k", "62 GiB/s", "121 µs", "221 µs", "321 µs", "421 µs", "521 µs", "█▄▁▆"],
        ["scan", "73.5 k", "63 GiB/s", "131 µs", "231 µs", "331 µs", "431 µs", "531 µs", "█▄▁▆"],
        [
            "mixed (read latency)",
            "74.5 k",
            "64 GiB/s",
            "141 µs",
            "241 µs",
            "341 µs",
            "441 µs",
            "541 µs",
            "█▄▁▆",
        ],
        ["read", "41.5 k", "41 MiB/s", "141 µs", "241 µs", "341 µs", "441 µs", "541 µs", ""],
        ["write", "42.5 k", "42 MiB/s", "142 µs", "242 µs", "342 µs", "442 µs", "542 µs", ""],
    ];
    assert_table(&*RUN, &expected);
}

#[test]
fn a_verdict_has_its_own_limit_value_and_headroom() {
    let expected = [
        ["database", "verdict", "limit", "workload", "measured", "headroom"],
        ["etcd", "fit", "p99 of sync < 51 ms", "workload 1", "1.1 ms", "1.25 ×"],
        ["oracle", "unfit", "p99 of sync < 52 ms", "workload 2", "2.2 ms", "2.25 ×"],
        ["sqlserver", "cannot tell", "p99 of commit < 5 ms", "commit", "-", ""],
    ];
    assert_table(&*RUN, &expected);
}

#[test]
fn a_line_of_the_csv_has_the_figures_of_its_operation_in_plain_units() {
    let expected = [
        [
            "workload",
            "operation",
            "jobs",
            "depth",
            "batch",
            "measured_ns",
            "count",
            "rate_per_s",
            "bandwidth_bytes_per_s",
            "mean_ns",
            "min_ns",
            "p50_ns",
            "p90_ns",
            "p99_ns",
            "p99_9_ns",
            "p99_99_ns",
            "max_ns",
        ],
        [
            "commit",
            "commit",
            "2",
            "10",
            "20",
            "200000000000",
            "7000001",
            "1500",
            "1048576",
            "601000",
            "1000",
            "101000",
            "801000",
            "201000",
            "301000",
            "401000",
            "501000",
        ],
        [
            "commit",
            "write",
            "2",
            "10",
            "20",
            "200000000000",
            "7000002",
            "2500",
            "2097152",
            "602000",
            "2000",
            "102000",
            "802000",
            "202000",
            "302000",
            "402000",
            "502000",
        ],
        [
            "commit",
            "sync",
            "2",
            "10",
            "20",
            "200000000000",
            "7000003",
            "3500",
            "3145728",
            "603000",
            "3000",
            "103000",
            "803000",
            "203000",
            "303000",
            "403000",
            "503000",
        ],
        [
            "mixed",
            "write",
            "6",
            "14",
            "24",
            "204000000000",
            "7000042",
            "42500",
            "44040192",
            "642000",
            "42000",
            "142000",
            "842000",
            "242000",
            "342000",
            "442000",
            "542000",
        ],
    ];
    let mut some = RUN.clone();
    some.workloads.retain(|workload| ["commit", "mixed"].contains(&workload.name.as_str()));
    some.workloads[1].operations.remove(0);
    assert_csv(&some, &expected);
}

#[test]
fn each_figure_for_prometheus_has_the_labels_of_its_operation_and_its_base_unit() {
    let text = in_full(Format::OpenMetrics, &*RUN);
    let value = |metric: &str, workload: &str, operation: &str, quantile: &str| {
        let has = |line: &str, name: &str, label: &str| {
            label.is_empty() || line.contains(&format!("{name}=\"{label}\""))
        };
        let mut lines = text.lines().filter(|line| {
            line.starts_with(&format!("{metric}{{"))
                && has(line, "workload", workload)
                && has(line, "operation", operation)
                && has(line, "quantile", quantile)
        });
        let line = lines.next().unwrap_or_else(|| panic!("{metric} {workload} {operation}"));
        assert_eq!(lines.next(), None, "{metric} {workload} {operation} {quantile}");
        line.rsplit_once(' ').unwrap().1.to_owned()
    };
    for (metric, quantile, commit, write) in [
        ("durio_rate_per_second", "", "1500", "42500"),
        ("durio_bandwidth_bytes_per_second", "", "1048576", "44040192"),
        ("durio_operations", "", "7000001", "7000042"),
        ("durio_measured_seconds", "", "200", "204"),
        ("durio_latency_mean_seconds", "", "0.000601", "0.000642"),
        ("durio_latency_min_seconds", "", "0.000001", "0.000042"),
        ("durio_latency_seconds", "0.5", "0.000101", "0.000142"),
        ("durio_latency_seconds", "0.9", "0.000801", "0.000842"),
        ("durio_latency_seconds", "0.99", "0.000201", "0.000242"),
        ("durio_latency_seconds", "0.999", "0.000301", "0.000342"),
        ("durio_latency_seconds", "0.9999", "0.000401", "0.000442"),
        ("durio_latency_max_seconds", "", "0.000501", "0.000542"),
    ] {
        assert_eq!(value(metric, "commit", "commit", quantile), commit, "{metric} {quantile}");
        assert_eq!(value(metric, "mixed", "write", quantile), write, "{metric} {quantile}");
    }
}

#[test]
fn each_figure_of_the_json_document_is_below_its_name() {
    let text = in_full(Format::Json, &*RUN);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let workload = &document["workloads"][4];
    assert_eq!(
        [&workload["iops"], &workload["bandwidth_bytes_per_second"]],
        [&serde_json::json!(74_500.0), &serde_json::json!(68_719_476_736.0)]
    );
    let write = &workload["operations"][1];
    assert_eq!(write["operation"], "write");
    assert_eq!(write["rate_per_second"], 42_500.0);
    assert_eq!(write["bandwidth_bytes_per_second"], 44_040_192.0);
    let expected = serde_json::json!({
        "count": 7_000_042, "mean_ns": 642_000.0, "min_ns": 42_000, "p1_ns": 742_000,
        "p50_ns": 142_000, "p90_ns": 842_000, "p99_ns": 242_000, "p99_9_ns": 342_000,
        "p99_99_ns": 442_000, "max_ns": 542_000,
    });
    assert_eq!(write["service"], expected);
}

/// The lines of the page's chart of this number, as the script gets them.
fn panels(html: &str, chart: usize) -> serde_json::Value {
    let (_, rest) = html.split_once("id=\"values\">").unwrap();
    let values: serde_json::Value =
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    values[format!("chart-{chart}")].clone()
}

#[test]
fn the_chart_over_time_has_seconds_across_and_rate_above_latencies() {
    let html = in_full(Format::Html, &*RUN);
    let texts = chart_texts(&html, "Rate and latency over time");
    let shown: Vec<&str> = texts.iter().map(|(_, _, text)| text.as_str()).collect();
    let expected = [
        ["0/s", "2 k/s", "4 k/s", "6 k/s", "8 k/s"].as_slice(),
        &["100 µs", "200 µs", "500 µs"],
        &["0 s", "1 s", "2 s", "3 s"],
    ];
    assert_eq!(shown, expected.concat());
    // The higher a figure, the nearer to the top; the later, the farther right. The labels lie left of
    // the grid, which begins at 165.9, and below it, which ends at 618 of 738.
    let places: Vec<(f64, f64)> = texts.iter().map(|(x, y, _)| (*x, *y)).collect();
    let rates = [302.0, 245.4, 188.8, 132.2, 75.6].map(|y| (151.9, y));
    let latencies = [605.8, 511.0, 385.7].map(|y| (151.9, y));
    let seconds = [165.9, 421.4, 676.8, 932.3].map(|x| (x, 655.8));
    assert_eq!(places, [&rates[..], &latencies[..], &seconds[..]].concat());
    assert!(html.contains("viewBox=\"0 0 1120 738\""));
    let chart = panels(&html, 3);
    let line = |panel: usize, at: usize| &chart[panel]["lines"][at];
    let points = |values: [f64; 4]| {
        serde_json::json!([[0.5, values[0]], [1.5, values[1]], [2.5, values[2]], [3.5, values[3]]])
    };
    for (panel, at, name, key, values) in [
        (0, 0, "rate", "first", [8000.0, 4000.0, 1000.0, 6000.0]),
        (1, 0, "p50", "third", [110_000.0, 120_000.0, 130_000.0, 140_000.0]),
        (1, 1, "p99", "second", [410_000.0, 420_000.0, 430_000.0, 440_000.0]),
    ] {
        let line = line(panel, at);
        assert_eq!([&line["name"], &line["key"]], [name, key]);
        assert_eq!(line["points"], points(values), "{name}");
    }
    assert_eq!([&chart[0]["y"]["unit"], &chart[1]["y"]["unit"]], ["rate", "latency"]);
    assert_eq!([&chart[0]["x"]["unit"], &chart[1]["x"]["unit"]], ["seconds", "seconds"]);
}

#[test]
fn the_ramp_and_the_stalls_are_behind_the_lines_of_the_time_they_took() {
    let mut findings = unique();
    let workload = &mut findings.workloads[0];
    // Half of the median rate, 1.5 k/s, does not count as a stall.
    workload.rate_variation.as_mut().unwrap().rate_median_per_second = 1500.0;
    for (interval, rate) in workload.intervals.iter_mut().zip([10.0, 750.0, 749.0, 0.0]) {
        interval.rate = rate;
    }
    workload.intervals[0].phase = Phase::Ramp;
    let mut last = workload.intervals[0].clone();
    for (from, rate) in [(4, 1500.0), (5, 749.0), (6, 2000.0)] {
        (last.from, last.to) = (Nanos::from_secs(from), Nanos::from_secs(from + 1));
        (last.phase, last.rate) = (Phase::Measure, rate);
        workload.intervals.push(last.clone());
    }
    let html = in_full(Format::Html, &findings);
    let found = spans(&html, "Rate and latency over time", [("0 s", 0.0), ("6 s", 6.0)]);
    let of_panel = [(0.0, 1.0, "#98A2B3"), (2.0, 4.0, "#D92D20"), (5.0, 6.0, "#D92D20")];
    let expected = [of_panel, of_panel].concat();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((from, to, colour), expected) in found.iter().zip(expected) {
        let is_near = (from - expected.0).abs() < 0.02 && (to - expected.1).abs() < 0.02;
        assert!(is_near && colour == expected.2, "{found:?}");
    }
}

#[test]
fn each_figure_of_each_place_is_in_its_column_side_by_side() {
    let [p50, p99, p99_9] = ["p50", "p99", "p99.9"];
    let expected = [
        ["workload", "A /s", p50, p99, p99_9, "B /s", p50, p99, p99_9],
        ["commit", "1.5 k", "101 µs", "201 µs", "301 µs", "51.5 k", "151 µs", "251 µs", "351 µs"],
        [
            "commit-etcd",
            "11.5 k",
            "111 µs",
            "211 µs",
            "311 µs",
            "61.5 k",
            "161 µs",
            "261 µs",
            "361 µs",
        ],
        ["lookup", "72.5 k", "121 µs", "221 µs", "321 µs", "77.5 k", "171 µs", "271 µs", "371 µs"],
        ["scan", "73.5 k", "131 µs", "231 µs", "331 µs", "78.5 k", "181 µs", "281 µs", "381 µs"],
        [
            "mixed (read latency)",
            "74.5 k",
            "141 µs",
            "241 µs",
            "341 µs",
            "79.5 k",
            "191 µs",
            "291 µs",
            "391 µs",
        ],
    ];
    assert_table(&at_two_places(), &expected);
}

#[test]
fn the_chart_over_percentiles_has_a_line_for_each_operation_of_its_workload() {
    let html = in_full(Format::Html, &*RUN);
    let texts = chart_texts(&html, "Latency over percentiles");
    let shown: Vec<&str> = texts.iter().map(|(_, _, text)| text.as_str()).collect();
    let expected = [
        "1 µs", "3 µs", "10 µs", "30 µs", "100 µs", "300 µs", "0", "50 %", "90 %", "99 %", "99.9 %",
    ];
    assert_eq!(shown, expected);
    let chart = panels(&html, 2);
    for (at, name, key, number) in [
        (0, "commit", "first", 1.0),
        (1, "write", "second", 2.0),
        (2, "sync (fdatasync)", "third", 3.0),
    ] {
        let line = &chart[0]["lines"][at];
        assert_eq!([&line["name"], &line["key"]], [name, key]);
        let points = serde_json::json!([
            [0.0, number * 1000.0],
            [0.301, (100.0 + number) * 1000.0],
            [2.0, (200.0 + number) * 1000.0],
            [3.0, (300.0 + number) * 1000.0],
        ]);
        assert_eq!(line["points"], points, "{name}");
    }
}

#[test]
fn bars_of_a_commit_say_the_percentile_of_each_part() {
    let html = in_full(Format::Html, &*RUN);
    let (_, rest) = html.split_once("<h2>Write against sync</h2>").unwrap();
    let figures: Vec<&str> = rest.split("<figure").skip(1).take(2).collect();
    for (figure, title, begin) in [(figures[0], "commit", 0), (figures[1], "commit-etcd", 10)] {
        let caption = figure.split("<figcaption>").nth(1).unwrap();
        assert_eq!(plain(caption.split('<').next().unwrap()), title);
        let keys = figure.split("class=\"key ").skip(1);
        let keys: Vec<String> = keys
            .map(|key| without_tags(&key.replacen("\">", " ", 1)[..key.find('<').unwrap()]))
            .collect();
        assert_eq!(keys, ["second write", "third sync (fdatasync)", "first commit"]);
        let texts = figure.split("</text>").filter_map(|part| part.rsplit_once('>'));
        let texts: Vec<String> = texts.map(|(_, text)| plain(text)).collect();
        let mut expected = Vec::new();
        for (percentile, hundreds) in [("p50", 100), ("p99", 200), ("p99.9", 300)] {
            expected.push(percentile.to_owned());
            expected.extend([2, 3, 1].map(|part| format!("{} µs", hundreds + begin + part)));
        }
        assert_eq!(texts[..expected.len()], expected);
    }
}

#[test]
fn the_machine_the_command_and_the_way_back_to_the_page_are_facts_of_a_run() {
    let mut findings = sample::complete();
    let host = &mut findings.host;
    (host.cpus_online, host.cpus_allowed, host.numa_nodes) = (6, 5, 3);
    host.swap = Bytes::from_gib(7);
    host.dmi_vendor = Some("a vendor".into());
    host.dmi_product = Some("a model".into());
    host.governor = Some("powersave".into());
    findings.run.command =
        ["durio", "check", "/srv/db", "--size", "8MiB"].map(str::to_owned).into();
    let facts = [
        ("kernel", "6.18.1-amd64 (x86_64)"),
        ("system", "Debian GNU/Linux 12 (bookworm)"),
        ("CPU", "AMD EPYC 7B13, 6 online, 5 usable"),
        ("governor", "powersave"),
        ("memory", "8 GiB, 6 GiB available"),
        ("hypervisor", "kvm"),
        ("clock source", "kvm-clock, time-stamp counter reliable"),
        ("cgroup limits", "memory 4 GiB"),
        ("machine vendor", "a vendor"),
        ("machine model", "a model"),
        ("memory nodes", "3"),
        ("swap", "7 GiB"),
        ("control group", "/user.component"),
        ("vm/dirty_ratio", "20"),
        ("memory of durio, at most", "31 MiB"),
        ("command", "durio check /srv/db --size 8MiB"),
        (
            "this page again",
            "durio report /home/anna/.local/share/durio/runs/2026-11-21T100900-000Z-check-4711 --format html",
        ),
    ];
    assert_facts(&findings, &facts);
}
