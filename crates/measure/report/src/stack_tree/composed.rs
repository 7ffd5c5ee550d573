//! Filesystems, and devices that the kernel makes of others, in words: arrays, volumes, loop, zram, nbd,
//! bcache.
//!
//! Disks and partitions are in `disk`.

use durio_base::Bytes;
use durio_observe::FilesystemFacts;

use super::FactForm::{self, Count, Set, Text, Words};
use super::{FactRow, LINE, LayerDraft, kind};
use crate::figures::counted;

pub(super) fn filesystem(draft: &mut LayerDraft<'_>, facts: &FilesystemFacts) {
    let kind = kind(draft.layer.kind);
    draft.title = format!("{kind} {} at {}", facts.fs_type, facts.mount_point);
    if facts.size != Bytes::ZERO {
        draft.say(LINE, format!("{}, {} free", facts.size, facts.free));
    }
    draft.value(LINE, facts.read_only.then_some("read-only"));
    draft.value(LINE, facts.memory_backed.then_some("in memory"));
    draft.say("mount", format!("from {}", facts.source));
    draft.say("mount", facts.options.join(","));
    let direct = facts.direct_io.map(|direct_io| match direct_io.offset {
        Bytes::ZERO => "direct I/O not possible".to_owned(),
        offset => format!("direct I/O aligned to {offset}"),
    });
    draft.value("mount", direct);
    draft.tell(FILESYSTEM);
}

const FILESYSTEM: &[FactRow] = &[
    // btrfs is its own RAID.
    (LINE, "data", "data_profile", Text),
    (LINE, "metadata", "metadata_profile", Text),
    (LINE, "RUNNING", "running_operation", Text),
    (LINE, "ERRORS RECORDED:", "errors", Text),
    // ext4 shows its options with the defaults, which the mount table leaves out.
    ("in effect", "", "effective_options", Words(spaced)),
    ("layout", "blocks of", "block_size_bytes", FactForm::Bytes),
    ("layout", "sectors of", "sector_size_bytes", FactForm::Bytes),
    ("layout", "nodes of", "node_size_bytes", FactForm::Bytes),
    ("layout", "inodes of", "inode_size_bytes", FactForm::Bytes),
    ("layout", "allocation group", "allocation_groups", Count),
    ("layout", "block group", "block_groups", Count),
    ("layout", "checksum", "checksum", Text),
    ("layout", "system profile", "system_profile", Text),
    // Its size shows that there is one.
    ("journal", "", "journal", Words(|text| (text != "yes").then(|| text.to_owned()))),
    ("journal", "", "log", Text),
    ("journal", "", "journal_size_bytes", FactForm::Bytes),
    ("journal", "", "log_size_bytes", FactForm::Bytes),
    ("journal", "stripe unit", "log_stripe_unit_bytes", FactForm::Bytes),
    ("journal", "mode", "journal_mode", Text),
    ("journal", "", "journal_transaction_max_blocks", Words(transaction)),
    ("stripes", "unit", "stripe_unit_bytes", FactForm::Bytes),
    ("stripes", "width", "stripe_width_bytes", FactForm::Bytes),
    ("features", "", "features", Words(spaced)),
];

// A line breaks at spaces only.
fn spaced(list: &str) -> Option<String> {
    Some(list.replace(',', ", "))
}

fn transaction(blocks: &str) -> Option<String> {
    Some(format!("up to {} per transaction", counted(blocks.parse().ok()?, "block")))
}

/// A software RAID array.
pub(super) fn array(draft: &mut LayerDraft<'_>) {
    let level = draft.text("level").unwrap_or("of unknown level");
    let level = level.strip_prefix("raid").map_or(level.to_owned(), |level| format!("RAID{level}"));
    let words = draft.text("layout_words").map(|words| format!(" {words}")).unwrap_or_default();
    // The number behind the words says no more.
    draft.text("layout");
    draft.say(LINE, format!("{level}{words}"));
    draft.tell(ARRAY);
    draft.device(&[]);
    draft.tell(&[(LINE, "", "array_state", Text)]);
    if let Some(missing) = draft.number("degraded").filter(|count| *count > 0) {
        draft.say(LINE, format!("DEGRADED: {} missing", counted(missing, "member")));
    }
    members(draft);
    if draft.layer.fact("bitmap") == Some("none") {
        // The kernel has a word for it even without a bitmap: it counts as said.
        draft.text("bitmap_metadata");
    }
    draft.tell(CONSISTENCY);
}

/// A device that a process serves; of an array of durio's own with the array.
pub(super) fn served(draft: &mut LayerDraft<'_>) {
    if let Some(level) = draft.text("level").and_then(|level| level.strip_prefix("raid")) {
        draft.say(LINE, format!("durio RAID{level}"));
    }
    draft.tell(&[(LINE, "", "array", Text)]);
    draft.tell(ARRAY);
    draft.tell(&[("served", "by process", "pid", Text)]);
}

const ARRAY: &[FactRow] =
    &[(LINE, "member", "raid_disks", Count), (LINE, "chunk", "chunk_size", FactForm::Bytes)];

