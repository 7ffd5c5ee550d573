//! Decides which of the present devices form the array.
//!
//! Takes superblocks and maps of devices; returns a [`StartPlan`] of which member is trusted, or why the
//! array does not start. The engine writes the next epoch before anything else.
//!
//! The newest table decides. A member that it has in sync is trusted if its own table is an
//! ancestor of the newest, and not older than the last table known to count: nothing was
//! acknowledged under the tables between. A table that is not an ancestor was made by members that
//! continued separately, and nothing starts until one side is left out.
//!
//! More than half of the members that the newest table has in sync must be present: at least half
//! of them stored any later table, so one of those present would know it. If the newest table is
//! not known to count, the same is required of its base, the table before it, because others may
//! have continued from there; and the newest is stored again before the next is made.
//! docs/design/0014-raid-engine.md has the argument.

mod pages;

use std::fmt;

use crate::claims::Damage;
use crate::log_entry::FoundLog;
use crate::map_page::PageName;
use crate::superblock::{MemberEntry, MemberState, MemberTable, Relation, Superblock};
use crate::{Fault, layout};
use pages::{doubts, newest_page, plan_pages};

pub(crate) use pages::{Doubt, OwnMarks, PlannedPage, own_marks};

/// A device with a superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundDevice {
    /// How the caller names it.
    pub device: u8,
    /// The newest superblock that is whole.
    pub superblock: Superblock,
    /// The pair of slots that the next write of the superblock leaves alone.
    pub slot: u8,
    /// Its map: [`layout::map_bytes`] from [`layout::map_slot`] of page 0 on. An unreadable page is
    /// zeros.
    pub map: Vec<u8>,
    pub(crate) log: FoundLog,
    /// Why its data is not trusted; its superblock still counts as information about the others.
    pub damage: Option<Damage>,
}

impl FoundDevice {
    /// One of a level that has no log.
    #[must_use]
    pub fn without_log(device: u8, superblock: Superblock, slot: u8, map: Vec<u8>) -> Self {
        Self { device, superblock, slot, map, log: FoundLog::default(), damage: None }
    }
}

/// Options of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AssembleOptions {
    /// Start without a majority. This gives up writes that only absent members acknowledged.
    pub force: bool,
    /// Take members back that were away.
    pub rejoin: bool,
    /// The planted fault; ignored without the feature `simulate`.
    pub fault: Option<Fault>,
}

/// Why an array does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    #[error("no device is a member of an array")]
    Nothing,
    /// Superblocks of several arrays.
    #[error("the devices belong to different arrays: name the devices of one")]
    Mixed,
    /// Two devices claim to be the same member.
    #[error("devices {0} and {1} are the same member: one is a copy of the other; leave one out")]
    Cloned(u8, u8),
    /// Members continued without each other.
    #[error(
        "device {0} continued without the others: leave it out, or leave the others out, and lose \
         what was written there"
    )]
    Diverged(u8),
    /// Too few for all of the data.
    #[error("set {0} has no member in sync: bring one of its members back")]
    Incomplete(u8),
    /// Too few for the stripes.
    #[error("{present} members in sync are present, but {needed} are needed: bring more back")]
    TooFew {
        /// Members in sync that are here.
        present: u8,
        /// How many there must be.
        needed: u8,
    },
    /// Parities may be wrong, and a member whose data depends on them is away.
    #[error(
        "the log of device {0} cannot be read, writes were in flight, and a member is missing: \
         bring it back, or force the start and lose the stripes that were being written"
    )]
    LogLost(u8),
    /// Too few to know that nothing newer exists elsewhere.
    #[error(
        "only {present} of {voters} members in sync are present, and the others may have newer \
         writes: bring more back, or force the start and lose what they acknowledged"
    )]
    NoMajority {
        /// How many of them are present.
        present: u8,
        /// Members in sync by the newest table, or by the one before.
        voters: u8,
    },
}

/// How an array starts.
#[derive(Debug, Clone)]
pub struct StartPlan {
    pub(crate) table: MemberTable,
    /// The newest table as found, if it is not known to count: it must count before the next is
    /// made.
    pub(crate) uncounted: Option<MemberTable>,
    /// The last epoch that is known to count.
    pub(crate) committed: u64,
    /// Entries in sync by that table; half of them must store the next one.
    pub(crate) voters: u64,
    /// The device of each entry.
    pub(crate) devices: Vec<Option<RoleDevice>>,
    /// Pages of the map, by set and page.
    pub(crate) pages: Vec<PlannedPage>,
    /// Possibly wrong parities, with their roles.
    pub(crate) doubts: Vec<(u8, Doubt)>,
    /// Writes in progress may be given up.
    pub(crate) is_forced: bool,
}

