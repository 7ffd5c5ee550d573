//! Reads the superblocks on devices and reports whether they start together. Superblocks of devices
//! that are served may change during the reading, so a second look may find more.

use std::path::{Path, PathBuf};

use durio_block::{HeldTarget, OpenMode, TargetType};
use durio_command::CommandError;
use durio_observe::{ArrayExamination, ExaminedDevice, ExaminedMember, MemberStanding};
use durio_raid::server::{find_member, marked_regions};
use durio_raid::{AssembleError, AssembleOptions, Behind, FoundDevice, SuperblockError, assemble};

use super::{hexadecimal, shape_of, standing_of};

/// Looks at devices.
///
/// # Errors
/// If one cannot be read.
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
    let bytes = match target.kind() {
        TargetType::File(size) | TargetType::BlockDevice(size) => size.get(),
        TargetType::Directory | TargetType::NullDevice => {
            let text = format!("'{}' is neither a block device nor a file", path.display());
            return Err(CommandError::wrong_use(text));
        }
    };
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
            "{} went on without the others: leave it out or leave the others out, and what was \
             written there is given up",
            name(device)
        ),
        _ => error.to_string(),
    }
}
