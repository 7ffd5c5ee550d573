//! Names that would steer a terminal, wherever they come from: nothing that durio says sends them on.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::durio::Ended;
use crate::sandbox::{Sandbox, copy_folder};

/// What each name is made with: a colour, a title, C1's CSI, a line of its own, a turned direction,
/// bytes that are no text.
const HOSTILE: [&[u8]; 6] = [
    b"red\x1b[31m\x1b]0;title\x07",
    b"c1\xc2\x9b2J\x7f",
    b"line\rhint: rm",
    b"line\n\x1b[1Ahint: all is well",
    b"turned\xe2\x80\xae\xe2\x81\xa6",
    b"bytes\xff\xfe\x1b[2J",
];

/// Control characters but line feeds, and what turns the direction of writing.
fn escapes(bytes: &[u8]) -> Vec<char> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let is_escape = |c: &char| {
        c.is_control() && *c != '\n'
            || matches!(*c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(is_escape).collect()
}

/// Nothing on either stream steers a terminal, and no name makes a line that looks like durio's.
#[track_caller]
fn assert_tame(ended: &Ended, about: &str) {
    assert!(escapes(ended.stderr.as_bytes()).is_empty(), "{about}: {:?}", ended.stderr);
    assert!(escapes(&ended.stdout).is_empty(), "{about}: {:?}", ended.text());
    let is_forged = |line: &str| line.starts_with("hint: all is well");
    assert!(!ended.stderr.lines().any(is_forged), "{about}: {}", ended.stderr);
}

/// Everything that a user can name, on the command line.
#[test]
fn messages_about_arguments_send_no_escape_on() {
    let sandbox = Sandbox::new();
    let lines = [
        "run --engine",
        "run --rw",
        "run --name",
        "check --database",
        "check",
        "plan",
        "plan --target",
        "profile",
        "report",
        "report --format",
        "compare . --against",
        "compare",
        "audit",
        "stack show",
        "stack plan",
        "stack bench",
        "stack",
        "advise",
        "advise . --prove",
        "lab run --kernel",
        "fio",
        "durable",
        "sweep --target . --axis",
        "run --quiet --engine null --ops 1 --destroy",
        "--",
        "",
    ];
    for line in lines {
        for name in HOSTILE {
            let ended = sandbox.durio(line).word(OsStr::from_bytes(name)).run();
            assert_ne!(ended.code(), 0, "{line} {name:?}");
            assert!(!ended.stderr.is_empty(), "{line}");
            assert_tame(&ended, line);
        }
    }
}

#[test]
fn escapes_in_a_wrong_word_are_spelt_out_and_not_left_out() {
    let sandbox = Sandbox::new();
    let of_value = r"invalid value 'red\u{1b}[31m' for '--rw";
    for (line, word, expected) in [
        ("", "red\x1b[31m", r"unrecognized subcommand 'red\u{1b}[31m'"),
        ("run --rw", "red\x1b[31m", of_value),
        ("run", "--rw=red\x1b[31m", of_value),
    ] {
        sandbox.durio(line).word(word).run().expect_exit(2).expect_stderr(expected);
    }
}

/// Where a file with this text is read, and what tells that it is wrong.
fn of_files(sandbox: &Sandbox, command: &str, name: &str, text: &str) {
    let path = sandbox.root().join(name);
    fs::write(&path, text).unwrap();
    let ended = sandbox.durio(command).word(&path).run();
    assert_ne!(ended.code(), 0, "{command} {text}");
    assert_tame(&ended, &format!("{command} {text:?}"));
}

#[test]
fn messages_about_files_send_no_escape_on() {
    let sandbox = Sandbox::new();
    for name in HOSTILE {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        let quoted = serde_json::to_string(name).unwrap().replace('\u{7f}', "\\u007f");
        let specs = [
            format!("schema = 1\nname = {quoted}\n[[step]]\nname = {quoted}\nreads = {quoted}\n"),
            format!("schema = 1\n{quoted} = 1\n"),
            format!("schema = 1\nname = \"x\"\n[[step]]\nname = \"y\"\nsync = {quoted}\n"),
            format!("schema = 1\nname = \"x\"\n[[step]]\nname = \"y\"\nengine = {quoted}\n"),
            format!("schema = {quoted}"),
            name.to_owned(),
        ];
        for spec in specs {
            of_files(&sandbox, "plan --target data --", "spec.toml", &spec);
            of_files(&sandbox, "run --target data --", "spec.toml", &spec);
            of_files(&sandbox, "stack plan", "stack.toml", &spec);
            of_files(&sandbox, "profile", "profile.toml", &spec);
        }
        let stack = format!(
            "schema = 1\nname = \"x\"\n[[stack]]\nname = \"s\"\nlayers = [{{ {quoted} = {{}} }}]\n"
        );
        of_files(&sandbox, "stack plan", "stack.toml", &stack);
        let jobs = [
            format!("[{name}]\nrw={name}\n"),
            format!("[x]\n{name}=1\n"),
            format!("[x]\nioengine={name}\n"),
            format!("[x]\nrw=read\nsize=1m\nfilename={name}\nbs={name}\n"),
        ];
        for job in jobs {
            of_files(&sandbox, "fio --parse-only", "job.fio", &job);
            of_files(&sandbox, "plan", "job.fio", &job);
        }
        of_files(&sandbox, "audit", "table.csv", &format!("{name},{name}\n{name},1\n"));
        of_files(&sandbox, "audit", "fio.json", name);
        of_files(&sandbox, "audit", "other.json", &format!("{{{quoted}: 1}}"));
    }
}

/// Replaces texts of a run folder by hostile ones, where the file is still read.
#[test]
fn run_folders_of_other_hands_send_no_escape_on() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --engine null --ops 10 --format csv";
    sandbox.durio(line).run().expect_exit(0);
    let run = sandbox.the_run();
    let manifest = fs::read_to_string(run.join("run.json")).unwrap();
    let plan = fs::read_to_string(run.join("plan.json")).unwrap();
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    for (number, name) in HOSTILE.iter().enumerate() {
        let name = String::from_utf8_lossy(name);
        // Raw where JSON allows it: DEL, C1, what turns.
        let quoted = serde_json::to_string(&name).unwrap();
        let of = |file: &str, text: &str, from: &str, to: &str| {
            let folder = sandbox.root().join(format!("other-{number}"));
            copy_folder(&run, &folder);
            assert!(text.contains(from), "{file}: {from}");
            fs::write(folder.join(file), text.replace(from, to)).unwrap();
            for format in ["text", "csv", "html"] {
                let report = sandbox.durio("report --format").word(format).word(&folder);
                assert_tame(&report.run(), &format!("{file} {to} {format}"));
            }
            let compared = sandbox.durio("compare").word(&run).word(&folder).run();
            assert_tame(&compared, &format!("{file} {to}"));
            fs::remove_dir_all(folder).unwrap();
        };
        of("run.json", &manifest, "\"--quiet\"", &quoted);
        of("run.json", &manifest, "\"schema\"", &quoted);
        of("plan.json", &plan, "\"null\"", &quoted);
        of("plan.json", &plan, "\"name\": \"randread\"", &format!("\"name\": {quoted}"));
        of("events.jsonl", &events, "\"event\":\"step_started\"", &format!("\"event\":{quoted}"));
        of("events.jsonl", &events, "\"outcome\":\"complete\"", &format!("\"outcome\":{quoted}"));
    }
}

