//! Rules about layers between filesystem and disk: arrays, caches, loop devices; and about storage
//! that another machine or process serves, whose acknowledgement is as good as the server's word.

use durio_observe::{Host, Layer, LayerKind, WriteCache};

use super::{
    EvidenceReading, MOUNTS, Signal, cache_reading, is_end, is_flushed, layer_name, reading,
    signal, sysfs,
};

// Ends of the names that LVM gives the parts of a cached volume (lvmcache(7)).
const CACHE_PARTS: [&str; 7] =
    ["_cdata", "_cmeta", "_cpool", "_corig", "_cvol", "_wcorig", "_vcorig"];

fn fact_reading(layer: &Layer, name: &str, file: &str) -> Option<EvidenceReading> {
    let value = layer.fact(name)?;
    Some(reading(&name.replace('_', " "), sysfs(layer, file), value))
}

/// A fact of an array, whose file has the fact's name.
fn md_reading(layer: &Layer, name: &str) -> Option<EvidenceReading> {
    fact_reading(layer, name, &format!("md/{name}"))
}

/// A layer that keeps flushes from devices that would get them.
pub(super) fn strips_flushes(layer: &Layer, _: &Host) -> Option<Signal> {
    let view = layer.block.as_ref().filter(|_| !is_end(layer))?.write_cache?;
    let mut below = flushed_by_kernel(layer);
    let taking = below.find(|below| is_end(below) && is_flushed(below))?;
    if view != WriteCache::WriteThrough {
        return None;
    }
    let read = vec![
        cache_reading("kernel's view", layer, view),
        cache_reading("view of the device below", taking, WriteCache::WriteBack),
    ];
    signal("layer-strips-flushes", layer_name(layer), read)
}

/// The layers below one, except those below an array of durio: its server answers a write when all
/// copies have it durably, and needs no flush from the kernel (docs/design/0014).
fn flushed_by_kernel(layer: &Layer) -> impl Iterator<Item = &Layer> {
    let is_durable = |layer: &Layer| layer.kind == LayerKind::Ublk && layer.fact("array").is_some();
    let mut durable_at = None;
    let reached = layer.walk().filter(move |(depth, layer)| {
        if durable_at.is_some_and(|at| *depth > at) {
            return false;
        }
        durable_at = is_durable(layer).then_some(*depth);
        true
    });
    reached.skip(1).map(|(_, layer)| layer)
}

fn degraded(layer: &Layer) -> Option<&str> {
    layer.fact("degraded").filter(|count| *count != "0")
}

/// The write hole: parity and data of a stripe are written at different moments.
pub(super) fn md_write_hole(layer: &Layer, _: &Host) -> Option<Signal> {
    let is_parity = matches!(layer.fact("level"), Some("raid4" | "raid5" | "raid6"));
    let policy = layer.fact("consistency_policy").filter(|_| is_parity)?;
    // The other policies, journal and ppl, close the hole (md(4)).
    if !["resync", "bitmap", "none"].contains(&policy) {
        return None;
    }
    let facts = ["level", "consistency_policy", "degraded"];
    let read = facts.iter().filter_map(|name| md_reading(layer, name)).collect();
    let is_degraded = degraded(layer).is_some();
    let key = if is_degraded { "md-write-hole:degraded" } else { "md-write-hole" };
    signal(key, layer_name(layer), read)
}

pub(super) fn md_journal_write_back(layer: &Layer, _: &Host) -> Option<Signal> {
    let mode = md_reading(layer, "journal_mode")?;
    if mode.value != "write-back" {
        return None;
    }
    signal("md-journal-write-back", layer_name(layer), vec![mode])
}

pub(super) fn md_degraded(layer: &Layer, _: &Host) -> Option<Signal> {
    degraded(layer)?;
    let mut read = vec![md_reading(layer, "degraded")?];
    let members = layer.facts.iter().filter(|fact| fact.name.starts_with("member_"));
    read.extend(members.map(|fact| {
        let member = fact.name.trim_start_matches("member_");
        let place = sysfs(layer, &format!("md/dev-{member}/state"));
        reading("state of a member", place, fact.value.clone())
    }));
    signal("md-degraded", layer_name(layer), read)
}

pub(super) fn md_resyncing(layer: &Layer, _: &Host) -> Option<Signal> {
    let action = md_reading(layer, "sync_action")?;
    // Not `check`, which compares copies and mends none (md(4)).
    if !["resync", "recover", "reshape", "repair"].contains(&action.value.as_str()) {
        return None;
    }
    let mut read = vec![action];
    read.extend(md_reading(layer, "array_state"));
    signal("md-resyncing", layer_name(layer), read)
}

