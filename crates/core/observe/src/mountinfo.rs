//! The list of mounts, `/proc/self/mountinfo`.
//!
//! The text is bytes, for paths need not be UTF-8.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::block_node::DeviceNumber;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MountEntry {
    pub(crate) id: u64,
    pub(crate) device: DeviceNumber,
    /// The directory of the filesystem that is mounted.
    pub(crate) root: PathBuf,
    pub(crate) mount_point: PathBuf,
    pub(crate) fs_type: String,
    pub(crate) source: OsString,
    /// Options of the mount, then of the filesystem, each once.
    pub(crate) options: Vec<OsString>,
    /// Either the mount or the filesystem is read-only.
    pub(crate) read_only: bool,
}

impl MountEntry {
    /// The value of an option such as `upperdir=`.
    pub(crate) fn option_value(&self, name: &str) -> Option<&OsStr> {
        self.options.iter().find_map(|option| {
            let value = option.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(OsStr::from_bytes(value))
        })
    }
}

/// A mount at a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedThing {
    /// Its type, as the kernel names it: `ext4`.
    pub filesystem: String,
    /// The kernel's number of its device: `8:1`.
    pub device: String,
    /// The mounted object, as mount was given it.
    pub source: OsString,
}

/// Mounts at the directory, the topmost last.
pub fn mounted_at(mount_point: &Path) -> Vec<MountedThing> {
    let mount_point = fs::canonicalize(mount_point).unwrap_or(mount_point.to_owned());
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mounts = parse_mountinfo(&text).into_iter();
    let mounts = mounts.filter(|entry| entry.mount_point == mount_point);
    mounts
        .map(|entry| MountedThing {
            filesystem: entry.fs_type,
            device: entry.device.to_string(),
            source: entry.source,
        })
        .collect()
}

/// Why a directory is probably not on the storage that it is meant to be on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnmountedPlace {
    /// This mount point, at or above it, is in /etc/fstab, and nothing is mounted there.
    Listed { mount_point: PathBuf, holder: PathBuf },
    /// It is empty, where disks are mounted by custom, and not a mount point.
    Empty { holder: PathBuf },
}

/// Whether a mount is missing at the directory. `holder` is the mount point of the filesystem that the
/// directory is on instead.
pub fn unmounted_place(directory: &Path) -> Option<UnmountedPlace> {
    let directory = fs::canonicalize(directory).ok()?;
    let mounts = parse_mountinfo(&fs::read("/proc/self/mountinfo").ok()?);
    let fstab = fs::read("/etc/fstab").unwrap_or_default();
    let is_empty = || fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_none());
    missing_mount(&directory, &mounts, &fstab, is_empty)
}

fn missing_mount(
    directory: &Path,
    mounts: &[MountEntry],
    fstab: &[u8],
    is_empty: impl Fn() -> bool,
) -> Option<UnmountedPlace> {
    let holder = mount_by_prefix(mounts, directory)?.mount_point.clone();
    let listed = fstab.split(|byte| *byte == b'\n').filter_map(listed_mount_point);
    // Below the filesystem that is there: a mount at it or above it is not missing.
    let missing = listed.filter(|listed| {
        directory.starts_with(listed) && listed.starts_with(&holder) && *listed != holder
    });
    if let Some(mount_point) = missing.max_by_key(|listed| listed.components().count()) {
        return Some(UnmountedPlace::Listed { mount_point, holder });
    }
    let is_by_custom = |path: &Path| {
        path.file_name().is_some_and(|name| name == "mnt" || name == "media" || name == "mount")
    };
    let is_usual = is_by_custom(directory) || directory.parent().is_some_and(is_by_custom);
    (is_usual && directory != holder && is_empty()).then_some(UnmountedPlace::Empty { holder })
}

/// The mount point of a line of fstab(5).
fn listed_mount_point(line: &[u8]) -> Option<PathBuf> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let source = fields.next().filter(|source| !source.starts_with(b"#"));
    let mount_point = PathBuf::from(decode_octal(source.and(fields.next())?));
    // "none" and "swap" are not paths.
    mount_point.is_absolute().then_some(mount_point)
}

/// All entries that can be read; lines of another form are passed over.
pub(crate) fn parse_mountinfo(content: &[u8]) -> Vec<MountEntry> {
    content.split(|byte| *byte == b'\n').filter_map(parse_entry).collect()
}

