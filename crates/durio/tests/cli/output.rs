//! stdout is the answer, stderr is progress: every format, closed pipes, full disks, terminals.

use std::fs;
use std::process::Stdio;

use crate::durio::{onto, read_at_most};
use crate::requirements::has;
use crate::sandbox::Sandbox;

const NULL: &str = "run --engine null --ops 20000 --null-latency 100us,130us";

#[test]
fn json_is_one_document_with_the_promised_keys() {
    let sandbox = Sandbox::new();
    let line = "check data --duration 100ms --size 4MiB --workload commit --format json";
    let document = sandbox.durio(line).run().expect_exit(0).expect_stderr("commit").json();
    for key in ["schema", "leading", "workloads", "stack", "verdicts", "warnings", "run_folder"] {
        assert!(!document[key].is_null(), "{key}");
    }
    assert_eq!(document["workloads"][0]["name"], "commit");
    assert_eq!(document["run_folder"], sandbox.the_run().canonicalize().unwrap().to_str().unwrap());
    let saved = fs::read(sandbox.the_run().join("findings.json")).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&saved).unwrap(), document);
}

#[test]
fn text_ends_with_the_report_and_its_folder() {
    let sandbox = Sandbox::new();
    let text = sandbox.durio(NULL).words("--quiet").run().expect_exit(0).expect_no_stderr().text();
    let run = sandbox.the_run().canonicalize().unwrap();
    let expected = format!("report: {}/report.html", run.display());
    assert!(text.trim_end().ends_with(&expected), "{text}");
    assert!(run.join("report.html").is_file());
}

#[test]
fn csv_has_the_same_columns_in_every_line() {
    let sandbox = Sandbox::new();
    let ended = sandbox.durio(NULL).words("--quiet --format csv").run().expect_exit(0);
    let text = ended.expect_no_stderr().text();
    // No field of this run has a comma or a quote of its own.
    let columns: Vec<_> = text.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.len() >= 2 && columns[0] > 5, "{text}");
    assert!(columns.iter().all(|&count| count == columns[0]), "{text}");
    let mean = text.lines().next().unwrap().split(',').position(|name| name.contains("mean_ns"));
    let value = text.lines().nth(1).unwrap().split(',').nth(mean.unwrap()).unwrap();
    assert_eq!(value.parse::<f64>().unwrap(), 115_000.0);
}

#[test]
fn html_is_one_file_that_asks_for_nothing() {
    let sandbox = Sandbox::new();
    let ended = sandbox.durio(NULL).words("--quiet --format html").run().expect_exit(0);
    let text = ended.expect_no_stderr().text();
    assert!(text.to_lowercase().starts_with("<!doctype html>"), "{}", &text[..60]);
    assert!(text.contains("Content-Security-Policy") && text.len() < 1 << 20);
    let saved = fs::read(sandbox.the_run().join("report.html")).unwrap();
    assert!(saved.starts_with(b"<!"), "the saved one");
}

#[test]
fn a_full_disk_behind_stdout_is_an_error_with_its_reason() {
    let sandbox = Sandbox::new();
    let run = |line: &str| sandbox.durio(line).start_onto(onto("/dev/full")).wait().expect_exit(3);
    for format in ["text", "json", "html", "markdown", "csv"] {
        let ended = run(&format!("{NULL} --quiet --format {format}"));
        ended.expect_stderr("cannot write to stdout: No space left on device");
    }
    for line in ["--help", "-V", "completions bash"] {
        run(line).expect_stderr("cannot write to stdout");
    }
    let folder = sandbox.runs().pop().unwrap();
    let report = sandbox.durio("report").word(folder).start_onto(onto("/dev/full"));
    report.wait().expect_exit(3).expect_stderr("No space left on device");
}

