//! What a path leads to, and whether what exists there may be written to.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use durio_block::{ErrorKind, TargetType, inspect};
use durio_plan::RawPath;
use durio_spec::{Location, LocationFacts};
use durio_stack::{DeviceUse, device_use};
use durio_units::Bytes;

use crate::args::Measuring;
use crate::exit_code::Exit;
use crate::failure::Failure;

/// The memory devices that complete at once (kernel documentation, admin-guide/devices.txt): null,
/// zero, full.
const MEMORY_MAJOR: u32 = 1;
const NULL_MINORS: [u32; 3] = [3, 5, 7];

/// Finds out what each of `paths` is, none of which may be another's second name. Each `--destroy`
/// must name one of them.
pub(crate) fn locate<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    options: &Measuring,
) -> Result<Vec<Location>, Failure> {
    locate_with(paths, &options.destroy, options.force_signature)
}

/// The same, with the permissions alone.
pub(crate) fn locate_with<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    destroy: &[PathBuf],
    force_signature: bool,
) -> Result<Vec<Location>, Failure> {
    let mut locations = Vec::new();
    let mut known: Vec<(&PathBuf, Identity)> = Vec::new();
    let mut unmatched: Vec<&PathBuf> = destroy.iter().collect();
    for path in paths {
        let identity = identity(path);
        if let Some((first, _)) = known.iter().find(|(_, known)| known == &identity) {
            return Err(Failure::new(
                Exit::WrongUse,
                format!("'{}' and '{}' are one and the same", first.display(), path.display()),
            )
            .hint("name each place once"));
        }
        if let Some((first, _)) = known.iter().find(|(_, known)| known.overlaps(&identity)) {
            return Err(Failure::new(
                Exit::WrongUse,
                format!(
                    "of '{}' and '{}' one is a part of the other",
                    first.display(),
                    path.display()
                ),
            )
            .hint("name either the disk or its partitions"));
        }
        known.push((path, identity));
        let facts = facts(path)?;
        let serial = (!unmatched.is_empty()).then(|| device_use(path).ok()?.serial).flatten();
        unmatched.retain(|named| !names(named, path, serial.as_deref()));
        let destroy = permitted(path, facts, destroy, force_signature)?;
        locations.push(Location { path: RawPath::from(path), facts, destroy });
    }
    match unmatched.first() {
        None => Ok(locations),
        Some(named) => Err(names_nothing(named, &locations)),
    }
}

fn names_nothing(named: &Path, locations: &[Location]) -> Failure {
    let measured: Vec<_> = locations.iter().map(|it| format!("'{}'", it.path)).collect();
    let text = match measured.is_empty() {
        true => format!("--destroy '{}' names nothing: no path is measured", named.display()),
        false => format!(
            "--destroy '{}' names nothing of what is measured: {}",
            named.display(),
            measured.join(", ")
        ),
    };
    Failure::new(Exit::WrongUse, text)
        .hint("give the very path of a file or device to measure, or the device's serial number")
}

/// What two names of one thing have in common: a device's number, a file's or directory's device
/// and inode, the path of what does not exist.
#[derive(PartialEq)]
enum Identity {
    Device(u64),
    Inode(u64, u64),
    Path(PathBuf),
}

impl Identity {
    /// True if one is a disk and the other its partition.
    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Device(a), Self::Device(b)) => {
                disk_of(*a) == Some(*b) || disk_of(*b) == Some(*a)
            }
            _ => false,
        }
    }
}

