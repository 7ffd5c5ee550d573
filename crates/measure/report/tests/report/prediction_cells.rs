//! Each figure of a prediction is in its row, below its title, with its unit: in every format.

use std::collections::BTreeMap;

use durio_analyse::Findings;
use durio_analyse::calibration::{CalibrationFindings, CalibrationPoint};
use durio_analyse::prediction::{PredictionFindings, PredictionPoint, RateBound};

use durio_report::{Format, Options, write};

use crate::cells::{Grid, assert_table, grids, in_full, panels};
use crate::sample;

fn prediction(points: Vec<PredictionPoint>) -> Findings {
    let prediction =
        PredictionFindings { database: "etcd".into(), location: None, points, notes: Vec::new() };
    Findings { prediction: Some(prediction), ..sample::complete() }
}

fn point(number: u32, bound: RateBound) -> PredictionPoint {
    let n = f64::from(number);
    let nanos = |hundreds: u64| Some((100 * hundreds + u64::from(number)) * 1000);
    PredictionPoint {
        clients: 10 * number,
        rate_per_second: 1000.0 * n + 500.0,
        // Of these only two digits are shown.
        expected: Some((1000.0 * n + 311.0, 1000.0 * n + 689.0)),
        rate_range: Some((1000.0 * n + 410.0, 1000.0 * n + 590.0)),
        offered_per_second: None,
        p50_ns: nanos(1),
        p99_ns: nanos(2),
        commits_per_sync: Some(n + 0.25),
        bytes_per_commit: 900.0 + n,
        log_share: 0.5 + 0.01 * n,
        processor_share: Some(0.7 + 0.01 * n),
        bound,
        twice_as_fast_at_most: Some(1000.0 * n + 880.0),
    }
}

/// A prediction for two numbers of clients.
pub(crate) fn predicted() -> Findings {
    prediction(vec![point(1, RateBound::Storage), point(2, RateBound::Waiting)])
}

#[test]
fn the_page_begins_with_commits_and_latencies_by_clients_where_each_sends_as_fast_as_it_can() {
    let offered = PredictionPoint { offered_per_second: Some(9.0), ..point(3, RateBound::Offered) };
    let points = vec![point(1, RateBound::Storage), point(2, RateBound::Storage), offered];
    let page = in_full(Format::Html, &prediction(points));
    let title = "etcd: commits per second, and latency of a transaction";
    let panels = panels(&page, title);
    let [rates, latencies] = &panels[..] else { panic!("{page}") };
    let line = |name: &str, values: [f64; 2]| {
        (name.to_owned(), vec![(10.0, values[0]), (20.0, values[1])])
    };
    assert_eq!(rates.units, ["number", "rate"]);
    assert_eq!(rates.lines, [line("predicted commits", [1500.0, 2500.0])]);
    assert_eq!(latencies.units, ["number", "latency"]);
    let expected = [line("p99", [201_000.0, 202_000.0]), line("p50", [101_000.0, 102_000.0])];
    assert_eq!(latencies.lines, expected);
    let (first, _) = page.split_once("<section").unwrap();
    assert!(first.contains(title) && first.contains(">clients</text>"), "{first}");
    // A bar for each expected range, the first from 1311 to 1689 per second.
    assert_eq!(first.matches("stroke=\"#98A2B3\" stroke-width=\"8\"").count(), 2);
}

#[test]
fn the_most_clients_that_commit_less_by_a_twentieth_are_named() {
    let shown = |rate_per_second: f64, fewer: u32| {
        let most = PredictionPoint { rate_per_second, ..point(3, RateBound::Waiting) };
        in_full(Format::Text, &prediction(vec![point(fewer, RateBound::Storage), most]))
    };
    let said = "30 clients commit less than 20: 2.37 k/s against 2.5 k/s;";
    assert!(shown(2370.0, 2).contains(said), "{}", shown(2370.0, 2));
    for (rate, fewer) in [(2380.0, 2), (3500.0, 2), (2370.0, 4)] {
        assert!(!shown(rate, fewer).contains("commit less than"), "{rate} {fewer}");
    }
}

