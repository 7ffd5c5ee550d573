//! A new array: superblocks and an empty map on devices that `--destroy` names. durio-raid defines
//! their contents.

use std::path::PathBuf;

use durio_base::Bytes;
use durio_block::TargetType;
use durio_command::{CommandError, CommandErrorKind, LocatedPlaces, Permission, locate};
use durio_raid::layout::{self, DATA_ALIGNMENT};
use durio_raid::server::{leave_unsynced, write_metadata};
use durio_raid::{Blocks, CreateError, Geometry, Level, MEMBERS_MAX, Member, NAME_BYTES, create};
use durio_report::ArrayShape;

use super::devices::open_direct;
use super::random_id;

/// A region is at least this large, and no larger than that: few for a map that is small, small for a
/// resync that is short.
const REGION_MIN: u64 = 1 << 20;
const REGION_MAX: u64 = 64 << 20;
/// As many regions as the map of a member has, if they have room for it.
const REGIONS_WANTED: u64 = 16 << 10;

/// A member may leave at most this share of its size unused: more is a mistake.
const UNUSED_MAX_PERCENT: u64 = 10;

/// The user's request for a new array.
#[derive(Debug)]
pub struct CreateWish<'a> {
    pub name: &'a str,
    /// 0, 1, 5, 6 or 10.
    pub level: u8,
    /// Bytes of a chunk.
    pub chunk: Bytes,
    /// Its members, in the order of their roles.
    pub members: &'a [PathBuf],
    pub spares: &'a [PathBuf],
    /// What may be overwritten: all of them.
    pub destroy: &'a [PathBuf],
    /// Also where something is recognised.
    pub force_signature: bool,
    /// The members are equal, as new or zeroed ones are: the first start copies nothing.
    pub assume_clean: bool,
}

/// Creates the array.
///
/// # Errors
/// If these make no array, may not be overwritten, or cannot be written.
pub fn create_array(wish: &CreateWish<'_>) -> Result<ArrayShape, CommandError> {
    let level = level_of(wish)?;
    let paths: Vec<&PathBuf> = wish.members.iter().chain(wish.spares).collect();
    // What no devices could help is said before any is looked at.
    let roles = u8::try_from(wish.members.len()).unwrap_or(u8::MAX);
    let chunk = u32::try_from(wish.chunk.get()).unwrap_or(u32::MAX);
    let geometry =
        Geometry { level, members: roles, chunk, region: 1 << 40, member_bytes: 1 << 40 };
    geometry.check().map_err(|error| wrong(&error))?;
    let permission =
        Permission::Named { destroy: wish.destroy, force_signature: wish.force_signature };
    let located = locate(paths.iter().copied(), permission)?;
    let sizes = sizes_of(&paths, &located)?;
    refuse_unequal(&paths, &sizes)?;
    let geometry = fitted(geometry, &sizes, &paths)?;
    let members = sizes.iter().map(|&device_bytes| Ok(Member { id: random_id()?, device_bytes }));
    let members: Vec<Member> = members.collect::<Result<_, CommandError>>()?;
    let array = random_id()?;
    let blocks = create(array, wish.name, geometry, DATA_ALIGNMENT, &members);
    let mut blocks = blocks.map_err(|error| cannot_create(&error, &paths))?;
    if !wish.assume_clean {
        blocks.iter_mut().for_each(|block| leave_unsynced(block, &geometry));
    }
    write_all(&paths, &located, &blocks)?;
    Ok(ArrayShape {
        name: wish.name.to_owned(),
        array: super::hexadecimal(array),
        level: wish.level,
        members: geometry.members,
        chunk_bytes: geometry.chunk.into(),
        region_bytes: geometry.region,
        size_bytes: geometry.size(),
        data_at_bytes: layout::data_at(&geometry, DATA_ALIGNMENT),
        member_bytes: geometry.member_bytes,
    })
}

fn level_of(wish: &CreateWish<'_>) -> Result<Level, CommandError> {
    if wish.name.is_empty() || wish.name.len() > NAME_BYTES || wish.name.contains(char::is_control)
    {
        let text = format!("the name of an array has 1 to {NAME_BYTES} bytes, none of control");
        return Err(CommandError::wrong_use(text));
    }
    match wish.level {
        0 if !wish.spares.is_empty() => {
            Err(CommandError::wrong_use("level 0 has nothing that a spare could be made from"))
        }
        0 => Ok(Level::Striped),
        1 => Ok(Level::Mirrored),
        5 => Ok(Level::Parity),
        6 => Ok(Level::DoubleParity),
        10 => Ok(Level::StripedMirrors),
        other => {
            Err(CommandError::wrong_use(format!("level {other}: there are 0, 1, 5, 6 and 10")))
        }
    }
}