const CONSISTENCY: &[FactRow] = &[
    ("consistency", "policy", "consistency_policy", Text),
    ("consistency", "", "bitmap", Words(bitmap)),
    ("consistency", "of type", "bitmap_type", Set),
    ("consistency", "bitmap chunk", "bitmap_chunk_size", FactForm::Bytes),
    ("consistency", "bitmap metadata", "bitmap_metadata", Text),
    ("consistency", "journal mode", "journal_mode", Text),
    ("consistency", "metadata", "metadata_version", Text),
    ("sync", "", "sync_action", Text),
    ("sync", "done", "sync_completed", Set),
    ("sync", "reshape at", "reshape_position", Set),
    ("sync", "mismatches", "mismatch_cnt", Text),
];

fn bitmap(place: &str) -> Option<String> {
    Some(match place {
        "none" => "no bitmap".to_owned(),
        "file" => "bitmap in a file".to_owned(),
        // A number of sectors with its sign.
        place => format!("internal bitmap at {place}"),
    })
}

fn members(draft: &mut LayerDraft<'_>) {
    let (slots, errors) = (draft.with_prefix("slot_"), draft.with_prefix("errors_"));
    let of = |list: &[(&str, &str)], member: &str| {
        list.iter().find(|(name, _)| *name == member).map(|(_, value)| (*value).to_owned())
    };
    for (member, state) in draft.with_prefix("member_") {
        let slot = of(&slots, member).map(|slot| format!(" slot {slot}")).unwrap_or_default();
        let wrong = of(&errors, member).map(|count| format!(" after {count} errors"));
        let wrong = wrong.unwrap_or_default();
        draft.say("members", format!("{member}{slot} {state}{wrong}"));
    }
}

/// A device-mapper volume: LVM's, cryptsetup's, or any other.
pub(super) fn volume(draft: &mut LayerDraft<'_>) {
    let name = draft.text("dm_name").unwrap_or(&draft.layer.name);
    let title = match draft.text("dm_type") {
        Some("LVM") => format!("LVM volume {}", lvm_name(name)),
        Some("CRYPT") => format!("encrypted volume {name}"),
        Some("mpath") => format!("multipath device {name}"),
        Some(maker) => format!("device-mapper volume {name} of {maker}"),
        None => format!("device-mapper volume {name}"),
    };
    draft.title = format!("{title} ({})", draft.layer.name);
    draft.tell(&[
        (LINE, "", "dm_targets", Words(|list| Some(list.replace(',', " and ")))),
        (LINE, "segment", "dm_segments", Count),
    ]);
    draft.device(&[]);
    draft.tell(&[(
        LINE,
        "",
        "suspended",
        Words(|text| (text == "1").then(|| "SUSPENDED".to_owned())),
    )]);
    for (name, value) in draft.with_prefix("dm_") {
        let of_bytes = name.strip_suffix("_bytes");
        let words = of_bytes.unwrap_or(name).replace('_', " ");
        match name {
            "name" | "type" | "targets" | "segments" => {}
            _ if of_bytes.is_some() => draft.named("table", &words, super::bytes(value)),
            _ => draft.say("table", format!("{words} {value}")),
        }
    }
}

// LVM joins the group's and the volume's name by a hyphen, and doubles the hyphens in them.
fn lvm_name(joined: &str) -> String {
    let undoubled = joined.replace("--", "\0").replacen('-', "/", 1);
    undoubled.replace('\0', "-")
}

/// A file or a device as a block device.
pub(super) const LOOP: &[FactRow] = &[
    (LINE, "", "dio", Words(direct)),
    (LINE, "on", "backing_file", Text),
    ("file", "from byte", "offset", Set),
    ("file", "of bytes", "sizelimit", Set),
    ("file", "", "autoclear", Words(autoclear)),
];

fn direct(dio: &str) -> Option<String> {
    let words = match dio {
        "1" => "direct I/O",
        "0" => "through the page cache of its file",
        other => other,
    };
    Some(words.to_owned())
}

fn autoclear(flag: &str) -> Option<String> {
    (flag != "0").then(|| "let go with its last user".to_owned())
}

/// A compressed RAM disk.
pub(super) fn zram(draft: &mut LayerDraft<'_>) {
    // It is the size of the device.
    draft.text("disksize");
    draft.device(&[
        (LINE, "", "comp_algorithm", Text),
        (LINE, "writes back to", "backing_dev", Set),
    ]);
}

/// A device that another machine or process serves.
pub(super) const NBD: &[FactRow] =
    &[(LINE, "served to process", "pid", Text), (LINE, "backend", "backend", Text)];

/// A device with a cache in front of it.
pub(super) const BCACHE: &[FactRow] = &[
    (LINE, "", "cache_mode", Text),
    (LINE, "", "state", Text),
    (LINE, "dirty", "dirty_data", Text),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lvm_are_taken_apart() {
        assert_eq!(lvm_name("vg-data"), "vg/data");
        assert_eq!(lvm_name("my--vg-my--data"), "my-vg/my-data");
        assert_eq!(lvm_name("alone"), "alone");
        assert_eq!(lvm_name("vg-pool_tdata"), "vg/pool_tdata");
    }
}
