//! On which CPUs and memory copies run.
//!
//! From [`PlacementOptions`]; whether the machine has those CPUs and nodes is checked elsewhere.

use durio_plan::Placement;

use super::{ImportNotes, or};
use crate::job_file::{CpuPolicy, GivenOption, GivenValue, MemoryPolicy, PlacementOptions};

/// Where the copies of a job run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CpuBinding {
    /// Anywhere, as fio does without an option.
    Anywhere,
    /// On a NUMA node, with memory from there.
    Node(u32),
    /// Copy k on the k-th of these CPUs.
    Cpus(Vec<u32>),
}

impl CpuBinding {
    /// For a load whose job k is copy k / n of binding k mod n, n being the number of bindings, which are
    /// all of one kind.
    pub(super) fn interleaved(bindings: &[Self], copies: u32) -> Placement {
        match bindings.first() {
            None | Some(Self::Anywhere) => Placement::Anywhere,
            Some(Self::Node(node)) => Placement::Node(*node),
            Some(Self::Cpus(_)) => {
                let copies = 0..copies as usize;
                let cpus = copies.flat_map(|copy| {
                    bindings.iter().filter_map(move |binding| match binding {
                        Self::Cpus(cpus) => cpus.get(copy).copied(),
                        _ => None,
                    })
                });
                Placement::Cpus(cpus.collect())
            }
        }
    }

    /// True if both can be in one load.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self == other || matches!((self, other), (Self::Cpus(_), Self::Cpus(_)))
    }
}

/// Reads where `copies` copies run, the first of which is the `first`th of all jobs.
pub(super) fn binding(
    options: &PlacementOptions,
    (first, copies): (u32, u32),
    said: &mut ImportNotes,
) -> CpuBinding {
    // durio's jobs are threads; fio's are processes or threads, with the same results.
    let PlacementOptions { thread: _, cpus, cpu_policy, cpu_nodes, memory } = options;
    let node = cpu_nodes.as_ref().and_then(|nodes| single_node(nodes, said));
    check_memory(memory, node, said);
    let Some(cpus) = cpus else {
        return node.map_or(CpuBinding::Anywhere, CpuBinding::Node);
    };
    if let Some(nodes) = cpu_nodes {
        said.refuse(nodes, "give one of cpus_allowed and numa_cpu_nodes");
    }
    if or(cpu_policy, CpuPolicy::Shared) == CpuPolicy::Shared && cpus.value.len() > 1 {
        let reason = "durio puts each job on one CPU; add cpus_allowed_policy=split, or use \
                      numa_cpu_nodes, or start durio with taskset";
        said.refuse(cpus, reason);
    }
    // fio counts the copies of all jobs.
    let of_copy = |copy: u32| {
        let index = first.saturating_add(copy) as usize % cpus.value.len().max(1);
        cpus.value.get(index).copied()
    };
    CpuBinding::Cpus((0..copies).filter_map(of_copy).collect())
}

fn single_node(nodes: &GivenValue<Vec<u32>>, said: &mut ImportNotes) -> Option<u32> {
    if let [node] = nodes.value.as_slice() {
        return Some(*node);
    }
    let reason = "durio runs a job on one NUMA node; write a section per node";
    said.refuse(nodes, reason);
    None
}

// durio's memory is that of the node on which a job runs.
fn check_memory(memory: &GivenOption<MemoryPolicy>, node: Option<u32>, said: &mut ImportNotes) {
    said.refuse_unless(
        memory,
        |policy| match policy {
            MemoryPolicy::Default | MemoryPolicy::Local => true,
            MemoryPolicy::Prefer(preferred) => node == Some(*preferred),
            MemoryPolicy::Bind(nodes) => node.is_some_and(|node| *nodes == [node]),
            MemoryPolicy::Interleave(_) => false,
        },
        "durio's memory is that of the node on which a job runs; give numa_cpu_nodes with the same \
         single node",
    );
}
