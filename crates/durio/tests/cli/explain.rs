//! `durio explain`: every word of a report, by its id.

use crate::durio::Durio;

#[test]
fn with_all_everything_is_listed_by_kind() {
    let ended = Durio::new().words("explain --all").run().expect_exit(0).expect_no_stderr();
    let ended = ended.expect_stdout("Warnings about results").expect_stdout("flush-fast");
    ended.expect_stdout("unfit").expect_stdout("in-flight-impossible").expect_stdout("B01");
    Durio::new().words("explain --all unfit").run().expect_exit(2).expect_stderr("--all");
}

#[test]
fn without_an_id_a_screen_has_every_word_and_the_begin_of_each_kind() {
    let ended = Durio::new().words("explain").run().expect_exit(0).expect_no_stderr();
    let text = ended.text();
    assert!(text.lines().count() <= 30, "{text}");
    for kind in ["words ", "warnings ", "signals ", "audit ", "causes ", "advice "] {
        assert!(text.lines().any(|line| line.starts_with(kind)), "{kind}:\n{text}");
    }
    for id in ["unfit", "commit-group-1", "bound-by", "stopped", "in-flight-impossible", "B01"] {
        assert!(text.contains(id), "{id}:\n{text}");
    }
    assert!(
        text.starts_with("What reports say: durio explain ID, or durio explain --all"),
        "{text}"
    );
}

#[test]
fn an_id_is_found_as_reports_print_it() {
    for id in ["not-steady", "NOT STEADY", "not_steady"] {
        let ended = Durio::new().words("explain").word(id).run().expect_exit(0);
        // The word of the headline, and the warning of a campaign.
        ended.expect_stdout("word of a report").expect_stdout("not-steady: warning");
    }
    let ended = Durio::new().words("explain b01").run().expect_exit(0).expect_no_stderr();
    ended.expect_stdout("Set the I/O scheduler of NVMe disks to none").expect_stdout("undo ");
    Durio::new().words("explain scheduler-nvme").run().expect_exit(0).expect_stdout("B01");
}

#[test]
fn what_a_screen_shows_has_an_explanation() {
    for (id, heading, what) in [
        (
            "commit-group-1",
            "commit-group-1: word of a report",
            "written and synced in batches of 4 KiB",
        ),
        ("lookup", "lookup: word of a report", "random reads of 8 KiB"),
        ("p99", "p99: word of a report", "99 of 100 operations took this time or less"),
        ("headroom", "headroom: word of a report", "before it misses the limit"),
        ("disk ×2", "disk-x2: word of a report", "upper bound with storage twice as fast"),
        ("per sync", "per-sync: word of a report", "made durable by one sync of the log"),
        ("new bytes per sync", "new-bytes-per-sync: word of a report", "capture: bytes written"),
        ("parallel syncs", "parallel-syncs: word of a report", "in progress at the same time"),
        ("at risk", "at-risk: word of a report", "could still have lost"),
        ("wake-ups", "wake-ups: word of a report", "reports say waits"),
        ("bound by waits", "bound-by: word of a report", "disk, CPU, waits, or the offered rate"),
        ("caveats (7)", "caveats: word of a report", "most severe first"),
        ("B p99", "p99: word of a report", "99 of 100 operations"),
        ("× raw", "x-raw: word of a report", "divided by that of the raw storage below"),
    ] {
        let ended = Durio::new().words("explain").word(id).run().expect_exit(0).expect_no_stderr();
        ended.expect_stdout(heading).expect_stdout(what);
    }
}

#[test]
fn a_database_is_explained_with_its_limits_and_leads_to_its_profile() {
    let ended = Durio::new().words("explain cockroachdb").run().expect_exit(0).expect_no_stderr();
    let ended = ended.expect_stdout("cockroachdb: word of a report");
    let ended = ended.expect_stdout("a database: CockroachDB 26 with Pebble");
    let ended = ended.expect_stdout("500 I/Os per second for each vCPU");
    ended.expect_stdout("durio profile show cockroachdb");
}

#[test]
fn an_unknown_id_names_one_that_is_like_it() {
    let ended = Durio::new().words("explain flush-cost").run().expect_exit(2).expect_no_stdout();
    ended.expect_stderr("unknown name 'flush-cost'").expect_stderr("did you mean flush-");
}

#[test]
fn as_json_it_is_what_the_book_is_written_from() {
    let ended = Durio::new().words("explain --json").run().expect_exit(0).expect_no_stderr();
    let document: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "durio-explain-1");
    let all = document["explanations"].as_array().unwrap();
    let is_whole = |it: &&serde_json::Value| {
        ["id", "kind", "what"].iter().all(|key| it[key].as_str().is_some_and(|it| !it.is_empty()))
    };
    assert_eq!(all.iter().filter(is_whole).count(), all.len());
}
