//! Job files as plans: known answers, refusals by name and line, any text, and fio's own examples.
//!
//! Environment: `DURIO_TEST_SKIPS`, where a test that could not run leaves a line.

mod any_job;
mod bounds;
mod derived;
mod examples;
mod exported;
mod known_answers;
mod refusals;
mod rows;
mod together;

use std::path::Path;

use durio_base::Bytes;
use durio_fio::import::{ImportSettings, ImportedPlan, import, named_paths};
use durio_fio::job_file::{
    HostParameters, JobSource, MachineValues, Remark, ResolvedJob, parse_job_file, resolve,
};
use durio_plan::{ClockChoice, Load, Location, LocationFacts, RawPath, Step};

const MACHINE: MachineValues = MachineValues { page_bytes: 4096, memory_mib: 7940, cpus: 6 };

/// Devices of 1 GiB in /dev, files of 64 MiB named old..., nothing else, much free space.
fn locate(path: &Path) -> Option<Location> {
    let text = path.to_str()?;
    let free = Bytes::from_gib(1 << 20);
    let (facts, destroy) = if text == "/dev/zero" {
        (LocationFacts::NullDevice, false)
    } else if text.starts_with("/dev/") {
        (LocationFacts::Device { size: Bytes::from_gib(1) }, !text.ends_with("kept"))
    } else if text.contains("old") {
        (LocationFacts::File { size: Bytes::from_mib(64) }, text.ends_with("gone"))
    } else if text == "." || text.ends_with('/') || text.contains("dir") && !text.contains("new") {
        (LocationFacts::Directory { free, filesystem: 1 }, false)
    } else {
        (LocationFacts::Absent { free }, false)
    };
    Some(Location { path: RawPath::from(path), facts, destroy })
}

fn resolved(text: &str) -> Vec<ResolvedJob> {
    let mut read = |_: &str, _: Option<&str>| Err("no such file".to_owned());
    let mut host = HostParameters { read: &mut read, environment: &|_| None, machine: MACHINE };
    let source = JobSource { name: "j.fio".into(), text: text.into() };
    resolve(&parse_job_file(&source, &mut host).unwrap()).unwrap()
}

fn imported(text: &str) -> Result<ImportedPlan, Vec<Remark>> {
    imported_by(text, 7)
}

fn imported_by(text: &str, seed: u64) -> Result<ImportedPlan, Vec<Remark>> {
    let settings = ImportSettings {
        seed,
        clock: ClockChoice::Auto,
        file_name: ".durio-x".to_owned(),
        copies_apart: true,
    };
    import(&resolved(text), &locate, &settings)
}

/// The plan of jobs that are honoured.
#[track_caller]
fn plan(text: &str) -> ImportedPlan {
    imported(text).unwrap_or_else(|refusals| {
        let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}

/// The only step.
#[track_caller]
fn step(text: &str) -> Step {
    let steps = plan(text).plan.steps;
    assert_eq!(steps.len(), 1, "{steps:?}");
    steps[0].clone()
}

/// The only load of the only step.
#[track_caller]
fn load(text: &str) -> Load {
    let step = step(text);
    assert!(step.beside.is_empty(), "{step:?}");
    step.load
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

#[test]
fn copies_are_one_load_unless_fios_results_have_a_row_for_each() {
    let text = "[a]\nrw=randread\nbs=4k\nsize=1m\nnumjobs=5\nfilename=/data/a\n\
                [b]\nrw=randread\nbs=4k\nsize=1m\nnumjobs=3\nfilename=/data/b\n";
    let loads = |copies_apart: bool| {
        let settings = ImportSettings {
            seed: 7,
            clock: ClockChoice::Auto,
            file_name: ".durio-x".to_owned(),
            copies_apart,
        };
        let plan = import(&resolved(text), &locate, &settings).unwrap().plan;
        let loads = plan.steps[0]
            .loads()
            .map(|load| (load.workload.name.clone(), load.workload.jobs, load.target));
        loads.collect::<Vec<_>>()
    };
    let of = |name: &str, jobs, target| (name.to_owned(), jobs, target);
    // Sections stay apart, for each is a row of durio's report.
    assert_eq!(loads(false), [of("a", 5, 0), of("b", 3, 1)]);
    let apart = [vec![of("a", 1, 0); 5], vec![of("b", 1, 1); 3]].concat();
    assert_eq!(loads(true), apart);
}

#[test]
fn the_paths_of_all_jobs_are_looked_at_once_each_in_their_order() {
    let jobs = resolved(
        "[a]\nfilename=/dev/b:/dev/a\n[b]\nfilename=/dev/a:/dev/c\n\
         [c]\ndirectory=dir2:dir1\nnumjobs=3\nsize=1m\n[d]\ndirectory=dir1\nfilename=x\n[/dev/d]\n",
    );
    let paths = |is_device: bool| -> Vec<String> {
        let paths = named_paths(&jobs, &|path: &Path| is_device && path == Path::new("/dev/d"));
        paths.iter().map(|path| path.display().to_string()).collect()
    };
    let usual = ["/dev/b", "/dev/a", "/dev/c", "dir2", "dir1", "dir1/x"];
    assert_eq!(paths(true), [&usual[..], &["/dev/d"]].concat());
    // Else it is the name of a file.
    assert_eq!(paths(false), [&usual[..], &["/dev"]].concat());
}
