//! A ZFS pool with one filesystem.
//!
//! Words: zfsprops(7) and zpoolprops(7) of OpenZFS 2.3.

use super::mounted::{mount_point, mounted};
use super::prelude::*;

pub(crate) const KIND: KindEntry = KindEntry {
    word: "zfs",
    help: "A ZFS pool over all devices below, and a filesystem.",
    role: LayerRole::Filesystem,
    drivers: &[DRIVER],
    tools: &[Tool::ZFS_PROPERTIES, Tool::ZPOOL_PROPERTIES],
    superblock: Some(SuperblockFormat { signatures: &["zfs"], read: superblock }),
    #[cfg(test)]
    examples: tests::examples,
};

const DRIVER: Driver = Driver::filesystem("zfs", "ZFS, built by zfs-dkms");

// `SPA_MINDEVSIZE` (OpenZFS, include/sys/fs/zfs.h).
const LEAST: Bytes = Bytes::from_mib(64);

spec_keys! {
    /// A ZFS pool with one filesystem.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Zfs {
        /// How the devices are joined. Default: single.
        pub layout: ZfsLayout = ZfsLayout::Single,
        /// Properties of the filesystem, from the list below: "recordsize=4k".
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub properties: Vec<String> = Vec::new(),
        /// Properties of the pool, from the list below: "ashift=12".
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub pool_properties: Vec<String> = Vec::new(),
    }
}

spec_words! {
    /// Layout of a ZFS pool.
    pub enum ZfsLayout {
        /// Data spread over all devices.
        Single = "single",
        /// Each device holds everything.
        Mirror = "mirror",
        /// One parity.
        Raidz1 = "raidz1",
        /// Two parities.
        Raidz2 = "raidz2",
    }
}

impl ZfsLayout {
    /// What zpool-create(8) calls it; for devices side by side it has no word.
    fn vdev(self) -> Option<&'static str> {
        (self != Self::Single).then(|| self.word())
    }
}

impl BuildableLayer for Zfs {
    fn label(&self) -> Vec<String> {
        let first = [KIND.word, self.layout.vdev().unwrap_or_default()].map(str::to_owned);
        let properties = self.properties.iter().chain(&self.pool_properties).cloned();
        first.into_iter().chain(properties).collect()
    }

    fn needs(&self) -> Vec<Missing> {
        vec![Missing::program("zpool", "zfsutils-linux"), DRIVER.missing()]
    }

    /// zpoolconcepts(7).
    fn check(&self, below: Below) -> Result<Below, CheckFault> {
        let devices = match self.layout {
            ZfsLayout::Single => 1,
            ZfsLayout::Mirror | ZfsLayout::Raidz1 => 2,
            ZfsLayout::Raidz2 => 3,
        };
        below.filesystem(devices..=MOST_DEVICES, LEAST, "of each device")
    }

    fn tool_words(&self) -> ToolWords<'_> {
        vec![
            ("properties", Tool::ZFS_PROPERTIES, &self.properties),
            ("pool_properties", Tool::ZPOOL_PROPERTIES, &self.pool_properties),
        ]
    }

    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes> {
        filesystem_sizes(below, |group| match self.layout {
            ZfsLayout::Single => group.sum,
            ZfsLayout::Mirror => group.least,
            ZfsLayout::Raidz1 => group.sum.saturating_sub(group.least),
            ZfsLayout::Raidz2 => group.sum.saturating_sub(group.least.saturating_mul(2)),
        })
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, below: &[String]) -> PlannedLayer {
        draft.load(DRIVER.module, &[]);
        let at = mount_point(draft);
        let name = draft.place.tag();
        // -f, for zpool refuses devices on which an earlier pool left its labels.
        // Without a cache file no later start of the machine imports the pool.
        let mut words = ["create", "-f", "-o", "cachefile=none"].map(str::to_owned).to_vec();
        let each = |option: &str, property: &String| [option.to_owned(), property.clone()];
        words.extend(self.pool_properties.iter().flat_map(|property| each("-o", property)));
        words.extend(each("-O", &format!("mountpoint={at}")));
        words.extend(self.properties.iter().flat_map(|property| each("-O", property)));
        words.push(name.clone());
        words.extend(self.layout.vdev().map(str::to_owned));
        words.extend(below.iter().cloned());
        draft.run("zpool", &words, Some(Undo::DestroyPool(DestroyPool { name })));
        mounted(draft, "zfs", at, below)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestroyPool {
    pub(crate) name: String,
}

impl UndoStep for DestroyPool {
    fn text(&self) -> String {
        format!("zpool destroy -f {}", self.name)
    }

    fn holds_devices(&self) -> bool {
        true
    }

    /// By its name, and the identifier that ZFS chose.
    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        let name = &self.name;
        // zpool fails alike for a pool that is not there and for any other reason; ZFS keeps a
        // folder of counters here for each pool that is imported.
        if !prover.system.is_there(&Path::new("/proc/spl/kstat/zfs").join(name)) {
            return Ok(None);
        }
        let guid = prover.look(ProgramQuery::Pool { name })?.stdout.trim().to_owned();
        Ok(LiveThing::of(name, Some(LayerIdentity::of([("guid", Some(guid))]))))
    }

    /// Its name is this build's tag.
    fn fault_of_begun(&self, _prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        None
    }

    fn after_restart(&self, _prover: &Prover<'_>) -> ThingState {
        ThingState::restarted()
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        let destroyed = undoer.run(proven, "zpool", &["destroy", "-f", proven.target()]);
        destroyed.map(|_| Undone::Done)
    }
}

