//! What a report says where little or much ran: nothing measured is no figure, and many jobs of one
//! section are one row.

use std::process::{Child, Command};

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
        let text = ended.expect_stderr("operations during the ramp do not count here").text();
        let row = text.lines().find(|line| line.starts_with("short ")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["short", "-"], "{text}");
        let caveats = text.lines().find(|line| line.starts_with("caveats (")).unwrap();
        assert!(caveats.contains("unmeasured"), "{text}");
        assert!(text.starts_with("Unknown: nothing was measured"), "{text}");
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

/// A goal that no storage meets: whoever reads the document alone learns of it from its first field.
#[test]
fn the_answer_is_the_first_line_of_every_format_and_names_a_missed_goal() {
    let sandbox = Sandbox::new();
    let line = "check data --quiet --json --duration 2s --size 8MiB --workload commit --goal";
    // Beside other work the results may contradict each other, which decides nothing.
    let mut ended = (0..5).map(|_| sandbox.durio(line).word("commit mean < 1ns").run());
    let ended = ended.find(|ended| ended.code() != 3).unwrap().expect_exit(1);
    let text = ended.text();
    assert!(text.starts_with("{\n  \"summary\": {\n    \"verdict\": \"bad\","), "{text}");
    let summary = ended.json()["summary"].clone();
    let said = "Bad: goal missed: commit mean < 1ns (";
    assert!(summary["sentence"].as_str().unwrap().starts_with(said), "{summary}");
    assert!(summary["headline"][0]["value"].as_f64().unwrap() > 0.0, "{summary}");
    let run = sandbox.runs().pop().unwrap();
    let report = |format: &str| {
        sandbox.durio("report --format").word(format).word(&run).run().expect_exit(0).text()
    };
    let text = report("text");
    assert!(text.starts_with(said), "{text}");
    assert!(text.lines().count() <= 30, "{text}");
    let markdown = report("markdown");
    assert!(markdown.starts_with("# **Bad**: goal missed: commit mean"), "{markdown}");
    let page = report("html");
    let (_, heading) = page.split_once("<h1><span class=\"verdict-word bad\">").unwrap();
    let (heading, _) = heading.split_once("</h1>").unwrap();
    assert!(heading.contains("Bad") && heading.contains(" goal missed: commit mean"), "{heading}");
}

#[test]
fn a_check_and_a_study_of_durable_writes_fit_a_screen_below_their_sentence() {
    let sandbox = Sandbox::new();
    for line in [
        "check data --duration 150ms --size 8MiB",
        "durable data --quick --size 8MiB --only methods",
    ] {
        let ended = sandbox.durio(line).words("--quiet").run().expect_exit(0);
        let text = ended.text();
        let first = text.lines().next().unwrap();
        let words = ["Good", "Caution", "Unknown", "Bad"];
        assert!(words.iter().any(|word| first.starts_with(word)), "{text}");
        assert!(text.lines().count() <= 30, "{} lines:\n{text}", text.lines().count());
        assert!(
            text.lines().all(|line| line.chars().count() <= 100
                || line.contains("  # ")
                || line.starts_with("  report: ")),
            "{text}"
        );
    }
}

/// Programs that compute beside a run, until this goes.
struct BusyLoops(Vec<Child>);

impl BusyLoops {
    fn start(count: usize) -> Self {
        let one = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..count).map(one).collect())
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn work_of_other_programs_is_in_the_sentence() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --rw randread --size 4MiB --duration 1500ms --target data";
    let processors = std::thread::available_parallelism().unwrap().get();
    let busy = BusyLoops::start(processors);
    sandbox.durio(line).run().expect_exit(0);
    drop(busy);
    let run = sandbox.the_run();
    let json = sandbox.durio("report --json").word(&run).run().expect_exit(0).json();
    let cores = json["workloads"][0]["cpu"]["foreign_cores"].as_f64().unwrap();
    assert!(cores > 0.25, "{cores}");
    let sentence = json["summary"]["sentence"].as_str().unwrap();
    assert!(sentence.contains(&format!("other work used {cores:.1} of ")), "{sentence}");
}
