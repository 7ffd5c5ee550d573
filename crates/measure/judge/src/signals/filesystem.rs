//! Rules about filesystems on this machine: options that drop flushes, journals, memory.

use durio_observe::{Host, Layer, LayerKind};

use super::{EvidenceReading, MOUNTS, Signal, filled, layer_name, reading, signal};

// Options that stop a filesystem from sending flushes (ext4, btrfs, reiserfs; f2fs has another
// name).
const NO_BARRIERS: [&str; 4] = ["nobarrier", "barrier=0", "barrier=none", "fsync_mode=nobarrier"];

// Options that make an overlay leave out every sync (kernel, filesystems/overlayfs.rst).
const VOLATILE: [&str; 2] = ["volatile", "fsync=volatile"];

// Types without a journal at all.
const JOURNALLESS: [&str; 6] = ["ext2", "vfat", "msdos", "exfat", "minix", "ufs"];

/// The first of the filesystem's options that is one of `wanted`, with the place where it stands.
fn option_among(layer: &Layer, wanted: &[&str]) -> Option<EvidenceReading> {
    let filesystem = layer.filesystem.as_ref()?;
    let given = filesystem.options.iter().find(|option| wanted.contains(&option.as_str()));
    if let Some(option) = given {
        return Some(reading("mount option", MOUNTS, option.clone()));
    }
    // A superblock can carry options that no mount shows (tune2fs -E mount_opts).
    let effective = layer.fact("effective_options")?;
    let option = effective.split(',').find(|option| wanted.contains(option))?;
    Some(reading("option in effect", ext4_file(layer, "/proc/fs/ext4", "options"), option))
}

/// A file that ext4 has for each filesystem, by the name of its device.
fn ext4_file(layer: &Layer, folder: &str, file: &str) -> String {
    let device = layer.below.first().map_or("*", |below| below.name.as_str());
    format!("{folder}/{}/{file}", device.replace('/', "!"))
}

/// The type of the filesystem, as a reading.
fn type_reading(fs_type: &str) -> EvidenceReading {
    reading("type of filesystem", MOUNTS, fs_type)
}

/// The option that makes a filesystem drop flushes, with its value, if it has one.
pub(crate) fn dropping_options(layer: &Layer) -> Option<EvidenceReading> {
    let dropping: Vec<&str> = NO_BARRIERS.iter().chain(&VOLATILE).copied().collect();
    option_among(layer, &dropping)
}

/// tmpfs and its like, RAM disks and compressed ones. A filesystem on a RAM disk gives no signal: its
/// device does.
pub(super) fn memory_backed(layer: &Layer, _: &Host) -> Option<Signal> {
    let read = match (&layer.filesystem, &layer.block) {
        (Some(filesystem), _) if layer.kind == LayerKind::Memory => {
            type_reading(&filesystem.fs_type)
        }
        (None, Some(_)) if matches!(layer.kind, LayerKind::Memory | LayerKind::Zram) => {
            reading("device", "/sys/class/block", layer.name.clone())
        }
        _ => return None,
    };
    signal("memory-backed", layer_name(layer), vec![read])
}

pub(super) fn barriers_off(layer: &Layer, _: &Host) -> Option<Signal> {
    let option = option_among(layer, &NO_BARRIERS)?;
    signal("barriers-off", layer_name(layer), vec![option])
}

pub(super) fn overlay_volatile(layer: &Layer, _: &Host) -> Option<Signal> {
    let option = option_among(layer, &VOLATILE).filter(|_| layer.kind == LayerKind::Overlay)?;
    signal("overlay-volatile", layer_name(layer), vec![option])
}

pub(super) fn checkpoint_disabled(layer: &Layer, _: &Host) -> Option<Signal> {
    let filesystem = layer.filesystem.as_ref().filter(|filesystem| filesystem.fs_type == "f2fs")?;
    // With a limit it reads `checkpoint=disable:5%`.
    let is_disabled = |option: &&String| option.starts_with("checkpoint=disable");
    let option = filesystem.options.iter().find(is_disabled)?;
    signal(
        "checkpoint-disabled",
        layer_name(layer),
        vec![reading("mount option", MOUNTS, option.clone())],
    )
}

const ZFS_SWITCHES: [&str; 2] =
    ["module/zfs/parameters/zfs_nocacheflush", "module/zfs/parameters/zil_nocacheflush"];

fn is_zfs(layer: &Layer) -> bool {
    layer.filesystem.as_ref().is_some_and(|filesystem| filesystem.fs_type == "zfs")
}