#[test]
fn the_report_goes_to_a_new_file_in_the_format_of_its_ending() {
    let sandbox = Sandbox::new();
    let read = |name: &str| fs::read_to_string(sandbox.root().join(name)).unwrap();
    let run = sandbox.durio(&format!("{NULL} --quiet -o run.json")).run().expect_exit(0);
    run.expect_no_stdout().expect_stderr("durio: wrote run.json");
    let document: serde_json::Value = serde_json::from_str(&read("run.json")).unwrap();
    assert_eq!(document["state"], "complete");
    for (name, mark) in [
        ("r.html", "<!doctype html>"),
        ("r.md", "| --- |"),
        ("r.csv", "run,location,"),
        ("r.txt", "────"),
        ("r.prom", "# eof"),
    ] {
        let ended = sandbox.durio("report last --output").word(name).run().expect_exit(0);
        ended.expect_no_stdout().expect_stderr(name);
        assert!(read(name).to_lowercase().contains(mark), "{name}");
    }
    // What --format says goes before the ending, and every command that prints a report has it.
    sandbox.durio("report last --format csv -o csv.txt").run().expect_exit(0);
    assert_eq!(read("csv.txt"), read("r.csv"));
    for line in ["runs -o list.html", "doctor data -o doctor.md", "explain unfit -o word.txt"] {
        sandbox.durio(line).run().expect_exit(0).expect_no_stdout();
    }
    assert!(read("word.txt").contains("unfit"));
    // Before anything is measured: a file that is there, and an ending without a format.
    let count = sandbox.runs().len();
    for (name, why) in [
        ("r.html", "exists, and is not overwritten"),
        ("nowhere/r.html", "'nowhere' is not a directory"),
        ("r.pdf", "the ending names the format: .txt, .json, .html, .md, .csv, .prom or .xml"),
        ("mine.toml", "--profile FILE"),
    ] {
        let ended = sandbox.durio(&format!("{NULL} --quiet -o")).word(name).run().expect_exit(2);
        ended.expect_no_stdout().expect_stderr(why);
    }
    assert_eq!(sandbox.runs().len(), count);
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let sandbox = Sandbox::new();
    for line in [&format!("{NULL} --quiet --format html"), "run --help", "completions zsh"] {
        let mut running = sandbox.durio(line).start_onto(Stdio::piped());
        let first = read_at_most(running.take_stdout().unwrap(), 1);
        assert_eq!(first.len(), 1);
        running.wait().expect_exit(0).expect_no_stderr();
        // And one that has gone before the first byte.
        let mut running = sandbox.durio(line).start_onto(Stdio::piped());
        drop(running.take_stdout());
        running.wait().expect_exit(0).expect_no_stderr();
    }
}

#[test]
fn closed_streams_are_survived() {
    let sandbox = Sandbox::new();
    let shell = |redirect: &str, line: &str| {
        let script = format!("exec \"$0\" \"$@\" {redirect}");
        sandbox.durio(line).within(["sh", "-c", &script]).run().expect_exit(0)
    };
    for redirect in [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        shell(redirect, NULL);
        shell(redirect, "--help");
    }
    shell(">&- 2>&-", "check data --duration 100ms --size 4MiB --workload commit");
    assert_eq!(sandbox.runs().len(), 5);
    // Files of the record did not get the numbers of the closed streams.
    for run in sandbox.runs() {
        let ended = sandbox.durio("report --format json").word(&run).run().expect_exit(0);
        assert_eq!(ended.json()["state"], "complete");
    }
}

#[test]
fn progress_on_a_pipe_is_lines_without_control_bytes_and_quiet_is_silent() {
    let sandbox = Sandbox::new();
    let line = "check data --duration 100ms --size 4MiB --workload commit --workload lookup";
    let ended = sandbox.durio(line).run().expect_exit(0);
    assert!(ended.stderr.lines().count() >= 2, "{}", ended.stderr);
    let is_control = |byte: &u8| *byte < 0x20 && *byte != b'\n';
    assert!(!ended.stderr.as_bytes().iter().any(is_control), "{:?}", ended.stderr);
    assert!(!ended.stdout.iter().any(is_control), "{}", ended.text());
    sandbox.durio(line).words("--quiet").run().expect_exit(0).expect_no_stderr();
}

/// What a terminal sees of a shell line in which `$D` is durio.
fn on_terminal(sandbox: &Sandbox, script: &str, no_colour: Option<&str>) -> String {
    let no_colour = no_colour.map(|value| ("NO_COLOR", value));
    on_terminal_with(sandbox, script, no_colour.as_slice())
}

/// The same, with more in the environment.
fn on_terminal_with(sandbox: &Sandbox, script: &str, environment: &[(&str, &str)]) -> String {
    let program = env!("CARGO_BIN_EXE_durio");
    let script = format!("D='{program}'; {script}");
    let mut command = sandbox.durio("").program(std::path::Path::new("script"));
    for word in ["-qec", &script, "/dev/null"] {
        command = command.word(word);
    }
    command = command.env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
    for (name, value) in environment {
        command = command.env(name, value);
    }
    command.run().expect_exit(0).text()
}

