//! Files and folders that somebody else prepared: read within bounds, written around, never followed.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::durio::Durio;
use crate::requirements::{has, search_path};
use crate::sandbox::{Sandbox, copy_folder, entries};

/// Whatever is refused is refused at once; a busy machine takes a while to say so.
const AT_ONCE: Duration = Duration::from_secs(30);

fn made_run(sandbox: &Sandbox) -> PathBuf {
    let line = "check data --quiet --duration 100ms --size 4MiB --workload commit";
    sandbox.durio(line).run().expect_exit(0);
    sandbox.the_run()
}

fn pipe_at(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// With 2 GiB of address space: enough for every honest file.
fn bounded(durio: Durio) -> Durio {
    durio.within(["prlimit", "--as=2147483648"])
}

#[test]
fn a_report_of_a_folder_with_pipes_devices_or_endless_files_ends_at_once() {
    if !has(&["prlimit"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    let report =
        |path: &Path| bounded(sandbox.durio("report").word(path)).start().wait_at_most(AT_ONCE);
    let copy = sandbox.root().join("copy");
    for name in ["run.json", "plan.json", "environment.json", "events.jsonl", "histograms.hlog"] {
        let forge = |what: &dyn Fn(&Path)| {
            copy_folder(&run, &copy);
            what(&copy.join(name));
            let ended = report(&copy).expect_exit(3).expect_stderr(name);
            fs::remove_dir_all(&copy).unwrap();
            ended
        };
        let instead = |make: &dyn Fn(&Path)| {
            forge(&|path| {
                fs::remove_file(path).unwrap();
                make(path);
            })
        };
        instead(&pipe_at).expect_stderr("a pipe").expect_no_stdout();
        instead(&|path| symlink("/dev/zero", path).unwrap()).expect_stderr("a symbolic link");
        // Of the log only what events refer to is read.
        if name == "histograms.hlog" {
            continue;
        }
        let long = forge(&|path| {
            fs::File::options().write(true).open(path).unwrap().set_len(5 << 30).unwrap();
        });
        // An event's line is bounded by itself, and the report shows what stands before it.
        if name != "events.jsonl" {
            long.expect_stderr("larger than 64 MiB").expect_no_stdout();
        }
    }
    report(&run).expect_exit(0).expect_no_stderr();
}

#[test]
fn files_that_a_user_names_are_read_within_bounds_and_pipes_without_a_writer_end() {
    if !has(&["prlimit"]) {
        return;
    }
    let sandbox = Sandbox::new();
    for name in ["p.toml", "p.fio", "p.csv", "p.conf", "kernel"] {
        pipe_at(&sandbox.root().join(name));
    }
    fs::File::create(sandbox.root().join("long")).unwrap().set_len(5 << 30).unwrap();
    let ended =
        |line: &str| bounded(sandbox.durio(line)).start().wait_at_most(AT_ONCE).expect_no_stdout();
    for line in [
        "plan p.toml --target data",
        "plan /dev/zero --target data",
        "plan long --target data",
        "run long --target data",
        "stack plan p.toml",
        "profile show ./p.toml",
        "fio p.fio",
        "fio /dev/zero",
        "fio long",
        "audit p.csv",
        "audit /dev/zero",
        "audit long",
        "lab run --kernel kernel -- true",
        "lab run --kernel long -- true",
    ] {
        let code = ended(line).code();
        assert!([2, 3, 125].contains(&code), "{line}: {code}");
    }
}

#[test]
fn a_spec_may_come_through_a_shells_pipe() {
    let sandbox = Sandbox::new();
    let spec = r#"schema = 1
name = "piped"
summary = "reads"
[[target]]
name = "data"
size = "4MiB"
[[step]]
name = "read"
summary = "reads"
jobs = [1]
"#;
    fs::write(sandbox.root().join("spec"), spec).unwrap();
    let script = r#"(sleep 0.2; cat spec) | "$@""#;
    let durio = sandbox.durio("plan /dev/stdin --target data --format json");
    let plan = durio.within(["sh", "-c", script, "sh"]).run().expect_exit(0).json();
    assert_eq!(plan["campaign"]["name"], "piped", "{plan}");
}

#[test]
fn links_in_the_place_of_what_is_written_are_not_followed() {
    let sandbox = Sandbox::new();
    let (pages, victim) = (sandbox.root().join("man"), sandbox.root().join("victim"));
    fs::create_dir(&pages).unwrap();
    fs::write(&victim, "mine").unwrap();
    for name in ["durio.1", ".durio-run.1.new"] {
        symlink(&victim, pages.join(name)).unwrap();
    }
    sandbox.durio("man man").run().expect_exit(0);
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
    let plain = |path: &PathBuf| path.symlink_metadata().unwrap().is_file();
    assert!(entries(&pages).iter().all(plain), "each page is a file of its own");
}

const SPEC: &str = r#"
schema = 1
name = "tiny"
summary = "reads"

[[target]]
name = "data"
size = "4MiB"

[defaults]
block_size = "4KiB"
pattern = "random"
duration = "100ms"

[[step]]
name = "read"
summary = "reads"
jobs = [2, 1]
"#;

/// A run folder as a run leaves it that was killed after its first step.
fn interrupted_run(sandbox: &Sandbox) -> PathBuf {
    sandbox.durio("run tiny.toml --quiet --target data").run().expect_exit(0);
    let run = sandbox.the_run();
    let path = run.join("events.jsonl");
    let events = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = events.split_inclusive('\n').collect();
    let end = lines.iter().position(|line| line.contains("\"event\":\"step_ended\"")).unwrap();
    fs::write(&path, lines[..=end].concat()).unwrap();
    for name in ["report.html", "findings.json"] {
        fs::remove_file(run.join(name)).unwrap();
    }
    run
}

#[test]
fn root_does_not_go_on_with_a_campaign_that_somebody_else_can_write_to() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::write(sandbox.root().join("tiny.toml"), SPEC).unwrap();
    let run = interrupted_run(&sandbox);
    let victim = sandbox.root().join("victim");
    fs::write(&victim, "mine").unwrap();
    for name in [".report.html.new", ".findings.json.new", "report.html"] {
        symlink(&victim, run.join(name)).unwrap();
    }
    let line = "run tiny.toml --quiet --target data";
    let before = entries(&run);
    let refused = |part: &str| {
        let ended = sandbox.durio(line).run().expect_exit(3).expect_no_stdout();
        ended.expect_stderr(part).expect_stderr("--fresh").expect_stderr("chown");
        assert_eq!(entries(&run), before);
    };
    chown(&run, Some(65_534), None).unwrap();
    refused("belongs to user 65534");
    chown(&run, Some(0), None).unwrap();
    let mode = |bits| fs::set_permissions(&run, std::os::unix::fs::PermissionsExt::from_mode(bits));
    mode(0o777).unwrap();
    refused("others can write to it");
    mode(0o755).unwrap();
    sandbox.durio(line).run().expect_exit(0).expect_stderr("resuming ");
    assert_eq!(fs::read(&victim).unwrap(), b"mine", "not written through a link");
    assert!(run.join("report.html").symlink_metadata().unwrap().is_file());
    assert_eq!(sandbox.runs().len(), 1);
}

#[test]
fn a_program_that_hangs_when_asked_its_version_is_given_up() {
    let sandbox = Sandbox::new();
    // Neither ends by itself nor lets go of the pipe.
    let script = "#!/bin/sh\ntrap '' TERM\nsleep 300 &\nwait\nwait\n";
    let folder = sandbox.program("fio", script);
    let path = format!("{}:{}", folder.display(), search_path());
    let line = "run --quiet --target data --size 4MiB --engine fio:psync";
    let ended = sandbox.durio(line).env("PATH", path).start().wait_at_most(2 * AT_ONCE);
    ended.expect_exit(3).expect_no_stdout().expect_stderr("did not end within 10 s");
}
