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
    let tables = "../measure/judge/data/published-results.csv";
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

const PLAIN_HEADER: &str = "source,stack,workload,block_size,jobs,iodepth,durable,read_iops,\
                            read_latency_us,write_iops,write_latency_us,bandwidth_mb_s";

/// Reasons of the findings of a rule, by line.
fn reasons(document: &serde_json::Value, rule: &str) -> Vec<(String, String)> {
    let findings = document["findings"].as_array().unwrap();
    let of_rule = findings.iter().filter(|it| it["rule"] == rule);
    of_rule.map(|it| (it["line"].to_string(), it["reason"].as_str().unwrap().to_owned())).collect()
}

fn audited(sandbox: &Sandbox, name: &str, text: &str, exit: i32) -> serde_json::Value {
    fs::write(sandbox.root().join(name), text).unwrap();
    sandbox.durio(&format!("audit {name} --format json")).run().expect_exit(exit).json()
}

#[test]
fn a_sync_that_is_given_alone_is_held_against_the_rate() {
    let sandbox = Sandbox::new();
    let table = format!(
        "{PLAIN_HEADER},sync_latency_us,engine,direct\n\
         a page,sata raid,write,4k,1,1,fsync each,,,86,,,4.3,psync,no\n\
         a page,nvme mirror,write,4k,1,1,fsync each,,,1900,,,4.2,psync,no\n"
    );
    let document = audited(&sandbox, "sync.csv", &table, 0);
    let found = reasons(&document, "in-flight-shortfall");
    let lines: Vec<&str> = found.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(lines, ["2", "3"], "{document}");
    assert!(
        found[0].1.contains("11.63 ms for each") && found[0].1.contains("99.96 %"),
        "{document}"
    );
    assert!(
        found[1].1.contains("526.3 µs for each") && found[1].1.contains("99.2 %"),
        "{document}"
    );
}

#[test]
fn units_that_are_written_are_believed_and_a_lost_carry_is_named() {
    let sandbox = Sandbox::new();
    let table = format!(
        "{PLAIN_HEADER}\n\
         a page,array one,randread,4k,64,64,,11.7M,,,,46 GB/s\n\
         a page,array two,randread,4k,64,64,,20.4M,,,,81.5 GB/s\n\
         a page,disk,read,32k,1,1,,735,,,,22.0 MiB/s\n"
    );
    let document = audited(&sandbox, "units.csv", &table, 1);
    let found = reasons(&document, "bandwidth-impossible");
    assert_eq!(found.len(), 3, "{document}");
    assert!(found.iter().all(|(_, reason)| !reason.contains("it fits if")), "{document}");
    assert!(found[0].1.ends_with("the bandwidth is given as 46 GB/s"), "{document}");
    assert!(found[1].1.ends_with("the bandwidth is given as 81.5 GB/s"), "{document}");
    assert!(
        found[2].1.contains("loses the carry of its rounding, and prints 22.97 MiB/s as 22 MiB/s")
    );
}

/// A result of fio whose one job did 10,000 reads and as many writes per second for 400 s, of this mean latency.
fn mixed(jobname: &str, name: &str, mean_ns: u64) -> String {
    let side = format!(
        "{{\"io_bytes\":16384000000,\"bw_bytes\":40960000,\"bw\":40000,\"iops\":10000.0,\"runtime\":400000,\
         \"total_ios\":4000000,\"lat_ns\":{{\"min\":20000,\"max\":900000,\"mean\":{mean_ns}.0,\"N\":4000000,\
         \"percentile\":{{\"50.000000\":{mean_ns},\"99.000000\":150000,\"99.990000\":400000}}}}}}"
    );
    format!(
        "{{\"fio version\":\"fio-3.33\",\"timestamp\":1700000000,\"jobs\":[{{\"jobname\":\"{jobname}\",\
         \"job options\":{{\"name\":\"{name}\",\"rw\":\"rw\",\"bs\":\"4k\",\"direct\":\"1\",\"ioengine\":\"psync\",\
         \"size\":\"8g\"}},\"read\":{side},\"write\":{side},\"usr_cpu\":2.0,\"sys_cpu\":9.0}}]}}\n"
    )
}

#[test]
fn all_results_of_a_file_are_audited() {
    let sandbox = Sandbox::new();
    // 1.99 in flight at depth 1; then 0.99.
    let first = mixed("first", "first", 99_500);
    let sound = mixed("second", "second", 49_500);
    let document = audited(&sandbox, "two.json", &format!("{first}Jobs: 1\n{sound}"), 1);
    assert_eq!(document["claims"], 2);
    let found = reasons(&document, "in-flight-impossible");
    assert_eq!(found.len(), 1, "{document}");
    assert_eq!(found[0].0, "1", "{document}");
    assert!(document["notes"][0].as_str().unwrap().starts_with("2 results are in the file"));
    let alone = audited(&sandbox, "one.json", &sound, 0);
    assert_eq!((&alone["claims"], alone["notes"].as_array().unwrap().len()), (&1.into(), 0));
}

#[test]
fn a_name_that_fio_cut_off_does_not_hide_the_options() {
    let sandbox = Sandbox::new();
    let settings: Vec<String> =
        (0..9).map(|number| format!("setting{number}=value{number}")).collect();
    let name = format!("nightly read of the second array, {}", settings.join(", "));
    let document = audited(&sandbox, "long.json", &mixed(&name[..127], &name, 49_500), 0);
    assert_eq!(document["clean"], true, "{document}");
}
