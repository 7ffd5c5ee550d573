//! Workloads whose figures the report itself disowns: no verdict may stand on them.

use durio_workload::CacheMode;

use super::{Basis, figures, storage};
use durio_analyse::WorkloadFindings;

/// Why nothing can be judged by the figures of this workload; none if they are the storage's.
pub(crate) fn disowned(basis: &Basis<'_>, workload: &WorkloadFindings) -> Option<String> {
    let stack = storage::stack_of(basis, workload);
    if stack.is_some_and(storage::is_memory) {
        return Some("it lies in memory, which is not storage".to_owned());
    }
    if let Some(seen) = figures::inconsistency(workload) {
        return Some(format!("its figures contradict each other: {seen}"));
    }
    if workload.definition.reads() && fell_back_to_page_cache(workload) {
        return Some("direct I/O was not possible: its reads may be the page cache's".to_owned());
    }
    if workload.definition.reads()
        && let Some(seen) = storage::sparse(basis, workload)
    {
        return Some(format!("reads of what was never written reach no device: {seen}"));
    }
    let dropped = stack.map(storage::dropped_flushes).unwrap_or_default();
    let is_dropped = workload.durable && !dropped.is_empty();
    is_dropped.then(|| format!("its syncs send no flush: {}", dropped.join("; ")))
}

fn fell_back_to_page_cache(workload: &WorkloadFindings) -> bool {
    workload.definition.cache == CacheMode::Direct
        && workload.effective.cache == CacheMode::Buffered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, sample};
    use durio_observe::{Fact, FilesystemFacts};
    use durio_workload::PerMille;

    fn reason(spoil: impl FnOnce(&mut Sample)) -> Option<String> {
        let mut sample = sample();
        spoil(&mut sample);
        disowned(&sample.basis(), &sample.workloads[0])
    }

    fn filesystem(facts: FilesystemFacts) -> impl FnOnce(&mut Sample) {
        |sample| sample.environment.stacks[0].root.filesystem = Some(facts)
    }

    #[test]
    fn a_clean_workload_is_owned() {
        assert_eq!(reason(|_| {}), None);
    }

    #[test]
    fn figures_of_memory_are_disowned() {
        let facts = FilesystemFacts { memory_backed: true, ..FilesystemFacts::default() };
        assert!(reason(filesystem(facts)).unwrap().contains("memory"));
    }

    #[test]
    fn figures_that_contradict_each_other_are_disowned() {
        let reason = reason(|sample| sample.workloads[0].in_flight.deviation = 0.021);
        assert!(reason.unwrap().contains("contradict"));
    }

    #[test]
    fn reads_that_fell_back_to_the_page_cache_are_disowned_and_commits_are_not() {
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
    fn syncs_that_send_no_flush_are_disowned() {
        let options = vec!["rw".to_owned(), "nobarrier".to_owned()];
        let facts = FilesystemFacts { options, ..FilesystemFacts::default() };
        assert!(reason(filesystem(facts)).unwrap().contains("nobarrier"));
    }

    #[test]
    fn reads_of_a_sparse_file_are_disowned() {
        let reason = reason(|sample| {
            sample.workloads[0].definition.read_share = PerMille::ALL;
            let fact = Fact { name: "allocated_bytes".to_owned(), value: "4096".to_owned() };
            sample.environment.stacks[0].root.facts.push(fact);
        });
        assert!(reason.unwrap().contains("4 KiB of 1 GiB"));
    }
}
