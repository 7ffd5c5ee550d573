//! On which processors the jobs of a load run.

use std::collections::BTreeMap;

use durio_plan::{Load, Placement};

use crate::error::RunError;

/// The machine's NUMA nodes, and on which of them the targets' devices are.
#[derive(Debug, Clone, Default)]
pub struct Processors {
    /// The processors of each node.
    pub nodes: BTreeMap<u32, Vec<u32>>,
    /// Per target of the plan: the node of the device below, where there is one.
    pub node_of_target: Vec<Option<u32>>,
}

impl Processors {
    /// The processors of a job; none means wherever the kernel puts it.
    pub(crate) fn of(&self, load: &Load, target: usize, place: u32) -> Result<Vec<u32>, RunError> {
        match &load.placement {
            Placement::Anywhere => Ok(Vec::new()),
            // On a machine of one node there is nothing to choose.
            Placement::DeviceNode if self.nodes.len() < 2 => Ok(Vec::new()),
            // Memory on another node than the device's is reached over the link between them.
            Placement::DeviceNode => {
                let node = self.node_of_target.get(target).copied().flatten();
                Ok(node.and_then(|node| self.nodes.get(&node)).cloned().unwrap_or_default())
            }
            Placement::Node(node) => self.nodes.get(node).cloned().ok_or_else(|| {
                RunError::unsupported(format!("this machine has no NUMA node {node}"))
                    .hint("lscpu lists the nodes")
            }),
            Placement::Cpus(cpus) if cpus.is_empty() => Ok(Vec::new()),
            Placement::Cpus(cpus) => Ok(vec![cpus[place as usize % cpus.len()]]),
        }
    }

    /// The placement of a load in words, for the record; empty if the kernel decides.
    pub(crate) fn words(&self, load: &Load) -> Vec<String> {
        match &load.placement {
            Placement::Node(node) => vec![format!("node {node}")],
            Placement::Cpus(cpus) => {
                let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
                vec![format!("processors {}", list.join(","))]
            }
            Placement::DeviceNode if self.nodes.len() > 1 => {
                let node = self.node_of_target.get(load.target).copied().flatten();
                node.map(|node| format!("node {node} of the device")).into_iter().collect()
            }
            Placement::DeviceNode | Placement::Anywhere => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use durio_plan::EngineKind;
    use durio_workload::Workload;

    use super::*;

    fn load(placement: Placement) -> Load {
        Load { placement, ..Load::new(0, Workload::default(), EngineKind::Sync) }
    }

    #[test]
    fn jobs_run_on_the_devices_node_unless_told_otherwise() {
        let nodes = BTreeMap::from([(0, vec![0, 1]), (1, vec![2, 3])]);
        let two = Processors { nodes, node_of_target: vec![Some(1), None] };
        let of = |placement, target, place| two.of(&load(placement), target, place).unwrap();
        assert_eq!(of(Placement::DeviceNode, 0, 5), [2, 3]);
        assert_eq!(of(Placement::DeviceNode, 1, 0), [0; 0], "a device of no node");
        assert_eq!(of(Placement::Anywhere, 0, 0), [0; 0]);
        assert_eq!(of(Placement::Node(0), 0, 0), [0, 1]);
        assert_eq!(of(Placement::Cpus(vec![3, 1]), 0, 2), [3]);
        assert!(two.of(&load(Placement::Node(7)), 0, 0).is_err());
    }

    #[test]
    fn a_machine_of_one_node_leaves_jobs_where_they_are() {
        let nodes = BTreeMap::from([(0, vec![0, 1])]);
        let one = Processors { nodes, node_of_target: vec![Some(0)] };
        assert_eq!(one.of(&load(Placement::DeviceNode), 0, 0).unwrap(), [0; 0]);
    }
}
