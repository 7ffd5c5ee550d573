//! `durio fio` in fio's place: the same words give output of the same form, field by field, as the
//! installed fio prints; scripts that call fio find what they look for.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::requirements::{has, skip};
use crate::sandbox::Sandbox;

/// Jobs with few differences in their form and all of those that matter.
const JOBS: [&str; 7] = [
    "--name=rr --rw=randread --ioengine=psync --bs=4k",
    "--name=wal --rw=write --ioengine=psync --bs=8k --fdatasync=1 --description=two_words",
    "--name=mixed --rw=randrw --rwmixread=70 --ioengine=libaio --direct=1 --iodepth=4",
    "--bs=16k --direct=1 --name=group --rw=randread --numjobs=3 --group_reporting",
    "--name=copies --rw=randread --direct=1 --numjobs=2",
    "--direct=1 --rw=read --name=one --bs=4k --name=two --stonewall --bs=64k --name=three",
    "--name=lists --rw=randread --ioengine=libaio --direct=1 --iodepth=8 --lat_percentiles=1 \
     --slat_percentiles=1 --percentile_list=50:99.9",
];

/// The words of a job, with what is common to all.
fn words(job: &str, format: &str) -> Vec<String> {
    let common = format!("{format} --directory=work --size=4m");
    // What is common has to stand before the first job.
    common.split_whitespace().chain(job.split_whitespace()).map(str::to_owned).collect()
}

struct Both {
    sandbox: Sandbox,
}

impl Both {
    fn new() -> Option<Self> {
        if !has(&["fio"]) {
            return None;
        }
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.root().join("work")).unwrap();
        Some(Self { sandbox })
    }

    /// What fio prints, and what durio does.
    fn print(&self, words: &[String]) -> (String, String) {
        let output = Command::new("fio").args(words).current_dir(self.sandbox.root()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        for entry in fs::read_dir(self.sandbox.root().join("work")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let mut durio = self.sandbox.durio("fio");
        for word in words {
            durio = durio.word(word);
        }
        let durio = durio.run().expect_exit(0);
        (String::from_utf8(output.stdout).unwrap(), durio.text())
    }
}

/// Each path in a document with the kind of what stands there; keys of bins and of figures that only
/// some storage has are left out.
fn form(document: &Value) -> BTreeMap<String, &'static str> {
    fn walk(path: &str, value: &Value, form: &mut BTreeMap<String, &'static str>) {
        let kind = match value {
            Value::Object(map) => {
                for (key, value) in map.iter().filter(|(key, _)| !key.starts_with("aggr_")) {
                    let key = if path.ends_with("bins") { "#" } else { key };
                    walk(&format!("{path}/{key}"), value, form);
                }
                "object"
            }
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    walk(&format!("{path}[{index}]"), value, form);
                }
                "list"
            }
            Value::Number(number) if number.is_f64() => "figure",
            Value::Number(_) => "count",
            Value::String(_) => "text",
            Value::Bool(_) | Value::Null => "other",
        };
        form.insert(path.to_owned(), kind);
    }
    let mut found = BTreeMap::new();
    walk("", document, &mut found);
    found
}

/// fio prints notes before it.
fn document(text: &str) -> Value {
    serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap()
}

#[test]
fn documents_have_the_keys_types_rows_and_options_of_fio_s() {
    let Some(both) = Both::new() else { return };
    for (job, format) in JOBS.iter().zip(["json", "json+"].iter().cycle()) {
        let (fio, durio) = both.print(&words(job, &format!("--output-format={format}")));
        // Nothing but the document.
        let durio: Value = serde_json::from_str(&durio).unwrap();
        let fio = document(&fio);
        assert_eq!(form(&durio), form(&fio), "{job}");
        assert_eq!(durio["global options"], fio["global options"], "{job}");
        for (durio, fio) in
            durio["jobs"].as_array().unwrap().iter().zip(fio["jobs"].as_array().unwrap())
        {
            for key in ["jobname", "groupid", "error", "job options", "desc", "latency_depth"] {
                assert_eq!(durio[key], fio[key], "{job}: {key}");
            }
            // Which accesses of a mix are reads is drawn.
            let is_drawn = job.contains("randrw");
            for key in ["total_ios", "io_bytes", "io_kbytes"].iter().filter(|_| !is_drawn) {
                assert_eq!(durio["read"][key], fio["read"][key], "{job}: {key}");
                assert_eq!(durio["write"][key], fio["write"][key], "{job}: {key}");
            }
        }
    }
}

