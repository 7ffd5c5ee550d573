//! What a path leads to, and whether it may be written to. [`LocatedPlaces`] has the facts to plan with,
//! and holds existing targets by their descriptors, so that the inspected target is the measured
//! one. Whether a target may be written to is decided by the guard (`durio_block`).

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{CommandError, CommandErrorKind};
use durio_base::Bytes;
use durio_block::{
    BlockError, ErrorKind, GuardRefusal, HeldTarget, HeldTargets, MEMBER_SIGNATURE, TargetAccess,
    TargetIdentity, TargetType, Usage, WriteReason,
};
use durio_observe::{DeviceUse, Signature, free_space, holds_device_nodes, use_of};
use durio_plan::{Location, LocationFacts, RawPath};

/// The places that were named, and what of them exists, held until the run ends.
#[derive(Debug, Default)]
pub struct LocatedPlaces {
    /// In the order in which they were named.
    pub places: Vec<Location>,
    /// What exists of them.
    pub held: HeldTargets,
}

/// The permission to overwrite existing things.
#[derive(Debug, Clone, Copy)]
pub enum Permission<'a> {
    /// Those that `--destroy` names, by a path or a serial number.
    Named {
        destroy: &'a [PathBuf],
        /// Also where a filesystem or an array's member is.
        force_signature: bool,
    },
    /// All: layers that this durio has just built, or was permitted to build on.
    Built,
    /// Members of an array of durio, which is started or takes them back.
    Members,
}

/// Finds out what each of `paths` is, and holds it; no path may be another's second name. Paths
/// that are permitted by name must be among them.
///
/// # Errors
/// If one cannot be measured or may not be written to.
pub fn locate<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    permission: Permission<'a>,
) -> Result<LocatedPlaces, CommandError> {
    let unmatched = match permission {
        Permission::Named { destroy, .. } => destroy.iter().collect(),
        Permission::Built | Permission::Members => Vec::new(),
    };
    let (known, located) = (Vec::new(), LocatedPlaces::default());
    let mut search = PlaceSearch { permission, unmatched, known, located };
    for path in paths {
        search.add(path)?;
    }
    match search.unmatched.first() {
        None => Ok(search.located),
        Some(named) => Err(names_nothing(named, &search.located.places)),
    }
}

struct PlaceSearch<'a> {
    permission: Permission<'a>,
    /// What `--destroy` named and no path so far is.
    unmatched: Vec<&'a PathBuf>,
    known: Vec<(&'a PathBuf, PlaceIdentity)>,
    located: LocatedPlaces,
}

impl<'a> PlaceSearch<'a> {
    fn add(&mut self, path: &'a PathBuf) -> Result<(), CommandError> {
        let (facts, destroy) = match HeldTarget::open(path) {
            Ok(target) => {
                self.refuse_second_name(path, PlaceIdentity::Thing(target.identity()))?;
                self.existing(target)?
            }
            Err(error) if error.kind == ErrorKind::NotFound => {
                let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                self.refuse_second_name(path, PlaceIdentity::Absent(absolute))?;
                (self.absent(path, error)?, false)
            }
            Err(error) => return Err(error.into()),
        };
        self.located.places.push(Location { path: RawPath::from(path), facts, destroy });
        Ok(())
    }

    fn refuse_second_name(
        &mut self,
        path: &'a PathBuf,
        identity: PlaceIdentity,
    ) -> Result<(), CommandError> {
        // By identity: links, device nodes of other names and bind mounts are second names too.
        for (first, known) in &self.known {
            let (first, second) = (first.display(), path.display());
            let (text, hint) = if *known == identity {
                (format!("'{first}' and '{second}' are the same"), "name each place once")
            } else if known.overlaps(&identity) {
                let text = format!("'{first}' and '{second}' overlap: one is part of the other");
                (text, "name either the disk or its partitions")
            } else {
                continue;
            };
            return Err(CommandError::wrong_use(text).hint(hint));
        }
        self.known.push((path, identity));
        Ok(())
    }

    /// The facts about the target, and whether it may be overwritten.
    fn existing(&mut self, target: HeldTarget) -> Result<(LocationFacts, bool), CommandError> {
        let facts = match target.kind() {
            TargetType::Directory => {
                refuse_device_nodes(target.path(), target.path())?;
                let TargetIdentity::Inode(filesystem, _) = target.identity() else {
                    return Err(CommandError::new(
                        CommandErrorKind::Fault,
                        "a directory has no inode",
                    ));
                };
                LocationFacts::Directory { free: free(&target.path_here())?, filesystem }
            }
            TargetType::NullDevice => LocationFacts::NullDevice,
            TargetType::File(size) => LocationFacts::File { size },
            TargetType::BlockDevice(size) => LocationFacts::Device { size },
        };
        // A directory is not overwritten: durio makes a new file in it. A null device has no
        // contents.
        if !matches!(facts, LocationFacts::File { .. } | LocationFacts::Device { .. }) {
            self.unmatched.retain(|named| !names(named, &target, None));
            return Ok((facts, false));
        }
        let access = self.access(target)?;
        let destroy = matches!(access, TargetAccess::Write(_));
        self.located.held.hold(access);
        Ok((facts, destroy))
    }

