//! A new array: superblocks and an empty map on devices that `--destroy` names. durio-raid defines
//! their contents.

use std::path::PathBuf;

use clap::Args;
use durio_base::{Bytes, RaidLevel};
use durio_command::{CommandError, LocatedPlaces, Permission, locate};
use durio_observe::ArrayShape;
use durio_raid::layout::{self, DATA_ALIGNMENT};
use durio_raid::server::{leave_unsynced, write_metadata};
use durio_raid::{Blocks, CreateError, Geometry, MEMBERS_MAX, Member, NAME_BYTES, create};

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

/// Make an array: write superblocks on the devices, and nothing else
///
/// Everything on the devices is lost. Members are in the order of their roles; level 10 mirrors the
/// first with the second, the third with the fourth, and so on.
///
///   level 0    2 to 32 members, one copy: chunks in turn
///   level 1    2 to 4 members, each with a copy of everything
///   level 5    3 to 16 members, one of which may fail: stripes with a parity
///   level 6    4 to 16 members, two of which may fail: stripes with two parities
///   level 10   an even number from 4 to 32 members, two copies: chunks in turn over pairs
///
/// A small write at level 5 or 6 reads the old contents, then writes a log, the data and the parity. So
/// a power cut does not damage adjacent data, but the write takes two to three times as long as at
/// level 10.
///
/// The first start synchronises copies and parity in the background. --assume-clean skips this: use
/// it for devices that read as zeros, such as new files.
///
///   truncate -s 1G a b
///   durio raid create data --level 1 --assume-clean --destroy a --destroy b a b
///   durio raid start --socket /run/data a b
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct CreateArray {
    /// Name of the array, at most 32 bytes
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Members: block devices or files of nearly the same size
    #[arg(value_name = "DEV", required = true)]
    pub members: Vec<PathBuf>,

    /// RAID level: 0, 1, 5, 6 or 10
    #[arg(long, value_name = "LEVEL")]
    pub level: u8,

    /// Bytes that lie together on a member, a power of two from 4 KiB to 1 MiB
    #[arg(long, value_name = "SIZE", default_value = "16KiB")]
    pub chunk: Bytes,

    /// A device that takes the place of a member that fails (can be repeated)
    #[arg(long = "spare", value_name = "DEV")]
    pub spares: Vec<PathBuf>,

    /// Take the members to be equal already: the first start copies nothing
    #[arg(long)]
    pub assume_clean: bool,

    /// Allow overwriting this device or file (exact path); each member and spare needs it
    #[arg(long, value_name = "PATH", help_heading = "Safety")]
    pub destroy: Vec<PathBuf>,

    /// Allow --destroy also where a filesystem or a RAID member is recognised
    #[arg(long, requires = "destroy", help_heading = "Safety")]
    pub force_signature: bool,
}

/// Creates the array.
///
/// # Errors
/// If these make no array, may not be overwritten, or cannot be written.
pub fn create_array(request: &CreateArray) -> Result<ArrayShape, CommandError> {
    let level = level_of(request)?;
    let paths: Vec<&PathBuf> = request.members.iter().chain(&request.spares).collect();
    // What no devices could help is said before any is looked at.
    let roles = u8::try_from(request.members.len()).unwrap_or(u8::MAX);
    let chunk = u32::try_from(request.chunk.get()).unwrap_or(u32::MAX);
    let geometry =
        Geometry { level, members: roles, chunk, region: 1 << 40, member_bytes: 1 << 40 };
    geometry.check().map_err(|error| wrong(&error))?;
    let permission =
        Permission::Named { destroy: &request.destroy, force_signature: request.force_signature };
    let located = locate(paths.iter().copied(), permission)?;
    let sizes = sizes_of(&paths, &located)?;
    refuse_unequal(&paths, &sizes)?;
    let geometry = fitted(geometry, &sizes, &paths)?;
    let members = sizes.iter().map(|&device_bytes| Ok(Member { id: random_id()?, device_bytes }));
    let members: Vec<Member> = members.collect::<Result<_, CommandError>>()?;
    let array = random_id()?;
    let blocks = create(array, &request.name, geometry, DATA_ALIGNMENT, &members);
    let mut blocks = blocks.map_err(|error| cannot_create(&error, &paths))?;
    if !request.assume_clean {
        blocks.iter_mut().for_each(|block| leave_unsynced(block, &geometry));
    }
    write_all(&paths, &located, &blocks)?;
    Ok(ArrayShape {
        name: request.name.clone(),
        array: super::hexadecimal(array),
        level,
        members: geometry.members,
        chunk_bytes: geometry.chunk.into(),
        region_bytes: geometry.region,
        size_bytes: geometry.size(),
        data_at_bytes: layout::data_at(&geometry, DATA_ALIGNMENT),
        member_bytes: geometry.member_bytes,
    })
}

fn level_of(request: &CreateArray) -> Result<RaidLevel, CommandError> {
    if request.name.is_empty()
        || request.name.len() > NAME_BYTES
        || request.name.contains(char::is_control)
    {
        let text = format!(
            "the name of an array must have 1 to {NAME_BYTES} bytes, without control characters"
        );
        return Err(CommandError::wrong_use(text));
    }
    let level = RaidLevel::of_number(request.level).ok_or_else(|| {
        let text = format!("level {}: expected 0, 1, 5, 6 or 10", request.level);
        CommandError::wrong_use(text)
    })?;
    if level == RaidLevel::Raid0 && !request.spares.is_empty() {
        return Err(CommandError::wrong_use(
            "level 0 cannot use a spare: it has one copy of everything",
        ));
    }
    Ok(level)
}

