//! Each figure of a prediction is in its row, below its title, with its unit: in every format.

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
fn check(locations: &[&str]) -> Findings {
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
