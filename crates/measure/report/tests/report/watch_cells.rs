//! Each figure of a watcher, of a list of runs and of a history is in its row, below its title, with its
//! unit: in every format.

use durio_analyse::history::{FigureHistory, HistoryPoint, Metric, Percentiles, RunFigure, RunRow};
use durio_analyse::{Headline, RunState};
use durio_base::{Bytes, Nanos};
use durio_record::Latency;
use durio_report::{Format, Options, ShownRuns, WatchedLocation, WatchedProbe, write};

use crate::cells::{assert_csv, assert_table, grids, in_full, panels};
use crate::why_cells;

/// A watcher of two places, of which *n*00 000 µs are the latencies.
fn watched() -> WatchedProbe {
    let location = |number: u64, name: &str| {
        let mut latencies = Latency::default();
        (0..number).for_each(|_| latencies.record(80_000));
        (0..10 * number).for_each(|_| latencies.record(1_000_000 * number));
        let at = |hundreds: u64| Some((100 * hundreds + number) * 1000);
        let percentiles = Percentiles { p50_ns: at(1), p99_ns: at(2), p99_9_ns: at(3) };
        let seconds = f64::from(u32::try_from(number).unwrap());
        let history = FigureHistory {
            schema: "durio-history-1".into(),
            target: name.to_owned(),
            host: "db1".into(),
            metric: Metric { workload: "commit".into(), figure: RunFigure::P99 },
            points: (1..=2)
                .map(|at: u32| HistoryPoint {
                    run: format!("probe-{number}{at}"),
                    started: format!("2026-11-2{at}T0{number}:30:00Z"),
                    value: f64::from(at) * 10_000.0 * seconds,
                })
                .collect(),
            changes: Vec::new(),
        };
        WatchedLocation {
            probes: 70 + number,
            failures: 40 + number,
            error: None,
            written: Bytes::new(9000 + number),
            latencies,
            latest: Some((format!("2026-11-27T1{number}:20:30Z"), percentiles)),
            succeeded_at: Some(1000.0 + seconds),
            running_since: (number == 2).then_some(2002.5),
            history: Some(history),
            ..WatchedLocation::new(name.to_owned())
        }
    };
    WatchedProbe {
        every: Nanos::from_secs(45),
        locations: vec![location(1, "/srv/a"), location(2, "/srv/b")],
    }
}