    fn access(&mut self, target: HeldTarget) -> Result<TargetAccess, CommandError> {
        let path = target.path().to_owned();
        let reason = match self.permission {
            Permission::Built => WriteReason::Built,
            Permission::Members => WriteReason::Member,
            Permission::Named { destroy, force_signature } => {
                // Other users matter only for targets that may be overwritten.
                let usage = if destroy.is_empty() { None } else { Some(use_of(&target)) };
                let serial = usage.as_ref().and_then(|usage| usage.as_ref().ok()?.serial.clone());
                self.unmatched.retain(|named| !names(named, &target, serial.as_deref()));
                if !destroy.iter().any(|named| names(named, &target, serial.as_deref())) {
                    let lock = target.lock_to_read();
                    let lock = lock.map_err(|refusal| refused(&path, refusal, false))?;
                    return Ok(TargetAccess::Read(target, lock));
                }
                WriteReason::Named { force_signature }
            }
        };
        write_access(target, reason)
    }

    /// A path that does not exist is one that can be made if its directory exists.
    fn absent(&mut self, path: &Path, error: BlockError) -> Result<LocationFacts, CommandError> {
        if self.unmatched.iter().any(|named| names_absent(named, path)) {
            let text = format!("--destroy '{}' does not exist", path.display());
            return Err(CommandError::wrong_use(text).hint("is the name misspelt?"));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        match HeldTarget::open(parent).map(|parent| parent.kind()) {
            // A link that leads nowhere is not a name that is free: a file made there would be elsewhere.
            Ok(TargetType::Directory) if path.file_name().is_some() && !path.is_symlink() => {
                refuse_device_nodes(parent, path)?;
                Ok(LocationFacts::Absent { free: free(parent)? })
            }
            _ => {
                let mut error = CommandError::from(error)
                    .hint("name an existing directory, file or block device");
                // A device node without its device is there, and is the machine's to mend.
                if !path.exists() {
                    error.kind = CommandErrorKind::WrongUse;
                }
                Err(error)
            }
        }
    }
}

/// How long to wait for a claim on a member that no process seems to hold: the kernel releases the
/// files of a killed server when the last of its requests has ended. On a busy machine that took
/// 4.8 s.
const CLAIM_PASSES: Duration = Duration::from_secs(30);

/// How long to wait for a writing program that has just ended: the kernel releases the files of an
/// io_uring some time after the process.
const WRITER_PASSES: Duration = Duration::from_secs(2);

/// True if the target may be free in a moment, because no process uses it in a lasting way.
fn may_pass(refusal: &GuardRefusal, found: &DeviceUse, reason: WriteReason) -> bool {
    let is_member = reason == WriteReason::Member;
    match refusal {
        // A program that has a member open is a server that lives.
        GuardRefusal::InUse(_) if is_member => found.users().is_empty(),
        GuardRefusal::InUse(_) => found.users().len() == found.writers.len(),
        GuardRefusal::Claimed | GuardRefusal::Written => true,
        GuardRefusal::Locked => is_member,
        _ => false,
    }
}

fn write_access(mut target: HeldTarget, reason: WriteReason) -> Result<TargetAccess, CommandError> {
    let (path, identity) = (target.path().to_owned(), target.identity());
    let patience = if reason == WriteReason::Member { CLAIM_PASSES } else { WRITER_PASSES };
    let begin = Instant::now();
    loop {
        let found = usage_of(&target)?;
        let usage = usage_for(reason, &found, target.kind());
        match target.permit(reason, &usage) {
            Ok(permit) => return Ok(TargetAccess::Write(permit)),
            Err(refusal) if may_pass(&refusal, &found, reason) && begin.elapsed() < patience => {
                thread::sleep(Duration::from_millis(20));
                target = HeldTarget::open(&path)?;
                if target.identity() != identity {
                    let text = format!("'{}' now leads to something else", path.display());
                    return Err(CommandError::cannot_measure(text));
                }
            }
            Err(refusal) => return Err(refused(&path, refusal, reason == WriteReason::Member)),
        }
    }
}

/// Where the data of an array's member begins at the earliest: signatures from there on are the
/// array's.
const MEMBER_DATA: u64 = 1 << 20;

/// The guard's view of the target's use.
fn usage_for(reason: WriteReason, found: &DeviceUse, kind: TargetType) -> Usage {
    let mut usage = found.usage();
    if reason == WriteReason::Member {
        let is_own = |signature: &&Signature| {
            let is_before_data =
                signature.device == found.device && signature.offset.get() < MEMBER_DATA;
            is_before_data || signature.name == MEMBER_SIGNATURE
        };
        let outside =
            found.signatures.iter().filter(is_own).map(|signature| signature.name.clone());
        usage.signatures = outside.collect();
    } else if matches!(kind, TargetType::File(_)) {
        // A file that once was an image may be overwritten as any other; a member of an array not.
        usage.signatures.retain(|signature| signature == MEMBER_SIGNATURE);
    }
    usage
}

/// The identity that a second name of a place shares.
#[derive(PartialEq)]
enum PlaceIdentity {
    Thing(TargetIdentity),
    Absent(PathBuf),
}

impl PlaceIdentity {
    /// True if one is a disk and the other its partition.
    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Thing(TargetIdentity::Device(first)),
                Self::Thing(TargetIdentity::Device(second)),
            ) => disk_of(*first) == Some(*second) || disk_of(*second) == Some(*first),
            _ => false,
        }
    }
}

