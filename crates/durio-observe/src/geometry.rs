//! How a mounted filesystem is laid out: blocks, journal, stripes, profiles, features.
//!
//! In: the type, the mount's options, the device below, and what may be asked of it. Out: named
//! values. Not here: mount options, and the fields of a superblock.
//!
//! btrfs shows all of it in sysfs. ext4 and XFS show next to nothing there: theirs is in the
//! superblock, where the device may be read; else what the mount's options say.

use crate::Fact;
use crate::device_probe::DeviceProbe;
use crate::mountinfo::MountEntry;
use crate::source::btrfs_of_member;
use crate::superblock::superblock_facts;
use crate::system_dir::SystemDir;

pub(crate) fn geometry(
    root: &SystemDir,
    probe: &dyn DeviceProbe,
    mount: &MountEntry,
    dir: &SystemDir,
) -> Vec<Fact> {
    match mount.fs_type.as_str() {
        "btrfs" => btrfs(root, &dir.name()),
        "ext2" | "ext3" | "ext4" => {
            let mut facts = of_superblock(probe, mount, dir);
            facts.extend(ext_state(root, &dir.name()));
            facts
        }
        "xfs" => match of_superblock(probe, mount, dir) {
            facts if facts.is_empty() => xfs_options(mount),
            facts => facts,
        },
        _ => Vec::new(),
    }
}

fn of_superblock(probe: &dyn DeviceProbe, mount: &MountEntry, dir: &SystemDir) -> Vec<Fact> {
    let bytes = probe.first_bytes(dir).unwrap_or_default();
    superblock_facts(&mount.fs_type, &bytes)
}

/// What ext4 and its journal show while they are mounted.
///
/// `journal_mode`: `ordered`, `writeback` or `journal`. `journal_transaction_max_blocks`: how much
/// one transaction can hold. `errors`: how many the filesystem has recorded, if any.
fn ext_state(root: &SystemDir, device: &str) -> Vec<Fact> {
    let options = root.text(format!("proc/fs/ext4/{device}/options"));
    let mode = options.as_deref().and_then(journal_mode);
    let errors = root.text(format!("sys/fs/ext4/{device}/errors_count"));
    Fact::known([
        ("journal_mode", mode),
        ("journal_transaction_max_blocks", transaction_blocks(root, device)),
        ("errors", errors.filter(|count| count != "0")),
    ])
}

fn journal_mode(options: &str) -> Option<String> {
    options.split_whitespace().find_map(|option| option.strip_prefix("data=")).map(str::to_owned)
}

