//! Whether an array of md can be made. Source of the rules, unless said otherwise: mdadm(8) and
//! the checks of mdadm's Create.c, md(4) for what each level survives.
//!
//! Takes a declared array and the devices of its group; gives the devices for the next layer, or a
//! fault.

use super::{DeclaredMd, MdBitmap};
use crate::check::DeviceGroup;
use crate::kinds::prelude::*;

// mdadm keeps the number of chunk sectors in 32 bits; chunks of this size are not used in practice.
const MOST_CHUNK: Bytes = Bytes::from_gib(1);

/// The words of mdadm(8), `--layout`: first those of RAID 5, then those of RAID 6 alone.
#[rustfmt::skip]
const PARITY_LAYOUTS: &[&str] = &[
    "left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric", "la", "ra", "ls",
    "rs", "parity-first", "parity-last", "ddf-zero-restart", "ddf-N-restart", "ddf-N-continue",
    "left-asymmetric-6", "right-asymmetric-6", "left-symmetric-6", "right-symmetric-6",
    "parity-first-6",
];

/// How many of them RAID 5 has.
const RAID5_LAYOUTS: usize = 10;

pub(super) fn check(md: &DeclaredMd, group: DeviceGroup) -> Result<Below, CheckFault> {
    let members = members(md, group)?;
    let copies = layout(md, members)?;
    chunk(md)?;
    policy(md)?;
    removed(md, members, copies)?;
    at_least(least_size(md), group.size, "of each device")?;
    Ok(group.joined(data_members(md.level, members, copies)))
}

/// Room for superblock, bitmap, log and a chunk.
fn least_size(md: &DeclaredMd) -> Bytes {
    // mdadm reserves 1 MiB of small devices (mdadm, super1.c) and rounds the rest down to chunks.
    // A device must hold a chunk as well as the metadata, and mdadm's default is 512 KiB.
    let chunk = md.chunk.unwrap_or(Bytes::from_kib(512)).get();
    let bitmap =
        if matches!(md.bitmap, MdBitmap::None | MdBitmap::External(_)) { 0 } else { 1 << 20 };
    Bytes::new((4_u64 << 20).saturating_add(chunk).saturating_add(bitmap))
}

/// The devices that hold data: all but the journal.
fn members(md: &DeclaredMd, group: DeviceGroup) -> Result<u32, CheckFault> {
    let level = md.level;
    let least = match level {
        // md makes level 5 of two devices too: a mirror in another form.
        0 | 1 | 4 | 5 | 10 => 2,
        6 => 4,
        _ => return Err(format!("md has no level {level}; say 0, 1, 4, 5, 6 or 10")),
    };
    if md.journal && !matches!(level, 4..=6) {
        return Err(format!(
            "level {level} has no journal device; only levels 4, 5 and 6 have one"
        ));
    }
    let members = group.devices.saturating_sub(u32::from(md.journal));
    if members < least {
        let beside = if md.journal { " in addition to the journal" } else { "" };
        return Err(format!(
            "level {level} needs at least {least} devices{beside}, but has {members}"
        ));
    }
    Ok(members)
}

/// The copies of each block: of level 10 as its layout says, all of level 1.
fn layout(md: &DeclaredMd, members: u32) -> Result<u32, CheckFault> {
    let level = md.level;
    let Some(layout) = &md.layout else {
        return Ok(default_copies(level, members));
    };
    let parity = |count: usize| PARITY_LAYOUTS.iter().take(count).any(|word| word == layout);
    let known = match level {
        10 => return copies(layout, members),
        0 => ["original", "alternate"].contains(&layout.as_str()),
        5 => parity(RAID5_LAYOUTS),
        6 => parity(PARITY_LAYOUTS.len()),
        _ => false,
    };
    if !known {
        return Err(match level {
            0 => format!("level 0 has no layout '{layout}'; leave it out"),
            5 | 6 => format!(
                "level {level} has no layout '{layout}'; use left-symmetric, or leave it out"
            ),
            _ => format!("level {level} has no layouts; leave it out"),
        });
    }
    Ok(default_copies(level, members))
}

const fn default_copies(level: u8, members: u32) -> u32 {
    match level {
        1 => members,
        10 => 2,
        _ => 1,
    }
}

fn copies(layout: &str, members: u32) -> Result<u32, CheckFault> {
    let mut letters = layout.chars();
    let form = letters.next().filter(|letter| "nfo".contains(*letter));
    let copies = letters.as_str().parse::<u32>().ok().filter(|_| form.is_some());
    match copies {
        // One copy is not redundancy, and each copy needs a separate member.
        Some(copies) if (2..=members).contains(&copies) => Ok(copies),
        Some(copies) => Err(format!(
            "layout '{layout}' asks for {copies} copies; {members} devices allow 2 to {members}"
        )),
        None => Err(format!("level 10 has no layout '{layout}'; use n2, f2, o2 or similar")),
    }
}

