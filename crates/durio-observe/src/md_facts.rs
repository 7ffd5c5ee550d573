//! What an array is, in words: its layout, and where each member stands.
//!
//! In: the array's directory in sysfs. Out: named values. Not here: files that hold a value as it is
//! told (`layer_facts`).
//!
//! Numbers of layouts are those of the kernel's drivers/md (`raid10.c`, `raid5.h`, `raid0.h`).

use crate::Fact;
use crate::system_dir::SystemDir;

/// `layout_words`, and of each member `slot_NAME` and, if there were any, `errors_NAME`.
pub(crate) fn md_facts(dir: &SystemDir) -> Vec<Fact> {
    let mut facts: Vec<Fact> = layout_words(dir).into_iter().collect();
    for member in dir.names("md").into_iter().filter_map(|name| name.into_string().ok()) {
        let Some(device) = member.strip_prefix("dev-") else { continue };
        let slot = dir.text(format!("md/{member}/slot"));
        facts.extend(slot.map(|slot| Fact::new(format!("slot_{device}"), slot)));
        let errors = dir.text(format!("md/{member}/errors")).filter(|count| count != "0");
        facts.extend(errors.map(|count| Fact::new(format!("errors_{device}"), count)));
    }
    facts
}

fn layout_words(dir: &SystemDir) -> Option<Fact> {
    let layout = dir.number("md/layout")?;
    let words = match dir.text("md/level")?.as_str() {
        "raid10" => raid10(layout),
        "raid0" => raid0(layout).map(str::to_owned),
        "raid4" | "raid5" | "raid6" => parity(layout).map(str::to_owned),
        _ => None,
    };
    words.map(|words| Fact::new("layout_words", words))
}

/// Near copies in the lowest byte, far ones in the next; bit 16 puts far copies into the next chunk.
fn raid10(layout: u32) -> Option<String> {
    let (near, far, is_offset) = (layout & 0xff, layout >> 8 & 0xff, layout & 0x1_0000 != 0);
    match (near, far) {
        (0, _) | (_, 0) => None,
        (near, 1) => Some(format!("n{near}")),
        (1, far) if is_offset => Some(format!("o{far}")),
        (1, far) => Some(format!("f{far}")),
        (near, far) if is_offset => Some(format!("n{near}o{far}")),
        (near, far) => Some(format!("n{near}f{far}")),
    }
}

/// How members of unequal size are filled, which changed by mistake in Linux 3.14.
fn raid0(layout: u32) -> Option<&'static str> {
    match layout {
        1 => Some("original"),
        2 => Some("alternate"),
        _ => None,
    }
}

/// Where parity and data stand in each stripe.
fn parity(layout: u32) -> Option<&'static str> {
    Some(match layout {
        0 => "left-asymmetric",
        1 => "right-asymmetric",
        2 => "left-symmetric",
        3 => "right-symmetric",
        4 => "parity-first",
        5 => "parity-last",
        8 => "ddf-zero-restart",
        9 => "ddf-N-restart",
        10 => "ddf-N-continue",
        16 => "left-asymmetric-6",
        17 => "right-asymmetric-6",
        18 => "left-symmetric-6",
        19 => "right-symmetric-6",
        20 => "parity-first-6",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn layouts_of_ten_are_written_as_their_makers_write_them() {
        let rows = [
            (0x102, Some("n2")),
            (0x103, Some("n3")),
            (0x201, Some("f2")),
            (0x1_0201, Some("o2")),
            (0x2_0201, Some("f2")),
            (0x202, Some("n2f2")),
            (0, None),
            (0x101, Some("n1")),
        ];
        for (layout, words) in rows {
            assert_eq!(raid10(layout).as_deref(), words, "{layout:#x}");
        }
    }

    #[test]
    fn an_array_tells_its_layout_and_its_members() {
        let fixture = Fixture::new();
        for (file, content) in [
            ("level", "raid5"),
            ("layout", "2"),
            ("dev-sda/slot", "0"),
            ("dev-sda/errors", "0"),
            ("dev-sdb/slot", "none"),
            ("dev-sdb/errors", "7"),
        ] {
            fixture.file(&format!("sys/block/md0/md/{file}"), format!("{content}\n"));
        }
        let facts = md_facts(&fixture.root().join("sys/block/md0"));
        let expected = [
            Fact::new("layout_words", "left-symmetric"),
            Fact::new("slot_sda", "0"),
            Fact::new("slot_sdb", "none"),
            Fact::new("errors_sdb", "7"),
        ];
        assert_eq!(facts, expected);
    }

    #[test]
    fn a_level_without_layouts_tells_none() {
        let fixture = Fixture::new();
        fixture.file("sys/block/md0/md/level", "raid1\n");
        fixture.file("sys/block/md0/md/layout", "0\n");
        assert_eq!(md_facts(&fixture.root().join("sys/block/md0")), []);
        fixture.file("sys/block/md0/md/level", "raid5\n");
        fixture.file("sys/block/md0/md/layout", "99\n");
        assert_eq!(md_facts(&fixture.root().join("sys/block/md0")), []);
    }
}