fn zfs_switches(host: &Host) -> Vec<EvidenceReading> {
    let parameters = host.kernel_parameters.iter();
    let switches = parameters.filter(|parameter| ZFS_SWITCHES.contains(&parameter.name.as_str()));
    let place = |name: &str| format!("/sys/{name}");
    switches
        .map(|parameter| {
            reading("module parameter", place(&parameter.name), parameter.value.clone())
        })
        .collect()
}

pub(super) fn zfs_no_flush(layer: &Layer, host: &Host) -> Option<Signal> {
    let is_on = |reading: &EvidenceReading| !matches!(reading.value.as_str(), "0" | "N");
    let on: Vec<EvidenceReading> = zfs_switches(host).into_iter().filter(is_on).collect();
    if !is_zfs(layer) || on.is_empty() {
        return None;
    }
    signal("zfs-no-flush", layer_name(layer), on)
}

pub(super) fn zfs_sync_property(layer: &Layer, host: &Host) -> Option<Signal> {
    let filesystem = layer.filesystem.as_ref().filter(|_| is_zfs(layer))?;
    let mut read = vec![reading("dataset", MOUNTS, filesystem.source.clone())];
    read.extend(zfs_switches(host));
    let dataset = [("dataset", filesystem.source.as_str())];
    filled(signal("zfs-sync-unknown", layer_name(layer), read), &dataset)
}

pub(super) fn no_journal(layer: &Layer, _: &Host) -> Option<Signal> {
    let filesystem = layer.filesystem.as_ref()?;
    let read = match layer.fact("journal") {
        Some("none") => {
            let place = ext4_file(layer, "/sys/fs/ext4", "journal_task");
            reading("task of the journal", place, "<none>")
        }
        Some(_) => return None,
        None if JOURNALLESS.contains(&filesystem.fs_type.as_str()) => {
            type_reading(&filesystem.fs_type)
        }
        None => return None,
    };
    signal("no-journal", layer_name(layer), vec![read])
}

// None of them drops a sync: they are facts, each with a separate meaning.
const JOURNAL_OPTIONS: [&str; 3] = ["data=writeback", "data=journal", "journal_async_commit"];

pub(super) fn journal_options(layer: &Layer, _: &Host) -> Option<Signal> {
    let option = option_among(layer, &JOURNAL_OPTIONS)?;
    signal(&format!("journal-options:{}", option.value), layer_name(layer), vec![option])
}

pub(super) fn no_tree_log(layer: &Layer, _: &Host) -> Option<Signal> {
    let option = option_among(layer, &["notreelog"])?;
    signal("no-tree-log", layer_name(layer), vec![option])
}

