//! `durio explain`: every word of a report, by its id.

use crate::durio::Durio;

#[test]
fn without_an_id_everything_is_listed_by_kind() {
    let ended = Durio::new().words("explain").run().expect_exit(0).expect_no_stderr();
    let ended = ended.expect_stdout("Warnings about figures").expect_stdout("flush-fast");
    ended.expect_stdout("unfit").expect_stdout("in-flight-impossible").expect_stdout("B01");
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
fn an_unknown_id_names_one_that_is_like_it() {
    let ended = Durio::new().words("explain flush").run().expect_exit(2).expect_no_stdout();
    ended.expect_stderr("unknown name 'flush'").expect_stderr("did you mean flush-");
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
