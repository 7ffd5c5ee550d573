//! What the kernel says of a mounted filesystem beyond its mount options.
//!
//! In: the root of `/sys` and `/proc`, the type, and the device's name. Out: named values.
//! Not here: mount options, which every filesystem has.
//!
//! Of all filesystems only ext4 shows what is in effect, defaults of the superblock included.

use crate::Fact;
use crate::system_dir::SystemDir;

/// Types that the ext4 driver mounts, and shows under its own name.
const EXT: &[&str] = &["ext2", "ext3", "ext4"];

/// What ext4 says where it has no journal.
const NO_JOURNAL: &str = "<none>";

/// The facts of the filesystem on the device that the kernel calls `device`.
///
/// `effective_options`: what is in effect, joined by commas. `journal`: `yes` or `none`.
pub(crate) fn filesystem_state(root: &SystemDir, fs_type: &str, device: &str) -> Vec<Fact> {
    if !EXT.contains(&fs_type) {
        return Vec::new();
    }
    // As elsewhere in sysfs, a slash in a device's name is written as an exclamation mark.
    let device = device.replace('/', "!");
    let options = root.text(format!("proc/fs/ext4/{device}/options"));
    let options = options.map(|text| text.split_whitespace().collect::<Vec<_>>().join(","));
    let journal = root.text(format!("sys/fs/ext4/{device}/journal_task"));
    let journal = journal.map(|task| if task == NO_JOURNAL { "none" } else { "yes" }.to_owned());
    let facts = [("effective_options", options), ("journal", journal)];
    facts.into_iter().filter_map(|(name, value)| Some(Fact::new(name, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn ext4_tells_what_is_in_effect_and_whether_it_has_a_journal() {
        let fixture = Fixture::new();
        fixture.file("proc/fs/ext4/vda/options", "rw\nbsddf\nnobarrier\n");
        fixture.file("sys/fs/ext4/vda/journal_task", "<none>\n");
        fixture.file("sys/fs/ext4/vdb/journal_task", "181\n");
        let root = fixture.root();
        let expected =
            [Fact::new("effective_options", "rw,bsddf,nobarrier"), Fact::new("journal", "none")];
        assert_eq!(filesystem_state(&root, "ext4", "vda"), expected);
        assert_eq!(filesystem_state(&root, "ext3", "vdb"), [Fact::new("journal", "yes")]);
        assert_eq!(filesystem_state(&root, "xfs", "vda"), []);
        assert_eq!(filesystem_state(&root, "ext4", "vdc"), []);
    }
}
