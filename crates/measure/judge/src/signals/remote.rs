//! Rules about storage that another machine or process serves: an acknowledgement is as good as the
//! server's word.

use durio_observe::{Host, Layer, LayerKind};

use super::{
    EvidenceReading, MOUNTS, Signal, SignalWord, is_end, layer_name, reading, signal, sysfs,
};

/// FUSE filesystems on object stores, which can acknowledge from a local cache.
const OBJECT_STORES: [&str; 7] =
    ["juicefs", "s3fs", "goofys", "rclone", "gcsfuse", "blobfuse", "mount-s3"];

fn mount_readings(layer: &Layer, wanted: impl Fn(&str) -> bool) -> Vec<EvidenceReading> {
    let options = layer.filesystem.iter().flat_map(|filesystem| &filesystem.options);
    let found = options.filter(|option| wanted(option));
    found.map(|option| reading("mount option", MOUNTS, option.clone())).collect()
}

pub(super) fn not_strict(layer: &Layer, _: &Host) -> Option<Signal> {
    // CIFS leaves the server's flush out of fsync with this option (mount.cifs(8)).
    let read = mount_readings(layer, |option| option == "nostrictsync");
    if layer.kind != LayerKind::Network || read.is_empty() {
        return None;
    }
    signal(
        ("nostrictsync", SignalWord::UnsafeConfig, layer_name(layer)),
        read,
        "an fsync sends the data but does not ask the server to store it: acknowledged commits \
         are in the server's memory",
        "mount with strictsync",
    )
}

/// The unknowns of each kind of server.
fn beyond(fs_type: &str) -> &'static str {
    match fs_type {
        "nfs" | "nfs4" => {
            "a sync ends with the server's answer; an export with 'async' answers from memory, and \
             the client cannot see that ('sync' and 'async' of the mount are the client's own cache)"
        }
        "virtiofs" | "9p" | "vboxsf" => {
            "a sync becomes a sync on the host; the host's filesystem and devices cannot be seen from \
             here"
        }
        "cifs" | "smb3" => "a sync asks the server to flush; what the server does cannot be seen",
        _ => "a sync ends with the servers' answer; what they do with it cannot be seen from here",
    }
}

pub(super) fn server(layer: &Layer, _: &Host) -> Option<Signal> {
    let filesystem = layer.filesystem.as_ref().filter(|_| layer.kind == LayerKind::Network)?;
    let mut read = vec![reading("mounted from", MOUNTS, filesystem.source.clone())];
    let telling =
        ["sync", "async", "soft", "hard", "cache=", "vers=", "strictsync", "access=", "proto="];
    let tells = |option: &str, name: &str| {
        option == name || name.ends_with('=') && option.starts_with(name)
    };
    read.extend(mount_readings(layer, |option| telling.iter().any(|name| tells(option, name))));
    let advice = match filesystem.fs_type.as_str() {
        "nfs" | "nfs4" => "on the server: exportfs -v, /proc/fs/nfsd/exports",
        _ => "run durio on the server as well",
    };
    let kind = ("remote-server", SignalWord::Declared, layer_name(layer));
    signal(kind, read, beyond(&filesystem.fs_type), advice)
}

pub(super) fn fuse(layer: &Layer, _: &Host) -> Option<Signal> {
    let filesystem = layer.filesystem.as_ref().filter(|_| layer.kind == LayerKind::Fuse)?;
    let name = format!("{} {}", filesystem.fs_type, filesystem.source).to_lowercase();
    let read = vec![
        reading("type of filesystem", MOUNTS, filesystem.fs_type.clone()),
        reading("mounted from", MOUNTS, filesystem.source.clone()),
    ];
    let (word, implies) = match OBJECT_STORES.iter().any(|store| name.contains(store)) {
        true => (
            SignalWord::Suspect,
            "the program behind the filesystem keeps data in an object store; with a local write \
             cache it may acknowledge a sync before the upload",
        ),
        false => (
            SignalWord::Declared,
            "what a sync does is up to the program behind the filesystem, and cannot be seen",
        ),
    };
    let advice = "find out what the program does with fsync, and check its write-back options";
    signal(("fuse-daemon", word, layer_name(layer)), read, implies, advice)
}