fn chunk(md: &DeclaredMd) -> Result<(), CheckFault> {
    match (md.level, md.chunk) {
        (_, None) => Ok(()),
        (1, Some(_)) => Err("level 1 has no chunks; leave the chunk out".into()),
        (0, Some(chunk)) => raid0_chunk(chunk),
        (_, Some(chunk)) => power_of_two(chunk, "the chunk", MOST_CHUNK),
    }
}

/// Level 0 alone takes any multiple of 4 KiB.
fn raid0_chunk(chunk: Bytes) -> Result<(), CheckFault> {
    let page = Bytes::from_kib(4);
    if chunk.get() > 0 && chunk.is_multiple_of(page) && chunk <= MOST_CHUNK {
        return Ok(());
    }
    Err(format!("the chunk, {chunk}, is not a multiple of {page} up to {MOST_CHUNK}"))
}

/// Bitmap, partial parity log and journal exclude each other: each is an array's one consistency
/// policy.
fn policy(md: &DeclaredMd) -> Result<(), CheckFault> {
    let bitmap = md.bitmap != MdBitmap::None;
    if bitmap && md.level == 0 {
        return Err("level 0 has no redundancy and so no bitmap; use bitmap none".into());
    }
    if md.ppl && md.level != 5 {
        return Err(format!("the partial parity log is of level 5 alone, not {}", md.level));
    }
    if [bitmap, md.ppl, md.journal].iter().filter(|policy| **policy).count() > 1 {
        return Err("bitmap, ppl and journal exclude each other; choose one".into());
    }
    match (&md.bitmap, md.bitmap_chunk) {
        (MdBitmap::None, Some(_)) => {
            return Err("a bitmap chunk is declared, but no bitmap".into());
        }
        (_, Some(chunk)) => power_of_two(chunk, "the chunk of the bitmap", MOST_CHUNK)?,
        _ => (),
    }
    match &md.bitmap {
        MdBitmap::External(file) if !file.starts_with('/') => {
            Err(format!("the bitmap's file, '{file}', is not an absolute path"))
        }
        MdBitmap::External(file) if Path::new(file).file_name().is_none() => {
            Err(format!("the bitmap's file, '{file}', has no name; use external:/FOLDER/FILE"))
        }
        _ => Ok(()),
    }
}

/// No more members are removed than the level survives.
fn removed(md: &DeclaredMd, members: u32, copies: u32) -> Result<(), CheckFault> {
    let survives = match md.level {
        1 => members.saturating_sub(1),
        4 | 5 => 1,
        6 => 2,
        // Copies of one block lie on neighbours, so of those at the end one must be left.
        10 => copies.saturating_sub(1),
        _ => 0,
    };
    if md.removed > survives {
        let (level, removed) = (md.level, md.removed);
        return Err(format!(
            "level {level} survives {survives} removed members here, not {removed}"
        ));
    }
    Ok(())
}

