//! Filesystems: mkfs, a mount point of their own, mount; and ZFS pools.
//!
//! Tables are written in full and nothing is discarded, so that no later work of the filesystem
//! falls into a measurement.

use super::{Draft, DrawnLayer};
use crate::command::{Action, Check};
use crate::place::filesystem_uuid;
use crate::undo::Undo;
use crate::{BtrfsProfile, DeclaredKind, ZfsLayout};

impl Draft<'_> {
    pub(super) fn filesystem(&mut self, kind: &DeclaredKind, below: &[String]) -> DrawnLayer {
        let mount = self.place.mounts.join(self.place.tag()).display().to_string();
        match kind {
            DeclaredKind::Ext4(options) => {
                self.mkfs("ext4", ext4_words(&options.mkfs), below);
                self.mount("ext4", &options.mount, below, &mount);
            }
            DeclaredKind::Xfs(options) => {
                self.mkfs("xfs", words(&["-q", "-f", "-K"], &options.mkfs), below);
                self.mount("xfs", &options.mount, below, &mount);
            }
            DeclaredKind::Btrfs { profile, options } => {
                let profile = profile_word(*profile);
                let own = ["-q", "-f", "-K", "-d", profile, "-m", profile];
                self.mkfs("btrfs", words(&own, &options.mkfs), below);
                self.mount("btrfs", &with_members(&options.mount, below), below, &mount);
            }
            DeclaredKind::Zfs { layout, properties, pool_properties } => {
                self.pool(*layout, properties, pool_properties, below, &mount);
            }
            // The caller has dealt with everything that is a device.
            _ => return DrawnLayer { devices: below.to_vec(), mount: None },
        }
        DrawnLayer { devices: below.to_vec(), mount: Some(mount) }
    }

    fn mkfs(&mut self, filesystem: &str, mut words: Vec<String>, below: &[String]) {
        // By label and identifier the filesystem is known again.
        let uuid = filesystem_uuid(&self.place.tag()).0;
        match filesystem {
            "xfs" => words.extend(["-m".to_owned(), format!("uuid={uuid}")]),
            _ => words.extend(["-U".to_owned(), uuid]),
        }
        words.extend(["-L".to_owned(), self.place.tag()]);
        words.extend(below.iter().cloned());
        self.run(&format!("mkfs.{filesystem}"), &words, None);
    }

    fn mount(&mut self, filesystem: &str, options: &[String], below: &[String], at: &str) {
        self.mount_point(at);
        let mut words = vec!["-t".to_owned(), filesystem.to_owned()];
        if !options.is_empty() {
            words.extend(["-o".to_owned(), options.join(",")]);
        }
        words.extend(below.first().cloned());
        words.push(at.to_owned());
        let source = below.first().cloned().unwrap_or_default();
        let undo = Undo::Unmount { mount_point: at.to_owned(), source };
        self.run("mount", &words, Some(undo));
        self.check_mounted(filesystem, at);
    }

    fn pool(
        &mut self,
        layout: ZfsLayout,
        properties: &[String],
        pool_properties: &[String],
        below: &[String],
        at: &str,
    ) {
        self.load("zfs", &[]);
        self.mount_point(at);
        let name = self.place.tag();
        let mut words: Vec<String> =
            ["create", "-f", "-o", "cachefile=none"].map(str::to_owned).into();
        words.extend(
            pool_properties.iter().flat_map(|property| ["-o".to_owned(), property.clone()]),
        );
        words.extend(["-O".to_owned(), format!("mountpoint={at}")]);
        words.extend(properties.iter().flat_map(|property| ["-O".to_owned(), property.clone()]));
        words.push(name.clone());
        words.extend(layout_word(layout).map(str::to_owned));
        words.extend(below.iter().cloned());
        self.run("zpool", &words, Some(Undo::DestroyPool { name }));
        self.check_mounted("zfs", at);
    }

    fn mount_point(&mut self, at: &str) {
        let undo = Undo::RemoveDirectory { path: at.to_owned() };
        self.push(Action::MakeDirectory { path: at.to_owned() }, Some(undo));
    }

    fn check_mounted(&mut self, filesystem: &str, at: &str) {
        let (mount_point, filesystem) = (at.to_owned(), filesystem.to_owned());
        self.check(Check::Mounted { mount_point, filesystem });
    }
}

fn words(own: &[&str], declared: &[String]) -> Vec<String> {
    own.iter().map(|word| (*word).to_owned()).chain(declared.iter().cloned()).collect()
}

/// Of several `-E` mkfs.ext4 heeds the last one alone, so declared ones are joined with ours.
fn ext4_words(declared: &[String]) -> Vec<String> {
    let mut extended = "lazy_itable_init=0,lazy_journal_init=0,nodiscard".to_owned();
    let mut others = Vec::new();
    let mut rest = declared.iter();
    while let Some(word) = rest.next() {
        let value = match word.as_str() {
            "-E" => rest.next().map(String::as_str),
            word => word.strip_prefix("-E"),
        };
        match value {
            Some(value) => extended = format!("{extended},{value}"),
            None => others.push(word.clone()),
        }
    }
    words(&["-q", "-F", "-E", &extended], &others)
}

/// Without udev nobody has told the kernel about the other members.
fn with_members(options: &[String], below: &[String]) -> Vec<String> {
    let others = below.iter().skip(1).map(|device| format!("device={device}"));
    options.iter().cloned().chain(others).collect()
}

const fn profile_word(profile: BtrfsProfile) -> &'static str {
    match profile {
        BtrfsProfile::Single => "single",
        BtrfsProfile::Raid1 => "raid1",
        BtrfsProfile::Raid10 => "raid10",
    }
}

const fn layout_word(layout: ZfsLayout) -> Option<&'static str> {
    match layout {
        ZfsLayout::Single => None,
        ZfsLayout::Mirror => Some("mirror"),
        ZfsLayout::Raidz1 => Some("raidz1"),
        ZfsLayout::Raidz2 => Some("raidz2"),
    }
}
