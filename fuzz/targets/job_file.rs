//! fio's job files, and the plans that are made of them.
#![no_main]

use durio_fio::import::{ImportSettings, PlaceFacts, import};
use durio_fio::job_file::{HostParameters, Machine, Source, parse_job_file, resolve};
use durio_plan::ClockChoice;
use durio_units::Bytes;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let source = Source { name: "x.fio".to_owned(), text: text.to_owned() };
    let mut host = HostParameters {
        read: &mut |_, _| Err("no other file".to_owned()),
        environment: &|_| None,
        machine: Machine { page_bytes: 4096, memory_mib: 8192, cpus: 4 },
    };
    let settings = ImportSettings { seed: 1, clock: ClockChoice::Auto, file_name: "x".to_owned() };
    let facts = |_: &_| Some(PlaceFacts::Directory { free: Bytes::from_gib(100) });
    if let Ok(file) = parse_job_file(&source, &mut host)
        && let Ok(jobs) = resolve(&file)
        && let Ok(imported) = import(&jobs, &facts, &settings)
    {
        imported.plan.validate().expect("what is imported can be run");
    }
});