/// The number of the disk that a partition is on; none for what is no partition. The directory of
/// a partition in sysfs lies in that of its disk (kernel documentation, sysfs-block).
fn disk_of(device: u64) -> Option<u64> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let folder =
        Path::new("/sys/dev/block").join(format!("{major}:{minor}")).canonicalize().ok()?;
    if !folder.join("partition").exists() {
        return None;
    }
    let text = std::fs::read_to_string(folder.parent()?.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

fn identity(path: &Path) -> Identity {
    match path.metadata() {
        Ok(facts) if facts.file_type().is_block_device() => Identity::Device(facts.rdev()),
        Ok(facts) => Identity::Inode(facts.dev(), facts.ino()),
        Err(_) => Identity::Path(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
    }
}

fn facts(path: &Path) -> Result<LocationFacts, Failure> {
    Ok(match inspect(path) {
        Ok(TargetType::Directory) => {
            let filesystem = path.metadata().map_or(0, |facts| facts.dev());
            LocationFacts::Directory { free: free(path)?, filesystem }
        }
        Ok(TargetType::File(size)) => LocationFacts::File { size },
        Ok(TargetType::BlockDevice(size)) => LocationFacts::Device { size },
        Ok(TargetType::CharacterDevice { major, minor })
            if major == MEMORY_MAJOR && NULL_MINORS.contains(&minor) =>
        {
            LocationFacts::NullDevice
        }
        Ok(TargetType::CharacterDevice { .. }) => {
            let text = format!("'{}' is a character device, not storage", path.display());
            return Err(Failure::new(Exit::CannotMeasure, text));
        }
        Err(error) if error.kind == ErrorKind::NotFound => absent(path, error)?,
        Err(error) => return Err(error.into()),
    })
}

/// A path that does not exist is one that can be made if its directory exists.
fn absent(path: &Path, error: durio_block::BlockError) -> Result<LocationFacts, Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    match inspect(parent) {
        Ok(TargetType::Directory) if path.file_name().is_some() && !path.is_symlink() => {
            Ok(LocationFacts::Absent { free: free(parent)? })
        }
        _ => Err(Failure::from(error).hint("name an existing directory, file or block device")),
    }
}

/// Bytes that this user may still allocate in `directory`.
fn free(directory: &Path) -> Result<Bytes, Failure> {
    let facts = rustix::fs::statvfs(directory).map_err(|errno| Failure {
        exit: Exit::CannotMeasure,
        error: anyhow::Error::new(errno)
            .context(format!("cannot ask for the free space of '{}'", directory.display())),
        hints: Vec::new(),
    })?;
    Ok(Bytes::new(facts.f_bavail.saturating_mul(facts.f_frsize)))
}

/// True if the user named this very thing. What is in use is refused then, always; what carries a
/// signature, unless that is permitted too.
fn permitted(
    path: &Path,
    facts: LocationFacts,
    destroy: &[PathBuf],
    force_signature: bool,
) -> Result<bool, Failure> {
    let exists = matches!(facts, LocationFacts::File { .. } | LocationFacts::Device { .. });
    if destroy.is_empty() || !exists {
        return Ok(false);
    }
    let usage = device_use(path);
    let serial = usage.as_ref().ok().and_then(|usage| usage.serial.clone());
    if !destroy.iter().any(|named| names(named, path, serial.as_deref())) {
        return Ok(false);
    }
    let usage = usage.map_err(|error| Failure {
        exit: Exit::CannotMeasure,
        error: anyhow::Error::new(error)
            .context(format!("cannot find out whether '{}' is in use", path.display())),
        hints: Vec::new(),
    })?;
    refuse_what_is_used(path, &usage)?;
    let signatures = usage.signature_names();
    let is_device = matches!(facts, LocationFacts::Device { .. });
    if is_device && !signatures.is_empty() && !force_signature {
        let text = format!("'{}' holds {}", path.display(), signatures.join(", "));
        return Err(Failure::new(Exit::CannotMeasure, text)
            .hint("if that may be lost, give --force-signature too"));
    }
    Ok(true)
}

fn names(named: &Path, path: &Path, serial: Option<&str>) -> bool {
    let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    };
    same(named, path) || (named.to_str().is_some() && named.to_str() == serial)
}

fn refuse_what_is_used(path: &Path, usage: &DeviceUse) -> Result<(), Failure> {
    if !usage.is_in_use() {
        return Ok(());
    }
    let mut by: Vec<String> = Vec::new();
    by.extend(
        usage
            .mounts
            .iter()
            .map(|mount| format!("{} is mounted on {}", mount.device, mount.mount_point)),
    );
    by.extend(usage.swaps.iter().map(|swap| format!("{swap} is swap")));
    by.extend(
        usage
            .holders
            .iter()
            .map(|holder| format!("{} is part of {}", holder.device, holder.holder)),
    );
    if by.is_empty() {
        by.push("somebody has it open exclusively".to_owned());
    }
    let text = format!("'{}' is in use and is never written to: {}", path.display(), by.join("; "));
    Err(Failure::new(Exit::CannotMeasure, text))
}