impl StartPlan {
    /// Whether the array uses this device.
    #[must_use]
    pub fn has(&self, device: u8) -> bool {
        self.devices.iter().flatten().any(|present| present.device == device)
    }
}

/// A device in its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoleDevice {
    pub(crate) device: u8,
    pub(crate) bytes: u64,
    /// The slot of each pair to write next.
    pub(crate) next_slot: u8,
}

/// Decides.
///
/// # Errors
/// [`AssembleError`]; nothing must be written then.
pub fn assemble(
    found: &[FoundDevice],
    options: AssembleOptions,
) -> Result<StartPlan, AssembleError> {
    let found = &known_once(found);
    let newest = newest_of(found)?;
    let mut table = newest.superblock.table.clone();
    table.revision = found.iter().map(|device| device.superblock.table.revision).max().unwrap_or(0);
    if !Fault::SplitHalvesJoined.is_in(options.fault) {
        refuse_diverged(found, &table)?;
    }
    let device_of =
        |entry: &MemberEntry| found.iter().find(|device| device.superblock.member == entry.member);
    let devices: Vec<Option<&FoundDevice>> = table.entries.iter().map(device_of).collect();
    let newest = table.clone();
    // The other devices contribute only their knowledge of the array.
    let is_whole = |device: &&FoundDevice| match device.damage {
        None => true,
        // No other copy exists.
        Some(Damage::EndsDiffer) if options.force && table.geometry.set_members() == 1 => true,
        Some(damage) => damage.is_overlooked(options.fault),
    };
    let known = devices;
    let devices: Vec<Option<&FoundDevice>> =
        known.iter().map(|device| device.filter(is_whole)).collect();
    settle_all(&mut table, &devices, &newest, options);
    for (entry, (known, device)) in table.entries.iter_mut().zip(known.iter().zip(&devices)) {
        // No map names the data it lacks.
        entry.by_map &= known.is_none() || device.is_some();
    }
    let trusted = in_sync(&table);
    refuse_incomplete(&table)?;
    if !options.force {
        refuse_too_few(&newest, trusted, &known, options.fault)?;
    }
    let is_used = |entry: &MemberEntry| entry.state != MemberState::Faulty;
    let present = table.entries.iter().zip(&devices).map(|(entry, device)| {
        device.filter(|_| is_used(entry)).map(|device| RoleDevice {
            device: device.device,
            bytes: device.superblock.device_bytes,
            next_slot: 1 - device.slot,
        })
    });
    let present = present.collect();
    for (at, device) in devices.iter().enumerate() {
        if let Some(set) = table.set_of(at) {
            restart_rebuild(&mut table.entries[at], set, *device);
        }
    }
    let pages = plan_pages(&table, &devices);
    let (committed, voters) = match options.force {
        true => (newest.committed, 0),
        false => (newest.committed, newest.voters),
    };
    let uncounted =
        Some(newest).filter(|superblock| !options.force && !superblock.is_known_to_count());
    let doubts = doubts(&table, &devices, &pages, options.fault);
    let is_degraded = trusted.count_ones() < table.geometry.members.into();
    let lost = doubts.iter().find(|(_, doubt)| matches!(doubt, Doubt::Lost(_)));
    if let Some((role, _)) = lost.filter(|_| is_degraded && !options.force) {
        let device = devices[usize::from(*role)].map_or(0, |device| device.device);
        return Err(AssembleError::LogLost(device));
    }
    let is_forced = options.force;
    Ok(StartPlan {
        uncounted,
        committed,
        voters,
        devices: present,
        pages,
        table,
        doubts,
        is_forced,
    })
}

fn newest_of(found: &[FoundDevice]) -> Result<&FoundDevice, AssembleError> {
    let rank =
        |device: &&FoundDevice| (device.superblock.table.epoch, device.superblock.table.revision);
    let newest = found.iter().max_by_key(rank).ok_or(AssembleError::Nothing)?;
    let array = newest.superblock.table.array;
    if found.iter().any(|device| device.superblock.table.array != array) {
        return Err(AssembleError::Mixed);
    }
    for (at, one) in found.iter().enumerate() {
        let twin =
            found[..at].iter().find(|other| other.superblock.member == one.superblock.member);
        if let Some(twin) = twin {
            return Err(AssembleError::Cloned(twin.device, one.device));
        }
    }
    Ok(newest)
}

