//! The made-up machine of the samples: an array of two disks under ext4, or one of the disks.

use durio_base::Bytes;
use durio_observe::{
    Alignment, BlockFacts, CgroupLimits, Fact, FilesystemFacts, Host, Layer, LayerKind, Stack,
    WriteCache,
};
use testkit::runs::layer;

pub(crate) fn stack(location: &str) -> Stack {
    let mut disks = vec![disk("vdb", "254:16"), disk("vdc", "254:32")];
    if location.starts_with("/dev") {
        disks.truncate(1);
        return Stack { target: location.into(), root: disks.remove(0) };
    }
    let mut md = layer(LayerKind::Md, "md0", disks);
    md.block = Some(BlockFacts { size: Some(Bytes::from_gib(200)), ..BlockFacts::default() });
    md.facts = vec![
        Fact { name: "level".into(), value: "raid1".into() },
        Fact { name: "consistency_policy".into(), value: "bitmap".into() },
    ];
    let mut filesystem = layer(LayerKind::Filesystem, "/srv", vec![md]);
    filesystem.filesystem = Some(FilesystemFacts {
        fs_type: "ext4".into(),
        mount_point: "/srv".into(),
        source: "/dev/md0".into(),
        options: vec!["rw".into(), "noatime".into(), "nosuid".into(), "data=ordered".into()],
        relevant_options: vec!["noatime".into(), "data=ordered".into()],
        read_only: false,
        size: Bytes::from_gib(196),
        free: Bytes::from_gib(151),
        memory_backed: false,
        direct_io: Some(Alignment { memory: Bytes::new(512), offset: Bytes::new(512) }),
        uuid: None,
    });
    Stack { target: location.into(), root: layer(LayerKind::Directory, location, vec![filesystem]) }
}

fn disk(name: &str, number: &str) -> Layer {
    let mut disk = layer(LayerKind::Disk, name, vec![]);
    disk.device = Some(number.into());
    disk.block = Some(BlockFacts {
        size: Some(Bytes::from_gib(200)),
        model: Some("overlayblk".into()),
        vendor: Some("0x1af4".into()),
        scheduler: Some("mq-deadline".into()),
        write_cache: Some(WriteCache::WriteBack),
        fua: Some(false),
        rotational: Some(true),
        virtual_device: Some(false),
        logical_block_size: Some(Bytes::new(512)),
        physical_block_size: Some(Bytes::new(512)),
        max_sectors_kib: Some(1280),
        nr_requests: Some(256),
        read_ahead_kib: Some(128),
        virtio_flush: Some(true),
        ..BlockFacts::default()
    });
    let fact = |name: &str, value: &str| Fact { name: name.into(), value: value.into() };
    disk.facts = vec![fact("transport", "virtio"), fact("wbt_lat_usec", "75000")];
    disk
}

pub(crate) fn host() -> Host {
    Host {
        kernel: "6.18.1-amd64".into(),
        os: Some("Debian GNU/Linux 12 (bookworm)".into()),
        architecture: "x86_64".into(),
        cpu_model: Some("AMD EPYC 7B13".into()),
        cpus_online: 2,
        cpus_allowed: 2,
        governor: None,
        numa_nodes: 1,
        memory: Bytes::from_gib(8),
        memory_available: Bytes::from_gib(6),
        hypervisor: Some("kvm".into()),
        clocksource: Some("kvm-clock".into()),
        tsc_reliable: true,
        cgroup: CgroupLimits {
            path: Some("/user.component".into()),
            memory_max: Some(Bytes::from_gib(4)),
            ..CgroupLimits::default()
        },
        kernel_parameters: vec![Fact { name: "vm/dirty_ratio".into(), value: "20".into() }],
        ..Host::default()
    }
}