/// From a sentence such as `7 transactions (2 requested), each up to 1024 blocks`, in the folder of
/// the device and the journal's inode.
fn transaction_blocks(root: &SystemDir, device: &str) -> Option<String> {
    let of_device = |journal: &SystemDir| {
        let name = journal.name();
        let inode = name.strip_prefix(device).and_then(|rest| rest.strip_prefix('-'));
        inode.is_some_and(|inode| inode.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let text = root.children("proc/fs/jbd2").iter().find(|it| of_device(it))?.text("info")?;
    let (count, _) = text.split_once("each up to ")?.1.split_once(' ')?;
    count.parse::<u64>().is_ok().then(|| count.to_owned())
}

/// Stripes as they are given to mount, in sectors of 512 bytes.
fn xfs_options(mount: &MountEntry) -> Vec<Fact> {
    let sectors = |option: &str| {
        let sectors: u64 = mount.option_value(option)?.to_str()?.parse().ok()?;
        Some(sectors.checked_mul(512)?.to_string())
    };
    Fact::known([
        ("stripe_unit_bytes", sectors("sunit")),
        ("stripe_width_bytes", sectors("swidth")),
    ])
}

/// Profiles of btrfs, each a folder while it is in use.
const PROFILES: [&str; 9] =
    ["single", "dup", "raid0", "raid1", "raid1c3", "raid1c4", "raid10", "raid5", "raid6"];

fn btrfs(root: &SystemDir, member: &str) -> Vec<Fact> {
    let Some(filesystem) = btrfs_of_member(root, member) else { return Vec::new() };
    let listed = |names: Vec<String>| (!names.is_empty()).then(|| names.join(","));
    let profile = |kind: &str| {
        let mut names = filesystem.names(format!("allocation/{kind}"));
        names.retain(|name| PROFILES.contains(&name.as_str()));
        listed(names)
    };
    // A balance or a replacement in the background takes the devices' time.
    let running = filesystem.text("exclusive_operation").filter(|it| it != "none");
    Fact::known([
        ("block_size_bytes", filesystem.text("sectorsize")),
        ("node_size_bytes", filesystem.text("nodesize")),
        ("checksum", filesystem.text("checksum")),
        ("data_profile", profile("data")),
        ("metadata_profile", profile("metadata")),
        ("system_profile", profile("system")),
        ("running_operation", running),
        ("features", listed(filesystem.names("features"))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_probe::CopiedDevices;
    use crate::fixture::Fixture;
    use crate::mountinfo::parse_mountinfo;

    fn lines(fixture: &Fixture, mount: &str, device: &str) -> Vec<String> {
        let root = fixture.root();
        let mounts = parse_mountinfo(format!("50 1 8:0 / /data rw - {mount}\n").as_bytes());
        let dir = root.follow(format!("sys/block/{device}")).unwrap();
        let facts = geometry(&root, &CopiedDevices(&root), &mounts[0], &dir);
        facts.iter().map(|fact| format!("{}={}", fact.name, fact.value)).collect()
    }

    #[test]
    fn btrfs_tells_its_profiles_and_sizes() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        let folder = "sys/fs/btrfs/0bee-f";
        fixture.link(&format!("{folder}/devices/sda"), &fixture.path_of("sda"));
        for (file, content) in [
            ("nodesize", "16384"),
            ("sectorsize", "4096"),
            ("checksum", "crc32c (crc32c-intel)"),
            ("exclusive_operation", "none"),
            ("allocation/data/single/total_bytes", "1"),
            ("allocation/data/flags", "1"),
            ("allocation/metadata/raid1/total_bytes", "1"),
            ("features/skinny_metadata", "1"),
        ] {
            fixture.file(&format!("{folder}/{file}"), format!("{content}\n"));
        }
        let expected = [
            "block_size_bytes=4096",
            "node_size_bytes=16384",
            "checksum=crc32c (crc32c-intel)",
            "data_profile=single",
            "metadata_profile=raid1",
            "features=skinny_metadata",
        ];
        assert_eq!(lines(&fixture, "btrfs /dev/sda rw", "sda"), expected);
    }

    #[test]
    fn ext4_tells_the_mode_and_the_largest_transaction_of_its_journal() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        fixture.file("proc/fs/ext4/sda/options", "rw\nbarrier\ndata=journal\n");
        fixture.file("sys/fs/ext4/sda/errors_count", "3\n");
        let sentence = "7 transactions (2 requested), each up to 1024 blocks\naverage: \n";
        fixture.file("proc/fs/jbd2/sda-8/info", sentence);
        fixture.file("proc/fs/jbd2/sda1-8/info", sentence.replace("1024", "1"));
        let expected = ["journal_mode=journal", "journal_transaction_max_blocks=1024", "errors=3"];
        assert_eq!(lines(&fixture, "ext4 /dev/sda rw", "sda"), expected);
    }

    #[test]
    fn xfs_tells_its_stripes_where_the_device_cannot_be_read() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        let mount = "xfs /dev/sda rw,sunit=128,swidth=384";
        let expected = ["stripe_unit_bytes=65536", "stripe_width_bytes=196608"];
        assert_eq!(lines(&fixture, mount, "sda"), expected);
        assert!(lines(&fixture, "xfs /dev/sda rw,sunit=x", "sda").is_empty());
        assert!(lines(&fixture, "f2fs /dev/sda rw", "sda").is_empty());
    }
}
