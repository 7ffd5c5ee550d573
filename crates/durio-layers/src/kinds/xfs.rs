//! XFS.
//!
//! Words: mkfs.xfs(8) and xfs(5) of xfsprogs 6.1 and 6.12, mount(8) of util-linux 2.38.

use durio_units::Bytes;
use serde::{Deserialize, Serialize};

use super::mounted::{MadeFilesystem, mkfs, mount, words};
use super::{Kind, LayerKind, Role, SizesBelow};
use crate::check::{Below, Fault};
use crate::declared::filesystem_sizes;
use crate::needs::{Driver, Missing};
use crate::place::filesystem_uuid;
use crate::plan::{Draft, PlannedLayer};
use crate::superblock::{Head, Ours, Superblock};
use crate::tool_words::{Form, Takes, Tool, Word, ZERO_ONE, count, flag, maybe, one, size, word};

pub(crate) const KIND: Kind = Kind {
    word: "xfs",
    role: Role::Filesystem,
    drivers: &[DRIVER],
    tools: &[Tool::MKFS_XFS, Tool::MOUNT_XFS],
    superblock: Some(Superblock { signatures: &["xfs"], read: superblock }),
    #[cfg(test)]
    examples: tests::examples,
};

const DRIVER: Driver = Driver::filesystem("xfs", "XFS");

/// mkfs.xfs refuses less since xfsprogs 5.19 (mkfs.xfs(8): "must be at least 300 MiB").
const LEAST: Bytes = Bytes::from_mib(300);

/// XFS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xfs {
    /// Options of mkfs and mount.
    #[serde(flatten)]
    pub options: MadeFilesystem,
}

impl LayerKind for Xfs {
    fn label(&self) -> Vec<String> {
        self.options.label(KIND.word, "")
    }

    fn needs(&self) -> Vec<Missing> {
        vec![Missing::program("mkfs.xfs", "xfsprogs"), DRIVER.missing()]
    }

    fn check(&self, below: Below) -> Result<Below, Fault> {
        below.filesystem(1..=1, LEAST, "of one device")
    }

    fn tool_words(&self) -> Vec<(Tool, &[String])> {
        vec![(Tool::MKFS_XFS, &self.options.mkfs), (Tool::MOUNT_XFS, &self.options.mount)]
    }

    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes> {
        filesystem_sizes(below, |group| group.sum)
    }

    fn plan(&self, draft: &mut Draft<'_>, below: &[String]) -> PlannedLayer {
        let mut all = words(&["-q", "-f", "-K"], &self.options.mkfs);
        let uuid = filesystem_uuid(&draft.place.tag()).0;
        all.extend(["-m".to_owned(), format!("uuid={uuid}")]);
        mkfs(draft, "mkfs.xfs", all, below);
        mount(draft, "xfs", &self.options.mount, below)
    }
}

/// `sb_uuid`, `sb_fname`; a new filesystem has one chunk of inodes and three of them in use (XFS
/// Algorithms and Data Structures, "Superblocks").
fn superblock(head: &Head<'_>, tag: &str) -> Option<Ours> {
    let uuid = filesystem_uuid(tag).1;
    let is_ours = head.at(32, 16)? == uuid && head.is_text(108, 12, tag);
    let is_fresh = head.u64_be(128)? == 64 && head.u64_be(136)? == 61;
    is_ours.then_some((&["xfs"], is_fresh))
}

impl Tool {
    /// mkfs.xfs(8).
    pub const MKFS_XFS: Self =
        Self { name: "mkfs.xfs", heading: "`mkfs` of xfs", form: Form::Options, words: MKFS };
    /// mount(8) of XFS.
    pub const MOUNT_XFS: Self =
        Self { name: "mount", heading: "`mount` of xfs", form: Form::List, words: MOUNT };
}

const MKFS: &[Word] = &[
    word("-b", Takes::Pairs(&[size("size"), count("log")])),
    word("-d", Takes::Pairs(DATA)),
    word("-i", Takes::Pairs(INODES)),
    word("-l", Takes::Pairs(LOG)),
    word("-m", Takes::Pairs(METADATA)),
    word("-n", Takes::Pairs(NAMING)),
    word("-s", Takes::Pairs(&[size("size"), size("sectsize"), count("log")])),
];

const DATA: &[Word] = &[
    count("agcount"),
    size("agsize"),
    size("size"),
    size("su"),
    count("sw"),
    count("sunit"),
    count("swidth"),
    maybe("noalign", ZERO_ONE),
    size("sectsize"),
    count("concurrency"),
    size("cowextsize"),
    size("extszinherit"),
    one("rtinherit", &["0"]),
    one("daxinherit", ZERO_ONE),
    count("projinherit"),
];

const INODES: &[Word] = &[
    size("size"),
    count("perblock"),
    count("maxpct"),
    maybe("align", ZERO_ONE),
    one("attr", &["0", "1", "2"]),
    maybe("projid32bit", ZERO_ONE),
    maybe("sparse", ZERO_ONE),
    maybe("nrext64", ZERO_ONE),
    maybe("exchange", ZERO_ONE),
];

const LOG: &[Word] = &[
    maybe("internal", &["1"]),
    size("size"),
    count("agnum"),
    one("version", &["1", "2"]),
    size("su"),
    count("sunit"),
    size("sectsize"),
    maybe("lazy-count", ZERO_ONE),
    count("concurrency"),
];

const METADATA: &[Word] = &[
    maybe("crc", ZERO_ONE),
    maybe("finobt", ZERO_ONE),
    maybe("inobtcount", ZERO_ONE),
    maybe("rmapbt", ZERO_ONE),
    maybe("reflink", ZERO_ONE),
    maybe("bigtime", ZERO_ONE),
    maybe("metadir", ZERO_ONE),
];

const NAMING: &[Word] = &[
    size("size"),
    one("version", &["2", "ci"]),
    maybe("ftype", ZERO_ONE),
    maybe("parent", ZERO_ONE),
];

const MOUNT: &[Word] = &[
    flag("defaults"),
    flag("rw"),
    flag("atime"),
    flag("noatime"),
    flag("diratime"),
    flag("nodiratime"),
    flag("relatime"),
    flag("norelatime"),
    flag("strictatime"),
    flag("nostrictatime"),
    flag("lazytime"),
    flag("nolazytime"),
    flag("sync"),
    flag("async"),
    flag("dirsync"),
    size("allocsize"),
    flag("attr2"),
    flag("noattr2"),
    flag("barrier"),
    flag("nobarrier"),
    maybe("dax", &["always", "never", "inode"]),
    flag("discard"),
    flag("nodiscard"),
    flag("filestreams"),
    flag("ikeep"),
    flag("noikeep"),
    flag("inode32"),
    flag("inode64"),
    flag("largeio"),
    flag("nolargeio"),
    count("logbufs"),
    size("logbsize"),
    flag("noalign"),
    flag("swalloc"),
    flag("wsync"),
    count("sunit"),
    count("swidth"),
    flag("noquota"),
    flag("quota"),
    flag("uquota"),
    flag("usrquota"),
    flag("uqnoenforce"),
    flag("gquota"),
    flag("grpquota"),
    flag("gqnoenforce"),
    flag("pquota"),
    flag("prjquota"),
    flag("pqnoenforce"),
    size("max_atomic_write"),
];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::DeclaredStack;
    use crate::test_stacks::{TAG, loops, on_loops, stack, types_on, xfs};

    pub(crate) fn examples() -> Vec<DeclaredStack> {
        vec![stack(vec![loops(1, 300), xfs()])]
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
