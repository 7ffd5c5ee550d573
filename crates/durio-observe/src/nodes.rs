//! The machine's NUMA nodes and their processors.

use std::collections::BTreeMap;

use crate::system_dir::{SystemDir, numbers_in_list};

/// The processors of each NUMA node that has some; empty where the kernel shows none.
#[must_use]
pub fn read_nodes() -> BTreeMap<u32, Vec<u32>> {
    nodes_below(&SystemDir::live_root())
}

fn nodes_below(root: &SystemDir) -> BTreeMap<u32, Vec<u32>> {
    let all = root.join("sys/devices/system/node");
    let node = |name: &std::ffi::OsStr| {
        let number = name.to_str()?.strip_prefix("node")?.parse().ok()?;
        let list = all.text(std::path::Path::new(name).join("cpulist"))?;
        Some((number, numbers_in_list(&list)?))
    };
    all.names("").iter().filter_map(|name| node(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn nodes_have_their_processors_and_those_without_are_left_out() {
        let fixture = Fixture::new();
        fixture.file("sys/devices/system/node/node0/cpulist", "0-1,4\n");
        fixture.file("sys/devices/system/node/node1/cpulist", "2-3\n");
        fixture.file("sys/devices/system/node/node2/cpulist", "\n");
        fixture.file("sys/devices/system/node/online", "0-2\n");
        let nodes = nodes_below(&fixture.root());
        assert_eq!(nodes, BTreeMap::from([(0, vec![0, 1, 4]), (1, vec![2, 3])]));
    }
}