fn names_nothing(named: &Path, locations: &[Location]) -> CommandError {
    let measured: Vec<_> =
        locations.iter().map(|location| format!("'{}'", location.path)).collect();
    let text = match measured.is_empty() {
        true => format!(
            "--destroy '{}' does not match any target: no path is measured",
            named.display()
        ),
        false => format!(
            "--destroy '{}' does not match any target: {}",
            named.display(),
            measured.join(", ")
        ),
    };
    CommandError::wrong_use(text)
        .hint("give the exact path of a file or device to measure, or the device's serial number")
}

/// The number of the disk that a partition is on; `None` if `device` is not a partition. The
/// directory of a partition in sysfs lies in that of its disk (kernel documentation, sysfs-block).
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

/// Bytes that this user may still allocate in `directory`.
fn free(directory: &Path) -> Result<Bytes, CommandError> {
    let facts = rustix::fs::statvfs(directory).map_err(|errno| {
        CommandError::cannot(errno)
            .context(format!("cannot ask for the free space of '{}'", directory.display()))
    })?;
    Ok(free_space(&facts))
}

fn usage_of(target: &HeldTarget) -> Result<DeviceUse, CommandError> {
    use_of(target).map_err(|error| {
        CommandError::cannot(error)
            .context(format!("cannot find out whether '{}' is in use", target.path().display()))
    })
}

// A file in a folder of device nodes is in memory, and most likely a misspelt device.
fn refuse_device_nodes(folder: &Path, path: &Path) -> Result<(), CommandError> {
    if !holds_device_nodes(folder) {
        return Ok(());
    }
    let text = format!("'{}' would be a file among device nodes, in memory", path.display());
    Err(CommandError::cannot_measure(text)
        .hint("name an existing device, or a directory or file on the storage to measure"))
}

/// True if `named`, by whatever name, is the very thing.
fn names(named: &Path, target: &HeldTarget, serial: Option<&str>) -> bool {
    // By identity, so that any of its names will do; no prefix and no pattern ever does.
    let same = HeldTarget::open(named).is_ok_and(|other| other.identity() == target.identity());
    same || (named.to_str().is_some() && named.to_str() == serial)
}

fn names_absent(named: &Path, path: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    absolute(named) == absolute(path)
}

fn refused(path: &Path, refusal: GuardRefusal, is_member: bool) -> CommandError {
    let shown = path.display();
    let failure = |text: String| CommandError::cannot_measure(text);
    match refusal {
        GuardRefusal::Failed(error) => error.into(),
        GuardRefusal::NoMember => failure(format!("'{shown}' is not a member of a durio RAID")),
        GuardRefusal::Signatures(names) if is_member => {
            let names = names.join(", ");
            failure(format!("'{shown}' is a member, but was partly overwritten: {names}"))
                .hint("leave it out, and add it as a new device once the array runs")
        }
        GuardRefusal::Signatures(names) => failure(format!("'{shown}' holds {}", names.join(", ")))
            .hint("to overwrite it, pass --force-signature as well"),
        GuardRefusal::Locked => {
            failure(format!("'{shown}' is locked by another durio or another program"))
                .hint("wait until it has ended")
        }
        GuardRefusal::InUse(users) => in_use(path, &users.join("; ")),
        GuardRefusal::Claimed | GuardRefusal::Written => in_use(path, &refusal.to_string()),
    }
}

fn in_use(path: &Path, by: &str) -> CommandError {
    let text = format!("'{}' is in use, so durio does not write to it: {by}", path.display());
    CommandError::cannot_measure(text)
}

#[cfg(test)]
mod tests;