#[test]
fn a_number_of_clients_has_its_own_prediction() {
    let points = vec![
        point(1, RateBound::Storage),
        point(2, RateBound::Processors),
        PredictionPoint { expected: None, commits_per_sync: None, ..point(3, RateBound::Waiting) },
        PredictionPoint {
            offered_per_second: Some(4600.0),
            twice_as_fast_at_most: None,
            processor_share: None,
            ..point(4, RateBound::Offered)
        },
    ];
    let expected = [
        [
            "clients",
            "offered",
            "commits/s",
            "expected",
            "range",
            "p50",
            "p99",
            "per sync",
            "log busy",
            "CPU",
            "bound by",
            "disk ×2",
        ],
        [
            "10",
            "max",
            "1.5 k",
            "1.3 k to 1.7 k",
            "1.41 k to 1.59 k",
            "101 µs",
            "201 µs",
            "1.25",
            "51 %",
            "71 %",
            "disk",
            "≤ 1.88 k",
        ],
        [
            "20",
            "max",
            "2.5 k",
            "2.3 k to 2.7 k",
            "2.41 k to 2.59 k",
            "102 µs",
            "202 µs",
            "2.25",
            "52 %",
            "72 %",
            "CPU",
            "≤ 2.88 k",
        ],
        [
            "30",
            "max",
            "3.5 k",
            "-",
            "3.41 k to 3.59 k",
            "103 µs",
            "203 µs",
            "-",
            "53 %",
            "73 %",
            "waits",
            "≤ 3.88 k",
        ],
        [
            "40",
            "4.6 k",
            "4.5 k",
            "4.3 k to 4.7 k",
            "4.41 k to 4.59 k",
            "104 µs",
            "204 µs",
            "4.25",
            "54 %",
            "-",
            "offered",
            "-",
        ],
    ];
    assert_table(&prediction(points), &expected);
}

/// The predictions as a terminal shows them unasked.
fn in_short(points: Vec<PredictionPoint>) -> Grid {
    let mut out = Vec::new();
    let options = Options { width: 1000, ..Options::default() };
    write(Format::Text, &prediction(points), &options, &mut out).unwrap();
    let grids = grids(Format::Text, std::str::from_utf8(&out).unwrap());
    let is_it = |grid: &Grid| grid.titles.first().is_some_and(|first| first == "clients");
    grids.into_iter().find(is_it).unwrap()
}

#[test]
fn a_summary_says_what_is_offered_where_one_of_the_predictions_is_for_a_rate() {
    let found = in_short(vec![
        point(1, RateBound::Storage),
        PredictionPoint { offered_per_second: Some(2600.0), ..point(2, RateBound::Offered) },
    ]);
    let titles = [
        "clients",
        "offered",
        "commits/s",
        "expected",
        "p50",
        "p99",
        "per sync",
        "CPU",
        "bound by",
        "disk ×2",
    ];
    assert_eq!(found.titles, titles);
    let rows = [
        [
            "10",
            "max",
            "1.5 k",
            "1.3 k to 1.7 k",
            "101 µs",
            "201 µs",
            "1.25",
            "71 %",
            "disk",
            "≤ 1.88 k",
        ],
        [
            "20",
            "2.6 k",
            "2.5 k",
            "2.3 k to 2.7 k",
            "102 µs",
            "202 µs",
            "2.25",
            "72 %",
            "offered",
            "≤ 2.88 k",
        ],
    ];
    assert_eq!(found.rows, rows);
    let found = in_short(vec![point(1, RateBound::Storage), point(2, RateBound::Waiting)]);
    let titles: Vec<&str> = titles.into_iter().filter(|title| *title != "offered").collect();
    assert_eq!(found.titles, titles);
}

/// A check of `locations` that predicted two databases, of which one has one writer at a time.
pub(crate) fn check(locations: &[&str]) -> Findings {
    let database = |location: &str, name: &str, points| PredictionFindings {
        database: name.into(),
        location: Some(location.into()),
        points,
        notes: Vec::new(),
    };
    let clients = |clients, bound, number| PredictionPoint { clients, ..point(number, bound) };
    let predicted = locations.iter().flat_map(|location| {
        let mysql = vec![
            clients(1, RateBound::Waiting, 1),
            PredictionPoint { expected: None, ..clients(8, RateBound::Storage, 2) },
            PredictionPoint { rate_per_second: 30_900.0, ..clients(32, RateBound::Processors, 30) },
        ];
        let sqlite = vec![clients(1, RateBound::Storage, 4)];
        [database(location, "mariadb", mysql), database(location, "sqlite-wal", sqlite)]
    });
    let predicted = predicted.collect();
    let sample = match locations.len() {
        1 => sample::complete(),
        _ => sample::two_locations(),
    };
    Findings { predicted, ..sample }
}

