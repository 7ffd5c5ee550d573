//! Records of every kind and version, made before December 2026: they report the figures that they did.
//!
//! In: `records/*.tar.gz`, each a folder as a command left it, with its own `findings.json`. Out: every
//! field that was there is there, with the same value; a field may have been added. A record that
//! differs is never written anew: either the reader is wrong, or figures changed, and then
//! CHANGELOG.md says why and the record's findings are replaced by hand.
//!
//! What people and other programs read of each is kept beside, `records/KIND.FORMAT`, and compared whole;
//! `DURIO_TEST_REWRITE=1` writes that anew, for words and columns may change.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::Sandbox;

const RECORDS: [(&str, &[u8]); 13] = [
    ("campaign", include_bytes!("records/campaign.tar.gz")),
    ("check", include_bytes!("records/check.tar.gz")),
    ("durable", include_bytes!("records/durable.tar.gz")),
    ("fio", include_bytes!("records/fio.tar.gz")),
    ("log", include_bytes!("records/log.tar.gz")),
    ("path", include_bytes!("records/path.tar.gz")),
    ("predict", include_bytes!("records/predict.tar.gz")),
    ("profile", include_bytes!("records/profile.tar.gz")),
    ("proof", include_bytes!("records/proof.tar.gz")),
    ("stack", include_bytes!("records/stack.tar.gz")),
    ("sweep", include_bytes!("records/sweep.tar.gz")),
    ("v1", include_bytes!("records/v1.tar.gz")),
    ("v2", include_bytes!("records/v2.tar.gz")),
];

/// Where the folder is, and what a finding means and asks for: sentences may be worded better, the
/// finding's code beside them stays.
const NO_FIGURES: [&str; 4] = ["run_folder", "implies", "advice", "sentence"];

fn unpack(archive: &[u8], folder: &Path) {
    let file = folder.join("record.tar.gz");
    std::fs::write(&file, archive).unwrap();
    let status = Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(folder).status();
    assert!(status.unwrap().success());
    std::fs::remove_file(file).unwrap();
}

/// Adds the paths of fields that are gone or have another value.
fn compare(before: &Value, now: &Value, path: &str, differing: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            for (key, before) in
                before.iter().filter(|(key, _)| !NO_FIGURES.contains(&key.as_str()))
            {
                let path = format!("{path}.{key}");
                match now.get(key) {
                    Some(now) => compare(before, now, &path, differing),
                    None => differing.push(format!("{path} is gone, was {before}")),
                }
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (at, (before, now)) in before.iter().zip(now).enumerate() {
                compare(before, now, &format!("{path}[{at}]"), differing);
            }
        }
        _ if before != now => differing.push(format!("{path} is {now}, was {before}")),
        _ => {}
    }
}

#[test]
fn a_record_of_each_kind_reports_the_figures_that_it_did() {
    let sandbox = Sandbox::new();
    let mut differing = Vec::new();
    for (kind, archive) in RECORDS {
        unpack(archive, sandbox.root());
        let folder = sandbox.root().join(kind);
        let before = std::fs::read(folder.join("findings.json")).unwrap();
        let before = serde_json::from_slice(&before).unwrap();
        let now = sandbox.durio("report --format json").word(&folder).run().expect_exit(0);
        compare(&before, &now.expect_no_stderr().json(), kind, &mut differing);
    }
    assert!(differing.is_empty(), "{} fields:\n{}", differing.len(), differing.join("\n"));
}

/// Endings of the files that are compared, with the options that make them.
const FORMATS: [(&str, &str); 7] = [
    ("txt", "text"),
    ("verbose.txt", "text --verbose"),
    ("md", "markdown --verbose"),
    ("csv", "csv"),
    ("prom", "openmetrics"),
    ("fio.json", "fio-json"),
    ("html", "html"),
];

#[test]
fn a_record_of_each_kind_reads_in_each_format_as_it_did() {
    let sandbox = Sandbox::new();
    let rewrites = std::env::var_os("DURIO_TEST_REWRITE").is_some();
    // Of one length everywhere: where lines are broken depends on it.
    let place = tempfile::Builder::new().prefix("records-").tempdir_in("/tmp").unwrap();
    let mut differing = Vec::new();
    for (kind, archive) in RECORDS {
        unpack(archive, place.path());
        for (ending, format) in FORMATS {
            let now = report(&sandbox, &place.path().join(kind), format);
            let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/records");
            let kept = kept.join(format!("{kind}.{ending}"));
            if rewrites {
                fs::write(&kept, &now).unwrap();
            }
            let before = fs::read_to_string(&kept).unwrap_or_default();
            differing
                .extend(first_difference(&before, &now).map(|it| format!("{kind}.{ending}: {it}")));
        }
    }
    assert!(differing.is_empty(), "DURIO_TEST_REWRITE=1 accepts it:\n{}", differing.join("\n"));
}