/// The name of the pool in the first label: a list of names and values in XDR, from 16 KiB on (ZFS
/// On-Disk Specification, chapter 1).
fn superblock(head: &DeviceHead<'_>, tag: &str) -> Option<Ours> {
    let label = head.at(16 << 10, 112 << 10)?;
    let key: &[u8] = b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01";
    let place = label.windows(key.len()).position(|window| window == key)? + key.len();
    let length = usize::try_from(u32::from_be_bytes(label.get(place..place + 4)?.try_into().ok()?));
    let name = label.get(place + 4..(place + 4).checked_add(length.ok()?)?)?;
    (name == tag.as_bytes()).then_some((&["zfs_member"], false))
}

impl Tool {
    /// Properties of a ZFS filesystem.
    pub(crate) const ZFS_PROPERTIES: Self = Self {
        name: "the ZFS filesystem",
        heading: "`properties` of zfs",
        form: WordForm::Pair,
        words: FILESYSTEM,
    };
    /// Properties of a ZFS pool.
    pub(crate) const ZPOOL_PROPERTIES: Self = Self {
        name: "the ZFS pool",
        heading: "`pool_properties` of zfs",
        form: WordForm::Pair,
        words: POOL,
    };
}

const ON_OFF: &[&str] = &["on", "off"];

#[rustfmt::skip]
const CHECKSUMS: &[&str] = &[
    "on", "off", "fletcher2", "fletcher4", "sha256", "noparity", "sha512", "skein", "edonr",
    "blake3",
];

const COMPRESSIONS: &[&str] = &["on", "off", "lzjb", "lz4", "zle", "gzip", "zstd", "zstd-fast"];

const CACHES: &[&str] = &["all", "none", "metadata"];

const FILESYSTEM: &[ToolWord] = word_list! {
    WordArgument::Size => "recordsize";
    WordArgument::One(&["standard", "always", "disabled"]) => "sync";
    WordArgument::One(&["latency", "throughput"]) => "logbias";
    WordArgument::Level('-', COMPRESSIONS) => "compression";
    WordArgument::One(CHECKSUMS) => "checksum";
    WordArgument::One(ON_OFF) => "atime" "relatime";
    WordArgument::One(CACHES) => "primarycache" "secondarycache" "prefetch";
    WordArgument::One(&["disabled", "standard", "always"]) => "direct";
    WordArgument::One(&["on", "off", "verify", "sha256", "sha512", "skein", "edonr", "blake3"]) => "dedup";
    WordArgument::One(&["1", "2", "3"]) => "copies";
    WordArgument::One(&["all", "most", "some", "none"]) => "redundant_metadata";
    WordArgument::One(&["legacy", "auto", "1k", "2k", "4k", "8k", "16k"]) => "dnodesize";
    WordArgument::Size => "special_small_blocks";
    WordArgument::One(&["on", "off", "sa", "dir"]) => "xattr";
    WordArgument::One(&["off", "nfsv4", "posix"]) => "acltype";
};

const SWITCH: &[&str] = &["enabled", "disabled"];

