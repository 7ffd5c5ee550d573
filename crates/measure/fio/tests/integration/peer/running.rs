//! Running the installed fio: its result, its failure, its end before time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use durio_fio::FioError;
use durio_fio::installed::{Fio as Installed, FioCommand, NamedOptions, OLDEST, run_fio};

use crate::peer::requirements::Fio;

fn command(fio: &Fio, options: &[(&str, &str)]) -> FioCommand {
    let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    let job = NamedOptions { name: "job one".to_owned(), options: options.collect() };
    FioCommand {
        fio: Installed::find(None).unwrap(),
        jobs: vec![job],
        folder: Some(fio.folder.path().to_owned()),
    }
}

#[test]
fn a_run_gives_the_result_of_its_jobs() {
    let Some(fio) = Fio::new() else { return };
    let options = [
        ("ioengine", "psync"),
        ("rw", "write"),
        ("size", "64k"),
        ("fdatasync", "1"),
        ("iodepth", "4"),
        ("filename", "data"),
    ];
    let run = run_fio(&command(&fio, &options), &|| false).unwrap();
    let job = &run.file.output.jobs[0];
    assert_eq!(job.jobname, "job one");
    assert_eq!(job.write.as_ref().unwrap().total_ios, 16);
    // None after the last write.
    assert_eq!(job.sync.as_ref().unwrap().lat_ns.bins.total(), 15);
    assert!(!run.is_stopped);
    assert_eq!(fs::read_dir(fio.folder.path()).unwrap().count(), 1);
}

#[test]
fn a_stopped_run_ends_soon_and_gives_what_there_is() {
    let Some(fio) = Fio::new() else { return };
    let options = [
        ("ioengine", "null"),
        ("rw", "read"),
        ("size", "1g"),
        ("time_based", "1"),
        ("runtime", "60"),
        ("rate_iops", "1000"),
    ];
    let begin = Instant::now();
    let stop = || begin.elapsed() > Duration::from_millis(1500);
    let run = run_fio(&command(&fio, &options), &stop).unwrap();
    // Half of what it would run for.
    assert!(run.is_stopped && begin.elapsed() < Duration::from_secs(30));
    assert!(run.file.output.jobs[0].read.as_ref().unwrap().total_ios > 100);
}

#[test]
fn a_refused_option_is_fio_s_own_message() {
    let Some(fio) = Fio::new() else { return };
    let error = run_fio(&command(&fio, &[("rw", "sideways")]), &|| false).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("exit status: 1") && text.contains("sideways"), "{text}");
}

#[test]
fn a_job_that_fails_is_fio_s_own_message() {
    let Some(fio) = Fio::new() else { return };
    let options = [("rw", "read"), ("size", "1m"), ("filename", "/dev/null/place")];
    let text = run_fio(&command(&fio, &options), &|| false).unwrap_err().to_string();
    assert!(text.contains("Not a directory"), "{text}");
}

/// A program that does what `script` says. A shell writes it: a program that this process has open
/// for writing cannot be started.
fn program(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("fio");
    let text = format!("#!/bin/sh\n{script}\n");
    let write = r#"printf %s "$1" > "$2" && chmod 755 "$2""#;
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", write, "sh", &text]).arg(&path).status();
    assert!(status.unwrap().success());
    path
}

#[test]
fn an_old_fio_another_program_and_none_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let find = |script: &str| Installed::find(Some(&program(folder.path(), script)));
    let too_old = find("echo fio-3.16").unwrap_err();
    assert!(too_old.to_string().contains("fio-3.16; fio-3.28 or later"), "{too_old}");
    for (script, answer) in [("echo hello", "'hello'"), ("exit 3", "''")] {
        let other = find(script).unwrap_err().to_string();
        assert!(
            other.ends_with(&format!("is not fio: it answers --version with {answer}")),
            "{other}"
        );
    }
    let absent = Installed::find(Some(&folder.path().join("none"))).unwrap_err();
    assert!(matches!(absent, FioError::NotInstalled { .. }));
    assert!(find("echo fio-3.42-7-gabcdef").unwrap().version > OLDEST);
}

/// A fio 3.33 that, asked to run jobs, does what `script` says; `$result` is where to.
fn pretender(folder: &Path, script: &str) -> FioCommand {
    let path = program(
        folder,
        &format!(
            "[ \"$1\" = --version ] && echo fio-3.33 && exit\n\
             for it; do case $it in --output=*) result=${{it#--output=}};; esac; done\n{script}"
        ),
    );
    let job = NamedOptions { name: "a".to_owned(), options: Vec::new() };
    FioCommand { fio: Installed::find(Some(&path)).unwrap(), jobs: vec![job], folder: None }
}

#[test]
fn messages_around_the_result_and_in_the_streams_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo 'note: one'; echo 'fio: two' >&2\n\
                  echo 'fio: three { \"' > $result\n\
                  echo '{\"fio version\":\"fio-3.33\",\"jobs\":[]}' >> $result";
    let run = run_fio(&pretender(folder.path(), script), &|| false).unwrap();
    assert_eq!(run.messages, "fio: two\nnote: one\nfio: three { \"");
    assert_eq!(run.file.output.version, "fio-3.33");
}

#[test]
fn a_fio_that_writes_nothing_and_one_that_fails_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let fail = |script: &str| {
        run_fio(&pretender(folder.path(), script), &|| false).unwrap_err().to_string()
    };
    assert_eq!(fail("exit 0"), "fio exited with success but wrote no result");
    assert_eq!(fail(": > $result"), fail("exit 0"));
    assert_eq!(
        fail("echo 'fio: it broke' >&2; exit 7"),
        "fio failed (exit status: 7): fio: it broke"
    );
    assert_eq!(fail("exit 3"), "fio failed (exit status: 3): no reason given");
    assert!(fail("kill -9 $$").contains("signal: 9"));
}

#[test]
fn a_stopped_fio_without_a_result_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let stopped = run_fio(&pretender(folder.path(), "exec sleep 60"), &|| true).unwrap_err();
    assert!(matches!(stopped, FioError::Stopped), "{stopped}");
}
