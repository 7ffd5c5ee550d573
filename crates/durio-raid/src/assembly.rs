//! Which of the devices that are there make the array.
//!
//! In: superblocks and maps of devices. Out: a [`Plan`] of which member is trusted, or why the array
//! does not start. Not here: reading; writing the next epoch, which the engine does first of all.
//!
//! The newest table decides. A member that it has in sync is trusted if its own table is an ancestor of
//! the newest, and not older than the last that enough members had: nothing was acknowledged under those
//! between. A table that is no ancestor was made by members that went on apart, and nothing starts until
//! one side is left out. More than half of the members that the newest table has in sync must be there: a
//! table that came later was stored by at least half of them, so one of those that are there would know.

use crate::geometry::BLOCK;
use crate::map_page::{self, DIRTY, PageName, REGIONS_PER_PAGE, STALE};
use crate::superblock::{Entry, MemberState, Relation, Superblock, Table};
use crate::{Fault, layout};

/// A device with a superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// How the caller names it.
    pub device: u8,
    /// Its newest superblock.
    pub superblock: Superblock,
    /// In which slots of both pairs that was.
    pub slot: u8,
    /// Its map: [`layout::map_bytes`] from [`layout::map_slot`] of page 0 on. Of a page that cannot be
    /// read, zeros.
    pub map: Vec<u8>,
}

/// What is permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AssembleOptions {
    /// Start without a majority. Whoever asks for this gives up what members that are not here
    /// acknowledged alone.
    pub force: bool,
    /// Take members back that were away.
    pub rejoin: bool,
    /// What is wrong on purpose; without the feature `simulate` it is not looked at.
    pub fault: Option<Fault>,
}

/// Why an array does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// No superblock.
    #[error("no member of an array is here")]
    Nothing,
    /// Superblocks of several arrays.
    #[error("the devices belong to different arrays: name those of one")]
    Mixed,
    /// Two devices say that they are the same member.
    #[error("devices {0} and {1} are the same member: one is a copy of the other; leave one out")]
    Cloned(u8, u8),
    /// Members went on without each other.
    #[error(
        "device {0} went on without the others: leave it out or leave the others out, and what \
         was written there is given up"
    )]
    Diverged(u8),
    /// Too few for all of the data.
    #[error("set {0} has no member in sync: bring one of its members back")]
    Incomplete(u8),
    /// Too few to know that nothing newer is elsewhere.
    #[error(
        "{present} of {voters} members in sync are here: others may have gone on; bring more back, \
         or force it and give up what they acknowledged"
    )]
    NoMajority {
        /// Trusted members that are here.
        present: u8,
        /// Members in sync by the newest table.
        voters: u8,
    },
}

/// How an array starts.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) table: Table,
    /// Roles that were in sync by the last table that counts for sure; half of them must store the next.
    pub(crate) voters: [u64; 2],
    /// The device of each entry.
    pub(crate) devices: Vec<Option<Present>>,
    /// Pages of the map, by set and page.
    pub(crate) pages: Vec<PlannedPage>,
}

/// A device in its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) device: u8,
    pub(crate) bytes: u64,
    /// The slot of each pair that is written next.
    pub(crate) next_slot: u8,
}

/// A page of the map as it was found.
#[derive(Debug, Clone)]
pub(crate) struct PlannedPage {
    pub(crate) generation: u64,
    /// What any copy in sync says.
    pub(crate) any: Vec<u8>,
    /// What all say.
    pub(crate) all: Vec<u8>,
    /// The slot that is written next on each copy; none if it has no whole page.
    pub(crate) next_slots: Vec<Option<u8>>,
}

