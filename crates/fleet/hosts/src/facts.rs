//! A host by what affects its results, and the identity of the storage below it.
//!
//! Facts must be equal on hosts that are alike: names of devices, serial numbers and addresses are
//! not among them.

use std::collections::BTreeMap;

use durio_observe::{Layer, LayerKind, Stack, leaf_devices};
use durio_record::{Environment, Manifest};

use crate::report::word;

/// The facts of a host, by name; those that its record does not have are absent.
pub(crate) fn host_facts(
    environment: &Environment,
    manifest: &Manifest,
) -> BTreeMap<String, String> {
    let host = &environment.host;
    let stacks = &environment.stacks;
    let disks = disks(stacks);
    let blocks = || disks.iter().filter_map(|disk| disk.block.as_ref());
    let firmware = disks.iter().filter_map(|disk| disk.fact("firmware"));
    let filesystems = stacks.iter().filter_map(Stack::filesystem);
    let options = filesystems.map(|filesystem| filesystem.relevant_options.join(","));
    let rows = [
        ("drive", counted_list(blocks().filter_map(|block| block.model.clone()))),
        ("firmware", counted_list(firmware.map(str::to_owned))),
        ("capacity", counted_list(blocks().filter_map(|block| Some(block.size?.to_string())))),
        ("scheduler", counted_list(blocks().filter_map(|block| block.scheduler.clone()))),
        ("write cache", counted_list(blocks().filter_map(|block| Some(word(&block.write_cache?))))),
        ("layers", counted_list(stacks.iter().map(|stack| layers_text(&stack.root)))),
        ("mount options", counted_list(options)),
        ("kernel", Some(host.kernel.clone())),
        ("cpu", host.cpu_model.clone()),
        ("cpus", Some(host.cpus_online.to_string())),
        ("virtual", Some(host.hypervisor.clone().unwrap_or_else(|| "no".to_owned()))),
        ("durio", Some(manifest.durio_version.clone())),
    ];
    let known = rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.filter(|(_, value)| !value.is_empty()).collect()
}

/// The devices without another one below, of all stacks, each once.
fn disks(stacks: &[Stack]) -> Vec<&Layer> {
    let mut disks: Vec<&Layer> = Vec::new();
    for stack in stacks {
        let lowest = leaf_devices(stack);
        for (_, layer) in stack.walk() {
            let is_lowest = layer.block.is_some() && lowest.contains(&layer.name);
            if is_lowest && !disks.iter().any(|disk| disk.name == layer.name) {
                disks.push(layer);
            }
        }
    }
    disks
}

/// `2 × A + B`, in the order of the texts; `None` of nothing.
fn counted_list(texts: impl Iterator<Item = String>) -> Option<String> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for text in texts.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()) {
        *counts.entry(text).or_default() += 1;
    }
    let shown = counts.into_iter().map(|(text, count)| match count {
        1 => text,
        _ => format!("{count} × {text}"),
    });
    let list = shown.collect::<Vec<_>>().join(" + ");
    (!list.is_empty()).then_some(list)
}

/// `ext4 on md raid1 on 2 × pcie disk`.
fn layers_text(layer: &Layer) -> String {
    let below = counted_list(layer.below.iter().map(layers_text));
    match (layer_label(layer), below) {
        (Some(label), Some(below)) => format!("{label} on {below}"),
        (label, below) => label.or(below).unwrap_or_default(),
    }
}

fn layer_label(layer: &Layer) -> Option<String> {
    let with = |name: &str, fact: &str| match layer.fact(fact) {
        Some(value) => format!("{name} {}", value.to_lowercase()),
        None => name.to_owned(),
    };
    Some(match layer.kind {
        LayerKind::File | LayerKind::Directory | LayerKind::Partition => return None,
        LayerKind::Filesystem
        | LayerKind::Network
        | LayerKind::Fuse
        | LayerKind::Memory
        | LayerKind::Overlay => {
            layer.filesystem.as_ref().map_or("memory".to_owned(), |known| known.fs_type.clone())
        }
        LayerKind::Md => with("md", "level"),
        LayerKind::Dm => with("dm", "dm_type"),
        LayerKind::Disk => match layer.fact("transport") {
            Some(transport) => format!("{transport} disk"),
            None => "disk".to_owned(),
        },
        LayerKind::Unknown => "unknown layer".to_owned(),
        known => word(&known),
    })
}

