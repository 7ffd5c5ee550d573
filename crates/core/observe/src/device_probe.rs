//! Answers of devices that the kernel's files lack: tables of volumes, first bytes of filesystems,
//! and devices' reports about themselves.
//!
//! The walk takes this as a [`DeviceProbe`], so that a copied tree is read without asking this
//! machine's devices: its tables of volumes are those of a file `dmsetup_table` at its root (the
//! output of `dmsetup table`), and its first bytes those of a file `dev/NAME`.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use durio_block::{
    BlockError, CachingPage, DmTable, NvmeIdentity, caching_page, dm_table, nvme_identity,
    parse_dm_table,
};
use rustix::fs::OFlags;

use crate::Fact;
use crate::block_node;
use crate::system_dir::SystemDir;

/// Enough for the superblocks of ext4 and XFS.
const FIRST_BYTES_LEN: u64 = 4096;

/// Said where a device was not asked or did not answer.
const CANNOT_TELL: &str = "cannot tell";

/// What the walk asks of devices.
pub(crate) trait DeviceProbe {
    /// The table of the volume in `dir`; empty if it cannot be read.
    fn volume_table(&self, dir: &SystemDir) -> DmTable;

    /// The first bytes of the device in `dir`, or fewer if it is shorter; none if it cannot be read.
    fn first_bytes(&self, dir: &SystemDir) -> Option<Vec<u8>>;

    /// The report of the disk in `dir`, attached by `bus`, about itself.
    fn identity(&self, dir: &SystemDir, bus: Option<&str>) -> Vec<Fact>;
}

#[derive(Debug)]
pub(crate) struct LiveDevices;

impl DeviceProbe for LiveDevices {
    fn volume_table(&self, dir: &SystemDir) -> DmTable {
        let number = block_node::number_of(dir);
        number.and_then(|device| dm_table(device.major, device.minor).ok()).unwrap_or_default()
    }

    fn first_bytes(&self, dir: &SystemDir) -> Option<Vec<u8>> {
        first_bytes_of(&node_of(Path::new("/dev"), dir))
    }

    fn identity(&self, dir: &SystemDir, bus: Option<&str>) -> Vec<Fact> {
        let node = node_of(Path::new("/dev"), dir);
        match bus {
            Some("nvme") => of_nvme(nvme_identity(&node)),
            // Bridges that hang when they are asked for this page are known to the kernel by name.
            Some("usb") if dir.contains("device/scsi_disk") => {
                cannot_tell("bridges are not asked, for some hang when they are")
            }
            _ if dir.contains("device/scsi_disk") => of_scsi(caching_page(&node)),
            _ => Vec::new(),
        }
    }
}

/// A machine whose files are copied below a folder.
#[derive(Debug)]
pub(crate) struct CopiedDevices<'a>(pub(crate) &'a SystemDir);

impl DeviceProbe for CopiedDevices<'_> {
    fn volume_table(&self, dir: &SystemDir) -> DmTable {
        let read = || Some((self.0.text("dmsetup_table")?, dir.text("dm/name")?));
        read().map(|(text, name)| parse_dm_table(&text, &name)).unwrap_or_default()
    }

    fn first_bytes(&self, dir: &SystemDir) -> Option<Vec<u8>> {
        first_bytes_of(&node_of(&self.0.path().join("dev"), dir))
    }

    fn identity(&self, _: &SystemDir, _: Option<&str>) -> Vec<Fact> {
        Vec::new()
    }
}

/// The node of the device in `dir`; sysfs writes an exclamation mark for a slash.
fn node_of(dev: &Path, dir: &SystemDir) -> PathBuf {
    dev.join(dir.name().replace('!', "/"))
}