/// Decides.
///
/// # Errors
/// [`AssembleError`]; then nothing is to be written.
pub fn assemble(found: &[Found], options: AssembleOptions) -> Result<Plan, AssembleError> {
    let newest = newest_of(found)?;
    let mut table = newest.superblock.table.clone();
    table.revision = found.iter().map(|it| it.superblock.table.revision).max().unwrap_or(0);
    if !Fault::SplitHalvesJoined.is_in(options.fault) {
        refuse_diverged(found, &table)?;
    }
    let voters = in_sync(&table);
    let device_of = |entry: &Entry| found.iter().find(|it| it.superblock.member == entry.member);
    let devices: Vec<Option<&Found>> = table.entries.iter().map(device_of).collect();
    let newest = table.clone();
    for (entry, device) in table.entries.iter_mut().zip(&devices) {
        settle(entry, device.map(|it| &it.superblock.table), &newest, options);
    }
    refuse_too_few(&table, voters, options.force)?;
    let is_used = |entry: &Entry| entry.state != MemberState::Faulty;
    let present = table.entries.iter().zip(&devices).map(|(entry, device)| {
        device.filter(|_| is_used(entry)).map(|it| Present {
            device: it.device,
            bytes: it.superblock.device_bytes,
            next_slot: 1 - it.slot,
        })
    });
    let present = present.collect();
    let pages = pages(&table, &devices);
    // The newest table may not count yet: half of those before it must store the next.
    // And it may count: half of its own, too.
    let voters = if options.force { [0; 2] } else { [table.voters, voters] };
    Ok(Plan { voters, devices: present, pages, table })
}

fn newest_of(found: &[Found]) -> Result<&Found, AssembleError> {
    let rank = |it: &&Found| (it.superblock.table.epoch, it.superblock.table.revision);
    let newest = found.iter().max_by_key(rank).ok_or(AssembleError::Nothing)?;
    let array = newest.superblock.table.array;
    if found.iter().any(|it| it.superblock.table.array != array) {
        return Err(AssembleError::Mixed);
    }
    for (at, one) in found.iter().enumerate() {
        let twin = found[..at].iter().find(|it| it.superblock.member == one.superblock.member);
        if let Some(twin) = twin {
            return Err(AssembleError::Cloned(twin.device, one.device));
        }
    }
    Ok(newest)
}

/// Every table that is here must be one from which the newest was made, or too old to know.
fn refuse_diverged(found: &[Found], newest: &Table) -> Result<(), AssembleError> {
    let went_on = |it: &&Found| newest.relation_of(&it.superblock.table) == Relation::Diverged;
    found.iter().find(went_on).map_or(Ok(()), |it| Err(AssembleError::Diverged(it.device)))
}

/// The state in which a member starts; `own` is its table, if it is here.
fn settle(entry: &mut Entry, own: Option<&Table>, newest: &Table, options: AssembleOptions) {
    let is_ancestor = own.is_some_and(|it| newest.relation_of(it) != Relation::Unknown);
    let is_current = is_ancestor && own.is_some_and(|it| it.epoch >= newest.committed);
    let since = newest.epoch + 1;
    match entry.state {
        MemberState::Spare => return,
        MemberState::InSync | MemberState::Rebuilding if is_current => return,
        MemberState::InSync => {
            *entry = Entry { state: MemberState::Faulty, by_map: true, since, ..*entry };
        }
        MemberState::Rebuilding => *entry = Entry { state: MemberState::Faulty, since, ..*entry },
        MemberState::Faulty => {}
    }
    if own.is_some() && Fault::StaleMemberTrusted.is_in(options.fault) {
        *entry = Entry { state: MemberState::InSync, since, ..*entry };
    } else if is_ancestor && options.rejoin {
        *entry = Entry { state: MemberState::Rebuilding, since, watermark: 0, ..*entry };
    }
}

fn refuse_too_few(table: &Table, voters: u64, force: bool) -> Result<(), AssembleError> {
    let trusted = in_sync(table);
    let copies = table.geometry.copies();
    for set in 0..table.geometry.sets() {
        let of_set = ((1_u64 << copies) - 1) << (set * copies);
        let needed = if copies == 1 { of_set } else { trusted & of_set };
        if needed == 0 || trusted & needed != needed {
            return Err(AssembleError::Incomplete(set));
        }
    }
    let (present, voters) = ((trusted & voters).count_ones(), voters.count_ones());
    if !force && present * 2 <= voters {
        let small = |count: u32| u8::try_from(count).unwrap_or(u8::MAX);
        return Err(AssembleError::NoMajority { present: small(present), voters: small(voters) });
    }
    Ok(())
}