/// What distinguishes the storage below a target from that of other hosts, as far as anything does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StorageIdentity {
    /// Equal on the hosts that have the storage, and on no others: the server and its export, the
    /// serial numbers and names of the drives, or the UUID of a cluster's filesystem.
    pub(crate) device: Option<String>,
    /// UUID of a filesystem that one host at a time can mount; a copied image has the same.
    pub(crate) filesystem: Option<String>,
}

/// Filesystems that several hosts mount at the same time.
const CLUSTER_FILESYSTEMS: [&str; 2] = ["gfs2", "ocfs2"];

pub(crate) fn storage_identity(stack: &Stack) -> StorageIdentity {
    let known = stack.filesystem().and_then(|known| Some((known, known.uuid.clone()?)));
    let is_cluster = |fs_type: &str| CLUSTER_FILESYSTEMS.contains(&fs_type);
    let (cluster, filesystem) = match known {
        Some((known, uuid)) if is_cluster(&known.fs_type) => {
            (Some(format!("{} {uuid}", known.fs_type)), None)
        }
        known => (None, known.map(|(_, uuid)| uuid)),
    };
    let device = remote_source(stack).or_else(|| drive_names(stack)).or(cluster);
    StorageIdentity { device, filesystem }
}

fn remote_source(stack: &Stack) -> Option<String> {
    let is_served = |layer: &Layer| matches!(layer.kind, LayerKind::Network | LayerKind::Fuse);
    let mut served = stack.walk().map(|(_, layer)| layer).filter(|layer| is_served(layer));
    let source = &served.next()?.filesystem.as_ref()?.source;
    // `server:/export` or `//server/share`; the name of a 9p or virtiofs share is only this
    // machine's.
    let server = match source.strip_prefix("//") {
        Some(share) => share.split('/').next()?,
        None => source.split_once(":/")?.0,
    };
    let is_here = ["", "localhost", "::1", "[::1]"].contains(&server) || server.starts_with("127.");
    // mergerfs joins folders of this machine: `/disk1:/disk2`.
    (!is_here && !server.contains('/')).then(|| source.clone())
}

/// The serial number and the worldwide name of each drive: the namespaces of an NVMe subsystem have
/// one serial number, and some makers repeat names.
fn drive_names(stack: &Stack) -> Option<String> {
    let disks = disks(std::slice::from_ref(stack));
    let name = |disk: &&Layer| {
        let block = disk.block.as_ref()?;
        let model = block.model.as_deref().unwrap_or_default().trim();
        let names = [&block.serial, &block.wwid].into_iter().flatten().map(|name| name.trim());
        let names: Vec<&str> = names.filter(|name| is_unique(model, name)).collect();
        (!names.is_empty()).then(|| format!("{model} {}", names.join(" ")).trim_start().to_owned())
    };
    let mut names = disks.iter().map(name).collect::<Option<Vec<_>>>()?;
    names.sort();
    // Paths to one drive; hosts may have more of them than others.
    names.dedup();
    (!names.is_empty()).then(|| names.join(" + "))
}

