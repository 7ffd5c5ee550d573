//! fio's job files, and the plans that are made of them.
#![no_main]

use std::path::Path;

use durio_fio::import::{ImportSettings, import};
use durio_fio::job_file::{HostParameters, MachineValues, JobSource, parse_job_file, resolve};
use durio_plan::{ClockChoice, Location, LocationFacts, RawPath};
use durio_base::Bytes;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let source = JobSource { name: "x.fio".to_owned(), text: text.to_owned() };
    let mut host = HostParameters {
        read: &mut |_, _| Err("no other file".to_owned()),
        environment: &|_| None,
        machine: MachineValues { page_bytes: 4096, memory_mib: 8192, cpus: 4 },
    };
    let settings = ImportSettings {
        seed: 1,
        clock: ClockChoice::Auto,
        file_name: "x".to_owned(),
        copies_apart: true,
    };
    let locate = |path: &Path| {
        let facts = LocationFacts::Directory { free: Bytes::from_gib(100), filesystem: 1 };
        Some(Location { path: RawPath::from(path), facts, destroy: false })
    };
    if let Ok(file) = parse_job_file(&source, &mut host)
        && let Ok(jobs) = resolve(&file)
        && let Ok(imported) = import(&jobs, &locate, &settings)
    {
        imported.plan.validate().expect("what is imported can be run");
    }
});
