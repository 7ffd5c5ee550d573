//! Devices that are members, or may become members: held with their permits, open, and read; and what
//! the superblocks on devices say, and whether they start together, read only.
//!
//! Which of them make an array is for durio-raid to say. Superblocks of devices that are served may
//! change during the reading, so a second look may find more.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durio_block::{
    DirectIo, HeldTarget, OpenMode, TargetAccess, TargetType, WriteFlags, direct_io, drop_cached,
    probe_write_flags,
};
use durio_command::{CommandError, Permission, locate};
use durio_observe::{ArrayExamination, ExaminedDevice, ExaminedMember, MemberStanding};
use durio_raid::server::{MemberFile, find_member, marked_regions};
use durio_raid::{AssembleError, AssembleOptions, Behind, FoundDevice, SuperblockError, assemble};

use super::{hexadecimal, shape_of, standing_of};

/// A device that this server holds.
#[derive(Debug)]
pub(super) struct ServerDevice {
    /// The server's name of it.
    pub(super) number: u8,
    pub(super) path: PathBuf,
    access: Arc<TargetAccess>,
    /// Open for writing. The ring's files are in no list of descriptors: this one shows other
    /// processes which process has the device.
    file: File,
}

impl ServerDevice {
    /// True if this path leads to it, or once did.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let identity = HeldTarget::open(path).map(|target| target.identity());
        identity.is_ok_and(|identity| identity == self.access.target().identity())
            || self.path == path
    }

    /// Its size now: a file may have been made longer since it was claimed.
    pub(super) fn bytes(&self) -> Result<u64, CommandError> {
        let size = (&self.file).seek(SeekFrom::End(0));
        size.map_err(|error| CommandError::io("find the size of", &self.path, error))
    }

    /// Makes a file that was truncated as long as a member has to be.
    pub(super) fn lengthen(&self, needed: u64) -> Result<(), CommandError> {
        let is_file = matches!(self.access.target().kind(), TargetType::File(_));
        if !is_file || self.bytes()? >= needed {
            return Ok(());
        }
        let longer = self.file.set_len(needed);
        longer.map_err(|error| CommandError::io("lengthen", &self.path, error))
    }

    pub(super) fn find(&self) -> Result<Result<FoundDevice, SuperblockError>, CommandError> {
        let file = open_direct(&self.access, false)?;
        let found = find_member(&file, self.number, self.bytes()?);
        found.map_err(|error| CommandError::io("read the superblocks of", &self.path, error))
    }

    /// It, open for writing.
    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// As the server takes it.
    pub(super) fn member_file(&self) -> Result<MemberFile, CommandError> {
        let claim = match &*self.access {
            TargetAccess::Write(permit) => permit.claim()?,
            TargetAccess::Read(..) => None,
        };
        let file = open_direct(&self.access, true)?.into();
        Ok(MemberFile { device: self.number, file, claim })
    }

    /// The alignment that the device needs for offsets and lengths.
    pub(super) fn alignment(&self) -> Result<u32, CommandError> {
        let asked = match direct_io(self.file.as_fd()) {
            DirectIo::Possible(alignment) | DirectIo::CachesParts(alignment) => {
                alignment.offset.get()
            }
            // It goes through the page cache.
            DirectIo::Impossible => 512,
            // A kernel that does not tell: no device asks for more.
            DirectIo::Unknown => 4096,
        };
        u32::try_from(asked.clamp(512, 4096).next_power_of_two())
            .map_err(|_| CommandError::cannot_measure("an alignment of more than a block"))
    }
}

/// Looks devices up and claims them, numbered from `first` on.
pub(super) fn claim_devices(
    paths: &[PathBuf],
    permission: Permission<'_>,
    first: u8,
) -> Result<Vec<ServerDevice>, CommandError> {
    let located = locate(paths, permission)?;
    let claim = |(number, path): (u8, &PathBuf)| -> Result<ServerDevice, CommandError> {
        let nothing =
            || CommandError::cannot_measure(format!("'{}' is not a member", path.display()));
        let access = located.held.find(path).map_err(|_| nothing())?;
        let bytes = access.target().kind().bytes().ok_or_else(nothing)?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        // Writes must be durable by flag, because nothing else makes them durable here.
        let opened = access.open(OpenMode::default())?;
        probe_write_flags(&opened.file, WriteFlags::Dsync).map_err(|error| {
            let text = format!("'{}' does not support durable writes (RWF_DSYNC)", path.display());
            CommandError::cannot(error).context(text)
        })?;
        let file = open_direct(&access, true)?;
        // Recognising the device filled the page cache, where each direct write would look for
        // pages to invalidate. If the pages stay, that is the only cost.
        let _ = drop_cached(file.as_fd(), 0, bytes);
        Ok(ServerDevice { number, path, access, file })
    };
    (first..).zip(paths).map(claim).collect()
}

/// Past the page cache, where that is possible.
pub(super) fn open_direct(access: &TargetAccess, write: bool) -> Result<File, CommandError> {
    let opened = access.open(OpenMode { write, direct: true, ..OpenMode::default() })?;
    Ok(opened.file.into())
}

