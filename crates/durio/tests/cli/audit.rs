//! `durio audit`: exit codes, findings as text and JSON, tables that cannot be read.

use std::fs;
use std::path::Path;

use crate::durio::Durio;
use crate::sandbox::Sandbox;

const HEADER: &str = "source,stack,workload,block_size,jobs,iodepth,durable,read_iops,\
                      read_latency_us,write_iops,write_latency_us,bandwidth_mb_s,\
                      read_latency_p99_us";

/// 990 ms of each second of its worker are accounted for, and it has a percentile.
const SOUND: &str = "a,b,randread,4k,1,1,,10000,99,,,,180";
const IMPOSSIBLE: &str = "a,b,randread,4k,1,1,,10000,500,,,,900";

fn published() -> String {
    let tables = "../durio-compare/data/published-results.csv";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(tables).display().to_string()
}

/// An audit of a table with these rows.
fn of_rows(sandbox: &Sandbox, rows: &[&str], options: &str) -> Durio {
    let table = format!("{HEADER}\n{}\n", rows.join("\n"));
    fs::write(sandbox.root().join("table.csv"), table).unwrap();
    sandbox.durio(&format!("audit table.csv {options}"))
}

#[test]
fn the_published_tables_have_rows_that_cannot_be_right() {
    let ended =
        Durio::new().words("audit").word(published()).run().expect_exit(1).expect_no_stderr();
    let text = ended.text();
    for words in ["line 8:", "line 49:", "line 79:", "line 101:", "584 GB/s", "56.8k/s × 70.93 µs"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let last = text.lines().last().unwrap();
    assert!(last.contains("in 186 rows: 6 impossible, 10 shortfall"), "{last}");
}

#[test]
fn json_has_line_rule_reason_and_evidence_of_every_finding() {
    let ended = Durio::new().words("audit --format json").word(published()).run().expect_exit(1);
    let document: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "durio-audit-1");
    assert_eq!(document["clean"], false);
    let findings = document["findings"].as_array().unwrap();
    let counts = document["counts"].as_object().unwrap();
    let counted: u64 = counts.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(findings.len() as u64, counted);
    for finding in findings {
        assert!(finding["line"].is_u64() && finding["rule"].is_string(), "{finding}");
        assert!(finding["reason"].is_string() && finding["evidence"].is_object(), "{finding}");
    }
    let impossible = findings.iter().filter(|finding| finding["tier"] == "impossible");
    let lines: Vec<_> = impossible.map(|finding| finding["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [49, 79, 80, 81, 82, 101]);
}

#[test]
fn a_sound_table_is_clean_and_one_without_impossible_figures_is_fine() {
    let sandbox = Sandbox::new();
    let ended = of_rows(&sandbox, &[SOUND], "").run().expect_exit(0).expect_no_stderr();
    ended.expect_stdout("clean: no finding in 1 row");
    let json = of_rows(&sandbox, &[SOUND], "--format json").run().expect_exit(0);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&document["clean"], &document["claims"]), (&true.into(), &1.into()));
    // 9912 has four digits that count; 10000 has one, and may have been anything up to 20000.
    let short = SOUND.replace("10000,99", "9912,41");
    of_rows(&sandbox, &[&short], "").run().expect_exit(0).expect_stdout("in-flight-shortfall");
    of_rows(&sandbox, &[SOUND, IMPOSSIBLE], "").run().expect_exit(1).expect_stdout("line 3:");
}

#[test]
fn an_audit_begins_no_run() {
    let sandbox = Sandbox::new();
    of_rows(&sandbox, &[SOUND], "").run().expect_exit(0);
    assert!(sandbox.runs().is_empty());
}

#[test]
fn wrong_use_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.durio("audit").run().expect_exit(2).expect_stderr("<FILE>");
    let ended = of_rows(&sandbox, &[SOUND], "--format fio-json").run().expect_exit(2);
    ended.expect_stderr("fio-json is not supported here").expect_stderr("text, json, html");
}

#[test]
fn what_cannot_be_read_is_told_with_its_place_and_what_to_do() {
    let sandbox = Sandbox::new();
    let broken = |name: &str, bytes: &[u8]| {
        fs::write(sandbox.root().join(name), bytes).unwrap();
        let ended = sandbox.durio(&format!("audit {name}")).run().expect_exit(3).expect_no_stdout();
        ended.expect_stderr(name).expect_stderr("hint:")
    };
    sandbox.durio("audit nothing.csv").run().expect_exit(3).expect_stderr("nothing.csv");
    sandbox.durio("audit data").run().expect_exit(3).expect_stderr("cannot audit 'data'");
    broken("empty.csv", b"").expect_stderr("empty");
    broken("other.csv", b"a,b\n1,2\n").expect_stderr("bandwidth_mb_s");
    broken("fio.json", b"{\n  \"fio version\" : \"fio-3.33\"\n}\n").expect_stderr("JSON");
    broken("garbage.csv", &[0xff, 0xfe, 0, 1, 2]).expect_stderr("line 1");
    let cut = format!("{HEADER}\n{SOUND}\na,\"b");
    broken("cut.csv", cut.as_bytes()).expect_stderr("line 3").expect_stderr("never closed");
    let unit = format!("{HEADER}\n{}\n", SOUND.replace("10000", "10 parsecs"));
    broken("unit.csv", unit.as_bytes()).expect_stderr("line 2, column read_iops");
}
