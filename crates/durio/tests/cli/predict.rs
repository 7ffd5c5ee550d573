//! `durio predict`.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::durio::Ended;
use crate::sandbox::Sandbox;

#[test]
fn commits_are_predicted_for_each_number_of_clients() {
    for database in ["postgresql", "mariadb", "redis", "rocksdb", "etcd"] {
        let sandbox = Sandbox::new();
        let line = "data --clients 1,4 --duration 200ms --quiet --format json";
        let document = sandbox.durio(&format!("predict {database} {line}")).run();
        let document = document.expect_exit(0).json();
        let points = document["prediction"]["points"].as_array().unwrap();
        let clients: Vec<u64> = points.iter().filter_map(|it| it["clients"].as_u64()).collect();
        assert_eq!(clients, [1, 4], "{database}");
        for point in points {
            let number =
                |key: &str| point[key].as_f64().unwrap_or_else(|| panic!("{database}: {key}"));
            assert!(number("rate_per_second") > 0.0, "{database}");
            assert!(number("commits_per_sync") >= 1.0, "{database}");
            assert!(number("twice_as_fast_at_most") >= number("rate_per_second"), "{database}");
        }
    }
}

#[test]
fn sqlite_commits_for_one_client_in_its_process_with_as_many_syncs_as_a_commit_takes() {
    for (database, per_sync) in [("sqlite-wal", 1.0), ("sqlite-rollback", 0.25)] {
        let sandbox = Sandbox::new();
        let line = format!("predict {database} data --duration 200ms --quiet --format json");
        let document = sandbox.durio(&line).run().expect_exit(0).json();
        let points = document["prediction"]["points"].as_array().unwrap();
        assert_eq!(points.len(), 1, "{database}");
        assert_eq!(points[0]["clients"], 1, "{database}");
        let found = points[0]["commits_per_sync"].as_f64().unwrap();
        let commits = points[0]["rate_per_second"].as_f64().unwrap() * 0.2;
        // A commit may be under way when the time is over: on a slow disk one of only five.
        let tolerance = (1.5 / commits).max(0.05);
        assert!((found / per_sync - 1.0).abs() < tolerance, "{database}: {found}, {commits}");
    }
}

#[test]
fn several_clients_of_sqlite_are_refused_with_the_reason() {
    let sandbox = Sandbox::new();
    let refused = sandbox.durio("predict sqlite-rollback data --clients 1,8").run().expect_exit(2);
    refused.expect_stderr("8 clients of 'sqlite-rollback'").expect_stderr("poll for their turn");
    assert!(sandbox.differences().is_empty());
}

#[test]
fn a_prediction_is_a_table_by_clients_that_says_what_bounds_it() {
    let sandbox = Sandbox::new();
    let shown = sandbox.durio("predict redis data --clients 1,2 --duration 200ms --quiet").run();
    shown.expect_exit(0).expect_stdout("predicted commits").expect_stdout("bound by");
}

#[test]
fn a_goal_decides_the_exit_code_and_its_rate_is_run_besides() {
    let sandbox = Sandbox::new();
    let line = "predict postgresql data --clients 1,4 --duration 300ms --quiet --format json";
    let asked = sandbox.durio(line).word("--goal=p50 < 30s at 200/s").word("--goal=rate > 1");
    let document = asked.run().expect_exit(0).json();
    let offered = |it: &Value| (it["clients"].as_u64(), it["offered_per_second"].as_f64());
    let points = document["prediction"]["points"].as_array().unwrap();
    assert_eq!(
        points.iter().map(offered).collect::<Vec<_>>(),
        [(Some(1), None), (Some(4), None), (Some(1), Some(200.0)), (Some(4), Some(200.0))]
    );
    for point in &points[2..] {
        assert!(point["rate_per_second"].as_f64().unwrap() < 400.0, "{point}");
        assert!(point.get("twice_as_fast_at_most").is_none(), "{point}");
    }
    let verdicts = document["verdicts"].as_array().unwrap();
    let held: Vec<_> = verdicts.iter().filter_map(|it| it["workload"].as_str()).collect();
    let expected =
        ["log at 200/s, 1 client", "log at 200/s, 4 clients", "log, 1 client", "log, 4 clients"];
    assert_eq!(held, expected);
    let missed = sandbox.durio("predict redis data --clients 1 --duration 200ms --quiet");
    let missed = missed.word("--goal=rate > 100M").run().expect_exit(1).expect_stdout("unfit");
    missed.expect_stderr("durio: goal missed at data: rate > 100M; measured ");
}

#[test]
fn a_setting_changes_what_the_log_does_and_an_unknown_one_is_refused() {
    let sandbox = Sandbox::new();
    let predict = |setting: &str| {
        let line = "predict postgresql data --clients 8 --duration 300ms --quiet --format json";
        sandbox.durio(line).word("--setting").word(setting).run()
    };
    let document = predict("commit_delay=20ms").expect_exit(0).json();
    let point = &document["prediction"]["points"][0];
    // 8 clients in step, 50 times a second at most.
    assert!(point["rate_per_second"].as_f64().unwrap() < 450.0, "{point}");
    let notes = document["prediction"]["notes"].as_array().unwrap();
    assert!(notes.iter().any(|it| it == "by --setting: commit_delay=20ms"), "{notes:?}");
    predict("comit_delay=1ms").expect_exit(2).expect_stderr("did you mean 'commit_delay'?");
    predict("commit_delay=soon").expect_exit(2).expect_stderr("commit_delay=soon");
    predict("commit_delay").expect_exit(2).expect_stderr("invalid setting 'commit_delay'");
}