/// The mount that holds a path: by its identifier, or else by the longest mount point above it.
pub(crate) fn mount_of<'a>(
    mounts: &'a [MountEntry],
    mount_id: Option<u64>,
    absolute: &Path,
) -> Option<&'a MountEntry> {
    // If mounts cover each other only the identifier shows which one the file is on.
    let by_id = mounts.iter().find(|entry| Some(entry.id) == mount_id);
    by_id.or_else(|| mount_by_prefix(mounts, absolute))
}

fn mount_by_prefix<'a>(mounts: &'a [MountEntry], absolute: &Path) -> Option<&'a MountEntry> {
    let above = mounts.iter().filter(|entry| absolute.starts_with(&entry.mount_point));
    // The last of several on one directory covers the others, and max_by_key keeps it.
    above.max_by_key(|entry| entry.mount_point.components().count())
}

fn parse_entry(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut head = || fields.next();
    let (id, _parent, device) = (head()?, head()?, head()?);
    let (root, mount_point, mount_options) = (head()?, head()?, head()?);
    // Any number of optional fields come between the options and the hyphen.
    fields.by_ref().find(|field| *field == b"-")?;
    let (fs_type, source) = (fields.next()?, fields.next()?);
    let super_options = fields.next().unwrap_or_default();
    Some(MountEntry {
        id: std::str::from_utf8(id).ok()?.parse().ok()?,
        device: std::str::from_utf8(device).ok()?.parse().ok()?,
        root: PathBuf::from(decode_octal(root)),
        mount_point: PathBuf::from(decode_octal(mount_point)),
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
        source: decode_octal(source),
        options: merged_options(mount_options, super_options),
        read_only: is_read_only(mount_options) || is_read_only(super_options),
    })
}

fn option_list(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').filter(|option| !option.is_empty())
}

fn is_read_only(list: &[u8]) -> bool {
    option_list(list).any(|option| option == b"ro")
}

fn merged_options(mount: &[u8], filesystem: &[u8]) -> Vec<OsString> {
    let read_only = is_read_only(mount) || is_read_only(filesystem);
    let mut merged: Vec<OsString> = Vec::new();
    for option in option_list(mount).chain(option_list(filesystem)) {
        // A read-only mount of a writable filesystem says both; what counts is that it is not.
        let contradicted = read_only && option == b"rw";
        let option = decode_octal(option);
        if !contradicted && !merged.contains(&option) {
            merged.push(option);
        }
    }
    merged
}

/// Undoes `\040` and the like, by which the kernel writes blanks in a name.
pub(crate) fn decode_octal(text: &[u8]) -> OsString {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let (byte, tail) = match escaped_byte(rest) {
            Some(byte) => (byte, &rest[4..]),
            None => (*first, tail),
        };
        decoded.push(byte);
        rest = tail;
    }
    OsString::from_vec(decoded)
}

