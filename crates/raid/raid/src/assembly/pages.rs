//! The map and the log of an array at a start: regions that may differ, and parities whose writes may be
//! incomplete.

use super::FoundDevice;
use crate::geometry::{BLOCK, Geometry};
use crate::log_entry::LogEntry;
use crate::map_page::{self, DIRTY, PageName, REGIONS_PER_PAGE, STALE, regions_per_page};
use crate::superblock::{MemberEntry, MemberState, MemberTable};
use crate::{Fault, layout};

/// A page of the map as found.
#[derive(Debug, Clone)]
pub(crate) struct PlannedPage {
    pub(crate) generation: u64,
    /// The marks of any copy in sync.
    pub(crate) any: Vec<u8>,
    pub(crate) all: Vec<u8>,
    /// No copy in sync has it.
    pub(crate) is_lost: bool,
    /// The slot to write next on each copy, a replacement last; `None` if it has no whole page.
    pub(crate) next_slots: Vec<Option<u8>>,
}

/// Why a parity may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The write of this entry may be incomplete.
    Entry(LogEntry),
    /// The slot of the stripe that begins here is unreadable.
    Lost(u64),
}

impl Doubt {
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Entry(entry) => entry.number,
            Self::Lost(_) => 0,
        }
    }
}

pub(super) fn plan_pages(
    table: &MemberTable,
    devices: &[Option<&FoundDevice>],
) -> Vec<PlannedPage> {
    let mut planned = Vec::new();
    for set in 0..table.geometry.sets() {
        let of_set = (0..table.entries.len()).filter(|&at| table.set_of(at) == Some(set));
        let copies: Vec<_> = of_set.map(|at| (table.entries[at], devices[at])).collect();
        for page in 0..layout::map_pages(&table.geometry) {
            let name = PageName { array: table.array, set, page };
            planned.push(plan_page(name, &copies));
        }
    }
    planned
}

/// Parities whose writes may be incomplete: where the map is dirty, entries of members in sync,
/// written since they became so, and stripes with unreadable slots.
pub(super) fn doubts(
    table: &MemberTable,
    devices: &[Option<&FoundDevice>],
    pages: &[PlannedPage],
    fault: Option<Fault>,
) -> Vec<(u8, Doubt)> {
    let geometry = &table.geometry;
    if geometry.level.parities() == 0 {
        return Vec::new();
    }
    let mut doubts = Vec::new();
    for ((role, entry), device) in (0_u8..).zip(&table.entries).zip(devices) {
        let in_sync = device.filter(|_| entry.state == MemberState::InSync);
        let Some(FoundDevice { log, .. }) = in_sync else { continue };
        let is_alive = |page: &&LogEntry| {
            let is_of_member = page.array == table.array && page.member == entry.member;
            // Written before the member was away.
            let is_late = page.epoch >= entry.since || Fault::StaleLogReplayed.is_in(fault);
            is_of_member && is_late && is_sound(geometry, role, page)
        };
        let alive = log.entries.iter().filter(is_alive);
        let alive = alive.filter(|logged| is_dirty_at(geometry, pages, logged.offset, fault));
        doubts.extend(alive.map(|logged| (role, Doubt::Entry(*logged))));
        if log.lost.is_empty() {
            continue;
        }
        let stripes = (0..geometry.member_bytes).step_by(geometry.chunk as usize);
        let has_parity = |offset: u64| {
            let stripe = geometry.stripe(offset);
            (0..geometry.level.parities()).any(|number| stripe.parity(number) == role)
        };
        let is_lost = |offset: &u64| {
            let is_in_slot = log.lost.contains(&layout::log_slot_of(geometry, *offset));
            is_in_slot && has_parity(*offset) && is_dirty_at(geometry, pages, *offset, fault)
        };
        doubts.extend(stripes.filter(is_lost).map(|offset| (role, Doubt::Lost(offset))));
    }
    doubts
}

/// Whether a member of this role can have written it.
pub(super) fn is_sound(geometry: &Geometry, role: u8, entry: &LogEntry) -> bool {
    let stripe = geometry.stripe(entry.offset);
    let within = entry.offset & u64::from(geometry.chunk - 1);
    entry.parity < geometry.level.parities()
        && stripe.parity(entry.parity) == role
        && entry.column < stripe.columns()
        && entry.length > 0
        && within + u64::from(entry.length) <= u64::from(geometry.chunk)
        && entry.offset < geometry.member_bytes
}