const POOL: &[ToolWord] = word_list! {
    WordArgument::Count => "ashift";
    WordArgument::One(ON_OFF) => "autotrim";
    WordArgument::One(&["wait", "continue"]) => "failmode";
    WordArgument::One(&["off", "legacy"]) => "compatibility";
    WordArgument::One(SWITCH) => "feature@allocation_classes" "feature@async_destroy" "feature@blake3"
        "feature@block_cloning" "feature@bookmark_v2" "feature@bookmark_written"
        "feature@bookmarks" "feature@device_rebuild" "feature@device_removal" "feature@draid"
        "feature@dynamic_gang_header" "feature@edonr" "feature@embedded_data" "feature@empty_bpobj"
        "feature@enabled_txg" "feature@encryption" "feature@extensible_dataset"
        "feature@fast_dedup" "feature@filesystem_limits" "feature@head_errlog" "feature@hole_birth"
        "feature@large_blocks" "feature@large_dnode" "feature@large_microzap" "feature@livelist"
        "feature@log_spacemap" "feature@longname" "feature@lz4_compress"
        "feature@multi_vdev_crash_dump" "feature@obsolete_counts" "feature@project_quota"
        "feature@raidz_expansion" "feature@redacted_datasets" "feature@redaction_bookmarks"
        "feature@redaction_list_spill" "feature@resilver_defer" "feature@sha512" "feature@skein"
        "feature@spacemap_histogram" "feature@spacemap_v2" "feature@userobj_accounting"
        "feature@vdev_zaps_v2" "feature@zilsaxattr" "feature@zpool_checkpoint"
        "feature@zstd_compress";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::stacks::{TAG, on_loops, plan_above, ram, stack, types_on};
    use crate::{DeclaredKind, DeclaredStack};

    fn zfs(layout: ZfsLayout) -> DeclaredKind {
        DeclaredKind::Zfs(Zfs {
            layout,
            properties: vec!["recordsize=4k".into()],
            pool_properties: vec!["ashift=12".into()],
        })
    }

    pub(super) fn examples() -> Vec<DeclaredStack> {
        vec![stack(vec![ram(3), zfs(ZfsLayout::Raidz1)])]
    }

    #[test]
    fn a_pool_is_kept_in_no_cache_and_mounted_below_the_builds_folder() {
        let plan = plan_above(vec![ram(3), zfs(ZfsLayout::Raidz1)]);
        assert_eq!(
            plan[2],
            "zpool create -f -o cachefile=none -o ashift=12 -O \
             mountpoint=/run/durio/durioabc1234 -O recordsize=4k durioabc1234 raidz1 /dev/ram0 \
             /dev/ram1 /dev/ram2"
        );
    }

    #[test]
    fn devices_side_by_side_have_no_word_of_zpool_and_every_other_layout_has_its_own() {
        let tail = |layout, count| {
            let plan = plan_above(vec![ram(count), zfs(layout)]);
            let create = plan.iter().find(|line| line.starts_with("zpool create")).unwrap();
            create.split_once(" durioabc1234 ").unwrap().1.to_owned()
        };
        assert_eq!(tail(ZfsLayout::Single, 2), "/dev/ram0 /dev/ram1");
        assert_eq!(tail(ZfsLayout::Mirror, 2), "mirror /dev/ram0 /dev/ram1");
        assert_eq!(tail(ZfsLayout::Raidz2, 3), "raidz2 /dev/ram0 /dev/ram1 /dev/ram2");
    }

    #[test]
    fn a_layout_needs_its_devices_and_their_size() {
        for (layout, least) in [
            (ZfsLayout::Single, 1),
            (ZfsLayout::Mirror, 2),
            (ZfsLayout::Raidz1, 2),
            (ZfsLayout::Raidz2, 3),
        ] {
            assert!(on_loops(least, 64, zfs(layout)).is_ok(), "{layout:?}");
            assert!(least == 1 || on_loops(least - 1, 64, zfs(layout)).is_err(), "{layout:?}");
        }
        assert!(on_loops(2, 64, zfs(ZfsLayout::Mirror)).is_ok());
        assert!(on_loops(2, 63, zfs(ZfsLayout::Mirror)).is_err());
        assert!(on_loops(2, 64, zfs(ZfsLayout::Raidz2)).is_err());
    }

    #[test]
    fn it_is_ours_by_the_name_of_the_pool() {
        let of = |tag: &str| {
            let key = &b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01\0\0\0\x0c"[..];
            types_on("zfs", &[((16 << 10) + 40, &[key, tag.as_bytes()].concat())])
        };
        assert!(of(TAG).is_ok() && of("durioxyz1234").is_err());
    }
}
