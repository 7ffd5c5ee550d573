//! Records of every kind and version, made before December 2026: they report the figures that they did.
//!
//! In: `records/*.tar.gz`, each a folder as a command left it, with its own `findings.json`. Out: every
//! field that was there is there, with the same value; a field may have been added. A record that
//! differs is never written anew: either the reader is wrong, or figures changed, and then
//! CHANGELOG.md says why and the record's findings are replaced by hand.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::Sandbox;

const RECORDS: [(&str, &[u8]); 11] = [
    ("campaign", include_bytes!("records/campaign.tar.gz")),
    ("check", include_bytes!("records/check.tar.gz")),
    ("durable", include_bytes!("records/durable.tar.gz")),
    ("fio", include_bytes!("records/fio.tar.gz")),
    ("log", include_bytes!("records/log.tar.gz")),
    ("path", include_bytes!("records/path.tar.gz")),
    ("proof", include_bytes!("records/proof.tar.gz")),
    ("stack", include_bytes!("records/stack.tar.gz")),
    ("sweep", include_bytes!("records/sweep.tar.gz")),
    ("v1", include_bytes!("records/v1.tar.gz")),
    ("v2", include_bytes!("records/v2.tar.gz")),
];

/// Where the folder is, and what a finding means and asks for: sentences may be worded better, the
/// finding's code beside them stays.
const NO_FIGURES: [&str; 3] = ["run_folder", "implies", "advice"];

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
        for format in ["text", "csv", "html"] {
            let command = sandbox.durio("report --format").word(format).word(&folder);
            command.run().expect_exit(0).expect_no_stderr();
        }
    }
    assert!(differing.is_empty(), "{} fields:\n{}", differing.len(), differing.join("\n"));
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
