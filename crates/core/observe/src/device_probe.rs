//! Answers of devices that the kernel's files lack: tables of volumes, first bytes of filesystems,
//! and devices' reports about themselves.
//!
//! The walk takes this as a [`DeviceProbe`], so that a copied tree is read without asking this
//! machine's devices: its tables of volumes are those of a file `dmsetup_table` at its root (the
//! output of `dmsetup table`), and its first bytes those of a file `dev/NAME`.
//!
//! The kernel links a device that a process serves (ublk) to nothing: the layers below it are the
//! files that the process has open, with the array facts of a durio superblock on them. Its server has the character device of the same
//! number open, and its own devices too; `/proc` shows them, which needs the right to look at the
//! process, and no answer of a server that may hang.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use durio_block::{
    BlockError, CachingPage, DmTable, NvmeIdentity, caching_page, dm_table, nvme_identity,
    parse_dm_table,
};
use rustix::fs::OFlags;

use crate::system_dir::SystemDir;
use crate::{Fact, block_node};

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
                cannot_tell("USB bridges are not queried, because some hang")
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

/// What a superblock of durio's arrays begins with; fields as in docs/formats/raid-superblock.md.
const MAGIC: &[u8] = b"durioRDS";
const LEVEL: usize = 10;
const MEMBERS: usize = 11;
const CHUNK: usize = 64;
const NAME: std::ops::Range<usize> = 104..136;

/// A device and its server.
#[derive(Debug, Default)]
pub(crate) struct DeviceServer {
    /// What the server has open of block devices and of images that are members.
    pub(crate) below: Vec<PathBuf>,
    pub(crate) facts: Vec<Fact>,
}

/// What serves the device `ublkbN`; nothing where that is not shown.
pub(crate) fn served(
    root: &SystemDir,
    device: &str,
    is_block: impl Fn(&PathBuf) -> bool,
) -> DeviceServer {
    let character = device.replacen("ublkb", "ublkc", 1);
    let is_server = |process: &SystemDir| {
        let files = process.names("fd");
        files
            .iter()
            .any(|file| process.link_name(format!("fd/{file}")).as_deref() == Some(&character))
    };
    let processes = root.children("proc").into_iter();
    let mut numbered =
        processes.filter(|entry| entry.name().bytes().all(|byte| byte.is_ascii_digit()));
    let Some(server) = numbered.find(is_server) else { return DeviceServer::default() };
    let mut found =
        DeviceServer { facts: vec![Fact::new("pid", server.name())], ..DeviceServer::default() };
    for file in server.names("fd") {
        let link = server.join(format!("fd/{file}"));
        let Ok(path) = fs::read_link(link.path()) else { continue };
        let is_device = is_block(&path);
        // A pipe or a socket is not a path, and would block a reader.
        let is_file = !is_device && path.is_absolute() && link.path().is_file();
        let head = (is_device || is_file).then(|| first_bytes_of(link.path())).flatten();
        let facts = head.as_deref().and_then(array_facts);
        if (is_device || facts.is_some()) && !found.below.contains(&path) {
            found.below.push(path);
        }
        if found.facts.len() == 1 {
            found.facts.extend(facts.unwrap_or_default());
        }
    }
    found
}

/// What the first superblock of a member says.
fn array_facts(head: &[u8]) -> Option<Vec<Fact>> {
    if !head.starts_with(MAGIC) {
        return None;
    }
    let name = String::from_utf8_lossy(head.get(NAME)?).trim_end_matches('\0').to_owned();
    let chunk = u32::from_le_bytes(head.get(CHUNK..CHUNK + 4)?.try_into().ok()?);
    Some(Fact::known([
        ("array", Some(name)),
        ("level", Some(format!("raid{}", head.get(LEVEL)?))),
        ("raid_disks", Some(head.get(MEMBERS)?.to_string())),
        ("chunk_size", Some(chunk.to_string())),
    ]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tests::fixture::Fixture;

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

    fn superblock() -> Vec<u8> {
        let mut block = vec![0; 4096];
        block[..8].copy_from_slice(MAGIC);
        (block[LEVEL], block[MEMBERS]) = (10, 4);
        block[CHUNK..CHUNK + 4].copy_from_slice(&(64_u32 << 10).to_le_bytes());
        block[NAME.start..NAME.start + 4].copy_from_slice(b"data");
        block
    }

    /// A process with these files open, from 0.
    fn process(fixture: &Fixture, pid: &str, files: &[&str]) {
        let folder = fixture.root().path().join("proc").join(pid).join("fd");
        fs::create_dir_all(&folder).unwrap();
        for (number, file) in files.iter().enumerate() {
            symlink(file, folder.join(number.to_string())).unwrap();
        }
    }

    #[test]
    fn below_a_served_device_is_what_its_server_has_open() {
        let fixture = Fixture::new();
        fixture.file("images/a", superblock());
        fixture.file("images/log", "a file of the server's that is no member");
        let inside = |name: &str| fixture.root().path().join(name).display().to_string();
        let (image, log) = (inside("images/a"), inside("images/log"));
        process(&fixture, "7", &["/dev/null", "/dev/ublkc10", "/dev/vdz"]);
        let files = ["socket:[5]", &log, "/dev/ublkc1", "/dev/vdb", "/dev/vdc", "/dev/vdb", &image];
        process(&fixture, "8", &files);
        let is_block = |path: &PathBuf| path.starts_with("/dev") && path.ends_with("vdb");
        let is_block = |path: &PathBuf| is_block(path) || path.ends_with("vdc");
        let found = served(&fixture.root(), "ublkb1", is_block);
        assert_eq!(found.below, ["/dev/vdb", "/dev/vdc", &image].map(PathBuf::from));
        let facts: Vec<(&str, &str)> =
            found.facts.iter().map(|fact| (fact.name.as_str(), fact.value.as_str())).collect();
        let of_array = [("level", "raid10"), ("raid_disks", "4"), ("chunk_size", "65536")];
        assert_eq!(facts[..2], [("pid", "8"), ("array", "data")]);
        assert_eq!(facts[2..], of_array);
        assert!(served(&fixture.root(), "ublkb2", is_block).below.is_empty());
    }

    #[test]
    fn what_is_no_superblock_says_nothing_of_an_array() {
        assert_eq!((array_facts(b""), array_facts(&[0; 4096])), (None, None));
        assert_eq!(array_facts(&superblock()[..120]), None);
    }
}
