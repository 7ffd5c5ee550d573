//! What `stack show` says of devices behind several paths, from copies of their sysfs.

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

/// A map of dm-multipath over disks at these places below `sys/devices`.
fn mapped_disks(root: &Path, places: &[(&str, &str)]) {
    let sys = root.join("sys");
    let mount = "26 1 253:0 / /data rw - ext4 /dev/dm-0 rw\n";
    write(&root.join("proc/self/mountinfo"), mount);
    let map = sys.join("devices/virtual/block/dm-0");
    for (name, text) in [("dm/name", "mpatha"), ("dm/uuid", "mpath-3600"), ("dev", "253:0")] {
        write(&map.join(name), text);
    }
    write(&map.join("size"), "2048");
    let disks = places.iter().enumerate().map(|(minor, (name, place))| {
        let disk = sys.join("devices").join(place).join("block").join(name);
        for (file, text) in [("dev", &*format!("8:{minor}")), ("size", "2048")] {
            write(&disk.join(file), text);
        }
        link(disk.to_str().unwrap(), &map.join("slaves").join(name));
        (*name, format!("8:{minor}"), disk)
    });
    for (name, number, folder) in disks.chain([("dm-0", "253:0".to_owned(), map.clone())]) {
        link(folder.to_str().unwrap(), &sys.join("class/block").join(name));
        link(folder.to_str().unwrap(), &sys.join("dev/block").join(number));
    }
}

#[test]
fn disks_of_another_machine_are_called_remote_below_a_multipath_map_and_those_of_this_one_not() {
    let sandbox = Sandbox::new();
    let root = sandbox.data().join("machine");
    let places = [
        ("sda", "platform/host3/session1/target3:0:0/3:0:0:0"),
        ("sdb", "pci0000:00/host4/rport-4:0-1/target4:0:0/4:0:0:0"),
        ("sdc", "pci0000:00/ata2/host5/target5:0:0/5:0:0:0"),
    ];
    mapped_disks(&root, &places);
    let text =
        sandbox.durio("stack show --root").word(&root).word("/data").run().expect_exit(0).text();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for attached in ["bus iscsi, remote", "bus fibre-channel, remote", "bus ata"] {
        assert!(words.contains(&format!("attached: {attached}")), "{text}");
    }
    assert_eq!(words.matches("remote").count(), 2, "{text}");
    fs::remove_dir_all(&root).unwrap();
}
