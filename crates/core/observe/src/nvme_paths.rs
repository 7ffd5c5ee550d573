//! The controllers that lead to an NVMe namespace, where the kernel joins several into one device.
//!
//! Paths that are separate devices (dm-multipath) are layers, and not handled here.
//!
//! With native multipath, which is the kernel's default, a namespace lies below its subsystem, and `device` leads
//! there: transport, address and state are those of the controllers (drivers/nvme/host/multipath.c).

use crate::Fact;
use crate::block_node::is_numbered;
use crate::system_dir::SystemDir;

/// A way to a namespace.
pub(crate) struct NvmePath {
    /// `nvme1c2n1`; the controller's name where the kernel shows no path.
    name: String,
    pub(crate) controller: SystemDir,
    /// Which of several paths are good (ANA), if the subsystem reports it.
    access: Option<String>,
}

/// The paths to a namespace below a subsystem; none for other devices.
pub(crate) fn nvme_paths(dir: &SystemDir) -> Vec<NvmePath> {
    let subsystem =
        dir.follow("device").filter(|subsystem| subsystem.name().starts_with("nvme-subsys"));
    let Some(subsystem) = subsystem else { return Vec::new() };
    let name = dir.name();
    let Some((head, namespace)) = name.rsplit_once('n') else { return Vec::new() };
    let is_path = |name: &String| {
        let rest = name.strip_prefix(head).and_then(|rest| rest.strip_prefix('c'));
        rest.and_then(|rest| rest.rsplit_once('n')).is_some_and(|(_, number)| number == namespace)
    };
    let controllers = subsystem.names("").into_iter().filter(|name| is_numbered(name, "nvme"));
    let way = |controller: SystemDir| {
        let path = controller.names("").into_iter().find(is_path);
        let access = path.as_ref().and_then(|path| controller.text(format!("{path}/ana_state")));
        NvmePath { name: path.unwrap_or_else(|| controller.name()), controller, access }
    };
    let mut ways: Vec<NvmePath> =
        controllers.filter_map(|name| subsystem.follow(name)).map(way).collect();
    // A controller of the subsystem need not lead to each of its namespaces.
    if ways.iter().any(|way| is_path(&way.name)) {
        ways.retain(|way| is_path(&way.name));
    }
    ways
}

/// Transport and state of all ways, and of several each by itself.
pub(crate) fn path_facts(dir: &SystemDir, ways: &[NvmePath]) -> Vec<Fact> {
    let of_all = |file: &str| {
        let mut values: Vec<String> =
            ways.iter().filter_map(|way| way.controller.text(file)).collect();
        values.sort_unstable();
        values.dedup();
        (!values.is_empty()).then(|| values.join(", "))
    };
    let mut facts = Fact::known([("transport", of_all("transport")), ("state", of_all("state"))]);
    match ways {
        [] => {}
        [only] => facts.extend(Fact::known([("address", only.controller.text("address"))])),
        _ => {
            facts.push(Fact::new("paths", ways.len().to_string()));
            facts.extend(Fact::known([("path_policy", dir.text("device/iopolicy"))]));
            facts.extend(ways.iter().map(|way| {
                let words = ["transport", "state", "address"].map(|file| way.controller.text(file));
                let words = words.into_iter().chain([way.access.clone()]).flatten();
                let text = words.collect::<Vec<_>>().join(", ");
                Fact::new(format!("path_{}", way.name), text)
            }));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    const SUBSYSTEM: &str = "sys/devices/virtual/nvme-subsystem/nvme-subsys1";

    /// A controller of the subsystem, and its path to a namespace.
    fn controller(fixture: &Fixture, name: &str, path: Option<&str>, facts: [&str; 3]) {
        let dir = format!("sys/devices/virtual/nvme-fabrics/ctl/{name}");
        let [transport, state, address] = facts;
        fixture.files(&dir, &[("transport", transport), ("state", state), ("address", address)]);
        if let Some((path, access)) = path.and_then(|path| path.split_once(' ')) {
            fixture.file(&format!("{dir}/{path}/ana_state"), access);
        }
        fixture.link(&format!("{SUBSYSTEM}/{name}"), &dir);
    }

    fn head(fixture: &Fixture) -> SystemDir {
        let path = format!("{SUBSYSTEM}/nvme1n2");
        let dir = fixture.block(&path, "259:2");
        fixture.files(SUBSYSTEM, &[("iopolicy", "round-robin")]);
        fixture.link(&format!("{path}/device"), SUBSYSTEM);
        dir
    }

    fn lines(dir: &SystemDir) -> Vec<String> {
        let facts = path_facts(dir, &nvme_paths(dir));
        facts.iter().map(|fact| format!("{}={}", fact.name, fact.value)).collect()
    }

    #[test]
    fn each_controller_that_leads_to_a_namespace_is_a_path() {
        let fixture = Fixture::new();
        let dir = head(&fixture);
        let of = |name, path, transport, state, address| {
            controller(&fixture, name, path, [transport, state, address]);
        };
        of("nvme3", Some("nvme1c3n2 optimized"), "tcp", "live", "traddr=192.0.2.3");
        of("nvme5", Some("nvme1c5n2 inaccessible"), "rdma", "connecting", "traddr=192.0.2.5");
        // It leads to another namespace alone.
        of("nvme7", Some("nvme1c7n12 optimized"), "fc", "live", "traddr=nn-7");
        assert_eq!(
            lines(&dir),
            [
                "transport=rdma, tcp",
                "state=connecting, live",
                "paths=2",
                "path_policy=round-robin",
                "path_nvme1c3n2=tcp, live, traddr=192.0.2.3, optimized",
                "path_nvme1c5n2=rdma, connecting, traddr=192.0.2.5, inaccessible",
            ]
        );
    }

    #[test]
    fn one_controller_is_no_path_of_several() {
        let fixture = Fixture::new();
        let dir = head(&fixture);
        controller(&fixture, "nvme1", None, ["pcie", "live", "0000:02:00.0"]);
        assert_eq!(lines(&dir), ["transport=pcie", "state=live", "address=0000:02:00.0"]);
        // A namespace that stands below its controller has none.
        assert!(nvme_paths(&fixture.nvme_disk("nvme0n1", "259:0")).is_empty());
    }
}
