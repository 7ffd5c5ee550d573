//! Rules about the device at the bottom: its cache as the kernel and as the device itself see it,
//! FUA, and what its name gives away.

use durio_observe::{BlockFacts, CloudDisk, Host, Layer, LayerKind, WriteCache};

use super::{
    EvidenceReading, Signal, cache_reading, is_end, is_flushed, layer_name, reading, signal, sysfs,
};

// The PCI vendor number of QEMU's devices (QEMU, docs/specs/pci-ids).
const QEMU_PCI_VENDOR: &str = "0x1b36";

// Drivers of RAID controllers with a cache, by the kernel's names of their hosts.
const RAID_DRIVERS: [&str; 8] =
    ["megaraid_sas", "smartpqi", "hpsa", "aacraid", "arcmsr", "3w-9xxx", "3w-sas", "megaraid"];

/// The views of kernel, driver and hypervisor on the cache of a device at the bottom: one signal
/// per device, whatever they are.
pub(super) fn cache_view(layer: &Layer, _: &Host) -> Option<Signal> {
    let block = layer.block.as_ref().filter(|_| is_end(layer))?;
    let view = block.write_cache?;
    let mut read = vec![cache_reading("kernel's view", layer, view)];
    if let Some(own) = &block.device_write_cache {
        // virtio-blk has the attribute at the disk itself, SCSI at the disk's SCSI device.
        let file = match layer.name.starts_with("vd") {
            true => "cache_type",
            false => "device/scsi_disk/*/cache_type",
        };
        read.push(reading("device's own", sysfs(layer, file), own.clone()));
    }
    if let Some(flush) = block.virtio_flush {
        let value = if flush { "1" } else { "0" };
        read.push(reading("flush offered, bit 9", sysfs(layer, "device/features"), value));
    }
    match view {
        WriteCache::WriteThrough => flush_stripped(layer, block, read),
        WriteCache::WriteBack => signal("flush-sent", layer_name(layer), read),
    }
}

/// The block layer strips flushes for a device whose cache it takes for write through, and ends a
/// sync at once.
fn flush_stripped(layer: &Layer, block: &BlockFacts, read: Vec<EvidenceReading>) -> Option<Signal> {
    let bus = layer.fact("bus").unwrap_or_default();
    let own = block.device_write_cache.as_deref();
    let key = match () {
        () if own == Some("write back") => "cache-view-overridden",
        () if block.virtio_flush == Some(false) => "virtio-no-flush",
        () if layer.kind == LayerKind::Nbd => "nbd-no-flush",
        () if bus == "usb" => "usb-cache-guessed",
        () if bus == "nvme" => "no-volatile-cache:nvme",
        () => "no-volatile-cache",
    };
    signal(key, layer_name(layer), read)
}

/// A contradiction between the kernel's view of a cache and the device's answer when it was asked.
/// If they agree, the rule on the kernel's view reports it already.
pub(super) fn contradicts_kernel(layer: &Layer, _: &Host) -> Option<Signal> {
    let block = layer.block.as_ref().filter(|_| is_end(layer))?;
    let view = block.write_cache?;
    // NVMe reports presence (VWC) and switch, SCSI only the switch.
    let present = layer.fact("device_volatile_write_cache");
    let enabled = layer.fact("device_write_cache_enabled");
    let is_off = present == Some("absent") || enabled == Some("no");
    // The driver's word says the same and has a signal already.
    let is_told = block.device_write_cache.as_deref() == Some("write back");
    let key = match view {
        WriteCache::WriteBack if is_off => "device-word-not-volatile",
        WriteCache::WriteBack => return None,
        WriteCache::WriteThrough if is_off || is_told => return None,
        WriteCache::WriteThrough if enabled == Some("yes") => "device-word-volatile",
        WriteCache::WriteThrough if present == Some("present") => {
            "device-word-volatile:switch-unknown"
        }
        WriteCache::WriteThrough => return None,
    };
    let place = |page: &str| format!("{page} of /dev/{}", layer.name);
    let switch = match present {
        Some(_) => place("Get Features 06h"),
        None => place("caching mode page 08h, WCE,"),
    };
    let vwc = place("Identify Controller, VWC,");
    let mut read = vec![cache_reading("kernel's view", layer, view)];
    read.extend(present.map(|value| reading("device's volatile write cache", vwc, value)));
    read.extend(enabled.map(|value| reading("device's write cache is on", switch, value)));
    signal(key, layer_name(layer), read)
}

