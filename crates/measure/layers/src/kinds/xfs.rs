//! XFS.
//!
//! Words: mkfs.xfs(8) and xfs(5) of xfsprogs 6.1 and 6.12, mount(8) of util-linux 2.38.

use super::mounted::{MadeFilesystem, mkfs, mount, words};
use super::prelude::*;

pub(crate) const KIND: KindEntry = KindEntry {
    word: "xfs",
    help: "An XFS filesystem.",
    role: LayerRole::Filesystem,
    drivers: &[DRIVER],
    tools: &[Tool::MKFS_XFS, Tool::MOUNT_XFS],
    superblock: Some(SuperblockFormat { signatures: &["xfs"], read: superblock }),
    #[cfg(test)]
    examples: tests::examples,
};

const DRIVER: Driver = Driver::filesystem("xfs", "XFS");

// mkfs.xfs refuses less since xfsprogs 5.19 (mkfs.xfs(8): "must be at least 300 MiB").
const LEAST: Bytes = Bytes::from_mib(300);

spec_keys! {
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Xfs {
        /// Options of mkfs and mount.
        #[serde(flatten)]
        pub options: MadeFilesystem,
    }
}

impl BuildableLayer for Xfs {
    fn label(&self) -> Vec<String> {
        self.options.label(KIND.word, "")
    }

    fn needs(&self) -> Vec<Missing> {
        vec![Missing::program("mkfs.xfs", "xfsprogs"), DRIVER.missing()]
    }

    fn check(&self, below: Below) -> Result<Below, CheckFault> {
        below.filesystem(1..=1, LEAST, "of one device")
    }

    fn tool_words(&self) -> ToolWords<'_> {
        self.options.tool_words(Tool::MKFS_XFS, Tool::MOUNT_XFS)
    }

    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes> {
        filesystem_sizes(below, |group| group.sum)
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, below: &[String]) -> PlannedLayer {
        // -f, for mkfs refuses where an earlier filesystem left its superblock; -K discards
        // nothing.
        let mut all = words(&["-q", "-f", "-K"], &self.options.mkfs);
        let uuid = filesystem_uuid(&draft.place.tag()).0;
        // mkfs.xfs has no -U: the identifier is a key of -m.
        all.extend(["-m".to_owned(), format!("uuid={uuid}")]);
        mkfs(draft, "mkfs.xfs", all, below);
        mount(draft, "xfs", &self.options.mount, below)
    }
}

/// `sb_uuid`, `sb_fname`; a new filesystem has one chunk of inodes and three of them in use (XFS
/// Algorithms and Data Structures, "Superblocks").
fn superblock(head: &DeviceHead<'_>, tag: &str) -> Option<Ours> {
    let uuid = filesystem_uuid(tag).1;
    let is_ours = head.at(32, 16)? == uuid && head.is_text(108, 12, tag);
    // XFS counts no mounts, as ext4 does: that it has no file is the nearest to it.
    let is_fresh = head.u64_be(128)? == 64 && head.u64_be(136)? == 61;
    is_ours.then_some((&["xfs"], is_fresh))
}

impl Tool {
    pub(crate) const MKFS_XFS: Self =
        Self { name: "mkfs.xfs", heading: "`mkfs` of xfs", form: WordForm::Options, words: MKFS };
    pub(crate) const MOUNT_XFS: Self =
        Self { name: "mount", heading: "`mount` of xfs", form: WordForm::List, words: MOUNT };
}

const MKFS: &[ToolWord] = word_list! {
    WordArgument::Pairs(word_list! { WordArgument::Size => "size"; WordArgument::Count => "log"; }) => "-b";
    WordArgument::Pairs(DATA) => "-d";
    WordArgument::Pairs(INODES) => "-i";
    WordArgument::Pairs(LOG) => "-l";
    WordArgument::Pairs(METADATA) => "-m";
    WordArgument::Pairs(NAMING) => "-n";
    WordArgument::Pairs(word_list! { WordArgument::Size => "size" "sectsize"; WordArgument::Count => "log"; }) => "-s";
};

const DATA: &[ToolWord] = word_list! {
    WordArgument::Count => "agcount";
    WordArgument::Size => "agsize" "size" "su";
    WordArgument::Count => "sw" "sunit" "swidth";
    WordArgument::Maybe(ZERO_ONE) => "noalign";
    WordArgument::Size => "sectsize";
    WordArgument::Count => "concurrency";
    WordArgument::Size => "cowextsize" "extszinherit";
    WordArgument::One(&["0"]) => "rtinherit";
    WordArgument::One(ZERO_ONE) => "daxinherit";
    WordArgument::Count => "projinherit";
};