/// An upper limit of the array's size in sizes of a member.
fn data_members(level: u8, members: u32, copies: u32) -> u32 {
    match level {
        1 => 1,
        4 | 5 => members.saturating_sub(1),
        6 => members.saturating_sub(2),
        // Rounded up, as an upper limit: md lays copies out over an odd number of members as
        // well.
        10 => members.div_ceil(copies.max(1)),
        _ => members,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeclaredKind;
    use crate::tests::stacks::{md, on_loops};

    fn array(count: u32, md: DeclaredMd) -> Result<(), String> {
        on_loops(count, 64, DeclaredKind::Md(md))
    }

    #[test]
    fn an_array_has_the_members_that_its_level_needs() {
        for (level, least) in [(0, 2), (1, 2), (4, 2), (5, 2), (6, 4), (10, 2)] {
            assert!(array(least, md(level)).is_ok(), "level {level}");
            let error = array(least - 1, md(level)).unwrap_err();
            assert!(error.contains(&format!("needs at least {least} devices")), "{error}");
        }
        assert!(array(4, md(7)).unwrap_err().contains("no level 7"));
        let journal = |level| DeclaredMd { journal: true, ..md(level) };
        assert!(array(5, journal(6)).is_ok());
        assert!(
            array(4, journal(6))
                .unwrap_err()
                .contains("at least 4 devices in addition to the journal, but has 3")
        );
        assert!(array(4, journal(10)).unwrap_err().contains("no journal device"));
    }

    #[test]
    fn a_layout_belongs_to_its_level_and_its_copies_fit() {
        let with = |level, layout: &str| DeclaredMd { layout: Some(layout.into()), ..md(level) };
        for layout in ["n2", "f2", "o2", "n3", "o4"] {
            assert!(array(4, with(10, layout)).is_ok(), "{layout}");
        }
        for layout in ["", "n", "2", "x2", "n1", "n-2", "n99999999999", "é2", "n5"] {
            assert!(array(4, with(10, layout)).is_err(), "{layout}");
        }
        assert!(
            array(4, with(10, "f5"))
                .unwrap_err()
                .contains("asks for 5 copies; 4 devices allow 2 to 4")
        );
        assert!(array(4, with(5, "left-symmetric")).is_ok() && array(4, with(5, "n2")).is_err());
        assert!(
            array(4, with(6, "ddf-N-restart")).is_ok()
                && array(4, with(5, "ddf-N-restart")).is_err()
        );
        assert!(array(2, with(1, "n2")).is_err() && array(2, with(0, "original")).is_ok());
    }

    #[test]
    fn a_chunk_is_a_power_of_two_from_a_page_up_except_with_level_0() {
        let with = |level, chunk| DeclaredMd { chunk: Some(Bytes::new(chunk)), ..md(level) };
        for level in [4, 5, 6, 10] {
            assert!(array(4, with(level, 4096)).is_ok() && array(4, with(level, 65536)).is_ok());
            for chunk in [0, 512, 2048, 12288, 4097, 1 << 40] {
                assert!(array(4, with(level, chunk)).is_err(), "{chunk} with {level}");
            }
        }
        assert!(array(4, with(0, 12288)).is_ok() && array(4, with(0, 5000)).is_err());
        assert!(array(4, with(0, 0)).is_err() && array(2, with(1, 65536)).is_err());
    }

    #[test]
    fn there_is_one_consistency_policy_and_the_level_has_it() {
        let bitmap = |level| DeclaredMd { bitmap: MdBitmap::Internal, ..md(level) };
        assert!(
            array(4, bitmap(1)).is_ok() && array(4, bitmap(0)).unwrap_err().contains("no bitmap")
        );
        let ppl = |level| DeclaredMd { ppl: true, ..md(level) };
        assert!(array(4, ppl(5)).is_ok() && array(4, ppl(6)).is_err());
        assert!(
            array(4, DeclaredMd { ppl: true, ..bitmap(5) }).unwrap_err().contains("choose one")
        );
        assert!(array(4, DeclaredMd { journal: true, ..bitmap(5) }).is_err());
        let external = MdBitmap::External("bitmap".into());
        assert!(
            array(4, DeclaredMd { bitmap: external, ..md(1) }).unwrap_err().contains("absolute")
        );
        let chunk = Some(Bytes::from_mib(1));
        assert!(array(4, DeclaredMd { bitmap_chunk: chunk, ..md(1) }).is_err());
        assert!(array(4, DeclaredMd { bitmap_chunk: chunk, ..bitmap(1) }).is_ok());
    }

    #[test]
    fn no_more_members_are_removed_than_the_level_survives() {
        let with = |level, removed| DeclaredMd { removed, ..md(level) };
        for (level, survives) in [(0, 0), (1, 3), (4, 1), (5, 1), (6, 2), (10, 1)] {
            assert!(array(4, with(level, survives)).is_ok(), "level {level}");
            let error = array(4, with(level, survives + 1)).unwrap_err();
            assert!(error.contains(&format!("survives {survives} removed")), "{error}");
        }
        let three = DeclaredMd { layout: Some("n3".into()), ..with(10, 2) };
        assert!(array(6, three).is_ok());
    }

    #[test]
    fn data_has_as_many_members_as_the_copies_and_parities_leave() {
        for (level, members, copies, expected) in [
            (0, 5, 1, 5),
            (1, 3, 3, 1),
            (4, 5, 1, 4),
            (5, 3, 1, 2),
            (6, 7, 1, 5),
            (10, 4, 2, 2),
            // An odd number of members, and copies that do not divide them.
            (10, 5, 2, 3),
            (10, 7, 3, 3),
            (10, 8, 3, 3),
        ] {
            let found = data_members(level, members, copies);
            assert_eq!(found, expected, "level {level}, {members} members, {copies} copies");
        }
    }

    #[test]
    fn a_member_has_room_for_the_metadata_a_chunk_and_the_bitmap() {
        let least = |md: &DeclaredMd| least_size(md).get();
        // mdadm's own chunk.
        assert_eq!(least(&md(5)), (4 << 20) + (512 << 10));
        let chunk = Some(Bytes::from_mib(2));
        assert_eq!(least(&DeclaredMd { chunk, ..md(5) }), 6 << 20);
        let bitmap = MdBitmap::Internal;
        assert_eq!(least(&DeclaredMd { chunk, bitmap, ..md(5) }), 7 << 20);
        let bitmap = MdBitmap::External("/b/file".into());
        assert_eq!(least(&DeclaredMd { chunk, bitmap, ..md(5) }), 6 << 20);
        let on = |mib, md| on_loops(4, mib, DeclaredKind::Md(md)).is_ok();
        let internal = || DeclaredMd { chunk, bitmap: MdBitmap::Internal, ..md(5) };
        assert!(on(6, DeclaredMd { chunk, ..md(5) }) && !on(5, DeclaredMd { chunk, ..md(5) }));
        assert!(on(7, internal()) && !on(6, internal()));
    }
}