pub(super) fn nothing_known_below(layer: &Layer, _: &Host) -> Option<Signal> {
    let filesystem = layer.filesystem.as_ref()?;
    let is_local = matches!(layer.kind, LayerKind::Filesystem | LayerKind::Unknown);
    let is_hidden = layer.below.iter().all(|below| below.kind == LayerKind::Unknown);
    if !is_local || !is_hidden {
        return None;
    }
    signal(
        "hidden-below",
        layer_name(layer),
        vec![reading("mounted from", MOUNTS, filesystem.source.clone())],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{assert_signal, disk, fact, filesystem, layer, over, with_facts};
    use durio_analyse::SignalWord;

    fn ext4(options: &[&str]) -> Layer {
        let mut layer = filesystem("ext4", LayerKind::Filesystem, options);
        layer.below = vec![disk("nvme0n1")];
        layer
    }

    fn host() -> Host {
        Host::default()
    }

    #[test]
    fn a_clean_filesystem_gives_no_signal_of_this_file() {
        let clean = with_facts(ext4(&["rw"]), &[("journal", "yes"), ("effective_options", "rw")]);
        let rules = [
            memory_backed,
            barriers_off,
            overlay_volatile,
            checkpoint_disabled,
            zfs_no_flush,
            zfs_sync_property,
            no_journal,
            journal_options,
            no_tree_log,
            nothing_known_below,
        ];
        for rule in rules {
            assert_eq!(rule(&clean, &host()), None);
            assert_eq!(rule(&disk("nvme0n1"), &host()), None);
        }
    }

    #[test]
    fn memory_is_told_of_the_layer_that_is_memory() {
        let tmpfs = filesystem("tmpfs", LayerKind::Memory, &[]);
        assert_signal(memory_backed(&tmpfs, &host()), "memory-backed", SignalWord::UnsafeConfig);
        let mut layer = ext4(&[]);
        layer.below = vec![over(LayerKind::Zram, "zram0", Vec::new())];
        assert_eq!(memory_backed(&layer, &host()), None);
        let found = memory_backed(&layer.below[0], &host());
        let found = assert_signal(found, "memory-backed", SignalWord::UnsafeConfig);
        assert_eq!(found.read[0].value, "zram0");
    }

    #[test]
    fn dropped_barriers_are_found_in_the_mount_and_in_the_superblock() {
        for option in ["nobarrier", "barrier=0", "fsync_mode=nobarrier"] {
            let found = barriers_off(&ext4(&["rw", option]), &host());
            let found = assert_signal(found, "barriers-off", SignalWord::UnsafeConfig);
            assert_eq!(found.read[0].place, MOUNTS);
        }
        let by_default = with_facts(ext4(&["rw"]), &[("effective_options", "rw,nobarrier,acl")]);
        let found = barriers_off(&by_default, &host()).unwrap();
        assert_eq!(found.read[0].place, "/proc/fs/ext4/nvme0n1/options");
        assert!(dropping_options(&by_default).is_some());
        for option in ["barrier", "barrier=1", "nobarriers"] {
            assert_eq!(barriers_off(&ext4(&[option]), &host()), None, "{option}");
        }
    }

    #[test]
    fn volatile_is_an_overlays_option() {
        let overlay = |option| filesystem("overlay", LayerKind::Overlay, &["rw", option]);
        for option in VOLATILE {
            let found = overlay_volatile(&overlay(option), &host());
            assert_signal(found, "overlay-volatile", SignalWord::UnsafeConfig);
        }
        assert_eq!(overlay_volatile(&overlay("xino=off"), &host()), None);
        assert_eq!(overlay_volatile(&ext4(&["volatile"]), &host()), None);
    }

    #[test]
    fn f2fs_without_checkpoints_is_an_unsafe_configuration() {
        let f2fs = |option| filesystem("f2fs", LayerKind::Filesystem, &[option]);
        let found = checkpoint_disabled(&f2fs("checkpoint=disable:5%"), &host());
        assert_signal(found, "checkpoint-disabled", SignalWord::UnsafeConfig);
        assert_eq!(checkpoint_disabled(&f2fs("checkpoint=enable"), &host()), None);
    }

    #[test]
    fn zfs_tells_its_switches_and_not_its_property() {
        let zfs = filesystem("zfs", LayerKind::Filesystem, &["rw", "xattr"]);
        let with = |name: &str, value: &str| Host {
            kernel_parameters: vec![fact(name, value)],
            ..Host::default()
        };
        let on = with(ZFS_SWITCHES[1], "1");
        assert_signal(zfs_no_flush(&zfs, &on), "zfs-no-flush", SignalWord::UnsafeConfig);
        assert_eq!(zfs_no_flush(&zfs, &with(ZFS_SWITCHES[1], "0")), None);
        assert_eq!(zfs_no_flush(&ext4(&[]), &on), None);
        let unknown = zfs_sync_property(&zfs, &with(ZFS_SWITCHES[0], "0"));
        let unknown = assert_signal(unknown, "zfs-sync-unknown", SignalWord::Fact);
        assert_eq!(unknown.read.len(), 2);
    }

    #[test]
    fn a_missing_journal_is_a_fact() {
        let without = with_facts(ext4(&[]), &[("journal", "none")]);
        let found = assert_signal(no_journal(&without, &host()), "no-journal", SignalWord::Fact);
        assert_eq!(found.read[0].place, "/sys/fs/ext4/nvme0n1/journal_task");
        let vfat = filesystem("vfat", LayerKind::Filesystem, &[]);
        assert_signal(no_journal(&vfat, &host()), "no-journal", SignalWord::Fact);
        assert_eq!(no_journal(&ext4(&[]), &host()), None, "what is not shown is not known");
    }

    #[test]
    fn options_of_the_journal_are_explained() {
        for option in JOURNAL_OPTIONS {
            let found = journal_options(&ext4(&[option]), &host());
            assert_signal(found, "journal-options", SignalWord::Fact);
        }
        assert_eq!(journal_options(&ext4(&["data=ordered"]), &host()), None);
        let btrfs = filesystem("btrfs", LayerKind::Filesystem, &["notreelog"]);
        assert_signal(no_tree_log(&btrfs, &host()), "no-tree-log", SignalWord::Fact);
    }

    #[test]
    fn what_is_hidden_below_is_told() {
        let mut zfs = filesystem("zfs", LayerKind::Filesystem, &[]);
        assert_signal(nothing_known_below(&zfs, &host()), "hidden-below", SignalWord::Fact);
        zfs.below = vec![layer(LayerKind::Unknown, "pool")];
        assert!(nothing_known_below(&zfs, &host()).is_some());
        let nfs = filesystem("nfs4", LayerKind::Network, &[]);
        assert_eq!(nothing_known_below(&nfs, &host()), None);
    }
}
