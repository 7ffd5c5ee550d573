//! Job files as a whole: resolved jobs, fio itself as the oracle, and texts that nobody wrote.
//!
//! Environment: `DURIO_TEST_SKIPS`, where a test that could not run leaves a line.

mod any_text;
mod jobs;
mod oracle;

use durio_fio::FioError;
use durio_fio::job_file::{
    HostParameters, JobFile, JobSource, MachineValues, ResolvedJob, parse_job_file, resolve,
};

/// A machine with unmistakable numbers.
const MACHINE: MachineValues = MachineValues { page_bytes: 4096, memory_mib: 7940, cpus: 6 };

/// Parses a text without includes and without an environment.
fn parse(text: &str) -> Result<JobFile, FioError> {
    let mut read = |_: &str, _: Option<&str>| Err("no such file".to_owned());
    let mut host = HostParameters { read: &mut read, environment: &|_| None, machine: MACHINE };
    parse_job_file(&JobSource { name: "j.fio".into(), text: text.into() }, &mut host)
}

fn jobs(text: &str) -> Result<Vec<ResolvedJob>, FioError> {
    resolve(&parse(text)?)
}

/// The jobs of a text that is right.
#[track_caller]
fn good(text: &str) -> Vec<ResolvedJob> {
    jobs(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Where Debian's package fio-examples has the job files that come with fio.
const EXAMPLES: &str = "/usr/share/doc/fio/examples";

/// Says that a test did not run, to the terminal and to the file that lists skips.
fn skip(test: &str, reason: &str) {
    use std::io::Write;
    // Not by eprintln, which libtest swallows in a test that passes.
    std::io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes()).unwrap();
    if let Some(path) = std::env::var_os("DURIO_TEST_SKIPS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{test}: {reason}").unwrap();
    }
}