#[test]
fn a_check_has_a_row_for_each_database_with_ranges_and_bounds_by_clients() {
    let expected = [
        ["database", "1 client", "8 clients", "32 clients"],
        ["MySQL/MariaDB", "1.5 k (1.3 to 1.7 k) waits", "2.5 k disk", "31 k (30 to 31 k) CPU"],
        ["SQLite", "4.5 k (4.3 to 4.7 k) disk", "-", "-"],
    ];
    assert_table(&check(&["/srv/db"]), &expected);
    // Each place has its rows, with its name.
    let [titles, mysql, sqlite] = expected;
    let at = |row: [&'static str; 4], place: &'static str| [place, row[1], row[2], row[3]];
    let expected = [
        titles,
        at(mysql, "MySQL/MariaDB at /srv/db"),
        at(sqlite, "SQLite at /srv/db"),
        at(mysql, "MySQL/MariaDB at /dev/vdb"),
        at(sqlite, "SQLite at /dev/vdb"),
    ];
    assert_table(&check(&["/srv/db", "/dev/vdb"]), &expected);
}

#[test]
fn a_screen_of_100_columns_begins_with_databases_and_has_limits_and_storage_in_lines() {
    let mut findings = check(&["/srv/db"]);
    let redis = PredictionFindings { database: "redis".into(), ..findings.predicted[0].clone() };
    let [etcd, postgresql] = ["etcd", "postgresql"]
        .map(|name| PredictionFindings { database: name.into(), ..redis.clone() });
    findings.predicted.insert(0, postgresql);
    findings.predicted.extend([redis, etcd]);
    let mut out = Vec::new();
    write(Format::Text, &findings, &Options::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() <= 30, "{}:\n{text}", lines.len());
    let at = |begin: &str| lines.iter().position(|line| line.starts_with(begin)).unwrap();
    let rows = ["PostgreSQL", "MySQL/MariaDB", "SQLite", "Redis", "etcd"];
    let first = at("Databases: predicted commits/s (expected range), and what bounds them");
    for (place, row) in (first + 3..).zip(rows) {
        assert!(lines[place].trim_start().starts_with(row), "{row}:\n{text}");
        assert!(lines[place].chars().count() <= 100, "{}", lines[place]);
    }
    let storage = lines[at("storage ")];
    let words = ["storage", "commit 7.12 k/s, p99 236 µs; lookup 81.4 k/s, p99 "];
    assert!(words.iter().all(|words| storage.contains(words)), "{storage}");
    let limits = lines[at("limits ")];
    let missed = "1 met; missed: oracle (mean of commit < 100 µs, measured 140 µs)";
    assert!(limits.ends_with(missed), "{limits}");
    assert!(at("limits ") > first && !text.contains("Verdicts"), "{text}");
}

/// The lines of the CSV that have a database, in these columns.
fn csv_lines<const N: usize>(findings: &Findings, columns: [&str; N]) -> Vec<[String; N]> {
    let text = in_full(Format::Csv, findings);
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let lines = reader.deserialize().map(Result::unwrap);
    let lines: Vec<BTreeMap<String, String>> = lines.collect();
    let of_workloads = lines.iter().take_while(|line| line["database"].is_empty()).count();
    assert!(
        of_workloads > 0 && lines[..of_workloads].iter().all(|line| line["clients"].is_empty())
    );
    let predicted = &lines[of_workloads..];
    // Cells of workloads stay empty.
    for column in ["workload", "operation", "rate_per_s", "p99_ns"] {
        assert!(predicted.iter().all(|line| line[column].is_empty()), "{column}");
    }
    predicted.iter().map(|line| columns.map(|column| line[column].clone())).collect()
}

#[test]
fn a_check_has_a_csv_line_for_each_database_place_and_number_of_clients_with_units_in_the_names() {
    let columns = [
        "run",
        "location",
        "database",
        "clients",
        "predicted_commits_per_s",
        "expected_commits_low_per_s",
        "expected_commits_high_per_s",
        "predicted_p50_ns",
        "predicted_p99_ns",
        "bound_by",
    ];
    let run = "2026-11-21T100900-000Z-check-4711";
    let rows = |place: &'static str| {
        [
            [run, place, "mariadb", "1", "1500", "1311", "1689", "101000", "201000", "waits"],
            [run, place, "mariadb", "8", "2500", "", "", "102000", "202000", "disk"],
            [run, place, "mariadb", "32", "30900", "30311", "30689", "130000", "230000", "CPU"],
            [run, place, "sqlite-wal", "1", "4500", "4311", "4689", "104000", "204000", "disk"],
        ]
    };
    assert_eq!(csv_lines(&check(&["/srv/db"]), columns), rows("/srv/db"));
    let both = [rows("/srv/db"), rows("/dev/vdb")].concat();
    assert_eq!(csv_lines(&check(&["/srv/db", "/dev/vdb"]), columns), both);
}