/// False for names of drives that many machines have: QEMU numbers the disks of every guest from
/// QM00001 on, and some makers leave zeros.
fn is_unique(model: &str, name: &str) -> bool {
    let is_emulated = ["QEMU", "VBOX", "VMware"].iter().any(|maker| model.starts_with(maker));
    let mut bytes = name.bytes();
    let first = bytes.next();
    let is_varied = bytes.any(|byte| Some(byte) != first);
    name.len() >= 4 && is_varied && !is_emulated && !name.contains("QM000")
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_observe::{BlockFacts, Fact, FilesystemFacts, Host, WriteCache};
    use testkit::runs::layer;

    use super::*;

    fn disk(name: &str, model: &str, serial: &str) -> Layer {
        let fact = |name: &str, value: &str| Fact { name: name.into(), value: value.into() };
        Layer {
            block: Some(BlockFacts {
                size: Some(Bytes::from_gib(3)),
                model: Some(model.to_owned()),
                serial: Some(serial.to_owned()),
                scheduler: Some("none".to_owned()),
                write_cache: Some(WriteCache::WriteBack),
                ..BlockFacts::default()
            }),
            facts: vec![fact("transport", "pcie"), fact("firmware", "EDA7602Q")],
            ..layer(LayerKind::Disk, name, Vec::new())
        }
    }

    fn filesystem(kind: LayerKind, fs_type: &str, source: &str, below: Vec<Layer>) -> Stack {
        let facts = FilesystemFacts {
            fs_type: fs_type.to_owned(),
            source: source.to_owned(),
            relevant_options: vec!["relatime".into(), "discard".into()],
            ..FilesystemFacts::default()
        };
        let mounted = Layer { filesystem: Some(facts), ..layer(kind, "/srv", below) };
        let root = layer(LayerKind::Directory, "/srv/x", vec![mounted]);
        Stack { target: "/srv/x".to_owned(), root }
    }

    #[test]
    fn facts_are_equal_on_machines_that_differ_only_by_names_and_serial_numbers() {
        let facts = |names: [&str; 2], serials: [&str; 2]| {
            let members = (0..2).map(|at| disk(names[at], "SAMSUNG MZQL2", serials[at])).collect();
            let mut array = layer(LayerKind::Md, "md0", members);
            array.block = Some(BlockFacts::default());
            array.facts = vec![Fact { name: "level".into(), value: "raid1".into() }];
            let stacks = vec![filesystem(LayerKind::Filesystem, "ext4", "/dev/md0", vec![array])];
            let host = Host {
                kernel: "6.12.9".into(),
                cpu_model: Some("AMD EPYC 9354".into()),
                cpus_online: 64,
                ..Host::default()
            };
            let manifest = Manifest {
                schema: 2,
                run: "r".into(),
                durio_version: "0.1.0".into(),
                started: "2026-11-30T10:00:00Z".into(),
                command: Vec::new(),
                label: None,
            };
            host_facts(&Environment { host, stacks }, &manifest)
        };
        let first = facts(["nvme0n1", "nvme1n1"], ["S64GNE0R1", "S64GNE0R2"]);
        let expected = [
            ("capacity", "2 × 3 GiB"),
            ("cpu", "AMD EPYC 9354"),
            ("cpus", "64"),
            ("drive", "2 × SAMSUNG MZQL2"),
            ("durio", "0.1.0"),
            ("firmware", "2 × EDA7602Q"),
            ("kernel", "6.12.9"),
            ("layers", "ext4 on md raid1 on 2 × pcie disk"),
            ("mount options", "relatime,discard"),
            ("scheduler", "2 × none"),
            ("virtual", "no"),
            ("write cache", "2 × write back"),
        ];
        let shown: Vec<_> =
            first.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(shown, expected);
        assert_eq!(facts(["nvme3n1", "nvme2n1"], ["S64GNE0R8", "S64GNE0R9"]), first);
    }

    #[test]
    fn each_kind_of_layer_has_a_label_and_a_file_has_that_of_what_is_below() {
        for (kind, label) in [
            (LayerKind::Md, "md"),
            (LayerKind::Dm, "dm"),
            (LayerKind::Disk, "disk"),
            (LayerKind::CharacterDevice, "character device"),
            (LayerKind::Loop, "loop"),
            (LayerKind::Nbd, "nbd"),
            (LayerKind::Ublk, "ublk"),
            (LayerKind::Bcache, "bcache"),
            (LayerKind::Zram, "zram"),
            (LayerKind::Memory, "memory"),
            (LayerKind::Unknown, "unknown layer"),
        ] {
            let below = vec![layer(kind, "x", Vec::new())];
            assert_eq!(layers_text(&layer(LayerKind::File, "/srv/x", below)), label);
        }
        assert_eq!(layers_text(&layer(LayerKind::Partition, "sda1", Vec::new())), "");
        assert_eq!(word(&WriteCache::WriteThrough), "write through");
    }

    #[test]
    fn storage_is_known_by_its_server_and_export_or_by_its_serial_numbers() {
        let of = |kind, fs_type, source| {
            storage_identity(&filesystem(kind, fs_type, source, vec![])).device
        };
        for source in ["nas:/export/db", "10.0.0.9:/x", "[fd00::9]:/x", "//nas/share"] {
            assert_eq!(of(LayerKind::Network, "nfs4", source).as_deref(), Some(source));
        }
        assert_eq!(of(LayerKind::Fuse, "fuse.glusterfs", "g1:/v").as_deref(), Some("g1:/v"));
        for source in
            ["localhost:/x", "127.0.0.1:/x", "[::1]:/x", "hostshare", "/a:/b", ":/x", "//"]
        {
            assert_eq!(of(LayerKind::Network, "nfs4", source), None, "{source}");
        }
        assert_eq!(of(LayerKind::Filesystem, "ext4", "nas:/export"), None);
        let on = |disks| {
            storage_identity(&filesystem(LayerKind::Filesystem, "xfs", "/dev/x", disks)).device
        };
        let two = vec![disk("sdb", "LUN", "600a0b80"), disk("sda", "LUN", "600a0b7f")];
        assert_eq!(on(two).as_deref(), Some("LUN 600a0b7f + LUN 600a0b80"));
        for (model, serial) in
            [("QEMU HARDDISK", "abcd"), ("X", "QM00001"), ("X", "000000"), ("X", "abc"), ("X", "")]
        {
            assert_eq!(on(vec![disk("sda", model, serial)]), None, "{model} {serial}");
        }
        assert_eq!(on(vec![disk("sda", "X", "abcd")]).as_deref(), Some("X abcd"));
        assert_eq!(on(vec![disk("sda", "X", "abcd"), disk("sdb", "X", "000")]), None);
        // Two paths to one drive.
        let paths = vec![disk("sda", "X", "abcd"), disk("sdb", "X", "abcd")];
        assert_eq!(on(paths).as_deref(), Some("X abcd"));
        let named = |model, serial, wwid: &str| {
            let mut disk = disk("sda", model, serial);
            disk.block.as_mut().unwrap().wwid = Some(wwid.to_owned());
            on(vec![disk])
        };
        assert_eq!(named("LUN", "600a", "naa.6001405a").as_deref(), Some("LUN 600a naa.6001405a"));
        assert_eq!(named("LUN", "", "naa.6001405a").as_deref(), Some("LUN naa.6001405a"));
        assert_eq!(named("LUN", "600a", "").as_deref(), Some("LUN 600a"));
        assert_eq!(named("QEMU HARDDISK", "", "naa.6001405a"), None);
        assert_eq!(named("X", "", "t10.ATA QEMU HARDDISK QM00001"), None);
    }

    #[test]
    fn the_uuid_of_a_filesystem_is_storage_only_where_a_cluster_mounts_it() {
        let found = |fs_type, uuid: Option<&str>, serial| {
            let disks = vec![disk("sda", "LUN", serial)];
            let mut stack = filesystem(LayerKind::Filesystem, fs_type, "/dev/x", disks);
            let mounted = stack.root.below[0].filesystem.as_mut().unwrap();
            mounted.uuid = uuid.map(str::to_owned);
            let StorageIdentity { device, filesystem } = storage_identity(&stack);
            (device.unwrap_or_default(), filesystem.unwrap_or_default())
        };
        let both = |device: &str, filesystem: &str| (device.to_owned(), filesystem.to_owned());
        assert_eq!(found("gfs2", Some("1-2"), ""), both("gfs2 1-2", ""));
        assert_eq!(found("ocfs2", Some("1-2"), "600a"), both("LUN 600a", ""));
        assert_eq!(found("ext4", Some("1-2"), ""), both("", "1-2"));
        assert_eq!(found("xfs", Some("3-4"), "600a"), both("LUN 600a", "3-4"));
        assert_eq!(found("ext4", None, ""), both("", ""));
    }
}
