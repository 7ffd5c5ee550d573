//! What `stack show` says of an NVMe namespace behind two controllers, from a copy of its sysfs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::sandbox::Sandbox;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn link(target: &str, path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

/// A namespace of 3 GiB by two controllers that differ in all that is shown of them.
fn machine(root: &Path) {
    let sys = root.join("sys");
    let subsystem = sys.join("devices/virtual/nvme-subsystem/nvme-subsys1");
    let head = subsystem.join("nvme1n1");
    let mount = "26 1 259:2 / /data rw - ext4 /dev/nvme1n1 rw\n";
    write(&root.join("proc/self/mountinfo"), mount);
    for (name, text) in [("dev", "259:2"), ("size", "6291456"), ("ro", "0"), ("removable", "0")] {
        write(&head.join(name), text);
    }
    for (name, text) in
        [("iopolicy", "queue-depth"), ("model", "Some Array"), ("firmware_rev", "1.7")]
    {
        write(&subsystem.join(name), text);
    }
    link("../../nvme-subsys1", &head.join("device"));
    let node = "../../devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1";
    link(node, &sys.join("class/block/nvme1n1"));
    link(node, &sys.join("dev/block/259:2"));
    for (number, transport, state, ana) in
        [(3, "tcp", "live", "optimized"), (4, "rdma", "connecting", "inaccessible")]
    {
        let (controller, path) = (format!("nvme{number}"), format!("nvme1c{number}n1"));
        let folder = sys.join("devices/virtual/nvme-fabrics/ctl").join(&controller);
        let address = format!("traddr=192.0.2.{number},trsvcid=4420");
        for (name, text) in [("transport", transport), ("state", state), ("address", &address)] {
            write(&folder.join(name), text);
        }
        write(&folder.join(&path).join("ana_state"), ana);
        link(&format!("../../nvme-fabrics/ctl/{controller}"), &subsystem.join(&controller));
        let target = format!("../../../../nvme-fabrics/ctl/{controller}/{path}");
        link(&target, &head.join("multipath").join(&path));
    }
}

#[test]
fn a_namespace_behind_two_controllers_shows_each_path_and_its_policy_once() {
    let sandbox = Sandbox::new();
    let root = sandbox.data().join("machine");
    machine(&root);
    let text =
        sandbox.durio("stack show --root").word(&root).word("/data").run().expect_exit(0).text();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let paths = "paths: 2 controllers, policy queue-depth, nvme1c3n1: tcp, live, \
                 traddr=192.0.2.3,trsvcid=4420, optimized, nvme1c4n1: rdma, connecting, \
                 traddr=192.0.2.4,trsvcid=4420, inaccessible identity:";
    assert!(words.contains(paths), "{text}");
    assert!(words.contains("NVMe drive nvme1n1 · Some Array · 3 GiB"), "{text}");
    assert!(words.contains("attached: bus nvme, rdma, tcp, remote paths:"), "{text}");
    fs::remove_dir_all(&root).unwrap();
}