/// Leaves out damaged devices that claim to be a member that another device is too: a part of that
/// device was copied onto them.
fn known_once(found: &[FoundDevice]) -> Vec<FoundDevice> {
    let is_twin = |device: &FoundDevice, other: &FoundDevice| {
        device.device != other.device && device.superblock.member == other.superblock.member
    };
    let is_copy = |device: &&FoundDevice| {
        device.damage.is_some() && found.iter().any(|other| is_twin(device, other))
    };
    found.iter().filter(|device| !is_copy(device)).cloned().collect()
}

/// Every present table must be one from which the newest was made, or too old to know.
fn refuse_diverged(found: &[FoundDevice], newest: &MemberTable) -> Result<(), AssembleError> {
    let went_on =
        |device: &&FoundDevice| newest.relation_of(&device.superblock.table) == Relation::Diverged;
    found.iter().find(went_on).map_or(Ok(()), |device| Err(AssembleError::Diverged(device.device)))
}

/// The state in which each starts.
fn settle_all(
    table: &mut MemberTable,
    devices: &[Option<&FoundDevice>],
    newest: &MemberTable,
    options: AssembleOptions,
) {
    let own = |at: usize| devices[at].map(|device| &device.superblock.table);
    let members = usize::from(newest.geometry.members);
    let mut replaced = 0_u64;
    for at in members..newest.entries.len() {
        let entry = &mut table.entries[at];
        // A replacement that was away stops being one.
        settle(entry, own(at), newest, AssembleOptions { rejoin: false, ..options });
        let is_whole = entry.state == MemberState::InSync;
        replaced |= entry.replaces.filter(|_| is_whole).map_or(0, |role| 1 << role);
    }
    for at in 0..members {
        // An already replaced member does not come back.
        let rejoin = options.rejoin && replaced & (1 << at) == 0;
        settle(&mut table.entries[at], own(at), newest, AssembleOptions { rejoin, ..options });
    }
    if newest.geometry.set_members() > 1 {
        return;
    }
    // No map names the differences of the two: only one of them counts.
    for at in members..newest.entries.len() {
        let entry = table.entries[at];
        let old = entry.replaces.map(|replaced| table.entries[usize::from(replaced)].state);
        if entry.state == MemberState::InSync && old == Some(MemberState::InSync) {
            let (state, since) = (MemberState::Rebuilding, newest.epoch + 1);
            table.entries[at] = MemberEntry { state, since, ..entry };
        }
    }
}

/// Sets the state in which a member starts; `own` is its table, if it is present.
fn settle(
    entry: &mut MemberEntry,
    own: Option<&MemberTable>,
    newest: &MemberTable,
    options: AssembleOptions,
) {
    let is_ancestor = own.is_some_and(|table| newest.relation_of(table) != Relation::Unknown);
    let is_current = is_ancestor && own.is_some_and(|table| table.epoch >= newest.committed);
    let since = newest.epoch + 1;
    match entry.state {
        MemberState::Spare => return,
        MemberState::InSync | MemberState::Rebuilding if is_current => return,
        MemberState::InSync => {
            // If the member is present, the others took it to have everything and recorded nothing
            // that it lacks: it was restored from an older image, or lied about what it had stored.
            let by_map = own.is_none();
            *entry = MemberEntry { state: MemberState::Faulty, by_map, since, ..*entry };
        }
        MemberState::Rebuilding => {
            let by_map = entry.by_map && own.is_none();
            *entry = MemberEntry { state: MemberState::Faulty, by_map, since, ..*entry };
        }
        MemberState::Faulty => {
            let is_believed = Fault::ImageBackByMap.is_in(options.fault);
            entry.by_map &=
                is_believed || own.is_none_or(|table| entry.was_here_until(table.epoch));
        }
    }
    if own.is_some() && Fault::StaleMemberTrusted.is_in(options.fault) {
        *entry = MemberEntry { state: MemberState::InSync, since, ..*entry };
    } else if is_ancestor && options.rejoin {
        *entry = MemberEntry { state: MemberState::Rebuilding, since, watermark: 0, ..*entry };
    }
}

/// Writes to a member below its watermark may have reached no other present member. A rebuild by
/// the map starts again, with the marks in the member's map; any other continues if a map names
/// those writes.
fn restart_rebuild(entry: &mut MemberEntry, set: u8, device: Option<&FoundDevice>) {
    let has_map = |device: &FoundDevice| {
        let MemberTable { array, geometry, .. } = device.superblock.table;
        let name = |page| PageName { array, set, page };
        geometry.set_members() > 1
            && (0..layout::map_pages(&geometry))
                .all(|at| newest_page(name(at), &device.map).is_some())
    };
    if entry.by_map || !device.is_some_and(has_map) {
        entry.watermark = 0;
    }
}

