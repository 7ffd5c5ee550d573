//! Warnings about layers under the target that distort the results, and the reasons why a
//! workload's results allow no verdict.
//!
//! Whether its flushes can be believed is reported by signals, not here.

use durio_base::Bytes;
use durio_observe::Stack;
use durio_plan::TargetKind;
use durio_workload::{CacheMode, Pattern};

use super::{Basis, figures};
use crate::signals::dropping_options;
use durio_analyse::WorkloadFindings;

/// Why this workload's results allow no judgement; `None` if they are the storage's.
pub(crate) fn invalid(basis: &Basis<'_>, workload: &WorkloadFindings) -> Option<String> {
    let (stack, definition) = (basis.stack_at(&workload.location), &workload.definition);
    if stack.is_some_and(is_memory) {
        return Some("it lies in memory, which is not storage".to_owned());
    }
    if let Some(seen) = figures::inconsistent(basis, workload) {
        return Some(format!("its figures contradict each other: {seen}"));
    }
    if definition.reads() {
        let fell_back = definition.cache == CacheMode::Direct
            && workload.effective.cache == CacheMode::Buffered;
        if fell_back {
            return Some(
                "direct I/O was not possible: its reads may be the page cache's".to_owned(),
            );
        }
        if let Some(seen) = sparse(basis, workload) {
            return Some(format!("reads of what was never written reach no device: {seen}"));
        }
    }
    let dropped = stack.map(dropped_flushes).unwrap_or_default();
    let is_dropped = workload.durable && !dropped.is_empty();
    is_dropped.then(|| format!("its syncs send no flush: {}", dropped.join("; ")))
}

/// True if the filesystem of the location keeps its files in memory.
fn is_memory(stack: &Stack) -> bool {
    stack.filesystem().is_some_and(|filesystem| filesystem.memory_backed)
}

/// For runs that make writes durable, a signal reports this instead.
pub(super) fn memory_backed(basis: &Basis<'_>) -> Option<(Vec<String>, String)> {
    let memory = basis.environment.stacks.iter().filter(|stack| is_memory(stack));
    let about: Vec<String> = memory.map(|stack| stack.target.clone()).collect();
    let seen = format!("{} lies in memory", about.join(", "));
    (!about.is_empty() && !basis.writes_durably()).then_some((about, seen))
}

/// The mounts of the stack whose options drop flushes.
fn dropped_flushes(stack: &Stack) -> Vec<String> {
    let layers = stack.walk().map(|(_, layer)| layer);
    let dropping = layers.filter_map(|layer| {
        let option = dropping_options(layer)?.value;
        let mount_point = &layer.filesystem.as_ref()?.mount_point;
        Some(format!("{mount_point} is mounted with {option}"))
    });
    dropping.collect()
}

pub(super) fn raw_reads(basis: &Basis<'_>) -> Option<(Vec<String>, String)> {
    let targets = basis.plan.targets.iter();
    let devices = targets.filter(|target| matches!(target.kind, TargetKind::Device { .. }));
    let mut about: Vec<String> =
        devices.filter_map(|target| Some(target.location.as_ref()?.to_string())).collect();
    about.dedup();
    let seen = format!("reads of {} go wherever the device has data or not", about.join(", "));
    (!about.is_empty()).then_some((about, seen))
}

/// The allocated share of an existing file, if less than the touched bytes.
pub(super) fn sparse(basis: &Basis<'_>, workload: &WorkloadFindings) -> Option<String> {
    let step = basis.plan.steps.get(workload.step as usize)?;
    let target = basis.plan.target_of(step.stream(workload.stream)?);
    if !matches!(target.kind, TargetKind::ExistingFile { .. }) {
        return None;
    }
    let allocated = basis.stack_at(&workload.location)?.root.fact("allocated_bytes")?;
    let allocated = Bytes::new(allocated.parse().ok()?);
    (allocated < target.size).then(|| format!("{allocated} of {} are allocated", target.size))
}