/// The network over which a disk is reached; `None` for a local disk.
fn network_of(layer: &Layer) -> Option<EvidenceReading> {
    let transport = layer.fact("transport").unwrap_or_default();
    let bus = layer.fact("bus").unwrap_or_default();
    // `loop` is a target of this machine's kernel, but is still reached by NVMe over Fabrics.
    let is_fabric = |part: &str| ["tcp", "rdma", "fc", "loop"].contains(&part);
    // Each of several paths may have a different transport.
    if transport.split(", ").any(is_fabric) {
        return Some(reading("transport", sysfs(layer, "device/transport"), transport));
    }
    if ["iscsi", "fibre-channel"].contains(&bus) {
        return Some(reading("attached by", sysfs(layer, "device"), bus));
    }
    let named = ["rbd", "drbd", "nbd", "ublkb"].into_iter().find(|start| {
        // With a number: another driver's names may start alike.
        let number = layer.name.strip_prefix(start).unwrap_or_default();
        number.starts_with(|first: char| first.is_ascii_digit())
    });
    named.map(|driver| reading("driver, by the name", "/sys/class/block", driver))
}

pub(super) fn block(layer: &Layer, _: &Host) -> Option<Signal> {
    let network = network_of(layer).filter(|_| is_end(layer))?;
    let implies = match network.value.as_str() {
        "drbd" => {
            "with protocol A or B a write is acknowledged before the peer has stored it, and \
             'disk-flushes no' or 'md-flushes no' drop flushes; neither can be seen here"
        }
        "rbd" => "the cluster's answer counts; a client's cache (rbd_cache) must honour flushes",
        _ => {
            "a flush is answered by a server, whose own cache and settings cannot be seen from here"
        }
    };
    signal(
        ("remote-block", SignalWord::Declared, layer_name(layer)),
        vec![network],
        implies,
        "check the write cache of the target, and run durio on the server as well",
    )
}