#[test]
fn a_terminal_sees_progress_on_stderr_only() {
    if !has(&["script"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let check = "$D check data --duration 600ms --size 4MiB --workload commit --format json";
    let seen = on_terminal(&sandbox, &format!("{check} >answer"), None);
    assert!(seen.contains("commit") && seen.contains('\u{1b}'), "{seen:?}");
    assert!(seen.contains("p99"), "the current figures: {seen:?}");
    let answer = fs::read(sandbox.root().join("answer")).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&answer).is_ok());
    let seen = on_terminal(&sandbox, &format!("{check} --quiet >answer"), None);
    assert_eq!(seen, "", "quiet");
    on_terminal(&sandbox, &format!("{check} 2>errors"), None);
    let errors = fs::read_to_string(sandbox.root().join("errors")).unwrap();
    assert!(!errors.contains('\u{1b}') && errors.contains("commit"), "{errors:?}");
}

#[test]
fn progress_fits_the_terminal_and_says_which_step_and_when_it_ends() {
    if !has(&["script"]) {
        return;
    }
    let sandbox = Sandbox::new();
    for columns in [20, 40, 80, 120] {
        let check =
            "$D check data --duration 600ms --size 4MiB --workload commit --workload lookup";
        let script = format!("stty cols {columns} rows 24; {check} >answer");
        let seen = on_terminal(&sandbox, &script, None);
        let seen = anstream::adapter::strip_str(&seen).to_string();
        let drawn: Vec<&str> = seen.split(['\r', '\n']).map(str::trim_end).collect();
        let too_long = drawn.iter().filter(|line| line.chars().count() >= columns);
        assert_eq!(too_long.count(), 0, "{columns} columns: {drawn:#?}");
        assert!(
            drawn.iter().any(|line| line.starts_with("2/") && line.contains("/s")),
            "{drawn:#?}"
        );
        let has_end = drawn.iter().any(|line| line.contains(" of about "));
        assert!(has_end || columns < 80, "{drawn:#?}");
        let lines =
            seen.split('\n').filter(|line| line.contains("2/3 c") || line.contains("3/3 l"));
        assert_eq!(lines.count(), 1, "one line that replaces itself: {seen:?}");
    }
}

#[test]
fn colours_are_for_terminals_and_for_those_who_want_them() {
    if !has(&["script"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let run = format!("$D {NULL} --quiet");
    let colour = |text: &str| text.contains("\u{1b}[");
    assert!(colour(&on_terminal(&sandbox, &run, None)), "a terminal");
    assert!(colour(&on_terminal(&sandbox, &run, Some(""))), "an empty NO_COLOR is none");
    assert!(!colour(&on_terminal(&sandbox, &run, Some("1"))), "NO_COLOR");
    assert!(!colour(&on_terminal(&sandbox, &format!("{run} | cat"), None)), "a pipe");
    assert!(!colour(&on_terminal(&sandbox, "$D --help", Some("1"))), "help with NO_COLOR");
    let with = |name, value, run: &str| on_terminal_with(&sandbox, run, &[(name, value)]);
    assert!(!colour(&with("CLICOLOR", "0", &run)), "CLICOLOR=0");
    assert!(colour(&with("CLICOLOR_FORCE", "1", &format!("{run} | cat"))), "CLICOLOR_FORCE=1");
}

#[test]
fn a_dumb_terminal_gets_lines_without_colours_and_movements() {
    if !has(&["script"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let dumb = |line: &str| on_terminal_with(&sandbox, line, &[("TERM", "dumb")]);
    for line in [&format!("$D {NULL}"), "$D --help", "$D run --no-such 2>&1 || true"] {
        let seen = dumb(line);
        // A terminal ends lines with both.
        let plain = seen.replace("\r\n", "\n");
        assert!(!plain.contains(|c: char| c.is_control() && c != '\n'), "{line}: {seen:?}");
    }
    let check = "$D check data --duration 100ms --size 4MiB --workload commit >answer";
    assert!(dumb(check).contains("commit: ") && dumb(check).contains("p99 "), "progress in lines");
}