/// A bit for each entry in sync.
pub(crate) fn in_sync(table: &Table) -> u64 {
    let bits = (0..).zip(&table.entries).filter(|(_, it)| it.state == MemberState::InSync);
    bits.fold(0, |bits, (at, _)| bits | 1_u64 << at)
}

fn pages(table: &Table, devices: &[Option<&Found>]) -> Vec<PlannedPage> {
    let copies = usize::from(table.geometry.copies());
    let mut planned = Vec::new();
    for set in 0..table.geometry.sets() {
        let first = usize::from(set) * copies;
        for page in 0..layout::map_pages(&table.geometry) {
            let name = PageName { array: table.array, set, page };
            let roles = &table.entries[first..first + copies];
            planned.push(plan_page(name, roles, &devices[first..first + copies]));
        }
    }
    planned
}

fn plan_page(name: PageName, roles: &[Entry], devices: &[Option<&Found>]) -> PlannedPage {
    let count = REGIONS_PER_PAGE as usize;
    let (any, all) = (vec![0; count], vec![u8::MAX; count]);
    let mut planned = PlannedPage { generation: 0, any, all, next_slots: Vec::new() };
    for (entry, device) in roles.iter().zip(devices) {
        let newest = device.and_then(|it| newest_page(name, &it.map));
        planned.next_slots.push(newest.map(|(_, _, slot)| 1 - slot));
        planned.generation = planned.generation.max(newest.map_or(0, |(it, _, _)| it));
        if entry.state != MemberState::InSync {
            // What was written to it alone, before it was away, is copied over too.
            if entry.by_map && entry.state == MemberState::Rebuilding {
                let own = marks_of(newest.map(|(_, bytes, _)| bytes));
                planned.any.iter_mut().zip(own).for_each(|(to, byte)| *to |= byte);
            }
            continue;
        }
        // Of a page that is lost, all may be dirty.
        let bytes = newest.map_or(&[DIRTY; REGIONS_PER_PAGE as usize][..], |(_, bytes, _)| bytes);
        planned.any.iter_mut().zip(bytes).for_each(|(to, byte)| *to |= byte);
        planned.all.iter_mut().zip(bytes).for_each(|(to, byte)| *to &= byte);
    }
    planned
}

/// The regions that a member that was away names itself, as stale ones; all of a page that is lost.
fn marks_of(page: Option<&[u8]>) -> impl Iterator<Item = u8> {
    let byte_at = move |at: usize| page.map_or(DIRTY, |bytes| bytes[at]);
    (0..REGIONS_PER_PAGE as usize).map(move |at| if byte_at(at) == 0 { 0 } else { STALE })
}

/// The same for a page of its whole map, and the slot that is written next.
pub(crate) fn own_marks(name: PageName, map: &[u8]) -> (impl Iterator<Item = u8>, u8) {
    let newest = newest_page(name, map);
    (marks_of(newest.map(|(_, bytes, _)| bytes)), newest.map_or(0, |(_, _, slot)| 1 - slot))
}

/// Generation, bytes and slot of the newest whole page.
fn newest_page(name: PageName, map: &[u8]) -> Option<(u64, &[u8], u8)> {
    let block = BLOCK as usize;
    let slots = map.chunks_exact(block).skip(name.page as usize * 2).take(2);
    let whole = (0_u8..).zip(slots).filter_map(|(slot, bytes)| {
        map_page::decode(name, bytes).map(|(generation, regions)| (generation, regions, slot))
    });
    whole.max_by_key(|(generation, ..)| *generation)
}
