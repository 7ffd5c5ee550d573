//! `durio typical`: classes of storage with their published latencies, and a check among them.

use serde_json::Value;

use crate::durio::Durio;
use crate::sandbox::Sandbox;

#[test]
fn without_a_class_all_are_listed_with_latency_and_rate() {
    let ended = Durio::new().words("typical").run().expect_exit(0).expect_no_stderr();
    let text = ended.text();
    let line = text.lines().find(|line| line.starts_with("Amazon EBS gp3 ")).unwrap();
    assert!(line.contains("1.33 to 2.8 ms") && line.contains("357 to 750"), "{line}");
    // A class that nobody has published a latency of has no number.
    let line = text.lines().find(|line| line.starts_with("Azure local NVMe")).unwrap();
    assert!(!line.contains(|c: char| c.is_ascii_digit()), "{line}");
    assert!(text.lines().count() <= 34 && text.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn a_class_has_every_latency_with_source_and_date() {
    let ended = Durio::new().words("typical ebs-gp3 --json").run().expect_exit(0);
    let document = ended.json();
    assert_eq!(document["schema"], "durio-typical-1");
    let class = &document["classes"][0];
    assert_eq!(class["id"], "ebs-gp3");
    assert_eq!(document["classes"].as_array().unwrap().len(), 1);
    assert_eq!(class["durable_write"]["latency_ns_min"], 1_333_000);
    let points = class["points"].as_array().unwrap();
    let is_told = |point: &Value| {
        ["publisher", "document"].iter().all(|key| point["source"][key].is_string())
    };
    assert!(points.len() >= 4 && points.iter().all(is_told), "{points:?}");
    assert!(points.iter().any(|point| point["source"]["date"] == "2026-06-25"), "{points:?}");
    let text = Durio::new().words("typical gp3").run().expect_exit(0).text();
    assert!(text.contains("https://docs.") || text.contains("https://github.com/"), "{text}");
}

#[test]
fn an_unknown_class_is_wrong_use_and_names_a_similar_one() {
    let ended = Durio::new().words("typical ebs-gp7").run().expect_exit(2).expect_no_stdout();
    ended.expect_stderr("unknown class of storage 'ebs-gp7'").expect_stderr("did you mean");
}

#[test]
fn a_check_places_its_commits_among_them_unless_they_stay_in_memory() {
    let sandbox = Sandbox::new();
    let line = "check data --quiet --duration 500ms --size 8MiB --workload commit --format json";
    let document = sandbox.durio(line).run().expect_exit(0).json();
    let operations = document["workloads"][0]["operations"].as_array().unwrap();
    let commit = operations.iter().find(|it| it["operation"] == "commit");
    let p50 = commit.and_then(|it| it["service"]["p50_ns"].as_u64());
    let ids = |list: &Value, key: &str| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.map(|it| it[key].as_str().unwrap().to_owned()).collect()
    };
    let signals = ids(&document["signals"], "id");
    let is_in = |id: &str| signals.iter().any(|signal| signal == id);
    let text = sandbox.durio("report").word(sandbox.the_run()).run().expect_exit(0).text();
    let is_said = text.lines().any(|line| line.starts_with("typical "));
    let placements = document["placements"].as_array().cloned().unwrap_or_default();
    assert_eq!(is_said, !placements.is_empty(), "{text}");
    match placements.as_slice() {
        [placement] => {
            assert_eq!(placement["commit_latency_ns_p50"].as_u64(), p50);
            let known = Durio::new().words("typical --json").run().expect_exit(0).json();
            let nearest = placement["nearest"]["id"].as_str().unwrap();
            assert!(ids(&known["classes"], "id").iter().any(|id| id == nearest), "{nearest}");
        }
        // Nothing has been published of some disks of clouds.
        [] => assert!(p50.is_none() || is_in("memory-backed") || is_in("ephemeral")),
        several => panic!("{several:?}"),
    }
}
