//! Btrfs over one device or several.
//!
//! Words: mkfs.btrfs(8) and btrfs(5) of btrfs-progs 6.2 and 6.12, mount(8) of util-linux 2.38.

use super::mounted::{MadeFilesystem, mkfs, mount, uuid_words, words};
use super::prelude::*;

pub(crate) const KIND: KindEntry = KindEntry {
    word: "btrfs",
    help: "A Btrfs over all devices below.",
    role: LayerRole::Filesystem,
    drivers: &[DRIVER],
    tools: &[Tool::MKFS_BTRFS, Tool::MOUNT_BTRFS],
    superblock: Some(SuperblockFormat { signatures: &["btrfs"], read: superblock }),
    #[cfg(test)]
    examples: tests::examples,
};

const DRIVER: Driver = Driver::filesystem("btrfs", "Btrfs");

// What mkfs.btrfs 6.2 names as its minimum with one copy of everything.
const LEAST_SINGLE: Bytes = Bytes::new(47_185_920);

// The same of each of several devices with raid1 and raid10.
const LEAST_MIRRORED: Bytes = Bytes::new(131_072_000);

spec_keys! {
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Btrfs {
        /// Copies of data and metadata. Default: single.
        pub profile: BtrfsProfile = BtrfsProfile::Single,
        /// Further options.
        #[serde(flatten)]
        pub options: MadeFilesystem,
    }
}

spec_words! {
    /// Layout of Btrfs data and metadata.
    pub enum BtrfsProfile {
        /// One copy.
        Single = "single",
        /// Two copies on different devices.
        Raid1 = "raid1",
        /// Striped over two copies.
        Raid10 = "raid10",
    }
}

impl BuildableLayer for Btrfs {
    fn label(&self) -> Vec<String> {
        let profile = if self.profile == BtrfsProfile::Single { "" } else { self.profile.word() };
        self.options.label(KIND.word, profile)
    }

    fn needs(&self) -> Vec<Missing> {
        vec![Missing::program("mkfs.btrfs", "btrfs-progs"), DRIVER.missing()]
    }

    /// btrfs(5), "PROFILES", for btrfs since Linux 5.15.
    fn check(&self, below: Below) -> Result<Below, CheckFault> {
        let (devices, least) = match self.profile {
            BtrfsProfile::Single => (1, LEAST_SINGLE),
            BtrfsProfile::Raid1 | BtrfsProfile::Raid10 => (2, LEAST_MIRRORED),
        };
        below.filesystem(devices..=MOST_DEVICES, least, "of each device")
    }

    fn tool_words(&self) -> ToolWords<'_> {
        self.options.tool_words(Tool::MKFS_BTRFS, Tool::MOUNT_BTRFS)
    }

    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes> {
        filesystem_sizes(below, |group| match self.profile {
            BtrfsProfile::Single => group.sum,
            BtrfsProfile::Raid1 | BtrfsProfile::Raid10 => group.sum / 2,
        })
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, below: &[String]) -> PlannedLayer {
        let profile = self.profile.word();
        // -f, for mkfs refuses where an earlier filesystem left its superblock; -K discards
        // nothing.
        let own = ["-q", "-f", "-K", "-d", profile, "-m", profile];
        let mut all = words(&own, &self.options.mkfs);
        all.extend(uuid_words(draft));
        mkfs(draft, "mkfs.btrfs", all, below);
        mount(draft, "btrfs", &with_members(&self.options.mount, below), below)
    }
}

// Without udev the kernel does not know the other members.
fn with_members(options: &[String], below: &[String]) -> Vec<String> {
    let others = below.iter().skip(1).map(|device| format!("device={device}"));
    options.iter().cloned().chain(others).collect()
}

/// `fsid`, `label` (fs/btrfs/accessors.h). The number of generations that mkfs makes depends on its
/// version: no field proves that it was never mounted.
fn superblock(head: &DeviceHead<'_>, tag: &str) -> Option<Ours> {
    // BTRFS_SUPER_INFO_OFFSET: the bytes before it are left to boot loaders.
    const SUPER: usize = 0x1_0000;
    let uuid = filesystem_uuid(tag).1;
    let is_ours = head.at(SUPER + 0x20, 16)? == uuid && head.is_text(SUPER + 0x12b, 256, tag);
    is_ours.then_some((&["btrfs"], false))
}

impl Tool {
    pub(crate) const MKFS_BTRFS: Self = Self {
        name: "mkfs.btrfs",
        heading: "`mkfs` of btrfs",
        form: WordForm::Options,
        words: MKFS,
    };
    pub(crate) const MOUNT_BTRFS: Self =
        Self { name: "mount", heading: "`mount` of btrfs", form: WordForm::List, words: MOUNT };
}

const PROFILES: &[&str] =
    &["single", "dup", "raid0", "raid1", "raid1c3", "raid1c4", "raid5", "raid6", "raid10"];

const CHECKSUMS: &[&str] = &["crc32c", "xxhash", "sha256", "blake2"];

#[rustfmt::skip]
const FEATURES: &[&str] = &[
    "mixed-bg", "quota", "squota", "extref", "raid56", "skinny-metadata", "no-holes", "zoned",
    "free-space-tree", "block-group-tree", "raid-stripe-tree",
];