#[test]
fn names_of_what_is_measured_send_no_escape_on() {
    let sandbox = Sandbox::new();
    for name in HOSTILE {
        let folder = sandbox.root().join(OsStr::from_bytes(name));
        fs::create_dir(&folder).unwrap();
        let target = |file: &str| folder.join(file).into_os_string();
        let given = |words: &[&str], last: OsString| {
            let mut durio = sandbox.durio("");
            for word in words {
                durio = durio.word(word);
            }
            durio.word(last).run()
        };
        for format in ["text", "csv", "openmetrics", "markdown"] {
            let words = [
                "run", "--create", "--ops", "5", "--size", "64KiB", "--format", format, "--target",
            ];
            assert_tame(&given(&words, target("x")).expect_exit(0), format);
        }
        // It exists: told that it must be named.
        fs::write(folder.join("kept"), "the user's").unwrap();
        let words = ["run", "--rw", "randwrite", "--ops", "5", "--target"];
        assert_tame(&given(&words, target("kept")).expect_exit(2), "kept");
        let out =
            given(&["run", "--quiet", "--engine", "null", "--ops", "5", "--out"], target("o"));
        assert_tame(&out.expect_exit(0), "out");
        let run = fs::read_dir(folder.join("o")).unwrap().next().unwrap().unwrap().path();
        assert_tame(&given(&["report"], run.into_os_string()).expect_exit(0), "report");
        assert_tame(&given(&["stack", "show"], folder.clone().into_os_string()), "stack show");
        assert_tame(&given(&["advise"], folder.clone().into_os_string()), "advise");
    }
}