/// What its signals mean.
pub(super) const EXPLAINED: &[[&str; 5]] = &[
    [
        "nostrictsync",
        "unsafe-config",
        "a CIFS mount has nostrictsync",
        "an fsync sends the data but does not ask the server to store it",
        "mount with strictsync",
    ],
    [
        "remote-server",
        "declared",
        "the target is on a network or host filesystem (NFS, CIFS, Ceph, virtiofs, 9p)",
        "a sync ends with the server's answer, and the server's part cannot be seen",
        "check the export on the server (exportfs -v), or run durio there",
    ],
    [
        "fuse-daemon",
        "suspect, declared",
        "the filesystem is served by a program (FUSE)",
        "what a sync does is up to that program; one that uses an object store may acknowledge \
         before the upload",
        "find out what the program does with fsync, and check its write-back options",
    ],
    [
        "remote-block",
        "declared",
        "the device is served over a network or by another program (iSCSI, NVMe over fabrics, \
         RBD, DRBD, NBD, ublk)",
        "a flush is answered by a server whose cache and settings cannot be seen from here",
        "check the write cache of the target, and run durio on the server as well",
    ],
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{assert_signal, disk, fact, filesystem, over, with_facts};

    fn host() -> Host {
        Host::default()
    }

    #[test]
    fn a_cifs_mount_that_is_not_strict_is_an_unsafe_configuration() {
        let cifs = |option| filesystem("cifs", LayerKind::Network, &["rw", option]);
        let found = not_strict(&cifs("nostrictsync"), &host());
        assert_signal(found, "nostrictsync", SignalWord::UnsafeConfig);
        assert_eq!(not_strict(&cifs("strictsync"), &host()), None);
    }

    #[test]
    fn a_servers_word_is_a_declaration() {
        let nfs = filesystem("nfs4", LayerKind::Network, &["rw", "vers=4.2", "hard", "rsize=1"]);
        let found = assert_signal(server(&nfs, &host()), "remote-server", SignalWord::Declared);
        assert_eq!(found.read.len(), 3, "source, version, hard");
        assert!(found.implies.contains("async"));
        for fs_type in ["9p", "virtiofs", "cifs", "ceph"] {
            assert!(server(&filesystem(fs_type, LayerKind::Network, &[]), &host()).is_some());
        }
        assert_eq!(server(&filesystem("ext4", LayerKind::Filesystem, &[]), &host()), None);
    }

    #[test]
    fn object_stores_behind_fuse_are_suspect_and_others_declare() {
        let store = filesystem("fuse.juicefs", LayerKind::Fuse, &[]);
        assert_signal(fuse(&store, &host()), "fuse-daemon", SignalWord::Suspect);
        let other = filesystem("fuse.sshfs", LayerKind::Fuse, &[]);
        assert_signal(fuse(&other, &host()), "fuse-daemon", SignalWord::Declared);
        assert_eq!(fuse(&filesystem("ext4", LayerKind::Filesystem, &[]), &host()), None);
    }

    #[test]
    fn disks_behind_a_network_are_told_from_those_of_this_machine() {
        let tcp = with_facts(disk("nvme2n1"), &[("transport", "tcp")]);
        assert_signal(block(&tcp, &host()), "remote-block", SignalWord::Declared);
        let paths = with_facts(disk("nvme2n1"), &[("transport", "pcie, rdma")]);
        assert_signal(block(&paths, &host()), "remote-block", SignalWord::Declared);
        for name in ["rbd0", "drbd1", "nbd0", "ublkb3"] {
            assert!(block(&disk(name), &host()).is_some(), "{name}");
        }
        let local = with_facts(disk("nvme0n1"), &[("transport", "pcie")]);
        assert_eq!(block(&local, &host()), None);
        assert_eq!(block(&disk("rbdfs"), &host()), None);
        assert_eq!(block(&over(LayerKind::Dm, "dm-0", vec![disk("sda")]), &host()), None);
    }

    #[test]
    fn what_a_server_leaves_unknown_and_where_to_look_is_that_of_its_kind() {
        for (fs_type, unknown, advice) in [
            ("nfs", "an export with 'async'", "on the server: exportfs -v, /proc/fs/nfsd/exports"),
            ("nfs4", "an export with 'async'", "on the server: exportfs -v, /proc/fs/nfsd/exports"),
            ("virtiofs", "a sync on the host;", "run durio on the server as well"),
            ("9p", "a sync on the host;", "run durio on the server as well"),
            ("vboxsf", "a sync on the host;", "run durio on the server as well"),
            ("cifs", "a sync asks the server to flush", "run durio on the server as well"),
            ("smb3", "a sync asks the server to flush", "run durio on the server as well"),
            ("ceph", "a sync ends with the servers' answer", "run durio on the server as well"),
        ] {
            let found = server(&filesystem(fs_type, LayerKind::Network, &[]), &host()).unwrap();
            assert!(found.implies.contains(unknown), "{fs_type}: {}", found.implies);
            assert_eq!(found.advice, advice, "{fs_type}");
            assert_eq!(found.layer, format!("{fs_type} at /srv"));
        }
    }

    #[test]
    fn options_that_tell_of_a_server_are_told_and_others_are_not() {
        let options = [
            "rw",
            "sync",
            "soft",
            "vers=3",
            "cache=none",
            "proto=rdma",
            "access=any",
            "versed=1",
            "softer",
            "async=1",
        ];
        let found = server(&filesystem("nfs", LayerKind::Network, &options), &host()).unwrap();
        let values: Vec<&str> = found.read.iter().map(|reading| &*reading.value).collect();
        let told = ["sync", "soft", "vers=3", "cache=none", "proto=rdma", "access=any"];
        assert_eq!(values, [&["/dev/nvme0n1"][..], &told].concat());
        assert!(found.read.iter().all(|reading| reading.place == MOUNTS));
    }

    #[test]
    fn a_remote_disk_is_told_by_what_reaches_it() {
        let on_bus = |bus: &str| Layer { facts: vec![fact("bus", bus)], ..disk("sda") };
        for (layer, value, implies) in [
            (disk("drbd1"), "drbd", "with protocol A or B"),
            (disk("rbd0"), "rbd", "the cluster's answer counts"),
            (disk("nbd0"), "nbd", "a flush is answered by a server"),
            (on_bus("iscsi"), "iscsi", "answered by a server"),
            (on_bus("fibre-channel"), "fibre-channel", "answered by a server"),
            (with_facts(disk("nvme1n1"), &[("transport", "fc")]), "fc", "answered by a server"),
            (with_facts(disk("nvme1n1"), &[("transport", "loop")]), "loop", "answered by a server"),
        ] {
            let found = block(&layer, &host()).unwrap();
            assert_eq!(found.read[0].value, value);
            assert!(found.implies.contains(implies), "{value}: {}", found.implies);
            assert_eq!(found.layer, format!("disk {}", layer.name));
        }
        for bus in ["sata", "nvme", "usb"] {
            assert_eq!(block(&on_bus(bus), &host()), None, "{bus}");
        }
    }
}