fn sizes_of(paths: &[&PathBuf], located: &LocatedPlaces) -> Result<Vec<u64>, CommandError> {
    let size = |path: &&PathBuf| {
        let shown = path.display();
        let access = located.held.find(path).map_err(|_| {
            CommandError::wrong_use(format!("'{shown}' is neither a block device nor a file"))
                .hint("a file is made by: truncate -s 1G FILE")
        })?;
        if !matches!(*access, durio_block::TargetAccess::Write(_)) {
            let text = format!("'{shown}' would be overwritten");
            return Err(CommandError::wrong_use(text).hint("name it with --destroy, too"));
        }
        match access.target().kind() {
            TargetType::File(size) | TargetType::BlockDevice(size) => Ok(size.get()),
            TargetType::Directory | TargetType::NullDevice => Err(CommandError::wrong_use(
                format!("'{shown}' is neither a block device nor a file"),
            )),
        }
    };
    paths.iter().map(size).collect()
}

/// Sizes that differ a little are those of drives of several makers; others are a mistake.
fn refuse_unequal(paths: &[&PathBuf], sizes: &[u64]) -> Result<(), CommandError> {
    let pairs = || sizes.iter().zip(paths);
    let (Some(least), Some(most)) =
        (pairs().min_by_key(|pair| pair.0), pairs().max_by_key(|pair| pair.0))
    else {
        return Ok(());
    };
    if least.0 / 100 >= most.0 / 100 * (100 - UNUSED_MAX_PERCENT) / 100 {
        return Ok(());
    }
    let shown =
        |(size, path): (&u64, &&PathBuf)| format!("'{}' has {}", path.display(), Bytes::new(*size));
    let text = format!(
        "the members differ by more than {UNUSED_MAX_PERCENT} %: {}, {}",
        shown(least),
        shown(most)
    );
    Err(CommandError::wrong_use(text).hint("use partitions or files of one size"))
}

/// The geometry with the largest data for which all have room.
fn fitted(shape: Geometry, sizes: &[u64], paths: &[&PathBuf]) -> Result<Geometry, CommandError> {
    let least = sizes.iter().copied().min().unwrap_or(0);
    let chunk = u64::from(shape.chunk);
    let region = (least / REGIONS_WANTED).next_power_of_two().clamp(REGION_MIN, REGION_MAX);
    let region = region.max(chunk);
    // The map of more data than there is has room for that of less.
    let upper = least / chunk * chunk;
    let bound = Geometry { region, member_bytes: upper.max(chunk), ..shape };
    let around = layout::device_bytes(&bound, layout::data_at(&bound, DATA_ALIGNMENT));
    let room = least.checked_sub(around - bound.member_bytes).map(|bytes| bytes / chunk * chunk);
    match room.filter(|&bytes| bytes > 0) {
        Some(member_bytes) => Ok(Geometry { member_bytes, ..bound }),
        None => {
            let at = sizes.iter().position(|&size| size == least).unwrap_or(0);
            Err(cannot_create(&CreateError::TooSmall(at), paths))
        }
    }
}

fn cannot_create(error: &CreateError, paths: &[&PathBuf]) -> CommandError {
    match error {
        CreateError::TooSmall(at) => {
            let shown = paths.get(*at).map_or_else(String::new, |path| path.display().to_string());
            let text =
                format!("'{shown}' is too small: superblocks, map and log take 1 MiB and more");
            CommandError::wrong_use(text)
        }
        CreateError::Devices => {
            let text = format!("at most {MEMBERS_MAX} members, and 8 spares");
            CommandError::wrong_use(text)
        }
        other => wrong(other),
    }
}

fn wrong(error: &dyn std::error::Error) -> CommandError {
    CommandError::wrong_use(error.to_string())
}

fn write_all(
    paths: &[&PathBuf],
    located: &LocatedPlaces,
    blocks: &[Blocks],
) -> Result<(), CommandError> {
    for (path, blocks) in paths.iter().zip(blocks) {
        let access = located.held.find(path)?;
        let file = open_direct(&access, true)?;
        write_metadata(&file, blocks).map_err(|error| {
            CommandError::of(CommandErrorKind::CannotMeasure, error)
                .context(format!("cannot write superblocks to '{}'", path.display()))
        })?;
    }
    Ok(())
}