/// Whether durable writes can be sent as one command.
pub(super) fn fua(layer: &Layer, _: &Host) -> Option<Signal> {
    let block = layer.block.as_ref().filter(|_| is_end(layer))?;
    // Without flushes to send, FUA saves none.
    let fua = block.fua.filter(|_| is_flushed(layer))?;
    let (key, value) = if fua { ("fua", "1") } else { ("fua:not-supported", "0") };
    signal(key, layer_name(layer), vec![reading("FUA", sysfs(layer, "queue/fua"), value)])
}

/// QEMU's NVMe controller announces FUA and writes without looking at the bit.
pub(super) fn qemu_nvme(layer: &Layer, _: &Host) -> Option<Signal> {
    let block = layer.block.as_ref().filter(|_| is_end(layer))?;
    let model = block.model.as_deref().unwrap_or_default();
    let vendor = layer.fact("pci_vendor").unwrap_or_default();
    let by_vendor = vendor == QEMU_PCI_VENDOR && layer.fact("bus") == Some("nvme");
    let is_qemu = model.starts_with("QEMU NVMe Ctrl") || by_vendor;
    if !is_qemu || block.fua != Some(true) || !is_flushed(layer) {
        return None;
    }
    let read = vec![
        reading("model", sysfs(layer, "device/model"), model),
        reading("FUA", sysfs(layer, "queue/fua"), "1"),
    ];
    signal("qemu-nvme-fua", layer_name(layer), read)
}

fn cloud_disk(layer: &Layer) -> Option<CloudDisk> {
    let block = layer.block.as_ref()?;
    CloudDisk::of(block.vendor.as_deref().unwrap_or_default(), block.model.as_deref()?)
}

fn vendor_and_model(layer: &Layer) -> String {
    let Some(block) = &layer.block else { return String::new() };
    let part = |value: &Option<String>| value.clone().unwrap_or_default();
    format!("{} {}", part(&block.vendor), part(&block.model))
}

pub(super) fn ephemeral(layer: &Layer, _: &Host) -> Option<Signal> {
    let is_local = cloud_disk(layer) == Some(CloudDisk::Local);
    let model = layer.block.as_ref()?.model.as_deref().filter(|_| is_local)?;
    signal(
        "ephemeral",
        layer_name(layer),
        vec![reading("model", sysfs(layer, "device/model"), model)],
    )
}

/// True for a volume of a cloud's replicated storage, by its name.
pub(super) fn is_cloud_volume(layer: &Layer) -> bool {
    cloud_disk(layer) == Some(CloudDisk::Volume)
}

pub(super) fn cloud_volume(layer: &Layer, _: &Host) -> Option<Signal> {
    if !is_end(layer) || !is_cloud_volume(layer) {
        return None;
    }
    let model = vendor_and_model(layer).trim().to_owned();
    signal(
        "cloud-volume",
        layer_name(layer),
        vec![reading("vendor and model", sysfs(layer, "device/model"), model)],
    )
}

