//! The environment of a run, for the record and the runner: the host, the layers under each
//! location, and the devices and nodes of each target.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use durio_command::{CommandError, CommandErrorKind};
use durio_observe::{Fact, Stack, leaf_devices, read_host, read_nodes, read_stack};
use durio_plan::{Plan, RawPath, Target};
use durio_record::Environment;
use durio_run::Processors;

/// The machine and the stack under each location; of a file that is still to be made, under its
/// directory.
pub(crate) fn environment(plan: &Plan) -> Result<Environment, CommandError> {
    let stack = |location: &RawPath| -> Result<Stack, CommandError> {
        let path = location.as_path();
        let existing = match path.symlink_metadata() {
            Ok(_) => path,
            Err(_) => path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new(".")),
        };
        let stack = read_stack(existing)
            .map_err(|error| CommandError::of(CommandErrorKind::CannotMeasure, error))?;
        let mut stack = Stack { target: location.to_string(), ..stack };
        stack.root.facts.extend(allocated(path));
        Ok(stack)
    };
    let stacks = plan.locations().into_iter().map(stack).collect::<Result<_, _>>()?;
    Ok(Environment { host: read_host(), stacks })
}

/// How much of an existing file is allocated.
// Unallocated blocks are read from no device.
fn allocated(path: &Path) -> Option<Fact> {
    // st_blocks counts these, whatever the blocks of the filesystem are (inode(7)).
    const BLOCK: u64 = 512;
    let facts = path.metadata().ok().filter(fs::Metadata::is_file)?;
    let value = facts.blocks().saturating_mul(BLOCK).to_string();
    Some(Fact { name: "allocated_bytes".to_owned(), value })
}

/// Per target the devices whose counters are read.
pub(crate) fn devices(plan: &Plan, environment: &Environment) -> Vec<Vec<String>> {
    let locations = plan.locations();
    let of = |target: &Target| {
        let location = target.location.as_ref()?;
        let index = locations.iter().position(|known| *known == location)?;
        // The lowest alone: each layer above counts the same requests again.
        environment.stacks.get(index).map(leaf_devices)
    };
    plan.targets.iter().map(|target| of(target).unwrap_or_default()).collect()
}

/// The machine's nodes, and per target the node of the devices below it, if they agree on one.
pub(crate) fn processors(plan: &Plan, environment: &Environment) -> Processors {
    let locations = plan.locations();
    let of = |target: &Target| -> Option<u32> {
        let location = target.location.as_ref()?;
        let index = locations.iter().position(|known| *known == location)?;
        let stack = environment.stacks.get(index)?;
        let nodes: BTreeSet<u32> = stack
            .walk()
            .filter_map(|(_, layer)| layer.block.as_ref()?.numa_node)
            .filter_map(|node| u32::try_from(node).ok())
            .collect();
        // If the devices are on several nodes, no node is near to all.
        nodes.first().copied().filter(|_| nodes.len() == 1)
    };
    Processors { nodes: read_nodes(), node_of_target: plan.targets.iter().map(of).collect() }
}
