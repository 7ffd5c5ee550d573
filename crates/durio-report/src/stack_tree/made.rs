//! Devices that the kernel makes of others, in words: arrays, volumes, loop, zram, nbd, bcache.
//!
//! In: a layer. Out: a draft. Not here: disks and partitions.

use durio_observe::Layer;

use super::known::{Known, Parts};
use super::words::{Draft, named, size};
use crate::figures::counted;

/// A software RAID array.
pub(super) fn array(layer: &Layer, known: &Known<'_>) -> Draft {
    let level = known.text("level").unwrap_or("of unknown level");
    let level = level.strip_prefix("raid").map_or(level.to_owned(), |level| format!("RAID{level}"));
    let mut draft = Draft::new(format!("software RAID {}", layer.name));
    let layout = known.text("layout_words");
    // The number behind the words says no more.
    known.text("layout");
    draft.essential.say(match layout {
        Some(words) => format!("{level} {words}"),
        None => level,
    });
    let members = known.number("raid_disks");
    draft.essential.value(members.map(|count| counted(count, "member")));
    draft.essential.named("chunk", known.bytes("chunk_size"));
    draft.essential.value(size(layer));
    draft.essential.value(known.text("array_state"));
    if let Some(missing) = known.number("degraded").filter(|count| *count > 0) {
        draft.essential.say(format!("DEGRADED: {} missing", counted(missing, "member")));
    }
    draft.group("members", members_of(known));
    draft.group("consistency", consistency(known));
    draft.group("sync", sync(known));
    draft
}

fn members_of(known: &Known<'_>) -> Parts {
    let (slots, errors) = (known.with_prefix("slot_"), known.with_prefix("errors_"));
    let of = |list: &[(&str, &str)], member: &str| {
        list.iter().find(|(name, _)| *name == member).map(|(_, value)| (*value).to_owned())
    };
    let mut parts = Parts::default();
    for (member, state) in known.with_prefix("member_") {
        let slot = of(&slots, member).map(|slot| format!(" slot {slot}")).unwrap_or_default();
        let wrong = of(&errors, member).map(|count| format!(" after {count} errors"));
        parts.say(format!("{member}{slot} {state}{}", wrong.unwrap_or_default()));
    }
    parts
}

fn consistency(known: &Known<'_>) -> Parts {
    let mut parts = Parts::default();
    parts.named("policy", known.text("consistency_policy"));
    // Any place on the members is a number of sectors with its sign.
    let place = known.text("bitmap");
    parts.value(place.map(|place| match place {
        "none" => "no bitmap".to_owned(),
        "file" => "bitmap in a file".to_owned(),
        place => format!("internal bitmap at {place}"),
    }));
    parts.named("of type", known.some("bitmap_type"));
    parts.named("bitmap chunk", known.bytes("bitmap_chunk_size"));
    // The kernel has a word for it also where there is no bitmap.
    let metadata = known.text("bitmap_metadata").filter(|_| place != Some("none"));
    parts.named("bitmap metadata", metadata);
    parts.named("journal mode", known.text("journal_mode"));
    parts.named("metadata", known.text("metadata_version"));
    parts
}

fn sync(known: &Known<'_>) -> Parts {
    let mut parts = Parts::default();
    parts.value(known.text("sync_action"));
    parts.named("done", known.some("sync_completed"));
    parts.named("reshape at", known.some("reshape_position"));
    parts.named("mismatches", known.text("mismatch_cnt"));
    parts
}

/// A device-mapper volume: of LVM, of cryptsetup, or of anybody.
pub(super) fn volume(layer: &Layer, known: &Known<'_>) -> Draft {
    let name = known.text("dm_name").unwrap_or(&layer.name);
    let title = match known.text("dm_type") {
        Some("LVM") => format!("LVM volume {}", lvm_name(name)),
        Some("CRYPT") => format!("encrypted volume {name}"),
        Some("mpath") => format!("multipath device {name}"),
        Some(maker) => format!("device-mapper volume {name} of {maker}"),
        None => format!("device-mapper volume {name}"),
    };
    let mut draft = Draft::new(format!("{title} ({})", layer.name));
    draft.essential.value(known.text("dm_targets").map(|list| list.replace(',', " and ")));
    let segments = known.number("dm_segments");
    draft.essential.value(segments.map(|count| counted(count, "segment")));
    draft.essential.value(size(layer));
    if known.text("suspended") == Some("1") {
        draft.essential.say("SUSPENDED");
    }
    draft.group("table", table(known));
    draft
}

/// Which facts of a table are counts of bytes.
const OF_BYTES: &str = "_bytes";

fn table(known: &Known<'_>) -> Parts {
    let mut parts = Parts::default();
    for (name, value) in known.with_prefix("dm_") {
        let words = name.trim_end_matches(OF_BYTES).replace('_', " ");
        match name {
            "name" | "type" | "targets" | "segments" => {}
            _ if name.ends_with(OF_BYTES) => {
                parts.named(&words, known.bytes(&format!("dm_{name}")));
            }
            _ => parts.say(format!("{words} {value}")),
        }
    }
    parts
}

/// LVM joins the group's and the volume's name by a hyphen, and doubles the hyphens in them.
fn lvm_name(joined: &str) -> String {
    let undoubled = joined.replace("--", "\0").replacen('-', "/", 1);
    undoubled.replace('\0', "-")
}

/// A file or a device as a block device.
pub(super) fn loop_device(layer: &Layer, known: &Known<'_>) -> Draft {
    let mut draft = named("loop device", layer);
    draft.essential.value(known.text("dio").map(|dio| match dio {
        "1" => "direct I/O",
        "0" => "through the page cache of its file",
        other => other,
    }));
    draft.essential.named("on", known.text("backing_file"));
    let mut part = Parts::default();
    part.named("from byte", known.some("offset"));
    part.named("of bytes", known.some("sizelimit"));
    part.value(known.some("autoclear").map(|_| "let go with its last user"));
    draft.group("file", part);
    draft
}

/// A compressed RAM disk.
pub(super) fn zram(layer: &Layer, known: &Known<'_>) -> Draft {
    let mut draft = named("compressed RAM disk", layer);
    draft.essential.value(known.text("comp_algorithm"));
    known.text("disksize");
    draft.essential.named("writes back to", known.some("backing_dev"));
    draft
}

/// A device that another machine or process serves.
pub(super) fn nbd(layer: &Layer, known: &Known<'_>) -> Draft {
    let mut draft = named("network block device", layer);
    draft.essential.named("served to process", known.text("pid"));
    draft.essential.named("backend", known.text("backend"));
    draft
}

/// A device with a cache in front of it.
pub(super) fn bcache(layer: &Layer, known: &Known<'_>) -> Draft {
    let mut draft = named("bcache device", layer);
    draft.essential.value(known.text("cache_mode"));
    draft.essential.value(known.text("state"));
    draft.essential.named("dirty", known.text("dirty_data"));
    draft
}

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