/// A controller that answers flushes from its memory.
pub(super) fn raid_controller(layer: &Layer, _: &Host) -> Option<Signal> {
    let driver = layer.fact("scsi_driver").filter(|driver| RAID_DRIVERS.contains(driver))?;
    let mut read = vec![reading("driver", "/sys/class/scsi_host/*/proc_name", driver)];
    let own = layer.block.as_ref().and_then(|block| block.device_write_cache.clone());
    let place = sysfs(layer, "device/scsi_disk/*/cache_type");
    read.extend(own.map(|own| reading("device's own", place, own)));
    signal("raid-controller", layer_name(layer), read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{assert_signal, disk, layer, with_facts};
    use durio_analyse::SignalWord;

    fn spoiled(spoil: impl FnOnce(&mut BlockFacts)) -> Layer {
        let mut layer = disk("nvme0n1");
        spoil(layer.block.as_mut().unwrap());
        layer
    }

    fn write_through(spoil: impl FnOnce(&mut BlockFacts)) -> Layer {
        spoiled(|block| {
            block.write_cache = Some(WriteCache::WriteThrough);
            spoil(block);
        })
    }

    fn view(layer: &Layer) -> Option<Signal> {
        cache_view(layer, &Host::default())
    }

    #[test]
    fn a_flush_that_is_sent_is_a_fact_and_one_that_is_not_a_declaration() {
        assert_signal(view(&disk("nvme0n1")), "flush-sent", SignalWord::Fact);
        let declared = view(&write_through(|_| {}));
        let found = assert_signal(declared, "no-volatile-cache", SignalWord::Declared);
        assert!(found.implies.contains("VWC"));
        assert_eq!(view(&spoiled(|block| block.write_cache = None)), None);
        assert_eq!(view(&layer(LayerKind::Partition, "sda1")), None);
    }

    #[test]
    fn a_view_that_the_device_contradicts_is_an_unsafe_configuration() {
        let overridden =
            write_through(|block| block.device_write_cache = Some("write back".into()));
        let found =
            assert_signal(view(&overridden), "cache-view-overridden", SignalWord::UnsafeConfig);
        assert_eq!(found.read[0].place, "/sys/class/block/nvme0n1/queue/write_cache");
        let agreeing =
            write_through(|block| block.device_write_cache = Some("write through".into()));
        assert_signal(view(&agreeing), "no-volatile-cache", SignalWord::Declared);
    }

    #[test]
    fn hypervisors_servers_and_bridges_without_a_flush_are_suspect() {
        let virtio = write_through(|block| block.virtio_flush = Some(false));
        assert_signal(view(&virtio), "virtio-no-flush", SignalWord::Suspect);
        let offered = write_through(|block| block.virtio_flush = Some(true));
        assert_signal(view(&offered), "no-volatile-cache", SignalWord::Declared);
        let nbd = Layer { kind: LayerKind::Nbd, name: "nbd0".into(), ..write_through(|_| {}) };
        assert_signal(view(&nbd), "nbd-no-flush", SignalWord::Suspect);
        let mut usb = write_through(|_| {});
        usb.facts = with_facts(layer(LayerKind::Disk, ""), &[("bus", "usb")]).facts;
        assert_signal(view(&usb), "usb-cache-guessed", SignalWord::Suspect);
    }

    #[test]
    fn fua_is_told_where_flushes_are_sent() {
        let found = fua(&disk("nvme0n1"), &Host::default());
        let with = assert_signal(found, "fua", SignalWord::Fact);
        let without = fua(&spoiled(|block| block.fua = Some(false)), &Host::default());
        assert_ne!(with.implies, assert_signal(without, "fua", SignalWord::Fact).implies);
        assert_eq!(fua(&write_through(|_| {}), &Host::default()), None);
        assert_eq!(fua(&spoiled(|block| block.fua = None), &Host::default()), None);
    }

    #[test]
    fn qemus_nvme_is_suspect_unless_its_cache_is_off() {
        let named = spoiled(|block| block.model = Some("QEMU NVMe Ctrl".into()));
        let found = qemu_nvme(&named, &Host::default());
        assert_signal(found, "qemu-nvme-fua", SignalWord::Suspect);
        let numbered = with_facts(disk("nvme0n1"), &[("pci_vendor", "0x1b36")]);
        assert!(qemu_nvme(&numbered, &Host::default()).is_some());
        let off = write_through(|block| block.model = Some("QEMU NVMe Ctrl".into()));
        assert_eq!(qemu_nvme(&off, &Host::default()), None);
        assert_eq!(qemu_nvme(&disk("nvme0n1"), &Host::default()), None);
    }

    #[test]
    fn local_disks_of_clouds_are_told_from_their_volumes() {
        let named = |model: &str| spoiled(|block| block.model = Some(model.into()));
        let host = Host::default();
        for model in ["Amazon EC2 NVMe Instance Storage", "nvme_card3", "nvme_card"] {
            assert_signal(ephemeral(&named(model), &host), "ephemeral", SignalWord::Declared);
            assert_eq!(cloud_volume(&named(model), &host), None, "{model}");
        }
        for model in ["Amazon Elastic Block Store", "nvme_card-pd", "MSFT NVMe Accelerator v1.0"] {
            let found = cloud_volume(&named(model), &host);
            assert_signal(found, "cloud-volume", SignalWord::Declared);
            assert_eq!(ephemeral(&named(model), &host), None, "{model}");
        }
        let mut azure = named("Virtual Disk");
        assert_eq!(cloud_volume(&azure, &host), None);
        azure.block.as_mut().unwrap().vendor = Some("Msft    ".into());
        assert!(cloud_volume(&azure, &host).is_some());
    }

    #[test]
    fn a_raid_controller_is_told_from_a_plain_host() {
        let behind = |driver: &str| with_facts(disk("sda"), &[("scsi_driver", driver)]);
        let found = raid_controller(&behind("megaraid_sas"), &Host::default());
        assert_signal(found, "raid-controller", SignalWord::Declared);
        assert_eq!(raid_controller(&behind("ahci"), &Host::default()), None);
    }

    const PRESENT: (&str, &str) = ("device_volatile_write_cache", "present");
    const ABSENT: (&str, &str) = ("device_volatile_write_cache", "absent");
    const ON: (&str, &str) = ("device_write_cache_enabled", "yes");
    const OFF: (&str, &str) = ("device_write_cache_enabled", "no");
    const UNTOLD: (&str, &str) = ("device_write_cache_enabled", "cannot tell");

    fn asked(view: WriteCache, driver: Option<&str>, facts: &[(&str, &str)]) -> Option<Signal> {
        let mut layer = with_facts(disk("nvme0n1"), facts);
        let block = layer.block.as_mut().unwrap();
        block.write_cache = Some(view);
        block.device_write_cache = driver.map(str::to_owned);
        contradicts_kernel(&layer, &Host::default())
    }

    #[test]
    fn a_cache_that_is_on_and_gets_no_flush_is_an_unsafe_configuration() {
        for facts in [&[PRESENT, ON][..], &[ON]] {
            let one = asked(WriteCache::WriteThrough, Some("write through"), facts);
            let one = assert_signal(one, "device-word-volatile", SignalWord::UnsafeConfig);
            assert_eq!(one.read.len(), 1 + facts.len());
        }
        let perhaps = asked(WriteCache::WriteThrough, None, &[PRESENT, UNTOLD]);
        assert_signal(perhaps, "device-word-volatile", SignalWord::Suspect);
    }

    #[test]
    fn flushes_to_a_device_without_a_volatile_cache_are_told() {
        for facts in [&[ABSENT][..], &[PRESENT, OFF], &[OFF]] {
            let one = asked(WriteCache::WriteBack, None, facts);
            assert_signal(one, "device-word-not-volatile", SignalWord::Declared);
        }
    }

    #[test]
    fn words_that_agree_or_are_missing_tell_nothing() {
        assert_eq!(asked(WriteCache::WriteBack, None, &[PRESENT, ON]), None);
        assert_eq!(asked(WriteCache::WriteBack, None, &[PRESENT, UNTOLD]), None);
        assert_eq!(asked(WriteCache::WriteThrough, None, &[ABSENT]), None);
        assert_eq!(asked(WriteCache::WriteThrough, None, &[OFF]), None);
        assert_eq!(asked(WriteCache::WriteThrough, None, &[UNTOLD]), None);
        assert_eq!(asked(WriteCache::WriteThrough, None, &[]), None);
    }

    #[test]
    fn what_the_drivers_word_tells_already_is_not_told_twice() {
        assert_eq!(asked(WriteCache::WriteThrough, Some("write back"), &[ON]), None);
    }

    fn told(signal: Option<Signal>) -> Vec<[String; 3]> {
        let read = signal.unwrap().read.into_iter();
        read.map(|read| [read.what, read.place, read.value]).collect()
    }

    #[test]
    fn the_devices_words_are_told_with_the_command_that_asked_for_them() {
        let view = ["kernel's view", "/sys/class/block/nvme0n1/queue/write_cache", "write through"];
        let present = "device's volatile write cache";
        let vwc = "Identify Controller, VWC, of /dev/nvme0n1";
        let on = "device's write cache is on";
        let nvme = told(asked(WriteCache::WriteThrough, None, &[ON, PRESENT]));
        let switch = [on, "Get Features 06h of /dev/nvme0n1", "yes"];
        assert_eq!(nvme, [view, [present, vwc, "present"], switch]);
        let scsi = told(asked(WriteCache::WriteThrough, None, &[ON]));
        let switch = [on, "caching mode page 08h, WCE, of /dev/nvme0n1", "yes"];
        assert_eq!(scsi, [view, switch]);
        let absent = told(asked(WriteCache::WriteBack, None, &[ABSENT]));
        assert_eq!(absent, [[view[0], view[1], "write back"], [present, vwc, "absent"]]);
    }

    #[test]
    fn the_views_on_a_cache_are_told_with_their_files() {
        let named = |name: &str| {
            let mut layer = spoiled(|block| {
                block.device_write_cache = Some("write back".into());
                block.virtio_flush = Some(true);
            });
            layer.name = name.into();
            told(view(&layer))
        };
        let own = "device's own";
        let virtio = named("vdb");
        assert_eq!(virtio[1], [own, "/sys/class/block/vdb/cache_type", "write back"]);
        let flush = ["flush offered, bit 9", "/sys/class/block/vdb/device/features", "1"];
        assert_eq!(virtio[2], flush);
        let scsi = named("sdb");
        assert_eq!(
            scsi[1],
            [own, "/sys/class/block/sdb/device/scsi_disk/*/cache_type", "write back"]
        );
        let not_offered = told(view(&write_through(|block| block.virtio_flush = Some(false))));
        assert_eq!(not_offered[1][2], "0");
        for (has, value) in [(true, "1"), (false, "0")] {
            let fua = told(fua(&spoiled(|block| block.fua = Some(has)), &Host::default()));
            assert_eq!(fua, [["FUA", "/sys/class/block/nvme0n1/queue/fua", value]]);
        }
    }
}