fn escaped_byte(text: &[u8]) -> Option<u8> {
    let [b'\\', digits @ ..] = text.get(..4)? else { return None };
    let digits = std::str::from_utf8(digits).ok()?;
    u8::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
        25 24 0:23 / /dev/shm rw,relatime shared:7 master:2 - tmpfs tmpfs rw,size=24k\n\
        30 25 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=25k\n\
        40 27 8:1 /sub /mnt/my\\040disk ro,noatime - xfs /dev/sda1 rw,logbsize=256k\n\
        this is no entry\n";

    fn mount_point(mount_id: Option<u64>, path: &str) -> (u64, String) {
        let mounts = parse_mountinfo(TEXT);
        let entry = mount_of(&mounts, mount_id, Path::new(path)).unwrap();
        (entry.id, entry.mount_point.display().to_string())
    }

    #[test]
    fn entries_are_read_with_and_without_optional_fields() {
        let mounts = parse_mountinfo(TEXT);
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[0].device, DeviceNumber { major: 254, minor: 0 });
        assert_eq!(mounts[1].fs_type, "tmpfs");
        assert_eq!(mounts[3].root, Path::new("/sub"));
        assert_eq!(mounts[3].mount_point, Path::new("/mnt/my disk"));
    }

    #[test]
    fn options_are_merged_once_and_in_order() {
        let mounts = parse_mountinfo(TEXT);
        assert_eq!(mounts[0].options, ["rw", "relatime", "discard"]);
        assert_eq!(mounts[3].options, ["ro", "noatime", "logbsize=256k"]);
        assert!(mounts[3].read_only && !mounts[0].read_only);
        assert_eq!(mounts[3].option_value("logbsize"), Some(OsStr::new("256k")));
        assert_eq!(mounts[3].option_value("logb"), None);
    }

    #[test]
    fn a_filesystem_that_became_read_only_is_so_though_its_mount_is_not() {
        let text = b"31 27 8:1 /a\\040b /mnt rw,relatime shared:1 - ext4 /dev/mapper/v\\040g ro,errors=remount-ro\n\
            32 27 0:60 / /m rw - overlay overlay rw,upperdir=/up\\0541\n";
        let mounts = parse_mountinfo(text);
        assert!(mounts[0].read_only && !mounts[1].read_only);
        assert_eq!(mounts[0].options, ["relatime", "ro", "errors=remount-ro"]);
        assert_eq!(mounts[0].root, Path::new("/a b"));
        assert_eq!(mounts[0].source, "/dev/mapper/v g");
        assert_eq!(mounts[1].option_value("upperdir"), Some(OsStr::new("/up,1")));
    }

    #[test]
    fn the_mount_is_found_by_identifier_before_its_prefix() {
        assert_eq!(mount_point(Some(25), "/dev/shm/x"), (25, "/dev/shm".into()));
        assert_eq!(mount_point(Some(99), "/dev/shm/x"), (30, "/dev/shm".into()));
        assert_eq!(mount_point(None, "/dev/shmem"), (27, "/".into()));
        assert_eq!(mount_point(None, "/mnt/my disk/db"), (40, "/mnt/my disk".into()));
    }

    #[test]
    fn a_mount_that_fstab_lists_is_missed_at_it_and_below_it() {
        const FSTAB: &[u8] = b"# /dev/x /mnt/comment ext4\n/dev/vda / ext4 defaults 0 1\n\
            \tUUID=1 /data\txfs noauto 0 0\n/dev/sda1 /mnt/my\\040disk xfs ro\nUUID=2 none swap sw\n\
            /dev/sdb1 /data/pg/wal ext4\n";
        let mounts = parse_mountinfo(TEXT);
        let found = |directory: &str| {
            missing_mount(Path::new(directory), &mounts, FSTAB, || false).map(|missing| {
                match missing {
                    UnmountedPlace::Listed { mount_point, holder } => {
                        assert_eq!(holder, Path::new("/"));
                        mount_point.display().to_string()
                    }
                    UnmountedPlace::Empty { .. } => "empty".to_owned(),
                }
            })
        };
        assert_eq!(found("/data").as_deref(), Some("/data"));
        assert_eq!(found("/data/pg").as_deref(), Some("/data"));
        assert_eq!(found("/data/pg/wal/x").as_deref(), Some("/data/pg/wal"));
        for there in ["/", "/database", "/mnt/my disk/db", "/dev/shm", "/mnt/comment"] {
            assert_eq!(found(there), None, "{there}");
        }
    }

    #[test]
    fn an_empty_directory_where_disks_are_mounted_by_custom_is_probably_a_mount_point() {
        let mounts = parse_mountinfo(TEXT);
        let found = |directory: &str, is_empty: bool| {
            missing_mount(Path::new(directory), &mounts, b"", || is_empty)
        };
        let missing = Some(UnmountedPlace::Empty { holder: PathBuf::from("/") });
        for usual in ["/mnt", "/mnt/pg", "/media/usb", "/srv/mnt"] {
            assert_eq!(
                (found(usual, true), found(usual, false)),
                (missing.clone(), None),
                "{usual}"
            );
        }
        for other in ["/srv/data", "/mnt/pg/wal", "/mnt/my disk"] {
            assert_eq!(found(other, true), None, "{other}");
        }
    }

    #[test]
    fn octal_escapes_become_their_bytes() {
        assert_eq!(decode_octal(br"a\040b\011c\134d"), OsString::from("a b\tc\\d"));
        assert_eq!(decode_octal(br"a\04"), OsString::from(r"a\04"));
        assert_eq!(decode_octal(br"\999"), OsString::from(r"\999"));
        assert_eq!(decode_octal(b"\xff\\040"), OsString::from_vec(vec![0xff, b' ']));
    }
}