fn refuse_incomplete(table: &MemberTable) -> Result<(), AssembleError> {
    let is_trusted = |at: &usize| table.entries[*at].state == MemberState::InSync;
    let (members, needed) = (usize::from(table.geometry.members), table.geometry.columns());
    if needed > 1 {
        let present = (0..members).filter(is_trusted).count() as u8;
        let is_enough = present >= needed;
        return if is_enough { Ok(()) } else { Err(AssembleError::TooFew { present, needed }) };
    }
    let has_copy = |set: u8| {
        let mut trusted = (0..table.entries.len()).filter(is_trusted);
        trusted.any(|at| table.set_of(at) == Some(set))
    };
    let lost = (0..table.geometry.sets()).find(|&set| !has_copy(set));
    lost.map_or(Ok(()), |set| Err(AssembleError::Incomplete(set)))
}

/// Refuses to start if a table later than the newest may exist, or one that followed from its base.
/// With more than half of a table's in-sync members present, every later counting table is known.
fn refuse_too_few(
    newest: &MemberTable,
    trusted: u64,
    devices: &[Option<&FoundDevice>],
    fault: Option<Fault>,
) -> Result<(), AssembleError> {
    let roles_of = |is_it: &dyn Fn(&FoundDevice) -> bool| {
        let those = (0..).zip(devices).filter(|(_, device)| device.is_some_and(is_it));
        those.fold(0, |bits, (role, _)| bits | 1_u64 << role)
    };
    let here = roles_of(&|_| true);
    let voters = in_sync(newest);
    refuse_minority(here, voters)?;
    if newest.is_known_to_count() {
        return refuse_less_than_half(trusted, voters);
    }
    // Others may have continued from its base, unless half of the base's voters have the newest:
    // then nothing else counts. A member in sync by the base has an entry until its failure counts.
    let voters = newest.voters;
    refuse_less_than_half(trusted, voters)?;
    let holders = roles_of(&|device| device.superblock.table.lineage == newest.lineage);
    if is_half(holders, voters) || Fault::BaseNotAsked.is_in(fault) {
        return Ok(());
    }
    refuse_minority(here, voters)
}

fn refuse_minority(present: u64, voters: u64) -> Result<(), AssembleError> {
    let is_majority = (present & voters).count_ones() * 2 > voters.count_ones();
    if is_majority { Ok(()) } else { Err(no_majority(present, voters)) }
}

/// Too few members could store the next table.
fn refuse_less_than_half(trusted: u64, voters: u64) -> Result<(), AssembleError> {
    if is_half(trusted, voters) { Ok(()) } else { Err(no_majority(trusted, voters)) }
}

/// Whether half of the voters are among these.
pub(crate) fn is_half(members: u64, voters: u64) -> bool {
    (members & voters).count_ones() * 2 >= voters.count_ones()
}

fn no_majority(present: u64, voters: u64) -> AssembleError {
    let small = |bits: u64| bits.count_ones() as u8;
    AssembleError::NoMajority { present: small(present & voters), voters: small(voters) }
}

/// A bit for each entry in sync.
pub(crate) fn in_sync(table: &MemberTable) -> u64 {
    let bits = (0..).zip(&table.entries).filter(|(_, entry)| entry.state == MemberState::InSync);
    bits.fold(0, |bits, (at, _)| bits | 1_u64 << at)
}

/// A member that a start rebuilds because its table is older than the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    pub device: u8,
    /// Its entry in the table.
    pub member: u8,
    /// The epoch of the table that the member has.
    pub epoch: u64,
    pub newest: u64,
    /// Only the regions that the map names are copied to it.
    pub by_map: bool,
}

impl StartPlan {
    /// Members that this start rebuilds and the start before did not.
    pub fn behind<'a>(&'a self, found: &'a [FoundDevice]) -> impl Iterator<Item = Behind> + 'a {
        let newest = self.table.epoch;
        let entries = (0..).zip(self.table.entries.iter().zip(&self.devices));
        entries.filter_map(move |(member, (entry, device))| {
            let is_new = entry.state == MemberState::Rebuilding && entry.since > newest;
            let device = device.filter(|_| is_new)?.device;
            let epoch = found.iter().find(|found| found.device == device)?.superblock.table.epoch;
            let by_map = entry.by_map;
            (epoch < newest).then_some(Behind { device, member, epoch, newest, by_map })
        })
    }
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { member, epoch, newest, by_map, .. } = self;
        let missed = newest - epoch;
        let epochs = if missed == 1 { "epoch" } else { "epochs" };
        let what = if *by_map { "the regions that the map names are" } else { "all of it is" };
        write!(
            f,
            "member {member} missed {missed} {epochs} (it has {epoch}, the newest is {newest}): \
             {what} resynced"
        )
    }
}

#[cfg(test)]
mod tests;