#[test]
fn a_prediction_has_csv_lines_at_the_place_of_its_steps_with_what_is_offered_and_busy() {
    let points = vec![
        point(1, RateBound::Processors),
        PredictionPoint {
            offered_per_second: Some(2600.0),
            expected: None,
            commits_per_sync: None,
            processor_share: None,
            twice_as_fast_at_most: None,
            ..point(2, RateBound::Offered)
        },
    ];
    let columns = [
        "location",
        "database",
        "clients",
        "offered_per_s",
        "predicted_commits_per_s",
        "commits_per_sync",
        "log_busy_share",
        "processors_busy_share",
        "disk_twice_as_fast_commits_max_per_s",
        "bound_by",
    ];
    let expected = [
        ["/srv/db", "etcd", "10", "", "1500", "1.25", "0.51", "0.71", "1880", "CPU"],
        ["/srv/db", "etcd", "20", "2600", "2500", "", "0.52", "", "", "offered"],
    ];
    assert_eq!(csv_lines(&prediction(points), columns), expected);
}

#[test]
fn a_scraper_gets_predicted_and_expected_commits_by_database_and_clients_in_base_units() {
    let text = in_full(Format::OpenMetrics, &check(&["/srv/db", "/dev/vdb"]));
    let labels = |place: &str, database: &str, clients: u32, bound: &str| {
        format!(
            "location=\"{place}\",database=\"{database}\",clients=\"{clients}\",bound_by=\"{bound}\""
        )
    };
    let has = |name: &str, labels: &str, value: &str| {
        let line = format!("{name}{{{labels}}} {value}");
        text.lines().any(|shown| shown == line)
    };
    for place in ["/srv/db", "/dev/vdb"] {
        let (one, more) =
            (labels(place, "mariadb", 1, "waits"), labels(place, "mariadb", 32, "CPU"));
        let sqlite = labels(place, "sqlite-wal", 1, "disk");
        for (name, values) in [
            ("durio_predicted_commits_per_second", ["1500", "30900", "4500"]),
            ("durio_expected_commits_low_per_second", ["1311", "30311", "4311"]),
            ("durio_expected_commits_high_per_second", ["1689", "30689", "4689"]),
            ("durio_commits_per_sync", ["1.25", "30.25", "4.25"]),
        ] {
            for (labels, value) in [&one, &more, &sqlite].into_iter().zip(values) {
                assert!(has(name, labels, value), "{name} {labels} {value}: {text}");
            }
        }
        let p99 = format!("{one},quantile=\"0.99\"");
        assert!(has("durio_predicted_latency_seconds", &p99, "0.000201"), "{text}");
        // Without an expected range there is no sample.
        let without = labels(place, "mariadb", 8, "disk");
        assert!(has("durio_predicted_commits_per_second", &without, "2500"), "{text}");
        assert!(!text.contains(&format!("durio_expected_commits_low_per_second{{{without}}}")));
    }
}

fn calibration(calibrated: f64, others: f64) -> CalibrationFindings {
    let point = |clients: u32, real: [f64; 3], once: [f64; 2], calibrated| CalibrationPoint {
        clients,
        real: real.into(),
        once: once.into(),
        twice: vec![1.0],
        calibrated,
    };
    CalibrationFindings {
        schema: "durio-calibration-1",
        database: "redis".into(),
        command: "load".into(),
        factor: 1.234,
        factor_range: (1.1, 1.4),
        points: vec![
            point(3, [1100.0, 1900.0, 1000.0], [700.0, 600.0], 1000.0 * calibrated),
            point(40, [5000.0, 4200.0, 4000.0], [3100.0, 3300.0], 4400.0),
        ],
        others,
    }
}

#[test]
fn a_calibration_has_the_medians_of_its_rounds_and_the_ratio_of_the_last() {
    let expected = [
        ["clients", "database/s", "rounds", "profile/s", "calibrated/s", "last round"],
        // Of two the mean.
        ["3", "1.1 k", "1 k to 1.9 k", "650", "1.05 k", "1.05"],
        ["40", "4.2 k", "4 k to 5 k", "3.2 k", "4.4 k", "1.1"],
    ];
    let found = calibration(1.05, 0.0);
    assert_table(&found, &expected);
    let text = in_full(Format::Text, &found);
    assert!(text.contains("1.23 times as long as the profile says (1.10 to 1.40)"), "{text}");
    assert!(!text.contains("doubt"), "{text}");
}

#[test]
fn a_calibration_is_doubted_beyond_15_percent_and_a_tenth_of_a_processor() {
    let doubts = |calibrated: f64, others: f64| {
        let text = in_full(Format::Text, &calibration(calibrated, others));
        text.lines().filter(|line| line.trim_start().starts_with("doubt")).count()
    };
    assert_eq!([doubts(1.149, 0.1), doubts(0.851, 0.1)], [0, 0]);
    assert_eq!([doubts(1.151, 0.1), doubts(0.849, 0.1), doubts(1.0, 0.101)], [1, 1, 1]);
}