pub(super) fn md_without_policy(layer: &Layer, _: &Host) -> Option<Signal> {
    let is_mirror = matches!(layer.fact("level"), Some("raid1" | "raid10"));
    let policy = md_reading(layer, "consistency_policy")?;
    if !is_mirror || policy.value != "none" {
        return None;
    }
    signal("md-no-policy", layer_name(layer), vec![policy])
}

/// LVM's cached volumes are recognised by the names of their parts; their mode needs an ioctl.
pub(super) fn cached_volume(layer: &Layer, _: &Host) -> Option<Signal> {
    if layer.kind != LayerKind::Dm {
        return None;
    }
    let named = |part: &Layer| {
        let name = part.fact("dm_name")?;
        CACHE_PARTS.iter().any(|end| name.contains(end)).then(|| name.to_owned())
    };
    let part = |part: &Layer| Some(reading("part", sysfs(part, "dm/name"), named(part)?));
    let parts: Vec<EvidenceReading> = layer.below.iter().filter_map(part).collect();
    // The parts of parts have such names too; the volume itself has not.
    if parts.is_empty() || named(layer).is_some() {
        return None;
    }
    signal("cached-volume", layer_name(layer), parts)
}

pub(super) fn bcache_write_back(layer: &Layer, _: &Host) -> Option<Signal> {
    let mode = fact_reading(layer, "cache_mode", "bcache/cache_mode")?;
    if layer.kind != LayerKind::Bcache || mode.value != "writeback" {
        return None;
    }
    let mut read = vec![mode];
    read.extend(fact_reading(layer, "state", "bcache/state"));
    read.extend(fact_reading(layer, "dirty_data", "bcache/dirty_data"));
    signal("bcache-write-back", layer_name(layer), read)
}

pub(super) fn loop_backing(layer: &Layer, _: &Host) -> Option<Signal> {
    let file = fact_reading(layer, "backing_file", "loop/backing_file")?;
    let below = layer.below.first().filter(|_| layer.kind == LayerKind::Loop);
    let is_known = below.is_some_and(|below| below.kind != LayerKind::Unknown);
    let mut read = vec![file];
    read.extend(fact_reading(layer, "dio", "loop/dio"));
    let key = if is_known { "loop-backing" } else { "loop-backing:hidden" };
    signal(key, layer_name(layer), read)
}

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
    signal("nostrictsync", layer_name(layer), read)
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
    let key = match filesystem.fs_type.as_str() {
        "nfs" | "nfs4" => "remote-server:nfs",
        "virtiofs" | "9p" | "vboxsf" => "remote-server:host",
        "cifs" | "smb3" => "remote-server:cifs",
        _ => "remote-server",
    };
    signal(key, layer_name(layer), read)
}