/// What a field of the terse format is.
fn kind(field: &str) -> String {
    let is_digit = |character: char| character.is_ascii_digit();
    if let Some((percent, _)) = field.split_once("%=") {
        return format!("{percent}%=");
    }
    let is_figure = field.contains('.') || field.ends_with('%');
    let decimals = field.split_once('.').map_or(0, |(_, it)| it.trim_end_matches('%').len());
    match (field.starts_with(is_digit), is_figure) {
        (true, true) => {
            format!("figure of {decimals}{}", &field[field.trim_end_matches('%').len()..])
        }
        (true, false) => "count".to_owned(),
        _ => field.split('-').next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn terse_lines_have_fio_s_fields_in_all_versions() {
    let Some(both) = Both::new() else { return };
    for (version, job) in [(2, 1), (3, 2), (3, 4), (3, 6), (4, 3), (5, 0)] {
        let job = JOBS[job];
        let format = format!("--output-format=terse --terse-version={version}");
        let (fio, durio) = both.print(&words(job, &format));
        let of_job = |text: &str| -> Vec<Vec<String>> {
            let lines = text.lines().filter(|line| line.contains(';'));
            lines.map(|line| line.split(';').map(kind).collect()).collect()
        };
        let (fio, durio) = (of_job(&fio), of_job(&durio));
        assert!(!fio.is_empty());
        assert_eq!(durio, fio, "{job}");
    }
}

/// The beginnings of lines of fio's text, by which scripts find them; how many lines latencies,
/// percentiles and samples take depends on the figures.
fn shape(text: &str) -> Vec<String> {
    let begins = |line: &&str| {
        let line = line.trim_start();
        !line.is_empty() && !["|", "lat (", "bw (", "iops  "].iter().any(|it| line.starts_with(it))
    };
    let word = |line: &str| -> String {
        let line = line.split(['(', '=', '/']).next().unwrap_or_default();
        line.split_once("Laying out").map_or(line, |(name, _)| name).trim_end().to_owned()
    };
    let lines = text.lines().filter(begins).filter(|line| !line.contains("Laying out"));
    lines.map(|line| if line.starts_with("fio-") { "fio".to_owned() } else { word(line) }).collect()
}

#[test]
fn the_text_has_the_lines_that_scripts_look_for() {
    let Some(both) = Both::new() else { return };
    for job in JOBS {
        // Without words about formats, as most scripts call it.
        let (fio, durio) = both.print(&words(job, "--eta=never"));
        assert_eq!(shape(&durio), shape(&fio), "{job}\n{fio}\n{durio}");
    }
    let (_, durio) = both.print(&words(JOBS[1], "--output-format=normal"));
    for part in
        ["write: IOPS=", ", BW=", "lat (usec", "clat percentiles", "min=", "Run status group 0"]
    {
        assert!(durio.contains(part), "{part}: {durio}");
    }
}

#[test]
fn several_formats_stand_in_fio_s_order_and_output_takes_them_all() {
    let sandbox = Sandbox::new();
    let line = "fio --output=all.txt --output-format=json,normal,terse --name=a --directory=data \
                --rw=randread --size=1m";
    let ended = sandbox.durio(line).run().expect_exit(0).expect_no_stderr();
    // Notes go where no program looks for results, and to stderr only where they do not.
    ended.expect_stdout("note: ");
    let text = fs::read_to_string(sandbox.root().join("all.txt")).unwrap();
    let at = |part: &str| text.find(part).unwrap();
    let order = [at("a: (g=0): rw=randread"), at("\n3;fio-"), at("\n{\n"), at("a: (groupid=0")];
    assert!(order.is_sorted(), "{order:?}");
    assert!(!text.contains("note:"));
}

#[test]
fn results_so_far_are_printed_at_each_status_interval_below_one_head() {
    let sandbox = Sandbox::new();
    let printed = |options: &str| {
        let job = "--name=a --directory=data --rw=randread --size=1m --bs=4k --ioengine=psync \
                   --runtime=2 --time_based";
        sandbox.durio(&format!("fio --eta=never {options} {job}")).run().expect_exit(0).text()
    };
    let reads = |text: &str| -> Vec<u64> {
        let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let reads =
            documents.map(|document| document.unwrap()["jobs"][0]["read"]["total_ios"].as_u64());
        reads.map(Option::unwrap).collect()
    };
    let counts = reads(&printed("--output-format=json --status-interval=500ms"));
    // Each from the start of the jobs.
    assert!((2..=5).contains(&counts.len()) && counts.is_sorted(), "{counts:?}");
    assert!(counts[0] > 0 && counts.first() < counts.last(), "{counts:?}");
    assert_eq!(reads(&printed("--output-format=json --status-interval=1m")).len(), 1);

    let text = printed("--status-interval=500ms");
    assert_eq!(text.matches("a: (g=0): rw=randread").count(), 1, "{text}");
    assert!((2..=5).contains(&text.matches("a: (groupid=0").count()), "{text}");
}

#[test]
fn logs_have_fio_s_names_and_columns() {
    let Some(both) = Both::new() else { return };
    let job = "--name=a --rw=randrw --ioengine=psync --numjobs=2 --runtime=1 --time_based \
               --write_bw_log=L --write_lat_log=L --write_iops_log=L --log_avg_msec=250";
    let read = || {
        let mut logs = BTreeMap::new();
        for entry in fs::read_dir(both.sandbox.root()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|it| it == "log") {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                logs.insert(name, fs::read_to_string(&path).unwrap());
                fs::remove_file(path).unwrap();
            }
        }
        logs
    };
    let words = words(job, "--output-format=json");
    let fio = {
        let output = Command::new("fio").args(&words).current_dir(both.sandbox.root()).output();
        assert!(output.unwrap().status.success());
        read()
    };
    let (_, document) = both.print(&words);
    let durio = read();
    assert_eq!(durio.keys().collect::<Vec<_>>(), fio.keys().collect::<Vec<_>>());
    let mut compared = 0;
    for (name, text) in &durio {
        let columns = |line: &str| line.split(", ").count();
        let parse = |line: &str| -> [u64; 5] {
            let fields: Vec<u64> = line.split(", ").map(|it| it.parse().unwrap()).collect();
            fields.try_into().unwrap()
        };
        let rows: Vec<[u64; 5]> = text.lines().map(parse).collect();
        assert!(fio[name].lines().all(|line| columns(line) == 5), "{name}");
        // A busy machine may let a job of one second do nothing, of durio's as of fio's.
        if rows.is_empty() || fio[name].is_empty() {
            continue;
        }
        compared += 1;
        let times: Vec<u64> = rows.iter().filter(|row| row[2] == 0).map(|row| row[0]).collect();
        // What is under way at the end is waited for, on a slow disk into the next interval.
        let times = times.strip_suffix(&[1250]).unwrap_or(&times);
        // An interval in which a busy machine lets nothing come through has no row, in fio's logs neither.
        assert!(times.iter().all(|it| [250, 500, 750, 1000].contains(it)), "{name}: {times:?}");
        assert!(times.is_sorted_by(|a, b| a < b) && !times.is_empty(), "{name}: {times:?}");
        // So few bytes over so long a wait may be less than 1 KiB a second.
        let is_some = |row: &[u64; 5]| row[1] > 0 || name.contains("_bw.");
        assert!(
            rows.iter().all(|row| row[2] <= 1 && is_some(row) && row[3..] == [0, 0]),
            "{name}: {rows:?}"
        );
    }
    if compared == 0 {
        return skip("the machine was too busy for any job of one second");
    }
    // The intervals of a log hold the accesses of its row, but for what was still under way.
    let document: Value = serde_json::from_str(&document).unwrap();
    for (index, name) in ["L_iops.1.log", "L_iops.2.log"].iter().enumerate() {
        let reads = durio[*name].lines().filter(|line| line.split(", ").nth(2) == Some("0"));
        let rates = reads.map(|it| it.split(", ").nth(1).unwrap().parse::<f64>().unwrap());
        let counted: f64 = rates.map(|rate| rate / 4.0).sum();
        let all = document["jobs"][index]["read"]["total_ios"].as_f64().unwrap();
        if all == 0.0 {
            continue;
        }
        assert!((counted / all - 1.0).abs() < 0.02, "{name}: {counted} {all}");
    }
}

#[test]
fn a_log_per_io_has_a_line_per_interval_and_says_so() {
    let sandbox = Sandbox::new();
    let line = "fio --name=a --directory=data --rw=randread --size=1m --bs=8k --runtime=500ms \
                --time_based --ioengine=libaio --direct=1 --write_iops_log=x --write_lat_log=x";
    let ended = sandbox.durio(line).run().expect_exit(0);
    ended.expect_stderr("a line per 100 ms").expect_stderr("no _clat log");
    let text = fs::read_to_string(sandbox.root().join("x_iops.1.log")).unwrap();
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().all(|line| line.ends_with(", 0, 8192, 0")), "{text}");
    assert!(sandbox.root().join("x_lat.1.log").exists());
    assert!(!sandbox.root().join("x_clat.1.log").exists());
}