#[test]
fn a_goal_that_is_none_is_wrong_use() {
    let sandbox = Sandbox::new();
    for (goal, words) in [
        ("p99 < 5ms at", "unknown unit"),
        ("p99 < 5ms at noon", "is not a rate per second"),
        ("p99 < 5", "missing unit"),
        ("p98 < 5ms", "unknown measure 'p98'"),
        ("rate > 2000 at 100/s", "a goal can only limit latency"),
    ] {
        let run = sandbox.durio("predict redis data").word("--goal").word(goal).run();
        run.expect_exit(2).expect_stderr(words);
    }
    assert!(sandbox.differences().is_empty());
}

#[test]
fn databases_are_predicted_by_the_names_that_people_use() {
    let sandbox = Sandbox::new();
    let predict = |word: &str| {
        let line = format!("predict {word} data --clients 1 --duration 200ms --quiet --json");
        sandbox.durio(&line).run().expect_exit(0)
    };
    let database = |ended: &Ended| ended.json()["prediction"]["database"].clone();
    assert_eq!(database(&predict("postgres")), "postgresql");
    assert_eq!(database(&predict("sqlite")), "sqlite-wal");
    // The report says whose model it is, too.
    let mysql = predict("mysql").expect_stderr("MySQL, by the model of MariaDB");
    assert_eq!(database(&mysql), "mariadb");
    let summary = mysql.json()["plan"]["campaign"]["summary"].clone();
    assert!(summary.as_str().unwrap().contains("MySQL, by the model of MariaDB"), "{summary}");
    assert!(sandbox.differences().is_empty());
}

#[test]
fn a_database_whose_software_nobody_knows_is_refused_with_what_can_be_done() {
    let sandbox = Sandbox::new();
    let refused = sandbox.durio("predict kafka data").run().expect_exit(3);
    refused.expect_stderr("has no [software]").expect_stderr("durio run profile:kafka");
    assert!(sandbox.differences().is_empty());
}

#[test]
fn an_unknown_database_and_no_clients_are_wrong_use() {
    let sandbox = Sandbox::new();
    for (arguments, words) in [
        ("postgresq data", "did you mean 'postgresql'?"),
        ("redis data --clients 0", "0 is not in"),
        ("redis data --clients 1,x", "'x'"),
        ("redis data --clients 8,1,8", "8 twice"),
        ("redis data --duration 1ms", "measures nothing useful"),
    ] {
        sandbox.durio(&format!("predict {arguments}")).run().expect_exit(2).expect_stderr(words);
    }
    assert!(sandbox.differences().is_empty());
}

#[test]
fn a_file_and_a_folder_that_does_not_exist_are_no_place_for_a_log() {
    let sandbox = Sandbox::new();
    let file = sandbox.root().join("file");
    fs::write(&file, "data").unwrap();
    sandbox.durio("predict redis file").run().expect_exit(3).expect_stderr("is not a directory");
    assert_eq!(fs::read(&file).unwrap(), b"data");
    sandbox.durio("predict redis nowhere").run().expect_exit(2).expect_stderr("nowhere");
}

#[test]
fn a_calibration_that_cannot_be_is_refused_before_the_command_runs() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.root().join("there.toml"), "mine").unwrap();
    let ran = sandbox.root().join("ran");
    let command = format!("touch {}; echo tps = 5", ran.display());
    for (line, exit, said) in [
        ("profile calibrate postgresql --profile there.toml", 2, "exists, and is not overwritten"),
        ("profile calibrate postgre --profile new.toml", 2, "did you mean 'postgresql'"),
        ("profile calibrate kafka --profile new.toml", 3, "has no [software]"),
        ("profile calibrate sqlite-wal --clients 8 --profile new.toml", 2, "cannot be predicted"),
        ("profile calibrate redis --clients 8,8 --profile new.toml", 2, "names 8 twice"),
        (
            "profile calibrate redis --memory data --profile new.toml",
            2,
            "the placeholder for the number of clients",
        ),
    ] {
        let refused = sandbox.durio(line).word("--command").word(&command).run();
        refused.expect_exit(exit).expect_no_stdout().expect_stderr(said);
    }
    assert!(!ran.exists() && !sandbox.root().join("new.toml").exists());
    assert_eq!(fs::read_to_string(sandbox.root().join("there.toml")).unwrap(), "mine");
}

/// Longer than a command takes.
const AT_MOST: Duration = Duration::from_secs(60);

#[test]
fn nothing_is_calibrated_on_a_busy_machine() {
    let sandbox = Sandbox::new();
    let is_over = AtomicBool::new(false);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        // Two, for others may have one of the processors.
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) && begin.elapsed() < AT_MOST {
                    std::hint::spin_loop();
                }
            });
        }
        // Some containers have next to nothing in /dev/shm.
        let line = "profile calibrate redis --clients 1 --memory data --profile new.toml --command";
        let refused = sandbox.durio(line).word("echo tps = 5").run();
        is_over.store(true, Relaxed);
        let refused = refused.expect_exit(3).expect_no_stdout();
        refused.expect_stderr("CPUs on this machine").expect_stderr("quiet machine");
    });
    assert!(!sandbox.root().join("new.toml").exists());
}
