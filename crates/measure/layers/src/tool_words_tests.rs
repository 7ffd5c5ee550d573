//! Words that pass and words that do not, by program.

use super::*;

fn check(tool: Tool, text: &str) -> Result<(), WordFault> {
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    check_words(tool, &words)
}

#[test]
fn what_is_compared_for_speed_passes() {
    for (tool, text) in [
        (Tool::MKFS_EXT4, "-b 4096 -I256 -i 64k -O ^has_journal,bigalloc -C 64k -m 0.5 -J size=64"),
        (Tool::MKFS_EXT4, "-E stride=4,stripe_width=16,lazy_itable_init=0,nodiscard -T largefile"),
        (
            Tool::MKFS_XFS,
            "-b size=4k -d su=64k,sw=4,agcount=8 -l internal,size=64m,su=64k -m reflink=0",
        ),
        (Tool::MKFS_XFS, "-d noalign -i size=1k -s size=4096 -n ftype=1 -l lazy-count=1"),
        (Tool::MKFS_BTRFS, "--nodesize=4k -s 4k --csum xxhash -O block-group-tree,^no-holes -M"),
        (Tool::MOUNT_EXT4, "noatime,data=writeback,commit=30,barrier=0 discard"),
        (Tool::MOUNT_XFS, "logbufs=8,logbsize=256k,nobarrier,allocsize=1m largeio"),
        (
            Tool::MOUNT_BTRFS,
            "compress=zstd:3,nodatacow,ssd discard=async space_cache=v2 compress=lzo",
        ),
        (Tool::ZFS_PROPERTIES, "recordsize=4k sync=always compression=zstd-19 logbias=throughput"),
        (Tool::ZPOOL_PROPERTIES, "ashift=12 feature@log_spacemap=disabled"),
    ] {
        check(tool, text).unwrap();
    }
}

#[test]
fn no_word_reaches_another_file_or_device() {
    for (tool, text) in [
        (Tool::MKFS_EXT4, "/dev/loop7"),
        (Tool::MKFS_EXT4, "-J device=/dev/loop7"),
        (Tool::MKFS_EXT4, "-Jdevice=LABEL=log"),
        (Tool::MKFS_EXT4, "-O journal_dev"),
        (Tool::MKFS_EXT4, "-d /etc"),
        (Tool::MKFS_EXT4, "-d/etc"),
        (Tool::MKFS_EXT4, "-l /dev/loop7"),
        (Tool::MKFS_EXT4, "-z undo"),
        (Tool::MKFS_EXT4, "-E stride=4,offset=7"),
        (Tool::MKFS_EXT4, "-T ../../x"),
        (Tool::MKFS_EXT4, "-L name"),
        (Tool::MKFS_EXT4, "-U random"),
        (Tool::MKFS_EXT4, "--"),
        (Tool::MKFS_EXT4, "-b -4096"),
        (Tool::MKFS_EXT4, "-b"),
        (Tool::MKFS_XFS, "-l logdev=/dev/loop7"),
        (Tool::MKFS_XFS, "-l/dev/loop7"),
        (Tool::MKFS_XFS, "-l size=64m,logdev=loop7"),
        (Tool::MKFS_XFS, "-d file,name=x"),
        (Tool::MKFS_XFS, "-d name=/dev/loop7"),
        (Tool::MKFS_XFS, "-r rtdev=/dev/loop7"),
        (Tool::MKFS_XFS, "-c options=/etc/mkfs.conf"),
        (Tool::MKFS_XFS, "-p /tmp/proto"),
        (Tool::MKFS_XFS, "-p"),
        (Tool::MKFS_XFS, "-m uuid=1"),
        (Tool::MKFS_BTRFS, "/dev/loop7"),
        (Tool::MKFS_BTRFS, "-r /etc"),
        (Tool::MKFS_BTRFS, "--rootdir=/etc"),
        (Tool::MKFS_BTRFS, "--root /etc"),
        (Tool::MKFS_BTRFS, "--nodesize=/dev/loop7"),
        (Tool::MOUNT_EXT4, "journal_path=/dev/loop7"),
        (Tool::MOUNT_EXT4, "journal_dev=0x700"),
        (Tool::MOUNT_EXT4, "noatime,usrjquota=x,jqfmt=vfsv0"),
        (Tool::MOUNT_EXT4, "bind"),
        (Tool::MOUNT_EXT4, "remount"),
        (Tool::MOUNT_EXT4, "loop=/dev/loop7"),
        (Tool::MOUNT_EXT4, "x-mount.mkdir"),
        (Tool::MOUNT_EXT4, "data=/dev/loop7"),
        (Tool::MOUNT_EXT4, "errors=panic"),
        (Tool::MOUNT_EXT4, ""),
        (Tool::MOUNT_XFS, "rtdev=/dev/loop7"),
        (Tool::MOUNT_XFS, "logdev=LABEL=log"),
        (Tool::MOUNT_XFS, "lowerdir=/etc"),
        (Tool::MOUNT_BTRFS, "device=/dev/loop7"),
        (Tool::MOUNT_BTRFS, "subvol=/x"),
        (Tool::MOUNT_BTRFS, "compress=zstd:/x"),
        (Tool::ZFS_PROPERTIES, "mountpoint=/etc"),
        (Tool::ZFS_PROPERTIES, "keylocation=file:///etc/key"),
        (Tool::ZFS_PROPERTIES, "recordsize=4k,sync=always"),
        (Tool::ZFS_PROPERTIES, "sharenfs=on"),
        (Tool::ZPOOL_PROPERTIES, "cachefile=/etc/zpool"),
        (Tool::ZPOOL_PROPERTIES, "altroot=/mnt"),
        (Tool::ZPOOL_PROPERTIES, "compatibility=openzfs-2.1"),
        (Tool::ZPOOL_PROPERTIES, "feature@x/y=enabled"),
    ] {
        let fault = check(tool, text).expect_err(text);
        assert!(!fault.allowed.is_empty(), "{text}");
    }
}