pub(crate) fn first_bytes_of(node: &Path) -> Option<Vec<u8>> {
    // Without O_NONBLOCK a drive for removable media, or a pipe in a copied tree, makes one wait.
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(node).ok()?;
    let mut bytes = Vec::new();
    file.take(FIRST_BYTES_LEN).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn of_nvme(identity: Result<NvmeIdentity, BlockError>) -> Vec<Fact> {
    let controller = match identity {
        Ok(identity) => identity,
        Err(error) => return cannot_tell(&reason(&error)),
    };
    let present = if controller.volatile_write_cache { "present" } else { "absent" };
    // A cache that is absent cannot be switched on.
    let enabled = controller.volatile_write_cache.then(|| match controller.write_cache_enabled {
        Some(is_enabled) => yes_or_no(is_enabled),
        // Controller or kernel may refuse the question.
        None => CANNOT_TELL.to_owned(),
    });
    let commands = controller.optional_commands.join(", ");
    Fact::known([
        ("device_volatile_write_cache", Some(present.to_owned())),
        ("device_write_cache_enabled", enabled),
        ("device_atomic_write_bytes", controller.atomic_write_bytes.map(|bytes| bytes.to_string())),
        (
            "device_atomic_write_power_fail_bytes",
            controller.atomic_write_power_fail_bytes.map(|bytes| bytes.to_string()),
        ),
        ("device_optional_commands", Some(commands).filter(|names| !names.is_empty())),
        ("device_model", controller.model),
        ("device_firmware", controller.firmware),
    ])
}

fn of_scsi(page: Result<CachingPage, BlockError>) -> Vec<Fact> {
    match page {
        Ok(page) => vec![
            Fact::new("device_write_cache_enabled", yes_or_no(page.write_cache_enabled)),
            Fact::new("device_read_cache_enabled", yes_or_no(page.read_cache_enabled)),
            Fact::new("device_fua", yes_or_no(page.fua)),
        ],
        Err(error) => cannot_tell(&reason(&error)),
    }
}

fn reason(error: &BlockError) -> String {
    format!("{error}: {}", error.source)
}

fn cannot_tell(reason: &str) -> Vec<Fact> {
    vec![
        Fact::new("device_write_cache_enabled", CANNOT_TELL),
        Fact::new("device_word_missing", reason),
    ]
}

fn yes_or_no(is_it: bool) -> String {
    if is_it { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn lines(facts: &[Fact]) -> Vec<String> {
        facts.iter().map(|fact| format!("{}={}", fact.name, fact.value)).collect()
    }

    #[test]
    fn an_nvme_controllers_word_becomes_facts() {
        let word = NvmeIdentity {
            volatile_write_cache: true,
            write_cache_enabled: Some(false),
            atomic_write_power_fail_bytes: Some(4096),
            firmware: Some("1.0".into()),
            ..NvmeIdentity::default()
        };
        let expected = [
            "device_volatile_write_cache=present",
            "device_write_cache_enabled=no",
            "device_atomic_write_power_fail_bytes=4096",
            "device_firmware=1.0",
        ];
        assert_eq!(lines(&of_nvme(Ok(word))), expected);
        let without = of_nvme(Ok(NvmeIdentity::default()));
        assert_eq!(lines(&without), ["device_volatile_write_cache=absent"]);
    }

    #[test]
    fn a_disks_caching_page_becomes_facts() {
        let word = CachingPage { write_cache_enabled: true, read_cache_enabled: true, fua: false };
        let expected =
            ["device_write_cache_enabled=yes", "device_read_cache_enabled=yes", "device_fua=no"];
        assert_eq!(lines(&of_scsi(Ok(word))), expected);
    }

    #[test]
    fn a_device_that_cannot_be_asked_gives_the_reason() {
        let fixture = Fixture::new();
        let dir = fixture.nvme_disk("nvme77n1", "259:0");
        let facts = LiveDevices.identity(&dir, Some("nvme"));
        assert_eq!(facts[0], Fact::new("device_write_cache_enabled", "cannot tell"));
        assert!(facts[1].value.contains("/dev/nvme77n1"), "{facts:?}");
        let bridge = fixture.scsi_disk("sdzz", "8:0");
        let facts = LiveDevices.identity(&bridge, Some("usb"));
        assert_eq!(facts[0].value, "cannot tell");
        let disk = fixture.virtio_disk("vda", "254:0");
        assert_eq!(LiveDevices.identity(&disk, Some("virtio")), []);
    }

    #[test]
    fn a_copied_machine_is_not_asked_and_brings_its_tables() {
        let fixture = Fixture::new();
        let dir = fixture.scsi_disk("sda", "8:0");
        fixture.volume("dm-0", "253:0", "vg-a", &["sda"]);
        fixture.file("dmsetup_table", "vg-a: 0 8 linear 8:0 2048\n");
        fixture.file("dev/sda", vec![7; 9000]);
        let root = fixture.root();
        let copied = CopiedDevices(&root);
        assert_eq!(copied.identity(&dir, Some("ata")), []);
        let volume = root.follow("sys/block/dm-0").unwrap();
        assert_eq!(copied.volume_table(&volume)[0].target, "linear");
        assert!(copied.volume_table(&dir).is_empty());
        assert_eq!(copied.first_bytes(&dir).unwrap().len(), 4096);
        assert_eq!(copied.first_bytes(&volume), None);
    }
}
