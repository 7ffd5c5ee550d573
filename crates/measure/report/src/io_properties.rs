//! A run as `io_properties.yaml`, by which ScyllaDB, Redpanda and other programs on Seastar know what
//! their disks can do (Seastar, doc/io-properties-file.md).

use durio_analyse::{Findings, WorkloadFindings};
use durio_base::{Bytes, visible};
use durio_observe::Stack;
use durio_workload::{CacheMode, Pattern, PerMille};

use crate::figures::whole;
use crate::write_document;

/// Key in the file, the accesses that show it, and their share of reads and pattern. Sizes are those
/// of Seastar's iotune.
const RESULTS: [(&str, &str, PerMille, Pattern); 4] = [
    ("read_iops", "random reads of at most 4 KiB", PerMille::ALL, Pattern::Random),
    ("read_bandwidth", "sequential reads of at least 1 MiB", PerMille::ALL, Pattern::Sequential),
    ("write_iops", "random writes of at most 4 KiB", PerMille::NONE, Pattern::Random),
    ("write_bandwidth", "sequential writes of at least 1 MiB", PerMille::NONE, Pattern::Sequential),
];

/// The file, with an entry for each place of the run.
///
/// # Errors
/// What the run did not measure, of all places.
pub fn io_properties(findings: &Findings) -> Result<String, Vec<String>> {
    let run = &findings.run;
    let mut text = format!("# {}, durio {}\n", visible(&run.run), visible(&run.durio_version));
    if let Some(why) = &findings.provisional {
        text.push_str(&format!("# PROVISIONAL: {}\n", visible(why)));
    }
    text.push_str("disks:\n");
    let mut missing = Vec::new();
    for stack in &findings.stack {
        let target = visible(&stack.target);
        match mount_point(stack) {
            Some(quoted) => text.push_str(&format!("  - mountpoint: {quoted}\n")),
            None => missing.push(format!("a filesystem on storage at {target}")),
        }
        for (key, accesses, reads, pattern) in RESULTS {
            match result(findings, stack, reads, pattern) {
                Some(value) => text.push_str(&format!("    {key}: {}\n", whole(value))),
                None => missing.push(format!("{accesses} at {target}")),
            }
        }
    }
    if findings.stack.is_empty() {
        missing.push("any storage".to_owned());
    }
    if missing.is_empty() { Ok(text) } else { Err(missing) }
}

/// As a string of JSON, which is one of YAML.
fn mount_point(stack: &Stack) -> Option<String> {
    let filesystem = stack.filesystem().filter(|_| !stack.is_in_memory())?;
    let mut quoted = Vec::new();
    write_document(&filesystem.mount_point, &mut quoted).ok()?;
    Some(String::from_utf8_lossy(&quoted).trim_end().to_owned())
}

/// The highest result of such accesses, past the page cache, not durable, with nothing beside them.
fn result(findings: &Findings, stack: &Stack, reads: PerMille, pattern: Pattern) -> Option<f64> {
    let is_such = |workload: &&WorkloadFindings| {
        let definition = &workload.definition;
        let has_size = match pattern {
            Pattern::Random => definition.block_size <= Bytes::from_kib(4),
            Pattern::Sequential => definition.block_size >= Bytes::from_mib(1),
        };
        has_size
            && (definition.read_share, definition.pattern) == (reads, pattern)
            && definition.block_mix.is_empty()
            && definition.write_block_mix.is_empty()
            && definition.skew.is_uniform()
            && (definition.run_length, definition.hole) == (1, Bytes::ZERO)
            && !definition.is_durable()
            && workload.location == stack.target
            && workload.complete
            && workload.open_loop.is_none()
            && workload.effective.cache == CacheMode::Direct
            && is_alone(findings, workload)
    };
    let results = findings.workloads.iter().filter(is_such).map(|workload| match pattern {
        Pattern::Random => workload.iops,
        Pattern::Sequential => workload.bandwidth,
    });
    results.reduce(f64::max)
}

/// True if no other load of its step ran at the same time.
fn is_alone(findings: &Findings, workload: &WorkloadFindings) -> bool {
    let place = |one: &WorkloadFindings| (one.step, one.round, one.repeat);
    findings.workloads.iter().filter(|one| place(one) == place(workload)).count() == 1
}