/// What the superblocks of these devices say; reads only.
pub fn examine_array(paths: &[PathBuf]) -> Result<ArrayExamination, CommandError> {
    let look = |(number, path): (u8, &PathBuf)| find_on(path, number);
    let all = (0..).zip(paths).map(look).collect::<Result<Vec<_>, _>>()?;
    let found: Vec<FoundDevice> =
        all.iter().filter_map(|device| device.as_ref().ok().cloned()).collect();
    let options = AssembleOptions { rejoin: true, ..AssembleOptions::default() };
    let assembled = assemble(&found, options);
    let older: Vec<Behind> =
        assembled.iter().flat_map(|plan| plan.behind(&found).collect::<Vec<_>>()).collect();
    let does_not_start =
        assembled.err().map(|error| assemble_words(&error, |device| shown(paths, device)));
    let device = |(path, found): (&PathBuf, Result<FoundDevice, SuperblockError>)| ExaminedDevice {
        path: path.display().to_string(),
        older: found.as_ref().ok().and_then(|found| {
            older.iter().find(|behind| behind.device == found.device).map(ToString::to_string)
        }),
        problem: match &found {
            Ok(found) => found.damage.map(|damage| damage.to_string()),
            Err(error) => Some(error.to_string()),
        },
        member: found.ok().map(|member| examined(&member)),
    };
    Ok(ArrayExamination::new(paths.iter().zip(all).map(device).collect(), does_not_start))
}

fn shown(paths: &[PathBuf], device: u8) -> String {
    let path = paths.get(usize::from(device));
    path.map_or_else(|| device.to_string(), |path| format!("'{}'", path.display()))
}

fn find_on(path: &Path, number: u8) -> Result<Result<FoundDevice, SuperblockError>, CommandError> {
    let target = HeldTarget::open(path)?;
    let bytes = target.kind().bytes().ok_or_else(|| {
        let text = format!("'{}' is neither a block device nor a file", path.display());
        CommandError::wrong_use(text)
    })?;
    let opened = target.open_to_read(OpenMode { direct: true, ..OpenMode::default() })?;
    let found = find_member(&opened.file.into(), number, bytes);
    found.map_err(|error| CommandError::io("read the superblocks of", path, error))
}

fn examined(found: &FoundDevice) -> ExaminedMember {
    let table = &found.superblock.table;
    let at = table.entries.iter().position(|entry| entry.member == found.superblock.member);
    let standings: Vec<_> = table.entries.iter().map(|entry| standing_of(entry.state)).collect();
    let role = at
        .and_then(|place| u8::try_from(place).ok())
        .filter(|place| *place < table.geometry.members);
    ExaminedMember {
        shape: shape_of(table),
        member: hexadecimal(found.superblock.member),
        role,
        state: at
            .filter(|_| found.damage.is_none())
            .map_or(MemberStanding::GivenUp, |place| standings[place]),
        epoch: table.epoch,
        revision: table.revision,
        regions_marked: marked_regions(found),
        roles: standings,
    }
}

/// Why an array does not start, with the devices as the user named them.
pub(super) fn assemble_words(error: &AssembleError, name: impl Fn(u8) -> String) -> String {
    match *error {
        AssembleError::Cloned(a, b) => format!(
            "{} and {} are the same member: one is a copy of the other; leave one out",
            name(a),
            name(b)
        ),
        AssembleError::Diverged(device) => format!(
            "{} continued without the others: leave it out, or leave the others out, and lose \
             what was written there",
            name(device)
        ),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use durio_base::RaidLevel;
    use durio_raid::{
        Geometry, HISTORY_EPOCHS, Id, MemberEntry, MemberState, MemberTable, Superblock,
    };

    use super::*;

    /// A mirror of two members, the second of which has failed, and a spare.
    fn table() -> MemberTable {
        let (level, member_bytes) = (RaidLevel::Raid1, 7_323_648);
        let entry = |(number, state): (u8, MemberState)| {
            let (member, since) = (Id([number; 16]), u64::from(number));
            MemberEntry { member, state, by_map: false, replaces: None, since, watermark: 0 }
        };
        let states = [MemberState::InSync, MemberState::Faulty, MemberState::Spare];
        MemberTable {
            array: Id([9; 16]),
            name: "data".to_owned(),
            geometry: Geometry {
                level,
                members: 2,
                chunk: 16 << 10,
                region: 1 << 20,
                member_bytes,
            },
            data_at: 1 << 20,
            epoch: 5,
            lineage: 77,
            history: [0; HISTORY_EPOCHS],
            committed: 4,
            voters: 3,
            revision: 23,
            entries: (1..).zip(states).map(entry).collect(),
        }
    }

    #[test]
    fn a_member_is_shown_by_its_own_table_with_its_epoch_and_revision() {
        use MemberStanding::{Faulty, GivenUp, InSync, Spare};
        for (number, role, state) in
            [(1, Some(0), InSync), (2, Some(1), Faulty), (3, None, Spare), (4, None, GivenUp)]
        {
            let member = Id([number; 16]);
            let superblock = Superblock { table: table(), member, device_bytes: 8 << 20 };
            let shown = examined(&FoundDevice::without_log(0, superblock, 0, Vec::new()));
            assert_eq!((shown.epoch, shown.revision), (5, 23));
            assert_eq!((shown.role, shown.state), (role, state));
            assert_eq!(shown.member, format!("0{number}").repeat(16));
            assert_eq!(shown.roles, [InSync, Faulty, Spare]);
        }
    }
}