fn is_dirty_at(
    geometry: &Geometry,
    pages: &[PlannedPage],
    offset: u64,
    fault: Option<Fault>,
) -> bool {
    let region = (offset / geometry.region) as u32;
    let page = match Fault::FirstPageDoubted.is_in(fault) {
        true => 0,
        false => region / regions_per_page(),
    };
    let page = pages.get(page as usize);
    page.is_some_and(|page| page.any[(region % regions_per_page()) as usize] & DIRTY != 0)
}

pub(super) fn plan_page(
    name: PageName,
    copies: &[(MemberEntry, Option<&FoundDevice>)],
) -> PlannedPage {
    let count = regions_per_page() as usize;
    let (any, all) = (vec![0; count], vec![u8::MAX; count]);
    let next_slots = Vec::new();
    let mut planned = PlannedPage { generation: 0, any, all, is_lost: true, next_slots };
    for (entry, device) in copies {
        let newest = device.and_then(|device| newest_page(name, &device.map));
        planned.next_slots.push(newest.map(|(_, _, slot)| 1 - slot));
        planned.generation =
            planned.generation.max(newest.map_or(0, |(generation, _, _)| generation));
        if entry.state != MemberState::InSync {
            // Data written only to this member, before it was away or in a rebuild, is copied over
            // too.
            let bytes = newest.map(|(_, bytes, _)| bytes);
            let is_rebuilt = entry.state == MemberState::Rebuilding;
            if is_rebuilt && entry.by_map {
                planned.any.iter_mut().zip(marks_of(bytes)).for_each(|(to, byte)| *to |= byte);
            }
            // It stays dirty: pages are written before the first superblock, and if that is not
            // written, the member may be in sync by the table before.
            if is_rebuilt {
                let own = bytes.unwrap_or_default().iter().map(|byte| byte & DIRTY);
                planned.any.iter_mut().zip(own).for_each(|(to, byte)| *to |= byte);
            }
            continue;
        }
        planned.is_lost &= newest.is_none();
        // All regions of a lost page may be dirty.
        let bytes = newest.map_or(&[DIRTY; REGIONS_PER_PAGE as usize][..], |(_, bytes, _)| bytes);
        planned.any.iter_mut().zip(bytes).for_each(|(to, byte)| *to |= byte);
        planned.all.iter_mut().zip(bytes).for_each(|(to, byte)| *to &= byte);
    }
    planned
}

/// The regions marked by a member that was away, as stale ones; all regions of a lost page.
fn marks_of(page: Option<&[u8]>) -> impl Iterator<Item = u8> {
    let byte_at = move |at: usize| page.map_or(DIRTY, |bytes| bytes[at]);
    (0..regions_per_page() as usize).map(move |at| if byte_at(at) == 0 { 0 } else { STALE })
}

/// The same for a page of its whole map.
pub(crate) fn own_marks(name: PageName, map: &[u8]) -> OwnMarks<impl Iterator<Item = u8>> {
    let newest = newest_page(name, map);
    OwnMarks {
        marks: marks_of(newest.map(|(_, bytes, _)| bytes)),
        next: newest.map_or(0, |(_, _, slot)| 1 - slot),
        generation: newest.map_or(0, |(generation, ..)| generation),
    }
}

/// A page of a member that was away.
pub(crate) struct OwnMarks<Marks> {
    pub(crate) marks: Marks,
    /// The slot that is written next.
    pub(crate) next: u8,
    pub(crate) generation: u64,
}

/// Generation, bytes and slot of the newest whole page.
pub(super) fn newest_page(name: PageName, map: &[u8]) -> Option<(u64, &[u8], u8)> {
    let block = BLOCK as usize;
    let slots = map.chunks_exact(block).skip(name.page as usize * 2).take(2);
    let whole = (0_u8..).zip(slots).filter_map(|(slot, bytes)| {
        map_page::decode(name, bytes).map(|(generation, regions)| (generation, regions, slot))
    });
    whole.max_by_key(|(generation, ..)| *generation)
}