#[test]
fn a_row_is_a_copy_or_a_group_and_a_group_is_all_of_it() {
    let sandbox = Sandbox::new();
    let job = |grouping: &str| {
        let line = format!(
            "fio --output-format=json --directory=data --direct=1 --size=1m --rw=randread \
             {grouping} --name=a --numjobs=3 --name=b --bs=16k"
        );
        let document = sandbox.durio(&line).run().expect_exit(0).json();
        let rows = document["jobs"].as_array().unwrap().clone();
        let of = |row: &Value| {
            (
                row["jobname"].as_str().unwrap().to_owned(),
                row["read"]["total_ios"].as_u64().unwrap(),
            )
        };
        rows.iter().map(of).collect::<Vec<_>>()
    };
    let row = |name: &str, accesses: u64| (name.to_owned(), accesses);
    assert_eq!(job(""), [row("a", 256), row("a", 256), row("a", 256), row("b", 64)]);
    assert_eq!(job("--group_reporting"), [row("a", 3 * 256 + 64)]);
}

#[test]
fn jobs_of_one_file_share_their_notes() {
    let sandbox = Sandbox::new();
    let jobs = "[global]\ndirectory=data\nrw=write\nsize=1m\nfsync=8\nrandrepeat=1\n\
                [a]\ngtod_reduce=1\n[b]\ngtod_reduce=1\n[c]\nunit_base=8\n";
    fs::write(sandbox.root().join("job.fio"), jobs).unwrap();
    let ended = sandbox.durio("fio --plan job.fio").run().expect_exit(0);
    let expected = [
        "note: 3 options have no effect here: randrepeat, gtod_reduce, unit_base",
        "note: job.fio:5: fsync: durio also syncs after the last write, which fio leaves out",
        "note: job.fio:2: directory: durio uses temporary files; fio would reuse and keep its own",
    ];
    assert_eq!(ended.stderr.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_asked_of_fio_s_output_is_not_passed_over_where_durio_reports() {
    let sandbox = Sandbox::new();
    let job = "--name=a --directory=data --rw=read --size=1m --write_bw_log=x --output=y";
    let ended = sandbox.durio(&format!("fio --quiet --format csv {job}")).run().expect_exit(0);
    ended.expect_stderr(
        "note: logs, --output, --output-format and --status-interval have no effect",
    );
    assert!(!sandbox.root().join("y").exists());
}

#[test]
fn questions_to_the_program_are_answered() {
    let sandbox = Sandbox::new();
    let version = sandbox.durio("fio --version").run().expect_exit(0).expect_no_stderr().text();
    assert!(version.starts_with("fio-3.33-durio-"), "{version}");
    let help = sandbox.durio("fio --cmdhelp=blocksize").run().expect_exit(0).expect_no_stderr();
    help.expect_stdout("bs: bytes of an access\n").expect_stdout("durio: honoured\n");
    let unknown = sandbox.durio("fio --cmdhelp=iodepht").run().expect_exit(2).expect_no_stdout();
    unknown.expect_stderr("did you mean iodepth?");
    let line = "fio --parse-only --name=a --directory=data --rw=read --size=1m";
    sandbox.durio(line).run().expect_exit(0).expect_no_stdout();
    sandbox.durio("fio --parse-only --name=a --rw=trim").run().expect_exit(2).expect_no_stdout();
    let line = "fio --output=no/such/file --name=a --directory=data --rw=read --size=1m";
    sandbox.durio(line).run().expect_exit(3).expect_stderr("cannot write 'no/such/file'");
    let line = "fio --name=a --directory=data --rw=read --size=1m --write_bw_log=no/such/log";
    sandbox
        .durio(line)
        .run()
        .expect_exit(2)
        .expect_stderr("the directory 'no/such' for logs does not exist");
    assert!(sandbox.runs().is_empty());
}

#[test]
fn a_job_that_was_done_in_its_ramp_is_named_and_the_others_are_printed() {
    let sandbox = Sandbox::new();
    // 50 accesses take no second, also where the processor is taken for a while: by rate.
    let jobs = "[global]\nioengine=psync\nrw=randread\nbs=4k\nsize=1m\ndirectory=data\n\
                [r]\nnumber_ios=50\nramp_time=1\n\
                [ok]\nstonewall\ntime_based\nruntime=1\n\
                [late]\nstonewall\nnumber_ios=20\nramp_time=1\n";
    fs::write(sandbox.root().join("jobs.fio"), jobs).unwrap();
    let run = |words: &str| sandbox.durio(&format!("fio jobs.fio {words}")).run().expect_exit(3);
    let ended = run("--output-format=json");
    let document: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let names: Vec<_> =
        document["jobs"].as_array().unwrap().iter().map(|it| &it["jobname"]).collect();
    assert_eq!(names, ["ok"], "a row of zeros would be taken for figures");
    assert!(document["jobs"][0]["read"]["total_ios"].as_u64().unwrap() > 0);
    ended.expect_stderr(
        "nothing was measured of r: it finished before its ramp was over; nor of 1 more",
    );
    run("").expect_stdout("ok: (g=1)");
    // Without any there is nothing to print.
    let none = sandbox.durio("fio jobs.fio --section=r --output-format=json").run().expect_exit(3);
    none.expect_no_stdout().expect_stderr("nothing was measured of r");
}