const INODES: &[ToolWord] = word_list! {
    WordArgument::Size => "size";
    WordArgument::Count => "perblock" "maxpct";
    WordArgument::Maybe(ZERO_ONE) => "align";
    WordArgument::One(&["0", "1", "2"]) => "attr";
    WordArgument::Maybe(ZERO_ONE) => "projid32bit" "sparse" "nrext64" "exchange";
};

const LOG: &[ToolWord] = word_list! {
    WordArgument::Maybe(&["1"]) => "internal";
    WordArgument::Size => "size";
    WordArgument::Count => "agnum";
    WordArgument::One(&["1", "2"]) => "version";
    WordArgument::Size => "su";
    WordArgument::Count => "sunit";
    WordArgument::Size => "sectsize";
    WordArgument::Maybe(ZERO_ONE) => "lazy-count";
    WordArgument::Count => "concurrency";
};

const METADATA: &[ToolWord] = word_list! {
    WordArgument::Maybe(ZERO_ONE) => "crc" "finobt" "inobtcount" "rmapbt" "reflink" "bigtime" "metadir";
};

const NAMING: &[ToolWord] = word_list! {
    WordArgument::Size => "size";
    WordArgument::One(&["2", "ci"]) => "version";
    WordArgument::Maybe(ZERO_ONE) => "ftype" "parent";
};

const MOUNT: &[ToolWord] = word_list! {
    WordArgument::Nothing => "defaults" "rw" "atime" "noatime" "diratime" "nodiratime" "relatime"
        "norelatime" "strictatime" "nostrictatime" "lazytime" "nolazytime" "sync" "async" "dirsync";
    WordArgument::Size => "allocsize";
    WordArgument::Nothing => "attr2" "noattr2" "barrier" "nobarrier";
    WordArgument::Maybe(&["always", "never", "inode"]) => "dax";
    WordArgument::Nothing => "discard" "nodiscard" "filestreams" "ikeep" "noikeep" "inode32" "inode64"
        "largeio" "nolargeio";
    WordArgument::Count => "logbufs";
    WordArgument::Size => "logbsize";
    WordArgument::Nothing => "noalign" "swalloc" "wsync";
    WordArgument::Count => "sunit" "swidth";
    WordArgument::Nothing => "noquota" "quota" "uquota" "usrquota" "uqnoenforce" "gquota" "grpquota"
        "gqnoenforce" "pquota" "prjquota" "pqnoenforce";
    WordArgument::Size => "max_atomic_write";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::stacks::{TAG, loops, on_loops, plan_above, ram, stack, types_on, xfs};
    use crate::{DeclaredKind, DeclaredStack};

    pub(super) fn examples() -> Vec<DeclaredStack> {
        vec![stack(vec![loops(1, 300), xfs()])]
    }

    #[test]
    fn the_identifier_of_the_build_is_a_key_of_the_metadata() {
        let options = MadeFilesystem {
            mkfs: vec!["-m".into(), "reflink=0".into()],
            mount: vec!["noatime".into(), "logbsize=256k".into()],
        };
        let plan = plan_above(vec![ram(1), DeclaredKind::Xfs(Xfs { options })]);
        assert_eq!(
            plan[0],
            "mkfs.xfs -q -f -K -m reflink=0 -m uuid=d8e07156-9f07-b4c4-9422-1e46fbea64d9 -L \
             durioabc1234 /dev/ram0"
        );
        assert_eq!(
            plan[2],
            "mount -t xfs -o noatime,logbsize=256k /dev/ram0 /run/durio/durioabc1234"
        );
    }

    #[test]
    fn it_stands_on_one_device_of_300_mib_or_more() {
        assert!(on_loops(1, 300, xfs()).is_ok());
        let error = on_loops(1, 299, xfs()).unwrap_err();
        assert!(error.contains("needs 300 MiB") && error.contains("299 MiB"), "{error}");
        let error = on_loops(2, 300, xfs()).unwrap_err();
        assert!(error.contains("join them with md or lvm"), "{error}");
    }

    #[test]
    fn it_is_ours_by_label_and_identifier_and_fresh_until_it_has_files() {
        let (uuid, label) = (filesystem_uuid(TAG).1, TAG.as_bytes());
        let inodes = |free: u64| [64_u64.to_be_bytes(), free.to_be_bytes()].concat();
        let of = |free| types_on("xfs", &[(32, &uuid), (108, label), (128, &inodes(free))]);
        assert!(of(61).unwrap().is_fresh && !of(60).unwrap().is_fresh);
        assert!(types_on("xfs", &[(4096, label), (32, &uuid)]).is_err());
    }
}
