//! Warnings about what lies under the target that make figures other than the storage's.
//!
//! Whether its flushes can be believed is told by signals, not here.

use durio_observe::Stack;
use durio_plan::TargetKind;
use durio_units::Bytes;
use durio_workload::Pattern;

use super::{Basis, per_workload, warning};
use crate::signals::dropping_options;
use durio_analyse::{WarningFinding, WorkloadFindings};

/// The layers under the workload's location.
pub(super) fn stack_of<'a>(basis: &'a Basis<'_>, workload: &WorkloadFindings) -> Option<&'a Stack> {
    basis.stack_at(&workload.location)
}

/// True if the filesystem of the location keeps its files in memory.
pub(super) fn is_memory(stack: &Stack) -> bool {
    stack.filesystem().is_some_and(|filesystem| filesystem.memory_backed)
}

/// Of a run that makes writes durable, a signal says so.
pub(super) fn memory_backed(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let memory = basis.environment.stacks.iter().filter(|stack| is_memory(stack));
    let about: Vec<String> = memory.map(|stack| stack.target.clone()).collect();
    if about.is_empty() || basis.writes_durably() {
        return Vec::new();
    }
    vec![warning(
        "memory",
        about.clone(),
        format!("{} lies in memory", about.join(", ")),
        "memory is not storage: nothing survives a power cut, and no figure here is a device's",
        "name a directory on the storage that the database will use",
    )]
}

/// The mounts of the stack that are told to drop flushes.
pub(super) fn dropped_flushes(stack: &Stack) -> Vec<String> {
    let layers = stack.walk().map(|(_, layer)| layer);
    let dropping = layers.filter_map(|layer| {
        let option = dropping_options(layer)?.value;
        let mount_point = &layer.filesystem.as_ref()?.mount_point;
        Some(format!("{mount_point} is mounted with {option}"))
    });
    dropping.collect()
}

pub(super) fn raw_reads(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let devices: Vec<String> = basis
        .plan
        .targets
        .iter()
        .filter(|target| matches!(target.kind, TargetKind::Device { .. }))
        .filter_map(|target| target.location.as_ref().map(ToString::to_string))
        .collect();
    let mut about = devices;
    about.dedup();
    if about.is_empty() {
        return Vec::new();
    }
    vec![warning(
        "raw-reads",
        about.clone(),
        format!("reads of {} go wherever the device has data or not", about.join(", ")),
        "blocks that were never written, or trimmed, are answered without reading the medium",
        "take reads of a new or trimmed device for an upper bound; write it over first",
    )]
}

/// How much of an existing file is allocated, if that is less than what is touched.
pub(super) fn sparse(basis: &Basis<'_>, workload: &WorkloadFindings) -> Option<String> {
    let step = basis.plan.steps.get(workload.step as usize)?;
    let target = basis.plan.target_of(step.stream(workload.stream)?);
    if !matches!(target.kind, TargetKind::ExistingFile { .. }) {
        return None;
    }
    let allocated = stack_of(basis, workload)?.root.fact("allocated_bytes")?;
    let allocated = Bytes::new(allocated.parse().ok()?);
    (allocated < target.size).then(|| format!("{allocated} of {} are allocated", target.size))
}

pub(super) fn sparse_files(basis: &Basis<'_>) -> Vec<WarningFinding> {
    per_workload(
        basis,
        "sparse",
        |workload| sparse(basis, workload),
        "blocks of a file that were never written, or are compressed, are answered without reading \
         the medium, and writing them allocates first",
        "take a file that is written fully, or name its directory and let durio make one",
    )
}

/// The most sequential jobs that begin at one block of a target.
fn walked_together(basis: &Basis<'_>, workload: &WorkloadFindings) -> Option<String> {
    let step = basis.plan.steps.get(workload.step as usize)?;
    let load = step.stream(workload.stream)?;
    let is_concerned = load.workload.pattern == Pattern::Sequential;
    let walks = basis.plan.shared_walks(step);
    let of_load =
        walks.iter().filter(|it| is_concerned && load.targets().any(|at| at == it.target));
    let jobs = of_load.map(|it| it.jobs).max()?;
    Some(format!("{jobs} jobs access the same blocks sequentially"))
}

pub(super) fn shared_walks(basis: &Basis<'_>) -> Vec<WarningFinding> {
    per_workload(
        basis,
        "shared-blocks",
        |workload| walked_together(basis, workload),
        "the first job to reach a block brings it into caches for the others, or has just written \
         it: the rate is higher than that of the storage",
        "give each job a share of its own (--share-each; region = \"share-each\" in a spec; \
         offset_increment in a fio job), or a file each",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{check_quiet, check_warns};
    use durio_observe::{Fact, FilesystemFacts};
    use durio_workload::SyncPolicy;

    #[test]
    fn a_clean_run_gives_no_warning_of_this_file() {
        for rule in [memory_backed, raw_reads, sparse_files, shared_walks] {
            check_quiet(rule, |_| {});
        }
    }

    #[test]
    fn sequential_jobs_that_share_their_blocks_are_told() {
        use durio_workload::RegionRule;
        let with = |region| {
            move |sample: &mut crate::sample::Sample| {
                let workload = &mut sample.plan.steps[0].load.workload;
                (workload.jobs, workload.region) = (4, region);
            }
        };
        check_warns(shared_walks, "shared-blocks", with(RegionRule::Shared));
        check_quiet(shared_walks, with(RegionRule::ShareEach));
    }

    #[test]
    fn memory_is_not_storage_and_durable_runs_have_a_signal_for_it() {
        let in_memory = |sample: &mut crate::sample::Sample| {
            let facts = FilesystemFacts { memory_backed: true, ..FilesystemFacts::default() };
            sample.environment.stacks[0].root.filesystem = Some(facts);
        };
        check_quiet(memory_backed, in_memory);
        check_warns(memory_backed, "memory", |sample| {
            in_memory(sample);
            sample.plan.steps[0].load.workload.sync = SyncPolicy::NONE;
        });
    }

    #[test]
    fn holes_in_a_file_are_named() {
        let allocate = |bytes: u64| {
            move |sample: &mut crate::sample::Sample| {
                let fact = Fact { name: "allocated_bytes".into(), value: bytes.to_string() };
                sample.environment.stacks[0].root.facts.push(fact);
            }
        };
        check_warns(sparse_files, "sparse", allocate((1 << 30) - 4096));
        check_quiet(sparse_files, allocate(1 << 30));
    }
}
