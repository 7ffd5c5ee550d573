//! What a report says where little or much ran: nothing measured is no figure, and many jobs of one
//! section are one row.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// 25 accesses of four are done long before a ramp of half a minute is over.
const SHORT: &str = "[short]\nrw=randread\nbs=4k\nsize=1m\nio_size=100k\niodepth=4\n\
                     filename=data/short.dat\nramp_time=30s\n";

/// 32 jobs of 16 accesses each.
const MANY: &str = "[reader]\nrw=randread\nbs=4k\nsize=1m\nio_size=64k\niodepth=2\nnumjobs=32\n\
                    filename=data/many.dat\n";

fn job(sandbox: &Sandbox, text: &str) {
    std::fs::write(sandbox.root().join("job.fio"), text).unwrap();
}

#[test]
fn a_job_that_is_done_before_its_ramp_is_unmeasured_and_no_figure() {
    let sandbox = Sandbox::new();
    job(&sandbox, SHORT);
    for line in ["run job.fio", "fio --format text job.fio"] {
        let ended = sandbox.durio(line).run().expect_exit(3);
        let ended = ended.expect_stderr("nothing was measured of short: ");
        let text = ended.expect_stderr("what was done in the ramp is no figure here").text();
        let row = text.lines().find(|line| line.starts_with("short ")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["short", "-"], "{text}");
        assert!(text.contains("doubts  unmeasured (short)"), "{text}");
        assert!(!text.contains("Little's law"), "{text}");
    }
    // Programs that call fio get no result rather than zeros.
    let fio = sandbox.durio("fio --output-format=json job.fio").run().expect_exit(3);
    fio.expect_stderr("nothing was measured of short").expect_no_stdout();
    let run = sandbox.runs().pop().unwrap();
    let ended = sandbox.durio("report --json").word(run).run();
    let document = ended.json();
    assert_eq!(document["workloads"][0]["operations"], Value::Array(Vec::new()));
    assert_eq!(document["warnings"][0]["code"], "unmeasured");
}

#[test]
fn many_jobs_of_a_section_are_one_row_with_their_sum_and_one_account() {
    let sandbox = Sandbox::new();
    job(&sandbox, MANY);
    let json = sandbox.durio("run --json job.fio").run().expect_exit(0).json();
    let workloads = json["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), 1);
    assert_eq!(workloads[0]["operations"][0]["service"]["count"], 32 * 16);
    assert_eq!(workloads[0]["effective"]["jobs"], 32);
    for warning in json["warnings"].as_array().unwrap() {
        let seen = warning["seen"].as_str().unwrap();
        assert!(seen.matches("reader").count() <= 1, "{seen}");
    }
    let text = sandbox.durio("report --verbose").word(sandbox.the_run()).run().text();
    let begins = |begin: &str| text.lines().filter(|line| line.starts_with(begin)).count();
    assert_eq!(begins("reader "), 1, "{text}");
    assert_eq!(text.matches("32 jobs × depth 1").count(), 1, "{text}");
}

#[test]
fn in_fios_formats_each_job_keeps_its_row_unless_the_group_is_reported() {
    let sandbox = Sandbox::new();
    for (more, rows, each) in [("", 32, 16), ("group_reporting\n", 1, 512)] {
        job(&sandbox, &format!("{MANY}{more}"));
        let fio = sandbox.durio("fio --output-format=json job.fio").run().expect_exit(0).text();
        // Notes of durio come before and after.
        let document: Value =
            serde_json::from_str(&fio[fio.find('{').unwrap()..=fio.rfind('}').unwrap()]).unwrap();
        let jobs = document["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), rows);
        for row in jobs {
            assert_eq!(row["read"]["total_ios"], each, "{row}");
            assert_eq!(row["jobname"], "reader");
        }
    }
}