const MKFS: &[ToolWord] = word_list! {
    WordArgument::Size => "-b" "--byte-count";
    WordArgument::One(PROFILES) => "-d" "--data" "-m" "--metadata";
    WordArgument::Nothing => "-M" "--mixed";
    WordArgument::Size => "-n" "--nodesize" "-s" "--sectorsize";
    WordArgument::One(CHECKSUMS) => "--csum" "--checksum";
    WordArgument::Some(FEATURES) => "-O" "--features" "-R" "--runtime-features";
};

const COMPRESSION: WordArgument = WordArgument::Level(':', &["zlib", "lzo", "zstd", "no", "none"]);

const MOUNT: &[ToolWord] = word_list! {
    WordArgument::Nothing => "defaults" "rw" "atime" "noatime" "diratime" "nodiratime" "relatime"
        "norelatime" "strictatime" "nostrictatime" "lazytime" "nolazytime" "sync" "async" "dirsync"
        "acl" "noacl" "autodefrag" "noautodefrag" "barrier" "nobarrier";
    WordArgument::Count => "commit";
    COMPRESSION => "compress" "compress-force";
    WordArgument::Nothing => "datacow" "nodatacow" "datasum" "nodatasum";
    WordArgument::Maybe(&["sync", "async"]) => "discard";
    WordArgument::Nothing => "nodiscard" "flushoncommit" "noflushoncommit";
    WordArgument::Size => "max_inline";
    WordArgument::Count => "metadata_ratio";
    WordArgument::Maybe(&["v1", "v2"]) => "space_cache";
    WordArgument::Nothing => "nospace_cache" "clear_cache" "ssd" "ssd_spread" "nossd" "nossd_spread";
    WordArgument::Count => "thread_pool";
    WordArgument::Nothing => "treelog" "notreelog";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::WrittenSuperblock;
    use crate::tests::stacks::{TAG, btrfs, loops, on_loops, plan_above, ram, stack, types_on};
    use crate::{DeclaredKind, DeclaredStack, check_declared};

    pub(super) fn examples() -> Vec<DeclaredStack> {
        vec![stack(vec![loops(2, 300), btrfs(BtrfsProfile::Raid10)])]
    }

    #[test]
    fn data_and_metadata_have_the_profile_and_declared_words_stand_behind_ours() {
        let lines = |profile, mkfs: &[&str], mount: &[&str]| {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let options = MadeFilesystem { mkfs: words(mkfs), mount: words(mount) };
            let plan = plan_above(vec![ram(3), DeclaredKind::Btrfs(Btrfs { profile, options })]);
            let line =
                |start: &str| plan.iter().find(|line| line.starts_with(start)).unwrap().clone();
            (line("mkfs"), line("mount"))
        };
        let names = "-U d8e07156-9f07-b4c4-9422-1e46fbea64d9 -L durioabc1234 /dev/ram0 /dev/ram1 \
                     /dev/ram2";
        let (mkfs, mount) = lines(BtrfsProfile::Raid1, &["-n", "16k"], &["noatime", "ssd"]);
        assert_eq!(mkfs, format!("mkfs.btrfs -q -f -K -d raid1 -m raid1 -n 16k {names}"));
        assert_eq!(
            mount,
            "mount -t btrfs -o noatime,ssd,device=/dev/ram1,device=/dev/ram2 /dev/ram0 \
             /run/durio/durioabc1234"
        );
        let (mkfs, _) = lines(BtrfsProfile::Single, &[], &[]);
        assert_eq!(mkfs, format!("mkfs.btrfs -q -f -K -d single -m single {names}"));
    }

    #[test]
    fn all_members_are_made_known_to_the_kernel() {
        let plan = plan_above(vec![loops(2, 200), btrfs(BtrfsProfile::Raid1)]);
        assert_eq!(plan[2], "mount -t btrfs -o device={loop1} {loop0} /run/durio/durioabc1234");
    }

    #[test]
    fn a_profile_needs_its_devices_and_their_size() {
        assert!(on_loops(1, 45, btrfs(BtrfsProfile::Single)).is_ok());
        assert!(on_loops(1, 44, btrfs(BtrfsProfile::Single)).is_err());
        assert!(on_loops(3, 300, btrfs(BtrfsProfile::Single)).is_ok());
        assert!(on_loops(2, 125, btrfs(BtrfsProfile::Raid1)).is_ok());
        assert!(on_loops(2, 124, btrfs(BtrfsProfile::Raid1)).is_err());
        assert!(on_loops(1, 300, btrfs(BtrfsProfile::Raid10)).is_err());
    }

    #[test]
    fn a_stack_that_is_no_specs_is_held_to_the_words_of_specs() {
        let options = MadeFilesystem { mkfs: vec!["/dev/loop7".into()], mount: Vec::new() };
        let btrfs = DeclaredKind::Btrfs(Btrfs { profile: BtrfsProfile::Single, options });
        let error = check_declared(&stack(vec![loops(1, 64), btrfs])).unwrap_err().to_string();
        assert!(error.contains("mkfs.btrfs is not given '/dev/loop7'"), "{error}");
    }

    #[test]
    fn it_is_ours_by_label_and_identifier_and_never_known_to_be_fresh() {
        let (uuid, label) = (filesystem_uuid(TAG).1, TAG.as_bytes());
        let found = types_on("btrfs", &[(0x1_0020, &uuid), (0x1_012b, label)]).unwrap();
        assert_eq!(found, WrittenSuperblock { types: vec!["btrfs"], is_fresh: false });
    }
}