fn sizes_of(paths: &[&PathBuf], located: &LocatedPlaces) -> Result<Vec<u64>, CommandError> {
    let size = |path: &&PathBuf| {
        let shown = path.display();
        let no_storage = || {
            CommandError::wrong_use(format!("'{shown}' is neither a block device nor a file"))
                .hint("create a file with: truncate -s 1G FILE")
        };
        let access = located.held.find(path).map_err(|_| no_storage())?;
        if !matches!(*access, durio_block::TargetAccess::Write(_)) {
            let text = format!("'{shown}' would be overwritten");
            return Err(CommandError::wrong_use(text).hint("name it with --destroy as well"));
        }
        access.target().kind().bytes().ok_or_else(no_storage)
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
    Err(CommandError::wrong_use(text).hint("use partitions or files of the same size"))
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
                format!("'{shown}' is too small: superblocks, map and log take more than 1 MiB");
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
            CommandError::cannot(error)
                .context(format!("cannot write superblocks to '{}'", path.display()))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn paths() -> [PathBuf; 3] {
        ["a", "b", "c"].map(PathBuf::from)
    }

    #[test]
    fn members_may_differ_by_10_percent_of_the_largest_and_no_more() {
        let paths = paths();
        let paths: Vec<&PathBuf> = paths.iter().collect();
        let refused = |sizes: [u64; 3]| {
            refuse_unequal(&paths, &sizes.map(|mib| mib * MIB)).err().map(|error| error.to_string())
        };
        for sizes in [[1000; 3], [1000, 950, 900], [900, 1000, 999], [1000, 1111, 1000]] {
            assert_eq!(refused(sizes), None, "{sizes:?}");
        }
        for (sizes, least, most) in [
            ([1000, 899, 1000], "'b' has ", "'c' has "),
            ([899, 950, 1000], "'a' has ", "'c' has "),
            ([1000, 1112, 1000], "'a' has ", "'b' has "),
        ] {
            let said = refused(sizes).unwrap();
            let shown = said.strip_prefix("the members differ by more than 10 %: ").unwrap();
            let (first, second) = shown.split_once(", ").unwrap();
            assert!(first.starts_with(least) && second.starts_with(most), "{sizes:?}: {said}");
        }
    }

    fn shape(level: RaidLevel, chunk: u32) -> Geometry {
        Geometry { level, members: 3, chunk, region: 1 << 40, member_bytes: 1 << 40 }
    }

    #[test]
    fn as_many_chunks_as_the_smallest_member_has_room_for_and_regions_by_its_size() {
        let paths = paths();
        let paths: Vec<&PathBuf> = paths.iter().collect();
        let (mirror, stripes) = (RaidLevel::Raid1, RaidLevel::Raid5);
        for (level, chunk, sizes, region, member_bytes) in [
            (mirror, 16 << 10, [8 * MIB; 3], MIB, 7_323_648),
            (mirror, 16 << 10, [9 * MIB, 8 * MIB, 9 * MIB], MIB, 7_323_648),
            (mirror, 4 << 10, [8 * MIB + 5000; 3], MIB, 7_335_936),
            (mirror, 16 << 10, [16 << 30; 3], MIB, 17_178_804_224),
            (mirror, 16 << 10, [100 << 30, 101 << 30, 102 << 30], 8 * MIB, 107_373_117_440),
            (mirror, 1 << 20, [100 << 30; 3], 8 * MIB, 107_372_085_248),
            (mirror, 16 << 10, [4 << 40; 3], 64 * MIB, 4_398_045_446_144),
            (stripes, 16 << 10, [8 * MIB; 3], MIB, 5_226_496),
            (stripes, 64 << 10, [1 << 30; 3], MIB, 1_068_433_408),
        ] {
            let geometry = fitted(shape(level, chunk), &sizes, &paths).unwrap();
            let found = (geometry.region, geometry.member_bytes);
            assert_eq!(found, (region, member_bytes), "{level:?} {chunk} {sizes:?}");
            assert_eq!((geometry.check(), geometry.chunk), (Ok(()), chunk));
            let data_at = layout::data_at(&geometry, DATA_ALIGNMENT);
            assert!(layout::device_bytes(&geometry, data_at) <= sizes.into_iter().min().unwrap());
        }
    }

    #[test]
    fn a_member_without_room_for_one_chunk_is_named() {
        let paths = paths();
        let paths: Vec<&PathBuf> = paths.iter().collect();
        let of = |least: u64| {
            let sizes = [2 * MIB, least, 2 * MIB];
            fitted(shape(RaidLevel::Raid1, 16 << 10), &sizes, &paths)
                .map(|geometry| geometry.member_bytes)
        };
        // Superblocks and map, aligned; a chunk; and two blocks.
        assert_eq!(of(1_048_576 + 16_384 + 8192).unwrap(), 16_384);
        for small in [1_048_576 + 16_384 + 8191, MIB, 4096, 0] {
            let error = of(small).unwrap_err().to_string();
            assert!(error.starts_with("'b' is too small"), "{error}");
        }
    }
}