#[test]
fn a_fault_names_the_word_its_place_and_what_is_allowed() {
    let fault = check(Tool::MKFS_XFS, "-b size=4k -l size=8m,logdev=/dev/loop7").unwrap_err();
    assert_eq!(fault.index, 3);
    assert_eq!(
        fault.what,
        "mkfs.xfs is not given 'logdev=/dev/loop7': no word of a spec names a file or a device"
    );
    assert!(fault.allowed.starts_with("allowed are internal, size, agnum"), "{}", fault.allowed);
    let fault = check(Tool::MKFS_EXT4, "-O no_such\u{1b}").unwrap_err();
    assert!(fault.what.ends_with("'no_such\\u{1b}'"), "{}", fault.what);
}

/// Every list is read whole: each of its words passes with a value of its own.
#[test]
fn every_listed_word_passes_with_each_of_its_values() {
    for tool in crate::kinds::KINDS.iter().flat_map(|kind| kind.tools) {
        for known in tool.words {
            for value in values(known.takes) {
                let words = match (tool.form, value) {
                    (_, None) => vec![known.name.to_owned()],
                    (WordForm::Options, Some(value)) => vec![known.name.to_owned(), value],
                    (_, Some(value)) => vec![format!("{}={value}", known.name)],
                };
                check_words(*tool, &words).unwrap();
            }
        }
    }
}

fn values(takes: WordArgument) -> Vec<Option<String>> {
    let all = |words: &[&str]| words.iter().map(|word| Some((*word).to_owned())).collect();
    match takes {
        WordArgument::Nothing => vec![None],
        WordArgument::Count | WordArgument::Percent => vec![Some("4".to_owned())],
        WordArgument::Size => vec![Some("4".to_owned()), Some("4k".to_owned())],
        WordArgument::One(words) | WordArgument::Some(words) => all(words),
        WordArgument::Maybe(words) => [vec![None], all(words)].concat(),
        WordArgument::Level(separator, words) => {
            let with = words.iter().map(|word| Some(format!("{word}{separator}3")));
            [with.collect(), all(words)].concat()
        }
        WordArgument::Pairs(known) => known
            .iter()
            .flat_map(|known| {
                values(known.takes).into_iter().map(|value| match value {
                    Some(value) => Some(format!("{}={value}", known.name)),
                    None => Some(known.name.to_owned()),
                })
            })
            .collect(),
    }
}
