//! Filesystems in words: the mount, blocks and groups, journal, stripes, features.
//!
//! In: a layer of a filesystem. Out: a draft. Not here: what an option does.

use durio_observe::{FilesystemFacts, Layer};
use durio_units::Bytes;

use super::known::{Known, Parts};
use super::words::{Draft, kind};
use crate::figures::counted;

pub(super) fn draft(layer: &Layer, facts: &FilesystemFacts, known: &Known<'_>) -> Draft {
    let title = format!("{} {} at {}", kind(layer.kind), facts.fs_type, facts.mount_point);
    let mut draft = Draft::new(title);
    if facts.size != Bytes::ZERO {
        draft.essential.say(format!("{}, {} free", facts.size, facts.free));
    }
    if facts.read_only {
        draft.essential.say("read-only");
    }
    if facts.memory_backed {
        draft.essential.say("in memory");
    }
    profiles(known, &mut draft);
    draft.group("mount", mount(facts));
    draft.group("in effect", in_effect(known));
    draft.group("layout", layout(known));
    draft.group("journal", journal(known));
    draft.group("stripes", stripes(known));
    let mut features = Parts::default();
    features.value(known.text("features").map(|list| list.replace(',', ", ")));
    draft.group("features", features);
    draft
}

/// Of btrfs, which is its own RAID.
fn profiles(known: &Known<'_>, draft: &mut Draft) {
    let kinds = [("data", "data_profile"), ("metadata", "metadata_profile")];
    for (words, name) in kinds {
        draft.essential.named(words, known.text(name));
    }
    draft.essential.named("RUNNING", known.text("running_operation"));
    draft.essential.named("ERRORS RECORDED:", known.text("errors"));
}

fn mount(facts: &FilesystemFacts) -> Parts {
    let mut parts = Parts::default();
    parts.say(format!("from {}", facts.source));
    parts.say(facts.options.join(","));
    parts.value(facts.direct_io.map(|it| match it.offset {
        Bytes::ZERO => "direct I/O not possible".to_owned(),
        offset => format!("direct I/O aligned to {offset}"),
    }));
    parts
}

/// Options that ext4 has in effect, defaults included.
fn in_effect(known: &Known<'_>) -> Parts {
    let mut parts = Parts::default();
    parts.value(known.text("effective_options"));
    parts
}

fn layout(known: &Known<'_>) -> Parts {
    let mut parts = Parts::default();
    parts.named("blocks of", known.bytes("block_size_bytes"));
    parts.named("sectors of", known.bytes("sector_size_bytes"));
    parts.named("nodes of", known.bytes("node_size_bytes"));
    parts.named("inodes of", known.bytes("inode_size_bytes"));
    let groups = known.number("allocation_groups");
    parts.value(groups.map(|count| counted(count, "allocation group")));
    parts.value(known.number("block_groups").map(|count| counted(count, "block group")));
    parts.named("checksum", known.text("checksum"));
    parts.named("system profile", known.text("system_profile"));
    parts
}

fn journal(known: &Known<'_>) -> Parts {
    let mut parts = Parts::default();
    match known.text("journal") {
        Some("none") => parts.say("none"),
        Some("yes") | None => {}
        Some(other) => parts.say(other),
    }
    parts.value(known.text("log"));
    parts.value(known.bytes("journal_size_bytes"));
    parts.value(known.bytes("log_size_bytes"));
    parts.named("stripe unit", known.bytes("log_stripe_unit_bytes"));
    parts.named("mode", known.text("journal_mode"));
    let most = known.number("journal_transaction_max_blocks");
    parts.value(most.map(|count| format!("up to {} per transaction", counted(count, "block"))));
    parts
}

fn stripes(known: &Known<'_>) -> Parts {
    let mut parts = Parts::default();
    parts.named("unit", known.bytes("stripe_unit_bytes"));
    parts.named("width", known.bytes("stripe_width_bytes"));
    parts
}