#[test]
fn the_page_of_a_watcher_has_the_probes_of_each_place() {
    let mut page = Vec::new();
    watched().write_page(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let tables = grids(Format::Html, &page);
    let titles = ["location", "latest probe (UTC)", "p50", "p99", "p99.9", "probes", "failed"];
    assert_eq!(tables[0].titles, titles);
    let rows = [
        ["/srv/a", "2026-11-27 11:20:30", "101 µs", "201 µs", "301 µs", "71", "41"],
        ["/srv/b", "2026-11-27 12:20:30", "102 µs", "202 µs", "302 µs", "72", "42"],
    ];
    assert_eq!(tables[0].rows, rows);
    assert!(page.contains("a probe every 45 s"), "{page}");
    let rows = [
        [["probe-11", "2026-11-21 01:30", "10 µs"], ["probe-12", "2026-11-22 01:30", "20 µs"]],
        [["probe-21", "2026-11-21 02:30", "20 µs"], ["probe-22", "2026-11-22 02:30", "40 µs"]],
    ];
    for (table, rows) in tables[1..].iter().zip(rows) {
        assert_eq!(table.titles, ["run", "started (UTC)", "value"]);
        assert_eq!(table.rows, rows);
    }
    assert_eq!(tables.len(), 3);
    let chart = panels(&page, "Over time");
    assert_eq!(chart[0].units, ["time", "latency"]);
    // 2026-11-21 01:30 and a day later.
    let points = vec![(1_795_224_600.0, 10_000.0), (1_795_311_000.0, 20_000.0)];
    assert_eq!(chart[0].lines, [("p99".to_owned(), points)]);
    // From minute to minute the seconds of a probe say nothing.
    let every = Nanos::from_secs(60);
    let mut page = Vec::new();
    WatchedProbe { every, ..watched() }.write_page(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert_eq!(grids(Format::Html, &page)[0].rows[0][1], "2026-11-27 11:20");
}

#[test]
fn explained_commits_of_probes_are_the_latest_hundred_with_the_time_of_each_cause() {
    let mut watched = watched();
    let [first, second] = &mut watched.locations[..] else { panic!() };
    for minute in 10..50 {
        let started = format!("2026-11-27T11:{minute}:30.250Z");
        first.slow.add(&started, &why_cells::many().calls[..3]);
    }
    second.slow.add("2026-11-27T12:10:30Z", &[]);
    assert_eq!(first.slow.commits.len(), 100);
    let oldest = &first.slow.commits[99];
    assert_eq!((oldest.0.as_str(), oldest.1.latency_ns), ("2026-11-27T11:16:30.250Z", 210_000_000));
    let mut page = Vec::new();
    watched.write_page(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let tables = grids(Format::Html, &page);
    let titles = ["probe (UTC)", "latency", "cause", "share", "what it did"];
    let table = tables.iter().find(|table| table.titles == titles).unwrap();
    let row = |latency: &'static str, sentence: &'static str| {
        ["2026-11-27 11:49:30", latency, "journal-commit", "75.0 %", sentence]
    };
    assert_eq!(table.rows[0], row("210 ms", "waited 210 ms for the journal commit"));
    assert_eq!(table.rows[1], row("90 ms", "waited 90 ms for the journal commit"));
    assert_eq!(table.rows.len(), 100);
    assert_eq!(page.matches("<figcaption>Timeline of call ").count(), 20);
    assert!(page.contains("/srv/a: slow commits") && !page.contains("/srv/b: slow commits"));
    let mut text = Vec::new();
    watched.write_metrics(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let slow = text.lines().filter(|line| line.starts_with("durio_slow_commit_seconds_total"));
    // Of each call of 210, 90 and 80 ms, 2 ms had another cause; 40 probes.
    let line = |cause: &str, value: &str| {
        let name = "durio_slow_commit_seconds_total";
        format!("{name}{{location=\"/srv/a\",cause=\"{cause}\"}} {value}")
    };
    let expected = [line("journal-commit", "14.96"), line("processor-taken", "0.24")];
    assert_eq!(slow.collect::<Vec<_>>(), expected);
    assert!(text.contains("# TYPE durio_slow_commit_seconds counter\n"), "{text}");
    assert!(text.contains("# UNIT durio_slow_commit_seconds seconds\n"), "{text}");
}

#[test]
fn prometheus_gets_the_figures_of_each_place_in_base_units() {
    let mut text = Vec::new();
    watched().write_metrics(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let version = format!("durio_watch_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    let mut expected = vec![version, "durio_watch_interval_seconds 45".to_owned()];
    let places = ["/srv/a", "/srv/b"].into_iter().zip(1_u64..);
    for (place, n) in places.clone() {
        let label = format!("location=\"{place}\"");
        expected.push(format!("durio_watch_probes_total{{{label},result=\"ok\"}} {}", 70 + n));
        expected.push(format!("durio_watch_probes_total{{{label},result=\"failed\"}} {}", 40 + n));
    }
    for (place, n) in places.clone() {
        expected
            .push(format!("durio_watch_written_bytes_total{{location=\"{place}\"}} {}", 9000 + n));
    }
    for (place, n) in places.clone() {
        let name = "durio_watch_last_success_timestamp_seconds";
        expected.push(format!("{name}{{location=\"{place}\"}} {}", 1000 + n));
    }
    let name = "durio_watch_running_since_timestamp_seconds";
    expected.push(format!("{name}{{location=\"/srv/b\"}} 2002.5"));
    for (place, n) in places.clone() {
        for (quantile, hundreds) in [("0.5", 1), ("0.99", 2), ("0.999", 3)] {
            let name = "durio_watch_last_commit_latency_seconds";
            expected.push(format!(
                "{name}{{location=\"{place}\",quantile=\"{quantile}\"}} 0.000{hundreds}0{n}"
            ));
        }
    }
    for (place, n) in places {
        let bucket = |bound: &str, count: u64| {
            let name = "durio_watch_commit_latency_seconds_bucket";
            format!("{name}{{location=\"{place}\",le=\"{bound}\"}} {count}")
        };
        for bound in [
            "0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025",
            "0.05", "0.1", "0.25", "0.5", "1", "2.5", "10", "+Inf",
        ] {
            // So many of 80 µs, ten times as many of 1 or 2 ms.
            let limit = bound.parse::<f64>().unwrap_or(f64::INFINITY);
            let fast = if limit >= 80e-6 { n } else { 0 };
            let slow = if limit >= 1e-3 * n as f64 { 10 * n } else { 0 };
            expected.push(bucket(bound, fast + slow));
        }
        let sum = (80e-6 + 10e-3 * n as f64) * n as f64;
        let name = "durio_watch_commit_latency_seconds";
        expected.push(format!("{name}_sum{{location=\"{place}\"}} {sum:.5}"));
        expected.push(format!("{name}_count{{location=\"{place}\"}} {}", 11 * n));
    }
    assert_eq!(lines, expected);
}

fn run(number: u32, command: &str) -> RunRow {
    let n = f64::from(number);
    RunRow {
        run: format!("2026-11-2{number}T0{number}1500-000Z-{command}-471{number}"),
        label: None,
        started: format!("2026-11-2{number}T0{number}:15:30Z"),
        command: command.into(),
        host: format!("db{number}"),
        targets: vec![format!("/srv/{number}")],
        state: Some(RunState::Complete),
        headline: Some(Headline {
            workload: "commit".into(),
            location: format!("/srv/{number}"),
            durable_commits_per_second: 1000.0 * n + 500.0,
            commit_latency_ns_p99: Some((200 + u64::from(number)) * 1000),
            rate_variation: None,
            same_workload: None,
        }),
        found: None,
        figures: Vec::new(),
        bytes: u64::from(number) << 20,
        damage: None,
    }
}

fn runs() -> Vec<RunRow> {
    let mut runs = vec![
        run(1, "check"),
        RunRow { label: Some("before".into()), ..run(2, "durable") },
        RunRow { found: Some("no loss".into()), headline: None, ..run(3, "prove") },
        RunRow { state: Some(RunState::Interrupted), ..run(4, "check") },
        RunRow { state: Some(RunState::Failed), ..run(5, "check") },
        RunRow { state: Some(RunState::Partial), ..run(6, "check") },
        RunRow { label: Some("twice".into()), ..run(7, "check") },
        RunRow { label: Some("twice".into()), ..run(8, "check") },
    ];
    runs[1].targets = vec!["/a".into(), "/b".into(), "/c".into()];
    runs[2].targets.clear();
    runs
}

#[test]
fn a_run_of_the_list_has_its_own_figures() {
    let expected = [
        [
            "run",
            "started (UTC)",
            "machine",
            "command",
            "target",
            "all targets",
            "found",
            "p99",
            "size",
        ],
        [
            "check-4711",
            "2026-11-21 01:15",
            "db1",
            "check",
            "/srv/1",
            "",
            "1.5 k/s commits",
            "201 µs",
            "1 MiB",
        ],
        [
            "before",
            "2026-11-22 02:15",
            "db2",
            "durable",
            "/a +2",
            "/a, /b, /c",
            "2.5 k/s commits",
            "202 µs",
            "2 MiB",
        ],
        ["prove-4713", "2026-11-23 03:15", "db3", "prove", "", "", "no loss", "", "3 MiB"],
        [
            "check-4714",
            "2026-11-24 04:15",
            "db4",
            "check",
            "/srv/4",
            "",
            "interrupted",
            "204 µs",
            "4 MiB",
        ],
        [
            "check-4715",
            "2026-11-25 05:15",
            "db5",
            "check",
            "/srv/5",
            "",
            "failed",
            "205 µs",
            "5 MiB",
        ],
        [
            "check-4716",
            "2026-11-26 06:15",
            "db6",
            "check",
            "/srv/6",
            "",
            "no end",
            "206 µs",
            "6 MiB",
        ],
        [
            "2026-11-27T071500",
            "2026-11-27 07:15",
            "db7",
            "check",
            "/srv/7",
            "",
            "7.5 k/s commits",
            "207 µs",
            "7 MiB",
        ],
        [
            "2026-11-28T081500",
            "2026-11-28 08:15",
            "db8",
            "check",
            "/srv/8",
            "",
            "8.5 k/s commits",
            "208 µs",
            "8 MiB",
        ],
    ];
    assert_table(&ShownRuns::new(&runs()), &expected);
    let expected = [
        [
            "run",
            "label",
            "started",
            "host",
            "command",
            "targets",
            "commit_rate_per_s",
            "commit_p99_ns",
            "size_bytes",
        ],
        [
            "2026-11-21T011500-000Z-check-4711",
            "",
            "2026-11-21T01:15:30Z",
            "db1",
            "check",
            "/srv/1",
            "1500",
            "201000",
            "1048576",
        ],
        [
            "2026-11-22T021500-000Z-durable-4712",
            "before",
            "2026-11-22T02:15:30Z",
            "db2",
            "durable",
            "/a;/b;/c",
            "2500",
            "202000",
            "2097152",
        ],
        [
            "2026-11-23T031500-000Z-prove-4713",
            "",
            "2026-11-23T03:15:30Z",
            "db3",
            "prove",
            "",
            "",
            "",
            "3145728",
        ],
    ];
    assert_csv(&ShownRuns::new(&runs()[..3]), &expected);
}

#[test]
fn a_run_is_a_line_of_100_columns_with_the_end_of_a_long_target() {
    let found = Some("92 of 92 as expected".to_owned());
    let target = |number: u32, targets: &[&str]| RunRow {
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        command: "stack bench".into(),
        found: found.clone(),
        ..run(number, "durable-29")
    };
    let long = "/var/lib/postgresql/16/main";
    let rows = [
        target(1, &["/srv/postgresql1"]),
        target(2, &["/srv/postgresql12"]),
        target(3, &["/srv/pgdata/1", "/b"]),
        target(4, &["/srv/pgdata/12", "/b"]),
        target(5, &[long, "/b", "/c"]),
    ];
    let mut out = Vec::new();
    write(Format::Text, &ShownRuns::new(&rows), &Options::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), 2 + rows.len(), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains("machine") && !text.contains("size"), "{text}");
    let tables = grids(Format::Text, &text);
    let shown: Vec<&str> = tables[0].rows.iter().map(|row| row[3].as_str()).collect();
    let expected = [
        "/srv/postgresql1",
        "…rv/postgresql12",
        "/srv/pgdata/1 +1",
        "…rv/pgdata/12 +1",
        "…esql/16/main +2",
    ];
    assert_eq!(shown, expected);
    // Details have them whole.
    let whole = in_full(Format::Text, &ShownRuns::new(&rows));
    assert!(whole.contains(&format!("  {long}, /b, /c  ")), "{whole}");
}

#[test]
fn a_probe_has_its_latency_and_not_the_rate_that_was_offered() {
    let expected = [
        ["run", "started (UTC)", "machine", "command", "target", "found", "p99", "size"],
        ["watch-4719", "2026-11-29 09:15", "db9", "watch", "/srv/9", "probe", "209 µs", "9 MiB"],
    ];
    assert_table(&ShownRuns::new(&[run(9, "watch")]), &expected);
}

#[test]
fn a_list_has_no_empty_heading_and_its_page_is_called_durio() {
    let rows = runs();
    let list = ShownRuns::new(&rows);
    let page = in_full(Format::Html, &list);
    assert!(page.contains("<title>durio</title>"), "{page}");
    assert!(!page.contains("<h1>") && !page.contains("class=\"brand\""), "{page}");
    assert!(in_full(Format::Markdown, &list).starts_with("\n| run |"));
    let history = in_full(Format::Html, &history(RunFigure::P99));
    assert!(history.contains("<title>durio history: commit p99 at "), "{history}");
    assert!(history.contains("<p class=\"brand\">durio history</p>\n<h1>commit p99 at "));
}

fn history(figure: RunFigure) -> FigureHistory {
    let point = |number: u32| HistoryPoint {
        run: format!("run-{number}"),
        started: format!("2026-11-2{number}T1{number}:40:59Z"),
        value: 10_000.0 * f64::from(number),
    };
    FigureHistory {
        schema: "durio-history-1".into(),
        target: "/srv/db".into(),
        host: "db1".into(),
        metric: Metric { workload: "commit".into(), figure },
        points: [1, 3, 4].map(point).into(),
        changes: Vec::new(),
    }
}

#[test]
fn a_history_has_the_value_of_each_run_in_the_unit_of_its_figure() {
    for (figure, name, unit, values) in [
        (RunFigure::Rate, "rate", "rate", ["10 k/s", "30 k/s", "40 k/s"]),
        (RunFigure::P99_9, "p99.9", "latency", ["10 µs", "30 µs", "40 µs"]),
    ] {
        let found = history(figure);
        let expected = [
            ["run", "started (UTC)", "value"],
            ["run-1", "2026-11-21 11:40", values[0]],
            ["run-3", "2026-11-23 13:40", values[1]],
            ["run-4", "2026-11-24 14:40", values[2]],
        ];
        assert_table(&found, &expected);
        let chart = panels(&in_full(Format::Html, &found), "Over time");
        assert_eq!(chart[0].units, ["time", unit]);
        let seconds = [1_795_261_259.0, 1_795_441_259.0, 1_795_531_259.0];
        let points: Vec<(f64, f64)> =
            seconds.into_iter().zip([10_000.0, 30_000.0, 40_000.0]).collect();
        assert_eq!(chart[0].lines, [(name.to_owned(), points)]);
        let line =
            format!("3 runs, 2026-11-21 11:40 to 2026-11-24 14:40 UTC; the latest {}", values[2]);
        let text = in_full(Format::Text, &found);
        assert!(text.contains(&line), "{text}");
        assert!(text.contains(&format!("commit {name} at /srv/db on db1")), "{text}");
    }
    let expected = [
        ["run", "started", "value"],
        ["run-1", "2026-11-21T11:40:59Z", "10000"],
        ["run-3", "2026-11-23T13:40:59Z", "30000"],
        ["run-4", "2026-11-24T14:40:59Z", "40000"],
    ];
    assert_csv(&history(RunFigure::P50), &expected);
}