pub(super) fn fuse(layer: &Layer, _: &Host) -> Option<Signal> {
    let filesystem = layer.filesystem.as_ref().filter(|_| layer.kind == LayerKind::Fuse)?;
    let name = format!("{} {}", filesystem.fs_type, filesystem.source).to_lowercase();
    let read = vec![
        reading("type of filesystem", MOUNTS, filesystem.fs_type.clone()),
        reading("mounted from", MOUNTS, filesystem.source.clone()),
    ];
    let is_object_store = OBJECT_STORES.iter().any(|store| name.contains(store));
    let key = if is_object_store { "fuse-daemon:object-store" } else { "fuse-daemon" };
    signal(key, layer_name(layer), read)
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
    let key = match network.value.as_str() {
        "drbd" => "remote-block:drbd",
        "rbd" => "remote-block:rbd",
        _ => "remote-block",
    };
    signal(key, layer_name(layer), vec![network])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{assert_signal, disk, fact, filesystem, layer, over, with_facts};
    use durio_analyse::SignalWord;

    fn host() -> Host {
        Host::default()
    }

    fn array(facts: &[(&str, &str)]) -> Layer {
        let array = over(LayerKind::Md, "md0", vec![disk("nvme0n1"), disk("nvme1n1")]);
        with_facts(array, facts)
    }

    /// Its server writes so that no flush is needed; of another server that is not known.
    #[test]
    fn an_array_of_durios_own_strips_no_flushes() {
        let cached = |name: &str| {
            let mut disk = disk(name);
            disk.block.as_mut().unwrap().write_cache = Some(WriteCache::WriteBack);
            disk
        };
        let mut served = array(&[("array", "data"), ("level", "raid1")]);
        (served.kind, served.name) = (LayerKind::Ublk, "ublkb0".into());
        served.block.get_or_insert_default().write_cache = Some(WriteCache::WriteThrough);
        served.below = vec![cached("sda"), cached("sdb")];
        let mut volume = array(&[]);
        volume.block.get_or_insert_default().write_cache = Some(WriteCache::WriteThrough);
        volume.below = vec![served.clone()];
        assert_eq!(strips_flushes(&served, &host()), None);
        assert_eq!(strips_flushes(&volume, &host()), None);
        volume.below.push(cached("sdc"));
        assert!(strips_flushes(&volume, &host()).is_some());
        served.facts.clear();
        assert!(strips_flushes(&served, &host()).is_some());
    }

    #[test]
    fn a_healthy_mirror_gives_no_signal_of_this_file() {
        let facts = [
            ("level", "raid1"),
            ("consistency_policy", "bitmap"),
            ("degraded", "0"),
            ("sync_action", "idle"),
        ];
        let rules = [
            strips_flushes,
            md_write_hole,
            md_journal_write_back,
            md_degraded,
            md_resyncing,
            md_without_policy,
            cached_volume,
            bcache_write_back,
            loop_backing,
        ];
        for rule in rules {
            assert_eq!(rule(&array(&facts), &host()), None);
            assert_eq!(rule(&disk("nvme0n1"), &host()), None);
        }
    }

    #[test]
    fn a_layer_that_strips_what_a_device_below_would_take_is_named() {
        let mut volume = over(LayerKind::Dm, "dm-0", vec![disk("nvme0n1")]);
        assert_eq!(strips_flushes(&volume, &host()), None);
        volume.block.as_mut().unwrap().write_cache = Some(WriteCache::WriteThrough);
        let found = strips_flushes(&volume, &host());
        assert_signal(found, "layer-strips-flushes", SignalWord::UnsafeConfig);
        let below = volume.below[0].block.as_mut().unwrap();
        below.write_cache = Some(WriteCache::WriteThrough);
        assert_eq!(strips_flushes(&volume, &host()), None, "nothing below would take one");
    }

    #[test]
    fn the_write_hole_is_open_without_journal_or_ppl() {
        for (policy, is_open) in
            [("resync", true), ("bitmap", true), ("ppl", false), ("journal", false)]
        {
            let array = array(&[("level", "raid5"), ("consistency_policy", policy)]);
            assert_eq!(md_write_hole(&array, &host()).is_some(), is_open, "{policy}");
        }
        let facts = [("level", "raid6"), ("consistency_policy", "resync"), ("degraded", "1")];
        let found = md_write_hole(&array(&facts), &host());
        let found = assert_signal(found, "md-write-hole", SignalWord::Fact);
        assert!(found.implies.contains("missing"));
        let mirror = array(&[("level", "raid1"), ("consistency_policy", "resync")]);
        assert_eq!(md_write_hole(&mirror, &host()), None);
    }

    #[test]
    fn journals_missing_members_and_rebuilds_are_facts() {
        let journal = |mode| md_journal_write_back(&array(&[("journal_mode", mode)]), &host());
        assert_signal(journal("write-back"), "md-journal-write-back", SignalWord::Fact);
        assert_eq!(journal("write-through"), None);
        let missing = array(&[("degraded", "1"), ("member_sda1", "in_sync")]);
        let found = assert_signal(md_degraded(&missing, &host()), "md-degraded", SignalWord::Fact);
        assert_eq!(found.read[1].place, "/sys/class/block/md0/md/dev-sda1/state");
        let action = |action| md_resyncing(&array(&[("sync_action", action)]), &host());
        assert_signal(action("recover"), "md-resyncing", SignalWord::Fact);
        assert_eq!(action("idle"), None);
        let policy = |level, policy| {
            let facts = [("level", level), ("consistency_policy", policy)];
            md_without_policy(&array(&facts), &host())
        };
        assert_signal(policy("raid10", "none"), "md-no-policy", SignalWord::Fact);
        assert_eq!(policy("raid10", "resync"), None);
        assert_eq!(policy("raid0", "none"), None);
    }

    #[test]
    fn a_cached_volume_is_told_by_its_parts_and_only_once() {
        let volume =
            |name: &str, below| with_facts(over(LayerKind::Dm, name, below), &[("dm_name", name)]);
        let cache = volume("vg-lv_cache_cpool_cdata", vec![disk("nvme0n1")]);
        let origin = volume("vg-lv_corig", vec![disk("sda")]);
        let found = cached_volume(&volume("vg-lv", vec![cache, origin]), &host());
        assert_signal(found, "cached-volume", SignalWord::Suspect);
        let inner = volume("vg-lv_cvol-cdata", vec![volume("vg-lv_cvol", vec![disk("sda")])]);
        assert_eq!(cached_volume(&inner, &host()), None);
        assert_eq!(cached_volume(&volume("vg-lv", vec![disk("sda")]), &host()), None);
    }

    #[test]
    fn bcache_in_write_back_and_loop_devices_are_facts() {
        let bcache = |mode| {
            let layer = over(LayerKind::Bcache, "bcache0", vec![disk("sda")]);
            bcache_write_back(&with_facts(layer, &[("cache_mode", mode)]), &host())
        };
        assert_signal(bcache("writeback"), "bcache-write-back", SignalWord::Fact);
        assert_eq!(bcache("writethrough"), None);
        let backed = |below| {
            let layer = over(LayerKind::Loop, "loop0", vec![below]);
            loop_backing(&with_facts(layer, &[("backing_file", "/srv/image")]), &host())
        };
        let seen = assert_signal(
            backed(layer(LayerKind::File, "/srv/image")),
            "loop-backing",
            SignalWord::Fact,
        );
        let hidden = backed(layer(LayerKind::Unknown, "/srv/image (deleted)")).unwrap();
        assert_ne!(seen.implies, hidden.implies);
    }

    fn told(signal: Option<Signal>) -> Vec<[String; 3]> {
        let read = signal.unwrap().read.into_iter();
        read.map(|read| [read.what, read.place, read.value]).collect()
    }

    #[test]
    fn what_was_read_of_an_array_is_told_with_its_file() {
        let facts = [
            ("level", "raid6"),
            ("consistency_policy", "bitmap"),
            ("degraded", "2"),
            ("member_sda1", "in_sync"),
            ("member_sdb1", "faulty"),
            ("journal_mode", "write-back"),
            ("sync_action", "reshape"),
            ("array_state", "active"),
        ];
        let array = array(&facts);
        let hole = told(md_write_hole(&array, &host()));
        let policy = ["consistency policy", "/sys/class/block/md0/md/consistency_policy", "bitmap"];
        let count = ["degraded", "/sys/class/block/md0/md/degraded", "2"];
        assert_eq!(hole, [["level", "/sys/class/block/md0/md/level", "raid6"], policy, count]);
        let member = "state of a member";
        let degraded = told(md_degraded(&array, &host()));
        let members = [
            [member, "/sys/class/block/md0/md/dev-sda1/state", "in_sync"],
            [member, "/sys/class/block/md0/md/dev-sdb1/state", "faulty"],
        ];
        assert_eq!(degraded, [count, members[0], members[1]]);
        let resyncing = told(md_resyncing(&array, &host()));
        let action = ["sync action", "/sys/class/block/md0/md/sync_action", "reshape"];
        let state = ["array state", "/sys/class/block/md0/md/array_state", "active"];
        assert_eq!(resyncing, [action, state]);
        let journal = told(md_journal_write_back(&array, &host()));
        assert_eq!(
            journal,
            [["journal mode", "/sys/class/block/md0/md/journal_mode", "write-back"]]
        );
    }

    #[test]
    fn every_way_of_making_an_array_consistent_is_told_and_a_check_is_none() {
        let told = |action| md_resyncing(&array(&[("sync_action", action)]), &host()).is_some();
        assert_eq!(["resync", "recover", "reshape", "repair"].map(told), [true; 4]);
        assert_eq!(["check", "idle", "frozen"].map(told), [false; 3]);
        // RAID4 has the hole too, and no policy leaves it open.
        let hole = |level, policy| {
            let facts = [("level", level), ("consistency_policy", policy)];
            md_write_hole(&array(&facts), &host()).is_some()
        };
        assert_eq!(["raid4", "raid5", "raid6"].map(|level| hole(level, "none")), [true; 3]);
        assert_eq!(["raid0", "raid1", "raid10"].map(|level| hole(level, "none")), [false; 3]);
    }

    #[test]
    fn what_was_read_of_bcache_and_of_a_loop_device_is_told_with_its_file() {
        let facts = [("cache_mode", "writeback"), ("state", "dirty"), ("dirty_data", "1.5G")];
        let bcache = over(LayerKind::Bcache, "bcache0", vec![disk("sda")]);
        let bcache = told(bcache_write_back(&with_facts(bcache, &facts), &host()));
        let expected = [
            ["cache mode", "/sys/class/block/bcache0/bcache/cache_mode", "writeback"],
            ["state", "/sys/class/block/bcache0/bcache/state", "dirty"],
            ["dirty data", "/sys/class/block/bcache0/bcache/dirty_data", "1.5G"],
        ];
        assert_eq!(bcache, expected);
        let image = over(LayerKind::Loop, "loop7", vec![layer(LayerKind::File, "/srv/image")]);
        let facts = [("dio", "0"), ("backing_file", "/srv/image")];
        let image = told(loop_backing(&with_facts(image, &facts), &host()));
        let expected = [
            ["backing file", "/sys/class/block/loop7/loop/backing_file", "/srv/image"],
            ["dio", "/sys/class/block/loop7/loop/dio", "0"],
        ];
        assert_eq!(image, expected);
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