#[test]
fn the_screens_of_a_check_of_two_places_a_study_and_advice_have_thirty_lines_of_100_columns() {
    let sandbox = Sandbox::new();
    let two = RECORDS.iter().filter(|(kind, _)| ["check", "durable"].contains(kind));
    two.for_each(|(_, archive)| unpack(archive, sandbox.root()));
    // With a file no server is asked.
    fs::write(sandbox.root().join("empty.conf"), "").unwrap();
    for (line, kind) in [
        ("report", "check"),
        ("report", "durable"),
        ("advise data --database postgresql --config empty.conf --run", "durable"),
    ] {
        let ended = sandbox.durio(line).word(sandbox.root().join(kind)).run().expect_exit(0);
        let text = ended.text();
        assert!(text.lines().count() <= 30, "{} lines:\n{text}", text.lines().count());
        // Commands and paths are not broken.
        let is_whole = |line: &&str| line.contains(" durio ") || line.contains("report: ");
        let wide = text.lines().filter(|line| !is_whole(line));
        let wide: Vec<&str> = wide.filter(|line| line.chars().count() > 100).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}

/// What durio says of a record, without what differs from one place and build to another.
fn report(sandbox: &Sandbox, folder: &Path, format: &str) -> String {
    let ended = sandbox.durio(&format!("report --format {format}")).word(folder).run();
    if ended.code() == 2 {
        return "this kind of record has no such format\n".to_owned();
    }
    let text = ended.expect_exit(0).expect_no_stderr().text();
    let place = folder.parent().unwrap().to_string_lossy();
    let text = text.replace(&*place, "/records");
    // The policy names the script.
    let is_kept = |line: &&str| !line.contains("Content-Security-Policy");
    let text: String = text.lines().filter(is_kept).map(|line| line.to_owned() + "\n").collect();
    without("<style>", "</style>", &without("<script>", "</script>", &text))
}

/// Style and script of a page are no part of what it says.
fn without(from: &str, to: &str, text: &str) -> String {
    match text.split_once(from).and_then(|(before, rest)| Some((before, rest.split_once(to)?.1))) {
        Some((before, after)) => format!("{before}{after}"),
        None => text.to_owned(),
    }
}

fn first_difference(before: &str, now: &str) -> Option<String> {
    let mut lines = before.lines().zip(now.lines()).enumerate();
    match lines.find(|(_, (before, now))| before != now) {
        Some((at, (before, now))) => {
            let alike = before.chars().zip(now.chars()).take_while(|(one, other)| one == other);
            let skipped = alike.count().saturating_sub(30);
            let part = |line: &str| line.chars().skip(skipped).take(160).collect::<String>();
            Some(format!("line {}: '{}' is '{}' now", at + 1, part(before), part(now)))
        }
        None if before != now => {
            Some(format!("{} lines, now {}", before.lines().count(), now.lines().count()))
        }
        None => None,
    }
}

#[test]
fn the_first_line_that_differs_is_named_with_what_it_says() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    let said = first_difference("a\nb\n", "a\nc\n").unwrap();
    assert_eq!(said, "line 2: 'b' is 'c' now");
    assert_eq!(first_difference("a\n", "a\nb\n").unwrap(), "1 lines, now 2");
    assert_eq!(first_difference("", "a\n").unwrap(), "0 lines, now 1");
}

#[test]
fn a_field_that_changed_or_went_is_told_with_its_path() {
    let before = serde_json::json!({ "a": [{ "b": 1, "c": 2, "advice": "x" }], "run_folder": "x" });
    let now = serde_json::json!({ "a": [{ "b": 2, "d": 3 }] });
    let mut differing = Vec::new();
    compare(&before, &now, "", &mut differing);
    assert_eq!(differing, [".a[0].b is 2, was 1", ".a[0].c is gone, was 2"]);
    differing.clear();
    compare(&serde_json::json!([1]), &serde_json::json!([1, 2]), "a", &mut differing);
    assert_eq!(differing, ["a is [1,2], was [1]"]);
}