/// The most sequential jobs that begin at one block of a target.
pub(super) fn shared_walks(basis: &Basis<'_>, workload: &WorkloadFindings) -> Option<String> {
    let step = basis.plan.steps.get(workload.step as usize)?;
    let load = step.stream(workload.stream)?;
    let is_concerned = load.workload.pattern == Pattern::Sequential;
    let walks = basis.plan.shared_walks(step).into_iter();
    let of_load = walks.filter(|it| is_concerned && load.targets().any(|at| at == it.target));
    let jobs = of_load.map(|it| it.jobs).max()?;
    Some(format!("{jobs} jobs access the same blocks sequentially"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Sample, check_quiet, check_warns, sample};
    use durio_observe::{Fact, FilesystemFacts};
    use durio_workload::{PerMille, SyncPolicy};

    #[test]
    fn sequential_jobs_that_share_their_blocks_are_told() {
        use durio_workload::RegionRule;
        let with = |region| {
            move |sample: &mut Sample| {
                let workload = &mut sample.plan.steps[0].load.workload;
                (workload.jobs, workload.region) = (4, region);
            }
        };
        check_warns("shared-blocks", with(RegionRule::Shared));
        check_quiet("shared-blocks", with(RegionRule::ShareEach));
    }

    #[test]
    fn memory_is_not_storage_and_durable_runs_have_a_signal_for_it() {
        let in_memory = |sample: &mut Sample| {
            let facts = FilesystemFacts { memory_backed: true, ..FilesystemFacts::default() };
            sample.environment.stacks[0].root.filesystem = Some(facts);
        };
        check_quiet("memory", in_memory);
        check_warns("memory", |sample| {
            in_memory(sample);
            sample.plan.steps[0].load.workload.sync = SyncPolicy::NONE;
        });
    }

    #[test]
    fn holes_in_a_file_are_named() {
        let allocate = |bytes: u64| {
            move |sample: &mut Sample| {
                let fact = Fact { name: "allocated_bytes".into(), value: bytes.to_string() };
                sample.environment.stacks[0].root.facts.push(fact);
            }
        };
        check_warns("sparse", allocate((1 << 30) - 4096));
        check_quiet("sparse", allocate(1 << 30));
    }

    fn reason(spoil: impl FnOnce(&mut Sample)) -> Option<String> {
        let mut sample = sample();
        spoil(&mut sample);
        invalid(&sample.basis(), &sample.workloads[0])
    }

    fn filesystem(facts: FilesystemFacts) -> impl FnOnce(&mut Sample) {
        |sample| sample.environment.stacks[0].root.filesystem = Some(facts)
    }

    #[test]
    fn a_clean_workload_is_valid() {
        assert_eq!(reason(|_| {}), None);
    }

    #[test]
    fn figures_of_memory_are_invalid() {
        let facts = FilesystemFacts { memory_backed: true, ..FilesystemFacts::default() };
        assert!(reason(filesystem(facts)).unwrap().contains("memory"));
    }

    #[test]
    fn figures_that_contradict_each_other_are_invalid() {
        let reason = reason(|sample| sample.workloads[0].in_flight.deviation = 0.021);
        assert!(reason.unwrap().contains("contradict"));
    }

    #[test]
    fn reads_that_fell_back_to_the_page_cache_are_invalid_and_commits_are_not() {
        let buffer = |sample: &mut Sample| {
            sample.workloads[0].effective.cache = CacheMode::Buffered;
        };
        assert_eq!(reason(buffer), None);
        let reading = reason(|sample| {
            buffer(sample);
            sample.workloads[0].definition.read_share = PerMille(700);
        });
        assert!(reading.unwrap().contains("page cache"));
    }

    #[test]
    fn syncs_that_send_no_flush_are_invalid() {
        let options = vec!["rw".to_owned(), "nobarrier".to_owned()];
        let facts = FilesystemFacts { options, ..FilesystemFacts::default() };
        assert!(reason(filesystem(facts)).unwrap().contains("nobarrier"));
    }

    #[test]
    fn reads_of_a_sparse_file_are_invalid() {
        let reason = reason(|sample| {
            sample.workloads[0].definition.read_share = PerMille::ALL;
            let fact = Fact { name: "allocated_bytes".to_owned(), value: "4096".to_owned() };
            sample.environment.stacks[0].root.facts.push(fact);
        });
        assert!(reason.unwrap().contains("4 KiB of 1 GiB"));
    }
}
