//! Command lines in fio's syntax, a word each line.
#![no_main]

use durio_fio::job_file::{HostParameters, MachineValues, parse_command_line, resolve};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let words: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut host = HostParameters {
        read: &mut |_, _| Err("no file".to_owned()),
        environment: &|_| None,
        machine: MachineValues { page_bytes: 4096, memory_mib: 8192, cpus: 4 },
    };
    if let Ok(file) = parse_command_line(&words, &mut host) {
        let _ = resolve(&file);
    }
});
